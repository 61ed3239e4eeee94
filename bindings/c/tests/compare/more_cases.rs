//! Random cases of what attributes and descriptors ask beside the usual: unknown and empty dimensions, dropout, rounding at random, scales that
//! the primitive finds, depthwise convolutions behind others, floats of four bits, sums of a source that the caller gives, and products in the
//! host's memory.

use super::cases::{Draw, matmul};
use super::narrow;
use super::random::{Random, Words, md};
use super::recurrent;

/// What is drawn, by the name that `ANYDNN_COMPARE_ONLY` takes.
pub(crate) const MORE: [(&str, Draw); 14] = [
    ("unknown", unknown),
    ("nothing", nothing),
    ("dropout", dropout),
    ("rounding", rounding),
    ("found_scales", found_scales),
    ("depthwise", depthwise),
    ("gemm", gemm),
    ("quantized_rnn", recurrent::quantized),
    ("quantizing_reorder", recurrent::quantizing),
    ("four_bits", four_bits),
    ("sums", sums),
    ("integers", narrow::integers),
    ("weights", narrow::weights),
    ("eight_bits", narrow::eight_bits),
];

/// A product or a reorder of dimensions that are known at execution only.
fn unknown(r: &mut Random) -> Words {
    if r.one_in(3) {
        let mut w = Words::new("reorder");
        let dims = r.dims_of(1, 4);
        let (src, dst) = (r.of(&["f32", "bf16", "s8"]), r.of(&["f32", "bf16", "s8"]));
        let (a, b) = (r.plain(dims.len()), r.plain(dims.len()));
        w.set("src", md(src, &dims, &a)).set("dst", md(dst, &dims, &b));
        let some: String = (0..dims.len()).filter(|_| r.one_in(2)).map(|i| i.to_string()).collect();
        w.set("unknown", if some.is_empty() { "0".to_owned() } else { some });
        return w;
    }
    let mut w = matmul(r);
    let some = r.of(&["m", "m", "n", "k", "mn", "mk", "mkn", "b", "bm", "bmkn"]);
    // Layouts are left open where all dimensions are known.
    for (key, letters) in [("wei", "kn"), ("dst", "mn")] {
        let desc = w.get(key).unwrap_or_default().to_owned();
        if desc.ends_with(":any") && some.chars().any(|letter| letter == 'b' || letters.contains(letter)) {
            let rank = desc.split('x').count();
            w.set(key, desc.replace(":any", &format!(":{}", &"abcd"[..rank])));
        }
    }
    w.set("unknown", some);
    w
}

/// Primitives of no elements, or of sums without terms.
fn nothing(r: &mut Random) -> Words {
    let dims = match r.below(3) {
        0 => vec![0, r.dim()],
        1 => vec![r.dim(), 0],
        _ => vec![0, r.dim(), r.dim()],
    };
    let layout = &"abc"[..dims.len()];
    let tensor = |data_type: &str| md(data_type, &dims, layout);
    match r.below(9) {
        7 | 8 => {
            let name = r.of(&["batch_normalization", "layer_normalization", "group_normalization"]);
            let mut w = Words::new(name);
            let mut dims = [r.dim(), 2 * (1 + r.below(4)), r.dim(), r.dim()];
            // Of no channels there are no statistics.
            dims[r.of(&[0, 2, 3])] = 0;
            w.set("prop", r.of(&["forward_training", "backward"])).set("functions", 3).set("eps", 0.001);
            w.set("flags", 6).set("groups", 2);
            w.set("src", md("f32", &dims, "abcd")).set("dst", md("f32", &dims, "abcd"));
            w.set("stat", md("f32", &dims[..3], "abc"));
            w
        }
        0 => {
            let mut w = Words::new("eltwise");
            w.set("prop", "forward_inference").set("alg", "eltwise_relu").set("alpha", 0).set("beta", 0);
            w.set("src", tensor("f32")).set("dst", tensor("f32"));
            w
        }
        1 => {
            let mut w = Words::new("softmax");
            w.set("prop", "forward_inference").set("alg", "softmax_accurate").set("axis", dims.len() - 1);
            w.set("src", tensor("f32")).set("dst", tensor("f32"));
            w
        }
        2 => {
            let mut w = Words::new("reorder");
            w.set("src", tensor("f32")).set("dst", tensor("bf16"));
            w
        }
        3 => {
            let mut w = Words::new("binary");
            w.set("alg", "binary_add")
                .set("src", tensor("f32"))
                .set("src1", tensor("f32"))
                .set("dst", tensor("f32"));
            w
        }
        4 => {
            let mut w = Words::new("sum");
            w.add("multiple", tensor("f32")).add("multiple", tensor("f32")).set("scales", "4x2");
            w
        }
        5 => {
            let mut w = Words::new("inner_product");
            let (n, oc) = (r.below(2) * r.dim(), r.dim());
            let inner = if n == 0 { r.dim() } else { 3 };
            w.set("prop", r.of(&["forward_inference", "backward_weights"]));
            w.set("src", md("f32", &[n, inner], "ab")).set("wei", md("f32", &[oc, inner], "ab"));
            w.set("dst", md("f32", &[n, oc], "ab"))
                .set("bia", md("f32", &[oc], "a"))
                .set("terms", inner.max(n));
            w
        }
        _ => {
            let mut w = Words::new("matmul");
            let [mut m, mut k, mut n] = [r.dim(), r.dim(), r.dim()];
            *[&mut m, &mut k, &mut n][r.below(3)] = 0;
            w.set("src", md("f32", &[m, k], "ab")).set("wei", md("f32", &[k, n], "ab"));
            w.set("dst", md("f32", &[m, n], "ab")).set("bia", md("f32", &[1, n], "ab"));
            if r.one_in(2) {
                w.add("po", "eltwise_relu:0.5:0");
            }
            w
        }
    }
}

