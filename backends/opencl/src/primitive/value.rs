//! The scalar types that kernels compute in, and OpenCL C literals of them.

use super::Planner;
use super::numbers::float;
use super::opaque::{self, GroupPanels};
use anydnn_backend::op::{Fold, Node, Op};
use anydnn_backend::{Arg, DataType, Error, Layout, PostOp, PrimitiveDesc, Result, each_operation};

use crate::capability::Feature;
use crate::plan::DeviceTraits;

/// The scalar type of a kernel's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    F32,
    F64,
    /// For operations on 32- and 64-bit integers alone, which f32 does not hold exactly.
    I64,
}

impl Value {
    /// The type for a primitive: f64 where an operand has it; integers where all sources are wide integers, the operation stays
    /// among them (`closed`) and nothing is fused behind it; else f32. The condition of a select is not a value.
    pub(super) fn of(desc: &PrimitiveDesc, closed: bool) -> Self {
        let condition = matches!(desc.op(), Op::Select(_)).then_some(Arg::SRC);
        let is_input = |arg: Arg| arg != Arg::DST && Some(arg) != condition;
        let inputs = || desc.args().iter().filter(|a| is_input(a.arg)).map(|a| a.desc.data_type());
        if desc.args().iter().any(|a| a.desc.data_type() == DataType::F64) {
            Self::F64
        } else if closed
            && desc.attributes().post_ops.is_empty()
            && inputs().all(|t| !t.is_float())
            && inputs().any(|t| matches!(t, DataType::S32 | DataType::S64))
        {
            Self::I64
        } else {
            Self::F32
        }
    }

    /// The scalar type's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::F64 => "double",
            Self::I64 => "long",
        }
    }

    /// The data type that stores a value without loss.
    pub(super) const fn storage(self) -> DataType {
        match self {
            Self::F32 => DataType::F32,
            Self::F64 => DataType::F64,
            Self::I64 => DataType::S64,
        }
    }

    /// A number of this type that comes with the launch where launches carry such.
    pub(super) fn number(self, x: f32) -> String {
        if self == Self::F32 { float(x) } else { self.literal(x) }
    }

    /// A literal of this type.
    pub(super) fn literal(self, x: f32) -> String {
        match self {
            _ if x.is_nan() => "NAN".into(),
            _ if x.is_infinite() => if x > 0.0 { "INFINITY" } else { "(-INFINITY)" }.into(),
            Self::F32 => format!("({x:?}f)"),
            Self::F64 => format!("({:?})", f64::from(x)),
            Self::I64 => format!("({}L)", x as i64),
        }
    }
}

/// The bits of an element and the suffix of the functions that convert it.
pub(super) fn storage(data_type: DataType) -> (usize, &'static str) {
    (data_type.bits(), data_type.name())
}

/// Whether the kernels load and store a data type (f64 where the device computes in it): `kernels/common/lanes.cl` has all but those of the
/// host.
pub(crate) fn stored(data_type: DataType) -> bool {
    !data_type.is_host_only()
}

/// Refuses data types and layouts that no kernel here handles.
pub(super) fn check(desc: &PrimitiveDesc, device: &DeviceTraits) -> Result<()> {
    for arg in desc.args() {
        let refuse = |why: String| Err(Error::unsupported(format!("{} with {}", desc.name(), arg.arg), why));
        let data_type = arg.desc.data_type();
        if !stored(data_type) {
            return refuse(format!("no kernel for data type {data_type}; reorder to f16 or s8 elsewhere"));
        }
        if data_type == DataType::F64 && !device.has(Feature::Fp64) {
            return refuse(format!("{} has no f64 arithmetic", device.name));
        }
        if matches!(arg.desc.layout(), Layout::Opaque { .. }) {
            let serves = match desc.op() {
                Op::Convolution(_) => arg.arg == Arg::Weights,
                // What is transformed is not had back.
                Op::Reorder(_) => arg.arg == Arg::DST || GroupPanels::of(&arg.desc).is_some(),
                _ => false,
            };
            if !(serves && opaque::is_known(&arg.desc)) {
                return refuse("no kernel makes or reads this opaque layout".into());
            }
        }
    }
    let known = |p: &PostOp| {
        matches!(p, PostOp::Eltwise(_) | PostOp::Binary { .. } | PostOp::Select { .. } | PostOp::Sum { .. })
    };
    let mut nodes =
        each_operation!(desc.op(), op => op.nodes().collect::<Vec<_>>(), _ => Vec::new()).into_iter();
    if !nodes.all(is_known) {
        return Err(Error::unsupported(desc.name(), "no kernel for this kind of node"));
    }
    if !desc.attributes().post_ops.iter().all(known) {
        return Err(Error::unsupported(desc.name(), "no kernel for this kind of post-operation"));
    }
    Ok(())
}

/// Whether kernels know what a node of an expression means. The enumeration is open.
fn is_known(node: &Node) -> bool {
    use Node as N;
    match node {
        N::Operand(_)
        | N::Constant(_)
        | N::Index(_)
        | N::Eltwise(..)
        | N::Binary(..)
        | N::Select(..)
        | N::Gradient { .. }
        | N::Cast(..)
        | N::Keep { .. }
        | N::Random { .. } => true,
        N::Fold(fold, _) => Fold::ALL.contains(fold),
        _ => false,
    }
}
