//! Random cases of each primitive, in the words that `compare.cpp` reads.

use std::fmt::Write;

use super::random::{Random, Words, md, shape};

/// Draws a case.
pub(crate) type Draw = fn(&mut Random) -> Words;

/// The primitives, each with what draws a case of it.
pub(crate) const PRIMITIVES: [(&str, Draw); 20] = [
    ("eltwise", eltwise),
    ("matmul", matmul),
    ("softmax", softmax),
    ("reorder", reorder),
    ("binary", binary),
    ("reduction", reduction),
    ("concat", concat),
    ("sum", sum),
    ("convolution", convolution),
    ("deconvolution", deconvolution),
    ("inner_product", inner_product),
    ("pooling", pooling),
    ("prelu", prelu),
    ("shuffle", shuffle),
    ("lrn", lrn),
    ("batch_normalization", batch_normalization),
    ("group_normalization", group_normalization),
    ("layer_normalization", layer_normalization),
    ("resampling", resampling),
    ("rnn", super::recurrent::rnn),
];

const FLOATS: [&str; 5] = ["f32", "f32", "f32", "bf16", "f16"];
const ALL: [&str; 8] = ["f32", "f32", "f32", "bf16", "f16", "s32", "s8", "u8"];
const FORWARD: [&str; 2] = ["forward_inference", "forward_training"];

/// Functions with their alpha and beta.
const FUNCTIONS: [(&str, f32, f32); 28] = [
    ("relu", 0.0, 0.0),
    ("relu", 0.25, 0.0),
    ("tanh", 0.0, 0.0),
    ("elu", 0.5, 0.0),
    ("square", 0.0, 0.0),
    ("abs", 0.0, 0.0),
    ("sqrt", 0.0, 0.0),
    ("linear", 0.5, 0.25),
    ("soft_relu", 2.0, 0.0),
    ("soft_relu", 0.0, 0.0),
    ("hardsigmoid", 0.25, 0.5),
    ("logistic", 0.0, 0.0),
    ("exp", 0.0, 0.0),
    ("gelu_tanh", 0.0, 0.0),
    ("swish", 1.5, 0.0),
    ("log", 0.0, 0.0),
    ("clip", -0.5, 1.0),
    ("clip_v2", -0.5, 1.0),
    ("pow", 0.5, 2.0),
    ("gelu_erf", 0.0, 0.0),
    ("round", 0.0, 0.0),
    ("mish", 0.0, 0.0),
    ("hardswish", 0.25, 0.5),
    ("relu_use_dst_for_bwd", 0.25, 0.0),
    ("tanh_use_dst_for_bwd", 0.0, 0.0),
    ("logistic_use_dst_for_bwd", 0.0, 0.0),
    ("exp_use_dst_for_bwd", 0.0, 0.0),
    ("sqrt_use_dst_for_bwd", 0.0, 0.0),
];

/// A pass: inference, training or backward.
fn pass(r: &mut Random, w: &mut Words) -> bool {
    let backward = r.one_in(3);
    w.set("prop", if backward { "backward_data" } else { r.of(&FORWARD) });
    backward
}

fn post_ops(r: &mut Random, w: &mut Words, dims: &[usize], dst: &str) {
    // oneDNN takes them for inference alone.
    if w.get("prop").is_some_and(|prop| prop != "forward_inference") {
        return;
    }
    let products = ["matmul", "convolution", "deconvolution", "inner_product"];
    let is_product = products.contains(&w.primitive());
    let sums = is_product || ["binary", "reduction", "resampling"].contains(&w.primitive());
    for _ in 0..[0, 0, 0, 1, 1, 2, 3][r.below(7)] {
        let text = match r.below(5) {
            0 if sums => {
                let scale = r.of(&["1", "0.5", "2"]);
                if r.one_in(4) { format!("sum:{scale}:0:{dst}") } else { format!("sum:{scale}") }
            }
            1 | 2 => {
                let (name, alpha, beta) = FUNCTIONS[r.below(FUNCTIONS.len() - 5)];
                if ["log", "pow", "sqrt"].contains(&name) {
                    continue;
                }
                format!("eltwise_{name}:{alpha}:{beta}")
            }
            3 => {
                let name = r.of(&["add", "mul", "max", "min", "sub", "div", "ge", "lt", "eq"]);
                let dims = r.broadcast(dims);
                let layout = r.plain(dims.len());
                format!("binary_{name}:{}:{}:{layout}", r.of(&["f32", "f32", "bf16", "s8"]), shape(&dims))
            }
            4 if is_product => format!("prelu:{}", r.of(&[0, 2, (1 << dims.len()) - 1])),
            _ => continue,
        };
        w.add("po", text);
    }
}

