//! Tensors of the host: NumPy's arrays in without a copy, and out.

use std::slice;
use std::sync::Arc;

use anydnn::backend::{DataType, MemoryDesc};
use anydnn::model::HostTensor;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::OrRaise;

/// A dense row-major tensor in host memory.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) inner: HostTensor,
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
        let interface = array.getattr("__array_interface__")?;
        let (address, _): (usize, bool) = interface.get_item("data")?.extract()?;
        let bytes: usize = array.getattr("nbytes")?.extract()?;
        if bytes != desc.size() {
            return Err(PyValueError::new_err(format!("{bytes} bytes, expected {} for {desc}", desc.size())));
        }
        let elements = Elements { address, bytes, _array: array.clone().unbind() };
        let inner = HostTensor::shared(desc, Arc::new(elements)).or_raise()?;
        Ok(Self { inner })
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

    /// The bytes as an array of `uint8`, which NumPy uses in place.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let bytes = self.inner.bytes();
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (bytes.len(),))?;
        interface.set_item("data", (bytes.as_ptr() as usize, false))?;
        Ok(interface)
    }
}

impl Tensor {
    /// A result. Its bytes become its own, as arrays of them can be written to.
    pub(crate) fn of_result(mut inner: HostTensor) -> Self {
        inner.bytes_mut();
        Self { inner }
    }
}

/// The type of a name, be it one that devices compute with or one of the host alone.
pub(crate) fn named(name: &str) -> PyResult<DataType> {
    let host_only = DataType::HOST_ONLY.into_iter().find(|data_type| data_type.name() == name);
    host_only.map_or_else(|| name.parse().or_raise(), Ok)
}
