//! Memory that processors and the host touch in place: what goes in and out of an execution is copied without a command of the device,
//! whose start and end take longer than the copy of few bytes.

use std::sync::Mutex;

use anydnn_backend::{
    Backend, DataType, DeviceKind, Engine, Event, EventStatus, MapMode, Memory, MemoryDesc, MemoryKind,
    Result,
};

use super::lock;

/// The most bytes of one value: behind more, the copy counts and not its command.
const MOST_BYTES: usize = 1 << 20;
/// The most bytes that are kept for later executions.
const MOST_IDLE: usize = 8 << 20;
/// The fewest bytes of a memory. Sizes are powers of two, so that one serves values of about its size, whatever their shapes.
const LEAST_BYTES: usize = 256;

/// Memory of such a kind, kept for later executions.
#[derive(Debug)]
pub(super) struct Direct<B: Backend> {
    kind: MemoryKind,
    idle: Mutex<Vec<Idle<B>>>,
}

/// Memory, and the last command on it.
type Idle<B> = (<B as Backend>::Memory, Option<<B as Backend>::Event>);

impl<B: Backend> Direct<B> {
    /// None where the device is no processor or has no such memory, or where each allocation is to be by itself.
    pub(super) fn of(engine: &B::Engine) -> Option<Self> {
        const KINDS: [MemoryKind; 3] = [MemoryKind::System, MemoryKind::SvmFine, MemoryKind::Host];
        let kinds = engine.memory_kinds();
        let kind = KINDS.into_iter().find(|kind| kinds.contains(kind))?;
        let is_apt = engine.device().kind == DeviceKind::Cpu && !engine.allocator().keeps_apart();
        is_apt.then(|| Self { kind, idle: Mutex::default() })
    }

    /// Memory that no command uses, as large as a descriptor says or a little larger; None for too many bytes.
    pub(super) fn take(&self, engine: &B::Engine, desc: &MemoryDesc) -> Result<Option<B::Memory>> {
        let bytes = desc.size().max(LEAST_BYTES).next_power_of_two();
        if bytes > MOST_BYTES {
            return Ok(None);
        }
        let is_free = |(memory, last): &Idle<B>| {
            let ended = |event: &B::Event| matches!(event.status(), Ok(EventStatus::Complete));
            memory.region().bytes == bytes && last.as_ref().is_none_or(ended)
        };
        let mut idle = lock(&self.idle);
        if let Some(at) = idle.iter().rposition(is_free) {
            return Ok(Some(idle.swap_remove(at).0));
        }
        drop(idle);
        let desc = MemoryDesc::new([bytes], DataType::U8);
        engine.create_memory(&desc, self.kind).map(Some)
    }

    /// Keeps memory for later, behind the last command on it.
    pub(super) fn park(&self, memory: B::Memory, last: Option<B::Event>) {
        let mut idle = lock(&self.idle);
        idle.push((memory, last));
        let mut bytes: usize = idle.iter().map(|(memory, _)| memory.region().bytes).sum();
        // Those that were used longest ago first.
        while bytes > MOST_IDLE {
            bytes -= idle.remove(0).0.region().bytes;
        }
    }
}

/// Copies bytes to memory that no command uses.
pub(super) fn write<B: Backend>(memory: &B::Memory, bytes: &[u8]) -> Result<()> {
    let mut mapping = memory.map(MapMode::Write)?;
    mapping.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    mapping.unmap()
}

/// Copies bytes of memory that no command writes.
pub(super) fn read<B: Backend>(memory: &B::Memory, bytes: &mut [u8]) -> Result<()> {
    let mapping = memory.map(MapMode::Read)?;
    bytes.copy_from_slice(&mapping.bytes()[..bytes.len()]);
    mapping.unmap()
}

#[cfg(test)]
mod tests {
    use anydnn_backend::Stream;
    use anydnn_mock::{Mock, MockDevice};

    use super::*;

    #[test]
    fn memory_comes_back_when_its_last_command_has_ended() {
        let device = MockDevice::builder().allow_leaks().build();
        let engine = device.engine();
        let stream = engine.create_stream(&anydnn_backend::StreamDesc::default()).unwrap();
        let direct = Direct::<Mock> { kind: MemoryKind::System, idle: Mutex::default() };
        let desc = MemoryDesc::new([10], DataType::F32);
        let take = |desc: &MemoryDesc| direct.take(&engine, desc).unwrap().expect("few bytes");
        let first = take(&desc);
        let gate = device.user_event();
        let last = stream.marker(&[gate.event()]).unwrap();
        direct.park(first.clone(), Some(last.clone()));
        let second = take(&desc);
        assert!(!first.region().overlaps(&second.region()), "a command uses it");
        gate.set_complete().unwrap();
        last.wait().unwrap();
        assert_eq!(take(&desc).region(), first.region());
        direct.park(second.clone(), None);
        // As large, rounded up, but not larger.
        assert_eq!(take(&MemoryDesc::new([60], DataType::F32)).region(), second.region());
        assert!(direct.take(&engine, &MemoryDesc::new([MOST_BYTES], DataType::F32)).unwrap().is_none());
        // Of many shapes little is kept.
        let large = MemoryDesc::new([MOST_BYTES], DataType::U8);
        let all: Vec<_> = (0..20).map(|_| take(&large)).collect();
        for memory in all {
            direct.park(memory, None);
        }
        let kept: usize = lock(&direct.idle).iter().map(|(memory, _)| memory.region().bytes).sum();
        assert_eq!(kept, MOST_IDLE);
    }
}
