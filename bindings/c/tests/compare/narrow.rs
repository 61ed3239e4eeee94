//! Random cases of types of few bits beside those of quantised products: normalisations of integers, weights of integers among floats, and
//! floats of eight bits.

use super::random::{Random, Words, md, shape};

const SMALL: [&str; 2] = ["f8_e4m3", "f8_e5m2"];

/// Normalisations of integers, for inference.
pub(crate) fn integers(r: &mut Random) -> Words {
    let name =
        r.of(&["batch_normalization", "layer_normalization", "layer_normalization", "group_normalization"]);
    let mut w = Words::new(name);
    let is_batch = name == "batch_normalization";
    let mut dims = r.dims_of(if name == "layer_normalization" { 2 } else { 3 }, 5);
    let src = if is_batch { "s8" } else { r.of(&["s8", "u8"]) };
    let dst = if is_batch { src } else { r.of(&["s8", "u8", "f32", "bf16", "f16"]) };
    let layout = if name == "layer_normalization" { r.plain(dims.len()) } else { r.layout(&dims) };
    if name == "group_normalization" {
        let groups = r.below(4) + 1;
        dims[1] = groups * (r.below(4) + 1);
        w.set("groups", groups);
    }
    let layout = if layout.contains(',') { r.plain(dims.len()) } else { layout };
    w.set("prop", "forward_inference").set("functions", 3).set("eps", r.of(&["0.001", "0.1"]));
    w.set("flags", r.of(&[0, 1, 2, 4, 6, 7]) | u32::from(is_batch));
    w.set("src", md(src, &dims, &layout)).set("dst", md(dst, &dims, &layout));
    let stat = &dims[..dims.len() - 1];
    w.set("stat", md("f32", stat, &"abcde"[..stat.len()])).set("terms", dims.iter().product::<usize>());
    if !is_batch && dst.ends_with('8') && r.one_in(2) {
        w.add("scale", "dst:0");
    }
    if r.one_in(3) {
        w.add("po", "eltwise_relu:0:0");
    }
    if !is_batch && r.one_in(2) {
        w.add("scale", "src:0");
    }
    w
}

/// Products of floats with weights in integers, whose scales and zero points are for groups of terms.
pub(crate) fn weights(r: &mut Random) -> Words {
    let mut w = Words::new("matmul");
    let batch: &[usize] = if r.one_in(3) { &[2] } else { &[] };
    let rank = batch.len() + 2;
    let of = |tail: [usize; 2]| [batch, &tail].concat();
    let group = r.of(&[4, 8, 16, 32]);
    let (m, k, n) = (r.dim(), group * (r.below(4) + 1), r.of(&[2, 4, 6, 8, 16, 32]));
    let rows = &"abc"[..rank];
    let src = r.of(&["f32", "f32", "bf16", "f16"]);
    let dst = if r.one_in(3) { "f32" } else { src };
    let wei = r.of(&["s8", "u8", "s4", "u4"]);
    let layout = if r.one_in(4) { "any".to_owned() } else { r.product(rank) };
    w.set("src", md(src, &of([m, k]), rows)).set("wei", md(wei, &of([k, n]), &layout));
    w.set("dst", md(dst, &of([m, n]), rows)).set("terms", k).set("functions", 2);
    w.set("fpmath", format!("{}:1", r.of(&["strict", "bf16", "f16", "any"])));
    let all = (1 << rank) - 1;
    let data_type = r.of(&["f32", "f32", "bf16", "f16"]);
    match r.below(4) {
        0 => drop(w.add("scale", format!("wei:0:{data_type}"))),
        1 => drop(w.add("scale", format!("wei:{}:{data_type}", 1 << (rank - 1)))),
        2 => drop(w.add("scale", format!("wei:{all}:{data_type}:{group}x1"))),
        _ => {}
    }
    match r.below(3) {
        0 => drop(w.add("zp", "wei:0")),
        1 => {
            // oneDNN reads points of four bits beside weights of eight as bytes.
            let types: &[&str] =
                if wei.ends_with('8') { &["s8", "u8", "s32"] } else { &["s8", "u8", "s32", "s4", "u4"] };
            w.add("zp", format!("wei:{all}:{}:{group}x1", r.of(types)));
        }
        _ => {}
    }
    if r.one_in(3) {
        w.set("bia", md("f32", &[vec![1; rank - 1], vec![n]].concat(), rows));
    }
    if r.one_in(3) {
        w.add("po", "eltwise_relu:0.5:0");
    }
    w
}

/// Floats of eight bits in products and around them.
pub(crate) fn eight_bits(r: &mut Random) -> Words {
    let (own, other) = (r.of(&SMALL), r.of(&SMALL));
    let dims = r.dims_of(2, 4);
    match r.below(6) {
        0 | 1 => {
            let mut w = Words::new("matmul");
            let (m, k, n) = (r.dim(), r.dim(), r.dim());
            let layout = if r.one_in(4) { "any".to_owned() } else { r.product(2) };
            w.set("src", md(own, &[m, k], "ab")).set("wei", md(other, &[k, n], &layout));
            w.set("dst", md(r.of(&["f32", "bf16", "f16", own]), &[m, n], "ab")).set("terms", k);
            match r.below(3) {
                0 => drop(w.add("scale", "src:0").add("scale", format!("wei:{}", r.of(&[0, 2])))),
                1 => drop(w.add("scale", "dst:0")),
                _ => {}
            }
            w
        }
        2 | 3 => {
            let mut w = Words::new("reorder");
            let (from, to) = r.of(&[(own, other), (own, "f32"), ("f32", own), ("bf16", own), (own, "f16")]);
            let (a, b) = (r.layout(&dims), r.layout(&dims));
            w.set("src", md(from, &dims, &a)).set("dst", md(to, &dims, &b));
            match r.below(3) {
                0 => drop(w.add("scale", "src:0")),
                1 => drop(w.add("scale", "dst:0")),
                _ => {}
            }
            w
        }
        4 => {
            let mut w = Words::new("binary");
            let (rest, layout) = (r.broadcast(&dims), r.plain(dims.len()));
            w.set("alg", format!("binary_{}", r.of(&["add", "mul", "max"]))).set("functions", 1);
            w.set("src", md(own, &dims, &layout)).set("src1", md(r.of(&["f32", other]), &rest, &layout));
            w.set("dst", md(r.of(&["f32", own]), &dims, &layout));
            w
        }
        _ => {
            let mut w = Words::new("convolution");
            let (ic, oc, size) = (r.of(&[1, 4, 8]), r.of(&[1, 5, 16]), r.below(5) + 3);
            w.set("prop", "forward_inference").set("alg", "convolution_direct").set("terms", ic * 9);
            w.set("src", md(own, &[2, ic, size, size], "any")).set("wei", md(own, &[oc, ic, 3, 3], "any"));
            w.set("dst", md(r.of(&["f32", own]), &[2, oc, size, size], "any"));
            for (key, value) in [("strides", 1), ("dilates", 0), ("left", 1), ("right", 1)] {
                w.set(key, shape(&[value, value]));
            }
            w
        }
    }
}
