//! `into_raw` gives exactly one reference away.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "the tests own every handle they pass, and fail by panicking"
)]

mod common;

use anydnn_backend::{Engine, Error, MemoryKind, Stream, StreamDesc};
use anydnn_opencl::OpenClEngine;
use anydnn_opencl::testing::test_engines;
use common::*;

#[test]
fn engine_into_raw_gives_one_reference_to_context_and_device() {
    for own in test_engines() {
        let context = context(&own);
        let (contexts, devices) = (context_count(context), device_count(own.raw_device()));
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        let given = engine.into_raw().unwrap();
        assert_eq!(given, (own.raw_device(), context));
        assert_eq!(context_count(context), contexts + 1, "the engine's own reference is gone, ours is there");
        unsafe {
            cl3::device::release_device(given.0).unwrap();
            cl3::context::release_context(given.1).unwrap();
        }
        assert_eq!((context_count(context), device_count(own.raw_device())), (contexts, devices));
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

#[test]
fn stream_into_raw_gives_one_reference() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let kept = stream.clone();
        let queue = stream.into_raw().unwrap();
        assert_eq!((kept.raw_queue(), queue_count(queue)), (queue, 2));
        kept.wait().unwrap();
        drop(kept);
        assert_eq!(queue_count(queue), 1);
        common::release_queue(queue);
    }
}

#[test]
fn memory_into_raw_gives_one_reference() {
    for engine in test_engines() {
        let memory = memory(&engine, 16);
        let kept = memory.clone();
        let buffer = memory.into_raw().unwrap();
        assert_eq!((kept.raw_mem(), mem_count(buffer)), (buffer, 2));
        drop(kept);
        assert_eq!(mem_count(buffer), 1);
        unsafe { cl3::memory::release_mem_object(buffer) }.unwrap();
    }
}

#[test]
fn memory_into_raw_refuses_memory_without_a_buffer_object() {
    for engine in test_engines() {
        let without_bytes = memory(&engine, 0);
        let kinds = engine.capabilities().memory_kinds.clone();
        let pointers = kinds.into_iter().filter(|&kind| kind != MemoryKind::Buffer);
        let pointers = pointers.map(|kind| engine.create_memory(&bytes_desc(16), kind).unwrap());
        for memory in pointers.chain([without_bytes]) {
            let error = memory.into_raw().unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
    }
}
