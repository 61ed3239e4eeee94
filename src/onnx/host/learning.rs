//! Classical machine learning: counts of n-grams, ensembles of trees, features by index and by threshold.

use std::collections::HashMap;

use anydnn_backend::{Dims, Error, Result};

use super::super::files::{ExternalData, Origin};
use super::super::tensor::host_tensor;
use super::call::Call;
use super::numbers::picked;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// How often each n-gram of a pool occurs in rows of integers, weighed.
pub(in crate::onnx) fn term_frequencies(call: &mut Call) -> Result<Vec<HostTensor>> {
    let node = call.node;
    let (src, values) = (call.tensor(0)?, call.ints(0)?);
    let Some(pool) = node.ints("pool_int64s")? else {
        return Err(node.unsupported("n-grams of strings are not read"));
    };
    let missing = |name: &str| node.invalid(&format!("attribute {name}"), "missing", "a list of integers");
    let starts = node.ints("ngram_counts")?.ok_or_else(|| missing("ngram_counts"))?;
    let columns = node.ints("ngram_indexes")?.ok_or_else(|| missing("ngram_indexes"))?;
    let grams = pooled(&pool, &starts).filter(|grams| grams.len() == columns.len());
    let grams = grams.ok_or_else(|| {
        node.invalid("attribute pool_int64s", pool.len(), "n-grams from where ngram_counts says")
    })?;
    let width = columns.iter().copied().max().map_or(0, |most| most.saturating_add(1));
    let fits = columns.iter().all(|column| *column >= 0) && width <= 1 << 24;
    let width = usize::try_from(width).ok().filter(|_| fits);
    let width = width.ok_or_else(|| node.invalid("attribute ngram_indexes", "out of range", "columns"))?;
    let weights = node.floats("weights")?.unwrap_or_else(|| vec![1.0; columns.len()]);
    if weights.len() != columns.len() {
        return Err(node.invalid("attribute weights", weights.len(), columns.len().to_string()));
    }
    let (rows, length) = match src.dims()[..] {
        [length] => (1, length),
        [rows, length] => (rows, length),
        _ => return Err(call.invalid("input 0", src.desc(), "one or two dimensions")),
    };
    let lengths = (node.int("min_gram_length", 1)?.max(1), node.int("max_gram_length", 1)?);
    let skips = node.int("max_skip_count", 0)?;
    let mut dims = src.dims().clone();
    let last = dims.len() - 1;
    dims[last] = width;
    call.take(&dims, anydnn_backend::DataType::F32)?;
    let places: HashMap<&[i64], usize> = grams.iter().enumerate().map(|(i, gram)| (*gram, i)).collect();
    let longest = grams.iter().map(|gram| gram.len()).max().unwrap_or(0);
    let mut made = vec![0.0; rows * width];
    for (row, values) in values.chunks(length.max(1)).take(rows).enumerate() {
        let mut counts = vec![0.0_f64; grams.len()];
        for count in lengths.0..=lengths.1.min(longest as i64) {
            let count = count as usize;
            // Single ones have nothing to skip.
            let most = if count == 1 { 0 } else { skips.clamp(0, length as i64) as usize };
            for step in 1..=most + 1 {
                let reach = (count - 1).saturating_mul(step);
                for start in 0..length.saturating_sub(reach) {
                    let gram: Vec<i64> = (0..count).map(|i| values[start + i * step]).collect();
                    if let Some(&at) = places.get(&gram[..]) {
                        counts[at] += 1.0;
                    }
                }
            }
        }
        for (at, count) in counts.into_iter().enumerate() {
            let weight = f64::from(weights[at]);
            made[row * width + columns[at] as usize] += match node.word("mode", "TF")?.as_str() {
                "TF" => count,
                "IDF" => count.min(1.0) * weight,
                "TFIDF" => count * weight,
                other => return Err(node.invalid("attribute mode", other, "TF, IDF or TFIDF")),
            };
        }
    }
    call.output(dims, anydnn_backend::DataType::F32, &made)
}

