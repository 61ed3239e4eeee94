//! What is mutated: small models of our own, the node tests of the `onnx` package where its folder is named, and any further models.

use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::wire::{Content, Field, Kind, encode, parse, put};

/// Larger files are mutated rarely: the time goes into copying them.
const LARGE: usize = 64 << 10;
/// The largest file that is read.
const LARGEST: u64 = 16 << 20;

/// The models, those of our own first.
#[derive(Debug)]
pub struct Corpus {
    models: Vec<Seed>,
    large: Vec<usize>,
    small: Vec<usize>,
}

/// A model as bytes and as fields.
#[derive(Debug)]
pub struct Seed {
    pub bytes: Vec<u8>,
    pub fields: Vec<Field>,
}

impl Corpus {
    pub fn load() -> Self {
        let mut all: Vec<Vec<u8>> = own();
        if let Some(folder) = std::env::var_os("ANYDNN_ONNX_TESTS") {
            all.extend(files(&Path::new(&folder).join("node")));
        }
        if let Some(folder) = std::env::var_os("ANYDNN_FUZZ_MODELS") {
            all.extend(files(Path::new(&folder)));
        }
        let seed = |bytes: Vec<u8>| Some(Seed { fields: parse(Kind::Model, &bytes)?, bytes });
        let models: Vec<Seed> = all.into_iter().filter_map(seed).collect();
        let (large, small) = (0..models.len()).partition(|&index| models[index].bytes.len() > LARGE);
        Self { models, large, small }
    }

    pub fn len(&self) -> usize {
        self.models.len()
    }

    pub fn pick(&self, random: &mut Random) -> &Seed {
        let large = !self.large.is_empty() && random.once_in(40);
        &self.models[*random.pick(if large { &self.large } else { &self.small })]
    }
}

/// The models below a folder, by their names.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut open = vec![folder.to_owned()];
    let mut found: Vec<PathBuf> = Vec::new();
    while let Some(folder) = open.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "onnx")
                && path.metadata().is_ok_and(|metadata| metadata.len() <= LARGEST)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Models that reach the importer's parts: weights, shape arithmetic, folding, graphs within graphs.
fn own() -> Vec<Vec<u8>> {
    let relu = || graph(&["x"], "y", vec![], vec![node("y = Relu(x)", vec![])]);
    let inner = |operator: &str| graph(&[], "y", vec![], vec![node(&format!("y = {operator}(x)"), vec![])]);
    let body = Content::Message(
        Kind::Graph,
        [
            vec![
                message(11, Kind::ValueInfo, vec![text(1, "i")]),
                message(11, Kind::ValueInfo, vec![text(1, "c")]),
            ],
            vec![
                message(1, Kind::Node, node("d = Identity(c)", vec![])),
                message(12, Kind::ValueInfo, vec![text(1, "d")]),
            ],
        ]
        .concat(),
    );
    let all = vec![
        relu(),
        graph(
            &["x"],
            "y",
            vec![floats("w", &[4, 2])],
            vec![node("a = MatMul(x, w)", vec![]), node("y = Softmax(a)", vec![ints("axis", &[1])])],
        ),
        graph(&["x"], "y", vec![longs("s", &[2, -1])], vec![node("y = Reshape(x, s)", vec![])]),
        graph(
            &["x"],
            "y",
            vec![longs("s", &[0, 3]), longs("e", &[3, 4])],
            vec![
                node("a = Shape(x)", vec![]),
                node("b = Gather(a, s)", vec![ints("axis", &[0])]),
                node("c = Concat(b, e)", vec![ints("axis", &[0])]),
                node("d = Mul(c, e)", vec![]),
                node("f = ConstantOfShape(d)", vec![]),
                node("g = Slice(f, s, e)", vec![]),
                node("h = Expand(g, d)", vec![]),
                node("y = Add(x, h)", vec![]),
            ],
        ),
        graph(
            &["x"],
            "y",
            vec![floats("w", &[2, 2, 3, 3])],
            vec![
                node(
                    "a = Conv(x, w)",
                    vec![ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 2]), ints("group", &[1])],
                ),
                node("y = MaxPool(a)", vec![ints("kernel_shape", &[2, 2]), ints("dilations", &[1, 1])]),
            ],
        ),
        graph(
            &["x", "c"],
            "y",
            vec![],
            vec![node(
                "y = If(c)",
                vec![
                    attribute("then_branch", 5, 6, inner("Relu")),
                    attribute("else_branch", 5, 6, inner("Neg")),
                ],
            )],
        ),
        graph(
            &["x"],
            "y",
            vec![longs("n", &[3])],
            vec![node("y = Loop(n, , x)", vec![attribute("body", 5, 6, body)])],
        ),
        graph(
            &["x"],
            "y",
            vec![floats("w", &[1, 8, 4]), floats("r", &[1, 8, 2])],
            vec![node("y = LSTM(x, w, r)", vec![ints("hidden_size", &[2])])],
        ),
        graph(&["x"], "y", vec![floats("s", &[4])], vec![node("y = Resize(x, , s)", vec![])]),
        graph(
            &["x"],
            "y",
            vec![longs("n", &[4, 8])],
            vec![
                node("a = Range(n, n, n)", vec![]),
                node("b = Tile(a, n)", vec![]),
                node("y = OneHot(b, n, x)", vec![]),
            ],
        ),
    ];
    all.into_iter()
        .map(|graph| {
            let opset = message(8, Kind::Leaf, vec![Field { number: 2, content: Content::Varint(18) }]);
            encode(&[Field { number: 7, content: graph }, opset])
        })
        .collect()
}

