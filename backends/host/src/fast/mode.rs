//! Whether fast forms compute, and with which instructions.

use std::env;

use super::level::Level;

/// What an engine computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Plain loops.
    Reference,
    /// Fast forms where there are any.
    Fast(Level),
}

impl Mode {
    /// The variable that chooses: `reference`, or `portable`, `avx2` or `avx512` for fast forms with at most these instructions.
    const VARIABLE: &str = "ANYDNN_HOST";

    /// What the variable says; all that the processor has if it says nothing.
    pub(crate) fn of_environment() -> Self {
        let text = env::var(Self::VARIABLE).unwrap_or_default();
        Self::named(&text).unwrap_or_else(|| {
            let expected = "reference, portable, avx2 or avx512";
            tracing::warn!(given = text, expected, "{} is ignored", Self::VARIABLE);
            Self::Fast(Level::of_processor())
        })
    }

    fn named(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Fast(Level::of_processor())),
            "reference" => Some(Self::Reference),
            name => Level::up_to(name).map(Self::Fast),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_unknown_ones_do_not() {
        assert_eq!(Mode::named(""), Some(Mode::Fast(Level::of_processor())));
        assert_eq!(Mode::named("reference"), Some(Mode::Reference));
        assert_eq!(Mode::named("portable"), Some(Mode::Fast(Level::Portable)));
        assert_eq!(Mode::named("fast"), None);
    }
}
