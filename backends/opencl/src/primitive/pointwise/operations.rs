//! The operations on each element by itself: what they compute, and how they are planned.

use anydnn_backend::op::{BatchNormalization, Binary, Concat, Eltwise, Reorder, Select};
use anydnn_backend::{Arg, BinaryAlgorithm, PrimitiveDesc, Result};

use super::listed::List;
use super::{Pointwise, plan, plan_concat};
use crate::plan::DeviceTraits;
use crate::primitive::Planner;
use crate::primitive::choice::{Choice, Wanted, only};
use crate::primitive::source::eltwise;
use crate::primitive::value::Value;

/// The elements of an operand.
fn load(name: &str) -> String {
    format!("LD_{name}(OFF_{name}, n)")
}

impl Pointwise for Reorder {
    fn is_closed(&self) -> bool {
        true
    }

    fn expression(&self, _desc: &PrimitiveDesc, _value: Value) -> String {
        load("SRC0")
    }

    fn list(&self) -> Option<List> {
        Some(List::default())
    }
}

impl Pointwise for Eltwise {
    fn expression(&self, _desc: &PrimitiveDesc, value: Value) -> String {
        eltwise(value, *self, &load("SRC0"))
    }

    fn list(&self) -> Option<List> {
        List::default().function(*self)
    }
}

impl Pointwise for Binary {
    fn is_closed(&self) -> bool {
        !matches!(self.algorithm, BinaryAlgorithm::Divide | BinaryAlgorithm::Power)
    }

    fn expression(&self, _desc: &PrimitiveDesc, _value: Value) -> String {
        format!("binary_{}({}, {})", self.algorithm.name(), load("SRC0"), load("SRC1"))
    }

    fn list(&self) -> Option<List> {
        List::default().join(self.algorithm, false, "SRC1".into())
    }
}

impl Pointwise for Select {
    fn is_closed(&self) -> bool {
        true
    }

    fn expression(&self, desc: &PrimitiveDesc, value: Value) -> String {
        let (yes, no) = (load("SRC1"), load("SRC2"));
        // One lane, as a fractional condition must not be cut to zero.
        let is_float = desc.find(Arg::SRC).is_some_and(|condition| condition.data_type().is_float());
        if value == Value::I64 && is_float {
            return format!("NAT1_SRC0(OFF_SRC0) != 0 ? {yes} : {no}");
        }
        format!("({}) != (V)(0) ? {yes} : {no}", load("SRC0"))
    }
}

impl Pointwise for BatchNormalization {
    fn expression(&self, desc: &PrimitiveDesc, value: Value) -> String {
        let epsilon = value.literal(self.epsilon);
        let (src, mean, variance) = (load("SRC0"), load("MEAN"), load("VARIANCE"));
        let mut text = format!("({src} - {mean}) * INVERSE_ROOT({variance} + {epsilon})");
        if desc.find(Arg::Scale).is_some() {
            text = format!("{text} * {}", load("SCALE"));
        }
        if desc.find(Arg::Shift).is_some() {
            text = format!("{text} + {}", load("SHIFT"));
        }
        text
    }
}

/// Planners of operations that have one launch. Reorders have others, too.
macro_rules! planners {
    ($($operation:ty),+) => {$(
        impl Planner for $operation {
            fn choices(
                &self,
                desc: &PrimitiveDesc,
                device: &DeviceTraits,
                wanted: Wanted<'_>,
            ) -> Result<Vec<Choice>> {
                Ok(only(plan(desc.clone(), self, device), wanted))
            }

            fn counts_in_64_bits(&self) -> bool {
                true
            }
        }
    )+};
}

planners!(Eltwise, Binary, Select, BatchNormalization);

impl Planner for Concat {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_concat(desc.clone(), self.axis, device), wanted))
    }

    fn counts_in_64_bits(&self) -> bool {
        true
    }
}
