//! Cache blobs: every program that an engine compiled, and what it found out about its device.

use std::collections::BTreeMap;
use std::sync::Arc;

use anydnn_backend::{Error, Probe};
use serde::{Deserialize, Serialize};

use super::frame::{self, CacheMiss, Magic};
use super::key::DeviceKey;

const MAGIC: Magic = *b"anyDNNcb";

/// The hash of a program's source and options.
pub(super) type ProgramKey = [u8; blake3::OUT_LEN];

/// What a blob holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) programs: BTreeMap<ProgramKey, Arc<[u8]>>,
    /// Outcomes of the probes that compile programs, by the feature's name.
    pub(super) probes: BTreeMap<String, Probe>,
}

/// The body as written. Everything is sorted, so that the same content gives the same bytes.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    key: DeviceKey,
    #[serde(borrow)]
    probes: Vec<(&'a str, bool, &'a str)>,
    #[serde(borrow)]
    programs: Vec<(ProgramKey, &'a [u8])>,
}

pub(super) fn write(key: &DeviceKey, content: &Content) -> Result<Vec<u8>, Error> {
    let probes = content.probes.iter();
    let body = Body {
        key: key.clone(),
        probes: probes.map(|(name, probe)| (name.as_str(), probe.works, probe.detail.as_str())).collect(),
        programs: content.programs.iter().map(|(key, binary)| (*key, &**binary)).collect(),
    };
    frame::seal(MAGIC, &body)
}

/// The content of a blob that was written for this key.
pub(super) fn read(key: &DeviceKey, bytes: &[u8]) -> Result<Content, CacheMiss> {
    let body: Body<'_> = frame::open(MAGIC, bytes)?;
    key.accept(&body.key)?;
    if body.programs.iter().any(|(_, binary)| binary.is_empty()) {
        return Err(CacheMiss::Malformed("a program is empty".into()));
    }
    let probes = body.probes.into_iter();
    Ok(Content {
        probes: probes
            .map(|(name, works, detail)| (name.to_owned(), Probe { works, detail: detail.to_owned() }))
            .collect(),
        programs: body.programs.into_iter().map(|(key, binary)| (key, Arc::from(binary))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> DeviceKey {
        let text = String::new;
        DeviceKey {
            platform: "a platform".into(),
            platform_version: text(),
            device: text(),
            vendor: text(),
            driver: text(),
            opencl: text(),
            uuid: Some([3; 16]),
            processor: text(),
            library: "0.0.0".into(),
            kernels: [1; 32],
        }
    }

    fn content() -> Content {
        let probe = Probe { works: true, detail: "it does".into() };
        Content {
            programs: [([9; 32], Arc::from([1, 2, 3])), ([4; 32], Arc::from([0]))].into(),
            probes: [("fp64".to_owned(), probe)].into(),
        }
    }

    #[test]
    fn content_comes_back_and_is_never_empty() {
        for content in [content(), Content::default()] {
            let bytes = write(&key(), &content).unwrap();
            assert_eq!(write(&key(), &content).unwrap(), bytes);
            assert_eq!(read(&key(), &bytes).unwrap(), content);
        }
    }

    #[test]
    fn another_version_s_blob_is_foreign() {
        let mut newer = key();
        newer.library = "0.0.1".into();
        let reason = read(&key(), &write(&newer, &content()).unwrap()).unwrap_err();
        assert_eq!(reason.to_string(), r#"its library version is "0.0.1", expected "0.0.0""#);
    }

    #[test]
    fn empty_programs_never_reach_a_driver() {
        let mut content = content();
        content.programs.insert([5; 32], Arc::from([]));
        let read = read(&key(), &write(&key(), &content).unwrap());
        assert_eq!(read, Err(CacheMiss::Malformed("a program is empty".into())));
    }
}
