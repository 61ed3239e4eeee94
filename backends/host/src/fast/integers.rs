//! Products and convolutions of 8-bit integers that are dequantised: exact sums of integers, then the scales.

use anydnn_backend::{Arg, DataType, Dequantize, MemoryDesc, Op, PrimitiveDesc, Quantized};

use super::call::Call;
use super::convolution::channels_last;
use super::level::for_levels;
use super::panels::{filters_layout, matrix_layout, width};
use super::sink::WIDTH;
use super::tile::{ROWS, Run, Tile};
use super::words::{self, Words};
use crate::compute::{Kind, read_run};

/// The name of the form.
pub(super) const NAME: &str = "host:words";
/// Terms of a word.
const WORD: usize = 4;
/// Terms whose sum no 32 bits overflow with.
const MOST_TERMS: usize = (i32::MAX / (255 * 128)) as usize;

/// How the source and the weights of a description are multiplied as words.
#[derive(Debug)]
pub(super) struct Integers {
    source: Kind,
    /// Words of the source.
    words: usize,
    columns: usize,
    /// Words of a column.
    terms: usize,
    scales: [Option<Numbers>; 2],
    zero_point: Option<Numbers>,
}

/// An operand of numbers.
type Numbers = (Arg, Kind, usize);

/// The layout of weights whose terms are words; none where the description is not computed so.
pub(super) fn weights_layout(desc: &PrimitiveDesc) -> Option<MemoryDesc> {
    let weights = desc.find(Arg::Weights)?;
    fits(desc).then_some(())?;
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let tag = if let Op::MatMul(_) = desc.op() {
        let (batch, [_, columns]) = weights.dims().split_last_chunk::<2>()?;
        let (term, column) = (letter(batch.len()), letter(batch.len() + 1));
        let lead: String = (0..batch.len()).map(letter).collect();
        let (upper, width) = (column.to_ascii_uppercase(), width(*columns));
        format!("{lead}{upper}{}{width}{column}{WORD}{term}", term.to_ascii_uppercase())
    } else {
        let taps: String = (2..weights.rank()).map(letter).collect();
        format!("A{taps}B{}a{WORD}b", width(weights.dims()[0]))
    };
    let tagged = MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag).ok()?;
    Some(match weights.label() {
        Some(label) => tagged.labelled(label),
        None => tagged,
    })
}

/// Whether operands, shapes and attributes are those of words, whatever the weights' layout.
fn fits(desc: &PrimitiveDesc) -> bool {
    let (src, Some(weights)) = (desc.src(), desc.find(Arg::Weights)) else { return false };
    let of = |of: Quantized| desc.attributes().dequantize.iter().find(|one| one.operand == of);
    let types = matches!(src.data_type(), DataType::U8 | DataType::S8) && weights.data_type() == DataType::S8;
    let others = desc.attributes().dequantize.iter().all(|one| {
        one.operand == Quantized::Src(0) || one.operand == Quantized::Weights && one.zero_point.is_none()
    });
    if !types || !others || desc.dst().elements() == 0 || src.elements() == 0 {
        return false;
    }
    // The padding is a byte as the source's are, which a zero point of its type is.
    let zero_point = of(Quantized::Src(0)).and_then(|one| one.zero_point.as_ref());
    let is_byte = zero_point.is_none_or(|zero| zero.data_type() == src.data_type());
    match desc.op() {
        Op::MatMul(_) => {
            let Some((batch, [terms, _])) = weights.dims().split_last_chunk::<2>() else { return false };
            batch.iter().all(|&dim| dim == 1) && terms.is_multiple_of(WORD) && *terms <= MOST_TERMS
        }
        Op::Convolution(op) => {
            let terms: usize = weights.dims()[1..].iter().product();
            op.groups == 1 && weights.dims()[1].is_multiple_of(WORD) && terms <= MOST_TERMS && is_byte
        }
        _ => false,
    }
}

impl Integers {
    /// None where the description is not computed as words; its layouts are resolved.
    pub(super) fn new(desc: &PrimitiveDesc) -> Option<Self> {
        let (src, weights) = (desc.src(), desc.find(Arg::Weights)?);
        if !weights_layout(desc)?.same_bytes(weights) {
            return None;
        }
        let (is_dense, axis) = match desc.op() {
            Op::MatMul(_) => (src.is_row_major(), weights.rank() - 1),
            _ => (channels_last(src).is_some_and(|layout| layout.same_bytes(src)), 0),
        };
        let columns = weights.dims()[axis];
        if !is_dense {
            return None;
        }
        let numbers = |given: Option<&MemoryDesc>, arg: Arg, most: usize| match given {
            None => Some(None),
            Some(given) => {
                let count = given.elements();
                let along = || {
                    let lead = weights.rank().checked_sub(given.rank())?;
                    Some(given.dims()[axis.checked_sub(lead)?] == columns)
                };
                let is_known = count == 1 || count == most && along()?;
                (given.is_row_major() && is_known)
                    .then(|| Kind::of(given.data_type()).ok())?
                    .map(|kind| Some((arg, kind, count)))
            }
        };
        let of = |of: Quantized| desc.attributes().dequantize.iter().find(|one| one.operand == of);
        let (source, own) = (of(Quantized::Src(0)), of(Quantized::Weights));
        let scale_of = |one: Option<&Dequantize>, quantized: Quantized, most: usize| {
            numbers(one.and_then(|one| one.scale.as_ref()), Arg::ScaleOf(quantized), most)
        };
        let zero_point = source.and_then(|one| one.zero_point.as_ref());
        Some(Self {
            source: Kind::of(src.data_type()).ok()?,
            words: src.elements() / WORD,
            columns,
            terms: weights.elements() / columns / WORD,
            scales: [scale_of(source, Quantized::Src(0), 1)?, scale_of(own, Quantized::Weights, columns)?],
            zero_point: numbers(zero_point, Arg::ZeroPointOf(Quantized::Src(0)), 1)?,
        })
    }

