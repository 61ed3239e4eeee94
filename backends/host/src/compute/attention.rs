//! Attention: a block of query rows at a time, whose scores alone are in memory.

use std::borrow::Cow;

use anydnn_backend::op::{Attention, Expression};
use anydnn_backend::{Arg, Dims, PrimitiveDesc, Result};
use rayon::prelude::*;

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::expression::{Leaves, Plan, apply, reads};
use super::gemm::{Matrix, multiply};
use super::operands::{Operands, Results};
use super::pack::pack;

/// Scores that one task holds, unless a row has more.
const SCORES: usize = 1 << 16;
/// The most query rows of a task.
const ROWS: usize = 64;

pub(crate) fn compute<T: Float>(
    op: &Attention,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let kernel = Kernel::<T>::new(op, operands)?;
    let epilogue = Epilogue::new(operands)?;
    let stats_desc = operands.desc.find(Arg::Dst(1));
    let rows = kernel.queries * kernel.sequence;
    let mut stats = vec![T::from_f64(f64::NEG_INFINITY); if stats_desc.is_some() { rows } else { 0 }];
    let mut done = false;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        kernel.run(out, &mut stats);
        done = true;
        Ok(())
    })?;
    let Some(desc) = stats_desc else { return Ok(()) };
    if !done {
        // Without columns of the value there are statistics all the same.
        kernel.run(&mut [], &mut stats);
    }
    results.find(Arg::Dst(1)).map_or(Ok(()), |bytes| pack(desc, &stats, bytes))
}

/// The operands, dense and row-major.
struct Kernel<'a, T: Float> {
    op: &'a Attention,
    query: Cow<'a, [T]>,
    key: Cow<'a, [T]>,
    value: Cow<'a, [T]>,
    /// Matrices of queries: the product of the batch dimensions.
    queries: usize,
    /// For each of them the matrix of the key and of the value.
    keys: Vec<usize>,
    values: Vec<usize>,
    sequence: usize,
    length: usize,
    depth: usize,
    columns: usize,
    scores: Function<'a>,
    weights: Option<Function<'a>>,
}

/// An expression over the scores.
struct Function<'a> {
    op: &'a Expression,
    plan: Plan,
    leaves: Leaves<'a>,
}

impl<'a> Function<'a> {
    fn new(op: &'a Expression, operands: &Operands<'a>) -> Result<Self> {
        let order: Vec<usize> = (0..op.dims.len()).collect();
        // The first source is what the attention itself computes.
        let source = |i: u16| (i > 0).then_some(Arg::Src(i + 2));
        let plan = Plan::new(op, &op.results, |_| false)?;
        Ok(Self { op, plan, leaves: Leaves::new(operands, op, &op.dims, &order, source)? })
    }
}

impl<'a, T: Float> Kernel<'a, T> {
    fn new(op: &'a Attention, operands: &Operands<'a>) -> Result<Self> {
        let dims_of = |i: u16| operands.required(Arg::Src(i)).map(|(desc, _)| desc.dims());
        let (query, key, value) = (dims_of(0)?, dims_of(1)?, dims_of(2)?);
        let rank = query.len();
        let batch = Dims::new(&query[..rank - 2]);
        let matrices = |own: &[usize]| -> Vec<usize> {
            let at = |index: Dims| {
                let steps = index.iter().zip(batch.iter()).zip(own);
                steps.fold(0, |at, ((i, length), &own)| at * own + i / (length / own))
            };
            batch.indices().map(at).collect()
        };
        Ok(Self {
            op,
            query: operands.dense(Arg::Src(0))?,
            key: operands.dense(Arg::Src(1))?,
            value: operands.dense(Arg::Src(2))?,
            queries: batch.elements(),
            keys: matrices(&key[..rank - 2]),
            values: matrices(&value[..rank - 2]),
            sequence: query[rank - 2],
            length: key[rank - 2],
            depth: query[rank - 1],
            columns: value[rank - 1],
            scores: Function::new(&op.scores, operands)?,
            weights: op.weights.as_ref().map(|e| Function::new(e, operands)).transpose()?,
        })
    }

