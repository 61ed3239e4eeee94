//! A decoder with layers as GPT-2 has them (Radford et al., 2019), at whatever size: with weights made up, or read from a file.

use super::checkpoint::Checkpoint;
use super::file::{Attr, Dim, F32, File, S64, U8};

/// The sizes of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Layers.
    pub layers: usize,
    /// Elements of a token's vector.
    pub width: usize,
    /// Heads, each of `width / heads` elements.
    pub heads: usize,
    /// Different tokens.
    pub tokens: usize,
    /// The most tokens of a text.
    pub capacity: usize,
}

/// How keys and values of earlier tokens come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// There is room for all of them, and a step makes a row for each: nothing is copied or compiled as the text grows.
    Rows,
    /// As exporters of decoders have it: a step is given all that there are and makes all of them and one.
    Grown,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// 32 bits each.
    Floats,
    /// 4 bits each, with a factor for 32 of them.
    FourBits,
}

/// Weights in a block of four bits.
const BLOCK: usize = 32;

impl Sizes {
    /// 98 million weights.
    pub const MEDIUM: Self = Self { layers: 12, width: 768, heads: 12, tokens: 16_384, capacity: 512 };
    /// For tests.
    pub const TINY: Self = Self { layers: 2, width: 64, heads: 4, tokens: 96, capacity: 24 };

    /// Weights of all matrices.
    pub fn weights(&self) -> usize {
        self.layers * 12 * self.width * self.width + self.width * self.tokens
    }
}

/// The decoder as an ONNX file. `seed` makes the weights, the same ones every time.
pub fn decoder(sizes: Sizes, form: Form, weights: Weights, seed: u64) -> Vec<u8> {
    write(sizes, form, weights, seed | 1, None)
}

/// The decoder of a checkpoint as an ONNX file.
pub(super) fn of_checkpoint(checkpoint: &Checkpoint, form: Form) -> Vec<u8> {
    write(checkpoint.sizes(), form, Weights::Floats, 1, Some(checkpoint))
}

fn write(sizes: Sizes, form: Form, weights: Weights, state: u64, checkpoint: Option<&Checkpoint>) -> Vec<u8> {
    let mut writer = Writer { file: File::default(), sizes, form, weights, state, checkpoint };
    writer.write();
    writer.file.finish()
}

struct Writer<'c> {
    file: File,
    sizes: Sizes,
    form: Form,
    weights: Weights,
    state: u64,
    /// Where weights are read; else they are made up.
    checkpoint: Option<&'c Checkpoint>,
}

