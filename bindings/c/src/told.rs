//! The verbose line of a primitive, in oneDNN's documented format: its implementation, what it is for, descriptors, attributes, parameters and
//! sizes.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;
use std::time::Instant;

use anydnn_backend::Primitive;

use crate::debug;
use crate::desc::{Format, Md, TypeCode};
use crate::handle::Embedded;
use crate::kinds::{arg, kind, query};
use crate::primitive::Described;
use crate::told_attributes::attributes;
use crate::types::DNNL_RUNTIME_DIM_VAL;
use crate::verbose;

/// Tells of a primitive that was made or enqueued, with the milliseconds that the call took. Of several steps it names the implementation
/// of the one that is of the primitive's kind, or of the last one.
pub(crate) fn tell(
    level: c_int,
    what: &str,
    described: &Described,
    steps: &[impl Primitive],
    start: Option<Instant>,
) {
    if let Some(start) = start.filter(|_| verbose::level() >= level) {
        let time = start.elapsed().as_secs_f64() * 1e3;
        let engine = verbose::kind_name(described.engine.value().kind());
        let kind = kind_name(described.facts.kind);
        let own = steps.iter().find(|step| step.desc().op().name() == kind).or(steps.last());
        let implementation = own.map_or("nothing", |step| step.implementation());
        let fields = fields(described);
        verbose::line(
            level,
            format_args!("primitive,{what},{engine},{kind},{implementation},{fields},{time:.6}"),
        );
    }
}

/// The word for a kind of primitive.
fn kind_name(kind: c_int) -> &'static str {
    text(debug::dnnl_prim_kind2str(kind))
}

/// `prop_kind,memory_descriptors,attributes,auxiliary,problem_desc`.
fn fields(described: &Described) -> String {
    let view = View { described };
    let prop = text(debug::dnnl_prop_kind2str(described.facts.prop));
    let (attributes, auxiliary) = (attributes(described.attr.value(), &view), view.auxiliary());
    format!("{prop},{},{attributes},{auxiliary},{}", view.descriptors(), view.problem())
}

/// A primitive's operands by their numbers.
pub(crate) struct View<'a> {
    described: &'a Described,
}

