//! The notation of cases: `matmul 128x768:768x3072 f16 +bias+gelu`.

use anydnn::backend::op::{Activation, Cell, Direction, GateOrder};
use anydnn::backend::{DataType, Eltwise};

use super::networks::NETWORKS;
use super::spec::{FewBits, Fold, Pair, Post, Spec, Window, Work, function, functions};
use crate::failure::{Code, Failure};

/// The forms, for help texts.
pub(crate) const FORMS: &str = "\
Cases:
  matmul 128x768:768x3072 f16 +bias+gelu     a second factor of two dimensions is constant and packed once
  matmul 12x128x64:12x64x128                 batched
  matmul 1x4096:4096x4096 f16 wu4 g128       weights of few bits (ws4, ws8, wu4, wu8), scales for groups of terms (all if not given)
  conv 1x56x56x64 o64 k3 s1 p1 g1 +bias+relu [N, H, W, C]; k, s, p and d (dilation) may be 3x5
  conv ic64ih56oc64kh3ph1                    as benchdnn writes it (mb, g, ic, ih, iw, oc, kh, kw, sh, ph, dh; dh0 is dense)
  pool max 1x112x112x64 k3 s2 p1             or avg
  softmax 1536x128, layernorm 128x768, rmsnorm 128x4096, batchnorm 1x56x56x64
  reduce sum 1024x1024                       sum, mean, max or min along the last dimension
  eltwise gelu 16777216, add+relu 16777216, copy 16777216
  attention b1 h12 s128 d64 causal           t: keys (as s), kv: heads of keys and values (as h)
  lstm t300 n1 i600 h600 bidirectional       a recurrent layer with biases; gru (linear_before_reset), rnn (tanh, relu or logistic); reverse
  bert4, resnet-stage, gated-mlp, chain100   networks that are built in; with a type: bert4 f16
  sdp/float small                            a graph of a fusion pattern (docs/reference/patterns.md): small, medium or large
  FILE.json                                  a graph
Types: f32 (the default), f16, bf16, for matmul f8_e4m3 and f8_e5m2 (with results of bf16), and for matmul and conv tf32 (f32 multiplied
as that) and s8, u8 (dequantised); of conv, s8 is the type
unless another is given, and s8x8 the stride; post-operations: +bias, +relu, +gelu, .., +add, +mul";

/// Reads a case.
pub(crate) fn parse(text: &str) -> Result<Spec, Failure> {
    read(text).map_err(|message| Failure::new(Code::Input, format!("case {text:?}: {message}"), FORMS))
}

fn read(text: &str) -> Result<Spec, String> {
    let mut words = text.split_whitespace();
    let first = words.next().ok_or("expected the name of a primitive, not nothing")?;
    let (name, posts) = first.split_once('+').map_or((first, ""), |(name, rest)| (name, rest));
    let mut rest = Words {
        data_type: None,
        tf32: false,
        posts: Vec::new(),
        dims: Vec::new(),
        numbers: Vec::new(),
        names: Vec::new(),
    };
    rest.posts(posts)?;
    // Such as `s8`: which it is shows when the others are known.
    let (either, clear): (Vec<_>, Vec<_>) =
        words.partition(|word| is_key(name, word) && data_type(word).is_some());
    for word in clear {
        rest.take(word)?;
    }
    for word in either {
        rest.take_either(name, word)?;
    }
    let work = rest.work(name)?;
    let weights = rest.few_bits(&work)?;
    let mut left = rest.names.iter().chain(rest.numbers.iter().map(|(key, _)| key));
    if let Some(name) = left.next() {
        return Err(format!("{name:?} has no meaning for {first}"));
    }
    let spec = Spec {
        work,
        data_type: rest.data_type.unwrap_or(DataType::F32),
        post_ops: rest.posts,
        tf32: rest.tf32,
        weights,
    };
    check(&spec, types(name))?;
    Ok(spec)
}

