//! What the tests share: a device with four floats to a memory.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use anydnn_backend::op::{Binary, BinaryAlgorithm, Op};
use anydnn_backend::{
    Arg, DataType, Eltwise, Engine, Memory, MemoryDesc, MemoryKind, PrimitiveDesc, Result, Stream, StreamDesc,
};
use anydnn_mock::{MockDevice, MockEngine, MockEvent, MockMemory, MockPrimitive, MockStream};

pub(crate) fn floats() -> MemoryDesc {
    MemoryDesc::new([4], DataType::F32)
}

pub(crate) fn bytes(values: [f32; 4]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(crate) fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// An engine with one stream. Fields drop before the device that the test holds.
pub(crate) struct Setup {
    pub(crate) engine: MockEngine,
    pub(crate) stream: MockStream,
}

impl Setup {
    pub(crate) fn out_of_order(device: &MockDevice) -> Self {
        Self::on(device, &StreamDesc::out_of_order())
    }

    pub(crate) fn in_order(device: &MockDevice) -> Self {
        Self::on(device, &StreamDesc::default())
    }

    pub(crate) fn on(device: &MockDevice, desc: &StreamDesc) -> Self {
        let engine = device.engine();
        let stream = engine.create_stream(desc).unwrap();
        Self { engine, stream }
    }

    pub(crate) fn memory(&self) -> MockMemory {
        self.engine.create_memory(&floats(), MemoryKind::Buffer).unwrap()
    }

    /// `dst = alpha * src + beta`
    pub(crate) fn linear(&self, alpha: f32, beta: f32) -> MockPrimitive {
        let desc =
            PrimitiveDesc::builder(Op::Eltwise(Eltwise::Linear { alpha, beta })).src(floats()).dst(floats());
        self.engine.create_primitive(&desc.label("linear").build().unwrap()).unwrap()
    }

    pub(crate) fn add(&self) -> MockPrimitive {
        let desc = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Add)))
            .src(floats())
            .src(floats())
            .dst(floats());
        self.engine.create_primitive(&desc.build().unwrap()).unwrap()
    }

    pub(crate) fn write(&self, to: &MockMemory, content: [f32; 4]) -> MockEvent {
        self.stream.write(to, 0, &bytes(content), &[]).unwrap()
    }

    pub(crate) fn unary(
        &self,
        primitive: &MockPrimitive,
        src: &MockMemory,
        dst: &MockMemory,
        deps: &[MockEvent],
    ) -> Result<MockEvent> {
        self.stream.execute(primitive, &[(Arg::SRC, src.clone()), (Arg::DST, dst.clone())], deps)
    }

    pub(crate) fn binary(
        &self,
        primitive: &MockPrimitive,
        [a, b]: [&MockMemory; 2],
        dst: &MockMemory,
        deps: &[MockEvent],
    ) -> Result<MockEvent> {
        let args = [(Arg::Src(0), a.clone()), (Arg::Src(1), b.clone()), (Arg::DST, dst.clone())];
        self.stream.execute(primitive, &args, deps)
    }

    pub(crate) fn read(&self, from: &MockMemory, deps: &[MockEvent]) -> Result<Vec<f32>> {
        let mut content = vec![0; from.region().bytes];
        self.stream.read(from, 0, &mut content, deps)?;
        Ok(values(&content))
    }
}
