//! Graphs written as text, so that one takes a few lines.

use std::collections::HashMap;
use std::str::FromStr;

use anydnn_backend::{DataType, Dims, Error, InvalidKind, Result};

use super::op::{AttrValue, Attrs, Op, OpId};
use super::schema::{Absent, AttrType, Schema};
use super::tensor::{LogicalTensor, Property, TensorId};
use super::{Graph, GraphBuilder, OpKind};

impl Graph {
    /// Reads a graph that is written as statements, one a line or with `;` between them.
    ///
    /// `x f32 4x8` is an input, `w f32 8x6 const` a constant, `out y` an output of the graph (without any, what nothing reads), and
    /// everything else an operation: its results, kind, sources and attributes, as in `y MatMul x w`, `p,stats SoftMax x axis=-1`,
    /// `b:bf16 TypeCast y` (a result whose type is given), `t StaticTranspose y order=[1,0]`; `- End y` has no result. Required attributes
    /// that are left out get plain values: steps of one, no padding, channels first. Inputs and constants that nothing reads are left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] of the kind [`InvalidKind::Graph`] with the statement that is none, or what [`GraphBuilder::build`] finds.
    ///
    /// ```
    /// use anydnn::graph::Graph;
    /// let graph = Graph::from_text("x f32 4x8; w f32 8x6 const; y MatMul x w; z ReLU y")?;
    /// assert_eq!(graph.tensor_named("z").unwrap().known_dims().unwrap(), [4, 6].into());
    /// # Ok::<(), anydnn::backend::Error>(())
    /// ```
    pub fn from_text(text: &str) -> Result<Self> {
        let mut reader = Reader { g: GraphBuilder::new(), ids: HashMap::new() };
        let lines: Vec<Vec<&str>> = text
            .split([';', '\n'])
            .map(|line| line.split_whitespace().collect())
            .filter(|words: &Vec<&str>| !words.is_empty())
            .collect();
        for (at, words) in lines.iter().enumerate() {
            let is_read = |name: &str| lines.iter().any(|line| line.iter().skip(2).any(|word| *word == name));
            reader.statement(at, words, is_read)?;
        }
        reader.g.build()
    }
}

struct Reader<'t> {
    g: GraphBuilder,
    ids: HashMap<&'t str, TensorId>,
}

impl<'t> Reader<'t> {
    fn statement(&mut self, at: usize, words: &[&'t str], is_read: impl Fn(&str) -> bool) -> Result<()> {
        match *words {
            ["out", name] => {
                let id = self.id(name);
                self.g.output(id);
                Ok(())
            }
            [name, data_type, dims, ref rest @ ..] if dims.starts_with(|c: char| c.is_ascii_digit()) => {
                if is_read(name) {
                    self.tensor(name, data_type, dims, rest)
                } else {
                    Ok(())
                }
            }
            [results, kind, ref rest @ ..] => self.op(at, results, kind, rest),
            _ => Err(wrong("statement", words.join(" "), "an input, a constant, an output or an operation")),
        }
    }

    fn tensor(&mut self, name: &'t str, data_type: &str, dims: &str, rest: &[&str]) -> Result<()> {
        let property = match rest {
            [] => Property::Variable,
            ["const"] => Property::Constant,
            other => return Err(wrong(name, other.join(" "), "nothing or const")),
        };
        let data_type: DataType = parsed(name, data_type, "a data type")?;
        let dims = dims.split('x').map(|dim| parsed(name, dim, "an extent")).collect::<Result<Dims>>()?;
        let id = self.id(name);
        self.g.add_tensor(LogicalTensor::new(id, data_type, dims).with_property(property).named(name))?;
        Ok(())
    }

    fn op(&mut self, at: usize, results: &'t str, kind: &str, rest: &[&'t str]) -> Result<()> {
        let kind: OpKind = kind.parse()?;
        let (mut tensors, mut outputs) = (Vec::new(), Vec::new());
        for result in results.split(',').filter(|_| results != "-") {
            let (name, data_type) = result.split_once(':').unwrap_or((result, ""));
            let mut tensor = LogicalTensor::unknown(self.id(name)).named(name);
            if !data_type.is_empty() {
                tensor.data_type = Some(parsed(name, data_type, "a data type")?);
            }
            outputs.push(tensor.id);
            tensors.push(tensor);
        }
        let (given, sources): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.contains('='));
        let inputs = sources.into_iter().map(|name| self.id(name)).collect();
        let name = results.split([',', ':']).next().filter(|name| *name != "-");
        let name = name.map_or_else(|| format!("{kind}{at}"), str::to_owned);
        let attrs = attrs(kind, &given)?;
        self.g.add_op(Op { id: OpId(at as u64), name, kind, attrs, inputs, outputs }, &tensors)?;
        Ok(())
    }

    fn id(&mut self, name: &'t str) -> TensorId {
        let next = TensorId(self.ids.len() as u64);
        *self.ids.entry(name).or_insert(next)
    }
}

