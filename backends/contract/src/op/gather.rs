use super::remap::check_moved;
use super::{Operation, expect_axis, shape_error, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::Operands;

/// Elements of `src0` by the indices in `src1` (s32 or s64), bit for bit. A negative index counts from the end; where an index is
/// outside, the result's elements have zero bits. Elements have at least eight bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gather {
    /// Along an axis: `dst[o.., j.., i..] = src0[o.., src1[j..], i..]`.
    Axis(usize),
    /// Along an axis, with an index for each element: `dst[o.., j, i..] = src0[o.., src1[o.., j, i..], i..]`. Dimensions beside the
    /// axis may be smaller than those of the source.
    Elements(usize),
    /// By lists of indices, the last dimension of `src1`: `dst[b.., j.., i..] = src0[b.., src1[b.., j.., ..], i..]`, with this number of
    /// dimensions `b`.
    Lists(usize),
}

impl Gather {
    /// The source's dimensions that indices choose from: the first, and how many.
    pub fn chosen(self, indices: &Dims) -> (usize, usize) {
        match self {
            Self::Axis(axis) | Self::Elements(axis) => (axis, 1),
            Self::Lists(batch) => (batch, indices.last().copied().unwrap_or(0)),
        }
    }

    /// The place in the source of an element of the result; none where an index is outside. `index` tells the `k`-th index of the list at
    /// a place in `src1` (the only one where there are no lists).
    pub fn place(
        self,
        src: &Dims,
        indices: &Dims,
        at: &[usize],
        index: impl Fn(&[usize]) -> i64,
    ) -> Option<Dims> {
        let inside = |given: i64, extent: usize| {
            let given = if given < 0 { given.checked_add(extent as i64)? } else { given };
            usize::try_from(given).ok().filter(|&at| at < extent)
        };
        let mut place: Vec<usize>;
        match self {
            Self::Axis(axis) => {
                let behind = axis + indices.len();
                place = at[..axis].to_vec();
                place.push(inside(index(&at[axis..behind]), src[axis])?);
                place.extend_from_slice(&at[behind..]);
            }
            Self::Elements(axis) => {
                place = at.to_vec();
                place[axis] = inside(index(at), src[axis])?;
            }
            Self::Lists(batch) => {
                let lists = indices.len() - 1;
                place = at[..batch].to_vec();
                for k in 0..indices[lists] {
                    let entry = [&at[..lists], &[k]].concat();
                    place.push(inside(index(&entry), src[batch + k])?);
                }
                place.extend_from_slice(&at[lists..]);
            }
        }
        Some(Dims::from(place))
    }

    /// The dimensions of the result.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming what does not fit.
    pub fn result(self, src: &Dims, indices: &Dims) -> Result<Dims> {
        let name = "gather";
        let wrong = |expected: String| {
            shape_error(name, "dimensions of src0 and src1", format!("{src} and {indices}"), expected)
        };
        let joined = |parts: &[&[usize]]| Dims::from(parts.concat());
        match self {
            Self::Axis(axis) => {
                expect_axis(name, axis, src.len())?;
                Ok(joined(&[&src[..axis], indices, &src[axis + 1..]]))
            }
            Self::Elements(axis) => {
                expect_axis(name, axis, src.len())?;
                let fits =
                    indices.len() == src.len() && (0..src.len()).all(|i| i == axis || indices[i] <= src[i]);
                if !fits {
                    return Err(wrong(format!("as many, and no larger ones but for axis {axis}")));
                }
                Ok(indices.clone())
            }
            Self::Lists(batch) => {
                let Some((&count, lists)) = indices.split_last() else {
                    return Err(wrong("at least one dimension of src1".into()));
                };
                let fits = batch <= lists.len()
                    && batch + count <= src.len()
                    && count > 0
                    && src[..batch] == lists[..batch];
                if !fits {
                    let expected =
                        format!("{batch} equal first ones, and lists of indices into the next ones");
                    return Err(wrong(expected));
                }
                Ok(joined(&[lists, &src[batch + count..]]))
            }
        }
    }
}

impl Operation for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::Src(0), Arg::Src(1)], &[])?;
        let (src, indices) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        expect_indices(name, Arg::Src(1), indices)?;
        check_moved(name, operands, src)?;
        Ok((self.result(src.dims(), indices.dims())?, src.data_type()))
    }

    fn takes_post_ops(&self) -> bool {
        false
    }

    fn is_exact(&self, _result: Arg) -> bool {
        true
    }
}

/// Checks that an operand holds indices.
pub(super) fn expect_indices(name: &str, arg: Arg, desc: &MemoryDesc) -> Result<()> {
    if matches!(desc.data_type(), DataType::S32 | DataType::S64) {
        return Ok(());
    }
    Err(type_error(name, format!("{arg} data type"), desc.data_type(), "s32 or s64"))
}
