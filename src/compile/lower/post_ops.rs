//! The chain behind an anchor, as post-operations of its primitive.

use anydnn_backend::op::{Binary, BinaryAlgorithm, Eltwise};
use anydnn_backend::{
    Arg, Attributes, DataType, Dequantize, Error, FpMath, MemoryDesc, PostOp, PrimitiveDesc, Result,
};

use super::chain::{Chain, Link, gated_eltwise};
use super::pointwise::{binary_of, eltwise_of};
use super::quantization::{Scales, rounds_first};
use super::{Anchor, channel_axis, emit_simple, input, matmul, views};
use crate::compile::program::{Program, Value, declared};
use crate::graph::{Op, TensorId};

/// An operand of an anchor that is dequantised as it is read.
#[derive(Debug)]
pub(super) struct Dequantized {
    pub(super) operand: anydnn_backend::Quantized,
    /// In the dimensions of the primitive's operand.
    pub(super) scale: Value,
    pub(super) zero_point: Option<Value>,
    /// What it may be rounded to.
    pub(super) fpmath: FpMath,
}

impl Dequantized {
    /// What the graph allows for a tensor that it has in this type.
    pub(super) fn permitted(data_type: DataType) -> FpMath {
        match data_type {
            DataType::F16 => FpMath::F16,
            DataType::BF16 => FpMath::BF16,
            _ => FpMath::Strict,
        }
    }
}

/// Emits the anchor's primitive with the chain's post-operations, whose result has scales of its own where `result_scales` tells them.
pub(super) fn emit(
    program: &mut Program<'_>,
    mut anchor: Anchor,
    dequantized: Vec<Dequantized>,
    result_scales: Option<&Scales>,
    chain: &Chain,
    ops: Vec<usize>,
) -> Result<()> {
    let graph = program.graph;
    let mut list = PostOpList { post_ops: Vec::new(), operands: Vec::new() };
    let mut links = chain.links.as_slice();
    if let Some(scales) = result_scales {
        links = list.rescale(program, &anchor, scales, links)?;
    }
    for link in links {
        list.add(program, &mut anchor, link).map_err(|error| error.at(graph.ops()[link.op()].to_string()))?;
    }
    let (target, behind) = target(program, chain)?;
    let dst = target.with_desc(anchor.shape.apply(&target.desc, target.desc.rank())?);
    let mut attributes = list
        .post_ops
        .into_iter()
        .fold(Attributes::default().with_fpmath(graph.fpmath()), Attributes::with_post_op)
        .with_winograd(matches!(anchor.op, anydnn_backend::Op::Convolution(_)));
    let several = matches!(anchor.op, anydnn_backend::Op::GatedMatMul(_) | anydnn_backend::Op::Recurrent(_));
    let mut builder = PrimitiveDesc::builder(anchor.op).label(label(program, &ops));
    for (arg, value) in anchor.args.iter().chain(&anchor.extra) {
        let weights = *arg == Arg::Weights || (several && *arg == Arg::Src(1));
        let desc = if weights { matmul::open_weights(program, value) } else { value.desc.clone() };
        builder = builder.arg(*arg, desc);
    }
    let mut args = anchor.args;
    args.append(&mut anchor.extra);
    args.append(&mut list.operands);
    for Dequantized { operand, scale, zero_point, fpmath } in dequantized {
        if attributes.fpmath == FpMath::Strict {
            attributes.fpmath = fpmath;
        }
        attributes = attributes.with_dequantize(Dequantize {
            operand,
            scale: Some(scale.desc.clone()),
            zero_point: zero_point.as_ref().map(|value| value.desc.clone()),
        });
        args.push((Arg::ScaleOf(operand), scale));
        args.extend(zero_point.map(|value| (Arg::ZeroPointOf(operand), value)));
    }
    let desc = builder.dst(dst.desc.clone()).attributes(attributes).build()?;
    args.push((Arg::DST, dst));
    program.emit(desc, args, ops);
    follow_views(program, &behind, chain.result)
}

/// Does the views that a store could not do, and makes what is behind them the chain's result.
fn follow_views(program: &mut Program<'_>, behind: &[usize], result: TensorId) -> Result<()> {
    let Some(&last) = behind.last() else { return Ok(()) };
    for &view in behind {
        views::view(program, view)?;
    }
    let viewed = program.graph.ops()[last].outputs[0];
    if viewed == result {
        return Ok(());
    }
    // Casts and reorders between and behind the views are done by the store already.
    let value = program.value(viewed)?;
    let wanted = declared(program.graph, result)?;
    if value.desc.data_type() == wanted.data_type() {
        program.alias(result, value);
        return Ok(());
    }
    let dst = program.result(result)?;
    views::copy(program, value, dst, vec![last])
}

