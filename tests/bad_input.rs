//! Bad input: malformed, contradictory, absurd. Each is an error that names the place, never a panic, an abort or a hang.

#![allow(clippy::unwrap_used, reason = "test helpers fail the test")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use anydnn::backend::{DataType, Engine, Error, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::fusion::Policy;
use anydnn::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, Op, OpId, OpKind, TensorId};
use anydnn::model::{HostTensor, Model, read_bytes, read_safetensors, read_text};
use anydnn_host::HostEngine;
use serde_json::{Value, json};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// Seeded numbers.
struct Seed(u64);

impl Seed {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit.max(1) as u64) as usize
    }

    fn number(&mut self) -> Value {
        const NUMBERS: [i64; 16] = [
            0,
            1,
            -1,
            2,
            3,
            7,
            13,
            1 << 31,
            1 << 32,
            1 << 40,
            1 << 58,
            1 << 61,
            1 << 62,
            i64::MAX,
            i64::MIN,
            i64::MIN + 1,
        ];
        NUMBERS[self.below(NUMBERS.len())].into()
    }

    /// Changes one value somewhere inside.
    fn change(&mut self, value: &mut Value) {
        let inside = match value {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        };
        if inside > 0 && self.below(8) > 0 {
            let at = self.below(inside);
            let next = match value {
                Value::Array(items) => items.get_mut(at),
                Value::Object(members) => members.values_mut().nth(at),
                _ => None,
            };
            return self.change(next.unwrap());
        }
        match (value, self.below(4)) {
            (Value::Array(items), 0 | 1) if !items.is_empty() => drop(items.remove(self.below(inside))),
            (Value::Array(items), _) => items.push(self.number()),
            (Value::Object(members), 0..=2) if !members.is_empty() => {
                let name = members.keys().nth(self.below(inside)).unwrap().clone();
                members.shift_remove(&name);
            }
            (value @ (Value::Number(_) | Value::String(_)), 0..=2) => *value = self.number(),
            (value, _) => {
                *value = [json!(null), json!("x"), json!([]), json!({}), json!(1e300)][self.below(5)].clone();
            }
        }
    }
}

/// Everything that takes a graph apart without running it on bytes.
fn exercise(graph: &Graph) {
    let _ = (graph.to_json(), graph.with_batch(0), graph.with_batch(usize::MAX / 2));
    for policy in [Policy::Fusion, Policy::Debug] {
        let options = CompileOptions { policy, ..CompileOptions::default() };
        let _ = CompiledGraph::new(graph, &HostEngine::new(), &options).map(|compiled| compiled.to_string());
    }
}

#[test]
fn mutated_graphs_are_graphs_or_errors() {
    for file in ["attention/graph.json", "digits/graph.json"] {
        let original: Value = serde_json::from_str(&read_text(example(file)).unwrap()).unwrap();
        for seed in 0..300 {
            let mut value = original.clone();
            let mut random = Seed(seed);
            for _ in 0..=random.below(3) {
                random.change(&mut value);
            }
            let text = value.to_string();
            let result = catch_unwind(|| match Graph::from_json(&text) {
                Ok(graph) => exercise(&graph),
                Err(error) => assert!(error.to_string().len() < 2000, "{error}"),
            });
            assert!(result.is_ok(), "seed {seed} of {file} panics: {text}");
        }
    }
}

#[test]
fn mutated_weights_are_tensors_or_errors() {
    let original = read_bytes(example("digits/weights.safetensors")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.safetensors");
    let header = 8 + u64::from_le_bytes(original[..8].try_into().unwrap()) as usize;
    for seed in 0..200 {
        let mut random = Seed(seed);
        let mut bytes = original.clone();
        if seed % 4 == 0 {
            bytes.truncate(random.below(original.len()));
        } else {
            for _ in 0..=random.below(4) {
                bytes[random.below(header)] = random.below(256) as u8;
            }
        }
        std::fs::write(&file, &bytes).unwrap();
        let result = catch_unwind(|| {
            for tensor in read_safetensors(&file).into_iter().flat_map(indexmap::IndexMap::into_values) {
                let _ = tensor.rows(0..tensor.dims().first().copied().unwrap_or(0).min(2));
            }
        });
        assert!(result.is_ok(), "seed {seed} panics");
    }
}

/// One operation on one input of the given dimensions, with attributes in graph JSON.
fn single(kind: &str, dims: &Value, attrs: &Value) -> anydnn::backend::Result<Graph> {
    let document = json!({"version": "3.14.0", "graph": [{
        "id": 0, "name": "op", "kind": kind, "attrs": attrs,
        "inputs": [{"id": 0, "dtype": "f32", "shape": dims}], "outputs": [{"id": 1, "dtype": "f32"}]
    }]});
    Graph::from_json(&document.to_string())
}

#[test]
fn absurd_windows_do_not_overflow() {
    let list = |values: [i64; 2]| json!({"type": "s64[]", "value": values});
    let word = |text: &str| json!({"type": "string", "value": text});
    let far = [1, 3, 1 << 31, 1 << 40, 1 << 61, 1 << 62, i64::MAX];
    for at in 0..far.len().pow(3) {
        let [kernel, stride, dilation] = [at % 7, at / 7 % 7, at / 49].map(|i| far[i]);
        for (auto_pad, rounding) in [("SAME_UPPER", "floor"), ("None", "ceil"), ("VALID", "floor")] {
            let attrs = json!({
                "kernel": list([kernel, 1]), "strides": list([stride, 1]), "dilations": list([dilation, 1]),
                "pads_begin": list([kernel / 2, 0]), "pads_end": list([kernel / 2, 0]),
                "auto_pad": word(auto_pad), "rounding_type": word(rounding), "data_format": word("NCX"),
            });
            if let Ok(graph) = single("MaxPool", &json!([1, 1, 5, 1]), &attrs) {
                exercise(&graph);
            }
        }
    }
}

#[test]
fn temporaries_beyond_the_address_space_are_refused_when_compiled() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::U8, [1 << 59]);
    let parts: Vec<_> =
        (0..40).map(|i| g.op(&format!("abs{i}"), OpKind::Abs, &[x], Attrs::new()).unwrap()).collect();
    parts
        .into_iter()
        .reduce(|a, b| g.op(&format!("add{}", b.0), OpKind::Add, &[a, b], Attrs::new()).unwrap());
    let graph = g.build().unwrap();
    let options = CompileOptions { policy: Policy::Debug, ..CompileOptions::default() };
    let error = CompiledGraph::new(&graph, &HostEngine::new(), &options).unwrap_err();
    assert!(matches!(error.root(), Error::OutOfMemory { .. }), "{error}");
}

