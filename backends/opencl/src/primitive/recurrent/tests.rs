//! Recurrent layers: what they launch, and the kernels for every kind of device.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{Activation, Cell, Direction, GateOrder, Recurrent};
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc, PrimitiveDescBuilder};

use crate::capability::Feature;
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
        for (device, name) in [(cpu(), "panels"), (gpu(), "single-group")] {
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
    // Of one step units are independent where no reset gate has changed the states that they read.
    assert_eq!(shared([1, 1, 400, 400]), ([2, 1, 1], false));
    // Too few weights, and sequences enough for each unit to have its own.
    assert_eq!(shared([300, 1, 64, 64]), ([1, 1, 1], false));
    assert_eq!(shared([2, 1, 400, 400]), ([1, 1, 1], false));
    assert_eq!(shared([300, 32, 256, 256]), ([1, 2, 1], false));
    // More weights than caches keep for each.
    assert_eq!(shared([300, 32, 600, 600]), ([2, 1, 1], true));
}

#[test]
fn panels_are_narrow_where_work_groups_share_a_step() {
    let width = |sizes| {
        let plan = planned(layer(Recurrent::new(Cell::Gru, Direction::LeftToRight), sizes, true), &cpu());
        let text = last_source(&plan);
        let line = text.lines().find_map(|line| line.strip_prefix("#define VECTORS "));
        line.unwrap().trim().parse::<usize>().unwrap()
    };
    assert_eq!(width([50, 1, 400, 400]), 1);
    assert_eq!([width([50, 1, 64, 64]), width([300, 32, 256, 256]), width([1, 1, 400, 400])], [2, 2, 2]);
}

#[test]
fn tiles_are_as_large_as_registers_and_not_as_vectors_that_a_compiler_prefers() {
    let op = Recurrent::new(LSTM, Direction::LeftToRight);
    let tile = |float_lanes| {
        let device = DeviceTraits { float_lanes, ..cpu() }.with(Feature::VectorWidth, Ok("1 floats"));
        let text = last_source(&planned(layer(op, [100, 32, 512, 512], true), &device));
        ["ROWS", "AT_ONCE"].map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            line.unwrap().trim().parse::<usize>().unwrap()
        })
    };
    assert_eq!([tile(16), tile(8)], [[4, 4], [2, 2]]);
}

/// What is not to be waited for is the loop behind it, which runs where work-groups gave up.
#[test]
fn weights_of_16_bits_stay_in_registers_where_units_multiply_them() {
    let device = DeviceTraits { compute_units: 132, ..gpu().with(Feature::NvidiaMma, Ok("made up")) };
    let of = |cell, direction, [steps, batch, inputs, hidden]: [usize; 4], data_type| {
        let (d, g) = (Direction::count(direction), Cell::gates(cell));
        let tensor = |dims: &[usize]| MemoryDesc::new(dims, data_type);
        let shown = if direction == Direction::Sum { 1 } else { d };
        let builder = PrimitiveDesc::builder(Recurrent::new(cell, direction))
            .src(tensor(&[steps, batch, inputs]))
            .src(tensor(&[d, hidden, g, hidden]))
            .weights(tensor(&[d, inputs, g, hidden]))
            .dst(tensor(&[steps, batch, shown, hidden]));
        let plan = planned(builder, &device);
        let groups = plan.launches.iter().filter(|launch| launch.kernel == "recurrent_resident");
        let groups = groups.map(|l| [l.global[0] / l.local.unwrap()[0], l.global[1]]).collect::<Vec<_>>();
        (plan.implementation.clone(), groups, kernels(&plan).last().unwrap().to_string())
    };
    let resident = |groups: &[[usize; 2]]| {
        ("ocl:recurrent:resident".to_owned(), groups.to_vec(), "recurrent_reference".to_owned())
    };
    let f16 = DataType::F16;
    assert_eq!(of(LSTM, Direction::LeftToRight, [512, 64, 1024, 1024], f16), resident(&[[128, 1]]));
    assert_eq!(of(LSTM, Direction::Concat, [9, 3, 128, 128], DataType::BF16), resident(&[[16, 2]]));
    // More than are on the device at once, and a direction that adds to what the other one has stored.
    assert_eq!(of(Cell::Gru, Direction::LeftToRight, [9, 200, 8, 500], f16), resident(&[[63, 2], [63, 2]]));
    assert_eq!(of(Cell::Gru, Direction::Sum, [9, 3, 8, 500], f16), resident(&[[63, 1], [63, 1]]));
    let ordinary = |cell, sizes| of(cell, Direction::LeftToRight, sizes, DataType::F32);
    let (implementation, groups, _) = ordinary(LSTM, [9, 64, 64, 1024]);
    assert_eq!((&*implementation, groups), ("ocl:recurrent:resident-simt", vec![[128, 1]]));
    let tanh = Cell::Vanilla(Activation::Tanh);
    assert_eq!(ordinary(tanh, [9, 65, 64, 200]).1, [[7, 2]]);
    assert_eq!(ordinary(LSTM, [9, 64, 64, 2048]).0, "ocl:recurrent:looped");
    assert_eq!(of(LSTM, Direction::LeftToRight, [9, 64, 64, 2048], f16).0, "ocl:recurrent:looped");
}

