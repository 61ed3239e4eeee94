//! Constants of a graph, with elements that are read or computed when somebody first asks for them. A session that plans for another shape
//! has most of them on the device, and then nobody asks.

use std::fmt;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Error, MemoryDesc, Result};

use super::large;
use super::tensor::Stored;
use crate::model::HostTensor;

/// A constant. A clone is the same one.
#[derive(Clone)]
pub(super) struct Constant {
    inner: Arc<Inner>,
}

struct Inner {
    desc: MemoryDesc,
    /// What no other elements are called; none where only the elements tell.
    identity: Option<Arc<str>>,
    source: Source,
    made: OnceLock<Result<HostTensor>>,
}

/// Makes elements of those of other constants.
type Make = Box<dyn Fn(&[&HostTensor]) -> Result<HostTensor> + Send + Sync>;

enum Source {
    /// Nowhere else: they are there.
    Made,
    File(Box<Stored>),
    Others(Vec<Constant>, Make),
}

impl Constant {
    /// A constant whose elements are there.
    pub(super) fn new(tensor: HostTensor) -> Self {
        Self::with(None, tensor)
    }

    /// A weight of the file, by its number among the file's values.
    pub(super) fn weight(number: usize, stored: Stored) -> Self {
        let identity = Some(format!("weight {number}").into());
        match stored {
            Stored::Here(tensor) => Self::with(identity, tensor),
            Stored::InFile { .. } => {
                let desc = stored.desc().clone();
                Self::of(desc, identity, Source::File(Box::new(stored)), OnceLock::new())
            }
        }
    }

    /// A constant that is computed from others. `how` tells it from all others of them.
    pub(super) fn computed(
        desc: MemoryDesc,
        how: &str,
        others: Vec<Self>,
        make: impl Fn(&[&HostTensor]) -> Result<HostTensor> + Send + Sync + 'static,
    ) -> Self {
        let names: Option<Vec<&str>> = others.iter().map(|other| other.inner.identity.as_deref()).collect();
        let identity = names.map(|names| format!("{how} of ({})", names.join(", ")).into());
        Self::of(desc, identity, Source::Others(others, Box::new(make)), OnceLock::new())
    }

    fn with(identity: Option<Arc<str>>, tensor: HostTensor) -> Self {
        Self::of(tensor.desc().clone(), identity, Source::Made, OnceLock::from(Ok(tensor)))
    }

    fn of(
        desc: MemoryDesc,
        identity: Option<Arc<str>>,
        source: Source,
        made: OnceLock<Result<HostTensor>>,
    ) -> Self {
        Self { inner: Arc::new(Inner { desc, identity, source, made }) }
    }

    /// Its dimensions and type.
    pub(super) fn desc(&self) -> &MemoryDesc {
        &self.inner.desc
    }

    /// A name that no other elements of a session have: where they come from, or else what they are.
    pub(super) fn identity(&self) -> Result<Arc<str>> {
        if let Some(identity) = &self.inner.identity {
            return Ok(Arc::clone(identity));
        }
        let tensor = self.elements()?;
        Ok(format!("{} {}", tensor.desc(), blake3::hash(tensor.bytes()).to_hex()).into())
    }

    /// Whether elements are computed from those of others, once somebody asks.
    pub(super) fn is_computed(&self) -> bool {
        matches!(self.inner.source, Source::Others(..))
    }

    /// The elements.
    pub(super) fn elements(&self) -> Result<&HostTensor> {
        self.inner.made.get_or_init(|| self.make()).as_ref().map_err(Error::clone)
    }

    /// The elements, given away where nobody else has the constant.
    pub(super) fn into_elements(self) -> Result<HostTensor> {
        self.elements()?;
        match Arc::try_unwrap(self.inner) {
            Ok(Inner { made, source: Source::Made | Source::File(_) | Source::Others(..), .. }) => {
                made.into_inner().unwrap_or_else(|| Err(Error::unsupported("constant", "it was never made")))
            }
            Err(shared) => Self { inner: shared }.elements().cloned(),
        }
    }

    fn make(&self) -> Result<HostTensor> {
        match &self.inner.source {
            Source::Made => Err(Error::unsupported("constant", "its elements are nowhere")),
            Source::File(stored) => stored.read(),
            Source::Others(others, make) => {
                let others = others.iter().map(Self::elements).collect::<Result<Vec<_>>>()?;
                make(&others).map(large::returned_at_once)
            }
        }
    }
}

impl fmt::Debug for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { desc, identity, made, .. } = &*self.inner;
        let is_made = made.get().is_some();
        f.debug_struct("Constant")
            .field("desc", desc)
            .field("identity", identity)
            .field("is_made", &is_made)
            .finish_non_exhaustive()
    }
}
