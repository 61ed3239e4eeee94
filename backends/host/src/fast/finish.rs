//! What follows sums in a tile: bias, post-operations and the way to the result.

use std::ops::Range;

use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc};
use smallvec::SmallVec;

use super::Shared;
use super::call::Call;
use super::functions;
use super::lanes;
use super::level::Level;
use super::places::{Places, strides_of};
use super::sink::{Step, Target};

/// The steps behind a result whose axes are parted into rows and columns.
#[derive(Debug)]
pub(super) struct FinishPlan {
    has_bias: bool,
    bias: Strided,
    steps: SmallVec<[StepPlan; 3]>,
    target: Strided,
    /// Whether every step can be done in registers.
    is_direct: bool,
}

/// Some indices of an axis: so many, `step` apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Along {
    pub(super) axis: usize,
    pub(super) length: usize,
    pub(super) step: usize,
}

/// Where rows and columns of an operand lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Strided {
    first: usize,
    rows: Places,
    column: usize,
}

impl Strided {
    /// Whether one element meets all rows and columns.
    fn is_one(&self) -> bool {
        self.column == 0 && self.rows.stride() == Some(0)
    }
}

#[derive(Debug)]
enum StepPlan {
    Eltwise(Eltwise),
    Binary { arg: Arg, algorithm: BinaryAlgorithm, reversed: bool, operand: Strided },
    Sum { scale: f32, zero_point: f32 },
}

/// The steps with their operands.
pub(super) struct Finish<'a> {
    plan: &'a FinishPlan,
    level: Level,
    bias: Option<&'a [f32]>,
    /// For each step what its operand has, unless it is the target.
    operands: SmallVec<[Option<&'a [f32]>; 3]>,
    target: Shared<'a>,
}

/// The offsets of some rows: of the target, then of each operand.
#[derive(Debug, Default)]
pub(super) struct Rows {
    offsets: Vec<usize>,
    count: usize,
}

impl Rows {
    /// The offsets of some of the target's.
    pub(super) fn of_target(&self, some: Range<usize>) -> &[usize] {
        &self.offsets[..self.count][some]
    }
}

impl FinishPlan {
    /// The result's `rows` are axes in this order, its `columns` those along which a row has its elements. None where a type, a layout or
    /// a step is not known here.
    pub(super) fn new(desc: &PrimitiveDesc, rows: &[usize], columns: &[usize]) -> Option<Self> {
        let dims = desc.dst().dims();
        let rows: SmallVec<[Along; 8]> =
            rows.iter().map(|&axis| Along { axis, length: dims[axis], step: 1 }).collect();
        Self::with_rows(desc, &rows, columns)
    }

    /// As [`FinishPlan::new`], with rows along parts of axes.
    pub(super) fn with_rows(desc: &PrimitiveDesc, rows: &[Along], columns: &[usize]) -> Option<Self> {
        let dims = desc.dst().dims();
        let strided = |operand: &MemoryDesc| {
            let (strides, first) = strides_of(operand, dims)?;
            let rows = Places::new(rows.iter().map(|along| (along.length, strides[along.axis] * along.step)));
            let columns = Places::new(columns.iter().map(|&axis| (dims[axis], strides[axis])));
            Some(Strided { first, rows, column: columns.stride()? })
        };
        let mut steps = SmallVec::new();
        for (i, post_op) in desc.attributes().post_ops.iter().enumerate() {
            steps.push(match post_op {
                PostOp::Eltwise(function) => StepPlan::Eltwise(*function),
                PostOp::Binary { algorithm, operand, reversed } => StepPlan::Binary {
                    arg: Arg::PostOp(i as u16),
                    algorithm: *algorithm,
                    reversed: *reversed,
                    operand: strided(operand)?,
                },
                PostOp::Sum { scale, zero_point, data_type: None | Some(DataType::F32) } => {
                    StepPlan::Sum { scale: *scale, zero_point: *zero_point as f32 }
                }
                _ => return None,
            });
        }
        let target = strided(desc.dst())?;
        let bias = match desc.find(Arg::Bias) {
            None => None,
            Some(bias) if bias.rank() == 1 => {
                let channel = if matches!(desc.op(), Op::MatMul(_)) { dims.len() - 1 } else { 1 };
                let (strides, first) = strides_of(bias, &[dims[channel]])?;
                let along = |axis: usize| if axis == channel { strides[0] } else { 0 };
                let rows = Places::new(rows.iter().map(|row| (row.length, along(row.axis) * row.step)));
                let columns = Places::new(columns.iter().map(|&axis| (dims[axis], along(axis))));
                Some(Strided { first, rows, column: columns.stride()? })
            }
            Some(bias) => Some(strided(bias)?),
        };
        let is_direct = target.column == 1
            && bias.as_ref().is_none_or(|bias| bias.column == 1)
            && steps.iter().all(StepPlan::is_direct);
        Some(Self { has_bias: bias.is_some(), bias: bias.unwrap_or_default(), steps, target, is_direct })
    }

