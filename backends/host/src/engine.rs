//! The processor as an engine.

use std::fs;
use std::sync::{Arc, LazyLock};

use anydnn_backend::{
    Allocator, Capabilities, DeviceInfo, DeviceKind, Engine, EngineId, Error, List, ListStep, MemoryDesc,
    MemoryKind, PrimitiveDesc, Result, StreamDesc, validate,
};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Host;
use crate::allocator::HostAllocator;
use crate::compute::Kind;
use crate::fast::{Crew, Mode};
use crate::list::HostList;
use crate::memory::HostMemory;
use crate::primitive::{self, HostPrimitive};
use crate::stream::HostStream;
use crate::user_allocator::UserAllocator;

/// The processor, with a number of threads.
///
/// ```
/// use anydnn_backend::Engine;
/// let engine = anydnn_host::HostEngine::with_threads(2)?;
/// assert_eq!(engine.capabilities().compute_units, 2);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostEngine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: EngineId,
    device: DeviceInfo,
    capabilities: Capabilities,
    /// None uses rayon's global threads.
    threads: Option<Arc<ThreadPool>>,
    /// The threads of fast forms.
    crew: Arc<Crew>,
    mode: Mode,
    allocator: Arc<HostAllocator>,
}

impl HostEngine {
    /// An engine on rayon's global threads, one for each core unless configured otherwise.
    pub fn new() -> Self {
        Self::on(None, Crew::global(), Mode::of_environment(), None)
    }

    /// An engine of the process that others take their primitives from.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<HostEngine> = LazyLock::new(HostEngine::new);
        &SHARED
    }

    /// An engine on threads of its own.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no threads, [`Error::Unavailable`] when the system starts no more.
    pub fn with_threads(threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::invalid("host engine", "threads", "0", "at least one"));
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("anydnn-host-{i}"));
        let pool = pool
            .build()
            .map_err(|error| Error::unavailable(format!("{threads} threads"), error.to_string()))?;
        Ok(Self::on_pool(pool, Mode::of_environment()))
    }

    /// An engine on rayon's global threads that computes by the reference alone, whatever `ANYDNN_HOST` says: what vector forms and other
    /// backends are compared with.
    pub fn reference() -> Self {
        Self::on(None, Crew::global(), Mode::Reference, None)
    }

    /// An engine on threads of its own with forms that a test chooses.
    #[cfg(test)]
    pub(crate) fn of_mode(threads: usize, mode: Mode) -> Result<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool =
            pool.map_err(|error| Error::unavailable(format!("{threads} threads"), error.to_string()))?;
        Ok(Self::on_pool(pool, mode))
    }

    /// Another engine on the same threads, whose temporaries come from the user's allocator: those of graphs. What a primitive needs while
    /// it computes is the library's.
    pub fn with_allocator(&self, allocator: UserAllocator) -> Self {
        Self::on(self.0.threads.clone(), self.0.crew.clone(), self.0.mode, Some(allocator))
    }

    /// Whether temporary memory comes from a [user's allocator](HostEngine::with_allocator).
    pub fn has_user_allocator(&self) -> bool {
        self.0.allocator.is_user()
    }

    fn on_pool(pool: ThreadPool, mode: Mode) -> Self {
        let crew = Arc::new(Crew::new(pool.current_num_threads()));
        Self::on(Some(Arc::new(pool)), crew, mode, None)
    }

    fn on(
        threads: Option<Arc<ThreadPool>>,
        crew: Arc<Crew>,
        mode: Mode,
        user: Option<UserAllocator>,
    ) -> Self {
        let id = EngineId::unique();
        let mut capabilities = Capabilities::default();
        capabilities.memory_kinds = KINDS.to_vec();
        capabilities.storage_types = Kind::DATA_TYPES.to_vec();
        capabilities.out_of_order = true;
        capabilities.profiling = true;
        capabilities.compute_units =
            threads.as_ref().map_or_else(rayon::current_num_threads, |threads| threads.current_num_threads());
        capabilities.memory_bytes = total_memory();
        capabilities.max_allocation_bytes = capabilities.memory_bytes;
        let allocator = Arc::new(HostAllocator::new(id, capabilities.max_allocation_bytes, user));
        Self(Arc::new(Inner { id, device: device(), capabilities, threads, crew, mode, allocator }))
    }

    /// The threads that fast forms share.
    pub(crate) fn crew(&self) -> &Crew {
        &self.0.crew
    }

    /// Runs work on this engine's threads.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0.threads {
            Some(threads) => threads.install(work),
            None => work(),
        }
    }
}

impl Default for HostEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for HostEngine {
    type B = Host;

    fn id(&self) -> EngineId {
        self.0.id
    }

