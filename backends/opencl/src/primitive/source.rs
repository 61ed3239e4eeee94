//! Program text: the macros that a kernel is written against, generated from a [`Space`], and the kernel's own files behind them.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::ops::Range;

use anydnn_backend::{Arg, DataType, Eltwise, PostOp, PrimitiveDesc};

use super::rows::CPU_LANES;
use super::space::{Binding, Index, Loop, Operand, Space, broadcast};
use super::value::{Value, storage};
use crate::capability::sub_groups::SubGroups;
use crate::plan::{Launch, LaunchArg, ProgramSource};

const PRELUDE: &str = anydnn_kernels::text("common/prelude.cl");
const LANES: &str = anydnn_kernels::text("common/lanes.cl");
const MATH: &str = anydnn_kernels::text("common/math.cl");
const ELTWISE: &str = anydnn_kernels::text("common/eltwise.cl");
const GRADIENT: &str = anydnn_kernels::text("common/gradient.cl");
const BINARY: &str = anydnn_kernels::text("common/binary.cl");
const KEEP: &str = anydnn_kernels::text("common/keep.cl");

/// Bytes of a result that are more than caches keep until somebody reads them.
const STREAMED_BYTES: usize = 8 << 20;

/// A program in the making.
#[derive(Debug)]
pub(super) struct Source {
    value: Value,
    lanes: usize,
    lane: Option<usize>,
    wide: bool,
    defines: String,
    args: Vec<LaunchArg>,
    /// The sub-groups that the kernel is written for, and their width.
    sub_groups: Option<(SubGroups, usize)>,
    /// Under which conditions vectors that start at multiples of their length are accessed as one.
    whole: Vec<String>,
}

/// Lanes whose vectors devices may access as one, if they are aligned to their length.
const WHOLE_LANES: [usize; 2] = [4, 8];

impl Source {
    /// The macros for the operands of a space. `lane` is the loop along which the lanes of a vector lie. `wide` asks for 64-bit
    /// offsets, `distinct` says that no result shares memory with a source.
    pub(super) fn new(
        space: &Space,
        value: Value,
        (lanes, lane): (usize, Option<usize>),
        wide: bool,
        distinct: bool,
    ) -> Self {
        let mut source = Self {
            value,
            lanes,
            lane,
            wide,
            defines: String::new(),
            args: Vec::new(),
            sub_groups: None,
            whole: Vec::new(),
        };
        let (mut params, mut enter) = (String::new(), String::new());
        // The result may lie where an operand of its post-operations does.
        let is_operand =
            |binding: &Binding| matches!(binding, Binding::Arg(Arg::PostOp(_) | Arg::PostOpOther(_)));
        let shares = space.operands.iter().any(|operand| is_operand(&operand.binding));
        for operand in &space.operands {
            let arg = match operand.binding {
                Binding::Arg(arg) => Ok(LaunchArg::Memory(arg)),
                Binding::Scratchpad(offset) => Ok(LaunchArg::Scratchpad { offset }),
                Binding::Alias(of) => Err(of),
                Binding::Number => {
                    source.number(space, operand);
                    continue;
                }
            };
            let pointer = arg.err().unwrap_or(&operand.name).to_lowercase();
            if let Ok(arg) = arg {
                let comma = if params.is_empty() { "" } else { ", " };
                let shared = is_operand(&operand.binding) || matches!(arg, LaunchArg::Memory(Arg::Dst(_)));
                let alone = is_constant(&operand.binding) || (distinct && !(shares && shared));
                let restrict = if alone { "restrict " } else { "" };
                let _ =
                    write!(params, "{comma}__global uchar *{restrict}{pointer}, const ulong {pointer}_byte");
                let _ = write!(enter, "{pointer} += {pointer}_byte; ");
                source.args.push(arg);
            }
            source.accessors(space, operand, &pointer);
        }
        source.define("PARAMS", params).define("ENTER", enter);
        source
    }

    /// Defines `HAS_WHOLE`, whether operands lie in whole vectors, and `ARE_WHOLE`, whether their pointers are aligned to those.
    pub(super) fn define_whole(&mut self) -> &mut Self {
        let condition = if self.whole.is_empty() { "0".into() } else { self.whole.join(" && ") };
        self.define("HAS_WHOLE", i32::from(!self.whole.is_empty()))
            .define("ARE_WHOLE", format!("({condition})"))
    }

