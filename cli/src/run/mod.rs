//! `anydnn run`.

mod against;
mod args;
mod art;
mod check;
mod classify;
mod picture;
mod profile;
mod report;
mod session;
pub(crate) mod staged;
mod statistics;
mod tensors;
mod trace;
mod work;

use std::time::Duration;

use anydnn::backend::{Backend, Error, Result};
use anydnn::fusion::Policy;
use anydnn::graph::Changes;
use anydnn::model::{HostTensor, Model};
use anydnn::onnx;
use anydnn::select::{AnyBackend, Selection, Selector};

use self::against::Compared;
use self::args::Check;
pub(crate) use self::args::RunArgs;
use self::check::{Checked, check};
use self::classify::Classification;
use self::report::Report;
use self::session::{Run, Session};
use self::work::{Work, label};
use crate::backend::Opening;
use crate::failure::Outcome;
use crate::failure::{Code, Failure};
use crate::model::{is_onnx, load};
use crate::output::{Style, print, print_json, progress};

/// Runs a model on the backend that is asked for and reports on it.
pub(crate) fn run(args: &RunArgs) -> Outcome {
    if args.precision() != onnx::Precision::Model && !is_onnx(&args.model) {
        let given = args.model.display().to_string();
        return Err(Error::invalid("--precision", "model", given, "an ONNX file").into());
    }
    if args.first && !is_onnx(&args.model) {
        let given = args.model.display().to_string();
        return Err(Error::invalid("--first", "model", given, "an ONNX file").into());
    }
    let opening = Opening::start(args.backend.as_deref())?;
    run_on(args, || opening.finish())
}

/// Runs a model on a backend that is asked for when the model is known to be sound.
pub(crate) fn run_on(args: &RunArgs, select: impl FnOnce() -> Result<Selection>) -> Outcome {
    if args.first {
        return staged::first(args, select);
    }
    if args.precision() != onnx::Precision::Model {
        return staged::run(args, select);
    }
    let mut model = match load(&args.model, &args.dims) {
        // A session runs what no single graph says.
        Err(error) if is_onnx(&args.model) && matches!(error.root(), Error::Unsupported { .. }) => {
            return staged::run(args, select);
        }
        model => model?,
    };
    model.change(&changes(&model, args)?)?;
    model.simplify()?;
    let random_constants = model.missing_constants().len();
    model.fill_missing_constants(args.seed)?;
    let work = Work::new(&model, args)?;
    let selection = select()?;
    let session =
        Session::<AnyBackend>::new(&selection.engine, &work.graph, Policy::Fusion, &model.constants)?;
    if !matches!(args.check, Some(Check::Host)) {
        // They are on the device, and nobody else asks for them.
        model.constants.clear();
    }
    let passes = passes(&session, &work, args.repeat)?;
    let (mut checks, mut compared) = (Vec::new(), Vec::new());
    match args.check {
        None => {}
        Some(Check::Host) => checks = compare(&model, &work, &session, &passes[0].runs)?,
        Some(Check::Onnxruntime) => {
            compared = compare_with_onnxruntime(&model, &work, &passes[0].runs, args)?;
        }
    }
    if let Some(file) = &args.trace {
        let runs: Vec<&Run> = passes.iter().flat_map(|pass| &pass.runs).collect();
        trace::write(file, &work.graph, session.compiled.steps(), &runs)?;
    }
    let classification = Classification::new(&model, &work, &passes[0].runs);
    let report = Report {
        args,
        model: &model,
        work: &work,
        selection: &selection,
        session: &session,
        passes: &passes,
        checks: &checks,
        compared: &compared,
        classification: classification.as_ref(),
        random_constants,
    };
    if args.json {
        print_json(&report.json())?;
    } else {
        print(&report.text(Style::new(args.no_color)))?;
    }
    if let Some(failed) = compared.iter().find(|compared| !compared.passed()) {
        return Err(Failure::new(
            Code::Check,
            format!("{} differs from ONNX Runtime: {}", selection.chosen, failed.describe()),
            "compare with another --backend, and with `--check` alone",
        ));
    }
    match checks.iter().find(|checked| !checked.passed()) {
        None => Ok(()),
        Some(failed) => Err(Failure::new(
            Code::Check,
            format!("{} differs from the host: {}", selection.chosen, failed.describe()),
            "compare with another --backend; `anydnn graph` shows which operations are fused",
        )),
    }
}

