//! Engines: one device in one context.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::allocator::Allocator;
use crate::backend::Backend;
use crate::data_type::DataType;
use crate::error::Result;
use crate::list::{List, ListStep};
use crate::memory::MemoryKind;
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::PrimitiveDesc;
use crate::primitive::Primitive;
use crate::stream::StreamDesc;

/// Something to do once, on any thread.
pub struct Work(Box<dyn FnOnce() + Send>);

impl Work {
    /// Work that a function does.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(run))
    }

    /// Does it.
    pub fn run(self) {
        (self.0)();
    }
}

impl Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

/// One device in one context. Clones are handles to the same engine.
pub trait Engine: Clone + Debug + Send + Sync + 'static {
    /// The backend this engine belongs to.
    type B: Backend<Engine = Self>;

    /// The engine's identity; its streams, memories and primitives carry the same.
    fn id(&self) -> EngineId;

    /// The device's names and kind.
    fn device(&self) -> &DeviceInfo;

    /// What the device can do, probed on the device where a claim can be wrong.
    fn capabilities(&self) -> &Capabilities;

    /// The kinds of memory that the device has, the default first. They are among the [capabilities](Engine::capabilities); a backend may
    /// know them without probing the rest.
    fn memory_kinds(&self) -> &[MemoryKind] {
        &self.capabilities().memory_kinds
    }

    /// Whether streams can profile, likewise.
    fn has_profiling(&self) -> bool {
        self.capabilities().profiling
    }

    /// A queue of commands.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an order or profiling the device lacks; a device error.
    fn create_stream(&self, desc: &StreamDesc) -> Result<<Self::B as Backend>::Stream>;

    /// Memory of `desc.size()` bytes. Its content is undefined. Memory without bytes is allowed.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an open layout, [`Error::Unsupported`](crate::Error::Unsupported) for a kind the
    /// device lacks, [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<<Self::B as Backend>::Memory>;

    /// Memory without bytes behind it, to [take](crate::Memory::replace) some later. Its region is empty.
    ///
    /// # Errors
    /// As [`Engine::create_memory`].
    fn create_unbacked_memory(
        &self,
        desc: &MemoryDesc,
        kind: MemoryKind,
    ) -> Result<<Self::B as Backend>::Memory>;

    /// The description with every open layout resolved, of which [`Engine::create_primitive`] makes the same primitive. A backend may know it
    /// without compiling.
    ///
    /// # Errors
    /// As [`Engine::create_primitive`].
    fn resolve(&self, desc: &PrimitiveDesc) -> Result<PrimitiveDesc> {
        self.create_primitive(desc).map(|primitive| primitive.desc().clone())
    }

    /// As [`Engine::resolve`], with the bytes of working memory that the primitive wants. What the engine lacks is refused. A backend may know
    /// both without compiling.
    ///
    /// # Errors
    /// As [`Engine::create_primitive`].
    fn resolve_with_scratchpad(&self, desc: &PrimitiveDesc) -> Result<(PrimitiveDesc, usize)> {
        self.create_primitive(desc).map(|primitive| (primitive.desc().clone(), primitive.scratchpad_size()))
    }

    /// Compiles an operation. Open layouts are resolved; [`Primitive::desc`](crate::Primitive::desc) tells how.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) naming what the backend lacks, [`Error::Build`](crate::Error::Build) with the
    /// build log.
    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<<Self::B as Backend>::Primitive>;

    /// Readies executions to be enqueued as one, in this order, on memory in `slots` slots; none where that would save nothing over
    /// enqueueing them one by one.
    ///
    /// # Errors
    /// A device error.
    fn ready(&self, steps: &[ListStep<Self::B>], slots: usize) -> Result<Option<Box<dyn List<Self::B>>>> {
        let _ = (steps, slots);
        Ok(None)
    }

    /// Begins work for the engine on a thread of its own, such as executions that nobody waits for; gives the work back where nothing is
    /// compiled while a process runs, so that what is done ahead saves nothing. A process that exits meanwhile waits for it, as long as
    /// the driver needs that; what it has yet to compile then fails.
    fn in_background(&self, work: Work) -> Option<Work> {
        Some(work)
    }

    /// Elements up to which launching a primitive takes longer than computing a function of them: a graph joins such functions where it can.
    /// Zero where calling a function costs nothing beside its elements.
    fn launch_elements(&self) -> usize {
        0
    }

    /// The engine's own allocator of temporaries.
    fn allocator(&self) -> Arc<dyn Allocator<B = Self::B>>;

    /// Names what a [cache blob](Engine::cache_blob) depends on: device, driver, library version.
    ///
    /// # Errors
    /// A device error; [`Error::Unsupported`](crate::Error::Unsupported) where nothing is compiled.
    fn cache_blob_id(&self) -> Result<Vec<u8>>;

    /// Every program compiled so far, to start the next process warm.
    ///
    /// # Errors
    /// A device error; [`Error::Unsupported`](crate::Error::Unsupported) where nothing is compiled.
    fn cache_blob(&self) -> Result<Vec<u8>>;
}

/// The identity of an engine within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineId(u64);

impl EngineId {
    /// An identity not used before in this process.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine {}", self.0)
    }
}

/// The names and kind of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceInfo {
    /// The backend's name: `opencl`, `host`, `mock`.
    pub backend: String,
    /// The platform (driver) the device belongs to.
    pub platform: String,
    /// The device's name.
    pub name: String,
    /// The device's vendor.
    pub vendor: String,
    /// The driver's version.
    pub driver: String,
    /// What kind of processor it is.
    pub kind: DeviceKind,
}

/// Kinds of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A general-purpose processor.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// A dedicated accelerator.
    Accelerator,
    /// Anything else.
    Other,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Accelerator => "accelerator",
            Self::Other => "other",
        })
    }
}

/// What a device can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Kinds of memory that can be made; the first is the default.
    pub memory_kinds: Vec<MemoryKind>,
    /// Element types that tensors may have.
    pub storage_types: Vec<DataType>,
    /// Whether out-of-order streams exist.
    pub out_of_order: bool,
    /// Whether streams can take device timestamps.
    pub profiling: bool,
    /// Parallel compute units (cores, multiprocessors).
    pub compute_units: usize,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// The most bytes of one allocation.
    pub max_allocation_bytes: u64,
    /// Bytes of local memory of a work-group; zero where there is none.
    pub local_memory_bytes: u64,
    /// The most work-items of a work-group; zero where there are none.
    pub max_work_group: usize,
    /// Features probed on the device by name.
    pub features: BTreeMap<String, Probe>,
}

impl Capabilities {
    /// Whether a probed feature works.
    pub fn has(&self, feature: &str) -> bool {
        self.features.get(feature).is_some_and(|probe| probe.works)
    }
}

/// The outcome of probing a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether the feature works.
    pub works: bool,
    /// What was seen: a value, a version, or why it does not work.
    pub detail: String,
}
