//! From collected operations to a checked graph.

use std::collections::HashSet;

use anydnn_backend::{DataType, Dims, Error, InvalidKind, MAX_DIMS, Result};
use smallvec::SmallVec;

use super::Graph;
use super::builder::GraphBuilder;
use super::infer::{Types, infer_shapes, infer_types};
use super::op::Op;
use super::op_kind::OpKind;
use super::schema::Schema;
use super::tensor::{ByTensor, LogicalTensor, Property, TensorId, TensorLayout};
use super::topology::{self, Readers, graph_error};

/// What becomes of an operation whose results cannot be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shapes {
    /// The graph is wrong, or cannot be built.
    Inferred,
    /// There is none: all of them have been inferred.
    #[cfg(feature = "onnx")]
    Known,
    /// They stay as they were said: whoever compiles a part of the graph says more.
    AsSaid,
}

pub(super) fn finish(builder: GraphBuilder, shapes: Shapes) -> Result<Graph> {
    let GraphBuilder { ops, mut tensors, ports, outputs, fpmath, fpmath_apply_to_int, .. } = builder;
    for tensor in tensors.values() {
        check_tensor(tensor)?;
    }
    let (ops, producers) = topology::sort(ops)?;
    let consumers = topology::consumers(&ops);
    #[cfg(feature = "onnx")]
    let is_known = shapes == Shapes::Known;
    #[cfg(not(feature = "onnx"))]
    let is_known = false;
    for op in ops.iter().filter(|_| !is_known) {
        if let Err(error) = infer(op, &mut tensors) {
            if shapes == Shapes::Inferred {
                return Err(error);
            }
            tracing::debug!(%error, "inference is left to compilation");
        }
    }
    let inputs = inputs(&ops, &tensors, &producers, &consumers, &ports)?;
    let outputs = match outputs {
        Some(outputs) => check_outputs(&ops, &outputs, &tensors, &producers)?,
        None => unread(&ops, &consumers),
    };
    let graph = Graph { ops, tensors, inputs, outputs, producers, consumers, fpmath, fpmath_apply_to_int };
    graph.check_all_used()?;
    Ok(graph)
}

/// Adds to what is known of a tensor.
///
/// # Errors
/// [`Error::Invalid`] when something was said otherwise before.
pub(super) fn merge(known: &mut LogicalTensor, said: LogicalTensor) -> Result<()> {
    let differs = |what: &str, given: String, before: String| {
        let expected = format!("{before}, as it was said before");
        Err(Error::invalid_kind(
            InvalidKind::Graph,
            format!("tensor {}", said.label()),
            what,
            given,
            expected,
        ))
    };
    match (known.data_type, said.data_type) {
        (Some(before), Some(given)) if before != given => {
            return differs("data type", given.to_string(), before.to_string());
        }
        (before, given) => known.data_type = before.or(given),
    }
    if let Some(given) = &said.dims {
        match &mut known.dims {
            None => known.dims = Some(given.clone()),
            Some(before) => {
                if !agree(before, given) {
                    return differs("shape", written(given), written(before));
                }
                for (before, given) in before.iter_mut().zip(given) {
                    *before = before.or(*given);
                }
            }
        }
    }
    match (&known.layout, &said.layout) {
        (_, TensorLayout::Undefined) => {}
        (TensorLayout::Undefined | TensorLayout::Any, _) => known.layout = said.layout.clone(),
        (TensorLayout::Strided(before), TensorLayout::Strided(given)) if agree(before, given) => {
            let strides = before.iter().zip(given).map(|(before, given)| before.or(*given)).collect();
            known.layout = TensorLayout::Strided(strides);
        }
        // One side may leave the choice to the implementation.
        (before, given) if before == given || *given == TensorLayout::Any => {}
        (before, given) => return differs("layout", format!("{given:?}"), format!("{before:?}")),
    }
    match (known.property, said.property) {
        (_, Property::Undefined) => {}
        (Property::Undefined, given) => known.property = given,
        (before, given) if before == given => {}
        (before, given) => return differs("property", format!("{given:?}"), format!("{before:?}")),
    }
    if known.name.is_none() {
        known.name = said.name;
    }
    Ok(())
}

