use anydnn_backend::op::MatMul;
use anydnn_backend::{Attributes, Error, Event, ListStep, MapMode, Memory, Order, Part};

use super::*;
use crate::backend::memory::OpenClMemory;
use crate::testing::{hasty_test_engines, test_engines};

fn desc(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

fn linear(n: usize, alpha: f32, beta: f32, native: bool) -> PrimitiveDesc {
    let builder = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Linear { alpha, beta }));
    let builder = builder.attributes(Attributes::default().with_native(native));
    builder.src(desc(&[n])).dst(desc(&[n])).build().unwrap()
}

fn matmul() -> PrimitiveDesc {
    let builder = PrimitiveDesc::builder(Op::MatMul(MatMul));
    let builder =
        builder.src(desc(&[3, 5])).weights(desc(&[5, 4])).arg(Arg::Bias, desc(&[1, 4])).dst(desc(&[3, 4]));
    builder.attributes(Attributes::default().with_native(true)).build().unwrap()
}

/// The engines whose devices have native commands, which known processors do.
fn engines() -> impl Iterator<Item = OpenClEngine> {
    test_engines().into_iter().filter(|engine| {
        let device = engine.opencl_device();
        let has = device.has_native_commands();
        assert!(
            has || !["pocl", "intel"].contains(&device.alias().as_str()),
            "{device} has no native commands"
        );
        has
    })
}

fn filled(engine: &OpenClEngine, kind: MemoryKind, numbers: &[f32]) -> OpenClMemory {
    let memory = engine.create_memory(&desc(&[numbers.len()]), kind).unwrap();
    let mut mapping = memory.map(MapMode::Write).unwrap();
    let bytes = numbers.iter().flat_map(|number| number.to_ne_bytes());
    mapping.bytes_mut().iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    mapping.unmap().unwrap();
    memory
}

fn numbers(memory: &OpenClMemory) -> Vec<f32> {
    let mapping = memory.map(MapMode::Read).unwrap();
    let numbers = mapping.bytes().chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()));
    numbers.collect()
}

#[test]
fn what_takes_a_moment_is_native_where_that_is_permitted() {
    let name = |engine: &OpenClEngine, desc: &PrimitiveDesc| {
        engine.create_primitive(desc).unwrap().implementation().to_owned()
    };
    for engine in engines() {
        let is_native = |desc: &PrimitiveDesc| name(&engine, desc).starts_with("ocl:native:");
        let kept = engine.create_primitive(&linear(100, 2.0, 1.0, true)).unwrap();
        assert!(kept.native().is_some() && is_native(&matmul()));
        assert!(!is_native(&linear(100, 2.0, 1.0, false)), "nobody permits it");
        assert!(!is_native(&linear(100_000, 2.0, 1.0, true)), "it takes longer than a launch");
        // Also where one is there that could be taken again.
        let engine = engine.clone().with_native_commands(false);
        assert!(!name(&engine, &linear(100, 2.0, 1.0, true)).starts_with("ocl:native:"));
    }
    for engine in hasty_test_engines() {
        assert!(
            !name(&engine, &linear(100, 2.0, 1.0, true)).starts_with("ocl:native:"),
            "its programs are tested"
        );
    }
}

