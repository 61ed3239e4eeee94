//! Sums of products: the numbers they are made of and kept in, and what is added or applied to them.

use anydnn_backend::op::{BinaryAlgorithm, Op};
use anydnn_backend::{Arg, DataType, PrimitiveDesc};

use super::quantized;
use super::source::{Source, eltwise};
use super::value::Value;

/// The type of the sums: exact for integers, wide enough for their number.
pub(super) fn accumulator(desc: &PrimitiveDesc, terms: usize, value: Value) -> &'static str {
    let factors = || desc.args().iter().filter(|a| is_factor(desc, a.arg));
    let bits = factors().map(|a| a.desc.data_type().bits()).max().unwrap_or(64);
    let exact = factors().all(|a| !a.desc.data_type().is_float() && !quantized::is_dequantized(desc, a.arg));
    match (exact, value) {
        // 255 * 255 * 33025 still fits 31 bits.
        (true, _) if bits <= 8 && terms <= 33_000 => "int",
        (true, _) => "long",
        _ => value.name(),
    }
}

/// Whether an argument is a source or weights, which sums of products are made of.
fn is_factor(desc: &PrimitiveDesc, arg: Arg) -> bool {
    arg == Arg::SRC || arg == Arg::Weights || (matches!(desc.op(), Op::GatedMatMul(_)) && arg == Arg::Src(1))
}

/// Whether all operands mean real numbers that f32 arithmetic serves.
pub(super) fn is_real(desc: &PrimitiveDesc) -> bool {
    let small = |arg: Arg, t: DataType| {
        (t.is_float() && t.bits() <= 32) || (t.bits() <= 8 && quantized::is_dequantized(desc, arg))
    };
    let mut factors = desc.args().iter().filter(|a| is_factor(desc, a.arg));
    factors.all(|a| small(a.arg, a.desc.data_type())) && Value::of(desc, true) == Value::F32
}

/// Whether sums of so many products are exact in f32, or real numbers that f32 arithmetic serves.
pub(super) fn fits_f32(desc: &PrimitiveDesc, terms: usize) -> bool {
    // 255 * 255 * 258 still fits 24 bits.
    let exact = accumulator(desc, terms, Value::F32) == "int" && terms <= 258;
    is_real(desc) || (exact && Value::of(desc, true) == Value::F32)
}

/// Defines `ADD_BIAS(v, n)`.
pub(super) fn define_bias(source: &mut Source, desc: &PrimitiveDesc) {
    let bias = desc.find(Arg::Bias).map_or("", |_| "v += LD_BIAS(OFF_BIAS, n);");
    source.define("ADD_BIAS(v, n)", bias);
}

/// Defines `GATED` and for gated products `ACTIVATION(x)` and `JOIN(a, b)`.
pub(super) fn define_gate(source: &mut Source, desc: &PrimitiveDesc, value: Value) {
    let gated = matches!(desc.op(), Op::GatedMatMul(_));
    source.define("GATED", i32::from(gated));
    if let Op::GatedMatMul(op) = desc.op() {
        source.define("ACTIVATION(x)", eltwise(value, op.activation, "x"));
        // Products are what they were: the compiler sees one operator.
        let join = match op.join {
            BinaryAlgorithm::Multiply => "((a) * (b))".to_owned(),
            join => format!("binary_{}(a, b)", join.name()),
        };
        source.define("JOIN(a, b)", join);
    }
}
