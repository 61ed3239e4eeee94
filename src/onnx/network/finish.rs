//! From a network to its graph: outputs, and what is left once nothing more comes.

use std::sync::Arc;

use anydnn_backend::{DataType, Error, Result};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;

use super::{Known, Network, Source, Value};
use crate::graph::{Attrs, Graph, OpKind, TensorId};
use crate::model::HostTensor;
use crate::onnx::constant::Constant;
use crate::onnx::program::ValueId;
use crate::onnx::room::Room;
use crate::onnx::tensor;
use crate::rewrite;

/// A graph for an execution with what it works on.
#[derive(Debug)]
pub(in crate::onnx) struct Finished {
    pub(in crate::onnx) graph: Arc<Graph>,
    /// With the names that they have in the file.
    pub(in crate::onnx) constants: IndexMap<TensorId, (Arc<str>, Constant)>,
    /// The constants that are weights of the file.
    pub(in crate::onnx) weights: Vec<(TensorId, ValueId)>,
    pub(in crate::onnx) inputs: Vec<(ValueId, TensorId)>,
}

impl Finished {
    /// The constants with their elements.
    pub(in crate::onnx) fn tensors(&self) -> Result<IndexMap<TensorId, HostTensor>> {
        let mut room = Room::default();
        let tensor = |(id, (name, constant)): (&TensorId, &(Arc<str>, Constant))| {
            room.take(constant.desc().dims(), constant.desc().data_type())?;
            Ok((*id, constant.elements()?.clone().labelled(name)))
        };
        self.constants.iter().map(tensor).collect()
    }
}

impl Network {
    /// A value as a result for later: the tensor that an operation makes, of the type that it has in memory.
    pub(in crate::onnx) fn result(
        &mut self,
        name: &str,
        value: &Value,
        data_type: Option<DataType>,
    ) -> Result<TensorId> {
        let wanted =
            data_type.filter(|&wanted| self.narrow == Some(value.data_type) && wanted == DataType::F32);
        let id = match value.source {
            Source::Made(id) if wanted.is_none() && self.outputs.contains(&id) => return Ok(id),
            Source::Made(id) if wanted.is_none() => id,
            _ => {
                let read = self.id(value);
                let kind = if wanted.is_some() { OpKind::TypeCast } else { OpKind::Reorder };
                self.plain(name, kind, vec![read], Attrs::new(), Some(wanted.unwrap_or(value.data_type)))?.0
            }
        };
        self.outputs.insert(id);
        if !self.named.contains(&id) {
            self.builder.name(id, name);
        }
        self.builder.output(id);
        Ok(id)
    }

    /// Makes a value the next output. What no operation makes, or what is an output already, is copied.
    pub(in crate::onnx) fn output(&mut self, name: &str, value: &Value) -> Result<()> {
        let id = match value.source {
            Source::Made(id) if self.outputs.insert(id) => id,
            _ => {
                let read = self.id(value);
                let copy =
                    self.add(name, OpKind::Reorder, vec![read], Attrs::new(), Some(value.data_type))?;
                let id = self.id(&copy);
                self.outputs.insert(id);
                id
            }
        };
        self.builder.name(id, name);
        self.builder.output(id);
        Ok(())
    }

    /// Checks the graph and hands it out with its constants.
    pub(in crate::onnx) fn finish(mut self) -> Result<Finished> {
        self.check()?;
        self.builder.prune();
        self.builder.name_unnamed();
        let number = |known: &Known| {
            let id = known.id.filter(|_| known.constant.desc().elements() == 1)?;
            Some(known.constant.elements().map(|tensor| tensor.number().map(|number| (id, number))))
        };
        let numbers: Vec<_> = self.constants.iter().filter_map(number).collect::<Result<_>>()?;
        let numbers: FxHashMap<TensorId, f64> = numbers.into_iter().flatten().collect();
        let built = self.builder.build_inferred()?;
        let graph = rewrite::simplified(built, &|id| numbers.get(&id).copied())?;
        let graph = rewrite::reshapes::behind(graph)?.with_dequantized_apart()?;
        let there = |id: Option<TensorId>| id.filter(|id| graph.tensor(*id).is_some());
        let inputs = self.held.iter().filter_map(|held| Some((held.value, there(held.id)?))).collect();
        let (mut constants, mut weights) = (IndexMap::new(), Vec::new());
        for Known { constant, name, id, weight, .. } in self.constants {
            let Some(id) = there(id) else { continue };
            weights.extend(weight.map(|weight| (id, weight)));
            let constant = match self.narrow {
                Some(narrow) if constant.desc().data_type() == DataType::F32 => {
                    let desc = constant.desc().with_data_type(narrow);
                    let how = format!("as {narrow}");
                    Constant::computed(desc, &how, vec![constant], move |wide| {
                        let [wide] = wide else {
                            return Err(Error::invalid("constant", "sources", "several", "one"));
                        };
                        Ok(tensor::narrowed(wide, narrow))
                    })
                }
                _ => constant,
            };
            constants.insert(id, (name, constant));
        }
        Ok(Finished { graph: Arc::new(graph), constants, weights, inputs })
    }

    /// Whether there is anything for the device to compute.
    pub(in crate::onnx) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }
}