/// Whether a word is a number behind a key of the primitive.
fn is_key(name: &str, word: &str) -> bool {
    let keys: &[&str] = match name {
        "conv" | "convolution" => &["o", "g", "k", "s", "p", "d"],
        "pool" | "pooling" => &["k", "s", "p", "d"],
        "lstm" | "gru" | "rnn" => &["t", "n", "i", "h"],
        "attention" | "sdpa" => &["b", "h", "s", "d", "t", "kv", "g"],
        _ => &[],
    };
    keyed(word).is_ok_and(|found| matches!(&found[..], [(key, _)] if keys.contains(&key.as_str())))
}

/// The types that a primitive takes.
fn types(name: &str) -> &'static [DataType] {
    match name {
        "matmul" | "ip" => &[
            DataType::F32,
            DataType::F16,
            DataType::BF16,
            DataType::S8,
            DataType::U8,
            DataType::F8E4M3,
            DataType::F8E5M2,
        ],
        "conv" | "convolution" => &[DataType::F32, DataType::F16, DataType::BF16, DataType::S8, DataType::U8],
        _ => &[DataType::F32, DataType::F16, DataType::BF16],
    }
}

/// The words behind the name, sorted by what they look like.
struct Words {
    data_type: Option<DataType>,
    tf32: bool,
    posts: Vec<Post>,
    dims: Vec<Vec<usize>>,
    numbers: Vec<(String, Vec<usize>)>,
    names: Vec<String>,
}

impl Words {
    fn take(&mut self, word: &str) -> Result<(), String> {
        if let Some(posts) = word.strip_prefix('+') {
            return self.posts(posts);
        }
        if word == "tf32" {
            self.tf32 = true;
        } else if let Some(data_type) = data_type(word) {
            self.data_type = Some(data_type);
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            for part in word.split(':') {
                self.dims.push(sizes(part)?);
            }
        } else if word.contains(|c: char| c.is_ascii_digit()) {
            self.numbers.extend(keyed(word)?);
        } else {
            self.names.push(word.to_owned());
        }
        Ok(())
    }

    /// Takes a word that is a key with its number as well as a type: as the one that is not given yet, and as the type where both are
    /// missing and the primitive takes that type.
    fn take_either(&mut self, name: &str, word: &str) -> Result<(), String> {
        let found = keyed(word)?;
        let is_given = self.numbers.iter().any(|(key, _)| found.iter().any(|(own, _)| own == key));
        let is_type = !self.tf32
            && self.data_type.is_none()
            && data_type(word).is_some_and(|t| types(name).contains(&t));
        if is_given || is_type {
            return self.take(word);
        }
        self.numbers.extend(found);
        Ok(())
    }

    fn posts(&mut self, posts: &str) -> Result<(), String> {
        for name in posts.split('+').filter(|name| !name.is_empty()) {
            let post = match name {
                "bias" => Post::Bias,
                name => function(name).map(Post::Function).or(Pair::parse(name).map(Post::Pair)).ok_or_else(
                    || {
                        let known = [&["bias"], &functions()[..], Pair::ALL].concat().join(", ");
                        format!("expected a post-operation ({known}), not {name:?}")
                    },
                )?,
            };
            self.posts.push(post);
        }
        Ok(())
    }

    fn work(&mut self, name: &str) -> Result<Work, String> {
        Ok(match name {
            "matmul" | "ip" => self.matmul()?,
            "conv" | "convolution" => self.convolution()?,
            "pool" | "pooling" => {
                let average = self.name(&["max", "avg"])? == "avg";
                let src = self.image()?;
                let window = self.window()?;
                Work::Pooling { src, window, average }
            }
            "softmax" => Work::Softmax { dims: self.tensor()? },
            "layernorm" | "lnorm" => Work::LayerNorm { dims: self.tensor()?, rms: false },
            "rmsnorm" => Work::LayerNorm { dims: self.tensor()?, rms: true },
            "batchnorm" | "bnorm" => Work::BatchNorm { src: self.image()? },
            "reduce" | "reduction" => {
                let name = self.name(Fold::ALL)?;
                let fold = Fold::parse(&name).unwrap_or(Fold::Sum);
                Work::Reduction { fold, dims: self.tensor()? }
            }
            "eltwise" => {
                let name = self.name(&functions())?;
                let function = function(&name).unwrap_or(Eltwise::Relu);
                Work::Eltwise { function, dims: self.tensor()? }
            }
            "attention" | "sdpa" => self.attention()?,
            "lstm" | "gru" | "rnn" => self.recurrent(name)?,
            "copy" | "reorder" => Work::Copy { dims: self.tensor()? },
            other => match (Pair::parse(other), function(other)) {
                (Some(function), _) => Work::Binary { function, dims: self.tensor()? },
                (None, Some(function)) => Work::Eltwise { function, dims: self.tensor()? },
                _ => {
                    let networks = NETWORKS.map(|(name, _)| name).join(", ");
                    return Err(format!(
                        "expected a primitive (matmul, conv, pool, softmax, layernorm, rmsnorm, batchnorm, reduce, eltwise, {}, attention, lstm, gru, rnn, copy), \
                         a network with a type ({networks}) or a graph file, not {other:?}",
                        Pair::ALL.join(", ")
                    ));
                }
            },
        })
    }

