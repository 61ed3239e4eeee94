//! A backend that runs the reference at once, with defects to order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::conformance::data;
use crate::conformance::reference::{self, Tensor, Tensors};
use crate::{
    Allocator, AllocatorStats, Arg, Backend, Capabilities, DataType, DeviceInfo, DeviceKind, Engine,
    EngineId, Error, Event, EventStatus, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, PostOp, Primitive,
    PrimitiveDesc, Profiled, Range, Region, Result, Stream, StreamDesc, Timestamps, validate,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    OffByATenThousandth,
    NanBecomesZero,
    FillsGaps,
    LeavesPadding,
    WritesPastTheEnd,
    IgnoresViews,
    ForgetsMapping,
    SkipsSecondCommand,
    NoValidation,
    Panics,
    NoHalf,
    RefusesHalf,
    NeverCountsBack,
}

#[derive(Debug)]
pub(super) struct Naive;

impl Backend for Naive {
    type Engine = NaiveEngine;
    type Stream = NaiveStream;
    type Memory = NaiveMemory;
    type Event = NaiveEvent;
    type Primitive = NaivePrimitive;
}

#[derive(Clone, Debug)]
pub(super) struct NaiveEngine {
    id: EngineId,
    device: DeviceInfo,
    capabilities: Capabilities,
    defect: Option<Defect>,
    stats: Arc<Mutex<AllocatorStats>>,
}

impl NaiveEngine {
    pub(super) fn new(defect: Option<Defect>) -> Self {
        let name = || "naive".to_owned();
        let device = DeviceInfo {
            backend: name(),
            platform: name(),
            name: name(),
            vendor: name(),
            driver: name(),
            kind: DeviceKind::Cpu,
        };
        let storage_types = DataType::ALL.into_iter();
        let capabilities = Capabilities {
            memory_kinds: vec![MemoryKind::Host],
            storage_types: storage_types
                .filter(|t| *t != DataType::F16 || defect != Some(Defect::NoHalf))
                .collect(),
            out_of_order: true,
            compute_units: 1,
            memory_bytes: 1 << 30,
            max_allocation_bytes: 1 << 30,
            ..Capabilities::default()
        };
        Self { id: EngineId::unique(), device, capabilities, defect, stats: Arc::default() }
    }
}

impl Engine for NaiveEngine {
    type B = Naive;

