//! Attributes in a verbose line.

use std::ffi::c_int;
use std::fmt::Write;

use anydnn_backend::{FpMath, ScratchpadMode};

use crate::attributes::{Attr, QuantParam};
use crate::debug;
use crate::desc::{Format, TypeCode, number};
use crate::kinds::arg;
use crate::post_ops::PostOpEntry;
use crate::settings;
use crate::told::{View, joined, letters, text};
use crate::types::dnnl_e8m0;

/// The attributes that are not as they are by default.
pub(crate) fn attributes(attr: &Attr, view: &View) -> String {
    let mut told = Vec::new();
    if attr.scratchpad == ScratchpadMode::User {
        told.push("attr-scratchpad:user".to_owned());
    }
    if attr.fpmath != FpMath::default() {
        let mode = text(debug::dnnl_fpmath_mode2str(settings::fpmath_number(attr.fpmath)));
        let integers = if attr.fpmath_for_integers { ":true" } else { "" };
        told.push(format!("attr-fpmath:{mode}{integers}"));
    }
    if attr.accumulation != 0 {
        told.push(format!(
            "attr-acc-mode:{}",
            text(debug::dnnl_accumulation_mode2str(attr.accumulation as _))
        ));
    }
    if !attr.stochastic.is_empty() {
        let list: Vec<_> = attr.stochastic.iter().map(|&of| format!("{}:stochastic", argument(of))).collect();
        told.push(format!("attr-rounding-mode:{}", list.join("+")));
    }
    if attr.deterministic {
        told.push("attr-deterministic:true".to_owned());
    }
    for (name, list) in [("scales", &attr.scales), ("zero-points", &attr.zero_points)] {
        let mut sorted: Vec<_> = list.iter().collect();
        sorted.sort_by_key(|(number, _)| *number);
        if !sorted.is_empty() {
            let list: Vec<_> = sorted.into_iter().map(|(of, factor)| factor_text(*of, factor)).collect();
            told.push(format!("attr-{name}:{}", list.join("+")));
        }
    }
    if let Some(factor) = &attr.reductions {
        told.push(format!("attr-precomputed-reductions:{}", factor_text(arg::SRC, factor)));
    }
    if !attr.post_ops().is_empty() {
        let list: Vec<_> = attr.post_ops().iter().map(|post_op| post_op_text(post_op, view)).collect();
        told.push(format!("attr-post-ops:{}", list.join("+")));
    }
    if attr.dropout.is_some() {
        told.push("attr-dropout:true".to_owned());
    }
    if let Some((scale, shift)) = attr.recurrent.data {
        told.push(format!("rnn_data_qparams:{scale}:{shift};"));
    }
    told.join(" ")
}

/// `argument:mask:type:groups`.
fn factor_text(of: c_int, factor: &QuantParam) -> String {
    let code = if factor.exponents { Some(dnnl_e8m0) } else { number(factor.data_type) };
    let mut told =
        format!("{}:{}:{}", argument(of), factor.mask, text(debug::dnnl_dt2str(code.unwrap_or(0))));
    if !factor.groups.is_empty() {
        let groups: Vec<i64> = factor.groups.iter().map(|&group| group as i64).collect();
        let _ = write!(told, ":{}", joined(&groups));
    }
    if factor.on_host {
        told.push_str(":host_scalar");
    }
    told
}

/// The word for an argument.
fn argument(number: c_int) -> String {
    match number {
        arg::SRC..=arg::SRC_3 => format!("src{}", number - arg::SRC),
        arg::DST => "dst".to_owned(),
        arg::WEIGHTS => "wei".to_owned(),
        arg::BIAS => "bia".to_owned(),
        arg::DIFF_SRC => "diff_src".to_owned(),
        arg::DIFF_DST => "diff_dst".to_owned(),
        arg::DIFF_WEIGHTS => "diff_wei".to_owned(),
        number if (arg::MULTIPLE_SRC..arg::ATTR_SCALES).contains(&number) => {
            format!("msrc{}", number - arg::MULTIPLE_SRC)
        }
        other => format!("arg{other}"),
    }
}

fn post_op_text(post_op: &PostOpEntry, view: &View) -> String {
    let name = |kind: c_int| text(debug::dnnl_alg_kind2str(kind));
    let type_name = |code| text(debug::dnnl_dt2str(code));
    match post_op {
        PostOpEntry::Sum { scale, zero_point, data_type, code } => {
            let mut told = "sum".to_owned();
            if scale.to_bits() != 1.0_f32.to_bits() || *zero_point != 0 || data_type.is_some() {
                let _ = write!(told, ":{scale}");
            }
            if *zero_point != 0 || data_type.is_some() {
                let _ = write!(told, ":{zero_point}");
            }
            if data_type.is_some() {
                let _ = write!(told, ":{}", type_name(*code));
            }
            told
        }
        PostOpEntry::Eltwise { kind, alpha, beta, .. } => {
            let mut told = name(*kind).to_owned();
            if *alpha != 0.0 || *beta != 0.0 {
                let _ = write!(told, ":{alpha}");
            }
            if *beta != 0.0 {
                let _ = write!(told, ":{beta}");
            }
            told
        }
        PostOpEntry::Binary { kind, src1, .. } => {
            let md = src1.value();
            let same = |axis: &usize| view.dst().is_none_or(|dst| dst.dims[*axis] == md.dims[*axis]);
            let mask = (0..md.rank)
                .filter(same)
                .filter(|&axis| md.dims[axis] != 1)
                .fold(0_u32, |mask, axis| mask | 1 << axis);
            let mut told =
                format!("{}:{}:{mask}", name(*kind), type_name(md.data_type.map_or(0, TypeCode::value)));
            if mask.count_ones() > 1 {
                let layout = if matches!(md.format, Format::Any) { "any".to_owned() } else { letters(md).0 };
                let _ = write!(told, ":{layout}");
            }
            told
        }
        PostOpEntry::Prelu { mask } => format!("prelu:{mask}"),
        PostOpEntry::Depthwise { types, sizes: [kernel, stride, pad] } => {
            format!("dw:k{kernel}s{stride}p{pad}:{}", type_name(types[2]))
        }
    }
}
