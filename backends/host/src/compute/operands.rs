//! The operands of one computation: their descriptors with their bytes.

use anydnn_backend::{Access, Arg, Error, MemoryDesc, PrimitiveDesc, Result};

use super::element::Element;
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

    /// An operand as a dense row-major tensor.
    pub(crate) fn dense<T: Element>(&self, arg: Arg) -> Result<std::borrow::Cow<'a, [T]>> {
        let (desc, bytes) = self.required(arg)?;
        dense(desc, bytes)
    }

    /// An optional operand as a dense row-major tensor.
    pub(crate) fn find_dense<T: Element>(&self, arg: Arg) -> Result<Option<std::borrow::Cow<'a, [T]>>> {
        self.find(arg)?.map(|(desc, bytes)| dense(desc, bytes)).transpose()
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
