//! Decoders make the tokens that ONNX Runtime makes of the same files, one by one, with what came before kept on the device.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use anydnn::onnx::Model;
use anydnn::select::{AnyEngine, Selector};
use anydnn_examples::generate::{Decoder, Form, Sizes, Weights, decoder, generate};
use approx::assert_abs_diff_eq;
use serde_json::Value;

const PROMPT: [u32; 3] = [5, 17, 2];
const COUNT: usize = 16;

/// The host and PoCL, where it must be there.
fn engines() -> Vec<AnyEngine> {
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    let names = ["host", "opencl:pocl"].into_iter();
    let names = names.filter(|name| *name == "host" || required.split(',').any(|entry| entry == *name));
    names.map(|name| Selector::parse(name).unwrap().select().unwrap().engine).collect()
}

/// What ONNX Runtime makes of a file; none where it is not there and need not be.
fn peers(file: &[u8]) -> Option<Value> {
    let Some(python) = std::env::var_os("ANYDNN_PEER_PYTHON") else {
        assert!(
            std::env::var_os("ANYDNN_REQUIRE").is_none(),
            "ANYDNN_PEER_PYTHON names no Python with ONNX Runtime"
        );
        eprintln!("NOT TESTED: ANYDNN_PEER_PYTHON names no Python with ONNX Runtime");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decoder.onnx");
    fs::write(&path, file).unwrap();
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tokens.py")).arg(path).arg(COUNT.to_string());
    let ended = command.args(PROMPT.map(|token| token.to_string())).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}

#[test]
fn decoders_make_the_tokens_that_onnx_runtime_makes() {
    for (form, weights) in
        [(Form::Rows, Weights::Floats), (Form::Rows, Weights::FourBits), (Form::Grown, Weights::Floats)]
    {
        let file = decoder(Sizes::TINY, form, weights, 7);
        let Some(expected) = peers(&file) else { return };
        let tokens: Vec<u32> = serde_json::from_value(expected["tokens"].clone()).unwrap();
        let scores: Vec<Vec<f32>> = serde_json::from_value(expected["scores"].clone()).unwrap();
        assert!(tokens.iter().any(|&token| token != tokens[0]), "{tokens:?}");
        for engine in engines() {
            let mut decoder = Decoder::new(&Model::from_bytes(file.clone()).unwrap(), &engine).unwrap();
            let mut left = COUNT;
            let made = generate(&mut decoder, &PROMPT, |_| {
                left -= 1;
                left > 0
            });
            assert_eq!(made.unwrap(), tokens, "{form:?} {weights:?}");
            // Again, after what was read is forgotten, and by scores.
            decoder.restart().unwrap();
            for (position, token) in PROMPT.iter().chain(&tokens).take(scores.len()).enumerate() {
                let made = decoder.step(*token).unwrap();
                for (own, peer) in made.iter().zip(&scores[position]) {
                    assert_abs_diff_eq!(own, peer, epsilon = 1e-4);
                }
            }
            assert_eq!(decoder.length(), PROMPT.len() + COUNT - 1);
        }
    }
}

#[test]
fn rows_grow_without_another_plan_and_end_where_room_ends() {
    let file = decoder(Sizes::TINY, Form::Rows, Weights::Floats, 7);
    for engine in engines() {
        let mut decoder = Decoder::new(&Model::from_bytes(file.clone()).unwrap(), &engine).unwrap();
        decoder.step(1).unwrap();
        let plans = decoder.plans();
        assert_eq!(plans, 1);
        for token in 1..Sizes::TINY.capacity {
            decoder.step(token as u32).unwrap();
        }
        assert_eq!(decoder.plans(), plans);
        let error = decoder.step(1).unwrap_err().to_string();
        assert!(error.contains("the text has 24 tokens"), "{error}");
    }
}

#[test]
fn what_is_no_decoder_is_told() {
    let engine = &engines()[0];
    // The same model under another name for its tokens.
    let file = decoder(Sizes::TINY, Form::Rows, Weights::Floats, 7);
    let mut renamed = file;
    for at in 0..renamed.len() - 9 {
        if &renamed[at..at + 9] == b"input_ids" {
            renamed[at..at + 9].copy_from_slice(b"input_idz");
        }
    }
    let error = Decoder::new(&Model::from_bytes(renamed).unwrap(), engine).unwrap_err().to_string();
    assert!(error.contains("no input input_ids"), "{error}");
}
