//! Graphs written as text, so that a case takes a few lines.
//!
//! Statements end at `;` or the end of a line. `x f32 4x8` is an input, `w f32 8x6 const` a constant, `out y` an output of the graph, and
//! everything else an operation: its results (`y`, `y:bf16`, or several with commas), kind, sources and attributes (`axis=1`, `order=[1,0]`, `mode=linear`). Required
//! attributes that are left out get plain values.

use anydnn_backend::{DataType, Dims};

use crate::graph::{
    Absent, AttrType, AttrValue, Attrs, Graph, GraphBuilder, LogicalTensor, Op, OpId, OpKind, Property,
    Schema, TensorId,
};

/// The graph of a text.
pub(super) fn graph(text: &str) -> Graph {
    build(text).build().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(super) fn build(text: &str) -> GraphBuilder {
    let mut g = GraphBuilder::new();
    let mut names: Vec<String> = Vec::new();
    let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
    let is_read = |name: &str| {
        let mut words = text.split([';', '\n']).flat_map(|line| line.split_whitespace().skip(2));
        words.any(|word| word == name)
    };
    let is_shape = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    for (at, line) in lines.enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let id = |names: &mut Vec<String>, name: &str| {
            let known = names.iter().position(|known| known == name);
            TensorId(known.unwrap_or_else(|| {
                names.push(name.into());
                names.len() - 1
            }) as u64)
        };
        match words[..] {
            ["out", name] => {
                let id = id(&mut names, name);
                g.output(id);
            }
            // A tensor that nothing reads would be a mistake of the graph.
            [name, _, dims, ..] if is_shape(dims) && !is_read(name) => {}
            [name, data_type, dims, ref rest @ ..] if is_shape(dims) => {
                let id = id(&mut names, name);
                let dims: Vec<usize> = dims.split('x').map(|dim| dim.parse().unwrap()).collect();
                let tensor = LogicalTensor::new(id, data_type.parse().unwrap(), Dims::from(dims));
                let property = if *rest == ["const"] { Property::Constant } else { Property::Variable };
                g.add_tensor(tensor.with_property(property).named(name)).unwrap();
            }
            [results, kind, ref rest @ ..] => {
                let kind: OpKind = kind.parse().unwrap_or_else(|error| panic!("{error}\n{line}"));
                let mut tensors = Vec::new();
                let mut outputs = Vec::new();
                for result in results.split(',').filter(|_| results != "-") {
                    let (name, data_type) = result.split_once(':').unwrap_or((result, ""));
                    let id = id(&mut names, name);
                    let mut tensor = LogicalTensor::unknown(id).named(name);
                    tensor.data_type = (!data_type.is_empty()).then(|| data_type.parse().unwrap());
                    tensors.push(tensor);
                    outputs.push(id);
                }
                let (given, sources): (Vec<&str>, Vec<&str>) =
                    rest.iter().partition(|word| word.contains('='));
                let inputs: Vec<TensorId> = sources.iter().map(|name| id(&mut names, name)).collect();
                let attrs = attrs(kind, &given);
                let name = results.split([',', ':']).next().unwrap();
                let name = if results == "-" { format!("{kind}{at}") } else { name.to_owned() };
                g.add_op(Op { id: OpId(at as u64), name, kind, attrs, inputs, outputs }, &tensors)
                    .unwrap_or_else(|error| panic!("{error}\n{line}"));
            }
            _ => panic!("{line}"),
        }
    }
    g
}

fn attrs(kind: OpKind, given: &[&str]) -> Attrs {
    let mut attrs = Attrs::new();
    let given: Vec<(&str, &str)> = given.iter().map(|word| word.split_once('=').unwrap()).collect();
    for spec in Schema::of(kind).attrs {
        let words = given.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| *value);
        let words = match (spec.name, words, spec.absent) {
            (_, Some(words), _) => words,
            ("data_format", ..) => "NCX",
            ("weights_format", ..) if kind == OpKind::ConvTranspose => "IOX",
            ("weights_format", ..) => "OIX",
            ("scales", _, Absent::Required) => "[0.06]",
            ("strides" | "dilations", _, Absent::Required) => "[1,1]",
            ("pads_begin" | "pads_end", _, Absent::Required) => "[0,0]",
            ("kernel", ..) => "[2,2]",
            ("exclude_pad" | "special_zero", ..) => "false",
            ("mode", _, Absent::Required) => "nearest",
            (_, _, Absent::Required) => "1",
            _ => continue,
        };
        let inner = words.trim_matches(['[', ']']);
        let list = || inner.split(',').filter(|word| !word.is_empty());
        attrs.set(
            spec.name,
            match spec.value {
                AttrType::F32 => AttrValue::F32(words.parse().unwrap()),
                AttrType::S64 => AttrValue::S64(words.parse().unwrap()),
                AttrType::Bool => AttrValue::Bool(words.parse().unwrap()),
                AttrType::Word(_) => AttrValue::String(words.into()),
                AttrType::F32s => AttrValue::F32s(list().map(|word| word.parse().unwrap()).collect()),
                AttrType::S64s => AttrValue::S64s(list().map(|word| word.parse().unwrap()).collect()),
            },
        );
    }
    attrs
}

#[test]
fn texts_make_graphs() {
    let graph = graph("x f32 4x8; y:bf16 TypeCast x; a,stats SoftMax x axis=-1; out y; out a; out stats");
    assert_eq!(graph.ops().len(), 2);
    assert_eq!(graph.tensor_named("y").unwrap().data_type, Some(DataType::BF16));
    assert_eq!(graph.outputs().len(), 3);
}
