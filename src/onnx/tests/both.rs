//! What operators become in the graph against the host's own functions, which other code computes one element after the other.

use std::collections::HashMap;

use super::super::node::Node;
use super::super::ops;
use super::*;

const BOOL: i32 = 9;

/// An operator with its inputs: floats between -1 and 1 unless they are something else.
struct Both {
    draft: Draft,
    names: Vec<String>,
    given: HashMap<String, HostTensor>,
    seed: u64,
}

impl Both {
    fn new(opset: i64) -> Self {
        Self { draft: Draft::new(opset), names: Vec::new(), given: HashMap::new(), seed: 7 }
    }

    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    fn of_type(mut self, name: &str, number: i32, dims: &[usize], values: &[f64]) -> Self {
        let texts: Vec<String> = dims.iter().map(ToString::to_string).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        self.draft = self.draft.typed(name, number, &texts);
        let data_type = match number {
            BOOL => DataType::Boolean,
            INT64 => DataType::S64,
            _ => DataType::F32,
        };
        let tensor = HostTensor::from_f64(anydnn_backend::Dims::new(dims), data_type, values).unwrap();
        self.given.insert(name.to_owned(), tensor);
        self.names.push(name.to_owned());
        self
    }

    fn input(mut self, name: &str, dims: &[usize]) -> Self {
        let values: Vec<f64> = (0..dims.iter().product()).map(|_| self.draw()).collect();
        self.of_type(name, FLOAT, dims, &values)
    }

    fn longs(self, name: &str, dims: &[usize], values: &[i64]) -> Self {
        let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        self.of_type(name, INT64, dims, &values)
    }

    /// Truth values, of which about half hold.
    fn truths(mut self, name: &str, dims: &[usize]) -> Self {
        let values: Vec<f64> =
            (0..dims.iter().product()).map(|_| f64::from(u8::from(self.draw() > 0.0))).collect();
        self.of_type(name, BOOL, dims, &values)
    }

    /// Integers of the file.
    fn known(mut self, name: &str, values: &[i64]) -> Self {
        self.draft = self.draft.ints(name, &[values.len() as i64], values);
        let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        let tensor = HostTensor::from_f64([values.len()], DataType::S64, &floats).unwrap();
        self.given.insert(name.to_owned(), tensor);
        self
    }

    /// Checks that the graph of a node gives what the host's function does.
    #[track_caller]
    fn agrees(self, text: &str, attributes: Vec<AttributeProto>) {
        let (outputs, _) = text.split_once('=').unwrap();
        let draft = self.draft.node(text, attributes);
        let proto = draft.graph.node[0].clone();
        let opset = draft.opset;
        let draft = outputs.split(',').fold(draft, |draft, name| draft.output(name.trim()));
        let inputs: Vec<HostTensor> = self.names.iter().map(|name| self.given[name].clone()).collect();
        let made = draft.run(&[], &inputs).unwrap_or_else(|error| panic!("{text}: {error}"));
        let inputs: Vec<_> = proto.input.iter().map(|name| self.given.get(name)).collect();
        let expected = ops::on_host(&Node::new(&proto, opset, Vec::new()), &inputs).unwrap();
        for (made, expected) in made.iter().zip(&expected) {
            assert_eq!((made.dims(), made.data_type()), (expected.dims(), expected.data_type()), "{text}");
            assert_close(made, &expected.to_f32s(), 2e-5);
        }
    }
}

