//! The layout of images between operations.
//!
//! Graphs of the other frameworks say `[N, C, spatial..]`. Temporaries of that meaning are laid out channels last all the same: kernels
//! then read and write the channels of a position together, which is what vectors on CPUs and matrix units want. What the user gives and
//! gets keeps its layout.

use anydnn_backend::MemoryDesc;
use rustc_hash::FxHashSet;

use crate::graph::{Graph, LogicalTensor, Op, OpKind, TensorId, order_of};

/// The tensors `[N, C, spatial..]` that convolutions make, and what is computed from them place by place.
pub(super) fn channels_last(graph: &Graph) -> FxHashSet<TensorId> {
    let mut found = FxHashSet::default();
    for op in graph.ops() {
        let Some(&result) = op.outputs.first() else { continue };
        let is_image = match op.kind {
            OpKind::Convolution | OpKind::ConvTranspose => is_channels_first(op),
            OpKind::MaxPool | OpKind::AvgPool | OpKind::Interpolate | OpKind::BatchNormInference => {
                is_channels_first(op) && op.inputs.first().is_some_and(|id| found.contains(id))
            }
            OpKind::StaticTranspose => puts_channels_first(graph, &found, op, result),
            OpKind::Concat => op.inputs.iter().all(|id| found.contains(id)),
            OpKind::Remap => keeps_rank(graph, &found, op, result),
            OpKind::StaticReshape => shuffles_channels(graph, &found, op, result),
            OpKind::Reorder
            | OpKind::TypeCast
            | OpKind::Select
            | OpKind::PReLU
            | OpKind::BiasAdd
            | OpKind::Quantize
            | OpKind::Dequantize
            | OpKind::DynamicQuantize
            | OpKind::DynamicDequantize => continues(graph, &found, op, result),
            kind => kind.is_pointwise() && continues(graph, &found, op, result),
        };
        if is_image && !is_flattened(graph, result) {
            found.insert(result);
        }
    }
    found
}

/// A descriptor in that layout.
pub(super) fn to_channels_last(desc: &MemoryDesc) -> MemoryDesc {
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    let tag = format!("a{taps}b");
    match (MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), &tag), desc.label()) {
        (Ok(tagged), Some(label)) => tagged.labelled(label),
        (Ok(tagged), None) => tagged,
        // A tag fails for ranks that images have not.
        (Err(_), _) => desc.to_row_major(),
    }
}

/// Whether an image is only read as rows without channels, which needs the order of its dimensions.
fn is_flattened(graph: &Graph, id: TensorId) -> bool {
    let readers = graph.consumers(id);
    !readers.is_empty()
        && readers.iter().all(|&reader| {
            let op = &graph.ops()[reader];
            let rank =
                op.outputs.first().and_then(|&id| graph.tensor(id)?.known_dims()).map(|dims| dims.len());
            op.kind == OpKind::StaticReshape && rank.is_some_and(|rank| rank <= 2)
        })
}

fn is_channels_first(op: &Op) -> bool {
    op.attrs.says("data_format", "NCX")
}

/// Whether an operation puts the last dimension of a tensor in rows before its places, as exporters of frameworks that have channels last do
/// for each operation on images. The result is a view, which lies with its channels last.
fn puts_channels_first(graph: &Graph, found: &FxHashSet<TensorId>, op: &Op, result: TensorId) -> bool {
    let is_image = |reader: &usize| {
        matches!(
            graph.ops()[*reader].kind,
            OpKind::MaxPool | OpKind::AvgPool | OpKind::Interpolate | OpKind::BatchNormInference
        )
    };
    let rank = graph.tensor(result).and_then(LogicalTensor::known_dims).map_or(0, |dims| dims.len());
    rank > 2
        && order_of(op, rank)
            .is_ok_and(|order| order.into_iter().eq([0, rank - 1].into_iter().chain(1..rank - 1)))
        && !op.inputs.iter().any(|id| found.contains(id))
        && graph.consumers(result).iter().any(is_image)
}

/// Whether a result is a part of an image, or one with a border around it.
fn keeps_rank(graph: &Graph, found: &FxHashSet<TensorId>, op: &Op, result: TensorId) -> bool {
    let rank = |id: TensorId| graph.tensor(id).and_then(LogicalTensor::known_dims).map(|dims| dims.len());
    op.inputs.first().is_some_and(|id| found.contains(id) && rank(*id) == rank(result))
}

