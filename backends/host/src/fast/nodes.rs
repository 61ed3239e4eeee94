//! Functions of elements as nodes: expressions without folds, choices, comparisons. Node by node over some hundred elements that lie together in
//! the results, whatever their operands repeat.

use anydnn_backend::op::{Binary, Expression, Node};
use anydnn_backend::{Arg, DataType, Dims, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::places::{Places, plain_strides};
use super::{Fast, functions};
use crate::compute::{Kind, read_run, write_run};

/// Elements of a piece: its values of a dozen nodes stay in the first cache level.
const PIECE: usize = 512;
/// Elements times nodes that one thread does sooner than another one comes to help, and those of a task.
const ALONE: usize = 1 << 16;
const TASK: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Nodes {
    name: &'static str,
    elements: usize,
    /// Elements of a row, in which every operand goes on by one step.
    columns: usize,
    steps: Vec<Step>,
    slots: usize,
    results: SmallVec<[Stored; 2]>,
}

/// What one node does, and the slot that its values are in.
#[derive(Debug)]
struct Step {
    action: Action,
    slot: usize,
}

/// The numbers are slots.
#[derive(Debug)]
enum Action {
    Load(Operand),
    Function(Node, SmallVec<[usize; 3]>),
    Cast(Kind, usize),
}

/// A source by rows and columns.
#[derive(Debug)]
struct Operand {
    arg: Arg,
    kind: Kind,
    first: usize,
    rows: Places,
    column: usize,
    /// Whether it may be in the place of the first result, whose elements lie the same way.
    is_as_result: bool,
}

/// A result: dense, from its first element on.
#[derive(Debug)]
struct Stored {
    arg: Arg,
    kind: Kind,
    slot: usize,
}

impl Nodes {
    /// An expression without folds.
    pub(super) fn of_expression(op: &Expression, desc: &PrimitiveDesc) -> Option<Self> {
        if !op.folded.is_empty() {
            return None;
        }
        Self::new("host:expression", &op.dims, &op.nodes, &op.results, desc)
    }

    /// A choice between two operands.
    pub(super) fn of_select(desc: &PrimitiveDesc) -> Option<Self> {
        let nodes = [Node::Operand(0), Node::Operand(1), Node::Operand(2), Node::Select(0, 1, 2)];
        Self::new("host:streaming", desc.dst().dims(), &nodes, &[3], desc)
    }

    /// A function of two operands whose result is a truth value in a byte.
    pub(super) fn of_truth(op: &Binary, desc: &PrimitiveDesc) -> Option<Self> {
        if desc.dst().data_type() != DataType::Boolean {
            return None;
        }
        let nodes = [Node::Operand(0), Node::Operand(1), Node::Binary(op.algorithm, 0, 1)];
        Self::new("host:streaming", desc.dst().dims(), &nodes, &[2], desc)
    }

    fn new(
        name: &'static str,
        dims: &Dims,
        nodes: &[Node],
        results: &[usize],
        desc: &PrimitiveDesc,
    ) -> Option<Self> {
        let kind = |desc: &MemoryDesc| Kind::of(desc.data_type()).ok().filter(|kind| is_exact(*kind));
        let of = |arg: Arg| Some((kind(desc.find(arg)?)?, plain_strides(desc.find(arg)?, dims)?));
        let fits = desc.attributes().post_ops.is_empty() && dims.elements() > 0;
        let (_, (target, _)) = of(Arg::DST).filter(|_| fits)?;
        let mut axes: SmallVec<[usize; 6]> = (0..dims.len()).filter(|&axis| dims[axis] != 1).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(target[axis]));
        let places =
            |strides: &[usize], axes: &[usize]| Places::new(axes.iter().map(|&a| (dims[a], strides[a])));
        let mut targets: SmallVec<[(Arg, Kind, usize); 2]> = SmallVec::new();
        for (i, &node) in results.iter().enumerate() {
            let arg = Arg::Dst(i as u16);
            let (kind, (strides, first)) = of(arg)?;
            let is_dense = matches!(places(&strides, &axes).stride(), Some(0 | 1));
            if first != 0 || !is_dense || desc.find(arg)?.dims() != dims {
                return None;
            }
            targets.push((arg, kind, node));
        }
        let mut sources: SmallVec<[_; 4]> = SmallVec::new();
        for node in nodes {
            if let Node::Operand(i) = *node {
                sources.push(of(Arg::Src(i))?);
            }
        }
        let mut from = axes.len();
        while from > 0
            && sources.iter().all(|(_, (strides, _))| places(strides, &axes[from - 1..]).stride().is_some())
        {
            from -= 1;
        }
        let (rows, columns) = axes.split_at(from);
        let mut last_use = vec![0; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            node.uses().for_each(|used| last_use[used] = at);
        }
        for &node in results {
            last_use[node] = usize::MAX;
        }
        let (mut steps, mut slot_of) = (Vec::with_capacity(nodes.len()), vec![0; nodes.len()]);
        let (mut free, mut slots) = (Vec::new(), 0);
        let mut sources = sources.into_iter();
        for (at, &node) in nodes.iter().enumerate() {
            let slot = free.pop().unwrap_or_else(|| {
                slots += 1;
                slots - 1
            });
            slot_of[at] = slot;
            let used = || node.uses().map(|used| slot_of[used]).collect::<SmallVec<[usize; 3]>>();
            let action = match node {
                Node::Operand(i) => {
                    let (kind, (strides, first)) = sources.next()?;
                    let is_whole = desc.find(Arg::Src(i)).is_some_and(|desc| desc.dims() == dims);
                    let is_dense = matches!(places(&strides, &axes).stride(), Some(0 | 1));
                    let has_kind = targets.first().is_some_and(|(_, of, _)| *of == kind);
                    Action::Load(Operand {
                        arg: Arg::Src(i),
                        kind,
                        first,
                        rows: places(&strides, rows),
                        column: places(&strides, columns).stride()?,
                        is_as_result: has_kind && first == 0 && is_whole && is_dense,
                    })
                }
                Node::Cast(data_type, of) => {
                    let kind = Kind::of(data_type).ok().filter(|kind| is_exact(*kind))?;
                    Action::Cast(kind, slot_of[of])
                }
                Node::Constant(_)
                | Node::Eltwise(..)
                | Node::Binary(..)
                | Node::Select(..)
                | Node::Fold(..) => Action::Function(node, used()),
                _ => return None,
            };
            steps.push(Step { action, slot });
            let mut ended: SmallVec<[usize; 3]> =
                node.uses().filter(|&used| last_use[used] == at).map(|used| slot_of[used]).collect();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
        }
        let stored = |(arg, kind, node): (Arg, Kind, usize)| Stored { arg, kind, slot: slot_of[node] };
        Some(Self {
            name,
            elements: dims.elements(),
            columns: columns.iter().map(|&axis| dims[axis]).product(),
            steps,
            slots,
            results: targets.into_iter().map(stored).collect(),
        })
    }

    /// Computes some elements that lie together in the results.
    fn piece(&self, call: &Call<'_>, first: usize, count: usize, room: &mut [f32]) {
        for Step { action, slot } in &self.steps {
            let (before, rest) = room.split_at_mut(slot * PIECE);
            let (own, behind) = rest.split_at_mut(PIECE);
            // A step's own slot is none of those that it reads.
            let used = |slot: usize| {
                let at = slot * PIECE;
                let all =
                    if at < before.len() { &before[at..] } else { &behind[at - before.len() - PIECE..] };
                &all[..count]
            };
            let own = &mut own[..count];
            match action {
                Action::Load(operand) => operand.load(call, self.columns, first, own),
                Action::Cast(kind, of) => cast(*kind, used(*of), own),
                Action::Function(node, of) => function(call, *node, |i| used(of[i]), own),
            }
        }
        for Stored { arg, kind, slot } in &self.results {
            let bytes = kind.data_type().bytes_for(1);
            // SAFETY: every piece has elements of the results of its own.
            let to = unsafe { call.output(*arg).bytes_part(first * bytes, count * bytes) };
            write_run(*kind, &room[slot * PIECE..][..count], to);
        }
    }
}

