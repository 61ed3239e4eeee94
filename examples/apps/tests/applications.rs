//! The applications give what ONNX Runtime gives with the same files: `expected.py` wrote `expected.json`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anydnn::backend::{DataType, MemoryDesc};
use anydnn::model::HostTensor;
use anydnn::select::{AnyEngine, Selector};
use anydnn_examples::fetch::Package;
use anydnn_examples::similarity::{Encoder, cosine};
use anydnn_examples::{file_type, read_text, session, similarity, voice_activity};
use approx::assert_abs_diff_eq;
use serde_json::Value;

/// How alike results must be.
const COSINE: f64 = 0.9999;

fn expected(part: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("expected.json")).unwrap();
    all[part].clone()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

/// The host and PoCL, where it must be there.
fn engines() -> Vec<AnyEngine> {
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    let names = ["host", "opencl:pocl"].into_iter();
    let names = names.filter(|name| *name == "host" || required.split(',').any(|entry| entry == *name));
    names.map(|name| Selector::parse(name).unwrap().select().unwrap().engine).collect()
}

/// Whether the files are there or can be had. Where backends are required, so are they.
fn there(packages: &[Package]) -> bool {
    let required = std::env::var("ANYDNN_REQUIRE").is_ok_and(|names| !names.is_empty());
    packages.iter().all(|package| match package.fetch() {
        Ok(_) => true,
        Err(error) => {
            assert!(!required, "{error:#}");
            eprintln!("NOT TESTED: {error:#}");
            false
        }
    })
}

#[test]
fn sentences_are_as_alike_as_onnx_runtime_finds_them() {
    if !there(&[similarity::MODEL, similarity::TOKENIZER]) {
        return;
    }
    let expected = expected("similarity");
    let sentences: Vec<String> = serde_json::from_value(expected["sentences"].clone()).unwrap();
    for engine in engines() {
        let encoder = Encoder::load(&engine).unwrap();
        let ids: Vec<Vec<u32>> = serde_json::from_value(expected["ids"].clone()).unwrap();
        assert_eq!(encoder.tokens(&sentences).unwrap().ids, ids);
        let vectors = encoder.encode(&sentences).unwrap();
        for (i, vector) in vectors.iter().enumerate() {
            let some: Vec<f32> = vector.iter().step_by(8).copied().collect();
            let same = cosine(&some, &numbers(&expected["vectors"][i]));
            assert!(same > COSINE, "sentence {i}: {same}");
            for (other, alike) in vectors.iter().zip(numbers(&expected["matrix"][i])) {
                assert_abs_diff_eq!(cosine(vector, other), f64::from(alike), epsilon = 1e-3);
            }
        }
    }
}

#[test]
fn files_are_what_onnx_runtime_takes_them_for() {
    if !there(&[file_type::MODEL]) {
        return;
    }
    for engine in engines() {
        let detector = file_type::Detector::load(&engine).unwrap();
        for file in expected("file_type").as_array().unwrap() {
            let found = detector.content(file["text"].as_str().unwrap().as_bytes()).unwrap();
            let score = file["score"].as_f64().unwrap();
            assert_eq!(found.label, file["label"].as_str().unwrap(), "{file}");
            assert_abs_diff_eq!(f64::from(found.score), score, epsilon = 1e-3);
        }
        assert_eq!(detector.content(b"").unwrap().label, "empty");
    }
}

#[test]
fn voices_are_where_onnx_runtime_hears_them() {
    if !there(&[voice_activity::MODEL]) {
        return;
    }
    let expected = numbers(&expected("voice_activity")["probabilities"]);
    for engine in engines() {
        let detector = voice_activity::Detector::load(&engine).unwrap();
        let found = detector.probabilities(&voice_activity::example().unwrap()).unwrap();
        assert_eq!(found.len(), expected.len());
        let same = cosine(&found, &expected);
        assert!(same > COSINE, "{same}");
        let voices = voice_activity::voices(&found);
        assert_eq!(voices, voice_activity::voices(&expected));
        assert!(voices.len() >= 2, "{voices:?}");
    }
}

#[test]
fn the_notice_is_read() {
    if !there(&[read_text::MODELS]) {
        return;
    }
    let expected = expected("read_text");
    let texts: Vec<String> = serde_json::from_value(expected["lines"].clone()).unwrap();
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/pictures/notice.png");
    let picture = image::open(picture).unwrap().into_rgb8();
    // Of the networks alone devices are asked below: lines of many widths take long to compile for.
    for engine in engines().into_iter().take(1) {
        let lines = read_text::Reader::load(&engine).unwrap().read(&picture).unwrap();
        assert_eq!(lines.iter().map(|line| &line.text).collect::<Vec<_>>(), texts.iter().collect::<Vec<_>>());
        assert_eq!(lines.iter().map(|line| line.turned).collect::<Vec<_>>(), [false, false, false, true]);
        let drawn = read_text::annotated(&picture, &lines);
        assert_ne!(drawn, picture);
    }
}

#[test]
fn the_networks_for_text_compute_what_onnx_runtime_does() {
    if !there(&[read_text::MODELS]) {
        return;
    }
    let folder = read_text::MODELS.fetch().unwrap();
    let picture =
        image::open(concat!(env!("CARGO_MANIFEST_DIR"), "/pictures/notice.png")).unwrap().into_rgb8();
    for engine in engines() {
        for network in expected("read_text")["networks"].as_array().unwrap() {
            let name = network["name"].as_str().unwrap();
            let dims: Vec<usize> = serde_json::from_value(network["dims"].clone()).unwrap();
            let input = if dims[3] == picture.width() as usize {
                let plane =
                    |channel: usize| picture.pixels().map(move |p| f32::from(p[channel]) / 127.5 - 1.0);
                HostTensor::from_f32(dims, &[2, 1, 0].into_iter().flat_map(plane).collect::<Vec<_>>())
                    .unwrap()
            } else {
                HostTensor::random(&MemoryDesc::new(dims, DataType::F32), 9).unwrap()
            };
            let file = folder.join(format!("rapidocr_onnxruntime/models/{name}.onnx"));
            let outputs = session(&file, &engine).unwrap().run(&[("x", input)]).unwrap();
            let found = outputs[0].1.to_f32s();
            assert_eq!(found.len() as u64, network["length"].as_u64().unwrap(), "{name}");
            let places =
                network["places"].as_array().unwrap().iter().map(|place| place.as_u64().unwrap() as usize);
            let some: Vec<f32> = places.map(|place| found[place]).collect();
            let same = cosine(&some, &numbers(&network["values"]));
            assert!(same > COSINE, "{name}: {same}");
        }
    }
}