fn eltwise(r: &mut Random) -> Words {
    let mut w = Words::new("eltwise");
    let backward = pass(r, &mut w);
    let (name, alpha, beta) = FUNCTIONS[r.below(FUNCTIONS.len())];
    let data_type = if ["relu", "linear"].contains(&name) && !backward { r.of(&ALL) } else { r.of(&FLOATS) };
    let dims = r.dims_of(1, 5);
    let layout = r.layout(&dims);
    w.set("alg", format!("eltwise_{name}")).set("alpha", alpha).set("beta", beta).set("functions", 1);
    w.set("src", md(data_type, &dims, &layout));
    let other = if r.one_in(4) { r.layout(&dims) } else { layout };
    w.set("dst", md(data_type, &dims, &other));
    if ["log", "pow", "sqrt", "sqrt_use_dst_for_bwd"].contains(&name) {
        w.set("fill.src", "positive");
    }
    if !backward {
        post_ops(r, &mut w, &dims, data_type);
    }
    w
}

fn softmax(r: &mut Random) -> Words {
    let mut w = Words::new("softmax");
    let backward = pass(r, &mut w);
    let dims = r.dims_of(1, 4);
    let axis = r.below(dims.len());
    let algorithm = r.of(&["softmax_accurate", "softmax_log", "softmax_accurate_inf_as_zero"]);
    w.set("alg", algorithm).set("axis", axis).set("terms", dims[axis]).set("functions", 2);
    let src = r.of(&FLOATS);
    let dst = if r.one_in(4) && !backward { r.of(&["f32", "bf16", "s8", "u8"]) } else { src };
    let layout = r.layout(&dims);
    w.set("src", md(src, &dims, &layout));
    let other = if r.one_in(4) { "any".to_owned() } else { layout.clone() };
    w.set("dst", md(dst, &dims, &other));
    if !backward {
        if r.one_in(2) && dst.ends_with('8') {
            w.add("scale", "dst:0");
        }
        post_ops(r, &mut w, &dims, dst);
        if r.one_in(4) {
            w.set("src", md(r.of(&["s8", "u8"]), &dims, &layout)).add("scale", "src:0");
        }
    }
    w
}

pub(crate) fn matmul(r: &mut Random) -> Words {
    let mut w = Words::new("matmul");
    let (m, k, n) = (r.dim(), r.dim(), r.dim());
    let batch: Vec<usize> = (0..r.below(3)).map(|_| r.below(3) + 1).collect();
    let with = |tail: [usize; 2], r: &mut Random, may: bool| {
        let head = batch.iter().map(|&dim| if may && r.one_in(4) { 1 } else { dim });
        head.chain(tail).collect::<Vec<_>>()
    };
    let (src_dims, wei_dims) = (with([m, k], r, true), with([k, n], r, true));
    let mut dst_dims: Vec<usize> = src_dims.iter().zip(&wei_dims).map(|(&a, &b)| a.max(b)).collect();
    let rank = dst_dims.len();
    (dst_dims[rank - 2], dst_dims[rank - 1]) = (m, n);
    let (src, wei, dst) = types(r);
    let product = |r: &mut Random| r.product(rank);
    let (a, b) = (product(r), if r.one_in(4) { "any".to_owned() } else { product(r) });
    w.set("src", md(src, &src_dims, &a)).set("wei", md(wei, &wei_dims, &b));
    let layout = if r.one_in(4) { "any".to_owned() } else { r.plain(rank) };
    w.set("dst", md(dst, &dst_dims, &layout)).set("terms", k);
    if r.one_in(2) {
        let mut dims = vec![1; rank];
        dims[rank - 1] = n;
        w.set("bia", md(if r.one_in(3) { dst } else { "f32" }, &dims, &r.plain(rank)));
    }
    quantization(r, &mut w, src, dst, 1 << (rank - 1));
    post_ops(r, &mut w, &dst_dims, dst);
    w
}

