//! Tensors of the host: NumPy's arrays in without a copy, and out.

use std::slice;
use std::sync::Arc;

use anydnn::backend::{DataType, MemoryDesc};
use anydnn::model::HostTensor;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::OrRaise;
use crate::parked;

/// A dense row-major tensor in host memory.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) inner: HostTensor,
    /// Whether later results use its memory when it is gone.
    is_result: bool,
}

/// The elements of an array that is kept.
struct Elements {
    address: usize,
    bytes: usize,
    _array: Py<PyAny>,
}

impl AsRef<[u8]> for Elements {
    fn as_ref(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the array has as many bytes there, and is kept as long as this. As with every library that computes on arrays while other
        // threads run Python, nobody writes to them meanwhile; the package's documentation demands it.
        unsafe { slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }
}

#[pymethods]
impl Tensor {
    /// Shares the elements of a C-contiguous `numpy.ndarray` in the machine's byte order. The caller vouches for what it says of them; the
    /// array's own word on its size is compared.
    #[staticmethod]
    fn of_array(array: &Bound<'_, PyAny>, data_type: &str, dims: Vec<usize>) -> PyResult<Self> {
        let desc = MemoryDesc::new(dims, named(data_type)?);
        desc.validate().or_raise()?;
        let py = array.py();
        let interface = array.getattr(intern!(py, "__array_interface__"))?;
        let (address, _): (usize, bool) = interface.get_item(intern!(py, "data"))?.extract()?;
        let bytes: usize = array.getattr(intern!(py, "nbytes"))?.extract()?;
        if bytes != desc.size() {
            return Err(PyValueError::new_err(format!("{bytes} bytes, expected {} for {desc}", desc.size())));
        }
        let elements = Elements { address, bytes, _array: array.clone().unbind() };
        let inner = HostTensor::shared(desc, Arc::new(elements)).or_raise()?;
        Ok(Self { inner, is_result: false })
    }

    /// The library's name of the type.
    #[getter]
    fn data_type(&self) -> &'static str {
        self.inner.data_type().name()
    }

    /// The extents.
    #[getter]
    fn dims(&self) -> Vec<usize> {
        self.inner.dims().to_vec()
    }

    /// The elements, which NumPy uses in place; those of types that it has not as bytes.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let bytes = self.inner.bytes();
        let interface = PyDict::new(py);
        interface.set_item(intern!(py, "version"), 3)?;
        let shape = if let Some(typestr) = numpys(self.inner.data_type()) {
            interface.set_item(intern!(py, "typestr"), typestr)?;
            PyTuple::new(py, self.inner.dims().iter())?
        } else {
            interface.set_item(intern!(py, "typestr"), "|u1")?;
            PyTuple::new(py, [bytes.len()])?
        };
        interface.set_item(intern!(py, "shape"), shape)?;
        interface.set_item(intern!(py, "data"), (bytes.as_ptr() as usize, false))?;
        Ok(interface)
    }

    /// Whether NumPy has the type, so that an array of it has these elements.
    #[getter]
    fn is_plain(&self) -> bool {
        numpys(self.inner.data_type()).is_some()
    }
}

impl Tensor {
    /// A result. Its bytes become its own, as arrays of them can be written to.
    pub(crate) fn of_result(mut inner: HostTensor) -> Self {
        inner.bytes_mut();
        Self { inner, is_result: true }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if self.is_result {
            let none = HostTensor::from_f32([0], &[]);
            if let Ok(none) = none {
                parked::give_back(std::mem::replace(&mut self.inner, none).into_bytes());
            }
        }
    }
}

/// What NumPy calls a type of its own in the machine's byte order; none for those that it has not.
fn numpys(data_type: DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::F32 => "=f4",
        DataType::F64 => "=f8",
        DataType::F16 => "=f2",
        DataType::S64 => "=i8",
        DataType::S32 => "=i4",
        DataType::S16 => "=i2",
        DataType::S8 => "|i1",
        DataType::U64 => "=u8",
        DataType::U32 => "=u4",
        DataType::U16 => "=u2",
        DataType::U8 => "|u1",
        DataType::Boolean => "|b1",
        _ => return None,
    })
}

/// The type of a name, be it one that devices compute with or one of the host alone.
pub(crate) fn named(name: &str) -> PyResult<DataType> {
    let host_only = DataType::HOST_ONLY.into_iter().find(|data_type| data_type.name() == name);
    host_only.map_or_else(|| name.parse().or_raise(), Ok)
}
