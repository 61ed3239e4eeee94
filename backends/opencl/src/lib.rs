//! The opencl backend of anydnn.
