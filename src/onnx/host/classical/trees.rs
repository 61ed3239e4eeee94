//! Ensembles of decision trees, for regression and classification.

use std::collections::HashMap;

use anydnn_backend::{DataType, Dims, Result};

use super::super::call::Call;
use super::{greatest, labels, matrix, numbers, of_one, outputs, transform};
use crate::model::HostTensor;

/// Sums, means, least or greatest weights of the leaves that rows lead to, one column for each target.
pub(in crate::onnx) fn tree_regressor(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (rows, values, width) = matrix(call)?;
    let targets = usize::try_from(call.node.int("n_targets", 1)?).ok().filter(|count| *count <= 1 << 20);
    let targets =
        targets.ok_or_else(|| call.invalid("attribute n_targets", "out of range", "a count"))?.max(1);
    let forest = Forest::of(call, "target", width, targets)?;
    let base = numbers(call, "base_values")?.unwrap_or_default();
    let way = call.node.word("aggregate_function", "SUM")?;
    let mut made = Vec::with_capacity(rows * targets);
    for row in values.chunks(width.max(1)).take(rows) {
        let mut all = vec![Vec::new(); targets];
        forest.each(call, row, |target, weight| all[target].push(weight))?;
        let mut line: Vec<f64> = Vec::with_capacity(targets);
        for (target, found) in all.into_iter().enumerate() {
            let own = base.get(target).copied().unwrap_or(0.0);
            line.push(
                own + match way.as_str() {
                    "SUM" => found.iter().sum::<f64>(),
                    "AVERAGE" => found.iter().sum::<f64>() / forest.roots.len().max(1) as f64,
                    "MIN" => found.into_iter().reduce(f64::min).unwrap_or(0.0),
                    "MAX" => found.into_iter().reduce(f64::max).unwrap_or(0.0),
                    other => {
                        return Err(call.invalid(
                            "attribute aggregate_function",
                            other,
                            "SUM, AVERAGE, MIN or MAX",
                        ));
                    }
                },
            );
        }
        transform(call, &mut line)?;
        made.extend(line);
    }
    call.output(Dims::from([rows, targets]), DataType::F32, &made)
}

/// The class of each row, and the sums of the weights of all classes. Of two classes, the second is chosen by its own sum as ONNX Runtime does;
/// where leaves tell of the first alone, its sum is the score of the second, and what is left belongs to the first.
pub(in crate::onnx) fn tree_classifier(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (rows, values, width) = matrix(call)?;
    let labels = labels(call, "classlabels_int64s")?;
    let classes = labels.len();
    let forest = Forest::of(call, "class", width, classes)?;
    let base = numbers(call, "base_values")?.unwrap_or_default();
    if base.len() > 1 && base.len() != classes || base.len() == 2 {
        let why = format!("{} base values for {classes} classes are not read", base.len());
        return Err(call.node.unsupported(why));
    }
    let leaves = || forest.leaves.values().flatten();
    let has = [0, 1].map(|class| leaves().any(|(own, _)| *own == class));
    let are_positive = leaves().all(|(_, weight)| *weight >= 0.0);
    let (mut chosen, mut made) = (Vec::with_capacity(rows), Vec::with_capacity(rows * classes));
    for row in values.chunks(width.max(1)).take(rows) {
        let mut line = vec![0.0; classes];
        forest.each(call, row, |class, weight| line[class] += weight)?;
        if base.len() == classes || has[0] {
            line.iter_mut().zip(&base).for_each(|(score, base)| *score += base);
        }
        if classes != 2 {
            chosen.push(labels[greatest(&line)]);
            transform(call, &mut line)?;
            made.extend(line);
            continue;
        }
        let score = line[usize::from(has[1])];
        let least = if are_positive && has[0] != has[1] { 0.5 } else { 0.0 };
        chosen.push(labels[usize::from(score > least)]);
        if has[1] {
            transform(call, &mut line)?;
            made.extend(line);
        } else {
            made.extend(of_one(call, score, are_positive)?);
        }
    }
    outputs(call, &chosen, [rows, classes], &made)
}

/// Trees whose nodes attributes list.
struct Forest {
    roots: Vec<usize>,
    nodes: Vec<Branch>,
    /// The columns and weights of each leaf.
    leaves: HashMap<usize, Vec<(usize, f64)>>,
}

struct Branch {
    feature: usize,
    mode: Mode,
    split: f64,
    next: [usize; 2],
    tracks_missing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Leaf,
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Other,
}