/// Types of a product's operands.
fn types(r: &mut Random) -> (&'static str, &'static str, &'static str) {
    r.of(&[
        ("f32", "f32", "f32"),
        ("f32", "f32", "f32"),
        ("f32", "f32", "f32"),
        ("bf16", "bf16", "bf16"),
        ("bf16", "bf16", "f32"),
        ("f16", "f16", "f16"),
        ("u8", "s8", "f32"),
        ("s8", "s8", "f32"),
        ("u8", "s8", "u8"),
        ("s8", "s8", "s32"),
        ("u8", "s8", "bf16"),
    ])
}

/// Scales and zero points of a product.
fn quantization(r: &mut Random, w: &mut Words, src: &str, dst: &str, of_weights: i32) {
    if src.ends_with('8') && r.one_in(2) || r.one_in(10) {
        w.add("scale", "src:0");
        w.add("scale", format!("wei:{}", r.of(&[0, of_weights])));
        if r.one_in(2) {
            w.add("scale", "dst:0");
        }
    }
    if src.ends_with('8') && r.one_in(3) {
        w.add("zp", "src:0");
        if dst.ends_with('8') && r.one_in(2) {
            w.add("zp", "dst:0");
        }
    }
}

fn reorder(r: &mut Random) -> Words {
    let mut w = Words::new("reorder");
    let dims = r.dims_of(1, 5);
    let (src, dst) = (r.of(&ALL), r.of(&ALL));
    let (a, b) = (r.layout(&dims), r.layout(&dims));
    w.set("src", md(src, &dims, &a)).set("dst", md(dst, &dims, &b));
    for arg in ["src", "dst"] {
        if r.one_in(5) {
            let mask = r.of(&[0, if dims.len() > 1 { 2 } else { 1 }]);
            w.add("scale", format!("{arg}:{mask}"));
        }
        let is_integer = !["f32", "bf16", "f16"].contains(if arg == "src" { &src } else { &dst });
        if r.one_in(6) && (is_integer || r.one_in(8)) {
            w.add("zp", format!("{arg}:0"));
        }
    }
    if r.one_in(6) {
        w.add("po", "sum:0.5");
    }
    w
}

fn binary(r: &mut Random) -> Words {
    let mut w = Words::new("binary");
    let names = ["add", "mul", "max", "min", "div", "sub", "ge", "gt", "le", "lt", "eq", "ne"];
    let name = r.of(&names);
    let dims = r.dims_of(1, 5);
    let other = r.broadcast(&dims);
    let (src, src1) = (r.of(&ALL), r.of(&ALL));
    let dst = if r.one_in(3) { r.of(&ALL) } else { src };
    w.set("alg", format!("binary_{name}")).set("functions", 1);
    let (a, b) = (r.layout(&dims), r.layout(&other));
    w.set("src", md(src, &dims, &a)).set("src1", md(src1, &other, &b));
    let layout = if r.one_in(4) { "any".to_owned() } else { a };
    w.set("dst", md(dst, &dims, &layout));
    if name == "div" {
        w.set("fill.src1", "positive");
    }
    for arg in ["src0", "src1"] {
        if r.one_in(8) {
            w.add("scale", format!("{arg}:0"));
        }
    }
    post_ops(r, &mut w, &dims, dst);
    w
}