/// Products whose operands were made in several orders, in every kind of memory, at an offset or not, on both kinds of streams; the last one
/// is computed in place of its source.
#[test]
fn native_commands_find_their_operands_wherever_they_are() {
    let (x, w): (Vec<f32>, Vec<f32>) =
        ((0..15_u8).map(f32::from).collect(), (0..20_u8).map(f32::from).collect());
    let product =
        |i: usize| (0..5).map(|k| x[i / 4 * 5 + k] * w[k * 4 + i % 4]).sum::<f32>() + (i % 4) as f32;
    let expected: Vec<f32> = (0..12).map(product).collect();
    for engine in engines() {
        let (multiply, negate) = (engine.create_primitive(&matmul()).unwrap(), linear(12, -1.0, 0.0, true));
        let negate = engine.create_primitive(&negate).unwrap();
        for order in [Order::InOrder, Order::OutOfOrder] {
            let stream = engine.create_stream(&StreamDesc { order, ..StreamDesc::default() }).unwrap();
            for (case, &kind) in
                engine.memory_kinds().iter().cycle().take(4 * engine.memory_kinds().len()).enumerate()
            {
                let offset = 7 * (case % 2);
                let make = |arg: Arg| {
                    let (numbers, dims): (Vec<f32>, &[usize]) = match arg {
                        Arg::SRC => (x.clone(), &[3, 5]),
                        Arg::Weights => (w.clone(), &[5, 4]),
                        Arg::Bias => (vec![0.0, 1.0, 2.0, 3.0], &[1, 4]),
                        _ => (vec![f32::NAN; 12], &[3, 4]),
                    };
                    let numbers: Vec<f32> = std::iter::repeat_n(f32::NAN, offset).chain(numbers).collect();
                    (arg, filled(&engine, kind, &numbers).view(&desc(dims), 4 * offset).unwrap())
                };
                let mut args = [Arg::SRC, Arg::Weights, Arg::Bias, Arg::DST];
                args.rotate_left(case % 4);
                let mut args = args.map(make);
                args.sort_by_key(|(arg, _)| *arg == Arg::SRC);
                let done = stream.execute(&multiply, &args, &[]).unwrap();
                let (_, result) = args.iter().find(|(arg, _)| *arg == Arg::DST).unwrap();
                let result = result.view(&desc(&[12]), 0).unwrap();
                let in_place = [(Arg::SRC, result.clone()), (Arg::DST, result.clone())];
                stream.execute(&negate, &in_place, &[done]).unwrap().wait().unwrap();
                let negative: Vec<f32> = expected.iter().map(|number| -number).collect();
                assert_eq!(numbers(&result), negative, "{engine:?}: {kind}, {order:?}, case {case}");
            }
        }
    }
}

#[test]
fn neighbours_share_a_command() {
    for engine in engines() {
        // Doubled and one more by each of five steps, the third of which is a kernel.
        let step = |native| engine.create_primitive(&linear(64, 2.0, 1.0, native)).unwrap();
        let steps: Vec<ListStep<crate::OpenCl>> = (0..5)
            .map(|at| {
                let part = |slot| Part { slot, offset: 0 };
                let args = vec![(Arg::SRC, part(at % 2)), (Arg::DST, part((at + 1) % 2))];
                let waits_for = at.checked_sub(1).into_iter().collect();
                ListStep { primitive: step(at != 2), args, waits_for }
            })
            .collect();
        assert_eq!(crate::backend::list::OpenClList::new(&steps, 2).unwrap().unwrap().commands(), 3);
        let mut list = engine.ready(&steps, 2).unwrap().unwrap();
        for desc in
            [StreamDesc::default(), StreamDesc::out_of_order(), StreamDesc::default().with_profiling()]
        {
            let stream = engine.create_stream(&desc).unwrap();
            let kind = engine.memory_kinds()[0];
            let (first, second) = (filled(&engine, kind, &[1.0; 64]), filled(&engine, kind, &[0.0; 64]));
            list.enqueue(&stream, &[&first, &second], &[]).unwrap().wait().unwrap();
            assert_eq!(numbers(&second), [63.0; 64], "{engine:?}, {desc:?}");
            if desc.profiling {
                assert_eq!(stream.profile().unwrap().len(), 5, "each step is seen by itself");
            }
        }
    }
}

#[test]
fn failures_of_native_commands_are_those_of_their_events() {
    for engine in engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let native = primitive(&engine, &linear(8, 1.0, 0.0, true)).unwrap();
        let memory = filled(&engine, engine.memory_kinds()[0], &[0.0; 8]);
        let mut job = Job::default();
        // Without a result.
        job.add(&native, [(Arg::SRC, 0, 0)].into_iter());
        let operation = Operation::Fixed("half a job");
        let mut submission = stream.submit(operation.clone(), &[]).unwrap();
        submission.run(&operation, &Arc::new(job), &[&memory], true).unwrap();
        let event = submission.finish().unwrap();
        let error = event.wait().unwrap_err();
        assert!(error.to_string().contains("half a job"), "{error}");
        let next = stream.marker(&[event]).and_then(|next| next.wait()).unwrap_err();
        assert!(matches!(next.root(), Error::Dependency { .. }), "{next}");
        assert!(stream.wait().is_err());
        stream.marker(&[]).unwrap().wait().unwrap();
    }
}
