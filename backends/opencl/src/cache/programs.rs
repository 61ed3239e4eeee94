//! The programs of one engine: found in memory, in the blob that the engine was made with, on disk, or else built.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use anydnn_backend::{Error, Probe, Result};

use super::blob::{self, Content, ProgramKey};
use super::disk::{DiskCache, EntryKey, Store};
use super::key::DeviceKey;
use super::stats::{Counters, ProgramStats, count};
use super::{CacheMiss, CacheOutcome};
use crate::capability::{self, Feature, Features};
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::plan::ProgramSource;
use crate::program::Program;
use crate::program::compilers::{self, Compiler};
use crate::program::ptx;
use crate::program::text::Texts;
use crate::program::threads;
use crate::program::trial::Trial;

/// The programs of one engine.
pub(crate) struct ProgramCache {
    slots: Mutex<HashMap<ProgramKey, Arc<Slot>>>,
    /// What primitives keep of them to build them again.
    pub(crate) texts: Texts,
    /// What the engine's blob holds.
    warm: OnceLock<Content>,
    /// The probes that this engine asked for, for its blob.
    probes: Mutex<BTreeMap<String, Probe>>,
    disk: RwLock<Option<Arc<Store>>>,
    key: OnceLock<DeviceKey>,
    counters: Counters,
    /// The nanoseconds that building took.
    build_time: AtomicU64,
    /// Whether programs are built without optimisation.
    hasty: AtomicBool,
}

/// A place for one program. Its lock is held while the program is made, so that no two threads make the same one, and different ones
/// are made at the same time.
#[derive(Default)]
struct Slot {
    program: Mutex<Option<Arc<Program>>>,
    /// What names the program on disk, if it was built and is not there yet.
    unsaved: Mutex<Option<(blake3::Hash, String)>>,
}

/// A program that is needed.
struct Wanted<'a> {
    context: &'a handle::Context,
    device: &'a OpenClDevice,
    source: &'a ProgramSource,
    options: &'a str,
    key: ProgramKey,
    /// The hash of the source alone.
    hash: blake3::Hash,
    trial: Option<&'a Trial>,
}

impl ProgramCache {
    pub(crate) fn new(disk: DiskCache) -> Self {
        Self {
            slots: Mutex::default(),
            texts: Texts::default(),
            warm: OnceLock::new(),
            probes: Mutex::default(),
            disk: RwLock::new(Store::new(disk).map(Arc::new)),
            key: OnceLock::new(),
            counters: Counters::default(),
            build_time: AtomicU64::new(0),
            hasty: AtomicBool::new(false),
        }
    }

    /// Builds programs without optimisation from now on.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn be_hasty(&self) {
        self.hasty.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_hasty(&self) -> bool {
        self.hasty.load(Ordering::Relaxed)
    }

    /// The program for a source with more options, made if it is not there.
    pub(crate) fn program(
        &self,
        context: &handle::Context,
        device: &OpenClDevice,
        source: &ProgramSource,
        more_options: &str,
    ) -> Result<Arc<Program>> {
        self.program_to_launch(context, device, source, more_options, None)
    }