impl View<'_> {
    fn md(&self, number: c_int) -> Option<&Md> {
        let position = self.described.operand(number)?;
        self.described.lent.of.get(position).map(Embedded::value)
    }

    fn kind(&self) -> c_int {
        self.described.facts.kind
    }

    fn dim(&self, number: c_int, axis: usize) -> i64 {
        self.md(number).map_or(0, |md| md.dims[axis])
    }

    /// The source, or its gradient where a backward pass has no source.
    fn src(&self) -> Option<&Md> {
        self.either(&[arg::SRC, arg::DIFF_SRC])
    }

    pub(crate) fn dst(&self) -> Option<&Md> {
        self.either(&[arg::DST, arg::DIFF_DST])
    }

    fn weights(&self) -> Option<&Md> {
        self.either(&[arg::WEIGHTS, arg::DIFF_WEIGHTS])
    }

    fn either(&self, numbers: &[c_int]) -> Option<&Md> {
        numbers.iter().find_map(|&number| self.md(number))
    }

    fn integer(&self, of: c_int) -> i64 {
        let found = self.described.facts.integers.iter().find(|(query, _)| *query == of);
        found.map_or(0, |(_, value)| *value)
    }

    fn float(&self, of: c_int) -> f32 {
        self.described.facts.floats.iter().find(|(query, _)| *query == of).map_or(0.0, |(_, value)| *value)
    }

    fn array(&self, of: c_int, axis: usize) -> i64 {
        let found = self.described.facts.arrays.iter().find(|(query, _)| *query == of);
        found.map_or(0, |(_, values)| values[axis])
    }

    fn algorithm(&self) -> &'static str {
        text(debug::dnnl_alg_kind2str(self.described.facts.algorithm.unwrap_or(0)))
    }

    fn descriptors(&self) -> String {
        let mut list = Vec::new();
        let mut tell = |name: &str, md: Option<&Md>| list.extend(md.map(|md| descriptor(name, md)));
        match self.kind() {
            kind::ELTWISE | kind::BATCH_NORMALIZATION | kind::LRN | kind::SHUFFLE => {
                tell("data", self.either(&[arg::SRC, arg::DST, arg::DIFF_SRC]));
                let has_data = self.either(&[arg::SRC, arg::DST]).is_some();
                tell("diff", self.md(arg::DIFF_DST).filter(|_| has_data));
            }
            kind::PRELU => {
                tell("data", self.src());
                tell("wei", self.md(arg::WEIGHTS));
                tell("diff", self.md(arg::DIFF_DST));
                tell("diff_wei", self.md(arg::DIFF_WEIGHTS));
            }
            kind::CONVOLUTION | kind::DECONVOLUTION | kind::INNER_PRODUCT => {
                tell("src", self.src());
                tell("wei", self.weights());
                let bias = self.either(&[arg::BIAS, arg::DIFF_BIAS]);
                tell("bia", Some(bias.unwrap_or(self.described.lent.none.value())));
                tell("dst", self.dst());
            }
            kind::SOFTMAX => {
                tell("src", self.src());
                tell("dst", self.md(arg::DST));
                tell("diff_dst", self.md(arg::DIFF_DST));
            }
            kind::GROUP_NORMALIZATION => {
                tell("src", self.src());
                tell("dst", self.dst());
                tell("diff_src", self.md(arg::SRC).and_then(|_| self.md(arg::DIFF_SRC)));
            }
            kind::LAYER_NORMALIZATION => {
                tell("src", self.src());
                tell("dst", self.dst());
                let stats = self.either(&[arg::MEAN, arg::VARIANCE]);
                tell("stats", Some(stats.unwrap_or(self.described.lent.none.value())));
                tell("scale", self.either(&[arg::SCALE, arg::DIFF_SCALE]));
                tell("shift", self.either(&[arg::SHIFT, arg::DIFF_SHIFT]));
                tell("diff_src", self.md(arg::DIFF_SRC));
                tell("diff_scale", self.md(arg::DIFF_SCALE));
                tell("diff_shift", self.md(arg::DIFF_SHIFT));
            }
            kind::RNN => {
                for (name, number) in RECURRENT {
                    tell(name, self.md(number));
                }
            }
            kind::CONCAT | kind::SUM => {
                self.sources().for_each(|md| tell("src", Some(md)));
                tell("dst", self.md(arg::DST));
            }
            _ => {
                tell("src", self.src());
                if self.kind() == kind::BINARY {
                    tell("src", self.md(arg::SRC_1));
                    tell("src", self.md(arg::SRC_2));
                }
                tell("wei", self.weights());
                tell("bia", self.md(arg::BIAS));
                tell("dst", self.dst());
                tell("ws", self.md(arg::WORKSPACE));
            }
        }
        if let (kind::MATMUL, Some(bias)) = (self.kind(), self.md(arg::BIAS)) {
            let mask =
                (0..bias.rank).filter(|&axis| bias.dims[axis] != 1).fold(0, |mask, axis| mask | 1 << axis);
            list.iter_mut().filter(|text| text.starts_with("bia:")).for_each(|text| {
                let _ = write!(text, "_mask{mask}");
            });
        }
        list.join(" ")
    }

    /// The operands of concatenations and sums.
    fn sources(&self) -> impl Iterator<Item = &Md> {
        let numbers = self.described.operands.iter().map(|operand| operand.number);
        numbers
            .filter(|&number| (arg::MULTIPLE_SRC..arg::ATTR_SCALES).contains(&number))
            .filter_map(|n| self.md(n))
    }

    fn auxiliary(&self) -> String {
        let algorithm = self.algorithm();
        match self.kind() {
            kind::ELTWISE => {
                let (alpha, beta) = (self.float(query::ALPHA), self.float(query::BETA));
                format!("alg:{algorithm} alpha:{alpha} beta:{beta}")
            }
            kind::SOFTMAX => format!("alg:{algorithm} axis:{}", self.integer(query::AXIS)),
            kind::REDUCTION => {
                format!("alg:{algorithm} p:{} eps:{}", self.float(query::P), self.float(query::EPSILON))
            }
            kind::CONCAT => format!("axis:{}", self.integer(query::AXIS)),
            kind::SHUFFLE => {
                format!("axis:{} group:{}", self.integer(query::AXIS), self.integer(query::GROUP_SIZE))
            }
            kind::BATCH_NORMALIZATION | kind::LAYER_NORMALIZATION | kind::GROUP_NORMALIZATION => {
                let flags = self.integer(query::FLAGS);
                let letters = [(1, 'G'), (2, 'C'), (4, 'H'), (8, 'R'), (16, 'A'), (32, 'M')];
                let told = letters.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| letter);
                format!("flags:{}", told.collect::<String>())
            }
            kind::RNN => {
                let cell = text(debug::dnnl_alg_kind2str(self.integer(query::CELL_KIND) as c_int));
                let direction = text(debug::dnnl_rnn_direction2str(self.integer(query::DIRECTION) as _));
                let activation =
                    text(debug::dnnl_alg_kind2str(self.integer(query::ACTIVATION_KIND) as c_int));
                let flags = if self.integer(query::FLAGS) & 1 != 0 { "O" } else { "" };
                format!("alg:{cell} direction:{direction} activation:{activation} flags:{flags}")
            }
            _ if self.described.facts.algorithm.is_some() => format!("alg:{algorithm}"),
            _ => String::new(),
        }
    }

    fn problem(&self) -> String {
        let dims = |md: Option<&Md>| md.map(sizes).unwrap_or_default();
        match self.kind() {
            kind::CONVOLUTION | kind::DECONVOLUTION | kind::POOLING => self.windows(),
            kind::INNER_PRODUCT => {
                let channels = self.dst().map_or(0, |md| md.dims[1]);
                format!("{}oc{channels}", self.image("ic"))
            }
            kind::BATCH_NORMALIZATION => self.image("ic"),
            kind::GROUP_NORMALIZATION => format!("g{}{}", self.integer(query::GROUP_SIZE), self.image("ic")),
            kind::LRN => {
                let (size, beta) = (self.integer(query::LOCAL_SIZE), self.float(query::BETA));
                format!("{}ls{size}beta{beta}", self.image("ic"))
            }
            kind::RESAMPLING => self.resized(),
            kind::MATMUL | kind::PRELU => format!("{}:{}", dims(self.src()), dims(self.weights())),
            kind::BINARY => format!("{}:{}", dims(self.src()), dims(self.md(arg::SRC_1))),
            kind::REDUCTION => format!("{}:{}", dims(self.src()), dims(self.dst())),
            kind::CONCAT => self.sources().map(sizes).collect::<Vec<_>>().join(":"),
            kind::SUM => dims(self.dst()),
            kind::RNN => self.recurrent(),
            _ => dims(self.src().or(self.dst())),
        }
    }

    /// Samples, channels and extents of the source.
    fn image(&self, channels: &str) -> String {
        let Some(src) = self.src().or(self.dst()) else { return String::new() };
        let mut told = format!("mb{}{channels}{}", src.dims[0], src.dims[1]);
        for (axis, letter) in spatial(src.rank) {
            let _ = write!(told, "i{letter}{}", src.dims[axis + 2]);
        }
        told
    }

    fn resized(&self) -> String {
        let (Some(src), Some(dst)) = (self.src(), self.dst()) else { return String::new() };
        let mut told = format!("mb{}ic{}", src.dims[0], src.dims[1]);
        for (axis, letter) in spatial(src.rank) {
            let _ = write!(told, "_i{letter}{}o{letter}{}", src.dims[axis + 2], dst.dims[axis + 2]);
        }
        told
    }

    /// Sizes of what a window moves over.
    fn windows(&self) -> String {
        let (Some(src), Some(dst)) = (self.src(), self.dst()) else { return String::new() };
        let mut told = String::new();
        let weights = self.weights();
        let groups = weights.filter(|md| md.rank > src.rank).map(|md| md.dims[0]);
        if let Some(groups) = groups {
            let _ = write!(told, "g{groups}");
        }
        let _ = match self.kind() {
            kind::POOLING => write!(told, "mb{}ic{}", src.dims[0], src.dims[1]),
            _ => write!(told, "mb{}_ic{}oc{}", src.dims[0], src.dims[1], dst.dims[1]),
        };
        for (axis, letter) in spatial(src.rank) {
            let kernel = match weights {
                Some(weights) => weights.dims[weights.rank - (src.rank - 2) + axis],
                None => self.array(query::KERNEL, axis),
            };
            let (stride, dilation) = (self.array(query::STRIDES, axis), self.array(query::DILATIONS, axis));
            let pad = self.array(query::PADDING_L, axis);
            let (from, to) = (src.dims[axis + 2], dst.dims[axis + 2]);
            let _ = write!(
                told,
                "_i{letter}{from}o{letter}{to}k{letter}{kernel}s{letter}{stride}d{letter}{dilation}p{letter}{pad}"
            );
        }
        told
    }

    /// Layers, steps, samples and channels of states.
    fn recurrent(&self) -> String {
        let layers = self.dim(arg::WEIGHTS, 0);
        let (steps, samples) = (self.dim(arg::SRC, 0), self.dim(arg::SRC, 1));
        let (input, hidden) = (self.dim(arg::SRC, 2), self.dim(arg::WEIGHTS, 4));
        let state = self.dim(arg::WEIGHTS_1, 2);
        let own = self.md(arg::WEIGHTS_3).map_or(hidden, |projection| projection.dims[3]);
        format!("l{layers}t{steps}mb{samples}sic{state}slc{input}dhc{hidden}dic{own}")
    }
}