    /// Defines `HOLD_ROW(DO)` for operands that a kernel reads once, by `FETCH_X`, and then from where its `HELD_IN(X)` says.
    pub(super) fn hold(&mut self, names: &[&str]) -> &mut Self {
        for name in names {
            let load = format!("#define LD_{name}(");
            self.defines = self.defines.replace(&load, &format!("#define FETCH_{name}("));
            self.define(format!("LD_{name}(o, n)"), format!("HELD_IN({name})"));
        }
        let all: Vec<String> = names.iter().map(|name| format!("DO({name})")).collect();
        self.define("HELD", 1).define("HOLD_ROW(DO)", all.join(" "))
    }

    /// Lets the kernel run in sub-groups of this width, `SUB_GROUP` in its text.
    pub(super) fn run_in(&mut self, sub_groups: SubGroups, width: usize) -> &mut Self {
        self.define("SUB_GROUP", width);
        if let Some(function) = &sub_groups.exchange {
            self.define("EXCHANGE(x, mask)", format!("{function}(x, mask)"));
        }
        self.sub_groups = Some((sub_groups, width));
        self
    }

    /// Defines a macro.
    pub(super) fn define(&mut self, name: impl Display, text: impl Display) -> &mut Self {
        let _ = writeln!(self.defines, "#define {name} {text}");
        self
    }

    /// Defines `name(t)`: declares the variables of a range of loops, the last one running fastest, from their joint number. The
    /// lane loop steps by whole vectors; `rows` is the number of its elements that a vector holds.
    pub(super) fn declare(&mut self, name: &str, space: &Space, loops: Range<usize>) -> &mut Self {
        let mut text = String::new();
        let mut rest = "(t)".to_string();
        let has_lane = self.lanes > 1 && self.lane.is_some_and(|lane| loops.contains(&lane));
        if name == "DECLARE_ROW" && !has_lane {
            text += "const int rows = 1; ";
        }
        for v in loops.clone().rev() {
            let Loop { name, extent } = &space.loops[v];
            let lane = self.lanes > 1 && self.lane == Some(v);
            let steps = if lane { extent.div_ceil(self.lanes) } else { *extent };
            let step = match steps {
                _ if v == loops.start => rest.clone(),
                0 | 1 => "0".into(),
                _ => format!("{rest} % {steps}"),
            };
            let _ = if lane {
                write!(
                    text,
                    "const idx {name} = ({step}) * LANES; \
                     const int rows = (int)min((idx)LANES, {extent} - {name}); "
                )
            } else {
                write!(text, "const idx {name} = {step}; ")
            };
            if v > loops.start && steps > 1 {
                let next = format!("rest_{name}");
                let _ = write!(text, "const idx {next} = {rest} / {steps}; ");
                rest = next;
            }
        }
        self.define(format!("{name}(t)"), text)
    }

    /// Defines `POST_OPS(v, n)`. The operands must have been added by [`add_post_ops`].
    pub(super) fn post_ops(&mut self, desc: &PrimitiveDesc) -> &mut Self {
        let mut text = String::new();
        for (i, post_op) in desc.attributes().post_ops.iter().enumerate() {
            let operand = format!("LD_POST{i}(OFF_POST{i}, n)");
            let _ = match post_op {
                PostOp::Eltwise(function) => write!(text, "v = {}; ", eltwise(self.value, *function, "v")),
                PostOp::Binary { algorithm, reversed, .. } => {
                    let (a, b) = if *reversed { (&*operand, "v") } else { ("v", &*operand) };
                    write!(text, "v = binary_{}({a}, {b}); ", algorithm.name())
                }
                PostOp::Sum { scale, zero_point, .. } => {
                    let scale = self.value.literal(*scale);
                    write!(
                        text,
                        "v += {scale} * (LD_OLD{i}(OFF_OLD{i}, n) - ({})({zero_point})); ",
                        self.value.name()
                    )
                }
                PostOp::Select { other_where_true, .. } => {
                    let other = format!("LD_OTHER{i}(OFF_OTHER{i}, n)");
                    let (yes, no) = if *other_where_true { (&*other, "v") } else { ("v", &*other) };
                    write!(text, "v = {operand} != (V)(0) ? {yes} : {no}; ")
                }
                // The enumeration is open; `value::check` refuses what is not listed here.
                _ => Ok(()),
            };
        }
        self.define("POST_OPS(v, n)", text)
    }

