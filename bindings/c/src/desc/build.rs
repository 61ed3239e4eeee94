//! Making descriptors.

use crate::boundary::{Failure, Outcome};
use crate::desc::tags;
use crate::desc::types::{Blocks, Format, Md, TypeCode};
use crate::refusals::Lack;
use crate::types::{
    DNNL_MAX_NDIMS, DNNL_RUNTIME_DIM_VAL, dnnl_data_type_t, dnnl_dims_t, dnnl_format_tag_any,
    dnnl_format_tag_t, dnnl_s32,
};

impl Md {
    /// The empty descriptor.
    pub(crate) fn empty() -> Self {
        let none = [0; DNNL_MAX_NDIMS];
        Self {
            rank: 0,
            dims: none,
            data_type: None,
            padded_dims: none,
            padded_offsets: none,
            offset: 0,
            format: Format::Undef,
        }
    }

    /// A descriptor with a layout by number.
    pub(crate) fn with_tag(
        dims: &[i64],
        data_type: dnnl_data_type_t,
        tag: dnnl_format_tag_t,
    ) -> Outcome<Self> {
        let plain = Self::plain(dims, data_type)?;
        if tag == dnnl_format_tag_any {
            if dims.contains(&DNNL_RUNTIME_DIM_VAL) {
                return Err(Failure::invalid(
                    "dimensions known at execution only leave no choice of a layout",
                ));
            }
            return plain.checked();
        }
        let letters =
            tags::letters(tag).ok_or_else(|| Failure::invalid(format!("there is no format tag {tag}")))?;
        plain.with_letters(letters)
    }

    /// A descriptor with strides, or with the dense ones of row-major order.
    pub(crate) fn with_strides(
        dims: &[i64],
        data_type: dnnl_data_type_t,
        strides: Option<&[i64]>,
    ) -> Outcome<Self> {
        let plain = Self::plain(dims, data_type)?;
        let mut blocks = Blocks::none();
        if let Some(strides) = strides {
            blocks.strides[..dims.len()].copy_from_slice(strides);
        } else {
            let mut stride = 1;
            for (axis, &dim) in dims.iter().enumerate().rev() {
                let outer = axis + 1 < dims.len();
                blocks.strides[axis] = if outer && dim == DNNL_RUNTIME_DIM_VAL { dim } else { stride };
                stride = if dim == 0 { 0 } else { times(stride, dim)? };
            }
        }
        let md = Self { format: Format::Blocked(blocks), ..plain };
        md.check_strides()?;
        md.check_nibbles()?;
        md.checked()
    }

    /// A sparse descriptor by coordinates.
    pub(crate) fn with_coordinates(
        dims: &[i64],
        data_type: dnnl_data_type_t,
        nnz: i64,
        indices: dnnl_data_type_t,
    ) -> Outcome<Self> {
        if dims.len() > 2 {
            return Err(Lack::Coordinates.failure(format_args!("coordinates of {} dimensions", dims.len())));
        }
        let plain = Self::plain(dims, data_type)?;
        let indices = index_type(indices, "indices")?;
        Self { format: Format::Coo { nnz: entries(nnz)?, indices }, ..plain }.checked()
    }

    /// A sparse descriptor by compressed rows.
    pub(crate) fn with_rows(
        dims: &[i64],
        data_type: dnnl_data_type_t,
        nnz: i64,
        indices: dnnl_data_type_t,
        pointers: dnnl_data_type_t,
    ) -> Outcome<Self> {
        if dims.len() != 2 {
            return Err(
                Lack::Coordinates.failure(format_args!("compressed rows of {} dimensions", dims.len()))
            );
        }
        let plain = Self::plain(dims, data_type)?;
        let (indices, pointers) = (index_type(indices, "indices")?, index_type(pointers, "pointers")?);
        Self { format: Format::Csr { nnz: entries(nnz)?, indices, pointers }, ..plain }.checked()
    }

    /// A sparse descriptor whose encoding is the implementation's.
    pub(crate) fn packed(dims: &[i64], data_type: dnnl_data_type_t, nnz: i64) -> Outcome<Self> {
        Self { format: Format::Packed { nnz: entries(nnz)? }, ..Self::plain(dims, data_type)? }.checked()
    }

