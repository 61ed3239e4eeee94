//! Operators that move, compare and choose, against numbers worked out by hand. Their inputs are given on execution.

use super::*;

/// The first output of a node `y = Operator(x, ..)`, where `x` are floats and other names are integers or floats of the file.
fn values(draft: Draft, text: &str, attributes: Vec<AttributeProto>, x: &HostTensor) -> HostTensor {
    let draft = draft.node(text, attributes).output("y");
    draft.run(&[], std::slice::from_ref(x)).unwrap().remove(0)
}

fn of(opset: i64, dims: &[&str]) -> Draft {
    Draft::new(opset).input("x", dims)
}

fn counted<const N: usize>(dims: [usize; N]) -> HostTensor {
    let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|i| i as f32).collect();
    tensor(dims, &values)
}

#[test]
fn slices_step_and_turn_around() {
    let slice = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
        let one = [starts.len() as i64];
        let draft = of(13, &["2", "5"]).ints("s", &one, starts).ints("e", &one, ends);
        let draft = draft.ints("a", &one, axes).ints("t", &one, steps);
        values(draft, "y = Slice(x, s, e, a, t)", vec![], &counted([2, 5])).to_f32s()
    };
    assert_eq!(slice(&[1], &[5], &[1], &[2]), [1.0, 3.0, 6.0, 8.0]);
    assert_eq!(slice(&[-1], &[-9], &[-1], &[-2]), [4.0, 2.0, 0.0, 9.0, 7.0, 5.0]);
    assert_eq!(slice(&[1, 3], &[9, 9], &[0, 1], &[1, 1]), [8.0, 9.0]);
    assert!(slice(&[3], &[1], &[1], &[1]).is_empty());
}

#[test]
fn parts_and_repetitions() {
    let draft = of(13, &["5", "2"]).ints("n", &[2], &[2, 3]).node("a, y = Split(x, n)", vec![int("axis", 0)]);
    let y = draft.output("y").output("a").run(&[], &[counted([5, 2])]).unwrap();
    assert_eq!(
        (y[0].to_f32s(), y[1].to_f32s()),
        (vec![4.0, 5.0, 6.0, 7.0, 8.0, 9.0], vec![0.0, 1.0, 2.0, 3.0])
    );
    let tile =
        values(of(13, &["1", "2"]).ints("n", &[2], &[2, 2]), "y = Tile(x, n)", vec![], &counted([1, 2]));
    assert_eq!((tile.dims().to_vec(), tile.to_f32s()), (vec![2, 4], [0.0, 1.0].repeat(4)));
    let draft = of(13, &["2", "1"]).ints("n", &[3], &[2, 1, 2]);
    let wide = values(draft, "y = Expand(x, n)", vec![], &counted([2, 1]));
    assert_eq!((wide.dims().to_vec(), wide.to_f32s()), (vec![2, 2, 2], [0.0, 0.0, 1.0, 1.0].repeat(2)));
}

