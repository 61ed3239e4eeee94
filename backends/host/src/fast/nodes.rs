//! Functions of elements as nodes: expressions without folds, choices, comparisons. Node by node over some hundred elements that lie together in
//! the results, whatever their operands repeat.

use anydnn_backend::op::{Binary, Expression, Node};
use anydnn_backend::{Arg, DataType, Dims, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::level::Level;
use super::places::{Places, plain_strides};
use super::{Fast, functions};
use crate::compute::{Kind, Plan, Used, read_run, write_run};

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
    plan: Plan,
    /// For each node what it loads, of a source.
    operands: Vec<Option<Operand>>,
    results: SmallVec<[Stored; 2]>,
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
}

impl Nodes {
    /// An expression without folds.
    pub(super) fn of_expression(op: &Expression, desc: &PrimitiveDesc) -> Option<Self> {
        Self::new("host:expression", op, desc)
    }

    /// A choice between two operands.
    pub(super) fn of_select(desc: &PrimitiveDesc) -> Option<Self> {
        let nodes = [Node::Operand(0), Node::Operand(1), Node::Operand(2), Node::Select(0, 1, 2)];
        Self::of_last(&nodes, desc)
    }

    /// A function of two operands whose result is a truth value in a byte.
    pub(super) fn of_truth(op: &Binary, desc: &PrimitiveDesc) -> Option<Self> {
        if desc.dst().data_type() != DataType::Boolean {
            return None;
        }
        Self::of_last(&[Node::Operand(0), Node::Operand(1), Node::Binary(op.algorithm, 0, 1)], desc)
    }

    /// The last of some nodes.
    fn of_last(nodes: &[Node], desc: &PrimitiveDesc) -> Option<Self> {
        let (dims, results) = (desc.dst().dims().clone(), vec![nodes.len() - 1]);
        let op = Expression { dims, folded: Dims::default(), nodes: nodes.to_vec(), results };
        Self::new("host:streaming", &op, desc)
    }

    fn new(name: &'static str, op: &Expression, desc: &PrimitiveDesc) -> Option<Self> {
        let Expression { dims, folded, nodes, results } = op;
        let fits = folded.is_empty() && desc.attributes().post_ops.is_empty() && dims.elements() > 0;
        if !fits || !nodes.iter().all(is_known) {
            return None;
        }
        let kind = |desc: &MemoryDesc| Kind::of(desc.data_type()).ok().filter(|kind| is_exact(*kind));
        let of = |arg: Arg| Some((kind(desc.find(arg)?)?, plain_strides(desc.find(arg)?, dims)?));
        let (result_kind, (target, _)) = of(Arg::DST)?;
        let mut axes: SmallVec<[usize; 6]> = (0..dims.len()).filter(|&axis| dims[axis] != 1).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(target[axis]));
        let places =
            |strides: &[usize], axes: &[usize]| Places::new(axes.iter().map(|&a| (dims[a], strides[a])));
        // From the first element on, one behind the other as in the first result.
        let is_whole = |arg: Arg, strides: &[usize], first: usize| {
            let is_dense = matches!(places(strides, &axes).stride(), Some(0 | 1));
            first == 0 && is_dense && desc.find(arg).is_some_and(|desc| desc.dims() == dims)
        };
        let mut stored = SmallVec::new();
        for arg in (0..results.len()).map(|i| Arg::Dst(i as u16)) {
            let (kind, (strides, first)) = of(arg)?;
            if !is_whole(arg, &strides, first) {
                return None;
            }
            stored.push(Stored { arg, kind });
        }
        let mut sources = Vec::with_capacity(nodes.len());
        for node in nodes {
            sources.push(match *node {
                Node::Operand(i) => Some((Arg::Src(i), of(Arg::Src(i))?)),
                _ => None,
            });
        }
        let goes_on = |from: usize| {
            let mut strides = sources.iter().flatten().map(|(_, (_, (strides, _)))| strides);
            strides.all(|strides| places(strides, &axes[from..]).stride().is_some())
        };
        let mut from = axes.len();
        while from > 0 && goes_on(from - 1) {
            from -= 1;
        }
        let (rows, columns) = axes.split_at(from);
        let mut operands = Vec::with_capacity(nodes.len());
        for source in sources {
            operands.push(source.map(|(arg, (kind, (strides, first)))| Operand {
                arg,
                kind,
                first,
                rows: places(&strides, rows),
                column: places(&strides, columns).stride().unwrap_or(0),
                is_as_result: kind == result_kind && is_whole(arg, &strides, first),
            }));
        }
        Some(Self {
            name,
            elements: dims.elements(),
            columns: columns.iter().map(|&axis| dims[axis]).product(),
            plan: Plan::new(op, results, |_| false).ok()?,
            operands,
            results: stored,
        })
    }

    /// Computes some elements that lie together in the results.
    fn piece(&self, call: &Call<'_>, first: usize, count: usize, room: &mut [f32]) {
        let load = |node: usize, first: usize, values: &mut [f32]| match &self.operands[node] {
            Some(operand) => operand.load(call, self.columns, first, values),
            None => values.fill(0.0),
        };
        let compute =
            |node: Node, used: &Used<'_, f32>, out: &mut [f32]| compute(call.level, node, used, out);
        self.plan.run_in(room, PIECE, first..first + count, load, compute);
        for (i, Stored { arg, kind }) in self.results.iter().enumerate() {
            let bytes = kind.data_type().bytes_for(1);
            // SAFETY: every piece has elements of the results of its own.
            let to = unsafe { call.output(*arg).bytes_part(first * bytes, count * bytes) };
            write_run(*kind, self.plan.target_in(room, PIECE, i, count), to);
        }
    }
}

impl Fast for Nodes {
    fn name(&self) -> &'static str {
        self.name
    }

    /// A piece is read before any of its results is written.
    fn reads_in_place(&self, arg: Arg) -> bool {
        self.operands.iter().flatten().any(|operand| operand.arg == arg && operand.is_as_result)
    }

    fn run(&self, call: &Call<'_>) {
        let run = |first: usize, end: usize| {
            with_own_room(self.plan.room(PIECE), |room| {
                for first in (first..end).step_by(PIECE) {
                    self.piece(call, first, PIECE.min(end - first), room);
                }
            });
        };
        let work = self.elements * self.operands.len();
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

/// Whether a node is loaded from a source or computed here. A cast goes through a type that f32 has every value of.
fn is_known(node: &Node) -> bool {
    match node {
        Node::Operand(_)
        | Node::Constant(_)
        | Node::Eltwise(..)
        | Node::Binary(..)
        | Node::Select(..)
        | Node::Fold(..) => true,
        Node::Cast(data_type, _) => Kind::of(*data_type).is_ok_and(is_exact),
        _ => false,
    }
}

fn compute(level: Level, node: Node, used: &Used<'_, f32>, out: &mut [f32]) {
    match node {
        Node::Constant(value) => out.fill(value),
        Node::Eltwise(function, _) => functions::eltwise_of(level, function, used.get(0), out),
        Node::Binary(algorithm, ..) => {
            functions::binary_of(level, algorithm, used.get(0), used.get(1), out);
        }
        Node::Select(..) => functions::select(level, used.get(0), used.get(1), used.get(2), out),
        // Without folded axes a fold joins one value.
        _ => out.copy_from_slice(used.get(0)),
    }
}
