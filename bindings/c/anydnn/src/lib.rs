//! `libanydnn.so.0`: the functions of `anydnn-c` under its own name.

// Linking the crate exports its functions.
extern crate anydnn_c as _;
