//! Layouts that strides cannot tell: weights that are transformed for `convolution/winograd.cl`, and weights of groups in panels whose last
//! one is not full.

use anydnn_backend::{DataType, Layout, MemoryDesc};

use super::rows::CPU_LANES;

/// The taps of windows whose weights are transformed, and the places of what comes of them.
pub(super) const TAPS: [usize; 2] = [3, 3];
pub(super) const PLACES: usize = 16;
/// Output channels that lie together.
pub(super) const PANEL: usize = 2 * CPU_LANES;

/// The number of their layout, `[panel][place][channel][output]`.
const WINOGRAD: u64 = u64::from_be_bytes(*b"winograd");

/// Weights `[O, C, 3, 3]` transformed; none where they have other taps, or more bytes than can be counted.
pub(super) fn transformed(weights: &MemoryDesc) -> Option<MemoryDesc> {
    let &[outputs, channels, ref taps @ ..] = &weights.dims()[..] else { return None };
    if *taps != TAPS {
        return None;
    }
    let padded = outputs.checked_next_multiple_of(PANEL)?;
    let bytes = padded.checked_mul(channels)?.checked_mul(PLACES * size_of::<f32>())?;
    let layout = Layout::Opaque { id: WINOGRAD, bytes };
    MemoryDesc::with_layout(weights.dims().clone(), DataType::F32, layout).ok()
}

/// Whether weights lie so.
pub(super) fn is_transformed(weights: &MemoryDesc) -> bool {
    matches!(weights.layout(), Layout::Opaque { id: WINOGRAD, .. })
        && transformed(weights).is_some_and(|own| own.same_bytes(weights))
}

/// What numbers of the layouts of groups in panels begin with; behind it the panels' width, of [`WIDTH_BITS`] bits, and the groups.
const GROUPS: u64 = 0x6770 << 48;
const WIDTH_BITS: u32 = 16;

/// Weights of several groups, `[group][panel][taps..][channel][output]`: each group begins a panel of its own, and fills up its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPanels {
    pub(super) groups: usize,
    /// The outputs of a panel.
    pub(super) width: usize,
}

impl GroupPanels {
    /// Weights `[O, C, taps..]` of these groups so; none where they do not divide the outputs, or there are more bytes than can be counted.
    pub(super) fn layout(self, weights: &MemoryDesc) -> Option<MemoryDesc> {
        let outputs = weights.dims().first()?.checked_div(self.groups)?;
        let of_output: usize = weights.dims()[1..].iter().product();
        let padded = outputs.checked_next_multiple_of(self.width)?.checked_mul(self.groups)?;
        let bytes = padded.checked_mul(of_output)?.checked_mul(size_of::<f32>())?;
        let id =
            GROUPS | (self.width as u64) << (48 - WIDTH_BITS) | u64::from(u32::try_from(self.groups).ok()?);
        let fits = outputs * self.groups == weights.dims()[0] && self.width < 1 << WIDTH_BITS;
        let layout = fits.then_some(Layout::Opaque { id, bytes })?;
        MemoryDesc::with_layout(weights.dims().clone(), DataType::F32, layout).ok()
    }

    /// The panels of weights that lie so.
    pub(super) fn of(weights: &MemoryDesc) -> Option<Self> {
        let Layout::Opaque { id, .. } = weights.layout() else { return None };
        let width = (id >> (48 - WIDTH_BITS)) as usize & ((1 << WIDTH_BITS) - 1);
        let own = Self { groups: *id as u32 as usize, width };
        let is_own = |layout: MemoryDesc| layout.same_bytes(weights);
        (width > 0 && own.layout(weights).is_some_and(is_own)).then_some(own)
    }
}

/// Whether this is one of the layouts above.
pub(super) fn is_known(weights: &MemoryDesc) -> bool {
    is_transformed(weights) || GroupPanels::of(weights).is_some()
}