    /// Computes all rows; either result may be absent.
    fn run(&self, out: &mut [T], stats: &mut [T]) {
        let rows = (SCORES / self.length.max(1)).clamp(1, ROWS).min(self.sequence.max(1));
        let mut tasks = Vec::new();
        let (mut out, mut stats) = (out, stats);
        for query in 0..self.queries {
            for first in (0..self.sequence).step_by(rows) {
                let count = rows.min(self.sequence - first);
                let (own_out, rest) = out.split_at_mut((count * self.columns).min(out.len()));
                out = rest;
                let (own_stats, rest) = stats.split_at_mut(count.min(stats.len()));
                stats = rest;
                tasks.push((query, first, count, own_out, own_stats));
            }
        }
        let single = tasks.len() == 1;
        tasks.into_par_iter().for_each_init(Vec::new, |scores, (query, first, count, out, stats)| {
            self.block(scores, query, first..first + count, (out, stats), single);
        });
    }

    /// Some rows of one matrix of queries.
    fn block(
        &self,
        scores: &mut Vec<T>,
        query: usize,
        rows: std::ops::Range<usize>,
        (out, stats): (&mut [T], &mut [T]),
        parallel: bool,
    ) {
        let first = query * self.sequence + rows.start;
        let count = rows.len();
        scores.clear();
        scores.resize(count * self.length, T::ZERO);
        let queries = Matrix {
            data: &self.query[first * self.depth..],
            rows: count,
            columns: self.depth,
            row_stride: self.depth,
            column_stride: 1,
        };
        let keys = Matrix {
            data: &self.key[self.keys[query] * self.length * self.depth..],
            rows: self.depth,
            columns: self.length,
            row_stride: 1,
            column_stride: self.depth,
        };
        multiply(&queries, &keys, scores, self.length, parallel);
        let start = first * self.length;
        apply(&self.scores.plan, self.scores.op, &self.scores.leaves, start, scores);
        for row in 0..count {
            let log_sum = softmax(&mut scores[row * self.length..][..self.length], self.op.inf_as_zero);
            if let Some(stat) = stats.get_mut(row) {
                *stat = T::from_f64(log_sum);
            }
        }
        if out.is_empty() {
            return;
        }
        if let Some(weights) = &self.weights {
            apply(&weights.plan, weights.op, &weights.leaves, start, scores);
        }
        let weights = Matrix {
            data: &scores[..],
            rows: count,
            columns: self.length,
            row_stride: self.length,
            column_stride: 1,
        };
        let values = Matrix {
            data: &self.value[self.values[query] * self.length * self.columns..],
            rows: self.length,
            columns: self.columns,
            row_stride: self.columns,
            column_stride: 1,
        };
        multiply(&weights, &values, out, self.columns, parallel);
    }
}

/// Turns a row of scores into weights and gives the logarithm of the sum of their exponentials.
fn softmax<T: Float>(row: &mut [T], inf_as_zero: bool) -> f64 {
    let larger = |max: f64, x: f64| if x > max || x.is_nan() { x } else { max };
    let max = row.iter().fold(f64::NEG_INFINITY, |max, x| larger(max, x.to_f64()));
    if max == f64::NEG_INFINITY {
        row.fill(if inf_as_zero { T::ZERO } else { T::from_f64(f64::NAN) });
        return max;
    }
    let mut sum = 0.0;
    for x in row.iter_mut() {
        let exponential = (x.to_f64() - max).exp();
        sum += exponential;
        *x = T::from_f64(exponential);
    }
    let factor = 1.0 / sum;
    for x in row.iter_mut() {
        *x = T::from_f64(x.to_f64() * factor);
    }
    max + sum.ln()
}

impl Compute for Attention {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:flash"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(self, operands, results)
    }

    fn uses_value_of(&self, arg: Arg) -> bool {
        let Arg::Src(i) = arg else { return true };
        let read = |expression: &Expression| reads(expression, i - 2);
        i < 3 || read(&self.scores) || self.weights.as_ref().is_some_and(read)
    }
}
