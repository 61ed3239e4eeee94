//! A complete description of a primitive: the operation, every operand's descriptor with its access, the attributes.

use std::fmt;
use std::sync::Arc;

use crate::arg::{Access, Arg};
use crate::data_type::DataType;
use crate::error::{Error, InvalidKind, Result};
use crate::memory_desc::MemoryDesc;
use crate::op::attributes::{Attributes, Dequantize, PostOp, ScratchpadMode};
use crate::op::specialize::Specialize;
use crate::op::{Op, Operation};

/// A validated description of a primitive. Backends take it as correct.
///
/// ```
/// use anydnn_backend::op::{Eltwise, MatMul, Op};
/// use anydnn_backend::{Attributes, DataType, MemoryDesc, PostOp, PrimitiveDesc};
///
/// let matmul = PrimitiveDesc::builder(Op::MatMul(MatMul))
///     .src(MemoryDesc::new([128, 768], DataType::F32))
///     .weights(MemoryDesc::any([768, 3072], DataType::F32))
///     .bias(MemoryDesc::new([3072], DataType::F32))
///     .attributes(Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::GeluErf)))
///     .build()?;
/// assert_eq!(matmul.dst().dims().to_string(), "128x3072");
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
///
/// A clone shares what it describes with the original: sessions over many shapes keep thousands.
#[derive(Clone)]
pub struct PrimitiveDesc {
    parts: Arc<Parts>,
}

/// What a description says.
#[derive(Clone, Debug, PartialEq)]
struct Parts {
    op: Op,
    args: Box<[ArgDesc]>,
    attributes: Attributes,
    label: Option<Arc<str>>,
}

/// One operand: which, how it is touched, and what its bytes mean.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgDesc {
    /// Which operand.
    pub arg: Arg,
    /// How the primitive touches it.
    pub access: Access,
    /// What its bytes mean.
    pub desc: MemoryDesc,
}

impl PrimitiveDesc {
    /// Starts a description, of an operation's parameters or an [`Op`].
    pub fn builder(op: impl Into<Op>) -> PrimitiveDescBuilder {
        PrimitiveDescBuilder {
            op: op.into(),
            operands: Operands::default(),
            attributes: Attributes::default(),
            label: None,
        }
    }

    /// The operation.
    pub fn op(&self) -> &Op {
        &self.parts.op
    }

    /// The operands in ascending order of [`Arg`], post-operations' operands included, the scratchpad not.
    pub fn args(&self) -> &[ArgDesc] {
        &self.parts.args
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.parts.attributes
    }

    /// The label that appears in messages and logs.
    pub fn label(&self) -> Option<&str> {
        self.parts.label.as_deref()
    }

    /// The label, or else the operation's name.
    pub fn name(&self) -> &str {
        self.label().unwrap_or(self.parts.op.name())
    }

    /// An operand's descriptor.
    pub fn find(&self, arg: Arg) -> Option<&MemoryDesc> {
        self.parts.args.iter().find(|a| a.arg == arg).map(|a| &a.desc)
    }

    /// The first source's descriptor. Every operation has one.
    pub fn src(&self) -> &MemoryDesc {
        self.find(Arg::SRC).unwrap_or(&self.parts.args[0].desc)
    }

    /// The first result's descriptor. Every operation has one.
    pub fn dst(&self) -> &MemoryDesc {
        self.find(Arg::DST).unwrap_or(&self.parts.args[self.parts.args.len() - 1].desc)
    }

    /// How an operand is touched; the scratchpad is written first and read later.
    pub fn access(&self, arg: Arg) -> Option<Access> {
        if arg == Arg::Scratchpad {
            return Some(Access::Write);
        }
        self.parts.args.iter().find(|a| a.arg == arg).map(|a| a.access)
    }

    /// Whether the result may be the very memory of `arg`: both descriptors mean the same bytes, and the operation is elementwise, or
    /// `arg` is a post-operation's operand of a product or convolution, which is read at an element just before the element is written.
    /// Every backend allows this.
    pub fn may_overwrite(&self, arg: Arg) -> bool {
        let own_index = match arg {
            Arg::Src(_) => self.parts.op.is_elementwise(),
            Arg::PostOp(_) | Arg::PostOpOther(_) => self.parts.op.reads_post_operands_in_place(),
            _ => false,
        };
        own_index
            && self.access(Arg::DST) == Some(Access::Write)
            && self.find(arg).is_some_and(|desc| !desc.is_any() && desc.same_bytes(self.dst()))
    }

