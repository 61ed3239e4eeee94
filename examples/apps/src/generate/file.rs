//! Writes ONNX files: as much of the format as a decoder takes, by the field numbers of the published `onnx.proto`.

/// A graph under construction, its parts encoded.
#[derive(Debug, Default)]
pub(super) struct File {
    graph: Vec<u8>,
    names: usize,
}

/// An attribute of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attr<'a> {
    Int(i64),
    Float(f32),
    Ints(&'a [i64]),
    Word(&'a str),
}

/// A dimension of an input or output: fixed, or open under a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dim<'a> {
    Fixed(usize),
    Open(&'a str),
}

/// The format's numbers of types.
pub(super) const F32: i64 = 1;
pub(super) const U8: i64 = 2;
pub(super) const S64: i64 = 7;

/// The fields of a graph.
const NODE: u32 = 1;
const INITIALIZER: u32 = 5;
const INPUT: u32 = 11;
const OUTPUT: u32 = 12;

impl File {
    pub(super) fn input(&mut self, name: &str, data_type: i64, dims: &[Dim<'_>]) {
        bytes(&mut self.graph, INPUT, &port(name, data_type, dims));
    }

    pub(super) fn output(&mut self, name: &str, data_type: i64, dims: &[Dim<'_>]) {
        bytes(&mut self.graph, OUTPUT, &port(name, data_type, dims));
    }

    /// A constant with its elements as bytes, lowest first.
    pub(super) fn constant(&mut self, data_type: i64, dims: &[usize], raw: &[u8]) -> String {
        let name = self.name();
        let mut tensor = Vec::with_capacity(raw.len() + 64);
        for &dim in dims {
            int(&mut tensor, 1, dim as i64);
        }
        int(&mut tensor, 2, data_type);
        bytes(&mut tensor, 8, name.as_bytes());
        bytes(&mut tensor, 9, raw);
        bytes(&mut self.graph, INITIALIZER, &tensor);
        name
    }

    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(S64, &[values.len()], &raw)
    }

    /// A node with one output; an operator `domain:Name` is of that domain.
    pub(super) fn op(&mut self, operator: &str, inputs: &[&str], attrs: &[(&str, Attr<'_>)]) -> String {
        let name = self.name();
        self.op_to(operator, inputs, &name, attrs);
        name
    }

    /// A node whose output has a name.
    pub(super) fn op_to(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attrs: &[(&str, Attr<'_>)],
    ) {
        let (domain, operator) = operator.split_once(':').unwrap_or(("", operator));
        let mut node = Vec::new();
        for input in inputs {
            bytes(&mut node, 1, input.as_bytes());
        }
        bytes(&mut node, 2, output.as_bytes());
        bytes(&mut node, 4, operator.as_bytes());
        for (name, attr) in attrs {
            let mut told = Vec::new();
            bytes(&mut told, 1, name.as_bytes());
            match attr {
                Attr::Float(value) => {
                    told.push((2 << 3) | 5);
                    told.extend(value.to_le_bytes());
                    int(&mut told, 20, 1);
                }
                Attr::Int(value) => {
                    int(&mut told, 3, *value);
                    int(&mut told, 20, 2);
                }
                Attr::Word(word) => {
                    bytes(&mut told, 4, word.as_bytes());
                    int(&mut told, 20, 3);
                }
                Attr::Ints(values) => {
                    values.iter().for_each(|&value| int(&mut told, 8, value));
                    int(&mut told, 20, 7);
                }
            }
            bytes(&mut node, 5, &told);
        }
        bytes(&mut node, 7, domain.as_bytes());
        bytes(&mut self.graph, NODE, &node);
    }

    /// The whole file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        bytes(&mut self.graph, 2, b"decoder");
        let mut model = Vec::with_capacity(self.graph.len() + 64);
        int(&mut model, 1, 9);
        bytes(&mut model, 7, &self.graph);
        for (domain, version) in [("", 20), ("com.microsoft", 1)] {
            let mut opset = Vec::new();
            bytes(&mut opset, 1, domain.as_bytes());
            int(&mut opset, 2, version);
            bytes(&mut model, 8, &opset);
        }
        model
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }
}

fn port(name: &str, data_type: i64, dims: &[Dim<'_>]) -> Vec<u8> {
    let mut shape = Vec::new();
    for dim in dims {
        let mut told = Vec::new();
        match dim {
            Dim::Fixed(extent) => int(&mut told, 1, *extent as i64),
            Dim::Open(name) => bytes(&mut told, 2, name.as_bytes()),
        }
        bytes(&mut shape, 1, &told);
    }
    let (mut tensor, mut of, mut port) = (Vec::new(), Vec::new(), Vec::new());
    int(&mut tensor, 1, data_type);
    bytes(&mut tensor, 2, &shape);
    bytes(&mut of, 1, &tensor);
    bytes(&mut port, 1, name.as_bytes());
    bytes(&mut port, 2, &of);
    port
}

fn int(to: &mut Vec<u8>, field: u32, value: i64) {
    varint(to, u64::from(field) << 3);
    varint(to, value.cast_unsigned());
}

fn bytes(to: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(to, (u64::from(field) << 3) | 2);
    varint(to, value.len() as u64);
    to.extend(value);
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(((value & 0x7f) as u8) | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
