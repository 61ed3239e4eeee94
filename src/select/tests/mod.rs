//! Tests of the selection, on candidates that pose as devices.

mod passed_on;
mod stranger;

use anydnn_backend::conformance;
use anydnn_backend::{
    Arg, DataType, DeviceInfo, DeviceKind, Eltwise, Engine, ErasedEngine, Error, Event, MemoryDesc,
    MemoryKind, Op, PrimitiveDesc, Stream, StreamDesc,
};
use anydnn_host::HostEngine;

use super::candidate::Candidate;
use super::{AnyBackend, AnyEngine, AnyMemory, Pattern, Selector};

fn device(kind: DeviceKind, platform: &str, name: &str) -> DeviceInfo {
    DeviceInfo {
        backend: "opencl".into(),
        platform: platform.into(),
        name: name.into(),
        // As PoCL says on an Intel processor: `intel` must not name it.
        vendor: "GenuineIntel".into(),
        driver: "1".into(),
        kind,
    }
}

fn opencl(alias: &str, index: usize, kind: DeviceKind, platform: &str, name: &str) -> Candidate {
    let engine = Ok(ErasedEngine::new(HostEngine::new()));
    Candidate::posing("opencl", alias, index, device(kind, platform, name), engine)
}

fn candidates() -> Vec<Candidate> {
    let mut all = vec![
        opencl("pocl", 0, DeviceKind::Cpu, "Portable Computing Language", "pthread-Intel(R) Xeon(R)"),
        opencl("intel", 0, DeviceKind::Cpu, "Intel(R) OpenCL", "Intel(R) Xeon(R)"),
        opencl("acme", 0, DeviceKind::Accelerator, "ACME Compute", "Anvil"),
        opencl("nvidia", 0, DeviceKind::Gpu, "NVIDIA CUDA", "NVIDIA H200"),
        opencl("nvidia", 1, DeviceKind::Gpu, "NVIDIA CUDA", "NVIDIA T4"),
    ];
    all.extend(super::candidate::host());
    all
}

fn chosen(selector: &Selector, candidates: &[Candidate]) -> String {
    selector.choose(candidates).unwrap().chosen
}

fn choose(text: &str) -> String {
    chosen(&Selector::parse(text).unwrap(), &candidates())
}

#[test]
fn the_default_order_is_gpu_accelerator_other_device_host() {
    let mut all = candidates();
    for (gone, expected) in [
        (0, "opencl:nvidia:0"),
        (2, "opencl:acme:0"),
        (1, "opencl:intel:0"),
        (1, "opencl:pocl:0"),
        (1, "host"),
    ] {
        for _ in 0..gone {
            let best = all.iter().position(|c| c.name() == chosen(&Selector::new(), &all)).unwrap();
            all.remove(best);
        }
        assert_eq!(chosen(&Selector::new(), &all), expected);
    }
}

#[test]
fn a_vendor_s_own_driver_comes_before_those_for_everybody_s_devices() {
    let on = |alias: &str, kind| opencl(alias, 0, kind, alias, "the same device");
    let (cpu, gpu) = (DeviceKind::Cpu, DeviceKind::Gpu);
    for (all, expected) in [
        (vec![on("pocl", cpu), on("intel", cpu)], "opencl:intel:0"),
        (vec![on("intel", cpu), on("pocl", cpu)], "opencl:intel:0"),
        (vec![on("rusticl", gpu), on("amd", gpu), on("intel", cpu)], "opencl:amd:0"),
        // The kind counts more than the driver, and among equals the loader's order.
        (vec![on("intel", cpu), on("pocl", gpu)], "opencl:pocl:0"),
        (vec![on("clvk", gpu), on("rusticl", gpu)], "opencl:clvk:0"),
        (vec![on("acme", cpu), on("intel", cpu)], "opencl:acme:0"),
    ] {
        assert_eq!(chosen(&Selector::new(), &all), expected);
    }
}

#[test]
fn patterns_name_platforms_kinds_names_and_indices() {
    assert_eq!(choose("host"), "host");
    assert_eq!(choose("opencl"), "opencl:nvidia:0");
    assert_eq!(choose("opencl:intel"), "opencl:intel:0");
    assert_eq!(choose("opencl:pocl"), "opencl:pocl:0");
    assert_eq!(choose("opencl:nvidia:1"), "opencl:nvidia:1");
    assert_eq!(choose("opencl:2"), "opencl:acme:0");
    assert_eq!(choose("opencl:t4"), "opencl:nvidia:1");
    assert_eq!(choose("opencl:cpu"), "opencl:intel:0");
    assert_eq!(choose("opencl:gpu:1"), "opencl:nvidia:1");
    assert_eq!(choose("opencl:amd,opencl:accelerator,host"), "opencl:acme:0");
}

#[test]
fn every_candidate_is_named_by_its_own_name() {
    let all = candidates();
    for candidate in &all {
        let selector = Selector::parse(candidate.name()).unwrap();
        assert_eq!(chosen(&selector, &all), candidate.name());
    }
}

#[test]
fn preferences_allowances_and_denials_hold() {
    let all = candidates();
    let pattern = |text: &str| text.parse::<Pattern>().unwrap();
    assert_eq!(chosen(&Selector::new().prefer([DeviceKind::Cpu]), &all), "opencl:intel:0");
    assert_eq!(
        chosen(&Selector::new().allow(pattern("opencl:intel")).allow(pattern("host")), &all),
        "opencl:intel:0"
    );
    let selection = Selector::new().deny(pattern("opencl:nvidia")).choose(&all).unwrap();
    assert_eq!(selection.chosen, "opencl:acme:0");
    let rejected: Vec<_> = selection.rejected.iter().map(ToString::to_string).collect();
    assert_eq!(
        rejected,
        ["opencl:nvidia:0: opencl:nvidia is denied", "opencl:nvidia:1: opencl:nvidia is denied"]
    );
}

