//! ONNX models that are more than one graph: parts of them run on the host, or are known only while they run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anydnn::backend::{Dims, Engine, Error, MemoryDesc, Result, ResultExt};
use anydnn::model::HostTensor;
use anydnn::onnx::{Input, Model, Precision, Session, SessionOptions, Startup, StepTime};
use anydnn::select::{AnyBackend, AnyEngine, Selection, Selector};
use serde_json::json;

use super::against::{self, Compared};
use super::args::{Check, RunArgs};
use super::tensors::Statistics;
use super::work::read;
use super::{statistics, trace};
use crate::clock;
use crate::devices::device_json;
use crate::failure::Outcome;
use crate::failure::{Code, Failure};
use crate::output::{Style, print, print_json, progress, table, time};
use crate::plausible::plausible;

/// Runs a model by a session and reports on its outputs.
pub(super) fn run(args: &RunArgs, select: impl FnOnce() -> Result<Selection>) -> Outcome {
    if !args.types.is_empty() || !args.shapes.is_empty() || args.batch.is_some() {
        let why = "a session runs it, of stages or by --precision: --dt, --shape and --batch do not apply";
        return Err(Error::unsupported(args.model.display().to_string(), why).into());
    }
    let Prepared { model, selection, session, compile_time, inputs } =
        Prepared::new(args, select, Some(Startup::Device))?;
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
            let host = compile(&model, &host.engine, &args.dims, Precision::Model, None)?;
            let expected = host.run(&bound)?;
            let pairs = outputs.iter().zip(&expected);
            pairs
                .map(|((name, own), (_, host))| Compared::new(name, &own.to_f32s(), &host.to_f32s()))
                .collect()
        }
    };
    if let Some(file) = &args.trace {
        trace::write_session(file, &session.profile(&bound)?)?;
    }
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
        let mut text = heading(style, args, &selection);
        // Writing to a string does not fail.
        let _ = writeln!(text, "plan      in stages, compiled in {}\n\n{session}", time(compile_time));
        if args.times {
            text += &(profile(style, &session.profile(&bound)?) + "\n");
        }
        let rows: Vec<_> = outputs.iter().map(|(name, tensor)| (name.clone(), tensor)).collect();
        let rows = rows.into_iter().map(|(name, tensor)| (name, tensor, Statistics::of(&tensor.to_f64s())));
        text += &statistics::text(style, rows);
        let _ =
            writeln!(text, "time      {} for all of it (median of {})", time(median), times.len().max(2) - 1);
        for one in &compared {
            let verdict = if one.passed() { style.good("passed") } else { style.bad("failed") };
            // Writing to a string does not fail.
            let _ = writeln!(text, "check     {verdict}: {}", one.describe());
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

/// A session of a model, and what it is to run on.
struct Prepared {
    model: Model,
    selection: Selection,
    session: Session<AnyBackend>,
    compile_time: Duration,
    inputs: Vec<(String, HostTensor)>,
}

impl Prepared {
    fn new(
        args: &RunArgs,
        select: impl FnOnce() -> Result<Selection>,
        startup: Option<Startup>,
    ) -> Result<Self> {
        let model = Model::load(&args.model)?;
        let selection = select()?;
        let start = Instant::now();
        let session = compile(&model, &selection.engine, &args.dims, args.precision(), startup)?;
        let compile_time = start.elapsed();
        let inputs = inputs(&session, &args.dims, &args.inputs, args.seed)?;
        Ok(Self { model, selection, session, compile_time, inputs })
    }
}

/// The lines that every report begins with.
fn heading(style: Style, args: &RunArgs, selection: &Selection) -> String {
    let device = selection.engine.device();
    format!(
        "{}\ndevice    {}: {} ({})\n",
        style.bold(&args.model.display().to_string()),
        style.good(&selection.chosen),
        device.name,
        device.kind
    )
}

/// Runs a model once, for its first answer: the host's where the device has yet to compile. The process need not wait for the rest then.
pub(super) fn first(args: &RunArgs, select: impl FnOnce() -> Result<Selection>) -> Outcome {
    let Prepared { selection, session, inputs, .. } = Prepared::new(args, select, None)?;
    let bound: Vec<_> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let outputs = session.run(&bound)?;
    let answered = clock::age();
    let by = if session.is_starting() { "host" } else { "device" };
    if args.json {
        let of = |(name, tensor): &(String, HostTensor)| statistics::json(name, tensor);
        print_json(&json!({
            "model": args.model.display().to_string(),
            "backend": selection.chosen,
            "device": device_json(selection.engine.device()),
            "first_ms": answered.as_secs_f64() * 1e3,
            "first_by": by,
            "outputs": outputs.iter().map(of).collect::<Vec<_>>(),
        }))?;
    } else {
        let style = Style::new(args.no_color);
        let how = if by == "host" {
            "by the host, while the device's programs are compiled"
        } else {
            "by the device"
        };
        let mut text = heading(style, args, &selection);
        let rows =
            outputs.iter().map(|(name, tensor)| (name.clone(), tensor, Statistics::of(&tensor.to_f64s())));
        text += &statistics::text(style, rows);
        // Writing to a string does not fail.
        let _ = writeln!(text, "first     {} after the process began, {how}", time(answered));
        print(&text)?;
    }
    Ok(())
}

/// The session of a model after an execution on random inputs, so that every stage is compiled.
pub(crate) fn session(file: &Path, dims: &[(String, usize)]) -> Result<Session<AnyBackend>> {
    let engine = Selector::from_env()?.select()?.engine;
    let session = compile(&Model::load(file)?, &engine, dims, Precision::Model, Some(Startup::Device))?;
    let inputs = inputs(&session, dims, &[], 0)?;
    let bound: Vec<_> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    session.run(&bound)?;
    Ok(session)
}

/// A table of steps.
fn profile(style: Style, steps: &[StepTime]) -> String {
    let row = |step: &StepTime| {
        let own = step.time.map_or_else(|| "-".into(), time);
        vec![step.stage.clone(), step.operator.clone(), step.implementation.clone(), own, step.name.clone()]
    };
    let rows: Vec<_> = steps.iter().map(row).collect();
    table(style, &["stage", "operation", "implementation", "time", "name"], &[3], &rows)
}

fn compile(
    model: &Model,
    engine: &AnyEngine,
    dims: &[(String, usize)],
    precision: Precision,
    startup: Option<Startup>,
) -> Result<Session<AnyBackend>> {
    let bar = progress("compiling", 0);
    let shown = bar.clone();
    let options = SessionOptions {
        precision,
        startup,
        progress: Some(Arc::new(move |done, total| {
            shown.set_length(total as u64);
            shown.set_position(done as u64);
        })),
        ..SessionOptions::default()
    };
    let dims: Vec<_> = dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
    let session = model.compile_with(engine, &dims, &options);
    bar.finish_and_clear();
    session
}

/// The inputs, from files or at random.
fn inputs(
    session: &Session<AnyBackend>,
    dims: &[(String, usize)],
    files: &[(String, PathBuf)],
    seed: u64,
) -> Result<Vec<(String, HostTensor)>> {
    let known = |name: &String| session.inputs().iter().any(|input| input.name == *name);
    if let Some((name, _)) = files.iter().find(|(name, _)| !known(name)) {
        let names: Vec<_> = session.inputs().iter().map(|input| input.name.as_str()).collect();
        let expected = format!("one of {}", names.join(", "));
        return Err(Error::invalid("--input", "name", format!("{name:?}"), expected));
    }
    let one = |(index, input): (usize, &Input)| {
        let extents = input.dims.iter().map(|dim| dim.extent(dims)).collect::<Result<Dims>>();
        let extents = extents.at(|| "--dim")?;
        let desc = MemoryDesc::new(extents.clone(), input.data_type);
        let file = files.iter().find(|(name, _)| *name == input.name).map(|(_, file)| file);
        let tensor = if let Some(file) = file.filter(|file| file.as_os_str() != "random") {
            let data = read(file, &input.name, input.data_type, Some(&extents))?;
            data.fit(&desc).at(|| format!("--input {}", input.name))?
        } else {
            plausible(&input.name, HostTensor::random_with(&desc, seed + index as u64, |value| value)?)?
        };
        Ok((input.name.clone(), tensor))
    };
    session.inputs().iter().enumerate().map(one).collect()
}

fn median(times: &[Duration]) -> Duration {
    let mut rest = if times.len() > 1 { times[1..].to_vec() } else { times.to_vec() };
    rest.sort_unstable();
    rest.get(rest.len() / 2).copied().unwrap_or_default()
}
