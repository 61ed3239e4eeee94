//! Examples that come with a model.

use std::ops::Range;
use std::path::Path;

use anydnn_backend::{Dims, Error, MemoryDesc, Result};
use indexmap::IndexMap;

use super::HostTensor;
use super::files::{beside, read_safetensors, shown};
use super::manifest::DatasetManifest;

/// Rows of examples, one tensor for each input of the model, with the right answers where they are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    rows: usize,
    inputs: IndexMap<String, HostTensor>,
    labels: Option<Vec<i64>>,
}

impl Dataset {
    pub(super) fn load(folder: &Path, manifest: &DatasetManifest) -> Result<Self> {
        let path = beside(folder, &manifest.file)?;
        let mut tensors = read_safetensors(&path)?;
        let names: Vec<_> = tensors.keys().map(|name| format!("{name:?}")).collect();
        let missing = |name: &str| {
            let expected = format!("one of {}", names.join(", "));
            Error::invalid(shown(&path), "tensor", format!("{name:?}, which it has not"), expected)
        };
        let labels = match &manifest.labels {
            Some(name) => {
                let labels = tensors.get(name).ok_or_else(|| missing(name))?;
                Some(labels.to_f64s().into_iter().map(|label| label as i64).collect::<Vec<_>>())
            }
            None => None,
        };
        let mut rows = labels.as_ref().map(Vec::len);
        let mut inputs = IndexMap::new();
        for (input, name) in &manifest.inputs {
            let tensor = tensors.swap_remove(name).ok_or_else(|| missing(name))?;
            let count = tensor.dims().first().copied().unwrap_or(0);
            let expected = *rows.get_or_insert(count);
            if count != expected {
                let subject = format!("rows of tensor {name:?}");
                return Err(Error::invalid(
                    shown(&path),
                    subject,
                    count.to_string(),
                    format!("{expected}, as the others"),
                ));
            }
            inputs.insert(input.clone(), tensor);
        }
        Ok(Self { rows: rows.unwrap_or(0), inputs, labels })
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The inputs of the model that it has examples for, with all their rows.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &HostTensor)> {
        self.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The right answers: the index of the class for each row.
    pub fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
    }

    /// Some rows of an input, converted to the type and dimensions of `desc`; its first dimension must be the number of rows.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such input, the range is beyond the last row, or a row has another number of elements.
    pub fn rows(&self, input: &str, rows: Range<usize>, desc: &MemoryDesc) -> Result<HostTensor> {
        let tensor = self.inputs.get(input).ok_or_else(|| {
            let names: Vec<_> = self.inputs.keys().map(|name| format!("{name:?}")).collect();
            Error::invalid("dataset", "input", format!("{input:?}"), format!("one of {}", names.join(", ")))
        })?;
        let count = rows.len();
        let taken = tensor.rows(rows).map_err(|error| error.at(format!("dataset input {input:?}")))?;
        let per_row = |dims: &Dims| Dims::new(dims.get(1..).unwrap_or_default()).elements();
        if desc.dims().first() != Some(&count) || per_row(desc.dims()) != per_row(taken.dims()) {
            let subject = format!("shape of {count} rows of input {input:?}");
            let given = format!("{} in the dataset", taken.dims());
            return Err(Error::invalid("dataset", subject, given, format!("{} in the model", desc.dims())));
        }
        Ok(taken.cast(desc.data_type()).reshaped(desc.dims().clone())?.labelled(input))
    }
}
