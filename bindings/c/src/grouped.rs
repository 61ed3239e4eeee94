//! Products of groups whose sizes are in memory: of grouped rows, each group with weights of its own, and of grouped terms.

use std::ffi::c_int;

use anydnn_backend::op::{Gather, GroupedMatMul};
use anydnn_backend::{Arg, Attributes, BinaryAlgorithm, DataType, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::desc::{Format, Md};
use crate::kinds::{arg, kind, query};
use crate::primitive::{Facts, tensor};
use crate::recipe::{Formula, Recipe, Tensor};
use crate::refusals::Lack;

/// The most rows that formulas, which count in f32, tell apart.
const MOST_ROWS: usize = 1 << 24;

/// Whether a descriptor is of a grouped tensor.
pub(crate) fn is_grouped(md: &Md) -> bool {
    groups(md).is_some()
}

/// The axis of groups, and how many there are.
fn groups(md: &Md) -> Option<(usize, i64)> {
    match md.format {
        Format::Grouped { axis, count, .. } => Some((axis, count)),
        _ => None,
    }
}

/// Groups of a result's rows, which operands of post-operations may have too.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    ends: Tensor,
    count: usize,
}

/// The recipe of a product with grouped operands; the bias is the last of `mds` where there is one.
pub(crate) fn product(recipe: &mut Recipe, attr: &Attr, mds: &[Md]) -> Outcome<Facts> {
    let [src, weights, dst] = [&mds[0], &mds[1], &mds[2]];
    let (by_rows, [a, b]) = match [groups(src), groups(weights), groups(dst)] {
        [Some((0, a)), None, Some((0, b))] => (true, [a, b]),
        [Some((1, a)), Some((0, b)), None] => (false, [a, b]),
        _ => return Err(Lack::Grouped.failure("operands that are grouped otherwise")),
    };
    if a != b {
        let other = if by_rows { "dst_desc" } else { "weights_desc" };
        return Err(Failure::invalid(format!("src_desc has {a} groups, and {other} {b}")));
    }
    if by_rows { rows(recipe, attr, mds) } else { terms(recipe, attr, mds) }
}

fn rows(recipe: &mut Recipe, attr: &Attr, mds: &[Md]) -> Outcome<Facts> {
    let (src, ends) = recipe.grouped(arg::SRC, (query::SRC, 0), &mds[0])?;
    let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), tensor(&mds[1], "weights_desc")?);
    let bias = mds.get(3).map(|md| tensor(md, "bias_desc")).transpose()?;
    let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), bias));
    // The groups of the result are those of the source: its own ends are not read.
    let (values, _) = mds[2].to_grouped_desc()?;
    let dst = recipe.part(arg::DST, (query::DST, 0), values, 0);
    recipe.described.push((arg::DST, mds[2].clone()));
    let count = ends.dims()[0];
    let mut inputs = vec![(Arg::SRC, &src), (Arg::Src(1), &ends), (Arg::Weights, &weights)];
    inputs.extend(bias.as_ref().map(|bias| (Arg::Src(2), bias)));
    recipe.grouping = Some(Grouping { ends: ends.clone(), count });
    recipe.main(GroupedMatMul::Rows, &inputs, &dst, attr)?;
    Ok(Facts::new(kind::MATMUL, 0))
}

fn terms(recipe: &mut Recipe, attr: &Attr, mds: &[Md]) -> Outcome<Facts> {
    attr.check_plain()?;
    if mds.len() > 3 {
        return Err(Lack::Grouped.failure("a bias behind sums of grouped terms"));
    }
    let (src, ends) = recipe.grouped(arg::SRC, (query::SRC, 0), &mds[0])?;
    // The weights' groups are those of the source: their own ends are not read.
    let (values, _) = mds[1].to_grouped_desc()?;
    let weights = recipe.part(arg::WEIGHTS, (query::WEIGHTS, 0), values, 0);
    recipe.described.push((arg::WEIGHTS, mds[1].clone()));
    let dst = recipe.operand(arg::DST, (query::DST, 0), tensor(&mds[2], "dst_desc")?);
    let inputs = [(Arg::SRC, &src), (Arg::Src(1), &ends), (Arg::Weights, &weights)];
    recipe.main(GroupedMatMul::Terms, &inputs, &dst, attr)?;
    Ok(Facts::new(kind::MATMUL, 0))
}

impl Recipe {
    /// The values of a grouped operand, and the ends of its groups.
    fn grouped(&mut self, number: c_int, query: (c_int, c_int), md: &Md) -> Outcome<(Tensor, Tensor)> {
        let (values, ends) = md.to_grouped_desc()?;
        let values = self.part(number, query, values, 0);
        let ends = self.part(number, (0, 0), ends, 1);
        self.described.push((number, md.clone()));
        Ok((values, ends))
    }

    /// The descriptor of a post-operation's operand, of its values alone where it is grouped as the result is.
    pub(crate) fn post_operand_desc(&mut self, number: c_int, md: &Md) -> Outcome<MemoryDesc> {
        let (Some(grouping), Some((axis, count))) = (&self.grouping, groups(md)) else {
            return md.to_memory_desc();
        };
        if axis != 0 || usize::try_from(count) != Ok(grouping.count) {
            let groups = grouping.count;
            return Err(Failure::invalid(format!(
                "a post-operation's operand has {count} groups along dimension {axis}, the result {groups} of rows"
            )));
        }
        let (values, _) = md.to_grouped_desc()?;
        self.described.push((number, md.clone()));
        Ok(values)
    }

    /// An operand of a post-operation with an element for each row of the result where it has one for each group.
    pub(crate) fn spread_to_rows(&mut self, operand: Tensor, dst: &Dims) -> Outcome<Tensor> {
        let dims = operand.dims().clone();
        let rows = dst[0];
        let Some(grouping) = self.grouping.clone().filter(|own| dims[0] == own.count && dims[0] != rows)
        else {
            return Ok(operand);
        };
        if rows > MOST_ROWS {
            return Err(Lack::Grouped.failure("an operand with an element for each group of so many rows"));
        }
        let group = self.temporary(MemoryDesc::new([rows], DataType::S32));
        let mut f = Formula::new(&Dims::from([rows, grouping.count])).folded([1]);
        let end = f.tensor(&grouping.ends.dense_as([1, grouping.count])?);
        let row = f.index(0);
        let is_before = f.binary(BinaryAlgorithm::LessEqual, end, row);
        let before = f.sum(is_before);
        f.result(before, &group.dense_as([rows, 1])?);
        self.formula(f)?;
        let spread = self.temporary(MemoryDesc::new([rows, dims[1]], operand.desc.data_type()));
        self.step(
            Gather::Axis(0),
            &[(Arg::Src(0), &operand), (Arg::Src(1), &group), (Arg::DST, &spread)],
            &Attributes::default(),
        )?;
        Ok(spread)
    }
}
