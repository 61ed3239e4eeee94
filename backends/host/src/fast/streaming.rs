//! Operations whose elements do not depend on one another: runs of neighbours in the result, some thousand elements at a time.

use anydnn_backend::op::{BatchNormalization, Convolution};
use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, Rooms};
use super::places::{Places, strides_of};
use super::{Fast, Shared, functions};

/// Elements of a piece: with two operands they stay in the first cache level.
const PIECE: usize = 2048;
/// Elements that one thread does sooner than another one comes to help, and those of a task.
const ALONE: usize = 1 << 14;
const TASK: usize = 1 << 15;
/// The most tasks of a thread: the longer a task, the fewer places at which the memory's next lines are unknown.
const TASKS: usize = 8;
/// Rows shorter than this are taken together where what they share can be repeated.
const SHORT: usize = 256;

#[derive(Debug)]
pub(super) struct Streaming {
    rows: usize,
    columns: usize,
    target: Operand,
    stages: SmallVec<[Stage; 4]>,
    batch_normalization: Option<Statistics>,
    /// Whether a stage reads what the result was.
    sums: bool,
    rooms: Rooms,
}

#[derive(Debug)]
enum Stage {
    Load(Operand),
    Eltwise(Eltwise),
    Binary(BinaryAlgorithm, Operand, bool),
    Sum { scale: f32, zero_point: f32 },
}

/// Where an operand's elements lie.
#[derive(Clone, Debug)]
struct Operand {
    from: From,
    first: usize,
    rows: Places,
    column: usize,
    /// The columns after which it repeats, where the rows are taken together.
    period: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Arg(Arg),
    /// The factors of a batch normalisation.
    Factors,
}

/// What a batch normalisation makes its factors of.
#[derive(Debug)]
struct Statistics {
    channels: usize,
    epsilon: f32,
    has_scale: bool,
}

/// Operands while they are planned: strides by the axes of the result.
struct Strided {
    from: From,
    first: usize,
    strides: SmallVec<[usize; 6]>,
}

/// Whether a convolution multiplies each channel by a number.
pub(super) fn is_scaling(op: &Convolution, desc: &PrimitiveDesc) -> bool {
    let (inputs, outputs) = (desc.src().dims()[1], desc.dst().dims()[1]);
    let of_one_tap =
        desc.find(Arg::Weights).is_some_and(|weights| weights.dims()[1..].iter().all(|&dim| dim == 1));
    let moves = op.strides.iter().any(|&step| step != 1);
    let pads = op.pads_begin.iter().chain(op.pads_end.iter()).any(|&pad| pad != 0);
    inputs == op.groups && outputs == op.groups && of_one_tap && !moves && !pads
}

