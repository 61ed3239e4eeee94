//! What tuning promises.

use std::time::Duration;

use anydnn_backend::op::{MatMul, Op};
use anydnn_backend::{Arg, DataType, Engine, MemoryDesc, Primitive, PrimitiveDesc, Specialize};

use super::{Outcome, Tuned};
use crate::backend::engine::OpenClEngine;
use crate::primitive::{self, Choice, Wanted};
use crate::testing::test_engines;
use crate::{DiskCache, OpenClDevice};

const BUDGET: Duration = Duration::from_secs(3);

fn product(rows: usize) -> PrimitiveDesc {
    let matrix = |rows: usize, columns: usize| MemoryDesc::new([rows, columns], DataType::F32);
    PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(matrix(rows, 40))
        .weights(matrix(40, 48))
        .dst(matrix(rows, 48))
        .build()
        .unwrap()
}

fn engine(device: &OpenClDevice, disk: &DiskCache) -> OpenClEngine {
    OpenClEngine::on_device(device).unwrap().with_disk_cache(disk.clone())
}

fn times(tuned: &Tuned) -> usize {
    tuned.trials.iter().filter(|trial| matches!(trial.outcome, Outcome::Timed(_))).count()
}

fn choices(engine: &OpenClEngine) -> Vec<Choice> {
    primitive::choices(&product(60), &engine.traits(), Wanted::All).unwrap()
}

#[test]
fn the_choice_is_kept_for_later_engines() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = DiskCache::at(scratch.path().join("programs"));
    for known in test_engines() {
        let device = known.opencl_device();
        let first = engine(device, &disk);
        let tuned = first.tune(&product(60), BUDGET).unwrap();
        assert!(times(&tuned) >= 2, "{tuned:?}");
        assert_eq!(tuned.trials.len(), first.implementations(&product(60)).unwrap().len());
        let made = first.create_primitive(&product(60)).unwrap();
        assert_eq!(made.implementation(), tuned.implementation);
        for later in [first, engine(device, &disk)] {
            let again = later.tune(&product(60), BUDGET).unwrap();
            assert_eq!((again.implementation, again.trials.len()), (tuned.implementation.clone(), 0));
        }
        // When programs are made has no part in it.
        let eager = product(60).with_specialize(Some(Specialize::Eager));
        assert!(engine(device, &disk).tune(&eager, BUDGET).unwrap().trials.is_empty());
        // Another description was not tuned.
        assert!(times(&engine(device, &disk).tune(&product(61), BUDGET).unwrap()) >= 2);
    }
}

#[test]
fn engines_take_what_was_chosen_and_tune_when_they_are_asked_to() {
    for known in test_engines() {
        let device = known.opencl_device();
        let plain = engine(device, &DiskCache::off());
        let default = plain.create_primitive(&product(60)).unwrap().implementation().to_owned();
        plain.inner.tuning.remember(&plain.inner.programs, device, &product(60), "ocl:matmul:ref");
        assert_eq!(plain.create_primitive(&product(60)).unwrap().implementation(), "ocl:matmul:ref");
        // A name from another version of the library.
        plain.inner.tuning.remember(&plain.inner.programs, device, &product(60), "ocl:matmul:gone");
        assert_eq!(plain.create_primitive(&product(60)).unwrap().implementation(), default);

        let tuning = engine(device, &DiskCache::off()).with_tuning(BUDGET);
        let made = tuning.create_primitive(&product(60)).unwrap();
        assert_eq!(tuning.tune(&product(60), BUDGET).unwrap().trials, []);
        assert_eq!(tuning.tune(&product(60), BUDGET).unwrap().implementation, made.implementation());
    }
}

#[test]
fn what_computes_something_else_or_fails_is_rejected() {
    for engine in test_engines() {
        let mut choices = choices(&engine);
        let first = choices[0].plan.clone();
        let mut broken = |name: &str, from: &str, to: &str| {
            let mut plan = first.clone();
            plan.implementation = name.into();
            for launch in &mut plan.launches {
                assert!(launch.program.source.to_string().contains(from), "{from}");
                launch.program.source = launch.program.source.to_string().replace(from, to).into();
            }
            choices.insert(1, Choice { plan, reason: "broken on purpose" });
        };
        broken("wrong", "#define POST_OPS(v, n)", "#define POST_OPS(v, n) v *= (V)(1.01f);");
        broken(
            "unwritten",
            "#define POST_OPS(v, n)",
            "#define POST_OPS(v, n) if (((const float*)&v)[0] > 1.0f) return;",
        );
        broken("refused", "__kernel", "no such word __kernel");
        let tuned = engine.tune_among(&choices, BUDGET).unwrap();
        for name in ["wrong", "unwritten", "refused"] {
            let trial = tuned.trials.iter().find(|trial| trial.implementation == name).unwrap();
            assert!(matches!(trial.outcome, Outcome::Rejected(_)), "{trial:?}");
            assert_ne!(tuned.implementation, name);
        }
    }
}

#[test]
fn a_budget_that_is_spent_leaves_the_default() {
    for engine in test_engines() {
        let choices = choices(&engine);
        let first = choices[0].plan.implementation.clone();
        let tuned = engine.tune_among(&choices, Duration::ZERO).unwrap();
        assert_eq!((tuned.implementation.as_str(), times(&tuned)), (first.as_str(), 1), "{tuned:?}");
    }
}

#[test]
fn a_choice_counts_for_descriptions_that_were_made_before() {
    for known in test_engines() {
        let engine = engine(known.opencl_device(), &DiskCache::off());
        let made = engine.create_primitive(&product(60)).unwrap();
        let names = choices(&engine).into_iter().map(|choice| choice.plan.implementation);
        let other = names.into_iter().find(|name| name != made.implementation()).unwrap();
        let inner = &engine.inner;
        inner.tuning.remember(&inner.programs, &inner.device, &product(60), &other);
        assert_eq!(engine.create_primitive(&product(60)).unwrap().implementation(), other);
    }
}

/// Compiled graphs choose layouts first, users leave them open.
#[test]
fn a_choice_counts_for_open_layouts_and_for_those_that_are_chosen_for_them() {
    let open = product(60).opened(Arg::Weights);
    for known in test_engines() {
        let engine = || engine(known.opencl_device(), &DiskCache::off());
        let resolved = engine().resolve(&open).unwrap();
        for (noted, asked) in [(&open, &resolved), (&resolved, &open), (&open, &open)] {
            let engine = engine();
            assert_ne!(engine.create_primitive(asked).unwrap().implementation(), "ocl:matmul:ref");
            engine.remember(noted, "ocl:matmul:ref").unwrap();
            assert_eq!(engine.create_primitive(asked).unwrap().implementation(), "ocl:matmul:ref");
        }
    }
}
