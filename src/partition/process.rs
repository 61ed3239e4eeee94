//! Values that the whole process shares, one for each type.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

static SHARED: Mutex<BTreeMap<TypeId, Box<dyn Any + Send>>> = Mutex::new(BTreeMap::new());

/// The process's value of a type, made at its first use. It lives until the process ends.
pub(super) fn shared<T: Clone + Send + 'static>(make: impl FnOnce() -> T) -> T {
    let mut all = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref::<T>()) {
        return known.clone();
    }
    let made = make();
    all.insert(TypeId::of::<T>(), Box::new(made.clone()));
    made
}
