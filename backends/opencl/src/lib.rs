//! The OpenCL backend of anydnn: any OpenCL device of any vendor, without an SDK at build time.

mod plan;
