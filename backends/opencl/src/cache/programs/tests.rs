//! What no public function shows: binaries that pass verification and that the driver refuses all the same.

use anydnn_backend::{Engine, Error};

use super::*;
use crate::backend::engine::OpenClEngine;
use crate::testing::test_engines;

const TEXT: &str = "kernel void noop(global int *p) { p[get_global_id(0)] = N; }";

fn source(text: &'static str) -> ProgramSource {
    ProgramSource { name: "test".into(), source: text.into(), options: "-DN=1".into() }
}

fn program(engine: &OpenClEngine, text: &'static str) -> Result<Arc<Program>> {
    let inner = &engine.inner;
    inner.programs.program(&inner.context, &inner.device, &source(text), "")
}

#[test]
fn options_name_a_standard_once() {
    assert_eq!(complete_options("", ""), "-w -cl-std=CL1.2");
    assert_eq!(complete_options("-DN=1", "-DM"), "-w -cl-std=CL1.2 -DN=1 -DM");
    assert_eq!(complete_options("-cl-std=CL3.0", ""), "-w -cl-std=CL3.0");
    let key = |text: &str, options| key(&blake3::hash(text.as_bytes()), options);
    assert_ne!(key("ab", "c"), key("b", "ca"));
}

#[test]
fn programs_are_built_once_and_failures_carry_the_log() {
    for engine in test_engines() {
        let engine = engine.with_disk_cache(DiskCache::off());
        let (first, second) = (program(&engine, TEXT).unwrap(), program(&engine, TEXT).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(first.kernel("noop").is_ok());
        assert!(matches!(first.kernel("missing"), Err(Error::Build(failure)) if failure.code == -46));
        let Err(Error::Build(failure)) = program(&engine, "kernel void broken(") else { panic!("it built") };
        assert_eq!(failure.program, "test");
        assert!(!failure.log.is_empty(), "{failure}");
        let stats = engine.program_stats();
        assert_eq!((stats.built, stats.reused, stats.from_disk), (1, 1, 0), "{stats:?}");
    }
}

/// A driver need not give the bytes back that it was given, nor the same ones twice.
#[test]
fn binaries_are_kept_as_they_were_loaded_or_first_read() {
    for cold in test_engines() {
        let cold = cold.with_disk_cache(DiskCache::off());
        let device = &cold.inner.device;
        let built = program(&cold, TEXT).unwrap();
        let blob = cold.cache_blob().unwrap();
        assert!(Arc::ptr_eq(&built.kept_binary().unwrap().unwrap(), &built.kept_binary().unwrap().unwrap()));
        let (warm, _) = OpenClEngine::from_cache_blob(device, &blob).unwrap();
        let loaded = program(&warm, TEXT).unwrap().kept_binary().unwrap().unwrap();
        let given = &warm.inner.programs.warm.get().unwrap().programs;
        assert!(given.values().any(|binary| Arc::ptr_eq(binary, &loaded)));
    }
}

/// Text is no binary on any driver here, and none of them crashes on it.
#[test]
fn a_binary_that_the_driver_refuses_is_built_from_source() {
    for cold in test_engines() {
        let inner = &cold.inner;
        let device = &inner.device;
        let wanted = key(&blake3::hash(TEXT.as_bytes()), &complete_options(&source(TEXT).options, ""));
        let device_key = inner.programs.device_key(device).unwrap();
        let nonsense: Arc<[u8]> = Arc::from(*b"this is no program at all, whoever reads it");
        let programs = [(wanted, Arc::clone(&nonsense)), ([7; 32], Arc::clone(&nonsense))].into();
        let bytes = blob::write(device_key, &Content { programs, probes: BTreeMap::new() }).unwrap();
        let (engine, outcome) = OpenClEngine::from_cache_blob(device, &bytes).unwrap();
        assert_eq!(outcome, CacheOutcome::Warm { programs: 2 });
        let engine = engine.with_disk_cache(DiskCache::off());
        program(&engine, TEXT).unwrap().kernel("noop").unwrap();
        let stats = engine.program_stats();
        assert_eq!((stats.rejected, stats.from_blob, stats.built), (1, 0, 1), "{device}: {stats:?}");
        // The next blob has the good binary, and still what nobody needed.
        let content = blob::read(device_key, &engine.inner.programs.blob(device).unwrap()).unwrap();
        assert_ne!(content.programs[&wanted], nonsense);
        assert_eq!(content.programs[&[7; 32]], nonsense);

        let scratch = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(scratch.path());
        let key = EntryKey {
            device: device_key,
            source: *blake3::hash(TEXT.as_bytes()).as_bytes(),
            options: "-w -cl-std=CL1.2 -DN=1",
        };
        Store::new(disk.clone()).unwrap().save(&key, &nonsense);
        for (rejected, from_disk, built) in [(1, 0, 1), (0, 1, 0)] {
            let engine = OpenClEngine::on_device(device).unwrap().with_disk_cache(disk.clone());
            program(&engine, TEXT).unwrap().kernel("noop").unwrap();
            engine.save_programs();
            let stats = engine.program_stats();
            assert_eq!(
                (stats.rejected, stats.from_disk, stats.built),
                (rejected, from_disk, built),
                "{device}"
            );
        }
    }
}

#[test]
fn probes_of_a_cache_need_no_compiler() {
    for engine in test_engines() {
        let device = &engine.inner.device;
        let scratch = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(scratch.path());
        // Knowledge of its own, as a process that starts has.
        let ask = |blob: Option<&[u8]>| {
            let (features, programs) = (Features::default(), ProgramCache::new(disk.clone()));
            if let Some(blob) = blob {
                programs.warm(device, &features, blob).unwrap();
            }
            let _ = programs.probe(device, &features, Feature::VloadHalf);
            (features.known(Feature::VloadHalf).cloned().unwrap(), programs.stats().probed, programs)
        };
        let (probe, probed, programs) = ask(None);
        assert!(probe.works && probed == 1, "{device}: {probe:?}");
        let blob = programs.blob(device).unwrap();
        let (from_disk, probed, programs) = ask(None);
        assert_eq!((&from_disk, probed), (&probe, 0));
        assert_eq!(programs.blob(device).unwrap(), blob);
        drop(scratch);
        let (from_blob, probed, programs) = ask(Some(&blob));
        assert_eq!((&from_blob, probed), (&probe, 0));
        assert_eq!(programs.blob(device).unwrap(), blob);
    }
}

#[test]
fn a_probe_that_failed_is_not_passed_on() {
    for engine in test_engines() {
        let inner = &engine.inner;
        let outcome = |works| Probe { works, detail: "seen".into() };
        let mut probes = inner.programs.probes.lock().unwrap();
        probes.insert("lacked memory".into(), outcome(false));
        probes.insert("worked".into(), outcome(true));
        drop(probes);
        let blob = engine.cache_blob().unwrap();
        let content = blob::read(inner.programs.device_key(&inner.device).unwrap(), &blob).unwrap();
        assert_eq!(content.probes.into_keys().collect::<Vec<_>>(), ["worked"]);
    }
}
