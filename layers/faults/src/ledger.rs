//! The ledger: which references the program owns.

use std::collections::BTreeMap;

use crate::Kind;
use crate::table::Function;

/// What tells objects apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) address: usize,
    /// The memory object of a mapped region, zero otherwise: overlapping sub-buffers may be mapped to one address.
    pub(crate) owner: usize,
}

impl Key {
    pub(crate) fn new(kind: Kind, address: usize) -> Self {
        Self { kind, address, owner: 0 }
    }
}

/// Every object the program has made, those without references included: their handles must not be used again.
#[derive(Debug)]
pub(crate) struct Ledger {
    objects: BTreeMap<Key, Object>,
    next: u64,
}

/// An object that the program made.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Tells this object from an earlier one at the same address.
    serial: u64,
    pub(crate) creator: Function,
    /// References that the program owns.
    pub(crate) references: u64,
    /// The objects that OpenCL keeps alive for this one's sake.
    keeps: Vec<u64>,
    /// Whether a callback gets the handle, whoever else has a reference then.
    watched: bool,
}

impl Ledger {
    pub(crate) const fn new() -> Self {
        Self { objects: BTreeMap::new(), next: 1 }
    }

    /// Notes a new reference that a creating call returned. An address of a dead object starts a new one; one of a living object, such
    /// as a region that is mapped twice, gets one more reference.
    pub(crate) fn create(&mut self, key: Key, creator: Function, parents: &[Key]) {
        if let Some(object) = self.objects.get_mut(&key).filter(|object| object.references > 0) {
            object.references += 1;
            return;
        }
        let kept = parents.iter().filter(|parent| key.kind.keeps(parent.kind));
        let keeps = kept.filter_map(|parent| self.objects.get(parent)).map(|parent| parent.serial).collect();
        let serial = self.next;
        self.next += 1;
        self.objects.insert(key, Object { serial, creator, references: 1, keeps, watched: false });
    }

    /// Adds a reference to a known object.
    pub(crate) fn retain(&mut self, key: Key) {
        if let Some(object) = self.objects.get_mut(&key) {
            object.references += 1;
        }
    }

    /// Takes a reference away; false when a known object has none.
    pub(crate) fn release(&mut self, key: Key) -> bool {
        let Some(object) = self.objects.get_mut(&key) else { return true };
        let had = object.references > 0;
        object.references = object.references.saturating_sub(1);
        had
    }

    /// Notes that a callback gets the event's handle.
    pub(crate) fn watch(&mut self, key: Key) {
        if let Some(object) = self.objects.get_mut(&key) {
            object.watched = true;
        }
    }

    /// The object, if the program made it and its handle must not be used any more.
    pub(crate) fn dead(&self, key: Key) -> Option<&Object> {
        let object = self.objects.get(&key)?;
        (object.references == 0 && !object.watched && !self.is_kept(object.serial)).then_some(object)
    }

    /// The object, if the program made it.
    pub(crate) fn find(&self, key: Key) -> Option<&Object> {
        self.objects.get(&key)
    }

    /// The objects that the program owns references of, oldest first.
    pub(crate) fn live(&self) -> Vec<(Key, &Object)> {
        let live = self.objects.iter().filter(|(_, object)| object.references > 0);
        let mut live: Vec<_> = live.map(|(key, object)| (*key, object)).collect();
        live.sort_by_key(|(_, object)| object.serial);
        live
    }

    fn is_kept(&self, serial: u64) -> bool {
        let mut keepers = self.objects.values().filter(|object| object.keeps.contains(&serial));
        keepers.any(|keeper| keeper.references > 0 || self.is_kept(keeper.serial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: Key = Key { kind: Kind::Context, address: 0x10, owner: 0 };
    const QUEUE: Key = Key { kind: Kind::Queue, address: 0x20, owner: 0 };
    const EVENT: Key = Key { kind: Kind::Event, address: 0x30, owner: 0 };

    fn ledger() -> Ledger {
        let mut ledger = Ledger::new();
        ledger.create(CONTEXT, Function::clCreateContext, &[]);
        ledger.create(QUEUE, Function::clCreateCommandQueue, &[CONTEXT]);
        ledger.create(EVENT, Function::clEnqueueBarrierWithWaitList, &[QUEUE]);
        ledger
    }

    #[test]
    fn references_are_counted_until_the_last() {
        let mut ledger = ledger();
        ledger.retain(EVENT);
        assert!(ledger.release(EVENT) && ledger.dead(EVENT).is_none());
        assert!(ledger.release(EVENT) && ledger.dead(EVENT).is_some());
        assert!(!ledger.release(EVENT), "there was none left");
        assert_eq!(ledger.live().len(), 2);
        ledger.create(EVENT, Function::clCreateUserEvent, &[]);
        assert!(ledger.dead(EVENT).is_none(), "the address may come back");
        assert_eq!(ledger.live()[2].1.creator, Function::clCreateUserEvent);
    }

    #[test]
    fn what_another_object_keeps_alive_is_not_dead() {
        let mut ledger = ledger();
        ledger.release(CONTEXT);
        ledger.release(QUEUE);
        assert!(ledger.dead(CONTEXT).is_none(), "the event keeps the queue, and that the context");
        ledger.release(EVENT);
        assert!(ledger.dead(CONTEXT).is_some() && ledger.dead(QUEUE).is_some());
    }

    #[test]
    fn unknown_objects_are_let_be() {
        let mut ledger = Ledger::new();
        ledger.retain(EVENT);
        assert!(ledger.release(EVENT) && ledger.release(EVENT) && ledger.dead(EVENT).is_none());
    }

    #[test]
    fn events_with_a_callback_may_be_used_in_it() {
        let mut ledger = ledger();
        ledger.watch(EVENT);
        ledger.release(EVENT);
        assert!(ledger.dead(EVENT).is_none());
    }
}
