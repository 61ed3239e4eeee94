//! Blobs that are what they should be, and blobs of others.

use std::thread;

use anydnn_backend::Engine;
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{CacheMiss, CacheOutcome, DiskCache, OpenClEngine, ProgramStats};

use crate::common::{context, context_count};
use crate::work::{self, PROGRAMS, relu, softmax};

/// Engines without a cache on disk: other tests leave their programs there.
fn engines() -> impl Iterator<Item = OpenClEngine> {
    test_engines().into_iter().map(|engine| engine.with_disk_cache(DiskCache::off()))
}

/// An engine from a blob, without a cache on disk.
pub(crate) fn warmed(like: &OpenClEngine, blob: &[u8]) -> (OpenClEngine, CacheOutcome) {
    let (engine, outcome) = OpenClEngine::from_cache_blob(like.opencl_device(), blob).unwrap();
    (engine.with_disk_cache(DiskCache::off()), outcome)
}

#[test]
fn an_engine_from_a_blob_builds_nothing_and_computes_the_same() {
    for cold in engines() {
        work::everything(&cold);
        let stats = cold.program_stats();
        assert_eq!((stats.built, stats.from_blob, stats.from_disk), (PROGRAMS, 0, 0), "{cold:?}: {stats:?}");
        let blob = cold.cache_blob().unwrap();

        let (warm, outcome) = warmed(&cold, &blob);
        assert_eq!(outcome, CacheOutcome::Warm { programs: PROGRAMS as usize });
        assert_eq!(warm.program_stats(), ProgramStats::default(), "programs are loaded when they are needed");
        work::everything(&warm);
        work::everything(&warm);
        let stats = warm.program_stats();
        assert_eq!((stats.built, stats.from_blob, stats.reused), (0, PROGRAMS, PROGRAMS), "{stats:?}");
        assert_eq!((stats.rejected, stats.from_disk, stats.probed), (0, 0, 0), "{stats:?}");
    }
}

#[test]
fn blobs_and_ids_are_stable_and_come_back() {
    for cold in engines() {
        let (empty, id) = (cold.cache_blob().unwrap(), cold.cache_blob_id().unwrap());
        assert!(!empty.is_empty() && !id.is_empty());
        assert_eq!(cold.cache_blob().unwrap(), empty);
        work::everything(&cold);
        let blob = cold.cache_blob().unwrap();
        work::everything(&cold);
        assert_eq!(cold.cache_blob().unwrap(), blob, "executing changes no program");
        assert!(blob.len() > empty.len());
        assert_eq!(cold.cache_blob_id().unwrap(), id);
        assert_eq!(OpenClEngine::device_cache_blob_id(cold.opencl_device()).unwrap(), id);

        let (warm, _) = warmed(&cold, &blob);
        assert_eq!((warm.cache_blob().unwrap(), warm.cache_blob_id().unwrap()), (blob.clone(), id));
        work::everything(&warm);
        assert_eq!(warm.cache_blob().unwrap(), blob, "using a blob's programs changes nothing");

        // A blob grows by what is built besides.
        work::run(&warm, &softmax());
        let (next, outcome) = warmed(&cold, &warm.cache_blob().unwrap());
        assert_eq!(outcome, CacheOutcome::Warm { programs: PROGRAMS as usize + 1 });
        work::everything(&next);
        work::run(&next, &softmax());
        assert_eq!(next.program_stats().built, 0);
    }
}

#[test]
fn another_device_s_blob_is_a_miss_that_says_so() {
    let engines = test_engines();
    for other in &engines {
        work::run(other, &relu(8));
        let blob = other.cache_blob().unwrap();
        for engine in engines.iter().filter(|engine| engine.raw_device() != other.raw_device()) {
            let (cold, outcome) = warmed(engine, &blob);
            let CacheOutcome::Miss { reason: CacheMiss::Foreign { what, given, expected } } = outcome else {
                panic!("{:?} took the blob of {:?}: {outcome:?}", engine.device(), other.device());
            };
            let (there, here) = (other.opencl_device(), engine.opencl_device());
            if there.platform_name() != here.platform_name() {
                assert_eq!(what, "platform");
                assert_eq!(given, format!("{:?}", there.platform_name()));
                assert_eq!(expected, format!("{:?}", here.platform_name()));
            }
            work::run(&cold, &relu(8));
            assert_eq!((cold.program_stats().built, cold.program_stats().from_blob), (1, 0));
        }
    }
}