const RECURRENT: [(&str, c_int); 16] = [
    ("src_layer", arg::SRC),
    ("src_iter", arg::SRC_1),
    ("wei_layer", arg::WEIGHTS),
    ("wei_iter", arg::WEIGHTS_1),
    ("wei_peephole", arg::WEIGHTS_2),
    ("wei_proj", arg::WEIGHTS_3),
    ("bias", arg::BIAS),
    ("dst_layer", arg::DST),
    ("dst_iter", arg::DST_1),
    ("diff_src_layer", arg::DIFF_SRC),
    ("diff_src_iter", arg::DIFF_SRC_1),
    ("diff_wei_layer", arg::DIFF_WEIGHTS),
    ("diff_wei_iter", arg::DIFF_WEIGHTS_1),
    ("diff_bias", arg::DIFF_BIAS),
    ("diff_dst_layer", arg::DIFF_DST),
    ("diff_dst_iter", arg::DIFF_DST_1),
];

/// The letters of spatial axes: depth, height, width, of which the last ones are there.
fn spatial(rank: usize) -> impl Iterator<Item = (usize, char)> {
    let count = rank.saturating_sub(2).min(3);
    ['d', 'h', 'w'].into_iter().skip(3 - count).enumerate()
}

/// Sizes with `x` between them.
fn sizes(md: &Md) -> String {
    joined(&md.dims[..md.rank])
}

