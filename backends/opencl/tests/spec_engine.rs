//! The specification's table of engines, row by row; each test bears the name of the row's C function.
//!
//! What `interop.rs` proves of the same rows (references, sub-devices, devices of other platforms) is not repeated here.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "the tests own every handle they pass, and fail by panicking"
)]

mod common;

use std::ptr;

use anydnn_backend::{DeviceKind, Engine, Error, Event, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClMemory};
use cl3::device::{self, CL_DEVICE_TYPE_ALL};
use common::*;

#[test]
fn engine_get_count_is_that_of_all_devices_of_all_platforms() {
    let expected: usize = cl3::platform::get_platform_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|platform| device::get_device_ids(platform, CL_DEVICE_TYPE_ALL).map_or(0, |ids| ids.len()))
        .sum();
    assert_eq!(anydnn_opencl::devices().unwrap().len(), expected);
    assert_eq!(test_engines().len(), expected);
}

#[test]
fn engine_create_makes_a_context_of_its_own() {
    for device in anydnn_opencl::devices().unwrap() {
        let (one, two) =
            (OpenClEngine::on_device(&device).unwrap(), OpenClEngine::on_device(&device).unwrap());
        assert_ne!(one.raw_context(), two.raw_context());
        assert_ne!(one.id(), two.id());
        assert_eq!((one.raw_device(), context_count(one.raw_context())), (device.raw_device(), 1));
        let (raw, other) = (one.into_raw().unwrap(), two);
        assert_eq!(context_count(raw.1), 1, "the engine's reference is gone with it");
        unsafe {
            cl3::context::release_context(raw.1).unwrap();
            device::release_device(raw.0).unwrap();
        }
        memory(&other, 4);
    }
}

#[test]
fn ocl_interop_engine_create_refuses_a_null_device() {
    for own in test_engines() {
        let before = context_count(own.raw_context());
        let error = unsafe { OpenClEngine::from_raw(ptr::null_mut(), own.raw_context()) }.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert_eq!(context_count(own.raw_context()), before);
    }
}

#[test]
fn ocl_interop_engine_create_refuses_a_null_context() {
    for own in test_engines() {
        let before = device_count(own.raw_device());
        let error = unsafe { OpenClEngine::from_raw(own.raw_device(), ptr::null_mut()) }.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert_eq!(device_count(own.raw_device()), before);
    }
}

