//! Objects of `opencl3` in and out, with the exact reference counts, in both orders of dropping.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "the tests own every handle they pass, and fail by panicking"
)]

mod common;

use anydnn_backend::{Engine, Error, Event as _, Memory, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use common::*;
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::Device;
use opencl3::event::{CL_COMPLETE, Event};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::svm::SvmVec;
use opencl3::types::CL_BLOCKING;

/// A context of the user's on the device of a test engine.
fn theirs(own: &OpenClEngine) -> (Device, Context) {
    let device = Device::new(own.raw_device());
    (device, Context::from_device(&device).unwrap())
}

fn their_queue(context: &Context) -> CommandQueue {
    unsafe { CommandQueue::create_with_properties(context, context.default_device(), 0, 0) }.unwrap()
}

fn their_buffer(context: &Context, bytes: usize) -> Buffer<u8> {
    unsafe { Buffer::create(context, CL_MEM_READ_WRITE, bytes, std::ptr::null_mut()) }.unwrap()
}

#[test]
fn engine_from_opencl3_adds_one_reference_to_the_context() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let (contexts, devices) = (context_count(context.get()), device_count(device.id()));
        let engine = OpenClEngine::from_opencl3(&device, &context).unwrap();
        assert_eq!((engine.raw_context(), engine.raw_device()), (context.get(), device.id()));
        assert_eq!(context_count(context.get()), contexts + 1);
        drop(engine);
        assert_eq!((context_count(context.get()), device_count(device.id())), (contexts, devices));

        // The engine outlives the user's object.
        let engine = OpenClEngine::from_opencl3(&device, &context).unwrap();
        drop(context);
        assert_eq!(context_count(engine.raw_context()), contexts);
        memory(&engine, 4);
    }
}

#[test]
fn engine_from_opencl3_takes_sub_devices() {
    for own in test_engines() {
        let Ok(parts) = Device::new(own.raw_device()).create_sub_devices(&[
            opencl3::device::CL_DEVICE_PARTITION_EQUALLY,
            1,
            0,
        ]) else {
            continue;
        };
        let part = Device::new(parts[0].id());
        let context = Context::from_device(&part).unwrap();
        let before = device_count(part.id());
        let engine = OpenClEngine::from_opencl3(&part, &context).unwrap();
        assert_eq!(device_count(part.id()), before + 1);
        let (same, _) = engine.to_opencl3().unwrap();
        assert_eq!((same.id(), device_count(part.id())), (part.id(), before + 1), "a copy counts nothing");
        drop(engine);
        assert_eq!(device_count(part.id()), before);
    }
}

#[test]
fn engine_to_opencl3_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let before = context_count(engine.raw_context());
        let (device, context) = engine.to_opencl3().unwrap();
        assert_eq!((context.get(), device.id()), (engine.raw_context(), engine.raw_device()));
        assert_eq!(context.devices(), [device.id()]);
        assert_eq!(context_count(context.get()), before + 1);
        drop(context);
        assert_eq!(context_count(engine.raw_context()), before);

        let (_, context) = engine.to_opencl3().unwrap();
        drop(engine);
        assert_eq!(context_count(context.get()), before);
        assert_eq!(their_buffer(&context, 8).size().unwrap(), 8);
    }
}

#[test]
fn stream_from_opencl3_adds_one_reference() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let engine = OpenClEngine::from_opencl3(&device, &context).unwrap();
        let queue = their_queue(&context);
        let stream = OpenClStream::from_opencl3(&engine, &queue).unwrap();
        assert_eq!((stream.raw_queue(), queue_count(queue.get())), (queue.get(), 2));
        drop(stream);
        assert_eq!(queue_count(queue.get()), 1);
        let stream = OpenClStream::from_opencl3(&engine, &queue).unwrap();
        drop(queue);
        assert_eq!(queue_count(stream.raw_queue()), 1);
        stream.marker(&[]).unwrap().wait().unwrap();

        let (_, other) = theirs(&own);
        let foreign = their_queue(&other);
        let error = OpenClStream::from_opencl3(&engine, &foreign).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        assert_eq!(queue_count(foreign.get()), 1);
    }
}

#[test]
fn stream_to_opencl3_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let queue = stream.to_opencl3().unwrap();
        assert_eq!((queue.get(), queue_count(queue.get())), (stream.raw_queue(), 2));
        assert!(queue.max_work_item_dimensions() >= 3);
        drop(queue);
        assert_eq!(queue_count(stream.raw_queue()), 1);
        let queue = stream.to_opencl3().unwrap();
        drop(stream);
        assert_eq!(queue_count(queue.get()), 1);
        queue.finish().unwrap();
    }
}

#[test]
fn memory_from_opencl3_adds_one_reference() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let engine = OpenClEngine::from_opencl3(&device, &context).unwrap();
        let buffer = their_buffer(&context, 8);
        let memory = OpenClMemory::from_opencl3(&engine, &bytes_desc(8), &buffer).unwrap();
        assert_eq!((memory.raw_mem(), mem_count(buffer.get())), (buffer.get(), 2));
        drop(memory);
        assert_eq!(mem_count(buffer.get()), 1);

        let error = OpenClMemory::from_opencl3(&engine, &bytes_desc(9), &buffer).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert_eq!(mem_count(buffer.get()), 1);

        let memory = OpenClMemory::from_opencl3(&engine, &bytes_desc(8), &buffer).unwrap();
        drop(buffer);
        assert_eq!(mem_count(memory.raw_mem()), 1);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        stream.write(&memory, 0, &[7; 8], &[]).unwrap();
    }
}

