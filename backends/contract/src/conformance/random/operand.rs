//! Operands of a random description: layouts, attributes, values.

use super::choices::Choices;
use crate::conformance::trial::Trial;
use crate::conformance::values::{Random, Values};
use crate::{
    Arg, Attributes, BinaryAlgorithm, Blocking, DataType, Dequantize, Dims, Eltwise, FpMath, Layout,
    MemoryDesc, PostOp, PrimitiveDescBuilder, Quantized, Result, ScratchpadMode,
};

/// The types of floats that are computed with.
pub(super) const FLOATS: [DataType; 4] = [DataType::F32, DataType::F16, DataType::BF16, DataType::F64];

/// What an operand is for, on which its layouts depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Read; elements may be repeated.
    Source,
    /// Read, and often constant: of an open layout, then.
    Weights,
    /// Read; its elements differ, as what is divided by their deviation must.
    Varied,
    /// Written.
    Result,
    /// A small one beside the others.
    Side,
}

/// A dense operand or one of another layout.
pub(super) fn operand(
    choices: &mut Choices,
    role: Role,
    dims: &[usize],
    data_type: DataType,
) -> Result<MemoryDesc> {
    use Kind::{Blocked, Dense, Gapped, Open, Permuted, Repeated};
    let dense = || MemoryDesc::new(dims, data_type);
    let kind = match role {
        Role::Source => choices.pick_often_first(&[Dense, Open, Permuted, Gapped, Blocked, Repeated])?,
        Role::Weights => {
            let kinds = [Dense, Open, Permuted, Gapped, Blocked, Repeated];
            let draw = |random: &mut Random| [0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4, 5][random.below(12) as usize];
            kinds[choices.choose(6, draw) as usize]
        }
        Role::Varied | Role::Result => choices.pick_often_first(&[Dense, Open, Permuted, Gapped, Blocked])?,
        Role::Side => choices.pick_often_first(&[Dense, Gapped, Permuted])?,
    };
    let desc = match kind {
        Kind::Dense => dense(),
        Kind::Open => MemoryDesc::any(dims, data_type),
        Kind::Permuted => permuted(&choices.order(dims.len()), dims, data_type)?,
        Kind::Gapped => gapped(choices, dims, data_type)?,
        Kind::Blocked => blocked(choices, dims, data_type)?,
        Kind::Repeated => repeated(choices, dims, data_type)?,
    };
    // Blocks of short dimensions are mostly padding, and gaps may be behind every element.
    Ok(if desc.size() > 4 * dense().size() + MOST_EXTRA { dense() } else { desc })
}

/// Bytes that a layout may take beyond four times those of the dense one.
const MOST_EXTRA: usize = 1 << 16;

/// An operand whose dimension 1 are channels: they lie innermost as often as anywhere else.
pub(super) fn image(
    choices: &mut Choices,
    role: Role,
    dims: &[usize],
    data_type: DataType,
) -> Result<MemoryDesc> {
    if (3..=5).contains(&dims.len()) && choices.one_in(3) {
        let spatial: String = ('c'..='e').take(dims.len() - 2).collect();
        return MemoryDesc::with_tag(dims, data_type, &format!("a{spatial}b"));
    }
    operand(choices, role, dims, data_type)
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Dense,
    Permuted,
    Gapped,
    Open,
    Blocked,
    Repeated,
}

/// The axes lie in memory in this order, the first outermost.
fn permuted(order: &[usize], dims: &[usize], data_type: DataType) -> Result<MemoryDesc> {
    let stored: Dims = order.iter().map(|&axis| dims[axis]).collect();
    let strides = stored.row_major_strides();
    let mut own = strides.clone();
    for (place, &axis) in order.iter().enumerate() {
        own[axis] = strides[place];
    }
    MemoryDesc::with_strides(dims, data_type, own)
}

/// Gaps behind the extents along some axes, and elements before the first.
fn gapped(choices: &mut Choices, dims: &[usize], data_type: DataType) -> Result<MemoryDesc> {
    let order = if choices.one_in(3) { choices.order(dims.len()) } else { (0..dims.len()).collect() };
    let mut strides = Dims::new(dims);
    let mut stride = 1_usize;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        let gap = if choices.one_in(2) { choices.size(9) } else { 0 };
        stride = stride.saturating_mul(dims[axis].saturating_add(gap));
    }
    let offset = if choices.one_in(2) { choices.size(9) } else { 0 };
    // Elements of half a byte begin at a whole one.
    let offset = if data_type.bits() < 8 { offset * 2 } else { offset };
    let layout = Layout::Blocked(Blocking { strides, inner: smallvec::SmallVec::new(), offset });
    MemoryDesc::with_layout(dims, data_type, layout)
}