impl Forest {
    /// The trees of a node whose leaves have the columns that `what` says, below `columns`.
    fn of(call: &Call, what: &str, width: usize, columns: usize) -> Result<Self> {
        let list = |name: &str| -> Result<Vec<i64>> {
            let missing = || call.invalid(&format!("attribute {name}"), "missing", "a list of integers");
            call.node.ints(name)?.ok_or_else(missing)
        };
        let (trees, ids) = (list("nodes_treeids")?, list("nodes_nodeids")?);
        let features = list("nodes_featureids")?;
        let (yes, no) = (list("nodes_truenodeids")?, list("nodes_falsenodeids")?);
        let modes = call.node.words("nodes_modes")?.unwrap_or_default();
        let splits = numbers(call, "nodes_values")?.unwrap_or_default();
        let tracks = call.node.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
        let count = ids.len();
        for (name, given) in [
            ("nodes_treeids", trees.len()),
            ("nodes_featureids", features.len()),
            ("nodes_truenodeids", yes.len()),
            ("nodes_falsenodeids", no.len()),
            ("nodes_modes", modes.len()),
            ("nodes_values", splits.len()),
        ] {
            if given != count {
                return Err(call.invalid(&format!("attribute {name}"), given, format!("{count} entries")));
            }
        }
        let places: HashMap<(i64, i64), usize> =
            trees.iter().copied().zip(ids.iter().copied()).zip(0..).collect();
        let find = |tree: i64, id: i64| {
            let unknown = || call.invalid("nodes", format!("{id} of tree {tree}"), "one that is listed");
            places.get(&(tree, id)).copied().ok_or_else(unknown)
        };
        let mut nodes = Vec::with_capacity(count);
        for at in 0..count {
            let mode = mode(call, &modes[at])?;
            let feature = usize::try_from(features[at]).unwrap_or(usize::MAX);
            let is_leaf = mode == Mode::Leaf;
            if !is_leaf && feature >= width {
                return Err(call.invalid("feature of a node", features[at], format!("below {width}")));
            }
            let next = if is_leaf { [at; 2] } else { [find(trees[at], yes[at])?, find(trees[at], no[at])?] };
            let tracks_missing = tracks.get(at) == Some(&1);
            nodes.push(Branch { feature, mode, split: splits[at], next, tracks_missing });
        }
        // A tree begins with its first node.
        let mut roots: Vec<usize> = Vec::new();
        for at in 0..count {
            if !roots.iter().any(|&root| trees[root] == trees[at]) {
                roots.push(at);
            }
        }
        let own = |name: &str| format!("{what}_{name}");
        let (trees, ids, kinds) = (list(&own("treeids"))?, list(&own("nodeids"))?, list(&own("ids"))?);
        let weights = numbers(call, &own("weights"))?.unwrap_or_default();
        if ids.len() != trees.len() || kinds.len() != trees.len() || weights.len() != trees.len() {
            return Err(call.invalid("leaves", "lists of several lengths", "one entry for each"));
        }
        let mut leaves: HashMap<usize, Vec<(usize, f64)>> = HashMap::new();
        for (at, weight) in weights.into_iter().enumerate() {
            let column = usize::try_from(kinds[at]).ok().filter(|column| *column < columns);
            let column =
                column.ok_or_else(|| call.invalid(&own("ids"), kinds[at], format!("below {columns}")))?;
            leaves.entry(find(trees[at], ids[at])?).or_default().push((column, weight));
        }
        Ok(Self { roots, nodes, leaves })
    }

    /// Tells the columns and weights of the leaves that a row leads to.
    fn each(&self, call: &Call, row: &[f64], mut told: impl FnMut(usize, f64)) -> Result<()> {
        for &root in &self.roots {
            let leaf = self.leaf(root, row);
            let leaf =
                leaf.ok_or_else(|| call.invalid("trees", "a circle of nodes", "a leaf on every way"))?;
            for &(column, weight) in self.leaves.get(&leaf).into_iter().flatten() {
                told(column, weight);
            }
        }
        Ok(())
    }

    #[expect(clippy::float_cmp, reason = "nodes compare for equality")]
    fn leaf(&self, root: usize, row: &[f64]) -> Option<usize> {
        let mut at = root;
        for _ in 0..=self.nodes.len() {
            let node = &self.nodes[at];
            if node.mode == Mode::Leaf {
                return Some(at);
            }
            let value = row[node.feature];
            let holds = match node.mode {
                Mode::AtMost => value <= node.split,
                Mode::Below => value < node.split,
                Mode::AtLeast => value >= node.split,
                Mode::Above => value > node.split,
                Mode::Equal => value == node.split,
                Mode::Other | Mode::Leaf => value != node.split,
            };
            at = node.next[usize::from(!(holds || value.is_nan() && node.tracks_missing))];
        }
        None
    }
}

fn mode(call: &Call, name: &str) -> Result<Mode> {
    Ok(match name {
        "LEAF" => Mode::Leaf,
        "BRANCH_LEQ" => Mode::AtMost,
        "BRANCH_LT" => Mode::Below,
        "BRANCH_GTE" => Mode::AtLeast,
        "BRANCH_GT" => Mode::Above,
        "BRANCH_EQ" => Mode::Equal,
        "BRANCH_NEQ" => Mode::Other,
        other => {
            return Err(call.invalid("attribute nodes_modes", other, "LEAF or a branch such as BRANCH_LEQ"));
        }
    })
}
