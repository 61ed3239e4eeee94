//! Candidates: the backends and devices that a selection chooses among.

use std::fmt;

use anydnn_backend::{DeviceInfo, DeviceKind, Engine, ErasedEngine, Error, Result};

use super::any::AnyEngine;

/// How to get an OpenCL device, for messages.
pub const HOW_TO_GET_A_DEVICE: &str = "install an OpenCL driver: a GPU vendor's own (NVIDIA's and AMD's drivers bring one, Intel's is \
                                       `apt install intel-opencl-icd`), or for the CPU `apt install ocl-icd-libopencl1 pocl-opencl-icd`";

/// The platforms whose drivers serve devices of any vendor. PoCL takes about five times as long to compile as Intel's runtime for the same
/// processor, for kernels of about the same speed.
const PORTABLE: [&str; 5] = ["pocl", "rusticl", "clover", "clvk", "oclgrind"];

/// A backend's device that an engine could be made on, or a backend that has none and why.
#[derive(Clone, Debug)]
pub struct Candidate {
    name: String,
    backend: &'static str,
    alias: String,
    device: Option<DeviceInfo>,
    source: Source,
}

/// What an engine is made from.
#[derive(Clone, Debug)]
enum Source {
    #[cfg(feature = "host")]
    Host,
    #[cfg(feature = "opencl")]
    OpenCl(anydnn_opencl::OpenClDevice),
    #[cfg(feature = "mock")]
    Mock,
    Erased(ErasedEngine),
    Missing(Error),
}

impl Candidate {
    /// The name; as a [`Pattern`](super::Pattern) it names this candidate.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The backend's name: `host`, `opencl`, `mock`, `erased`.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The device; none where the backend has none.
    pub fn device(&self) -> Option<&DeviceInfo> {
        self.device.as_ref()
    }

    /// Why no engine can be made on it; none when one can be tried.
    pub fn unavailable(&self) -> Option<&Error> {
        match &self.source {
            Source::Missing(error) => Some(error),
            #[allow(clippy::match_wildcard_for_single_variants, reason = "there are more with more features")]
            _ => None,
        }
    }

    /// Makes an engine on it.
    ///
    /// # Errors
    /// [`Error::Unavailable`], or what the backend says.
    pub fn create(&self) -> Result<AnyEngine> {
        self.create_seeded(None)
    }

    /// Makes an engine; a mock device takes its order from the seed.
    pub(super) fn create_seeded(&self, seed: Option<u64>) -> Result<AnyEngine> {
        #[cfg(not(feature = "mock"))]
        let _ = seed;
        match &self.source {
            #[cfg(feature = "host")]
            Source::Host => Ok(anydnn_host::HostEngine::new().into()),
            #[cfg(feature = "opencl")]
            Source::OpenCl(device) => anydnn_opencl::OpenClEngine::on_device(device).map(AnyEngine::OpenCl),
            #[cfg(feature = "mock")]
            Source::Mock => Ok(anydnn_mock::MockEngine::with_seed(seed.unwrap_or_default()).into()),
            Source::Erased(engine) => Ok(engine.clone().into()),
            Source::Missing(error) => Err(error.clone()),
        }
    }

    /// A short word for the platform.
    pub(super) fn alias(&self) -> &str {
        &self.alias
    }

    /// The place in the order of merit; the least comes first. It is decided by, in turn: the device's kind; whether it has a backend at all
    /// or is the host; whether the user brought it; and whether the driver is its vendor's or one for everybody's devices, which compile
    /// longer for the same processor. Among equals the loader's order stays.
    pub(super) fn rank(&self, prefer: &[DeviceKind]) -> (usize, bool, bool, bool) {
        let Some(device) = &self.device else {
            // Asked first, so that its reason is among the rejected.
            return (0, false, false, false);
        };
        let place = prefer.iter().position(|&kind| kind == device.kind).unwrap_or(prefer.len());
        let is_for_everybody = PORTABLE.contains(&self.alias());
        (place, self.backend == "host", self.backend != "erased", is_for_everybody)
    }

