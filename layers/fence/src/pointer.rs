//! What shared virtual and unified shared memory have in common.

use std::ffi::c_void;
use std::sync::Arc;

use anydnn_layer::say;

use crate::allocation::{Allocation, Fence, Freed, FreedBy, Kind};
use crate::canary::{self, Memory, Zones};
use crate::context::{self, Way};
use crate::handle::Context;
use crate::pages::Block;
use crate::settings::{MAX_ALIGN, settings};
use crate::{below, extension, handler, state, sync, zone};

/// Memory that the program asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) context: Context,
    pub(crate) size: usize,
    /// The alignment that the program asks for, in bytes; zero for what the driver sees fit.
    pub(crate) alignment: u32,
}

/// What a pointer that the program frees was.
#[derive(Debug)]
pub(crate) enum Free {
    /// None of the layer's: the driver may know it.
    Unknown,
    /// One that had been freed before.
    Again,
    /// One that the layer has freed.
    Done,
}

/// Allocates memory, by a function that takes the number of bytes, with a fence around it.
pub(crate) fn allocate(wanted: Wanted, make: impl Fn(usize) -> *mut c_void) -> *mut c_void {
    let plain = || make(wanted.size);
    let align = wanted.alignment as usize;
    let fits = align == 0 || align.is_power_of_two() && align <= MAX_ALIGN;
    let Some(way) = context::way(wanted.context).filter(|_| wanted.size > 0) else { return plain() };
    handler::ensure();
    let made = if !fits {
        None
    } else if way.pages {
        with_pages(wanted, way, &make)
    } else {
        with_canary(wanted, way, &make)
    };
    made.unwrap_or_else(|| {
        let made = plain();
        state::lock().tally.no_room += u64::from(!made.is_null());
        made
    })
}

/// Frees memory, if it is the layer's.
pub(crate) fn free(pointer: *mut c_void) -> Free {
    sync::check_ended();
    free_unchecked(pointer)
}

/// The same in a callback, where no command may be waited for: canaries that have not been compared are not.
pub(crate) fn free_unchecked(pointer: *mut c_void) -> Free {
    match take(pointer) {
        Ok(released) => {
            context::give_back(released);
            Free::Done
        }
        Err(free) => free,
    }
}

/// Frees memory, if it is the layer's, when the commands that use it have finished. For the driver to wait, it gets the memory back at
/// once.
pub(crate) fn free_blocking(pointer: *mut c_void, free: impl Fn(*mut c_void)) -> Free {
    sync::check_ended();
    let mut state = state::lock();
    let Some(allocation) = state.starting_at(pointer.addr()) else {
        drop(state);
        return free_unchecked(pointer);
    };
    let number = allocation.id.number;
    match allocation.fence.clone() {
        Fence::DriverPages(block, freed) => {
            state.check_pages(number);
            state.remove(number);
            drop(state);
            block.open();
            free(std::ptr::with_exposed_provenance_mut(freed.base));
            Free::Done
        }
        Fence::Canary(zones) => {
            drop(state);
            zones.wait_when_freed();
            drop(zones);
            free_unchecked(pointer)
        }
        Fence::Pages(_) => Free::Unknown,
    }
}

/// The address that the driver gave for memory that begins at an address.
pub(crate) fn base(pointer: *mut c_void) -> *mut c_void {
    let state = state::lock();
    let base = state.starting_at(pointer.addr()).and_then(|allocation| match &allocation.fence {
        Fence::DriverPages(_, freed) => Some(freed.base),
        Fence::Canary(zones) => zones.span().map(|(low, _)| low),
        Fence::Pages(_) => None,
    });
    base.map_or(pointer, std::ptr::with_exposed_provenance_mut)
}

/// Releases the program's memory. Gives allocations that are the driver's to get back.
fn take(pointer: *mut c_void) -> Result<Vec<Allocation>, Free> {
    let mut state = state::lock();
    if let Some(id) = state.freed_at(pointer.addr()) {
        let text = format!("released again: {id}");
        say(&format!("anydnn-fence: {text}\n"));
        state.violations.push(text);
        return Err(Free::Again);
    }
    let Some(allocation) = state.starting_at(pointer.addr()) else { return Err(Free::Unknown) };
    let number = allocation.id.number;
    if let Fence::Canary(_) = allocation.fence {
        // The program says that nothing uses the memory any more, so that there is nothing to wait for.
        state.tally.unchecked += u64::from(state.settle(number));
    }
    Ok(state.retire(number))
}

/// Memory of the driver's with inaccessible pages in it. `None` when there is no room.
fn with_pages(wanted: Wanted, way: Way, make: impl Fn(usize) -> *mut c_void) -> Option<*mut c_void> {
    let settings = settings()?;
    let by = freed_by(wanted.kind, way)?;
    let align = settings.align.max(wanted.alignment as usize);
    let room = Block::room(wanted.size, align)?;
    let base = make(room);
    if base.is_null() {
        return None;
    }
    let address = base.expose_provenance();
    // SAFETY: new memory of this many bytes, which the driver does not use itself.
    let block = unsafe { Block::within(address, room, wanted.size, align, settings.mode) };
    let Some(block) = block else {
        // SAFETY: the address that the driver has just given.
        unsafe {
            match by {
                FreedBy::Svm => below::clSVMFree(wanted.context, base),
                FreedBy::Usm(place) => {
                    extension::clMemFreeINTEL(place, wanted.context, base);
                }
            }
        }
        return None;
    };
    block.fill(None);
    add(wanted, Fence::DriverPages(block, Freed { base: address, by }));
    Some(std::ptr::with_exposed_provenance_mut(block.start))
}

/// Memory of the driver's with canaries around it. `None` when there is no room.
fn with_canary(wanted: Wanted, way: Way, make: impl Fn(usize) -> *mut c_void) -> Option<*mut c_void> {
    let by = freed_by(wanted.kind, way)?;
    let zone = canary::zone(way);
    let base = make(wanted.size.checked_add(2 * zone)?);
    if base.is_null() {
        return None;
    }
    let address = base.expose_provenance();
    let memory = match by {
        FreedBy::Svm => Memory::Svm(address),
        FreedBy::Usm(place) => Memory::Usm(address, place),
    };
    let zones = Zones::new(wanted.context, memory, wanted.size, zone);
    if !zones.fill(None) {
        return None;
    }
    add(wanted, Fence::Canary(Arc::new(zones)));
    Some(std::ptr::with_exposed_provenance_mut(address + zone))
}

fn add(wanted: Wanted, fence: Fence) {
    let mut state = state::lock();
    state.tally.filled_in_part += u64::from(zone::is_filled_in_part(wanted.size));
    state.add(wanted.kind, wanted.context, wanted.size, fence);
}

fn freed_by(kind: Kind, way: Way) -> Option<FreedBy> {
    match kind {
        Kind::Buffer | Kind::Svm => Some(FreedBy::Svm),
        Kind::UsmHost | Kind::UsmDevice | Kind::UsmShared => {
            extension::look_up(way.platform).map(FreedBy::Usm)
        }
    }
}