    /// `wu4 g128`: a constant factor of four or eight bits.
    fn few_bits(&mut self, work: &Work) -> Result<Option<FewBits>, String> {
        let Work::MatMul { weights: dims, .. } = work else { return Ok(None) };
        let (signed, unsigned) = (self.number(&["ws"])?, self.number(&["wu"])?);
        let data_type = match (signed, unsigned) {
            (None, None) => return Ok(None),
            (Some(4), None) => DataType::S4,
            (Some(8), None) => DataType::S8,
            (None, Some(4)) => DataType::U4,
            (None, Some(8)) => DataType::U8,
            _ => return Err("expected one of ws4, ws8, wu4 and wu8".into()),
        };
        let group = self.number(&["g"])?;
        if dims.len() != 2 || group.is_some_and(|group| group == 0 || dims[0] % group != 0) {
            let terms = dims[dims.len() - 2];
            return Err(format!("expected a factor [K, N] and groups that divide {terms} terms"));
        }
        Ok(Some(FewBits { data_type, group }))
    }

    fn matmul(&mut self) -> Result<Work, String> {
        let [src, weights] = &mut self.dims[..] else {
            return Err(format!("expected two factors such as 128x768:768x3072, not {}", self.dims.len()));
        };
        let shape = |dims: &[usize]| dims.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        let fits = src.len() >= 2
            && (weights.len() == src.len() || weights.len() == 2)
            && src[src.len() - 1] == weights[weights.len() - 2]
            && (weights.len() == 2 || src[..src.len() - 2] == weights[..weights.len() - 2]);
        if !fits {
            return Err(format!(
                "{} and {} do not multiply; expected [.., M, K] and [.., K, N] or [K, N]",
                shape(src),
                shape(weights)
            ));
        }
        Ok(Work::MatMul { src: std::mem::take(src), weights: std::mem::take(weights) })
    }

    fn convolution(&mut self) -> Result<Work, String> {
        let (src, outputs) = if self.dims.is_empty() {
            self.benchdnn()?
        } else {
            let outputs = self.number(&["o", "oc"])?.ok_or("expected the output channels, such as o64")?;
            (self.image()?, outputs)
        };
        let groups = self.number(&["g"])?.unwrap_or(1);
        let window = self.window()?;
        if groups == 0 || src[3] % groups != 0 || outputs % groups != 0 {
            return Err(format!("{} and {outputs} channels do not part into {groups} groups", src[3]));
        }
        Ok(Work::Convolution { src, outputs, window, groups })
    }

    /// `mb1ic64ih56oc64kh3ph1`: what is not told of the width is as of the height.
    fn benchdnn(&mut self) -> Result<([usize; 4], usize), String> {
        let mut need = |key: &str| {
            let given = self.number(&[key])?;
            given.ok_or(format!(
                "expected [N, H, W, C] such as 1x56x56x64, or a string such as ic64ih56oc64kh3ph1 (no {key})"
            ))
        };
        let (channels, height, outputs, kernel) = (need("ic")?, need("ih")?, need("oc")?, need("kh")?);
        let batch = self.number(&["mb", "n"])?.unwrap_or(1);
        let width = self.number(&["iw"])?.unwrap_or(height);
        let mut pair = |vertical: &str, horizontal: &str, default: usize| -> Result<[usize; 2], String> {
            let first = self.number(&[vertical])?.unwrap_or(default);
            Ok([first, self.number(&[horizontal])?.unwrap_or(first)])
        };
        let (stride, dilation, pad) = (pair("sh", "sw", 1)?, pair("dh", "dw", 0)?, pair("ph", "pw", 0)?);
        let kernel = [kernel, self.number(&["kw"])?.unwrap_or(kernel)];
        // The result's size follows.
        self.number(&["oh"])?;
        self.number(&["ow"])?;
        for (key, value) in [("k", kernel), ("s", stride), ("p", pad), ("d", dilation.map(|d| d + 1))] {
            self.numbers.push((key.to_owned(), value.to_vec()));
        }
        Ok(([batch, height, width, channels], outputs))
    }

