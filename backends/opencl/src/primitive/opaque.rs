//! Layouts that strides cannot tell: weights that are transformed for `convolution/winograd.cl`.

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
