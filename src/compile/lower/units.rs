//! Units: which operations of a partition one primitive computes, and in which order they come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::LazyLock;

use anydnn_backend::Dims;
use rustc_hash::{FxHashMap, FxHashSet};

use super::attention::{self, AttentionUnit};
use super::chain::Chain;
use super::concat::{self, ConcatUnit};
use super::expression::expressible;
use super::gated::{self, GatedUnit};
use super::operand::Operand;
use super::region::{Free, Region};
use super::summed::{self, SummedUnit};
use crate::compile::liveness::data_inputs;
use crate::formula::{Formula, Match, find_map};
use crate::graph::{Op, OpKind, Property, TensorId};

/// Positions of a convolution from which on reading weights takes little beside the sums of them.
const PREPARED_POSITIONS: usize = 32;

/// Operations that one primitive computes.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) kind: Kind,
    /// The operations that it computes and nothing else does, ascending.
    pub(super) ops: Vec<usize>,
    /// The tensors whose values it needs.
    reads: Vec<TensorId>,
}

/// What a unit is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Scaled dot-product attention.
    Attention(AttentionUnit),
    /// Two matrix products, one the other's gate.
    Gated(GatedUnit),
    /// Quantised tensors side by side.
    Concat(ConcatUnit),
    /// A matrix product summed over batches.
    Summed(SummedUnit),
    /// An operation, its operands as they are read, and what rides on its result.
    Anchor(AnchorUnit),
}

impl Kind {
    /// All of its operations.
    fn ops(&self) -> Vec<usize> {
        match self {
            Self::Attention(attention) => attention.ops(),
            Self::Gated(gated) => gated.ops(),
            Self::Concat(concat) => concat.ops(),
            Self::Summed(summed) => summed.ops(),
            Self::Anchor(anchor) => [&[anchor.op][..], &anchor.chain.ops].concat(),
        }
    }
}

/// An operation that has a primitive of its own.
#[derive(Clone, Debug)]
pub(super) struct AnchorUnit {
    pub(super) op: usize,
    pub(super) chain: Chain,
    /// The inputs that are read through other operations, by position.
    pub(super) operands: Vec<(usize, Operand)>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A unit.
    Unit(Box<Unit>),
    /// Element-wise operations and folds, connected, with the tensors that others read.
    Group { ops: Vec<usize>, results: Vec<TensorId> },
}

