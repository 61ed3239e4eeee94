//! Element-wise work of f32 on processors whose operations come with the launch as a list of steps (`pointwise/listed.cl`), so that all of
//! it shares one program.

use std::fmt::Write;

use anydnn_backend::op::Eltwise;
use anydnn_backend::{BinaryAlgorithm, DataType, PostOp, PrimitiveDesc};

use super::LOOPS;
use crate::plan::DeviceTraits;
use crate::primitive::numbers::always;
use crate::primitive::rows::is_cpu;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Operand, Space};
use crate::primitive::value::Value;

pub(super) const LISTED: &str = anydnn_kernels::text("pointwise/listed.cl");

/// The steps and sources that a list has room for.
const STEPS: usize = 12;
const SOURCES: usize = 5;
/// The fewest elements of a row that make up for what a list costs each row, and all elements of work that is small anyway.
const LONG_ROW: usize = 32;
const FEW_ELEMENTS: usize = 1024;

/// The functions that steps have, by the numbers of their kinds, and how many parameters each takes. What networks have more rarely gets a
/// program of its own: each of these makes the program that all share longer to compile.
const FUNCTIONS: [(&str, usize); 14] = [
    ("clamp", 2),
    ("exp", 0),
    ("gelu_erf", 0),
    ("gelu_tanh", 0),
    ("hard_sigmoid", 2),
    ("hard_swish", 2),
    ("leaky_relu", 1),
    ("linear", 2),
    ("reciprocal", 0),
    ("relu", 0),
    ("sigmoid", 0),
    ("sqrt", 0),
    ("swish", 1),
    ("tanh", 0),
];

/// The same for functions of the value and an operand's element, and whether the order of the two is the other one.
const JOINS: [(BinaryAlgorithm, bool); 8] = [
    (BinaryAlgorithm::Add, false),
    (BinaryAlgorithm::Multiply, false),
    (BinaryAlgorithm::Subtract, false),
    (BinaryAlgorithm::Subtract, true),
    (BinaryAlgorithm::Divide, false),
    (BinaryAlgorithm::Divide, true),
    (BinaryAlgorithm::Maximum, false),
    (BinaryAlgorithm::Minimum, false),
];

/// The first of the kinds that have an operand.
const FIRST_JOIN: usize = FUNCTIONS.len();
/// The kind that adds what the result was.
const OLD: usize = FIRST_JOIN + JOINS.len();

/// What is done to the elements of the operand `SRC0`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::primitive) struct List {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    kind: usize,
    parameters: [f32; 2],
    /// The operand's name.
    operand: Option<String>,
}

impl List {
    /// The list with a function behind it; none where steps do not have it.
    pub(super) fn function(mut self, function: Eltwise) -> Option<Self> {
        let kind = FUNCTIONS.iter().position(|(name, _)| *name == function.name())?;
        let mut parameters = [0.0; 2];
        for (to, from) in parameters.iter_mut().zip(function.parameters()) {
            *to = from;
        }
        self.steps.push(Step { kind, parameters, operand: None });
        Some(self)
    }

    /// The same with a function of the value and an operand's element.
    pub(super) fn join(
        mut self,
        algorithm: BinaryAlgorithm,
        reversed: bool,
        operand: String,
    ) -> Option<Self> {
        let is_either = matches!(algorithm, BinaryAlgorithm::Add | BinaryAlgorithm::Multiply);
        let kind = JOINS.iter().position(|join| *join == (algorithm, reversed && !is_either))?;
        self.steps.push(Step { kind: FIRST_JOIN + kind, parameters: [0.0; 2], operand: Some(operand) });
        Some(self)
    }

    /// The same with the post-operations of a description, whose operands are named by
    /// [`add_post_ops`](crate::primitive::source::add_post_ops).
    pub(super) fn post_ops(self, desc: &PrimitiveDesc) -> Option<Self> {
        desc.attributes().post_ops.iter().enumerate().try_fold(self, |list, (i, post_op)| match post_op {
            PostOp::Eltwise(function) => list.function(*function),
            PostOp::Binary { algorithm, reversed, .. } => {
                list.join(*algorithm, *reversed, format!("POST{i}"))
            }
            PostOp::Sum { scale, zero_point, .. } => {
                let parameters = [*scale, *zero_point as f32];
                let mut list = list;
                list.steps.push(Step { kind: OLD, parameters, operand: Some(format!("OLD{i}")) });
                Some(list)
            }
            _ => None,
        })
    }

