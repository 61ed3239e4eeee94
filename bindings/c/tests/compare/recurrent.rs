//! Random recurrent layers.

use super::random::{Random, Words, md};

/// Types of states, weights, biases and cells.
const TYPES: [[&str; 4]; 6] = [
    ["f32", "f32", "f32", "f32"],
    ["f32", "f32", "f32", "f32"],
    ["f32", "f32", "f32", "f32"],
    ["f32", "f32", "f32", "f32"],
    ["bf16", "bf16", "f32", "f32"],
    ["f16", "f16", "f16", "f16"],
];

pub(crate) fn rnn(r: &mut Random) -> Words {
    let mut w = Words::new("rnn");
    let backward = r.one_in(2);
    w.set("prop", if backward { "backward" } else { r.of(&["forward_inference", "forward_training"]) });
    let cell = r.of(&["vanilla_rnn", "lstm", "lstm", "lstm", "gru", "gru", "lbr_gru", "augru", "lbr_augru"]);
    w.set("cell", cell);
    if cell == "vanilla_rnn" {
        w.set("alg", r.of(&["eltwise_relu", "eltwise_tanh", "eltwise_logistic"]));
        if r.one_in(2) {
            // That of other functions is not read.
            w.set("alpha", r.of(&["0.25", "0.5"]));
        }
    }
    let attends = cell.ends_with("augru");
    let (layers, direction) = if attends { (1, 1) } else { (r.of(&[1, 1, 2, 3]), 1 + r.below(4)) };
    w.set("direction", direction);
    let ways = if direction > 2 { 2 } else { 1 };
    let side = if direction == 3 { 2 } else { 1 };
    let (steps, batch, hidden) = (1 + r.below(5), 1 + r.below(4), r.dim());
    let gates = match cell {
        "vanilla_rnn" => 1,
        "lstm" => 4,
        _ => 3,
    };
    let projects = cell == "lstm" && r.one_in(5);
    let units = if projects { 1 + r.below(hidden) } else { hidden };
    let inputs = if layers > 1 { units } else { r.dim() };
    let [data, weights, biases, cells] = if backward { TYPES[0] } else { r.of(&TYPES) };
    let layout = |r: &mut Random, dense: &str, other: &str| -> String {
        match r.below(4) {
            0 => "any".to_owned(),
            1 => other.to_owned(),
            _ => dense.to_owned(),
        }
    };
    // The gradients of oneDNN read weights in another order than its layers do.
    let order = |r: &mut Random, dense: &str| {
        if backward || r.one_in(2) { "any".to_owned() } else { dense.to_owned() }
    };
    w.set("src", md(data, &[steps, batch, inputs], &layout(r, "abc", "bac")));
    w.set("dst", md(data, &[steps, batch, side * units], &layout(r, "abc", "bac")));
    let (states, of_cells) = ([layers, ways, batch, units], [layers, ways, batch, hidden]);
    let with_states = r.one_in(2);
    if with_states {
        w.set("src1", md(data, &states, &layout(r, "abcd", "abcd")));
    }
    let with_last = r.one_in(2);
    if with_last {
        w.set("dst1", md(data, &states, &layout(r, "abcd", "abcd")));
    }
    if cell == "lstm" {
        if with_states {
            w.set("src2", md(cells, &of_cells, "abcd"));
        }
        if with_last {
            w.set("dst2", md(cells, &of_cells, "abcd"));
        }
        if r.one_in(3) {
            w.set("wei2", md("f32", &[layers, ways, 3, hidden], "abcd")).set("fill.wei2", "small");
        }
    }
    if projects {
        w.set("wei3", md(weights, &[layers, ways, hidden, units], &order(r, "abcd")))
            .set("fill.wei3", "small");
    }
    if attends {
        w.set("src3", md(data, &[steps, batch, 1], "abc")).set("fill.src3", "unit");
    }
    let of_inputs = md(weights, &[layers, ways, inputs, gates, hidden], &order(r, "abcde"));
    let of_states = md(weights, &[layers, ways, units, gates, hidden], &order(r, "abcde"));
    w.set("wei", of_inputs).set("wei1", of_states).set("fill.wei", "small").set("fill.wei1", "small");
    if !r.one_in(8) {
        let rows = gates + usize::from(cell.starts_with("lbr"));
        w.set("bia", md(biases, &[layers, ways, rows, hidden], "abcd"));
    }
    if backward && r.one_in(2) {
        w.set("flags", 1);
    }
    w.set("terms", (inputs + hidden) * gates * steps * batch).set("functions", 4 * steps * layers);
    w
}

