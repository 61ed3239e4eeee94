//! A memory of one backend on a stream of another.

use anydnn::backend::{Stream, StreamDesc, Engine, MemoryDesc, MemoryKind, DataType};
use anydnn_host::HostEngine;
use anydnn_mock::MockDevice;

fn main() {
    let device = MockDevice::builder().build();
    let stream = device.engine().create_stream(&StreamDesc::default()).unwrap();
    let memory = HostEngine::new().create_memory(&MemoryDesc::new([1], DataType::F32), MemoryKind::Host).unwrap();
    let _ = stream.write(&memory, 0, &[0; 4], &[]);
}
