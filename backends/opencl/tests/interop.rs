//! Raw handles in and out, with the exact reference counts.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]

mod common;

use anydnn_backend::{
    DataType, Engine, Error, Event, MapMode, Memory, MemoryDesc, Order, Stream, StreamDesc,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use common::*;

#[test]
fn an_engine_adds_one_reference_to_context_and_device() {
    for own in test_engines() {
        let context = context(&own);
        let (contexts, devices) = (context_count(context), device_count(own.raw_device()));
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        assert_eq!(context_count(context), contexts + 1);
        let clone = engine.clone();
        let _ = engine.capabilities();
        assert_eq!(context_count(context), contexts + 1, "clones and probes leave no trace");
        assert_eq!((engine.raw_context(), engine.raw_device()), (context, own.raw_device()));
        assert_eq!(clone.id(), engine.id());
        drop((engine, clone));
        assert_eq!((context_count(context), device_count(own.raw_device())), (contexts, devices));
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

#[test]
fn sub_devices_are_retained_and_released() {
    for own in test_engines() {
        let properties = [cl3::device::CL_DEVICE_PARTITION_EQUALLY, 1, 0]
            .map(|p| p as cl3::types::cl_device_partition_property);
        let Ok(parts) = cl3::device::create_sub_devices(own.raw_device(), &properties) else { continue };
        let part = parts[0];
        let context =
            cl3::context::create_context(&[part], std::ptr::null(), None, std::ptr::null_mut()).unwrap();
        let before = device_count(part);
        let engine = unsafe { OpenClEngine::from_raw(part, context) }.unwrap();
        assert_eq!(device_count(part), before + 1);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let target = memory(&engine, 4);
        stream.write(&target, 0, &[1, 2, 3, 4], &[]).unwrap();
        drop((stream, target, engine));
        eventually(|| device_count(part) == before);
        // PoCL lists the whole device instead of its part.
        if own.opencl_device().alias() != "pocl" {
            let error = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "the parent is not in the context: {error}");
        }
        unsafe { cl3::context::release_context(context) }.unwrap();
        for part in parts {
            unsafe { cl3::device::release_device(part) }.unwrap();
        }
    }
}

#[test]
fn a_device_of_another_platform_is_refused_by_name() {
    let engines = test_engines();
    for (a, b) in engines.iter().zip(engines.iter().skip(1)) {
        let before = context_count(b.raw_context());
        let error = unsafe { OpenClEngine::from_raw(a.raw_device(), b.raw_context()) }.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)));
        let text = error.to_string();
        assert!(
            text.contains(&format!("{:p}", a.raw_device()))
                && text.contains(&format!("{:p}", b.raw_context()))
        );
        assert_eq!(context_count(b.raw_context()), before);
    }
    let null = unsafe { OpenClEngine::from_raw(std::ptr::null_mut(), std::ptr::null_mut()) };
    assert!(matches!(null, Err(Error::Invalid(_))));
}

#[test]
fn a_stream_adds_one_reference_and_reads_order_and_profiling() {
    for engine in test_engines() {
        for (bits, order, profiling) in [
            (0, Order::InOrder, false),
            (1, Order::OutOfOrder, false),
            (2, Order::InOrder, true),
            (3, Order::OutOfOrder, true),
        ] {
            let queue = queue(&engine, engine.raw_context(), bits);
            let stream = unsafe { OpenClStream::from_raw(&engine, queue) }.unwrap();
            let clone = stream.clone();
            assert_eq!(queue_count(queue), 2);
            assert_eq!((stream.desc().order, stream.desc().profiling), (order, profiling));
            assert_eq!(clone.raw_queue(), queue);
            let target = memory(&engine, 4);
            let event = stream.write(&target, 0, &[1, 2, 3, 4], &[]).unwrap();
            event.wait().unwrap();
            let times = event.timestamps().unwrap();
            assert_eq!(times.is_some(), profiling);
            if let Some(times) = times {
                assert!(times.queued <= times.started && times.started <= times.ended, "{times:?}");
            }
            stream.wait().unwrap();
            // On PoCL a buffer keeps its last command's event, and that its queue.
            drop((event, stream, clone, target));
            eventually(|| queue_count(queue) == 1);
            common::release_queue(queue);
        }
    }
}

#[test]
fn objects_of_another_context_are_refused_and_left_alone() {
    for engine in test_engines() {
        let other = context(&engine);
        let (foreign_queue, foreign_buffer) = (queue(&engine, other, 0), buffer(other, 16));
        let foreign_event = cl3::event::create_user_event(other).unwrap();
        let errors = [
            unsafe { OpenClStream::from_raw(&engine, foreign_queue) }.map(drop).unwrap_err(),
            unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(16), foreign_buffer) }
                .map(drop)
                .unwrap_err(),
            unsafe { OpenClEvent::from_raw(&engine, foreign_event) }.map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::Mismatch { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("{other:p}")), "names what was given: {text}");
            assert!(text.contains(&format!("{:p}", engine.raw_context())), "names what was expected: {text}");
        }
        assert_eq!((queue_count(foreign_queue), mem_count(foreign_buffer)), (1, 1));
        assert_eq!(event_count(foreign_event), 1);

        // An event of another engine's context as a dependency.
        let second = unsafe { OpenClEngine::from_raw(engine.raw_device(), other) }.unwrap();
        let dep = unsafe { OpenClEvent::from_raw(&second, foreign_event) }.unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let error = stream.marker(&[dep]).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        set(foreign_event, 0);
        unsafe {
            cl3::event::release_event(foreign_event).unwrap();
            cl3::memory::release_mem_object(foreign_buffer).unwrap();
            common::release_queue(foreign_queue);
            cl3::context::release_context(other).unwrap();
        }
    }
}

