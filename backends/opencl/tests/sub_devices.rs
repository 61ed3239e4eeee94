//! Engines on parts of a device, and several in one context.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::ffi::c_void;
use std::ptr;

use anydnn_backend::{Engine, Error, Event, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use cl3::device as cl;
use cl3::types::{cl_context, cl_device_id, cl_device_partition_property};
use common::*;

const ELEMENTS: usize = 1000;
const BYTES: usize = 4 * ELEMENTS;

/// Two parts of one compute unit each in a context of both, released at the end.
struct Parts {
    devices: Vec<cl_device_id>,
    context: cl_context,
}

impl Parts {
    /// None where the device cannot be divided, which the test devices can.
    fn of(engine: &OpenClEngine, properties: &[cl_device_partition_property]) -> Option<Self> {
        let parts = cl::create_sub_devices(engine.raw_device(), properties);
        let devices = match parts {
            Err(code) => {
                let alias = engine.opencl_device().alias();
                assert!(alias != "pocl" && alias != "intel", "{engine:?} cannot be divided: {code}");
                return None;
            }
            Ok(devices) => devices,
        };
        assert!(devices.len() >= 2);
        let context = cl3::context::create_context(&devices, ptr::null(), None, ptr::null_mut()).unwrap();
        Some(Self { devices, context })
    }

    fn by_counts(engine: &OpenClEngine) -> Option<Self> {
        Self::of(
            engine,
            &[cl::CL_DEVICE_PARTITION_BY_COUNTS, 1, 1, cl::CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0],
        )
    }

    fn engine(&self, i: usize) -> OpenClEngine {
        unsafe { OpenClEngine::from_raw(self.devices[i], self.context) }.unwrap()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        unsafe { cl3::context::release_context(self.context) }.unwrap();
        for &device in &self.devices {
            unsafe { cl::release_device(device) }.unwrap();
        }
    }
}

/// `2x + 1` for every element, on a stream of any order.
fn computes(engine: &OpenClEngine, desc: &StreamDesc) {
    let stream = engine.create_stream(desc).unwrap();
    let step = linear(engine, ELEMENTS, (2.0, 1.0), "step");
    let (a, b) = (memory(engine, BYTES), memory(engine, BYTES));
    let values: Vec<f32> = (0..ELEMENTS).map(|i| i as f32).collect();
    let written = stream.write(&a, 0, &to_bytes(&values), &[]).unwrap();
    let done = stream.execute(&step, &src_dst(&a, &b), &[written]).unwrap();
    let mut seen = vec![0; BYTES];
    stream.read(&b, 0, &mut seen, &[done]).unwrap();
    let expected: Vec<f32> = values.iter().map(|x| 2.0 * x + 1.0).collect();
    assert_eq!(to_floats(&seen), expected);
    stream.wait().unwrap();
}

#[test]
fn engines_on_sub_devices_compute_and_retain_the_device_once() {
    for own in test_engines() {
        for by_counts in [true, false] {
            let parts = if by_counts {
                Parts::by_counts(&own)
            } else {
                Parts::of(&own, &[cl::CL_DEVICE_PARTITION_EQUALLY, 1, 0])
            };
            let Some(parts) = parts else { continue };
            let counts: Vec<u32> = parts.devices.iter().map(|&device| device_count(device)).collect();
            for (i, &device) in parts.devices.iter().enumerate() {
                let engine = parts.engine(i);
                assert_eq!(device_count(device), counts[i] + 1);
                assert_eq!(engine.capabilities().compute_units, 1);
                computes(&engine, &StreamDesc::default().with_profiling());
                let out_of_order = StreamDesc::out_of_order();
                if engine.capabilities().out_of_order {
                    computes(&engine, &out_of_order);
                } else {
                    // Intel's CPU runtime hangs in such queues on parts of a device.
                    assert_eq!(own.opencl_device().alias(), "intel");
                    let error = engine.create_stream(&out_of_order).unwrap_err();
                    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
                }
                let clone = engine.clone();
                drop(engine);
                assert!(device_count(device) > counts[i], "a clone keeps the device");
                drop(clone);
                eventually(|| device_count(device) == counts[i]);
            }
        }
    }
}

#[test]
fn into_raw_gives_one_reference_to_a_sub_device() {
    for own in test_engines() {
        let Some(parts) = Parts::by_counts(&own) else { continue };
        let before = device_count(parts.devices[0]);
        let (device, context) = parts.engine(0).into_raw().unwrap();
        assert_eq!((device, context), (parts.devices[0], parts.context));
        assert_eq!(device_count(device), before + 1);
        unsafe {
            cl::release_device(device).unwrap();
            cl3::context::release_context(context).unwrap();
        }
        assert_eq!(device_count(device), before);
    }
}

#[test]
fn engines_of_one_context_have_programs_of_their_own_and_share_events() {
    for own in test_engines() {
        let Some(parts) = Parts::by_counts(&own) else { continue };
        let engines = [parts.engine(0), parts.engine(1)];
        assert_ne!(engines[0].id(), engines[1].id());
        let streams = engines.each_ref().map(|e| e.create_stream(&StreamDesc::default()).unwrap());
        // The same buffer object for both, worked on in turns.
        let raw = buffer(parts.context, BYTES);
        let memories =
            engines.each_ref().map(|e| unsafe { OpenClMemory::from_raw(e, &floats(ELEMENTS), raw) }.unwrap());
        let steps = engines.each_ref().map(|e| linear(e, ELEMENTS, (2.0, 1.0), "step"));
        let (gate, held) = user_event(&engines[0]);
        let mut last = streams[0].write(&memories[0], 0, &to_bytes(&[0.0; ELEMENTS]), &[]).unwrap();
        last = streams[0].marker(&[last, held]).unwrap();
        for i in 0..10 {
            let turn = i % 2;
            let args = src_dst(&memories[turn], &memories[turn]);
            last = streams[turn].execute(&steps[turn], &args, &[last]).unwrap();
        }
        set(gate, 0);
        let mut seen = vec![0; BYTES];
        streams[0].read(&memories[0], 0, &mut seen, std::slice::from_ref(&last)).unwrap();
        assert_eq!(to_floats(&seen), [1023.0; ELEMENTS]);

        // Everything but events belongs to one engine.
        let args = src_dst(&memories[1], &memories[1]);
        let errors = [
            streams[0].execute(&steps[1], &args, &[]).unwrap_err(),
            streams[0].execute(&steps[0], &args, &[]).unwrap_err(),
            streams[0].write(&memories[1], 0, &[0; 4], &[]).unwrap_err(),
            streams[0].copy(whole(&memories[0], 4), whole(&memories[1], 4), &[]).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error.root(), Error::Mismatch { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&engines[0].id().to_string()), "{text}");
            assert!(text.contains(&engines[1].id().to_string()), "{text}");
        }
        for stream in &streams {
            stream.wait().unwrap();
        }
        // A failure crosses over too.
        let (raw_failing, failing) = user_event(&engines[1]);
        let here = streams[1].marker(&[failing]).unwrap();
        let there = streams[0].marker(&[here]).unwrap();
        set(raw_failing, -9);
        let error = there.wait().unwrap_err();
        assert!(matches!(error, Error::Dependency { .. }) && error.to_string().contains("-9"), "{error}");
        assert!(streams.iter().all(|stream| stream.wait().is_err()));
        release_event(raw_failing);
        release_event(gate);
        drop((streams, memories, steps, last, args));
        unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
    }
}

