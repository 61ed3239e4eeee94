//! Every use of every fusion pattern, run: one partition, in the stated number of launches, with the results of the operations one by one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use anydnn::backend::conformance::Sample;
use anydnn::backend::{DataType, DeviceKind, Engine, StreamDesc};
use anydnn::fusion::Policy;
use anydnn::graph::{Graph, OpKind as K, TensorId};
use anydnn::model::HostTensor;
use anydnn_host::HostEngine;

use self::cases::Case;
use super::bounds::bounds;
use super::case::{Run, run};
use super::reference;
use super::tensor::Tensor;

#[allow(dead_code, reason = "near misses are the library's own tests'")]
#[path = "../../src/fusion/tests/cases/mod.rs"]
mod cases;
#[path = "../../src/fusion/tests/text.rs"]
mod text;

/// A case with values.
#[derive(Debug)]
struct Trial {
    /// Among all cases.
    number: usize,
    case: Case,
    graph: Graph,
    given: HashMap<TensorId, Tensor>,
    expected: HashMap<TensorId, Tensor>,
    bounds: HashMap<TensorId, Vec<f64>>,
    /// What the operations compute one by one on the host.
    one_by_one: Vec<Vec<f64>>,
}

#[test]
fn patterns_on_the_host() {
    check(&HostEngine::new(), None, 1);
}

/// Every case fused on every device, against the reference and what the host computes operation by operation. The operations of every
/// sixteenth case run one by one on the device too, those of all with `ANYDNN_ONE_BY_ONE=all`: minutes, most of them in compilers.
#[cfg(feature = "opencl")]
#[test]
fn patterns_on_opencl_devices() {
    let engines = anydnn_opencl::testing::hasty_test_engines();
    let all = std::env::var("ANYDNN_ONE_BY_ONE").is_ok_and(|word| word == "all");
    let stride = if all { 1 } else { 16 };
    std::thread::scope(|scope| {
        for (i, engine) in engines.iter().enumerate() {
            scope.spawn(move || check(engine, Some(i), stride));
        }
    });
}

/// The bounds must be narrow enough to mean something.
#[test]
fn bounds_are_narrow() {
    let mut wide = String::new();
    for Trial { case, graph, expected, bounds, .. } in trials() {
        for id in graph.outputs() {
            let (values, bound) = (&expected[id].values, &bounds[id]);
            let largest = values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            let mean = bound.iter().sum::<f64>() / bound.len() as f64;
            // One number has nothing to differ from.
            let varies = values.len() == 1 || values.iter().any(|v| (v - values[0]).abs() > mean);
            if mean > limit(graph) * largest || !varies {
                let _ = writeln!(
                    wide,
                    "{}: {} is up to {largest}, its bound {mean} on average: {}",
                    case.pattern,
                    graph.label(*id),
                    case.text
                );
            }
        }
    }
    assert!(wide.is_empty(), "{wide}");
}

