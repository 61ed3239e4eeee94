//! The node tests of the `onnx` package, where its folder is named.

use std::path::Path;

use anydnn_backend::conformance::Sample;
use prost::Message;

use super::super::Model;
use super::super::files::ExternalData;
use super::super::node::Node;
use super::super::ops;
use super::super::proto::{ModelProto, TensorProto};
use super::super::tensor::host_tensor;
use super::node_tests::{EXCEPTIONS, cases, compare, folder, is_random};
use super::run;
use crate::model::HostTensor;

/// Every node test whose operators are read gives what it says.
#[test]
fn node_tests_give_what_they_say() {
    let Some(folder) = folder() else { return };
    let (mut passed, mut failed, mut refused) = (0, Vec::new(), std::collections::BTreeMap::new());
    for case in cases(&folder) {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        match check(&case) {
            Ok(()) => passed += 1,
            Err(Outcome::Refused(why)) => {
                let why: String = why.split(" \"").next().unwrap_or("").chars().take(80).collect();
                refused.entry(why).or_insert_with(Vec::new).push(name);
            }
            Err(Outcome::Wrong(what)) => failed.push(format!("{name}: {what}")),
        }
    }
    for (why, names) in &refused {
        println!("{:4} {why}: {}", names.len(), names[0]);
    }
    let refused: usize = refused.values().map(Vec::len).sum();
    println!("{passed} passed, {} failed, {refused} not read", failed.len());
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Every node test whose operators the host computes gives what it says, node after node.
#[test]
fn node_tests_on_the_host_give_what_they_say() {
    let Some(folder) = folder() else { return };
    let (mut passed, mut failed, mut refused) = (0, Vec::new(), std::collections::BTreeMap::new());
    for case in cases(&folder) {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        match check_on_host(&case) {
            Ok(()) => passed += 1,
            Err(Outcome::Refused(why)) => refused.entry(why).or_insert_with(Vec::new).push(name),
            Err(Outcome::Wrong(_)) if EXCEPTIONS.iter().any(|(own, _)| *own == name) => {}
            Err(Outcome::Wrong(what)) => failed.push(format!("{name}: {what}")),
        }
    }
    for (why, names) in &refused {
        println!("{:4} {why}: {}", names.len(), names.iter().take(3).cloned().collect::<Vec<_>>().join(" "));
    }
    println!("{passed} passed, {} failed", failed.len());
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

fn check_on_host(case: &Path) -> Result<(), Outcome> {
    let refused = |error: anydnn_backend::Error| match error.root() {
        anydnn_backend::Error::Unsupported { .. } => Outcome::Refused(error.to_string()),
        _ => Outcome::Wrong(error.to_string()),
    };
    let bytes = std::fs::read(case.join("model.onnx")).unwrap();
    let model = ModelProto::decode(&bytes[..]).unwrap();
    let graph = model.graph.unwrap_or_default();
    let opset = model.opset_import.iter().find(|set| set.domain.as_deref().unwrap_or("").is_empty());
    let opset = opset.and_then(|set| set.version).unwrap_or(1);
    let mut values = std::collections::HashMap::new();
    for (index, input) in graph.input.iter().enumerate() {
        let path = case.join(format!("test_data_set_0/input_{index}.pb"));
        values.insert(input.name.clone().unwrap(), read(&path).map_err(Outcome::Refused)?);
    }
    for tensor in &graph.initializer {
        let value = host_tensor(tensor, &mut ExternalData::default()).map_err(refused)?;
        values.insert(tensor.name.clone().unwrap(), value);
    }
    for proto in &graph.node {
        let inputs: Vec<_> = proto.input.iter().map(|name| values.get(name)).collect();
        let made = ops::on_host(&Node::new(proto, opset, Vec::new()), &inputs).map_err(refused)?;
        values.extend(proto.output.iter().cloned().zip(made));
    }
    for (index, output) in graph.output.iter().enumerate() {
        let expected =
            read(&case.join(format!("test_data_set_0/output_{index}.pb"))).map_err(Outcome::Refused)?;
        let given = values
            .get(output.name.as_deref().unwrap())
            .ok_or(Outcome::Wrong("an output is missing".into()))?;
        let random = is_random(&case.file_name().unwrap_or_default().to_string_lossy());
        compare(given, &expected, random).map_err(Outcome::Wrong)?;
    }
    Ok(())
}

/// The package's networks, whose weights are generated, give what its reference gives; in a sample those that it has.
#[test]
fn networks_give_what_the_reference_gives() {
    let Some(folder) = folder() else { return };
    let names = ["resnet50", "shufflenet", "squeezenet", "vgg19", "densenet121", "inception_v2"];
    let sample = Sample::from_env();
    for (_, name) in names.iter().enumerate().filter(|(number, _)| sample.takes(*number, 0)) {
        let file = |end: &str| folder.join(format!("light/light_{name}{end}"));
        let model = Model::load(file(".onnx")).unwrap().graph(&[]).unwrap();
        let [input] = model.graph.inputs() else { panic!("{name} has one input") };
        let dims = model.graph.tensor(*input).unwrap().known_dims().unwrap();
        // As the package's runner makes it: every element its own place, from zero to one.
        let values: Vec<f32> =
            (0..dims.elements()).map(|i| (i as f64 / dims.elements() as f64) as f32).collect();
        let outputs = run(&model, &[HostTensor::from_f32(dims, &values).unwrap()]).unwrap();
        let expected = read(&file("_output_0.pb")).unwrap();
        compare(&outputs[0], &expected, false).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        println!("{name}: {} as the reference", outputs[0].desc());
    }
}

enum Outcome {
    Refused(String),
    Wrong(String),
}

fn check(case: &Path) -> Result<(), Outcome> {
    let refused = |error: anydnn_backend::Error| Outcome::Refused(error.to_string());
    let model = Model::load(case.join("model.onnx")).map_err(refused)?;
    let declared = model.inputs().map_err(refused)?;
    let mut given = Vec::new();
    for index in 0..declared.len() {
        given.push(read(&case.join(format!("test_data_set_0/input_{index}.pb"))).map_err(Outcome::Refused)?);
    }
    let model = model.graph(&[]).map_err(refused)?;
    let inputs: Vec<HostTensor> = model
        .graph
        .inputs()
        .iter()
        .map(|id| {
            let at = declared.iter().position(|input| input.name == model.graph.label(*id)).unwrap();
            given[at].clone()
        })
        .collect();
    let outputs = run(&model, &inputs).map_err(|error| match error.root() {
        anydnn_backend::Error::Unsupported { .. } => Outcome::Refused(error.to_string()),
        _ => Outcome::Wrong(error.to_string()),
    })?;
    for (index, output) in outputs.iter().enumerate() {
        let expected =
            read(&case.join(format!("test_data_set_0/output_{index}.pb"))).map_err(Outcome::Wrong)?;
        compare(output, &expected, false).map_err(Outcome::Wrong)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<HostTensor, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let tensor = TensorProto::decode(&bytes[..]).map_err(|error| error.to_string())?;
    host_tensor(&tensor, &mut ExternalData::default()).map_err(|error| error.to_string())
}
