//! A graph compiled for one backend on a stream of another.

use anydnn::execute::Executable;
use anydnn_host::{Host, HostStream};
use anydnn_mock::Mock;

fn run(network: &Executable<Mock>, stream: &HostStream) {
    let _ = network.execute(stream, &[], &[], &[]);
}

fn host_runs_host(network: &Executable<Host>, stream: &HostStream) {
    let _ = network.execute(stream, &[], &[], &[]);
}

fn main() {}