#[test]
fn engines_on_one_context_share_events() {
    for engine in test_engines() {
        let twin = unsafe { OpenClEngine::from_raw(engine.raw_device(), engine.raw_context()) }.unwrap();
        assert_ne!(twin.id(), engine.id());
        let event = engine.create_stream(&StreamDesc::default()).unwrap().marker(&[]).unwrap();
        twin.create_stream(&StreamDesc::default()).unwrap().marker(&[event]).unwrap().wait().unwrap();
    }
}

#[test]
fn memory_adds_one_reference_and_checks_size_and_type() {
    for engine in test_engines() {
        let raw = buffer(engine.raw_context(), 64);
        let desc = MemoryDesc::new([16], DataType::F32);
        let memory = unsafe { OpenClMemory::from_raw(&engine, &desc, raw) }.unwrap();
        let view = memory.view(&MemoryDesc::new([2], DataType::F32), 9).unwrap();
        assert_eq!(mem_count(raw), 2, "views share the reference");
        assert_eq!((view.raw_mem(), view.offset(), view.region().offset), (raw, 9, 9));
        assert!(memory.view(&desc, 1).is_err());

        let twice = unsafe { OpenClMemory::from_raw(&engine, &desc, raw) }.unwrap();
        assert!(twice.region().overlaps(&view.region()), "the same buffer is the same allocation");
        drop((memory, twice));
        assert_eq!(mem_count(raw), 2, "a view keeps the bytes");
        drop(view);
        assert_eq!(mem_count(raw), 1);

        let large = MemoryDesc::new([17], DataType::F32);
        let error = unsafe { OpenClMemory::from_raw(&engine, &large, raw) }.unwrap_err().to_string();
        assert!(error.contains("64 bytes") && error.contains("68 bytes"), "{error}");
        assert_eq!(mem_count(raw), 1);
        unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
    }
}

#[test]
fn sub_buffers_lie_inside_their_parent() {
    for engine in test_engines() {
        let align = 4096;
        let raw = buffer(engine.raw_context(), 2 * align);
        let region = cl3::memory::cl_buffer_region { origin: align, size: 64 };
        let part = unsafe {
            let kind = cl3::memory::CL_BUFFER_CREATE_TYPE_REGION;
            cl3::memory::create_sub_buffer(
                raw,
                cl3::memory::CL_MEM_READ_WRITE,
                kind,
                (&raw const region).cast(),
            )
        }
        .unwrap();
        let whole = unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(2 * align), raw) }.unwrap();
        let part_memory = unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(64), part) }.unwrap();
        assert_eq!(part_memory.region().offset, align);
        assert!(part_memory.region().overlaps(&whole.region()));
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        stream.write(&part_memory, 1, &[5; 3], &[]).unwrap();
        let mut seen = [0; 3];
        stream.read(&whole, align + 1, &mut seen, &[]).unwrap();
        assert_eq!(seen, [5; 3]);
        drop((whole, part_memory));
        unsafe {
            cl3::memory::release_mem_object(part).unwrap();
            cl3::memory::release_mem_object(raw).unwrap();
        }
    }
}

#[test]
fn events_go_in_and_out_with_one_reference() {
    for engine in test_engines() {
        let (raw, event) = user_event(&engine);
        assert_eq!(event_count(raw), 2);
        let clone = event.clone();
        assert_eq!((event_count(raw), clone.raw_event()), (2, raw));
        drop((event, clone));
        assert_eq!(event_count(raw), 1);
        set(raw, 0);
        release_event(raw);

        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let event = stream.marker(&[]).unwrap();
        let kept = event.clone();
        let raw = event.into_raw().unwrap();
        stream.wait().unwrap();
        drop((stream, kept));
        // Only the caller's reference is left, once the driver has let go of its own.
        eventually(|| event_count(raw) == 1);
        cl3::event::wait_for_events(&[raw]).unwrap();
        release_event(raw);
    }
}

#[test]
fn nothing_is_left_behind() {
    for own in test_engines() {
        let context = context(&own);
        let before = context_count(context);
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        {
            let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
            let memory = memory(&engine, 256);
            let event = stream.write(&memory, 0, &[3; 256], &[]).unwrap();
            let temporary = engine.allocator().allocate(1000, 64).unwrap();
            engine.allocator().free(temporary, Some(&event)).unwrap();
            assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), [3; 256]);
            stream.wait().unwrap();
            // Objects outlive the engine's last handle.
            drop(engine);
            assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), [3; 256]);
        }
        // Drivers let go of ended commands a moment later.
        eventually(|| context_count(context) == before);
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}
