//! Recurrent layers: what they launch, and the kernels for every kind of device.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{Cell, Direction, GateOrder, Recurrent};
use anydnn_backend::{Arg, MemoryDesc, PrimitiveDesc, PrimitiveDescBuilder};

use crate::plan::{DeviceTraits, KernelPlan};
use crate::primitive::plan;
use crate::primitive::tests::{check_everywhere, check_on, cpu, f32, gpu, planned};
use crate::testing::shared_test_engines;

const LSTM: Cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);

/// A layer with constant weights and final states.
fn layer(op: Recurrent, [steps, batch, inputs, hidden]: [usize; 4], open: bool) -> PrimitiveDescBuilder {
    let (d, g) = (op.direction.count(), op.cell.gates());
    let weights = |terms: usize| {
        let dims = [d, terms, g, hidden];
        if open { f32(&dims).to_any() } else { f32(&dims) }
    };
    let shown = if op.direction == Direction::Sum { 1 } else { d };
    PrimitiveDesc::builder(op)
        .src(f32(&[steps, batch, inputs]))
        .src(weights(hidden))
        .weights(weights(inputs))
        .bias(f32(&[d, g, hidden]))
        .arg(Recurrent::LAST_STATE, f32(&[d, batch, hidden]))
        .dst(f32(&[steps, batch, shown, hidden]))
}

fn last_source(plan: &KernelPlan) -> String {
    plan.launches.last().unwrap().program.source.to_string()
}

fn kernels(plan: &KernelPlan) -> Vec<&str> {
    plan.launches.iter().map(|launch| &*launch.kernel).collect()
}

#[test]
fn the_program_of_the_steps_does_not_depend_on_their_number() {
    for cell in [LSTM, Cell::Gru, Cell::GruLinearBeforeReset] {
        for (device, name) in [(cpu(), "panels"), (gpu(), "looped")] {
            let of = |steps| {
                planned(layer(Recurrent::new(cell, Direction::Concat), [steps, 2, 48, 80], true), &device)
            };
            let (short, long) = (of(500), of(10_000));
            assert_eq!(short.implementation, format!("ocl:recurrent:{name}"));
            assert_eq!(short.launches.len(), long.launches.len());
            assert!(last_source(&short) == last_source(&long), "{cell:?} on {:?}", device.kind);
        }
    }
}

#[test]
fn short_sequences_are_one_launch() {
    let op = Recurrent::new(LSTM, Direction::LeftToRight);
    assert_eq!(kernels(&planned(layer(op, [16, 1, 64, 64], true), &cpu())), ["recurrent_panels"]);
    // Weights of the user's layout are packed first, and the inputs multiplied on their own.
    let given = planned(layer(op, [16, 1, 64, 64], false), &cpu());
    assert!(given.launches.len() > 1);
    let long = planned(layer(op, [400, 1, 64, 64], true), &cpu());
    assert!(long.launches.len() > 1 && kernels(&long).last() == Some(&"recurrent_panels"));
}

#[test]
fn work_groups_share_what_pays_for_it() {
    let shared = |sizes| {
        let plan = planned(layer(Recurrent::new(Cell::Gru, Direction::LeftToRight), sizes, true), &cpu());
        let last = plan.launches.last().unwrap();
        (last.global, kernels(&plan).contains(&"recurrent_clear"))
    };
    assert_eq!(shared([300, 1, 600, 600]), ([2, 1, 1], true));
    // Too few weights, too few steps, and sequences enough for each unit to have its own.
    assert_eq!(shared([300, 1, 64, 64]), ([1, 1, 1], false));
    assert_eq!(shared([1, 1, 400, 400]), ([1, 1, 1], false));
    assert_eq!(shared([300, 32, 600, 600]), ([1, 2, 1], false));
}

/// Weights under which states do not all reach the bounds of their functions.
fn values(arg: Arg) -> Option<Values> {
    matches!(arg, Arg::Weights | Recurrent::STATE_WEIGHTS).then_some(Values::Uniform(-0.25, 0.25))
}

#[test]
fn layers_run_by_the_kernels_of_every_kind_of_device() {
    let mut list = Vec::new();
    for cell in [LSTM, Cell::Gru, Cell::GruLinearBeforeReset] {
        for direction in [Direction::Concat, Direction::Sum] {
            list.push(layer(Recurrent::new(cell, direction), [5, 3, 9, 37], false).build().unwrap());
        }
    }
    // Blocks that no matrix product reads.
    let blocked = MemoryDesc::with_tag([1, 8, 1, 8], anydnn_backend::DataType::F32, "aBcd4b").unwrap();
    let op = Recurrent::new(Cell::Vanilla(anydnn_backend::op::Activation::Tanh), Direction::RightToLeft);
    let builder = PrimitiveDesc::builder(op).src(f32(&[4, 2, 8])).src(blocked.clone()).weights(blocked);
    let desc = builder.dst(f32(&[4, 2, 1, 8])).build().unwrap();
    assert_eq!(plan(&desc, &gpu()).unwrap().implementation, "ocl:recurrent:ref");
    list.push(desc);
    check_everywhere(&list, values);
}

/// Most of them have no thread until others end: nobody may wait for them.
#[test]
fn work_groups_beyond_the_threads_stop_nothing() {
    for cell in [LSTM, Cell::Gru] {
        let desc =
            layer(Recurrent::new(cell, Direction::LeftToRight), [16, 1, 8, 200], true).build().unwrap();
        for engine in shared_test_engines() {
            let device = DeviceTraits { compute_units: 64, ..engine.traits() };
            let plan = plan(&desc, &device).unwrap();
            if plan.implementation == "ocl:recurrent:panels" {
                assert!(plan.launches.last().unwrap().global[0] > 4);
                check_on(&engine, plan, values);
            }
        }
    }
}
