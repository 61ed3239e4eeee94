//! A primitive executed and compared with the reference.

use super::data::Cover;
use super::reference::{self, Tensor, Tensors};
use super::report::ensure;
use super::subject::read_all;
use super::values::Values;
use super::{Failure, Lacking, Outcome, Subject, data};
use crate::{
    Access, Arg, ArgDesc, Backend, DataType, Engine, Error, Event, Layout, Memory, MemoryDesc, PostOp,
    Primitive, PrimitiveDesc, PrimitiveDescBuilder, Result, ScratchpadMode, Specialize, Stream, Tolerance,
};

/// A description, the values of its operands, and how to judge the result.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    desc: PrimitiveDesc,
    values: Vec<(Arg, Values)>,
    in_place: Option<Arg>,
    exact: bool,
    may_be_refused: bool,
    /// Whether it runs by programs for its shape, too.
    both_forms: bool,
}

/// Tells what the results of a primitive should be.
pub(super) type Oracle<'a> = &'a dyn Fn(&PrimitiveDesc, &Tensors) -> Result<Tensors, Failure>;

/// The primitive runs once in memories of its own and once in parts of larger ones, on other data, over another poison.
const ROUNDS: [Round; 2] =
    [Round { seed: 1, poison: 0xCD, margin: 0 }, Round { seed: 2, poison: 0xFF, margin: 3 }];

/// Elements of which one round is enough.
const LARGE: usize = 1 << 16;

struct Round {
    seed: u64,
    poison: u8,
    /// Elements before and after the operand in its memory.
    margin: usize,
}

impl Trial {
    pub(super) fn of(builder: PrimitiveDescBuilder) -> Result<Self> {
        Ok(Self {
            desc: builder.build()?,
            values: Vec::new(),
            in_place: None,
            exact: false,
            may_be_refused: false,
            both_forms: false,
        })
    }

    /// With an operand's values; otherwise they suit its type.
    pub(super) fn values(mut self, arg: Arg, values: Values) -> Self {
        self.values.push((arg, values));
        self
    }

    /// With the result in the memory of `arg`.
    pub(super) fn in_place(mut self, arg: Arg) -> Self {
        self.in_place = Some(arg);
        self
    }

    /// With a result that is the same on every device: only moved or rounded, or sums of small integers.
    pub(super) fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// With a combination that a backend need not have.
    pub(super) fn may_be_refused(mut self) -> Self {
        self.may_be_refused = true;
        self
    }

    /// Also by programs for its shape, which have to give the same bits.
    pub(super) fn both_forms(mut self, both: bool) -> Self {
        self.both_forms = both;
        self
    }

    pub(super) fn has_both_forms(&self) -> bool {
        self.both_forms
    }

    pub(super) fn desc(&self) -> &PrimitiveDesc {
        &self.desc
    }

    /// The operand that the result overwrites.
    pub(super) fn in_place_of(&self) -> Option<Arg> {
        self.in_place
    }

    pub(super) fn run<B: Backend>(&self, subject: &Subject<B>) -> Result<Outcome, Failure> {
        self.judge(subject, &|desc, inputs| Ok(reference::compute(desc, inputs)?))
    }