fn reduction(r: &mut Random) -> Words {
    let mut w = Words::new("reduction");
    let name = r.of(&[
        "max",
        "min",
        "sum",
        "mul",
        "mean",
        "norm_lp_max",
        "norm_lp_sum",
        "norm_lp_power_p_max",
        "norm_lp_power_p_sum",
    ]);
    let dims = r.dims_of(1, 4);
    let mut to: Vec<usize> = dims.iter().map(|&dim| if r.one_in(2) { 1 } else { dim }).collect();
    // Nothing to reduce is an error.
    if to == dims && !r.one_in(8) {
        to[0] = 1;
    }
    let terms = dims.iter().product::<usize>() / to.iter().product::<usize>().max(1);
    let src = r.of(&ALL);
    let dst = if r.one_in(3) { "f32" } else { src };
    w.set("alg", format!("reduction_{name}")).set("alpha", r.of(&[1, 2, 3])).set("beta", r.of(&["0", "0.5"]));
    let (a, b) = (r.layout(&dims), r.of(&["any", "plain"]));
    let b = if b == "any" { b.to_owned() } else { r.plain(to.len()) };
    w.set("src", md(src, &dims, &a)).set("dst", md(dst, &to, &b)).set("terms", terms).set("functions", 2);
    if name == "mul" {
        w.set("fill", "scale");
    }
    post_ops(r, &mut w, &to, dst);
    w
}

fn concat(r: &mut Random) -> Words {
    let mut w = Words::new("concat");
    let mut dims = r.dims_of(1, 4);
    let axis = r.below(dims.len());
    let data_type = r.of(&ALL);
    let mut total = 0;
    for _ in 0..r.below(3) + 2 {
        dims[axis] = r.dim();
        total += dims[axis];
        let layout = r.layout(&dims);
        w.add("multiple", md(data_type, &dims, &layout));
    }
    dims[axis] = total;
    w.set("axis", axis);
    if !r.one_in(3) {
        let layout = if r.one_in(2) { "any".to_owned() } else { r.layout(&dims) };
        w.set("dst", md(data_type, &dims, &layout));
    }
    if r.one_in(3) {
        for i in 0..w.count("multiple") {
            if r.one_in(2) {
                w.add("scale", format!("multiple{i}:0"));
            }
        }
    }
    w
}

fn sum(r: &mut Random) -> Words {
    let mut w = Words::new("sum");
    let dims = r.dims_of(1, 4);
    let count = r.below(3) + 1;
    let data_type = r.of(&ALL);
    let layout = r.layout(&dims);
    let mut scales = String::new();
    for i in 0..count {
        let layout = if r.one_in(4) { r.layout(&dims) } else { layout.clone() };
        w.add("multiple", md(data_type, &dims, &layout));
        write!(scales, "{}{}", if i > 0 { "x" } else { "" }, r.of(&[4, 2, 8, -4])).unwrap();
    }
    w.set("scales", scales).set("functions", 1);
    if r.one_in(2) {
        w.set("dst", md(if r.one_in(3) { "f32" } else { data_type }, &dims, &layout));
    }
    w
}

/// Sizes of a window over one dimension: source, kernel, stride, dilation, padding on both sides, result.
fn window(r: &mut Random) -> [usize; 7] {
    let (kernel, stride, dilation) = (r.below(3) + 1, r.below(2) + 1, [0, 0, 1][r.below(3)]);
    let extent = (kernel - 1) * (dilation + 1) + 1;
    let (left, right) = (r.below(kernel), r.below(kernel));
    let source = r.below(6) + extent;
    let rest = (source + left + right - extent) % stride;
    // Some libraries compute the padding behind from the other sizes.
    let right = if right >= rest { right - rest } else { right };
    [source, kernel, stride, dilation, left, right, (source + left + right - extent) / stride + 1]
}

fn joined(windows: &[[usize; 7]], what: usize) -> String {
    shape(&windows.iter().map(|window| window[what]).collect::<Vec<_>>())
}

fn convolution(r: &mut Random) -> Words {
    convolution_of(r, "convolution", false)
}

fn deconvolution(r: &mut Random) -> Words {
    convolution_of(r, "deconvolution", true)
}

