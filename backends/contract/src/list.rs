//! Lists of executions: readied once, enqueued as often as wanted.

use std::fmt::Debug;

use crate::arg::Arg;
use crate::backend::Backend;
use crate::error::Result;

/// One execution of a list, on memory that is given when the list is enqueued.
#[derive(Clone, Debug)]
pub struct ListStep<B: Backend> {
    /// What is executed.
    pub primitive: B::Primitive,
    /// Every argument once.
    pub args: Vec<(Arg, Part)>,
    /// The steps before it, by position, that it waits for where the stream does not order them; none for one that waits for what the
    /// whole list waits for.
    pub waits_for: Vec<usize>,
}

/// From where on an argument lies in the memory of one of a list's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The slot, a position in the memories that the list is enqueued with.
    pub slot: usize,
    /// Bytes from the start of that memory.
    pub offset: usize,
}

/// Executions that a backend enqueues as one: what can be done before their memory is known has been done, and what was done for the
/// memory of one time is not done again for the same memory.
///
/// One of them is for one thread at a time; what it enqueued stays as it was enqueued.
pub trait List<B: Backend>: Debug + Send {
    /// Enqueues every step after `deps`; the event covers all of them. The arguments have been checked: each slot's memory is of the
    /// list's engine, holds every part of it whole, and no step's results share bytes with anything that the order of steps does not allow.
    ///
    /// After a failure, what was enqueued before it runs, and holds its memory until it has ended.
    ///
    /// # Errors
    /// A device error that names the step.
    fn enqueue(&mut self, stream: &B::Stream, slots: &[&B::Memory], deps: &[B::Event]) -> Result<B::Event>;
}
