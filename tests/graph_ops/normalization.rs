//! Normalizations, with their statistics.

use anydnn::backend::DataType;
use anydnn::graph::{Attrs, OpKind as K};
use rstest::rstest;

use super::case::Case;

fn layer(begin: i64, stats: bool, affine: bool) -> Attrs {
    Attrs::new()
        .with("begin_norm_axis", begin)
        .with("keep_stats", stats)
        .with("use_affine", affine)
        .with("epsilon", 1e-3_f32)
}

#[rstest]
fn layer_norm(
    #[values(0, 1, 2, -1, -2)] begin: i64,
    #[values(false, true)] stats: bool,
    #[values(false, true)] affine: bool,
) {
    let dims = [2, 3, 7];
    let inner = &dims[if begin < 0 { (begin + 3) as usize } else { begin as usize }..];
    let mut case = if begin == -1 { Case::on_devices() } else { Case::new() };
    let mut inputs = vec![case.input_of(DataType::F32, &dims, |v| 2.0 * v + 0.5)];
    if affine {
        inputs.extend([case.constant(inner), case.constant(inner)]);
    }
    case.ops(K::LayerNorm, &inputs, layer(begin, stats, affine), if stats { 3 } else { 1 });
    case.in_steps(1).check();
}

/// A factor and a summand may be written as one row, or with ones in front.
#[rstest]
#[case::flat(1, &[21])]
#[case::ones_in_front(-1, &[1, 1, 7])]
fn layer_norm_with_affine_of_another_rank(#[case] begin: i64, #[case] dims: &[usize]) {
    let mut case = Case::new();
    let inputs = [case.input(&[2, 3, 7]), case.constant(dims), case.constant(dims)];
    case.op(K::LayerNorm, &inputs, layer(begin, false, true));
    case.check();
}

/// Statistics that nobody asked for do not keep a chain from forming.
#[test]
fn layer_norm_with_unused_statistics() {
    let mut case = Case::new();
    let (x, gamma, beta) = (case.input(&[3, 8]), case.constant(&[8]), case.constant(&[8]));
    let made = case.ops(K::LayerNorm, &[x, gamma, beta], layer(-1, true, true), 3);
    let y = case.op(K::GELU, &[made[0]], Attrs::new());
    case.g.output(y);
    case.in_steps(1).check();
}

/// Statistics read inside the graph.
#[test]
fn layer_norm_with_its_statistics_used() {
    let mut case = Case::new();
    let (x, gamma, beta) = (case.input(&[3, 8]), case.constant(&[8]), case.constant(&[8]));
    let made = case.ops(K::LayerNorm, &[x, gamma, beta], layer(1, true, true), 3);
    let shape = Attrs::new().with("shape", [3, 1]).with("special_zero", false);
    let mean = case.op(K::StaticReshape, &[made[1]], shape);
    let y = case.op(K::Add, &[made[0], mean], Attrs::new());
    case.g.output(made[2]);
    case.g.output(y);
    case.check();
}

#[rstest]
#[case::last(-1, &[7], true)]
#[case::last_without_factor(-1, &[7], false)]
#[case::two(1, &[3, 7], true)]
#[case::all(0, &[2, 3, 7], true)]
fn rms_norm(#[case] begin: i64, #[case] inner: &[usize], #[case] scaled: bool) {
    let mut case = Case::on_devices();
    let mut inputs = vec![case.input_of(DataType::F32, &[2, 3, 7], |v| v + 1.0)];
    if scaled {
        inputs.push(case.constant(inner));
    }
    case.op(K::RMSNorm, &inputs, Attrs::new().with("begin_norm_axis", begin));
    case.in_steps(1).check();
}

#[rstest]
#[case::first("NCX", &[2, 3, 4, 5], 3)]
#[case::last("NXC", &[2, 4, 5, 3], 3)]
#[case::rank_2("NXC", &[4, 6], 6)]
#[case::rank_2_first("NCX", &[4, 6], 6)]
#[case::rank_3("NXC", &[2, 5, 4], 4)]
#[case::rank_5("NCX", &[2, 3, 2, 2, 3], 3)]
fn batch_norm(#[case] format: &str, #[case] dims: &[usize], #[case] channels: usize) {
    for constant in [false, true] {
        let mut case = if dims.len() == 4 && constant { Case::on_devices() } else { Case::new() };
        let x = case.input(dims);
        let mut vector = |f: fn(f64) -> f64| {
            if constant {
                case.constant_of(DataType::F32, &[channels], f)
            } else {
                case.input_of(DataType::F32, &[channels], f)
            }
        };
        let inputs = [x, vector(|v| v), vector(|v| v), vector(|v| 0.3 * v), vector(|v| 1.2 + v)];
        let attrs = Attrs::new().with("epsilon", 1e-2_f32).with("data_format", format);
        case.op(K::BatchNormInference, &inputs, attrs);
        case.in_steps(1).check();
    }
}

#[rstest]
fn group_norm(
    #[values("NCX", "NXC")] format: &str,
    #[values(1, 2, 6)] groups: i64,
    #[values(false, true)] stats: bool,
    #[values(false, true)] affine: bool,
) {
    let shapes: [(&[usize], &[usize]); 3] =
        [(&[2, 6, 3, 4], &[2, 3, 4, 6]), (&[3, 6, 5], &[3, 5, 6]), (&[3, 6], &[3, 6])];
    for (i, (first, last)) in shapes.into_iter().enumerate() {
        // With one element in each group there is nothing to normalize.
        if first.len() == 2 && groups == 6 {
            continue;
        }
        let mut case =
            if i == 0 && groups == 2 && stats == affine { Case::on_devices() } else { Case::new() };
        let mut inputs =
            vec![case.input_of(DataType::F32, if format == "NCX" { first } else { last }, |v| 2.0 * v - 0.5)];
        if affine {
            inputs.extend([case.constant(&[6]), case.constant(&[6])]);
        }
        let attrs = Attrs::new()
            .with("groups", groups)
            .with("keep_stats", stats)
            .with("use_affine", affine)
            .with("epsilon", 1e-3_f32)
            .with("data_format", format);
        case.ops(K::GroupNorm, &inputs, attrs, if stats { 3 } else { 1 });
        case.in_steps(1).check();
    }
}
