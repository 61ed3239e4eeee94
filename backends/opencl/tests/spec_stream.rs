//! The specification's table of streams, row by row; each test bears the name of the row's C function.
//!
//! What `interop.rs` proves of the same rows (one reference, order and profiling of the user's queue, queues of another context) is not
//! repeated here.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "the tests own every handle they pass, and fail by panicking"
)]

mod common;

use std::ffi::c_void;
use std::ptr;
use std::sync::mpsc;
use std::time::Duration;

use anydnn_backend::{Engine, Error, Event, Order, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClStream};
use cl3::command_queue::{self as cl, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};
use cl3::device;
use common::*;

#[test]
fn stream_create_makes_a_queue_with_the_properties_asked_for() {
    for engine in test_engines() {
        for order in [Order::InOrder, Order::OutOfOrder] {
            for profiling in [false, true] {
                let mut desc = StreamDesc::default();
                (desc.order, desc.profiling) = (order, profiling);
                let stream = engine.create_stream(&desc).unwrap();
                let queue = stream.raw_queue();
                let bits = property(queue, cl::CL_QUEUE_PROPERTIES);
                assert_eq!(
                    bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0,
                    order == Order::OutOfOrder,
                    "{bits}"
                );
                assert_eq!(bits & CL_QUEUE_PROFILING_ENABLE != 0, profiling, "{bits}");
                assert_eq!(property(queue, cl::CL_QUEUE_CONTEXT), engine.raw_context() as u64);
                assert_eq!(property(queue, cl::CL_QUEUE_DEVICE), engine.raw_device() as u64);
                assert_eq!((stream.desc().order, stream.desc().profiling), (order, profiling));
            }
        }
    }
}

#[test]
fn ocl_interop_stream_create_refuses_a_null_queue() {
    for engine in test_engines() {
        let error = unsafe { OpenClStream::from_raw(&engine, ptr::null_mut()) }.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert!(error.to_string().contains("queue"), "{error}");
    }
}

#[test]
fn ocl_interop_stream_create_refuses_a_queue_on_another_device_of_the_context() {
    for own in test_engines() {
        let properties = [device::CL_DEVICE_PARTITION_EQUALLY, 1, 0];
        let Ok(parts) = device::create_sub_devices(own.raw_device(), &properties) else { continue };
        if parts.len() > 1 {
            let context = cl3::context::create_context(&parts, ptr::null(), None, ptr::null_mut()).unwrap();
            let engine = unsafe { OpenClEngine::from_raw(parts[0], context) }.unwrap();
            let other = unsafe { OpenClEngine::from_raw(parts[1], context) }.unwrap();
            let foreign = queue(&other, context, 0);
            let error = unsafe { OpenClStream::from_raw(&engine, foreign) }.unwrap_err();
            assert!(matches!(error, Error::Mismatch { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("{:p}", parts[1])), "names what was given: {text}");
            assert!(text.contains(&format!("{:p}", parts[0])), "names what was expected: {text}");
            assert_eq!(queue_count(foreign), 1);
            assert_eq!(unsafe { OpenClStream::from_raw(&other, foreign) }.unwrap().raw_queue(), foreign);
            assert_eq!(queue_count(foreign), 1);
            drop((engine, other));
            unsafe {
                common::release_queue(foreign);
                cl3::context::release_context(context).unwrap();
            }
        }
        for part in parts {
            unsafe { device::release_device(part) }.unwrap();
        }
    }
}

#[test]
fn ocl_interop_stream_get_command_queue_retains_nothing_whoever_made_the_queue() {
    for engine in test_engines() {
        let ours = engine.create_stream(&StreamDesc::default()).unwrap();
        let raw = queue(&engine, engine.raw_context(), 0);
        let theirs = unsafe { OpenClStream::from_raw(&engine, raw) }.unwrap();
        for _ in 0..3 {
            assert_eq!(queue_count(ours.raw_queue()), 1);
            assert_eq!((theirs.raw_queue(), queue_count(raw)), (raw, 2));
        }
        drop(theirs);
        common::release_queue(raw);
    }
}

#[test]
fn stream_wait_waits_for_the_users_own_commands_too() {
    for engine in test_engines() {
        for bits in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
            let raw = queue(&engine, engine.raw_context(), bits);
            let stream = unsafe { OpenClStream::from_raw(&engine, raw) }.unwrap();
            let (gate, wrapped) = user_event(&engine);
            // The user's command, which waits for an event that comes later.
            let theirs = unsafe { cl::enqueue_marker_with_wait_list(raw, 1, &raw const gate) }.unwrap();
            let (sender, receiver) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| sender.send(stream.wait()).unwrap());
                let early = receiver.recv_timeout(Duration::from_millis(100));
                assert!(early.is_err(), "it returned before the user's command had ended");
                set(gate, 0);
                receiver.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
            });
            let status = cl3::event::CL_EVENT_COMMAND_EXECUTION_STATUS;
            let bytes = cl3::event::get_event_data(theirs, status).unwrap();
            assert_eq!(i32::from_ne_bytes(bytes.try_into().unwrap()), 0, "complete");
            drop((wrapped, stream));
            release_event(theirs);
            release_event(gate);
            common::release_queue(raw);
        }
    }
}

#[test]
fn stream_destroy_does_not_wait_for_the_commands() {
    for engine in test_engines() {
        let raw = queue(&engine, engine.raw_context(), 0);
        let stream = unsafe { OpenClStream::from_raw(&engine, raw) }.unwrap();
        let (gate, wrapped) = user_event(&engine);
        let after = stream.marker(&[wrapped]).unwrap();
        // This returns although the command cannot end yet.
        drop(stream);
        set(gate, 0);
        after.wait().unwrap();
        drop(after);
        cl::finish(raw).unwrap();
        eventually(|| queue_count(raw) == 1);
        release_event(gate);
        common::release_queue(raw);
    }
}

#[test]
fn stream_get_engine_is_the_engine_given() {
    for engine in test_engines() {
        let twin = unsafe { OpenClEngine::from_raw(engine.raw_device(), engine.raw_context()) }.unwrap();
        let stream = twin.create_stream(&StreamDesc::default()).unwrap();
        assert_eq!((stream.engine().id(), stream.engine_id()), (twin.id(), twin.id()));
        assert_ne!(stream.engine_id(), engine.id());
    }
}

/// A property of a queue that is a number or a handle.
fn property(queue: *mut c_void, info: u32) -> u64 {
    let bytes = cl::get_command_queue_data(queue, info).unwrap();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}
