//! Recurrent layers, which are no operation of oneDNN's graph API, beside its primitives: every cell in every direction, of floats of 32 and 16 bits
//! with and without gradients, and of integers. oneDNN computes those of floats in f32, from the same numbers.

mod api;
mod create;
mod layers;
mod library;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anydnn::backend::op::{Recurrent, RecurrentBackward as Backward};
use anydnn::backend::{
    Access, Arg, Backend, DataType, Engine, Event, Memory, PrimitiveDesc, Result, Stream, StreamDesc,
    Tolerance,
};
use anydnn::model::HostTensor;
use anydnn_host::HostEngine;

use layers::{Layer, Pass, layers};
use library::OneDnn;

/// Names the file that a process with oneDNN's library writes to.
const CHILD: &str = "ANYDNN_ORACLE_LAYERS";

#[test]
fn recurrent_layers_compute_as_in_onednn() {
    let Some(library) = std::env::var_os("ANYDNN_ONEDNN_LIBRARY").map(PathBuf::from) else {
        let message = "ANYDNN_ONEDNN_LIBRARY does not name oneDNN's own library; `cargo xtask setup` installs it and tells";
        assert!(std::env::var_os("ANYDNN_REQUIRE").is_none(), "{message}");
        eprintln!("NOT TESTED: {message}");
        return;
    };
    let layers = layers();
    if let Some(file) = std::env::var_os(CHILD) {
        std::fs::write(file, answers(&library, &layers)).unwrap();
        return;
    }
    let expected = ask(&library);
    assert_eq!(expected.len(), layers.len());
    let mut wrong = check(&HostEngine::new(), "host", &layers, &expected, |_| true);
    #[cfg(feature = "opencl")]
    std::thread::scope(|scope| {
        let engines = anydnn_opencl::testing::hasty_test_engines().into_iter().enumerate();
        let (layers, expected) = (&layers, &expected);
        let runs: Vec<_> = engines
            .map(|(number, engine)| {
                scope.spawn(move || {
                    let name = engine.opencl_device().alias();
                    check(&engine, &name, layers, expected, |at| on_device(&layers[at], at, number))
                })
            })
            .collect();
        wrong.extend(runs.into_iter().flat_map(|run| run.join().unwrap()));
    });
    assert!(wrong.is_empty(), "{} results differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether a device runs a layer. Kernels take long to compile, so devices take turns but for layers of f32 without gradients, and run all
/// where all are asked for.
fn on_device(layer: &Layer, at: usize, number: usize) -> bool {
    let all = std::env::var("ANYDNN_ORACLE").is_ok_and(|wanted| wanted == "all");
    let is_plain = layer.data_type == DataType::F32 && !layer.gradients;
    all || is_plain || (at + number).is_multiple_of(2)
}

/// Runs layers on an engine; what differs, in words.
fn check<E: Engine>(
    engine: &E,
    name: &str,
    layers: &[Layer],
    expected: &[Vec<Vec<f64>>],
    runs_here: impl Fn(usize) -> bool,
) -> Vec<String> {
    let (mut wrong, mut count, start) = (Vec::new(), 0, std::time::Instant::now());
    for (at, (layer, expected)) in layers.iter().zip(expected).enumerate() {
        if !runs_here(at) {
            continue;
        }
        count += 1;
        let made = match execute(engine, layer, at as u64) {
            Ok(made) => made,
            Err(error) => {
                wrong.push(format!("{name}: {layer:?}: {error}"));
                continue;
            }
        };
        for (((pass, arg), made), expected) in layer.results().into_iter().zip(&made).zip(expected) {
            if let Err(error) = bound(layer, pass, arg).compare(made, expected) {
                wrong.push(format!("{name}: {layer:?}: {pass:?} {arg}: {error}"));
            }
        }
    }
    println!("{name}: {count} layers in {:.1} s", start.elapsed().as_secs_f64());
    wrong
}

/// How far apart both sides may be: each may be off by the bound of its own, oneDNN by that of f32; gradients keep the errors of the layer.
fn bound(layer: &Layer, pass: Pass, arg: Arg) -> Tolerance {
    let theirs = Layer { data_type: DataType::F32, shown: DataType::F32, ..*layer };
    let sides = if layer.is_integer() { [*layer; 2] } else { [*layer, theirs] };
    let mut bound = Tolerance::of_result(&layer.desc(pass), arg);
    bound.relative = 0.0;
    for side in sides {
        bound.relative += Tolerance::of_result(&side.desc(pass), arg).relative;
        if pass == Pass::Backward {
            bound.relative += Tolerance::of(&side.desc(Pass::Forward)).relative;
        }
    }
    bound
}

/// The results of a layer and its gradients, in their order.
fn execute<E: Engine>(engine: &E, layer: &Layer, seed: u64) -> Result<Vec<Vec<f64>>> {
    let mut results = Vec::new();
    let (made, workspace) = run(engine, layer, Pass::Forward, seed, None)?;
    results.extend(made);
    if layer.gradients {
        let (made, _) = run(engine, layer, Pass::Backward, seed, workspace.as_deref())?;
        results.extend(made);
    }
    Ok(results)
}

/// The results of a primitive, and the bytes of a layer's workspace.
fn run<E: Engine>(
    engine: &E,
    layer: &Layer,
    pass: Pass,
    seed: u64,
    workspace: Option<&[u8]>,
) -> Result<(Vec<Vec<f64>>, Option<Vec<u8>>)> {
    let desc: PrimitiveDesc = layer.desc(pass);
    let stream = engine.create_stream(&StreamDesc::default())?;
    let primitive = engine.create_primitive(&desc)?;
    let kind = engine.capabilities().memory_kinds[0];
    let mut args: Vec<(Arg, <E::B as Backend>::Memory)> = Vec::new();
    for arg in desc.args() {
        let memory = engine.create_memory(&arg.desc, kind)?;
        if arg.access == Access::Read {
            let bytes = match workspace.filter(|_| arg.arg == Backward::WORKSPACE) {
                Some(workspace) => workspace.to_vec(),
                None => stored(arg.desc.data_type(), &layer.values(arg.arg, arg.desc.dims(), seed)),
            };
            stream.write(&memory, 0, &bytes, &[])?.wait()?;
        }
        args.push((arg.arg, memory));
    }
    let done = stream.execute(&primitive, &args, &[])?;
    let read = |arg: Arg| -> Result<Option<HostTensor>> {
        let Some((_, memory)) = args.iter().find(|(own, _)| *own == arg) else { return Ok(None) };
        let mut bytes = vec![0; memory.desc().size()];
        stream.read(memory, 0, &mut bytes, std::slice::from_ref(&done))?;
        HostTensor::new(memory.desc().clone(), bytes).map(Some)
    };
    let mut results = Vec::new();
    for (_, arg) in layer.results().into_iter().filter(|(own, _)| *own == pass) {
        results.extend(read(arg)?.map(|tensor| tensor.to_f64s()));
    }
    let kept = if pass == Pass::Forward { read(Recurrent::WORKSPACE)? } else { None };
    Ok((results, kept.map(|tensor| tensor.bytes().to_vec())))
}

fn stored(data_type: DataType, values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; data_type.bytes_for(values.len())];
    for (i, value) in values.iter().enumerate() {
        data_type.write_at(*value, &mut bytes, i);
    }
    bytes
}

/// What oneDNN makes of every layer, in a process of its own: the library brings others that are not those of OpenCL drivers.
fn ask(library: &Path) -> Vec<Vec<Vec<f64>>> {
    let file = std::env::temp_dir().join(format!("anydnn-oracle-layers-{}", std::process::id()));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["recurrent::recurrent_layers_compute_as_in_onednn", "--exact"])
        .env(CHILD, &file)
        .env("LD_LIBRARY_PATH", library.parent().unwrap())
        .output()
        .unwrap();
    assert!(child.status.success(), "oneDNN's process: {}", String::from_utf8_lossy(&child.stdout));
    let text = std::fs::read_to_string(&file).unwrap();
    let _ = std::fs::remove_file(&file);
    let value = |digits: &str| f64::from_bits(u64::from_str_radix(digits, 16).unwrap());
    let result = |text: &str| text.split_whitespace().map(value).collect();
    text.lines().map(|line| line.split('\t').map(result).collect()).collect()
}

/// A line for each layer, with the bits of its results between tabs.
fn answers(library: &Path, layers: &[Layer]) -> String {
    let onednn = OneDnn::load(library);
    let mut text = String::new();
    for (seed, layer) in layers.iter().enumerate() {
        let results =
            onednn.evaluate(layer, seed as u64).unwrap_or_else(|error| panic!("{layer:?}: {error}"));
        let bits = |values: Vec<f64>| {
            values.iter().map(|v| format!("{:x}", v.to_bits())).collect::<Vec<_>>().join(" ")
        };
        let results: Vec<String> = results.into_iter().map(bits).collect();
        writeln!(text, "{}", results.join("\t")).unwrap();
    }
    text
}
