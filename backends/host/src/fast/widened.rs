//! Narrow operands as f32: converted and dequantised, computed by the fast form of f32, and converted back.

use anydnn_backend::{Access, Arg, Attributes, DataType, MemoryDesc, Op, PostOp, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, Rooms};
use super::conversion::{CHUNK, by_all, by_one, convert, narrow};
use super::integers::Integers;
use super::panels::{filters_layout, matrix_layout, width};
use super::places::is_narrow;
use super::{Fast, Shared, depthwise, integers};
use crate::compute::{Kind, read_run};

/// A form of f32 between conversions.
#[derive(Debug)]
pub(super) struct Widened {
    form: Box<dyn Fast>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Where the source and the weights are multiplied as they are.
    integers: Option<Integers>,
    rooms: Rooms,
}

/// An operand that is converted before the form runs: its bytes from the first to the last, whatever lies where.
#[derive(Debug)]
struct Input {
    arg: Arg,
    kind: Kind,
    elements: usize,
    scaling: Option<Scaling>,
}

/// `(x - zero point) * scale`, each of one number or of one for each channel.
#[derive(Debug)]
struct Scaling {
    scale: Option<(Arg, Kind, usize)>,
    zero_point: Option<(Arg, Kind, usize)>,
    channels: Channels,
}

/// The channel of an element in memory: `i / length * width + i % width`.
#[derive(Clone, Copy, Debug)]
struct Channels {
    length: usize,
    width: usize,
}

/// A result that is converted after the form ran.
#[derive(Debug)]
struct Output {
    arg: Arg,
    kind: Kind,
    elements: usize,
    /// Whether its old content takes part.
    is_read: bool,
}

impl Widened {
    /// None where no operand is narrow, where f32 does not hold what the operation asks for, or where f32 has no fast form.
    pub(super) fn new(desc: &PrimitiveDesc) -> Option<Self> {
        if !desc.args().iter().any(|operand| becomes_f32(desc, operand.desc.data_type())) || !takes(desc) {
            return None;
        }
        // Scales are a part of the conversion.
        let is_converted = |arg: Arg| desc.find(arg).is_some_and(|operand| is_narrow(operand.data_type()));
        if !desc.attributes().dequantize.iter().all(|of| is_converted(of.operand.arg())) {
            return None;
        }
        let integers = Integers::new(desc);
        let wide = widen(desc, integers.is_some())?;
        let form = super::plan_of_f32(&wide)?;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for operand in desc.args() {
            let data_type = operand.desc.data_type();
            if wide.find(operand.arg).is_none_or(|wide| wide.data_type() == data_type) {
                continue;
            }
            let (arg, kind) = (operand.arg, Kind::of(data_type).ok()?);
            if integers.is_some() && [Arg::SRC, Arg::Weights].contains(&arg) {
                continue;
            }
            let elements = operand.desc.size() / (kind.bits() / 8);
            if operand.access == Access::Read {
                // Of a tensor with gaps nothing is converted that nobody reads.
                if elements > 2 * operand.desc.elements().max(64) {
                    return None;
                }
                inputs.push(Input { arg, kind, elements, scaling: scaling(desc, arg, &operand.desc)? });
            } else {
                let is_dense = elements == operand.desc.elements();
                let starts = operand.desc.blocking().is_some_and(|blocking| blocking.offset == 0);
                if !is_dense || !starts {
                    return None;
                }
                let is_read = operand.access != Access::Write;
                outputs.push(Output { arg, kind, elements, is_read });
            }
        }
        Some(Self { form, inputs, outputs, integers, rooms: Rooms::default() })
    }
}

/// Whether operands of a type are converted: narrow ones, and integers on their way to f32.
fn becomes_f32(desc: &PrimitiveDesc, data_type: DataType) -> bool {
    let is_integer = matches!(data_type, DataType::S32 | DataType::S64);
    is_narrow(data_type) || is_integer && matches!(desc.op(), Op::Reorder(_))
}

/// Whether the operation and its types may be computed in f32.
fn takes(desc: &PrimitiveDesc) -> bool {
    let of = |data_types: &[DataType]| {
        desc.args().iter().all(|operand| {
            let of_scaling = matches!(operand.arg, Arg::ScaleOf(_) | Arg::ZeroPointOf(_));
            of_scaling || data_types.contains(&operand.desc.data_type())
        })
    };
    let floats = [DataType::F32, DataType::F16, DataType::BF16];
    match desc.op() {
        Op::MatMul(_) | Op::Convolution(_) | Op::Deconvolution(_) => {
            of(&[DataType::F32, DataType::F16, DataType::BF16, DataType::U8, DataType::S8])
        }
        Op::Attention(_)
        | Op::Pooling(_)
        | Op::Reduction(_)
        | Op::Resampling(_)
        | Op::Softmax(_)
        | Op::LayerNormalization(_)
        | Op::BatchNormalization(_)
        | Op::Eltwise(_)
        | Op::Binary(_) => desc.attributes().dequantize.is_empty() && of(&floats),
        Op::Recurrent(_) => desc.attributes().dequantize.is_empty(),
        Op::Reorder(_) => {
            matches!(desc.src().data_type(), DataType::S32 | DataType::S64)
                && desc.attributes().dequantize.is_empty()
                && desc.args().iter().all(|of| of.arg == Arg::SRC || of.desc.data_type() == DataType::F32)
        }
        _ => false,
    }
}

