//! Rounds: we and every peer by turns, so that what disturbs one disturbs all.

use std::thread::sleep;
use std::time::Duration;

use anydnn::fusion::Policy;
use anydnn::graph::{Graph, OpKind, TensorId};
use anydnn::model::HostTensor;
use anydnn::select::{AnyBackend, AnyEngine};

use super::case::Case;
use super::each::{self, Candidate};
use super::opponent::Opponent;
use super::ours::{Ours, Step};
use super::peers::Prepared;
use crate::failure::{Code, Failure};

/// Executions are queued until a sample lasts as long: what its start costs, threads that sleep and caches that others have used, must not
/// weigh.
pub(super) const SAMPLE: f64 = 40e-3;
/// The most executions in a sample: below 20 us each it lasts less.
pub(super) const MOST: usize = 400;
/// Threads that wait by spinning have gone to sleep after as long.
pub(super) const PAUSE: Duration = Duration::from_millis(12);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// How many rounds of a sample of each.
    pub(crate) rounds: u32,
    /// How many sets of inputs and outputs take turns.
    pub(crate) sets: usize,
    /// Seconds that a sample lasts, if its executions are long enough.
    pub(crate) sample: f64,
    /// Whether every implementation is measured too.
    pub(crate) each: bool,
    /// Whether the implementations are listed.
    pub(crate) explain: bool,
}

/// What was measured of a case.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Seconds of one execution, one in each round: `queued` executions were enqueued, then waited for.
    pub(crate) times: Vec<f64>,
    pub(crate) queued: usize,
    /// Seconds of one execution on the device, by its clock.
    pub(crate) device: Vec<f64>,
    /// Seconds from enqueueing one execution alone to its end.
    pub(crate) alone: Vec<f64>,
    /// Seconds of the host to enqueue one execution.
    pub(crate) enqueue: Vec<f64>,
    pub(crate) steps: Vec<Step>,
    /// The implementations of each step, if asked for.
    pub(crate) candidates: Vec<Vec<Candidate>>,
    pub(crate) peers: Vec<PeerResult>,
}

/// What a peer did with a case.
#[derive(Debug)]
pub(crate) struct PeerResult {
    pub(crate) name: String,
    pub(crate) outcome: Result<PeerTimes, String>,
}

/// A peer's seconds of one execution, one in each round.
#[derive(Debug)]
pub(crate) struct PeerTimes {
    pub(crate) times: Vec<f64>,
    /// Seconds of one execution alone, from its request to its end.
    pub(crate) alone: Vec<f64>,
    pub(crate) device: Vec<f64>,
    /// How it did it, in its own words.
    pub(crate) note: String,
    /// The norm of the difference of the results over the norm of its result.
    pub(crate) difference: f64,
}

/// Measures a case.
pub(crate) fn measure(
    engine: &AnyEngine,
    case: &Case,
    peers: &mut [Box<dyn Opponent>],
    effort: &Effort,
) -> Result<Measured, Failure> {
    let mut ours = Ours::<AnyBackend>::new(engine, case, effort.sets, Policy::default())?;
    let result: Vec<f32> = ours.outputs()?.iter().flat_map(HostTensor::to_f32s).collect();
    let told = case.told(effort.sets)?;
    let mut results = Vec::new();
    for peer in &mut *peers {
        let outcome = match peer.prepare(case, &told, effort.sets)? {
            Prepared::Refused(why) => Err(why),
            Prepared::Ready(note) => {
                let difference = difference(case, &mut **peer, &result)?;
                Ok(PeerTimes { times: Vec::new(), alone: Vec::new(), device: Vec::new(), note, difference })
            }
        };
        results.push(PeerResult { name: peer.name().to_owned(), outcome });
    }
    for peer in &*peers {
        peer.rest();
    }
    let queued = calibrated(&mut ours, effort.sample)?;
    let mut measured = Measured {
        times: Vec::new(),
        queued,
        device: Vec::new(),
        alone: Vec::new(),
        enqueue: Vec::new(),
        steps: ours.steps.clone(),
        candidates: Vec::new(),
        peers: results,
    };
    for _ in 0..effort.rounds {
        sleep(PAUSE);
        measured.alone.push(ours.run(1)?.wall);
        let sample = ours.run(queued)?;
        measured.times.push(sample.wall / queued as f64);
        measured.enqueue.push(sample.enqueue / queued as f64);
        if let Some(seconds) = ours.device_time(queued)? {
            measured.device.push(seconds / queued as f64);
        }
        for (peer, result) in peers.iter_mut().zip(&mut measured.peers) {
            let Ok(times) = &mut result.outcome else { continue };
            sleep(PAUSE);
            times.alone.push(peer.run(1)?.wall);
            let sample = peer.run(queued)?;
            peer.rest();
            times.times.push(sample.wall / queued as f64);
            times.device.extend(sample.device.map(|device| device / queued as f64));
        }
    }
    let constant = case.tensors.iter().any(|tensor| tensor.constant && tensor.dims.len() > 1);
    for step in &measured.steps {
        // Of a whole network the list alone is telling.
        let found = match (effort.each && measured.steps.len() == 1, effort.explain) {
            (true, _) => each::measure(engine, &step.desc, constant, effort.rounds)?,
            (false, true) => each::candidates(engine, &step.desc, constant),
            (false, false) => continue,
        };
        measured.candidates.push(found);
    }
    Ok(measured)
}

