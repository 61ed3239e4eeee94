//! What exporters write out and importing puts together again.

use super::*;
use crate::graph::OpKind;

#[test]
fn piecewise_linear_units_are_known_by_what_makes_them() {
    let draft = || {
        let draft = Draft::new(13).input("x", &["4"]).floats("three", &[], &[3.0]).floats("low", &[], &[0.0]);
        let draft = draft.floats("six", &[], &[6.0]).floats("sixth", &[1], &[1.0 / 6.0]);
        draft.node("s = Add(x, three)", vec![]).node("c = Clip(s, low, six)", vec![])
    };
    let gate = || vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
    let product = draft().node("p = Mul(x, c)", vec![]).node("y = Div(p, six)", vec![]).output("y");
    let factor = draft().node("p = Mul(c, x)", vec![]).node("y = Mul(sixth, p)", vec![]).output("y");
    let gated = draft().node("g = Div(c, six)", vec![]).node("y = Mul(x, g)", vec![]).output("y");
    let given = draft().node("g = HardSigmoid(x)", gate()).node("y = Mul(g, x)", vec![]).output("y");
    let x = tensor([4], &[-4.0, -1.0, 1.0, 4.0]);
    for draft in [product, factor, gated, given] {
        assert_eq!(kinds(&draft), [OpKind::HardSwish]);
        let found = draft.run(&[], std::slice::from_ref(&x)).unwrap();
        assert_close(&found[0], &[0.0, -1.0 / 3.0, 2.0 / 3.0, 4.0], 1e-5);
    }
    let sigmoid = draft().node("y = Div(c, six)", vec![]).output("y");
    assert_eq!(kinds(&sigmoid), [OpKind::HardSigmoid]);
    // Of another value it is no such unit.
    let other = draft().node("p = Mul(s, c)", vec![]).node("y = Div(p, six)", vec![]).output("y");
    assert_eq!(kinds(&other), [OpKind::Add, OpKind::Clamp, OpKind::Multiply, OpKind::Divide]);
}

#[test]
fn normalizations_become_part_of_the_convolution_before_them() {
    let draft = || {
        let draft = Draft::new(15).input("x", &["1", "1", "2"]);
        let draft = draft.floats("scale", &[2], &[2.0, 3.0]).floats("shift", &[2], &[0.5, -0.5]);
        draft.floats("mean", &[2], &[1.0, 2.0]).floats("variance", &[2], &[4.0, 0.25])
    };
    let normal = "y = BatchNormalization(c, scale, shift, mean, variance)";
    let exact = || vec![float("epsilon", 0.0)];
    let x = [tensor([1, 1, 2], &[1.0, 3.0])];
    // Factors 1 and 6; the convolution gives 2x and 4x, the biases 1 and -1.
    let plain = draft()
        .floats("w", &[2, 1, 1], &[2.0, 4.0])
        .floats("b", &[2], &[1.0, -1.0])
        .node("c = Conv(x, w, b)", vec![])
        .node(normal, exact())
        .output("y");
    assert_eq!(kinds(&plain), [OpKind::Convolution]);
    assert_eq!(plain.run(&[], &x).unwrap()[0].to_f32s(), [2.5, 6.5, 5.5, 53.5]);
    let summed = draft()
        .floats("w", &[1, 2, 1], &[2.0, 4.0])
        .floats("b", &[1, 2, 1], &[1.0, -1.0])
        .node("t = ConvTranspose(x, w)", vec![])
        .node("c = Add(t, b)", vec![])
        .node(normal, exact())
        .output("y");
    assert_eq!(kinds(&summed), [OpKind::ConvTranspose]);
    assert_eq!(summed.run(&[], &x).unwrap()[0].to_f32s(), [2.5, 6.5, 5.5, 53.5]);
    // Weights that come with the execution are not known.
    let open =
        draft().input("w", &["2", "1", "1"]).node("c = Conv(x, w)", vec![]).node(normal, exact()).output("y");
    assert_eq!(kinds(&open), [OpKind::Convolution, OpKind::BatchNormInference]);
}

