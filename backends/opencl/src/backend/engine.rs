//! Engines: one device in one context.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use anydnn_backend::{
    Allocator, Capabilities, DeviceInfo, DeviceKind, Engine, EngineId, Error, List, ListStep, MemoryDesc,
    MemoryKind, Order, Primitive, PrimitiveDesc, Result, Specialize, StreamDesc, Work, validate,
};
use cl3::command_queue::{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};

use crate::backend::OpenCl;
use crate::backend::list::OpenClList;
use crate::backend::memory::OpenClMemory;
use crate::backend::native;
use crate::backend::pool::Pool;
use crate::backend::primitive::{Compiled, OpenClPrimitive};
use crate::backend::reuse::Reuse;
use crate::backend::specialize::{self, SpecialStore};
use crate::backend::stream::{OpenClStream, Owner};
use crate::backend::user_source::UserSource;
use crate::cache::tuning::Record;
use crate::cache::{self, CacheOutcome, DiskCache, ProgramCache, ProgramStats};
use crate::capability::{self, Feature, Features};
use crate::driver::background;
use crate::driver::create::{create_context, create_queue};
use crate::driver::handle;
use crate::driver::platform::{OpenClDevice, Vendor};
use crate::memory::allocation::no_kind;
use crate::memory::user_allocator::UserAllocator;
use crate::plan::{DeviceTraits, KnownFeatures};
use crate::primitive;
use crate::program::compilers;
use crate::program::kernels::KernelPool;
use crate::queue::wait::WaitMethod;

/// Elements up to which a launch takes longer than a function of them: nine functions of 16,383 in one launch take 21 us on two cores of a
/// Xeon (Intel's runtime), one by one 56; of 317 they take 7 and 35.
const LAUNCH_ELEMENTS: usize = 16 << 10;

/// An OpenCL device in a context of the library's or of the user's.
///
/// Making one creates nothing in the context: queues, programs and buffers are made when they are needed.
///
/// ```
/// use anydnn_backend::{DataType, Engine, MemoryDesc, MemoryKind, Stream, StreamDesc};
/// use anydnn_opencl::OpenClEngine;
///
/// for device in anydnn_opencl::devices()? {
///     let engine = OpenClEngine::on_device(&device)?;
///     let stream = engine.create_stream(&StreamDesc::default())?;
///     let memory = engine.create_memory(&MemoryDesc::new([2], DataType::F32), MemoryKind::Buffer)?;
/// #   let _ = memory;
///     stream.wait()?;
/// }
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenClEngine {
    pub(crate) inner: Arc<Inner>,
}

/// The fields are dropped in this order: what lives in the context before the context.
pub(crate) struct Inner {
    pub(crate) id: EngineId,
    pub(crate) pool: Pool,
    pub(crate) user: Option<Arc<UserSource>>,
    /// Shared by engines in the same context.
    pub(crate) programs: Arc<ProgramCache>,
    pub(crate) tuning: Arc<Record>,
    /// What its primitives have in common.
    pub(crate) reuse: Reuse<Compiled>,
    service: Mutex<Option<Arc<handle::Queue>>>,
    pub(crate) copier: OnceLock<Arc<KernelPool>>,
    pub(crate) context: handle::Context,
    pub(crate) device: OpenClDevice,
    pub(crate) wait_method: WaitMethod,
    /// The kind of device that plans are made for, where that is not the device's own.
    planned_kind: OnceLock<DeviceKind>,
    specialize: RwLock<Specialize>,
    /// Whether small primitives that permit it are native commands.
    native: AtomicBool,
    /// Whether native commands do what they are to do on this device.
    native_works: OnceLock<bool>,
    /// The programs for one shape that its primitives have got in the background.
    pub(crate) special: SpecialStore,
    features: Arc<Features>,
    capabilities: OnceLock<Capabilities>,
}

impl OpenClEngine {
    /// An engine with a context of its own.
    ///
    /// # Errors
    /// A device error.
    pub fn on_device(device: &OpenClDevice) -> Result<Self> {
        compilers::expect_work(device);
        ProgramCache::probe_early(device);
        let context = create_context(device, "create engine")?;
        Ok(Self::new(context, device.clone()))
    }

