//! Wrong files end in errors that say what is wrong.

use super::super::proto::StringStringEntryProto;
use super::*;

fn small() -> Draft {
    Draft::new(13)
        .input("x", &["1", "2"])
        .floats("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .node("y = MatMul(x, w)", vec![])
        .output("y")
}

fn with_weight(weight: TensorProto) -> Draft {
    let mut draft = small();
    draft.graph.initializer[0] = TensorProto { name: Some("w".into()), ..weight };
    draft
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn every_beginning_and_every_changed_byte_is_an_error_or_a_model() {
    let bytes = small().bytes();
    let import = |bytes: &[u8]| Model::from_bytes(bytes).and_then(|model| model.graph(&[]));
    assert!(import(&bytes).is_ok());
    for end in 0..bytes.len() {
        let _ = import(&bytes[..end]);
    }
    for (place, change) in (0..bytes.len()).flat_map(|place| (1..=255).map(move |change| (place, change))) {
        let mut changed = bytes.clone();
        changed[place] ^= change;
        let _ = import(&changed);
    }
    says(&import(&bytes[..bytes.len() - 1]).unwrap_err().to_string(), &["a ModelProto"]);
    says(&import(&[]).unwrap_err().to_string(), &["graph", "missing"]);
}

#[test]
fn absurd_dimensions_take_no_memory() {
    let huge = TensorProto { dims: vec![1 << 40, 1 << 20], data_type: Some(FLOAT), ..TensorProto::default() };
    says(&with_weight(huge).refused(), &["\"w\"", "out of memory"]);
    let beyond =
        TensorProto { dims: vec![1 << 40, 1 << 40], data_type: Some(FLOAT), ..TensorProto::default() };
    says(&with_weight(beyond).refused(), &["\"w\"", "address space"]);
    let negative = TensorProto { dims: vec![2, -2], data_type: Some(FLOAT), ..TensorProto::default() };
    says(&with_weight(negative).refused(), &["\"w\"", "[2, -2]"]);
    let many = TensorProto { dims: vec![1; 13], data_type: Some(FLOAT), ..TensorProto::default() };
    says(&with_weight(many).refused(), &["\"w\"", "at most 12"]);
    let text = TensorProto { data_type: Some(8), ..TensorProto::default() };
    says(&with_weight(text).refused(), &["\"w\"", "string"]);
    let filled = Draft::new(13)
        .ints("shape", &[2], &[1 << 31, 1 << 31])
        .node("y = ConstantOfShape(shape)", vec![])
        .output("y");
    says(&filled.refused(), &["ConstantOfShape \"y\" (opset 13)"]);
    let input =
        Draft::new(13).input("x", &["4294967296", "4294967296"]).node("y = Relu(x)", vec![]).output("y");
    says(&input.refused(), &["\"x\""]);
}

#[test]
fn external_data_stays_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(folder.path().join("secret"), [0; 64]).unwrap();
    let data: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(inner.join("weights"), [vec![0; 8], data].concat()).unwrap();
    let load = |location: &str, offset: &str, length: &str| {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        let draft = with_weight(TensorProto {
            dims: vec![2, 2],
            data_type: Some(FLOAT),
            data_location: Some(1),
            external_data: vec![
                entry("location", location),
                entry("offset", offset),
                entry("length", length),
            ],
            ..TensorProto::default()
        });
        let path = inner.join("model.onnx");
        std::fs::write(&path, draft.bytes()).unwrap();
        Model::load(&path)?.graph(&[])
    };
    let model = load("weights", "8", "16").unwrap();
    assert_eq!(run(&model, &[tensor([1, 2], &[1.0, 10.0])]).unwrap()[0].to_f32s(), [31.0, 42.0]);
    let refused =
        |location: &str, offset: &str, length: &str| load(location, offset, length).unwrap_err().to_string();
    says(&refused("weights", "16", "16"), &["\"w\"", "within the 24 bytes"]);
    says(&refused("weights", "18446744073709551615", "16"), &["within the 24 bytes"]);
    says(&refused("weights", "8", "12"), &["length", "12", "16"]);
    says(&refused("weights", "-8", "16"), &["offset", "-8"]);
    says(&refused("missing", "0", "16"), &["missing"]);
    says(&refused("../secret", "0", "16"), &["../secret", "folder or below"]);
    says(&refused("/etc/hostname", "0", "16"), &["folder or below"]);
    says(&refused(".", "0", "16"), &["a folder"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("secret"), inner.join("link")).unwrap();
        says(&refused("link", "0", "16"), &["link", "folder or below"]);
    }
}

#[test]
fn graphs_must_hang_together() {
    let cycle = Draft::new(13)
        .input("x", &["1"])
        .node("a = Add(x, b)", vec![])
        .node("b = Relu(a)", vec![])
        .output("b");
    says(&cycle.refused(), &["cycle", "Relu"]);
    says(&small().node("y = Relu(x)", vec![]).refused(), &["\"y\"", "already"]);
    says(&Draft::new(13).input("x", &["1"]).node("y = Relu(z)", vec![]).output("y").refused(), &["\"z\""]);
    says(&Draft::new(13).input("x", &["1"]).output("z").refused(), &["\"z\"", "output"]);
    // A long chain needs no stack.
    let mut chain = Draft::new(13).input("x0", &["1"]);
    for i in 0..5000 {
        chain = chain.node(&format!("x{} = Identity(x{i})", i + 1), vec![]);
    }
    assert!(chain.output("x5000").load().unwrap().graph(&[]).is_ok());
}

#[test]
fn what_is_not_read_is_named() {
    let one =
        |opset: i64, text: &str| Draft::new(opset).input("x", &["1", "2"]).node(text, vec![]).output("y");
    says(&one(13, "y = Exclaim(x)").refused(), &["Exclaim \"y\" (opset 13)", "not read"]);
    says(&one(5, "y = Relu(x)").refused(), &["opset 5", "6 to"]);
    assert!(one(6, "y = Identity(x)").load().is_ok(), "it means the same as today");
    says(&one(99, "y = Relu(x)").refused(), &["opset 99"]);
    says(
        &one(13, "y, mask = Dropout(x)").output("mask").refused(),
        &["Dropout", "\"mask\"", "first outputs"],
    );
    says(&one(13, "y = Gather(x, x)").refused(), &["Gather", "int32 or int64"]);
    says(&one(13, "y = Add(x)").refused(), &["Add", "input 1", "missing"]);
    says(&one(13, "y = Add(x, x)").input("z", &["a"]).refused(), &["\"a\"", "missing"]);
    let mut foreign = one(13, "y = FusedMatMul(x, x)");
    foreign.graph.node[0].domain = Some("com.example".into());
    says(&foreign.refused(), &["FusedMatMul \"y\"", "com.example"]);
    let mut wrong = one(13, "y = LeakyRelu(x)");
    wrong.graph.node[0].attribute = vec![int("alpha", 3)];
    says(&wrong.refused(), &["LeakyRelu", "alpha", "a float"]);
    let shapes =
        Draft::new(13).input("x", &["2", "3"]).input("z", &["4"]).node("y = Add(x, z)", vec![]).output("y");
    says(&shapes.refused(), &["Add \"y\"", "2x3 with 4"]);
}

#[test]
fn inputs_of_another_shape_are_refused() {
    let model = small().load().unwrap().graph(&[]).unwrap();
    says(&run(&model, &[tensor([2, 1], &[1.0, 2.0])]).unwrap_err().to_string(), &["1x2"]);
    let other = tensor([1, 2], &[1.0, 2.0]).cast(DataType::F16);
    says(&run(&model, &[other]).unwrap_err().to_string(), &["f32"]);
    assert!(run(&model, &[]).is_err());
}
