//! Cases of every operation: chosen ones, of which the first one of a kind also runs in every data type, and ones that follow from seeds.

mod images;
mod movement;
mod pick;
mod pointwise;
mod quantization;
pub mod random;
mod rows;
mod windows;

use anydnn::backend::{DataType, Result};
use anydnn::graph::{AttrValue, Attrs, Graph, GraphBuilder, LogicalTensor, OpKind};
use anydnn::model::HostTensor;

/// An operation with the shapes, types and ranges of its operands.
#[derive(Clone, Debug)]
pub struct Case {
    pub kind: OpKind,
    pub attrs: Attrs,
    pub inputs: Vec<Input>,
    /// The types of outputs where they do not follow.
    pub outputs: Vec<Out>,
    /// The type it has beside the runs in every type.
    pub main: DataType,
}

/// An operand: its type is the case's own, unless given.
#[derive(Clone, Debug)]
pub struct Input {
    dims: Vec<usize>,
    fixed: Option<DataType>,
    change: fn(f64) -> f64,
}

/// The type of a result.
#[derive(Clone, Copy, Debug)]
pub enum Out {
    Inferred,
    Is(DataType),
    /// Any but the case's own.
    Other,
}

/// An operand with values between -1 and 1.
pub fn x(dims: &[usize]) -> Input {
    Input { dims: dims.to_vec(), fixed: None, change: |v| v }
}

impl Input {
    /// With values between -1 and 1 put through a function.
    pub fn of(self, change: fn(f64) -> f64) -> Self {
        Self { change, ..self }
    }

    /// With a type of its own.
    pub fn typed(self, data_type: DataType) -> Self {
        Self { fixed: Some(data_type), ..self }
    }

    fn data_type(&self, main: DataType) -> DataType {
        self.fixed.unwrap_or(main)
    }
}

/// No attributes.
pub fn none() -> Attrs {
    Attrs::new()
}

/// All cases, those of a kind one after another.
#[derive(Debug, Default)]
pub struct Cases(Vec<Case>);

impl Cases {
    pub fn all() -> Vec<Case> {
        let mut cases = Self::default();
        pointwise::add(&mut cases);
        rows::add(&mut cases);
        windows::add(&mut cases);
        movement::add(&mut cases);
        quantization::add(&mut cases);
        cases.0
    }

    fn add(&mut self, kind: OpKind, attrs: Attrs, inputs: &[Input]) -> &mut Case {
        self.add_all(kind, attrs, inputs, 1)
    }

    fn add_all(&mut self, kind: OpKind, attrs: Attrs, inputs: &[Input], outputs: usize) -> &mut Case {
        let case = Case {
            kind,
            attrs,
            inputs: inputs.to_vec(),
            outputs: vec![Out::Inferred; outputs],
            main: DataType::F32,
        };
        self.0.push(case);
        self.0.last_mut().unwrap()
    }
}

impl Case {
    fn makes(&mut self, out: Out) -> &mut Self {
        self.outputs[0] = out;
        self
    }

    fn mainly(&mut self, data_type: DataType) {
        self.main = data_type;
    }

    /// The kind, shapes, types and attributes in words.
    pub fn name(&self, main: DataType) -> String {
        let operand = |input: &Input| format!("{}{:?}", input.data_type(main), input.dims);
        let operands: Vec<_> = self.inputs.iter().map(operand).collect();
        let attrs: Vec<_> =
            self.attrs.iter().map(|(name, value)| format!("{name}={}", word(value))).collect();
        format!("{} {} {}", self.kind, operands.join(" "), attrs.join(" ")).trim_end().to_owned()
    }

    /// The graph of this one operation in a type.
    pub fn graph(&self, main: DataType) -> Result<Graph> {
        let mut g = GraphBuilder::new();
        let inputs: Vec<_> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, input)| g.input(&format!("in{i}"), input.data_type(main), input.dims.clone()))
            .collect();
        let ids = g.op_multi("op", self.kind, &inputs, self.attrs.clone(), self.outputs.len())?;
        for (&id, out) in ids.iter().zip(&self.outputs) {
            let data_type = match out {
                Out::Inferred => continue,
                Out::Is(data_type) => *data_type,
                Out::Other if main == DataType::F32 => DataType::BF16,
                Out::Other => DataType::F32,
            };
            let mut tensor = LogicalTensor::unknown(id);
            tensor.data_type = Some(data_type);
            g.add_tensor(tensor)?;
        }
        g.build()
    }

    /// The values of the operands in a type, as far as that type holds them; integers are larger.
    pub fn values(&self, main: DataType, seed: u64) -> Vec<HostTensor> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            // Knuth's MMIX generator; its upper bits are the random ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        let tensors = self.inputs.iter().map(|input| {
            let data_type = input.data_type(main);
            let scale = if input.fixed.is_none() && data_type.is_integer() { 6.0 } else { 1.0 };
            let values: Vec<f64> = (0..input.dims.iter().product())
                .map(|_| (input.change)(next()) * scale)
                .map(|v| if data_type == DataType::Boolean { f64::from(u8::from(v > 0.0)) } else { v })
                .collect();
            HostTensor::from_f64(input.dims.clone(), data_type, &values).unwrap()
        });
        tensors.collect()
    }

    /// The same values in another type of the case; none where an operand's values do not fit.
    pub fn recast(&self, values: &[HostTensor], main: DataType) -> Option<Vec<HostTensor>> {
        let tensors = self.inputs.iter().zip(values).map(|(input, value)| {
            let cast = value.cast(input.data_type(main));
            (cast.to_f64s() == value.to_f64s()).then_some(cast)
        });
        tensors.collect()
    }
}

fn word(value: &AttrValue) -> String {
    match value {
        AttrValue::F32(v) => v.to_string(),
        AttrValue::F32s(v) => format!("{v:?}"),
        AttrValue::S64(v) => v.to_string(),
        AttrValue::S64s(v) => format!("{v:?}"),
        AttrValue::Bool(v) => v.to_string(),
        AttrValue::String(v) => v.to_string(),
    }
}
