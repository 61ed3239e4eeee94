//! The one state of the layer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use anydnn_layer::say;

use crate::allocation::{Allocation, Fence, Id, Kind};
use crate::command_buffer::Recorded;
use crate::context::ContextState;
use crate::handle::{CommandBuffer, Context, Event, Kernel, Mem, Queue};
use crate::launch::{Arg, KernelState, Launch, Launches, Suspect};
use crate::zone::Damage;

/// Released allocations whose addresses are kept from being used again.
const RELEASED: usize = 10_000;
/// The addresses that they may take, in bytes.
const RELEASED_BYTES: usize = 1 << 40;
/// The same of memory that the driver has allocated, which is given back to it later.
const RELEASED_DRIVER_BYTES: usize = 4 << 30;

/// Everything the layer knows. No call into a driver is made while it is locked.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    by_address: BTreeMap<usize, u64>,
    pub(crate) mems: BTreeMap<Mem, MemObject>,
    pub(crate) kernels: BTreeMap<Kernel, KernelState>,
    pub(crate) recorded: BTreeMap<CommandBuffer, Recorded>,
    pub(crate) launches: Launches,
    pub(crate) contexts: BTreeMap<Context, ContextState>,
    /// Allocations that a finished kernel may have damaged.
    ended: BTreeSet<u64>,
    /// Released allocations with pages, oldest first.
    released: VecDeque<u64>,
    /// The addresses that they take, in bytes: the layer's own, and the drivers'.
    released_bytes: (usize, usize),
    /// Released pointers with canaries, which the driver may use again.
    freed: BTreeMap<usize, Id>,
    last: u64,
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<String>,
}

/// A memory object that is fenced, or is made from one that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemObject {
    pub(crate) allocation: u64,
    /// The flags that the program gave for the buffer.
    pub(crate) flags: u64,
    /// The buffer's bytes.
    pub(crate) size: usize,
    pub(crate) role: Role,
    /// The memory object that the program made it from, if it did.
    pub(crate) made_from: Mem,
    /// Its offset in the allocation, in bytes.
    pub(crate) offset: usize,
    /// What the driver answers for the buffer's flags without canaries.
    pub(crate) answer: u64,
    /// Whether a part has the buffer's flags about access.
    pub(crate) inherits: bool,
    /// The buffer that holds the allocation and its canaries, and the bytes before the allocation there.
    pub(crate) zones: Option<(Mem, usize)>,
}

/// What a memory object is to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Whole,
    Part,
    Image,
}

/// Counts for the report.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Allocations by kind: with inaccessible pages, and with canaries.
    pub(crate) fenced: BTreeMap<Kind, (u64, u64)>,
    /// Buffers over memory of the program's own.
    pub(crate) host_memory: u64,
    /// Allocations that there was no room to fence.
    pub(crate) no_room: u64,
    /// Allocations too large to be filled whole.
    pub(crate) filled_in_part: u64,
    /// Allocations released before they could be checked.
    pub(crate) unchecked: u64,
    /// Why canaries stand in for pages.
    pub(crate) notes: BTreeSet<String>,
}

static STATE: Mutex<State> = Mutex::new(State {
    allocations: BTreeMap::new(),
    by_address: BTreeMap::new(),
    mems: BTreeMap::new(),
    kernels: BTreeMap::new(),
    recorded: BTreeMap::new(),
    launches: Launches::new(),
    contexts: BTreeMap::new(),
    ended: BTreeSet::new(),
    released: VecDeque::new(),
    released_bytes: (0, 0),
    freed: BTreeMap::new(),
    last: 0,
    tally: Tally {
        fenced: BTreeMap::new(),
        host_memory: 0,
        no_room: 0,
        filled_in_part: 0,
        unchecked: 0,
        notes: BTreeSet::new(),
    },
    violations: Vec::new(),
});

