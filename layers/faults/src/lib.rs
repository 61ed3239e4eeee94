#![doc = include_str!("../README.md")]

mod call;
mod code;
mod control;
mod exports;
mod fault;
mod kind;
mod layer;
mod ledger;
mod report;
mod role;
mod state;
mod table;

pub use code::code_name;
pub use control::{Control, ControlError, Injection, Object, Violation, layer_path};
pub use fault::{Fault, FaultError};
pub use kind::Kind;
pub use layer::{clGetLayerInfo, clInitLayer};

use table::Function;

/// The names of the functions that the layer knows: the dispatch table's in its order, then those of extensions.
pub fn functions() -> impl Iterator<Item = &'static str> {
    Function::all().map(Function::name)
}

/// The error codes that the OpenCL specification documents for a function; none for a function that is passed through or unknown.
///
/// `clSVMAlloc` and the calls that look up extension functions fail with null and no code; they have one code here to inject.
/// `clSVMFree` cannot fail.
///
/// ```
/// let codes = anydnn_faults::documented_codes("clReleaseMemObject");
/// assert_eq!(codes, [-38, -5, -6]);
/// ```
pub fn documented_codes(function: &str) -> &'static [i32] {
    Function::from_name(function).map_or(&[], Function::codes)
}