#[test]
fn rows_with_a_single_one_choose_rows_of_a_matrix() {
    let draft = |counts: &[i64], weights: &[f32]| {
        let draft = Draft::new(13).input("x", &["5"]).ints("one", &[2], &[5, 1]).ints("n", &[3], counts);
        let draft = draft.floats("w", &[3, 2], weights).node("i = Cast(x)", vec![int("to", 7)]);
        let draft = draft.node("c = Reshape(i, one)", vec![]).node("e = Equal(c, n)", vec![]);
        draft.node("h = Cast(e)", vec![int("to", 1)]).node("y = MatMul(h, w)", vec![]).output("y")
    };
    let weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let hot = draft(&[0, 1, 2], &weights);
    let kinds_of = kinds(&hot);
    assert!(kinds_of.contains(&OpKind::Gather) && !kinds_of.contains(&OpKind::MatMul), "{kinds_of:?}");
    // An index beyond the rows chooses none, also one that would count from the end.
    let x = [tensor([5], &[2.0, -1.0, 3.0, 0.0, -4.0])];
    let expected = [5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0];
    assert_eq!(hot.run(&[], &x).unwrap()[0].to_f32s(), expected);
    // In another order, or where zero times something is no zero, it stays a product.
    let turned = draft(&[0, 2, 1], &weights);
    assert!(kinds(&turned).contains(&OpKind::MatMul));
    assert_eq!(turned.run(&[], &x).unwrap()[0].to_f32s()[..2], [3.0, 4.0]);
    assert!(kinds(&draft(&[0, 1, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, f32::NAN])).contains(&OpKind::MatMul));
}

#[test]
fn products_and_sums_of_channels_become_part_of_the_convolution_before_them() {
    let draft = || {
        let draft = Draft::new(15).input("x", &["1", "1", "2"]).floats("w", &[2, 1, 1], &[2.0, 4.0]);
        let draft = draft.floats("b", &[2], &[1.0, -1.0]).floats("two", &[1], &[2.0]);
        draft.floats("each", &[2, 1], &[10.0, 100.0]).floats("pixels", &[1, 2], &[3.0, 5.0])
    };
    let x = [tensor([1, 1, 2], &[1.0, 3.0])];
    // The convolution gives 2x and 4x, the biases 1 and -1.
    let convolved = || draft().node("c = Conv(x, w, b)", vec![]);
    let affine = convolved()
        .node("p = Mul(two, c)", vec![])
        .node("s = Add(p, each)", vec![])
        .node("y = Mul(s, each)", vec![]);
    let affine = affine.output("y");
    assert_eq!(kinds(&affine), [OpKind::Convolution]);
    assert_eq!(affine.run(&[], &x).unwrap()[0].to_f32s(), [160.0, 240.0, 10_600.0, 12_200.0]);
    let without_bias = draft().node("c = Conv(x, w)", vec![]).node("y = Mul(c, each)", vec![]).output("y");
    assert_eq!(kinds(&without_bias), [OpKind::Convolution]);
    assert_eq!(without_bias.run(&[], &x).unwrap()[0].to_f32s(), [20.0, 60.0, 400.0, 1200.0]);
    let transposed = draft()
        .floats("t", &[1, 2, 1], &[2.0, 4.0])
        .node("c = ConvTranspose(x, t)", vec![])
        .node("p = Mul(c, each)", vec![])
        .node("y = Add(two, p)", vec![])
        .output("y");
    assert_eq!(kinds(&transposed), [OpKind::ConvTranspose]);
    assert_eq!(transposed.run(&[], &x).unwrap()[0].to_f32s(), [22.0, 62.0, 402.0, 1202.0]);
    // The same number behind convolutions of unlike channels.
    let unlike = draft()
        .floats("v", &[3, 2, 1], &[1.0; 6])
        .node("c = Conv(x, w)", vec![])
        .node("s = Add(c, two)", vec![])
        .node("d = Conv(s, v)", vec![])
        .node("y = Add(d, two)", vec![])
        .output("y");
    assert_eq!(kinds(&unlike), [OpKind::Convolution, OpKind::Convolution]);
    let session = unlike.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    let found = session.run(&[("x", x[0].clone())]).unwrap();
    assert_eq!(found[0].1.to_f32s(), [12.0, 24.0, 12.0, 24.0, 12.0, 24.0]);
    // What each pixel meets is no matter of channels, and what others read as well stays.
    let of_pixels = convolved().node("y = Mul(c, pixels)", vec![]).output("y");
    assert_eq!(kinds(&of_pixels), [OpKind::Convolution, OpKind::Multiply]);
    let read_twice = convolved().node("p = Mul(c, two)", vec![]).node("y = Add(p, c)", vec![]).output("y");
    assert_eq!(kinds(&read_twice), [OpKind::Convolution, OpKind::Multiply, OpKind::Add]);
    assert_eq!(read_twice.run(&[], &x).unwrap()[0].to_f32s(), [9.0, 21.0, 9.0, 33.0]);
}