    fn attention(&mut self) -> Result<Work, String> {
        let batch = self.number(&["b"])?.unwrap_or(1);
        let mut need = |key: &str, example: &str| {
            self.number(&[key])?.ok_or(format!("expected a number such as {example}"))
        };
        let (heads, queries, size) = (need("h", "h12")?, need("s", "s128")?, need("d", "d64")?);
        let keys = self.number(&["t"])?.unwrap_or(queries);
        let groups = self.number(&["kv", "g"])?.unwrap_or(heads);
        let causal =
            self.names.iter().position(|name| name == "causal").map(|at| self.names.remove(at)).is_some();
        if heads % groups != 0 {
            return Err(format!("expected a divisor of {heads} heads for keys and values, not {groups}"));
        }
        Ok(Work::Attention { batch, heads, groups, queries, keys, size, causal })
    }

    fn recurrent(&mut self, name: &str) -> Result<Work, String> {
        let mut need = |key: &str, example: &str| {
            self.number(&[key])?.ok_or(format!("expected a number such as {example}"))
        };
        let (steps, inputs, hidden) = (need("t", "t300")?, need("i", "i600")?, need("h", "h600")?);
        let batch = self.number(&["n"])?.unwrap_or(1);
        let mut says = |word: &str| {
            self.names.iter().position(|name| name == word).map(|at| self.names.remove(at)).is_some()
        };
        let direction = match (says("bidirectional"), says("reverse")) {
            (false, false) => Direction::LeftToRight,
            (false, true) => Direction::RightToLeft,
            (true, false) => Direction::Concat,
            (true, true) => return Err("expected one of bidirectional and reverse".into()),
        };
        let cell = match name {
            "lstm" => Cell::Lstm(GateOrder::InputOutputForgetCandidate),
            "gru" if says("linear_before_reset") => Cell::GruLinearBeforeReset,
            "gru" => Cell::Gru,
            _ if says("relu") => Cell::Vanilla(Activation::Relu),
            _ if says("logistic") => Cell::Vanilla(Activation::Logistic),
            _ => {
                says("tanh");
                Cell::Vanilla(Activation::Tanh)
            }
        };
        Ok(Work::Recurrent { cell, direction, steps, batch, inputs, hidden })
    }

    fn window(&mut self) -> Result<Window, String> {
        let mut pair = |key: &str, default: Option<usize>| -> Result<[usize; 2], String> {
            let found =
                self.numbers.iter().position(|(name, _)| name == key).map(|at| self.numbers.remove(at).1);
            match (found.as_deref(), default) {
                (Some(&[both]), _) => Ok([both; 2]),
                (Some(&[vertical, horizontal]), _) => Ok([vertical, horizontal]),
                (None, Some(default)) => Ok([default; 2]),
                (Some(other), _) => {
                    Err(format!("expected one or two numbers after {key}, not {}", other.len()))
                }
                (None, None) => Err(format!("expected a window, such as {key}3")),
            }
        };
        let window = Window {
            kernel: pair("k", None)?,
            stride: pair("s", Some(1))?,
            dilation: pair("d", Some(1))?,
            pad: pair("p", Some(0))?,
        };
        let zero = [window.kernel, window.stride, window.dilation].iter().any(|pair| pair.contains(&0));
        if zero { Err("expected a window, strides and dilations of at least 1".into()) } else { Ok(window) }
    }

    fn image(&mut self) -> Result<[usize; 4], String> {
        let dims = self.tensor()?;
        let given = dims.len();
        dims.try_into()
            .map_err(|_| format!("expected four dimensions [N, H, W, C] such as 1x56x56x64, not {given}"))
    }

