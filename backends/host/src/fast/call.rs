//! One execution: the operands' numbers, the threads, and room for what lies between.

use std::cell::Cell;
use std::sync::Mutex;

use anydnn_backend::{Arg, DataType, PrimitiveDesc};
use bytemuck::{Pod, Zeroable};

use super::crew::{Crew, lock};
use super::level::Level;
use super::words::Words;
use super::{Fast, Shared};

/// What an execution binds.
pub(crate) struct Call<'a> {
    pub(super) level: Level,
    pub(super) crew: &'a Crew,
    /// Where words of integers stand in the place of f32.
    pub(super) words: Option<Words<'a>>,
    inputs: &'a [(Arg, &'a [u8])],
    outputs: Vec<(Arg, Shared<'a>)>,
}

impl<'a> Call<'a> {
    /// None where an operand's bytes are too few, or lie such that they are no f32 or words.
    pub(crate) fn new(
        level: Level,
        crew: &'a Crew,
        desc: &PrimitiveDesc,
        fast: &dyn Fast,
        inputs: &'a [(Arg, &'a [u8])],
        outputs: &'a mut [(Arg, &mut [u8])],
    ) -> Option<Self> {
        let fits = |arg: Arg, bytes: &[u8]| {
            desc.find(arg).is_none_or(|wanted| {
                // Bytes may be read as words.
                let by_words = [DataType::F32, DataType::U8, DataType::S8].contains(&wanted.data_type());
                let is_aligned =
                    !by_words || bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(align_of::<f32>());
                bytes.len() >= wanted.size() && is_aligned
            })
        };
        let bound = |arg: Arg| {
            inputs.iter().any(|(other, bytes)| *other == arg && fits(arg, bytes))
                || outputs.iter().any(|(other, bytes)| *other == arg && fits(arg, bytes))
                || fast.reads_in_place(arg) && inputs.iter().all(|(other, _)| *other != arg)
        };
        if !desc.args().iter().all(|wanted| bound(wanted.arg)) {
            return None;
        }
        let outputs = outputs.iter_mut().map(|(arg, bytes)| (*arg, Shared::of_bytes(bytes)));
        Some(Self { level, crew, words: None, inputs, outputs: outputs.collect() })
    }

    /// The same threads with other operands.
    pub(super) fn with<'b>(
        &self,
        inputs: &'b [(Arg, &'b [u8])],
        outputs: Vec<(Arg, Shared<'b>)>,
        words: Option<Words<'b>>,
    ) -> Call<'b>
    where
        'a: 'b,
    {
        Call { level: self.level, crew: self.crew, words, inputs, outputs }
    }

    /// What padding is read as.
    pub(super) fn padding(&self) -> f32 {
        self.words.map_or(0.0, |words| words.padding())
    }

    /// The operands that are read.
    pub(super) fn inputs(&self) -> &'a [(Arg, &'a [u8])] {
        self.inputs
    }

    /// The results.
    pub(super) fn outputs(&self) -> &[(Arg, Shared<'a>)] {
        &self.outputs
    }

    /// The numbers of an operand that is read.
    pub(super) fn input(&self, arg: Arg) -> &'a [f32] {
        let bytes = self.bytes(arg);
        bytemuck::try_cast_slice(&bytes[..bytes.len() / 4 * 4]).unwrap_or_default()
    }

    /// Whether an operand is bound that is read.
    pub(super) fn has_input(&self, arg: Arg) -> bool {
        self.inputs.iter().any(|(other, _)| *other == arg)
    }

    /// The bytes of an operand that is read.
    pub(super) fn bytes(&self, arg: Arg) -> &'a [u8] {
        self.inputs.iter().find(|(other, _)| *other == arg).map_or(&[], |(_, bytes)| bytes)
    }

    /// The numbers of a result.
    pub(super) fn output(&self, arg: Arg) -> Shared<'a> {
        let found = self.outputs.iter().find(|(other, ..)| *other == arg);
        found.map_or_else(|| Shared::new(&mut []), |(_, numbers)| *numbers)
    }
}

/// A cache line of numbers.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Room that executions of a primitive use one after the other.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<Vec<Vec<Line>>>);

impl Rooms {
    /// Runs `work` with so many numbers, whatever they are.
    pub(super) fn with<R>(&self, numbers: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
        let mut room = lock(&self.0).pop().unwrap_or_default();
        let lines = numbers.div_ceil(16);
        if room.len() < lines {
            room.resize(lines, Line::zeroed());
        }
        let result = work(&mut bytemuck::cast_slice_mut(&mut room[..lines])[..numbers]);
        lock(&self.0).push(room);
        result
    }
}

thread_local! {
    // A pointer alone moves between here and its user: of more, parts that were just written are read back as one vector, which waits for all
    // stores before.
    static OWN: Cell<Option<Box<OwnRoom>>> = const { Cell::new(None) };
}

/// Room of a thread.
#[derive(Default)]
struct OwnRoom(Vec<Line>);

/// Runs `work` with room of the thread's own: so many numbers, whatever they are.
pub(super) fn with_own_room<R>(numbers: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    let mut room = OWN.take().unwrap_or_default();
    let lines = numbers.div_ceil(16);
    if room.0.len() < lines {
        room.0.resize(lines, Line::zeroed());
    }
    let result = work(&mut bytemuck::cast_slice_mut(&mut room.0[..lines])[..numbers]);
    OWN.set(Some(room));
    result
}
