//! Products with a sparse matrix: each stored entry meets the row, or the column, of the dense matrix that it belongs to, and entries of the
//! same row, or column, are summed. Where rows are compressed, those of the entries are counted first.

use std::ffi::c_int;

use anydnn_backend::op::{Gather, Reorder};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, Blocking, DataType, Dims, Layout, MemoryDesc, SparseEncoding,
};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::desc::{Format, Md};
use crate::kinds::{arg, kind, query};
use crate::primitive::{Facts, tensor};
use crate::recipe::{Formula, Recipe, Tensor, dense};
use crate::refusals::Lack;

/// Whether a descriptor is of a sparse matrix whose encoding is known.
pub(crate) fn is_sparse(md: &Md) -> bool {
    matches!(md.format, Format::Coo { .. } | Format::Csr { .. })
}

/// The recipe of a product of a source and weights, one of which is sparse; the bias is the last of `mds` where there is one.
pub(crate) fn product(recipe: &mut Recipe, attr: &Attr, mds: &[Md]) -> Outcome<Facts> {
    let on_the_left = is_sparse(&mds[0]);
    if on_the_left && is_sparse(&mds[1]) {
        return Err(Lack::Sparse.failure("two sparse matrices"));
    }
    attr.check_supported()?;
    attr.check_used(|number| number == arg::DST)?;
    let dst = tensor(&mds[2], "dst_desc")?;
    let (m, n) = (dst.dims()[0], dst.dims()[1]);
    let k = mds[0].dims[1] as usize;
    let expected = [[m, k], [k, n]].map(|dims| dims.map(|dim| dim as i64));
    if mds[0].dims[..2] != expected[0] || mds[1].dims[..2] != expected[1] {
        return Err(Failure::invalid(format!("the operands do not lead to {}", dst.dims())));
    }
    let (number, what, other) = if on_the_left {
        (arg::SRC, query::SRC, tensor(&mds[1], "weights_desc")?)
    } else {
        (arg::WEIGHTS, query::WEIGHTS, tensor(&mds[0], "src_desc")?)
    };
    let entries = Entries::read(recipe, number, what, &mds[usize::from(!on_the_left)])?;
    let other = if on_the_left {
        recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), dense(other))
    } else {
        recipe.operand(arg::SRC, (query::SRC, 0), dense(other))
    };
    let bias = mds.get(3).map(|md| tensor(md, "bias_desc")).transpose()?;
    let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), dense(bias)));
    let dst = recipe.operand(arg::DST, (query::DST, 0), dense(dst));
    let count = entries.values.dims()[0];
    // The dense row (or column) that each entry meets, with entries along the last axis.
    let (axis, indices, own) =
        if on_the_left { (0, &entries.columns, &entries.rows) } else { (1, &entries.rows, &entries.columns) };
    let dims = if on_the_left { [count, n] } else { [m, count] };
    let met = recipe.temporary(MemoryDesc::new(dims, other.desc.data_type()));
    let gather = Gather::Axis(axis);
    recipe.step(
        gather,
        &[(Arg::Src(0), &other), (Arg::Src(1), indices), (Arg::DST, &met)],
        &Attributes::default(),
    )?;
    let met = if on_the_left {
        let desc = met.desc.reshaped([1, count, n])?.permuted(&[0, 2, 1])?;
        Tensor { desc, ..met }
    } else {
        met.dense_as([m, 1, count])?
    };
    let along = |tensor: &Tensor| tensor.dense_as([1, 1, count]);
    let space = Dims::from([m, n, count]);
    let mut f = Formula::new(&space).folded([2]);
    let values = f.tensor(&along(&entries.values)?);
    let met = f.tensor(&met);
    let term = f.mul(values, met);
    let place = f.tensor(&along(own)?);
    let here = f.index(usize::from(!on_the_left));
    let is_here = f.binary(BinaryAlgorithm::Equal, place, here);
    let zero = f.number(0.0);
    // What belongs elsewhere has no part, not even as an infinity times zero.
    let term = f.select(is_here, term, zero);
    let mut sum = f.sum(term);
    if let Some(bias) = &bias {
        let dims: Dims = bias.dims().iter().copied().chain([1]).collect();
        let bias = Tensor { desc: bias.desc.reshaped(dims)?, ..bias.clone() };
        let bias = f.tensor(&bias);
        sum = f.add(sum, bias);
    }
    let plain = recipe.temporary(MemoryDesc::new([m, n], DataType::F32));
    f.result(sum, &plain.dense_as([m, n, 1])?);
    recipe.formula(f)?;
    let post_operands = recipe.post_operands(attr, &dst)?;
    recipe.epilogue(&plain, &dst, attr, &post_operands)?;
    Ok(Facts::new(kind::MATMUL, 0))
}