#[test]
fn attention_is_that_of_the_host() {
    let apart = |queries: [usize; 4], keys: [usize; 4]| {
        Both::new(24).input("q", &queries).input("k", &keys).input("v", &keys)
    };
    let (same, longer) = ([2, 4, 5, 8], [2, 4, 7, 8]);
    apart(same, longer).agrees("y = Attention(q, k, v)", vec![float("scale", 0.3), float("softcap", 0.7)]);
    apart(same, longer).agrees("y = Attention(q, k, v)", vec![int("is_causal", 1)]);
    let window = vec![int("left_window_size", 1), int("right_window_size", 2)];
    apart([1, 1, 9, 4], [1, 1, 5, 4]).agrees("y = Attention(q, k, v)", window);
    // Heads of queries that share those of keys, one mask for each of them or one for all.
    let shared = || apart([2, 6, 5, 8], [2, 2, 7, 8]);
    shared().input("m", &[2, 6, 5, 7]).agrees("y = Attention(q, k, v, m)", vec![]);
    shared().input("m", &[5, 7]).agrees("y = Attention(q, k, v, m)", vec![int("is_causal", 1)]);
    shared().truths("m", &[2, 1, 5, 7]).agrees("y = Attention(q, k, v, m)", vec![]);
    // A mask that is shorter than the keys, and one that hides everything from a query.
    let hidden = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    apart([1, 2, 2, 4], [1, 2, 5, 4])
        .of_type("m", BOOL, &[2, 3], &hidden)
        .agrees("y = Attention(q, k, v, m)", vec![]);
    let minus = f64::NEG_INFINITY;
    apart([1, 2, 2, 4], [1, 2, 3, 4])
        .of_type("m", FLOAT, &[2, 3], &[0.5, minus, 0.0, minus, minus, minus])
        .agrees("y = Attention(q, k, v, m)", vec![]);
    // One query, whose heads lie one behind the other, behind earlier keys and values.
    for count in [2, 6] {
        let text = "y, k2, v2 = Attention(q, k, v, , pk, pv)";
        let one = || apart([2, count, 1, 8], [2, 2, 1, 8]).input("pk", &[2, 2, 6, 8]);
        one().input("pv", &[2, 2, 6, 8]).agrees(text, vec![int("is_causal", 1)]);
        one().input("pv", &[2, 2, 6, 8]).agrees(text, vec![int("left_window_size", 2)]);
    }
    // Each sample has its own number of keys.
    for attributes in [vec![], vec![int("is_causal", 1)], vec![int("left_window_size", 2)]] {
        apart([2, 4, 3, 8], [2, 2, 7, 8])
            .longs("n", &[2], &[7, 4])
            .agrees("y = Attention(q, k, v, , , , n)", attributes);
    }
    let packed = vec![int("q_num_heads", 6), int("kv_num_heads", 3)];
    Both::new(24)
        .input("q", &[2, 5, 48])
        .input("k", &[2, 7, 24])
        .input("v", &[2, 7, 30])
        .agrees("y, k2, v2 = Attention(q, k, v)", packed);
}

#[test]
fn rotary_positions_are_those_of_the_host() {
    for interleaved in [0, 1] {
        let alternates = int("interleaved", interleaved);
        Both::new(23)
            .input("x", &[2, 3, 5, 8])
            .input("c", &[2, 5, 4])
            .input("s", &[2, 5, 4])
            .agrees("y = RotaryEmbedding(x, c, s)", vec![alternates.clone()]);
        let part = vec![alternates, int("num_heads", 3), int("rotary_embedding_dim", 4)];
        Both::new(23)
            .input("x", &[2, 5, 24])
            .input("c", &[9, 2])
            .input("s", &[9, 2])
            .longs("p", &[2, 5], &[0, 1, 2, 3, 8, 7, 6, 5, 4, 0])
            .agrees("y = RotaryEmbedding(x, c, s, p)", part);
    }
}

#[test]
fn norms_over_channels_and_windows_are_those_of_the_host() {
    let image = |opset| Both::new(opset).input("x", &[2, 7, 5, 6]);
    image(13).agrees("y = MeanVarianceNormalization(x)", vec![]);
    image(13).agrees("y = MeanVarianceNormalization(x)", vec![ints("axes", &[-1, 2])]);
    for size in [1, 2, 3, 6, 20] {
        let attributes = vec![int("size", size), float("alpha", 0.5), float("beta", 0.6), float("bias", 1.5)];
        image(13).agrees("y = LRN(x)", attributes);
    }
    Both::new(13).input("x", &[3, 4]).agrees("y = LRN(x)", vec![int("size", 3)]);
    for p in [1, 2, 3] {
        let attributes = vec![
            ints("kernel_shape", &[3, 2]),
            ints("strides", &[2, 1]),
            ints("pads", &[1, 0, 1, 1]),
            int("p", p),
            int("ceil_mode", 1),
        ];
        image(18).agrees("y = LpPool(x)", attributes);
        image(13).agrees("y = GlobalLpPool(x)", vec![int("p", p)]);
    }
}