#[test]
fn an_engine_that_fails_is_rejected_and_the_next_is_tried() {
    let mut all = candidates();
    let broken = Err(Error::DeviceLost("fell off the bus".into()));
    all[3] = Candidate::posing(
        "opencl",
        "nvidia",
        0,
        device(DeviceKind::Gpu, "NVIDIA CUDA", "NVIDIA H200"),
        broken,
    );
    let selection = Selector::new().choose(&all).unwrap();
    assert_eq!(selection.chosen, "opencl:nvidia:1");
    assert_eq!(selection.rejected.len(), 1);
    assert_eq!(selection.rejected[0].candidate, "opencl:nvidia:0");
    assert!(selection.rejected[0].reason.contains("fell off the bus"));
}

#[test]
fn when_nothing_is_left_every_candidate_is_listed_with_its_reason() {
    let error = Selector::parse("opencl:amd").unwrap().choose(&candidates()[..2]).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }));
    let text = error.to_string();
    for part in [
        "opencl:amd",
        "opencl:pocl:0: opencl:amd does not name it",
        "opencl:intel:0",
        "install an OpenCL driver",
        "use host",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn a_missing_library_is_a_reason_whatever_device_was_named() {
    let missing = Candidate::missing("opencl", Error::unavailable("OpenCL", "no libOpenCL.so"));
    let mut all = vec![missing];
    all.extend(super::candidate::host());
    let selection = Selector::new().choose(&all).unwrap();
    assert_eq!(selection.chosen, "host");
    assert!(selection.rejected[0].reason.contains("no libOpenCL.so"), "{:?}", selection.rejected);
    let error = Selector::parse("opencl:nvidia:1").unwrap().choose(&all).unwrap_err().to_string();
    assert!(error.contains("no libOpenCL.so"), "{error}");
}

#[test]
fn values_of_the_environment_are_read() {
    assert_eq!(Selector::from_value(Some("host".into())).unwrap().select().unwrap().chosen, "host");
    assert!(Selector::from_value(None).unwrap().select().is_ok());
    assert!(Selector::from_value(Some("".into())).unwrap().select().is_ok());
    let error = Selector::from_value(Some("cuda".into())).unwrap_err();
    assert!(matches!(error.root(), Error::Invalid(_)));
    let text = error.to_string();
    assert!(
        text.starts_with("ANYDNN_BACKEND:") && text.contains("\"cuda\"") && text.contains("opencl:PLATFORM"),
        "{text}"
    );
}

#[test]
fn a_third_party_s_engine_takes_part() {
    let engine = ErasedEngine::new(HostEngine::new());
    let selector = Selector::parse("erased:host").unwrap().with_engine(engine.clone());
    let selection = selector.select().unwrap();
    assert_eq!(selection.chosen, "erased:0");
    assert_eq!(selection.engine.id(), engine.id());
    assert!(selection.engine.as_erased().is_some() && selection.engine.as_host().is_none());
    let error = Selector::parse("erased").unwrap().select().unwrap_err().to_string();
    assert!(error.contains("gave no engine"), "{error}");
}

#[test]
fn two_backends_objects_do_not_mix() {
    let host = AnyEngine::from(HostEngine::new());
    let other = AnyEngine::from(ErasedEngine::new(HostEngine::new()));
    let desc = MemoryDesc::new([4], DataType::F32);
    let memory: AnyMemory = other.create_memory(&desc, MemoryKind::Host).unwrap();
    let stream = host.create_stream(&StreamDesc::default()).unwrap();
    let event = other.create_stream(&StreamDesc::default()).unwrap().marker(&[]).unwrap();
    let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
        .src(desc.clone())
        .dst(desc.clone())
        .build()
        .unwrap();
    let own = host.create_primitive(&relu).unwrap();
    let foreign = other.create_primitive(&relu).unwrap();
    let own_memory = || host.create_memory(&desc, MemoryKind::Host).unwrap();
    let args = [(Arg::SRC, own_memory()), (Arg::DST, own_memory())];
    let mixed = [(Arg::SRC, own_memory()), (Arg::DST, memory.clone())];
    stream.execute(&own, &args, &[]).unwrap().wait().unwrap();
    for result in [
        stream.execute(&foreign, &args, &[]).map(drop),
        stream.execute(&own, &mixed, &[]).map(drop),
        stream.execute(&own, &args, std::slice::from_ref(&event)).map(drop),
        stream.write(&memory, 0, &[0; 16], &[]).map(drop),
        stream.marker(&[event]).map(drop),
        { host.allocator().free(memory.clone(), None) },
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("backend erased") && text.contains("backend host"), "{text}");
    }
}

#[test]
fn any_host_conforms() {
    conformance::run::<AnyBackend>(&HostEngine::new().into()).assert_passed();
}

#[cfg(feature = "mock")]
#[test]
fn any_mock_conforms() {
    conformance::run::<AnyBackend>(&anydnn_mock::MockEngine::with_seed(3).into()).assert_passed();
}

#[test]
fn any_erased_host_conforms() {
    conformance::run::<AnyBackend>(&ErasedEngine::new(HostEngine::new()).into()).assert_passed();
}
