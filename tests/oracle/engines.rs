//! Runs trials on the host and on OpenCL devices and compares what they make.

use anydnn::backend::{Backend, DataType, Engine, Event, Memory, Result, Stream, StreamDesc, Tolerance};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::graph::Graph;
use anydnn::model::HostTensor;
use anydnn_host::HostEngine;

use super::checks::Check;
use super::trials::Trial;

/// How a trial went on an engine.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// As expected, in so many launches.
    Right(usize),
    Wrong(String),
    Refused(String),
    /// Other cases tell.
    NotRun,
}

/// An engine and how each trial went there.
pub struct Runs {
    /// `host`, or the alias of an OpenCL device.
    pub name: String,
    pub outcomes: Vec<Outcome>,
}

/// The outcomes of every trial on every engine, at the same time; the host is the first.
pub fn run(trials: &[Trial], checks: &[Check]) -> Vec<Runs> {
    let on_host = || each(&HostEngine::new(), "host", trials, checks, |_| true);
    #[cfg(not(feature = "opencl"))]
    return vec![on_host()];
    #[cfg(feature = "opencl")]
    std::thread::scope(|scope| {
        let engines = anydnn_opencl::testing::hasty_test_engines();
        let devices: Vec<_> = engines
            .into_iter()
            .enumerate()
            .map(|(number, engine)| {
                scope.spawn(move || {
                    let name = engine.opencl_device().alias();
                    each(&engine, &name, trials, checks, |trial| trial.on_device(number))
                })
            })
            .collect();
        let mut all = vec![on_host()];
        all.extend(devices.into_iter().map(|run| run.join().unwrap()));
        all
    })
}

fn each<E: Engine>(
    engine: &E,
    name: &str,
    trials: &[Trial],
    checks: &[Check],
    runs_here: impl Fn(&Trial) -> bool,
) -> Runs {
    let start = std::time::Instant::now();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let outcomes: Vec<_> = trials
        .iter()
        .zip(checks)
        .map(
            |(trial, check)| {
                if runs_here(trial) { outcome(engine, &stream, trial, check) } else { Outcome::NotRun }
            },
        )
        .collect();
    let count = outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::NotRun)).count();
    println!("{name}: {count} cases in {:.1} s", start.elapsed().as_secs_f64());
    Runs { name: name.to_owned(), outcomes }
}

fn outcome<E: Engine>(
    engine: &E,
    stream: &<E::B as Backend>::Stream,
    trial: &Trial,
    check: &Check,
) -> Outcome {
    let graph = match &trial.graph {
        Ok(graph) => graph,
        Err(error) => return Outcome::Refused(error.clone()),
    };
    let made = match execute(engine, stream, graph, &trial.values) {
        Ok(made) => made,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    for (i, (actual, bound)) in made.outputs.iter().zip(&made.bounds).enumerate() {
        // Both sides may be off by the bound of one, so results may be apart by twice that; f64 is not off.
        let both = Tolerance { relative: 2.0 * bound.relative, ..*bound };
        let against = [(&check.oracle, both, "oneDNN"), (&check.reference, *bound, "reference")];
        for (expected, bound, whose) in against {
            let Some(expected) = expected else { continue };
            if let Err(error) = bound.compare(actual, &expected[i]) {
                return Outcome::Wrong(format!("output {i} against {whose}: {error}"));
            }
        }
    }
    Outcome::Right(made.launches)
}

struct Made {
    outputs: Vec<Vec<f64>>,
    bounds: Vec<Tolerance>,
    launches: usize,
}

fn execute<E: Engine>(
    engine: &E,
    stream: &<E::B as Backend>::Stream,
    graph: &Graph,
    values: &[HostTensor],
) -> Result<Made> {
    let compiled = CompiledGraph::new(graph, engine, &CompileOptions::default())?;
    let kind = engine.capabilities().memory_kinds[0];
    let inputs = graph.inputs().iter().zip(values).map(|(&id, value)| {
        let memory = engine.create_memory(compiled.input_desc(id).unwrap(), kind)?;
        stream.write(&memory, 0, value.bytes(), &[])?.wait()?;
        Ok((id, memory))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let outputs = graph
        .outputs()
        .iter()
        .map(|&id| Ok((id, engine.create_memory(compiled.output_desc(id).unwrap(), kind)?)));
    let outputs = outputs.collect::<Result<Vec<(_, <E::B as Backend>::Memory)>>>()?;
    let executable = compiled.load(stream, &[])?;
    let done = executable.execute(stream, &inputs, &outputs, &[])?;
    let made = outputs.iter().map(|(_, memory)| {
        let mut bytes = vec![0; memory.desc().size()];
        stream.read(memory, 0, &mut bytes, std::slice::from_ref(&done))?;
        Ok(HostTensor::new(memory.desc().clone(), bytes)?.to_f64s())
    });
    let made = made.collect::<Result<Vec<_>>>()?;
    let bounds = outputs.iter().map(|(_, memory)| bound(&compiled, memory.desc().data_type())).collect();
    Ok(Made { outputs: made, bounds, launches: compiled.launches() })
}

/// The bound of all steps, for a result of a type.
fn bound<B: Backend>(compiled: &CompiledGraph<B>, data_type: DataType) -> Tolerance {
    let mut bound = Tolerance::of_chain(compiled.steps().iter().map(|step| &step.desc));
    // Statistics may be wider or narrower than the first result.
    bound.relative += 2.0 * data_type.unit_roundoff();
    bound
}
