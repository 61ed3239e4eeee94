//! Logical tensors: what a graph knows of the values that flow along its edges.

use std::fmt;
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, InvalidKind, MemoryDesc, Result};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::layouts;

/// Identifies a tensor within a graph. Graph JSON and the C ABI choose the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u64);

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// What belongs to tensors, in the order in which they were added. Plans for new shapes look tensors up tens of thousands of times.
pub(crate) type ByTensor<V> = IndexMap<TensorId, V, FxBuildHasher>;

/// What is known of a tensor: identity, type, shape, layout and role.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalTensor {
    /// The tensor's identity.
    pub id: TensorId,
    /// The element type; none when unknown.
    pub data_type: Option<DataType>,
    /// The dimensions; none when the rank is unknown, an inner none for an unknown dimension.
    pub dims: Option<Vec<Option<usize>>>,
    /// The layout.
    pub layout: TensorLayout,
    /// The role.
    pub property: Property,
    /// A name for messages and bindings.
    pub name: Option<Arc<str>>,
}

/// The layout of a logical tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorLayout {
    /// Not said; dense row-major where it matters.
    Undefined,
    /// Chosen by the implementation.
    Any,
    /// Strides in elements; none for an unknown stride.
    Strided(Vec<Option<usize>>),
    /// Known to the compiled partition that made it alone.
    Opaque(u64),
}

/// The role of a logical tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Property {
    /// Not said.
    #[default]
    Undefined,
    /// Different on every execution.
    Variable,
    /// The same on every execution: prepared once.
    Constant,
    /// A single number given by value.
    HostScalar,
}

impl LogicalTensor {
    /// A tensor of known shape, with no layout said.
    pub fn new(id: TensorId, data_type: DataType, dims: impl Into<Dims>) -> Self {
        Self {
            id,
            data_type: Some(data_type),
            dims: Some(dims.into().iter().copied().map(Some).collect()),
            layout: TensorLayout::Undefined,
            property: Property::Undefined,
            name: None,
        }
    }

    /// A tensor with the type, shape and layout of memory: strides where they tell all, else an opaque layout.
    ///
    /// ```
    /// use anydnn::backend::{DataType, MemoryDesc};
    /// use anydnn::graph::{LogicalTensor, TensorId, TensorLayout};
    /// let blocked = MemoryDesc::with_tag([8, 32], DataType::F32, "aB16b")?;
    /// let tensor = LogicalTensor::of(TensorId(0), &blocked);
    /// assert!(matches!(tensor.layout, TensorLayout::Opaque(_)));
    /// assert!(tensor.memory_desc()?.same_bytes(&blocked));
    /// # Ok::<(), anydnn::backend::Error>(())
    /// ```
    pub fn of(id: TensorId, desc: &MemoryDesc) -> Self {
        let plain = desc.strides().filter(|_| desc.blocking().is_some_and(|blocking| blocking.offset == 0));
        let layout = match plain {
            Some(strides) => TensorLayout::Strided(strides.iter().copied().map(Some).collect()),
            None => TensorLayout::Opaque(layouts::layout_id(desc)),
        };
        Self { layout, ..Self::new(id, desc.data_type(), desc.dims().clone()) }
    }

    /// With a layout.
    pub fn with_layout(mut self, layout: TensorLayout) -> Self {
        self.layout = layout;
        self
    }

    /// A tensor of which only the identity is known; inference fills in the rest.
    pub fn unknown(id: TensorId) -> Self {
        Self {
            id,
            data_type: None,
            dims: None,
            layout: TensorLayout::Undefined,
            property: Property::Undefined,
            name: None,
        }
    }

    /// With a role.
    pub fn with_property(mut self, property: Property) -> Self {
        self.property = property;
        self
    }

    /// With a name.
    pub fn named(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(Arc::from(name.as_ref()));
        self
    }

    /// The name, or else the identity in words.
    pub fn label(&self) -> String {
        self.name.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string)
    }

    /// The dimensions when all are known.
    pub fn known_dims(&self) -> Option<Dims> {
        self.dims.as_ref()?.iter().copied().collect()
    }

    /// The descriptor of the tensor's bytes: its strides, its opaque layout, or dense row-major where it has neither.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the type, a dimension or a stride is unknown, or the opaque layout is not one of a tensor like this.
    pub fn memory_desc(&self) -> Result<MemoryDesc> {
        self.memory_desc_of(self.data_type.ok_or_else(|| self.missing("data type"))?)
    }

    pub(super) fn memory_desc_of(&self, data_type: DataType) -> Result<MemoryDesc> {
        let dims = self.known_dims().ok_or_else(|| self.missing("shape"))?;
        let desc = match &self.layout {
            TensorLayout::Undefined | TensorLayout::Any => MemoryDesc::new(dims, data_type),
            TensorLayout::Strided(strides) => {
                let strides: Option<Dims> = strides.iter().copied().collect();
                let strides = strides.ok_or_else(|| self.missing("stride"))?;
                MemoryDesc::with_strides(dims, data_type, strides)
                    .map_err(|error| error.at(format!("tensor {}", self.label())))?
            }
            TensorLayout::Opaque(id) => {
                let known = layouts::desc(*id);
                let fits = |desc: &MemoryDesc| *desc.dims() == dims && desc.data_type() == data_type;
                known.filter(fits).ok_or_else(|| {
                    let (given, expected) =
                        (format!("opaque layout {id}"), format!("the layout of a {dims} of {data_type}"));
                    Error::invalid(format!("tensor {}", self.label()), "layout", given, expected)
                })?
            }
        };
        Ok(match &self.name {
            Some(name) => desc.sharing_label(Arc::clone(name)),
            None => desc.labelled(self.label()),
        })
    }

    fn missing(&self, what: &str) -> Error {
        let operation = format!("tensor {}", self.label());
        Error::invalid_kind(InvalidKind::Shape, operation, what, "unknown", "known after inference")
    }
}

impl fmt::Display for LogicalTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.label(), self.data_type.map_or("?", DataType::name))?;
        match &self.dims {
            None => f.write_str("?"),
            Some(dims) if dims.is_empty() => f.write_str("scalar"),
            Some(dims) => {
                let dims: Vec<_> = dims.iter().map(|d| d.map_or("?".into(), |d| d.to_string())).collect();
                f.write_str(&dims.join("x"))
            }
        }
    }
}