/// Blocks of one axis or two.
fn blocked(choices: &mut Choices, dims: &[usize], data_type: DataType) -> Result<MemoryDesc> {
    if dims.is_empty() {
        return Ok(MemoryDesc::new(dims, data_type));
    }
    let mut tag: Vec<char> = ('a'..='z').take(dims.len()).collect();
    let mut inner = String::new();
    for _ in 0..=choices.below(2) {
        let axis = choices.below(dims.len());
        let block = choices.pick(&[4, 8, 16, 2, 32, 3])?;
        if tag[axis].is_ascii_lowercase() {
            inner.extend([block.to_string(), tag[axis].to_string()]);
            tag[axis] = tag[axis].to_ascii_uppercase();
        }
    }
    let outer: String = tag.into_iter().collect();
    MemoryDesc::with_tag(dims, data_type, &(outer + &inner))
}

/// The same elements again along the first axis of several, over which no operation of a product or a window sums: sums of equal terms
/// round all in one direction.
fn repeated(choices: &mut Choices, dims: &[usize], data_type: DataType) -> Result<MemoryDesc> {
    let mut stored = dims.to_vec();
    if dims.len() > 2 && choices.one_in(2) {
        stored[0] = 1;
    }
    MemoryDesc::new(stored, data_type).broadcast_to(dims)
}

/// Dimensions that broadcast to others: some are ones, leading ones are missing.
pub(super) fn broadcasting(choices: &mut Choices, to: &[usize]) -> Vec<usize> {
    let kept: Vec<usize> = to.iter().map(|&dim| if choices.one_in(3) { 1 } else { dim }).collect();
    let skipped = if choices.one_in(3) { choices.below(to.len() + 1) } else { 0 };
    kept[skipped..].to_vec()
}

/// Dimensions that broadcast to others by blocks.
pub(super) fn by_blocks(choices: &mut Choices, to: &[usize]) -> Result<Vec<usize>> {
    to.iter()
        .map(|&dim| {
            Ok(match choices.pick(&["one", "each", "blocks"])? {
                "one" => 1,
                "each" => dim,
                _ => choices.divisor(dim),
            })
        })
        .collect()
}

/// How a product's or a window's sums are dequantised, with the values of its operands.
#[derive(Debug, Default)]
pub(super) struct Quantization {
    pub(super) list: Vec<Dequantize>,
    pub(super) values: Vec<(Arg, Values)>,
}

impl Quantization {
    /// Scales, and at times zero points, of an operand with values up to `magnitude` after it.
    pub(super) fn add(
        &mut self,
        choices: &mut Choices,
        operand: Quantized,
        desc: &MemoryDesc,
        magnitude: f64,
    ) -> Result<()> {
        let scale_type = choices.pick_often_first(&[DataType::F32, DataType::F16, DataType::BF16])?;
        let dims = by_blocks(choices, desc.dims())?;
        let scale = MemoryDesc::new(dims, scale_type);
        let stored = desc.data_type();
        let zero_point = if stored.is_integer() && choices.one_in(2) {
            let own = choices.pick_often_first(&[DataType::S32, stored])?;
            Some(MemoryDesc::new(by_blocks(choices, desc.dims())?, own))
        } else {
            None
        };
        let reach = if stored.is_float() { 2.0 } else { 8.0 };
        let scales = Values::Uniform(0.5 * magnitude / reach, magnitude / reach);
        self.values.push((Arg::ScaleOf(operand), scales));
        self.list.push(Dequantize { operand, scale: Some(scale), zero_point });
        Ok(())
    }
}

