//! A user's kernels before and behind our network, ordered by events only: on every OpenCL device and on the mock.

#[cfg(feature = "opencl")]
#[path = "../examples/opencl3_interop.rs"]
#[expect(dead_code, reason = "the example's main is not called")]
mod example;

#[cfg(feature = "opencl")]
#[test]
fn the_opencl3_example_reads_the_digits_on_every_platform() {
    for engine in anydnn_opencl::testing::test_engines() {
        use anydnn::backend::Engine;
        let outcome = example::run(&engine.device().platform).unwrap();
        assert!(outcome.right * 100 >= outcome.total * 97, "{} of {} on {}", outcome.right, outcome.total, outcome.device);
    }
}