/// Whether two lists say the same where both say something.
fn agree(before: &[Option<usize>], given: &[Option<usize>]) -> bool {
    before.len() == given.len() && before.iter().zip(given).all(|(b, g)| b.is_none() || g.is_none() || b == g)
}

/// Checks a tensor by itself.
pub(super) fn check_tensor(tensor: &LogicalTensor) -> Result<()> {
    let wrong = |what: &str, given: String, expected: &str| {
        Err(Error::invalid_kind(
            InvalidKind::Shape,
            format!("tensor {}", tensor.label()),
            what,
            given,
            expected,
        ))
    };
    let Some(dims) = &tensor.dims else { return Ok(()) };
    if dims.len() > MAX_DIMS {
        return wrong("number of dimensions", dims.len().to_string(), "at most 12");
    }
    if tensor.property == Property::HostScalar && !dims.is_empty() {
        return wrong("shape of a host scalar", written(dims), "no dimensions");
    }
    if let TensorLayout::Strided(strides) = &tensor.layout
        && strides.len() != dims.len()
    {
        let given = format!("{} for {} dimensions", strides.len(), dims.len());
        return wrong("number of strides", given, "one stride for each dimension");
    }
    if let Some(dims) = tensor.known_dims() {
        let bits = tensor.data_type.map_or(8, DataType::bits);
        let bytes =
            dims.iter().filter(|&&dim| dim > 0).try_fold(bits.div_ceil(8), |n, &dim| n.checked_mul(dim));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return wrong("shape", dims.to_string(), "a size in the address space");
        }
        if let TensorLayout::Strided(strides) = &tensor.layout
            && strides.iter().all(Option::is_some)
        {
            tensor.memory_desc_of(tensor.data_type.unwrap_or(DataType::U8))?;
        }
    }
    Ok(())
}

/// Infers an operation's outputs from its inputs and compares them with what was given.
pub(super) fn infer(op: &Op, tensors: &mut ByTensor<LogicalTensor>) -> Result<()> {
    let types_of = |ids: &[TensorId]| ids.iter().map(|id| tensors[id].data_type).collect::<Types>();
    let types = infer_types(op, &types_of(&op.inputs), &types_of(&op.outputs))?;
    let inputs: Option<SmallVec<[Dims; 3]>> = op.inputs.iter().map(|id| tensors[id].known_dims()).collect();
    let inferred = match inputs {
        Some(inputs) => match infer_shapes(op, &inputs)? {
            Some(shapes) => shapes,
            None if op.outputs.iter().all(|id| tensors[id].known_dims().is_some()) => Vec::new(),
            None => {
                let why = "the shape follows from values that are not known yet; give it with the output";
                return Err(Error::unsupported(format!("shape inference of {op}"), why));
            }
        },
        None => Vec::new(),
    };
    for (i, id) in op.outputs.iter().enumerate() {
        let Some(tensor) = tensors.get_mut(id) else { continue };
        tensor.data_type = types[i];
        if let Some(dims) = inferred.get(i) {
            settle(op, i, tensor, dims)?;
        }
        check_tensor(tensor).map_err(|error| error.at(op.to_string()))?;
    }
    Ok(())
}

