//! The arguments of `anydnn bench`.

use std::path::PathBuf;

use super::notation::FORMS;
use super::peers::PeerKind;
use super::suite::Suite;
use crate::model::dim;

fn sets(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|sets| (1..=64).contains(sets))
        .ok_or_else(|| "expected a number from 1 to 64".to_owned())
}
