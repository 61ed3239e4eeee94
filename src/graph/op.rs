//! Operations of a graph and their attributes.

use std::borrow::Cow;
use std::fmt;

use anydnn_backend::{Error, InvalidKind, Result};

use super::op_kind::OpKind;
use super::tensor::TensorId;

/// Identifies an operation within a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u64);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op{}", self.0)
    }
}

/// An operation: what it does, its attributes and the tensors it reads and makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// The operation's identity.
    pub id: OpId,
    /// A name for messages and profiles.
    pub name: String,
    /// What it does.
    pub kind: OpKind,
    /// Its attributes, defaults included once the graph is built.
    pub attrs: Attrs,
    /// The tensors it reads, in the order of the schema.
    pub inputs: Vec<TensorId>,
    /// The tensors it makes, in the order of the schema.
    pub outputs: Vec<TensorId>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ({})", self.kind, self.name, self.id)
    }
}

/// An attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrValue {
    /// A float.
    F32(f32),
    /// A list of floats.
    F32s(Vec<f32>),
    /// An integer.
    S64(i64),
    /// A list of integers.
    S64s(Vec<i64>),
    /// A truth value.
    Bool(bool),
    /// A word.
    String(Cow<'static, str>),
}

impl AttrValue {
    /// The type's name in graph JSON.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F32s(_) => "f32[]",
            Self::S64(_) => "s64",
            Self::S64s(_) => "s64[]",
            Self::Bool(_) => "bool",
            Self::String(_) => "string",
        }
    }
}

macro_rules! attr_from {
    ($($from:ty => $variant:ident $(, $convert:expr)?;)*) => { $(
        impl From<$from> for AttrValue {
            fn from(value: $from) -> Self {
                $( let value = $convert(value); )?
                Self::$variant(value)
            }
        }
    )* };
}

attr_from! {
    f32 => F32;
    Vec<f32> => F32s;
    i64 => S64;
    Vec<i64> => S64s;
    bool => Bool;
    String => String, Cow::Owned;
    &str => String, |word: &str| Cow::Owned(word.to_owned());
}

impl<const N: usize> From<[i64; N]> for AttrValue {
    fn from(values: [i64; N]) -> Self {
        Self::S64s(values.to_vec())
    }
}

/// The attributes of an operation by name.
///
/// ```
/// use anydnn::graph::Attrs;
/// let attrs = Attrs::new().with("strides", [1, 1]).with("groups", 2_i64);
/// assert_eq!(attrs.s64("groups").unwrap(), 2);
/// assert!(attrs.s64("strides").unwrap_err().to_string().contains("s64[]"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attrs(Vec<(Cow<'static, str>, AttrValue)>);

/// The same names with the same values, in whatever order they were set.
impl PartialEq for Attrs {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

/// Generates a typed getter that fails when the attribute is missing or of another type.
macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty, $doc:literal, $convert:expr) => {
        #[doc = $doc]
        ///
        /// # Errors
        /// [`Error::Invalid`] when it is missing or of another type.
        pub fn $name(&self, name: &str) -> Result<$type> {
            match self.get(name) {
                Some(AttrValue::$variant(value)) => Ok($convert(value)),
                Some(other) => Err(wrong(name, other.type_name(), $doc)),
                None => Err(wrong(name, "missing", $doc)),
            }
        }
    };
}

impl Attrs {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more attribute.
    pub fn with(mut self, name: &str, value: impl Into<AttrValue>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: &str, value: impl Into<AttrValue>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((Cow::Owned(name.to_owned()), value)),
        }
    }

    /// Adds an attribute that is not there.
    pub(super) fn add(&mut self, name: &'static str, value: AttrValue) {
        self.0.push((Cow::Borrowed(name), value));
    }

    /// An attribute of any type.
    pub fn get(&self, name: &str) -> Option<&AttrValue> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Whether an attribute is this word. One that is missing is none.
    pub(crate) fn says(&self, name: &str, word: &str) -> bool {
        matches!(self.get(name), Some(AttrValue::String(given)) if given == word)
    }

    /// All attributes in the order they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttrValue)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    getter!(f32, F32, f32, "A float.", |v: &f32| *v);
    getter!(f32s, F32s, &[f32], "A list of floats.", Vec::as_slice);
    getter!(s64, S64, i64, "An integer.", |v: &i64| *v);
    getter!(s64s, S64s, &[i64], "A list of integers.", Vec::as_slice);
    getter!(bool, Bool, bool, "A truth value.", |v: &bool| *v);
    getter!(string, String, &str, "A word.", Cow::as_ref);
}

fn wrong(name: &str, given: &str, expected: &str) -> Error {
    let expected = expected.trim_end_matches('.').to_lowercase();
    Error::invalid_kind(InvalidKind::GraphOp, "operation", format!("attribute {name}"), given, expected)
}
