//! The contract's own suite on the mock device.

use anydnn_backend::conformance::Suite;
use anydnn_mock::{Mock, MockDevice};

/// Whatever a seed does with the order and with open layouts, the device conforms; and the suite declares every dependency and lets go
/// of everything it makes, or the device would say so. In a sample the seeds share the cases.
#[test]
fn conforms_under_several_seeds() {
    for (number, seed) in (0..4).enumerate() {
        let (device, second) = (MockDevice::new(seed), MockDevice::new(seed));
        let suite = Suite::<Mock>::from_env(&device.engine()).as_device(number);
        let report = suite.with_second_engine(&second.engine()).run();
        report.assert_passed();
        assert!(report.unsupported().is_empty(), "{:?}", report.unsupported());
        assert!(device.races().is_empty(), "{:?}", device.races());
    }
}
