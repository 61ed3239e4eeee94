//! Damaged blobs: none may reach a driver, because some drivers crash on what is cut short.

use anydnn_backend::Engine;
use anydnn_backend::conformance::values::Random;
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{CacheMiss, CacheOutcome, DiskCache, OpenClEngine, ProgramStats};

use crate::common::context;
use crate::work::{self, mish, relu};

/// Where a blob's total length is, and how long its checksum is.
const TOTAL: std::ops::Range<usize> = 12..20;
const CHECKSUM: usize = 32;

/// Offers blobs to engines in one context of its own per device.
fn on_every_device(test: impl Fn(&[u8], &dyn Fn(&[u8]) -> CacheOutcome)) {
    for own in test_engines() {
        work::run(&own, &relu(64));
        work::run(&own, &mish(65));
        let blob = own.cache_blob().unwrap();
        let context = context(&own);
        let offer = |bytes: &[u8]| {
            let made = unsafe { OpenClEngine::from_raw_with_cache_blob(own.raw_device(), context, bytes) };
            let (engine, outcome) = made.unwrap();
            // Only the very same bytes may come so far that a driver sees them.
            assert_eq!(matches!(outcome, CacheOutcome::Warm { .. }), bytes == blob, "{outcome:?}");
            if bytes == blob {
                work::run(&engine.with_disk_cache(DiskCache::off()), &relu(64));
            }
            outcome
        };
        test(&blob, &offer);
        // Whatever was offered, the whole blob still works.
        assert_eq!(offer(&blob), CacheOutcome::Warm { programs: 2 });
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

#[test]
fn every_truncation_is_a_miss() {
    on_every_device(|blob, offer| {
        for length in 0..blob.len() {
            let outcome = offer(&blob[..length]);
            let CacheOutcome::Miss { reason } = outcome else { panic!("{length} of {} bytes", blob.len()) };
            let right = match length {
                0..8 => reason == CacheMiss::NotOurs,
                8..52 => reason == CacheMiss::Short { given: length, expected: 52 },
                _ => reason == CacheMiss::Length { given: length as u64, expected: blob.len() as u64 },
            };
            assert!(right, "{length} bytes: {reason}");
        }
    });
}

#[test]
fn ten_thousand_corruptions_are_misses() {
    on_every_device(|blob, offer| {
        let mut random = Random::new(0x0b10_b5ee);
        let mut unchanged = 0;
        for _ in 0..10_000 {
            let bytes = corrupt(blob, &mut random);
            if bytes == blob {
                unchanged += 1;
                continue;
            }
            assert!(matches!(offer(&bytes), CacheOutcome::Miss { .. }));
        }
        assert!(unchanged < 500, "{unchanged} of the corruptions changed nothing");
    });
}

/// Lengths and counts inside of the body, under a checksum that fits: decoding them must neither fail badly nor take the memory that
/// they claim. The driver is not asked, because with a checksum that fits a blob is as good as its maker.
#[test]
fn claimed_lengths_take_no_memory() {
    for own in test_engines() {
        work::run(&own, &relu(64));
        let (blob, context) = (own.cache_blob().unwrap(), context(&own));
        let end = blob.len() - CHECKSUM;
        let mut random = Random::new(7);
        for round in 0..2_000 {
            // The key, which begins the body, is mostly lengths and text; the rest is reached at random.
            let limit = if round % 2 == 0 { (end - TOTAL.end).min(600) } else { end - TOTAL.end };
            let at = TOTAL.end + random.below(limit as u64) as usize;
            let run = (random.below(10) as usize + 1).min(end - at);
            let mut bytes = blob.clone();
            bytes[at..at + run].fill(0xff);
            let checksum = blake3::hash(&bytes[..end]);
            bytes[end..].copy_from_slice(checksum.as_bytes());
            let engine = unsafe { OpenClEngine::from_raw_with_cache_blob(own.raw_device(), context, &bytes) };
            assert_eq!(engine.unwrap().0.program_stats(), ProgramStats::default());
        }
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

/// Damages a copy in one of the ways that files and transfers are damaged, or an attacker would try first.
fn corrupt(blob: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = blob.to_vec();
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    let at = below(bytes.len());
    let run = (1 + below(64)).min(bytes.len() - at);
    match below(9) {
        // One bit.
        0 | 1 => bytes[at] ^= 1 << below(8),
        // Several bits anywhere.
        2 => {
            for _ in 0..=below(16) {
                let at = below(blob.len());
                bytes[at] ^= 1 << below(8);
            }
        }
        // A run of one value.
        3 => bytes[at..at + run].fill([0, 0xff, 0x7f, 0x80][below(4)]),
        // Bytes too many.
        4 => drop(bytes.splice(at..at, (0..run).map(|i| (i * 37) as u8))),
        // Bytes missing in the middle.
        5 => drop(bytes.drain(at..at + run)),
        // One part in another's place.
        6 => {
            let from = below(bytes.len() - run + 1);
            bytes.copy_within(from..from + run, at);
        }
        // Another total length, and as many bytes for it.
        7 => {
            let total = match below(4) {
                0 => u64::MAX,
                1 => blob.len() as u64 + 1 + below(1000) as u64,
                2 => below(blob.len()) as u64,
                _ => 1 << below(64),
            };
            bytes[TOTAL].copy_from_slice(&total.to_le_bytes());
            if below(2) == 0 {
                bytes.resize((total as usize).min(2 * blob.len()), 0);
            }
        }
        // The header or the checksum.
        _ => {
            let at = if below(2) == 0 { below(TOTAL.end) } else { blob.len() - 1 - below(CHECKSUM) };
            bytes[at] = bytes[at].wrapping_add(1 + below(255) as u8);
        }
    }
    bytes
}