    /// The same primitive with one operand's open layout resolved.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the operand does not exist, its layout is not open, or dimensions or type differ.
    pub fn resolved(mut self, arg: Arg, desc: MemoryDesc) -> Result<Self> {
        let Some(slot) = self.parts_mut().args.iter_mut().find(|a| a.arg == arg) else {
            return Err(Error::invalid(
                "resolve layout",
                "argument",
                arg.to_string(),
                format!("an argument of {}", self.parts.op.name()),
            ));
        };
        if !slot.desc.is_any()
            || slot.desc.dims() != desc.dims()
            || slot.desc.data_type() != desc.data_type()
            || desc.is_any()
        {
            return Err(Error::invalid(
                "resolve layout",
                arg.to_string(),
                desc.to_string(),
                format!("a layout for {}", slot.desc),
            ));
        }
        slot.desc = desc;
        Ok(self)
    }

    /// The same primitive with the layout of one operand left to the implementation; without the operand it stays as it is. Operands of
    /// post-operations keep theirs.
    pub fn opened(mut self, arg: Arg) -> Self {
        let takes = matches!(arg, Arg::Src(_) | Arg::Weights | Arg::Dst(_));
        if let Some(slot) = self.parts_mut().args.iter_mut().find(|a| takes && a.arg == arg) {
            slot.desc = slot.desc.to_any();
        }
        self
    }

    /// The same primitive with every open layout resolved to the dense row-major one.
    pub fn resolved_row_major(mut self) -> Self {
        if self.args().iter().any(|arg| arg.desc.is_any()) {
            for arg in self.parts_mut().args.iter_mut().filter(|arg| arg.desc.is_any()) {
                arg.desc = arg.desc.to_row_major();
            }
        }
        self
    }

    /// The same primitive with every operand dense and row-major.
    pub fn to_row_major(mut self) -> Self {
        let parts = self.parts_mut();
        for arg in &mut parts.args {
            arg.desc = arg.desc.to_row_major();
        }
        for post_op in &mut parts.attributes.post_ops {
            match post_op {
                PostOp::Binary { operand, .. } => *operand = operand.to_row_major(),
                PostOp::Select { condition, other, .. } => {
                    (*condition, *other) = (condition.to_row_major(), other.to_row_major());
                }
                PostOp::Eltwise(_) | PostOp::Sum { .. } => {}
            }
        }
        self
    }

    /// The same primitive with other attributes for working memory.
    pub fn with_scratchpad(mut self, mode: ScratchpadMode) -> Self {
        if self.attributes().scratchpad != mode {
            self.parts_mut().attributes.scratchpad = mode;
        }
        self
    }

    /// The same primitive with another time for programs for its shape; none leaves it to the engine.
    pub fn with_specialize(mut self, specialize: Option<Specialize>) -> Self {
        if self.attributes().specialize != specialize {
            self.parts_mut().attributes.specialize = specialize;
        }
        self
    }

    /// The same primitive that may, or may not, be computed by Winograd's transforms.
    pub fn with_winograd(mut self, winograd: bool) -> Self {
        if self.attributes().winograd != winograd {
            self.parts_mut().attributes.winograd = winograd;
        }
        self
    }

    /// The same primitive that may, or may not, be a native command.
    pub fn with_native(mut self, native: bool) -> Self {
        if self.attributes().native != native {
            self.parts_mut().attributes.native = native;
        }
        self
    }

    /// What it says, apart from what its clones say.
    fn parts_mut(&mut self) -> &mut Parts {
        Arc::make_mut(&mut self.parts)
    }
}

impl PartialEq for PrimitiveDesc {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts) || self.parts == other.parts
    }
}

impl fmt::Debug for PrimitiveDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { op, args, attributes, label } = &*self.parts;
        f.debug_struct("PrimitiveDesc")
            .field("op", op)
            .field("args", args)
            .field("attributes", attributes)
            .field("label", label)
            .finish()
    }
}

