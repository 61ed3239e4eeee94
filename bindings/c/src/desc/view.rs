//! Descriptors made from others: parts, permuted axes, other dimensions.

use std::ops::Range;

use crate::boundary::{Failure, Outcome};
use crate::desc::build::times;
use crate::desc::types::{Blocks, Format, Md};
use crate::refusals::Lack;
use crate::types::{DNNL_MAX_NDIMS, DNNL_RUNTIME_DIM_VAL, dnnl_dims_t};

impl Md {
    /// The part of `dims` elements from `offsets` on. Blocks are cut at their bounds only, except for a part that lies in one.
    pub(crate) fn part(&self, dims: &[i64], offsets: &[i64]) -> Outcome<Self> {
        let unimplemented = |message: &str| Err(Lack::Part.failure(message));
        if self.has_runtime() || dims.iter().chain(offsets).any(|&n| n == DNNL_RUNTIME_DIM_VAL) {
            return unimplemented("parts are of dimensions that are known");
        }
        for ((&dim, &offset), &whole) in dims.iter().zip(offsets).zip(&self.dims) {
            if dim < 0 || offset < 0 || dim.checked_add(offset).is_none_or(|end| end > whole) {
                return Err(Failure::invalid(format!(
                    "{dim} elements from {offset} on are no part of {whole}"
                )));
            }
        }
        let Format::Blocked(blocks) = &self.format else {
            return unimplemented("only tensors with strides have parts");
        };
        let per_axis = blocks.per_axis();
        let mut md = self.clone();
        for axis in 0..self.rank {
            let (dim, offset, block) = (dims[axis], offsets[axis], per_axis[axis]);
            let reaches_end = dim + offset == self.dims[axis];
            if offset % block != 0 || (dim > block && dim % block != 0 && !reaches_end) {
                return unimplemented("the part cuts through blocks");
            }
            md.dims[axis] = dim;
            md.padded_dims[axis] = if reaches_end { self.padded_dims[axis] - offset } else { dim };
            md.offset += offset / block * blocks.strides[axis];
        }
        Ok(md)
    }

    /// The same bytes with axis `i` moved to `permutation[i]`.
    pub(crate) fn permuted(&self, permutation: &[i32]) -> Outcome<Self> {
        self.check_view("permuted")?;
        let mut to = [usize::MAX; DNNL_MAX_NDIMS];
        let mut taken = [false; DNNL_MAX_NDIMS];
        for (axis, &target) in permutation.iter().enumerate() {
            let target = usize::try_from(target).ok().filter(|&t| t < self.rank && !taken[t]);
            to[axis] =
                target.ok_or_else(|| Failure::invalid(format!("{permutation:?} is no permutation")))?;
            taken[to[axis]] = true;
        }
        let mut md = self.clone();
        let scatter = |from: &dnnl_dims_t, into: &mut dnnl_dims_t| {
            for axis in 0..self.rank {
                into[to[axis]] = from[axis];
            }
        };
        scatter(&self.dims, &mut md.dims);
        scatter(&self.padded_dims, &mut md.padded_dims);
        scatter(&self.padded_offsets, &mut md.padded_offsets);
        if let (Format::Blocked(from), Format::Blocked(into)) = (&self.format, &mut md.format) {
            scatter(&from.strides, &mut into.strides);
            for axis in &mut into.axes[..from.count] {
                *axis = to[*axis as usize] as i64;
            }
        }
        Ok(md)
    }

    /// The same bytes under other dimensions. Ones come and go; other dimensions merge and split where they are dense, without
    /// padding and not blocked.
    pub(crate) fn reshaped(&self, dims: &[i64]) -> Outcome<Self> {
        self.check_view("reshaped")?;
        let rank_fits = (1..=DNNL_MAX_NDIMS).contains(&dims.len());
        if !rank_fits || dims.iter().any(|&dim| dim < 0) || volume(dims)? != volume(&self.dims[..self.rank])?
        {
            let given = format!("{dims:?} for {:?}", &self.dims[..self.rank]);
            return Err(Failure::invalid(format!("there is no view as {given}")));
        }
        let mut md = Self::empty();
        md.rank = dims.len();
        md.dims[..dims.len()].copy_from_slice(dims);
        md.padded_dims = md.dims;
        md.data_type = self.data_type;
        md.offset = self.offset;
        md.format = match &self.format {
            Format::Blocked(from) => Format::Blocked(Reshape::new(self, from, &mut md).run()?),
            other => other.clone(),
        };
        md.checked()
    }

    fn check_view(&self, what: &str) -> Outcome {
        if !matches!(self.format, Format::Blocked(_) | Format::Any) {
            return Err(Failure::invalid(format!(
                "only tensors with strides or an open layout can be {what}"
            )));
        }
        if self.has_runtime() {
            return Err(Failure::invalid(format!("dimensions known at execution only cannot be {what}")));
        }
        Ok(())
    }
}

