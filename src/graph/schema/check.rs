//! Checks an operation against its schema and fills in what was left out.

use anydnn_backend::{Error, InvalidKind, Result};

use super::super::op::{AttrValue, Op};
use super::super::op_kind::{OpKind, edit_distance};
use super::{Absent, AttrSpec, AttrType, Ports, Schema};

/// Checks the counts and attributes of an operation, gives words their one spelling and fills in the defaults.
///
/// # Errors
/// [`Error::Invalid`] of the kind [`InvalidKind::GraphOp`] that names the operation, what was given and what was expected.
pub(crate) fn complete(op: &mut Op) -> Result<()> {
    let schema = Schema::of(op.kind);
    check_count(op, "inputs", op.inputs.len(), &schema.inputs)?;
    check_most(op, "inputs", op.inputs.len())?;
    check_outputs(op, op.outputs.len())?;
    if !schema.open {
        check_attrs(op, &schema)?;
    }
    fill_in(op, &schema);
    check_together(op)
}

/// The most inputs or outputs of an operation, of those that may have any number.
const MOST: usize = 4096;

/// Checks that an operation may make so many tensors, which it need not list yet.
///
/// # Errors
/// As [`complete`].
pub(crate) fn check_outputs(op: &Op, count: usize) -> Result<()> {
    check_count(op, "outputs", count, &Schema::of(op.kind).outputs)?;
    check_most(op, "outputs", count)
}

fn check_most(op: &Op, what: &str, count: usize) -> Result<()> {
    if count > MOST {
        return Err(wrong(op, format!("number of {what}"), count, format!("at most {MOST}")));
    }
    Ok(())
}

fn check_count(op: &Op, what: &str, given: usize, ports: &Ports) -> Result<()> {
    if ports.allows(given) {
        return Ok(());
    }
    let names = ports.names.join(", ");
    let expected = match (ports.required, ports.names.len(), ports.variadic) {
        (least, _, true) => format!("at least {least} ({names}...)"),
        (0, 0, _) => "none".to_owned(),
        (least, most, _) if least == most => format!("{most} ({names})"),
        (least, most, _) => format!("{least} to {most} ({names})"),
    };
    Err(wrong(op, format!("number of {what}"), given, expected))
}

fn check_attrs(op: &mut Op, schema: &Schema) -> Result<()> {
    let mut spelled: Vec<(&str, &str)> = Vec::new();
    for (name, value) in op.attrs.iter() {
        let Some(spec) = schema.attr(name) else { return Err(unknown(op, name, schema)) };
        match (value, spec.value) {
            (AttrValue::String(given), AttrType::Word(words)) => {
                let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(given)) else {
                    let expected = format!("one of {}", words.join(", "));
                    return Err(wrong(op, format!("attribute {name}"), format!("{given:?}"), expected));
                };
                if word != given {
                    spelled.push((spec.name, word));
                }
            }
            (value, wanted) if value.type_name() == wanted.name() => {}
            (value, wanted) => {
                let given = format!("of type {}", value.type_name());
                return Err(wrong(op, format!("attribute {name}"), given, format!("type {}", wanted.name())));
            }
        }
    }
    for (name, word) in spelled {
        op.attrs.set(name, word);
    }
    match schema
        .attrs
        .iter()
        .find(|spec| spec.absent == Absent::Required && op.attrs.get(spec.name).is_none())
    {
        Some(AttrSpec { name, value, .. }) => Err(wrong(
            op,
            format!("attribute {name}"),
            "missing",
            format!("a value of type {}", value.name()),
        )),
        None => Ok(()),
    }
}

fn unknown(op: &Op, name: &str, schema: &Schema) -> Error {
    let names: Vec<_> = schema.attrs.iter().map(|spec| spec.name).collect();
    let near = names.iter().find(|known| name.len() <= 64 && edit_distance(name, known) <= 2);
    let expected = match near {
        Some(near) => format!("{near:?}?"),
        None if names.is_empty() => "no attributes".to_owned(),
        None => format!("one of {}", names.join(", ")),
    };
    wrong(op, "attribute", format!("{name:?}"), expected)
}

fn fill_in(op: &mut Op, schema: &Schema) {
    for spec in schema.attrs {
        if op.attrs.get(spec.name).is_some() {
            continue;
        }
        let value = match spec.absent {
            Absent::Required | Absent::Nothing => continue,
            Absent::F32(value) => AttrValue::F32(value),
            Absent::S64(value) => AttrValue::S64(value),
            Absent::Bool(value) => AttrValue::Bool(value),
            Absent::Word(word) => AttrValue::String(word.into()),
            Absent::Repeat(value, like) => {
                AttrValue::S64s(vec![value; op.attrs.s64s(like).map_or(0, <[i64]>::len)])
            }
        };
        op.attrs.add(spec.name, value);
    }
}

/// What attributes and counts ask of each other.
fn check_together(op: &Op) -> Result<()> {
    let absent = |name: &str| op.attrs.get(name).is_none();
    match op.kind {
        OpKind::LayerNorm | OpKind::GroupNorm => {
            let outputs = if op.attrs.bool("keep_stats")? { 3 } else { 1 };
            if op.outputs.len() != outputs {
                let expected = format!("{outputs}, because keep_stats is {}", outputs == 3);
                return Err(wrong(op, "number of outputs", op.outputs.len(), expected));
            }
            if op.attrs.bool("use_affine")? && op.inputs.len() != 3 {
                return Err(wrong(op, "number of inputs", op.inputs.len(), "3, because use_affine is true"));
            }
        }
        OpKind::BatchNormForwardTraining if op.inputs.len() == 4 => {
            return Err(wrong(op, "number of inputs", 4, "gamma and beta both or neither"));
        }
        OpKind::Quantize | OpKind::Dequantize => check_quantization(op)?,
        OpKind::Interpolate if op.inputs.len() == 1 && absent("sizes") && absent("scales") => {
            return Err(wrong(op, "attribute sizes", "missing", "either sizes or scales"));
        }
        OpKind::DynamicDequantize if op.attrs.string("qtype")? == "per_group" && absent("group_shape") => {
            let expected = "a list, because qtype is per_group";
            return Err(wrong(op, "attribute group_shape", "missing", expected));
        }
        _ => {}
    }
    match op.attrs.get("groups") {
        Some(AttrValue::S64(groups)) if *groups < 1 => {
            Err(wrong(op, "attribute groups", groups, "at least 1"))
        }
        _ => Ok(()),
    }
}

fn check_quantization(op: &Op) -> Result<()> {
    let scales = op.attrs.f32s("scales")?.len();
    if op.attrs.string("qtype")? == "per_tensor" && scales != 1 {
        return Err(wrong(op, "length of attribute scales", scales, "1, because qtype is per_tensor"));
    }
    match op.attrs.s64s("zps").map(<[i64]>::len) {
        // Some writers leave an empty list where there are no zero points, and one for all channels.
        Ok(zps) if zps > 1 && zps != scales => {
            Err(wrong(op, "length of attribute zps", zps, format!("{scales}, as many as scales")))
        }
        _ => Ok(()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "numbers and references alike")]
fn wrong(op: &Op, subject: impl Into<String>, given: impl ToString, expected: impl Into<String>) -> Error {
    Error::invalid_kind(InvalidKind::GraphOp, op.to_string(), subject, given.to_string(), expected)
}