fn convolution_of(r: &mut Random, name: &str, transposed: bool) -> Words {
    let mut w = Words::new(name);
    let windows: Vec<_> = (0..[1, 2, 2, 2, 3][r.below(5)]).map(|_| window(r)).collect();
    let groups = r.of(&[1, 1, 1, 2, 4]);
    let (per_in, per_out) = (r.of(&[1, 2, 3, 8]), r.of(&[1, 2, 5, 16]));
    let n = r.below(2) + 1;
    let prop = r.of(&["forward_inference", "forward_training", "backward_data", "backward_weights"]);
    let backward = prop.starts_with("backward");
    w.set("prop", prop)
        .set("alg", format!("{name}_{}", if transposed { "direct" } else { r.of(&["direct", "auto"]) }));
    let spatial = |what: usize| windows.iter().map(|window| window[what]).collect::<Vec<_>>();
    let image = |channels: usize, what: usize| [vec![n, channels], spatial(what)].concat();
    let (from, to) = if transposed { (6, 0) } else { (0, 6) };
    let (src_dims, dst_dims) = (image(groups * per_in, from), image(groups * per_out, to));
    let mut wei_dims = [vec![per_out, per_in], spatial(1)].concat();
    if groups > 1 || r.one_in(5) {
        wei_dims.insert(0, groups);
    }
    let (src, wei, dst) =
        if backward { r.of(&[("f32", "f32", "f32"), ("bf16", "bf16", "bf16")]) } else { types(r) };
    let layouts =
        |r: &mut Random, dims: &[usize]| if r.one_in(2) { "any".to_owned() } else { r.layout(dims) };
    let (a, b, c) = (layouts(r, &src_dims), layouts(r, &wei_dims), layouts(r, &dst_dims));
    let b = if b == "any" { b } else { r.plain(wei_dims.len()) };
    w.set("src", md(src, &src_dims, &a))
        .set("wei", md(wei, &wei_dims, &b))
        .set("dst", md(dst, &dst_dims, &c));
    if r.one_in(2) && prop != "backward_data" {
        w.set("bia", md(if backward { wei } else { "f32" }, &[groups * per_out], "a"));
    }
    for (key, what) in [("strides", 2), ("dilates", 3), ("left", 4), ("right", 5)] {
        w.set(key, joined(&windows, what));
    }
    let kernel: usize = spatial(1).iter().product();
    w.set(
        "terms",
        match prop {
            "backward_weights" => n * spatial(6).iter().product::<usize>(),
            "backward_data" => per_out * kernel,
            _ => per_in * kernel,
        },
    );
    if !backward {
        quantization(r, &mut w, src, dst, if wei_dims.len() > src_dims.len() { 3 } else { 1 });
        post_ops(r, &mut w, &dst_dims, dst);
    }
    w
}

fn inner_product(r: &mut Random) -> Words {
    let mut w = Words::new("inner_product");
    let prop = r.of(&["forward_inference", "forward_training", "backward_data", "backward_weights"]);
    let backward = prop.starts_with("backward");
    let (n, oc) = (r.dim(), r.dim());
    let mut src_dims = vec![n, r.dim()];
    src_dims.extend((0..r.below(3)).map(|_| r.below(3) + 1));
    let wei_dims = [vec![oc], src_dims[1..].to_vec()].concat();
    let (src, wei, dst) =
        if backward { r.of(&[("f32", "f32", "f32"), ("bf16", "bf16", "bf16")]) } else { types(r) };
    let layout = |r: &mut Random, rank: usize| if r.one_in(2) { "any".to_owned() } else { r.plain(rank) };
    let (a, b, c) = (layout(r, src_dims.len()), layout(r, wei_dims.len()), layout(r, 2));
    w.set("prop", prop)
        .set("src", md(src, &src_dims, &a))
        .set("wei", md(wei, &wei_dims, &b))
        .set("dst", md(dst, &[n, oc], &c));
    let inner: usize = src_dims[1..].iter().product();
    w.set(
        "terms",
        match prop {
            "backward_weights" => n,
            "backward_data" => oc,
            _ => inner,
        },
    );
    if r.one_in(2) && prop != "backward_data" {
        w.set("bia", md(if backward { wei } else { "f32" }, &[oc], "a"));
    }
    if !backward {
        quantization(r, &mut w, src, dst, 1);
        post_ops(r, &mut w, &[n, oc], dst);
    }
    w
}

