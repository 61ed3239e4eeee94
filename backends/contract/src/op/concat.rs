use super::{Operation, expect_axis, shape_error, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::op::primitive_desc::Operands;

/// Sources `src0, src1, ..` side by side along an axis; all other dimensions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concat {
    /// The axis along which the sources lie.
    pub axis: usize,
}

impl Concat {
    /// Sources side by side along an axis.
    pub const fn new(axis: usize) -> Self {
        Self { axis }
    }
}

impl Operation for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let count = operands.sources();
        let all: Vec<Arg> = (0..count as u16).map(Arg::Src).collect();
        if all.is_empty() {
            return Err(Error::invalid(name, "sources", "none", "at least one"));
        }
        let operands = operands.only(name, &all, &[])?;
        let first = operands.required(Arg::SRC)?;
        expect_axis(name, self.axis, first.rank())?;
        let mut dims = first.dims().clone();
        for &arg in &all[1..] {
            let src = operands.required(arg)?;
            let fits = src.rank() == first.rank()
                && (0..src.rank()).all(|i| i == self.axis || src.dims()[i] == dims[i]);
            if !fits {
                return Err(shape_error(
                    name,
                    format!("{arg} dimensions"),
                    src.dims().to_string(),
                    format!("{} except along axis {}", first.dims(), self.axis),
                ));
            }
            if src.data_type() != first.data_type() {
                return Err(type_error(
                    name,
                    format!("{arg} data type"),
                    src.data_type(),
                    first.data_type().name(),
                ));
            }
            dims[self.axis] = dims[self.axis].saturating_add(src.dims()[self.axis]);
        }
        Ok((dims, first.data_type()))
    }

    fn takes_post_ops(&self) -> bool {
        false
    }

    fn is_exact(&self, _result: Arg) -> bool {
        true
    }
}