/// The description with f32 in the place of narrow types, dequantised operands among them, or with words in the place of integers that are
/// multiplied.
fn widen(desc: &PrimitiveDesc, words: bool) -> Option<PrimitiveDesc> {
    let wide = |operand: &MemoryDesc| match operand.data_type() {
        data_type if becomes_f32(desc, data_type) => operand.with_data_type(DataType::F32),
        _ => operand.clone(),
    };
    let own = desc.attributes();
    let mut attributes = Attributes::default()
        .with_scratchpad(own.scratchpad)
        .with_fpmath(own.fpmath)
        .with_deterministic(own.deterministic)
        .with_once(own.once);
    for post_op in &own.post_ops {
        attributes = attributes.with_post_op(match post_op {
            PostOp::Binary { algorithm, operand, reversed } => {
                PostOp::Binary { algorithm: *algorithm, operand: wide(operand), reversed: *reversed }
            }
            PostOp::Sum { scale, zero_point, data_type } => {
                if data_type.is_some_and(|data_type| data_type != desc.dst().data_type()) {
                    return None;
                }
                PostOp::Sum { scale: *scale, zero_point: *zero_point, data_type: None }
            }
            PostOp::Eltwise(function) => PostOp::Eltwise(*function),
            _ => return None,
        });
    }
    let mut builder = PrimitiveDesc::builder(desc.op().clone()).attributes(attributes);
    for operand in desc.args() {
        let of_attributes = matches!(
            operand.arg,
            Arg::PostOp(_) | Arg::PostOpOther(_) | Arg::ScaleOf(_) | Arg::ZeroPointOf(_)
        );
        if of_attributes {
            continue;
        }
        let is_matrix = matches!(desc.op(), Op::MatMul(_));
        builder = builder.arg(
            operand.arg,
            match operand.arg {
                Arg::SRC | Arg::Weights if words => {
                    Integers::words_of(operand.arg, &operand.desc, is_matrix)?
                }
                _ => wide(&operand.desc),
            },
        );
    }
    builder.build().ok()
}

/// How an operand is dequantised, none inside if it is not; none where its channels lie in no known way.
#[expect(clippy::option_option, reason = "whether there is a way, and what it is")]
fn scaling(desc: &PrimitiveDesc, arg: Arg, operand: &MemoryDesc) -> Option<Option<Scaling>> {
    let Some(of) = desc.attributes().dequantize.iter().find(|of| of.operand.arg() == arg) else {
        return Some(None);
    };
    // Along which axis numbers differ.
    let axis = match desc.op() {
        Op::MatMul(_) => operand.rank() - 1,
        _ => 0,
    };
    let count = |given: &MemoryDesc| {
        if !given.is_row_major() {
            return None;
        }
        if given.elements() == 1 {
            return Some(1);
        }
        let lead = operand.rank().checked_sub(given.rank())?;
        let along = axis.checked_sub(lead)?;
        let is_along = arg == Arg::Weights
            && given.elements() == operand.dims()[axis]
            && given.dims()[along] == operand.dims()[axis];
        is_along.then_some(given.elements())
    };
    let numbers = |given: Option<&MemoryDesc>, arg: Arg| match given {
        None => Some(None),
        Some(given) => Some(Some((arg, Kind::of(given.data_type()).ok()?, count(given)?))),
    };
    let scale = numbers(of.scale.as_ref(), Arg::ScaleOf(of.operand))?;
    let zero_point = numbers(of.zero_point.as_ref(), Arg::ZeroPointOf(of.operand))?;
    let of_channels = [scale, zero_point].into_iter().flatten().any(|(_, _, count)| count > 1);
    let channels =
        if of_channels { channels(desc, operand, axis)? } else { Channels { length: 1, width: 1 } };
    Some(Some(Scaling { scale, zero_point, channels }))
}

/// Where the channels of weights lie.
fn channels(desc: &PrimitiveDesc, weights: &MemoryDesc, axis: usize) -> Option<Channels> {
    let (count, elements) = (weights.dims()[axis], weights.elements());
    let is = |layout: Option<MemoryDesc>| layout.is_some_and(|layout| layout.same_bytes(weights));
    match desc.op() {
        Op::MatMul(_) if weights.is_row_major() => Some(Channels { length: elements, width: count }),
        Op::MatMul(_) if is(matrix_layout(weights)) => {
            let width = width(count);
            Some(Channels { length: weights.dims()[axis - 1] * width, width })
        }
        Op::Convolution(_) if weights.is_row_major() => Some(Channels { length: elements / count, width: 1 }),
        Op::Convolution(op) if depthwise::fits(op, desc) && is(depthwise::filters_layout(weights)) => {
            Some(Channels { length: elements, width: count })
        }
        Op::Convolution(op) if is(filters_layout(weights, op.groups)) => {
            let width = width(count / op.groups);
            Some(Channels { length: elements / count * width, width })
        }
        _ => None,
    }
}