impl Fast for Nodes {
    fn name(&self) -> &'static str {
        self.name
    }

    /// A piece is read before any of its results is written.
    fn reads_in_place(&self, arg: Arg) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::Load(operand) => operand.arg == arg && operand.is_as_result,
            _ => false,
        })
    }

    fn run(&self, call: &Call<'_>) {
        let run = |first: usize, end: usize| {
            with_own_room(self.slots * PIECE, |room| {
                for first in (first..end).step_by(PIECE) {
                    self.piece(call, first, PIECE.min(end - first), room);
                }
            });
        };
        let work = self.elements * self.steps.len();
        if work <= ALONE {
            return run(0, self.elements);
        }
        let pieces = self.elements.div_ceil(PIECE);
        let tasks = work.div_ceil(TASK).max(call.crew.threads()).min(pieces);
        call.crew.run(tasks, &|task| {
            let [first, end] = [task, task + 1].map(|task| pieces * task / tasks * PIECE);
            run(first, end.min(self.elements));
        });
    }
}

impl Operand {
    /// Its elements for those of the results from `first` on, in rows of so many columns.
    fn load(&self, call: &Call<'_>, columns: usize, first: usize, values: &mut [f32]) {
        let size = self.kind.data_type().bytes_for(1);
        if self.is_as_result && !call.has_input(self.arg) {
            // SAFETY: the elements of this piece alone, which nobody writes before they are read.
            let own = unsafe { call.output(Arg::DST).bytes_part(first * size, values.len() * size) };
            return read_run(self.kind, own, values);
        }
        let bytes = call.bytes(self.arg);
        let (mut row, mut column, mut at) = (first / columns, first % columns, 0);
        while at < values.len() {
            let count = (columns - column).min(values.len() - at);
            let start = self.first + self.rows.at(row) + column * self.column;
            let own = &mut values[at..at + count];
            let from = &bytes[start * size..];
            match self.column {
                1 => read_run(self.kind, &from[..count * size], own),
                0 => {
                    read_run(self.kind, &from[..size], &mut own[..1]);
                    let value = own[0];
                    own.fill(value);
                }
                stride => {
                    for (i, value) in own.iter_mut().enumerate() {
                        read_run(self.kind, &from[i * stride * size..][..size], std::slice::from_mut(value));
                    }
                }
            }
            (row, column, at) = (row + 1, 0, at + count);
        }
    }
}

/// Whether f32 has every value of a type.
fn is_exact(kind: Kind) -> bool {
    use DataType::{BF16, Boolean, F16, F32, S8, U8};
    matches!(kind.data_type(), F32 | F16 | BF16 | Boolean | U8 | S8)
}

fn function<'s>(call: &Call<'_>, node: Node, used: impl Fn(usize) -> &'s [f32], out: &mut [f32]) {
    match node {
        Node::Constant(value) => out.fill(value),
        Node::Eltwise(function, _) => functions::eltwise_of(call.level, function, used(0), out),
        Node::Binary(algorithm, ..) => functions::binary_of(call.level, algorithm, used(0), used(1), out),
        Node::Select(..) => functions::select(call.level, used(0), used(1), used(2), out),
        // Without folded axes a fold joins one value.
        _ => out.copy_from_slice(used(0)),
    }
}

/// The values after a store as a type and a load.
fn cast(kind: Kind, values: &[f32], out: &mut [f32]) {
    let mut bytes = [0_u64; PIECE / 2];
    let bytes =
        &mut bytemuck::cast_slice_mut::<u64, u8>(&mut bytes)[..kind.data_type().bytes_for(values.len())];
    write_run(kind, values, bytes);
    read_run(kind, bytes, out);
}