    /// An engine with a context of its own that starts with the programs of a [cache blob](Engine::cache_blob), and what became of
    /// the blob. Programs are loaded when they are first needed. A blob that is cut short, corrupt or another device's, driver's or
    /// library version's is a miss with a reason, after which the engine is as one from [`OpenClEngine::on_device`].
    ///
    /// A blob that is taken after the primitives ran once serves best: PoCL compiles a kernel for the sizes of a launch when it is first
    /// launched, and its binaries hold what was compiled by then. A program's binary does not change after the first blob with it.
    ///
    /// The blob's checksum finds accidents, not malice: a blob is code for the device, so take it only from where you would take a
    /// program from.
    ///
    /// ```
    /// use anydnn_backend::Engine;
    /// use anydnn_opencl::{CacheOutcome, OpenClEngine};
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let blob = OpenClEngine::on_device(&device)?.cache_blob()?;
    ///     let (engine, outcome) = OpenClEngine::from_cache_blob(&device, &blob)?;
    ///     assert_eq!(outcome, CacheOutcome::Warm { programs: 0 });
    ///     assert_eq!(engine.cache_blob()?, blob);
    ///     let (_, outcome) = OpenClEngine::from_cache_blob(&device, &blob[1..])?;
    ///     assert!(matches!(outcome, CacheOutcome::Miss { .. }));
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn from_cache_blob(device: &OpenClDevice, blob: &[u8]) -> Result<(Self, CacheOutcome)> {
        Self::on_device(device)?.warmed(blob)
    }

    /// What [`Engine::cache_blob_id`] is for engines on a device: the platform's name, the device's name and the driver's version,
    /// each a length (`usize`) and the text with its NUL; major, minor and patch version of this library (`i32`); and a length and
    /// the hash of the library's kernels. Numbers are in the machine's byte order.
    ///
    /// # Errors
    /// A device error.
    pub fn device_cache_blob_id(device: &OpenClDevice) -> Result<Vec<u8>> {
        cache::id(device)
    }

    /// Keeps programs that are made from now on, by this engine and its clones, elsewhere than [`DiskCache::from_env`] says.
    pub fn with_disk_cache(self, disk: DiskCache) -> Self {
        self.inner.programs.set_disk(disk);
        self
    }

    /// Says when kernels of primitives that are made from now on, by this engine and its clones, get programs for one shape, in place of
    /// what the variable `ANYDNN_SPECIALIZE` says (`background`, `never` or `eager`). The attributes of a primitive override both.
    pub fn with_specialization(self, specialize: Specialize) -> Self {
        *self.inner.specialize.write().unwrap_or_else(PoisonError::into_inner) = specialize;
        self
    }

    /// When kernels get programs for one shape.
    pub fn specialization(&self) -> Specialize {
        *self.inner.specialize.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether small primitives that are made from now on, by this engine and its clones, may be native commands of a processor's queue
    /// where their [attributes](anydnn_backend::Attributes::native) permit it, as those of graphs do, in place of what the variable
    /// `ANYDNN_NATIVE` says (`auto` or `never`).
    pub fn with_native_commands(self, native: bool) -> Self {
        self.inner.native.store(native, Ordering::Relaxed);
        self
    }

    /// Whether native commands are to be had. Tests of what programs compute are not to be answered by others.
    pub(crate) fn runs_native(&self) -> bool {
        let Inner { native, native_works, device, programs, .. } = &*self.inner;
        native.load(Ordering::Relaxed)
            && device.has_native_commands()
            && !programs.is_hasty()
            && *native_works.get_or_init(|| native::work(self))
    }

    /// Writes programs to the disk cache that are not there yet: those of drivers that compile everything once more to give a program's
    /// binary (PoCL). Those of other drivers are written as they are built. Without it, later processes start from what the driver itself
    /// keeps. What stands in the way is logged.
    pub fn save_programs(&self) {
        self.inner.programs.save_all(&self.inner.device);
    }

    /// Programs that are made from now on, by this engine and its clones, are built without optimisation: in a fraction of the time.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn building_hastily(self) -> Self {
        self.inner.programs.be_hasty();
        self
    }