#[test]
fn queues_of_the_whole_device_and_of_other_contexts_are_refused_and_left_alone() {
    for own in test_engines() {
        let Some(parts) = Parts::by_counts(&own) else { continue };
        let engine = parts.engine(0);
        // A context of the whole device; on PoCL one of the parts takes queues of the whole, too.
        let whole_queue = queue(&own, own.raw_context(), 0);
        let sibling = queue(&parts.engine(1), parts.context, 0);
        let mut foreign = vec![whole_queue, sibling];
        foreign.extend(queue_on(parts.context, own.raw_device()));
        let other = context_of(parts.devices[0]);
        foreign.push(queue(&engine, other, 0));
        for queue in foreign {
            let before = queue_count(queue);
            let error = unsafe { OpenClStream::from_raw(&engine, queue) }.unwrap_err();
            assert!(matches!(error, Error::Mismatch { .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("{queue:p}")), "{error}");
            assert_eq!(queue_count(queue), before);
            common::release_queue(queue);
        }
        // An event of another context of the same part.
        let event = cl3::event::create_user_event(other).unwrap();
        let error = unsafe { OpenClEvent::from_raw(&engine, event) }.unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error:?}");
        assert_eq!(event_count(event), 1);
        set(event, 0);
        release_event(event);
        unsafe { cl3::context::release_context(other) }.unwrap();
    }
}

fn context_of(device: cl_device_id) -> cl_context {
    cl3::context::create_context(&[device], ptr::null(), None, ptr::null_mut()).unwrap()
}

/// A queue on any device, if the context takes it.
fn queue_on(context: cl_context, device: cl_device_id) -> Option<*mut c_void> {
    let list = [0];
    unsafe { cl3::command_queue::create_command_queue_with_properties(context, device, list.as_ptr()) }.ok()
}

#[test]
fn a_part_is_released_right_after_its_last_command() {
    for own in test_engines() {
        for _ in 0..100 {
            let Some(parts) = Parts::by_counts(&own) else { continue };
            let engine = parts.engine(0);
            engine.create_stream(&StreamDesc::default()).unwrap().marker(&[]).unwrap().wait().unwrap();
        }
    }
}