    /// The source or the weights with words in the place of f32.
    pub(super) fn words_of(arg: Arg, desc: &MemoryDesc, is_matrix: bool) -> Option<MemoryDesc> {
        let mut dims = desc.dims().to_vec();
        let axis = match (is_matrix, arg) {
            (true, Arg::Weights) => dims.len() - 2,
            (true, _) => dims.len() - 1,
            (false, _) => 1,
        };
        dims[axis] /= WORD;
        let words = MemoryDesc::new(&dims[..], DataType::F32);
        match (is_matrix, arg) {
            (true, Arg::Weights) => matrix_layout(&words),
            (true, _) => Some(words),
            (false, Arg::Weights) => filters_layout(&words, 1),
            (false, _) => channels_last(&words),
        }
    }

    /// Numbers of room for an execution.
    pub(super) fn room(&self) -> usize {
        2 * self.columns + self.terms + if self.source == Kind::S8 { self.words } else { 0 }
    }

    /// Calls `work` with the words of the source and what follows the products.
    pub(super) fn with<R>(
        &self,
        call: &Call<'_>,
        room: &mut [f32],
        work: impl FnOnce(&[u8], Words<'_>) -> R,
    ) -> R {
        let (scales, room) = room.split_at_mut(self.columns);
        let (offsets, room) = room.split_at_mut(self.columns);
        let (ones, room) = room.split_at_mut(self.terms);
        let offsets: &mut [i32] = bytemuck::cast_slice_mut(offsets);
        let given = &call.bytes(Arg::SRC)[..self.words * WORD];
        let is_signed = self.source == Kind::S8;
        let source: &[u8] = if is_signed {
            let source: &mut [u8] = bytemuck::cast_slice_mut(room);
            unsigned(call.level, given, source);
            source
        } else {
            given
        };
        scales.fill(1.0);
        for (arg, kind, count) in self.scales.iter().flatten() {
            for (i, scale) in scales.iter_mut().enumerate() {
                let element = kind.bits() / 8;
                let mut number = [0.0];
                let at = if *count == 1 { 0 } else { i };
                read_run(*kind, &call.bytes(*arg)[at * element..][..element], &mut number);
                *scale *= number[0];
            }
        }
        let mut zero = [0.0_f32];
        if let Some((arg, kind, _)) = &self.zero_point {
            read_run(*kind, call.bytes(*arg), &mut zero);
        }
        // Signed bytes become unsigned ones by 128 more, and so does their zero point.
        let zero = zero[0] as i32 + if is_signed { 128 } else { 0 };
        self.offsets(call, zero, ones, offsets);
        work(source, Words { offsets, scales, zero: zero.clamp(0, 255) as u8 })
    }

    /// What the zero point adds to each column's sum.
    fn offsets(&self, call: &Call<'_>, zero: i32, ones: &mut [f32], offsets: &mut [i32]) {
        if zero == 0 {
            offsets.fill(0);
            return;
        }
        ones.fill(f32::from_bits(0x0101_0101));
        let weights = call.input(Arg::Weights);
        let width = width(self.columns);
        let runs = [Run { first: 0, terms: self.terms }];
        let rows = [ones.as_ptr()];
        for (offsets, panel) in offsets.chunks_mut(width).zip(weights.chunks_exact(self.terms * width)) {
            let columns = offsets.len();
            let tile =
                Tile { runs: &runs, rows: &rows, step: 1, panel: panel.as_ptr(), stride: width, columns };
            let mut sums = [0.0; ROWS * WIDTH];
            // SAFETY: the row has all terms, and so has the panel.
            unsafe { words::multiply(call.level, 1, &tile, &mut sums) };
            for (offset, sum) in offsets.iter_mut().zip(sums) {
                *offset = sum.to_bits().cast_signed().wrapping_mul(zero);
            }
        }
    }
}

for_levels! {
    /// 128 more for each.
    fn unsigned(from: &[u8], to: &mut [u8]) = unsigned_body
}

#[inline(always)]
fn unsigned_body(from: &[u8], to: &mut [u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from ^ 0x80);
}
