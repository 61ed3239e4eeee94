//! This layer.

use std::ffi::c_void;

use anydnn_layer::{Layer, export_layer};

use crate::below;
use crate::settings::{self, Mode};

pub(crate) static LAYER: Layer = Layer::new(c"anydnn-fence", settings::configure, interceptor);

export_layer!(LAYER);

fn interceptor(slot: usize) -> Option<*mut c_void> {
    let on = settings::settings().is_some_and(|settings| settings.mode != Mode::Off);
    on.then(|| below::interceptor(slot)).flatten()
}
