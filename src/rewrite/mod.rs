//! Rewriting: operations that together are one function become that one.
//!
//! Frameworks write some functions out: the Gaussian unit as a product of three factors, a normalisation as a quotient of differences. A
//! [`simplify`]d graph has the operation in their place, which runs as one and rides on what is before it. What such functions are made
//! of is told by the numbers in them, so they are found where constants are known: in ONNX files and in models with weights.

mod empty_rows;
mod gelu;
mod hard;
mod moments;
#[cfg(feature = "onnx")]
pub(crate) mod reshapes;
#[cfg(test)]
mod tests;
mod transposes;

use std::sync::LazyLock;

use anydnn_backend::Result;

use crate::formula::{Formula, Match, Scope, find_map};
use crate::graph::{Attrs, Graph, Op, OpKind, TensorId};

/// The same graph with one operation wherever several are together one function. `numbers` tells the one element of a constant that has
/// one.
///
/// The inputs and outputs stay as they are, and so do the identities and names of all that is left: an operation takes the place of the
/// last one that it replaces. Constants and operations that nothing reads any more are gone.
///
/// # Errors
/// [`Error::Invalid`](anydnn_backend::Error::Invalid) when a tensor's declared shape or type contradicts what makes it.
///
/// ```
/// use anydnn::backend::DataType;
/// use anydnn::graph::{Attrs, GraphBuilder, OpKind};
///
/// let mut g = GraphBuilder::new();
/// let x = g.input("x", DataType::F32, [8, 64]);
/// let three = g.constant("three", DataType::F32, [1]);
/// let six = g.constant("six", DataType::F32, [1]);
/// let sum = g.op("sum", OpKind::Add, &[x, three], Attrs::new())?;
/// let limits = Attrs::new().with("min", 0.0_f32).with("max", 6.0_f32);
/// let limited = g.op("limited", OpKind::Clamp, &[sum], limits)?;
/// let product = g.op("product", OpKind::Multiply, &[x, limited], Attrs::new())?;
/// g.op("y", OpKind::Divide, &[product, six], Attrs::new())?;
/// let number = |id| if id == three { Some(3.0) } else if id == six { Some(6.0) } else { None };
/// let graph = anydnn::rewrite::simplify(&g.build()?, &number)?;
/// assert_eq!((graph.ops().len(), graph.ops()[0].kind), (1, OpKind::HardSwish));
/// # Ok::<(), anydnn::backend::Error>(())
/// ```
pub fn simplify(graph: &Graph, numbers: &dyn Fn(TensorId) -> Option<f64>) -> Result<Graph> {
    simplified(graph.clone(), numbers)
}

/// As [`simplify`], of a graph that nobody else has.
///
/// # Errors
/// As [`simplify`].
pub(crate) fn simplified(graph: Graph, numbers: &dyn Fn(TensorId) -> Option<f64>) -> Result<Graph> {
    let replaced = replacements(&graph, numbers);
    if replaced.is_empty() { Ok(graph) } else { graph.with_replaced(replaced) }
}

/// The operations that take the place of others, by index.
fn replacements(graph: &Graph, numbers: &dyn Fn(TensorId) -> Option<f64>) -> Vec<(usize, Op)> {
    let scope = Known { graph, numbers };
    let replace = |(index, op): (usize, &Op)| {
        if op.kind == OpKind::StaticTranspose {
            return transposes::product(&scope, op).map(|product| (index, product));
        }
        let fits = |rewrite: &&Rewrite| rewrite.formula.heads().contains(&op.kind);
        let found = REWRITES.iter().filter(fits).find_map(|rewrite| {
            find_map(&scope, &rewrite.formula, index, |found| {
                (rewrite.make)(&scope, found).filter(|made| made.fits(graph, op))
            })
        });
        found.map(|Made { kind, attrs, x, others }| {
            let inputs = std::iter::once(x).chain(others).collect();
            let (id, name, outputs) = (op.id, op.name.clone(), op.outputs.clone());
            (index, Op { id, name, kind, attrs, inputs, outputs })
        })
    };
    // Each is looked for in the graph as it was: what a tensor holds does not change.
    graph.ops().iter().enumerate().filter_map(replace).collect()
}

/// A function written out, and what it becomes.
struct Rewrite {
    formula: Formula,
    make: fn(&dyn Scope, &Match) -> Option<Made>,
}

/// All rewrites; the first that fits is taken.
static REWRITES: LazyLock<Vec<Rewrite>> = LazyLock::new(|| {
    vec![
        gelu::rewrite(),
        hard::swish(),
        hard::sigmoid(),
        moments::rewrite(),
        moments::affine(),
        moments::root_mean_square(),
        empty_rows::rewrite(),
    ]
});

/// What is made of a match: a function of one tensor, and of some that go with it, with a result of its shape.
struct Made {
    kind: OpKind,
    attrs: Attrs,
    x: TensorId,
    others: Vec<TensorId>,
}

impl Made {
    fn of(found: &Match, kind: OpKind, attrs: Attrs) -> Option<Self> {
        Some(Self { kind, attrs, x: found.tensor("x")?, others: Vec::new() })
    }

    /// Whether the result has the shape and the type of the source, which must be floats. Constants with many dimensions of one may
    /// have changed the shape on the way.
    fn fits(&self, graph: &Graph, last: &Op) -> bool {
        let of = |id: TensorId| {
            graph.tensor(id).and_then(|tensor| Some((tensor.data_type?, tensor.known_dims()?)))
        };
        let Some((data_type, dims)) = last.outputs.first().copied().and_then(of) else { return false };
        data_type.is_float() && of(self.x) == Some((data_type, dims))
    }
}

/// A whole graph; whoever likes may see what is rewritten.
struct Known<'g> {
    graph: &'g Graph,
    numbers: &'g dyn Fn(TensorId) -> Option<f64>,
}

impl Scope for Known<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }

    fn is_free(&self, _op: usize) -> bool {
        true
    }

    fn is_result(&self, _tensor: TensorId) -> bool {
        false
    }

    fn leaves(&self, _ops: &[usize], _tensor: TensorId) -> bool {
        false
    }

    fn number(&self, tensor: TensorId) -> Option<f64> {
        (self.numbers)(tensor)
    }
}

/// Whether a power with a known exponent has this one.
#[expect(clippy::float_cmp, reason = "others are other functions")]
fn has_exponent(power: &Op, exponent: f32) -> bool {
    power.attrs.f32("beta").is_ok_and(|beta| beta == exponent)
}
