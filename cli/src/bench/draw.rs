//! Random cases in the notation of the bench.

use anydnn::backend::{DataType, Result};
use anydnn_backend::conformance::random::{Choices, Lean};

use super::spec::{Fold, Pair, functions};

/// What is drawn, by its names.
pub(crate) const FAMILIES: [&str; 11] = [
    "matmul",
    "conv",
    "pooling",
    "softmax",
    "layernorm",
    "batchnorm",
    "reduction",
    "eltwise",
    "binary",
    "attention",
    "recurrent",
];

/// The most products that are summed; a sample of many of them lasts a second on a processor.
const WORK: usize = 1 << 30;
/// The most elements of a tensor.
const ELEMENTS: usize = 1 << 22;

/// A case of a family, one of [`FAMILIES`].
///
/// # Errors
/// None but for defects of the generator.
pub(crate) fn draw(choices: &mut Choices, family: &str, data_type: DataType) -> Result<String> {
    let text = match family {
        "matmul" => matmul(choices)?,
        "conv" => convolution(choices)?,
        "pooling" => {
            let (dims, window) = window(choices, false);
            format!("pool {} {dims} {window}", choices.pick(&["max", "avg"])?)
        }
        "softmax" => format!("softmax {}", rows(choices)),
        "layernorm" => format!("{} {}", choices.pick(&["layernorm", "rmsnorm"])?, rows(choices)),
        "batchnorm" => format!("batchnorm {}", shape(&image(choices))),
        "reduction" => format!("reduce {} {}", choices.pick(Fold::ALL)?, rows(choices)),
        "eltwise" => {
            let function = choices.pick(&functions())?;
            format!("eltwise {function} {}", choices.choose(1 << 22, |random| random.below(1 << 22)) + 1)
        }
        "binary" => format!("{} {}", choices.pick(Pair::ALL)?, rows(choices)),
        "recurrent" => recurrent(choices)?,
        _ => attention(choices),
    };
    Ok(if data_type == DataType::F32 { text } else { format!("{text} {data_type}") })
}

fn matmul(choices: &mut Choices) -> Result<String> {
    let leans = match choices.hint(4) {
        0 => [Lean::Few, Lean::Many, Lean::Many],
        1 => [Lean::Many; 3],
        _ => [Lean::Any; 3],
    };
    let sizes = choices.sizes_leaning(&leans.map(|lean| (8192, lean)), |s| {
        s[0] * s[1] * s[2] <= WORK
            && s[0] * s[1] <= ELEMENTS
            && s[1] * s[2] <= 4 * ELEMENTS
            && s[0] * s[2] <= ELEMENTS
    });
    let (m, k, n) = (sizes[0], sizes[1], sizes[2]);
    if choices.one_in(6) {
        let all = (m * k).max(k * n).max(m * n).max(m * n * k / 256);
        let batch = choices.size((ELEMENTS / all).clamp(1, 64));
        return Ok(format!("matmul {batch}x{m}x{k}:{batch}x{k}x{n}"));
    }
    Ok(format!("matmul {m}x{k}:{k}x{n}{}", posts(choices)?))
}

fn convolution(choices: &mut Choices) -> Result<String> {
    let (dims, window) = window(choices, true);
    Ok(format!("conv {dims} {window}{}", posts(choices)?))
}

/// A bias, a function, or both.
fn posts(choices: &mut Choices) -> Result<String> {
    let bias = if choices.one_in(2) { "+bias" } else { "" };
    let function = if choices.one_in(2) { choices.pick(&["+relu", "+gelu", "+swish", "+add"])? } else { "" };
    Ok(if bias.is_empty() && function.is_empty() { String::new() } else { format!(" {bias}{function}") })
}