    /// The same where one of its kernels is going to be launched.
    pub(crate) fn program_to_launch(
        &self,
        context: &handle::Context,
        device: &OpenClDevice,
        source: &ProgramSource,
        more_options: &str,
        trial: Option<&Trial>,
    ) -> Result<Arc<Program>> {
        let mut options = complete_options(&source.options, more_options);
        // What becomes code by our hands needs the functions around it in line: the driver leaves out those that are not.
        let needs_inline = || source.source.pieces().any(|piece| piece.contains(ptx::MARK));
        if self.is_hasty() && !needs_inline() {
            options += " -cl-opt-disable";
        }
        let hash = source.source.hash();
        let key = key(&hash, &options);
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key).or_default())
        };
        let mut program = slot.program.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*program {
            count(&self.counters.reused);
            return Ok(Arc::clone(program));
        }
        let wanted = Wanted { context, device, source, options: &options, key, hash, trial };
        let loaded = self.load_from_blob(&wanted).or_else(|| self.load_from_disk(&wanted));
        let is_new = loaded.is_none();
        let made = loaded.map_or_else(|| self.build(&wanted), Ok)?;
        if is_new && device.compiles_for_binaries() {
            *slot.unsaved.lock().unwrap_or_else(PoisonError::into_inner) = Some((hash, options));
        } else if is_new {
            self.save(device, &made, hash, &options);
        }
        let made = Arc::new(made);
        *program = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Whether the program for a source is made.
    pub(crate) fn has(&self, source: &ProgramSource) -> bool {
        let key = key(&source.source.hash(), &complete_options(&source.options, ""));
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(&key).is_some_and(|slot| slot.program.try_lock().is_ok_and(|program| program.is_some()))
    }

    /// Whether a feature that takes a program to probe works, from what is known or by probing. What an earlier process found still needs
    /// what the feature needs of this one, such as the system's permission.
    pub(crate) fn probe(&self, device: &OpenClDevice, features: &Features, feature: Feature) -> Probe {
        if let Some(why) = features.ruled_out(device, feature) {
            return Probe { works: false, detail: why.into() };
        }
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = features.known(feature).cloned();
        let probe = known.unwrap_or_else(|| self.find_probe(device, features, feature));
        // What the engine's blob said stays, so that its next blob says the same.
        probes.entry(feature.name().into()).or_insert_with(|| probe.clone());
        probe
    }

    /// Lets other processes find out side by side what plans will ask for, where they compile for the device.
    pub(crate) fn probe_early(device: &OpenClDevice) {
        if !compilers::has_others(device) {
            return;
        }
        let features = capability::features_of(device);
        let asked = |feature: &Feature| {
            features.known(*feature).is_none() && features.ruled_out(device, *feature).is_none()
        };
        for feature in Feature::EARLY.into_iter().filter(asked) {
            let (device, features) = (device.clone(), Arc::clone(&features));
            let probe = move || Self::new(DiskCache::from_env()).probe(&device, &features, feature);
            // Whoever needs the outcome waits for it, or finds it out.
            if let Err(error) = thread::Builder::new().name("anydnn-probe".into()).spawn(probe) {
                tracing::debug!(%error, "no thread for a probe");
            }
        }
    }

    /// Starts with the content of a blob, if it is this device's and intact.
    pub(crate) fn warm(
        &self,
        device: &OpenClDevice,
        features: &Features,
        bytes: &[u8],
    ) -> Result<CacheOutcome> {
        let content = match blob::read(self.device_key(device)?, bytes) {
            Ok(content) => content,
            Err(reason) => {
                tracing::warn!(%reason, %device, "the cache blob is not taken");
                return Ok(CacheOutcome::Miss { reason });
            }
        };
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        for feature in Feature::compiled() {
            if let Some(probe) = content.probes.get(feature.name()) {
                features.learn(feature, probe);
                probes.insert(feature.name().into(), probe.clone());
            }
        }
        let programs = content.programs.len();
        tracing::debug!(programs, %device, "the cache blob is taken");
        let _ = self.warm.set(content);
        Ok(CacheOutcome::Warm { programs })
    }

    /// A blob of every program there is, and of every one that the engine's own blob holds.
    pub(crate) fn blob(&self, device: &OpenClDevice) -> Result<Vec<u8>> {
        let slots: Vec<_> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.iter().map(|(key, slot)| (*key, Arc::clone(slot))).collect()
        };
        let mut programs = self.warm.get().map(|content| content.programs.clone()).unwrap_or_default();
        for (key, slot) in slots {
            let program = slot.program.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(program) = program else { continue };
            if let Some(binary) = program.kept_binary()? {
                programs.insert(key, binary);
            }
        }
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // As for the cache on disk.
        probes.retain(|_, probe| probe.works);
        blob::write(self.device_key(device)?, &Content { programs, probes })
    }

    /// Another place for programs that are made from now on.
    pub(crate) fn set_disk(&self, disk: DiskCache) {
        *self.disk.write().unwrap_or_else(PoisonError::into_inner) = Store::new(disk).map(Arc::new);
    }

    /// Takes and keeps programs where another cache does.
    pub(crate) fn share_disk(&self, other: &Self) {
        let disk = other.disk.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.disk.write().unwrap_or_else(PoisonError::into_inner) = disk;
    }

    /// What was noted about a topic on disk.
    pub(crate) fn load_note(&self, device: &OpenClDevice, topic: &str) -> Option<Arc<[u8]>> {
        let stored = self.on_disk(device, blake3::hash(topic.as_bytes()), "", Store::load)?;
        self.verified(stored, topic)
    }

    /// Notes something for later processes, where there is a disk cache.
    pub(crate) fn save_note(&self, device: &OpenClDevice, topic: &str, bytes: &[u8]) {
        self.on_disk(device, blake3::hash(topic.as_bytes()), "", |store, key| store.save(key, bytes));
    }

    /// The mean time of a build, once there was one.
    pub(crate) fn build_time(&self) -> Option<Duration> {
        let total = self.build_time.load(Ordering::Relaxed);
        total.checked_div(self.stats().built).map(Duration::from_nanos)
    }

    pub(crate) fn stats(&self) -> ProgramStats {
        self.counters.read()
    }

    fn load_from_blob(&self, wanted: &Wanted<'_>) -> Option<Program> {
        let binary = self.warm.get()?.programs.get(&wanted.key)?;
        let program = self.load(wanted, binary, "the cache blob")?;
        program.keep_binary(binary);
        count(&self.counters.from_blob);
        Some(program)
    }

    fn load_from_disk(&self, wanted: &Wanted<'_>) -> Option<Program> {
        let device = wanted.device;
        let binary = self.on_disk(device, wanted.hash, wanted.options, Store::load)?;
        let binary = self.verified(binary, &wanted.source.name)?;
        let program = self.load(wanted, &binary, "the disk")?;
        count(&self.counters.from_disk);
        Some(program)
    }

    fn build(&self, wanted: &Wanted<'_>) -> Result<Program> {
        let Wanted { device, source, options, .. } = wanted;
        let text = source.source.to_string();
        self.launch_elsewhere(wanted, &text);
        let asked = Instant::now();
        let mut compiler = Compiler::of(device, weight(&text));
        // Whoever waited for a compiler may have done so for long.
        goes_on()?;
        let start = Instant::now();
        let elsewhere = compiler.is_elsewhere();
        let binary = compiler.compile(&source.name, &text, options);
        goes_on()?;
        // A driver may load only after what this process compiles meanwhile (Intel's): the other process goes on before.
        let compiler = binary.is_none().then_some(compiler);
        let loaded = binary.and_then(|binary| self.load(wanted, &binary, "another process"));
        let here = || Self::build_here(wanted, text);
        let program = loaded.map_or_else(here, Ok)?;
        drop(compiler);
        tracing::debug!(
            name = source.name,
            hash = &wanted.hash.to_hex()[..8],
            elsewhere,
            waited = (start - asked).as_millis(),
            milliseconds = start.elapsed().as_millis(),
            "made"
        );
        self.build_time.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        count(&self.counters.built);
        Ok(program)
    }

    fn build_here(wanted: &Wanted<'_>, text: String) -> Result<Program> {
        let (context, device) = (wanted.context.try_clone()?, wanted.device.clone());
        let (name, options) = (wanted.source.name.clone(), wanted.options.to_owned());
        threads::run(move || Program::build(&context, &device, &name, &text, &options))
            .ok_or_else(|| Error::unavailable("build program", "the thread that compiled it died"))?
    }

    /// Lets another process fill what the driver keeps, where it keeps kernels that were launched, and notes that it was asked: what it could
    /// not launch is compiled here once, and kept by the driver as well.
    fn launch_elsewhere(&self, wanted: &Wanted<'_>, text: &str) {
        let Wanted { device, source, options, key, .. } = wanted;
        let Some(trial) = wanted.trial.filter(|_| device.compiles_for_binaries()) else { return };
        let topic = format!("launched {} {}", blake3::Hash::from(*key), trial.kernel);
        if self.load_note(device, &topic).is_some() {
            return;
        }
        let mut compiler = Compiler::that_launches(device, weight(text));
        if compiler.is_elsewhere() {
            let launched = compiler.launch(&source.name, text, options, trial);
            tracing::debug!(name = %source.name, kernel = %trial.kernel, launched, "asked another process to launch");
            self.save_note(device, &topic, &[]);
        }
    }

    /// Writes what was built and is not on disk yet, where there is a disk cache.
    pub(crate) fn save_all(&self, device: &OpenClDevice) {
        let slots: Vec<_> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.values().map(Arc::clone).collect()
        };
        for slot in slots {
            let program = slot.program.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let unsaved = slot.unsaved.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(program), Some((hash, options))) = (program, unsaved) {
                self.save(device, &program, hash, &options);
            }
        }
    }

    fn save(&self, device: &OpenClDevice, program: &Program, hash: blake3::Hash, options: &str) {
        let name = program.name();
        self.on_disk(device, hash, options, |store, key| match program.binary() {
            Ok(Some(binary)) => store.save(key, &binary),
            Ok(None) => tracing::debug!(name, "the driver has no binary to cache"),
            Err(error) => tracing::debug!(name, %error, "the driver gives no binary to cache"),
        });
    }

    /// The program in a verified binary, unless the driver refuses it.
    fn load(&self, wanted: &Wanted<'_>, binary: &[u8], place: &str) -> Option<Program> {
        let Wanted { context, device, source, options, .. } = wanted;
        Program::from_binary(context, device, &source.name, binary, options)
            .inspect_err(|error| {
                count(&self.counters.rejected);
                tracing::warn!(%error, name = source.name, place, "the driver refused a cached program");
            })
            .ok()
    }

    /// The outcome of a probe on disk, or else of the probe itself.
    fn find_probe(&self, device: &OpenClDevice, features: &Features, feature: Feature) -> Probe {
        let topic = format!("probe {}", feature.name());
        let stored = self.load_note(device, &topic);
        if let Some((works, detail)) = stored.and_then(|bytes| postcard::from_bytes(&bytes).ok()) {
            let probe = Probe { works, detail };
            features.learn(feature, &probe);
            return probe;
        }
        count(&self.counters.probed);
        let probe = features.probe(device, feature);
        // What does not work may have failed for another reason, such as a lack of memory: the next process tries again.
        if probe.works
            && let Ok(bytes) = postcard::to_allocvec(&(probe.works, &probe.detail))
        {
            self.save_note(device, &topic, &bytes);
        }
        probe.clone()
    }

    /// Does something with an entry on disk, if there is a disk cache.
    fn on_disk<T>(
        &self,
        device: &OpenClDevice,
        source: blake3::Hash,
        options: &str,
        act: impl FnOnce(&Store, &EntryKey<'_>) -> T,
    ) -> Option<T> {
        let store = self.disk.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let device = self
            .device_key(device)
            .inspect_err(|error| tracing::debug!(%error, "the device cannot be told from others"))
            .ok()?;
        let key = EntryKey { device, source: *source.as_bytes(), options };
        Some(act(&store, &key))
    }

    fn verified(&self, loaded: Result<Option<Arc<[u8]>>, CacheMiss>, name: &str) -> Option<Arc<[u8]>> {
        loaded.unwrap_or_else(|reason| {
            count(&self.counters.rejected);
            tracing::warn!(%reason, name, "a cached program on disk is not taken");
            None
        })
    }

    fn device_key(&self, device: &OpenClDevice) -> Result<&DeviceKey> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = DeviceKey::of(device)?;
        Ok(self.key.get_or_init(|| key))
    }
}

impl fmt::Debug for ProgramCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ProgramCache")
            .field("programs", &slots.len())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// How long compilers take for a text, beside others: by the loops that it has them unroll, then by its length. Of 44 programs on an NVIDIA
/// H200 those with 18 or more such loops took 160 to 390 ms, all others 60 to 280.
fn weight(text: &str) -> usize {
    text.matches("unroll").count() << 20 | text.len().min((1 << 20) - 1)
}

/// Without warnings: compilers write them to the standard error of whoever uses the library, as of vectors that are wider than the
/// processor's registers.
const QUIET: &str = "-w";

/// The options of a build: OpenCL C 1.2, which any device compiles, unless they say otherwise.
/// # Errors
/// [`Error::Unavailable`] once the process exits, which waits for what is in the driver.
fn goes_on() -> Result<()> {
    if handle::is_leaving() {
        return Err(Error::unavailable("build program", "the process is exiting"));
    }
    Ok(())
}

fn complete_options(options: &str, more: &str) -> String {
    let standard = if options.contains("-cl-std") { "" } else { "-cl-std=CL1.2" };
    [QUIET, standard, options, more].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn key(source: &blake3::Hash, options: &str) -> ProgramKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(source.as_bytes());
    hasher.update(options.as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests;
