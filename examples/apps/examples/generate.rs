//! Goes on with a text, by a decoder of one's own or one with weights made up, and tells how many tokens a second that makes.
//!
//! `cargo run --release --features onnx --example generate -- --model model.onnx --tokenizer tokenizer.json "Once upon a time"`
//!
//! `cargo run --release --features onnx --example generate -- --weights model.safetensors --tokenizer tokenizer.json "Once upon a time"`, for
//! the weights of GPT-2 and its like
//!
//! `cargo run --release --features onnx --example generate -- --bits 4`

use std::fs;
use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::time::Instant;

use anydnn::onnx::Model;
use anydnn_examples::generate::{Checkpoint, Decoder, Form, Sizes, Vocabulary, Weights, decoder, generate};
use anyhow::{Context, Result, bail};

const USAGE: &str = "[--model model.onnx] [--weights model.safetensors] [--tokenizer tokenizer.json] [--bits 4] [--grown] [--count 64] [--write FILE] [TEXT]";

fn main() -> Result<()> {
    let (mut model, mut read, mut tokenizer, mut written) = (None, None, None, None);
    let (mut weights, mut form, mut count, mut text) = (Weights::Floats, Form::Rows, 64, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} has no value; {USAGE}"));
        match argument.as_str() {
            "--model" => model = Some(PathBuf::from(value()?)),
            "--weights" => read = Some(PathBuf::from(value()?)),
            "--tokenizer" => tokenizer = Some(PathBuf::from(value()?)),
            "--write" => written = Some(PathBuf::from(value()?)),
            "--count" => count = value()?.parse().context("--count is no number")?,
            "--grown" => form = Form::Grown,
            "--bits" => match value()?.as_str() {
                "4" => weights = Weights::FourBits,
                "32" => weights = Weights::Floats,
                other => bail!("--bits is {other}, expected 4 or 32"),
            },
            option if option.starts_with("--") => bail!("unknown option {option}; {USAGE}"),
            _ => text.push(argument),
        }
    }
    let model = if let Some(file) = &model {
        Model::load(file)?
    } else if let Some(file) = &read {
        Model::from_bytes(Checkpoint::load(file)?.decoder(form))?
    } else {
        let file = decoder(Sizes::MEDIUM, form, weights, 1);
        eprintln!(
            "{:.0} million weights made up, {:.0} MB",
            Sizes::MEDIUM.weights() as f64 / 1e6,
            file.len() as f64 / 1e6
        );
        if let Some(path) = &written {
            fs::write(path, &file).with_context(|| path.display().to_string())?;
        }
        Model::from_bytes(file)?
    };
    let vocabulary = tokenizer.map(|file| Vocabulary::load(&file)).transpose()?;
    let prompt = match &vocabulary {
        Some(vocabulary) => vocabulary.tokens(&text.join(" "))?,
        None => vec![1, 2, 3, 4],
    };
    let engine = anydnn_examples::engine()?;
    let mut decoder = Decoder::new(&model, &engine)?;
    // Compiles, and shows the device what it will be given.
    for &token in prompt.iter().chain(&[0; 4]) {
        decoder.step(token)?;
    }
    decoder.restart()?;
    let plans = decoder.plans();
    let (start, mut first, mut left) = (Instant::now(), None, count);
    let (mut shown, mut so_far) = (0, Vec::new());
    let made = generate(&mut decoder, &prompt, |token| {
        first.get_or_insert_with(Instant::now);
        so_far.push(token);
        let known =
            vocabulary.as_ref().map(|vocabulary| (vocabulary.text(&so_far), vocabulary.is_end(token)));
        match known {
            None => print!("{token} "),
            Some((text, _)) => {
                // A character may take several tokens.
                let text = text.unwrap_or_default();
                if let Some(new) = text.get(shown..).filter(|new| !new.ends_with('\u{fffd}')) {
                    print!("{new}");
                    shown = text.len();
                }
            }
        }
        let _ = stdout().flush();
        left -= 1;
        left > 0 && !vocabulary.as_ref().is_some_and(|vocabulary| vocabulary.is_end(token))
    })?;
    println!();
    let first = first.unwrap_or(start);
    println!(
        "{} tokens of the prompt in {:.2} s, then {:.1} tokens a second; {} plans, {} before",
        prompt.len(),
        (first - start).as_secs_f64(),
        (made.len() - 1) as f64 / first.elapsed().as_secs_f64().max(f64::MIN_POSITIVE),
        decoder.plans(),
        plans,
    );
    Ok(())
}