    /// A descriptor of tensors that differ along one axis.
    pub(crate) fn grouped(
        dims: &[i64],
        data_type: dnnl_data_type_t,
        axis: i32,
        count: i64,
        offsets: dnnl_data_type_t,
    ) -> Outcome<Self> {
        let plain = Self::plain(dims, data_type)?;
        let given = usize::try_from(axis).ok().filter(|&axis| axis < dims.len());
        let axis =
            given.ok_or_else(|| Failure::invalid(format!("{axis} is none of {} dimensions", dims.len())))?;
        if count <= 0 {
            return Err(Failure::invalid(format!("there are {count} groups")));
        }
        if dims.contains(&DNNL_RUNTIME_DIM_VAL) {
            return Err(Failure::invalid("groups are of dimensions that are known"));
        }
        if offsets != dnnl_s32 {
            return Err(Failure::invalid(format!("offsets are of the data type {offsets}, expected s32")));
        }
        let offsets = type_code(offsets)?;
        Self { format: Format::Grouped { axis, count, offsets }, ..plain }.checked()
    }

    /// A descriptor of one value on the host.
    pub(crate) fn host_scalar(data_type: dnnl_data_type_t) -> Outcome<Self> {
        let mut md = Self::empty();
        md.data_type = Some(type_code(data_type)?);
        md.rank = 1;
        md.dims[0] = 1;
        md.format = Format::HostScalar;
        Ok(md)
    }

    /// A descriptor of these dimensions without padding, whose layout is open.
    fn plain(dims: &[i64], data_type: dnnl_data_type_t) -> Outcome<Self> {
        if dims.is_empty() || dims.len() > DNNL_MAX_NDIMS {
            return Err(Failure::invalid(format!("there are {} dimensions, expected 1 to 12", dims.len())));
        }
        if let Some(dim) = dims.iter().find(|&&dim| dim < 0 && dim != DNNL_RUNTIME_DIM_VAL) {
            return Err(Failure::invalid(format!("a dimension is {dim}")));
        }
        let mut md = Self::empty();
        md.rank = dims.len();
        md.dims[..dims.len()].copy_from_slice(dims);
        md.padded_dims = md.dims;
        md.data_type = Some(type_code(data_type)?);
        md.format = Format::Any;
        Ok(md)
    }

    fn with_letters(mut self, letters: &str) -> Outcome<Self> {
        let layout = tags::layout(letters)
            .filter(|layout| layout.order.len() == self.rank)
            .ok_or_else(|| Failure::invalid(format!("{letters} is not for {} dimensions", self.rank)))?;
        let mut blocks = Blocks::none();
        blocks.count = layout.blocks.len();
        for (i, &(axis, size)) in layout.blocks.iter().enumerate() {
            blocks.sizes[i] = size;
            blocks.axes[i] = axis as i64;
        }
        let per_axis = blocks.per_axis();
        let mut stride = blocks.elements();
        for &axis in layout.order.iter().rev() {
            blocks.strides[axis] = stride;
            let block = per_axis[axis];
            let count = if self.dims[axis] == DNNL_RUNTIME_DIM_VAL {
                DNNL_RUNTIME_DIM_VAL
            } else {
                let count = self.dims[axis].unsigned_abs().div_ceil(block.unsigned_abs()) as i64;
                self.padded_dims[axis] = times(count, block)?;
                count.max(1)
            };
            stride = times(stride, count)?;
        }
        let md = Self { format: Format::Blocked(blocks), ..self };
        md.check_nibbles()?;
        md.checked()
    }

    /// Strides must not be negative, nor let two elements share a place, except by a stride of zero.
    fn check_strides(&self) -> Outcome {
        let Format::Blocked(blocks) = &self.format else { return Ok(()) };
        let strides = &blocks.strides[..self.rank];
        if let Some(stride) = strides.iter().find(|&&stride| stride < 0 && stride != DNNL_RUNTIME_DIM_VAL) {
            return Err(Failure::invalid(format!("a stride is {stride}")));
        }
        if self.has_runtime() || self.is_empty() {
            return Ok(());
        }
        let mut steps = self.steps(blocks);
        steps.sort_unstable();
        let mut least = 1;
        for (stride, dim) in steps {
            if stride < least {
                let given = format!("strides {strides:?} of {:?}", &self.dims[..self.rank]);
                return Err(Failure::invalid(format!("{given} let elements share a place")));
            }
            least = times(stride, dim)?;
        }
        Ok(())
    }