impl Streaming {
    pub(super) fn new(desc: &PrimitiveDesc) -> Option<Self> {
        let dims = desc.dst().dims();
        if dims.elements() == 0 {
            return None;
        }
        let strided = |arg: Arg| {
            let (strides, first) = strides_of(desc.find(arg)?, dims)?;
            Some(Strided { from: From::Arg(arg), first, strides })
        };
        let mut operands = vec![strided(Arg::DST)?, strided(Arg::SRC)?];
        let mut batch_normalization = None;
        match desc.op() {
            Op::Reorder(_) | Op::Eltwise(_) => {}
            Op::Binary(_) => operands.push(strided(Arg::Src(1))?),
            Op::Convolution(op) if is_scaling(op, desc) => {
                for arg in [Arg::Weights, Arg::Bias] {
                    let Some(of_channels) = desc.find(arg) else { continue };
                    let (own, first) = strides_of(of_channels, of_channels.dims())?;
                    let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(0, dims.len());
                    strides[1] = own[0];
                    operands.push(Strided { from: From::Arg(arg), first, strides });
                }
            }
            Op::BatchNormalization(op) => {
                batch_normalization = Some(Statistics::new(op, desc)?);
                let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(0, dims.len());
                strides[1] = 1;
                let shift = desc.find(Arg::Shift).map(|_| From::Arg(Arg::Shift));
                for from in [From::Arg(Arg::Mean), From::Factors].into_iter().chain(shift) {
                    operands.push(Strided { from, first: 0, strides: strides.clone() });
                }
            }
            _ => return None,
        }
        let before_post_ops = operands.len();
        for (i, post_op) in desc.attributes().post_ops.iter().enumerate() {
            match post_op {
                PostOp::Eltwise(_) | PostOp::Sum { data_type: None | Some(DataType::F32), .. } => {}
                PostOp::Binary { .. } => operands.push(strided(Arg::PostOp(i as u16))?),
                _ => return None,
            }
        }
        let shape = Shape::new(dims, &operands)?;
        let mut placed = operands.iter().map(|operand| shape.operand(operand));
        let target = placed.next()?;
        let mut stages: SmallVec<[Stage; 4]> = SmallVec::new();
        let mut given = placed.by_ref().take(before_post_ops - 1);
        stages.push(Stage::Load(given.next()?));
        match desc.op() {
            Op::Eltwise(function) => stages.push(Stage::Eltwise(*function)),
            Op::Binary(op) => stages.push(Stage::Binary(op.algorithm, given.next()?, false)),
            Op::Convolution(_) => {
                let algorithms = [BinaryAlgorithm::Multiply, BinaryAlgorithm::Add];
                stages.extend(
                    algorithms
                        .into_iter()
                        .zip(given)
                        .map(|(algorithm, operand)| Stage::Binary(algorithm, operand, false)),
                );
            }
            Op::BatchNormalization(_) => {
                // The difference first: it is exact where a value is close to the mean, and zero where it is the mean.
                let algorithms = [BinaryAlgorithm::Subtract, BinaryAlgorithm::Multiply, BinaryAlgorithm::Add];
                stages.extend(
                    algorithms
                        .into_iter()
                        .zip(given)
                        .map(|(algorithm, operand)| Stage::Binary(algorithm, operand, false)),
                );
            }
            _ => {}
        }
        let mut sums = false;
        for post_op in &desc.attributes().post_ops {
            stages.push(match post_op {
                PostOp::Eltwise(function) => Stage::Eltwise(*function),
                PostOp::Binary { algorithm, reversed, .. } => {
                    Stage::Binary(*algorithm, placed.next()?, *reversed)
                }
                PostOp::Sum { scale, zero_point, .. } => {
                    sums = true;
                    Stage::Sum { scale: *scale, zero_point: *zero_point as f32 }
                }
                _ => return None,
            });
        }
        Some(Self {
            rows: shape.rows,
            columns: shape.columns,
            target,
            stages,
            batch_normalization,
            sums,
            rooms: Rooms::default(),
        })
    }

    /// The way of a source of a concatenation to its place in the result, `before` indices along the axis in.
    pub(super) fn of_source(desc: &PrimitiveDesc, arg: Arg, axis: usize, before: usize) -> Option<Self> {
        let source = desc.find(arg)?;
        let (strides, first) = strides_of(desc.dst(), desc.dst().dims())?;
        let first = first + before * strides[axis];
        let target = Strided { from: From::Arg(Arg::DST), first, strides };
        let (strides, first) = strides_of(source, source.dims())?;
        let operands = [target, Strided { from: From::Arg(arg), first, strides }];
        let shape = Shape::new(source.dims(), &operands)?;
        let [target, from] = operands.map(|operand| shape.operand(&operand));
        Some(Self {
            rows: shape.rows,
            columns: shape.columns,
            target,
            stages: SmallVec::from_iter([Stage::Load(from)]),
            batch_normalization: None,
            sums: false,
            rooms: Rooms::default(),
        })
    }

    /// The operands that are repeated, and those that are made.
    fn kept(&self) -> impl Iterator<Item = (&Operand, usize)> {
        let mut start = 0;
        self.operands().filter(|operand| operand.is_kept()).map(move |operand| {
            let own = start;
            start += operand.kept_length(self);
            (operand, own)
        })
    }

    fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.stages.iter().filter_map(|stage| match stage {
            Stage::Load(operand) | Stage::Binary(_, operand, _) => Some(operand),
            _ => None,
        })
    }

    fn piece(&self, call: &Call<'_>, kept: &[f32], target: Shared<'_>, piece: usize) {
        let parts = self.columns.div_ceil(PIECE);
        let (row, first) = (piece / parts, piece % parts * PIECE);
        let count = PIECE.min(self.columns - first);
        let place = self.target.first + self.target.rows.at(row) + first;
        let mut buffer;
        let out: &mut [f32] = if self.sums {
            buffer = [0.0; PIECE];
            &mut buffer[..count]
        } else {
            // SAFETY: every piece has elements of the result of its own.
            unsafe { target.part(place, count) }
        };
        let mut stages = &self.stages[..];
        let values = |operand: &Operand| Values::new(call, self, operand, kept, row, first);
        let is_there = |operand: &Operand| matches!(operand.from, From::Arg(arg) if !call.has_input(arg));
        if let [Stage::Load(operand), ..] = stages
            && is_there(operand)
        {
            stages = &stages[1..];
        } else if let [Stage::Load(a), Stage::Binary(algorithm, b, reversed), ..] = stages
            && is_there(b)
        {
            join(call, *algorithm, out, &values(a), !reversed);
            stages = &stages[2..];
        } else if let [Stage::Load(a), Stage::Binary(algorithm, b, false), ..] = stages
            && let (Values::All(a), Values::All(b)) = (values(a), values(b))
        {
            functions::binary_of(call.level, *algorithm, &a[..count], &b[..count], out);
            stages = &stages[2..];
        } else if let [Stage::Load(a), Stage::Eltwise(function), ..] = stages
            && let Values::All(a) = values(a)
        {
            functions::eltwise_of(call.level, *function, &a[..count], out);
            stages = &stages[2..];
        }
        for stage in stages {
            match stage {
                Stage::Load(operand) => match values(operand) {
                    Values::All(values) => out.copy_from_slice(&values[..count]),
                    Values::One(value) => out.fill(value),
                    Values::Apart(values, stride) => {
                        out.iter_mut()
                            .zip(values.iter().step_by(stride))
                            .for_each(|(out, value)| *out = *value);
                    }
                },
                Stage::Eltwise(function) => functions::eltwise(call.level, *function, out),
                Stage::Binary(algorithm, operand, reversed) => {
                    join(call, *algorithm, out, &values(operand), *reversed);
                }
                Stage::Sum { scale, zero_point } => {
                    // SAFETY: as above.
                    let old = unsafe { target.part(place, count) };
                    out.iter_mut().zip(old).for_each(|(out, old)| *out += scale * (*old - zero_point));
                }
            }
        }
        if self.sums {
            // SAFETY: as above.
            unsafe { target.part(place, count) }.copy_from_slice(out);
        }
    }
}

/// Joins every element of a piece with those of an operand.
fn join(call: &Call<'_>, algorithm: BinaryAlgorithm, out: &mut [f32], values: &Values<'_>, reversed: bool) {
    let count = out.len();
    match *values {
        Values::All(values) => functions::binary(call.level, algorithm, out, &values[..count], reversed),
        Values::One(value) => functions::binary(call.level, algorithm, out, &[value], reversed),
        Values::Apart(values, stride) => {
            let mut near = [0.0; PIECE];
            let near = &mut near[..count];
            near.iter_mut().zip(values.iter().step_by(stride)).for_each(|(to, value)| *to = *value);
            functions::binary(call.level, algorithm, out, near, reversed);
        }
    }
}

