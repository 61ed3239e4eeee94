//! The contract's own suite on the host backend.

use anydnn_backend::conformance::Suite;
use anydnn_host::{Host, HostEngine};

#[test]
fn the_host_conforms() {
    let (engine, other) = (HostEngine::with_threads(2).unwrap(), HostEngine::new());
    Suite::<Host>::from_env(&engine).with_second_engine(&other).run().assert_passed();
}