    /// Rows of a 4-bit type must begin with a byte.
    fn check_nibbles(&self) -> Outcome {
        let Format::Blocked(blocks) = &self.format else { return Ok(()) };
        let nibbles =
            self.data_type.is_some_and(|t| t.bits() == 4) && !self.has_runtime() && !self.is_empty();
        match self.steps(blocks).iter().find(|&&(stride, _)| nibbles && stride > 1 && stride % 2 != 0) {
            Some((stride, _)) => Err(Failure::invalid(format!(
                "a stride is {stride}, in the middle of a byte of a 4-bit type"
            ))),
            None => Ok(()),
        }
    }

    /// The strides that lead somewhere, with their dimensions.
    fn steps(&self, blocks: &Blocks) -> Vec<(i64, i64)> {
        let all = blocks.strides.into_iter().zip(self.dims).take(self.rank);
        all.filter(|&(stride, dim)| stride > 0 && dim > 1).collect()
    }

    /// The descriptor, if its elements and bytes can be counted.
    pub(crate) fn checked(self) -> Outcome<Self> {
        let mut elements = 1;
        for &dim in self.padded_dims[..self.rank].iter().filter(|&&dim| dim > 0) {
            elements = times(elements, dim)?;
        }
        if self.is_runtime() || (0..self.handles()).all(|i| self.exact_size(i).is_some()) {
            Ok(self)
        } else {
            Err(too_large())
        }
    }
}

impl Blocks {
    /// No strides and no blocks.
    pub(crate) fn none() -> Self {
        let none = [0; DNNL_MAX_NDIMS];
        Self { strides: none, count: 0, sizes: none, axes: none }
    }

    /// The inner blocks as `(dimension, size)`.
    pub(crate) fn inner(&self) -> impl Iterator<Item = (usize, i64)> {
        self.axes.into_iter().zip(self.sizes).take(self.count).map(|(axis, size)| (axis as usize, size))
    }

    /// How many elements of each dimension lie in its blocks.
    pub(crate) fn per_axis(&self) -> dnnl_dims_t {
        let mut sizes = [1; DNNL_MAX_NDIMS];
        for (axis, size) in self.inner() {
            sizes[axis] *= size;
        }
        sizes
    }

    /// The elements of all inner blocks.
    pub(crate) fn elements(&self) -> i64 {
        self.inner().map(|(_, size)| size).product()
    }
}

/// The product, which is known at execution only when a factor is.
pub(crate) fn times(a: i64, b: i64) -> Outcome<i64> {
    if a == DNNL_RUNTIME_DIM_VAL || b == DNNL_RUNTIME_DIM_VAL {
        return Ok(DNNL_RUNTIME_DIM_VAL);
    }
    a.checked_mul(b).ok_or_else(too_large)
}

/// The data type of that number.
pub(crate) fn type_code(data_type: dnnl_data_type_t) -> Outcome<TypeCode> {
    TypeCode::new(data_type).ok_or_else(|| Failure::invalid(format!("there is no data type {data_type}")))
}

fn index_type(data_type: dnnl_data_type_t, what: &str) -> Outcome<TypeCode> {
    let code = type_code(data_type)?;
    if code.data_type().is_some_and(|t| t.is_integer() && t.bits() >= 8) {
        return Ok(code);
    }
    Err(Failure::invalid(format!("{what} are of no integer type of whole bytes")))
}

fn entries(nnz: i64) -> Outcome<i64> {
    if nnz >= 0 || nnz == DNNL_RUNTIME_DIM_VAL {
        return Ok(nnz);
    }
    Err(Failure::invalid(format!("the number of entries is {nnz}")))
}

fn too_large() -> Failure {
    Failure::invalid("the size does not fit the address space")
}
