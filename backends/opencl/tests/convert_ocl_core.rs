//! Objects of `ocl-core` in and out, with the exact reference counts, in both orders of dropping.

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
use ocl_core::{CommandQueue, Context, DeviceId, Event, Mem};

/// A context of the user's on the device of a test engine.
fn theirs(own: &OpenClEngine) -> (DeviceId, Context) {
    let device = unsafe { DeviceId::from_raw(own.raw_device()) };
    (device, ocl_core::create_context(None, &[device], None, None).unwrap())
}

fn their_queue(context: &Context) -> CommandQueue {
    ocl_core::create_command_queue(context, context.devices().unwrap()[0], None).unwrap()
}

fn their_buffer(context: &Context, bytes: usize) -> Mem {
    unsafe { ocl_core::create_buffer::<_, u8>(context, ocl_core::MEM_READ_WRITE, bytes, None) }.unwrap()
}

fn raw(event: &Event) -> *mut std::ffi::c_void {
    unsafe { *event.as_ptr_ref() }
}

#[test]
fn engine_from_ocl_core_adds_one_reference_to_the_context() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let (contexts, devices) = (context_count(context.as_ptr()), device_count(device.as_raw()));
        let engine = OpenClEngine::from_ocl_core(&device, &context).unwrap();
        assert_eq!((engine.raw_context(), engine.raw_device()), (context.as_ptr(), device.as_raw()));
        assert_eq!(context_count(context.as_ptr()), contexts + 1);
        drop(engine);
        assert_eq!((context_count(context.as_ptr()), device_count(device.as_raw())), (contexts, devices));

        // The engine outlives the user's object.
        let engine = OpenClEngine::from_ocl_core(&device, &context).unwrap();
        drop(context);
        assert_eq!(context_count(engine.raw_context()), contexts);
        memory(&engine, 4);
    }
}

#[test]
fn engine_to_ocl_core_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let before = context_count(engine.raw_context());
        let (device, context) = engine.to_ocl_core().unwrap();
        assert_eq!((context.as_ptr(), device.as_raw()), (engine.raw_context(), engine.raw_device()));
        assert_eq!(context_count(context.as_ptr()), before + 1);
        drop(context);
        assert_eq!(context_count(engine.raw_context()), before);

        let (_, context) = engine.to_ocl_core().unwrap();
        drop(engine);
        assert_eq!(context_count(context.as_ptr()), before);
        their_buffer(&context, 8);
    }
}

#[test]
fn an_engine_is_a_context_and_a_device_to_the_functions_of_ocl_core() {
    for engine in test_engines() {
        let before = context_count(engine.raw_context());
        let queue = ocl_core::create_command_queue(&engine, &engine, None).unwrap();
        assert_eq!(queue.context().unwrap().as_ptr(), engine.raw_context());
        assert_eq!(queue.device().unwrap().as_raw(), engine.raw_device());
        drop(queue);
        assert_eq!(context_count(engine.raw_context()), before);
    }
}

#[test]
fn stream_from_ocl_core_adds_one_reference() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let engine = OpenClEngine::from_ocl_core(&device, &context).unwrap();
        let queue = their_queue(&context);
        let stream = OpenClStream::from_ocl_core(&engine, &queue).unwrap();
        assert_eq!((stream.raw_queue(), queue_count(queue.as_ptr())), (queue.as_ptr(), 2));
        drop(stream);
        assert_eq!(queue_count(queue.as_ptr()), 1);
        let stream = OpenClStream::from_ocl_core(&engine, &queue).unwrap();
        drop(queue);
        assert_eq!(queue_count(stream.raw_queue()), 1);
        stream.marker(&[]).unwrap().wait().unwrap();

        let (_, other) = theirs(&own);
        let foreign = their_queue(&other);
        let error = OpenClStream::from_ocl_core(&engine, &foreign).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        assert_eq!(queue_count(foreign.as_ptr()), 1);
    }
}

#[test]
fn stream_to_ocl_core_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let queue = stream.to_ocl_core().unwrap();
        assert_eq!((queue.as_ptr(), queue_count(queue.as_ptr())), (stream.raw_queue(), 2));
        drop(queue);
        assert_eq!(queue_count(stream.raw_queue()), 1);
        let queue = stream.to_ocl_core().unwrap();
        drop(stream);
        assert_eq!(queue_count(queue.as_ptr()), 1);
        ocl_core::finish(&queue).unwrap();
    }
}

