//! Post-operations whose numbers come with the launch, so that those of a network share a program: functions of the finished results, which
//! kernels apply to registers, behind a list of steps that a kernel interprets (`common/epilogue.cl`).

mod last;

use std::fmt::Write;

use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Eltwise, PostOp, PrimitiveDesc};

use self::last::Last;
use super::numbers::always;
use super::rows::is_cpu;
use super::source::{Source, eltwise};
use super::space::{Address, Binding, Operand, Space};
use super::value::Value;
use crate::plan::DeviceTraits;

pub(super) const EPILOGUE: &str = anydnn_kernels::text("common/epilogue.cl");

/// The steps and operands that the list has room for.
const STEPS: usize = 8;
const OPERANDS: usize = 4;

/// The kinds of steps, as `common/epilogue.cl` numbers them.
const CLAMP: i64 = 0;
const LINEAR: i64 = 1;
const HARD_SWISH: i64 = 2;
const LEAKY_RELU: i64 = 3;
const SUM: i64 = 4;
const PRODUCT: i64 = 5;
const SIGMOID: i64 = 6;
const GELU_ERF: i64 = 7;
const GELU_TANH: i64 = 8;
const TANH: i64 = 9;
/// The first of those that only the programs have which need them.
const OTHERS: i64 = 10;

/// What is done to finished sums in f32.
#[derive(Debug)]
pub(super) struct Epilogue {
    steps: Vec<Step>,
    /// Functions of kinds of their own.
    functions: Vec<Eltwise>,
    /// What is done behind the steps.
    last: Last,
    /// The steps of the operands along vectors.
    lane_steps: Vec<usize>,
    /// The operands as the text of a program names them that has no list.
    own: Vec<Operand>,
}

#[derive(Debug)]
struct Step {
    kind: i64,
    factors: [f32; 2],
    operand: usize,
}

impl Step {
    fn of(kind: i64, a: f32, b: f32) -> Self {
        Self { kind, factors: [a, b], operand: 0 }
    }
}

impl Epilogue {
    /// The post-operations of a description, whose operands, `POST<i>`, become `EXTRA0` to `EXTRA3` of the space; `lane` is the loop along
    /// vectors. None where a list does not serve them: the program's text has them then.
    pub(super) fn of(desc: &PrimitiveDesc, space: &mut Space, lane: usize) -> Option<Self> {
        Self::behind(None, desc, space, lane)
    }

    /// The same behind the addition of this operand, which becomes one of them.
    pub(super) fn behind(
        addend: Option<&str>,
        desc: &PrimitiveDesc,
        space: &mut Space,
        lane: usize,
    ) -> Option<Self> {
        let (mut count, mut last) = Last::of(desc, &|i| is_scalar(space, i));
        // Long functions that the list of every program has: networks with them and without share programs.
        let post_ops = &desc.attributes().post_ops;
        if let Some((function, rest)) = last.behind(|function| long(function).is_some()) {
            let is_function = |post_op: &PostOp| *post_op == PostOp::Eltwise(function);
            count += post_ops.iter().skip(count).position(is_function).map_or(0, |at| at + 1);
            last = rest;
        }
        let mut epilogue = Self::empty();
        let mut operands = Vec::new();
        if let Some(name) = addend {
            epilogue.steps.push(Step::of(SUM, 1.0, 1.0));
            operands.push(operand_of(space, name, lane)?);
        }
        for (i, post_op) in post_ops.iter().take(count).enumerate() {
            match post_op {
                PostOp::Eltwise(function) => epilogue.function(*function),
                PostOp::Binary { algorithm, reversed, .. } => {
                    let operand = operand_of(space, &format!("POST{i}"), lane)?;
                    let [own, other] = if *reversed { [-1.0, 1.0] } else { [1.0, -1.0] };
                    let (kind, a, b) = match algorithm {
                        BinaryAlgorithm::Add => (SUM, 1.0, 1.0),
                        BinaryAlgorithm::Subtract => (SUM, own, other),
                        BinaryAlgorithm::Multiply => (PRODUCT, 1.0, 1.0),
                        _ => return None,
                    };
                    epilogue.steps.push(Step { operand: operands.len(), ..Step::of(kind, a, b) });
                    operands.push(operand);
                }
                _ => return None,
            }
        }
        last.take_operands(space, &mut operands);
        epilogue.last = last;
        if epilogue.steps.len() > STEPS || operands.len() > OPERANDS {
            return None;
        }
        for (i, operand) in operands.iter().enumerate() {
            let operand = &mut space.operands[*operand];
            epilogue.own.push(operand.clone());
            operand.name = format!("EXTRA{i}");
            // Kernels step along vectors by a number.
            if let Address::Linear { coefficients, .. } = &mut operand.address {
                epilogue.lane_steps.push(std::mem::take(&mut coefficients[lane]));
            }
        }
        fill(desc, space, operands.len());
        // Behind all others, so that programs have the same parameters.
        space.operands.sort_by_key(|operand| is_extra(operand).then(|| operand.name.clone()));
        Some(epilogue)
    }