impl Fast for Widened {
    fn name(&self) -> &'static str {
        if self.integers.is_some() { integers::NAME } else { self.form.name() }
    }

    fn run(&self, call: &Call<'_>) {
        let room = |elements: usize| elements.next_multiple_of(16);
        let inputs: usize = self.inputs.iter().map(|input| room(input.elements)).sum();
        let outputs: usize = self.outputs.iter().map(|output| room(output.elements)).sum();
        let words = self.integers.as_ref().map_or(0, Integers::room);
        self.rooms.with(inputs + outputs + words, |all| {
            let (mut rest, results) = all.split_at_mut(inputs);
            let (mut results, words) = results.split_at_mut(outputs);
            let mut given: SmallVec<[(Arg, &[u8]); 8]> = call.inputs().iter().copied().collect();
            for input in &self.inputs {
                let (to, behind) = rest.split_at_mut(room(input.elements));
                rest = behind;
                let to = &mut to[..input.elements];
                input.convert(call, to);
                let converted: &[u8] = bytemuck::cast_slice(&*to);
                given
                    .iter_mut()
                    .filter(|(arg, _)| *arg == input.arg)
                    .for_each(|(_, bytes)| *bytes = converted);
            }
            let mut made = call.outputs().to_vec();
            for output in &self.outputs {
                let (to, behind) = results.split_at_mut(room(output.elements));
                results = behind;
                let to = &mut to[..output.elements];
                if output.is_read {
                    let size = output.elements * (output.kind.bits() / 8);
                    // SAFETY: nobody writes the result before the form has ended.
                    let old = unsafe { call.output(output.arg).bytes_part(0, size) };
                    convert(call, output.kind, old, to, &|_, _| {});
                }
                let to = Shared::new(to);
                made.iter_mut().filter(|(arg, _)| *arg == output.arg).for_each(|(_, numbers)| *numbers = to);
            }
            let wide = made.clone();
            if let Some(integers) = &self.integers {
                integers.with(call, words, |source, words| {
                    let of = |arg: Arg, bytes| if arg == Arg::SRC { source } else { bytes };
                    let given: SmallVec<[(Arg, &[u8]); 8]> =
                        given.iter().map(|&(arg, bytes)| (arg, of(arg, bytes))).collect();
                    self.form.run(&call.with(&given, made, Some(words)));
                });
            } else {
                self.form.run(&call.with(&given, made, None));
            }
            for output in &self.outputs {
                let element = output.kind.bits() / 8;
                let Some(&(_, from)) = wide.iter().find(|(arg, _)| *arg == output.arg) else { continue };
                let to = call.output(output.arg);
                let work = |chunk: usize| {
                    let first = chunk * CHUNK;
                    let count = CHUNK.min(output.elements - first);
                    // SAFETY: the form has ended, and every chunk converts elements of its own.
                    let (from, to) =
                        unsafe { (from.part(first, count), to.bytes_part(first * element, count * element)) };
                    narrow(call.level, output.kind, from, to);
                };
                call.crew.run(output.elements.div_ceil(CHUNK), &work);
            }
        });
    }
}

impl Input {
    fn convert(&self, call: &Call<'_>, to: &mut [f32]) {
        let Some(scaling) = &self.scaling else {
            convert(call, self.kind, call.bytes(self.arg), to, &|_, _| {});
            return;
        };
        let numbers = |of: Option<(Arg, Kind, usize)>| -> SmallVec<[f32; 1]> {
            let Some((arg, kind, count)) = of else { return SmallVec::new() };
            let mut numbers = SmallVec::from_elem(0.0, count);
            read_run(kind, call.bytes(arg), &mut numbers);
            numbers
        };
        let (scale, zero_point) = (numbers(scaling.scale), numbers(scaling.zero_point));
        let Channels { length, width } = scaling.channels;
        convert(call, self.kind, call.bytes(self.arg), to, &|first, values| {
            let mut apply = |numbers: &[f32], scales: bool| match numbers {
                [] => {}
                [number] => by_one(call.level, values, *number, scales),
                numbers => {
                    let (mut at, mut rest) = (first, &mut *values);
                    while !rest.is_empty() {
                        let (block, place) = (at / length, at % length);
                        let column = place % width;
                        let run = if width == 1 { length - place } else { width - column };
                        let (some, behind) = rest.split_at_mut(run.min(rest.len()));
                        at += some.len();
                        rest = behind;
                        let channel = block * width + column;
                        if width == 1 {
                            by_one(call.level, some, numbers[channel], scales);
                        } else {
                            // Columns that fill up the last panel have no channel.
                            let known = numbers.len().saturating_sub(channel).min(some.len());
                            by_all(
                                call.level,
                                &mut some[..known],
                                &numbers[numbers.len().min(channel)..],
                                scales,
                            );
                        }
                    }
                }
            };
            apply(&zero_point, false);
            apply(&scale, true);
        });
    }
}