fn pooling(r: &mut Random) -> Words {
    let mut w = Words::new("pooling");
    let backward = pass(r, &mut w);
    let windows: Vec<_> = (0..[1, 2, 2, 3][r.below(4)]).map(|_| window(r)).collect();
    let name = r.of(&["max", "avg_include_padding", "avg_exclude_padding"]);
    let (n, c) = (r.below(2) + 1, r.of(&[1, 3, 8, 17]));
    let image = |what: usize| windows.iter().map(|w| w[what]).collect::<Vec<_>>();
    let (src_dims, dst_dims) = ([vec![n, c], image(0)].concat(), [vec![n, c], image(6)].concat());
    // Ties have no one gradient.
    let data_type = if backward && name == "max" {
        "f32"
    } else if backward {
        r.of(&FLOATS)
    } else {
        r.of(&ALL)
    };
    let layout = r.layout(&src_dims);
    let other = if layout.contains(',') { r.plain(dst_dims.len()) } else { layout.clone() };
    let other = if r.one_in(3) { "any".to_owned() } else { other };
    w.set("alg", format!("pooling_{name}")).set("src", md(data_type, &src_dims, &layout));
    w.set("dst", md(data_type, &dst_dims, &other))
        .set("terms", image(1).iter().product::<usize>())
        .set("functions", 1);
    for (key, what) in [("kernel", 1), ("strides", 2), ("dilates", 3), ("left", 4), ("right", 5)] {
        w.set(key, joined(&windows, what));
    }
    if backward {
        w.set("fill.src", "distinct");
    } else {
        post_ops(r, &mut w, &dst_dims, data_type);
    }
    w
}

fn prelu(r: &mut Random) -> Words {
    let mut w = Words::new("prelu");
    w.set("prop", if r.one_in(3) { "backward" } else { r.of(&FORWARD) });
    let dims = r.dims_of(1, 5);
    let slopes = r.broadcast(&dims);
    let data_type = r.of(&FLOATS);
    let (a, b) = (r.layout(&dims), if r.one_in(2) { "any".to_owned() } else { r.plain(dims.len()) });
    let terms = dims.iter().product::<usize>() / slopes.iter().product::<usize>();
    w.set("src", md(data_type, &dims, &a))
        .set("wei", md(data_type, &slopes, &b))
        .set("dst", md(data_type, &dims, &a));
    w.set("terms", terms);
    w
}

fn shuffle(r: &mut Random) -> Words {
    let mut w = Words::new("shuffle");
    pass(r, &mut w);
    let mut dims = r.dims_of(2, 5);
    let axis = if r.one_in(2) { 1 } else { r.below(dims.len()) };
    let groups = r.below(4) + 1;
    dims[axis] = groups * (r.below(6) + 1);
    let data_type = if w.get("prop") == Some("backward_data") { r.of(&FLOATS) } else { r.of(&ALL) };
    let layout = r.layout(&dims);
    w.set("axis", axis).set("groups", groups).set("src", md(data_type, &dims, &layout));
    w.set("dst", md(data_type, &dims, &if r.one_in(3) { "any".to_owned() } else { layout }));
    w
}

fn lrn(r: &mut Random) -> Words {
    let mut w = Words::new("lrn");
    pass(r, &mut w);
    let within = r.one_in(3);
    let rank = if within { 4 } else { r.of(&[3, 4, 4, 5]) };
    let dims = r.dims_of(rank, rank);
    let size = r.of(&[1, 3, 5, 4]);
    let data_type = r.of(&FLOATS);
    let layout = r.layout(&dims);
    w.set("alg", if within { "lrn_within_channel" } else { "lrn_across_channels" }).set("size", size);
    w.set("alpha", r.of(&["0.0001", "0.5"])).set("beta", r.of(&["0.75", "1", "0.5"])).set("k", r.of(&[1, 2]));
    w.set("src", md(data_type, &dims, &layout)).set("dst", md(data_type, &dims, &layout));
    w.set("terms", if within { size * size } else { size }).set("functions", 2);
    w
}