    /// Nothing: the text of the program has the post-operations.
    pub(super) fn none(desc: &PrimitiveDesc, space: &mut Space) -> Self {
        fill(desc, space, 0);
        Self::empty()
    }

    /// Whether nothing is to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.last.is_empty()
    }

    /// A space with the list's operands, with these as they were before: a program whose text has the post-operations has the same
    /// parameters.
    pub(super) fn own_space(&self, space: &Space) -> Space {
        let mut own = space.clone();
        for (i, before) in self.own.iter().enumerate() {
            let name = format!("EXTRA{i}");
            if let Some(operand) = own.operands.iter_mut().find(|operand| operand.name == name) {
                *operand = before.clone();
            }
        }
        own
    }

    /// Whether nothing is to be done but what takes few instructions of registers: an operand may be added first.
    pub(super) fn is_short(&self) -> bool {
        (self.steps.is_empty() || self.has_addend()) && self.last.is_short()
    }

    /// Whether the only step adds an operand whose elements lie as those of vectors do.
    pub(super) fn has_addend(&self) -> bool {
        let [Step { kind: SUM, factors: [1.0, 1.0], operand: 0 }] = *self.steps.as_slice() else {
            return false;
        };
        self.lane_steps.first() == Some(&1)
    }

    fn empty() -> Self {
        Self {
            steps: Vec::new(),
            functions: Vec::new(),
            last: Last::default(),
            lane_steps: Vec::new(),
            own: Vec::new(),
        }
    }

    fn function(&mut self, function: Eltwise) {
        let step = match function {
            Eltwise::Relu => Step::of(CLAMP, 0.0, f32::INFINITY),
            Eltwise::Clamp { min, max } => Step::of(CLAMP, min, max),
            Eltwise::Linear { alpha, beta } => Step::of(LINEAR, alpha, beta),
            Eltwise::HardSigmoid { alpha, beta } => {
                self.steps.push(Step::of(LINEAR, alpha, beta));
                Step::of(CLAMP, 0.0, 1.0)
            }
            Eltwise::HardSwish { alpha, beta } => Step::of(HARD_SWISH, alpha, beta),
            Eltwise::LeakyRelu { alpha } => Step::of(LEAKY_RELU, alpha, 0.0),
            _ if let Some(step) = long(function) => step,
            _ => {
                let known = self.functions.iter().position(|known| *known == function);
                let number = known.unwrap_or(self.functions.len());
                if known.is_none() {
                    self.functions.push(function);
                }
                Step::of(OTHERS + number as i64, 0.0, 0.0)
            }
        };
        self.steps.push(step);
    }

    /// Defines what `common/epilogue.cl` asks for. `position` is the loop over the positions of a tile.
    pub(super) fn define(&self, source: &mut Source, space: &Space, position: usize) {
        let functions: Vec<String> = self
            .functions
            .iter()
            .enumerate()
            .map(|(i, function)| format!("X({}, {})", OTHERS + i as i64, eltwise(Value::F32, *function, "v")))
            .collect();
        let step =
            |i: usize| always(space.coefficient(&format!("EXTRA{i}"), position).unwrap_or(0)).to_string();
        let lane_step = |i: usize| always(self.lane_steps.get(i).copied().unwrap_or(0)).to_string();
        define_steps(source, STEPS, self.steps.iter().map(|step| (step.kind, step.factors, step.operand)));
        source
            .define("EACH_FUNCTION(X)", functions.join(" "))
            .define("EXTRAS_AT", each_operand(&|i| format!("OFF_EXTRA{i}")))
            .define("EXTRAS_STEP", each_operand(&step))
            .define("EXTRAS_LANE", each_operand(&lane_step));
        self.last.define_in_two(source);
    }
}

/// Defines `STEPS`, the room of a list, `STEP_COUNT` and `STEP_LIST`, the kind, the parameters and the operand of each step.
pub(super) fn define_steps(
    source: &mut Source,
    room: usize,
    steps: impl ExactSizeIterator<Item = (i64, [f32; 2], usize)>,
) {
    let count = steps.len();
    let mut list = String::new();
    for (kind, [a, b], operand) in steps.chain(std::iter::repeat((0, [0.0; 2], 0))).take(room) {
        for number in [kind, bits(a), bits(b), operand as i64] {
            let _ = write!(list, "{}, ", always(number));
        }
    }
    source
        .define("STEPS", room)
        .number_of("STEP_COUNT", count)
        .define("STEP_LIST", format_args!("{{{list}}}"));
}

