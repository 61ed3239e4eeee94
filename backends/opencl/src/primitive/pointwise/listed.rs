//! Element-wise work of f32 on processors whose operations come with the launch as a list of steps (`pointwise/listed.cl`), so that all of
//! it shares one program.

use std::sync::LazyLock;

use anydnn_backend::op::Eltwise;
use anydnn_backend::{BinaryAlgorithm, DataType, PostOp, PrimitiveDesc};

use super::LOOPS;
use crate::plan::DeviceTraits;
use crate::primitive::epilogue::define_steps;
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

/// The functions that steps have, by the numbers of their kinds. What networks have more rarely gets a program of its own: each of these
/// makes the program that all share longer to compile.
const FUNCTIONS: [&str; 15] = [
    "clamp",
    "exp",
    "gelu_erf",
    "gelu_tanh",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "linear",
    "reciprocal",
    "relu",
    "sigmoid",
    "sqrt",
    "square",
    "swish",
    "tanh",
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
    /// Whether elements stay what they are.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The list with a function behind it; none where steps do not have it.
    pub(super) fn function(mut self, function: Eltwise) -> Option<Self> {
        let kind = FUNCTIONS.iter().position(|name| *name == function.name())?;
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
        // Only these two are the same to the bit in either order: zeros have signs.
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
        let names = ["SRC0", "DST"].into_iter().chain(self.steps.iter().filter_map(|s| s.operand.as_deref()));
        if !fits || names.into_iter().any(|name| space.find(name).is_none()) {
            return false;
        }
        let nowhere = Address::linear(vec![0; space.loops.len()]);
        let given = space.operands.iter().filter(|o| is_source(&o.binding) && o.name != "DST").count();
        let binding = space.find("DST").map_or(Binding::Number, |dst| dst.binding);
        for i in given..SOURCES {
            space.addressed(format!("NONE{i}"), binding, DataType::F32, nowhere.clone());
        }
        space.operands.sort_by_key(|o| match &*o.name {
            "SRC0" => 0,
            "DST" => 2,
            _ if is_source(&o.binding) => 1,
            _ => 3,
        });
        true
    }

    /// A space that the list was [found to serve](Self::serves), with the same names and loops as every other one.
    pub(super) fn alike(space: &Space) -> Space {
        let mut space = space.clone();
        space.normalize(LOOPS);
        // No step along the elements has a text of its own.
        space.complete = Some(usize::MAX);
        space.operands.truncate(SOURCES + 1);
        for (i, operand) in space.operands.iter_mut().take(SOURCES).enumerate() {
            operand.name = format!("SRC{i}");
        }
        space
    }

    /// The definitions of the list. `alike` is the same space as `space` with the names that every program has.
    pub(super) fn define(&self, source: &mut Source, space: &Space, alike: &Space) {
        let place = |step: &Step| {
            let name = step.operand.as_deref().unwrap_or("SRC0");
            // The result's old content lies where the result does.
            space.operands.iter().position(|o| o.name == name).map_or(0, |place| place.min(SOURCES))
        };
        let steps = self.steps.iter().map(|step| (step.kind as i64, step.parameters, place(step)));
        define_steps(source, STEPS, steps);
        let each = |text: &dyn Fn(&Operand) -> String| {
            alike.operands.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let streams = source.streams(alike, &alike.operands[SOURCES]);
        source
            .define("FIRST_JOIN", FIRST_JOIN)
            .define("DST_PLACE", SOURCES)
            .number_of("DST_STREAMS", i32::from(streams))
            .define("SOURCES", each(&|o| o.name.to_lowercase()))
            .define("SOURCES_AT", each(&|o| alike.text(o)))
            .define(
                "SOURCES_STEP",
                each(&|o| always(o.address.coefficient(LOOPS - 1).unwrap_or(0)).to_string()),
            )
            .define("EACH_KIND(DO)", &*KINDS)
            .define("EACH_CHEAP(DO)", &CHEAP_KINDS.0)
            .define("IS_CHEAP(kind)", format_args!("({}u >> (kind) & 1)", CHEAP_KINDS.1));
    }
}

/// The functions, and the joins, that are so cheap that the loads and stores of another loop take longer. Each is there twice more, which the
/// program takes longer to compile: those that networks have beside other steps most.
const CHEAP: [&str; 2] = ["clamp", "relu"];
const CHEAP_JOINS: [(BinaryAlgorithm, bool); 3] =
    [(BinaryAlgorithm::Add, false), (BinaryAlgorithm::Multiply, false), (BinaryAlgorithm::Subtract, false)];

/// The cases of all kinds, with whether they are cheap.
fn cases() -> impl Iterator<Item = (String, bool)> {
    let functions = FUNCTIONS.iter().map(|name| {
        let known = Eltwise::TABLE.iter().find(|function| function.name == *name);
        let parameters = known.map_or(0, |function| function.parameters.len());
        let arguments = ["v", "alpha", "beta"];
        (format!("eltwise_{name}({})", arguments[..=parameters].join(", ")), CHEAP.contains(name))
    });
    let joins = JOINS.iter().map(|(algorithm, reversed)| {
        let arguments = if *reversed { "x, v" } else { "v, x" };
        (format!("binary_{}({arguments})", algorithm.name()), CHEAP_JOINS.contains(&(*algorithm, *reversed)))
    });
    functions.chain(joins).chain([("v + alpha * (x - beta)".into(), false)])
}

/// The cases of all kinds.
static KINDS: LazyLock<String> = LazyLock::new(|| {
    let cases = cases().enumerate().map(|(kind, (expression, _))| format!("case {kind}: DO({expression})"));
    cases.collect::<Vec<_>>().join(" ")
});

/// Those of the cheap ones, and a number with a bit for each of these.
static CHEAP_KINDS: LazyLock<(String, u32)> = LazyLock::new(|| {
    let cheap = cases().enumerate().filter(|(_, (_, is_cheap))| *is_cheap);
    let cheap: Vec<(usize, String)> = cheap.map(|(kind, (expression, _))| (kind, expression)).collect();
    let text = cheap.iter().map(|(kind, expression)| format!("case {kind}: DO({expression})"));
    (text.collect::<Vec<_>>().join(" "), cheap.iter().map(|(kind, _)| 1 << kind).sum())
});

#[cfg(test)]
mod tests;