fn dropout(r: &mut Random) -> Words {
    let mut w = match r.below(3) {
        0 => {
            let mut w = matmul(r);
            let dst = w.get("dst").unwrap_or_default().replace(":any", "");
            let rank = dst.split('x').count();
            if w.get("dst").is_some_and(|desc| desc.ends_with(":any")) {
                w.set("dst", format!("{dst}:{}", &"abcd"[..rank]));
            }
            w
        }
        which => {
            let mut w = Words::new(if which == 1 { "eltwise" } else { "softmax" });
            let dims = r.dims_of(2, 4);
            let layout = r.layout(&dims);
            w.set("prop", "forward_inference").set("functions", 2);
            if which == 1 {
                w.set("alg", "eltwise_tanh").set("alpha", 0).set("beta", 0);
            } else {
                w.set("alg", "softmax_accurate").set("axis", 1).set("terms", dims[1]);
            }
            w.set("src", md("f32", &dims, &layout)).set("dst", md("f32", &dims, &layout));
            if r.one_in(3) {
                w.add("po", "eltwise_linear:2:1");
            }
            w
        }
    };
    let layout = w.get("dst").and_then(|desc| desc.split(':').nth(2)).unwrap_or_default().to_owned();
    let offset = r.of(&["first", "none", "1", "77", "4294967299"]);
    let mask = if r.one_in(2) { format!(":{layout}") } else { String::new() };
    w.set("dropout", format!("{}:{}:{offset}{mask}", r.of(&["0", "0.25", "0.5", "1"]), r.below(1000)));
    w
}

/// Results that are one of two neighbours; both libraries choose by numbers of their own.
fn rounding(r: &mut Random) -> Words {
    let mut w = Words::new("matmul");
    let (m, k, n) = (r.dim(), r.dim(), r.dim());
    w.set("src", md("f32", &[m, k], "ab")).set("wei", md("f32", &[k, n], "ab"));
    w.set("dst", md(r.of(&["bf16", "f16"]), &[m, n], "ab")).set("terms", k);
    w.set("rounding", format!("dst:{}", r.below(1000)));
    w
}

fn found_scales(r: &mut Random) -> Words {
    let mut w = Words::new("matmul");
    let (m, k) = (r.dim(), r.dim());
    let (mode, scales, group) = r.of(&[("mx", "e8m0", 32), ("mx", "e8m0", 32), ("fp", "f8_e4m3", 16)]);
    let n = group * (r.below(3) + 1);
    w.set("src", md("f32", &[m, k], "ab")).set("wei", md("f32", &[k, n], "ab"));
    w.set("dst", md(r.of(&["f8_e4m3", "f8_e5m2", "f4_e2m1"]), &[m, n], "ab")).set("terms", k);
    w.add("scale", format!("dst:3:{scales}:1x{group}:{mode}"));
    w
}

/// Floats of four bits, two to a byte, where oneDNN has them: to and from f32, and as results of products.
fn four_bits(r: &mut Random) -> Words {
    if r.one_in(2) {
        let mut w = Words::new("reorder");
        let rank = r.below(4) + 1;
        let dims: Vec<usize> = (0..rank).map(|_| r.of(&[2, 4, 6, 8])).collect();
        let blocked = ["", "AB2b2a", "aBc4b", "aBcd8b"][rank - 1];
        let layout = |r: &mut Random| {
            if rank > 1 && r.one_in(4) { blocked.to_owned() } else { r.plain(rank) }
        };
        let (a, b) = (layout(r), layout(r));
        let (src, dst) = r.of(&[("f32", "f4_e2m1"), ("f4_e2m1", "f32")]);
        w.set("src", md(src, &dims, &a)).set("dst", md(dst, &dims, &b));
        match r.below(4) {
            0 => drop(w.add("scale", "src:0")),
            1 => drop(w.add("scale", "dst:0")),
            2 if rank == 2 => drop(w.add("scale", "src:3:f32:2x1")),
            _ => {}
        }
        return w;
    }
    let mut w = Words::new("matmul");
    let (m, k, n) = (r.dim(), r.of(&[4, 16, 32]), 2 * r.dim());
    let (src, wei) =
        r.of(&[("f32", "f32"), ("bf16", "bf16"), ("f8_e4m3", "f8_e4m3"), ("f8_e5m2", "f8_e5m2")]);
    w.set("src", md(src, &[m, k], "ab")).set("wei", md(wei, &[k, n], &r.plain(2)));
    w.set("dst", md("f4_e2m1", &[m, n], "ab")).set("terms", k);
    if r.one_in(2) {
        w.set("bia", md("f32", &[1, n], "ab"));
    }
    if r.one_in(3) {
        w.add("scale", "src:0").add("scale", format!("wei:{}", r.of(&[0, 2])));
    }
    if r.one_in(3) {
        w.add("scale", "dst:0");
    }
    if r.one_in(3) {
        w.add("po", "eltwise_relu:0.5:0");
    }
    w
}

