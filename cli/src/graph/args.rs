//! The arguments of `anydnn graph`.

use std::path::PathBuf;

use crate::model::dim;
