//! From parts of operations to one expression, if they go together.

use std::collections::HashMap;

use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{Dims, Error, Result};

use super::draft::{Draft, Operand, Scope, Space, apart};
use super::layout::{Fit, Layout, Part, Split, layout};
use super::translate::translate;
use crate::graph::{Graph, TensorId};

/// More nodes would take too many registers, but for numbers; more operands too many arguments of a kernel.
const MOST_NODES: usize = 96;
const MOST_OPERANDS: usize = 20;

/// One expression and what it is bound to.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) expression: Expression,
    pub(super) operands: Vec<Operand>,
    /// The tensors it makes, with the dimensions under which the expression writes them.
    pub(super) results: Vec<(TensorId, Dims)>,
}

/// Builds the expression of parts in topological order; `needed` says which tensors must be stored.
///
/// # Errors
/// Why they do not go together, or what is wrong with one of them.
pub(super) fn plan(graph: &Graph, parts: &[Part], needed: impl Fn(TensorId) -> bool) -> Result<Plan> {
    let layouts: Vec<Layout> = parts.iter().map(|&part| layout(graph, part)).collect::<Result<_>>()?;
    // The largest space holds the others.
    let widest = layouts.iter().max_by_key(|layout| (layout.dims.elements(), layout.dims.len()));
    let dims = widest.map(|layout| layout.dims.clone()).unwrap_or_default();
    let mut space = Space { dims, ..Space::default() };
    let maps = maps(graph, parts, &layouts, &space.dims)?;
    fold_axes(graph, &mut space, parts, &layouts, &maps)?;
    let mut draft = Draft::new(graph, space);
    translate_all(&mut draft, parts, &layouts, &maps)?;
    let mut results = Vec::new();
    let mut nodes = Vec::new();
    for (part, layout) in parts.iter().zip(&layouts) {
        for &(i, _) in &layout.outputs {
            let Some(&id) = graph.ops()[part.op].outputs.get(i) else { continue };
            if let (true, Some(node), Some(view)) = (needed(id), draft.node_of(id), draft.view_of(id)) {
                results.push((id, view?));
                nodes.push(node);
            }
        }
    }
    let mut expression = draft.expression();
    expression.results = nodes;
    check_results(&expression, &draft.operands, &results)?;
    if parts.len() > 1 {
        let operands = draft.operands.len() + results.len();
        let nodes = expression.nodes.iter().filter(|node| !matches!(node, Node::Constant(_))).count();
        if nodes > MOST_NODES || operands > MOST_OPERANDS {
            return Err(Error::unsupported("expression", "more nodes or operands than one launch takes"));
        }
    }
    Ok(Plan { expression, operands: draft.operands, results })
}

/// Adds the nodes of pointwise parts to a draft whose space is given.
pub(super) fn extend(draft: &mut Draft<'_>, parts: &[Part]) -> Result<()> {
    let graph = draft.graph;
    let layouts: Vec<Layout> = parts.iter().map(|&part| layout(graph, part)).collect::<Result<_>>()?;
    let dims = draft.space.dims.clone();
    let maps = maps(graph, parts, &layouts, &dims)?;
    if let Some((part, _)) = parts.iter().zip(&layouts).find(|(_, layout)| !layout.folded.is_empty()) {
        return Err(apart(&graph.ops()[part.op]));
    }
    translate_all(draft, parts, &layouts, &maps)
}

fn translate_all(
    draft: &mut Draft<'_>,
    parts: &[Part],
    layouts: &[Layout],
    maps: &[Vec<usize>],
) -> Result<()> {
    for ((part, layout), map) in parts.iter().zip(layouts).zip(maps) {
        let op = &draft.graph.ops()[part.op];
        translate(&mut Scope { draft: &mut *draft, op, side: part.side, layout, map })
            .map_err(|error| error.at(op.to_string()))?;
    }
    Ok(())
}