/// The names of operations, as a primitive that computes them is called.
pub(super) fn label(program: &Program<'_>, ops: &[usize]) -> String {
    ops.iter().map(|&i| program.graph.ops()[i].name.as_str()).collect::<Vec<_>>().join("+")
}

/// Where the chain's result is stored, seen in the shape before its views; and the views that must follow because it cannot be.
fn target(program: &mut Program<'_>, chain: &Chain) -> Result<(Value, Vec<usize>)> {
    let graph = program.graph;
    let result = program.result(chain.result)?;
    let mut desc = Ok(result.desc.clone());
    for &view in chain.views.iter().rev() {
        let op = &graph.ops()[view];
        let before = declared(graph, op.inputs[0])?.dims().clone();
        desc = desc.and_then(|desc| views::unviewed(op, &desc, before));
    }
    match desc {
        Ok(desc) => Ok((result.with_desc(desc), Vec::new())),
        Err(Error::Unsupported { .. }) => {
            let before = graph.ops()[chain.views[0]].inputs[0];
            let dims = declared(graph, before)?.dims().clone();
            let dense = program.temp(MemoryDesc::new(dims, result.desc.data_type()));
            program.alias(before, dense.clone());
            Ok((dense, chain.views.clone()))
        }
        Err(error) => Err(error),
    }
}

/// Post-operations and their operands so far.
struct PostOpList {
    post_ops: Vec<PostOp>,
    operands: Vec<(Arg, Value)>,
}

