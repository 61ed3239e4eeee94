//! A model in a file, and its inputs in files, as a peer is told of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anydnn::backend::{Error, Result};
use anydnn::model::HostTensor;
use serde_json::{Value, json};

/// Inputs by their names.
pub(crate) type Inputs = Vec<(String, HostTensor)>;

/// What a peer is told; its inputs lie in a folder that goes with it.
#[derive(Debug)]
pub(crate) struct ModelFile {
    told: Value,
    folder: PathBuf,
}

impl ModelFile {
    /// Writes the sets of inputs for a model.
    pub(crate) fn new(file: &Path, outputs: &[String], sets: &[Inputs]) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("anydnn-inputs-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), error))?;
        // From here on the folder is removed whatever happens.
        let mut made = Self { told: Value::Null, folder };
        let mut told = Vec::new();
        for (set, inputs) in sets.iter().enumerate() {
            let mut list = Vec::new();
            for (index, (name, tensor)) in inputs.iter().enumerate() {
                let path = made.folder.join(format!("{set}-{index}"));
                std::fs::write(&path, tensor.bytes()).map_err(|error| Error::io(path.display(), error))?;
                list.push(json!({
                    "name": name,
                    "dims": tensor.dims().to_vec(),
                    "type": tensor.data_type().to_string(),
                    "file": path.display().to_string(),
                }));
            }
            told.push(list);
        }
        let file = file.canonicalize().map_err(|error| Error::io(file.display(), error))?;
        made.told =
            json!({ "model": file.display().to_string(), "outputs": outputs, "inputs": told, "graph": null });
        Ok(made)
    }

    pub(crate) fn json(&self) -> &Value {
        &self.told
    }
}

impl Drop for ModelFile {
    fn drop(&mut self) {
        // What is left behind lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
