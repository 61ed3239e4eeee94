//! Classical machine learning as scikit-learn's exporters write it, after the reference of the domain `ai.onnx.ml`: trees, linear models, and
//! what prepares features, on tensors of numbers.

use std::collections::HashMap;

use anydnn_backend::{DataType, Dims, Result};

use super::super::files::{ExternalData, Origin};
use super::super::tensor::host_tensor;
use super::call::Call;
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

/// Products of rows and coefficients, with intercepts, one column for each target.
pub(in crate::onnx) fn linear_regressor(call: &mut Call) -> Result<Vec<HostTensor>> {
    let targets = usize::try_from(call.node.int("targets", 1)?).unwrap_or(0).max(1);
    let (rows, mut made) = products(call, targets)?;
    for line in made.chunks_mut(targets) {
        transform(call, line)?;
    }
    call.output(Dims::from([rows, targets]), DataType::F32, &made)
}

/// The class of each row by the greatest product with its coefficients, and the products of all classes.
pub(in crate::onnx) fn linear_classifier(call: &mut Call) -> Result<Vec<HostTensor>> {
    let labels = labels(call, "classlabels_ints")?;
    let coefficients = call.node.floats("coefficients")?.unwrap_or_default().len();
    let classes = coefficients / matrix(call)?.2.max(1);
    if classes < 2 || labels.len() != classes {
        let expected = format!("one for each of {}, at least two", labels.len());
        return Err(call.invalid("classes with coefficients", classes, expected));
    }
    let (rows, mut made) = products(call, classes)?;
    let mut chosen = Vec::with_capacity(rows);
    for line in made.chunks_mut(classes) {
        chosen.push(labels[greatest(line)]);
        transform(call, line)?;
    }
    outputs(call, &chosen, [rows, classes], &made)
}

/// The difference from an offset, scaled.
pub(in crate::onnx) fn scaler(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (_, values, width) = matrix(call)?;
    let column = |name: &str, absent: f32| -> Result<Vec<f64>> {
        let given = call.node.floats(name)?.unwrap_or_else(|| vec![absent]);
        match given.len() {
            1 => Ok(vec![f64::from(given[0]); width]),
            count if count == width => Ok(given.into_iter().map(f64::from).collect()),
            count => Err(call.invalid(&format!("attribute {name}"), count, format!("1 or {width} numbers"))),
        }
    };
    let (offsets, scales) = (column("offset", 0.0)?, column("scale", 1.0)?);
    let made: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(i, value)| (value - offsets[i % width.max(1)]) * scales[i % width.max(1)])
        .collect();
    call.output(call.tensor(0)?.dims().clone(), DataType::F32, &made)
}

/// Rows by their norm; rows without any stay as they are.
pub(in crate::onnx) fn normalizer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (_, mut values, width) = matrix(call)?;
    let norm = call.node.word("norm", "MAX")?;
    for row in values.chunks_mut(width.max(1)) {
        let size = match norm.as_str() {
            "MAX" => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            "L1" => row.iter().map(|value| value.abs()).sum(),
            "L2" => row.iter().map(|value| value * value).sum::<f64>().sqrt(),
            other => return Err(call.invalid("attribute norm", other, "MAX, L1 or L2")),
        };
        if size != 0.0 {
            row.iter_mut().for_each(|value| *value /= size);
        }
    }
    call.output(call.tensor(0)?.dims().clone(), DataType::F32, &values)
}

/// Another number in place of missing ones.
#[expect(clippy::float_cmp, reason = "missing is what equals the one number that stands for it")]
pub(in crate::onnx) fn imputer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (_, mut values, width) = matrix(call)?;
    let src = call.tensor(0)?;
    let is_whole = src.data_type().is_integer();
    let (given, replaced) = if is_whole {
        let given = call.node.ints("imputed_value_int64s")?.unwrap_or_default();
        (given.iter().map(|&value| value as f64).collect(), call.node.int("replaced_value_int64", 0)? as f64)
    } else {
        let given = call.node.floats("imputed_value_floats")?.unwrap_or_default();
        let replaced = f64::from(call.node.float("replaced_value_float", 0.0)?);
        (given.into_iter().map(f64::from).collect::<Vec<f64>>(), replaced)
    };
    if given.len() != 1 && given.len() != width {
        return Err(call.invalid("imputed values", given.len(), format!("1 or {width}")));
    }
    for (i, value) in values.iter_mut().enumerate() {
        if *value == replaced || value.is_nan() && replaced.is_nan() {
            *value = given[if given.len() == 1 { 0 } else { i % width }];
        }
    }
    call.output(src.dims().clone(), src.data_type(), &values)
}

