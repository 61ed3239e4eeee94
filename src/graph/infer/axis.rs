//! Axes that may count from the back.

use anydnn_backend::{Error, Result};

/// The axis counted from the front; negative axes count from the back.
///
/// # Errors
/// [`Error::Invalid`] when `axis` is outside `-rank..rank`.
///
/// ```
/// use anydnn::graph::normalize_axis;
/// assert_eq!(normalize_axis(-1, 4).unwrap(), 3);
/// assert!(normalize_axis(4, 4).is_err());
/// ```
pub fn normalize_axis(axis: i64, rank: usize) -> Result<usize> {
    from_front(axis, rank).ok_or_else(|| {
        Error::invalid("axis", "axis", axis.to_string(), format!("at least -{rank} and less than {rank}"))
    })
}

pub(super) fn from_front(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let front = if axis < 0 { axis.checked_add(rank_signed)? } else { axis };
    usize::try_from(front).ok().filter(|&front| front < rank)
}
