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
