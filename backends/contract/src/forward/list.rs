//! Lists of a backend that another one holds.

use std::fmt;
use std::marker::PhantomData;

use super::{Holder, Holds};
use crate::backend::Backend;
use crate::error::Result;
use crate::list::List;

/// A list in terms of the backend `W` that holds its own.
pub(super) struct HeldList<W, B> {
    inner: Box<dyn List<B>>,
    outer: PhantomData<W>,
}

impl<W, B> HeldList<W, B> {
    pub(super) fn new(inner: Box<dyn List<B>>) -> Self {
        Self { inner, outer: PhantomData }
    }
}

impl<W, B: Backend> fmt::Debug for HeldList<W, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<W: Holds<B>, B: Backend> List<W> for HeldList<W, B> {
    fn enqueue(&mut self, stream: &W::Stream, slots: &[&W::Memory], deps: &[W::Event]) -> Result<W::Event> {
        let stream = W::inner("execute", "a stream", stream)?;
        let slots = slots
            .iter()
            .map(|memory| W::inner("execute", "the memory", *memory))
            .collect::<Result<Vec<_>>>()?;
        self.inner.enqueue(stream, &slots, &W::inner_events("execute", deps)?).map(W::Event::hold)
    }
}
