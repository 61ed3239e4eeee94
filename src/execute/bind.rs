//! Binding: which memory stands for which tensor, checked before anything is enqueued.

use anydnn_backend::{Backend, Engine, Error, Memory, MemoryDesc, Result};

use crate::compile::Compiled;
use crate::graph::TensorId;

/// The given memories in port order: every tensor bound once, of the wanted descriptor and engine.
pub(crate) fn bind<B: Backend>(
    role: &str,
    compiled: &Compiled<B>,
    wanted: &[TensorId],
    descs: &[MemoryDesc],
    given: &[(TensorId, B::Memory)],
) -> Result<Vec<B::Memory>> {
    let name = |id: TensorId| {
        compiled.graph.tensor(id).map_or_else(|| id.to_string(), |t| format!("{id} ({})", t.label()))
    };
    let list = || wanted.iter().map(|&id| name(id)).collect::<Vec<_>>().join(", ");
    for (i, (id, memory)) in given.iter().enumerate() {
        let Some(at) = wanted.iter().position(|w| w == id) else {
            return Err(Error::invalid(
                "execute",
                format!("{role} tensors"),
                format!("with {}", name(*id)),
                list(),
            ));
        };
        if given[..i].iter().any(|(other, _)| other == id) {
            return Err(Error::invalid(
                "execute",
                format!("{role} tensors"),
                format!("{} twice", name(*id)),
                "each tensor once",
            ));
        }
        if !memory.desc().same_bytes(&descs[at]) {
            return Err(Error::invalid(
                "execute",
                format!("{role} {}", name(*id)),
                memory.desc().to_string(),
                descs[at].to_string(),
            ));
        }
        if !memory.is_backed() {
            return Err(Error::invalid(
                "execute",
                format!("size of {role} {}", name(*id)),
                format!("{} bytes", memory.region().bytes),
                format!("{} bytes for {}", descs[at].size(), descs[at]),
            ));
        }
        if memory.engine_id() != compiled.engine.id() {
            let (theirs, own) = (memory.engine_id(), compiled.engine.id());
            return Err(Error::mismatch(
                "execute",
                format!("{role} {} of {theirs}", name(*id)),
                format!("the compiled graph's {own}"),
            ));
        }
    }
    wanted
        .iter()
        .map(|id| {
            let found = given.iter().find(|(g, _)| g == id).map(|(_, memory)| memory.clone());
            found.ok_or_else(|| {
                Error::invalid("execute", format!("{role} tensors"), format!("without {}", name(*id)), list())
            })
        })
        .collect()
}

/// Checks that no output shares bytes with an input, a constant or another output: steps run in any order that dependencies allow.
/// The inputs of `in_place` (input, output) may be their outputs.
pub(crate) fn separate<B: Backend>(
    compiled: &Compiled<B>,
    inputs: &[B::Memory],
    outputs: &[B::Memory],
    constants: &[B::Memory],
    in_place: &[(TensorId, TensorId)],
) -> Result<()> {
    let graph = &compiled.graph;
    let label = |id: TensorId| graph.label(id);
    for (i, output) in outputs.iter().enumerate() {
        let region = output.region();
        let named = |ids: &[TensorId], memories: &[B::Memory]| {
            memories
                .iter()
                .zip(ids)
                .find(|(m, id)| {
                    let may = m.region() == region && in_place.contains(&(**id, graph.outputs()[i]));
                    region.bytes > 0 && m.region().bytes > 0 && m.region().overlaps(&region) && !may
                })
                .map(|(_, id)| label(*id))
        };
        let clash = named(graph.inputs(), inputs)
            .or_else(|| named(&compiled.constants, constants))
            .or_else(|| named(graph.outputs(), &outputs[..i]));
        if let Some(other) = clash {
            let subject = format!("memory of output {}", label(graph.outputs()[i]));
            return Err(Error::invalid(
                "execute",
                subject,
                format!("sharing bytes with {other}"),
                "separate bytes",
            ));
        }
    }
    Ok(())
}
