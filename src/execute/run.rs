//! One execution: what it takes, what it enqueues, and how what it took comes back.

use anydnn_backend::{Backend, Engine, List, Result};

use super::StepEvent;
use super::commands::{Enqueued, Taken};
use crate::compile::Compiled;

/// Enqueues an execution: a list, where there is one, or the steps one by one. What `enqueue` takes of the engine's allocator goes back
/// behind the last command, and the list to the others, whatever the outcome.
pub(crate) fn run<B: Backend>(
    compiled: &Compiled<B>,
    mut list: Option<Box<dyn List<B>>>,
    enqueue: impl FnOnce(
        Option<&mut (dyn List<B> + 'static)>,
        &mut Taken<B>,
        &mut Enqueued<B>,
    ) -> Result<B::Event>,
) -> Result<(B::Event, Vec<StepEvent<B>>)> {
    let mut taken = Taken::new(compiled.engine.allocator());
    let mut enqueued = Enqueued::default();
    let ended = enqueue(list.as_deref_mut(), &mut taken, &mut enqueued);
    compiled.lists.give(list);
    // What was enqueued before a failure may still touch what was taken.
    if ended.is_err() {
        enqueued.settle();
    }
    taken.finish(ended).map(|event| (event, enqueued.events))
}
