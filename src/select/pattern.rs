//! Patterns: the words that name backends and devices.

use std::fmt;
use std::str::FromStr;

use anydnn_backend::{DeviceKind, Error};

use super::candidate::Candidate;

/// Every form of a pattern, for messages.
const FORMS: &str = "a comma-separated list of host, opencl, opencl:KIND, opencl:PLATFORM, opencl:PLATFORM:INDEX, opencl:INDEX, \
                     mock, mock:SEED, erased or erased:NAME, where KIND is gpu, cpu or accelerator and PLATFORM a word such as \
                     pocl, intel or nvidia";

/// Names of platforms. A device of one vendor can belong to another's platform, so these words never match a device's name.
const PLATFORMS: [&str; 9] =
    ["pocl", "intel", "nvidia", "amd", "apple", "arm", "qualcomm", "rusticl", "clover"];

/// Names one backend, or some of its devices.
///
/// ```
/// use anydnn::select::Pattern;
/// let pattern: Pattern = "opencl:nvidia:0".parse().unwrap();
/// assert_eq!(pattern.to_string(), "opencl:nvidia:0");
/// assert!("openkl".parse::<Pattern>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pattern {
    /// `host`: plain Rust on the CPU.
    Host,
    /// `mock` or `mock:SEED`: the mock device.
    Mock {
        /// The seed of its order.
        seed: Option<u64>,
    },
    /// `opencl`, `opencl:WORD`, `opencl:INDEX` or `opencl:WORD:INDEX`.
    OpenCl(DevicePattern),
    /// `erased` and the same forms: an engine given by [`Selector::with_engine`](super::Selector::with_engine).
    Erased(DevicePattern),
}

/// Names some devices of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DevicePattern {
    /// A [`DeviceKind`], or part of the platform's or device's name in lower case; none for every device.
    pub word: Option<String>,
    /// Which of the devices that match, counted from zero in the order of the drivers; none for any.
    pub index: Option<usize>,
}

impl Pattern {
    /// Parses a comma-separated list of patterns.
    ///
    /// # Errors
    /// [`Error::Invalid`] listing the allowed forms.
    pub fn list(text: &str) -> Result<Vec<Self>, Error> {
        text.split(',').map(str::parse).collect()
    }

    /// The name of the backend.
    pub const fn backend(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Mock { .. } => "mock",
            Self::OpenCl(_) => "opencl",
            Self::Erased(_) => "erased",
        }
    }

    /// The positions of the candidates that this names.
    pub(super) fn matches(&self, candidates: &[Candidate]) -> Vec<usize> {
        let own: Vec<usize> =
            (0..candidates.len()).filter(|&i| candidates[i].backend() == self.backend()).collect();
        let (Self::OpenCl(devices) | Self::Erased(devices)) = self else { return own };
        let (known, missing): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|&i| candidates[i].device().is_some());
        let named = known.into_iter().filter(|&i| devices.names(&candidates[i]));
        let (first, most) = devices.index.map_or((0, usize::MAX), |index| (index, 1));
        // Any device may hide behind what is missing, so its reason is always heard.
        missing.into_iter().chain(named.skip(first).take(most)).collect()
    }
}

impl DevicePattern {
    fn names(&self, candidate: &Candidate) -> bool {
        let Some(word) = &self.word else { return true };
        let Some(device) = candidate.device() else { return false };
        if let Some(kind) = kind(word) {
            return device.kind == kind;
        }
        let holds = |text: &str| text.to_lowercase().contains(word.as_str());
        candidate.alias() == word
            || holds(&device.platform)
            || (!PLATFORMS.contains(&word.as_str()) && (holds(&device.name) || holds(&device.backend)))
    }
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let lower = text.trim().to_lowercase();
        let wrong = || Error::invalid("backend selection", "backend", format!("{:?}", text.trim()), FORMS);
        let mut parts = lower.split(':');
        let (backend, first, second) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if parts.next().is_some() || first.is_some_and(str::is_empty) || second.is_some_and(str::is_empty) {
            return Err(wrong());
        }
        let devices = || {
            Ok::<_, Error>(match (first, second) {
                (None, _) => DevicePattern::default(),
                (Some(one), None) => match one.parse() {
                    Ok(index) => DevicePattern { word: None, index: Some(index) },
                    Err(_) => DevicePattern { word: Some(one.to_owned()), index: None },
                },
                (Some(word), Some(index)) => DevicePattern {
                    word: Some(word.to_owned()),
                    index: Some(index.parse().map_err(|_| wrong())?),
                },
            })
        };
        match (backend, first, second) {
            ("host", None, None) => Ok(Self::Host),
            ("mock", None, None) => Ok(Self::Mock { seed: None }),
            ("mock", Some(seed), None) => Ok(Self::Mock { seed: Some(seed.parse().map_err(|_| wrong())?) }),
            ("opencl", ..) => Ok(Self::OpenCl(devices()?)),
            ("erased", ..) => Ok(Self::Erased(devices()?)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.backend())?;
        match self {
            Self::Host | Self::Mock { seed: None } => Ok(()),
            Self::Mock { seed: Some(seed) } => write!(f, ":{seed}"),
            Self::OpenCl(devices) | Self::Erased(devices) => {
                devices.word.iter().try_for_each(|word| write!(f, ":{word}"))?;
                devices.index.iter().try_for_each(|index| write!(f, ":{index}"))
            }
        }
    }
}

fn kind(word: &str) -> Option<DeviceKind> {
    [DeviceKind::Cpu, DeviceKind::Gpu, DeviceKind::Accelerator]
        .into_iter()
        .find(|kind| kind.to_string() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written() {
        for text in
            ["host", "mock", "mock:7", "opencl", "opencl:gpu", "opencl:2", "opencl:nvidia:0", "erased:acme"]
        {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        assert_eq!(
            " OpenCL:NVIDIA:1 ".parse::<Pattern>().unwrap(),
            Pattern::OpenCl(DevicePattern { word: Some("nvidia".into()), index: Some(1) })
        );
    }

    #[test]
    fn a_wrong_form_lists_the_right_ones() {
        for text in
            ["", "cuda", "host:1", "mock:x", "mock:1:2", "opencl:", "opencl:a:b", "opencl:a:0:0", "opencl::0"]
        {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("mock:SEED"), "{error}");
        }
        assert!(Pattern::list("host,,mock").is_err());
    }
}
