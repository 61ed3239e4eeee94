//! Program text: the macros that a kernel is written against, generated from a [`Space`], and the kernel's own files behind them.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::ops::Range;

use anydnn_backend::{Arg, DataType, Eltwise, PostOp, PrimitiveDesc};

use super::numbers::{self, Number, always, mark};
use super::rows::CPU_LANES;
use super::space::{Binding, Index, Loop, Operand, Space, broadcast};
use super::value::{Value, storage};
use crate::capability::sub_groups::SubGroups;
use crate::plan::{DeviceTraits, Launch, LaunchArg, ProgramSource, SpecialProgram, SpecialText};

const PRELUDE: &str = anydnn_kernels::text("common/prelude.cl");
const LANES: &str = anydnn_kernels::text("common/lanes.cl");
const MATH: &str = anydnn_kernels::text("common/math.cl");
const ELTWISE: &str = anydnn_kernels::text("common/eltwise.cl");
const GRADIENT: &str = anydnn_kernels::text("common/gradient.cl");
const BINARY: &str = anydnn_kernels::text("common/binary.cl");
const KEEP: &str = anydnn_kernels::text("common/keep.cl");

/// Bytes of a result that are more than caches keep until somebody reads them.
const STREAMED_BYTES: usize = 8 << 20;
const SHORT_ROW_BYTES: usize = 4 << 10;

/// A program in the making.
#[derive(Debug)]
pub(super) struct Source {
    value: Value,
    lanes: usize,
    lane: Option<usize>,
    wide: bool,
    /// Whether the numbers of the shape come with each launch.
    general: bool,
    alike: Alike,
    /// Where the kernel is faster by numbers that its compiler knows: what [`Source::gains`] was told.
    gains: Option<(u64, u64)>,
    params: String,
    /// With [marks](numbers).
    defines: String,
    args: Vec<LaunchArg>,
    /// The sub-groups that the kernel is written for, and their width.
    sub_groups: Option<(SubGroups, usize)>,
    /// The work-items of each work-group, where compilers have to leave registers for all of them.
    group: Option<usize>,
    /// Under which conditions vectors that start at multiples of their length are accessed as one.
    whole: Vec<String>,
    /// The longest of those vectors, in bytes.
    whole_bytes: usize,
    /// Bytes to which every memory is aligned where this kernel runs.
    alignment: usize,
    /// The parameter for the number of the execution, where the kernel takes it.
    number: &'static str,
    results: Results,
}

/// The shapes of which a text says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alike {
    /// Those for which the same zeros and ones are left out.
    Few,
    /// All of a rank: what such tensors lack is left out.
    Rank,
    All,
}

/// How results are stored, as far as it matters to how exact functions have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Results {
    /// All as floats of 16 bits.
    Short,
    Any,
}

/// Bytes that the definitions of most programs fit into.
const USUAL: usize = 10 << 10;

/// Lanes whose vectors devices may access as one, if they are aligned to their length.
const WHOLE_LANES: [usize; 2] = [4, 8];

impl Source {
    /// The macros for the operands of a space. `lane` is the loop along which the lanes of a vector lie. `wide` asks for 64-bit
    /// offsets, `distinct` says that no result shares memory with a source.
    pub(super) fn new(
        space: &Space,
        value: Value,
        lanes: (usize, Option<usize>),
        wide: bool,
        distinct: bool,
    ) -> Self {
        Self::of_operands(space, value, lanes, wide, (distinct, true))
    }

    /// The operands' pointers alone: the kernel reaches their elements by numbers of the launch.
    pub(super) fn of_pointers(
        space: &Space,
        value: Value,
        lanes: (usize, Option<usize>),
        wide: bool,
    ) -> Self {
        Self::of_operands(space, value, lanes, wide, (false, false))
    }

