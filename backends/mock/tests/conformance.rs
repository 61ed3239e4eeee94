//! The contract's own suite on the mock device.

use anydnn_backend::conformance::Suite;
use anydnn_mock::{Mock, MockDevice};

/// Whatever a seed does with the order and with open layouts, the device conforms; and the suite declares every dependency and lets go
/// of everything it makes, or the device would say so.
#[test]
fn conforms_under_several_seeds() {
    for seed in 0..4 {
        let (device, second) = (MockDevice::new(seed), MockDevice::new(seed));
        let report = Suite::<Mock>::new(&device.engine()).with_second_engine(&second.engine()).run();
        report.assert_passed();
        assert!(report.unsupported().is_empty(), "{:?}", report.unsupported());
        assert!(device.races().is_empty(), "{:?}", device.races());
    }
}
