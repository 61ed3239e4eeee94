//! Operands that are dequantised as they are read: `(x - zero point) * scale`.
//!
//! For an operand X a kernel finds:
//!
//! - `DEQ_X(x, n)` and `DEQ1_X(x)`: what elements (one element) mean, from what was loaded;
//! - `OUT_X(v, n)`: a sum over such elements times the scale, where the scale could wait for the sum's end;
//! - `READ_X`: one element at the loop variables' values, of type `ACC`.

use anydnn_backend::{Arg, Dims, PrimitiveDesc, Quantized};

use super::source::Source;
use super::space::{Binding, Index, Operand, Space, broadcast_by_blocks};

/// Whether an operand is dequantised.
pub(super) fn is_dequantized(desc: &PrimitiveDesc, arg: Arg) -> bool {
    desc.attributes().dequantize.iter().any(|d| d.operand.arg() == arg)
}

/// Adds the scales and zero points of the operand `name`, whose dimensions have these indices, if it has any.
pub(super) fn add(
    space: &mut Space,
    desc: &PrimitiveDesc,
    of: Quantized,
    name: &str,
    dims: &Dims,
    index: &[Index],
) {
    if !is_dequantized(desc, of.arg()) {
        return;
    }
    for (arg, prefix) in [(Arg::ScaleOf(of), "SCALE"), (Arg::ZeroPointOf(of), "ZERO")] {
        if let Some(operand) = desc.find(arg) {
            let index = broadcast_by_blocks(operand.dims(), dims, index);
            space.operand(format!("{prefix}_{name}"), Binding::Arg(arg), operand, &index);
        }
    }
}

/// Adds the zero points of an operand that a copy reads as `SRC0`, and the scales where these count, as `ZERO` and `SCALE`: what the copy's vectors
/// are of.
pub(super) fn meaning(
    space: &mut Space,
    desc: &PrimitiveDesc,
    of: Quantized,
    dims: &Dims,
    index: &[Index],
    is_scaled: bool,
) -> String {
    let mut meaning = "LD_SRC0(OFF_SRC0, n)".to_owned();
    if let Some(zero) = desc.find(Arg::ZeroPointOf(of)) {
        let at = broadcast_by_blocks(zero.dims(), dims, index);
        space.operand("ZERO", Binding::Arg(Arg::ZeroPointOf(of)), zero, &at);
        meaning = format!("({meaning} - LD_ZERO(OFF_ZERO, n))");
    }
    if let Some(scale) = desc.find(Arg::ScaleOf(of)).filter(|_| is_scaled) {
        let at = broadcast_by_blocks(scale.dims(), dims, index);
        space.operand("SCALE", Binding::Arg(Arg::ScaleOf(of)), scale, &at);
        meaning = format!("{meaning} * LD_SCALE(OFF_SCALE, n)");
    }
    meaning
}

/// Whether an operand has one element for all terms of sums over these loops, wherever those find the source.
pub(super) fn is_same_for_terms(
    space: &Space,
    operand: &Operand,
    sum: impl IntoIterator<Item = usize>,
) -> bool {
    sum.into_iter().chain(space.places()).all(|v| operand.address.step(v, 1) == Some(0))
}

/// Whether scales or zero points of the operand `name` differ along one of these loops.
pub(super) fn varies(space: &Space, name: &str, loops: &[usize]) -> bool {
    let differs = |o: &Operand| !is_same_for_terms(space, o, loops.iter().copied());
    ["SCALE", "ZERO"].iter().any(|prefix| space.find(&format!("{prefix}_{name}")).is_some_and(differs))
}

/// Defines the macros of the operand `name`. The scale waits for the end of sums over the loops `sum`, if these are given and it is the
/// same all along them.
pub(super) fn define(source: &mut Source, space: &Space, name: &str, sum: &[usize]) {
    let (scale, zero) = (format!("SCALE_{name}"), format!("ZERO_{name}"));
    let waits = !sum.is_empty()
        && space.find(&scale).is_some_and(|o| is_same_for_terms(space, o, sum.iter().copied()));
    let (mut lanes, mut one) = ("(x)".to_string(), "(x)".to_string());
    if space.find(&zero).is_some() {
        lanes = format!("({lanes} - LD_{zero}(OFF_{zero}, n))");
        one = format!("({one} - LD1_{zero}(OFF_{zero}))");
    }
    let scaled = format!("LD_{scale}(OFF_{scale}, n)");
    if space.find(&scale).is_some() && !waits {
        lanes = format!("({lanes} * {scaled})");
        one = format!("({one} * LD1_{scale}(OFF_{scale}))");
    }
    let plain = one == "(x)" && !waits;
    source
        .define(format_args!("DEQ_{name}(x, n)"), lanes)
        .define(format_args!("DEQ1_{name}(x)"), &one)
        .define(
            format_args!("OUT_{name}(v, n)"),
            if waits { format!("((v) * {scaled})") } else { "(v)".into() },
        );
    if plain {
        source.define(format_args!("READ_{name}"), format!("(ACC)NAT1_{name}(OFF_{name})"));
    } else {
        source.define(format_args!("READ_{name}"), format!("(ACC)DEQ1_{name}(LD1_{name}(OFF_{name}))"));
    }
}
