//! `libdnnl.so.3`: the functions of `anydnn-c` under the name that programs built for oneDNN look for.

// Linking the crate exports its functions.
extern crate anydnn_c as _;
