use super::{Operation, shape_error, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, InvalidKind, Result};
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::Operands;

/// What lies beyond the ends of a source of `n` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Border {
    /// The one element of `Arg::Src(1)`; zero bits without it.
    Fill,
    /// The first and the last element.
    Edge,
    /// The elements in reverse order, the end ones not repeated.
    Reflect,
    /// The elements again from the other end.
    Wrap,
}

impl Border {
    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Edge => "edge",
            Self::Reflect => "reflect",
            Self::Wrap => "wrap",
        }
    }

    /// The source's index for any index; none where that is outside of it.
    pub fn index(self, at: i64, n: usize) -> Option<usize> {
        let n = n as i64;
        if n == 0 {
            return None;
        }
        let inside = match self {
            Self::Fill if !(0..n).contains(&at) => return None,
            Self::Fill => at,
            Self::Edge => at.clamp(0, n - 1),
            Self::Reflect => {
                let period = 2 * (n - 1).max(1);
                let at = at.rem_euclid(period);
                if n == 1 { 0 } else { at.min(period - at) }
            }
            Self::Wrap => at.rem_euclid(n),
        };
        Some(inside as usize)
    }
}

/// Elements in other places, bit for bit: along axis `k` index `i` of the result is index `starts[k] + steps[k] * i` of the source, by
/// the [`Border`]'s rule where that is outside of it. Slices with any step, reversals, paddings, repetitions.
///
/// Elements have at least eight bits. An element for [`Border::Fill`] is `Arg::Src(1)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remap {
    /// The dimensions of the result, as many as the source has.
    pub dims: Dims,
    /// The source's index of the first element, for each axis.
    pub starts: Vec<i64>,
    /// The source's elements from one to the next, for each axis.
    pub steps: Vec<i64>,
    /// What lies outside.
    pub border: Border,
}

impl Remap {
    /// The first `dims` elements along each axis, by the border's rule where the source has fewer.
    pub fn new(dims: impl Into<Dims>, border: Border) -> Self {
        let dims = dims.into();
        let rank = dims.len();
        Self { dims, starts: vec![0; rank], steps: vec![1; rank], border }
    }

    /// With the places along one axis.
    pub fn with_axis(mut self, axis: usize, start: i64, step: i64) -> Self {
        if let (Some(own_start), Some(own_step)) = (self.starts.get_mut(axis), self.steps.get_mut(axis)) {
            (*own_start, *own_step) = (start, step);
        }
        self
    }

    /// Whether no element along an axis comes from outside of `extent` elements.
    pub fn is_inside(&self, axis: usize, extent: usize) -> bool {
        let last = self.dims[axis] as i64 - 1;
        let inside = |at: i64| at >= 0 && at < extent as i64;
        last < 0 || (inside(self.starts[axis]) && inside(self.starts[axis] + self.steps[axis] * last))
    }
}

impl Operation for Remap {
    fn name(&self) -> &'static str {
        "remap"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::SRC], &[Arg::Src(1)])?;
        let src = operands.required(Arg::SRC)?;
        let rank = src.rank();
        if self.dims.len() != rank || self.starts.len() != rank || self.steps.len() != rank {
            let given = format!("{}, {} starts, {} steps", self.dims, self.starts.len(), self.steps.len());
            return Err(shape_error(name, "dimensions", given, format!("{rank} of each, as src has")));
        }
        for axis in 0..rank {
            let (dim, extent) = (self.dims[axis], src.dims()[axis]);
            let most = 1_i64 << 60;
            let last = self.steps[axis].checked_mul(dim as i64);
            let far = last.and_then(|last| last.checked_add(self.starts[axis]));
            if self.starts[axis].abs() > most || far.is_none_or(|far| far.abs() > most) {
                let given = format!("start {} and step {}", self.starts[axis], self.steps[axis]);
                return Err(shape_error(name, format!("axis {axis}"), given, "places that can be counted"));
            }
            let all = self.dims.elements() > 0;
            if all && extent == 0 && self.border != Border::Fill {
                let given = src.dims().to_string();
                let expected = format!("an element along axis {axis} to take from");
                return Err(shape_error(name, "src dimensions", given, expected));
            }
        }
        check_moved(name, operands, src)?;
        if let Some(fill) = operands.find(Arg::Src(1)) {
            if self.border != Border::Fill {
                return Err(Error::invalid_kind(
                    InvalidKind::Argument,
                    name,
                    "src1",
                    format!("given for the border {}", self.border.name()),
                    "none, or the border fill",
                ));
            }
            if fill.elements() != 1 {
                let given = fill.dims().to_string();
                return Err(shape_error(name, "src1 dimensions", given, "one element"));
            }
            if fill.data_type() != src.data_type() {
                let expected = src.data_type().name();
                return Err(type_error(name, "src1 data type", fill.data_type(), expected));
            }
        }
        Ok((self.dims.clone(), src.data_type()))
    }

    fn takes_post_ops(&self) -> bool {
        false
    }

    fn is_exact(&self, _result: Arg) -> bool {
        true
    }
}

/// Checks that elements are whole bytes, which stay what they are.
pub(super) fn check_moved(name: &str, operands: &Operands, src: &MemoryDesc) -> Result<()> {
    let data_type = src.data_type();
    if data_type.bits() < 8 {
        return Err(type_error(name, "src0 data type", data_type, "elements of at least eight bits"));
    }
    match operands.dst() {
        Some(dst) if dst.data_type() != data_type => {
            Err(type_error(name, "dst0 data type", dst.data_type(), data_type.name()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_go_on_as_they_say() {
        let along = |border: Border| (-4..7).map(|at| border.index(at, 3)).collect::<Vec<_>>();
        let some = |list: [usize; 11]| list.map(Some).to_vec();
        assert_eq!(along(Border::Edge), some([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]));
        assert_eq!(along(Border::Reflect), some([0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]));
        assert_eq!(along(Border::Wrap), some([2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(along(Border::Fill)[3..8], [None, Some(0), Some(1), Some(2), None]);
        assert_eq!((Border::Reflect.index(-5, 1), Border::Edge.index(0, 0)), (Some(0), None));
    }
}
