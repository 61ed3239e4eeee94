//! Recipes that failed once, on whatever backend.

use super::recipe::Recipe;
use crate::{Error, Result};

/// A name and a recipe a line; what is behind a number sign says what failed.
const LIST: &str = include_str!("regressions.txt");

/// The recipes with their names.
///
/// # Errors
/// [`Error::Invalid`] for a line of the list that is neither.
pub fn regressions() -> Result<Vec<(&'static str, Recipe)>> {
    let lines = LIST.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, text) = line.split_once(' ').ok_or_else(|| {
                Error::invalid("regressions", "line", format!("{line:?}"), "a name and a recipe")
            })?;
            Ok((name, text.parse()?))
        })
        .collect()
}
