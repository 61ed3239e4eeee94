//! Caches between processes: this test program starts itself again as the next process.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anydnn_backend::Engine;
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{CacheOutcome, OpenClEngine};

use crate::disk::files;
use crate::work::{self, PROGRAMS};

/// Tells a process of this test program that it is another one's, and where the blobs are.
const BLOBS: &str = "ANYDNN_TEST_BLOBS";

/// What the other process does: all of the work on every device, from a blob where there is one. Nothing unless it was started by one
/// of the tests below, which check what it prints.
#[test]
fn the_other_process() {
    let Some(blobs) = std::env::var_os(BLOBS) else { return };
    for found in test_engines() {
        let device = found.opencl_device();
        // What the environment says is for engines as a user makes them.
        let engine = match std::fs::read(Path::new(&blobs).join(device.alias())) {
            Err(_) => OpenClEngine::on_device(device).unwrap(),
            Ok(blob) => {
                let (engine, outcome) = OpenClEngine::from_cache_blob(device, &blob).unwrap();
                assert_eq!(outcome, CacheOutcome::Warm { programs: PROGRAMS as usize });
                assert_eq!(engine.cache_blob().unwrap(), blob);
                engine
            }
        };
        work::everything(&engine);
        engine.save_programs();
        let stats = engine.program_stats();
        println!(
            "\nstats {} {} {} {} {} {}",
            device.alias(),
            stats.built,
            stats.from_blob,
            stats.from_disk,
            stats.rejected,
            stats.probed
        );
    }
}

/// Built, from blob, from disk, rejected, probed.
type Seen = [u64; 5];

fn start(blobs: &Path, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::the_other_process", "--nocapture", "--test-threads=1"]);
    for name in ["ANYDNN_CACHE", "ANYDNN_CACHE_DIR", "ANYDNN_CACHE_MAX_BYTES", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    command.env(BLOBS, blobs).envs(variables.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a process saw on each device.
fn end(child: Child) -> HashMap<String, Seen> {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{status}:\n{text}\n{}", String::from_utf8_lossy(&stderr));
    let mut seen = HashMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("stats ")) {
        let mut words = line.split_whitespace();
        let device = words.next().unwrap().to_owned();
        let numbers: Vec<_> = words.map(|word| word.parse().unwrap()).collect();
        seen.insert(device, numbers.try_into().unwrap());
    }
    assert_eq!(seen.len(), test_engines().len(), "{text}");
    seen
}

#[test]
fn a_process_that_starts_from_a_blob_compiles_nothing() {
    let blobs = tempfile::tempdir().unwrap();
    for engine in test_engines() {
        work::everything(&engine);
        let path = blobs.path().join(engine.opencl_device().alias());
        std::fs::write(path, engine.cache_blob().unwrap()).unwrap();
    }
    for (device, seen) in end(start(blobs.path(), &[("ANYDNN_CACHE", "0")])) {
        assert_eq!(seen, [0, PROGRAMS, 0, 0, 0], "{device}");
    }
}

#[test]
fn the_environment_says_where_programs_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (none, dir, caches) = (scratch.path().join("no-blobs"), path("dir"), path("caches"));
    let off =
        [("ANYDNN_CACHE", "0"), ("ANYDNN_CACHE_DIR", dir.as_str()), ("XDG_CACHE_HOME", caches.as_str())];
    for (device, seen) in end(start(&none, &off)) {
        assert_eq!(seen[..4], [PROGRAMS, 0, 0, 0], "{device}");
    }
    // PoCL keeps a cache of its own in the same place.
    let ours = scratch.path().join("caches/anydnn");
    assert!(!ours.exists() && files(dir.as_ref()).is_empty(), "off is off");

    let xdg = [("XDG_CACHE_HOME", caches.as_str())];
    let named = [("ANYDNN_CACHE_DIR", dir.as_str()), xdg[0]];
    for (variables, folder) in
        [(&xdg[..], scratch.path().join("caches/anydnn/programs")), (&named, dir.clone().into())]
    {
        assert!(files(&folder).is_empty());
        for (device, seen) in end(start(&none, variables)) {
            assert_eq!(seen[..4], [PROGRAMS, 0, 0, 0], "{device}");
        }
        assert!(!files(&folder).is_empty());
        for (device, seen) in end(start(&none, variables)) {
            assert_eq!(seen, [0, 0, PROGRAMS, 0, 0], "{device}: probes are cached too");
        }
    }
}

#[test]
fn processes_race_for_the_same_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let (none, folder) = (scratch.path().join("no-blobs"), scratch.path().join("programs"));
    let variables = [("ANYDNN_CACHE_DIR", folder.to_str().unwrap())];
    let racing: Vec<_> = (0..3).map(|_| start(&none, &variables)).collect();
    for child in racing {
        for (device, [built, from_blob, from_disk, rejected, _]) in end(child) {
            assert_eq!((built + from_disk, from_blob, rejected), (PROGRAMS, 0, 0), "{device}");
        }
    }
    for (device, seen) in end(start(&none, &variables)) {
        assert_eq!(seen, [0, 0, PROGRAMS, 0, 0], "{device}");
    }
    let left = files(&folder);
    assert!(left.iter().all(|file| file.extension().is_some_and(|end| end == "program")), "{left:?}");
}
