//! This layer, and the addresses of functions below it.

use std::ffi::c_void;

use anydnn_layer::{Extensions, Layer, export_layer};

use crate::report;
use crate::table::Function;

static LAYER: Layer = Layer::new(c"anydnn-faults", report::configure, interceptor);

/// Extension functions below this layer.
static EXTENSIONS: Extensions<{ Function::EXTENSIONS }> = Extensions::new();

export_layer!(LAYER);

/// The function below this layer.
pub(crate) fn next(function: Function) -> *mut c_void {
    LAYER.below(function as usize)
}

/// The extension function of the platform with a place.
pub(crate) fn next_extension(function: Function, place: usize) -> *mut c_void {
    EXTENSIONS.below(function.extension_index(), place)
}

/// This layer's function for an extension function of a platform, or the platform's own where the layer has none.
pub(crate) fn extension_address(platform: usize, name: &str, real: *mut c_void) -> *mut c_void {
    let function = Function::from_name(name).filter(|function| function.is_extension());
    let interceptors = function.and_then(Function::extension_interceptors);
    let (Some(function), Some(interceptors)) = (function, interceptors) else { return real };
    EXTENSIONS.replace(platform, function.extension_index(), real, &interceptors)
}

/// This layer's function for a slot of the dispatch table.
fn interceptor(slot: usize) -> Option<*mut c_void> {
    let function = Function::all().nth(slot).filter(|function| !function.is_extension());
    function.and_then(Function::interceptor)
}
