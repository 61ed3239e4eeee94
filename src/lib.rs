//! Deep-learning primitives and graphs on any OpenCL device.
