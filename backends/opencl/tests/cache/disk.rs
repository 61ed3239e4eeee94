//! The cache on disk within one process.

use std::fs;
use std::path::{Path, PathBuf};

use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{DiskCache, OpenClEngine, ProgramStats};

use crate::work::{self, PROGRAMS, mish, relu};

fn engine(like: &OpenClEngine, disk: &DiskCache) -> OpenClEngine {
    OpenClEngine::on_device(like.opencl_device()).unwrap().with_disk_cache(disk.clone())
}

/// What a new engine with this cache says after all of the work.
fn worked(like: &OpenClEngine, disk: &DiskCache) -> ProgramStats {
    let engine = engine(like, disk);
    work::everything(&engine);
    engine.save_programs();
    engine.program_stats()
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn bytes(folder: &Path) -> u64 {
    files(folder).iter().map(|file| fs::metadata(file).unwrap().len()).sum()
}

#[test]
fn a_second_engine_builds_nothing() {
    for own in test_engines() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(scratch.path().join("programs"));
        let cold = worked(&own, &disk);
        assert_eq!((cold.built, cold.from_disk, cold.rejected), (PROGRAMS, 0, 0), "{own:?}: {cold:?}");
        assert!(files(disk.folder().unwrap()).len() >= PROGRAMS as usize);
        let warm = worked(&own, &disk);
        assert_eq!((warm.built, warm.from_disk, warm.rejected), (0, PROGRAMS, 0), "{warm:?}");
    }
}

/// PoCL compiles everything once more for that, and nobody waits for it who did not ask.
#[test]
fn programs_are_saved_at_once_where_the_driver_has_them_at_hand() {
    for own in test_engines() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(scratch.path().join("programs"));
        let engine = engine(&own, &disk);
        work::run(&engine, &relu(64));
        let folder = disk.folder().unwrap();
        assert_eq!(files(folder).is_empty(), own.opencl_device().alias() == "pocl", "{own:?}");
        engine.save_programs();
        let saved = files(folder);
        assert!(!saved.is_empty(), "{own:?}");
        let written = |file: &PathBuf| fs::metadata(file).unwrap().modified().unwrap();
        let at: Vec<_> = saved.iter().map(written).collect();
        engine.save_programs();
        assert_eq!(files(folder).iter().map(written).collect::<Vec<_>>(), at, "once: {own:?}");
    }
}

#[test]
fn damaged_files_are_built_and_written_again() {
    for own in test_engines() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(scratch.path());
        let one = |rejected, built, from_disk| {
            let engine = engine(&own, &disk);
            work::run(&engine, &relu(64));
            engine.save_programs();
            let stats = engine.program_stats();
            assert_eq!(
                (stats.rejected, stats.built, stats.from_disk),
                (rejected, built, from_disk),
                "{stats:?}"
            );
        };
        one(0, 1, 0);
        // A probe's outcome may lie beside the program.
        let program = files(scratch.path()).into_iter().max_by_key(|file| fs::metadata(file).unwrap().len());
        let program = program.unwrap();
        let good = fs::read(&program).unwrap();
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 4;
        let cut = &good[..good.len() - 1];
        let damages: [&[u8]; 6] =
            [&flipped, cut, &good[..20], b"", b"nonsense", &[good.as_slice(), b"x"].concat()];
        for damaged in damages {
            fs::write(&program, damaged).unwrap();
            one(1, 1, 0);
            one(0, 0, 1);
        }
        // A program of the same device under this one's name.
        let other = tempfile::tempdir().unwrap();
        let foreign = engine(&own, &DiskCache::at(other.path()));
        work::run(&foreign, &mish(65));
        foreign.save_programs();
        let foreign = files(other.path()).into_iter().max_by_key(|file| fs::metadata(file).unwrap().len());
        fs::copy(foreign.unwrap(), &program).unwrap();
        one(1, 1, 0);
        one(0, 0, 1);
        // A folder in its place cannot be replaced, and does no harm.
        fs::remove_file(&program).unwrap();
        fs::create_dir(&program).unwrap();
        one(1, 1, 0);
        one(1, 1, 0);
    }
}

#[test]
fn another_device_s_file_is_not_taken() {
    let engines = test_engines();
    let scratch = tempfile::tempdir().unwrap();
    let disk = DiskCache::at(scratch.path());
    for own in &engines {
        let stats = worked(own, &disk);
        assert_eq!((stats.built, stats.rejected), (PROGRAMS, 0), "{stats:?}");
    }
    for own in &engines {
        assert_eq!(worked(own, &disk).from_disk, PROGRAMS);
    }
}

#[test]
fn the_files_stay_within_the_bound() {
    for own in test_engines() {
        let scratch = tempfile::tempdir().unwrap();
        let unbounded = DiskCache::at(scratch.path().join("all"));
        worked(&own, &unbounded);
        let all = bytes(unbounded.folder().unwrap());
        let bounded = DiskCache::at(scratch.path().join("some")).with_max_bytes(all * 2 / 3);
        let stats = worked(&own, &bounded);
        assert_eq!(stats.built, PROGRAMS);
        let kept = bytes(bounded.folder().unwrap());
        assert!(kept > 0 && kept <= bounded.max_bytes(), "{kept} of {} bytes", bounded.max_bytes());
        let next = worked(&own, &bounded);
        assert_eq!(next.built + next.from_disk, PROGRAMS);
        assert!(next.built > 0, "{next:?}");

        let tiny = DiskCache::at(scratch.path().join("none")).with_max_bytes(100);
        assert_eq!(worked(&own, &tiny).built, PROGRAMS);
        assert_eq!(bytes(tiny.folder().unwrap()), 0);
    }
}

#[test]
fn off_is_off() {
    for own in test_engines() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(scratch.path());
        let engine = engine(&own, &disk).with_disk_cache(DiskCache::off());
        work::everything(&engine);
        assert_eq!(engine.program_stats().built, PROGRAMS);
        assert!(files(scratch.path()).is_empty());
    }
}

#[test]
fn a_folder_that_cannot_be_used_costs_nothing_but_time() {
    for own in test_engines() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, b"in the way").unwrap();
        // Nobody, not even an administrator, can make these.
        for folder in [file.clone(), file.join("programs"), PathBuf::from("/proc/anydnn/programs")] {
            let stats = worked(&own, &DiskCache::at(folder));
            assert_eq!((stats.built, stats.from_disk, stats.rejected), (PROGRAMS, 0, 0), "{stats:?}");
        }
        assert_eq!(fs::read(file).unwrap(), b"in the way");
    }
}
