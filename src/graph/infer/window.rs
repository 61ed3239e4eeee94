//! Sliding windows of convolutions and pools.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::super::op_kind::OpKind;
use super::{bad_attr, bad_shape};

/// The window of a convolution or pool with its padding worked out: explicit whatever `auto_pad` and `rounding_type` say.
///
/// Every list has one entry for each spatial dimension, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The extent in taps.
    pub kernel: Dims,
    /// The distance between windows.
    pub strides: Dims,
    /// The distance between taps; one is dense.
    pub dilations: Dims,
    /// The zeros in front.
    pub pads_begin: Dims,
    /// The zeros behind. Where `rounding_type` is `ceil` the last window ends with them.
    pub pads_end: Dims,
    /// The spatial dimensions of the output.
    pub output: Dims,
}

impl Window {
    /// The window of a convolution or pool over `spatial` with `kernel` taps.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when the attributes do not fit the dimensions.
    pub fn new(op: &Op, spatial: &[usize], kernel: &[usize]) -> Result<Self> {
        let Parts { mut window, auto_pad } = Parts::of(op, spatial, kernel)?;
        let ceil = op.attrs.says("rounding_type", "ceil");
        // What a transposed convolution puts behind its result does not change how it is padded.
        let extra = match op.kind {
            OpKind::ConvTransposeBackwardData | OpKind::ConvTransposeBackwardWeights => {
                list(op, "output_padding", spatial.len(), 0)?
            }
            _ => spatial.iter().map(|_| 0).collect(),
        };
        for (i, &extent) in spatial.iter().enumerate() {
            let (stride, reach) = (window.strides[i], window.reach(op, i)?);
            if let Some((front, behind)) = auto_pad {
                let total = if front || behind {
                    let own = extent.saturating_sub(extra[i]);
                    // The product is less than the extent.
                    let last = own.div_ceil(stride).saturating_sub(1) * stride;
                    sum(op, &[last, reach])?.saturating_sub(own)
                } else {
                    0
                };
                // The side that is named gets the odd zero.
                window.pads_begin[i] = if front { total.div_ceil(2) } else { total / 2 };
                window.pads_end[i] = total - window.pads_begin[i];
            }
            let padded = sum(op, &[extent, window.pads_begin[i], window.pads_end[i]])?;
            let Some(room) = padded.checked_sub(reach) else {
                return Err(bad_shape(
                    op,
                    "src",
                    format!("{padded} with padding in spatial dimension {i}"),
                    format!("at least {reach}, the reach of the window"),
                ));
            };
            window.output[i] = 1 + if ceil { room.div_ceil(stride) } else { room / stride };
            if ceil {
                let pad = room.checked_next_multiple_of(stride).map(|whole| whole - room);
                let pad =
                    pad.ok_or_else(|| bad_attr(op, "strides", stride, "a size in the address space"))?;
                window.pads_end[i] = sum(op, &[window.pads_end[i], pad])?;
            }
        }
        Ok(window)
    }

    /// The window of a transposed convolution over `spatial` with `kernel` taps.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when the attributes do not fit the dimensions.
    pub fn transposed(op: &Op, spatial: &[usize], kernel: &[usize]) -> Result<Self> {
        let Parts { mut window, auto_pad } = Parts::of(op, spatial, kernel)?;
        let extra = list(op, "output_padding", spatial.len(), 0)?;
        for (i, &extent) in spatial.iter().enumerate() {
            let (stride, reach) = (window.strides[i], window.reach(op, i)?);
            let span = extent.saturating_sub(1).checked_mul(stride);
            let span = span.ok_or_else(|| bad_attr(op, "strides", stride, "a size in the address space"))?;
            let full = sum(op, &[span, reach, extra[i]])?;
            if let Some((front, behind)) = auto_pad {
                // As many as strides fit; the output padding comes on top.
                let unpadded = full - extra[i];
                let wanted = if front || behind { extent.saturating_mul(stride) } else { unpadded };
                let total = unpadded.saturating_sub(wanted);
                window.pads_begin[i] = if front { total.div_ceil(2) } else { total / 2 };
                window.pads_end[i] = total - window.pads_begin[i];
            }
            let pads = sum(op, &[window.pads_begin[i], window.pads_end[i]])?;
            window.output[i] = full.checked_sub(pads).filter(|&out| out > 0).ok_or_else(|| {
                bad_attr(
                    op,
                    "pads_begin and pads_end",
                    format!("{pads} in spatial dimension {i}"),
                    format!("less than {full}"),
                )
            })?;
        }
        Ok(window)
    }

    /// The elements from the first to the last tap along a spatial dimension.
    fn reach(&self, op: &Op, i: usize) -> Result<usize> {
        self.kernel[i]
            .checked_sub(1)
            .and_then(|gaps| gaps.checked_mul(self.dilations[i])?.checked_add(1))
            .ok_or_else(|| {
                bad_attr(op, "kernel", self.kernel[i], "at least 1 and a size in the address space")
            })
    }
}

/// The attributes before the automatic padding is worked out.
struct Parts {
    window: Window,
    /// The side that gets the odd zero; neither for no padding; none for explicit padding.
    auto_pad: Option<(bool, bool)>,
}

impl Parts {
    fn of(op: &Op, spatial: &[usize], kernel: &[usize]) -> Result<Self> {
        let rank = spatial.len();
        if kernel.len() != rank {
            let given = format!("{} spatial dimensions", kernel.len());
            return Err(bad_shape(op, "kernel", given, format!("{rank}, as many as src has")));
        }
        let auto_pad = match op.attrs.string("auto_pad")? {
            "SAME_UPPER" => Some((false, true)),
            "SAME_LOWER" => Some((true, false)),
            "VALID" => Some((false, false)),
            _ => None,
        };
        let zeros: Dims = std::iter::repeat_n(0, rank).collect();
        let pads = |name| if auto_pad.is_some() { Ok(zeros.clone()) } else { list(op, name, rank, 0) };
        let dilations = match op.attrs.get("dilations") {
            Some(_) => list(op, "dilations", rank, 1)?,
            None => std::iter::repeat_n(1, rank).collect(),
        };
        let window = Window {
            kernel: Dims::new(kernel),
            strides: list(op, "strides", rank, 1)?,
            dilations,
            pads_begin: pads("pads_begin")?,
            pads_end: pads("pads_end")?,
            output: zeros.clone(),
        };
        Ok(Self { window, auto_pad })
    }
}

/// A list attribute with one value of at least `least` for each of `rank` spatial dimensions.
pub(super) fn list(op: &Op, name: &str, rank: usize, least: i64) -> Result<Dims> {
    let given = op.attrs.s64s(name)?;
    if given.len() != rank {
        return Err(bad_attr(
            op,
            name,
            format!("{given:?}"),
            format!("{rank} values, one for each spatial dimension"),
        ));
    }
    if given.iter().any(|&value| value < least) {
        return Err(bad_attr(op, name, format!("{given:?}"), format!("values of at least {least}")));
    }
    Ok(given.iter().map(|&value| value as usize).collect())
}

fn sum(op: &Op, terms: &[usize]) -> Result<usize> {
    terms
        .iter()
        .try_fold(0_usize, |sum, &term| sum.checked_add(term))
        .ok_or_else(|| bad_attr(op, "pads_begin and pads_end", "too large", "a size in the address space"))
}