    fn tensor(&mut self) -> Result<Vec<usize>, String> {
        match &mut self.dims[..] {
            [dims] => Ok(std::mem::take(dims)),
            other => {
                Err(format!("expected the dimensions of one tensor such as 1536x128, not of {}", other.len()))
            }
        }
    }

    fn number(&mut self, keys: &[&str]) -> Result<Option<usize>, String> {
        let Some(at) = self.numbers.iter().position(|(name, _)| keys.contains(&name.as_str())) else {
            return Ok(None);
        };
        match &self.numbers.remove(at).1[..] {
            [number] => Ok(Some(*number)),
            _ => Err(format!("expected one number after {}", keys[0])),
        }
    }

    fn name(&mut self, known: &[&str]) -> Result<String, String> {
        let at = self.names.iter().position(|name| known.contains(&name.as_str()));
        at.map(|at| self.names.remove(at)).ok_or_else(|| format!("expected one of {}", known.join(", ")))
    }
}

fn check(spec: &Spec, types: &[DataType]) -> Result<(), String> {
    if !types.contains(&spec.data_type) {
        let known = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!("expected a type among {known}, not {}", spec.data_type));
    }
    let is_product = matches!(spec.work, Work::MatMul { .. } | Work::Convolution { .. });
    if spec.tf32 && (!is_product || spec.data_type != DataType::F32) {
        return Err("expected tf32 of matmul and conv only, and without another type".into());
    }
    if spec.weights.is_some() && (spec.data_type.bits() == 8 || spec.tf32) {
        return Err("expected weights of few bits beside f32, f16 or bf16".into());
    }
    let bias = spec.post_ops.iter().skip(1).any(|post| *post == Post::Bias);
    if bias || (spec.post_ops.contains(&Post::Bias) && !is_product) {
        return Err("expected +bias first, and of matmul and conv only".into());
    }
    let empty = spec.result().contains(&0)
        || match &spec.work {
            Work::MatMul { src, .. } => src.contains(&0),
            Work::Convolution { src, .. } | Work::Pooling { src, .. } => src.contains(&0),
            Work::Reduction { dims, .. } => dims.contains(&0),
            Work::Attention { keys, .. } => *keys == 0,
            Work::Recurrent { inputs, .. } => *inputs == 0,
            _ => false,
        };
    if empty { Err("expected sizes of at least 1, and a window that fits".into()) } else { Ok(()) }
}

fn data_type(word: &str) -> Option<DataType> {
    word.parse().ok()
}

fn sizes(text: &str) -> Result<Vec<usize>, String> {
    let numbers: Option<Vec<usize>> = text.split('x').map(|part| part.parse().ok()).collect();
    let elements = numbers.as_ref().and_then(|n| n.iter().try_fold(1_usize, |all, &n| all.checked_mul(n)));
    match (numbers, elements) {
        (Some(numbers), Some(_)) => Ok(numbers),
        _ => Err(format!("expected dimensions such as 128x768, not {text:?}")),
    }
}

