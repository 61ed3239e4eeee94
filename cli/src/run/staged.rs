//! ONNX models that are more than one graph: parts of them run on the host, or are known only while they run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anydnn::backend::{Dims, Engine, Error, Result, ResultExt};
use anydnn::model::HostTensor;
use anydnn::onnx::{Dim, Input, Model, Session, SessionOptions};
use anydnn::select::{AnyBackend, AnyEngine, Selector};
use serde_json::json;

use super::against::{self, Compared};
use super::tensors::Statistics;
use super::work::read;
use super::{select, statistics};
use crate::Outcome;
use crate::args::{Check, RunArgs};
use crate::devices::device_json;
use crate::failure::{Code, Failure};
use crate::output::{Style, print, print_json, progress, time};

/// Runs a model by a session and reports on its outputs.
pub(super) fn run(args: &RunArgs) -> Outcome {
    if args.trace.is_some() || !args.types.is_empty() || !args.shapes.is_empty() || args.batch.is_some() {
        let why = "the model is no single graph: --trace, --dt, --shape and --batch do not apply";
        return Err(Error::unsupported(args.model.display().to_string(), why).into());
    }
    let model = Model::load(&args.model)?;
    let selection = select(args)?;
    let start = Instant::now();
    let session = compile(&model, &selection.engine, args)?;
    let compile_time = start.elapsed();
    let inputs = inputs(&session, args)?;
    let bound: Vec<_> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let mut times = Vec::new();
    let mut timed = || {
        let start = Instant::now();
        let outputs = session.run(&bound);
        times.push(start.elapsed());
        outputs
    };
    let outputs = timed()?;
    for _ in 0..args.repeat {
        timed()?;
    }
    let compared = match args.check {
        None => Vec::new(),
        Some(Check::Onnxruntime) => against::onnxruntime(&args.model, &inputs, &outputs)?,
        Some(Check::Host) => {
            let host = Selector::parse("host")?.select()?;
            let expected = compile(&model, &host.engine, args)?.run(&bound)?;
            let pairs = outputs.iter().zip(&expected);
            pairs
                .map(|((name, own), (_, host))| Compared::new(name, &own.to_f32s(), &host.to_f32s()))
                .collect()
        }
    };
    let median = median(&times);
    let device = selection.engine.device();
    if args.json {
        let of = |(name, tensor): &(String, HostTensor)| statistics::json(name, tensor);
        print_json(&json!({
            "model": args.model.display().to_string(),
            "backend": selection.chosen,
            "device": device_json(device),
            "compile_ms": compile_time.as_secs_f64() * 1e3,
            "first_ms": times[0].as_secs_f64() * 1e3,
            "median_ms": median.as_secs_f64() * 1e3,
            "outputs": outputs.iter().map(of).collect::<Vec<_>>(),
            "check": args.check.map(|_| json!({
                "passed": compared.iter().all(Compared::passed),
                "outputs": compared.iter().map(Compared::json).collect::<Vec<_>>(),
            })),
        }))?;
    } else {
        let style = Style::new(args.no_color);
        let mut text = format!("{}\n", style.bold(&args.model.display().to_string()));
        text += &format!("device    {}: {} ({})\n", style.good(&selection.chosen), device.name, device.kind);
        text += &format!("plan      in several parts, compiled in {}\n\n", time(compile_time));
        let rows: Vec<_> = outputs.iter().map(|(name, tensor)| (name.clone(), tensor)).collect();
        let rows = rows.into_iter().map(|(name, tensor)| (name, tensor, Statistics::of(&tensor.to_f64s())));
        text += &statistics::text(style, rows);
        text += &format!("time      {} for all of it (median of {})\n", time(median), times.len().max(2) - 1);
        for one in &compared {
            let verdict = if one.passed() { style.good("passed") } else { style.bad("failed") };
            text += &format!("check     {verdict}: {}\n", one.describe());
        }
        print(&text)?;
    }
    match compared.iter().find(|one| !one.passed()) {
        None => Ok(()),
        Some(one) => Err(Failure::new(
            Code::Check,
            format!("{} differs: {}", selection.chosen, one.describe()),
            "compare with another --backend",
        )),
    }
}

fn compile(model: &Model, engine: &AnyEngine, args: &RunArgs) -> Result<Session<AnyBackend>> {
    let bar = progress("compiling", 0);
    let shown = bar.clone();
    let options = SessionOptions {
        progress: Some(Arc::new(move |done, total| {
            shown.set_length(total as u64);
            shown.set_position(done as u64);
        })),
        ..SessionOptions::default()
    };
    let dims: Vec<_> = args.dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
    let session = model.compile_with(engine, &dims, &options);
    bar.finish_and_clear();
    session
}

/// The inputs, from files or at random.
fn inputs(session: &Session<AnyBackend>, args: &RunArgs) -> Result<Vec<(String, HostTensor)>> {
    let known = |name: &String| session.inputs().iter().any(|input| input.name == *name);
    if let Some((name, _)) = args.inputs.iter().find(|(name, _)| !known(name)) {
        let names: Vec<_> = session.inputs().iter().map(|input| input.name.as_str()).collect();
        let expected = format!("one of {}", names.join(", "));
        return Err(Error::invalid("--input", "name", format!("{name:?}"), expected));
    }
    session.inputs().iter().enumerate().map(|(index, input)| one_input(index, input, args)).collect()
}

fn one_input(index: usize, input: &Input, args: &RunArgs) -> Result<(String, HostTensor)> {
    let extent = |dim: &Dim| match dim {
        Dim::Fixed(extent) => Ok(*extent),
        Dim::Open(name) => {
            let given = args.dims.iter().find(|(own, _)| own == name).map(|(_, extent)| *extent);
            let missing = || {
                Error::invalid("--dim", "dimension", format!("{name:?}"), "a value for each open dimension")
            };
            given.ok_or_else(missing)
        }
    };
    let dims = input.dims.iter().map(extent).collect::<Result<Dims>>()?;
    let desc = anydnn::backend::MemoryDesc::new(dims.clone(), input.data_type);
    let file = args.inputs.iter().find(|(name, _)| *name == input.name).map(|(_, file)| file);
    let tensor = match file.filter(|file| file.as_os_str() != "random") {
        Some(file) => {
            let read = read(file, &input.name, input.data_type, Some(&dims))?;
            read.fit(&desc).at(|| format!("--input {}", input.name))?
        }
        None => {
            let integers = input.data_type.is_integer();
            // Most integers are indices.
            HostTensor::random_with(&desc, args.seed + index as u64, |value| {
                if integers { value.abs() } else { value }
            })?
        }
    };
    Ok((input.name.clone(), tensor))
}

fn median(times: &[Duration]) -> Duration {
    let mut rest = if times.len() > 1 { times[1..].to_vec() } else { times.to_vec() };
    rest.sort_unstable();
    rest.get(rest.len() / 2).copied().unwrap_or_default()
}
