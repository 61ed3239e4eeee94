//! What oneDNN's CPU library does not compute, or computes otherwise than its documentation says. There the reference tells alone.

use anydnn::backend::DataType::{S4, U4};
use anydnn::graph::OpKind as K;

use super::expected::by_reference;
use super::trials::Trial;

/// An exception by name.
pub struct Exception {
    pub what: &'static str,
    pub why: &'static str,
    /// Whether the library ends its process, so that it is not asked.
    pub throws: bool,
    pub applies: fn(&Trial) -> bool,
}

/// What the library does not take as a single operation in any type.
pub const NOT_TAKEN: &[Exception] = &[
    Exception {
        what: "`BiasAddBackward`, `Dropout`, `Pow`, `Reciprocal`",
        why: "no single operation there; all but `Pow` are parts of fusions",
        throws: false,
        applies: |t| matches!(t.kind(), K::BiasAddBackward | K::Dropout | K::Pow | K::Reciprocal),
    },
    Exception {
        what: "`ConvolutionBackwardData` with groups",
        why: "refused with `invalid_shape`, whatever the given shape",
        throws: false,
        applies: |t| t.kind() == K::ConvolutionBackwardData && number(t, "groups") > 1,
    },
    Exception {
        what: "`AvgPool` that rounds up and counts padding",
        why: "not among the supported operations",
        throws: false,
        applies: |t| t.kind() == K::AvgPool && rounds_up(t) && !t.case.attrs.bool("exclude_pad").unwrap(),
    },
    Exception {
        what: "`AvgPool` that rounds up to a window that lies wholly in padding",
        why: "throws: the average of no elements",
        throws: true,
        applies: |t| {
            t.kind() == K::AvgPool
                && rounds_up(t)
                && t.case.attrs.bool("exclude_pad").unwrap()
                && by_reference(t).is_some_and(|made| made[0].iter().any(|v| v.is_nan()))
        },
    },
    Exception {
        what: "`BatchNormTrainingBackward` of less than four dimensions in `NXC`",
        why: "throws `bad_alloc`",
        throws: true,
        applies: |t| {
            t.kind() == K::BatchNormTrainingBackward
                && t.values[0].dims().len() < 4
                && t.case.attrs.string("data_format").is_ok_and(|format| format == "NXC")
        },
    },
    Exception {
        what: "`DynamicQuantize` and `DynamicDequantize` along an axis counted from the end",
        why: "throws: the axis is taken as it is",
        throws: true,
        applies: |t| is_dynamic(t) && is_per_channel(t) && number(t, "axis") < 0,
    },
    Exception {
        what: "`DynamicQuantize` and `DynamicDequantize` with a zero point for each channel",
        why: "refused with `unimplemented`",
        throws: false,
        applies: |t| is_dynamic(t) && is_per_channel(t) && t.values.len() > 2,
    },
    Exception {
        what: "`DynamicDequantize` of `s4` and `u4` other than by groups",
        why: "throws: no such reorder",
        throws: true,
        applies: |t| t.kind() == K::DynamicDequantize && [S4, U4].contains(&t.data_type),
    },
    Exception {
        what: "`ConvTransposeBackwardData` with dilations",
        why: "the library ignores them: it throws, or computes without them where strides hide the other shape",
        throws: true,
        applies: |t| t.kind() == K::ConvTransposeBackwardData && is_dilated(t),
    },
    Exception {
        what: "`MaxPoolBackward` without the attribute `dilations`",
        why: "refused with `invalid_shape`, though the attribute may be left out",
        throws: false,
        applies: |t| t.kind() == K::MaxPoolBackward && t.case.attrs.s64s("dilations").is_err(),
    },
    Exception {
        what: "`Reduce*` along axes of size one alone",
        why: "throws: no such reduction",
        throws: true,
        applies: reduces_nothing,
    },
];

/// What the library computes otherwise than its documentation says.
pub const OTHERWISE: &[Exception] = &[
    Exception {
        what: "`BatchNormTrainingBackward` without `gamma`",
        why: "the library takes mean and variance for constants, not for those of the batch",
        throws: false,
        applies: |t| t.kind() == K::BatchNormTrainingBackward && t.values.len() < 5,
    },
    Exception {
        what: "`Dequantize` along an axis counted from the end",
        why: "the library applies the first scale to all channels, or throws",
        throws: false,
        applies: |t| t.kind() == K::Dequantize && is_per_channel(t) && number(t, "axis") < 0,
    },
    Exception {
        what: "`MaxPool` with a window that lies wholly in padding",
        why: "the largest of no elements is there the lowest finite number, here minus infinity",
        throws: false,
        applies: |t| {
            t.kind() == K::MaxPool
                && t.data_type.is_float()
                && by_reference(t).is_some_and(|made| made[0].contains(&f64::NEG_INFINITY))
        },
    },
    Exception {
        what: "`SoftPlus` in types wider than 16 bits",
        why: "the library takes the logarithm of a rounded `1 + e^x` and loses digits of small results; ours keeps them",
        throws: false,
        applies: |t| t.kind() == K::SoftPlus && t.data_type.bits() > 16,
    },
];

/// Whether asking the library would end its process.
pub fn throws(trial: &Trial) -> bool {
    trial.graph.is_ok()
        && NOT_TAKEN.iter().chain(OTHERWISE).any(|exception| exception.throws && (exception.applies)(trial))
}

fn number(trial: &Trial, name: &str) -> i64 {
    trial.case.attrs.s64(name).unwrap_or(1)
}

fn rounds_up(trial: &Trial) -> bool {
    trial.case.attrs.string("rounding_type").is_ok_and(|word| word == "ceil")
}

/// Whether a transposed convolution's window is wider for its dilations.
fn is_dilated(trial: &Trial) -> bool {
    let weights = trial.values[1].dims();
    let is_first = trial.case.attrs.string("weights_format").is_ok_and(|format| format == "IOX");
    let kernel = &weights[if is_first { 2 } else { 0 }..];
    let dilations = trial.case.attrs.s64s("dilations").unwrap_or_default();
    dilations.iter().zip(kernel).any(|(&dilation, &size)| dilation > 1 && size > 1)
}

fn is_dynamic(trial: &Trial) -> bool {
    matches!(trial.kind(), K::DynamicQuantize | K::DynamicDequantize)
}

fn is_per_channel(trial: &Trial) -> bool {
    trial.case.attrs.string("qtype").is_ok_and(|word| word == "per_channel")
}

fn reduces_nothing(trial: &Trial) -> bool {
    let Some(Ok(axes)) = trial.kind().name().starts_with("Reduce").then(|| trial.case.attrs.s64s("axes"))
    else {
        return false;
    };
    let dims = trial.values[0].dims();
    axes.iter().all(|axis| dims[axis.rem_euclid(dims.len() as i64) as usize] == 1)
}
