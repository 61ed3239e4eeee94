//! Models on disk.

#![allow(clippy::unwrap_used, reason = "test helpers fail the test")]

use std::path::{Path, PathBuf};

use anydnn::backend::{DataType, MemoryDesc, Status};
use anydnn::graph::{Attrs, GraphBuilder, OpKind, TensorId};
use anydnn::model::{HostTensor, Model, read_safetensors, write_safetensors};
use tempfile::TempDir;

fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits")
}

#[test]
fn the_digits_model_is_complete() {
    let model = Model::load(digits()).unwrap();
    assert_eq!((model.name.as_str(), model.task.as_deref()), ("digits", Some("classification")));
    assert_eq!((model.classes.len(), model.constants.len()), (10, 12));
    assert!(model.missing_constants().is_empty());
    let weight = model.tensor("conv2.weight").unwrap();
    assert_eq!(weight.to_string(), "conv2.weight:f32:32x16x3x3");
    assert_eq!(model.constants[&weight.id].to_f32s().len(), 32 * 16 * 9);
    assert_eq!(model.tensor("t0").unwrap().id, model.tensor("images").unwrap().id);
    let dataset = model.dataset.as_ref().unwrap();
    assert_eq!((dataset.len(), dataset.labels().unwrap().len()), (360, 360));
    assert!(dataset.labels().unwrap().iter().all(|label| (0..10).contains(label)));
    let batch = model.graph.with_batch(4).unwrap();
    let desc = batch.tensor(batch.inputs()[0]).unwrap().memory_desc().unwrap();
    let images = dataset.rows("images", 356..360, &desc).unwrap();
    assert_eq!((images.dims().to_vec(), images.data_type()), (vec![4, 1, 8, 8], DataType::F32));
    assert!(images.to_f32s().iter().all(|pixel| (0.0..=16.0).contains(pixel)));
    assert!(images.to_f32s().iter().any(|pixel| *pixel > 8.0));
    let text = dataset.rows("images", 358..362, &desc).unwrap_err().to_string();
    assert!(text.contains("358..362") && text.contains("0..360"), "{text}");
    let text = dataset.rows("pictures", 0..4, &desc).unwrap_err().to_string();
    assert!(text.contains("\"pictures\"") && text.contains("\"images\""), "{text}");
    let text = dataset.rows("images", 0..4, &MemoryDesc::new([4, 9], DataType::F32)).unwrap_err().to_string();
    assert!(text.contains("4x8x8") && text.contains("4x9"), "{text}");
}

#[test]
fn a_graph_alone_lacks_its_constants() {
    let mut model = Model::load(digits().join("graph.json")).unwrap();
    assert_eq!((model.name.as_str(), model.missing_constants().len()), ("graph", 12));
    model.fill_missing_constants(3).unwrap();
    assert!(model.missing_constants().is_empty());
    let mut again = Model::load(digits().join("graph.json")).unwrap();
    again.fill_missing_constants(3).unwrap();
    assert_eq!(model.constants, again.constants);
    again.constants.clear();
    again.fill_missing_constants(4).unwrap();
    assert_ne!(model.constants, again.constants);
    // The variance of the batch normalization.
    assert!(model.constants[&TensorId(12)].to_f32s().iter().all(|variance| *variance >= 0.5));
}

/// A graph JSON file and its weights: `h * x * (1 + erf(x / r))`.
fn gaussian(half: f32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4]);
    let [r, one, h] = ["r", "one", "h"].map(|name| g.constant(name, DataType::F32, [1]));
    let scaled = g.op("scaled", OpKind::Divide, &[x, r], Attrs::new()).unwrap();
    let erf = g.op("erf", OpKind::Erf, &[scaled], Attrs::new()).unwrap();
    let gate = g.op("gate", OpKind::Add, &[erf, one], Attrs::new()).unwrap();
    let product = g.op("product", OpKind::Multiply, &[x, gate], Attrs::new()).unwrap();
    let y = g.op("y", OpKind::Multiply, &[h, product], Attrs::new()).unwrap();
    std::fs::write(folder.path().join("graph.json"), g.build().unwrap().to_json()).unwrap();
    let number = |number: f32| HostTensor::from_f32([1], &[number]).unwrap();
    let weights = [("r", number(std::f32::consts::SQRT_2)), ("one", number(1.0)), ("h", number(half))];
    let weights = weights.iter().map(|(name, tensor)| (*name, tensor));
    write_safetensors(folder.path().join("weights.safetensors"), weights).unwrap();
    let manifest = format!(
        r#"{{"name": "gelu", "description": "", "graph": "graph.json", "weights": "weights.safetensors",
            "inputs": {{"x": {}}}, "outputs": {{"y": {}}}, "constants": {{"r": {}, "one": {}, "h": {}}}}}"#,
        x.0, y.0, r.0, one.0, h.0
    );
    std::fs::write(folder.path().join("model.json"), manifest).unwrap();
    folder
}