/// `[N, H, W, C]` and a window on it; with output channels and groups for a convolution.
fn window(choices: &mut Choices, outputs: bool) -> (String, String) {
    let kernel = [1, 3, 2, 5, 7, 4, 11]
        [choices.choose(7, |random| [0, 0, 1, 1, 1, 2, 3, 4, 5, 6][random.below(10) as usize]) as usize];
    let stride = 1 + choices.choose(3, |random| [0, 0, 0, 1, 1, 2][random.below(6) as usize]) as usize;
    let pad = if choices.one_in(2) { kernel / 2 } else { 0 };
    let most = [16, 400, 400, 1024, if outputs { 1024 } else { 1 }];
    let taps = kernel * kernel;
    let mut s = choices.sizes_where(&most, |s| {
        let places = s[0] * s[1] * s[2];
        places * s[3] <= ELEMENTS
            && places * s[4] <= ELEMENTS
            && places / (stride * stride) * s[3] * s[4] * taps <= WORK
    });
    for extent in &mut s[1..3] {
        *extent = (*extent).max(kernel);
    }
    // One channel for each group, at times.
    let channels = match outputs {
        true if choices.one_in(6) => format!("o{0} g{0} ", s[3]),
        true => format!("o{} ", s[4]),
        false => String::new(),
    };
    let window = format!("{channels}k{kernel} s{stride} p{pad}");
    (shape(&s[..4]), window)
}

fn attention(choices: &mut Choices) -> String {
    let size = [64, 128, 32, 80, 96, 40][choices.below(6)];
    let s = choices.sizes_where(&[8, 32, 4096, 4096], |s| {
        let heads = s[0] * s[1];
        heads * s[2] * s[3] * size <= WORK / 4 && heads * s[2].max(s[3]) * size <= ELEMENTS
    });
    // In one word: s4 and s8 alone are types.
    let causal = if choices.one_in(3) { " causal" } else { "" };
    if causal.is_empty() {
        format!("attention b{}h{}s{}t{}d{size}", s[0], s[1], s[2], s[3])
    } else {
        format!("attention b{}h{}s{}d{size} causal", s[0], s[1], s[2].min(s[3]))
    }
}

/// Steps, sequences, inputs and hidden units of a layer.
fn recurrent(choices: &mut Choices) -> Result<String> {
    let cell = choices.pick(&["lstm", "gru", "gru linear_before_reset", "rnn"])?;
    let s = choices.sizes_where(&[1000, 64, 1024, 1024], |s| {
        let rows = s[0] * s[1];
        rows * 8 * s[3] * (s[2] + s[3]) <= WORK && rows * 8 * s[3].max(s[2]) <= ELEMENTS
    });
    let direction = if choices.one_in(3) { " bidirectional" } else { "" };
    let (name, way) =
        cell.split_once(' ').map_or((cell, String::new()), |(name, way)| (name, format!(" {way}")));
    Ok(format!("{name} t{} n{} i{} h{}{way}{direction}", s[0], s[1], s[2], s[3]))
}

fn rows(choices: &mut Choices) -> String {
    shape(&choices.sizes(2, ELEMENTS))
}

fn image(choices: &mut Choices) -> Vec<usize> {
    choices.sizes_where(&[16, 400, 400, 1024], |s| s.iter().product::<usize>() <= ELEMENTS)
}

fn shape(dims: &[usize]) -> String {
    dims.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use anydnn_backend::conformance::random::Limits;

    use super::super::notation;
    use super::*;

    #[test]
    fn every_draw_is_a_case() {
        for family in FAMILIES {
            for seed in 0..300 {
                let data_type = [DataType::F32, DataType::F16][seed as usize % 2];
                let mut choices = Choices::random(seed, Limits::WIDE);
                let text = draw(&mut choices, family, data_type).expect("a case");
                let spec = notation::parse(&text).unwrap_or_else(|failure| panic!("{text}: {failure}"));
                assert_eq!(spec.data_type, data_type);
                assert!(spec.flops() <= 4.0 * WORK as f64, "{text}");
                assert!(spec.result().iter().product::<usize>() <= 4 * ELEMENTS, "{text}");
            }
        }
    }

    #[test]
    fn products_have_few_and_many_rows() {
        let texts: Vec<String> = (0..200)
            .map(|seed| {
                draw(&mut Choices::random(seed, Limits::WIDE), "matmul", DataType::F32).expect("a case")
            })
            .collect();
        assert!(texts.iter().any(|text| text.starts_with("matmul 1x")));
        assert!(
            texts.iter().any(|text| text.contains("+bias")) && texts.iter().any(|text| !text.contains('+'))
        );
    }
}
