//! Results that random numbers have a part in: dropout, and rounding at random.

use anydnn_backend::op::Node;
use anydnn_backend::{BinaryAlgorithm, DataType, Eltwise, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::arg;
use crate::recipe::{Formula, Recipe, Tensor, settled};
use crate::refusals::Lack;

/// The operands of a dropout.
pub(crate) struct Dropout {
    probability: Tensor,
    seed: Tensor,
    offset: Tensor,
    mask: Option<Tensor>,
}

impl Recipe {
    /// The operands of the dropout that attributes ask for, if they do; the mask lies as the result does.
    pub(crate) fn dropout(&mut self, attr: &Attr, dst: &MemoryDesc) -> Outcome<Option<Dropout>> {
        let Some(given) = &attr.dropout else { return Ok(None) };
        let mut number = |number, data_type| self.operand(number, (0, 0), MemoryDesc::new([1], data_type));
        let probability = number(arg::DROPOUT_PROBABILITY, DataType::F32);
        let seed = number(arg::DROPOUT_SEED, given.seed);
        let offset = given.has_offset.then(|| number(arg::DROPOUT_OFFSET, DataType::S64));
        let offset = offset.map_or_else(|| self.constant(0.0), Ok)?;
        let mask = given.mask.value();
        let mask = if mask.rank == 0 {
            None
        } else {
            let desc = mask.to_memory_desc()?;
            if desc.dims() != dst.dims() || desc.data_type() != DataType::U8 {
                let wanted = dst.dims();
                return Err(Failure::invalid(format!(
                    "the mask of a dropout is {desc}, expected u8 of {wanted}"
                )));
            }
            Some(self.operand(arg::DROPOUT_MASK, (0, 0), settled(desc, dst)?))
        };
        Ok(Some(Dropout { probability, seed, offset, mask }))
    }

    /// A value in f32 after a dropout, whose mask is stored where it is wanted.
    pub(crate) fn dropped(&mut self, plain: &Tensor, dropout: &Dropout) -> Outcome<Tensor> {
        let to = self.temporary(plain.desc.clone());
        let mut f = Formula::new(plain.dims());
        let x = f.tensor(plain);
        let (x, kept) = f.drop_out(x, dropout);
        f.result(x, &to);
        if let Some(mask) = &dropout.mask {
            f.result(kept, mask);
        }
        self.formula(f)?;
        Ok(to)
    }

    /// A whole number in memory.
    fn constant(&mut self, number: f32) -> Outcome<Tensor> {
        let to = self.temporary(MemoryDesc::new([1], DataType::S64));
        let mut f = Formula::new(to.dims());
        let node = f.number(number);
        f.result(node, &to);
        self.formula(f)?;
        Ok(to)
    }

    /// The seed of what is rounded at random, and the place in the stream of numbers where those for an argument begin.
    fn rounding(&mut self, number: i32) -> Outcome<[Tensor; 2]> {
        let known = self.operands.iter().position(|operand| operand.number == arg::ROUNDING_SEED);
        let seed = match known {
            Some(i) => self.tensor_of(i),
            None => self.operand(arg::ROUNDING_SEED, (0, 0), MemoryDesc::new([1], DataType::S32)),
        };
        Ok([seed, self.constant(number as f32)?])
    }

    /// A value rounded at random to a type, so that the mean over many seeds is the value itself.
    pub(crate) fn rounded(
        &mut self,
        f: &mut Formula,
        x: usize,
        data_type: DataType,
        number: i32,
    ) -> Outcome<usize> {
        let Some([step, least]) = steps(data_type) else { return Ok(x) };
        let [seed, offset] = self.rounding(number)?;
        let nearest = f.cast(data_type, x);
        let error = f.sub(x, nearest);
        // The neighbour on the other side of the value: half a step from the nearest one, and a little more, is nearer to it.
        let (zero, up, down) = (f.number(0.0), f.number(1.0), f.number(-1.0));
        let is_above = f.binary(BinaryAlgorithm::Greater, error, zero);
        let sign = f.select(is_above, up, down);
        let size = f.apply(Eltwise::Abs, nearest);
        let step = f.times(size, step);
        let least = f.number(least);
        let step = f.binary(BinaryAlgorithm::Maximum, step, least);
        let step = f.mul(step, sign);
        let beyond = f.add(nearest, step);
        let other = f.cast(data_type, beyond);
        let width = f.sub(other, nearest);
        let part = f.div(error, width);
        let random = f.random(&seed, &offset);
        let chosen = f.binary(BinaryAlgorithm::Less, random, part);
        let chosen = f.select(chosen, other, nearest);
        // What the type holds stays; so do infinities, for which the part above is no number.
        Ok(f.select(error, chosen, nearest))
    }

    /// Stores what was computed in f32 for an argument that is rounded at random.
    pub(crate) fn store_rounded(&mut self) -> Outcome {
        for (number, plain, operand) in std::mem::take(&mut self.unrounded) {
            let plain = Tensor { desc: self.current(&plain), ..plain };
            if self.operands[operand].desc.is_any() {
                self.operands[operand].desc = settled(self.operands[operand].desc.clone(), &plain.desc)?;
            }
            let dst = self.tensor_of(operand);
            let mut f = Formula::new(dst.dims());
            let x = f.tensor(&plain);
            let x = self.rounded(&mut f, x, dst.desc.data_type(), number)?;
            f.result(x, &dst);
            self.formula(f)?;
        }
        Ok(())
    }
}

impl Formula {
    /// A value where it is kept, divided by the probability of that, and zero where it is dropped; and whether it is kept.
    fn drop_out(&mut self, x: usize, dropout: &Dropout) -> (usize, usize) {
        let sources =
            [&dropout.seed, &dropout.offset, &dropout.probability].map(|tensor| self.source(tensor));
        let [seed, offset, probability] = sources;
        let kept = self.push(Node::Keep { seed, offset, probability });
        let (one, zero) = (self.number(1.0), self.number(0.0));
        let probability = self.tensor(&dropout.probability);
        let rest = self.sub(one, probability);
        let scaled = self.div(x, rest);
        (self.select(kept, scaled, zero), kept)
    }

    fn random(&mut self, seed: &Tensor, offset: &Tensor) -> usize {
        let (seed, offset) = (self.source(seed), self.source(offset));
        self.push(Node::Random { seed, offset })
    }
}

/// A little more than half a step of a type: as a part of a number, and the least. None for types that f32 is not rounded to.
fn steps(data_type: DataType) -> Option<[f32; 2]> {
    let half = data_type.unit_roundoff();
    let is_narrow = data_type.is_float() && data_type.bits() <= 16;
    is_narrow.then(|| [(1.01 * half) as f32, (1.01 * half * data_type.least_normal()) as f32])
}

/// Whether results of a type can be rounded at random.
pub(crate) fn check_rounding(data_type: DataType) -> Outcome {
    if steps(data_type).is_some() || matches!(data_type, DataType::F32 | DataType::F64) {
        return Ok(());
    }
    Err(Lack::Rounding.failure(format_args!("rounding to {data_type} at random")))
}
