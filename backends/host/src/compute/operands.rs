//! The operands of one computation: their descriptors with their bytes.

use std::borrow::Cow;

use anydnn_backend::{Access, Arg, Dequantize, Dims, Error, MemoryDesc, PrimitiveDesc, Result};

use super::CHUNK;
use super::element::Element;
use super::parallel::parallel_chunks;
use super::storage::Kind;
use super::view::{View, dense};

/// The operands that are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands<'a> {
    pub(crate) desc: &'a PrimitiveDesc,
    inputs: &'a [(Arg, &'a [u8])],
}

impl<'a> Operands<'a> {
    /// Checks that every operand is bound to enough bytes on its side.
    pub(crate) fn new(
        desc: &'a PrimitiveDesc,
        inputs: &'a [(Arg, &'a [u8])],
        outputs: &[(Arg, &mut [u8])],
    ) -> Result<Self> {
        supported(desc)?;
        for wanted in desc.args() {
            let given = if wanted.access == Access::Read {
                inputs.iter().find(|(arg, _)| *arg == wanted.arg).map(|(_, bytes)| bytes.len())
            } else {
                outputs.iter().find(|(arg, _)| *arg == wanted.arg).map(|(_, bytes)| bytes.len())
            };
            let needed = wanted.desc.size();
            if given.is_none_or(|given| given < needed) {
                return Err(Error::invalid(
                    desc.name(),
                    wanted.arg.to_string(),
                    given.map_or("missing".into(), |given| format!("{given} bytes")),
                    format!("{needed} bytes for {}", wanted.desc),
                ));
            }
        }
        Ok(Self { desc, inputs })
    }

    /// An optional operand.
    pub(crate) fn find(&self, arg: Arg) -> Result<Option<(&'a MemoryDesc, &'a [u8])>> {
        self.desc.find(arg).map(|_| self.required(arg)).transpose()
    }

    /// An operand that the operation always has.
    pub(crate) fn required(&self, arg: Arg) -> Result<(&'a MemoryDesc, &'a [u8])> {
        let desc = self.desc.find(arg);
        let bytes = self.inputs.iter().find(|(a, _)| *a == arg).map(|(_, bytes)| *bytes);
        desc.zip(bytes)
            .ok_or_else(|| Error::invalid(self.desc.name(), arg.to_string(), "missing", "a bound operand"))
    }

    /// An operand stretched to the result's dimensions.
    pub(crate) fn view(&self, arg: Arg) -> Result<View<'a>> {
        let (desc, bytes) = self.required(arg)?;
        View::broadcast(desc, bytes, self.desc.dst().dims())
    }

    /// An operand as a dense row-major tensor, dequantised if the attributes ask for it.
    pub(crate) fn dense<T: Element>(&self, arg: Arg) -> Result<Cow<'a, [T]>> {
        let (desc, bytes) = self.required(arg)?;
        let values = dense(desc, bytes)?;
        match self.dequantize(arg) {
            None => Ok(values),
            Some(attribute) => {
                let mut values = values.into_owned();
                dequantize(self, attribute, desc.dims(), &mut values)?;
                Ok(Cow::Owned(values))
            }
        }
    }

    /// An optional operand as a dense row-major tensor.
    pub(crate) fn find_dense<T: Element>(&self, arg: Arg) -> Result<Option<Cow<'a, [T]>>> {
        self.find(arg)?.map(|_| self.dense(arg)).transpose()
    }

    /// How an operand is dequantised; none if it is not.
    pub(crate) fn dequantize(&self, arg: Arg) -> Option<&'a Dequantize> {
        self.desc.attributes().dequantize.iter().find(|attribute| attribute.operand.arg() == arg)
    }
}

/// The results: their bytes by argument.
#[derive(Debug)]
pub(crate) struct Results<'o, 'b>(pub(crate) &'o mut [(Arg, &'b mut [u8])]);

impl Results<'_, '_> {
    /// The bytes of a result; none when the operation has no such result.
    pub(crate) fn find(&mut self, arg: Arg) -> Option<&mut [u8]> {
        self.0.iter_mut().find(|(a, _)| *a == arg).map(|(_, bytes)| &mut **bytes)
    }

    /// The bytes of the first result.
    pub(crate) fn dst(&mut self) -> Result<&mut [u8]> {
        self.find(Arg::DST).ok_or_else(|| Error::invalid("compute", "dst0", "missing", "a bound result"))
    }
}

/// `(x - zero_point) * scale` for each element of a dense tensor.
fn dequantize<T: Element>(
    operands: &Operands<'_>,
    attribute: &Dequantize,
    dims: &Dims,
    values: &mut [T],
) -> Result<()> {
    let view = |arg: Arg, wanted: bool| {
        let bound = wanted.then(|| operands.required(arg)).transpose()?;
        bound.map(|(desc, bytes)| View::broadcast(desc, bytes, dims)).transpose()
    };
    let zeros = view(Arg::ZeroPointOf(attribute.operand), attribute.zero_point.is_some())?;
    let scales = view(Arg::ScaleOf(attribute.operand), attribute.scale.is_some())?;
    parallel_chunks(values, CHUNK, |i, values| {
        let mut buffer = [T::ZERO; CHUNK];
        let buffer = &mut buffer[..values.len()];
        if let Some(zeros) = &zeros {
            zeros.load(i * CHUNK, buffer);
            let pairs = values.iter_mut().zip(&*buffer);
            pairs.for_each(|(value, zero)| *value = T::from_f64(value.to_f64() - zero.to_f64()));
        }
        if let Some(scales) = &scales {
            scales.load(i * CHUNK, buffer);
            let pairs = values.iter_mut().zip(&*buffer);
            pairs.for_each(|(value, scale)| *value = T::from_f64(value.to_f64() * scale.to_f64()));
        }
    });
    Ok(())
}

/// Checks that every operand has a data type and a layout that this backend knows.
pub(crate) fn supported(desc: &PrimitiveDesc) -> Result<()> {
    for operand in desc.args() {
        Kind::of(operand.desc.data_type())
            .map_err(|error| error.at(operand.arg.to_string()).at(desc.name()))?;
        if operand.desc.blocking().is_none() {
            return Err(Error::unsupported(
                format!("{} of {}", operand.arg, desc.name()),
                format!(
                    "{} has no strides; the host backend resolves open layouts to row-major",
                    operand.desc
                ),
            ));
        }
    }
    Ok(())
}
