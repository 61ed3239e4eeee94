//! A decoder of weights in a safetensors file scores tokens as its layers say, written down plainly.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;

use anydnn::model::{HostTensor, write_safetensors};
use anydnn::onnx::Model;
use anydnn::select::Selector;
use anydnn_examples::generate::{Checkpoint, Decoder, Form};
use approx::assert_abs_diff_eq;

const WIDTH: usize = 12;
const HEADS: usize = 3;
const LAYERS: usize = 2;
const TOKENS: usize = 11;
const CAPACITY: usize = 8;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn tensors() -> Tensors {
    let mut shapes =
        vec![("wte.weight".to_owned(), vec![TOKENS, WIDTH]), ("wpe.weight".into(), vec![CAPACITY, WIDTH])];
    let mut norms = vec!["ln_f".to_owned()];
    for layer in 0..LAYERS {
        norms.extend([1, 2].map(|norm| format!("h.{layer}.ln_{norm}")));
        for (name, from, to) in
            [("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)]
        {
            shapes.push((format!("h.{layer}.{name}.weight"), vec![from * WIDTH, to * WIDTH]));
            shapes.push((format!("h.{layer}.{name}.bias"), vec![to * WIDTH]));
        }
    }
    shapes.extend(
        norms.iter().flat_map(|norm| ["weight", "bias"].map(|part| (format!("{norm}.{part}"), vec![WIDTH]))),
    );
    let value = |seed: usize, i: usize| ((i * 7919 + seed * 104_729) % 1013) as f32 / 506.5 - 1.0;
    let values = |seed, dims: &[usize]| (0..dims.iter().product()).map(|i| value(seed, i)).collect();
    shapes
        .into_iter()
        .enumerate()
        .map(|(seed, (name, dims))| {
            let values = values(seed, &dims);
            (name, (dims, values))
        })
        .collect()
}

/// The scores behind the last of some tokens, all of them read at once.
fn scores(tensors: &Tensors, ids: &[usize]) -> Vec<f64> {
    let at = |name: &str, i: usize| f64::from(tensors[name].1[i]);
    let linear = |name: &str, x: &[f64], to: usize| -> Vec<f64> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        (0..to)
            .map(|j| {
                at(&bias, j) + x.iter().enumerate().map(|(i, x)| x * at(&weight, i * to + j)).sum::<f64>()
            })
            .collect()
    };
    let norm = |name: &str, x: &[f64]| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / WIDTH as f64;
        let root = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64 + 1e-5).sqrt();
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        x.iter().enumerate().map(|(i, x)| (x - mean) / root * at(&weight, i) + at(&bias, i)).collect()
    };
    let place = |(position, &id): (usize, &usize)| -> Vec<f64> {
        (0..WIDTH)
            .map(|i| at("wte.weight", id * WIDTH + i) + at("wpe.weight", position * WIDTH + i))
            .collect()
    };
    let mut rows: Vec<Vec<f64>> = ids.iter().enumerate().map(place).collect();
    for layer in 0..LAYERS {
        let of = |part: &str| format!("h.{layer}.{part}");
        let made: Vec<Vec<f64>> =
            rows.iter().map(|x| linear(&of("attn.c_attn"), &norm(&of("ln_1"), x), 3 * WIDTH)).collect();
        let size = WIDTH / HEADS;
        for (position, row) in rows.iter_mut().enumerate() {
            let mut mixed = vec![0.0; WIDTH];
            for head in 0..HEADS {
                let part = |kind: usize, at: usize| &made[at][kind * WIDTH + head * size..][..size];
                let product =
                    |at: usize| part(0, position).iter().zip(part(1, at)).map(|(a, b)| a * b).sum::<f64>();
                let weights: Vec<f64> =
                    (0..=position).map(|at| (product(at) / (size as f64).sqrt()).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (at, weight) in weights.iter().enumerate() {
                    for (i, value) in part(2, at).iter().enumerate() {
                        mixed[head * size + i] += weight / total * value;
                    }
                }
            }
            let joined = linear(&of("attn.c_proj"), &mixed, WIDTH);
            row.iter_mut().zip(joined).for_each(|(x, y)| *x += y);
        }
        for row in &mut rows {
            let gelu = |x: f64| {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
            };
            let wide = linear(&of("mlp.c_fc"), &norm(&of("ln_2"), row), 4 * WIDTH);
            let wide: Vec<f64> = wide.into_iter().map(gelu).collect();
            row.iter_mut().zip(linear(&of("mlp.c_proj"), &wide, WIDTH)).for_each(|(x, y)| *x += y);
        }
    }
    let last = norm("ln_f", rows.last().unwrap());
    (0..TOKENS).map(|token| (0..WIDTH).map(|i| last[i] * at("wte.weight", token * WIDTH + i)).sum()).collect()
}

/// A file with these tensors, its names beginning so.
fn written(folder: &std::path::Path, tensors: &Tensors, prefix: &str) -> std::path::PathBuf {
    let path = folder.join("model.safetensors");
    let made: Vec<(String, HostTensor)> = tensors
        .iter()
        .map(|(name, (dims, values))| {
            (format!("{prefix}{name}"), HostTensor::from_f32(dims.clone(), values).unwrap())
        })
        .collect();
    write_safetensors(&path, made.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
    path
}

#[test]
fn a_decoder_of_a_checkpoint_scores_as_its_layers_say() {
    let (tensors, ids) = (tensors(), [3, 7, 0, 7, 10]);
    for (prefix, form) in [("", Form::Rows), ("transformer.", Form::Grown)] {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), &tensors, prefix);
        fs::write(folder.path().join("config.json"), format!("{{\"n_head\": {HEADS}}}")).unwrap();
        let checkpoint = Checkpoint::load(&path).unwrap();
        assert_eq!((checkpoint.sizes().layers, checkpoint.sizes().heads), (LAYERS, HEADS));
        let engine = Selector::parse("host").unwrap().select().unwrap().engine;
        let model = Model::from_bytes(checkpoint.decoder(form)).unwrap();
        let mut decoder = Decoder::new(&model, &engine).unwrap();
        for length in 1..=ids.len() {
            let made = decoder.step(ids[length - 1] as u32).unwrap();
            let expected = scores(&tensors, &ids[..length]);
            assert_eq!(made.len(), TOKENS);
            for (made, expected) in made.iter().zip(expected) {
                assert_abs_diff_eq!(f64::from(*made), expected, epsilon = 1e-4);
            }
        }
    }
}

#[test]
fn a_checkpoint_that_lacks_something_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = tensors();
        change(&mut tensors);
        fs::write(folder.path().join("config.json"), "{\"n_head\": 3}").unwrap();
        Checkpoint::load(&written(folder.path(), &tensors, "")).unwrap_err().to_string()
    };
    let missing = refused(&|tensors| drop(tensors.remove("h.1.mlp.c_fc.bias")));
    assert_eq!(missing, "there is no h.1.mlp.c_fc.bias");
    let other = refused(&|tensors| {
        tensors.insert("ln_f.bias".into(), (vec![2], vec![0.0; 2]));
    });
    assert_eq!(other, "ln_f.bias has dimensions 2, expected [12]");
    let text = folder.path().join("text.safetensors");
    fs::write(&text, "no weights").unwrap();
    assert!(Checkpoint::load(&text).is_err());
}
