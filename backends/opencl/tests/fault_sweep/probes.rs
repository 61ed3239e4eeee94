//! Probes that fail: a feature that cannot be tried is one that is absent.

use anydnn_backend::Engine;
use anydnn_faults::{Fault, documented_codes};
use anydnn_opencl::OpenClEngine;
use cl3::types::cl_device_id;

use crate::sweep::Sweep;

/// Fails each function of the probes. They are made once per device and process, so each attempt takes another part of the device.
pub(crate) fn sweep(sweep: &mut Sweep<'_>, engine: &OpenClEngine) {
    let whole = engine.capabilities().clone();
    let Some(parts) = Parts::of(engine) else {
        println!("probes: the device has no parts to try them on");
        return;
    };
    let mut parts = parts.fuse();
    sweep.begin("probes");
    let layer = sweep.layer();
    let Some(part) = parts.next() else { return };
    let before = sweep.settled(None);
    layer.start_trace();
    let _ = engine_on(part).capabilities();
    let mut functions = layer.trace();
    assert_eq!(sweep.settled(Some(&before)), before, "probes leave nothing behind");
    functions.sort_unstable();
    functions.dedup();
    let mut tried = 0;
    for function in &functions {
        let codes = documented_codes(function);
        let Some(&code) = codes.last().filter(|_| function.as_str() != "clSetUserEventStatus") else {
            continue;
        };
        for persistent in [false, true] {
            let Some(part) = parts.next() else { return };
            let what = format!("probes: {function}: {code}, persistent {persistent}");
            sweep.begin(&what);
            let engine = engine_on(part);
            let before = sweep.settled(None);
            layer.reset();
            layer.arm(&Fault::new(function, 1, code, persistent).unwrap());
            let found = engine.capabilities().clone();
            layer.disarm();
            sweep.count();
            tried += 1;
            let gained: Vec<_> =
                found.features.iter().filter(|(name, probe)| probe.works && !whole.has(name)).collect();
            if !gained.is_empty() {
                sweep.problem(&format!("{what}: gained {gained:?}"));
            }
            if sweep.settled(Some(&before)) != before || !layer.violations().is_empty() {
                sweep.problem(&format!("{what}: {}", layer.report()));
            }
        }
    }
    println!("probes: {} functions, {tried} faults", functions.len());
}

fn engine_on(part: cl_device_id) -> OpenClEngine {
    let context =
        cl3::context::create_context(&[part], std::ptr::null(), None, std::ptr::null_mut()).unwrap();
    let engine = unsafe { OpenClEngine::from_raw(part, context) }.unwrap();
    unsafe { cl3::context::release_context(context) }.unwrap();
    engine
}

/// Parts of a device that nobody has seen before, kept to the end so that no address comes back.
struct Parts {
    device: cl_device_id,
    unused: Vec<cl_device_id>,
}

impl Parts {
    fn of(engine: &OpenClEngine) -> Option<Self> {
        let mut parts = Self { device: engine.raw_device(), unused: Vec::new() };
        let first = parts.next()?;
        parts.unused.push(first);
        Some(parts)
    }
}

impl Iterator for Parts {
    type Item = cl_device_id;

    fn next(&mut self) -> Option<cl_device_id> {
        if self.unused.is_empty() {
            let properties = [cl3::device::CL_DEVICE_PARTITION_EQUALLY, 1, 0]
                .map(|p| p as cl3::types::cl_device_partition_property);
            self.unused = cl3::device::create_sub_devices(self.device, &properties).ok()?;
        }
        self.unused.pop()
    }
}