/// As many weights as a work-group's registers hold, and as many work-groups as there are sequences, up to two for a compute unit.
#[test]
fn layers_of_few_units_have_a_work_group_to_themselves() {
    let device = gpu();
    let of = |cell, direction, sizes| {
        let plan = planned(layer(Recurrent::new(cell, direction), sizes, false), &device);
        let launches = plan.launches.iter().filter(|launch| launch.kernel == "recurrent_single_group");
        launches.map(|l| [l.global[0] / l.local.unwrap()[0], l.local.unwrap()[0]]).collect::<Vec<_>>()
    };
    let forward = |cell, sizes| of(cell, Direction::LeftToRight, sizes);
    assert_eq!(forward(Cell::GruLinearBeforeReset, [612, 5, 1, 20]), [[5, 96]]);
    assert_eq!(forward(LSTM, [71, 40, 17, 1]), [[40, 64]]);
    assert_eq!(of(LSTM, Direction::Concat, [71, 40, 17, 96]), [[80, 384]]);
    assert_eq!(of(Cell::Gru, Direction::Sum, [9, 300, 17, 100]), [[150, 336], [150, 336]]);
    // Too many weights, and too many sequences.
    assert!(forward(LSTM, [71, 40, 17, 97]).is_empty());
    assert!(forward(Cell::Gru, [71, 40, 17, 113]).is_empty());
    assert!(forward(LSTM, [71, 5000, 17, 20]).is_empty());
}

/// Sequences that end early, of one or of several to a work-group, which has room for more units than there are.
#[test]
fn layers_of_a_single_work_group_are_right_on_every_device() {
    let mut list = Vec::new();
    for cell in [LSTM, Cell::Gru, Cell::GruLinearBeforeReset, Cell::Vanilla(Activation::Tanh)] {
        for (direction, batch, hidden) in [
            (Direction::Concat, 3, 21),
            (Direction::Sum, 600, 5),
            (Direction::RightToLeft, 1057, 17),
            (Direction::LeftToRight, 265, 32),
        ] {
            let d = direction.count();
            let mut builder = layer(Recurrent::new(cell, direction), [7, batch, 3, hidden], false)
                .arg(Recurrent::LENGTHS, MemoryDesc::new([batch], DataType::S32))
                .arg(Recurrent::INITIAL_STATE, f32(&[d, batch, hidden]));
            if cell == Cell::GruLinearBeforeReset {
                builder = builder.arg(Recurrent::STATE_BIAS, f32(&[d, 3, hidden]));
            }
            if cell == LSTM {
                builder = builder
                    .arg(Recurrent::INITIAL_CELL, f32(&[d, batch, hidden]))
                    .arg(Recurrent::LAST_CELL, f32(&[d, batch, hidden]))
                    .arg(Recurrent::PEEPHOLES, f32(&[d, 3, hidden]));
            }
            list.push(builder.build().unwrap());
        }
    }
    for desc in &list {
        for engine in shared_test_engines() {
            let device = DeviceTraits { max_work_group: engine.traits().max_work_group, ..gpu() };
            let plan = plan(desc, &device).unwrap();
            assert_eq!(plan.implementation, "ocl:recurrent:single-group");
            check_on(&engine, plan, |arg| match arg {
                Recurrent::LENGTHS => Some(Values::Listed((0..2000).map(|i| f64::from(i % 9)).collect())),
                arg => values(arg),
            });
        }
    }
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
    let op = Recurrent::new(Cell::Vanilla(Activation::Tanh), Direction::RightToLeft);
    let builder = PrimitiveDesc::builder(op).src(f32(&[4, 2, 8])).src(blocked.clone()).weights(blocked);
    let desc = builder.dst(f32(&[4, 2, 1, 8])).build().unwrap();
    assert_eq!(plan(&desc, &gpu()).unwrap().implementation, "ocl:recurrent:ref");
    list.push(desc);
    check_everywhere(&list, values);
}

/// Most of them have no thread until others end: nobody may wait for them.
#[test]
fn work_groups_beyond_the_threads_stop_nothing() {
    // Units of a single step are divided between work-groups of which nobody waits.
    let of = |cell, steps, inputs| {
        layer(Recurrent::new(cell, Direction::LeftToRight), [steps, 1, inputs, 200], true)
    };
    let begun = of(LSTM, 1, 8).arg(Recurrent::INITIAL_STATE, f32(&[1, 1, 200]));
    for builder in [of(LSTM, 16, 8), of(Cell::Gru, 16, 8), of(Cell::Gru, 1, 400), begun] {
        let desc = builder.build().unwrap();
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