#[test]
fn functions_that_a_model_writes_out_become_operations() {
    let mut model = Model::load(gaussian(0.5).path()).unwrap();
    let ports = (model.graph.inputs().to_vec(), model.graph.outputs().to_vec());
    model.simplify().unwrap();
    let kinds: Vec<_> = model.graph.ops().iter().map(|op| op.kind).collect();
    assert_eq!((kinds, model.constants.len()), (vec![OpKind::GELU], 0));
    assert_eq!((model.graph.inputs().to_vec(), model.graph.outputs().to_vec()), ports);
    let mut other = Model::load(gaussian(0.25).path()).unwrap();
    other.simplify().unwrap();
    assert_eq!((other.graph.ops().len(), other.constants.len()), (5, 3));
}

/// A copy of the example whose files can be changed.
fn copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["model.json", "graph.json", "weights.safetensors", "heldout.safetensors"] {
        std::fs::copy(digits().join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn refused(folder: &TempDir) -> String {
    Model::load(folder.path()).unwrap_err().to_string()
}

fn edit(folder: &TempDir, from: &str, to: &str) {
    let path = folder.path().join("model.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn wrong_weights_name_the_tensor_and_both_shapes() {
    type Change = fn(&mut indexmap::IndexMap<String, HostTensor>);
    let changes: [(Change, &[&str]); 4] = [
        (
            |all| drop(all.shift_remove("conv1.bias")),
            &["tensor \"conv1.bias\" is missing", "conv1.bias:f32:16"],
        ),
        (
            |all| drop(all.insert("extra".into(), HostTensor::from_f32([1], &[0.0]).unwrap())),
            &["\"extra\", which is left over"],
        ),
        (
            |all| drop(all.insert("conv1.bias".into(), HostTensor::from_f32([4], &[0.0; 4]).unwrap())),
            &["shape of tensor \"conv1.bias\" is 4", "16, as in the graph"],
        ),
        (
            |all| drop(all.insert("conv1.bias".into(), HostTensor::zeros([16], DataType::F16).unwrap())),
            &["type of tensor \"conv1.bias\" is f16", "f32, as in the graph"],
        ),
    ];
    for (change, parts) in changes {
        let folder = copy();
        let path = folder.path().join("weights.safetensors");
        let mut tensors = read_safetensors(&path).unwrap();
        change(&mut tensors);
        write_safetensors(&path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        let text = refused(&folder);
        assert!(text.contains("weights.safetensors"), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
    }
}

#[test]
fn wrong_manifests_are_told() {
    for (from, to, parts) in [
        (
            "\"conv1.bias\": 4",
            "\"conv1.bias\": 0",
            &["constants.conv1.bias is 0", "constants of the graph"][..],
        ),
        ("\"conv1.bias\": 4,", "", &["name of constant t4 is missing"]),
        ("\"images\": 0", "\"images\": 99", &["inputs.images is 99"]),
        ("\"probabilities\": 27", "\"probabilities\": 0", &["outputs.probabilities is 0", "27"]),
        (
            "weights.safetensors",
            "../weights.safetensors",
            &["\"../weights.safetensors\"", "beside the manifest"],
        ),
        ("weights.safetensors", "/etc/hostname", &["\"/etc/hostname\"", "beside the manifest"]),
        ("weights.safetensors", "gone.safetensors", &["gone.safetensors", "No such file"]),
        ("weights.safetensors", "graph.json", &["graph.json", "a safetensors file"]),
        (
            "\"images\": \"images\"",
            "\"images\": \"pictures\"",
            &["\"pictures\", which it has not", "\"labels\""],
        ),
        ("\"images\": \"images\"", "\"pictures\": \"images\"", &["dataset input is \"pictures\""]),
        ("\"task\"", "\"taks\"", &["model.json", "unknown field `taks`"]),
        ("\"name\"", "\"nam\"", &["model.json", "unknown field `nam`"]),
    ] {
        let folder = copy();
        edit(&folder, from, to);
        let text = refused(&folder);
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
    }
    let folder = copy();
    std::fs::write(folder.path().join("model.json"), "{").unwrap();
    assert!(refused(&folder).contains("line 1 column 1"));
    std::fs::write(folder.path().join("model.json"), [0xff]).unwrap();
    assert!(refused(&folder).contains("UTF-8"));
    let error = Model::load(folder.path().join("none.json")).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArguments);
    assert!(error.to_string().contains("none.json"), "{error}");
}

#[test]
fn truncated_weights_are_refused() {
    let folder = copy();
    let path = folder.path().join("weights.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for end in [0, 4, 8, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..end]).unwrap();
        assert!(refused(&folder).contains("a safetensors file"));
    }
}

#[test]
fn every_type_of_the_format_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.safetensors");
    let tensors: Vec<_> = DataType::ALL
        .into_iter()
        .filter(|data_type| data_type.bits() >= 8)
        .map(|data_type| {
            (data_type.name(), HostTensor::random(&MemoryDesc::new([2, 3], data_type), 5).unwrap())
        })
        .collect();
    write_safetensors(&path, tensors.iter().map(|(name, tensor)| (*name, tensor))).unwrap();
    let read = read_safetensors(&path).unwrap();
    assert_eq!(read.len(), tensors.len());
    for (name, tensor) in &tensors {
        assert_eq!(&read[*name], &tensor.clone().labelled(name));
    }
    let nibbles = HostTensor::zeros([2], DataType::S4).unwrap();
    let error = write_safetensors(&path, [("n", &nibbles)]).unwrap_err();
    assert_eq!(error.status(), Status::Unimplemented);
}
