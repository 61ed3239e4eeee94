//! Text, token by token, by a decoder of the user's own or one with weights made up.

mod checkpoint;
mod decoder;
mod file;
mod generated;

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use tokenizers::Tokenizer;

pub use self::checkpoint::Checkpoint;
pub use self::decoder::Decoder;
pub use self::generated::{Form, Sizes, Weights, decoder};

/// Tokens that end a text, as widespread vocabularies call them.
const ENDS: [&str; 6] = ["</s>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "<eos>"];

/// Between texts and numbers of tokens.
#[derive(Debug)]
pub struct Vocabulary {
    tokenizer: Tokenizer,
}

impl Vocabulary {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// Where the file is no such file.
    pub fn load(file: &Path) -> Result<Self> {
        // The crate's errors are boxed and say what is wrong.
        let tokenizer = Tokenizer::from_file(file).map_err(|error| anyhow!("{}: {error}", file.display()))?;
        Ok(Self { tokenizer })
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// Where the tokenizer refuses it.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizer.encode(text, true).map_err(|error| anyhow!(error))?.get_ids().to_vec())
    }

    /// The text of tokens.
    ///
    /// # Errors
    /// Where the tokenizer refuses them.
    pub fn text(&self, tokens: &[u32]) -> Result<String> {
        self.tokenizer.decode(tokens, true).map_err(|error| anyhow!(error))
    }

    /// Whether a token ends a text.
    pub fn is_end(&self, token: u32) -> bool {
        ENDS.iter().any(|end| self.tokenizer.token_to_id(end) == Some(token))
    }
}

/// Reads a prompt and goes on with the token that scores best, again and again, until `told` says that it is enough. Returns the tokens behind
/// the prompt.
///
/// # Errors
/// Where the prompt has no token, or the decoder fails.
pub fn generate(
    decoder: &mut Decoder,
    prompt: &[u32],
    mut told: impl FnMut(u32) -> bool,
) -> Result<Vec<u32>> {
    ensure!(!prompt.is_empty(), "expected a prompt of at least one token");
    let mut scores = Vec::new();
    for &token in prompt {
        scores = decoder.step(token)?;
    }
    let mut made = Vec::new();
    loop {
        let token = best(&scores);
        made.push(token);
        if !told(token) {
            return Ok(made);
        }
        scores = decoder.step(token)?;
    }
}

/// The first of the tokens with the highest score.
fn best(scores: &[f32]) -> u32 {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (0..scores.len()).reduce(better).unwrap_or(0) as u32
}
