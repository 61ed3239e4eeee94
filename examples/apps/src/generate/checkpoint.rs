//! The weights of a decoder with GPT-2's layers from a safetensors file, by the names that its publishers gave them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anydnn::model::{HostTensor, read_safetensors};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::generated::{Form, Sizes, of_checkpoint};

/// What some files have in front of every name.
const PREFIX: &str = "transformer.";

/// The elements of a head, where nothing says how many heads there are: GPT-2 has as many at every size.
const HEAD: usize = 64;

/// Weights by name, whose shapes fit together.
#[derive(Debug)]
pub struct Checkpoint {
    tensors: BTreeMap<String, HostTensor>,
    sizes: Sizes,
}

impl Checkpoint {
    /// Reads a `model.safetensors`, and the number of heads from a `config.json` beside it.
    ///
    /// # Errors
    /// Where one of them is no such file, or a weight is missing or of another shape than the others say.
    pub fn load(file: &Path) -> Result<Self> {
        let own = |name: String| name.strip_prefix(PREFIX).map_or(name.clone(), str::to_owned);
        let tensors: BTreeMap<String, HostTensor> =
            read_safetensors(file)?.into_iter().map(|(name, tensor)| (own(name), tensor)).collect();
        let rows = |name: &str| -> Result<[usize; 2]> {
            let tensor = tensors.get(name).with_context(|| format!("{} has no {name}", file.display()))?;
            let dims = tensor.dims();
            dims[..].try_into().with_context(|| format!("{name} has dimensions {dims}, expected two"))
        };
        let ([tokens, width], [capacity, _]) = (rows("wte.weight")?, rows("wpe.weight")?);
        let layers = (0..tensors.len())
            .take_while(|layer| tensors.contains_key(&format!("h.{layer}.ln_1.weight")))
            .count();
        let heads = match heads(&file.with_file_name("config.json"))? {
            Some(heads) => heads,
            None => width / HEAD,
        };
        ensure!(
            heads > 0 && width.is_multiple_of(heads),
            "vectors of {width} elements, expected a multiple of the {heads} heads"
        );
        let made = Self { tensors, sizes: Sizes { layers, width, heads, tokens, capacity } };
        made.check()?;
        Ok(made)
    }

    /// How large the decoder is.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The decoder as an ONNX file.
    pub fn decoder(&self, form: Form) -> Vec<u8> {
        of_checkpoint(self, form)
    }

    /// Some columns of a matrix of so many rows.
    pub(super) fn columns(&self, name: &str, rows: usize, columns: Range<usize>) -> Vec<f32> {
        // `check` has found all that a decoder is made of.
        let values = self.tensors.get(name).map(HostTensor::to_f32s).unwrap_or_default();
        let width = values.len() / rows.max(1);
        values.chunks(width.max(1)).flat_map(|row| &row[columns.clone()]).copied().collect()
    }

    fn check(&self) -> Result<()> {
        let Sizes { layers, width, tokens, capacity, .. } = self.sizes;
        let mut expected =
            vec![("wte.weight".into(), vec![tokens, width]), ("wpe.weight".into(), vec![capacity, width])];
        let mut norms = vec!["ln_f".to_owned()];
        for layer in 0..layers {
            norms.extend([1, 2].map(|norm| format!("h.{layer}.ln_{norm}")));
            for (name, from, to) in
                [("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)]
            {
                expected.push((format!("h.{layer}.{name}.weight"), vec![from * width, to * width]));
                expected.push((format!("h.{layer}.{name}.bias"), vec![to * width]));
            }
        }
        let parts = |norm: &String| [format!("{norm}.weight"), format!("{norm}.bias")];
        expected.extend(norms.iter().flat_map(parts).map(|name| (name, vec![width])));
        for (name, dims) in expected {
            let tensor = self.tensors.get(&name).with_context(|| format!("there is no {name}"))?;
            ensure!(tensor.dims()[..] == dims, "{name} has dimensions {}, expected {dims:?}", tensor.dims());
            ensure!(tensor.data_type().is_float(), "{name} holds {}, expected floats", tensor.data_type());
        }
        Ok(())
    }
}

/// The number of heads that a configuration tells; none without one.
fn heads(config: &Path) -> Result<Option<usize>> {
    if !config.exists() {
        return Ok(None);
    }
    let shown = || config.display().to_string();
    let told: Value = serde_json::from_slice(&fs::read(config).with_context(shown)?).with_context(shown)?;
    Ok(told["n_head"].as_u64().and_then(|heads| usize::try_from(heads).ok()))
}
