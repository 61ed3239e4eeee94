//! Ensembles of decision trees, for regression and classification.

use std::collections::HashMap;
use std::thread;

use anydnn_backend::{DataType, Dims, Result};
use rustc_hash::FxHashSet;

use super::super::call::Call;
use super::{greatest, labels, matrix, numbers, of_one, outputs, transform};
use crate::model::HostTensor;

/// Sums, means, least or greatest weights of the leaves that rows lead to, one column for each target.
pub(in crate::onnx) fn tree_regressor(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (rows, values, width) = matrix(call)?;
    let targets = usize::try_from(call.node.int("n_targets", 1)?).ok().filter(|count| *count <= 1 << 20);
    let targets =
        targets.ok_or_else(|| call.invalid("attribute n_targets", "out of range", "a count"))?.max(1);
    let forest = call.node.prepared(|| Forest::of(call, "target", targets))?;
    forest.check_width(call, width)?;
    let base = numbers(call, "base_values")?.unwrap_or_default();
    let way = call.node.word("aggregate_function", "SUM")?;
    let count = forest.roots.len().max(1) as f64;
    let (start, fold): (f64, Fold) = match way.as_str() {
        "SUM" | "AVERAGE" => (0.0, |sum, weight| sum + weight),
        // What is no number gives way to any.
        "MIN" => (f64::NAN, f64::min),
        "MAX" => (f64::NAN, f64::max),
        other => {
            return Err(call.invalid("attribute aggregate_function", other, "SUM, AVERAGE, MIN or MAX"));
        }
    };
    let mut made = forest.fold(call, &values, [rows, width, targets], start, fold)?;
    for line in made.chunks_mut(targets) {
        for (target, value) in line.iter_mut().enumerate() {
            let found = match way.as_str() {
                "AVERAGE" => *value / count,
                "MIN" | "MAX" if value.is_nan() => 0.0,
                _ => *value,
            };
            *value = base.get(target).copied().unwrap_or(0.0) + found;
        }
        transform(call, line)?;
    }
    call.output(Dims::from([rows, targets]), DataType::F32, &made)
}