    /// Whether the operand of a step may be the target itself.
    pub(super) fn reads_in_place(&self, arg: Arg) -> bool {
        self.steps.iter().any(|step| match step {
            StepPlan::Binary { arg: of, operand, .. } => {
                *of == arg && *operand == self.target && !operand.is_one()
            }
            _ => false,
        })
    }

    /// The steps with what a call binds.
    pub(super) fn bind<'a>(&'a self, call: &Call<'a>) -> Finish<'a> {
        let bias = self.has_bias.then(|| call.input(Arg::Bias));
        let operands = self.steps.iter().map(|step| match step {
            StepPlan::Binary { arg, .. } if call.has_input(*arg) => Some(call.input(*arg)),
            _ => None,
        });
        let operands = operands.collect();
        Finish { plan: self, level: call.level, bias, operands, target: call.output(Arg::DST) }
    }
}

impl StepPlan {
    /// Whether it can be done in registers.
    fn is_direct(&self) -> bool {
        match self {
            Self::Eltwise(function) => {
                matches!(function, Eltwise::Relu | Eltwise::Clamp { .. } | Eltwise::HardSwish { .. })
            }
            Self::Binary { algorithm, operand, .. } => {
                matches!(algorithm, BinaryAlgorithm::Add | BinaryAlgorithm::Multiply)
                    && (operand.column == 1 || operand.is_one())
            }
            Self::Sum { scale, zero_point } => (*scale, *zero_point) == (1.0, 0.0),
        }
    }
}