/// Products with sums of the source that the caller gives.
fn sums(r: &mut Random) -> Words {
    let mut w = Words::new("matmul");
    let batch: &[usize] = if r.one_in(3) { &[2] } else { &[] };
    let rank = batch.len() + 2;
    let group = r.of(&[2, 4, 16]);
    let (m, k, n) = (r.dim(), group * 2 * (r.below(3) + 1), r.dim());
    let of = |tail: [usize; 2]| [batch, &tail].concat();
    let all = (1 << rank) - 1;
    // oneDNN takes rows alone.
    let rows = &"abc"[..rank];
    let dst = r.of(&["f32", "f32", "bf16", "s8"]);
    w.set("src", md(r.of(&["s8", "u8"]), &of([m, k]), rows));
    w.set("wei", md(r.of(&["s8", "u8"]), &of([k, n]), rows));
    w.set("dst", md(dst, &of([m, n]), rows)).set("terms", 2 * k).set("functions", 1);
    w.set("sums", format!("{all}:1x{group}"));
    let of_points = group * r.of(&[1, 1, 2]);
    w.add("zp", format!("wei:{all}:{}:{of_points}x1", r.of(&["s8", "u8", "s32"])));
    match r.below(4) {
        0 => drop(w.add("scale", "src:0").add("scale", "wei:0")),
        1 => {
            w.add("scale", format!("src:{all}:f32:1x{group}"));
            w.add("scale", format!("wei:{all}:f32:{group}x1"));
        }
        _ => {}
    }
    if r.one_in(4) {
        w.add("zp", "src:0");
    }
    if r.one_in(3) {
        w.set("bia", md("f32", &[vec![1; rank - 1], vec![n]].concat(), rows));
    }
    if r.one_in(3) {
        w.add("po", "eltwise_relu:0.5:0");
    }
    w
}

fn depthwise(r: &mut Random) -> Words {
    let mut w = Words::new("convolution");
    let (n, ic, oc) = (r.below(2) + 1, r.of(&[3, 8, 16]), r.of(&[4, 8, 16, 24]));
    let (h, x) = (r.below(8) + 3, r.below(8) + 3);
    let types = r.of(&[
        ["f32", "f32", "f32", "f32", "f32", "f32"],
        ["f32", "f32", "f32", "f32", "f32", "f32"],
        ["u8", "s8", "u8", "s8", "f32", "s8"],
        ["u8", "s8", "u8", "s8", "f32", "f32"],
    ]);
    w.set("prop", "forward_inference").set("alg", r.of(&["convolution_direct", "convolution_auto"]));
    w.set("src", md(types[0], &[n, ic, h, x], "any")).set("wei", md(types[1], &[oc, ic, 1, 1], "any"));
    w.set("dst", md(types[2], &[n, oc, h, x], "any"));
    if r.one_in(2) {
        w.set("bia", md("f32", &[oc], "a"));
    }
    for key in ["strides", "dilates", "left", "right"] {
        w.set(key, if key == "strides" { "1x1" } else { "0x0" });
    }
    w.set("terms", ic * 9);
    if types[0] == "u8" && r.one_in(2) {
        w.add("scale", "src:0").add("scale", "wei:0").add("scale", "dst:0");
    }
    if r.one_in(2) {
        w.add("po", "eltwise_relu:0:0");
    }
    let bias = if r.one_in(2) { types[4] } else { "undef" };
    w.add("po", format!("dw:{}:{bias}:{}:3:{}:1", types[3], types[5], r.below(2) + 1));
    if r.one_in(2) {
        w.add("po", "eltwise_relu:0:0");
    }
    w
}

fn gemm(r: &mut Random) -> Words {
    let mut w = Words::new("gemm");
    // oneDNN leaves C as it was where there are no terms to add.
    let zero = if r.one_in(12) { r.below(2) } else { 3 };
    for (i, key) in ["m", "n", "k"].into_iter().enumerate() {
        w.set(key, if i == zero { 0 } else { r.dim() });
    }
    w.set("type", r.of(&["f32", "f32", "u8", "s8"])).set("trans", r.of(&["NN", "nT", "TN", "tt"]));
    w.set("more", r.below(3))
        .set("alpha", r.of(&["1", "1", "0.5", "-2"]))
        .set("beta", r.of(&["0", "1", "0.5"]));
    w.set("ao", r.below(5)).set("bo", r.below(5)).set("offset", r.of(&["F", "C", "R"])).set("terms", 19);
    w
}