/// Defines `FINAL(v)` by numbers of the launch, and `POST_OPS(v, n)` as the post-operations in front of it.
pub(super) fn define_final(source: &mut Source, desc: &PrimitiveDesc) {
    let (count, last) = Last::of(desc, &|_| false);
    source.post_ops_up_to(desc, count);
    last.define(source);
}

/// Defines `POST_OPS(v, n)` as all post-operations, of which the last ones take their numbers from the launch where these are many that
/// share a program: on devices that want many work-items.
pub(super) fn define_all(source: &mut Source, desc: &PrimitiveDesc, value: Value, device: &DeviceTraits) {
    let (count, last) = Last::of(desc, &|_| false);
    let all = desc.attributes().post_ops.len();
    if is_cpu(device) || value != Value::F32 || count == all {
        source.post_ops(desc);
        return;
    }
    source.post_ops_and(desc, count, "v = FINAL(v);");
    last.define(source);
}

/// The last functions of a kernel that declares its factors, with scalars among the operands `EXTRA0` to `EXTRA3`.
#[derive(Debug)]
pub(super) struct Finish {
    count: usize,
    last: Last,
}

impl Finish {
    /// Those of a description, whose scalar operands become some of `EXTRA0` to `EXTRA3` of the space.
    pub(super) fn of(desc: &PrimitiveDesc, space: &mut Space) -> Self {
        let (mut count, mut last) = Last::of(desc, &|i| is_scalar(space, i));
        if last.operands() > OPERANDS {
            (count, last) = Last::of(desc, &|_| false);
        }
        let mut operands = Vec::new();
        last.take_operands(space, &mut operands);
        for (i, operand) in operands.iter().enumerate() {
            space.operands[*operand].name = format!("EXTRA{i}");
        }
        fill(desc, space, operands.len());
        Self { count, last }
    }

    /// Defines `POST_OPS(v, n)` as what comes in front, `DECLARE_FACTORS` and `FINAL(v)`; `alone` in a program that need not serve others.
    pub(super) fn define(&self, source: &mut Source, desc: &PrimitiveDesc, alone: bool) {
        source.post_ops_up_to(desc, self.count);
        if alone {
            self.last.define_with_operands(source);
        } else {
            self.last.define_in_two(source);
        }
    }
}

/// The step of a function that takes too many instructions to stand in a kernel for each of its registers.
fn long(function: Eltwise) -> Option<Step> {
    match function {
        // `sigmoid(alpha x)`, times `x` where the second number is not zero.
        Eltwise::Sigmoid => Some(Step::of(SIGMOID, 1.0, 0.0)),
        Eltwise::Swish { alpha } => Some(Step::of(SIGMOID, alpha, 1.0)),
        Eltwise::GeluErf => Some(Step::of(GELU_ERF, 0.0, 0.0)),
        Eltwise::GeluTanh => Some(Step::of(GELU_TANH, 0.0, 0.0)),
        Eltwise::Tanh => Some(Step::of(TANH, 0.0, 0.0)),
        _ => None,
    }
}

fn is_extra(operand: &Operand) -> bool {
    operand.name.starts_with("EXTRA")
}

/// The place of an operand of f32 whose elements of a vector lie side by side, or are one.
fn operand_of(space: &Space, name: &str, lane: usize) -> Option<usize> {
    let place = space.operands.iter().position(|operand| operand.name == name)?;
    let Operand { data_type, address, .. } = &space.operands[place];
    let serves = *data_type == DataType::F32 && matches!(address.coefficient(lane), Some(0 | 1));
    serves.then_some(place)
}

/// Whether the operand of this post-operation is one number in f32.
fn is_scalar(space: &Space, post_op: usize) -> bool {
    let Some(operand) = space.find(&format!("POST{post_op}")) else { return false };
    let Address::Linear { coefficients, .. } = &operand.address else { return false };
    let mut steps = coefficients.iter().zip(&space.loops);
    operand.data_type == DataType::F32 && steps.all(|(&step, of)| step == 0 || of.extent == 1)
}

/// A text for each operand of the list.
fn each_operand(text: &dyn Fn(usize) -> String) -> String {
    (0..OPERANDS).map(text).collect::<Vec<_>>().join(", ")
}

fn bits(x: f32) -> i64 {
    i64::from(x.to_bits() as i32)
}

/// Adds what is missing of the operands: the result, which is never read as such.
fn fill(desc: &PrimitiveDesc, space: &mut Space, known: usize) {
    for i in known..OPERANDS {
        let address = Address::linear(vec![0; space.loops.len()]);
        space.addressed(format!("EXTRA{i}"), Binding::Arg(Arg::DST), desc.dst().data_type(), address);
    }
}
