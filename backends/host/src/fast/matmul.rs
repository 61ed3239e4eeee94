//! Batched matrix products.

use anydnn_backend::{Arg, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::Call;
use super::dots;
use super::finish::FinishPlan;
use super::integers;
use super::panels::{matrix_layout, width};
use super::places::{Places, strides_of};
use super::product::{Grid, Source, Weights};
use super::tile::Run;

/// The description with its weights in panels, where their layout is open.
pub(super) fn resolve(desc: PrimitiveDesc) -> PrimitiveDesc {
    let Some(open) = desc.find(Arg::Weights).filter(|weights| weights.is_any()) else { return desc };
    let layout = integers::weights_layout(&desc)
        .or_else(|| dots::matrix_layout(open).filter(|_| has_neighbours(desc.src())))
        .or_else(|| matrix_layout(open));
    match layout.map(|layout| desc.clone().resolved(Arg::Weights, layout)) {
        Some(Ok(resolved)) if super::plan(&resolved.clone().resolved_row_major()).is_some() => resolved,
        _ => desc,
    }
}

/// Whether the terms of a row are neighbours, or become it.
fn has_neighbours(src: &MemoryDesc) -> bool {
    src.is_any() || src.blocking().is_some_and(|blocking| blocking.strides.last() == Some(&1))
}

#[derive(Debug)]
pub(super) struct MatMul {
    grid: Grid,
    /// Rows of all groups, and the distance between their terms.
    rows: Places,
    first: usize,
    step: usize,
    weights: Weights,
    finish: FinishPlan,
}

impl MatMul {
    pub(super) fn new(desc: &PrimitiveDesc) -> Option<Self> {
        let dims = desc.dst().dims();
        let rank = dims.len();
        let (batch, [rows, columns]) = dims.split_last_chunk::<2>()?;
        let (src, weights) = (desc.src(), desc.find(Arg::Weights)?);
        let terms = *src.dims().last()?;
        if dims.elements() == 0 || terms == 0 {
            return None;
        }
        let whole =
            |last: [usize; 2]| -> SmallVec<[usize; 6]> { batch.iter().copied().chain(last).collect() };
        let (src_strides, first) = strides_of(src, &whole([*rows, terms]))?;
        let along =
            |strides: &[usize]| Places::new(dims[..rank - 1].iter().copied().zip(strides.iter().copied()));
        let one_matrix = weights.dims()[..rank - 2].iter().all(|&dim| dim == 1);
        let batches: usize = batch.iter().product();
        let is_in_panels = matrix_layout(weights).is_some_and(|layout| layout.same_bytes(weights));
        let weights = if is_in_panels {
            Weights::Panels
        } else {
            let (strides, first) = strides_of(weights, &whole([terms, *columns]))?;
            let groups = Places::new(batch.iter().copied().zip(strides.iter().copied()));
            let places = Places::new([(terms, strides[rank - 2])]);
            let column = strides[rank - 1];
            let dots = dots::fits(*columns, terms) && src_strides[rank - 1] == 1;
            Weights::Plain { first, groups, terms: places, column, dots }
        };
        let groups = if one_matrix { 1 } else { batches };
        let grid = Grid {
            groups,
            rows: if one_matrix { batches * rows } else { *rows },
            columns: *columns,
            terms,
            own: terms,
            width: width(*columns),
            next_rows: *rows,
            next_columns: 0,
        };
        let axes: SmallVec<[usize; 6]> = (0..rank - 1).collect();
        let finish = FinishPlan::new(desc, &axes, &[rank - 1])?;
        Some(Self {
            grid,
            rows: along(&src_strides[..rank - 1]),
            first,
            step: src_strides[rank - 1],
            weights,
            finish,
        })
    }
}

impl Fast for MatMul {
    fn name(&self) -> &'static str {
        self.weights.form()
    }

    fn reads_in_place(&self, arg: Arg) -> bool {
        self.finish.reads_in_place(arg)
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let source = Matrix { plan: self, data: call.input(Arg::SRC) };
        self.weights.multiply(call, &self.grid, &source, &finish);
    }
}

struct Matrix<'a> {
    plan: &'a MatMul,
    data: &'a [f32],
}

// SAFETY: it is read only.
unsafe impl Sync for Matrix<'_> {}

impl Source for Matrix<'_> {
    fn tile(
        &self,
        group: usize,
        first: usize,
        count: usize,
        runs: &mut Vec<Run>,
        rows: &mut Vec<*const f32>,
    ) {
        let plan = self.plan;
        runs.push(Run { first: 0, terms: plan.grid.terms });
        let start = group * plan.grid.next_rows + first;
        let reach = (plan.grid.terms - 1) * plan.step;
        rows.extend((start..start + count).map(|row| {
            let at = plan.first + plan.rows.at(row);
            self.data[at..=at + reach].as_ptr()
        }));
    }

    fn step(&self) -> usize {
        self.plan.step
    }
}