/// Whether a reshape is the last of three operations that change the order of an image's channels alone: apart into groups, the groups and their
/// channels in each other's places, and together again.
fn shuffles_channels(graph: &Graph, found: &FxHashSet<TensorId>, op: &Op, result: TensorId) -> bool {
    let dims = |id: TensorId| graph.tensor(id).and_then(LogicalTensor::known_dims);
    let before = |op: &Op| {
        let id = *op.inputs.first()?;
        Some((id, &graph.ops()[graph.producer(id)?]))
    };
    let shuffled = || {
        let (turned, transpose) = before(op)?;
        let rank = dims(turned)?.len();
        let order = (transpose.kind == OpKind::StaticTranspose).then(|| order_of(transpose, rank).ok())??;
        let is_swap = order.iter().copied().eq([0, 2, 1].into_iter().chain(3..rank));
        let (apart, reshape) = before(transpose)?;
        let image = *reshape.inputs.first().filter(|_| reshape.kind == OpKind::StaticReshape)?;
        let (own, apart) = (dims(image)?, dims(apart)?);
        let keeps_places = own.len() + 1 == rank && own[0] == apart[0] && own[2..] == apart[3..];
        Some(is_swap && keeps_places && found.contains(&image) && dims(result)? == own)
    };
    shuffled().unwrap_or(false)
}

/// Whether a result has the shape of an image that it is computed from.
fn continues(graph: &Graph, found: &FxHashSet<TensorId>, op: &Op, result: TensorId) -> bool {
    let dims = |id: TensorId| graph.tensor(id).and_then(LogicalTensor::known_dims);
    let own = dims(result);
    own.is_some() && op.inputs.iter().any(|id| found.contains(id) && dims(*id) == own)
}

#[cfg(test)]
mod tests {
    use anydnn_backend::DataType;

    use super::*;
    use crate::graph::{Attrs, GraphBuilder};

    /// Where windows of an image are.
    fn windows() -> Attrs {
        let ones = || [1_i64, 1];
        let none = || [0_i64, 0];
        Attrs::new()
            .with("strides", ones())
            .with("pads_begin", none())
            .with("pads_end", none())
            .with("data_format", "NCX")
    }

    /// A graph with a convolution of an image `[1, 4, 8, 8]`.
    fn convolved() -> (GraphBuilder, TensorId) {
        let mut g = GraphBuilder::new();
        let image = g.input("image", DataType::F32, [1, 4, 8, 8]);
        let weights = g.constant("weights", DataType::F32, [4, 4, 1, 1]);
        let formats = windows().with("dilations", [1_i64, 1]).with("weights_format", "OIX");
        let made = g.op("conv", OpKind::Convolution, &[image, weights], formats).unwrap();
        (g, made)
    }

    /// A convolution and what follows it.
    fn network() -> (Graph, [TensorId; 4]) {
        let (mut g, made) = convolved();
        let bounded = g.op("relu", OpKind::ReLU, &[made], Attrs::new()).unwrap();
        let pooled = g.op("pool", OpKind::MaxPool, &[bounded], windows().with("kernel", [2_i64, 2])).unwrap();
        let flat = Attrs::new().with("shape", [1_i64, -1]).with("special_zero", false);
        let flat = g.op("flat", OpKind::StaticReshape, &[pooled], flat).unwrap();
        (g.build().unwrap(), [made, bounded, pooled, flat])
    }

    #[test]
    fn quantised_images_are_images() {
        let (mut g, made) = convolved();
        let scales = || {
            Attrs::new().with("qtype", "per_tensor").with("scales", vec![0.5_f32]).with("zps", vec![3_i64])
        };
        let stored = g.op("stored", OpKind::Quantize, &[made], scales()).unwrap();
        let bytes = LogicalTensor { data_type: Some(DataType::U8), ..LogicalTensor::unknown(stored) };
        g.add_tensor(bytes).unwrap();
        let floats = g.op("floats", OpKind::Dequantize, &[stored], scales()).unwrap();
        let bounded = g.op("relu", OpKind::ReLU, &[floats], Attrs::new()).unwrap();
        let found = channels_last(&g.build().unwrap());
        assert!([made, stored, floats, bounded].iter().all(|id| found.contains(id)));
    }