    /// A candidate that poses as another device; its engine is the given one, or fails.
    #[cfg(test)]
    pub(super) fn posing(
        backend: &'static str,
        alias: &str,
        index: usize,
        device: DeviceInfo,
        engine: Result<ErasedEngine>,
    ) -> Self {
        let source = engine.map_or_else(Source::Missing, Source::Erased);
        Self {
            name: format!("{backend}:{alias}:{index}"),
            backend,
            alias: alias.into(),
            device: Some(device),
            source,
        }
    }

    pub(super) fn missing(backend: &'static str, error: Error) -> Self {
        Self {
            name: backend.into(),
            backend,
            alias: String::new(),
            device: None,
            source: Source::Missing(error),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{} ({}: {})", self.name, device.kind, device.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The host.
pub(super) fn host() -> Vec<Candidate> {
    #[cfg(feature = "host")]
    let found = vec![Candidate {
        name: "host".into(),
        backend: "host",
        alias: "host".into(),
        device: Some(anydnn_host::HostEngine::new().device().clone()),
        source: Source::Host,
    }];
    #[cfg(not(feature = "host"))]
    let found = vec![Candidate::missing("host", not_built("host"))];
    found
}

/// The mock device.
pub(super) fn mock() -> Vec<Candidate> {
    #[cfg(feature = "mock")]
    let found = vec![Candidate {
        name: "mock".into(),
        backend: "mock",
        alias: "mock".into(),
        device: Some(anydnn_mock::MockEngine::with_seed(0).device().clone()),
        source: Source::Mock,
    }];
    #[cfg(not(feature = "mock"))]
    let found = vec![Candidate::missing("mock", not_built("mock"))];
    found
}

/// Every device of every OpenCL platform, and what stood in the way of others.
#[cfg(feature = "opencl")]
pub(super) fn opencl() -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let availability = anydnn_opencl::availability();
    if availability.devices.is_empty() {
        return vec![Candidate::missing(
            "opencl",
            Error::unavailable("an OpenCL device", availability.reason()),
        )];
    }
    // Other loaders find drivers elsewhere, so a missing folder of vendors tells nothing once there are devices.
    let broken =
        |problem: &&anydnn_opencl::Problem| !matches!(problem, anydnn_opencl::Problem::NoVendors { .. });
    for problem in availability.problems.iter().filter(broken) {
        found.push(Candidate::missing("opencl", Error::unavailable("an OpenCL driver", problem.to_string())));
    }
    for device in availability.devices {
        let alias = device.alias();
        let index = found.iter().filter(|c| c.alias == alias).count();
        found.push(Candidate {
            name: format!("opencl:{alias}:{index}"),
            backend: "opencl",
            alias,
            device: Some(device.info().clone()),
            source: Source::OpenCl(device),
        });
    }
    found
}

/// Every device of every OpenCL platform.
#[cfg(not(feature = "opencl"))]
pub(super) fn opencl() -> Vec<Candidate> {
    vec![Candidate::missing("opencl", not_built("opencl"))]
}

/// Engines of third parties.
pub(super) fn erased(engines: &[ErasedEngine]) -> Vec<Candidate> {
    let one = |(index, engine): (usize, &ErasedEngine)| Candidate {
        name: format!("erased:{index}"),
        backend: "erased",
        alias: engine.device().backend.to_lowercase(),
        device: Some(engine.device().clone()),
        source: Source::Erased(engine.clone()),
    };
    engines.iter().enumerate().map(one).collect()
}

#[cfg(not(all(feature = "host", feature = "opencl", feature = "mock")))]
fn not_built(backend: &str) -> Error {
    Error::unavailable(
        format!("the backend {backend}"),
        format!("this program was built without it; build with the cargo feature `{backend}`"),
    )
}