#[test]
fn memory_from_ocl_core_adds_one_reference() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let engine = OpenClEngine::from_ocl_core(&device, &context).unwrap();
        let buffer = their_buffer(&context, 8);
        let memory = OpenClMemory::from_ocl_core(&engine, &bytes_desc(8), &buffer).unwrap();
        assert_eq!((memory.raw_mem(), mem_count(buffer.as_ptr())), (buffer.as_ptr(), 2));
        drop(memory);
        assert_eq!(mem_count(buffer.as_ptr()), 1);

        let error = OpenClMemory::from_ocl_core(&engine, &bytes_desc(9), &buffer).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert_eq!(mem_count(buffer.as_ptr()), 1);

        let memory = OpenClMemory::from_ocl_core(&engine, &bytes_desc(8), &buffer).unwrap();
        drop(buffer);
        assert_eq!(mem_count(memory.raw_mem()), 1);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        stream.write(&memory, 0, &[7; 8], &[]).unwrap();
    }
}

#[test]
fn memory_to_ocl_core_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let memory = memory(&engine, 8);
        let buffer = memory.to_ocl_core().unwrap();
        assert_eq!((buffer.as_ptr(), mem_count(buffer.as_ptr())), (memory.raw_mem(), 2));
        drop(buffer);
        assert_eq!(mem_count(memory.raw_mem()), 1);

        // What we wrote to a view is read at its offset in the whole buffer, when ours are gone.
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let view = memory.view(&bytes_desc(4), 3).unwrap();
        stream.write(&view, 0, &[1, 2, 3, 4], &[]).unwrap();
        let (buffer, offset) = (view.to_ocl_core().unwrap(), view.offset());
        let queue = stream.to_ocl_core().unwrap();
        drop((memory, view, stream));
        let mut seen = [0_u8; 4];
        unsafe {
            ocl_core::enqueue_read_buffer(
                &queue,
                &buffer,
                true,
                offset,
                &mut seen,
                None::<&Event>,
                None::<&mut Event>,
            )
        }
        .unwrap();
        assert_eq!(seen, [1, 2, 3, 4]);
        eventually(|| mem_count(buffer.as_ptr()) == 1);
    }
}

#[test]
fn memory_to_ocl_core_refuses_memory_without_bytes() {
    for engine in test_engines() {
        let error = memory(&engine, 0).to_ocl_core().unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}

#[test]
fn event_from_ocl_core_adds_one_reference() {
    for engine in test_engines() {
        let theirs = ocl_core::create_user_event(&engine).unwrap();
        let raw = raw(&theirs);
        let event = OpenClEvent::from_ocl_core(&engine, &theirs).unwrap();
        assert_eq!((event.raw_event(), event_count(raw)), (raw, 2));
        drop(event);
        assert_eq!(event_count(raw), 1);
        let event = OpenClEvent::from_ocl_core(&engine, &theirs).unwrap();
        theirs.set_complete().unwrap();
        drop(theirs);
        assert_eq!(event_count(raw), 1);
        event.wait().unwrap();
    }
}

#[test]
fn event_from_ocl_core_refuses_an_empty_event() {
    for engine in test_engines() {
        let error = OpenClEvent::from_ocl_core(&engine, &Event::null()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}

#[test]
fn event_to_ocl_core_gives_a_reference_of_its_own() {
    for engine in test_engines() {
        let (raw, event) = user_event(&engine);
        let theirs = event.to_ocl_core().unwrap();
        assert_eq!((self::raw(&theirs), event_count(raw)), (raw, 3));
        drop(theirs);
        assert_eq!(event_count(raw), 2);
        let theirs = event.to_ocl_core().unwrap();
        drop(event);
        release_event(raw);
        assert_eq!(event_count(raw), 1);
        theirs.set_complete().unwrap();
        theirs.wait_for().unwrap();
    }
}

#[test]
fn a_round_trip_through_ocl_core_leaves_the_counts_as_they_were() {
    for own in test_engines() {
        let (device, context) = theirs(&own);
        let before = context_count(context.as_ptr());
        {
            let engine = OpenClEngine::from_ocl_core(&device, &context).unwrap();
            let (device, context) = engine.to_ocl_core().unwrap();
            let twin = OpenClEngine::from_ocl_core(&device, &context).unwrap();
            let stream = twin.create_stream(&StreamDesc::default()).unwrap();
            let stream = OpenClStream::from_ocl_core(&engine, &stream.to_ocl_core().unwrap()).unwrap();
            let buffer = memory(&twin, 8).to_ocl_core().unwrap();
            let memory = OpenClMemory::from_ocl_core(&engine, &bytes_desc(8), &buffer).unwrap();
            let written = stream.write(&memory, 0, &[9; 8], &[]).unwrap().to_ocl_core().unwrap();
            let event = OpenClEvent::from_ocl_core(&engine, &written).unwrap();
            let mut seen = [0; 8];
            stream.read(&memory, 0, &mut seen, &[event]).unwrap();
            assert_eq!(seen, [9; 8]);
            stream.wait().unwrap();
        }
        eventually(|| context_count(context.as_ptr()) == before);
    }
}
