//! Kernels, their arguments, and their launches that are not known to be finished.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::handle::{Event, Queue};

/// What is known of a kernel object.
#[derive(Clone, Debug)]
pub(crate) struct KernelState {
    pub(crate) name: Arc<str>,
    /// Arguments that are allocations, by their index.
    pub(crate) args: BTreeMap<u32, Arg>,
    /// Allocations that the kernel may use without an argument.
    pub(crate) indirect: Vec<Arg>,
}

/// An allocation as an argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arg {
    /// The argument; `None` for one that the kernel reaches in another way.
    pub(crate) index: Option<u32>,
    /// The allocation's number.
    pub(crate) allocation: u64,
    /// The offset of what was given, in bytes.
    pub(crate) offset: usize,
}

/// A kernel that has been enqueued and is not known to be finished.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: Arc<str>,
    pub(crate) args: Vec<Arg>,
    queue: Queue,
    /// Whether the queue finishes its commands in order.
    in_order: bool,
    event: Option<Event>,
}

/// A kernel that may have damaged an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) kernel: Arc<str>,
    pub(crate) index: Option<u32>,
}

/// The launches that are not known to be finished, in order.
#[derive(Debug)]
pub(crate) struct Launches {
    unfinished: BTreeMap<u64, Launch>,
    events: BTreeMap<Event, u64>,
    last: u64,
}

impl KernelState {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), args: BTreeMap::new(), indirect: Vec::new() }
    }
}

impl Launch {
    pub(crate) fn new(kernel: &KernelState, queue: Queue, in_order: bool) -> Self {
        let args = kernel.args.values().chain(&kernel.indirect).copied().collect();
        Self { kernel: Arc::clone(&kernel.name), args, queue, in_order, event: None }
    }
}

impl Launches {
    pub(crate) const fn new() -> Self {
        Self { unfinished: BTreeMap::new(), events: BTreeMap::new(), last: 0 }
    }

    /// Notes a launch and gives its number.
    pub(crate) fn begin(&mut self, launch: Launch) -> u64 {
        self.last += 1;
        self.unfinished.insert(self.last, launch);
        self.last
    }

    /// Notes the program's event of a launch, unless that has finished meanwhile.
    pub(crate) fn set_event(&mut self, number: u64, event: Event) {
        if let Some(launch) = self.unfinished.get_mut(&number) {
            launch.event = Some(event);
            self.events.insert(event, number);
        }
    }

    /// Takes a launch that has finished, if it is not known already.
    pub(crate) fn finish(&mut self, number: u64) -> Option<Launch> {
        let launch = self.unfinished.remove(&number)?;
        if let Some(event) = launch.event.filter(|event| self.events.get(event) == Some(&number)) {
            self.events.remove(&event);
        }
        Some(launch)
    }

    /// The launches on a queue.
    pub(crate) fn on(&self, queue: Queue) -> Vec<u64> {
        let on = self.unfinished.iter().filter(|(_, launch)| launch.queue == queue);
        on.map(|(number, _)| *number).collect()
    }

    /// The launches that have finished when an event's command has.
    pub(crate) fn until(&self, event: Event) -> Vec<u64> {
        let Some(number) = self.events.get(&event) else { return Vec::new() };
        let Some(last) = self.unfinished.get(number) else { return Vec::new() };
        let until = self.unfinished.range(..=number);
        let finished = until.filter(|(earlier, launch)| {
            *earlier == number || last.in_order && launch.in_order && launch.queue == last.queue
        });
        finished.map(|(number, _)| *number).collect()
    }

    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &Launch> {
        self.unfinished.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(queue: usize, in_order: bool) -> Launch {
        Launch::new(&KernelState::new("k"), Queue::from_address(queue), in_order)
    }

    #[test]
    fn an_event_tells_of_what_its_queue_finishes_before() {
        let mut launches = Launches::new();
        let numbers: Vec<_> = [(1, true), (2, false), (2, false), (1, true), (1, true)]
            .map(|(queue, in_order)| launches.begin(launch(queue, in_order)))
            .into();
        let event = Event::from_address;
        launches.set_event(numbers[2], event(7));
        launches.set_event(numbers[3], event(8));
        assert_eq!(launches.until(event(7)), [numbers[2]]);
        assert_eq!(launches.until(event(8)), [numbers[0], numbers[3]]);
        assert_eq!(launches.until(event(9)), []);
        assert_eq!(launches.on(Queue::from_address(1)), [numbers[0], numbers[3], numbers[4]]);
        assert!(launches.finish(numbers[3]).is_some() && launches.finish(numbers[3]).is_none());
        assert_eq!(launches.until(event(8)), []);
        assert_eq!(launches.unfinished().count(), 4);
    }

    #[test]
    fn an_event_that_is_used_again_tells_of_its_new_command() {
        let mut launches = Launches::new();
        let (first, second) = (launches.begin(launch(1, true)), launches.begin(launch(1, true)));
        launches.set_event(first, Event::from_address(7));
        launches.set_event(second, Event::from_address(7));
        launches.finish(first);
        assert_eq!(launches.until(Event::from_address(7)), [second]);
    }
}