/// The n-grams of a pool: those of one element first, each length from where `starts` says.
fn pooled<'a>(pool: &'a [i64], starts: &[i64]) -> Option<Vec<&'a [i64]>> {
    let mut grams = Vec::new();
    for (i, &start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).map_or(Some(pool.len()), |&end| usize::try_from(end).ok())?;
        let part = pool.get(usize::try_from(start).ok()?..end)?;
        if !part.len().is_multiple_of(i + 1) {
            return None;
        }
        grams.extend(part.chunks(i + 1));
    }
    Some(grams)
}

/// Columns by their indices.
pub(in crate::onnx) fn features(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, indices) = (call.tensor(0)?, call.ints(1)?);
    let Some((&extent, rows)) = src.dims().split_last() else {
        return Err(call.invalid("input 0", src.desc(), "at least one dimension"));
    };
    let columns: Vec<usize> =
        indices.iter().map(|&index| normalize_axis(index, extent)).collect::<Result<_>>()?;
    // One row stays a row.
    let mut dims = if rows.is_empty() { vec![1] } else { rows.to_vec() };
    let rows: usize = dims.iter().product();
    dims.push(columns.len());
    let dims = Dims::from(dims);
    call.take(&dims, src.data_type())?;
    let places = (0..rows).flat_map(|row| columns.iter().map(move |column| row * extent + column));
    Ok(vec![picked(src, dims, places)?])
}

/// One above a threshold, else zero.
pub(in crate::onnx) fn binarized(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let threshold = f64::from(call.node.float("threshold", 0.0)?);
    let values: Vec<f64> =
        src.to_f64s().into_iter().map(|value| f64::from(u8::from(value > threshold))).collect();
    call.output(src.dims().clone(), src.data_type(), &values)
}

/// The nodes and leaves of an ensemble, read once for all executions.
struct Trees {
    features: Vec<usize>,
    modes: Vec<f64>,
    splits: Vec<f64>,
    /// For each node the next one where its condition holds, and where not, and whether these are leaves.
    next: [Vec<(usize, bool)>; 2],
    missing: Vec<i64>,
    sets: Vec<Vec<f64>>,
    targets: Vec<usize>,
    weights: Vec<f64>,
}

/// Sums, means, least or greatest weights of the leaves that rows of features lead to.
pub(in crate::onnx) fn tree_ensemble(call: &mut Call) -> Result<Vec<HostTensor>> {
    let node = call.node;
    let src = call.ranked(0, 2)?;
    let (rows, width) = (src.dims()[0], src.dims()[1]);
    if node.int("post_transform", 0)? != 0 {
        return Err(node.unsupported("results that are transformed are not read"));
    }
    let targets = usize::try_from(node.int("n_targets", 1)?).ok().filter(|count| *count <= 1 << 20);
    let targets = targets.ok_or_else(|| node.invalid("attribute n_targets", "out of range", "a count"))?;
    let roots = list(call, "tree_roots")?;
    let trees = node.prepared(|| Trees::of(call, targets))?;
    if let Some(feature) = trees.features.iter().find(|feature| **feature >= width) {
        return Err(call.invalid("feature of a node", feature, format!("below {width}")));
    }
    let dims = Dims::from([rows, targets]);
    call.take(&dims, src.data_type())?;
    let way = node.int("aggregate_function", 1)?;
    let mut made = vec![0.0; rows * targets];
    let values = src.to_f64s();
    for row in 0..rows {
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); targets];
        for &root in &roots {
            let leaf = trees.leaf(root, &values[row * width..(row + 1) * width]);
            let leaf = leaf.ok_or_else(|| node.invalid("trees", "without an end", "a leaf on every way"))?;
            found[trees.targets[leaf]].push(trees.weights[leaf]);
        }
        for (target, found) in found.into_iter().enumerate() {
            made[row * targets + target] = match way {
                0 => found.iter().sum::<f64>() / roots.len() as f64,
                1 => found.iter().sum(),
                2 => found.into_iter().reduce(f64::min).unwrap_or(0.0),
                3 => found.into_iter().reduce(f64::max).unwrap_or(0.0),
                other => return Err(node.invalid("attribute aggregate_function", other, "0 to 3")),
            };
        }
    }
    call.output(dims, src.data_type(), &made)
}