#[test]
fn what_is_no_blob_is_a_miss() {
    for engine in engines() {
        // Some programs pass the blob's name instead of the blob.
        let id = engine.cache_blob_id().unwrap();
        for bytes in [id.as_slice(), b"", b"x", &[0; 4096], &[0xff; 4096]] {
            let (cold, outcome) = warmed(&engine, bytes);
            assert_eq!(outcome, CacheOutcome::Miss { reason: CacheMiss::NotOurs });
            work::run(&cold, &relu(8));
            assert_eq!(cold.program_stats().built, 1);
        }
    }
}

#[test]
fn the_user_s_context_takes_a_blob_and_shows_no_trace_of_it() {
    for own in engines() {
        work::everything(&own);
        let blob = own.cache_blob().unwrap();
        let (context, device) = (context(&own), own.raw_device());
        let before = context_count(context);
        let (warm, outcome) =
            unsafe { OpenClEngine::from_raw_with_cache_blob(device, context, &blob) }.unwrap();
        assert_eq!(outcome, CacheOutcome::Warm { programs: PROGRAMS as usize });
        assert_eq!(context_count(context), before + 1, "nothing is loaded yet");
        assert_eq!(warm.raw_context(), context);
        let warm = warm.with_disk_cache(DiskCache::off());
        work::everything(&warm);
        assert_eq!(warm.cache_blob().unwrap(), blob);
        assert_eq!((warm.program_stats().built, warm.program_stats().from_blob), (0, PROGRAMS));
        drop(warm);
        assert_eq!(context_count(context), before);
        let null = unsafe { OpenClEngine::from_raw_with_cache_blob(device, std::ptr::null_mut(), &blob) };
        assert!(null.is_err());
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

/// A program of a context with several devices has a binary for each; the engine's must be its own device's.
#[test]
fn sub_devices_of_one_context_have_blobs() {
    for own in engines() {
        let properties = [cl3::device::CL_DEVICE_PARTITION_EQUALLY, 1, 0]
            .map(|p| p as cl3::types::cl_device_partition_property);
        let Ok(parts) = cl3::device::create_sub_devices(own.raw_device(), &properties) else { continue };
        let context =
            cl3::context::create_context(&parts, std::ptr::null(), None, std::ptr::null_mut()).unwrap();
        for part in parts.iter().rev() {
            let cold = unsafe { OpenClEngine::from_raw(*part, context) }.unwrap();
            let cold = cold.with_disk_cache(DiskCache::off());
            work::run(&cold, &relu(64));
            let blob = cold.cache_blob().unwrap();
            let (warm, outcome) =
                unsafe { OpenClEngine::from_raw_with_cache_blob(*part, context, &blob) }.unwrap();
            let warm = warm.with_disk_cache(DiskCache::off());
            assert_eq!(outcome, CacheOutcome::Warm { programs: 1 }, "{:?}", own.device());
            work::run(&warm, &relu(64));
            // PoCL may refuse to load a binary for a part; the source is always there.
            let stats = warm.program_stats();
            assert_eq!(stats.from_blob + stats.built, 1, "{stats:?}");
            if own.opencl_device().alias() == "intel" {
                assert_eq!(stats.from_blob, 1, "{stats:?}");
            }
        }
        unsafe { cl3::context::release_context(context) }.unwrap();
        for part in parts {
            unsafe { cl3::device::release_device(part) }.unwrap();
        }
    }
}

#[test]
fn threads_share_what_one_of_them_loads() {
    for own in engines() {
        work::everything(&own);
        let blob = own.cache_blob().unwrap();
        let (warm, _) = warmed(&own, &blob);
        for engine in [test_engine_like(&own), warm] {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| work::everything(&engine));
                }
            });
            let stats = engine.program_stats();
            assert_eq!(stats.built + stats.from_blob, PROGRAMS, "{stats:?}");
            // Who finds a primitive that another thread has does not ask for its program.
            assert!(stats.reused <= 3 * PROGRAMS, "{stats:?}");
        }
    }
}

fn test_engine_like(engine: &OpenClEngine) -> OpenClEngine {
    OpenClEngine::on_device(engine.opencl_device()).unwrap().with_disk_cache(DiskCache::off())
}