/// `k3`, `k3x5`, `ic64ih56`.
fn keyed(word: &str) -> Result<Vec<(String, Vec<usize>)>, String> {
    let mut rest = word;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let wrong = || format!("expected letters and a number such as k3, not {word:?}");
        let start = rest.find(|c: char| c.is_ascii_digit()).filter(|&start| start > 0).ok_or_else(wrong)?;
        let (key, tail) = rest.split_at(start);
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut end = digits(tail);
        let second = tail[end..].strip_prefix('x').map_or(0, digits);
        if second > 0 {
            end += 1 + second;
        }
        found.push((key.to_owned(), sizes(&tail[..end])?));
        rest = &tail[end..];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Spec {
        parse(text).unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn functions_have_the_parameters_that_their_operations_always_have() {
        let Work::Eltwise { function, .. } = of("pow 8").work else { panic!("no function") };
        assert!(matches!(function, Eltwise::Pow { alpha: 1.0, .. }), "{function:?}");
        assert_ne!(function, function.row().example, "the test tests nothing");
    }

    #[test]
    fn products_have_types_and_post_operations() {
        let spec = of("matmul 128x768:768x3072 f16 +bias+gelu");
        assert_eq!(spec.work, Work::MatMul { src: vec![128, 768], weights: vec![768, 3072] });
        assert_eq!(
            (spec.data_type, &spec.post_ops[..]),
            (DataType::F16, &[Post::Bias, Post::Function(Eltwise::GeluErf)][..])
        );
        assert_eq!((spec.result(), spec.flops()), (vec![128, 3072], 2.0 * 128.0 * 768.0 * 3072.0));
        assert_eq!(of("matmul 12x128x64:12x64x128").result(), [12, 128, 128]);
        let spec = of("matmul 128x768:768x3072 tf32");
        assert!(spec.tf32 && spec.data_type == DataType::F32);
        let few = |text: &str| of(text).weights.map(|few| (few.data_type, few.group));
        assert_eq!(few("matmul 2x8:8x4 f16 wu4 g4"), Some((DataType::U4, Some(4))));
        assert_eq!(few("matmul 2x8:8x4 ws8"), Some((DataType::S8, None)));
        assert_eq!(few("matmul 2x8:8x4 f16"), None);
    }

    #[test]
    fn convolutions_are_written_in_two_ways() {
        let spec = of("conv 1x56x56x64 o64 k3 p1");
        assert_eq!(spec, of("conv mb1ic64ih56oc64kh3ph1"));
        assert_eq!(spec.result(), [1, 56, 56, 64]);
        assert_eq!(of("conv 2x56x57x64 o32 k1x3 s2 p0x1 g32").result(), [2, 28, 29, 32]);
        assert_eq!(of("conv ic4ih8iw9oc4kh3dh1").result(), [1, 4, 5, 4]);
        assert_eq!(of("conv 1x8x9x4 o4 k3 d2").result(), [1, 4, 5, 4]);
    }

    #[test]
    fn the_other_primitives_are_there() {
        assert_eq!(of("add+relu 16777216").post_ops, [Post::Function(Eltwise::Relu)]);
        assert_eq!(of("pool max 1x112x112x64 k3 s2 p1").result(), [1, 56, 56, 64]);
        assert_eq!(of("reduce mean 8x9").result(), [8, 1]);
        let Work::Attention { keys, groups, causal, .. } = of("attention b1 h12 s128 d64 kv4 causal").work
        else {
            panic!()
        };
        assert_eq!((keys, groups, causal), (128, 4, true));
        for text in [
            "softmax 1536x128",
            "layernorm 128x768 bf16",
            "rmsnorm 4x8",
            "batchnorm 1x4x4x8",
            "eltwise gelu 100",
            "gelu 100",
            "copy 8",
        ] {
            of(text);
        }
    }

    #[test]
    fn recurrent_layers_have_a_cell_a_direction_and_sizes() {
        let spec = of("lstm t300 n2 i60 h80 bidirectional f16");
        let Work::Recurrent { cell, direction, steps, batch, inputs, hidden } = spec.work else { panic!() };
        assert!(cell.is_lstm() && direction == Direction::Concat);
        assert_eq!((steps, batch, inputs, hidden, spec.data_type), (300, 2, 60, 80, DataType::F16));
        let spec = of("gru t3i4h5n2 linear_before_reset reverse");
        assert_eq!(spec.result(), [3, 1, 2, 5]);
        assert_eq!(spec.flops() as u64, 2 * 3 * 2 * 15 * 9);
        let cell = |text| match of(text).work {
            Work::Recurrent { cell, .. } => cell,
            work => panic!("{work:?}"),
        };
        assert_eq!(cell("gru t3 i4 h5"), Cell::Gru);
        assert_eq!(cell("gru t3 i4 h5 linear_before_reset"), Cell::GruLinearBeforeReset);
        assert_eq!(cell("rnn t3 i4 h5 relu"), Cell::Vanilla(Activation::Relu));
        assert_eq!(cell("rnn t3 i4 h5 tanh"), cell("rnn t3 i4 h5"));
    }

    #[test]
    fn keys_are_told_from_types_of_the_same_letters() {
        let stride = |text: &str| match of(text).work {
            Work::Convolution { window, .. } | Work::Pooling { window, .. } => window.stride,
            work => panic!("{text}: {work:?}"),
        };
        let conv = |rest: &str| format!("conv 1x64x64x4 o8 k3 {rest}");
        for (words, expected, data_type) in [
            ("s4", 4, DataType::F32),
            ("s32", 32, DataType::F32),
            ("s8", 1, DataType::S8),
            ("s2 s8", 2, DataType::S8),
            ("s8 s2", 2, DataType::S8),
            ("s8 s8", 8, DataType::S8),
            ("s8 f32", 8, DataType::F32),
            ("f16 s8", 8, DataType::F16),
            ("s8 u8", 8, DataType::U8),
            ("s8x8", 8, DataType::F32),
            ("s4 u8", 4, DataType::U8),
            ("tf32 s8", 8, DataType::F32),
        ] {
            let text = conv(words);
            assert_eq!((stride(&text), of(&text).data_type), ([expected; 2], data_type), "{text}");
        }
        assert_eq!(stride("pool max 1x64x64x4 k3 s8"), [8; 2]);
        assert_eq!(of("matmul 3x4:4x5 s8").data_type, DataType::S8);
        for (text, queries, data_type) in [
            ("attention b1 h2 s8 d64", 8, DataType::F32),
            ("attention h2 s4 d64 t8 f16", 4, DataType::F16),
            ("sdpa h2 bf16 s32 d64", 32, DataType::BF16),
        ] {
            let spec = of(text);
            assert!(matches!(spec.work, Work::Attention { queries: s, .. } if s == queries), "{text}");
            assert_eq!(spec.data_type, data_type, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, word) in [
            ("", "nothing"),
            ("frobnicate 3x3", "frobnicate"),
            ("matmul 3x4:5x6", "3x4 and 5x6"),
            ("matmul 3x4", "two factors"),
            ("matmul 3x4:4x5 f17", "f17"),
            ("matmul 3x4:4x5 +bais", "\"bais\""),
            ("matmul 3x4:4x5 +relu+bias", "+bias first"),
            ("softmax 3xx4", "3xx4"),
            ("softmax 3x4 k3", "\"k\""),
            ("softmax 3x4 causal", "\"causal\""),
            ("matmul 2x8:8x4 f16 wu3", "expected one of ws4"),
            ("matmul 2x8:8x4 f16 wu4 g3", "groups that divide 8 terms"),
            ("matmul 2x8:8x4 s8 wu4", "expected weights of few bits beside"),
            ("softmax 3x4 s8", "s8"),
            ("attention b1 h2 s8 d64 s8", "not s8"),
            ("attention b1 h2 s8 d64 u8", "not u8"),
            ("conv 1x64x64x4 o8 k3 s2 s4", "not s4"),
            ("pool max 1x64x64x4 k3 s2 s8", "not s8"),
            ("softmax 3x4 tf32", "matmul and conv only"),
            ("matmul 3x4:4x5 f16 tf32", "without another type"),
            ("conv 1x56x56x64 k3", "o64"),
            ("conv 1x56x56x64 o64", "k3"),
            ("conv 1x2x2x4 o4 k3", "fits"),
            ("conv 56x56x64 o64 k3", "four dimensions"),
            ("conv 1x8x8x6 o4 k3 g4", "4 groups"),
            ("attention b1 h12 s128", "d64"),
            ("lstm t3 n2 i4", "h600"),
            ("lstm t3 n2 i4 h0", "at least 1"),
            ("lstm t3 n2 i4 h5 linear_before_reset", "\"linear_before_reset\""),
            ("gru t3 n2 i4 h5 reverse bidirectional", "one of"),
            ("gru t3 n2 i4 h5 s8", "not s8"),
            ("rnn t3 n2 i4 h5 +bias", "+bias first"),
            ("attention h12 s128 d64 kv5", "divisor"),
            ("eltwise 16", "relu"),
            ("copy 99999999999x99999999999", "dimensions"),
        ] {
            let failure = parse(text).err().unwrap_or_else(|| panic!("{text:?} was taken")).to_string();
            assert!(failure.contains(word) && failure.contains("matmul 128x768"), "{text:?}: {failure}");
        }
    }
}