/// The entries of a sparse matrix: values, rows and columns, as many of each.
struct Entries {
    values: Tensor,
    rows: Tensor,
    columns: Tensor,
}

impl Entries {
    fn read(recipe: &mut Recipe, number: c_int, what: c_int, md: &Md) -> Outcome<Self> {
        let desc = md.to_sparse_desc()?;
        let [rows, columns] = desc.dims()[..] else {
            return Err(Lack::Sparse.failure("anything but a matrix"));
        };
        let components = desc.components();
        // Formulas count in f32.
        if rows.max(columns).max(desc.encoding().nnz()) > 1 << 24 {
            return Err(Lack::Sparse.failure("a matrix of so many rows, columns or entries"));
        }
        if components.iter().any(|part| part.elements() == 0) {
            return Err(Lack::Sparse.failure("a matrix without entries"));
        }
        let mut parts = Vec::with_capacity(components.len());
        for (i, component) in components.into_iter().enumerate() {
            parts.push(recipe.part(number, if i == 0 { (what, 0) } else { (0, 0) }, component, i));
        }
        recipe.described.push((number, md.clone()));
        let mut parts = parts.into_iter();
        let mut next = || parts.next().ok_or_else(|| Failure::invalid("a sparse matrix has three parts"));
        let (values, first, second) = (next()?, next()?, next()?);
        let (rows, columns) = match desc.encoding() {
            SparseEncoding::Csr { .. } => (Self::counted(recipe, &second, rows, values.dims()[0])?, first),
            _ => (first, second),
        };
        let index = |recipe: &mut Recipe, indices: Tensor| {
            if matches!(indices.desc.data_type(), DataType::S32 | DataType::S64) {
                return Ok::<_, Failure>(indices);
            }
            let wide = recipe.temporary(indices.desc.with_data_type(DataType::S32));
            recipe.step(Reorder, &[(Arg::SRC, &indices), (Arg::DST, &wide)], &Attributes::default())?;
            Ok(wide)
        };
        Ok(Self { values, rows: index(recipe, rows)?, columns: index(recipe, columns)? })
    }

    /// The row of each entry: how many rows end at it or before it.
    fn counted(recipe: &mut Recipe, pointers: &Tensor, rows: usize, count: usize) -> Outcome<Tensor> {
        let found = recipe.temporary(MemoryDesc::new([count], DataType::S32));
        // All but the first.
        let whole = pointers.desc.blocking().cloned();
        let blocking = whole.ok_or_else(|| Failure::invalid("row pointers have no strides"))?;
        let layout = Layout::Blocked(Blocking { strides: Dims::from([rows, 1]), offset: 1, ..blocking });
        let ends = MemoryDesc::with_layout([1, rows], pointers.desc.data_type(), layout)?;
        let ends = Tensor { desc: ends, ..pointers.clone() };
        let mut f = Formula::new(&Dims::from([count, rows])).folded([1]);
        let end = f.tensor(&ends);
        let entry = f.index(0);
        let is_before = f.binary(BinaryAlgorithm::LessEqual, end, entry);
        let before = f.sum(is_before);
        f.result(before, &found.dense_as([count, 1])?);
        recipe.formula(f)?;
        Ok(found)
    }
}
