//! `--check`: comparison with the host.

use std::collections::BTreeSet;

use anydnn::backend::{Backend, Mismatched, Tolerance};
use anydnn::compile::{CompiledGraph, StepInfo};
use anydnn::graph::{Graph, TensorId};
use serde_json::{Value, json};

use super::session::{Run, Session};
use super::work::label;

/// The comparison of one output.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) output: String,
    pub(super) elements: usize,
    pub(super) max_error: f64,
    /// The largest difference as a part of what was allowed there.
    pub(super) max_of_allowed: f64,
    pub(super) tolerance: Tolerance,
    pub(super) failure: Option<Mismatched>,
}

impl Checked {
    pub(super) fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The comparison in words.
    pub(super) fn describe(&self) -> String {
        let scale = if self.tolerance.scaled { "the largest" } else { "each" };
        let allowed = format!(
            "allowed {:.1e} + {:.1e} of {scale} element",
            self.tolerance.absolute, self.tolerance.relative
        );
        match &self.failure {
            None => format!(
                "{}: {} elements, max error {:.2e}, {:.2} % of the allowed ({allowed})",
                self.output,
                self.elements,
                self.max_error,
                self.max_of_allowed * 100.0
            ),
            Some(failure) => format!("{}: {failure} ({allowed})", self.output),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "output": self.output,
            "elements": self.elements,
            "passed": self.passed(),
            "max_error": self.max_error,
            "max_of_allowed": self.max_of_allowed,
            "absolute": self.tolerance.absolute,
            "relative": self.tolerance.relative,
            "failure": self.failure.as_ref().map(ToString::to_string),
        })
    }
}

/// Compares the outputs of several runs with those of the reference.
///
/// The bound is that of the longer of both chains of primitives: without fusion every step rounds its result once more. Where either rounds to
/// integers on the way, one of them may land on the other side of a boundary.
pub(super) fn check<B: Backend, R: Backend>(
    graph: &Graph,
    session: &Session<B>,
    runs: &[Run],
    reference: &Session<R>,
    expected: &[Run],
) -> Vec<Checked> {
    let one = |(position, &id): (usize, &TensorId)| {
        let tolerance = bound(graph, &session.compiled, &reference.compiled, id);
        let all = |runs: &[Run]| {
            runs.iter().flat_map(|run| run.outputs[position].1.to_f64s()).collect::<Vec<f64>>()
        };
        compare(label(graph, id), tolerance, &all(runs), &all(expected))
    };
    graph.outputs().iter().enumerate().map(one).collect()
}

fn compare(output: String, tolerance: Tolerance, actual: &[f64], expected: &[f64]) -> Checked {
    let one = Checked {
        output,
        elements: actual.len(),
        max_error: 0.0,
        max_of_allowed: 0.0,
        tolerance,
        failure: None,
    };
    match tolerance.compare(actual, expected) {
        Ok(summary) => {
            Checked { max_error: summary.max_error, max_of_allowed: summary.max_of_allowed, ..one }
        }
        Err(failure) => {
            let max_error = (failure.actual - failure.reference).abs();
            Checked { max_error, max_of_allowed: max_error / failure.allowed, failure: Some(failure), ..one }
        }
    }
}

fn bound<B: Backend, R: Backend>(
    graph: &Graph,
    own: &CompiledGraph<B>,
    reference: &CompiledGraph<R>,
    id: TensorId,
) -> Tolerance {
    let behind = ancestors(graph, id);
    let leads_to = |step: &&StepInfo| step.ops.iter().any(|op| behind.contains(op));
    let of = |steps: &[StepInfo]| Tolerance::of_chain(steps.iter().filter(leads_to).map(|step| &step.desc));
    let (one, other) = (of(own.steps()), of(reference.steps()));
    wider(one, other)
}

/// What either of two bounds allows.
fn wider(one: Tolerance, other: Tolerance) -> Tolerance {
    let longer = if one.relative > other.relative { one } else { other };
    Tolerance { absolute: one.absolute.max(other.absolute), ..longer }
}

/// The operations (indices into [`Graph::ops`]) that a tensor depends on.
fn ancestors(graph: &Graph, id: TensorId) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        if let Some(op) = graph.producer(id)
            && found.insert(op)
        {
            open.extend(&graph.ops()[op].inputs);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn::backend::DataType;
    use anydnn::graph::{Attrs, GraphBuilder, OpKind};

    #[test]
    fn a_result_outside_its_tolerance_fails() {
        let tolerance = Tolerance { absolute: 0.0, relative: 1e-6, scaled: false };
        let good = compare("y".into(), tolerance, &[1.0, 2.0], &[1.0, 2.0 + 1e-6]);
        assert!(good.passed() && good.max_of_allowed > 0.4 && good.max_of_allowed < 0.6, "{good:?}");
        let bad = compare("y".into(), tolerance, &[1.0, 2.1], &[1.0, 2.0]);
        assert!(!bad.passed() && bad.max_of_allowed > 1.0 && bad.describe().contains("element 1"), "{bad:?}");
    }

    #[test]
    fn a_chain_that_rounds_to_integers_allows_one_of_them_though_the_other_is_longer() {
        let bound = |absolute, relative| Tolerance { absolute, relative, scaled: false };
        let made = wider(bound(1e-30, 3e-6), bound(1.0, 2e-6));
        assert!(made.absolute >= 1.0 && made.relative >= 3e-6, "{made:?}");
        assert!(wider(bound(1e-30, 3e-6), bound(1e-20, 2e-6)).absolute < 1e-10);
    }

    #[test]
    fn only_what_an_output_depends_on_widens_its_bound() {
        let mut g = GraphBuilder::new();
        let x = g.input("x", DataType::F32, [4]);
        let a = g.op("a", OpKind::ReLU, &[x], Attrs::new()).unwrap();
        let b = g.op("b", OpKind::Tanh, &[a], Attrs::new()).unwrap();
        let c = g.op("c", OpKind::Exp, &[a], Attrs::new()).unwrap();
        g.output(b);
        g.output(c);
        let graph = g.build().unwrap();
        let names =
            |id| ancestors(&graph, id).into_iter().map(|op| graph.ops()[op].name.clone()).collect::<Vec<_>>();
        assert_eq!(names(b), ["a", "b"]);
        assert_eq!(names(c), ["a", "c"]);
    }
}