/// The class of each row, and the sums of the weights of all classes. Of two classes, the second is chosen by its own sum as ONNX Runtime does;
/// where leaves tell of the first alone, its sum is the score of the second, and what is left belongs to the first.
pub(in crate::onnx) fn tree_classifier(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (rows, values, width) = matrix(call)?;
    let labels = labels(call, "classlabels_int64s")?;
    let classes = labels.len();
    let forest = call.node.prepared(|| Forest::of(call, "class", classes))?;
    forest.check_width(call, width)?;
    let base = numbers(call, "base_values")?.unwrap_or_default();
    if base.len() > 1 && base.len() != classes || base.len() == 2 {
        let why = format!("{} base values for {classes} classes are not read", base.len());
        return Err(call.node.unsupported(why));
    }
    let has = [0, 1].map(|class| forest.weights.iter().any(|(own, _)| *own == class));
    let are_positive = forest.weights.iter().all(|(_, weight)| *weight >= 0.0);
    let (mut chosen, mut made) = (Vec::with_capacity(rows), Vec::with_capacity(rows * classes));
    let sums = forest.fold(call, &values, [rows, width, classes], 0.0, |sum, weight| sum + weight)?;
    for line in sums.chunks(classes) {
        let mut line = line.to_vec();
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

/// Trees whose nodes attributes list. They are read once for all executions.
struct Forest {
    roots: Vec<usize>,
    nodes: Vec<Branch>,
    /// Columns with weights, those of a leaf one behind the other.
    weights: Vec<(usize, f64)>,
    /// Rows have at least so many features.
    width: usize,
}

struct Branch {
    split: f64,
    /// The nodes where the comparison holds and where it does not; of a leaf, where its weights begin and end.
    next: [usize; 2],
    feature: usize,
    mode: Mode,
    tracks_missing: bool,
}

/// What becomes of what is there and one weight more.
type Fold = fn(f64, f64) -> f64;

/// A thread finds at least so many leaves, so that its start is a small part.
const LEAVES_OF_A_THREAD: usize = 1 << 13;

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
    fn of(call: &Call, what: &str, columns: usize) -> Result<Self> {
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
        let (mut nodes, mut width) = (Vec::with_capacity(count), 0);
        for at in 0..count {
            let mode = mode(call, &modes[at])?;
            let is_leaf = mode == Mode::Leaf;
            let feature = usize::try_from(features[at]).ok().or(is_leaf.then_some(0));
            let feature =
                feature.ok_or_else(|| call.invalid("feature of a node", features[at], "a column"))?;
            let next = if is_leaf { [0; 2] } else { [find(trees[at], yes[at])?, find(trees[at], no[at])?] };
            if !is_leaf {
                width = width.max(feature.saturating_add(1));
            }
            let tracks_missing = tracks.get(at) == Some(&1);
            nodes.push(Branch { split: splits[at], next, feature, mode, tracks_missing });
        }
        // A tree begins with its first node.
        let mut begun = FxHashSet::default();
        let roots = (0..count).filter(|&at| begun.insert(trees[at])).collect();
        let own = |name: &str| format!("{what}_{name}");
        let (trees, ids, kinds) = (list(&own("treeids"))?, list(&own("nodeids"))?, list(&own("ids"))?);
        let weights = numbers(call, &own("weights"))?.unwrap_or_default();
        if ids.len() != trees.len() || kinds.len() != trees.len() || weights.len() != trees.len() {
            return Err(call.invalid("leaves", "lists of several lengths", "one entry for each"));
        }
        let mut told = Vec::with_capacity(weights.len());
        for (at, weight) in weights.into_iter().enumerate() {
            let column = usize::try_from(kinds[at]).ok().filter(|column| *column < columns);
            let column =
                column.ok_or_else(|| call.invalid(&own("ids"), kinds[at], format!("below {columns}")))?;
            told.push((find(trees[at], ids[at])?, (column, weight)));
        }
        // Weights of one leaf stay in the order of the file, in which they are summed.
        told.sort_by_key(|(leaf, _)| *leaf);
        for (at, (leaf, _)) in told.iter().enumerate() {
            let branch: &mut Branch = &mut nodes[*leaf];
            if branch.mode == Mode::Leaf {
                let begin = if branch.next[1] == 0 { at } else { branch.next[0] };
                branch.next = [begin, at + 1];
            }
        }
        let weights = told.into_iter().map(|(_, weight)| weight).collect();
        Ok(Self { roots, nodes, weights, width })
    }

    fn check_width(&self, call: &Call, width: usize) -> Result<()> {
        if self.width > width {
            return Err(call.invalid("feature of a node", self.width - 1, format!("below {width}")));
        }
        Ok(())
    }

    /// The weights of the leaves that rows lead to, folded for each column, a line for each row.
    fn fold(
        &self,
        call: &Call,
        values: &[f64],
        [rows, width, columns]: [usize; 3],
        start: f64,
        fold: Fold,
    ) -> Result<Vec<f64>> {
        let mut made = vec![start; rows * columns];
        let fill = |first: usize, lines: &mut [f64]| {
            lines.chunks_mut(columns.max(1)).enumerate().all(|(at, line)| {
                let row = &values[(first + at) * width..][..width];
                self.roots.iter().all(|&root| {
                    let Some([begin, end]) = self.leaf(root, row) else { return false };
                    for &(column, weight) in &self.weights[begin..end] {
                        line[column] = fold(line[column], weight);
                    }
                    true
                })
            })
        };
        let threads = match rows.saturating_mul(self.roots.len()) / LEAVES_OF_A_THREAD {
            0 | 1 => 1,
            most => thread::available_parallelism().map_or(1, usize::from).min(most),
        };
        let part = rows.div_ceil(threads).max(1);
        let is_whole = thread::scope(|scope| {
            let mut parts = made.chunks_mut(part * columns.max(1)).enumerate();
            let own = parts.next();
            let others: Vec<_> =
                parts.map(|(at, lines)| scope.spawn(move || fill(at * part, lines))).collect();
            let own = own.is_none_or(|(_, lines)| fill(0, lines));
            others.into_iter().all(|thread| thread.join().unwrap_or(false)) && own
        });
        if is_whole {
            Ok(made)
        } else {
            Err(call.invalid("trees", "a circle of nodes", "a leaf on every way"))
        }
    }

    #[expect(clippy::float_cmp, reason = "nodes compare for equality")]
    fn leaf(&self, root: usize, row: &[f64]) -> Option<[usize; 2]> {
        let mut at = root;
        for _ in 0..=self.nodes.len() {
            let node = &self.nodes[at];
            if node.mode == Mode::Leaf {
                return Some(node.next);
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