    fn device(&self) -> &DeviceInfo {
        &self.0.device
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<HostStream> {
        Ok(HostStream::new(self.clone(), desc.clone()))
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<HostMemory> {
        check_memory(desc, kind)?;
        HostMemory::new(self.0.id, desc.clone(), kind, self.0.capabilities.max_allocation_bytes)
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<HostMemory> {
        check_memory(desc, kind)?;
        HostMemory::unbacked(self.0.id, desc.clone(), kind)
    }

    fn resolve(&self, desc: &PrimitiveDesc) -> Result<PrimitiveDesc> {
        Ok(primitive::resolve(self.0.mode, desc.clone()))
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<HostPrimitive> {
        HostPrimitive::new(self.0.id, self.0.mode, desc.clone())
    }

    fn ready(&self, steps: &[ListStep<Host>], _slots: usize) -> Result<Option<Box<dyn List<Host>>>> {
        Ok(Some(Box::new(HostList::new(steps))))
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = Host>> {
        Arc::clone(&self.0.allocator) as Arc<dyn Allocator<B = Host>>
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        Err(nothing_to_cache())
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        Err(nothing_to_cache())
    }
}

fn check_memory(desc: &MemoryDesc, kind: MemoryKind) -> Result<()> {
    validate::allocation(desc)?;
    if KINDS.contains(&kind) {
        return Ok(());
    }
    Err(Error::unsupported(
        format!("{kind} memory on the host"),
        "the host backend has memory of the kinds host and system alone",
    ))
}

/// The library's own memory, and such that has an address.
const KINDS: [MemoryKind; 2] = [MemoryKind::Host, MemoryKind::System];

fn nothing_to_cache() -> Error {
    Error::unsupported("cache blob of the host", "the host compiles nothing")
}

fn device() -> DeviceInfo {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let entry = |name: &str| field(&cpuinfo, name).map(ToOwned::to_owned);
    DeviceInfo {
        backend: "host".into(),
        platform: "host".into(),
        name: entry("model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        vendor: entry("vendor_id").unwrap_or_else(|| std::env::consts::ARCH.into()),
        driver: env!("CARGO_PKG_VERSION").into(),
        kind: DeviceKind::Cpu,
    }
}

/// Bytes of memory; where the system does not say, as much as can be addressed.
fn total_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes =
        field(&meminfo, "MemTotal").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(isize::MAX as u64, |kibibytes| kibibytes.saturating_mul(1024))
}

/// The first value of a name in lines of `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::Level;
    use anydnn_backend::conformance::Suite;
    use anydnn_backend::op::{Eltwise, Op, Reorder};
    use anydnn_backend::{DataType, Layout, Memory, Primitive, Status};

    /// The highest level is what other tests run at.
    #[test]
    fn the_reference_and_every_lower_level_conform() {
        let levels = Level::available();
        let modes =
            levels[..levels.len() - 1].iter().map(|&level| Mode::Fast(level)).chain([Mode::Reference]);
        for mode in modes {
            let engine = HostEngine::of_mode(2, mode).unwrap();
            Suite::<Host>::from_env(&engine).run().assert_passed();
        }
    }

    #[test]
    fn fields_are_found_in_the_systems_files() {
        assert_eq!(field("processor\t: 0\nmodel name\t: Fast 3000\n", "model name"), Some("Fast 3000"));
        assert_eq!(field("MemTotal:  12 kB", "MemTotal"), Some("12 kB"));
        assert_eq!(field("model name :", "model name"), None);
    }

    #[test]
    fn an_engine_says_what_it_can_do() {
        let engine = HostEngine::with_threads(3).unwrap();
        assert_eq!(engine.device().backend, "host");
        assert!(!engine.device().name.is_empty() && engine.capabilities().memory_bytes > 0);
        assert_eq!((engine.capabilities().compute_units, engine.install(rayon::current_num_threads)), (3, 3));
        assert_eq!(HostEngine::with_threads(0).unwrap_err().status(), Status::InvalidArguments);
        assert_ne!(HostEngine::new().id(), HostEngine::default().id());
        assert!(matches!(engine.cache_blob(), Err(Error::Unsupported { .. })));
        assert!(matches!(engine.cache_blob_id(), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let engine = HostEngine::new();
        let tensor = MemoryDesc::new([4], DataType::F32);
        assert!(matches!(engine.create_memory(&tensor, MemoryKind::Buffer), Err(Error::Unsupported { .. })));
        assert!(matches!(engine.create_memory(&tensor.to_any(), MemoryKind::Host), Err(Error::Invalid(_))));
        let huge = MemoryDesc::new([1 << 59], DataType::U8);
        assert!(matches!(engine.create_memory(&huge, MemoryKind::Host), Err(Error::OutOfMemory { .. })));
        assert_eq!(
            engine
                .create_memory(&MemoryDesc::new([0], DataType::F32), MemoryKind::Host)
                .unwrap()
                .region()
                .bytes,
            0
        );
        let open = MemoryDesc::with_layout([4], DataType::F32, Layout::Opaque { id: 1, bytes: 16 }).unwrap();
        let reorder = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(open).build().unwrap();
        let error = engine.create_primitive(&reorder).unwrap_err();
        assert_eq!(error.status(), Status::Unimplemented, "{error}");
    }

    #[test]
    fn open_layouts_become_row_major() {
        let relu =
            PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(MemoryDesc::any([2, 3], DataType::F16));
        let primitive = HostEngine::new().create_primitive(&relu.build().unwrap()).unwrap();
        assert!(primitive.desc().dst().is_row_major() && primitive.desc().src().is_row_major());
        assert_eq!((primitive.implementation(), primitive.scratchpad_size()), ("host:streaming", 0));
    }
}