    /// Plans from now on, those of its clones too, are made as if for another kind of device.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn planning_for(self, kind: DeviceKind) -> Self {
        let _ = self.inner.planned_kind.set(kind);
        self
    }

    /// Where the engine's programs came from.
    pub fn program_stats(&self) -> ProgramStats {
        self.inner.programs.stats()
    }

    /// The engine, with what is in a blob.
    pub(crate) fn warmed(self, blob: &[u8]) -> Result<(Self, CacheOutcome)> {
        let Inner { programs, device, features, .. } = &*self.inner;
        let outcome = programs.warm(device, features, blob)?;
        Ok((self, outcome))
    }

    /// The device with everything its driver says about it.
    pub fn opencl_device(&self) -> &OpenClDevice {
        &self.inner.device
    }

    /// Another engine on the same device and in the same context, with the same programs, whose temporaries come from the user's
    /// allocator: those of graphs, and the scratchpads of primitives.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an allocator of a kind that is not pointer memory of the device; a device error.
    pub fn with_allocator(&self, allocator: UserAllocator) -> Result<Self> {
        if let Some(kind) = allocator.kind() {
            self.check_kind(kind)?;
            if !kind.is_pointer() {
                return Err(Error::unsupported(
                    format!("user allocator of {kind} memory"),
                    "it has no addresses",
                ));
            }
        }
        let Inner { context, device, programs, tuning, .. } = &*self.inner;
        let inner = Inner {
            user: Some(Arc::new(UserSource::new(allocator))),
            programs: Arc::clone(programs),
            tuning: Arc::clone(tuning),
            ..Inner::new(context.try_clone()?, device.clone())
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether temporary memory comes from a [user's allocator](OpenClEngine::with_allocator).
    pub fn has_user_allocator(&self) -> bool {
        self.inner.user.is_some()
    }

    pub(crate) fn new(context: handle::Context, device: OpenClDevice) -> Self {
        Self { inner: Arc::new(Inner::new(context, device)) }
    }

    /// The same device in another context, waited for in another way.
    #[cfg(test)]
    pub(crate) fn with_wait_method(&self, wait_method: WaitMethod) -> Self {
        let device = self.inner.device.clone();
        let context = create_context(&device, "create engine").expect("a context");
        let mut engine = Self::new(context, device);
        Arc::get_mut(&mut engine.inner).expect("just made").wait_method = wait_method;
        engine
    }

    /// The private in-order queue for mapping.
    pub(crate) fn service_queue(&self) -> Result<Arc<handle::Queue>> {
        let mut service = self.inner.service.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*service {
            return Ok(Arc::clone(queue));
        }
        let queue =
            Arc::new(create_queue(&self.inner.context, &self.inner.device, 0, "create service queue")?);
        *service = Some(Arc::clone(&queue));
        Ok(queue)
    }

    fn check_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<()> {
        validate::allocation(desc)?;
        self.check_kind(kind)
    }

    /// Checks that the device has a kind of memory.
    pub(crate) fn check_kind(&self, kind: MemoryKind) -> Result<()> {
        if kind == MemoryKind::Buffer || self.inner.device.memory_kinds().contains(&kind) {
            return Ok(());
        }
        Err(no_kind(kind))
    }

    /// The facts that kernel plans depend on.
    pub(crate) fn traits(&self) -> DeviceTraits {
        let Inner { device, features, programs, .. } = &*self.inner;
        let limits = device.limits();
        let ask = {
            let (device, features, programs) = (device.clone(), Arc::clone(features), Arc::clone(programs));
            move |feature| programs.probe(&device, &features, feature)
        };
        DeviceTraits {
            kind: self.inner.planned_kind.get().copied().unwrap_or(device.kind()),
            vendor: Vendor::of(device.vendor()),
            max_work_group: limits.max_work_group,
            local_memory_bytes: limits.local_memory_bytes as usize,
            compute_units: limits.compute_units,
            float_lanes: limits.float_lanes as usize,
            features: KnownFeatures::probed(ask),
            name: device.name().into(),
            special: false,
        }
    }
}

impl Inner {
    fn new(context: handle::Context, device: OpenClDevice) -> Self {
        let parked_limit = usize::try_from(device.memory_bytes() / 4).unwrap_or(usize::MAX);
        Self {
            id: EngineId::unique(),
            pool: Pool::new(parked_limit, crate::backend::pool::keeps_apart()),
            user: None,
            programs: Arc::new(ProgramCache::new(DiskCache::from_env())),
            tuning: Arc::new(Record::from_env()),
            reuse: Reuse::default(),
            service: Mutex::new(None),
            copier: OnceLock::new(),
            planned_kind: OnceLock::new(),
            specialize: RwLock::new(specialize::from_env()),
            native: AtomicBool::new(native::from_env()),
            native_works: OnceLock::new(),
            special: SpecialStore::default(),
            wait_method: WaitMethod::with(device.kind(), &device.alias()),
            features: capability::features_of(&device),
            capabilities: OnceLock::new(),
            context,
            device,
        }
    }
}

impl Engine for OpenClEngine {
    type B = OpenCl;

    fn id(&self) -> EngineId {
        self.inner.id
    }

    fn device(&self) -> &DeviceInfo {
        self.inner.device.info()
    }

    fn capabilities(&self) -> &Capabilities {
        let Inner { device, features, programs, capabilities, .. } = &*self.inner;
        capabilities.get_or_init(|| {
            for feature in Feature::compiled() {
                programs.probe(device, features, feature);
            }
            capability::capabilities(device, features, primitive::stored)
        })
    }

    fn memory_kinds(&self) -> &[MemoryKind] {
        self.inner.device.memory_kinds()
    }

    fn has_profiling(&self) -> bool {
        self.inner.device.has_profiling()
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<OpenClStream> {
        let mut properties = 0;
        if desc.order == Order::OutOfOrder {
            properties |= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        }
        if desc.profiling {
            properties |= CL_QUEUE_PROFILING_ENABLE;
        }
        let device = &self.inner.device;
        let missing = properties & !device.limits().queue_properties;
        if missing != 0 {
            let what = if missing & CL_QUEUE_PROFILING_ENABLE == 0 {
                "out-of-order stream"
            } else {
                "profiling stream"
            };
            return Err(Error::unsupported(what, format!("{device} has no such queues")));
        }
        let queue = create_queue(&self.inner.context, device, properties, "create stream")?;
        Ok(OpenClStream::new(self, queue, desc.clone(), Owner::Stream))
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<OpenClMemory> {
        self.check_memory(desc, kind)?;
        let allocation = self.create_allocation(kind, desc.size(), "create memory")?;
        Ok(OpenClMemory::new(self, Arc::new(allocation), kind, desc.clone()))
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<OpenClMemory> {
        self.check_memory(desc, kind)?;
        Ok(OpenClMemory::unbacked(self, kind, desc.clone()))
    }

    fn in_background(&self, work: Work) -> Option<Work> {
        // Tests of what programs compute are not to be answered by others.
        if self.inner.programs.is_hasty() {
            return Some(work);
        }
        background::begin(work)
    }

    fn launch_elements(&self) -> usize {
        LAUNCH_ELEMENTS
    }

    fn resolve(&self, desc: &PrimitiveDesc) -> Result<PrimitiveDesc> {
        if let Some(native) = native::primitive(self, desc) {
            return Ok(native.desc().clone());
        }
        primitive::resolved(desc.clone(), &self.traits())
    }

    fn resolve_with_scratchpad(&self, desc: &PrimitiveDesc) -> Result<(PrimitiveDesc, usize)> {
        if let Some(native) = native::primitive(self, desc) {
            return Ok((native.desc().clone(), 0));
        }
        let plan = self.plan(desc)?;
        Ok((plan.desc, plan.scratchpad))
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<OpenClPrimitive> {
        OpenClPrimitive::new(self, desc)
    }

    fn ready(&self, steps: &[ListStep<OpenCl>], slots: usize) -> Result<Option<Box<dyn List<OpenCl>>>> {
        OpenClList::new(steps, slots).map(|list| list.map(|list| Box::new(list) as Box<dyn List<OpenCl>>))
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = OpenCl>> {
        Arc::new(self.opencl_allocator())
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        Self::device_cache_blob_id(&self.inner.device)
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        self.inner.programs.blob(&self.inner.device)
    }
}

impl fmt::Debug for OpenClEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClEngine")
            .field("id", &self.inner.id)
            .field("device", &self.inner.device)
            .field("context", &self.inner.context)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_engines;

    #[test]
    fn kinds_of_memory_and_profiling_are_told_without_probes() {
        for engine in test_engines() {
            let engine = OpenClEngine::on_device(engine.opencl_device()).unwrap();
            let (kinds, profiles) = (engine.memory_kinds().to_vec(), engine.has_profiling());
            assert!(engine.inner.capabilities.get().is_none());
            let Capabilities { memory_kinds, profiling, .. } = engine.capabilities();
            assert_eq!((&kinds, profiles), (memory_kinds, *profiling), "{}", engine.opencl_device());
        }
    }
}