    /// The launch of a kernel of this program made of the given kernel files.
    pub(super) fn launch<F: Clone + Into<Cow<'static, str>>>(
        self,
        kernel: &str,
        files: &[F],
        global: [usize; 3],
        local: Option<[usize; 3]>,
    ) -> Launch {
        let Self { value, lanes, wide, defines, args, sub_groups, .. } = self;
        let files: Vec<Cow<'static, str>> = files.iter().cloned().map(Into::into).collect();
        let mut text = sub_groups.as_ref().map_or_else(String::new, |(found, _)| found.prelude());
        let _ = writeln!(
            text,
            "#define R {}\n#define R_IS_INTEGER {}",
            value.name(),
            i32::from(value == Value::I64)
        );
        let suffix = if value == Value::F32 { "##f" } else { "" };
        let _ = writeln!(text, "#define K(c) c{suffix}\ntypedef {} idx;", if wide { "long" } else { "int" });
        if lanes >= CPU_LANES {
            // A compiler that spreads work-items over lanes by itself, on top of that, takes many times as long.
            text += "#define __kernel __kernel __attribute__((vec_type_hint(float16)))\n";
        }
        if let Some((_, width)) = sub_groups.as_ref().filter(|(found, width)| found.settable.contains(width))
        {
            let _ = writeln!(
                text,
                "#define __kernel __kernel __attribute__((intel_reqd_sub_group_size({width})))"
            );
        }
        if value == Value::F64 {
            text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define USE_F64 1\n";
        }
        let mut pieces: Vec<Cow<'static, str>> =
            vec![text.into(), PRELUDE.into(), "#define LANES 1\n".into(), LANES.into()];
        if lanes > 1 {
            pieces.extend([format!("#undef LANES\n#define LANES {lanes}\n").into(), LANES.into()]);
        }
        pieces.push("typedef VEC(R) V;\n".into());
        let gradients = defines.contains("derivative_");
        if gradients
            || defines.contains("eltwise_")
            || files.iter().any(|file| file.contains("EXP_NEGATIVE("))
        {
            let own = i32::from(value == Value::F32 && lanes >= CPU_LANES);
            pieces.extend([format!("#define OWN_MATH {own}\n").into(), MATH.into()]);
        }
        if gradients || defines.contains("eltwise_") {
            pieces.push(ELTWISE.into());
        }
        if gradients {
            pieces.push(GRADIENT.into());
        }
        if defines.contains("binary_") {
            pieces.push(BINARY.into());
        }
        if defines.contains("keeps(") {
            pieces.push(KEEP.into());
        }
        pieces.push(defines.into());
        pieces.extend(files);
        Launch {
            program: ProgramSource {
                name: kernel.into(),
                source: pieces.into_iter().collect(),
                options: sub_groups.as_ref().map_or_else(String::new, |(found, _)| found.standard.clone()),
            },
            kernel: kernel.into(),
            args,
            table: Vec::new(),
            global,
            local,
            sub_group: sub_groups.map(|(_, width)| width),
            alignment: 1,
        }
    }

    /// The macros of a number that runs with the loops: `LD_` as a value, `AT_` as an integer.
    fn number(&mut self, space: &Space, operand: &Operand) {
        let Operand { name, address, .. } = operand;
        let (value, lanes) = (self.value.name(), self.lanes);
        let step = self.lane.map_or(0, |lane| address.coefficient(lane).unwrap_or(0));
        self.define(format!("OFF_{name}"), address.text(&space.loops));
        if lanes == 1 {
            self.define(format!("LD_{name}(o, n)"), "((R)(o))");
            self.define(format!("AT_{name}(o)"), "((ulong)(o))");
            return;
        }
        let steps: Vec<String> = (0..lanes).map(|l| (l * step).to_string()).collect();
        let at = |integer: &str| {
            let vector = format!("{integer}{lanes}");
            format!("(({vector})(({integer})(o)) + ({vector})({}))", steps.join(", "))
        };
        let integer = if self.wide { "long" } else { "int" };
        self.define(format!("LD_{name}(o, n)"), format!("convert_{value}{lanes}({})", at(integer)));
        self.define(format!("AT_{name}(o)"), at("ulong"));
    }

    /// The macros to reach an operand's elements.
    fn accessors(&mut self, space: &Space, operand: &Operand, pointer: &str) {
        let Operand { name, data_type, address, .. } = operand;
        let (bits, kind) = storage(*data_type);
        let (value, lanes) = (self.value.name(), self.lanes);
        // Without a step along the lanes the operand is one element for all of them.
        let step = self.lane.map_or(0, |lane| address.step(lane, self.lanes).unwrap_or(0));
        self.define(format!("OFF_{name}"), address.text(&space.loops));
        self.define(format!("NAT1_{name}(o)"), format!("unpack_{kind}_1(get_{bits}({pointer}, o))"));
        self.define(format!("LD1_{name}(o)"), format!("convert_{value}(NAT1_{name}(o))"));
        let put = format!("put_{bits}({pointer}, o, pack_{kind}_1");
        let of_halves = *data_type == DataType::F16 && self.value == Value::F32;
        let lane = self.lane.unwrap_or(usize::MAX);
        let whole = bits >= 8 && WHOLE_LANES.contains(&lanes) && address.is_aligned(lane, lanes);
        if whole {
            let condition = format!("IS_WHOLE({pointer}, {})", lanes * bits / 8);
            if !self.whole.contains(&condition) {
                self.whole.push(condition);
            }
        }
        let (load, keep) = match step {
            _ if lanes == 1 => (format!("LD1_{name}(o)"), format!("{put}(v))")),
            0 => (format!("(V)(LD1_{name}(o))"), format!("{put}((v).s0))")),
            1 if of_halves && lanes >= CPU_LANES => (
                format!("load_{kind}_{lanes}({pointer}, o, n)"),
                format!("store_{kind}_{lanes}({pointer}, o, n, v)"),
            ),
            _ => {
                let (load, store, step) = match step {
                    1 if whole => ("load_whole", "store_whole", String::new()),
                    1 => ("load", "store", String::new()),
                    _ => ("gather", "scatter", format!("{step}, ")),
                };
                let raw = format!("unpack_{kind}_{lanes}({load}_{bits}_{lanes}({pointer}, o, {step}n))");
                (
                    format!("convert_{value}{lanes}({raw})"),
                    format!("{store}_{bits}_{lanes}({pointer}, o, {step}n, pack_{kind}_{lanes}(v))"),
                )
            }
        };
        let store = if lanes > 1 && step == 1 && self.streams(space, operand) {
            format!("stream_{bits}_{lanes}({pointer}, o, n, pack_{kind}_{lanes}(v))")
        } else {
            keep.clone()
        };
        self.define(format!("LD_{name}(o, n)"), load);
        self.define(format!("KEEP_{name}(o, n, v)"), keep);
        self.define(format!("ST_{name}(o, n, v)"), store);
    }

    /// Whether an operand is so large that storing it had better not displace everything else from a CPU's caches.
    fn streams(&self, space: &Space, operand: &Operand) -> bool {
        let varies = |v: usize| operand.address.coefficient(v) != Some(0);
        let elements: usize =
            (0..space.loops.len()).filter(|&v| varies(v)).map(|v| space.loops[v].extent).product();
        self.lanes >= CPU_LANES
            && operand.data_type.bits() >= 8
            && DataType::bytes_for(operand.data_type, elements) >= STREAMED_BYTES
    }
}