/// The state, locked.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state, unless somebody else has locked it.
pub(crate) fn try_lock() -> Option<MutexGuard<'static, State>> {
    match STATE.try_lock() {
        Ok(state) => Some(state),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Notes that a kernel is about to be enqueued, and gives the launch's number.
pub(crate) fn begin(kernel: Kernel, queue: Queue, in_order: bool) -> u64 {
    let mut state = lock();
    let known = state.kernels.get(&kernel).cloned().unwrap_or_else(|| KernelState::new("a kernel"));
    state.begin_launch(&known, queue, in_order)
}

impl State {
    /// Notes a new allocation and gives its number.
    pub(crate) fn add(&mut self, kind: Kind, context: Context, size: usize, fence: Fence) -> u64 {
        self.last += 1;
        let number = self.last;
        let (pages, canaries) = self.tally.fenced.entry(kind).or_default();
        match fence {
            Fence::Canary(_) => *canaries += 1,
            Fence::Pages(_) | Fence::DriverPages(..) => *pages += 1,
        }
        let id = Id { kind, number, size };
        let allocation =
            Allocation { id, context, fence, live: true, suspects: Vec::new(), pending: 0, checks: 0 };
        if let Some((low, high)) = allocation.span() {
            self.by_address.insert(low, number);
            let reused: Vec<_> = self.freed.range(low..high).map(|(address, _)| *address).collect();
            for address in reused {
                self.freed.remove(&address);
            }
        }
        self.allocations.insert(number, allocation);
        number
    }

    /// The allocation that an address belongs to, fence included.
    pub(crate) fn at(&self, address: usize) -> Option<&Allocation> {
        let (_, number) = self.by_address.range(..=address).next_back()?;
        let allocation = self.allocations.get(number)?;
        allocation.span().filter(|(_, high)| address < *high).map(|_| allocation)
    }

    /// The allocation that begins at an address and is not released.
    pub(crate) fn starting_at(&self, address: usize) -> Option<&Allocation> {
        self.at(address).filter(|allocation| allocation.live && allocation.start() == Some(address))
    }

    /// The released allocation that began at an address, unless that is another's now.
    pub(crate) fn freed_at(&self, address: usize) -> Option<Id> {
        let released = self.at(address).filter(|allocation| !allocation.live);
        released.map(|allocation| allocation.id).or_else(|| self.freed.get(&address).copied())
    }

    /// A pointer as an argument.
    pub(crate) fn pointer_arg(&self, index: Option<u32>, address: usize) -> Option<Arg> {
        let allocation = self.at(address)?;
        let offset = address.wrapping_sub(allocation.start()?);
        Some(Arg { index, allocation: allocation.id.number, offset })
    }

    /// Notes an argument of a kernel; `None` for what is no allocation.
    pub(crate) fn set_arg(&mut self, kernel: Kernel, index: u32, arg: Option<Arg>) {
        if let Some(known) = self.kernels.get_mut(&kernel) {
            match arg {
                Some(arg) => known.args.insert(index, arg),
                None => known.args.remove(&index),
            };
        }
    }

    /// Notes that a kernel is about to be enqueued, and gives the launch's number.
    pub(crate) fn begin_launch(&mut self, kernel: &KernelState, queue: Queue, in_order: bool) -> u64 {
        let launch = Launch::new(kernel, queue, in_order);
        for arg in &launch.args {
            let Some(allocation) = self.allocations.get_mut(&arg.allocation) else { continue };
            let suspect = Suspect { kernel: Arc::clone(&launch.kernel), index: arg.index };
            if !allocation.suspects.contains(&suspect) {
                allocation.suspects.push(suspect);
            }
            allocation.pending += 1;
        }
        self.launches.begin(launch)
    }

    /// Notes that a launch has finished; a number that is not known is of one that had finished before.
    pub(crate) fn finish_launch(&mut self, number: u64) {
        let Some(launch) = self.launches.finish(number) else { return };
        for arg in &launch.args {
            if let Some(allocation) = self.allocations.get_mut(&arg.allocation) {
                allocation.pending = allocation.pending.saturating_sub(1);
                self.ended.insert(arg.allocation);
            }
        }
    }

    /// Notes that everything on a queue has finished.
    pub(crate) fn finish_queue(&mut self, queue: Queue) {
        for number in self.launches.on(queue) {
            self.finish_launch(number);
        }
    }

    /// Notes that an event's command has finished, and what its queue finishes before.
    pub(crate) fn finish_event(&mut self, event: Event) {
        for number in self.launches.until(event) {
            self.finish_launch(number);
        }
    }

    /// Takes the numbers of the allocations that a finished kernel may have damaged.
    pub(crate) fn take_ended(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.ended)
    }

    /// Forgets the launches that have an allocation, and says whether some may have damaged it since it was checked.
    pub(crate) fn settle(&mut self, number: u64) -> bool {
        let pending =
            self.allocations.get_mut(&number).map(|allocation| std::mem::take(&mut allocation.pending));
        self.ended.remove(&number) || pending.is_some_and(|pending| pending > 0)
    }

    /// Compares the bytes around an allocation with pages, and notes what has changed.
    pub(crate) fn check_pages(&mut self, number: u64) {
        let Some(allocation) = self.allocations.get(&number).filter(|allocation| allocation.live) else {
            return;
        };
        if let Fence::Pages(block) | Fence::DriverPages(block, _) = &allocation.fence {
            let damage = block.damage();
            self.checked(number, &damage);
        }
    }

    /// Notes what a check has found.
    pub(crate) fn checked(&mut self, number: u64, damage: &[Damage]) {
        let Some(allocation) = self.allocations.get_mut(&number) else { return };
        for damage in damage {
            let text = violation(allocation, *damage);
            say(&format!("anydnn-fence: {text}\n"));
            self.violations.push(text);
        }
        if allocation.pending == 0 {
            allocation.suspects.clear();
        }
    }

    /// Makes an allocation with pages inaccessible for good, or lets go of one with canaries. Gives allocations to be dropped, and
    /// [given back](crate::context::give_back) where they are the driver's, when the state is not locked any more.
    #[must_use]
    pub(crate) fn retire(&mut self, number: u64) -> Vec<Allocation> {
        self.check_pages(number);
        let Some(allocation) = self.allocations.get_mut(&number).filter(|allocation| allocation.live) else {
            return Vec::new();
        };
        allocation.live = false;
        match &allocation.fence {
            Fence::Pages(block) => {
                block.close();
                self.released_bytes.0 += block.bytes();
            }
            Fence::DriverPages(block, _) => {
                block.close();
                self.released_bytes.1 += block.bytes();
            }
            Fence::Canary(_)
                if allocation.pending > 0 || allocation.checks > 0 || self.ended.contains(&number) =>
            {
                // It goes when it has been checked.
                return Vec::new();
            }
            Fence::Canary(_) => {
                if let Some(start) = allocation.start() {
                    self.freed.insert(start, allocation.id);
                }
                return self.remove(number).into_iter().collect();
            }
        }
        self.released.push_back(number);
        self.trim()
    }

    /// Forgets an allocation.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Allocation> {
        let allocation = self.allocations.remove(&number)?;
        if let Some((low, _)) = allocation.span().filter(|(low, _)| self.by_address.get(low) == Some(&number))
        {
            self.by_address.remove(&low);
        }
        if let Some(place) = self.released.iter().position(|released| *released == number) {
            self.released.remove(place);
            match &allocation.fence {
                Fence::Pages(block) => self.released_bytes.0 -= block.bytes(),
                Fence::DriverPages(block, _) => self.released_bytes.1 -= block.bytes(),
                Fence::Canary(_) => {}
            }
        }
        Some(allocation)
    }

    /// Takes the released allocations of a context that the driver still has.
    pub(crate) fn take_released(&mut self, context: Context) -> Vec<Allocation> {
        let of_driver = |allocation: &&Allocation| {
            !allocation.live && allocation.context == context && !matches!(allocation.fence, Fence::Pages(_))
        };
        let numbers: Vec<_> =
            self.allocations.values().filter(of_driver).map(|allocation| allocation.id.number).collect();
        let taken: Vec<_> = numbers.into_iter().filter_map(|number| self.remove(number)).collect();
        let is_canary = |allocation: &&Allocation| matches!(allocation.fence, Fence::Canary(_));
        self.tally.unchecked += taken.iter().filter(is_canary).count() as u64;
        taken
    }

    /// Lets go of the oldest released allocations when there are too many.
    fn trim(&mut self) -> Vec<Allocation> {
        let mut gone = Vec::new();
        loop {
            let (own, drivers) = self.released_bytes;
            let too_many =
                self.released.len() > RELEASED || own > RELEASED_BYTES || drivers > RELEASED_DRIVER_BYTES;
            let Some(oldest) = self.released.front().copied().filter(|_| too_many) else { return gone };
            let Some(allocation) = self.remove(oldest) else { return gone };
            match &allocation.fence {
                Fence::Pages(block) => block.unmap(),
                Fence::DriverPages(..) | Fence::Canary(_) => gone.push(allocation),
            }
        }
    }
}

/// Damage of an allocation in words.
fn violation(allocation: &Allocation, damage: Damage) -> String {
    let mut text = "overwritten ".to_owned();
    // Writing into a string cannot fail.
    let _ = allocation.id.write_damage(&mut text, damage);
    if allocation.suspects.is_empty() {
        text.push_str("; no kernel has had it since it was checked last");
    }
    for (i, suspect) in allocation.suspects.iter().enumerate() {
        text.push_str(if i == 0 { "; kernels that have had it since it was checked last: " } else { ", " });
        text.push_str(&suspect.kernel);
        match suspect.index {
            Some(index) => write!(text, " (argument {index})"),
            None => write!(text, " (not as an argument)"),
        }
        .unwrap_or_default();
    }
    text
}
