//! Operations ready to run.

use std::sync::Arc;

use anydnn_backend::{EngineId, Primitive, PrimitiveDesc, Result};

use crate::{Host, compute};

/// An operation ready to run; nothing is compiled for it.
#[derive(Clone, Debug)]
pub struct HostPrimitive(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: EngineId,
    desc: PrimitiveDesc,
    implementation: &'static str,
}

impl HostPrimitive {
    pub(crate) fn new(engine: EngineId, desc: PrimitiveDesc) -> Result<Self> {
        let desc = desc.resolved_row_major();
        compute::supported(&desc)?;
        let implementation = compute::implementation(&desc);
        tracing::debug!(%desc, implementation, "primitive");
        Ok(Self(Arc::new(Inner { engine, desc, implementation })))
    }
}

impl Primitive for HostPrimitive {
    type B = Host;

    fn engine_id(&self) -> EngineId {
        self.0.engine
    }

    fn desc(&self) -> &PrimitiveDesc {
        &self.0.desc
    }

    fn implementation(&self) -> &str {
        self.0.implementation
    }

    fn scratchpad_size(&self) -> usize {
        0
    }
}
