//! The gradients beside differences of the layer's results.

use super::super::compute;
use super::*;
use crate::conformance::values::Values;
use crate::op::GateOrder;
use crate::{DataType, MemoryDesc, PrimitiveDesc};

const SIZES: [usize; 4] = [3, 2, 3, 4];

/// Operands of the layer and the gradients by them.
const PAIRS: [(Arg, Arg); 10] = [
    (Arg::SRC, Arg::DST),
    (Recurrent::INITIAL_STATE, Backward::DIFF_INITIAL_STATE),
    (Recurrent::INITIAL_CELL, Backward::DIFF_INITIAL_CELL),
    (Arg::Weights, Backward::DIFF_WEIGHTS),
    (Recurrent::STATE_WEIGHTS, Backward::DIFF_STATE_WEIGHTS),
    (Arg::Bias, Backward::DIFF_BIAS),
    (Recurrent::STATE_BIAS, Backward::DIFF_STATE_BIAS),
    (Recurrent::PEEPHOLES, Backward::DIFF_PEEPHOLES),
    (Recurrent::ATTENTION, Backward::DIFF_ATTENTION),
    (Recurrent::PROJECTION, Backward::DIFF_PROJECTION),
];

fn f64(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F64)
}

/// A layer with all operands that its cell may have.
fn layer(op: Recurrent, projected: bool) -> PrimitiveDesc {
    let [steps, batch, inputs, hidden] = SIZES;
    let (d, g) = (op.direction.count(), op.cell.gates());
    let shown = if op.direction == Direction::Sum { 1 } else { d };
    let units = if projected { 2 } else { hidden };
    let mut builder = PrimitiveDesc::builder(op)
        .src(f64(&[steps, batch, inputs]))
        .src(f64(&[d, units, g, hidden]))
        .weights(f64(&[d, inputs, g, hidden]))
        .bias(f64(&[d, g, hidden]))
        .dst(f64(&[steps, batch, shown, units]))
        .arg(Recurrent::STATE_BIAS, f64(&[d, g, hidden]))
        .arg(Recurrent::INITIAL_STATE, f64(&[d, batch, units]))
        .arg(Recurrent::LENGTHS, MemoryDesc::new([batch], DataType::S32))
        .arg(Recurrent::LAST_STATE, f64(&[d, batch, units]))
        .arg(Recurrent::WORKSPACE, f64(&[d, steps, batch, op.cell.rows(), hidden]));
    if op.cell.is_lstm() {
        builder = builder
            .arg(Recurrent::INITIAL_CELL, f64(&[d, batch, hidden]))
            .arg(Recurrent::LAST_CELL, f64(&[d, batch, hidden]))
            .arg(Recurrent::PEEPHOLES, f64(&[d, 3, hidden]));
    }
    if op.cell.is_gru() {
        builder = builder.arg(Recurrent::ATTENTION, f64(&[steps, batch, 1]));
    }
    if projected {
        builder = builder.arg(Recurrent::PROJECTION, f64(&[d, hidden, units]));
    }
    builder.build().unwrap()
}

fn inputs(desc: &PrimitiveDesc) -> Tensors {
    let read = desc.args().iter().filter(|operand| operand.access.reads());
    read.enumerate()
        .map(|(i, operand)| {
            let values = match operand.arg {
                Recurrent::LENGTHS => vec![3.0, 2.0],
                _ => Values::Uniform(-1.0, 1.0).draw(operand.desc.elements(), i as u64 + 1),
            };
            (operand.arg, Tensor::new(operand.desc.dims().clone(), values).unwrap())
        })
        .collect()
}

/// A sum of all results with random factors, which are the gradients by the results.
fn loss(results: &Tensors, factors: &Tensors) -> f64 {
    let of = |(arg, factors): (&Arg, &Tensor)| -> f64 {
        factors.values.iter().zip(&results[arg].values).map(|(a, b)| a * b).sum()
    };
    factors.iter().map(of).sum()
}

fn check(op: Recurrent, projected: bool) {
    let desc = layer(op, projected);
    let given = inputs(&desc);
    let results = compute(&desc, &given).unwrap();
    let of_results = [Arg::DST, Recurrent::LAST_STATE, Recurrent::LAST_CELL];
    let factors: Tensors = of_results
        .into_iter()
        .filter_map(|arg| {
            let dims = desc.find(arg)?.dims().clone();
            let values = Values::Uniform(-1.0, 1.0).draw(dims.elements(), 77);
            Some((arg, Tensor::new(dims, values).unwrap()))
        })
        .collect();
    let mut builder = PrimitiveDesc::builder(Backward::new(op));
    let mut known = Tensors::new();
    let kept = [Arg::SRC, Arg::Weights, Recurrent::STATE_WEIGHTS, Recurrent::LENGTHS, Recurrent::PEEPHOLES];
    for arg in kept.into_iter().chain([Recurrent::ATTENTION, Recurrent::PROJECTION]) {
        let Some(desc) = desc.find(arg) else { continue };
        builder = builder.arg(arg, desc.clone());
        known.insert(arg, given[&arg].clone());
    }
    let renamed = [
        (Arg::DST, Backward::DIFF_DST, &factors),
        (Recurrent::LAST_STATE, Backward::DIFF_LAST_STATE, &factors),
        (Recurrent::LAST_CELL, Backward::DIFF_LAST_CELL, &factors),
        (Recurrent::WORKSPACE, Backward::WORKSPACE, &results),
    ];
    for (from, to, tensors) in renamed {
        let Some(desc) = desc.find(from) else { continue };
        builder = builder.arg(to, desc.clone());
        known.insert(to, tensors[&from].clone());
    }
    for (operand, gradient) in PAIRS {
        let Some(desc) = desc.find(operand) else { continue };
        builder = builder.arg(gradient, desc.clone());
    }
    let gradients = compute(&builder.build().unwrap(), &known).unwrap();
    for (operand, gradient) in PAIRS {
        let Some(tensor) = given.get(&operand) else { continue };
        for i in 0..tensor.values.len() {
            let moved = |by: f64| {
                let mut given = given.clone();
                given.get_mut(&operand).unwrap().values[i] += by;
                loss(&compute(&desc, &given).unwrap(), &factors)
            };
            let step = 1e-5;
            let expected = (moved(step) - moved(-step)) / (2.0 * step);
            let own = gradients[&gradient].values[i];
            assert!((own - expected).abs() < 1e-7, "{op:?}: {gradient}[{i}] is {own}, expected {expected}");
        }
    }
}

#[test]
fn gradients_are_what_differences_say() {
    let directions = [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum];
    for direction in directions {
        for cell in [
            Cell::Vanilla(Activation::Relu),
            Cell::Vanilla(Activation::LeakyRelu { alpha: 0.25 }),
            Cell::Vanilla(Activation::Tanh),
            Cell::Vanilla(Activation::Logistic),
            Cell::Lstm(GateOrder::InputForgetCandidateOutput),
            Cell::Lstm(GateOrder::InputOutputForgetCandidate),
            Cell::Gru,
            Cell::GruLinearBeforeReset,
        ] {
            check(Recurrent::new(cell, direction), false);
        }
        check(Recurrent::new(Cell::Lstm(GateOrder::InputForgetCandidateOutput), direction), true);
    }
}
