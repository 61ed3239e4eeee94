//! The contract's own suite on every OpenCL device.

use anydnn_backend::conformance::Suite;
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenCl, OpenClEngine};

#[test]
fn every_device_conforms() {
    let engines = test_engines();
    std::thread::scope(|scope| {
        for (number, engine) in engines.iter().enumerate() {
            scope.spawn(move || {
                let second = OpenClEngine::on_device(engine.opencl_device()).unwrap();
                let report =
                    Suite::<OpenCl>::from_env(engine).as_device(number).with_second_engine(&second).run();
                report.assert_passed();
                // Devices differ in their kinds of memory; everything else of the standard suite must work.
                let mut lacking = report.unsupported();
                lacking.retain(|(case, _)| !case.starts_with("memory/kind/"));
                assert!(lacking.is_empty(), "{}: {lacking:?}", engine.opencl_device());
            });
        }
    });
}