impl fmt::Display for PrimitiveDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        for ArgDesc { arg, desc, .. } in self.args() {
            write!(f, " {arg}={desc}")?;
        }
        Ok(())
    }
}

/// Collects what a [`PrimitiveDesc`] needs, made by [`PrimitiveDesc::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct PrimitiveDescBuilder {
    op: Op,
    operands: Operands,
    attributes: Attributes,
    label: Option<Arc<str>>,
}

impl PrimitiveDescBuilder {
    /// With the next source.
    pub fn src(self, desc: MemoryDesc) -> Self {
        let next = self.operands.sources() as u16;
        self.arg(Arg::Src(next), desc)
    }

    /// With weights.
    pub fn weights(self, desc: MemoryDesc) -> Self {
        self.arg(Arg::Weights, desc)
    }

    /// With a bias.
    pub fn bias(self, desc: MemoryDesc) -> Self {
        self.arg(Arg::Bias, desc)
    }

    /// With the result's descriptor. Without one it is inferred, with an open layout.
    pub fn dst(self, desc: MemoryDesc) -> Self {
        self.arg(Arg::DST, desc)
    }

    /// With any operand.
    pub fn arg(mut self, arg: Arg, desc: MemoryDesc) -> Self {
        self.operands.0.push((arg, desc));
        self
    }

    /// With attributes.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = attributes;
        self
    }

    /// With a label for messages and logs.
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Checks everything and infers the result where it was not given.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the operand, what was given and what was expected.
    pub fn build(self) -> Result<PrimitiveDesc> {
        let Self { op, mut operands, attributes, label } = self;
        let place = |error: Error| match &label {
            Some(label) => error.at(&**label),
            None => error,
        };
        let args = Self::check(&op, &mut operands, &attributes).map_err(place)?;
        Ok(PrimitiveDesc { parts: Arc::new(Parts { op, args: args.into(), attributes, label }) })
    }

    fn check(op: &Op, operands: &mut Operands, attributes: &Attributes) -> Result<Vec<ArgDesc>> {
        if operands.0.len() > MOST_OPERANDS {
            let given = operands.0.len().to_string();
            return Err(Error::invalid(
                op.name(),
                "number of operands",
                given,
                format!("at most {MOST_OPERANDS}"),
            ));
        }
        for (i, (arg, desc)) in operands.0.iter().enumerate() {
            desc.validate().map_err(|error| error.at(arg.to_string()))?;
            if operands.0[..i].iter().any(|(other, _)| other == arg) {
                return Err(Error::invalid(
                    op.name(),
                    "arguments",
                    format!("{arg} twice"),
                    "each argument once",
                ));
            }
        }
        let (dims, data_type) = op.infer(operands)?;
        match operands.dst() {
            None => {
                let dst = MemoryDesc::any(dims.clone(), data_type);
                dst.validate().map_err(|error| error.at(Arg::DST.to_string()).at(op.name()))?;
                operands.0.push((Arg::DST, dst));
            }
            Some(dst) if *dst.dims() != dims => {
                return Err(Error::invalid_kind(
                    InvalidKind::Shape,
                    op.name(),
                    "dst dimensions",
                    dst.dims().to_string(),
                    dims.to_string(),
                ));
            }
            Some(_) => {}
        }
        for (arg, desc) in &operands.0 {
            if op.is_result(*arg) && desc.overlaps_itself() {
                return Err(Error::invalid(
                    op.name(),
                    format!("{arg} strides"),
                    desc.to_string(),
                    "strides under which no two elements share memory",
                ));
            }
        }
        check_post_ops(op, operands, attributes)?;
        check_dequantize(op, operands, attributes)?;
        for (i, post_op) in attributes.post_ops.iter().enumerate() {
            match post_op {
                PostOp::Binary { operand, .. } => operands.0.push((Arg::PostOp(i as u16), operand.clone())),
                PostOp::Select { condition, other, .. } => {
                    operands.0.push((Arg::PostOp(i as u16), condition.clone()));
                    operands.0.push((Arg::PostOpOther(i as u16), other.clone()));
                }
                PostOp::Eltwise(_) | PostOp::Sum { .. } => {}
            }
        }
        for Dequantize { operand, scale, zero_point } in &attributes.dequantize {
            operands.0.extend(scale.iter().map(|desc| (Arg::ScaleOf(*operand), desc.clone())));
            operands.0.extend(zero_point.iter().map(|desc| (Arg::ZeroPointOf(*operand), desc.clone())));
        }
        let sums = attributes.post_ops.iter().any(|p| matches!(p, PostOp::Sum { .. }));
        let mut args: Vec<_> = operands
            .0
            .iter()
            .map(|(arg, desc)| {
                let access = match *arg {
                    Arg::DST if sums => Access::ReadWrite,
                    arg if op.is_result(arg) => Access::Write,
                    _ => Access::Read,
                };
                ArgDesc { arg: *arg, access, desc: desc.clone() }
            })
            .collect();
        args.sort_by_key(|a| a.arg);
        Ok(args)
    }
}

