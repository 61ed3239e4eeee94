//! Retains and releases: a test for each kind of object that the specification lists.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::slice;

use anydnn_backend::{Engine, Event, Order, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use common::*;

const ELEMENTS: usize = 64;
const ORDERS: [u64; 2] = [0, cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE];

#[test]
fn engine_from_raw_retains_the_context_once() {
    for own in test_engines() {
        let context = context(&own);
        assert_eq!(context_count(context), 1);
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        assert_eq!(context_count(context), 2);
        for _ in 0..3 {
            assert_eq!((engine.raw_context(), engine.raw_device()), (context, own.raw_device()));
        }
        assert_eq!(context_count(context), 2, "getters retain nothing");
        drop(engine);
        assert_eq!(context_count(context), 1);
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

#[test]
fn engine_on_device_owns_its_context() {
    for own in test_engines() {
        let engine = OpenClEngine::on_device(own.opencl_device()).unwrap();
        assert_eq!(context_count(engine.raw_context()), 1);
        let (device, context) = engine.into_raw().unwrap();
        assert_eq!(context_count(context), 1);
        unsafe {
            cl3::device::release_device(device).unwrap();
            cl3::context::release_context(context).unwrap();
        }
    }
}

#[test]
fn stream_from_raw_retains_the_queue_once() {
    for engine in test_engines() {
        let step = linear(&engine, ELEMENTS, (1.0, 1.0), "step");
        for properties in ORDERS {
            let queue = queue(&engine, engine.raw_context(), properties);
            let context_before = context_count(engine.raw_context());
            let stream = unsafe { OpenClStream::from_raw(&engine, queue) }.unwrap();
            assert_eq!((queue_count(queue), context_count(engine.raw_context())), (2, context_before));
            let clone = stream.clone();
            for _ in 0..3 {
                assert_eq!((stream.raw_queue(), clone.raw_queue()), (queue, queue));
            }
            assert_eq!(queue_count(queue), 2, "clones and getters retain nothing");
            {
                let memory = memory(&engine, 4 * ELEMENTS);
                stream.execute(&step, &src_dst(&memory, &memory), &[]).unwrap();
                stream.wait().unwrap();
            }
            drop((stream, clone));
            eventually(|| queue_count(queue) == 1);
            common::release_queue(queue);
        }
    }
}

#[test]
fn create_stream_makes_a_queue_with_one_reference() {
    for engine in test_engines() {
        for order in [Order::InOrder, Order::OutOfOrder] {
            let stream = engine.create_stream(&StreamDesc { order, ..StreamDesc::default() }).unwrap();
            assert_eq!(queue_count(stream.raw_queue()), 1);
            let queue = stream.into_raw().unwrap();
            assert_eq!(queue_count(queue), 1, "the reference is the caller's now");
            common::release_queue(queue);
        }
    }
}

#[test]
fn memory_from_raw_retains_the_buffer_once() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let raw = buffer(engine.raw_context(), 64);
        let memory = unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(64), raw) }.unwrap();
        assert_eq!(mem_count(raw), 2);
        let clone = memory.clone();
        assert_eq!((memory.raw_mem(), clone.raw_mem(), mem_count(raw)), (raw, raw, 2));
        stream.write(&memory, 0, &[1; 64], &[]).unwrap();
        drop((memory, clone));
        stream.wait().unwrap();
        eventually(|| mem_count(raw) == 1);
        unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
    }
}

#[test]
fn event_from_raw_retains_the_event_once() {
    for engine in test_engines() {
        let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
        assert_eq!(event_count(raw), 1);
        let event = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
        let clone = event.clone();
        assert_eq!((event.raw_event(), clone.raw_event(), event_count(raw)), (raw, raw, 2));
        set(raw, 0);
        event.wait().unwrap();
        drop((event, clone));
        assert_eq!(event_count(raw), 1);
        release_event(raw);
    }
}

#[test]
fn execute_retains_dependencies_until_they_have_ended() {
    for engine in test_engines() {
        let step = linear(&engine, ELEMENTS, (1.0, 1.0), "step");
        let memory = memory(&engine, 4 * ELEMENTS);
        for properties in ORDERS {
            let queue = queue(&engine, engine.raw_context(), properties);
            let stream = unsafe { OpenClStream::from_raw(&engine, queue) }.unwrap();
            let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
            let event = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
            let args = src_dst(&memory, &memory);
            let done = stream.execute(&step, &args, slice::from_ref(&event)).unwrap();
            let twice = stream.execute(&step, &args, &[event.clone(), event.clone(), done]).unwrap();
            set(raw, 0);
            twice.wait().unwrap();
            stream.wait().unwrap();
            drop(event);
            // Drivers let go of a wait list a moment after the command.
            eventually(|| event_count(raw) == 1);
            release_event(raw);
            drop((stream, twice));
            common::release_queue(queue);
        }
    }
}

#[test]
fn a_returned_event_is_owned_by_the_caller_once() {
    for engine in test_engines() {
        let step = linear(&engine, ELEMENTS, (1.0, 1.0), "step");
        let memory = memory(&engine, 4 * ELEMENTS);
        for properties in ORDERS {
            let queue = queue(&engine, engine.raw_context(), properties);
            let stream = unsafe { OpenClStream::from_raw(&engine, queue) }.unwrap();
            let event = stream.execute(&step, &src_dst(&memory, &memory), &[]).unwrap();
            stream.wait().unwrap();
            // What the stream itself still knows of its last command.
            let kept = event.clone();
            let raw = event.into_raw().unwrap();
            drop((stream, kept));
            // On PoCL the buffer keeps the event of the last command that used it.
            let held_by_driver = u32::from(engine.opencl_device().alias() == "pocl");
            eventually(|| event_count(raw) <= 1 + held_by_driver);
            cl3::event::wait_for_events(&[raw]).unwrap();
            release_event(raw);
            common::release_queue(queue);
        }
    }
}