/// What the command line changes in the graph.
fn changes(model: &Model, args: &RunArgs) -> Result<Changes> {
    let find = |option: &str, name: &str| {
        let tensor = model.tensor(name).map(|tensor| tensor.id);
        let expected = "a tensor of the graph: a name, or t5 for the identity 5";
        tensor.ok_or_else(|| Error::invalid(option, "tensor", format!("{name:?}"), expected))
    };
    let mut changes = Changes::default();
    for (tensor, data_type) in args.types.iter().flat_map(|types| &types.0) {
        match tensor {
            Some(name) => changes.data_types.push((find("--dt", name)?, *data_type)),
            None => changes.floats = Some(*data_type),
        }
    }
    for (tensor, dims) in args.shapes.iter().flat_map(|shapes| &shapes.0) {
        changes.dims.push((find("--shape", tensor)?, dims.clone()));
    }
    Ok(changes)
}

/// Compares with what ONNX Runtime computes from the same file and inputs.
fn compare_with_onnxruntime(
    model: &Model,
    work: &Work,
    runs: &[Run],
    args: &RunArgs,
) -> std::result::Result<Vec<Compared>, Failure> {
    let changed = !args.types.is_empty() || !args.shapes.is_empty() || args.batch.is_some();
    if !is_onnx(&args.model) || changed {
        let expected = "an ONNX file as it is, without --dt, --shape and --batch";
        return Err(Error::invalid("--check onnxruntime", "model", model.name.clone(), expected).into());
    }
    let named = |(id, tensor): &(_, _)| (label(&work.graph, *id), HostTensor::clone(tensor));
    let inputs: Vec<_> = work.batches[0].inputs.iter().map(named).collect();
    let names = onnx::Model::load(&args.model)?.outputs()?.into_iter().map(|output| output.name);
    let outputs: Vec<_> = names.zip(runs[0].outputs.iter().map(|(_, tensor)| tensor.clone())).collect();
    against::onnxruntime(&args.model, &inputs, &outputs)
}

/// All batches, once.
#[derive(Debug)]
struct Pass {
    runs: Vec<Run>,
    wall: Duration,
}

/// The first pass, then as many as asked for.
fn passes<B: Backend>(session: &Session<B>, work: &Work, repeat: u32) -> Result<Vec<Pass>> {
    let bar = progress("running", (u64::from(repeat) + 1) * work.batches.len() as u64);
    let mut passes = Vec::new();
    for pass in 0..=repeat {
        let mut runs = Vec::with_capacity(work.batches.len());
        for batch in &work.batches {
            let mut run = session.run(&batch.inputs)?;
            if pass > 0 {
                // The same outputs again; only their times count.
                run.outputs = Vec::new();
            }
            runs.push(run);
            bar.inc(1);
        }
        let wall = runs.iter().map(|run| run.wall).sum();
        passes.push(Pass { runs, wall });
    }
    bar.finish_and_clear();
    Ok(passes)
}

/// Computes the same on the host, one operation at a time, and compares.
fn compare<B: Backend>(
    model: &Model,
    work: &Work,
    session: &Session<B>,
    runs: &[Run],
) -> Result<Vec<Checked>> {
    let host = Selector::parse("host")?.select()?;
    let reference = Session::<AnyBackend>::new(&host.engine, &work.graph, Policy::Debug, &model.constants)?;
    let expected = passes(&reference, work, 0)?.swap_remove(0).runs;
    Ok(check(&work.graph, session, runs, &reference, &expected))
}