/// How many executions to queue in a sample, after a warm-up.
fn calibrated(ours: &mut Ours<AnyBackend>, sample: f64) -> Result<usize, Failure> {
    ours.run(2)?;
    let few = 4;
    let time =
        (0..3).map(|_| Ok(ours.run(few)?.wall / few as f64)).collect::<anydnn::backend::Result<Vec<_>>>()?;
    let least = time.into_iter().fold(f64::INFINITY, f64::min);
    Ok(((sample / least).ceil() as usize).clamp(1, MOST))
}

/// The norm of the difference over the norm of the peer's result.
fn difference(case: &Case, peer: &mut dyn Opponent, result: &[f32]) -> Result<f64, Failure> {
    let theirs = peer.outputs()?;
    if theirs.len() != result.len() {
        let message = format!(
            "{}: peer {} gave {} elements, expected {}",
            case.text,
            peer.name(),
            theirs.len(),
            result.len()
        );
        return Err(Failure::new(
            Code::Check,
            message,
            "this is a defect of the benchmark: please report it",
        ));
    }
    Ok(relative(result, &theirs, slack(&case.graph)))
}

/// What right elements may differ by, whatever their size. A logistic function that is a fraction plus one half, as ONNX Runtime's, is exact
/// to the last place of one, not of its result: measured against PP-OCRv4's detection in f64, its smallest results are up to 1.3e-7 off and
/// the norm of all by 4.0e-4, behind sums that are within 5.8e-7; of PP-OCRv3's, whose largest result is 1.5e-8 for noise, it makes 3.2e-7.
fn slack(graph: &Graph) -> f64 {
    let kind = |&id: &TensorId| graph.producer(id).map(|producer| graph.ops()[producer].kind);
    let mut kinds = graph.outputs().iter().map(kind);
    let logistic = kinds.len() > 0 && kinds.all(|kind| kind == Some(OpKind::Sigmoid));
    if logistic { 3.0 * f64::from(f32::EPSILON) } else { 0.0 }
}

/// The norm of the difference, of each element beyond the slack, over the norm of what was expected; where that is all zeros, over the norm
/// of as many ones: `1 + erf(x)` is zero where a more careful function of the same `x` is tiny. Places where both have the same infinity
/// or no number agree.
pub(super) fn relative(found: &[f32], expected: &[f32], slack: f64) -> f64 {
    let agree = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let (mut apart, mut own) = (0.0, 0.0);
    for (&found, &expected) in found.iter().zip(expected) {
        if agree(found, expected) && !expected.is_finite() {
            continue;
        }
        let difference = f64::from(found - expected).abs();
        // What is no number stays none.
        apart += if difference <= slack { 0.0 } else { (difference - slack).powi(2) };
        own += f64::from(expected).powi(2);
    }
    let whole = if own == 0.0 { expected.len() as f64 } else { own };
    if apart == 0.0 { 0.0 } else { (apart / whole).sqrt() }
}

/// The middle of the sorted values; NaN of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use anydnn::backend::DataType;
    use anydnn::graph::{Attrs, GraphBuilder};

    use super::*;

    #[test]
    fn places_without_numbers_agree_with_their_like_alone() {
        let (none, most) = (f32::NAN, f32::INFINITY);
        assert_eq!(relative(&[none, most, 3.0], &[-none, most, 3.0], 0.0), 0.0);
        assert_eq!(relative(&[none, 3.0, 4.0], &[none, 3.0, 5.0], 0.0), (1.0_f64 / 34.0).sqrt());
        assert!(!relative(&[none, 3.0], &[1.0, 3.0], 0.0).is_finite());
        assert!(!relative(&[1.0, 3.0], &[none, 3.0], 0.0).is_finite());
        assert!(!relative(&[most, 3.0], &[-most, 3.0], 0.0).is_finite());
    }

    #[test]
    fn beside_zeros_alone_the_difference_counts_as_it_is() {
        // What a sum of -11.7 becomes behind a GELU, and what is wrong there.
        assert!(relative(&[-7.9e-31, -0.0], &[0.0, -0.0], 0.0) < 1e-30);
        assert_eq!(relative(&[3.0, 4.0], &[0.0, 0.0], 0.0), (25.0_f64 / 2.0).sqrt());
        assert!(relative(&[0.0, 2e-4], &[0.0, 0.0], 0.0) > 1e-4);
        assert!(!relative(&[f32::NAN, 0.0], &[0.0, 0.0], 0.0).is_finite());
        // One element that is not zero makes it relative again.
        assert_eq!(relative(&[2e-20, 0.0], &[1e-20, 0.0], 0.0), 1.0);
        assert_eq!(relative(&[], &[], 0.0), 0.0);
    }

    #[test]
    fn only_results_of_logistic_functions_may_be_apart_by_the_last_place_of_one() {
        let graph = |kind| {
            let mut g = GraphBuilder::new();
            let x = g.input("x", DataType::F32, [4]);
            let y = g.op("y", kind, &[x], Attrs::new()).unwrap();
            g.output(y);
            g.build().unwrap()
        };
        let [logistic, other] = [OpKind::Sigmoid, OpKind::Exp].map(|kind| slack(&graph(kind)));
        assert!(relative(&[2e-7, 1e-8], &[1e-7, 9e-8], other) > 0.1);
        assert_eq!(relative(&[2e-7, 1e-8], &[1e-7, 9e-8], logistic), 0.0);
        assert!(relative(&[0.5, 0.25], &[0.5, 0.2501], logistic) > 1e-4);
        assert!(relative(&[0.5, 0.25], &[0.5, f32::NAN], logistic).is_nan());
    }
}