#[test]
fn ocl_interop_engine_create_takes_any_type_of_device() {
    for own in test_engines() {
        let context = context(&own);
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        engine.create_stream(&StreamDesc::default()).unwrap().marker(&[]).unwrap().wait().unwrap();
        drop(engine);
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

#[test]
fn ocl_interop_engine_create_refuses_a_device_outside_the_context() {
    for own in test_engines() {
        let Some([inside, outside]) = halves(&own) else { continue };
        let context = context_on(&[inside]);
        let (contexts, devices) = (context_count(context), device_count(outside));
        match unsafe { OpenClEngine::from_raw(outside, context) } {
            // PoCL puts the whole device into the context, so that every part of it is in there.
            Ok(_) => assert_eq!(own.opencl_device().alias(), "pocl"),
            Err(error) => {
                assert!(matches!(error, Error::Invalid(_)), "{error}");
                let text = error.to_string();
                assert!(text.contains(&format!("{outside:p}")), "names what was given: {text}");
                assert!(text.contains(&format!("{inside:p}")), "names what is there: {text}");
            }
        }
        assert_eq!((context_count(context), device_count(outside)), (contexts, devices));
        release(context, &[inside, outside]);
    }
}

#[test]
fn ocl_interop_engine_create_takes_each_device_of_a_context_of_several() {
    for own in test_engines() {
        let Some(parts) = halves(&own) else { continue };
        let context = context_on(&parts);
        {
            let engines = parts.map(|part| unsafe { OpenClEngine::from_raw(part, context) }.unwrap());
            assert_eq!(engines.each_ref().map(OpenClEngine::raw_device), parts);
            // One buffer of the context serves both, ordered by the event of the one on the other's stream.
            let raw = buffer(context, 4);
            let memories = engines
                .each_ref()
                .map(|engine| unsafe { OpenClMemory::from_raw(engine, &bytes_desc(4), raw) }.unwrap());
            let streams =
                engines.each_ref().map(|engine| engine.create_stream(&StreamDesc::default()).unwrap());
            let written = streams[0].write(&memories[0], 0, &[1, 2, 3, 4], &[]).unwrap();
            let mut seen = [0; 4];
            streams[1].read(&memories[1], 0, &mut seen, &[written]).unwrap();
            assert_eq!(seen, [1, 2, 3, 4]);
            unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
        }
        release(context, &parts);
    }
}

#[test]
fn ocl_interop_engine_get_context_retains_nothing() {
    for engine in test_engines() {
        let before = context_count(engine.raw_context());
        for _ in 0..3 {
            assert_eq!(context_count(engine.raw_context()), before);
        }
    }
}

#[test]
fn ocl_interop_get_device_retains_nothing() {
    for own in test_engines() {
        let Some(parts) = halves(&own) else { continue };
        let context = context_on(&parts);
        let engine = unsafe { OpenClEngine::from_raw(parts[0], context) }.unwrap();
        let before = device_count(parts[0]);
        for _ in 0..3 {
            assert_eq!((engine.raw_device(), device_count(parts[0])), (parts[0], before));
        }
        drop(engine);
        release(context, &parts);
    }
}

#[test]
fn engine_get_kind_is_the_type_of_the_device() {
    for engine in test_engines() {
        let bytes = device::get_device_data(engine.raw_device(), device::CL_DEVICE_TYPE).unwrap();
        let bits = u64::from_ne_bytes(bytes.try_into().unwrap());
        let expected = match engine.device().kind {
            DeviceKind::Gpu => device::CL_DEVICE_TYPE_GPU,
            DeviceKind::Cpu => device::CL_DEVICE_TYPE_CPU,
            DeviceKind::Accelerator => device::CL_DEVICE_TYPE_ACCELERATOR,
            DeviceKind::Other => device::CL_DEVICE_TYPE_CUSTOM,
        };
        assert_ne!(bits & expected, 0, "{bits:#x}");
    }
}

#[test]
fn engine_destroy_leaves_streams_and_memory_working() {
    for own in test_engines() {
        let context = context(&own);
        let before = context_count(context);
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let memory = memory(&engine, 4);
        drop(engine);
        stream.write(&memory, 0, &[4, 3, 2, 1], &[]).unwrap();
        let mut seen = [0; 4];
        stream.read(&memory, 0, &mut seen, &[]).unwrap();
        assert_eq!((seen, stream.engine().raw_context()), ([4, 3, 2, 1], context));
        stream.wait().unwrap();
        drop((stream, memory));
        eventually(|| context_count(context) == before);
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

/// Two sub-devices of one compute unit each, where the device has them.
fn halves(engine: &OpenClEngine) -> Option<[*mut std::ffi::c_void; 2]> {
    let properties = [device::CL_DEVICE_PARTITION_EQUALLY, 1, 0];
    let parts = device::create_sub_devices(engine.raw_device(), &properties).ok()?;
    let (wanted, rest) = parts.split_at_checked(2)?;
    for &part in rest {
        unsafe { device::release_device(part) }.unwrap();
    }
    wanted.try_into().ok()
}

fn context_on(devices: &[*mut std::ffi::c_void]) -> *mut std::ffi::c_void {
    cl3::context::create_context(devices, ptr::null(), None, ptr::null_mut()).unwrap()
}

fn release(context: *mut std::ffi::c_void, devices: &[*mut std::ffi::c_void]) {
    unsafe { cl3::context::release_context(context) }.unwrap();
    for &device in devices {
        unsafe { device::release_device(device) }.unwrap();
    }
}