    /// Runs the primitive and compares its results with those of an oracle.
    pub(super) fn judge<B: Backend>(
        &self,
        subject: &Subject<B>,
        oracle: Oracle<'_>,
    ) -> Result<Outcome, Failure> {
        let mut types = self.desc.args().iter().map(|operand| operand.desc.data_type());
        if let Some(lacking) = types.find(|data_type| !subject.has_type(*data_type)) {
            return Ok(Outcome::Unsupported(Lacking::DataType(lacking)));
        }
        // Whatever the engine would choose by itself.
        let general = || self.desc.clone().with_specialize(Some(Specialize::Never));
        let asked = if self.both_forms { general() } else { self.desc.clone() };
        let primitive = match subject.engine().create_primitive(&asked) {
            Err(error) if self.may_be_refused && matches!(error.root(), Error::Unsupported { .. }) => {
                return Ok(Outcome::Unsupported(Lacking::Combination(error.to_string())));
            }
            created => created?,
        };
        self.check_resolution(primitive.desc())?;
        self.check_resolved(subject, &asked, &primitive)?;
        ensure!(!primitive.implementation().is_empty(), "the implementation has no name");
        let special = if self.both_forms {
            // In the layouts that were chosen: an engine may choose others another time, and bytes are compared.
            let same = primitive.desc().clone().with_specialize(Some(Specialize::Eager));
            Some(subject.engine().create_primitive(&same)?)
        } else {
            None
        };
        let place = || format!("{} by {}", self.desc, primitive.implementation());
        for round in self.rounds() {
            let bytes = self.round(subject, &primitive, round, oracle).map_err(|f| f.at(place()))?;
            let Some(special) = &special else { continue };
            let others = self.round(subject, special, round, oracle).map_err(|f| f.at(place()))?;
            for ((arg, general), (_, special)) in bytes.iter().zip(&others) {
                let differs = general.iter().zip(special).position(|(general, special)| general != special);
                let Some(at) = differs else { continue };
                let (general, special) = (general[at], special[at]);
                return Err(Failure::new(format!(
                    "{}: byte {at} of {arg} is {special:#04x} by programs for its shape, \
                     {general:#04x} by those for every shape",
                    place(),
                )));
            }
        }
        Ok(Outcome::Passed)
    }