impl Finish<'_> {
    /// Calls `work` with what stores sums of some of `rows` from a column on out of registers, a step `before` all others; gives whether there
    /// is such a way.
    pub(super) fn with_target(
        &self,
        rows: &Rows,
        some: Range<usize>,
        column: usize,
        columns: usize,
        before: Option<Step<'_>>,
        work: impl FnOnce(&Target<'_>),
    ) -> bool {
        let mut steps: SmallVec<[Step<'_>; 5]> = before.into_iter().collect();
        let Some(to) = self.in_registers(rows, some.clone(), column, columns, &mut steps) else {
            return false;
        };
        work(&Target { steps: &steps, to, rows: rows.of_target(some), column: 0 });
        true
    }

    /// Appends the steps behind sums of some of `rows` from a column on, if all of them can be done in registers, and gives where that column of a
    /// row at offset zero is stored.
    pub(super) fn in_registers<'r>(
        &self,
        rows: &'r Rows,
        some: Range<usize>,
        column: usize,
        columns: usize,
        steps: &mut impl Extend<Step<'r>>,
    ) -> Option<*mut f32> {
        let plan = self.plan;
        if !plan.is_direct || rows.count == 0 {
            return None;
        }
        let mut offsets = rows.offsets.chunks_exact(rows.count).map(|offsets| &offsets[some.clone()]);
        let mut next = || offsets.next().unwrap_or_default();
        let reach = |rows: &[usize]| rows.iter().max().map_or(0, |last| last + columns);
        let read = |data: &[f32], first: usize, rows: &[usize]| data[first..][..reach(rows)].as_ptr();
        let targets = next();
        let biases = next();
        let to = self.target.pointer(plan.target.first + column, reach(targets));
        let mut push = |step| steps.extend([step]);
        if let Some(bias) = self.bias {
            let from = read(bias, plan.bias.first + column, biases);
            push(match plan.bias.rows.stride() {
                Some(0) => Step::AddColumns(from),
                _ => Step::Add(from, biases),
            });
        }
        for (step, operand) in plan.steps.iter().zip(&self.operands) {
            match step {
                StepPlan::Eltwise(Eltwise::Clamp { min, max }) => {
                    push(Step::AtLeast(*min));
                    push(Step::AtMost(*max));
                }
                StepPlan::Eltwise(Eltwise::HardSwish { alpha, beta }) => {
                    push(Step::HardSwish(*alpha, *beta));
                }
                StepPlan::Eltwise(_) => push(Step::AtLeast(0.0)),
                StepPlan::Binary { algorithm, operand: place, .. } if place.is_one() => {
                    next();
                    let value = operand.unwrap_or_default()[place.first];
                    push(match algorithm {
                        BinaryAlgorithm::Add => Step::AddOne(value),
                        _ => Step::MultiplyOne(value),
                    });
                }
                StepPlan::Binary { algorithm, operand: place, .. } => {
                    let rows = next();
                    let from = match operand {
                        Some(operand) => read(operand, place.first + column, rows),
                        None => to.cast_const(),
                    };
                    push(match algorithm {
                        BinaryAlgorithm::Add if place.rows.stride() == Some(0) => Step::AddColumns(from),
                        BinaryAlgorithm::Add => Step::Add(from, rows),
                        _ => Step::Multiply(from, rows),
                    });
                }
                StepPlan::Sum { .. } => push(Step::Add(to.cast_const(), targets)),
            }
        }
        Some(to)
    }

    /// Asks for the cache lines that the columns of `rows` from a column on are stored to, while their sums are made: a store to a line
    /// that is not near holds up those behind it. Nothing without vectors of the processor's own.
    pub(super) fn expect(&self, rows: &Rows, some: Range<usize>, column: usize, columns: usize) {
        if self.plan.target.column != 1 || self.level == Level::Portable {
            return;
        }
        for &row in rows.of_target(some) {
            lanes::expect(self.target(row, column, columns), columns);
        }
    }

    /// The offsets of some rows.
    pub(super) fn rows(&self, first: usize, count: usize, rows: &mut Rows) {
        rows.offsets.clear();
        rows.count = count;
        self.plan.target.rows.fill(first, count, &mut rows.offsets);
        self.plan.bias.rows.fill(first, count, &mut rows.offsets);
        for step in &self.plan.steps {
            if let StepPlan::Binary { operand, .. } = step {
                operand.rows.fill(first, count, &mut rows.offsets);
            }
        }
    }

    /// Stores the sums of a row, the `row`-th of `rows`, from a column on, after all steps.
    ///
    /// # Safety
    /// As for [`Finish::store_all`].
    pub(super) unsafe fn store(&self, rows: &Rows, row: usize, column: usize, sums: &mut [f32]) {
        let length = sums.len();
        // SAFETY: by the caller.
        unsafe { self.store_all(rows, row..row + 1, column, sums, length, length) };
    }

    /// Calls `make` with room for some rows from a column on, one behind the other, and stores what it made after all steps: in its place,
    /// where nothing follows and the rows lie so, else out of `room`, which is as long.
    ///
    /// # Safety
    /// As for [`Finish::store_all`].
    pub(super) unsafe fn make_rows(
        &self,
        rows: Range<usize>,
        column: usize,
        room: &mut [f32],
        make: impl FnOnce(&mut [f32]),
    ) {
        let (plan, count) = (self.plan, rows.len());
        let columns = room.len() / count.max(1);
        let is_plain = plan.target.column == 1 && self.bias.is_none() && plan.steps.is_empty();
        if is_plain && (count == 1 || plan.target.rows.stride() == Some(columns)) {
            let to = self.target(plan.target.rows.at(rows.start), column, room.len());
            // SAFETY: the rows lie in the result, and are the caller's alone.
            return make(unsafe { std::slice::from_raw_parts_mut(to, room.len()) });
        }
        make(room);
        let mut offsets = Rows::default();
        self.rows(rows.start, count, &mut offsets);
        // SAFETY: by the caller.
        unsafe { self.store_all(&offsets, 0..count, column, room, columns, columns) };
    }

    /// Stores `columns` sums of some of `rows` from a column on, after all steps. The sums of a row begin `stride` numbers behind those of the
    /// one before.
    ///
    /// # Safety
    /// - `rows` are of this result, whose rows end behind them and whose columns behind `column + columns`.
    /// - No other thread touches these elements of the result.
    pub(super) unsafe fn store_all(
        &self,
        rows: &Rows,
        some: Range<usize>,
        column: usize,
        sums: &mut [f32],
        stride: usize,
        columns: usize,
    ) {
        let (plan, level) = (self.plan, self.level);
        let mut offsets = rows.offsets.chunks_exact(rows.count.max(1)).map(|offsets| &offsets[some.clone()]);
        let mut next = || offsets.next().unwrap_or_default();
        let targets = next();
        let biases = next();
        let sums = &mut sums[..(targets.len().max(1) - 1) * stride + columns];
        if let Some(bias) = self.bias {
            let start = plan.bias.first + column * plan.bias.column;
            if plan.bias.column == 1 && biases.iter().all(|&offset| offset == 0) {
                functions::add_to_rows(level, &bias[start..][..columns], sums, stride);
            } else {
                for (sums, &offset) in sums.chunks_mut(stride).zip(biases) {
                    self.binary(
                        BinaryAlgorithm::Add,
                        false,
                        &bias[start + offset..],
                        plan.bias.column,
                        &mut sums[..columns],
                    );
                }
            }
        }
        for (step, operand) in plan.steps.iter().zip(&self.operands) {
            match step {
                // What lies between the rows is never stored.
                StepPlan::Eltwise(function) => functions::eltwise(level, *function, sums),
                StepPlan::Binary { algorithm, reversed, operand: place, .. } if place.is_one() => {
                    next();
                    let operand = &operand.unwrap_or_default()[place.first..][..1];
                    functions::binary(level, *algorithm, sums, operand, *reversed);
                }
                StepPlan::Binary { algorithm, reversed, operand: place, .. } => {
                    let start = place.first + column * place.column;
                    for (sums, &offset) in sums.chunks_mut(stride).zip(next()) {
                        let operand = if let Some(operand) = operand {
                            &operand[start + offset..]
                        } else {
                            let old = self.target(offset, column, columns);
                            // SAFETY: nobody else touches these elements of the result, and nothing is written while they are read.
                            unsafe { std::slice::from_raw_parts(old, (columns - 1) * place.column + 1) }
                        };
                        self.binary(*algorithm, *reversed, operand, place.column, &mut sums[..columns]);
                    }
                }
                StepPlan::Sum { scale, zero_point } => {
                    for (sums, &offset) in sums.chunks_mut(stride).zip(targets) {
                        let old = self.target(offset, column, columns);
                        for (i, sum) in sums[..columns].iter_mut().enumerate() {
                            // SAFETY: the element is the caller's alone.
                            let old = unsafe { *old.add(i * plan.target.column) };
                            *sum += scale * (old - zero_point);
                        }
                    }
                }
            }
        }
        if let (1, Some(next_row), [first, ..]) = (plan.target.column, plan.target.rows.stride(), targets)
            && next_row == columns
            && stride == columns
        {
            let to = self.target(*first, column, sums.len());
            // SAFETY: as below; the rows are one behind the other.
            unsafe { to.copy_from_nonoverlapping(sums.as_ptr(), sums.len()) };
            return;
        }
        for (sums, &offset) in sums.chunks(stride).zip(targets) {
            let to = self.target(offset, column, columns);
            // SAFETY: the elements lie in the result, and are the caller's alone.
            unsafe {
                if let (1, Some(whole)) = (plan.target.column, <&[f32; 32]>::try_from(&sums[..columns]).ok())
                {
                    to.cast::<[f32; 32]>().write_unaligned(*whole);
                } else if plan.target.column == 1 {
                    to.copy_from_nonoverlapping(sums.as_ptr(), columns);
                } else {
                    for (i, sum) in sums[..columns].iter().enumerate() {
                        *to.add(i * plan.target.column) = *sum;
                    }
                }
            }
        }
    }

    /// Where some columns of a row are stored.
    fn target(&self, row: usize, column: usize, columns: usize) -> *mut f32 {
        let place = &self.plan.target;
        self.target.pointer(place.first + row + column * place.column, (columns - 1) * place.column + 1)
    }

    fn binary(
        &self,
        algorithm: BinaryAlgorithm,
        reversed: bool,
        operand: &[f32],
        stride: usize,
        sums: &mut [f32],
    ) {
        match stride {
            0 => functions::binary(self.level, algorithm, sums, &operand[..1], reversed),
            // A slice of one is taken for what meets every element, which it does.
            1 => functions::binary(self.level, algorithm, sums, &operand[..sums.len()], reversed),
            _ => {
                for (sum, operand) in sums.chunks_mut(1).zip(operand.iter().step_by(stride)) {
                    functions::binary(self.level, algorithm, sum, std::slice::from_ref(operand), reversed);
                }
            }
        }
    }
}
