//! When kernels get programs for one shape.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// When kernels get programs for one shape, on backends that compile. Results are the same, to the bit, with and without.
///
/// ```
/// use anydnn_backend::Specialize;
///
/// # fn main() -> Result<(), anydnn_backend::Error> {
/// assert_eq!("never".parse::<Specialize>()?, Specialize::Never);
/// assert_eq!(Specialize::default().to_string(), "background");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Specialize {
    /// In the background, once a kernel has computed for so long that compiling pays.
    #[default]
    Background,
    /// Never: one program serves every shape.
    Never,
    /// As a primitive is made: that takes longer, and the first execution is as fast as all others.
    Eager,
}

impl Specialize {
    /// The environment variable that says it where nothing else does.
    pub const VARIABLE: &'static str = "ANYDNN_SPECIALIZE";

    /// Every one with its name.
    const NAMES: [(Self, &str); 3] =
        [(Self::Background, "background"), (Self::Never, "never"), (Self::Eager, "eager")];
}

impl fmt::Display for Specialize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(own, _)| own == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Specialize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found
            .map(|(own, _)| *own)
            .ok_or_else(|| Error::invalid("specialize", "time", text, "background, never or eager"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (own, name) in Specialize::NAMES {
            assert_eq!((name.parse::<Specialize>().unwrap(), own.to_string().as_str()), (own, name));
        }
        let error = "always".parse::<Specialize>().unwrap_err().to_string();
        assert!(error.contains("always") && error.contains("background, never or eager"), "{error}");
    }
}