impl Trees {
    fn of(call: &Call, target_count: usize) -> Result<Self> {
        let node = call.node;
        let features = list(call, "nodes_featureids")?;
        let count = features.len();
        let wrong = |what: &str| node.invalid(what, "of another length or out of range", "one for each node");
        let mut next = [Vec::new(), Vec::new()];
        for (next, name) in next.iter_mut().zip(["true", "false"]) {
            let ids = list(call, &format!("nodes_{name}nodeids"))?;
            let leaves = list(call, &format!("nodes_{name}leafs"))?;
            if ids.len() != count || leaves.len() != count {
                return Err(wrong(name));
            }
            next.extend(ids.into_iter().zip(leaves.into_iter().map(|leaf| leaf != 0)));
        }
        let trees = Self {
            features,
            modes: reals(call, "nodes_modes")?.unwrap_or_default(),
            splits: reals(call, "nodes_splits")?.unwrap_or_default(),
            next,
            missing: node.ints("nodes_missing_value_tracks_true")?.unwrap_or_default(),
            sets: sets(&reals(call, "membership_values")?.unwrap_or_default()),
            targets: list(call, "leaf_targetids")?,
            weights: reals(call, "leaf_weights")?.unwrap_or_default(),
        };
        let fits = trees.modes.len() == count
            && trees.splits.len() == count
            && trees.targets.len() == trees.weights.len()
            && trees.targets.iter().all(|target| *target < target_count);
        if fits { Ok(trees) } else { Err(wrong("nodes and leaves")) }
    }

    /// The leaf that a row leads to; none where nodes lead in a circle or nowhere.
    #[expect(clippy::float_cmp, reason = "nodes compare for equality")]
    fn leaf(&self, root: usize, row: &[f64]) -> Option<usize> {
        let mut at = root;
        for _ in 0..=self.features.len() {
            let value = row[*self.features.get(at)?];
            let split = self.splits[at];
            let holds = match self.modes[at] as u8 {
                0 => value <= split,
                1 => value < split,
                2 => value >= split,
                3 => value > split,
                4 => value == split,
                5 => value != split,
                _ => {
                    let set = self.modes[..at].iter().filter(|mode| **mode as u8 >= 6).count();
                    self.sets.get(set)?.contains(&value)
                }
            };
            let holds = holds || value.is_nan() && self.missing.get(at) == Some(&1);
            let (next, is_leaf) = self.next[usize::from(!holds)][at];
            if is_leaf {
                return Some(next).filter(|leaf| *leaf < self.weights.len());
            }
            at = next;
        }
        None
    }
}

/// Sets, NaN behind each.
fn sets(values: &[f64]) -> Vec<Vec<f64>> {
    let mut sets: Vec<Vec<f64>> = values.split(|value| value.is_nan()).map(<[f64]>::to_vec).collect();
    sets.pop();
    sets
}

/// An attribute of indices.
fn list(call: &Call, name: &str) -> Result<Vec<usize>> {
    let wrong = || -> Error {
        call.invalid(&format!("attribute {name}"), "missing or negative", "a list of indices")
    };
    let given = call.node.ints(name)?.ok_or_else(wrong)?;
    given.into_iter().map(|index| usize::try_from(index).map_err(|_| wrong())).collect()
}

/// The values of an attribute that is a tensor.
fn reals(call: &Call, name: &str) -> Result<Option<Vec<f64>>> {
    let Some(tensor) = call.node.tensor(name)? else { return Ok(None) };
    Ok(Some(host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?.to_f64s()))
}
