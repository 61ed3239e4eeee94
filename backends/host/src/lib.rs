//! The host backend of anydnn.