pub(crate) fn joined(numbers: &[i64]) -> String {
    let told =
        |&number: &i64| if number == DNNL_RUNTIME_DIM_VAL { "*".to_owned() } else { number.to_string() };
    numbers.iter().map(told).collect::<Vec<_>>().join("x")
}

/// `name:type:properties:kind:layout:strides:flags`; strides are told where elements do not lie close together.
fn descriptor(name: &str, md: &Md) -> String {
    let data_type = text(debug::dnnl_dt2str(md.data_type.map_or(0, TypeCode::value)));
    let kind = text(debug::dnnl_fmt_kind2str(md.kind()));
    let properties = if md.padded_dims == md.dims { "" } else { "p" };
    match &md.format {
        Format::Undef => format!("{name}:undef::undef:::"),
        Format::Blocked(_) => {
            let (letters, strides) = letters(md);
            format!("{name}:{data_type}:{properties}:{kind}:{letters}:{strides}:f0")
        }
        _ => format!("{name}:{data_type}:{properties}:{kind}:::f0"),
    }
}

/// The letters of a layout, and its strides where they do not follow from the letters.
pub(crate) fn letters(md: &Md) -> (String, String) {
    let Format::Blocked(blocks) = &md.format else { return Default::default() };
    let per_axis = blocks.per_axis();
    let mut order: Vec<usize> = (0..md.rank).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(blocks.strides[axis]));
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let outer = order.iter().map(|&axis| match per_axis[axis] {
        1 => letter(axis),
        _ => letter(axis).to_ascii_uppercase(),
    });
    let mut told: String = outer.collect();
    for (axis, size) in blocks.inner() {
        let _ = write!(told, "{size}{}", letter(axis));
    }
    let mut next = blocks.elements();
    let mut is_dense = true;
    for &axis in order.iter().rev() {
        let count = md.padded_dims[axis] / per_axis[axis].max(1);
        is_dense &= count <= 1 || blocks.strides[axis] == next;
        next = next.saturating_mul(count);
    }
    (told, if is_dense { String::new() } else { joined(&blocks.strides[..md.rank]) })
}

/// The text behind a pointer that `debug` gives.
pub(crate) fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: those functions give static strings that end in zero.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use anydnn_backend::DataType;

    use super::*;
    use crate::desc::number;
    use crate::desc::tags;
    use crate::types::dnnl_f32;

    fn told(dims: &[i64], letters: &str) -> String {
        descriptor("src", &Md::with_tag(dims, dnnl_f32, tags::number(letters).unwrap()).unwrap())
    }

    #[test]
    fn descriptors_are_told_by_letters() {
        assert_eq!(told(&[2, 3, 4, 5], "acdb"), "src:f32::blocked:acdb::f0");
        assert_eq!(told(&[2, 17, 4, 5], "aBcd16b"), "src:f32:p:blocked:aBcd16b::f0");
        assert_eq!(told(&[1, 8, 1, 1], "abcd"), "src:f32::blocked:abcd::f0");
        let gaps = Md::with_strides(&[3, 4], dnnl_f32, Some(&[8, 1])).unwrap();
        assert_eq!(descriptor("dst", &gaps), "dst:f32::blocked:ab:8x1:f0");
        assert_eq!(descriptor("bia", &Md::empty()), "bia:undef::undef:::");
        assert_eq!(number(DataType::F4E2M1).map(|code| text(debug::dnnl_dt2str(code))), Some("f4_e2m1"));
    }
}