    #[test]
    fn images_stay_channels_last_as_long_as_they_are_images() {
        let (graph, [made, bounded, pooled, flat]) = network();
        let found = channels_last(&graph);
        assert_eq!([made, bounded, pooled].map(|id| found.contains(&id)), [true, true, false]);
        assert!(!found.contains(&flat) && !found.contains(&graph.inputs()[0]));
        let desc = to_channels_last(&MemoryDesc::new([2, 3, 4, 5], DataType::F32));
        assert_eq!(desc.strides(), Some(&[60, 1, 15, 3][..]));
    }

    #[test]
    fn shuffled_channels_and_parts_of_images_are_images() {
        let found = |apart: [i64; 5], order: [i64; 5], together: [i64; 4]| {
            let (mut g, made) = convolved();
            let shape =
                |shape: &[i64]| Attrs::new().with("shape", shape.to_vec()).with("special_zero", false);
            let groups = g.op("apart", OpKind::StaticReshape, &[made], shape(&apart)).unwrap();
            let order = Attrs::new().with("order", order.to_vec());
            let turned = g.op("turned", OpKind::StaticTranspose, &[groups], order).unwrap();
            let shuffled = g.op("together", OpKind::StaticReshape, &[turned], shape(&together)).unwrap();
            let bounded = g.op("relu", OpKind::ReLU, &[shuffled], Attrs::new()).unwrap();
            let part = Attrs::new()
                .with("shape", [1_i64, 2, 8, 8])
                .with("starts", [0_i64, 2, 0, 0])
                .with("steps", [1_i64; 4])
                .with("border", "wrap");
            let part = g.op("part", OpKind::Remap, &[made], part).unwrap();
            let copied =
                g.op("copied", OpKind::Concat, &[part, part], Attrs::new().with("axis", 1_i64)).unwrap();
            let found = channels_last(&g.build().unwrap());
            assert!(!found.contains(&groups) && !found.contains(&turned));
            ([shuffled, bounded].map(|id| found.contains(&id)), [part, copied].map(|id| found.contains(&id)))
        };
        let swapped = [0, 2, 1, 3, 4];
        assert_eq!(found([1, 2, 2, 8, 8], swapped, [1, 4, 8, 8]), ([true; 2], [true; 2]));
        // Places that move, others that are taken apart, and another image.
        assert_eq!(found([1, 2, 2, 8, 8], [0, 2, 1, 4, 3], [1, 4, 8, 8]).0, [false; 2]);
        assert_eq!(found([1, 4, 2, 4, 8], swapped, [1, 4, 8, 8]).0, [false; 2]);
        assert_eq!(found([1, 2, 2, 8, 8], swapped, [1, 4, 4, 16]).0, [false; 2]);
    }

    #[test]
    fn what_is_put_channels_first_for_a_pooling_is_an_image() {
        let found = |order: [i64; 4], pools: bool| {
            let mut g = GraphBuilder::new();
            let x = g.input("x", DataType::F32, [1, 8, 6, 4]);
            let order = Attrs::new().with("order", order.to_vec());
            let turned = g.op("turned", OpKind::StaticTranspose, &[x], order).unwrap();
            let bounded = g.op("bounded", OpKind::ReLU, &[turned], Attrs::new()).unwrap();
            let attrs = Attrs::new()
                .with("strides", [2_i64, 2])
                .with("pads_begin", [0_i64, 0])
                .with("pads_end", [0_i64, 0])
                .with("data_format", "NCX")
                .with("kernel", [2_i64, 2]);
            let read = if pools { turned } else { bounded };
            let pooled = g.op("pool", OpKind::MaxPool, &[read], attrs).unwrap();
            let found = channels_last(&g.build().unwrap());
            [turned, bounded, pooled].map(|id| found.contains(&id))
        };
        assert_eq!(found([0, 3, 1, 2], true), [true; 3]);
        assert_eq!(found([0, -1, 1, 2], true), [true; 3]);
        // Another order, and one that no operation on images reads.
        assert_eq!(found([0, 3, 2, 1], true), [false; 3]);
        assert_eq!(found([0, 3, 1, 2], false), [false; 3]);
    }
}