    /// Both rounds; one of them where the operands are large.
    fn rounds(&self) -> &'static [Round] {
        let elements: usize = self.desc.args().iter().map(|operand| operand.desc.elements()).sum();
        if elements <= LARGE { &ROUNDS } else { &ROUNDS[elements % 2..][..1] }
    }

    /// What the engine chooses ahead makes the same primitive.
    fn check_resolved<B: Backend>(
        &self,
        subject: &Subject<B>,
        asked: &PrimitiveDesc,
        primitive: &B::Primitive,
    ) -> Result<(), Failure> {
        if !asked.args().iter().any(|operand| operand.desc.is_any()) {
            return Ok(());
        }
        let resolved = subject.engine().resolve(asked)?;
        self.check_resolution(&resolved)?;
        let made = subject.engine().create_primitive(&resolved)?;
        ensure!(*made.desc() == resolved, "{resolved}, chosen ahead, becomes {}", made.desc());
        let (ahead, open) = (made.implementation(), primitive.implementation());
        ensure!(ahead == open, "{resolved}: {ahead} by layouts chosen ahead, {open} by open ones");
        Ok(())
    }

    /// The backend may resolve open layouts and nothing else.
    fn check_resolution(&self, resolved: &PrimitiveDesc) -> Result<(), Failure> {
        ensure!(resolved.op() == self.desc.op(), "the primitive's operation is {:?}", resolved.op());
        ensure!(
            resolved.args().len() == self.desc.args().len(),
            "the primitive is {resolved}, asked for was {}",
            self.desc
        );
        for (given, asked) in resolved.args().iter().zip(self.desc.args()) {
            let kept = if asked.desc.is_any() {
                !given.desc.is_any()
                    && given.desc.dims() == asked.desc.dims()
                    && given.desc.data_type() == asked.desc.data_type()
            } else {
                given.desc.same_bytes(&asked.desc)
            };
            ensure!(
                kept && given.arg == asked.arg && given.access == asked.access,
                "{} became {} ({:?})",
                asked.arg,
                given.desc,
                given.access
            );
        }
        Ok(())
    }

    /// Returns the bytes of the memory of each result that is in no layout of the backend's own.
    fn round<B: Backend>(
        &self,
        subject: &Subject<B>,
        primitive: &B::Primitive,
        round: &Round,
        oracle: Oracle<'_>,
    ) -> Result<Vec<(Arg, Vec<u8>)>, Failure> {
        let stream = subject.stream()?;
        let mut operands: Vec<Operand<B>> = Vec::new();
        let mut inputs = Tensors::new();
        for (i, operand) in primitive.desc().args().iter().enumerate() {
            let seed = round.seed * 1000 + i as u64;
            let read_as = read_as(&self.desc, operand);
            let values = operand
                .access
                .reads()
                .then(|| self.values_of(operand.arg, read_as).draw(operand.desc.elements(), seed));
            let was_open = self.desc.find(operand.arg).is_some_and(MemoryDesc::is_any);
            let made = Operand::make(subject, &stream, operand, was_open, read_as, values.as_deref(), round)
                .map_err(|f| f.at(operand.arg))?;
            if let Some(tensor) = &made.tensor {
                inputs.insert(operand.arg, tensor.clone());
            }
            operands.push(made);
        }
        let mut args: Vec<(Arg, B::Memory)> = operands.iter().map(|o| (o.arg, o.memory.clone())).collect();
        let reused = self.in_place.and_then(|source| args.iter().find(|(arg, _)| *arg == source).cloned());
        if let (Some(source), Some((_, shared))) = (self.in_place, reused) {
            ensure!(self.desc.may_overwrite(source), "the contract does not let dst0 overwrite {source}");
            args.iter_mut().filter(|(arg, _)| *arg == Arg::DST).for_each(|(_, m)| *m = shared.clone());
            let bytes =
                operands.iter().find(|o| o.arg == source).map(|o| (o.parent.clone(), o.before.clone()));
            if let (Some((parent, before)), Some(dst)) =
                (bytes, operands.iter_mut().find(|o| o.arg == Arg::DST))
            {
                (dst.parent, dst.memory, dst.before) = (parent, shared, before);
            }
            operands.retain(|o| o.arg != source);
        }
        if self.desc.attributes().scratchpad == ScratchpadMode::User && primitive.scratchpad_size() > 0 {
            args.push((Arg::Scratchpad, subject.bytes(primitive.scratchpad_size())?));
        }
        stream.execute(primitive, &args, &[])?.wait()?;
        let expected = oracle(&self.desc, &inputs)?;
        let mut bytes = Vec::with_capacity(operands.len());
        for operand in &operands {
            let after = operand
                .check(subject, &stream, expected.get(&operand.arg), self.tolerance(operand.arg))
                .map_err(|f| f.at(operand.arg))?;
            if operand.access.writes() && operand.before.is_some() {
                bytes.push((operand.arg, after));
            }
        }
        stream.wait()?;
        Ok(bytes)
    }

    fn tolerance(&self, arg: Arg) -> Tolerance {
        if self.exact {
            return Tolerance { absolute: 0.0, relative: 0.0, scaled: false };
        }
        Tolerance::of_result(&self.desc, arg)
    }

    fn values_of(&self, arg: Arg, data_type: DataType) -> Values {
        let given = self.values.iter().find(|(a, _)| *a == arg).map(|(_, values)| values.clone());
        given.unwrap_or_else(|| Values::of(data_type))
    }
}

/// The type that an operand's old content is read as.
pub(super) fn read_as(desc: &PrimitiveDesc, operand: &ArgDesc) -> DataType {
    let sum = desc.attributes().post_ops.iter().find_map(|post_op| match post_op {
        PostOp::Sum { data_type, .. } if operand.arg == Arg::DST => *data_type,
        _ => None,
    });
    sum.unwrap_or(operand.desc.data_type())
}

/// An operand's memory and what was in it.
struct Operand<B: Backend> {
    arg: Arg,
    access: Access,
    desc: MemoryDesc,
    /// What is bound to the primitive: a view of `parent`.
    memory: B::Memory,
    parent: B::Memory,
    /// The parent's bytes before the execution; none when the layout is the backend's own.
    before: Option<Vec<u8>>,
    /// Bytes in the parent before the operand.
    start: usize,
    tensor: Option<Tensor>,
}

