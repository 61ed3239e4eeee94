//! The chain behind an anchor, as post-operations of its primitive.

use anydnn_backend::op::{Binary, BinaryAlgorithm, Eltwise};
use anydnn_backend::{Arg, Attributes, DataType, Error, MemoryDesc, PostOp, PrimitiveDesc, Result};

use super::pointwise::{binary_of, eltwise_of};
use super::{Anchor, channel_axis, emit_simple, input, matmul};
use crate::compile::program::{Program, Value};
use crate::fusion::{Link, Partition, Role};
use crate::graph::Op;

/// Emits the anchor's primitive with the chain's post-operations.
pub(super) fn emit(
    program: &mut Program<'_>,
    partition: &Partition,
    op: &Op,
    mut anchor: Anchor,
) -> Result<()> {
    let graph = program.graph;
    let mut tail = Tail { post_ops: Vec::new(), operands: Vec::new() };
    let mut last = op;
    for link in &partition.links[1..] {
        last = &graph.ops()[link.op];
        tail.add(program, &mut anchor, link, last).map_err(|error| error.at(last.to_string()))?;
    }
    let out = *last.outputs.first().ok_or_else(|| Error::invalid("operation", "outputs", "none", "one"))?;
    let result = program.result(out)?;
    let dst = result.with_desc(anchor.shape.apply(&result.desc, result.desc.rank())?);
    let attributes = tail
        .post_ops
        .into_iter()
        .fold(Attributes::default().with_fpmath(graph.fpmath()), Attributes::with_post_op);
    let label = partition.ops.iter().map(|&i| graph.ops()[i].name.as_str()).collect::<Vec<_>>().join("+");
    let mut builder = PrimitiveDesc::builder(anchor.op).label(label);
    for (arg, value) in anchor.args.iter().chain(&anchor.extra) {
        let desc =
            if *arg == Arg::Weights { matmul::open_weights(program, value) } else { value.desc.clone() };
        builder = builder.arg(*arg, desc);
    }
    let desc = builder.dst(dst.desc.clone()).attributes(attributes).build()?;
    let mut args = anchor.args;
    args.append(&mut anchor.extra);
    args.append(&mut tail.operands);
    args.push((Arg::DST, dst));
    program.emit(desc, args, partition.ops.clone());
    Ok(())
}

/// Post-operations and their operands so far.
struct Tail {
    post_ops: Vec<PostOp>,
    operands: Vec<(Arg, Value)>,
}

impl Tail {
    fn add(&mut self, program: &mut Program<'_>, anchor: &mut Anchor, link: &Link, op: &Op) -> Result<()> {
        match link.role {
            Role::Anchor | Role::Cast => {}
            Role::Unary => self.post_ops.push(PostOp::Eltwise(eltwise_of(op)?)),
            Role::Swish => self.post_ops.push(PostOp::Eltwise(Eltwise::Swish { alpha: 1.0 })),
            Role::Binary { chain_input } => {
                let algorithm = binary_of(op.kind)
                    .ok_or_else(|| Error::unsupported(op.kind.to_string(), "not a binary operation"))?;
                let operand = input(program, op, 1 - chain_input)?;
                let reversed = chain_input == 1 && !algorithm.is_commutative();
                self.binary(program, anchor, op, algorithm, &operand, reversed)?;
            }
            Role::Bias => self.bias(program, anchor, op)?,
            Role::BatchNorm => self.batch_norm(program, anchor, op, link.op)?,
        }
        Ok(())
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
        let rank = result_rank(program, op)?;
        let operand = operand.with_desc(anchor.shape.apply(&operand.desc, rank)?);
        self.operands.push((Arg::PostOp(self.post_ops.len() as u16), operand.clone()));
        self.post_ops.push(PostOp::Binary { algorithm, operand: operand.desc, reversed });
        Ok(())
    }

    /// `BiasAdd`: the primitive's own bias where it has one to give, else an addition.
    fn bias(&mut self, program: &Program<'_>, anchor: &mut Anchor, op: &Op) -> Result<()> {
        let bias = input(program, op, 1)?;
        let rank = result_rank(program, op)?;
        let channel = channel_axis(op, rank)?;
        let free = self.post_ops.is_empty() && !anchor.args.iter().any(|(arg, _)| *arg == Arg::Bias);
        let along_channels = match &anchor.op {
            anydnn_backend::Op::MatMul(_) => anchor.shape.insert.is_empty() && channel + 1 == rank,
            anydnn_backend::Op::Convolution(_) => {
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
    let id = op.outputs.first().ok_or_else(|| Error::invalid("operation", "outputs", "none", "one"))?;
    Ok(crate::compile::program::declared(program.graph, *id)?.rank())
}
