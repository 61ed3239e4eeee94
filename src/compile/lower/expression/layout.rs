//! Which indices an operation works over, and how its tensors lie in them.

use anydnn_backend::{Dims, Error, InvalidKind, Result};

use super::super::channel_axis;
use crate::graph::{Graph, Op, OpKind as K, TensorId, normalize_axis};

/// The share of an operation that one expression computes: gradients of parameters fold other axes than that of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    /// The operation, an index into [`Graph::ops`].
    pub(super) op: usize,
    pub(super) side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// All results, or the gradient of the source.
    Main,
    /// The gradients of parameters.
    Parameters,
}

/// The indices that a part works over, and its tensors in them.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) dims: Dims,
    /// The axes along which it folds.
    pub(super) folded: Vec<usize>,
    /// An axis along which it folds in groups.
    pub(super) split: Option<Split>,
    /// How each input lies; none for one that is not read.
    pub(super) inputs: Vec<Option<Fit>>,
    /// The outputs that it makes, by position, and how they lie.
    pub(super) outputs: Vec<(usize, Fit)>,
}

/// An axis in groups of neighbours: folds join those of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) axis: usize,
    pub(super) groups: usize,
}

/// How a tensor lies in a space: under these dimensions, each along an axis, repeated or by blocks along the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) dims: Dims,
    pub(super) axes: Vec<usize>,
    /// Whether the last dimension counts the groups of the split axis.
    pub(super) grouped: bool,
}

impl Fit {
    /// Aligned at the last axis.
    fn numpy(dims: Dims, rank: usize) -> Self {
        let axes = (rank.saturating_sub(dims.len())..rank).collect();
        Self { dims, axes, grouped: false }
    }

    /// A vector along one axis.
    fn along(axis: usize, elements: usize) -> Self {
        Self { dims: Dims::from([elements]), axes: vec![axis], grouped: false }
    }

    /// One element for all.
    fn one() -> Self {
        Self { dims: Dims::default(), axes: Vec::new(), grouped: false }
    }

    /// Part of the axes of a space.
    fn of_axes(space: &Dims, axes: impl IntoIterator<Item = usize>) -> Self {
        let axes: Vec<usize> = axes.into_iter().collect();
        Self { dims: axes.iter().map(|&axis| space[axis]).collect(), axes, grouped: false }
    }
}

/// The parts of an operation that make a tensor somebody needs.
pub(super) fn parts(graph: &Graph, op: usize, needed: impl Fn(TensorId) -> bool) -> Vec<Part> {
    let operation = &graph.ops()[op];
    let mut parts = Vec::new();
    let split = matches!(operation.kind, K::LayerNormBackward | K::PReLUBackward);
    let main = if split { operation.outputs.len().min(1) } else { operation.outputs.len() };
    for (side, range) in [(Side::Main, 0..main), (Side::Parameters, main..operation.outputs.len())] {
        if operation.outputs[range].iter().any(|&id| needed(id)) {
            parts.push(Part { op, side });
        }
    }
    parts
}

/// The space of a part.
pub(super) fn layout(graph: &Graph, part: Part) -> Result<Layout> {
    let op = &graph.ops()[part.op];
    let tensors = Tensors { graph, op };
    match op.kind {
        K::SoftMax | K::LogSoftmax | K::SoftMaxBackward | K::LogSoftmaxBackward => {
            let dims = tensors.input(0)?;
            let axis = normalize_axis(op.attrs.s64("axis")?, dims.len())?;
            let mut stats = dims.clone();
            stats[axis] = 1;
            let mut made = tensors.pointwise(&dims)?;
            made.folded = vec![axis];
            made.outputs.push((1, Fit::numpy(stats, dims.len())));
            Ok(made)
        }
        K::LayerNorm | K::RMSNorm | K::LayerNormBackward => layer(&tensors, part.side),
        K::GroupNorm => group(&tensors),
        K::BatchNormInference | K::BatchNormForwardTraining | K::BatchNormTrainingBackward => batch(&tensors),
        K::BiasAdd | K::BiasAddBackward => bias(&tensors),
        K::PReLU | K::PReLUBackward => prelu(&tensors, part.side),
        K::ReduceL1
        | K::ReduceL2
        | K::ReduceMax
        | K::ReduceMean
        | K::ReduceMin
        | K::ReduceProd
        | K::ReduceSum => reduction(&tensors),
        K::DynamicQuantize | K::DynamicDequantize => {
            let dims = tensors.input(0)?;
            let mut made = tensors.pointwise(&dims)?;
            for i in 1..op.inputs.len() {
                made.inputs[i] = Some(quantization(&tensors, &dims, i)?);
            }
            Ok(made)
        }
        K::Dropout => {
            let dims = tensors.input(0)?;
            let mut made = tensors.pointwise(&dims)?;
            made.inputs.iter_mut().skip(1).for_each(|fit| *fit = Some(Fit::one()));
            made.outputs.push((1, Fit::numpy(dims.clone(), dims.len())));
            Ok(made)
        }
        K::GenIndex => {
            let mut made = tensors.pointwise(&tensors.output(0)?)?;
            made.inputs[0] = None;
            Ok(made)
        }
        _ => tensors.pointwise(&tensors.output(0)?),
    }
}

