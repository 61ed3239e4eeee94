//! Expressions of bytes that give bytes, from a table (`expression/tabled.cl`): models of integers with pairs of operations around each function
//! make of one activation a chain of a dozen roundings.

use anydnn_backend::op::Node;
use anydnn_backend::{Arg, DataType};

use super::Program;
use super::body::Elements;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::nodes::{Leaves, needed, statements};
use crate::primitive::rows::{CPU_LANES, is_cpu, items};
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::space::Address;
use crate::primitive::value::{Value, storage};

const TABLED: &str = anydnn_kernels::text("expression/tabled.cl");

/// Elements of a work-item at least, beside which a table takes little time.
const CHUNK: usize = 8192;
/// Nodes that are computed, for 16 elements at once, in about the time of 16 elements from a table.
const FEW_NODES: usize = 12;

/// The leaves of an expression, one operand's elements being all bytes in their order.
struct Bytes<'a> {
    operand: u16,
    kind: &'a str,
    others: Elements<'a>,
}

impl Leaves for Bytes<'_> {
    fn operand(&self, i: u16) -> String {
        if i == self.operand {
            format!("CONVERT(R, FN(unpack_{})(bytes))", self.kind)
        } else {
            self.others.operand(i)
        }
    }

    fn index(&self, axis: usize) -> String {
        self.others.index(axis)
    }

    fn position(&self) -> String {
        self.others.position()
    }

    fn constant(&self, value: Value, number: f32) -> String {
        self.others.constant(value, number)
    }

    fn scalar(&self, i: u16) -> String {
        self.others.scalar(i)
    }

    fn fold(&self, node: usize) -> String {
        self.others.fold(node)
    }
}

/// The launch that looks results up, where an expression has one operand of bytes beside single elements, gives bytes and is long.
pub(super) fn launch(program: &Program<'_>, device: &DeviceTraits) -> Option<Launch> {
    let byte = |data_type: DataType| matches!(data_type, DataType::U8 | DataType::S8);
    let [result] = program.results.as_slice() else { return None };
    let elements = program.op.dims.elements();
    let fits = is_cpu(device)
        && program.value == Value::F32
        && byte(result.desc.data_type())
        && program.desc.attributes().post_ops.is_empty()
        && elements >= CHUNK;
    let is_placed = |node: &Node| matches!(node, Node::Index(_) | Node::Keep { .. } | Node::Random { .. });
    if !fits || program.reaches(is_placed) {
        return None;
    }
    let used = (0..program.op.sources() as u16).filter(|&i| program.uses_source(i));
    let mut varying = used.filter_map(|i| {
        let desc = program.desc.find(Arg::Src(i))?;
        (desc.elements() > 1).then_some((i, desc))
    });
    let (Some((operand, src)), None) = (varying.next(), varying.next()) else { return None };
    if !byte(src.data_type()) || src.elements() != elements {
        return None;
    }
    let nodes = &program.op.nodes;
    let wanted = needed(nodes, [result.node]);
    if wanted.iter().filter(|wanted| **wanted).count() < FEW_NODES {
        return None;
    }

    let (mut space, _) = program.space(|_| false);
    let count = space.loops.len();
    space.sort_by(0..count, "DST");
    let count = space.collapse(0..count, &[]);
    let name = format!("SRC{operand}");
    if count != 1
        || !space.is_linear()
        || !is_contiguous(&space, "DST", 0)
        || !is_contiguous(&space, &name, 0)
    {
        return None;
    }
    let starts_at_zero =
        |name: &str| matches!(space.find(name).map(|o| &o.address), Some(Address::Linear { base: 0, .. }));
    if !starts_at_zero("DST") || !starts_at_zero(&name) {
        return None;
    }
    space.normalize(1);
    space.complete = Some(0);
    let leaves = Bytes { operand, kind: storage(src.data_type()).1, others: Elements::default() };
    let compute = statements(nodes, &wanted, "x", program.value, &leaves);
    let share = elements.div_ceil(device.compute_units.max(1) * 4).next_multiple_of(CPU_LANES);
    let chunk = share.max(CHUNK);
    let mut source = Source::new(&space, program.value, (CPU_LANES, Some(0)), program.wide, false);
    source
        .general()
        .define("ALONG", &space.loops[0].name)
        .number_of("RUN", elements)
        .number_of("CHUNK", chunk)
        .define("COMPUTE", format_args!("{compute}const V value = x{};", result.node))
        .define("PACK_RESULT(v)", format_args!("FN(pack_{})(v)", storage(result.desc.data_type()).1))
        .define("FROM", format_args!("src{operand}"))
        .define("TO", "dst");
    let (global, local) = items(device, elements.div_ceil(chunk));
    Some(source.launch("expression_tabled", &[TABLED], global, local))
}