/// The same case with its initial states, zeros where it leaves them out, which mean the same by the documentation.
pub(crate) fn with_states(case: &Words) -> Words {
    let mut other = case.clone();
    let dims = |key: &str| -> Vec<usize> {
        let desc = case.get(key).and_then(|desc| desc.split(':').nth(1)).unwrap_or_default();
        desc.split('x').filter_map(|dim| dim.parse().ok()).collect()
    };
    let (src, of_states) = (dims("src"), dims("wei1"));
    if case.get("src1").is_none() && src.len() == 3 && of_states.len() == 5 {
        let states = |last: usize| md("f32", &[of_states[0], of_states[1], src[1], last], "abcd");
        other.set("src1", states(of_states[2])).set("fill.src1", "=0");
        if case.get("cell") == Some("lstm") {
            other.set("src2", states(of_states[4])).set("fill.src2", "=0");
        }
    }
    other
}

/// Layers of integers, for inference.
pub(crate) fn quantized(r: &mut Random) -> Words {
    let mut w = Words::new("rnn");
    let cell = r.of(&["lstm", "lstm", "gru", "lbr_gru"]);
    w.set("prop", "forward_inference").set("cell", cell);
    let (layers, direction) = (r.of(&[1, 1, 2, 3]), 1 + r.below(4));
    w.set("direction", direction);
    let (ways, side) = (if direction > 2 { 2 } else { 1 }, if direction == 3 { 2 } else { 1 });
    let (steps, batch, hidden) = (1 + r.below(4), 1 + r.below(4), r.dim());
    let gates = if cell == "lstm" { 4 } else { 3 };
    let own = if cell == "lstm" { r.of(&["u8", "u8", "s8"]) } else { "u8" };
    let projects = own == "u8" && cell == "lstm" && r.one_in(4);
    let units = if projects { 1 + r.below(hidden) } else { hidden };
    let inputs = if layers > 1 { units } else { r.dim() };
    // Sums of both directions are shown without the shift taken off once in oneDNN.
    let shift = if own == "s8" || direction == 4 { "0" } else { r.of(&["0", "64", "40.5"]) };
    w.set("rnn_data", format!("{}:{shift}", r.of(&["63", "31.5"])));
    let (mask, of_projection) = r.of(&[(0, 0), (24, 8)]);
    w.set("rnn_weights", format!("{mask}:150"));
    let shown = r.of(&[own, own, "f32"]);
    w.set("src", md(own, &[steps, batch, inputs], "abc"));
    w.set("dst", md(shown, &[steps, batch, side * units], "abc"));
    let (states, cells) = ([layers, ways, batch, units], [layers, ways, batch, hidden]);
    let of_states = r.of(&[own, "f32"]);
    let (with_states, with_last) = (r.one_in(2), r.one_in(2));
    if with_states {
        w.set("src1", md(of_states, &states, "abcd"));
    }
    if with_last {
        w.set("dst1", md(of_states, &states, "abcd"));
    }
    if cell == "lstm" && with_states {
        w.set("src2", md("f32", &cells, "abcd"));
    }
    if cell == "lstm" && with_last {
        w.set("dst2", md("f32", &cells, "abcd"));
    }
    if projects {
        w.set("wei3", md("s8", &[layers, ways, hidden, units], "any"));
        w.set("rnn_projection", format!("{of_projection}:60"));
    }
    w.set("wei", md("s8", &[layers, ways, inputs, gates, hidden], "any"));
    w.set("wei1", md("s8", &[layers, ways, units, gates, hidden], "any"));
    w.set("bia", md("f32", &[layers, ways, gates + usize::from(cell == "lbr_gru"), hidden], "abcd"));
    if own == "s8" {
        // Negative states become zero in oneDNN.
        for key in ["fill.bia", "fill.src1", "fill.src2"] {
            w.set(key, "positive");
        }
    }
    w
}

/// What makes integers for such layers of floats.
pub(crate) fn quantizing(r: &mut Random) -> Words {
    let mut w = Words::new("reorder");
    let dims: Vec<usize> = (0..3 + r.below(2)).map(|_| r.dim().min(9)).collect();
    let layout = if dims.len() == 3 { "abc" } else { "abcd" };
    w.set("src", md("f32", &dims, layout)).set("dst", md(r.of(&["u8", "s8"]), &dims, layout));
    w.set("rnn_data", format!("{}:{}", r.of(&["63", "20.5"]), r.of(&["0", "64", "10.25"])));
    w
}