impl<B: Backend> Operand<B> {
    fn make(
        subject: &Subject<B>,
        stream: &B::Stream,
        operand: &ArgDesc,
        was_open: bool,
        read_as: DataType,
        values: Option<&[f64]>,
        round: &Round,
    ) -> Result<Self, Failure> {
        let ArgDesc { arg, access, desc } = operand.clone();
        let opaque = matches!(desc.layout(), Layout::Opaque { .. });
        let margin = if opaque { 0 } else { round.margin * desc.data_type().bits() / 8 };
        let parent = subject.bytes(desc.size() + 2 * margin)?;
        let memory = parent.view(&desc, margin)?;
        let mut bytes = vec![round.poison; desc.size() + 2 * margin];
        let mut tensor = None;
        let through_reorder = opaque || (was_open && !desc.is_row_major());
        if let Some(values) = values {
            let typed = if through_reorder { desc.to_row_major() } else { desc.with_data_type(read_as) };
            let mut encoded = if through_reorder { vec![0; typed.size()] } else { Vec::new() };
            let target = if through_reorder { &mut encoded[..] } else { &mut bytes[margin..][..desc.size()] };
            data::encode_into(&typed, values, target)?;
            // Rounded to the type, and equal where elements share bytes.
            tensor = Some(Tensor::new(desc.dims().clone(), data::decode(&typed, target)?)?);
            if through_reorder {
                let plain = subject.memory(&typed)?;
                stream.write(&plain, 0, &encoded, &[])?;
                subject.reorder(stream, &plain, &typed, &memory, &desc)?;
                bytes = read_all::<B>(stream, &parent)?;
            }
        }
        stream.write(&parent, 0, &bytes, &[])?;
        let before = (!opaque).then_some(bytes);
        Ok(Self { arg, access, desc, memory, parent, before, start: margin, tensor })
    }

    /// Compares a result with the reference, and all other bytes with what they were. Returns the bytes.
    fn check(
        &self,
        subject: &Subject<B>,
        stream: &B::Stream,
        expected: Option<&Tensor>,
        tolerance: Tolerance,
    ) -> Result<Vec<u8>, Failure> {
        let after = read_all::<B>(stream, &self.parent)?;
        if let Some(before) = &self.before {
            self.check_bytes(before, &after)?;
        }
        if !self.access.writes() {
            return Ok(after);
        }
        let Some(expected) = expected else { return Err(Failure::new("the reference gives no such result")) };
        let actual = if self.before.is_some() {
            data::decode(&self.desc, &after[self.start..])?
        } else {
            let plain = self.desc.to_row_major();
            let memory = subject.memory(&plain)?;
            subject.reorder(stream, &self.memory, &self.desc, &memory, &plain)?;
            subject.download(stream, &memory)?
        };
        tolerance.compare(&actual, &expected.values).map_err(|mismatch| {
            let index = self.desc.dims().indices().nth(mismatch.index).unwrap_or_default();
            Failure::from(mismatch).at(format!("at {index:?}"))
        })?;
        Ok(after)
    }

    fn check_bytes(&self, before: &[u8], after: &[u8]) -> Result<(), Failure> {
        let end = self.start + self.desc.size();
        let cover = data::coverage(&self.desc)?;
        for (i, (&was, &is)) in before.iter().zip(after).enumerate() {
            let cover = if i < self.start || i >= end { Cover::Gap } else { cover[i - self.start] };
            let wanted = match cover {
                Cover::Element if self.access.writes() => continue,
                Cover::Padding if self.access.writes() => 0,
                Cover::PartPadding(bits) if self.access.writes() => was & !bits,
                _ => was,
            };
            ensure!(
                is == wanted,
                "byte {} of {} ({cover:?}) is {is:#04x} after the execution, expected {wanted:#04x}",
                i as isize - self.start as isize,
                self.desc
            );
        }
        Ok(())
    }
}
