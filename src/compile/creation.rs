//! Primitives that are created while others of their program are still lowered.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{Backend, Engine, Error, PrimitiveDesc, Result, ResultExt};

/// Primitives on their way: some threads create what another one adds.
#[derive(Debug)]
pub(super) struct Creation<'e, B: Backend> {
    engine: &'e B::Engine,
    queue: Mutex<Queue<B>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue<B: Backend> {
    /// What was added; none where a thread has taken it.
    descs: Vec<Option<PrimitiveDesc>>,
    /// As many, each once it is there.
    made: Vec<Option<Result<B::Primitive>>>,
    next: usize,
    /// Whether nothing is added any more.
    is_complete: bool,
}

impl<'e, B: Backend> Creation<'e, B> {
    pub(super) fn new(engine: &'e B::Engine) -> Self {
        let queue = Queue { descs: Vec::new(), made: Vec::new(), next: 0, is_complete: false };
        Self { engine, queue: Mutex::new(queue), changed: Condvar::new() }
    }

    /// Adds a primitive behind those before.
    pub(super) fn add(&self, desc: PrimitiveDesc) {
        let mut queue = self.lock();
        queue.descs.push(Some(desc));
        queue.made.push(None);
        drop(queue);
        self.changed.notify_one();
    }

    /// Creates primitives until all are created or others create the last ones.
    pub(super) fn work(&self) {
        let mut queue = self.lock();
        loop {
            let next = queue.next;
            if let Some(desc) = queue.descs.get_mut(next) {
                let desc = desc.take();
                queue.next += 1;
                drop(queue);
                let create =
                    |desc: PrimitiveDesc| self.engine.create_primitive(&desc).at(|| desc.name().to_owned());
                let made = desc.map(create);
                queue = self.lock();
                queue.made[next] = made;
            } else if queue.is_complete {
                return;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// What ends the work of all threads when it is dropped: once everything was added, or nothing will come of it.
    pub(super) fn ending(&self) -> Ending<'_, 'e, B> {
        Ending(self)
    }

    /// The primitives in order, behind all work.
    ///
    /// # Errors
    /// That of the first one that could not be created.
    pub(super) fn made(self) -> Result<Vec<B::Primitive>> {
        let queue = self.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = || Error::unsupported("compile", "a thread that created primitives died");
        queue.made.into_iter().map(|made| made.ok_or_else(lost)?).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Queue<B>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells all threads that nothing is added any more.
#[derive(Debug)]
pub(super) struct Ending<'a, 'e, B: Backend>(&'a Creation<'e, B>);

impl<B: Backend> Drop for Ending<'_, '_, B> {
    fn drop(&mut self) {
        self.0.lock().is_complete = true;
        self.0.changed.notify_all();
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use anydnn_backend::op::Reorder;
    use anydnn_backend::{DataType, MemoryDesc, Op, Primitive};
    use anydnn_host::{Host, HostEngine};

    use super::*;

    /// A copy of so many elements, of a type that the host has or has not.
    fn copy(elements: usize, data_type: DataType) -> PrimitiveDesc {
        let desc = MemoryDesc::new([elements], data_type);
        let copy = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(desc.clone()).dst(desc);
        copy.label(format!("copy {elements}")).build().expect("a copy")
    }

    /// The names of what is created while `add` adds.
    fn created(add: impl FnOnce(&Creation<'_, Host>)) -> Result<Vec<String>> {
        let engine = HostEngine::new();
        let creation = Creation::<Host>::new(&engine);
        std::thread::scope(|scope| {
            let ending = creation.ending();
            for _ in 0..2 {
                scope.spawn(|| creation.work());
            }
            add(&creation);
            drop(ending);
            creation.work();
        });
        Ok(creation.made()?.iter().map(|made| made.desc().name().to_owned()).collect())
    }

    #[test]
    fn primitives_stay_in_order_and_the_first_failure_counts() {
        let names = created(|creation| (1..200).for_each(|n| creation.add(copy(n, DataType::F32)))).unwrap();
        assert_eq!(names, (1..200).map(|n| format!("copy {n}")).collect::<Vec<_>>());
        assert!(created(|_| {}).unwrap().is_empty());
        let of = |n: usize| if n.is_multiple_of(50) { DataType::S16 } else { DataType::F32 };
        let error = created(|creation| (1..200).for_each(|n| creation.add(copy(n, of(n))))).unwrap_err();
        assert!(error.to_string().starts_with("copy 50: "), "{error}");
    }

    #[test]
    fn nobody_waits_for_what_a_panic_does_not_add() {
        let panics = |creation: &Creation<'_, Host>| {
            creation.add(copy(1, DataType::F32));
            panic!("on purpose");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| created(panics))).is_err());
    }
}