/// The axis of the space for each axis of each part. A part of the same dimensions takes all of them; another lies where the tensors
/// lie that it shares with its neighbours, else along the last.
fn maps(graph: &Graph, parts: &[Part], layouts: &[Layout], dims: &Dims) -> Result<Vec<Vec<usize>>> {
    let made: HashMap<TensorId, (usize, &Fit)> = parts
        .iter()
        .zip(layouts)
        .enumerate()
        .flat_map(|(k, (part, layout))| {
            let outputs = &graph.ops()[part.op].outputs;
            layout.outputs.iter().filter_map(move |(i, fit)| Some((*outputs.get(*i)?, (k, fit))))
        })
        .collect();
    let mut maps: Vec<Option<Vec<usize>>> =
        layouts.iter().map(|layout| (layout.dims == *dims).then(|| (0..dims.len()).collect())).collect();
    // How a fit that covers all axes of a part places it.
    let placed = |other: &Fit, map: &[usize], own: &Fit, rank: usize| -> Option<Vec<usize>> {
        let whole = own.axes.len() == rank && !own.grouped && !other.grouped && own.dims == other.dims;
        whole.then(|| other.axes.iter().map(|&axis| map[axis]).collect())
    };
    loop {
        let mut changed = false;
        for k in 0..parts.len() {
            for (&id, fit) in graph.ops()[parts[k].op].inputs.iter().zip(&layouts[k].inputs) {
                let (Some(fit), Some(&(from, own))) = (fit, made.get(&id)) else { continue };
                let found = match (&maps[from], &maps[k]) {
                    (Some(map), None) => (k, placed(own, map, fit, layouts[k].dims.len())),
                    (None, Some(map)) => (from, placed(fit, map, own, layouts[from].dims.len())),
                    _ => continue,
                };
                if let (at, Some(map)) = found {
                    maps[at] = Some(map);
                    changed = true;
                }
            }
        }
        if changed {
            continue;
        }
        let Some(k) = maps.iter().position(Option::is_none) else { break };
        let rank = layouts[k].dims.len();
        if rank > dims.len() {
            return Err(apart(&graph.ops()[parts[k].op]));
        }
        maps[k] = Some((dims.len() - rank..dims.len()).collect());
    }
    let maps: Vec<Vec<usize>> = maps.into_iter().flatten().collect();
    for ((map, layout), part) in maps.iter().zip(layouts).zip(parts) {
        let ascending = map.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = map.iter().zip(layout.dims.iter()).all(|(&axis, &dim)| dim == 1 || dim == dims[axis]);
        if !ascending || !fits {
            return Err(apart(&graph.ops()[part.op]));
        }
    }
    Ok(maps)
}

/// Takes over the folded axes, which must be the same for all parts that fold.
fn fold_axes(
    graph: &Graph,
    space: &mut Space,
    parts: &[Part],
    layouts: &[Layout],
    maps: &[Vec<usize>],
) -> Result<()> {
    let mut folds = false;
    for ((part, layout), map) in parts.iter().zip(layouts).zip(maps) {
        if layout.folded.is_empty() && layout.split.is_none() {
            continue;
        }
        let whole = |&axis: &usize| layout.dims[axis] == space.dims[map[axis]];
        let folded: Vec<usize> = layout.folded.iter().map(|&axis| map[axis]).collect();
        let split = layout.split.map(|split| Split { axis: map[split.axis], ..split });
        let same = !folds || (folded == space.folded && split == space.split);
        if !same || !layout.folded.iter().chain(&layout.split.map(|split| split.axis)).all(whole) {
            return Err(apart(&graph.ops()[part.op]));
        }
        (space.folded, space.split, folds) = (folded, split, true);
    }
    Ok(())
}

/// Checks that every result can be written: along the whole space, or one for each fold.
fn check_results(expression: &Expression, operands: &[Operand], results: &[(TensorId, Dims)]) -> Result<()> {
    let varies = expression.varies(|i| operands.get(usize::from(i)).map(|operand| operand.view.clone()));
    let folded = expression.folded_dims();
    for (&node, (id, view)) in expression.results.iter().zip(results) {
        if *view != expression.dims && (*view != folded || varies[node]) {
            let reason = format!("tensor {id} would be written as {view} from {}", expression.dims);
            return Err(Error::unsupported("expression", reason));
        }
    }
    Ok(())
}
