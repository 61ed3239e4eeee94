//! What every kind of operation takes, makes and is told: the oneDNN Graph operation set as one table.

mod attrs;
mod check;
mod table;

pub(crate) use check::{check_outputs, complete};

use super::op_kind::OpKind;

/// The inputs, outputs and attributes of a kind of operation.
///
/// ```
/// use anydnn::graph::{OpKind, Schema};
/// let schema = Schema::of(OpKind::Convolution);
/// assert_eq!(schema.inputs.names, ["src", "weights", "bias"]);
/// assert_eq!(schema.inputs.required, 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// What it reads.
    pub inputs: Ports,
    /// What it makes.
    pub outputs: Ports,
    /// What it is told.
    pub attrs: &'static [AttrSpec],
    /// Whether it takes any attribute: true of [`OpKind::Wildcard`] alone.
    pub open: bool,
}

/// The inputs or the outputs of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Their names in order; the optional ones come last.
    pub names: &'static [&'static str],
    /// How many of them must be there.
    pub required: usize,
    /// Whether the last one may be there any number of times.
    pub variadic: bool,
}

impl Ports {
    /// Whether there can be `count` of them.
    pub const fn allows(&self, count: usize) -> bool {
        count >= self.required && (self.variadic || count <= self.names.len())
    }

    /// The name of the port at `index`.
    pub fn name(&self, index: usize) -> &'static str {
        self.names.get(index).or(self.names.last()).copied().unwrap_or("tensor")
    }
}

/// An attribute of a kind of operation.
#[derive(Clone, Copy, Debug)]
pub struct AttrSpec {
    /// The name in graph JSON.
    pub name: &'static str,
    /// The type of its value.
    pub value: AttrType,
    /// What holds when it is not given.
    pub absent: Absent,
    /// Whether it is an extension: oneDNN's specification and its C API do not have it.
    pub extension: bool,
}

/// The type of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrType {
    /// A float.
    F32,
    /// A list of floats.
    F32s,
    /// An integer.
    S64,
    /// A list of integers.
    S64s,
    /// A truth value.
    Bool,
    /// One of these words. Case is not told apart; the spelling here is what a built graph holds.
    Word(&'static [&'static str]),
}

impl AttrType {
    /// The type's name in graph JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F32s => "f32[]",
            Self::S64 => "s64",
            Self::S64s => "s64[]",
            Self::Bool => "bool",
            Self::Word(_) => "string",
        }
    }
}

/// What holds when an attribute is not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Absent {
    /// The operation is wrong.
    Required,
    /// It stays absent.
    Nothing,
    /// This float.
    F32(f32),
    /// This integer.
    S64(i64),
    /// This truth value.
    Bool(bool),
    /// This word.
    Word(&'static str),
    /// A list with as many of this integer as another attribute has elements.
    Repeat(i64, &'static str),
}

impl Schema {
    /// The schema of a kind.
    pub const fn of(kind: OpKind) -> Self {
        table::of(kind)
    }

    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<&'static AttrSpec> {
        self.attrs.iter().find(|spec| spec.name == name)
    }
}