fn attrs(kind: OpKind, given: &[&str]) -> Result<Attrs> {
    let schema = Schema::of(kind);
    let given: Vec<(&str, &str)> = given.iter().filter_map(|word| word.split_once('=')).collect();
    if let Some((name, _)) = given.iter().find(|(name, _)| schema.attr(name).is_none()) {
        let names: Vec<_> = schema.attrs.iter().map(|spec| spec.name).collect();
        return Err(wrong(&format!("attribute of {kind}"), *name, &format!("one of {}", names.join(", "))));
    }
    let mut attrs = Attrs::new();
    for spec in schema.attrs {
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
        attrs.set(spec.name, value(spec.name, spec.value, words)?);
    }
    Ok(attrs)
}

fn value(name: &str, kind: AttrType, words: &str) -> Result<AttrValue> {
    fn list<T: FromStr>(name: &str, words: &str, expected: &str) -> Result<Vec<T>> {
        let inner = words.trim_matches(['[', ']']);
        inner.split(',').filter(|word| !word.is_empty()).map(|word| parsed(name, word, expected)).collect()
    }
    Ok(match kind {
        AttrType::F32 => AttrValue::F32(parsed(name, words, "a number")?),
        AttrType::S64 => AttrValue::S64(parsed(name, words, "an integer")?),
        AttrType::Bool => AttrValue::Bool(parsed(name, words, "true or false")?),
        AttrType::Word(_) => AttrValue::from(words),
        AttrType::F32s => AttrValue::F32s(list(name, words, "a number")?),
        AttrType::S64s => AttrValue::S64s(list(name, words, "an integer")?),
    })
}

fn parsed<T: FromStr>(subject: &str, word: &str, expected: &str) -> Result<T> {
    word.parse().map_err(|_| wrong(subject, word, expected))
}

fn wrong(subject: &str, given: impl Into<String>, expected: &str) -> Error {
    Error::invalid_kind(InvalidKind::Graph, "graph text", subject, given.into(), expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_make_graphs() {
        let text =
            "x f32 4x8; y:bf16 TypeCast x\n a,stats SoftMax x axis=-1; out y; out a; out stats; z f32 3";
        let graph = Graph::from_text(text).unwrap();
        assert_eq!(graph.ops().len(), 2);
        assert_eq!(graph.tensor_named("y").unwrap().data_type, Some(DataType::BF16));
        assert_eq!((graph.inputs().len(), graph.outputs().len()), (1, 3));
    }

    #[test]
    fn what_is_no_graph_is_said() {
        for (text, named) in [
            ("x", "\"x\""),
            ("x f33 4; y Exp x", "f33"),
            ("x f32 4xb; y Exp x", "\"b\""),
            ("x f32 4; y Exq x", "Exq"),
            ("x f32 4; y Elu x alpha=a", "alpha"),
            ("x f32 4; y Exp x alpha=1", "alpha"),
            ("x f32 4 constant; y Exp x", "constant"),
        ] {
            let error = Graph::from_text(text).unwrap_err().to_string();
            assert!(error.contains(named.trim_matches('"')), "{text}: {error}");
        }
    }
}