/// What becomes of a match; the operations that are taken belong to other units.
type Make = fn(&Region<'_>, &Match, taken: &dyn Fn(usize) -> bool) -> Option<Kind>;

/// Units of several operations that belong together, and what becomes of them.
static COMPOSITES: LazyLock<[(Formula, Make); 4]> = LazyLock::new(|| {
    [
        (attention::formula(), |region, found, taken| {
            attention::make(region, found, taken).map(Kind::Attention)
        }),
        (gated::formula(), |region, found, taken| gated::make(region, found, taken).map(Kind::Gated)),
        (concat::formula(), |_, found, _| concat::make(found).map(Kind::Concat)),
        (summed::formula(), |region, found, taken| summed::make(region, found, taken).map(Kind::Summed)),
    ]
});

/// The unit of several operations whose formula an operation ends.
fn composite(region: &Region<'_>, op: usize, taken: &dyn Fn(usize) -> bool) -> Option<Kind> {
    let ends = |formula: &Formula| formula.heads().contains(&region.kind(op));
    let mut formulas = COMPOSITES.iter().filter(|(formula, _)| ends(formula) && !taken(op));
    formulas.find_map(|(formula, make)| {
        find_map(&Free { region, taken }, formula, op, |found| make(region, found, taken))
    })
}

/// Divides the operations of a region: the units, and between them the rest in as few groups as possible.
pub(super) fn plan(region: &Region<'_>) -> Vec<Item> {
    let mut planner = Planner { region, owners: FxHashMap::default(), units: Vec::new() };
    for &op in &region.ops {
        if let Some(kind) = composite(region, op, &|op| planner.is_taken(op)) {
            let ops = kind.ops();
            planner.accept(kind, ops);
        }
    }
    for &op in &region.ops {
        if planner.is_taken(op) || !stands_alone(region, op) {
            continue;
        }
        let Some(&result) = region.op(op).outputs.first() else { continue };
        let anchor = |chain: Chain| Kind::Anchor(AnchorUnit { op, chain, operands: Vec::new() });
        let chain = if takes_chain(region, op) {
            Chain::grow(region, result, |op| planner.is_taken(op))
        } else {
            Chain::none(result)
        };
        let whole = anchor(chain);
        let ops = whole.ops();
        if !planner.accept(whole, ops) {
            planner.accept(anchor(Chain::none(result)), vec![op]);
        }
    }
    planner.plan_operands();
    planner.arrange()
}

/// The operation at the head of a group and the chain behind it, if together they are the whole group: it needs no expression then.
pub(super) fn as_anchor(region: &Region<'_>, ops: &[usize]) -> Option<AnchorUnit> {
    let (&op, rest) = ops.split_first()?;
    if !super::has_primitive(region, op) {
        return None;
    }
    let result = *region.op(op).outputs.first()?;
    let copies = matches!(region.kind(op), OpKind::TypeCast | OpKind::Reorder);
    let chain = if region.only_result(op).is_some() && !copies {
        Chain::grow(region, result, |op| !rest.contains(&op))
    } else {
        Chain::none(result)
    };
    let mut covered = chain.ops.clone();
    covered.sort_unstable();
    (covered == rest).then(|| AnchorUnit { op, chain, operands: Vec::new() })
}

/// Whether an operation is the head of a unit wherever it is.
fn stands_alone(region: &Region<'_>, op: usize) -> bool {
    is_view(region.kind(op)) || !expressible(region.op(op))
}

fn is_view(kind: OpKind) -> bool {
    matches!(kind, OpKind::StaticReshape | OpKind::StaticTranspose)
}

/// Whether post-operations can follow.
fn takes_chain(region: &Region<'_>, op: usize) -> bool {
    let kind = region.kind(op);
    !is_view(kind)
        && !matches!(
            kind,
            OpKind::Concat
                | OpKind::Gather
                | OpKind::Recurrent
                | OpKind::Remap
                | OpKind::Reorder
                | OpKind::TypeCast
        )
        && region.only_result(op).is_some()
}

struct Planner<'r, 'g> {
    region: &'r Region<'g>,
    /// The unit of each operation that has one.
    owners: FxHashMap<usize, usize>,
    units: Vec<Unit>,
}

impl Planner<'_, '_> {
    fn is_taken(&self, op: usize) -> bool {
        self.owners.contains_key(&op)
    }

    /// Adds a unit, unless it and the others would wait for each other.
    fn accept(&mut self, kind: Kind, mut ops: Vec<usize>) -> bool {
        ops.sort_unstable();
        let region = self.region;
        let outer = |id: &TensorId| region.producer(*id).is_none_or(|op| !ops.contains(&op));
        let reads = ops.iter().flat_map(|&op| data_inputs(region.op(op))).copied().filter(outer).collect();
        let index = self.units.len();
        self.owners.extend(ops.iter().map(|&op| (op, index)));
        self.units.push(Unit { kind, ops, reads });
        if self.order().is_some() {
            return true;
        }
        if let Some(unit) = self.units.pop() {
            unit.ops.iter().for_each(|op| {
                self.owners.remove(op);
            });
        }
        false
    }

    /// Finds what each unit's operands can be read through.
    fn plan_operands(&mut self) {
        let region = self.region;
        // Whoever needs a lone view can see through it.
        let lone_view = |op: usize| is_view(region.kind(op)) && self.units[self.owners[&op]].ops == [op];
        let owned: FxHashSet<usize> = self.owners.keys().copied().filter(|&op| !lone_view(op)).collect();
        let taken = |op: usize| owned.contains(&op);
        for unit in &mut self.units {
            unit.reads = match &mut unit.kind {
                Kind::Attention(attention) => attention.plan_operands(region, taken),
                Kind::Gated(gated) => gated.plan_operands(region, taken),
                Kind::Concat(concat) => concat.reads(region),
                Kind::Summed(summed) => summed.plan_operands(region, taken),
                Kind::Anchor(anchor) => anchor.plan_operands(region, taken),
            };
        }
    }

    /// The tensors that a node needs.
    fn reads(&self, node: Node) -> Vec<TensorId> {
        match node {
            Node::Unit(unit) => self.units[unit].reads.clone(),
            Node::Op(op) => data_inputs(self.region.op(op)).to_vec(),
        }
    }

    fn node(&self, op: usize) -> Node {
        self.owners.get(&op).map_or(Node::Op(op), |&unit| Node::Unit(unit))
    }

    /// The nodes that make what a node needs.
    fn needs(&self, node: Node) -> Vec<Node> {
        let reads = match node {
            Node::Unit(unit) => &self.units[unit].reads[..],
            Node::Op(op) => data_inputs(self.region.op(op)),
        };
        let made = reads.iter().filter_map(|&id| self.region.producer(id));
        let mut needs: Vec<Node> = made.map(|op| self.node(op)).filter(|&other| other != node).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// The nodes that results depend on, each after those it needs; none if there is a cycle.
    fn order(&self) -> Option<Vec<Node>> {
        let region = self.region;
        if let [unit] = &self.units[..]
            && unit.ops == region.ops
        {
            return Some(vec![Node::Unit(0)]);
        }
        let leaving =
            region.ops.iter().filter(|&&op| region.op(op).outputs.iter().any(|&id| region.leaves(id)));
        let mut open: Vec<Node> = leaving.map(|&op| self.node(op)).collect();
        // Nodes by number: operations as they come here, then units.
        let number = |node: Node| match node {
            Node::Op(op) => region.ops.partition_point(|&other| other < op),
            Node::Unit(unit) => region.ops.len() + unit,
        };
        let count = region.ops.len() + self.units.len();
        let (mut nodes, mut is_known) = (Vec::new(), vec![false; count]);
        let (mut readers, mut waiting) = (vec![Vec::new(); count], vec![0; count]);
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut is_known[number(node)], true) {
                continue;
            }
            let needs = self.needs(node);
            nodes.push(node);
            waiting[number(node)] = needs.len();
            for &other in &needs {
                readers[number(other)].push(node);
            }
            open.extend(needs);
        }
        // Where the order is free it stays the graph's.
        let rank = |node: Node| match node {
            Node::Op(op) => op,
            Node::Unit(unit) => self.units[unit].ops.last().copied().unwrap_or(0),
        };
        let is_ready = |node: &Node| waiting[number(*node)] == 0;
        let ready = nodes.iter().copied().filter(is_ready).map(|node| Reverse((rank(node), node)));
        let mut ready: BinaryHeap<_> = ready.collect();
        let mut order = Vec::with_capacity(nodes.len());
        while let Some(Reverse((_, node))) = ready.pop() {
            order.push(node);
            for &reader in &readers[number(node)] {
                let waiting = &mut waiting[number(reader)];
                *waiting -= 1;
                if *waiting == 0 {
                    ready.push(Reverse((rank(reader), reader)));
                }
            }
        }
        (order.len() == nodes.len()).then_some(order)
    }

    /// The units in order, and the other operations in groups between them.
    fn arrange(self) -> Vec<Item> {
        // Each unit was accepted without a cycle, and reading through operations only removes dependencies.
        let order = self.order().unwrap_or_default();
        let units: Vec<usize> = order
            .iter()
            .filter_map(|node| if let Node::Unit(unit) = node { Some(*unit) } else { None })
            .collect();
        let rest: Vec<usize> =
            order.iter().filter_map(|node| if let Node::Op(op) = node { Some(*op) } else { None }).collect();
        let stages = self.stages(&units, &rest);
        let mut items = Vec::new();
        let mut slots: Vec<Option<Unit>> = self.units.iter().cloned().map(Some).collect();
        for stage in 0..=units.len() {
            let ops: Vec<usize> = rest.iter().copied().filter(|op| stages[op] == stage).collect();
            for ops in self.components(&ops) {
                let results = self.results(&ops, &order);
                items.push(Item::Group { ops, results });
            }
            items.extend(
                units.get(stage).and_then(|&unit| slots[unit].take()).map(|unit| Item::Unit(Box::new(unit))),
            );
        }
        items
    }

    /// Before which unit (a position in `units`) each other operation comes: as late as possible, but with the operations whose
    /// results it reads where it can.
    fn stages(&self, units: &[usize], rest: &[usize]) -> FxHashMap<usize, usize> {
        let position: FxHashMap<usize, usize> =
            units.iter().enumerate().map(|(i, &unit)| (unit, i)).collect();
        let mut readers: FxHashMap<usize, Vec<Node>> = FxHashMap::default();
        let nodes = units.iter().map(|&unit| Node::Unit(unit)).chain(rest.iter().map(|&op| Node::Op(op)));
        for node in nodes {
            for needed in self.needs(node) {
                if let Node::Op(op) = needed {
                    readers.entry(op).or_default().push(node);
                }
            }
        }
        let mut stages: FxHashMap<usize, usize> = FxHashMap::default();
        for &op in rest.iter().rev() {
            let before = |node: &Node| match node {
                Node::Unit(unit) => position[unit],
                Node::Op(op) => stages[op],
            };
            let latest = readers.get(&op).into_iter().flatten().map(before).min();
            stages.insert(op, latest.unwrap_or(units.len()));
        }
        for &op in rest {
            let mut earliest = 0;
            let mut beside = false;
            for needed in self.needs(Node::Op(op)) {
                let (at, is_op) = match needed {
                    Node::Unit(unit) => (position[&unit] + 1, false),
                    Node::Op(op) => (stages[&op], true),
                };
                beside = if at > earliest { is_op } else { beside || is_op && at == earliest };
                earliest = earliest.max(at);
            }
            if beside || !readers.contains_key(&op) {
                stages.insert(op, earliest);
            }
        }
        stages
    }

    /// Operations of one stage, divided where no tensor connects them.
    fn components(&self, ops: &[usize]) -> Vec<Vec<usize>> {
        let mut component: FxHashMap<usize, usize> = ops.iter().map(|&op| (op, op)).collect();
        for &op in ops {
            for needed in self.needs(Node::Op(op)) {
                if let Node::Op(other) = needed
                    && let (Some(&own), Some(&its)) = (component.get(&op), component.get(&other))
                {
                    component.values_mut().filter(|c| **c == own).for_each(|c| *c = its);
                }
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &op in ops {
            groups.entry(component[&op]).or_default().push(op);
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        for ops in &mut groups {
            ops.sort_unstable();
        }
        groups
    }

    /// The tensors of a group that others read.
    fn results(&self, ops: &[usize], order: &[Node]) -> Vec<TensorId> {
        let others = order.iter().filter(|node| !matches!(node, Node::Op(op) if ops.contains(op)));
        let read: BTreeSet<TensorId> = others.flat_map(|&node| self.reads(node)).collect();
        let made = ops.iter().flat_map(|&op| &self.region.op(op).outputs).copied();
        made.filter(|id| self.region.leaves(*id) || read.contains(id)).collect()
    }
}

impl AnchorUnit {
    fn plan_operands(&mut self, region: &Region<'_>, taken: impl Fn(usize) -> bool) -> Vec<TensorId> {
        let op = region.op(self.op);
        let mut reads = Vec::new();
        for (i, &input) in data_inputs(op).iter().enumerate() {
            let operand = if super::dequantizes(op.kind, i) {
                let operand = Operand::plan(region, input, true, &taken);
                let is_prepared =
                    i == 1 && pays_prepared(region, op, &operand) && !self.dequantizes_source(region);
                if is_prepared { Operand::plain(input) } else { operand }
            } else if i == 0 && super::commutes_with_scale(op) {
                let operand = Operand::plan(region, input, true, &taken);
                let is_number = operand
                    .dequantize(region.graph)
                    .is_none_or(|op| super::quantization::number(op).is_some());
                if is_number { operand } else { Operand::plain(input) }
            } else {
                Operand::plain(input)
            };
            reads.extend(operand.reads(region.graph));
            if !operand.through.is_empty() {
                self.operands.push((i, operand));
            }
        }
        self.chain.plan_operands(region, taken);
        reads.extend(self.chain.reads(region));
        reads
    }

    /// Whether the first operand, which is planned, is of quantised elements: integers are multiplied as they are.
    fn dequantizes_source(&self, region: &Region<'_>) -> bool {
        self.operands.iter().any(|(i, operand)| *i == 0 && operand.dequantize(region.graph).is_some())
    }
}

/// Whether constant weights are better dequantised once than by each execution: for convolutions of so many positions, whose sums take
/// longer than reading the larger weights, and which transform or pack them once, too.
fn pays_prepared(region: &Region<'_>, op: &Op, weights: &Operand) -> bool {
    let graph = region.graph;
    let is_constant = |id: TensorId| {
        graph.producer(id).is_none()
            && graph.tensor(id).is_some_and(|tensor| tensor.property == Property::Constant)
    };
    let positions = |dims: &Dims| {
        let is_last = super::is_channels_last(op).unwrap_or(false);
        let channels = if is_last { dims.last() } else { dims.get(1) };
        dims.elements() / channels.map_or(1, |&size| size.max(1))
    };
    matches!(op.kind, OpKind::Convolution | OpKind::ConvTranspose)
        && weights.dequantize(graph).is_some()
        && weights.reads(graph).into_iter().all(is_constant)
        && op
            .outputs
            .first()
            .and_then(|&id| region.dims(id))
            .is_some_and(|dims| positions(&dims) >= PREPARED_POSITIONS)
}

/// A unit or an operation of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    Unit(usize),
    Op(usize),
}