/// Runs every case, on an OpenCL device of a number those of its sample, and tells all that is wrong. The operations of every `stride`-th
/// of them run one by one too.
fn check<E: Engine>(engine: &E, device: Option<usize>, stride: usize) {
    let mut wrong = String::new();
    let (sample, first) = (Sample::from_env(), 8 * device.unwrap_or(0) % stride);
    let is_mine = |trial: &&Trial| device.is_none_or(|device| sample.takes(trial.number, device));
    // Counted among those that this device runs, which may be the even ones alone.
    for (i, trial) in trials().iter().filter(is_mine).enumerate() {
        let launches = usize::from(device.is_some());
        if let Err(what) = trial.check(engine, launches, i % stride == first) {
            let Case { pattern, covers, text, .. } = trial.case;
            let _ = writeln!(wrong, "{pattern} ({covers}) on {}: {what}\n{text}", engine.device().name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn trials() -> &'static [Trial] {
    static TRIALS: OnceLock<Vec<Trial>> = OnceLock::new();
    let sample = Sample::from_env();
    let all = || cases::all().into_iter().enumerate().filter(|(number, _)| sample.takes_somewhere(*number));
    TRIALS.get_or_init(|| all().map(|(number, case)| Trial::new(number, case)).collect())
}

impl Trial {
    fn new(number: usize, case: Case) -> Self {
        let graph = text::graph(case.text);
        let ports = graph.tensors().filter(|tensor| graph.producer(tensor.id).is_none());
        let given: HashMap<TensorId, Tensor> =
            ports.map(|tensor| (tensor.id, value(&graph, tensor.id))).collect();
        let expected = reference::evaluate(&graph, &given);
        let host = HostEngine::new();
        let one_by_one = run(&host, &graph, Policy::Debug, &StreamDesc::default(), &given)
            .unwrap_or_else(|error| panic!("{}: {error}", case.pattern));
        let bounds = bounds(&one_by_one.compiled, &expected);
        Self { number, case, graph, given, expected, bounds, one_by_one: one_by_one.outputs }
    }

    fn check<E: Engine>(&self, engine: &E, which: usize, one_by_one: bool) -> Result<(), String> {
        let run = |policy| {
            run(engine, &self.graph, policy, &StreamDesc::default(), &self.given)
                .map_err(|e| format!("{policy:?}: {e}"))
        };
        let fused = run(Policy::Fusion)?;
        let computes = |&op: &usize| self.graph.ops()[op].kind != K::End;
        let all = (0..self.graph.ops().len()).filter(computes);
        let partitioning = fused.compiled.partitioning();
        match partitioning.partitions.iter().filter(|part| part.supported).collect::<Vec<_>>()[..] {
            [part]
                if part.pattern == self.case.pattern && all.eq(part.ops.iter().copied().filter(computes)) => {
            }
            _ => return Err(format!("more than one partition\n{}", partitioning.describe(&self.graph))),
        }
        let (launches, stated) = (fused.compiled.launches(), self.case.launches[which]);
        let told = |what: String, run: &Run<E::B>| {
            format!("in {} launches, {what}\n{}", run.compiled.launches(), run.compiled)
        };
        // The numbers are those of processors; kernels for others may do with fewer.
        let is_stated =
            if engine.device().kind == DeviceKind::Cpu { launches == stated } else { launches <= stated };
        if !is_stated {
            return Err(told(format!("not in {stated}"), &fused));
        }
        self.compare(&fused.outputs, "fused").map_err(|what| told(what, &fused))?;
        if one_by_one {
            let run = run(Policy::Debug)?;
            self.compare(&run.outputs, "one by one").map_err(|what| told(what, &run))?;
            self.compare_both(&fused.outputs, &run.outputs).map_err(|what| told(what, &fused))?;
        }
        self.compare_both(&fused.outputs, &self.one_by_one).map_err(|what| told(what, &fused))
    }

    /// Results are within the bounds of the reference.
    fn compare(&self, outputs: &[Vec<f64>], how: &str) -> Result<(), String> {
        self.first_wrong(outputs, 1.0, |port, at| self.expected[&self.graph.outputs()[port]].values[at])
            .map_or(Ok(()), |what| Err(format!("{how} {what} (reference)")))
    }

    /// Two executions, each within the bounds of the reference, are within twice the bounds of each other.
    fn compare_both(&self, fused: &[Vec<f64>], one_by_one: &[Vec<f64>]) -> Result<(), String> {
        self.first_wrong(fused, 2.0, |port, at| one_by_one[port][at])
            .map_or(Ok(()), |what| Err(format!("fused {what} (one by one)")))
    }

    /// The first value that is not what is expected, within so many bounds.
    fn first_wrong(
        &self,
        outputs: &[Vec<f64>],
        factor: f64,
        expected: impl Fn(usize, usize) -> f64,
    ) -> Option<String> {
        let ports = self.graph.outputs().iter().zip(outputs).enumerate();
        ports.into_iter().find_map(|(port, (id, values))| {
            assert_eq!(values.len(), self.bounds[id].len());
            (0..values.len()).find_map(|at| {
                let (value, expected, bound) = (values[at], expected(port, at), factor * self.bounds[id][at]);
                let same = value.total_cmp(&expected).is_eq() || (value - expected).abs() <= bound;
                (!same).then(|| {
                    format!("{}[{at}] is {value}, not {expected} within {bound:.1e}", self.graph.label(*id))
                })
            })
        })
    }
}

/// What part of the largest element a bound may be on average: in types of few bits every step rounds noticeably, and their bounds add up.
fn limit(graph: &Graph) -> f64 {
    let coarsest = graph.tensors().filter_map(|tensor| tensor.data_type).filter(|t| t.is_float());
    match coarsest.map(DataType::unit_roundoff).fold(0.0, f64::max) {
        unit if unit > 0.01 => 0.75,
        unit if unit > 1e-3 => 0.15,
        _ => 0.05,
    }
}

/// Pseudo-random values that suit the operations which read them.
fn value(graph: &Graph, id: TensorId) -> Tensor {
    let reads = |kind: K, input: usize| {
        graph.consumers(id).iter().any(|&op| {
            let op = &graph.ops()[op];
            op.kind == kind && op.inputs.get(input) == Some(&id)
        })
    };
    let desc = graph.tensor(id).unwrap().memory_desc().unwrap();
    let away_from_zero = reads(K::Divide, 1)
        || reads(K::Reciprocal, 0)
        || reads(K::BatchNormInference, 4)
        || reads(K::BatchNormTrainingBackward, 3);
    let change = |value: f64| match desc.data_type().is_float() {
        true if reads(K::DynamicDequantize, 1) => (1.5 + value) / 8.0,
        true if reads(K::Dropout, 3) => 0.25,
        true if away_from_zero => 2.0 + value,
        _ => value,
    };
    let tensor = HostTensor::random_with(&desc, id.0 + 1, change).unwrap();
    Tensor::new(desc.dims(), tensor.to_f64s())
}