/// Gives an output its inferred dimensions.
fn settle(op: &Op, output: usize, tensor: &mut LogicalTensor, dims: &Dims) -> Result<()> {
    if let Some(given) = &tensor.dims {
        let fits = given.len() == dims.len()
            && given.iter().zip(dims.iter()).all(|(given, dim)| given.is_none_or(|given| given == *dim));
        // A single element may be written with or without a dimension.
        let single = given.iter().all(|dim| *dim == Some(1)) && dims.iter().all(|&dim| dim == 1);
        if single && given.len() <= 1 && dims.len() <= 1 {
            return Ok(());
        }
        if !fits {
            let subject = format!("shape of {} {}", Schema::of(op.kind).outputs.name(output), tensor.id);
            let (given, expected) = (written(given), format!("{dims}, as its inputs make it"));
            return Err(Error::invalid_kind(InvalidKind::Shape, op.to_string(), subject, given, expected));
        }
    }
    tensor.dims = Some(dims.iter().copied().map(Some).collect());
    if let TensorLayout::Strided(strides) = &tensor.layout
        && strides.contains(&None)
    {
        tensor.layout = TensorLayout::Undefined;
    }
    Ok(())
}

/// The graph's inputs in port order.
fn inputs(
    ops: &[Op],
    tensors: &ByTensor<LogicalTensor>,
    producers: &ByTensor<usize>,
    consumers: &ByTensor<Readers>,
    ports: &[TensorId],
) -> Result<Vec<TensorId>> {
    let mut seen = HashSet::new();
    let mut inputs = Vec::new();
    for id in ports {
        let given = match (tensors.get(id), producers.get(id)) {
            (None, _) => format!("{id}, which is no tensor of the graph"),
            (Some(tensor), Some(&i)) => format!("{}, which {} makes", tensor.label(), ops[i]),
            (Some(tensor), None) if !seen.insert(*id) => format!("{}, twice", tensor.label()),
            (Some(tensor), None) => {
                if tensor.property != Property::Constant {
                    inputs.push(*id);
                }
                continue;
            }
        };
        return Err(graph_error("input port", given, "each a different tensor that no operation makes"));
    }
    let made = |id: &TensorId| producers.contains_key(id);
    let others = consumers.keys().filter(|id| !made(id) && tensors[*id].property != Property::Constant);
    inputs.extend(others.filter(|id| seen.insert(**id)).copied().collect::<Vec<_>>());
    Ok(inputs)
}

fn check_outputs(
    ops: &[Op],
    outputs: &[TensorId],
    tensors: &ByTensor<LogicalTensor>,
    producers: &ByTensor<usize>,
) -> Result<Vec<TensorId>> {
    let mut seen = HashSet::new();
    for id in outputs {
        let given = match tensors.get(id) {
            None => format!("{id}, which is no tensor of the graph"),
            Some(tensor) if !producers.contains_key(id) => {
                format!("{}, which none of the {} operations makes", tensor.label(), ops.len())
            }
            Some(tensor) if !seen.insert(*id) => format!("{}, twice", tensor.label()),
            Some(_) => continue,
        };
        return Err(graph_error("output port", given, "each a different tensor that an operation makes"));
    }
    Ok(outputs.to_vec())
}

/// The tensors that nothing reads, and those that [`OpKind::End`] marks.
fn unread(ops: &[Op], consumers: &ByTensor<Readers>) -> Vec<TensorId> {
    let is_kept =
        |id: &&TensorId| consumers.get(*id).is_none_or(|by| by.iter().any(|&i| ops[i].kind == OpKind::End));
    ops.iter().flat_map(|op| &op.outputs).filter(is_kept).copied().collect()
}

/// Dimensions in words, with `?` for an unknown one.
pub(super) fn written(dims: &[Option<usize>]) -> String {
    if dims.is_empty() {
        return "scalar".into();
    }
    let dims: Vec<_> =
        dims.iter().map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string())).collect();
    dims.join("x")
}

impl Graph {
    /// A tensor that was declared and then forgotten is a mistake.
    fn check_all_used(&self) -> Result<()> {
        let unused =
            self.tensors.values().find(|t| self.producer(t.id).is_none() && self.consumers(t.id).is_empty());
        match unused {
            Some(tensor) => Err(graph_error(
                format!("tensor {}", tensor.label()),
                "dangling",
                "read or made by an operation",
            )),
            None => Ok(()),
        }
    }
}