/// Other numbers in place of keys.
pub(in crate::onnx) fn label_encoder(call: &mut Call) -> Result<Vec<HostTensor>> {
    let node = call.node;
    let src = call.tensor(0)?;
    let list = |way: &str| -> Result<Option<(Vec<f64>, DataType)>> {
        if let Some(ints) = node.ints(&format!("{way}_int64s"))? {
            return Ok(Some((ints.into_iter().map(|value| value as f64).collect(), DataType::S64)));
        }
        if let Some(floats) = node.floats(&format!("{way}_floats"))? {
            return Ok(Some((floats.into_iter().map(f64::from).collect(), DataType::F32)));
        }
        let Some(tensor) = node.tensor(&format!("{way}_tensor"))? else { return Ok(None) };
        let tensor = host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?;
        Ok(Some((tensor.to_f64s(), tensor.data_type())))
    };
    let (Some((keys, _)), Some((values, to))) = (list("keys")?, list("values")?) else {
        return Err(node.unsupported("keys and values that are strings are not read"));
    };
    if keys.len() != values.len() {
        return Err(call.invalid("values", values.len(), format!("one for each of {} keys", keys.len())));
    }
    let absent = match node.tensor("default_tensor")? {
        Some(tensor) => host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?.number(),
        None if to == DataType::S64 => Some(node.int("default_int64", -1)? as f64),
        None => Some(f64::from(node.float("default_float", -0.0)?)),
    };
    let absent = absent.ok_or_else(|| call.invalid("attribute default_tensor", "several", "one number"))?;
    let places: HashMap<u64, f64> = keys.iter().map(|&key| bits(key)).zip(values).collect();
    let made: Vec<f64> =
        src.to_f64s().into_iter().map(|key| places.get(&bits(key)).copied().unwrap_or(absent)).collect();
    call.output(src.dims().clone(), to, &made)
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

/// The numbers of two classes for the score of the second.
fn of_one(call: &Call, score: f64, are_positive: bool) -> Result<[f64; 2]> {
    match call.node.word("post_transform", "NONE")?.as_str() {
        "LOGISTIC" => Ok([logistic(-score), logistic(score)]),
        "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" if are_positive => Ok([1.0 - score, score]),
        "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" => Ok([-score, score]),
        other => Err(call.node.unsupported(format!("the transformation {other} of two classes is not read"))),
    }
}

/// The transformation of a row that the node names.
fn transform(call: &Call, row: &mut [f64]) -> Result<()> {
    match call.node.word("post_transform", "NONE")?.as_str() {
        "NONE" => {}
        "LOGISTIC" => row.iter_mut().for_each(|value| *value = logistic(*value)),
        way @ ("SOFTMAX" | "SOFTMAX_ZERO") => {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // What is nearly zero stays so with the latter.
            let keeps = |value: f64| way == "SOFTMAX_ZERO" && value.abs() <= 1e-7;
            for value in row.iter_mut() {
                *value = if keeps(*value) { 0.0 } else { (*value - most).exp() };
            }
            let sum: f64 = row.iter().sum();
            row.iter_mut().filter(|_| sum != 0.0).for_each(|value| *value /= sum);
        }
        other => return Err(call.node.unsupported(format!("the transformation {other} is not read"))),
    }
    Ok(())
}

fn logistic(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

/// Rows times the coefficients of columns, with intercepts.
fn products(call: &Call, columns: usize) -> Result<(usize, Vec<f64>)> {
    let (rows, values, width) = matrix(call)?;
    let coefficients = call.node.floats("coefficients")?.unwrap_or_default();
    let intercepts = call.node.floats("intercepts")?.unwrap_or_else(|| vec![0.0; columns]);
    if coefficients.len() != columns * width || intercepts.len() != columns {
        let given = format!("{} and {}", coefficients.len(), intercepts.len());
        let expected = format!("{columns} times {width}, and {columns}");
        return Err(call.invalid("coefficients and intercepts", given, expected));
    }
    let mut made = Vec::with_capacity(rows * columns);
    for row in values.chunks(width.max(1)).take(rows) {
        for (column, own) in coefficients.chunks(width.max(1)).enumerate() {
            let sum: f64 = row.iter().zip(own).map(|(a, b)| a * f64::from(*b)).sum();
            made.push(sum + f64::from(intercepts[column]));
        }
    }
    Ok((rows, made))
}

/// The rows of the source, its values, and how many each row has. One row may come without the dimension.
fn matrix(call: &Call) -> Result<(usize, Vec<f64>, usize)> {
    let src = call.tensor(0)?;
    match src.dims()[..] {
        [width] => Ok((1, src.to_f64s(), width)),
        [rows, width] => Ok((rows, src.to_f64s(), width)),
        _ => Err(call.invalid("input 0", src.desc(), "[rows, features]")),
    }
}

fn labels(call: &Call, name: &str) -> Result<Vec<i64>> {
    match call.node.ints(name)? {
        Some(labels) if !labels.is_empty() => Ok(labels),
        _ => Err(call.node.unsupported("classes that are strings are not read")),
    }
}

fn outputs(call: &mut Call, chosen: &[i64], dims: [usize; 2], scores: &[f64]) -> Result<Vec<HostTensor>> {
    let labels = call.numbers(Dims::from([dims[0]]), DataType::S64, chosen.to_vec())?;
    Ok(vec![labels, call.floats(Dims::from(dims), DataType::F32, scores)?])
}

/// The first of the greatest.
fn greatest(row: &[f64]) -> usize {
    (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}

/// Floats of an attribute, or of its form as a tensor, which has them in f64.
fn numbers(call: &Call, name: &str) -> Result<Option<Vec<f64>>> {
    if let Some(floats) = call.node.floats(name)? {
        return Ok(Some(floats.into_iter().map(f64::from).collect()));
    }
    let Some(tensor) = call.node.tensor(&format!("{name}_as_tensor"))? else { return Ok(None) };
    Ok(Some(host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?.to_f64s()))
}

/// A number as a key; all that are none are one key, and so are both zeros.
fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
