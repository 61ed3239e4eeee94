//! Conversions between types.

use anydnn_backend::{DataType, Result};

use super::super::tensor;
use super::call::Call;
use super::numbers::{Numbers, cells, ints, of_cells};
use crate::model::HostTensor;

/// Conversion to a named type or that of another tensor. Floats lose their fraction on the way to integers.
pub(in crate::onnx) fn cast(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let to = if call.operator() == "CastLike" { call.tensor(1)?.data_type() } else { named(call)? };
    let dims = src.dims().clone();
    if let Some(values) = ints(src)
        && !to.is_float()
    {
        return call.made(dims, to, &Numbers::Ints(values));
    }
    let (values, limited) = (src.to_f64s(), call.node.flag("saturate", true)?);
    let values: Vec<f64> = match to {
        DataType::Boolean => values.into_iter().map(|value| f64::from(value != 0.0)).collect(),
        // Of values that do not fit, 4 bits keep the lowest.
        DataType::S4 | DataType::U4 => {
            let values = values.into_iter().map(|value| value as i64).collect();
            return call.made(dims, to, &Numbers::Ints(values));
        }
        to if to.is_integer() => values.into_iter().map(f64::trunc).collect(),
        DataType::F8E4M3 if limited => values.into_iter().map(|value| value.clamp(-448.0, 448.0)).collect(),
        DataType::F8E5M2 if limited => {
            values.into_iter().map(|value| value.clamp(-57344.0, 57344.0)).collect()
        }
        _ => values,
    };
    call.output(dims, to, &values)
}

/// The same bits as another type of the same width.
pub(in crate::onnx) fn bit_cast(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, to) = (call.tensor(0)?, named(call)?);
    if src.data_type().bits() != to.bits() {
        return Err(call.invalid("attribute to", to, format!("a type as wide as {}", src.data_type())));
    }
    let mut bytes = cells(src).bytes.into_owned();
    if to == DataType::Boolean {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Ok(vec![of_cells(src.dims().clone(), to, bytes)?])
}

fn named(call: &Call) -> Result<DataType> {
    tensor::data_type(i32::try_from(call.node.int("to", 0)?).unwrap_or(-1))
}