#[test]
fn choices_and_places_are_those_of_the_host() {
    let ties: Vec<f64> = (0..24).map(|i| f64::from(i % 3)).collect();
    for axis in [0, 1, -1] {
        Both::new(13)
            .of_type("x", FLOAT, &[2, 3, 4], &ties)
            .agrees("y = Hardmax(x)", vec![int("axis", axis)]);
    }
    Both::new(19).input("x", &[5]).longs("t", &[1], &[0]).agrees("y = CastLike(x, t)", vec![]);
    for (batch, time) in [(1, 0), (0, 1)] {
        let dims = if time == 0 { [4, 3, 2] } else { [3, 4, 2] };
        Both::new(10)
            .input("x", &dims)
            .longs("n", &[3], &[4, 0, 3])
            .agrees("y = ReverseSequence(x, n)", vec![int("batch_axis", batch), int("time_axis", time)]);
    }
    Both::new(24)
        .input("x", &[2, 3, 5, 4])
        .input("u", &[2, 3, 1, 4])
        .longs("i", &[2], &[4, 1])
        .agrees("y = TensorScatter(x, u, i)", vec![]);
}

#[test]
fn images_of_columns_and_grids_are_those_of_the_host() {
    let columns = |count: usize| Both::new(18).input("x", &[2, 3 * 6, count]);
    let spread = vec![ints("strides", &[2, 1]), ints("dilations", &[1, 2]), ints("pads", &[1, 0, 0, 1])];
    // Rows that no window reaches, at the end.
    columns(3 * 4).known("i", &[6, 7]).known("k", &[2, 3]).agrees("y = Col2Im(x, i, k)", spread);
    columns(4 * 5).known("i", &[5, 7]).known("k", &[2, 3]).agrees("y = Col2Im(x, i, k)", vec![]);
    for aligned in [0, 1] {
        let attributes = vec![int("align_corners", aligned)];
        let flat = Both::new(20).input("m", &[2, 2, 3]).known("s", &[2, 3, 4, 1]);
        flat.agrees("y = AffineGrid(m, s)", attributes.clone());
        let deep = Both::new(20).input("m", &[2, 3, 4]).known("s", &[2, 3, 4, 5, 2]);
        deep.agrees("y = AffineGrid(m, s)", attributes);
    }
}

#[test]
fn images_are_read_at_the_places_of_the_host() {
    for (mode, padding, aligned) in
        [("linear", "zeros", 0), ("linear", "border", 1), ("nearest", "zeros", 1), ("nearest", "border", 0)]
    {
        let attributes =
            vec![word("mode", mode), word("padding_mode", padding), int("align_corners", aligned)];
        let text = "y = GridSample(x, g)";
        // Places that reach beyond the image.
        let flat: Vec<f64> = (0..2 * 4 * 3 * 2).map(|i| f64::from(i * 7 % 31) / 12.0 - 1.27).collect();
        let grid = |both: Both| both.of_type("g", FLOAT, &[2, 4, 3, 2], &flat);
        grid(Both::new(20).input("x", &[2, 5, 6, 7])).agrees(text, attributes.clone());
        Both::new(20)
            .input("x", &[2, 3, 4, 5, 6])
            .input("g", &[2, 3, 1, 4, 3])
            .agrees(text, attributes.clone());
        Both::new(20).input("x", &[1, 2, 9]).input("g", &[1, 8, 1]).agrees(text, attributes);
    }
}
