//! Operations ready to run.

use std::sync::Arc;

use anydnn_backend::{Arg, EngineId, Primitive, PrimitiveDesc, Result};

use crate::engine::HostEngine;
use crate::fast::{Call, Crew, Fast, Mode};
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

    /// Whether it has a form of vector instructions; else it is computed by the reference, element by element.
    pub fn is_fast(&self) -> bool {
        self.0.fast.is_some()
    }

    /// Whether an operand that is in the place of the result may be missing among the inputs of [`HostPrimitive::compute`].
    pub(crate) fn reads_in_place(&self, arg: Arg) -> bool {
        let Inner { mode, fast, .. } = &*self.0;
        matches!(mode, Mode::Fast(_)) && fast.as_ref().is_some_and(|fast| fast.reads_in_place(arg))
    }

    /// Computes it on bytes laid out as the description says. Fast forms have the engine's crew and need no thread of a pool to start them.
    pub(crate) fn compute(
        &self,
        engine: &HostEngine,
        inputs: &[(Arg, &[u8])],
        outputs: &mut [(Arg, &mut [u8])],
    ) -> Result<()> {
        self.compute_by(engine.crew(), |work| engine.install(work), inputs, outputs)
    }

    /// The same with a crew for fast forms, and a way to run the reference.
    pub(crate) fn compute_by(
        &self,
        crew: &Crew,
        install: impl FnOnce(&mut (dyn FnMut() -> Result<()> + Send)) -> Result<()>,
        inputs: &[(Arg, &[u8])],
        outputs: &mut [(Arg, &mut [u8])],
    ) -> Result<()> {
        let Inner { desc, mode, fast, .. } = &*self.0;
        if let (Some(fast), Mode::Fast(level)) = (fast, *mode)
            && let Some(call) = Call::new(level, crew, desc, &**fast, inputs, outputs)
        {
            fast.run(&call);
            return Ok(());
        }
        let given = |arg: Arg| {
            inputs.iter().any(|(other, _)| *other == arg) || outputs.iter().any(|(other, _)| *other == arg)
        };
        let missing = desc.args().iter().map(|wanted| wanted.arg);
        let missing: Vec<Arg> = missing.filter(|&arg| !given(arg) && self.reads_in_place(arg)).collect();
        if missing.is_empty() {
            return install(&mut || compute::compute(desc, inputs, outputs));
        }
        let result = outputs.iter().find(|(arg, _)| *arg == Arg::DST);
        let copy = result.map_or_else(Vec::new, |(_, bytes)| bytes.to_vec());
        let all = inputs.iter().copied().chain(missing.into_iter().map(|arg| (arg, &copy[..])));
        let all: Vec<(Arg, &[u8])> = all.collect();
        install(&mut || compute::compute(desc, &all, outputs))
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
