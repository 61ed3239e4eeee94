//! The contract's own suite by the kernels for sub-groups.
//!
//! It is a program of its own as it cannot run under the fence: as Intel's runtime spreads the work-items of a sub-group over the lanes of
//! a processor, it reads whole vectors where a program reads the few elements that there are (softmax of `[4, 9]` with a post-operation:
//! 16 bytes from the last 4 on). What it reads too much it does not use.

use anydnn_backend::conformance::Suite;
use anydnn_opencl::OpenCl;
use anydnn_opencl::testing::sub_group_test_engines;

/// A kind of device decides about speed, never about results.
#[test]
fn kernels_for_sub_groups_conform() {
    for engine in sub_group_test_engines() {
        for family in ["softmax", "normalization", "reduction", "expression", "matmul", "convolution"] {
            let report = Suite::<OpenCl>::new(&engine).with_filter(family).run();
            report.assert_passed();
            assert!(report.passed() > 0, "no case of {family}");
        }
    }
}
