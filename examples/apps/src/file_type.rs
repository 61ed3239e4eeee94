//! What kind of content a file has, by Magika's network: it looks at a thousand bytes of the beginning and of the end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anydnn::backend::DataType;
use anydnn::model::HostTensor;
use anydnn::onnx::Session;
use anydnn::select::{AnyBackend, AnyEngine};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::fetch::{self, Package};
use crate::{output, session};

/// The network, its labels, and what the labels mean.
pub const MODEL: Package = Package {
    name: "magika",
    version: "1.0.3",
    files: &[
        fetch::File {
            path: "magika/models/standard_v3_3/model.onnx",
            bytes: 3_163_737,
            sha256: "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        },
        fetch::File {
            path: "magika/models/standard_v3_3/config.min.json",
            bytes: 2141,
            sha256: "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
        },
        fetch::File {
            path: "magika/config/content_types_kb.min.json",
            bytes: 44_768,
            sha256: "75208adba69bc0556403b62b32ef3ccf8b5ce494411780845852e52e6583a10d",
        },
    ],
};

/// Bytes from each end of a file that are looked at.
const BLOCK: usize = 4096;
/// Of these the network is given as many.
const SIDE: usize = 1024;
/// Stands where a file has no byte.
const PADDING: i32 = 256;
/// Shorter contents tell too little.
const LEAST: usize = 8;

/// The network with its labels.
#[derive(Debug)]
pub struct Detector {
    session: Session<AnyBackend>,
    labels: Vec<String>,
    config: Value,
    meanings: Value,
}

/// What a content was taken for.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// A short name, such as `rust`.
    pub label: String,
    /// The same in words.
    pub description: String,
    /// The network's certainty in its own label, from zero to one.
    pub score: f32,
}

impl Detector {
    /// Fetches the files and loads them.
    ///
    /// # Errors
    /// Where they cannot be had.
    pub fn load(engine: &AnyEngine) -> Result<Self> {
        let folder = MODEL.fetch()?;
        let json = |file: &fetch::File| -> Result<Value> {
            let path = folder.join(file.path);
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            serde_json::from_str(&text).with_context(|| path.display().to_string())
        };
        let config = json(&MODEL.files[1])?;
        let labels = config["target_labels_space"].as_array().context("the network's labels")?;
        let labels = labels.iter().map(|label| label.as_str().unwrap_or("unknown").to_owned()).collect();
        let session = session(&folder.join(MODEL.files[0].path), engine)?;
        Ok(Self { session, labels, config, meanings: json(&MODEL.files[2])? })
    }

    /// What the content of a file is.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn file(&self, path: &Path) -> Result<Found> {
        let mut file = File::open(path)?;
        ensure!(file.metadata()?.is_file(), "a folder or a device");
        let length = file.metadata()?.len();
        let mut first = Vec::new();
        file.by_ref().take(BLOCK as u64).read_to_end(&mut first)?;
        file.seek(SeekFrom::Start(length.saturating_sub(BLOCK as u64)))?;
        let mut last = Vec::new();
        file.take(BLOCK as u64).read_to_end(&mut last)?;
        self.ends(&first, &last)
    }

    /// What a content is.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn content(&self, bytes: &[u8]) -> Result<Found> {
        let length = bytes.len().min(BLOCK);
        self.ends(&bytes[..length], &bytes[bytes.len() - length..])
    }

    fn ends(&self, first: &[u8], last: &[u8]) -> Result<Found> {
        if first.is_empty() {
            return Ok(self.found("empty", 1.0));
        }
        let begin = first.iter().position(|&byte| !is_space(byte)).map_or(&[][..], |start| &first[start..]);
        let end = last.iter().rposition(|&byte| !is_space(byte)).map_or(&[][..], |stop| &last[..=stop]);
        if begin.len() < LEAST {
            return Ok(self.found(if std::str::from_utf8(first).is_ok() { "txt" } else { "unknown" }, 1.0));
        }
        let mut numbers = vec![PADDING; 2 * SIDE];
        for (place, &byte) in numbers.iter_mut().zip(begin.iter().take(SIDE)) {
            *place = i32::from(byte);
        }
        for (place, &byte) in numbers.iter_mut().rev().zip(end.iter().rev().take(SIDE)) {
            *place = i32::from(byte);
        }
        let values: Vec<f64> = numbers.into_iter().map(f64::from).collect();
        let input = HostTensor::from_f64([1, 2 * SIDE], DataType::S32, &values)?;
        let outputs = self.session.run(&[("bytes", input)])?;
        let scores = output(&outputs, "target_label")?.to_f32s();
        let best = (0..scores.len().min(self.labels.len())).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let best = best.context("the network gave no scores")?;
        Ok(self.judged(&self.labels[best], scores[best]))
    }

    /// A label that is not certain enough becomes a more general one.
    fn judged(&self, label: &str, score: f32) -> Found {
        let least = self.config["thresholds"][label].as_f64();
        let least = least.or(self.config["medium_confidence_threshold"].as_f64()).unwrap_or(0.5);
        if f64::from(score) < least {
            let text = self.meanings[label]["is_text"].as_bool().unwrap_or(false);
            return self.found(if text { "txt" } else { "unknown" }, score);
        }
        self.found(self.config["overwrite_map"][label].as_str().unwrap_or(label), score)
    }

    fn found(&self, label: &str, score: f32) -> Found {
        let description = self.meanings[label]["description"].as_str().unwrap_or(label);
        Found { label: label.to_owned(), description: description.to_owned(), score }
    }
}

/// Whether a byte is a space of ASCII.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
