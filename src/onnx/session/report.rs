//! What a session holds.

/// The memory of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Bytes of weights on the device as they are in the file.
    pub weights: usize,
    /// Bytes of what plans have prepared from them, and of other constants of theirs; what is alike is there once.
    pub prepared: usize,
    /// Bytes of weights on the host.
    pub host: usize,
    /// The plans, the one used last at the end.
    pub plans: Vec<PlanMemory>,
}

/// The memory of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanMemory {
    /// The values of the open dimensions.
    pub dims: Vec<(String, usize)>,
    /// Bytes of temporaries in one execution.
    pub arena_bytes: usize,
    /// What they would be without reuse.
    pub arena_bytes_without_reuse: usize,
    /// Bytes that go in and out of the plan's graph in one execution.
    pub port_bytes: usize,
}
