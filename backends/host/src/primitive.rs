//! Operations ready to run.

use std::sync::Arc;

use anydnn_backend::{Arg, EngineId, Primitive, PrimitiveDesc, Result};

use crate::engine::HostEngine;
use crate::fast::{Call, Fast, Mode};
use crate::{Host, compute, fast};

/// An operation ready to run: planned as a fast form, or computed by the reference. Nothing is compiled for it.
#[derive(Clone, Debug)]
pub struct HostPrimitive(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: EngineId,
    desc: PrimitiveDesc,
    implementation: &'static str,
    mode: Mode,
    fast: Option<Box<dyn Fast>>,
}

impl HostPrimitive {
    pub(crate) fn new(engine: EngineId, mode: Mode, desc: PrimitiveDesc) -> Result<Self> {
        let desc = resolve(mode, desc);
        compute::supported(&desc)?;
        let fast = if mode == Mode::Reference { None } else { fast::plan(&desc) };
        let implementation = match &fast {
            Some(fast) => fast.name(),
            None => compute::implementation(&desc),
        };
        tracing::debug!(%desc, implementation, "primitive");
        Ok(Self(Arc::new(Inner { engine, desc, implementation, mode, fast })))
    }

    /// Computes it on bytes laid out as the description says. Fast forms have the engine's crew and need no thread of a pool to start them.
    pub(crate) fn compute(
        &self,
        engine: &HostEngine,
        inputs: &[(Arg, &[u8])],
        outputs: &mut [(Arg, &mut [u8])],
    ) -> Result<()> {
        let Inner { desc, mode, fast, .. } = &*self.0;
        if let (Some(fast), Mode::Fast(level)) = (fast, *mode)
            && let Some(call) = Call::new(level, engine.crew(), desc, inputs, outputs)
        {
            fast.run(&call);
            return Ok(());
        }
        engine.install(|| compute::compute(desc, inputs, outputs))
    }
}

/// The description with every layout resolved: as fast forms prefer, else row-major.
pub(crate) fn resolve(mode: Mode, desc: PrimitiveDesc) -> PrimitiveDesc {
    let desc = if mode == Mode::Reference { desc } else { fast::resolve(desc) };
    desc.resolved_row_major()
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