/// The most operands of a primitive: each is compared with every other.
const MOST_OPERANDS: usize = 1 << 13;

/// The operands given so far; shape inference reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands(Vec<(Arg, MemoryDesc)>);

impl Operands {
    /// The same operands, after checking that the required ones are there and no others than these, the optional ones and `dst`.
    pub(crate) fn only(&self, op: &str, required: &[Arg], optional: &[Arg]) -> Result<&Self> {
        let list = |args: &[Arg]| args.iter().map(Arg::to_string).collect::<Vec<_>>().join(", ");
        if let Some(missing) = required.iter().find(|&&arg| self.find(arg).is_none()) {
            return Err(Error::invalid(op, "arguments", format!("without {missing}"), list(required)));
        }
        let known = |arg: &Arg| *arg == Arg::DST || required.contains(arg) || optional.contains(arg);
        if let Some((extra, _)) = self.0.iter().find(|(arg, _)| !known(arg)) {
            return Err(Error::invalid(
                op,
                "arguments",
                format!("with {extra}"),
                format!("{} and dst0 (optional: {})", list(required), list(optional)),
            ));
        }
        Ok(self)
    }

    pub(crate) fn find(&self, arg: Arg) -> Option<&MemoryDesc> {
        self.0.iter().find(|(a, _)| *a == arg).map(|(_, desc)| desc)
    }

    pub(crate) fn required(&self, arg: Arg) -> Result<&MemoryDesc> {
        self.find(arg).ok_or_else(|| {
            Error::invalid("primitive", "arguments", format!("without {arg}"), "this argument")
        })
    }

    pub(crate) fn dst(&self) -> Option<&MemoryDesc> {
        self.find(Arg::DST)
    }

    /// The number of sources given.
    pub(crate) fn sources(&self) -> usize {
        self.0.iter().filter(|(arg, _)| matches!(arg, Arg::Src(_))).count()
    }
}

/// Checks that an operand of the `i`-th post-operation broadcasts to the result.
fn check_post_operand(op: &Op, i: usize, operand: &MemoryDesc, dst: &MemoryDesc) -> Result<()> {
    operand.validate()?;
    if operand.dims().broadcasts_to(dst.dims()) {
        return Ok(());
    }
    Err(Error::invalid_kind(
        InvalidKind::Shape,
        op.name(),
        format!("operand of post-operation {i}"),
        operand.dims().to_string(),
        format!("dimensions that broadcast to {}", dst.dims()),
    ))
}

fn check_dequantize(op: &Op, operands: &Operands, attributes: &Attributes) -> Result<()> {
    for (i, Dequantize { operand, scale, zero_point }) in attributes.dequantize.iter().enumerate() {
        let arg = operand.arg();
        if !op.dequantizes(arg) {
            return Err(Error::unsupported(op.name(), format!("it does not dequantise {arg}")));
        }
        if attributes.dequantize[..i].iter().any(|other| other.operand == *operand) {
            let given = format!("{arg} twice");
            return Err(Error::invalid(op.name(), "dequantised operands", given, "each operand once"));
        }
        let target = operands.required(arg)?.dims();
        for (what, desc) in [("scales", scale), ("zero points", zero_point)] {
            let Some(desc) = desc else { continue };
            desc.validate()?;
            if !desc.dims().broadcasts_by_blocks_to(target) {
                return Err(Error::invalid_kind(
                    InvalidKind::Shape,
                    op.name(),
                    format!("{what} of {arg}"),
                    desc.dims().to_string(),
                    format!("dimensions that broadcast by blocks to {target}"),
                ));
            }
        }
    }
    Ok(())
}