impl PostOpList {
    /// Dequantises the result by one scale. Where it is quantised at once, both are one step, so that means of integers that lie halfway
    /// between two steps stay there. Gives the links that are left.
    fn rescale<'c>(
        &mut self,
        program: &mut Program<'_>,
        anchor: &Anchor,
        scales: &Scales,
        links: &'c [Link],
    ) -> Result<&'c [Link]> {
        let Scales::Number { scale, zero_point } = *scales else { return Ok(links) };
        let shift = |alpha: f32| if zero_point == 0 { 0.0 } else { -alpha * zero_point as f32 };
        if let [Link::Quantize(index), rest @ ..] = links
            && let op = &program.graph.ops()[*index]
            && rounds_first(op)
            && let own @ Scales::Number { scale: own_scale, .. } = Scales::of(program, op)?
        {
            let alpha = scale / own_scale;
            self.round_first(program, anchor, op, &own, [alpha, shift(alpha)])?;
            return Ok(rest);
        }
        self.linear(scale, shift(scale));
        Ok(links)
    }

    fn add(&mut self, program: &mut Program<'_>, anchor: &mut Anchor, link: &Link) -> Result<()> {
        let op = |index: usize| &program.graph.ops()[index];
        match link {
            Link::Unary(index) => self.post_ops.push(PostOp::Eltwise(eltwise_of(op(*index))?)),
            Link::Gated(index) => self.post_ops.push(PostOp::Eltwise(gated_eltwise(op(*index))?)),
            Link::Bias(index) => self.bias(program, anchor, op(*index))?,
            Link::BatchNorm(index) => self.batch_norm(program, anchor, op(*index), *index)?,
            Link::Select { op: index, chain_input } => {
                let op = op(*index);
                let condition = self.shaped(program, anchor, op, &input(program, op, 0)?)?;
                let other = self.shaped(program, anchor, op, &input(program, op, 3 - chain_input)?)?;
                let at = self.post_ops.len() as u16;
                self.post_ops.push(PostOp::Select {
                    condition: condition.desc.clone(),
                    other: other.desc.clone(),
                    other_where_true: *chain_input == 2,
                });
                self.operands.extend([(Arg::PostOp(at), condition), (Arg::PostOpOther(at), other)]);
            }
            Link::Binary { op: index, chain_input, other } => {
                let op = op(*index);
                let algorithm = binary_of(op.kind)
                    .ok_or_else(|| Error::unsupported(op.kind.to_string(), "not a binary operation"))?;
                let read = other.read(program)?;
                let reversed = *chain_input == 1 && !algorithm.is_commutative();
                match read.scales {
                    None => self.binary(program, anchor, op, algorithm, &read.value, reversed)?,
                    Some(scales) if algorithm == BinaryAlgorithm::Multiply => {
                        self.binary(program, anchor, op, algorithm, &read.value, reversed)?;
                        self.multiply(program, anchor, op, &scales)?;
                    }
                    Some(scales) => {
                        // In the other's units: x + (o - z) * s = (x / s - z + o) * s.
                        let shift = if algorithm == BinaryAlgorithm::Add { -1 } else { 1 };
                        self.divide(program, anchor, op, &scales, shift)?;
                        self.binary(program, anchor, op, algorithm, &read.value, reversed)?;
                        self.multiply(program, anchor, op, &scales)?;
                    }
                }
            }
            Link::Quantize(index) => {
                let op = op(*index);
                let scales = Scales::of(program, op)?;
                if rounds_first(op) {
                    let alpha = if let Scales::Number { scale, .. } = scales { 1.0 / scale } else { 1.0 };
                    self.round_first(program, anchor, op, &scales, [alpha, 0.0])?;
                } else {
                    self.divide(program, anchor, op, &scales, 1)?;
                }
            }
        }
        Ok(())
    }

    /// Multiplication by `alpha`, or division by tensors of scales, rounded before the zero points are added.
    fn round_first(
        &mut self,
        program: &mut Program<'_>,
        anchor: &Anchor,
        op: &Op,
        scales: &Scales,
        [alpha, beta]: [f32; 2],
    ) -> Result<()> {
        self.linear(alpha, beta);
        if let Scales::Tensors { scale, .. } = scales {
            self.binary(program, anchor, op, BinaryAlgorithm::Divide, scale, false)?;
        }
        self.post_ops.push(PostOp::Eltwise(Eltwise::Round));
        match scales {
            Scales::Number { zero_point, .. } => self.linear(1.0, *zero_point as f32),
            Scales::Tensors { zero_point: Some(zp), .. } => {
                self.binary(program, anchor, op, BinaryAlgorithm::Add, zp, false)?;
            }
            Scales::Tensors { zero_point: None, .. } => {}
        }
        Ok(())
    }

    /// Division by scales, then the zero points added or (`shift` of -1) subtracted.
    fn divide(
        &mut self,
        program: &mut Program<'_>,
        anchor: &Anchor,
        op: &Op,
        scales: &Scales,
        shift: i32,
    ) -> Result<()> {
        match scales {
            Scales::Number { scale, zero_point } => {
                self.linear(1.0 / scale, (shift * zero_point) as f32);
                Ok(())
            }
            Scales::Tensors { scale, zero_point } => {
                self.binary(program, anchor, op, BinaryAlgorithm::Divide, scale, false)?;
                let algorithm = if shift < 0 { BinaryAlgorithm::Subtract } else { BinaryAlgorithm::Add };
                zero_point.iter().try_for_each(|zp| self.binary(program, anchor, op, algorithm, zp, false))
            }
        }
    }

    /// Multiplication by scales.
    fn multiply(
        &mut self,
        program: &mut Program<'_>,
        anchor: &Anchor,
        op: &Op,
        scales: &Scales,
    ) -> Result<()> {
        match scales {
            Scales::Number { scale, .. } => {
                self.linear(*scale, 0.0);
                Ok(())
            }
            Scales::Tensors { scale, .. } => {
                self.binary(program, anchor, op, BinaryAlgorithm::Multiply, scale, false)
            }
        }
    }

    fn linear(&mut self, alpha: f32, beta: f32) {
        if (alpha, beta) != (1.0, 0.0) {
            self.post_ops.push(PostOp::Eltwise(Eltwise::Linear { alpha, beta }));
        }
    }

    /// A binary post-operation; the operand is viewed in the primitive's shape.
    fn binary(
        &mut self,
        program: &Program<'_>,
        anchor: &Anchor,
        op: &Op,
        algorithm: BinaryAlgorithm,
        operand: &Value,
        reversed: bool,
    ) -> Result<()> {
        let operand = self.shaped(program, anchor, op, operand)?;
        self.operands.push((Arg::PostOp(self.post_ops.len() as u16), operand.clone()));
        self.post_ops.push(PostOp::Binary { algorithm, operand: operand.desc, reversed });
        Ok(())
    }

    /// An operand of a post-operation in the primitive's shape.
    fn shaped(&self, program: &Program<'_>, anchor: &Anchor, op: &Op, operand: &Value) -> Result<Value> {
        if operand.desc.elements() == 1 {
            // Of any rank: behind a view the result has another one. Only a scalar broadcasts to a scalar.
            let ones = vec![1; result_rank(program, op)?.min(1)];
            return Ok(operand.with_desc(operand.desc.reshaped(ones)?));
        }
        let rank = result_rank(program, op)?;
        Ok(operand.with_desc(anchor.shape.apply(&operand.desc, rank)?))
    }

    /// `BiasAdd`: the primitive's own bias where it has one to give, else an addition.
    fn bias(&mut self, program: &Program<'_>, anchor: &mut Anchor, op: &Op) -> Result<()> {
        let bias = input(program, op, 1)?;
        let rank = result_rank(program, op)?;
        let channel = channel_axis(op, rank)?;
        let free = self.post_ops.is_empty() && !anchor.args.iter().any(|(arg, _)| *arg == Arg::Bias);
        let along_channels = match &anchor.op {
            anydnn_backend::Op::MatMul(_) => anchor.shape.insert.is_empty() && channel + 1 == rank,
            anydnn_backend::Op::Convolution(_) | anydnn_backend::Op::Deconvolution(_) => {
                channel == anchor.shape.order.as_ref().map_or(1, |order| order[1])
            }
            _ => false,
        };
        if free && along_channels {
            anchor.args.push((Arg::Bias, bias));
            return Ok(());
        }
        let vector = along(&bias, channel, rank)?;
        self.binary(program, anchor, op, BinaryAlgorithm::Add, &vector, false)
    }

    /// `BatchNormInference`: a factor and a summand for each channel, computed once when the statistics are constants.
    fn batch_norm(
        &mut self,
        program: &mut Program<'_>,
        anchor: &Anchor,
        op: &Op,
        index: usize,
    ) -> Result<()> {
        let [gamma, beta, mean, variance] =
            [input(program, op, 1)?, input(program, op, 2)?, input(program, op, 3)?, input(program, op, 4)?];
        let epsilon = op.attrs.f32("epsilon")?;
        // In f32 whatever the statistics are stored in: with means far from zero the two cancel, and a rounded factor would show.
        let vector = MemoryDesc::new(gamma.desc.dims().clone(), DataType::F32);
        // factor = (variance + epsilon)^-1/2 * gamma
        let factor = program.temp(vector.clone().labelled(format!("{} factor", op.name)));
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Pow { alpha: 1.0, beta: -0.5 }))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, gamma.desc.clone()));
        let args = vec![(Arg::SRC, variance), (Arg::PostOp(1), gamma), (Arg::DST, factor.clone())];
        let add_epsilon = anydnn_backend::Op::Eltwise(Eltwise::Linear { alpha: 1.0, beta: epsilon });
        emit_simple(program, add_epsilon, attributes, args, &format!("{} factor", op.name), vec![index])?;
        // summand = beta - mean * factor
        let summand = program.temp(vector.labelled(format!("{} summand", op.name)));
        let subtract = PostOp::Binary {
            algorithm: BinaryAlgorithm::Subtract,
            operand: beta.desc.clone(),
            reversed: true,
        };
        let args = vec![
            (Arg::Src(0), mean),
            (Arg::Src(1), factor.clone()),
            (Arg::PostOp(0), beta),
            (Arg::DST, summand.clone()),
        ];
        let multiply = anydnn_backend::Op::Binary(Binary::new(BinaryAlgorithm::Multiply));
        emit_simple(
            program,
            multiply,
            Attributes::default().with_post_op(subtract),
            args,
            &format!("{} summand", op.name),
            vec![index],
        )?;
        let rank = result_rank(program, op)?;
        let channel = channel_axis(op, rank)?;
        self.binary(program, anchor, op, BinaryAlgorithm::Multiply, &along(&factor, channel, rank)?, false)?;
        self.binary(program, anchor, op, BinaryAlgorithm::Add, &along(&summand, channel, rank)?, false)
    }
}

/// A vector laid along one dimension of a tensor of `rank` dimensions.
fn along(vector: &Value, axis: usize, rank: usize) -> Result<Value> {
    let mut dims = vec![1; rank];
    if let Some(dim) = dims.get_mut(axis) {
        *dim = vector.desc.elements();
    }
    Ok(vector.with_desc(vector.desc.reshaped(dims)?))
}

fn result_rank(program: &Program<'_>, op: &Op) -> Result<usize> {
    let id: TensorId =
        *op.outputs.first().ok_or_else(|| Error::invalid("operation", "outputs", "none", "one"))?;
    Ok(declared(program.graph, id)?.rank())
}