    fn id(&self) -> EngineId {
        self.id
    }

    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<NaiveStream> {
        if desc.profiling {
            return Err(Error::unsupported("stream", "profiling"));
        }
        Ok(NaiveStream { engine: self.clone(), desc: desc.clone(), commands: Arc::default() })
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<NaiveMemory> {
        self.memory(desc, kind, desc.size())
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<NaiveMemory> {
        self.memory(desc, kind, 0)
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<NaivePrimitive> {
        if self.defect == Some(Defect::RefusesHalf) && desc.src().data_type() == DataType::F16 {
            return Err(Error::unsupported("primitive", "f16"));
        }
        Ok(NaivePrimitive { engine: self.id, desc: desc.clone().resolved_row_major() })
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = Naive>> {
        Arc::new(NaiveAllocator(self.clone()))
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        Err(Error::unsupported("cache blob", "nothing is compiled"))
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        self.cache_blob_id()
    }
}

impl NaiveEngine {
    fn memory(&self, desc: &MemoryDesc, kind: MemoryKind, bytes: usize) -> Result<NaiveMemory> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        validate::allocation(desc)?;
        if kind != MemoryKind::Host {
            return Err(Error::unsupported("memory", kind.name()));
        }
        let allocation = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(NaiveMemory {
            engine: self.id,
            defect: self.defect,
            desc: desc.clone(),
            region: Region { allocation, offset: 0, bytes },
            bytes: Arc::new(Mutex::new(vec![0xA5; bytes])),
        })
    }
}

#[derive(Debug)]
struct NaiveAllocator(NaiveEngine);

impl Allocator for NaiveAllocator {
    type B = Naive;

    fn allocate(&self, bytes: usize, _alignment: usize) -> Result<NaiveMemory> {
        let memory = self.0.create_memory(&MemoryDesc::new([bytes], DataType::U8), MemoryKind::Host)?;
        self.0.stats.lock().unwrap().create(bytes);
        Ok(memory)
    }

    fn free(&self, memory: NaiveMemory, _after: Option<&NaiveEvent>) -> Result<()> {
        if memory.engine != self.0.id {
            return Err(Error::mismatch("free", memory.engine.to_string(), self.0.id.to_string()));
        }
        if self.0.defect != Some(Defect::NeverCountsBack) {
            self.0.stats.lock().unwrap().take_back(memory.region.bytes);
        }
        Ok(())
    }

    fn stats(&self) -> AllocatorStats {
        *self.0.stats.lock().unwrap()
    }

    fn trim(&self) {}
}

#[derive(Clone, Debug)]
pub(super) struct NaiveMemory {
    engine: EngineId,
    defect: Option<Defect>,
    desc: MemoryDesc,
    region: Region,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl NaiveMemory {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap()
    }

    /// The first byte in the allocation.
    fn start(&self) -> usize {
        if self.defect == Some(Defect::IgnoresViews) { 0 } else { self.region.offset }
    }

    fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        self.lock()[self.start() + offset..][..bytes].to_vec()
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.lock()[self.start() + offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Memory for NaiveMemory {
    type B = Naive;

    fn engine_id(&self) -> EngineId {
        self.engine
    }

    fn desc(&self) -> &MemoryDesc {
        &self.desc
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Host
    }

    fn region(&self) -> Region {
        self.region
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        let region = validate::view(self.region, desc, offset)?;
        Ok(Self { desc: desc.clone(), region, ..self.clone() })
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        let bytes = self.read(0, self.region.bytes);
        Ok(Box::new(NaiveMapping { memory: self.clone(), bytes, mode }))
    }
}

#[derive(Debug)]
struct NaiveMapping {
    memory: NaiveMemory,
    bytes: Vec<u8>,
    mode: MapMode,
}

impl Mapping for NaiveMapping {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.mode == MapMode::Read { &mut [] } else { &mut self.bytes }
    }

    fn unmap(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for NaiveMapping {
    fn drop(&mut self) {
        if self.memory.defect != Some(Defect::ForgetsMapping) {
            self.memory.write(0, &self.bytes);
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct NaivePrimitive {
    engine: EngineId,
    desc: PrimitiveDesc,
}

impl Primitive for NaivePrimitive {
    type B = Naive;

    fn engine_id(&self) -> EngineId {
        self.engine
    }

    fn desc(&self) -> &PrimitiveDesc {
        &self.desc
    }

    fn implementation(&self) -> &'static str {
        "naive"
    }

    fn scratchpad_size(&self) -> usize {
        16
    }
}

/// Complete from the start: commands run when they are submitted.
#[derive(Clone, Debug)]
pub(super) struct NaiveEvent;

impl Event for NaiveEvent {
    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn status(&self) -> Result<EventStatus> {
        Ok(EventStatus::Complete)
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        Ok(None)
    }
}

#[derive(Clone, Debug)]
pub(super) struct NaiveStream {
    engine: NaiveEngine,
    desc: StreamDesc,
    commands: Arc<AtomicU64>,
}

impl NaiveStream {
    fn run(&self, desc: &PrimitiveDesc, args: &[(Arg, NaiveMemory)]) -> Result<()> {
        let defect = self.engine.defect;
        let memory = |arg: Arg| args.iter().find(|(a, _)| *a == arg).map(|(_, memory)| memory);
        let mut inputs = Tensors::new();
        for operand in desc.args().iter().filter(|operand| operand.access.reads()) {
            let Some(memory) = memory(operand.arg) else { continue };
            let read_as = desc.attributes().post_ops.iter().find_map(|p| match p {
                PostOp::Sum { data_type, .. } if operand.arg == Arg::DST => *data_type,
                _ => None,
            });
            let typed = operand.desc.with_data_type(read_as.unwrap_or(operand.desc.data_type()));
            let mut values = data::decode(&typed, &memory.read(0, typed.size().min(memory.region.bytes)))?;
            if defect == Some(Defect::NanBecomesZero) {
                values.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = 0.0);
            }
            inputs.insert(operand.arg, Tensor::new(typed.dims().clone(), values)?);
        }
        for (arg, mut tensor) in reference::compute(desc, &inputs)? {
            let (Some(memory), Some(wanted)) = (memory(arg), desc.find(arg)) else { continue };
            if defect == Some(Defect::OffByATenThousandth) {
                tensor.values.iter_mut().for_each(|v| *v *= 1.0001);
            }
            let old = memory.read(0, wanted.size());
            let mut bytes = old.clone();
            if defect == Some(Defect::FillsGaps) {
                bytes.fill(0);
            }
            data::encode_into(wanted, &tensor.values, &mut bytes)?;
            if defect == Some(Defect::LeavesPadding) {
                let cover = data::coverage(wanted)?;
                for (i, _) in cover.iter().enumerate().filter(|(_, c)| **c == data::Cover::Padding) {
                    bytes[i] = old[i];
                }
            }
            memory.write(0, &bytes);
            let end = memory.start() + bytes.len();
            if defect == Some(Defect::WritesPastTheEnd)
                && let Some(byte) = memory.lock().get_mut(end)
            {
                *byte ^= 1;
            }
        }
        Ok(())
    }
}

impl Stream for NaiveStream {
    type B = Naive;

    fn engine_id(&self) -> EngineId {
        self.engine.id
    }

    fn desc(&self) -> &StreamDesc {
        &self.desc
    }

    fn execute(
        &self,
        primitive: &NaivePrimitive,
        args: &[(Arg, NaiveMemory)],
        deps: &[NaiveEvent],
    ) -> Result<NaiveEvent> {
        if self.engine.defect != Some(Defect::NoValidation) {
            validate::execution::<Naive>(self, primitive, args)?;
        }
        self.execute_validated(primitive, args, deps)
    }

    fn execute_validated(
        &self,
        primitive: &NaivePrimitive,
        args: &[(Arg, NaiveMemory)],
        _deps: &[NaiveEvent],
    ) -> Result<NaiveEvent> {
        assert!(self.engine.defect != Some(Defect::Panics), "a defect that was asked for");
        let second = self.commands.fetch_add(1, Ordering::Relaxed) == 1;
        if !(second && self.engine.defect == Some(Defect::SkipsSecondCommand)) {
            self.run(&primitive.desc, args)?;
        }
        Ok(NaiveEvent)
    }

    fn copy(&self, from: Range<Naive>, to: Range<Naive>, _deps: &[NaiveEvent]) -> Result<NaiveEvent> {
        validate::copy(self.engine.id, &from, &to)?;
        let bytes = from.memory.read(from.offset, from.bytes);
        to.memory.write(to.offset, &bytes);
        Ok(NaiveEvent)
    }

    fn write(
        &self,
        memory: &NaiveMemory,
        offset: usize,
        bytes: &[u8],
        _deps: &[NaiveEvent],
    ) -> Result<NaiveEvent> {
        validate::transfer("write", self.engine.id, memory, offset, bytes.len())?;
        memory.write(offset, bytes);
        Ok(NaiveEvent)
    }

    fn read(
        &self,
        memory: &NaiveMemory,
        offset: usize,
        bytes: &mut [u8],
        _deps: &[NaiveEvent],
    ) -> Result<()> {
        validate::transfer("read", self.engine.id, memory, offset, bytes.len())?;
        bytes.copy_from_slice(&memory.read(offset, bytes.len()));
        Ok(())
    }

    fn marker(&self, _deps: &[NaiveEvent]) -> Result<NaiveEvent> {
        Ok(NaiveEvent)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        validate::profiling("profile", &self.desc)?;
        Ok(Vec::new())
    }

    fn reset_profile(&self) -> Result<()> {
        validate::profiling("reset profile", &self.desc)
    }
}