/// Up to three post-operations, continuous ones: a result at the edge of a step may be on either side.
pub(super) fn post_ops(
    choices: &mut Choices,
    mut attributes: Attributes,
    dst: &MemoryDesc,
) -> Result<Attributes> {
    let dst_type = dst.data_type();
    // Zero points shift all sums one way, and there the others are flat: nothing of the sums would be left.
    let shifted = attributes.dequantize.iter().any(|one| one.zero_point.is_some());
    let functions = if shifted { &FUNCTIONS[..STRAIGHT] } else { &FUNCTIONS };
    let count = choices.choose(4, |random| [0, 0, 0, 1, 1, 2, 2, 3][random.below(8) as usize]);
    for _ in 0..count {
        let post_op = match choices.below(4) {
            0 => PostOp::Eltwise(choices.pick(functions)?),
            1 => {
                // The larger or smaller of two may leave of sums only what is small beside their rounding.
                use BinaryAlgorithm::{Add, Multiply, Subtract};
                let algorithm = choices.pick(&[Add, Multiply, Subtract])?;
                let operand = side(choices, dst)?;
                PostOp::Binary { algorithm, operand, reversed: choices.one_in(4) }
            }
            2 => {
                let same_bits = match dst_type {
                    DataType::S8 => DataType::U8,
                    DataType::U8 => DataType::S8,
                    other => other,
                };
                let scale = choices.pick(&[1.0, 0.5, -0.25])?;
                let data_type = choices.one_in(3).then_some(same_bits);
                // The old content means one thing.
                let earlier = attributes.post_ops.iter().find_map(|post_op| match post_op {
                    PostOp::Sum { data_type, .. } => Some(*data_type),
                    _ => None,
                });
                let data_type = earlier.unwrap_or(data_type);
                let zero_point = if dst_type.is_integer() && choices.one_in(3) { 3 } else { 0 };
                PostOp::Sum { scale, zero_point, data_type }
            }
            _ => {
                let condition = side(choices, dst)?.with_data_type(DataType::Boolean);
                let other = side(choices, dst)?;
                PostOp::Select { condition, other, other_where_true: choices.one_in(2) }
            }
        };
        attributes = attributes.with_post_op(post_op);
    }
    Ok(attributes)
}

/// An operand of a post-operation.
fn side(choices: &mut Choices, dst: &MemoryDesc) -> Result<MemoryDesc> {
    let dims = broadcasting(choices, dst.dims());
    let own = dst.data_type();
    let own = if own.is_float() { own } else { DataType::F32 };
    let data_type = choices.pick_often_first(&[DataType::F32, own, DataType::F16])?;
    if !dst.is_any() && dims == **dst.dims() && data_type == dst.data_type() && choices.one_in(3) {
        return Ok(dst.clone());
    }
    operand(choices, Role::Side, &dims, data_type)
}

/// Continuous functions that do not grow faster than their argument by much; first those that are straight but for a kink.
pub(super) const FUNCTIONS: [Eltwise; 14] = [
    Eltwise::Relu,
    Eltwise::Linear { alpha: -1.5, beta: 0.25 },
    Eltwise::LeakyRelu { alpha: 0.25 },
    Eltwise::Clamp { min: -1.5, max: 1.0 },
    Eltwise::Abs,
    Eltwise::GeluErf,
    Eltwise::Tanh,
    Eltwise::Sigmoid,
    Eltwise::GeluTanh,
    Eltwise::Swish { alpha: 1.5 },
    Eltwise::Elu { alpha: 0.75 },
    Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 },
    Eltwise::Mish,
    Eltwise::SoftPlus { beta: 1.5 },
];
/// How many are straight.
const STRAIGHT: usize = 5;

/// What changes how it is computed: working memory, repeatability, arithmetic.
pub(super) fn modes(choices: &mut Choices, attributes: Attributes) -> Attributes {
    let user = choices.one_in(8);
    let attributes = if user { attributes.with_scratchpad(ScratchpadMode::User) } else { attributes };
    let deterministic = choices.one_in(8);
    let attributes = attributes.with_deterministic(deterministic);
    let once = choices.one_in(10);
    attributes.with_once(once)
}

/// [`modes`], and which arithmetic products may use.
pub(super) fn product_modes(choices: &mut Choices, attributes: Attributes) -> Result<Attributes> {
    let attributes = modes(choices, attributes);
    let narrow = choices.one_in(10);
    let fpmath = [FpMath::TF32, FpMath::F16, FpMath::BF16, FpMath::Any];
    Ok(if narrow { attributes.with_fpmath(choices.pick(&fpmath)?) } else { attributes })
}

/// A trial with post-operations and modes; at times the result takes an operand's memory.
pub(super) fn finished(choices: &mut Choices, builder: PrimitiveDescBuilder) -> Result<Trial> {
    let desc = builder.clone().build()?;
    let attributes = desc.attributes().clone();
    let attributes =
        if desc.op().takes_post_ops() { post_ops(choices, attributes, desc.dst())? } else { attributes };
    let attributes = modes(choices, attributes);
    placed(choices, Trial::of(builder.attributes(attributes))?)
}

/// At times with the result in the memory of an operand, where it may be.
pub(super) fn placed(choices: &mut Choices, trial: Trial) -> Result<Trial> {
    let desc = trial.desc();
    let free: Vec<Arg> =
        desc.args().iter().map(|operand| operand.arg).filter(|&arg| desc.may_overwrite(arg)).collect();
    if free.is_empty() || !choices.one_in(4) {
        return Ok(trial);
    }
    let arg = choices.pick(&free)?;
    Ok(trial.in_place(arg))
}
