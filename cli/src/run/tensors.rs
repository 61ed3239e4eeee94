//! Between dense tensors of the host and the layouts of a compiled graph.

use std::borrow::Cow;

use anydnn::backend::{Error, MemoryDesc, Result};
use anydnn::model::HostTensor;

/// The bytes of a tensor in the layout of `desc`; gaps are zero.
pub(super) fn scatter<'t>(tensor: &'t HostTensor, desc: &MemoryDesc) -> Result<Cow<'t, [u8]>> {
    if tensor.dims() != desc.dims() || tensor.data_type() != desc.data_type() {
        return Err(Error::invalid("load", "tensor", tensor.desc().to_string(), desc.to_string()));
    }
    if desc.is_row_major() {
        return Ok(tensor.bytes().into());
    }
    let size = whole_bytes(desc)?;
    let mut bytes = vec![0; desc.size()];
    for (index, element) in desc.dims().indices().zip(tensor.bytes().chunks_exact(size)) {
        let offset = place(desc, &index)? * size;
        bytes[offset..offset + size].copy_from_slice(element);
    }
    Ok(bytes.into())
}

/// The tensor whose bytes lie in the layout of `desc`.
pub(super) fn gather(desc: &MemoryDesc, bytes: &[u8]) -> Result<HostTensor> {
    let dense = desc.to_row_major();
    if desc.is_row_major() {
        return HostTensor::new(dense, bytes.to_vec());
    }
    let size = whole_bytes(desc)?;
    let mut packed = Vec::with_capacity(dense.size());
    for index in desc.dims().indices() {
        let offset = place(desc, &index)? * size;
        packed.extend_from_slice(&bytes[offset..offset + size]);
    }
    HostTensor::new(dense, packed)
}

/// What a tensor's elements are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Statistics {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    pub(super) standard_deviation: f64,
    pub(super) not_finite: usize,
}

impl Statistics {
    /// The statistics of the finite values.
    pub(super) fn of(values: &[f64]) -> Self {
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let count = finite.len().max(1) as f64;
        let mean = finite.iter().sum::<f64>() / count;
        let variance = finite.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        Self {
            min: finite.iter().copied().reduce(f64::min).unwrap_or(0.0),
            max: finite.iter().copied().reduce(f64::max).unwrap_or(0.0),
            mean,
            standard_deviation: variance.sqrt(),
            not_finite: values.len() - finite.len(),
        }
    }
}

fn whole_bytes(desc: &MemoryDesc) -> Result<usize> {
    match desc.data_type().bits() {
        bits if bits % 8 == 0 => Ok(bits / 8),
        _ => {
            let why = "elements of half a byte are moved in dense row-major layouts only";
            Err(Error::unsupported(desc.to_string(), why))
        }
    }
}

fn place(desc: &MemoryDesc, index: &[usize]) -> Result<usize> {
    desc.offset_of(index)
        .ok_or_else(|| Error::invalid("tensor", "layout", desc.to_string(), "a layout with known strides"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn::backend::DataType;

    #[test]
    fn strided_layouts_round_trip() {
        let values = [1.0, -2.0, 3.0, 0.0, 5.0, -100.0];
        for data_type in [DataType::F32, DataType::F16, DataType::S64, DataType::S8] {
            for strides in [[3, 1], [1, 2], [8, 2]] {
                let desc = MemoryDesc::with_strides([2, 3], data_type, strides).unwrap();
                let tensor = HostTensor::from_f64([2, 3], data_type, &values).unwrap();
                let bytes = scatter(&tensor, &desc).unwrap();
                assert_eq!(bytes.len(), desc.size());
                assert_eq!(gather(&desc, &bytes).unwrap().to_f64s(), values, "{desc}");
            }
        }
        let transposed = MemoryDesc::with_strides([2, 3], DataType::S8, [1, 2]).unwrap();
        let tensor = HostTensor::from_f64([2, 3], DataType::S8, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(*scatter(&tensor, &transposed).unwrap(), [1, 4, 2, 5, 3, 6]);
    }

    #[test]
    fn a_tensor_of_another_shape_is_refused() {
        let tensor = HostTensor::zeros([2], DataType::F32).unwrap();
        let error = scatter(&tensor, &MemoryDesc::new([3], DataType::F32)).unwrap_err().to_string();
        assert!(error.contains("f32") && error.contains('3'), "{error}");
    }

    #[test]
    fn statistics_leave_out_what_is_not_finite() {
        let statistics = Statistics::of(&[1.0, 3.0, f64::NAN]);
        assert_eq!((statistics.min, statistics.max, statistics.mean), (1.0, 3.0, 2.0));
        assert_eq!((statistics.standard_deviation, statistics.not_finite), (1.0, 1));
    }
}