/// Walks along the old and the new dimensions, in groups of as many elements.
struct Reshape<'a> {
    old: &'a Md,
    from: &'a Blocks,
    new: &'a mut Md,
    into: Blocks,
    /// Where blocked dimensions go.
    moved: [usize; DNNL_MAX_NDIMS],
}

impl<'a> Reshape<'a> {
    fn new(old: &'a Md, from: &'a Blocks, new: &'a mut Md) -> Self {
        let into = Blocks { strides: Blocks::none().strides, ..from.clone() };
        Self { old, from, new, into, moved: [usize::MAX; DNNL_MAX_NDIMS] }
    }

    fn run(mut self) -> Outcome<Blocks> {
        let (mut old, mut new) = (0, 0);
        loop {
            let (old_ones, new_ones) = (ones(self.old, old), ones(self.new, new));
            self.ones(old_ones.clone(), new_ones.clone())?;
            (old, new) = (old_ones.end, new_ones.end);
            if old == self.old.rank && new == self.new.rank {
                break;
            }
            let (old_group, new_group) = self.group(old, new).ok_or_else(no_view)?;
            (old, new) = (old_group.end, new_group.end);
            if old_group.len() == 1 && new_group.len() == 1 {
                self.keep(old_group.start, new_group.start);
            } else {
                self.redivide(old_group, new_group)?;
            }
        }
        for axis in &mut self.into.axes[..self.from.count] {
            *axis = self.moved[*axis as usize] as i64;
        }
        Ok(self.into)
    }

    /// The fewest dimensions from here on that hold as many elements.
    fn group(&self, old: usize, new: usize) -> Option<(Range<usize>, Range<usize>)> {
        let (mut old_end, mut new_end) = (old + 1, new + 1);
        let at = |md: &Md, axis: usize| (axis < md.rank).then(|| md.dims[axis]);
        let (mut old_elements, mut new_elements) = (at(self.old, old)?, at(self.new, new)?);
        while old_elements != new_elements {
            if old_elements < new_elements {
                old_elements = old_elements.checked_mul(at(self.old, old_end)?)?;
                old_end += 1;
            } else {
                new_elements = new_elements.checked_mul(at(self.new, new_end)?)?;
                new_end += 1;
            }
        }
        Some((old..old_end, new..new_end))
    }

    /// Drops and adds ones. Those with padding stay, behind the added ones.
    fn ones(&mut self, old: Range<usize>, new: Range<usize>) -> Outcome {
        let per_axis = self.from.per_axis();
        let next = old.start;
        let stride = if next < self.old.rank {
            times(self.from.strides[next], self.old.dims[next])? / per_axis[next]
        } else {
            self.from.elements()
        };
        self.into.strides[new.clone()].fill(stride);
        let padded: Vec<usize> = old.clone().filter(|&axis| self.old.padded_dims[axis] != 1).collect();
        let blocked = old.clone().any(|axis| per_axis[axis] != 1);
        if padded.len() > new.len() || (blocked && new.is_empty()) {
            return Err(no_view());
        }
        // The blocks of a one without padding hold one element: any one will do for them.
        self.moved[old].fill(new.start);
        for (&old, new) in padded.iter().rev().zip(new.rev()) {
            self.keep(old, new);
        }
        Ok(())
    }

    fn keep(&mut self, old: usize, new: usize) {
        self.into.strides[new] = self.from.strides[old];
        self.new.padded_dims[new] = self.old.padded_dims[old];
        self.new.padded_offsets[new] = self.old.padded_offsets[old];
        self.moved[old] = new;
    }

    /// Merges dimensions and splits them elsewhere.
    fn redivide(&mut self, old: Range<usize>, new: Range<usize>) -> Outcome {
        let (dims, strides, per_axis) = (&self.old.dims, &self.from.strides, self.from.per_axis());
        let plain = old.clone().all(|axis| dims[axis] == self.old.padded_dims[axis] && per_axis[axis] == 1);
        let dense =
            old.clone().skip(1).all(|axis| strides[axis].checked_mul(dims[axis]) == Some(strides[axis - 1]));
        if !plain || !dense {
            return Err(no_view());
        }
        let mut stride = strides[old.end - 1];
        for axis in new.rev() {
            self.into.strides[axis] = stride;
            stride = times(stride, self.new.dims[axis])?;
        }
        Ok(())
    }
}

/// The run of ones from `axis` on.
fn ones(md: &Md, axis: usize) -> Range<usize> {
    let end = (axis..md.rank).find(|&axis| md.dims[axis] != 1).unwrap_or(md.rank);
    axis..end
}

fn volume(dims: &[i64]) -> Outcome<i64> {
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter().try_fold(1, |volume, &dim| times(volume, dim))
}

fn no_view() -> Failure {
    Failure::invalid("the layout has no view of these dimensions")
}