fn graph(inputs: &[&str], output: &str, weights: Vec<Vec<Field>>, nodes: Vec<Vec<Field>>) -> Content {
    let mut fields: Vec<Field> = nodes.into_iter().map(|node| message(1, Kind::Node, node)).collect();
    fields.extend(weights.into_iter().map(|weight| message(5, Kind::Tensor, weight)));
    fields.extend(inputs.iter().map(|name| {
        let dim =
            |extent: u64| message(1, Kind::Leaf, vec![Field { number: 1, content: Content::Varint(extent) }]);
        let shape = message(2, Kind::Shape, [1, 2, 4, 4].map(dim).to_vec());
        let float = Field { number: 1, content: Content::Varint(1) };
        let tensor = message(1, Kind::TensorType, vec![float, shape]);
        message(11, Kind::ValueInfo, vec![text(1, name), message(2, Kind::Type, vec![tensor])])
    }));
    fields.push(message(12, Kind::ValueInfo, vec![text(1, output)]));
    Content::Message(Kind::Graph, fields)
}

/// A node written as `y = Add(x, w)`.
fn node(written: &str, attributes: Vec<Field>) -> Vec<Field> {
    let (output, call) = written.split_once(" = ").unwrap();
    let (operator, inputs) = call.trim_end_matches(')').split_once('(').unwrap();
    let mut fields: Vec<Field> = inputs.split(',').map(|name| text(1, name.trim())).collect();
    fields.extend([text(2, output), text(4, operator)]);
    fields.extend(attributes);
    fields
}

fn ints(name: &str, values: &[i64]) -> Field {
    let (number, kind) = if values.len() == 1 { (3, 2) } else { (8, 7) };
    let mut fields = vec![text(1, name), Field { number: 20, content: Content::Varint(kind) }];
    fields.extend(values.iter().map(|&value| Field { number, content: Content::Varint(value as u64) }));
    message(5, Kind::Attribute, fields)
}

fn attribute(name: &str, kind: u64, number: u32, content: Content) -> Field {
    let kind = Field { number: 20, content: Content::Varint(kind) };
    message(5, Kind::Attribute, vec![text(1, name), kind, Field { number, content }])
}

fn floats(name: &str, dims: &[u64]) -> Vec<Field> {
    let count: u64 = dims.iter().product();
    let values: Vec<u8> = (0..count).flat_map(|i| (i as f32 * 0.25).to_le_bytes()).collect();
    let mut fields = vec![text(8, name), Field { number: 2, content: Content::Varint(1) }];
    fields.extend(dims.iter().map(|&dim| Field { number: 1, content: Content::Varint(dim) }));
    fields.push(Field { number: 9, content: Content::Bytes(values) });
    fields
}

fn longs(name: &str, values: &[i64]) -> Vec<Field> {
    let mut packed = Vec::new();
    for &value in values {
        put(&mut packed, value as u64);
    }
    let number = |number, value| Field { number, content: Content::Varint(value) };
    let data = Field { number: 7, content: Content::Bytes(packed) };
    vec![text(8, name), number(2, 7), number(1, values.len() as u64), data]
}

fn text(number: u32, value: &str) -> Field {
    Field { number, content: Content::Bytes(value.as_bytes().to_vec()) }
}

fn message(number: u32, kind: Kind, fields: Vec<Field>) -> Field {
    Field { number, content: Content::Message(kind, fields) }
}