impl Writer<'_> {
    fn write(&mut self) {
        let Sizes { layers, width, tokens, capacity, .. } = self.sizes;
        let one = Dim::Fixed(1);
        self.file.input("input_ids", S64, &[one, one]);
        self.file.input("position_ids", S64, &[one, one]);
        let words = self.table("wte.weight", tokens, width, 1.0);
        let places = self.table("wpe.weight", capacity, width, 0.3);
        let word = self.file.op("Gather", &[&words, "input_ids"], &[]);
        let place = self.file.op("Gather", &[&places, "position_ids"], &[]);
        let mut x = self.file.op("Add", &[&word, &place], &[]);
        let hidden = match self.form {
            Form::Rows => Some(self.hidden()),
            Form::Grown => None,
        };
        for layer in 0..layers {
            let normed = self.norm(&format!("h.{layer}.ln_1"), &x);
            let mixed = self.attention(layer, &normed, hidden.as_deref());
            x = self.file.op("Add", &[&x, &mixed], &[]);
            let normed = self.norm(&format!("h.{layer}.ln_2"), &x);
            let wide = self.linear(&format!("h.{layer}.mlp.c_fc"), &normed, width, 4 * width);
            let approximate = [("approximate", Attr::Word("tanh"))];
            let wide =
                self.file.op("Gelu", &[&wide], if self.checkpoint.is_some() { &approximate } else { &[] });
            let narrow = self.linear(&format!("h.{layer}.mlp.c_proj"), &wide, 4 * width, width);
            x = self.file.op("Add", &[&x, &narrow], &[]);
        }
        let normed = self.norm("ln_f", &x);
        let scores = if self.checkpoint.is_some() {
            // Words are scored by the table that they are read from.
            let table = self.file.op("Transpose", &[&words], &[("perm", Attr::Ints(&[1, 0]))]);
            self.file.op("MatMul", &[&normed, &table], &[])
        } else {
            self.linear("lm_head", &normed, width, tokens)
        };
        self.file.op_to("Identity", &[&scores], "logits", &[]);
        self.file.output("logits", F32, &[one, one, Dim::Fixed(tokens)]);
    }

    /// Attention of the new token to all before it and to itself.
    fn attention(&mut self, layer: usize, x: &str, hidden: Option<&str>) -> String {
        let Sizes { width, heads, capacity, .. } = self.sizes;
        let size = width / heads;
        let attention = format!("h.{layer}.attn.c_attn");
        let query = self.linear_part(&attention, 0, x, width, width);
        let query = self.heads(&query, 1);
        let names = ["key", "value"];
        let pasts = names.map(|name| format!("past_key_values.{layer}.{name}"));
        let presents = names.map(|name| format!("present.{layer}.{name}"));
        let own = [1, 2].map(|part| self.linear_part(&attention, part, x, width, width));
        let (one, all) = (Dim::Fixed(1), Dim::Fixed(heads));
        let scale = self.number(1.0 / (size as f32).sqrt());
        let Some(hidden) = hidden else {
            let (past, total) = (Dim::Open("past_length"), Dim::Open("total_length"));
            let mut kept = Vec::new();
            for at in 0..2 {
                self.file.input(&pasts[at], F32, &[one, all, past, Dim::Fixed(size)]);
                self.file.output(&presents[at], F32, &[one, all, total, Dim::Fixed(size)]);
                let own = self.heads(&own[at], 1);
                self.file.op_to("Concat", &[&pasts[at], &own], &presents[at], &[("axis", Attr::Int(2))]);
                kept.push(presents[at].clone());
            }
            let scores = self.scores(&query, &kept[0], &scale);
            let shares = self.file.op("Softmax", &[&scores], &[("axis", Attr::Int(-1))]);
            let mixed = self.file.op("MatMul", &[&shares, &kept[1]], &[]);
            return self.joined(layer, &mixed);
        };
        let mut kept = Vec::new();
        for at in 0..2 {
            self.file.input(&pasts[at], F32, &[one, Dim::Fixed(capacity), Dim::Fixed(width)]);
            self.file.output(&presents[at], F32, &[one, one, Dim::Fixed(width)]);
            self.file.op_to("Identity", &[&own[at]], &presents[at], &[]);
            kept.push(self.heads(&pasts[at], capacity));
        }
        let [key, value] = own.map(|own| self.heads(&own, 1));
        let before = self.scores(&query, &kept[0], &scale);
        let before = self.file.op("Add", &[&before, hidden], &[]);
        let itself = self.scores(&query, &key, &scale);
        let scores = self.file.op("Concat", &[&before, &itself], &[("axis", Attr::Int(3))]);
        let shares = self.file.op("Softmax", &[&scores], &[("axis", Attr::Int(-1))]);
        let [zero, middle, end, axis] =
            [0, capacity as i64, capacity as i64 + 1, 3].map(|at| self.file.ints(&[at]));
        let before = self.file.op("Slice", &[&shares, &zero, &middle, &axis], &[]);
        let itself = self.file.op("Slice", &[&shares, &middle, &end, &axis], &[]);
        let before = self.file.op("MatMul", &[&before, &kept[1]], &[]);
        let itself = self.file.op("Mul", &[&itself, &value], &[]);
        let mixed = self.file.op("Add", &[&before, &itself], &[]);
        self.joined(layer, &mixed)
    }

    /// Scaled products of the query with keys `[1, heads, length, size]`.
    fn scores(&mut self, query: &str, keys: &str, scale: &str) -> String {
        let keys = self.file.op("Transpose", &[keys], &[("perm", Attr::Ints(&[0, 1, 3, 2]))]);
        let products = self.file.op("MatMul", &[query, &keys], &[]);
        self.file.op("Mul", &[&products, scale], &[])
    }

    /// `[1, length, width]` as `[1, heads, length, size]`.
    fn heads(&mut self, x: &str, length: usize) -> String {
        let (heads, size) = (self.sizes.heads, self.sizes.width / self.sizes.heads);
        let dims = self.file.ints(&[1, length as i64, heads as i64, size as i64]);
        let apart = self.file.op("Reshape", &[x, &dims], &[]);
        self.file.op("Transpose", &[&apart], &[("perm", Attr::Ints(&[0, 2, 1, 3]))])
    }

    /// `[1, heads, 1, size]` as `[1, 1, width]`, mixed.
    fn joined(&mut self, layer: usize, x: &str) -> String {
        let width = self.sizes.width;
        let turned = self.file.op("Transpose", &[x], &[("perm", Attr::Ints(&[0, 2, 1, 3]))]);
        let dims = self.file.ints(&[1, 1, width as i64]);
        let joined = self.file.op("Reshape", &[&turned, &dims], &[]);
        self.linear(&format!("h.{layer}.attn.c_proj"), &joined, width, width)
    }

    /// What is added to scores at a position: nothing before it, minus a lot from it on.
    fn hidden(&mut self) -> String {
        let capacity = self.sizes.capacity;
        let rows = (0..capacity)
            .flat_map(|position| (0..capacity).map(move |at| if at < position { 0.0_f32 } else { -1e9 }));
        let raw: Vec<u8> = rows.flat_map(f32::to_le_bytes).collect();
        let table = self.file.constant(F32, &[capacity, capacity], &raw);
        self.file.op("Gather", &[&table, "position_ids"], &[])
    }

    fn norm(&mut self, name: &str, x: &str) -> String {
        let width = self.sizes.width;
        let scale = self.vector(&format!("{name}.weight"), width, 1.0, 0.1);
        let shift = self.vector(&format!("{name}.bias"), width, 0.0, 0.1);
        self.file.op("LayerNormalization", &[x, &scale, &shift], &[("epsilon", Attr::Float(1e-5))])
    }

    /// The product with a matrix `[from, to]`; one of a file has a bias behind it.
    fn linear(&mut self, name: &str, x: &str, from: usize, to: usize) -> String {
        self.linear_part(name, 0, x, from, to)
    }

    /// The same with the columns from `part * to` on.
    fn linear_part(&mut self, name: &str, part: usize, x: &str, from: usize, to: usize) -> String {
        if let Some(checkpoint) = self.checkpoint {
            let columns = part * to..(part + 1) * to;
            let matrix = checkpoint.columns(&format!("{name}.weight"), from, columns.clone());
            let matrix = self.floats(&[from, to], &matrix);
            let bias = checkpoint.columns(&format!("{name}.bias"), 1, columns);
            let bias = self.floats(&[to], &bias);
            let product = self.file.op("MatMul", &[x, &matrix], &[]);
            return self.file.op("Add", &[&product, &bias], &[]);
        }
        // Uniform numbers of the variance that keeps that of the vectors.
        let spread = (3.0 / from as f32).sqrt();
        if self.weights == Weights::Floats {
            let matrix = self.table(name, from, to, spread);
            return self.file.op("MatMul", &[x, &matrix], &[]);
        }
        let blocks = to * from.div_ceil(BLOCK);
        let packed: Vec<u8> = (0..blocks * BLOCK / 2).map(|_| (self.random() >> 32) as u8).collect();
        let scales: Vec<u8> =
            (0..blocks).flat_map(|_| (spread / 8.0 * (1.0 + 0.2 * self.uniform())).to_le_bytes()).collect();
        let packed = self.file.constant(U8, &[to, from.div_ceil(BLOCK), BLOCK / 2], &packed);
        let scales = self.file.constant(F32, &[blocks], &scales);
        let attrs = [
            ("K", Attr::Int(from as i64)),
            ("N", Attr::Int(to as i64)),
            ("bits", Attr::Int(4)),
            ("block_size", Attr::Int(BLOCK as i64)),
        ];
        self.file.op("com.microsoft:MatMulNBits", &[x, &packed, &scales], &attrs)
    }

    fn table(&mut self, name: &str, rows: usize, columns: usize, spread: f32) -> String {
        let values = match self.checkpoint {
            Some(checkpoint) => checkpoint.columns(name, rows, 0..columns),
            None => (0..rows * columns).map(|_| spread * self.uniform()).collect(),
        };
        self.floats(&[rows, columns], &values)
    }

    fn vector(&mut self, name: &str, width: usize, middle: f32, spread: f32) -> String {
        let values = match self.checkpoint {
            Some(checkpoint) => checkpoint.columns(name, 1, 0..width),
            None => (0..width).map(|_| middle + spread * self.uniform()).collect(),
        };
        self.floats(&[width], &values)
    }

    fn floats(&mut self, dims: &[usize], values: &[f32]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.file.constant(F32, dims, &raw)
    }

    fn number(&mut self, value: f32) -> String {
        self.file.constant(F32, &[], &value.to_le_bytes())
    }

    /// From minus one to one.
    fn uniform(&mut self) -> f32 {
        (self.random() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    /// The generator xorshift64* (Vigna, 2016).
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