/// What a piece reads of an operand.
enum Values<'a> {
    All(&'a [f32]),
    One(f32),
    Apart(&'a [f32], usize),
}

impl<'a> Values<'a> {
    fn new(
        call: &Call<'a>,
        plan: &Streaming,
        operand: &Operand,
        kept: &'a [f32],
        row: usize,
        first: usize,
    ) -> Self {
        let (data, start) = if operand.is_kept() {
            let (_, start) =
                plan.kept().find(|(other, _)| std::ptr::eq(*other, operand)).unwrap_or((operand, 0));
            (&kept[start..], operand.period.map_or(operand.rows.at(row), |period| first % period))
        } else {
            let From::Arg(arg) = operand.from else { return Self::One(0.0) };
            (call.input(arg), operand.first + operand.rows.at(row))
        };
        match operand.column {
            _ if operand.period.is_some() => Self::All(&data[start..]),
            0 => Self::One(data[start]),
            1 => Self::All(&data[start + first..]),
            stride => Self::Apart(&data[start + first * stride..], stride),
        }
    }
}

impl Operand {
    /// Whether its elements lie as those of another one.
    fn is_as(&self, other: &Self) -> bool {
        (self.first, &self.rows, self.column, self.period)
            == (other.first, &other.rows, other.column, other.period)
    }

    fn is_kept(&self) -> bool {
        self.period.is_some() || self.from == From::Factors
    }

    fn kept_length(&self, plan: &Streaming) -> usize {
        let channels = plan.batch_normalization.as_ref().map_or(0, |statistics| statistics.channels);
        self.period.map_or(channels, |period| period + PIECE)
    }
}

impl Fast for Streaming {
    fn name(&self) -> &'static str {
        "host:streaming"
    }

    /// What the first stages read: there nothing has been written yet.
    fn reads_in_place(&self, arg: Arg) -> bool {
        let is_target = |operand: &Operand| operand.from == From::Arg(arg) && operand.is_as(&self.target);
        let is_first = match &self.stages[..] {
            [Stage::Load(a), Stage::Binary(_, b, _), ..] => is_target(a) || is_target(b),
            [Stage::Load(a), ..] => is_target(a),
            _ => false,
        };
        is_first && !self.sums
    }

    fn run(&self, call: &Call<'_>) {
        let length = self.kept().map(|(operand, start)| start + operand.kept_length(self)).max().unwrap_or(0);
        let channels = self.batch_normalization.as_ref().map_or(0, |statistics| statistics.channels);
        self.rooms.with(length + channels, |room| {
            let (kept, factors) = room.split_at_mut(length);
            let factors = &mut factors[..channels];
            if let Some(statistics) = &self.batch_normalization {
                statistics.factors(call, factors);
            }
            for (operand, start) in self.kept() {
                let to = &mut kept[start..][..operand.kept_length(self)];
                let from = match operand.from {
                    From::Arg(arg) => &call.input(arg)[operand.first..],
                    From::Factors => &factors[..],
                };
                match operand.period {
                    None => to.copy_from_slice(from),
                    Some(period) => {
                        for to in to.chunks_mut(period) {
                            to.copy_from_slice(&from[..to.len()]);
                        }
                    }
                }
            }
            let kept = &*kept;
            let target = call.output(Arg::DST);
            let pieces = self.rows * self.columns.div_ceil(PIECE);
            let elements = self.rows * self.columns;
            if elements <= ALONE {
                (0..pieces).for_each(|piece| self.piece(call, kept, target, piece));
                return;
            }
            let threads = call.crew.threads();
            let tasks = elements.div_ceil(TASK).clamp(2 * threads, TASKS * threads).min(pieces);
            call.crew.run(tasks, &|task| {
                for piece in pieces * task / tasks..pieces * (task + 1) / tasks {
                    self.piece(call, kept, target, piece);
                }
            });
        });
    }
}

impl Statistics {
    fn new(op: &BatchNormalization, desc: &PrimitiveDesc) -> Option<Self> {
        let channels = desc.src().dims()[1];
        for arg in [Arg::Mean, Arg::Variance, Arg::Scale, Arg::Shift] {
            if let Some(operand) = desc.find(arg)
                && *operand != MemoryDesc::new([channels], DataType::F32)
                && !operand.same_bytes(&MemoryDesc::new([channels], DataType::F32))
            {
                return None;
            }
        }
        Some(Self { channels, epsilon: op.epsilon, has_scale: desc.find(Arg::Scale).is_some() })
    }

    /// What the distance from the mean is multiplied by, for each channel.
    fn factors(&self, call: &Call<'_>, factors: &mut [f32]) {
        let (variance, scale) = (call.input(Arg::Variance), call.input(Arg::Scale));
        for (c, factor) in factors.iter_mut().enumerate() {
            let scale = if self.has_scale { f64::from(scale[c]) } else { 1.0 };
            *factor = (scale / (f64::from(variance[c]) + f64::from(self.epsilon)).sqrt()) as f32;
        }
    }
}