/// What attention's factors are multiplied by once heads lie apart belongs to the products that make them, whatever else reads the heads.
#[test]
fn numbers_that_multiply_views_of_products_go_with_the_products() {
    let draft = |scale: &str| {
        let draft = Draft::new(17).input("x", &["2", "4"]).floats("w", &[4, 4], &[0.5; 16]);
        let draft = draft.floats("number", &[1], &[4.0]).ints("heads", &[3], &[2, 2, 2]);
        let draft = draft.node("p = MatMul(x, w)", vec![]).node("r = Reshape(p, heads)", vec![]);
        let draft = draft.node("t = Transpose(r)", vec![ints("perm", &[1, 0, 2])]);
        draft.node(scale, vec![]).output("y")
    };
    let x = [tensor([2, 4], &[1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -5.0])];
    let views = [OpKind::StaticReshape, OpKind::StaticTranspose];
    for (scale, kind, value) in [
        ("y = Mul(t, number)", OpKind::Multiply, [20.0, 20.0, -22.0, -22.0]),
        ("y = Mul(number, t)", OpKind::Multiply, [20.0, 20.0, -22.0, -22.0]),
        ("y = Div(t, number)", OpKind::Divide, [1.25, 1.25, -1.375, -1.375]),
    ] {
        let all = [&[OpKind::MatMul, kind][..], &views].concat();
        assert_eq!(kinds(&draft(scale)), all, "{scale}");
        let made = draft(scale).run(&[], &x).unwrap()[0].to_f32s();
        assert_eq!(made, [value, value].concat(), "{scale}");
        let both = draft(scale).node("s = Shape(t)", vec![]).output("s");
        assert_eq!(kinds(&both)[..4], all, "{scale}");
    }
    // A number divided by views is none of them, and of a sum nothing is gained.
    let [last, ..] = [kinds(&draft("y = Div(number, t)")).pop()];
    assert_eq!(last, Some(OpKind::Divide));
    let of_input = Draft::new(17).input("x", &["2", "4"]).floats("number", &[], &[4.0]);
    let of_input = of_input.node("t = Transpose(x)", vec![]).node("y = Mul(t, number)", vec![]).output("y");
    assert_eq!(kinds(&of_input), [OpKind::StaticTranspose, OpKind::Multiply]);
}

/// An index that comes with the execution chooses nothing where there is one part.
#[test]
fn one_of_one_part_is_that_part() {
    let draft = Draft::new(17).input("x", &["1", "3"]).typed("i", 7, &["1"]);
    let draft = draft.node("y = Gather(x, i)", vec![]).output("y");
    assert!(!kinds(&draft).contains(&OpKind::Gather));
    let index = HostTensor::from_f64([1], anydnn_backend::DataType::S64, &[0.0]).unwrap();
    let made = draft.run(&[], &[tensor([1, 3], &[1.0, 2.0, 3.0]), index]).unwrap();
    assert_eq!(made[0].to_f32s(), [1.0, 2.0, 3.0]);
}