#[test]
fn borders_are_filled_and_mirrored() {
    let pad = |pads: &[i64], mode: &str| {
        let draft = of(13, &["1", "3"]).ints("p", &[4], pads).floats("v", &[], &[7.0]);
        values(draft, "y = Pad(x, p, v)", vec![word("mode", mode)], &counted([1, 3])).to_f32s()
    };
    assert_eq!(pad(&[0, 2, 0, 1], "constant"), [7.0, 7.0, 0.0, 1.0, 2.0, 7.0]);
    assert_eq!(pad(&[0, -1, 1, 0], "constant"), [1.0, 2.0, 7.0, 7.0]);
    assert_eq!(pad(&[0, 2, 0, 1], "edge"), [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
    assert_eq!(pad(&[0, 2, 0, 1], "reflect"), [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]);
    let old = of(7, &["2"]);
    let attributes = vec![ints("pads", &[1, 0]), float("value", -1.0)];
    assert_eq!(values(old, "y = Pad(x)", attributes, &counted([2])).to_f32s(), [-1.0, 0.0, 1.0]);
}

#[test]
fn elements_are_found_by_indices() {
    let x = counted([3, 2]);
    let gather = |text: &str, dims: &[i64], indices: &[i64], attributes| {
        values(of(13, &["3", "2"]).ints("i", dims, indices), text, attributes, &x)
    };
    let rows = gather("y = Gather(x, i)", &[1, 2], &[-1, 0], vec![]);
    assert_eq!((rows.dims().to_vec(), rows.to_f32s()), (vec![1, 2, 2], vec![4.0, 5.0, 0.0, 1.0]));
    let one = gather("y = Gather(x, i)", &[], &[1], vec![int("axis", 1)]);
    assert_eq!((one.dims().to_vec(), one.to_f32s()), (vec![3], vec![1.0, 3.0, 5.0]));
    let each = gather("y = GatherElements(x, i)", &[1, 2], &[2, -2], vec![]);
    assert_eq!((each.dims().to_vec(), each.to_f32s()), (vec![1, 2], vec![4.0, 3.0]));
    let lists = gather("y = GatherND(x, i)", &[2, 2], &[2, 1, 0, 0], vec![]);
    assert_eq!((lists.dims().to_vec(), lists.to_f32s()), (vec![2], vec![5.0, 0.0]));
}

#[test]
fn blocks_become_channels_and_back() {
    let x = counted([1, 4, 1, 2]);
    let dims = ["1", "4", "1", "2"];
    let image = values(of(13, &dims), "y = DepthToSpace(x)", vec![int("blocksize", 2)], &x);
    assert_eq!(
        (image.dims().to_vec(), image.to_f32s()),
        (vec![1, 1, 2, 4], vec![0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0])
    );
    let attributes = vec![int("blocksize", 2)];
    let back = values(of(13, &["1", "1", "2", "4"]), "y = SpaceToDepth(x)", attributes, &image);
    assert_eq!(back.to_f32s(), x.to_f32s());
}

#[test]
fn conditions_choose() {
    let x = tensor([2, 2], &[1.0, f32::NAN, -3.0, f32::INFINITY]);
    let draft = |text: &str| {
        let draft = of(16, &["2", "2"]).floats("c", &[2], &[1.0, 2.0]).floats("z", &[], &[0.0]);
        draft.node(text, vec![]).node("y = Where(t, x, c)", vec![]).output("y")
    };
    let values = |text: &str| draft(text).run(&[], std::slice::from_ref(&x)).unwrap()[0].to_f32s();
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let same = |text: &str, expected: [f32; 4]| {
        let bits = |list: &[f32]| list.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&values(text)), bits(&expected), "{text}");
    };
    same("t = Greater(x, z)", [1.0, 2.0, 1.0, infinity]);
    same("t = Less(x, z)", [1.0, 2.0, -3.0, 2.0]);
    same("t = LessOrEqual(x, c)", [1.0, 2.0, -3.0, 2.0]);
    same("t = Equal(x, c)", [1.0, 2.0, 1.0, 2.0]);
    same("t = IsNaN(x)", [1.0, nan, 1.0, 2.0]);
    same("t = IsInf(x)", [1.0, 2.0, 1.0, infinity]);
    let both = draft("t = Not(u)").node("v = IsNaN(x)", vec![]).node("w = Less(x, z)", vec![]);
    let both = both.node("u = Or(v, w)", vec![]);
    assert_eq!(both.run(&[], &[x]).unwrap()[0].to_f32s(), [1.0, 2.0, 1.0, infinity]);
}

#[test]
fn integers_stay_whole() {
    let big = (1_i64 << 40) + 1;
    let x = tensor([4], &[7.9, -7.9, 0.0, 3.0]);
    let y = |text: &str, attributes| {
        let draft = of(13, &["4"]).ints("d", &[], &[-3]).ints("b", &[], &[big]);
        let draft = draft.node("i = Cast(x)", vec![int("to", 7)]);
        let tensor =
            draft.node(text, attributes).output("y").run(&[], std::slice::from_ref(&x)).unwrap().remove(0);
        tensor.to_f64s()
    };
    assert_eq!(y("y = Identity(i)", vec![]), [7.0, -7.0, 0.0, 3.0]);
    assert_eq!(y("y = Div(i, d)", vec![]), [-2.0, 2.0, 0.0, -1.0]);
    assert_eq!(y("y = Mod(i, d)", vec![]), [-2.0, -1.0, 0.0, 0.0]);
    assert_eq!(y("y = Mod(i, d)", vec![int("fmod", 1)]), [1.0, -1.0, 0.0, 0.0]);
    let big = big as f64;
    assert_eq!(y("y = Add(i, b)", vec![]), [big + 7.0, big - 7.0, big, big + 3.0]);
    assert_eq!(y("y = Max(i, d)", vec![]), [7.0, -3.0, 0.0, 3.0]);
    assert_eq!(y("y = Abs(i)", vec![]), [7.0, 7.0, 0.0, 3.0]);
    assert_eq!(y("y = Cast(i)", vec![int("to", 9)]), [1.0, 1.0, 0.0, 1.0]);
}

#[test]
fn functions_of_one_and_two_elements() {
    let x = tensor([3], &[0.5, -1.5, 2.0]);
    let near = |text: &str, expected: [f32; 3]| {
        let found = values(of(15, &["3"]).floats("e", &[3], &[2.0, 2.0, -1.0]), text, vec![], &x);
        assert_close(&found.labelled(text), &expected, 1e-6);
    };
    near("y = Erf(x)", [0.520_499_9, -0.966_105_1, 0.995_322_3]);
    near("y = Floor(x)", [0.0, -2.0, 2.0]);
    near("y = Ceil(x)", [1.0, -1.0, 2.0]);
    near("y = Sign(x)", [1.0, -1.0, 1.0]);
    near("y = Cos(x)", [0.877_582_6, 0.070_737_2, -0.416_146_8]);
    near("y = Atan(x)", [0.463_647_6, -0.982_793_7, 1.107_148_7]);
    near("y = Pow(x, e)", [0.25, 2.25, 0.5]);
}