/// Whether an operand is read alone and never where a result lies.
pub(super) fn is_constant(binding: &Binding) -> bool {
    matches!(binding, Binding::Arg(Arg::Scale | Arg::Shift | Arg::Bias | Arg::Mean | Arg::Variance))
}

/// Adds the operands of the post-operations: `POST<i>` for a binary one's second operand or a select's condition, `OTHER<i>` for a
/// select's other value, `OLD<i>` for the result's old content.
/// `index` are the indices of the result's dimensions.
pub(super) fn add_post_ops(space: &mut Space, desc: &PrimitiveDesc, index: &[Index]) {
    let dst = desc.dst();
    for (i, post_op) in desc.attributes().post_ops.iter().enumerate() {
        match post_op {
            PostOp::Binary { .. } | PostOp::Select { .. } => {
                let named = [("POST", Arg::PostOp(i as u16)), ("OTHER", Arg::PostOpOther(i as u16))];
                for (name, arg) in named {
                    if let Some(operand) = desc.find(arg) {
                        let index = broadcast(operand, dst.dims(), index);
                        space.operand(format!("{name}{i}"), Binding::Arg(arg), operand, &index);
                    }
                }
            }
            PostOp::Sum { data_type, .. } => {
                let old = dst.with_data_type(data_type.unwrap_or(dst.data_type()));
                space.operand(format!("OLD{i}"), Binding::Alias("DST"), &old, index);
            }
            _ => {}
        }
    }
}

/// The call of an element-wise function.
pub(super) fn eltwise(value: Value, function: Eltwise, x: &str) -> String {
    format!("eltwise_{}({})", function.name(), arguments(value, function, x))
}

/// An argument and the parameters of an element-wise function.
pub(super) fn arguments(value: Value, function: Eltwise, x: &str) -> String {
    let arguments: Vec<String> = std::iter::once(x.to_string())
        .chain(function.parameters().iter().map(|&p| value.literal(p)))
        .collect();
    arguments.join(", ")
}

/// Whether the operand's elements lie side by side along a loop.
pub(super) fn is_contiguous(space: &Space, operand: &str, variable: usize) -> bool {
    space.coefficient(operand, variable) == Some(1)
}