/// The tensors of an operation.
struct Tensors<'g> {
    graph: &'g Graph,
    op: &'g Op,
}

impl Tensors<'_> {
    fn input(&self, i: usize) -> Result<Dims> {
        self.dims(self.op.inputs.get(i), "input", i)
    }

    fn output(&self, i: usize) -> Result<Dims> {
        self.dims(self.op.outputs.get(i), "output", i)
    }

    fn dims(&self, id: Option<&TensorId>, port: &str, i: usize) -> Result<Dims> {
        id.and_then(|&id| self.graph.tensor(id)?.known_dims()).ok_or_else(|| {
            let subject = format!("shape of {port} {i}");
            Error::invalid_kind(InvalidKind::Shape, self.op.to_string(), subject, "unknown", "known")
        })
    }

    /// No folds, every input aligned at the last axis, and the first result.
    fn pointwise(&self, dims: &Dims) -> Result<Layout> {
        let rank = dims.len();
        let fits = (0..self.op.inputs.len()).map(|i| Ok(Some(Fit::numpy(self.input(i)?, rank))));
        Ok(Layout {
            dims: dims.clone(),
            folded: Vec::new(),
            split: None,
            inputs: fits.collect::<Result<_>>()?,
            outputs: vec![(0, Fit::numpy(dims.clone(), rank))],
        })
    }

    /// As [`Tensors::pointwise`] over the first input, the inputs from `first` on being vectors along the channels.
    fn with_vectors(&self, first: usize) -> Result<(Layout, usize)> {
        let dims = self.input(0)?;
        let channel = channel_axis(self.op, dims.len())?;
        let count = dims.get(channel).copied().unwrap_or(1);
        let mut made = self.pointwise(&dims)?;
        made.inputs.iter_mut().skip(first).for_each(|fit| *fit = Some(Fit::along(channel, count)));
        Ok((made, channel))
    }
}

fn layer(tensors: &Tensors<'_>, side: Side) -> Result<Layout> {
    let op = tensors.op;
    let dims = tensors.input(0)?;
    let begin = normalize_axis(op.attrs.s64("begin_norm_axis")?, dims.len())?;
    let (outer, inner) = (Fit::of_axes(&dims, 0..begin), Fit::of_axes(&dims, begin..dims.len()));
    let backward = op.kind == K::LayerNormBackward;
    let mut made = tensors.pointwise(&dims)?;
    for (i, fit) in made.inputs.iter_mut().enumerate().skip(if backward { 2 } else { 1 }) {
        let statistics = backward && i < 4;
        let own = if statistics { &outer } else { &inner };
        // Parameters may be written flat, or with ones in front; other shapes broadcast.
        if statistics || fit.as_ref().is_some_and(|fit| fit.dims.elements() == own.dims.elements()) {
            *fit = Some(own.clone());
        }
    }
    if side == Side::Parameters {
        made.folded = (0..begin).collect();
        made.outputs = vec![(1, inner.clone()), (2, inner)];
        return Ok(made);
    }
    made.folded = (begin..dims.len()).collect();
    if !backward {
        made.outputs.extend([(1, outer.clone()), (2, outer)]);
    }
    Ok(made)
}

fn group(tensors: &Tensors<'_>) -> Result<Layout> {
    let (mut made, channel) = tensors.with_vectors(1)?;
    let groups = usize::try_from(tensors.op.attrs.s64("groups")?).unwrap_or(0).max(1);
    made.folded = (1..made.dims.len()).filter(|&axis| axis != channel).collect();
    made.split = Some(Split { axis: channel, groups });
    let stats = Fit { dims: Dims::from([made.dims[0], groups]), axes: vec![0, channel], grouped: true };
    made.outputs.extend([(1, stats.clone()), (2, stats)]);
    Ok(made)
}

fn batch(tensors: &Tensors<'_>) -> Result<Layout> {
    let kind = tensors.op.kind;
    let first = if kind == K::BatchNormTrainingBackward { 2 } else { 1 };
    let (mut made, channel) = tensors.with_vectors(first)?;
    if kind != K::BatchNormInference {
        made.folded = (0..made.dims.len()).filter(|&axis| axis != channel).collect();
        let vector = Fit::along(channel, made.dims[channel]);
        made.outputs.extend((1..tensors.op.outputs.len()).map(|i| (i, vector.clone())));
    }
    Ok(made)
}

