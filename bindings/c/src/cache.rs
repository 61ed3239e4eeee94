//! What an engine keeps of descriptions and primitives, for others that are the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use anydnn::select::AnyPrimitive;
use anydnn_backend::PrimitiveDesc;

use crate::boundary::Outcome;
use crate::processor::cache_capacity;

/// The primitive cache of an engine. Each part keeps as many entries as the capacity says, those that were used last.
#[derive(Default)]
pub(crate) struct Cache {
    resolved: Mutex<Kept<(PrimitiveDesc, usize)>>,
    primitives: Mutex<Kept<AnyPrimitive>>,
}

impl Cache {
    /// A description with its open layouts resolved, and the bytes of working memory that it wants.
    pub(crate) fn resolved(
        &self,
        desc: &PrimitiveDesc,
        resolve: impl FnOnce() -> Outcome<(PrimitiveDesc, usize)>,
    ) -> Outcome<(PrimitiveDesc, usize)> {
        Ok(kept(&self.resolved, desc, resolve)?.0)
    }

    /// A primitive, and whether it was there.
    pub(crate) fn primitive(
        &self,
        desc: &PrimitiveDesc,
        create: impl FnOnce() -> Outcome<AnyPrimitive>,
    ) -> Outcome<(AnyPrimitive, bool)> {
        kept(&self.primitives, desc, create)
    }
}

/// Values by description.
struct Kept<V> {
    entries: HashMap<u64, Vec<Entry<V>>>,
    count: usize,
    /// How often values were asked for.
    time: u64,
}

struct Entry<V> {
    desc: PrimitiveDesc,
    value: V,
    used: u64,
}

impl<V> Default for Kept<V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), count: 0, time: 0 }
    }
}

/// The value that is kept, or a new one. It is made without the lock, so that threads may make the same one at once.
fn kept<V: Clone>(
    of: &Mutex<Kept<V>>,
    desc: &PrimitiveDesc,
    make: impl FnOnce() -> Outcome<V>,
) -> Outcome<(V, bool)> {
    let capacity = usize::try_from(cache_capacity()).unwrap_or(0);
    let lock = || of.lock().unwrap_or_else(PoisonError::into_inner);
    let hash = hash(desc);
    if let Some(value) = lock().find(hash, desc) {
        return Ok((value, true));
    }
    let value = make()?;
    lock().insert(hash, desc, value.clone(), capacity);
    Ok((value, false))
}

impl<V: Clone> Kept<V> {
    fn find(&mut self, hash: u64, desc: &PrimitiveDesc) -> Option<V> {
        self.time += 1;
        let entry = self.entries.get_mut(&hash)?.iter_mut().find(|entry| entry.desc == *desc)?;
        entry.used = self.time;
        Some(entry.value.clone())
    }

    fn insert(&mut self, hash: u64, desc: &PrimitiveDesc, value: V, capacity: usize) {
        while self.count > 0 && self.count >= capacity {
            self.forget_oldest();
        }
        if capacity == 0 {
            return;
        }
        let same = self.entries.entry(hash).or_default();
        if same.iter().any(|entry| entry.desc == *desc) {
            return;
        }
        same.push(Entry { desc: desc.clone(), value, used: self.time });
        self.count += 1;
    }

    fn forget_oldest(&mut self) {
        let used = |(&hash, entries): (&u64, &Vec<Entry<V>>)| {
            let oldest = entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
            oldest.map(|(i, entry)| (entry.used, hash, i))
        };
        let Some((_, hash, i)) = self.entries.iter().filter_map(used).min() else { return };
        if let Some(entries) = self.entries.get_mut(&hash) {
            entries.remove(i);
            self.count -= 1;
            if entries.is_empty() {
                self.entries.remove(&hash);
            }
        }
    }
}

/// Equal descriptions have the same; the operation's parameters and attributes are compared, not hashed.
fn hash(desc: &PrimitiveDesc) -> u64 {
    let mut hasher = DefaultHasher::new();
    desc.op().name().hash(&mut hasher);
    for operand in desc.args() {
        operand.arg.hash(&mut hasher);
        operand.desc.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::MatMul;
    use anydnn_backend::{DataType, MemoryDesc};

    use super::*;

    fn product(n: usize) -> PrimitiveDesc {
        let tensor = |dims: [usize; 2]| MemoryDesc::new(dims, DataType::F32);
        PrimitiveDesc::builder(MatMul).src(tensor([2, 3])).weights(tensor([3, n])).build().unwrap()
    }

    #[test]
    fn the_latest_are_kept() {
        let mut kept = Kept::default();
        for n in 1..=3 {
            kept.find(hash(&product(n)), &product(n));
            kept.insert(hash(&product(n)), &product(n), n, 3);
        }
        assert_eq!(kept.find(hash(&product(1)), &product(1)), Some(1));
        kept.insert(hash(&product(4)), &product(4), 4, 3);
        let found = [1, 2, 3, 4].map(|n| kept.find(hash(&product(n)), &product(n)));
        assert_eq!(found, [Some(1), None, Some(3), Some(4)]);
        kept.insert(hash(&product(5)), &product(5), 5, 1);
        assert_eq!((kept.count, kept.find(hash(&product(5)), &product(5))), (1, Some(5)));
        kept.insert(hash(&product(6)), &product(6), 6, 0);
        assert_eq!((kept.count, kept.entries.len()), (0, 0));
    }
}