    fn of_operands(
        space: &Space,
        value: Value,
        (lanes, lane): (usize, Option<usize>),
        wide: bool,
        (distinct, accessed): (bool, bool),
    ) -> Self {
        let mut source = Self {
            value,
            lanes,
            lane,
            wide,
            general: space.complete.is_some(),
            alike: Alike::of(space),
            gains: None,
            params: String::new(),
            defines: String::with_capacity(USUAL),
            args: Vec::new(),
            sub_groups: None,
            group: None,
            whole: Vec::new(),
            whole_bytes: 1,
            alignment: 1,
            number: "",
            results: Results::of(space),
        };
        let (mut params, mut enter) = (String::new(), String::new());
        // The result may lie where an operand of its post-operations does.
        let is_operand =
            |binding: &Binding| matches!(binding, Binding::Arg(Arg::PostOp(_) | Arg::PostOpOther(_)));
        // Constants are not the result, and are not read where the result stands in their place.
        let is_constant_name = |name: &str| matches!(name, "BIAS" | "MEAN" | "VARIANCE" | "SCALE" | "SHIFT");
        // On processors, where nothing else can be the result.
        let may_be_result = |operand: &Operand| {
            operand.name != "DST"
                && !is_constant_name(&operand.name)
                && (is_operand(&operand.binding) || matches!(operand.binding, Binding::Arg(Arg::Dst(_))))
        };
        let is_alone = lanes >= CPU_LANES && !space.operands.iter().any(may_be_result);
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
                // A complete text says the same whether an operand is there or not.
                let alone = match space.complete {
                    Some(_) => {
                        (operand.name == "DST" && distinct && is_alone)
                            || matches!(&*operand.name, "SRC0" | "WEIGHTS") && distinct
                            || is_constant_name(&operand.name)
                    }
                    None => is_constant(&operand.binding) || (distinct && !(shares && shared)),
                };
                let restrict = if alone { "restrict " } else { "" };
                let _ =
                    write!(params, "{comma}__global uchar *{restrict}{pointer}, const ulong {pointer}_byte");
                let _ = write!(enter, "{pointer} += {pointer}_byte; ");
                source.args.push(arg);
            }
            if accessed {
                source.accessors(space, operand, &pointer);
            }
        }
        source.params = params;
        source.define("ENTER", enter);
        source
    }

    /// Defines `HAS_WHOLE`, whether operands lie in whole vectors, and `ARE_WHOLE`, whether their pointers are aligned to those.
    pub(super) fn define_whole(&mut self) -> &mut Self {
        let condition = if self.whole.is_empty() { "0".into() } else { self.whole.join(" && ") };
        self.define("HAS_WHOLE", i32::from(!self.whole.is_empty()))
            .define("ARE_WHOLE", format_args!("({condition})"))
    }

    /// Gives the kernel a number that no other execution has, `execution` in its text.
    pub(super) fn numbered(&mut self) -> &mut Self {
        self.number = ", const ulong execution";
        self
    }

    /// Leaves memories that whole vectors are not aligned in to the program for unaligned memory: the others need no branch around each
    /// access, and loads that no branch parts are under way together.
    pub(super) fn require_whole(&mut self) -> &mut Self {
        self.alignment = self.whole_bytes;
        self
    }

    /// Defines `HOLD_ROW(DO)` for operands that a kernel reads once, by `FETCH_X`, and then from where its `HELD_IN(X)` says.
    pub(super) fn hold(&mut self, names: &[&str]) -> &mut Self {
        for name in names {
            let load = format!("#define LD_{name}(");
            self.defines = self.defines.replace(&load, &format!("#define FETCH_{name}("));
            self.define(format_args!("LD_{name}(o, n)"), format!("HELD_IN({name})"));
        }
        let all: Vec<String> = names.iter().map(|name| format!("DO({name})")).collect();
        self.define("HELD", 1).define("HOLD_ROW(DO)", all.join(" "))
    }

    /// Lets the kernel run in sub-groups of this width, `SUB_GROUP` in its text.
    pub(super) fn run_in(&mut self, sub_groups: SubGroups, width: usize) -> &mut Self {
        self.define("SUB_GROUP", width);
        if let Some(function) = &sub_groups.exchange {
            self.define("EXCHANGE(x, mask)", format_args!("{function}(x, mask)"));
        }
        self.sub_groups = Some((sub_groups, width));
        self
    }

    /// Has the kernel compiled for work-groups of so many work-items. Without, compilers may take more registers than as many can have, and
    /// the device refuses the launch.
    pub(super) fn for_groups_of(&mut self, items: usize) -> &mut Self {
        self.group = Some(items);
        self
    }

    /// Leaves out the stores that pass the cache by where a result is large: the kernel has none, and its text says the same of every size.
    pub(super) fn without_streams(&mut self) -> &mut Self {
        let kept = self.defines.lines().filter(|line| !line.starts_with("#define ST_"));
        self.defines = kept.flat_map(|line| [line, "\n"]).collect();
        self
    }

    /// Lets the numbers of the shape come with each launch: one program serves all shapes of a kind.
    pub(super) fn general(&mut self) -> &mut Self {
        self.general = true;
        self
    }

    /// Says that the kernel is faster by numbers that its compiler knows: by how much of its time, as the number that this is divided by. An
    /// execution has so many operations, weighted by how slow they are beside those of a product.
    pub(super) fn gains(&mut self, share: u64, operations: usize) -> &mut Self {
        self.gains = Some((share, operations as u64));
        self
    }

    /// Whether nothing is left out for zero and one.
    fn is_complete(&self) -> bool {
        self.alike != Alike::Few
    }

    /// A number of the shape, with the mark that it takes in this text.
    pub(super) fn shape_number(&self, number: impl Number) -> String {
        if self.is_complete() { always(number).to_string() } else { mark(number).to_string() }
    }

    /// A number that all tensors of a rank have in common where they lack a dimension.
    pub(super) fn rank_number(&self, number: impl Number) -> String {
        if self.alike == Alike::Rank { number.to_string() } else { self.shape_number(number) }
    }

    /// Defines a macro as a number that a launch may bring.
    pub(super) fn number_of(&mut self, name: impl Display, number: impl Number) -> &mut Self {
        self.define(name, always(number))
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
        let mut rest = "(number)".to_string();
        let has_lane = self.lanes > 1 && self.lane.is_some_and(|lane| loops.contains(&lane));
        if name == "DECLARE_ROW" && !has_lane {
            text += "const int rows = 1; ";
        }
        // Behind missing dimensions, which have no part in the number.
        let first = loops.clone().find(|&v| !space.is_left_out(v));
        for v in loops.clone().rev() {
            let Loop { name, extent, .. } = &space.loops[v];
            let lane = self.lanes > 1 && self.lane == Some(v);
            let steps = if lane { extent.div_ceil(self.lanes) } else { *extent };
            let step = match steps {
                _ if space.is_left_out(v) => "0".into(),
                _ if Some(v) == first => rest.clone(),
                0 | 1 if !self.is_complete() => "0".into(),
                _ => {
                    let next = format!("rest_{name}");
                    let _ = write!(text, "const idx {next} = {}; ", numbers::any_quotient(&rest, steps));
                    let step = format!("{rest} - {next} * {}", always(steps));
                    rest = next;
                    step
                }
            };
            let _ = if lane {
                write!(
                    text,
                    "const idx {name} = ({step}) * LANES; \
                     const int rows = (int)min((idx)LANES, {} - {name}); ",
                    self.shape_number(*extent)
                )
            } else {
                write!(text, "const idx {name} = {step}; ")
            };
        }
        self.define(format_args!("{name}(number)"), text)
    }

    /// The same where all loops behind the range are the kernel's own: a complete text names them, so that they are zero until the kernel
    /// declares them.
    pub(super) fn declare_before(&mut self, name: &str, space: &Space, loops: Range<usize>) -> &mut Self {
        let end = loops.end;
        self.declare(name, space, loops);
        if self.is_complete() {
            let variables = space.loops[end..].iter().filter(|l| !l.is_place());
            let zeros: Vec<String> = variables.map(|l| format!("const idx {} = 0; ", l.name)).collect();
            // Behind the definition that was just written.
            let at = self.defines.trim_end().len();
            self.defines.insert_str(at, &format!(" {}", zeros.concat()));
        }
        self
    }

    /// Defines `POST_OPS(v, n)` as nothing: a list has the post-operations.
    pub(super) fn no_post_ops(&mut self) -> &mut Self {
        self.define("POST_OPS(v, n)", "")
    }

    /// Defines `POST_OPS(v, n)`. The operands must have been added by [`add_post_ops`].
    pub(super) fn post_ops(&mut self, desc: &PrimitiveDesc) -> &mut Self {
        self.post_ops_up_to(desc, desc.attributes().post_ops.len())
    }

    /// The same of the first ones alone.
    pub(super) fn post_ops_up_to(&mut self, desc: &PrimitiveDesc, count: usize) -> &mut Self {
        self.post_ops_and(desc, count, "")
    }

    /// The same with statements behind them.
    pub(super) fn post_ops_and(&mut self, desc: &PrimitiveDesc, count: usize, last: &str) -> &mut Self {
        let mut text = String::new();
        for (i, post_op) in desc.attributes().post_ops.iter().take(count).enumerate() {
            let operand = format!("LD_POST{i}(OFF_POST{i}, n)");
            let _ = match post_op {
                // Networks of integers have factors of their own for each layer.
                PostOp::Eltwise(function) => {
                    write!(text, "v = {}; ", eltwise_of_launch(self.value, *function, "v"))
                }
                PostOp::Binary { algorithm, reversed, .. } => {
                    let (a, b) = if *reversed { (&*operand, "v") } else { ("v", &*operand) };
                    write!(text, "v = binary_{}({a}, {b}); ", algorithm.name())
                }
                PostOp::Sum { scale, zero_point, .. } => {
                    let scale = self.value.number(*scale);
                    write!(
                        text,
                        "v = binary_sum(v, {scale}, LD_OLD{i}(OFF_OLD{i}, n) - ({})({zero_point})); ",
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
        self.define("POST_OPS(v, n)", text + last)
    }

    /// The launch of a kernel of this program made of the given kernel files.
    pub(super) fn launch<F: Clone + Into<Cow<'static, str>>>(
        self,
        kernel: &str,
        files: &[F],
        global: [usize; 3],
        local: Option<[usize; 3]>,
    ) -> Launch {
        let files: Vec<Cow<'static, str>> = files.iter().cloned().map(Into::into).collect();
        let (defines, numbers) = if self.general {
            numbers::launched(&self.defines)
        } else {
            (numbers::compiled(&self.defines), Vec::new())
        };
        let program = self.program(kernel, &files, defines, numbers.len());
        let special = self.gains.filter(|_| !numbers.is_empty()).map(|(share, operations)| SpecialProgram {
            text: SpecialText::Launched { wide: self.wide },
            operations,
            share,
        });
        Launch {
            program,
            kernel: kernel.into(),
            table: table(&numbers, self.wide),
            special,
            global,
            local,
            sub_group: self.sub_groups.map(|(_, width)| width),
            alignment: self.alignment,
            numbered: !self.number.is_empty(),
            args: self.args,
        }
    }

    /// The same, where the program for one shape is another text for the same launch, of other kernel files. It is written where plans
    /// shall have it.
    pub(super) fn launch_beside(
        self,
        kernel: &str,
        files: &[Cow<'static, str>],
        (global, local): ([usize; 3], Option<[usize; 3]>),
        device: &DeviceTraits,
        special: impl FnOnce() -> (Self, Vec<Cow<'static, str>>),
    ) -> Launch {
        let mut launch = self.launch(kernel, files, global, local);
        if let Some(own) = &mut launch.special {
            own.text = SpecialText::Asked;
            if device.special {
                let (special, its_files) = special();
                let (defines, numbers) = numbers::launched(&special.defines);
                let program = special.program(kernel, &its_files, defines, numbers.len());
                own.text = SpecialText::Own(known(&program, &numbers));
            }
        }
        launch
    }

    /// The program of these kernel files, with the definitions before them, of which `numbers` come with the launch.
    fn program(
        &self,
        kernel: &str,
        files: &[Cow<'static, str>],
        defines: String,
        numbers: usize,
    ) -> ProgramSource {
        let Self { value, lanes, wide, params, sub_groups, .. } = self;
        let (value, lanes) = (*value, *lanes);
        let mut text = sub_groups.as_ref().map_or_else(String::new, |(found, _)| found.prelude());
        if self.alignment > 1 {
            text += "#define ANYDNN_ALIGNED 1\n";
        }
        let _ = writeln!(
            text,
            "#define R {}\n#define R_IS_INTEGER {}",
            value.name(),
            i32::from(value == Value::I64)
        );
        let suffix = if value == Value::F32 { "##f" } else { "" };
        let _ = writeln!(text, "#define K(c) c{suffix}\ntypedef {} idx;", if *wide { "long" } else { "int" });
        text += &shape_macros(numbers, *wide);
        let _ = writeln!(text, "#define PARAMS {params}{} SHAPE_PARAM", self.number);
        let mut attributes = String::new();
        if let Some((_, width)) = sub_groups.as_ref().filter(|(found, width)| found.settable.contains(width))
        {
            let _ = write!(attributes, " __attribute__((intel_reqd_sub_group_size({width})))");
        } else if lanes >= CPU_LANES / 2 {
            // A compiler that spreads work-items over lanes by itself, on top of that, takes many times as long.
            attributes += " __attribute__((vec_type_hint(float16)))";
        }
        if let Some(group) = self.group {
            let _ = write!(attributes, " __attribute__((reqd_work_group_size({group}, 1, 1)))");
        }
        if !attributes.is_empty() {
            let _ = writeln!(text, "#define __kernel __kernel{attributes}");
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
        let has = |text: &str, name: &str| memchr::memmem::find(text.as_bytes(), name.as_bytes()).is_some();
        let gradients = has(&defines, "derivative_");
        let functions = has(&defines, "eltwise_") || files.iter().any(|file| has(file, "eltwise_"));
        if gradients || functions || files.iter().any(|file| has(file, "EXP_NEGATIVE(")) {
            let own = value == Value::F32 && lanes >= CPU_LANES;
            let short = value == Value::F32 && !own && self.results == Results::Short;
            let which =
                format!("#define OWN_MATH {}\n#define SHORT_RESULTS {}\n", i32::from(own), i32::from(short));
            pieces.extend([which.into(), MATH.into()]);
        }
        if gradients || functions {
            pieces.push(ELTWISE.into());
        }
        if gradients {
            pieces.push(GRADIENT.into());
        }
        if has(&defines, "binary_") {
            pieces.push(BINARY.into());
        }
        if has(&defines, "keeps(") || has(&defines, "random_number(") {
            pieces.push(KEEP.into());
        }
        pieces.push(defines.into());
        pieces.extend_from_slice(files);
        ProgramSource {
            name: kernel.into(),
            source: pieces.into_iter().collect(),
            options: sub_groups.as_ref().map_or_else(String::new, |(found, _)| found.standard.clone()),
        }
    }

    /// The macros of a number that runs with the loops: `LD_` as a value, `AT_` as an integer.
    fn number(&mut self, space: &Space, operand: &Operand) {
        let Operand { name, address, .. } = operand;
        let (value, lanes) = (self.value.name(), self.lanes);
        let step = self.lane.map_or(0, |lane| address.coefficient(lane).unwrap_or(0));
        self.define(format_args!("OFF_{name}"), space.text(operand));
        if lanes == 1 {
            self.define(format_args!("LD_{name}(o, n)"), "((R)(o))");
            self.define(format_args!("AT_{name}(o)"), "((ulong)(o))");
            return;
        }
        let steps: Vec<String> = (0..lanes).map(|l| (l * step).to_string()).collect();
        let at = |integer: &str| {
            let vector = format!("{integer}{lanes}");
            format!("(({vector})(({integer})(o)) + ({vector})({}))", steps.join(", "))
        };
        let integer = if self.wide { "long" } else { "int" };
        self.define(format_args!("LD_{name}(o, n)"), format!("convert_{value}{lanes}({})", at(integer)));
        self.define(format_args!("AT_{name}(o)"), at("ulong"));
    }

    /// The macros to reach an operand's elements.
    fn accessors(&mut self, space: &Space, operand: &Operand, pointer: &str) {
        let Operand { name, data_type, address, .. } = operand;
        let (bits, kind) = storage(*data_type);
        let (value, lanes) = (self.value.name(), self.lanes);
        // Without a step along the lanes the operand is one element for all of them.
        let step = self.lane.map_or(0, |lane| address.step(lane, self.lanes).unwrap_or(0));
        self.define(format_args!("OFF_{name}"), space.text(operand));
        self.define(
            format_args!("NAT1_{name}(o)"),
            format_args!("unpack_{kind}_1(get_{bits}({pointer}, o))"),
        );
        self.define(format_args!("LD1_{name}(o)"), format_args!("convert_{value}(NAT1_{name}(o))"));
        let put = format!("put_{bits}({pointer}, o, pack_{kind}_1");
        let of_halves = *data_type == DataType::F16 && self.value == Value::F32;
        let lane = self.lane.unwrap_or(usize::MAX);
        let whole = bits >= 8 && WHOLE_LANES.contains(&lanes) && address.is_aligned(lane, lanes);
        if whole {
            let condition = format!("IS_WHOLE({pointer}, {})", lanes * bits / 8);
            if !self.whole.contains(&condition) {
                self.whole.push(condition);
            }
            self.whole_bytes = self.whole_bytes.max(lanes * bits / 8);
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
                    _ => ("gather", "scatter", format!("{}, ", mark(step))),
                };
                let raw = format!("unpack_{kind}_{lanes}({load}_{bits}_{lanes}({pointer}, o, {step}n))");
                (
                    format!("convert_{value}{lanes}({raw})"),
                    format!("{store}_{bits}_{lanes}({pointer}, o, {step}n, pack_{kind}_{lanes}(v))"),
                )
            }
        };
        let streams = self.streams(space, operand);
        let stream = || format!("stream_{bits}_{lanes}({pointer}, o, n, pack_{kind}_{lanes}(v))");
        let store = match lanes > 1 && step == 1 && bits >= 8 {
            true if self.is_complete() => {
                Some(format!("({} ? {} : {keep})", always(i32::from(streams)), stream()))
            }
            true if streams => Some(stream()),
            _ => None,
        };
        self.define(format_args!("LD_{name}(o, n)"), load);
        self.define(format_args!("KEEP_{name}(o, n, v)"), &keep);
        self.define(format_args!("ST_{name}(o, n, v)"), store.as_deref().unwrap_or(&keep));
    }

    /// Whether an operand is so large that storing it had better not displace everything else from a CPU's caches.
    pub(super) fn streams(&self, space: &Space, operand: &Operand) -> bool {
        let varies = |v: usize| operand.address.coefficient(v) != Some(0);
        let elements: usize =
            (0..space.loops.len()).filter(|&v| varies(v)).map(|v| space.loops[v].extent).product();
        let is_source = matches!(operand.binding, Binding::Arg(Arg::Src(_)));
        // Of short rows few would begin where a vector may pass the cache by, and those that do would drive out lines that others still fill.
        let vector = DataType::bytes_for(operand.data_type, self.lanes).max(1);
        let is_apart = |v: usize| {
            let bytes =
                operand.address.coefficient(v).map_or(0, |c| DataType::bytes_for(operand.data_type, c));
            bytes < SHORT_ROW_BYTES && bytes > vector && !bytes.is_multiple_of(vector)
        };
        self.lanes >= CPU_LANES
            && !is_source
            && (space.in_runs || !(0..space.loops.len()).any(is_apart))
            && operand.data_type.bits() >= 8
            && DataType::bytes_for(operand.data_type, elements) >= STREAMED_BYTES
    }
}

/// How a program takes so many numbers: as a structure that comes with the launch, or, with `KNOWN_SHAPE`, from definitions before it.
fn shape_macros(numbers: usize, wide: bool) -> String {
    const KNOWN: &str = "#define QUOTIENT(x, n, factor, shift) ((x) / (n))\n\
                         #define SHAPE(i) KNOWN_##i\n#define AND_SHAPE\n#define WITH_SHAPE\n#define SHAPE_PARAM\n";
    if numbers == 0 {
        return KNOWN.into();
    }
    let quotient =
        if wide { "((x) / (n))" } else { "((idx)(mul_hi((uint)(x) << 1, (uint)(factor)) >> (shift)))" };
    format!(
        "#ifdef KNOWN_SHAPE\n{KNOWN}#else\n#define QUOTIENT(x, n, factor, shift) {quotient}\n\
         typedef struct {{ idx at[{numbers}]; }} Shape;\n#define SHAPE(i) shape.at[i]\n\
         #define AND_SHAPE , shape\n#define WITH_SHAPE , const Shape shape\n#define SHAPE_PARAM , const Shape shape\n#endif\n"
    )
}

/// The program of a launch with the numbers of its table, of 64 bits each if they are wide.
pub(crate) fn with_numbers(launch: &Launch, wide: bool) -> ProgramSource {
    let numbers: Vec<i64> = if wide {
        launch.table.as_chunks().0.iter().copied().map(i64::from_ne_bytes).collect()
    } else {
        launch.table.as_chunks().0.iter().map(|bytes| i64::from(i32::from_ne_bytes(*bytes))).collect()
    };
    known(&launch.program, &numbers)
}

/// The program with the numbers of one shape.
fn known(program: &ProgramSource, numbers: &[i64]) -> ProgramSource {
    let mut head = "#define KNOWN_SHAPE\n".to_owned();
    for (i, number) in numbers.iter().enumerate() {
        let _ = match number {
            0.. => writeln!(head, "#define KNOWN_{i} {number}"),
            _ => writeln!(head, "#define KNOWN_{i} ({number})"),
        };
    }
    ProgramSource { source: program.source.behind(head), ..program.clone() }
}

/// The bytes of a structure of such numbers.
fn table(numbers: &[i64], wide: bool) -> Vec<u8> {
    // Texts whose numbers go beyond 32 bits are wide.
    if wide {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    } else {
        numbers.iter().flat_map(|&number| (number as i32).to_ne_bytes()).collect()
    }
}

impl Alike {
    fn of(space: &Space) -> Self {
        match space.complete {
            None => Self::Few,
            Some(_) if space.by_rank => Self::Rank,
            Some(_) => Self::All,
        }
    }
}

impl Results {
    fn of(space: &Space) -> Self {
        let is_result = |operand: &&Operand| matches!(operand.binding, Binding::Arg(Arg::Dst(_)));
        let mut results = space.operands.iter().filter(is_result).peekable();
        let are_some = results.peek().is_some();
        let are_short = results.all(|o| matches!(o.data_type, DataType::F16 | DataType::BF16));
        if are_some && are_short { Self::Short } else { Self::Any }
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

/// The call of an element-wise function whose parameters come with the launch where launches carry such.
pub(super) fn eltwise_of_launch(value: Value, function: Eltwise, x: &str) -> String {
    // How powers are computed depends on the exponent.
    if matches!(function, Eltwise::Pow { .. }) {
        return eltwise(value, function, x);
    }
    let parameters = function.parameters().into_iter().map(|parameter| value.number(parameter));
    let arguments: Vec<String> = std::iter::once(x.to_owned()).chain(parameters).collect();
    format!("eltwise_{}({})", function.name(), arguments.join(", "))
}

/// Whether the operand's elements lie side by side along a loop.
pub(super) fn is_contiguous(space: &Space, operand: &str, variable: usize) -> bool {
    space.coefficient(operand, variable) == Some(1)
}