/// Flags: global statistics 1, scale 2, shift 4, `ReLU` behind 8.
fn normalization(r: &mut Random, name: &str, ranks: (usize, usize)) -> (Words, Vec<usize>, &'static str) {
    let mut w = Words::new(name);
    let prop =
        r.of(&["forward_inference", "forward_inference", "forward_training", "backward_data", "backward"]);
    let dims = r.dims_of(ranks.0, ranks.1);
    let data_type = r.of(&FLOATS);
    w.set("prop", prop).set("functions", 3).set("eps", r.of(&["0.001", "0.1"]));
    let flags = r.of(&[0, 1]) | if r.one_in(2) { 6 } else { r.of(&[0, 2, 4]) };
    w.set("flags", flags);
    // The gradients of scale and shift are asked for.
    if flags & 6 != 0 && prop == "backward_data" {
        w.set("prop", "backward");
    }
    (w, dims, data_type)
}

fn batch_normalization(r: &mut Random) -> Words {
    let (mut w, dims, data_type) = normalization(r, "batch_normalization", (2, 5));
    let layout = r.layout(&dims);
    w.set("src", md(data_type, &dims, &layout)).set("dst", md(data_type, &dims, &layout));
    w.set("terms", dims.iter().product::<usize>() / dims[1]);
    if r.one_in(5) && w.get("prop") == Some("forward_training") {
        let flags: u32 = w.get("flags").unwrap().parse().unwrap();
        w.set("flags", flags | 8);
    }
    w
}

fn group_normalization(r: &mut Random) -> Words {
    let (mut w, mut dims, data_type) = normalization(r, "group_normalization", (3, 5));
    let groups = r.below(4) + 1;
    dims[1] = groups * (r.below(4) + 1);
    let layout = r.layout(&dims);
    w.set("src", md(data_type, &dims, &layout))
        .set("dst", md(data_type, &dims, &layout))
        .set("groups", groups);
    w.set("terms", dims[1..].iter().product::<usize>() / groups);
    w
}

fn layer_normalization(r: &mut Random) -> Words {
    let (mut w, dims, data_type) = normalization(r, "layer_normalization", (2, 5));
    let layout = r.plain(dims.len());
    w.set("src", md(data_type, &dims, &layout)).set("dst", md(data_type, &dims, &layout));
    let stat = &dims[..dims.len() - 1];
    w.set("stat", md("f32", stat, &"abcde"[..stat.len()]));
    // Gradients of the parameters are sums over the rest.
    w.set("terms", dims.iter().product::<usize>());
    w
}

fn resampling(r: &mut Random) -> Words {
    let mut w = Words::new("resampling");
    let backward = pass(r, &mut w);
    let rank = r.of(&[3, 4, 4, 5]);
    let src_dims = r.dims_of(rank, rank);
    let mut dst_dims = src_dims.clone();
    for dim in &mut dst_dims[2..] {
        *dim = r.below(12) + 1;
    }
    let data_type = if backward { r.of(&FLOATS) } else { r.of(&["f32", "f32", "bf16", "f16", "s8", "u8"]) };
    let layout = r.layout(&src_dims);
    let layout = if layout.contains(',') { r.plain(rank) } else { layout };
    w.set("alg", r.of(&["resampling_nearest", "resampling_linear"])).set("terms", 8).set("functions", 1);
    w.set("src", md(data_type, &src_dims, &layout));
    w.set("dst", md(data_type, &dst_dims, &if r.one_in(3) { "any".to_owned() } else { layout }));
    if !backward {
        post_ops(r, &mut w, &dst_dims, data_type);
    }
    w
}