#[test]
fn memory_from_opencl3_svm_is_the_vectors_own_bytes() {
    let mut tried = 0;
    for engine in test_engines() {
        let (_, context) = engine.to_opencl3().unwrap();
        if context.get_svm_mem_capability() == 0 {
            continue;
        }
        tried += 1;
        let mut vector = SvmVec::<u16>::allocate(&context, 4).unwrap();
        let error = unsafe { OpenClMemory::from_opencl3_svm(&engine, &bytes_desc(9), &mut vector) };
        let error = error.unwrap_err().to_string();
        assert!(error.contains("8 bytes") && error.contains("9 bytes"), "{error}");

        let memory = unsafe { OpenClMemory::from_opencl3_svm(&engine, &bytes_desc(8), &mut vector) }.unwrap();
        assert_eq!(memory.raw_pointer(), vector.as_mut_ptr().cast());
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        stream.write(&memory, 0, &[1, 0, 2, 0, 3, 0, 4, 0], &[]).unwrap();
        let mut seen = [0; 8];
        stream.read(&memory, 0, &mut seen, &[]).unwrap();
        assert_eq!(seen, [1, 0, 2, 0, 3, 0, 4, 0]);
        stream.wait().unwrap();
        drop(memory);
        if vector.is_fine_grained() {
            assert_eq!(*vector, [1, 2, 3, 4].map(u16::to_le));
        }
    }
    assert!(tried > 0 || std::env::var("ANYDNN_REQUIRE").is_err(), "no device has shared virtual memory");
}

#[test]
fn memory_to_opencl3_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let memory = memory(&engine, 8);
        let buffer = memory.to_opencl3::<u8>().unwrap();
        assert_eq!((buffer.get(), mem_count(buffer.get())), (memory.raw_mem(), 2));
        drop(buffer);
        assert_eq!(mem_count(memory.raw_mem()), 1);

        // What we wrote to a view is read at its offset in the whole buffer, when ours are gone.
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let view = memory.view(&bytes_desc(4), 3).unwrap();
        stream.write(&view, 0, &[1, 2, 3, 4], &[]).unwrap();
        let (buffer, offset) = (view.to_opencl3::<u8>().unwrap(), view.offset());
        let queue = stream.to_opencl3().unwrap();
        drop((memory, view, stream));
        let mut seen = [0; 4];
        unsafe { queue.enqueue_read_buffer(&buffer, CL_BLOCKING, offset, &mut seen, &[]) }.unwrap();
        assert_eq!(seen, [1, 2, 3, 4]);
        eventually(|| mem_count(buffer.get()) == 1);
    }
}

#[test]
fn memory_to_opencl3_refuses_memory_without_bytes() {
    for engine in test_engines() {
        let error = memory(&engine, 0).to_opencl3::<u8>().unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert!(error.to_string().contains("buffer object"), "{error}");
    }
}

#[test]
fn event_from_opencl3_adds_one_reference() {
    for engine in test_engines() {
        let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
        let theirs = Event::new(raw);
        let event = OpenClEvent::from_opencl3(&engine, &theirs).unwrap();
        assert_eq!((event.raw_event(), event_count(raw)), (raw, 2));
        drop(event);
        assert_eq!(event_count(raw), 1);
        let event = OpenClEvent::from_opencl3(&engine, &theirs).unwrap();
        set(raw, CL_COMPLETE);
        drop(theirs);
        assert_eq!(event_count(raw), 1);
        event.wait().unwrap();
    }
}

#[test]
fn event_to_opencl3_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let (raw, event) = user_event(&engine);
        let theirs = event.to_opencl3().unwrap();
        assert_eq!((theirs.get(), event_count(raw)), (raw, 3));
        drop(theirs);
        assert_eq!(event_count(raw), 2);
        let theirs = event.to_opencl3().unwrap();
        drop(event);
        release_event(raw);
        assert_eq!(event_count(raw), 1);
        set(raw, CL_COMPLETE);
        theirs.wait().unwrap();
    }
}

#[test]
fn a_round_trip_through_opencl3_leaves_the_counts_as_they_were() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let before = context_count(context.get());
        {
            let engine = OpenClEngine::from_opencl3(&device, &context).unwrap();
            let (device, context) = engine.to_opencl3().unwrap();
            let twin = OpenClEngine::from_opencl3(&device, &context).unwrap();
            let stream = twin.create_stream(&StreamDesc::default()).unwrap();
            let stream = OpenClStream::from_opencl3(&engine, &stream.to_opencl3().unwrap()).unwrap();
            let buffer = memory(&twin, 8).to_opencl3::<u8>().unwrap();
            let memory = OpenClMemory::from_opencl3(&engine, &bytes_desc(8), &buffer).unwrap();
            let written = stream.write(&memory, 0, &[9; 8], &[]).unwrap().to_opencl3().unwrap();
            let event = OpenClEvent::from_opencl3(&engine, &written).unwrap();
            let mut seen = [0; 8];
            stream.read(&memory, 0, &mut seen, &[event]).unwrap();
            assert_eq!(seen, [9; 8]);
            stream.wait().unwrap();
        }
        eventually(|| context_count(context.get()) == before);
    }
}
