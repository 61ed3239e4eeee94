//! Memory handles and mappings.

use std::sync::Arc;

use anydnn_backend::{EngineId, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Region, Result, validate};

use crate::Mock;
use crate::faults::Point;
use crate::poison;
use crate::race::{Footprint, Moment, Touch, verb};
use crate::state::{Counter, Shared, State, Token, labelled, map_access};

/// Memory of the mock device: bytes of the host under the label of any kind.
///
/// Fresh memory holds [`POISON`](crate::POISON). Mapping does not wait, as on a real device: a command at the same bytes that nobody
/// has waited for is a race.
#[derive(Clone, Debug)]
pub struct MockMemory {
    inner: Arc<Inner>,
    /// Shared among clones, of which an execution makes some for each argument.
    desc: Arc<MemoryDesc>,
    region: Region,
}

#[derive(Debug)]
struct Inner {
    allocation: u64,
    kind: MemoryKind,
    token: Token,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.token.shared.lock().heap.drop_handle(self.allocation);
    }
}

impl MockMemory {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        state: &mut State,
        desc: MemoryDesc,
        kind: MemoryKind,
        region: Region,
    ) -> Self {
        let name =
            state.heap.block(region.allocation).map_or_else(|_| "m?".into(), |block| block.name.clone());
        let what = labelled(format!("memory {name} ({} bytes)", region.bytes), desc.label());
        state.log.line(labelled(format!("memory {name} {kind} {} bytes", region.bytes), desc.label()));
        let token = Token::new(shared, state, what);
        Self {
            inner: Arc::new(Inner { allocation: region.allocation, kind, token }),
            desc: Arc::new(desc),
            region,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.token.shared
    }
}

impl Memory for MockMemory {
    type B = Mock;

    fn engine_id(&self) -> EngineId {
        self.shared().engine
    }

    fn desc(&self) -> &MemoryDesc {
        &self.desc
    }

    fn kind(&self) -> MemoryKind {
        self.inner.kind
    }

    fn region(&self) -> Region {
        self.region
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        let region = validate::view(self.region, desc, offset)?;
        Ok(Self { inner: Arc::clone(&self.inner), desc: Arc::new(desc.clone()), region })
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        let shared = self.shared();
        let mut state = shared.enter(Point::Map, "map")?;
        let access = map_access(mode);
        let touch = Touch::new("map", "memory", access, self.region);
        let host = state.host.clone();
        state.check(self.region.allocation, &touch, &host, shared.races)?;
        let number = state.number(Counter::Map);
        let name = state.heap.name(self.region);
        let mut bytes = state.heap.bytes(self.region)?.to_vec();
        if mode == MapMode::Write {
            poison::fill(&mut bytes, poison::POISON);
        }
        let footprint = Footprint { moment: Moment::Map(number), touch };
        state.heap.block_mut(self.region.allocation)?.footprints.add(footprint, &host, &host);
        state.log.line(format_args!("map {name} to {}", verb(access)));
        let token = Token::new(shared, &mut state, format!("mapping of {name}"));
        Ok(Box::new(MockMapping {
            memory: self.clone(),
            mode,
            number,
            name,
            bytes,
            ended: false,
            _token: token,
        }))
    }
}

/// A copy of the mapped bytes, which goes back when the mapping ends: nothing is visible to the device before.
#[derive(Debug)]
struct MockMapping {
    memory: MockMemory,
    mode: MapMode,
    number: u64,
    name: String,
    bytes: Vec<u8>,
    ended: bool,
    _token: Token,
}

impl MockMapping {
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let mut state = self.memory.shared().lock();
        let region = self.memory.region;
        state.heap.block_mut(region.allocation)?.footprints.end_map(self.number);
        state.log.line(format_args!("unmap {}", self.name));
        if self.mode != MapMode::Read {
            state.heap.write(region, &self.bytes)?;
        }
        state.faults.lost("unmap")
    }
}

impl Mapping for MockMapping {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.mode == MapMode::Read { &mut [] } else { &mut self.bytes }
    }

    fn unmap(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for MockMapping {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(target: "anydnn_mock", %error, "unmap failed");
        }
    }
}
