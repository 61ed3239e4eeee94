//! Random numbers as the inputs of a real model may be.

use anydnn::backend::{DataType, Result};
use anydnn::model::HostTensor;

/// Random numbers for an input of this name: integers are indices, none below zero; those of a mask and of the kinds of tokens are zeros and
/// ones. The first place of each row of a mask is seen, as nothing follows from one that hides everything.
///
/// # Errors
/// As [`HostTensor::from_f64`].
pub(crate) fn plausible(name: &str, tensor: HostTensor) -> Result<HostTensor> {
    let name = name.to_lowercase();
    let (is_mask, is_kind) = (name.contains("mask"), name.contains("type") || name.contains("segment"));
    let truths = is_mask && tensor.data_type() == DataType::Boolean;
    if !tensor.data_type().is_integer() && !truths {
        return Ok(tensor);
    }
    let row = tensor.dims().last().copied().unwrap_or(1);
    let number = |(at, value): (usize, f64)| {
        let value = value.abs();
        match (is_mask, is_kind) {
            (true, _) if at % row == 0 => 1.0,
            (true, _) => f64::from(value % 4.0 > 0.0),
            (false, true) => value % 2.0,
            (false, false) => value,
        }
    };
    let values: Vec<f64> = tensor.to_f64s().into_iter().enumerate().map(number).collect();
    HostTensor::from_f64(tensor.dims().clone(), tensor.data_type(), &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, data_type: DataType, values: &[f64]) -> Vec<f64> {
        let given = HostTensor::from_f64([2, values.len() / 2], data_type, values).unwrap();
        plausible(name, given).unwrap().to_f64s()
    }

    #[test]
    fn masks_show_something_and_integers_are_indices() {
        let values = [-8.0, -3.0, 4.0, 0.0, 7.0, -4.0];
        assert_eq!(made("input_ids", DataType::S64, &values), [8.0, 3.0, 4.0, 0.0, 7.0, 4.0]);
        assert_eq!(made("Attention_Mask", DataType::S64, &values), [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(made("token_type_ids", DataType::S32, &values), [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(made("mask", DataType::Boolean, &[0.0, 1.0, 0.0, 0.0]), [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(made("mask", DataType::F32, &values), values);
    }
}
