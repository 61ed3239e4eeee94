//! A part of a long list of cases, for a quick look at everything.

/// Each how-many-th case of long lists runs: what `ANYDNN_SAMPLE` says, else one, which is all of them. So is what is no whole number.
pub fn stride() -> usize {
    stride_of(std::env::var("ANYDNN_SAMPLE").ok().as_deref())
}

fn stride_of(said: Option<&str>) -> usize {
    said.and_then(|said| said.parse().ok()).filter(|&stride| stride > 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cases_run_unless_a_sample_is_asked_for() {
        assert_eq!(stride_of(Some("8")), 8);
        for all in [None, Some(""), Some("0"), Some("-3"), Some("few")] {
            assert_eq!(stride_of(all), 1, "{all:?}");
        }
    }
}