fn check_post_ops(op: &Op, operands: &Operands, attributes: &Attributes) -> Result<()> {
    let Some(dst) = operands.dst() else { return Ok(()) };
    if !attributes.post_ops.is_empty() && !op.takes_post_ops() {
        return Err(Error::unsupported(op.name(), "this operation takes no post-operations"));
    }
    for (i, post_op) in attributes.post_ops.iter().enumerate() {
        match post_op {
            PostOp::Eltwise(_) => {}
            PostOp::Binary { operand, .. } => check_post_operand(op, i, operand, dst)?,
            PostOp::Select { condition, other, .. } => {
                check_post_operand(op, i, condition, dst)?;
                check_post_operand(op, i, other, dst)?;
            }
            PostOp::Sum { data_type, .. } => {
                let read_as: DataType = data_type.unwrap_or(dst.data_type());
                if read_as.bits() != dst.data_type().bits() {
                    return Err(Error::invalid_kind(
                        InvalidKind::DataType,
                        op.name(),
                        format!("data type of post-operation {i} (sum)"),
                        read_as.name(),
                        format!("a type of {} bits", dst.data_type().bits()),
                    ));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{
        Concat, Convolution, Eltwise, LayerNormalization, MatMul, Pooling, PoolingAlgorithm, Reduction,
        ReductionAlgorithm,
    };

    fn f32(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    fn matmul(src: &[usize], weights: &[usize]) -> PrimitiveDescBuilder {
        PrimitiveDesc::builder(Op::MatMul(MatMul)).src(f32(src)).weights(f32(weights))
    }

    #[test]
    fn matmul_broadcasts_batches() {
        let desc = matmul(&[4, 1, 2, 3], &[1, 5, 3, 7]).build().unwrap();
        assert_eq!(**desc.dst().dims(), [4, 5, 2, 7]);
        assert!(desc.dst().is_any());
    }

    #[test]
    fn errors_name_given_and_expected() {
        let error = matmul(&[2, 3], &[4, 5]).label("fc1").build().unwrap_err().to_string();
        assert_eq!(error, "fc1: matmul: K of weights is 4, expected 3, the K of src 2x3");
        let error = matmul(&[2, 3], &[3, 5]).dst(f32(&[2, 6])).build().unwrap_err().to_string();
        assert!(error.contains("2x6") && error.contains("2x5"), "{error}");
        let error = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).build().unwrap_err().to_string();
        assert!(error.contains("without src0"), "{error}");
        let error = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
            .src(f32(&[1]))
            .weights(f32(&[1]))
            .build()
            .unwrap_err()
            .to_string();
        assert!(error.contains("with weights"), "{error}");
    }

    #[test]
    fn windows_slide() {
        let conv = Convolution::new(2)
            .with_strides([2, 1])
            .with_dilations([1, 2])
            .with_pads([1, 2], [1, 2])
            .with_groups(2);
        let desc = PrimitiveDesc::builder(Op::Convolution(conv.clone()))
            .src(f32(&[1, 4, 7, 8]))
            .weights(f32(&[6, 2, 3, 3]))
            .build()
            .unwrap();
        assert_eq!(**desc.dst().dims(), [1, 6, 4, 8]);
        assert!(
            PrimitiveDesc::builder(Op::Convolution(conv))
                .src(f32(&[1, 4, 7, 8]))
                .weights(f32(&[6, 4, 3, 3]))
                .build()
                .is_err()
        );
        let pool = |ceil| {
            let op = Pooling::new(PoolingAlgorithm::Max, [2])
                .with_strides([2])
                .with_pads([1], [0])
                .with_ceil(ceil);
            PrimitiveDesc::builder(Op::Pooling(op))
                .src(f32(&[1, 1, 4]))
                .build()
                .unwrap()
                .dst()
                .dims()
                .to_vec()
        };
        assert_eq!((pool(false), pool(true)), (vec![1, 1, 2], vec![1, 1, 3]));
    }

    #[test]
    fn accesses_are_declared() {
        let attributes = Attributes::default()
            .with_post_op(PostOp::sum(1.0))
            .with_post_op(PostOp::binary(crate::op::BinaryAlgorithm::Add, f32(&[5])));
        let desc = matmul(&[2, 3], &[3, 5]).attributes(attributes).build().unwrap();
        let accesses: Vec<_> = desc.args().iter().map(|a| (a.arg, a.access)).collect();
        assert_eq!(
            accesses,
            [
                (Arg::SRC, Access::Read),
                (Arg::Weights, Access::Read),
                (Arg::PostOp(1), Access::Read),
                (Arg::DST, Access::ReadWrite)
            ]
        );
        let norm = PrimitiveDesc::builder(Op::LayerNormalization(LayerNormalization::new(1, 1e-5)))
            .src(f32(&[2, 3]))
            .arg(Arg::Mean, f32(&[2]))
            .build()
            .unwrap();
        assert_eq!(norm.access(Arg::Mean), Some(Access::Write));
    }

    #[test]
    fn results_may_not_overlap_themselves() {
        let dst = MemoryDesc::with_strides([2, 3], DataType::F32, [0, 1]).unwrap();
        assert!(PrimitiveDesc::builder(crate::op::Reorder).src(f32(&[2, 3])).dst(dst).build().is_err());
    }

    #[test]
    fn reductions_take_their_axes_from_the_result() {
        let reduce = |dst: &[usize]| {
            PrimitiveDesc::builder(Op::Reduction(Reduction::new(ReductionAlgorithm::Sum)))
                .src(f32(&[2, 3]))
                .dst(f32(dst))
                .build()
        };
        assert!(reduce(&[1, 3]).is_ok() && reduce(&[2]).is_err() && reduce(&[2, 2]).is_err());
    }

    #[test]
    fn concat_adds_up_and_takes_no_post_ops() {
        let concat = PrimitiveDesc::builder(Op::Concat(Concat::new(1))).src(f32(&[2, 3])).src(f32(&[2, 4]));
        assert_eq!(**concat.clone().build().unwrap().dst().dims(), [2, 7]);
        let with_post_op =
            concat.attributes(Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu)));
        assert!(matches!(with_post_op.dst(f32(&[2, 7])).build(), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn overwriting_is_for_equal_elementwise_operands() {
        let relu = |dst: MemoryDesc| {
            PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(f32(&[4])).dst(dst).build().unwrap()
        };
        assert!(relu(f32(&[4])).may_overwrite(Arg::SRC));
        assert!(!relu(f32(&[4]).with_data_type(DataType::F16)).may_overwrite(Arg::SRC));
        assert!(!relu(f32(&[4])).may_overwrite(Arg::DST));
        let residual = |operand: &[usize]| {
            let add = PostOp::binary(crate::op::BinaryAlgorithm::Add, f32(operand));
            matmul(&[4, 4], &[4, 4])
                .dst(f32(&[4, 4]))
                .attributes(Attributes::default().with_post_op(add))
                .build()
                .unwrap()
        };
        assert!(residual(&[4, 4]).may_overwrite(Arg::PostOp(0)));
        assert!(!residual(&[4, 4]).may_overwrite(Arg::SRC) && !residual(&[4]).may_overwrite(Arg::PostOp(0)));
    }

    #[test]
    fn an_inferred_result_fits_the_address_space() {
        let half = 1_usize << 31;
        let error = matmul(&[half, 1], &[1, half]).build().unwrap_err().to_string();
        assert!(error.contains("dst0") && error.contains("2147483648x2147483648"), "{error}");
        let part = f32(&[1 << 59]);
        let concat = PrimitiveDesc::builder(Op::Concat(Concat::new(0)));
        assert!((0..4).fold(concat, |builder, _| builder.src(part.clone())).build().is_err());
        let huge = usize::MAX;
        for (pads, stride, ceil) in
            [(huge, 1, false), (huge / 2, huge / 3, true), (huge / 2 - 9, huge / 2, true), (1, huge, true)]
        {
            let op = Pooling::new(PoolingAlgorithm::Max, [3]).with_strides([stride]).with_ceil(ceil);
            let op = op.with_pads([pads], [0]);
            // Whatever comes out, nothing overflows on the way.
            if let Ok(desc) = PrimitiveDesc::builder(Op::Pooling(op)).src(f32(&[1, 1, 5])).build() {
                assert!(desc.dst().validate().is_ok(), "{desc}");
            }
        }
    }
}