#[test]
fn huge_constants_are_an_error_at_once() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [1]);
    let parts: Vec<_> = (0..4).map(|i| g.constant(&format!("w{i}"), DataType::F32, [1 << 40])).collect();
    for (i, part) in parts.into_iter().enumerate() {
        g.op(&format!("add{i}"), OpKind::Add, &[x, part], Attrs::new()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge.json");
    std::fs::write(&file, g.build().unwrap().to_json()).unwrap();
    let mut model = Model::load(&file).unwrap();
    let error = model.fill_missing_constants(0).unwrap_err();
    assert!(matches!(error.root(), Error::OutOfMemory { .. }), "{error}");
    assert!(error.to_string().contains("4 constants") && model.constants.is_empty(), "{error}");
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    for read in [|path: &Path| read_bytes(path).map(drop), |path: &Path| read_text(path).map(drop)] {
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("a folder") && error.contains("a regular file"), "{error}");
        #[cfg(unix)]
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("a pipe or device"));
        assert!(matches!(read(&folder.path().join("missing")), Err(Error::Io { .. })));
    }
}

#[test]
fn too_many_inputs_or_outputs_are_refused() {
    let mut g = GraphBuilder::new();
    let inputs: Vec<_> = (0..5000).map(|i| g.input(&format!("x{i}"), DataType::F32, [1])).collect();
    let axis = || Attrs::new().with("axis", 0_i64);
    let error = g.op("join", OpKind::Concat, &inputs, axis()).unwrap_err().to_string();
    assert!(error.contains("5000") && error.contains("4096"), "{error}");
    let error =
        g.op_multi("r", OpKind::ReLU, &inputs[..1], Attrs::new(), usize::MAX).unwrap_err().to_string();
    assert!(error.contains("outputs") && error.contains(&usize::MAX.to_string()), "{error}");
    assert!(g.op_multi("w", OpKind::Wildcard, &inputs[..1], Attrs::new(), usize::MAX).is_err());
}

#[test]
fn the_last_identity_does_not_take_the_place_of_another() {
    let mut g = GraphBuilder::new();
    let last = LogicalTensor::new(TensorId(u64::MAX), DataType::F32, [2]);
    let result = LogicalTensor::new(TensorId(0), DataType::F32, [2]);
    let op = Op {
        id: OpId(u64::MAX),
        name: "act".into(),
        kind: OpKind::ReLU,
        attrs: Attrs::new(),
        inputs: vec![last.id],
        outputs: vec![result.id],
    };
    g.add_op(op, &[last.clone(), result]).unwrap();
    let other = g.input("other", DataType::F32, [3]);
    let sum = g.op("exp", OpKind::Exp, &[other], Attrs::new()).unwrap();
    let graph = g.build().unwrap();
    assert_eq!(graph.tensor(last.id).unwrap().known_dims(), last.known_dims());
    assert_eq!(graph.tensor(sum).unwrap().known_dims().unwrap(), [3].into());
    assert_eq!(graph.ops().len(), 2);
}

#[test]
fn outputs_with_strides_are_refused_before_anything_runs() {
    let document = json!({"version": "3.14.0", "graph": [{
        "id": 0, "name": "act", "kind": "ReLU", "attrs": {},
        "inputs": [{"id": 0, "dtype": "f32", "shape": [2, 3]}],
        "outputs": [{"id": 1, "dtype": "f32", "shape": [2, 3], "stride": [1, 2], "layout_type": "strided"}]
    }]});
    let graph = Graph::from_json(&document.to_string()).unwrap();
    let engine = HostEngine::new();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let compiled = CompiledGraph::new(&graph, &engine, &CompileOptions::default()).unwrap();
    let input = HostTensor::zeros([2, 3], DataType::F32).unwrap();
    let error = compiled.load(&stream, &[]).unwrap().run(&stream, &[(TensorId(0), input)]).unwrap_err();
    assert!(matches!(error.root(), Error::Unsupported { .. }), "{error}");
}