#[test]
fn quotients_become_the_normalisation_that_they_are() {
    let x = tensor([2, 4], &[1.0, 2.0, 3.0, 6.0, -1.0, -1.0, 3.0, 3.0]);
    let draft = || {
        let draft = of(13, &["2", "4"]).floats("two", &[], &[2.0]).floats("e", &[], &[1e-5]);
        let draft = draft.floats("g", &[4], &[1.0, 1.0, 2.0, 1.0]).floats("s", &[4], &[0.0, 0.5, 0.0, 0.0]);
        draft.node("m = ReduceMean(x)", vec![ints("axes", &[-1])]).node("d = Sub(x, m)", vec![])
    };
    let rest = |draft: Draft| {
        draft.node("a = Add(v, e)", vec![]).node("r = Sqrt(a)", vec![]).node("n = Div(d, r)", vec![])
    };
    let mean = |draft: Draft| draft.node("v = ReduceMean(p)", vec![ints("axes", &[-1])]);
    let power = rest(mean(draft().node("p = Pow(d, two)", vec![])));
    let product = rest(mean(draft().node("p = Mul(d, d)", vec![])));
    let twice = rest(mean(draft().node("k = Sub(x, m)", vec![]).node("p = Pow(k, two)", vec![])));
    for draft in [power, product, twice] {
        let draft = draft.node("h = Mul(n, g)", vec![]).node("y = Add(h, s)", vec![]).output("y");
        let graph = draft.load().unwrap().graph(&[]).unwrap().graph;
        assert_eq!(graph.ops()[0].kind, crate::graph::OpKind::LayerNorm);
        assert_eq!(graph.ops().len(), 3, "{:?}", graph.ops());
        let found = draft.run(&[], std::slice::from_ref(&x)).unwrap();
        assert_close(&found[0], &[-1.069_044, -0.034_522, 0.0, 1.603_566, -1.0, -0.5, 2.0, 1.0], 1e-4);
    }
    // Over another dimension, or of another difference, it is none.
    let first = draft().node("p = Pow(d, two)", vec![]).node("v = ReduceMean(p)", vec![ints("axes", &[0])]);
    let other = mean(draft().node("k = Sub(x, s)", vec![]).node("p = Pow(k, two)", vec![]));
    // The second difference is from the mean of everything.
    let means = draft().node("w = ReduceMean(x)", vec![ints("axes", &[0, 1])]).node("k = Sub(x, w)", vec![]);
    let means = mean(means.node("p = Pow(k, two)", vec![]));
    for draft in [rest(first), rest(other), rest(means)] {
        let graph = draft.output("n").load().unwrap().graph(&[]).unwrap().graph;
        assert!(graph.ops().iter().all(|op| op.kind != crate::graph::OpKind::LayerNorm));
    }
}

#[test]
fn products_become_the_gaussian_unit() {
    let x = tensor([3], &[0.5, -1.5, 2.0]);
    let draft = || {
        let draft = of(15, &["3"]).floats("r", &[], &[std::f32::consts::SQRT_2]).floats("h", &[], &[0.5]);
        draft.floats("one", &[1], &[1.0])
    };
    let erf = |draft: Draft| {
        let draft = draft.node("d = Div(x, r)", vec![]).node("e = Erf(d)", vec![]);
        draft.node("p = Add(one, e)", vec![])
    };
    let last = erf(draft()).node("q = Mul(x, p)", vec![]).node("y = Mul(q, h)", vec![]).output("y");
    let first = erf(draft()).node("q = Mul(h, x)", vec![]).node("y = Mul(p, q)", vec![]).output("y");
    let tanh = draft()
        .floats("three", &[], &[3.0])
        .floats("c", &[], &[0.044_715])
        .floats("s", &[], &[0.797_884_6])
        .node("n = Pow(x, three)", vec![])
        .node("m = Mul(n, c)", vec![])
        .node("i = Add(x, m)", vec![])
        .node("j = Mul(i, s)", vec![])
        .node("t = Tanh(j)", vec![])
        .node("p = Add(t, one)", vec![])
        .node("q = Mul(x, p)", vec![])
        .node("y = Mul(h, q)", vec![])
        .output("y");
    for (draft, mode) in [(last, "gelu_erf"), (first, "gelu_erf"), (tanh, "gelu_tanh")] {
        let graph = draft.load().unwrap().graph(&[]).unwrap().graph;
        let [op] = graph.ops() else { panic!("{:?}", graph.ops()) };
        assert_eq!((op.kind, op.attrs.string("mode").unwrap()), (crate::graph::OpKind::GELU, mode));
        let found = draft.run(&[], std::slice::from_ref(&x)).unwrap();
        assert_close(&found[0], &[0.345_731, -0.100_21, 1.954_5], 2e-3);
    }
    // Another number is another function.
    let other = erf(draft()).node("q = Mul(x, p)", vec![]).node("y = Mul(q, r)", vec![]).output("y");
    assert!(other.load().unwrap().graph(&[]).unwrap().graph.ops().len() > 4);
}
