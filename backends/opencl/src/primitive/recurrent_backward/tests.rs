//! Layers that keep what gradients read, and gradients: what they launch, and the kernels for every kind of device.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{Cell, Direction, GateOrder, Recurrent, RecurrentBackward as Backward};
use anydnn_backend::{Arg, PrimitiveDesc, PrimitiveDescBuilder};

use crate::plan::KernelPlan;
use crate::primitive::tests::{check_everywhere, cpu, f32, gpu, planned};

const LSTM: Cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);

fn layer(op: Recurrent, [steps, batch, inputs, hidden]: [usize; 4]) -> PrimitiveDescBuilder {
    let (d, g) = (op.direction.count(), op.cell.gates());
    PrimitiveDesc::builder(op)
        .src(f32(&[steps, batch, inputs]))
        .src(f32(&[d, hidden, g, hidden]))
        .weights(f32(&[d, inputs, g, hidden]))
        .bias(f32(&[d, g, hidden]))
        .arg(Recurrent::WORKSPACE, f32(&[d, steps, batch, op.cell.rows(), hidden]))
}

fn gradients(op: Recurrent, [steps, batch, inputs, hidden]: [usize; 4]) -> PrimitiveDescBuilder {
    let (d, g) = (op.direction.count(), op.cell.gates());
    PrimitiveDesc::builder(Backward::new(op))
        .src(f32(&[steps, batch, inputs]))
        .src(f32(&[d, hidden, g, hidden]))
        .weights(f32(&[d, inputs, g, hidden]))
        .arg(Backward::DIFF_DST, f32(&[steps, batch, d, hidden]))
        .arg(Backward::WORKSPACE, f32(&[d, steps, batch, op.cell.rows(), hidden]))
        .arg(Backward::DIFF_WEIGHTS, f32(&[d, inputs, g, hidden]))
        .arg(Backward::DIFF_STATE_WEIGHTS, f32(&[d, hidden, g, hidden]))
        .arg(Backward::DIFF_BIAS, f32(&[d, g, hidden]))
}

fn text(plan: &KernelPlan, kernel: &str) -> String {
    let launches: Vec<_> = plan.launches.iter().filter(|launch| launch.kernel == kernel).collect();
    assert_eq!(launches.len(), 1, "{kernel}");
    launches[0].program.source.to_string()
}

#[test]
fn the_steps_are_one_launch_whose_program_does_not_depend_on_their_number() {
    for cell in [LSTM, Cell::Gru, Cell::GruLinearBeforeReset] {
        let op = Recurrent::new(cell, Direction::Concat);
        for (device, of_layer) in [(cpu(), "recurrent_panels"), (gpu(), "recurrent_training")] {
            for (make, kernel) in [
                (layer as fn(Recurrent, [usize; 4]) -> PrimitiveDescBuilder, of_layer),
                (gradients, "recurrent_backward"),
            ] {
                let of = |steps| planned(make(op, [steps, 2, 48, 80]), &device);
                let (short, long) = (of(50), of(1_000));
                assert!(text(&short, kernel) == text(&long, kernel), "{kernel} of {cell:?}");
            }
        }
    }
}

#[test]
fn half_floats_are_not_added_up_in() {
    let op = Recurrent::new(Cell::Gru, Direction::Concat);
    let of = |data_type| {
        let dst = anydnn_backend::MemoryDesc::new([3, 2, 8], data_type);
        planned(gradients(op, [3, 2, 8, 16]).arg(Arg::DST, dst), &cpu()).launches.len()
    };
    assert!(of(anydnn_backend::DataType::BF16) > of(anydnn_backend::DataType::F32));
}

#[test]
fn gradients_run_by_the_kernels_of_every_kind_of_device() {
    let values = |arg: Arg| match arg {
        Arg::Weights | Recurrent::STATE_WEIGHTS => Some(Values::Uniform(-0.15, 0.15)),
        Backward::WORKSPACE => Some(Values::Uniform(0.0, 0.9)),
        _ => None,
    };
    let mut list = Vec::new();
    for cell in [LSTM, Cell::Gru, Cell::GruLinearBeforeReset] {
        let op = Recurrent::new(cell, Direction::Concat);
        list.push(layer(op, [4, 3, 9, 37]).build().unwrap());
        list.push(gradients(op, [4, 3, 9, 37]).build().unwrap());
    }
    check_everywhere(&list, values);
}