/// Rows of neighbours in the result.
struct Shape {
    rows: usize,
    columns: usize,
    /// The axes with their lengths, in the order of the result's memory; the last ones are the columns.
    axes: SmallVec<[(usize, usize); 6]>,
    column_axes: usize,
    /// The columns after which operands repeat.
    period: Option<usize>,
}

impl Shape {
    /// The first operand is the result. None where its neighbours are apart.
    fn new(dims: &[usize], operands: &[Strided]) -> Option<Self> {
        let target = operands.first()?;
        let mut axes: SmallVec<[(usize, usize); 6]> =
            dims.iter().copied().enumerate().filter(|&(_, length)| length != 1).collect();
        axes.sort_by_key(|&(axis, _)| std::cmp::Reverse(target.strides[axis]));
        let places = |operand: &Strided, from: usize| {
            Places::new(axes[from..].iter().map(|&(axis, length)| (length, operand.strides[axis])))
        };
        let merges = |operand: &Strided, from: usize| places(operand, from).stride().is_some();
        let is_dense = |from: usize| matches!(places(target, from).stride(), Some(0 | 1));
        if !axes.is_empty() && !is_dense(axes.len() - 1) {
            return None;
        }
        let mut from = axes.len();
        while from > 0 && is_dense(from - 1) && operands.iter().all(|operand| merges(operand, from - 1)) {
            from -= 1;
        }
        let length = |axes: &[(usize, usize)]| axes.iter().map(|axis| axis.1).product::<usize>();
        let columns = length(&axes[from..]);
        // Where the others go on as one run, what repeats is repeated.
        if from > 0 && columns < SHORT && is_dense(0) {
            let repeats = |operand: &Strided| {
                axes[..from].iter().all(|&(axis, _)| operand.strides[axis] == 0)
                    && matches!(places(operand, from).stride(), Some(1))
            };
            if operands.iter().all(|operand| repeats(operand) || merges(operand, 0)) {
                return Some(Self {
                    rows: 1,
                    columns: length(&axes),
                    axes,
                    column_axes: from,
                    period: Some(columns),
                });
            }
        }
        Some(Self { rows: length(&axes[..from]), columns, axes, column_axes: from, period: None })
    }

    fn operand(&self, operand: &Strided) -> Operand {
        let places = |axes: &[(usize, usize)]| {
            Places::new(axes.iter().map(|&(axis, length)| (length, operand.strides[axis])))
        };
        let whole = places(&self.axes);
        if let Some(period) = self.period {
            let (column, period) = match whole.stride() {
                Some(stride) => (stride, None),
                None => (1, Some(period)),
            };
            return Operand {
                from: operand.from,
                first: operand.first,
                rows: Places::default(),
                column,
                period,
            };
        }
        let columns = places(&self.axes[self.column_axes..]);
        Operand {
            from: operand.from,
            first: operand.first,
            rows: places(&self.axes[..self.column_axes]),
            column: columns.stride().unwrap_or(1),
            period: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(strides: &[usize]) -> Strided {
        Strided { from: From::Arg(Arg::SRC), first: 0, strides: SmallVec::from_slice(strides) }
    }

    #[test]
    fn rows_are_as_long_as_all_operands_go_on() {
        let dims = [2, 3, 4, 5];
        let dense = || strided(&[60, 20, 5, 1]);
        let all = Shape::new(&dims, &[dense(), dense()]).unwrap();
        assert_eq!((all.rows, all.columns), (1, 120));
        let by_channel = Shape::new(&dims, &[dense(), strided(&[0, 1, 0, 0])]).unwrap();
        assert_eq!((by_channel.rows, by_channel.columns), (6, 20));
        assert!(Shape::new(&dims, &[strided(&[120, 40, 10, 2])]).is_none());
    }

    #[test]
    fn what_short_rows_share_is_repeated() {
        let dims = [2, 3, 4, 5];
        let last = || strided(&[60, 1, 15, 3]);
        let shape = Shape::new(&dims, &[last(), last(), strided(&[0, 1, 0, 0])]).unwrap();
        assert_eq!((shape.rows, shape.columns, shape.period), (1, 120, Some(3)));
        assert_eq!(shape.operand(&strided(&[0, 1, 0, 0])).period, Some(3));
        assert_eq!(shape.operand(&last()).period, None);
    }
}
