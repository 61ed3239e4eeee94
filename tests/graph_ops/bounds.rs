//! How far an execution may be from the reference, element by element: every operation's own error, carried through all that follow.
//!
//! An operation's own error is what its primitive is allowed ([`Tolerance`]), its result being stored in the type that the graph says.
//! An error of an element of an input becomes what the operation makes of it: the reference is evaluated at both ends of the element's
//! range, which covers steep functions and rounding to integers, and the effects of all elements add up. Sums of products are evaluated once,
//! on magnitudes. That is more than any execution errs, be it one that stores every tensor, or a fused one that stores fewer.

use std::collections::HashMap;

use anydnn::backend::{Backend, DataType, Tolerance};
use anydnn::compile::CompiledGraph;
use anydnn::graph::{Graph, OpKind, TensorId};

use super::reference::results;
use super::tensor::Tensor;

/// What products of errors, which are not followed, may add.
const SECOND_ORDER: f64 = 1.1;

/// The bound on the error of each element of each tensor, from the reference's values and the operations compiled one by one.
pub fn bounds<B: Backend>(
    one_by_one: &CompiledGraph<B>,
    values: &HashMap<TensorId, Tensor>,
) -> HashMap<TensorId, Vec<f64>> {
    let graph = one_by_one.graph();
    let mut bounds: HashMap<TensorId, Vec<f64>> = HashMap::new();
    for (index, op) in graph.ops().iter().enumerate() {
        let steps = one_by_one.steps().iter().filter(|step| step.ops.contains(&index));
        let own = Tolerance::of_chain(steps.map(|step| &step.desc));
        let (inputs, errors): (Vec<&Tensor>, Vec<Vec<f64>>) = op
            .inputs
            .iter()
            .map(|id| {
                let value = &values[id];
                (value, bounds.get(id).cloned().unwrap_or_else(|| vec![0.0; value.values.len()]))
            })
            .unzip();
        for (result, &id) in op.outputs.iter().enumerate() {
            let value = &values[&id];
            let data_type = graph.tensor(id).unwrap().data_type.unwrap();
            let rounds =
                matches!(op.kind, OpKind::Quantize | OpKind::DynamicQuantize) && !data_type.is_float();
            let errors = if rounds { computed(&inputs, &errors, &own) } else { errors.clone() };
            let mut bound = carried(graph, index, result, &inputs, &errors, value);
            if data_type.is_float() {
                add_own(&mut bound, &own, data_type, value);
            }
            bounds.insert(id, bound);
        }
    }
    bounds
}

/// Errors of what is rounded to integers: as if the inputs bore the operation's own.
fn computed(inputs: &[&Tensor], errors: &[Vec<f64>], own: &Tolerance) -> Vec<Vec<f64>> {
    let one = |(input, errors): (&&Tensor, &Vec<f64>)| {
        errors.iter().zip(&input.values).map(|(error, value)| error + own.relative * value.abs()).collect()
    };
    inputs.iter().zip(errors).map(one).collect()
}

/// What the errors of the inputs make of a result.
fn carried(
    graph: &Graph,
    op: usize,
    result: usize,
    inputs: &[&Tensor],
    errors: &[Vec<f64>],
    value: &Tensor,
) -> Vec<f64> {
    if is_product(graph.ops()[op].kind) {
        return carried_by_product(graph, op, result, inputs, errors, value.values.len());
    }
    let mut bound = vec![0.0; value.values.len()];
    let mut moved: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    for (i, errors) in errors.iter().enumerate() {
        // All elements may move at once where none has to do with another.
        let together = is_pointwise(graph.ops()[op].kind) && inputs[i].dims == value.dims;
        let step = if together { errors.len().max(1) } else { 1 };
        let sets = (0..errors.len()).step_by(step).map(|at| at..at + step);
        for set in sets.filter(|set| errors[set.clone()].iter().any(|error| *error > 0.0)) {
            let mut effect = vec![0.0_f64; bound.len()];
            for sign in [-1.0, 1.0] {
                for at in set.clone() {
                    moved[i].values[at] = inputs[i].values[at] + sign * errors[at];
                }
                let there = results(graph, &graph.ops()[op], &moved).swap_remove(result);
                for ((effect, there), here) in effect.iter_mut().zip(there.values).zip(&value.values) {
                    *effect = effect.max((there - here).abs());
                }
            }
            moved[i].values[set.clone()].copy_from_slice(&inputs[i].values[set]);
            bound.iter_mut().zip(effect).for_each(|(bound, effect)| *bound += SECOND_ORDER * effect);
        }
    }
    bound
}

/// Whether an element of a result depends on one element of each input.
fn is_pointwise(kind: OpKind) -> bool {
    matches!(kind, OpKind::Add | OpKind::Subtract | OpKind::Multiply | OpKind::Divide | OpKind::TypeCast)
}

/// Sums of products of the first two inputs, to which a bias is added, or sums of the elements of one.
fn is_product(kind: OpKind) -> bool {
    use OpKind::{ConvTranspose, Convolution, MatMul, ReduceMean, ReduceSum, StaticReshape, StaticTranspose};
    matches!(
        kind,
        MatMul | Convolution | ConvTranspose | ReduceSum | ReduceMean | StaticReshape | StaticTranspose
    )
}

/// The same of a sum of products, whose effects are those of the magnitudes: an evaluation for each input.
fn carried_by_product(
    graph: &Graph,
    op: usize,
    result: usize,
    inputs: &[&Tensor],
    errors: &[Vec<f64>],
    elements: usize,
) -> Vec<f64> {
    let erring = errors.iter().enumerate().filter(|(_, errors)| errors.iter().any(|error| *error > 0.0));
    let mut bound = vec![0.0; elements];
    for (i, errors) in erring {
        let part = |(k, input): (usize, &&Tensor)| match (k == i, i < 2 && k < 2) {
            (true, _) => Tensor { values: errors.clone(), ..(**input).clone() },
            (false, true) => (**input).clone().map(f64::abs),
            (false, false) => (**input).clone().map(|_| 0.0),
        };
        let parts: Vec<Tensor> = inputs.iter().enumerate().map(part).collect();
        let effect = results(graph, &graph.ops()[op], &parts).swap_remove(result).values;
        bound.iter_mut().zip(effect).for_each(|(bound, effect)| *bound += SECOND_ORDER * effect);
    }
    bound
}

/// What the operation itself adds.
fn add_own(bound: &mut [f64], own: &Tolerance, data_type: DataType, value: &Tensor) {
    let largest = value.values.iter().filter(|v| v.is_finite()).fold(0.0_f64, |m, v| m.max(v.abs()));
    let relative = own.relative.max(2.0 * data_type.unit_roundoff());
    // A bound of one stands for another result, of integers.
    let absolute = if own.absolute < 1.0 { own.absolute } else { 0.0 };
    for (bound, value) in bound.iter_mut().zip(&value.values) {
        *bound += absolute + relative * if own.scaled { largest } else { value.abs() };
    }
}
