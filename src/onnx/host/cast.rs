//! Conversions between types.

use anydnn_backend::{DataType, Result};

use super::super::tensor;
use super::call::Call;
use super::numbers::{Numbers, cells, numbers, of_cells};
use crate::model::HostTensor;

/// Conversion to a named type or that of another tensor. Floats lose their fraction on the way to integers.
pub(in crate::onnx) fn cast(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let to = if call.operator() == "CastLike" { call.tensor(1)?.data_type() } else { named(call)? };
    let dims = src.dims().clone();
    if !to.is_float()
        && let whole @ (Numbers::Ints(_) | Numbers::Words(_)) = numbers(src)
    {
        return call.made(dims, to, &whole);
    }
    let (values, limited) = (src.to_f64s(), call.node.flag("saturate", true)?);
    let values: Vec<f64> = match to {
        DataType::Boolean => values.into_iter().map(|value| f64::from(value != 0.0)).collect(),
        // Of values that do not fit, few bits keep the lowest.
        DataType::S4 | DataType::U4 | DataType::S2 | DataType::U2 => {
            let values = values.into_iter().map(|value| value as i64).collect();
            return call.made(dims, to, &Numbers::Ints(values));
        }
        to if to.is_integer() => values.into_iter().map(f64::trunc).collect(),
        DataType::E8M0 => {
            let way = call.node.word("round_mode", "up")?;
            values.into_iter().map(|value| power(value, &way, limited)).collect()
        }
        _ if limited => values.into_iter().map(|value| limited_to(to, value)).collect(),
        _ => values,
    };
    call.output(dims, to, &values)
}

/// A value within the numbers that a float of 8 bits has, if it is one.
pub(super) fn limited_to(to: DataType, value: f64) -> f64 {
    let Some(most) = to.greatest_of_mini().filter(|_| to.bits() == 8) else { return value };
    value.clamp(-most, most)
}

/// A power of two near a value; NaN for one that is out of range and not limited.
fn power(value: f64, way: &str, limited: bool) -> f64 {
    let (least, most) = (2_f64.powi(-127), 2_f64.powi(127));
    if value.is_nan() || !limited && !(least..=most).contains(&value) {
        return f64::NAN;
    }
    let value = value.clamp(least, most);
    match way {
        "up" => value.log2().ceil().exp2(),
        "down" => value.log2().floor().exp2(),
        _ => value,
    }
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