/// Biases, functions and sums ride on a product although its reshape stands between.
#[test]
fn reshapes_of_products_go_behind_what_is_computed_of_elements() {
    let product = |shape: &[i64]| {
        let draft = Draft::new(13).input("x", &["6", "2"]).floats(
            "w",
            &[2, 4],
            &[1.0, 2.0, 3.0, 4.0, 4.0, 3.0, 2.0, 1.0],
        );
        let draft = draft.ints("shape", &[shape.len() as i64], shape).node("p = MatMul(x, w)", vec![]);
        draft.node("r = Reshape(p, shape)", vec![])
    };
    let values: Vec<f32> = (0..12).map(|i| i as f32 - 5.0).collect();
    let x = || [tensor([6, 2], &values)];
    let products: Vec<f32> = values
        .chunks(2)
        .flat_map(|x| [1, 2, 3, 4].map(|n| x[0] * n as f32 + x[1] * (5 - n) as f32))
        .collect();
    let expected = |bias: &[f32], residual: f32| -> Vec<f32> {
        let sum = |(i, p): (usize, &f32)| (p + bias[i % bias.len()]).max(0.0) + residual * i as f32;
        products.iter().enumerate().map(sum).collect()
    };
    let made = |draft: &Draft| {
        let found = draft.run(&[], &x()).unwrap().remove(0);
        (found.dims().to_vec(), found.to_f32s())
    };
    let bias = [1.0, -2.0, 3.0, -4.0];
    // A row, as a matrix, and one number.
    for (shape, dims, bias) in [
        (&[2_i64, 3, 4][..], &[4_i64][..], &bias[..]),
        (&[1, 6, 2, 2], &[2, 2], &bias),
        (&[1, 6, 2, 2], &[1, 1, 1, 1], &[-3.0]),
    ] {
        let draft =
            product(shape).floats("b", dims, bias).node("s = Add(b, r)", vec![]).node("y = Relu(s)", vec![]);
        let draft = draft.output("y");
        let kinds = kinds(&draft);
        assert_eq!(kinds.iter().filter(|kind| **kind != OpKind::StaticReshape).count(), 3, "{kinds:?}");
        assert_eq!(kinds.last(), Some(&OpKind::StaticReshape));
        assert_eq!(made(&draft), (shape.iter().map(|&n| n as usize).collect(), expected(bias, 0.0)));
    }
    // All elements of another tensor, behind a function.
    let counts: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let residual = || product(&[2, 3, 4]).floats("c", &[2, 3, 4], &counts).node("f = Relu(r)", vec![]);
    let draft = residual().node("y = Add(f, c)", vec![]).output("y");
    assert_eq!(kinds(&draft).last(), Some(&OpKind::StaticReshape));
    assert_eq!(made(&draft), (vec![2, 3, 4], expected(&[0.0], 1.0)));
    // Several reshapes, as of a tensor whose dimensions of one go and come.
    let several = product(&[1, 6, 1, 4]).ints("axes", &[1], &[0]).node("q = Squeeze(r, axes)", vec![]);
    let several = several
        .floats("b", &[4], &bias)
        .node("s = Add(q, b)", vec![])
        .node("y = Relu(s)", vec![])
        .output("y");
    assert_eq!(kinds(&several), [OpKind::MatMul, OpKind::Add, OpKind::ReLU, OpKind::StaticReshape]);
    assert_eq!(made(&several), (vec![6, 1, 4], expected(&bias, 0.0)));
    // What makes the other summand takes it along.
    let other = product(&[2, 3, 4]).floats("v", &[2, 4, 4], &[0.5; 32]).floats("z", &[2, 3, 4], &[1.0; 24]);
    let other = other.node("m = MatMul(z, v)", vec![]).node("y = Add(r, m)", vec![]).output("y");
    assert_eq!(kinds(&other).last(), Some(&OpKind::Add));
    // What somebody else reads stays, and so does what has no counterpart.
    let twice = product(&[2, 3, 4]).node("f = Relu(r)", vec![]).node("y = Add(f, r)", vec![]).output("y");
    assert_eq!(kinds(&twice).last(), Some(&OpKind::Add));
    let inner =
        product(&[2, 3, 4]).floats("b", &[3, 1], &[1.0, 2.0, 3.0]).node("y = Add(r, b)", vec![]).output("y");
    assert_eq!(kinds(&inner).last(), Some(&OpKind::Add));
    let stretched =
        product(&[1, 6, 4]).floats("b", &[2, 1, 1], &[1.0, 2.0]).node("y = Add(r, b)", vec![]).output("y");
    assert_eq!(kinds(&stretched).last(), Some(&OpKind::Add));
}

#[test]
fn numbers_that_change_nothing_and_views_back_are_left_out() {
    let draft = || {
        let draft = Draft::new(13).input("x", &["2", "3"]).floats("zero", &[1], &[0.0]);
        let draft = draft.floats("one", &[], &[1.0]).floats("ones", &[2, 1, 1], &[1.0, 1.0]);
        draft.ints("axis", &[1], &[0]).node("r = Relu(x)", vec![])
    };
    let x = tensor([2, 3], &[1.0, -2.0, 3.0, 4.0, 5.0, -6.0]);
    let same = |text: &[&str], left: &[OpKind]| {
        let draft = text.iter().fold(draft(), |draft, text| draft.node(text, vec![])).output("y");
        assert_eq!(kinds(&draft), left, "{text:?}");
        draft.run(&[], std::slice::from_ref(&x)).unwrap().remove(0)
    };
    for text in ["Add(r, zero)", "Add(zero, r)", "Sub(r, zero)", "Mul(one, r)", "Mul(r, one)", "Div(r, one)"]
    {
        let made = same(&[&format!("s = {text}"), "y = Neg(s)"], &[OpKind::ReLU, OpKind::Multiply]);
        assert_eq!(made.to_f32s(), [-1.0, 0.0, -3.0, -4.0, -5.0, 0.0], "{text}");
    }
    let made = same(
        &["u = Unsqueeze(r, axis)", "s = Add(u, zero)", "v = Squeeze(s, axis)", "y = Neg(v)"],
        &[OpKind::ReLU, OpKind::Multiply],
    );
    assert_eq!(made.dims()[..], [2, 3]);
    // These change the number or the dimensions.
    same(&["y = Sub(zero, r)"], &[OpKind::ReLU, OpKind::Subtract]);
    same(&["y = Div(one, r)"], &[OpKind::ReLU, OpKind::Divide]);
    assert_eq!(same(&["y = Mul(r, ones)"], &[OpKind::ReLU, OpKind::Multiply]).dims()[..], [2, 2, 3]);
}