    /// Whether a launch over a space, whose last loop runs over the elements of a row, takes its operations as this list, on a device. The
    /// operands of the space are put in the order of the list then.
    pub(super) fn serves(&self, space: &mut Space, value: Value, device: &DeviceTraits) -> bool {
        let last = space.loops.len() - 1;
        let run = space.loops[last].extent;
        let elements = space.count(0..last).saturating_mul(run);
        let is_source = |binding: &Binding| !matches!(binding, Binding::Alias(_) | Binding::Number);
        let fits = is_cpu(device)
            && value == Value::F32
            && space.is_linear()
            && space.loops.len() <= LOOPS
            && elements > 0
            && (run >= LONG_ROW || elements <= FEW_ELEMENTS)
            && self.steps.len() <= STEPS
            && space.operands.iter().all(|o| o.data_type == DataType::F32 && o.binding != Binding::Number)
            && space.operands.iter().filter(|o| is_source(&o.binding)).count() <= SOURCES + 1;
        let Some(dst) = space.operands.iter().position(|o| o.name == "DST").filter(|_| fits) else {
            return false;
        };
        let dst = space.operands.remove(dst);
        let Some(first) = space.operands.iter().position(|o| o.name == "SRC0") else { return false };
        let first = space.operands.remove(first);
        space.operands.insert(0, first);
        let (sources, others): (Vec<_>, Vec<_>) =
            space.operands.drain(..).partition(|o| is_source(&o.binding));
        let known = sources.len();
        space.operands = sources;
        for i in known..SOURCES {
            let nowhere = Address::linear(vec![0; space.loops.len()]);
            space.addressed(format!("NONE{i}"), dst.binding, DataType::F32, nowhere);
        }
        space.operands.push(dst);
        space.operands.extend(others);
        true
    }

    /// A space that the list was [found to serve](Self::serves), with the same names and loops as every other one.
    pub(super) fn alike(space: &Space) -> Space {
        let mut space = space.clone();
        space.normalize(LOOPS);
        space.complete = Some(LOOPS - 1);
        space.operands.truncate(SOURCES + 1);
        for (i, operand) in space.operands.iter_mut().take(SOURCES).enumerate() {
            operand.name = format!("SRC{i}");
        }
        space
    }

    /// The definitions of the list. `alike` is the same space as `space` with the names that every program has.
    pub(super) fn define(&self, source: &mut Source, space: &Space, alike: &Space) {
        let place = |name: &String| {
            let place = space.operands.iter().position(|o| o.name == *name);
            // The result's old content lies where the result does.
            place.map_or(0, |place| place.min(SOURCES)) as i64
        };
        let mut list = String::new();
        let none = Step { kind: 0, parameters: [0.0; 2], operand: None };
        let steps = self.steps.iter().chain(std::iter::repeat(&none));
        for Step { kind, parameters, operand } in steps.take(STEPS) {
            let [a, b] = parameters.map(|x| i64::from(x.to_bits() as i32));
            let operand = operand.as_ref().map_or(0, place);
            let numbers = [*kind as i64, a, b, operand].map(always);
            let _ = write!(list, "{}, ", numbers.join(", "));
        }
        let last = LOOPS - 1;
        let each = |text: &dyn Fn(&Operand) -> String| {
            alike.operands.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let streams = source.streams(alike, &alike.operands[SOURCES]);
        source
            .define("STEPS", STEPS)
            .number_of("STEP_COUNT", self.steps.len())
            .define("STEP_LIST", format!("{{{list}}}"))
            .define("FIRST_JOIN", FIRST_JOIN)
            .define("DST_PLACE", SOURCES)
            .number_of("DST_STREAMS", i32::from(streams))
            .define("SOURCES", each(&|o| o.name.to_lowercase()))
            .define("SOURCES_AT", each(&|o| row_start(&o.address, alike, last)))
            .define("SOURCES_STEP", each(&|o| always(o.address.coefficient(last).unwrap_or(0))))
            .define("EACH_KIND(DO)", kinds());
    }
}

/// Where an operand's row starts.
fn row_start(address: &Address, space: &Space, last: usize) -> String {
    let Address::Linear { base, coefficients } = address else { return "0".into() };
    let mut text = always(base);
    for (v, coefficient) in coefficients.iter().enumerate().take(last) {
        let _ = write!(text, " + {} * {}", space.loops[v].name, always(coefficient));
    }
    text
}

/// The cases of all kinds.
fn kinds() -> String {
    let mut text = String::new();
    for (kind, (name, parameters)) in FUNCTIONS.iter().enumerate() {
        let arguments = ["v", "v, alpha", "v, alpha, beta"][*parameters];
        let _ = write!(text, "case {kind}: DO(eltwise_{name}({arguments})) ");
    }
    for (kind, (algorithm, reversed)) in (FIRST_JOIN..).zip(&JOINS) {
        let arguments = if *reversed { "x, v" } else { "v, x" };
        let _ = write!(text, "case {kind}: DO(binary_{}({arguments})) ", algorithm.name());
    }
    let _ = write!(text, "case {OLD}: DO(v + alpha * (x - beta))");
    text
}

#[cfg(test)]
mod tests;