fn bias(tensors: &Tensors<'_>) -> Result<Layout> {
    let (mut made, channel) = tensors.with_vectors(1)?;
    if tensors.op.kind == K::BiasAddBackward {
        made.folded = (0..made.dims.len()).filter(|&axis| axis != channel).collect();
        made.outputs = vec![(0, Fit::along(channel, made.dims[channel]))];
    }
    Ok(made)
}

fn prelu(tensors: &Tensors<'_>, side: Side) -> Result<Layout> {
    let (dims, slope) = (tensors.input(0)?, tensors.input(1)?);
    let rank = dims.len();
    let per_channel = tensors.op.attrs.bool("per_channel_broadcast").unwrap_or(true);
    let channel = channel_axis(tensors.op, rank)?;
    let fit = match slope[..] {
        [] | [1] => Fit::one(),
        [count] if rank > 1 && per_channel && count == dims[channel] => Fit::along(channel, count),
        _ => Fit::numpy(slope, rank),
    };
    let mut made = tensors.pointwise(&dims)?;
    made.inputs[1] = Some(fit.clone());
    if side == Side::Parameters {
        let covered =
            |axis: usize| fit.axes.iter().position(|&own| own == axis).is_some_and(|i| fit.dims[i] != 1);
        made.folded = (0..rank).filter(|&axis| !covered(axis)).collect();
        made.outputs = vec![(1, fit)];
    }
    Ok(made)
}

fn reduction(tensors: &Tensors<'_>) -> Result<Layout> {
    let op = tensors.op;
    let dims = tensors.input(0)?;
    let keep = op.attrs.bool("keep_dims")?;
    let mut folded: Vec<usize> = if op.inputs.len() > 1 {
        axes_from_shapes(tensors, &dims, keep)?
    } else {
        let axes = if op.attrs.get("axes").is_some() { op.attrs.s64s("axes")? } else { &[] };
        axes.iter().map(|&axis| normalize_axis(axis, dims.len())).collect::<Result<_>>()?
    };
    folded.sort_unstable();
    folded.dedup();
    let mut made = tensors.pointwise(&dims)?;
    made.inputs.iter_mut().skip(1).for_each(|fit| *fit = None);
    let kept = Fit::of_axes(&dims, (0..dims.len()).filter(|axis| !folded.contains(axis)));
    let result = if keep { Fit::numpy(tensors.output(0)?, dims.len()) } else { kept };
    made.outputs = vec![(0, result)];
    made.folded = folded;
    Ok(made)
}

/// The folded axes where they are an input: those by which the declared result differs from the source.
fn axes_from_shapes(tensors: &Tensors<'_>, src: &Dims, keep: bool) -> Result<Vec<usize>> {
    let dst = tensors.output(0)?;
    let unclear = || {
        let reason = format!(
            "the axes are a tensor, and its values do not follow from the shapes {src} of src and {dst} of dst"
        );
        Error::unsupported(tensors.op.to_string(), reason)
    };
    if keep {
        let fits = src.len() == dst.len() && src.iter().zip(dst.iter()).all(|(s, d)| s == d || *d == 1);
        let folded = (0..src.len()).filter(|&axis| fits && src[axis] != dst[axis]).collect();
        return if fits { Ok(folded) } else { Err(unclear()) };
    }
    // Each way to find the result's dimensions within the source's, as the axes left out.
    let mut ways: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new())];
    for (axis, &dim) in src.iter().enumerate() {
        let mut next: Vec<(usize, Vec<usize>)> = Vec::new();
        for (found, left) in ways {
            if dst.get(found) == Some(&dim) {
                next.push((found + 1, left.clone()));
            }
            if left.len() < src.len().saturating_sub(dst.len()) {
                next.push((found, left.into_iter().chain([axis]).collect()));
            }
        }
        ways = next;
    }
    ways.retain(|(found, _)| *found == dst.len());
    // Leaving out one dimension of one or another is the same.
    let essential = |left: &[usize]| left.iter().copied().filter(|&axis| src[axis] != 1).collect::<Vec<_>>();
    match ways.split_first() {
        Some(((_, left), others)) if others.iter().all(|(_, o)| essential(o) == essential(left)) => {
            Ok(left.clone())
        }
        _ => Err(unclear()),
    }
}

/// How scales or zero points in a tensor lie over the quantised one.
fn quantization(tensors: &Tensors<'_>, src: &Dims, i: usize) -> Result<Fit> {
    let op = tensors.op;
    let dims = tensors.input(i)?;
    Ok(match op.attrs.string("qtype")? {
        _ if dims.elements() == 1 => Fit::one(),
        "per_channel" => Fit::along(normalize_axis(op.attrs.s64("axis")?, src.len())?, dims.elements()),
        _ => Fit::numpy(dims, src.len()),
    })
}
