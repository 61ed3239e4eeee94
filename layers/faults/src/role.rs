//! What a parameter or a returned value means for the ledger, as types for the table's signatures.
//!
//! Each type has the binary form of the C type it stands for.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

use crate::call::{Call, NewList};
use crate::kind::Marker;
use crate::ledger::Key;
use crate::{Kind, code, layer};

/// A pointer that the layer does not look at: host memory, properties, callbacks, platforms.
pub(crate) type Ptr = *mut c_void;

/// A parameter of an intercepted function.
pub(crate) trait Param {
    /// Tells the call what this argument means.
    fn visit(&mut self, call: &mut Call);

    /// Takes back the wish for a new object, before a call that is made but reported as failed.
    fn mute(&mut self) {}
}

/// A value that an intercepted function returns.
pub(crate) trait Returned: Sized {
    /// Whether the function can report a failure.
    const CAN_FAIL: bool = true;

    /// What the function returns when it fails with a code.
    fn failure(code: i32, call: &Call) -> Self;

    /// Whether the call went well.
    fn is_ok(&self) -> bool;

    /// The object whose first reference this is.
    fn created(&self, _call: &Call) -> Option<Key> {
        None
    }

    /// What the program gets.
    fn finish(self, _call: &Call) -> Self {
        self
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Param for $t {
            fn visit(&mut self, _call: &mut Call) {}
        }
    )*};
}

plain!(u32, i32, u64, usize, Ptr);

/// Defines a parameter type around a pointer to an object of some kind.
macro_rules! handle_role {
    ($(#[$doc:meta])* $name:ident, |$key:ident, $call:ident| $visit:expr) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub(crate) struct $name<M>(*mut c_void, PhantomData<M>);

        impl<M: Marker> Param for $name<M> {
            fn visit(&mut self, $call: &mut Call) {
                if !self.0.is_null() {
                    let $key = Key::new(M::KIND, self.0.addr());
                    $visit;
                }
            }
        }
    };
}

handle_role!(
    /// A handle that must be alive.
    Use, |key, call| call.uses(key, M::KIND.invalid())
);
handle_role!(
    /// A handle that gets another reference.
    Retain, |key, call| call.retains(key)
);
handle_role!(
    /// A handle that loses a reference, or memory that is freed.
    Release, |key, call| call.releases(key)
);
handle_role!(
    /// An event whose handle a callback will get.
    Watch, |key, call| call.watches(key)
);

/// The number of elements of the list that comes next.
#[repr(transparent)]
pub(crate) struct Count(u32);

impl Param for Count {
    fn visit(&mut self, call: &mut Call) {
        call.count = self.0 as usize;
    }
}

/// A list of handles that must be alive.
#[repr(transparent)]
pub(crate) struct UseList<M>(*const usize, PhantomData<M>);

impl<M: Marker> Param for UseList<M> {
    fn visit(&mut self, call: &mut Call) {
        // SAFETY: the program passes a list with as many handles as the count says, or null.
        let handles = unsafe { list(self.0, call.count) };
        for &handle in handles.iter().filter(|handle| **handle != 0) {
            call.uses(Key::new(M::KIND, handle), M::KIND.invalid());
        }
    }
}

/// Events to wait for before a command.
#[repr(transparent)]
pub(crate) struct WaitList(*const usize);

impl Param for WaitList {
    fn visit(&mut self, call: &mut Call) {
        // SAFETY: the program passes a list with as many events as the count says, or null.
        let events = unsafe { list(self.0, call.count) };
        for &event in events.iter().filter(|event| **event != 0) {
            call.uses(Key::new(Kind::Event, event), code::INVALID_EVENT_WAIT_LIST);
        }
    }
}

/// Shared virtual memory to be freed by a command.
#[repr(transparent)]
pub(crate) struct ReleaseList<M>(*const usize, PhantomData<M>);

impl<M: Marker> Param for ReleaseList<M> {
    fn visit(&mut self, call: &mut Call) {
        // SAFETY: the program passes a list with as many pointers as the count says, or null.
        let pointers = unsafe { list(self.0, call.count) };
        for &pointer in pointers.iter().filter(|pointer| **pointer != 0) {
            call.releases(Key::new(M::KIND, pointer));
        }
    }
}

/// The callback that frees memory in the driver's place.
#[repr(transparent)]
pub(crate) struct FreeCallback(*mut c_void);

impl Param for FreeCallback {
    fn visit(&mut self, call: &mut Call) {
        if !self.0.is_null() {
            // The callback frees the memory with calls of its own.
            call.forget_releases();
        }
    }
}

/// Where a call puts its error code.
#[repr(transparent)]
pub(crate) struct Errcode(*mut i32);

impl Param for Errcode {
    fn visit(&mut self, call: &mut Call) {
        call.errcode = self.0;
    }
}

/// Where a call puts the event of its command.
#[repr(transparent)]
pub(crate) struct NewEvent(*mut usize);

impl Param for NewEvent {
    fn visit(&mut self, call: &mut Call) {
        call.event = self.0;
    }

    fn mute(&mut self) {
        self.0 = std::ptr::null_mut();
    }
}

/// Where a call puts several new objects; a [`Count`] comes before and a [`NewCount`] after.
#[repr(transparent)]
pub(crate) struct NewObjects<M>(*const usize, PhantomData<M>);

impl<M: Marker> Param for NewObjects<M> {
    fn visit(&mut self, call: &mut Call) {
        if !self.0.is_null() {
            call.list = Some(NewList { kind: M::KIND, first: self.0, capacity: call.count });
        }
    }
}

/// Where a call puts the number of new objects.
#[repr(transparent)]
pub(crate) struct NewCount(*mut u32);

impl Param for NewCount {
    fn visit(&mut self, call: &mut Call) {
        if self.0.is_null() {
            self.0 = call.own_count();
        }
        call.new_count = self.0;
    }
}

/// A mapped region to give back.
#[repr(transparent)]
pub(crate) struct Unmap(*mut c_void);

impl Param for Unmap {
    fn visit(&mut self, call: &mut Call) {
        if !self.0.is_null() {
            let owner = call.memory();
            call.releases(Key { kind: Kind::Mapping, address: self.0.addr(), owner });
        }
    }
}

/// Shared virtual memory to map.
#[repr(transparent)]
pub(crate) struct MapSvm(*mut c_void);

impl Param for MapSvm {
    fn visit(&mut self, call: &mut Call) {
        call.creates_if_ok = Some(Key::new(Kind::SvmMapping, self.0.addr()));
    }
}

/// Mapped shared virtual memory to give back.
#[repr(transparent)]
pub(crate) struct UnmapSvm(*mut c_void);

impl Param for UnmapSvm {
    fn visit(&mut self, call: &mut Call) {
        if !self.0.is_null() {
            call.releases(Key::new(Kind::SvmMapping, self.0.addr()));
        }
    }
}

/// Bytes of a kernel argument.
#[repr(transparent)]
pub(crate) struct ArgSize(usize);

impl Param for ArgSize {
    fn visit(&mut self, call: &mut Call) {
        call.count = self.0;
    }
}

/// A kernel argument; it may be a memory object.
#[repr(transparent)]
pub(crate) struct ArgValue(*const c_void);

impl Param for ArgValue {
    fn visit(&mut self, call: &mut Call) {
        if !self.0.is_null() && call.count == size_of::<usize>() {
            // SAFETY: the program passes as many bytes as the size says.
            let handle = unsafe { self.0.cast::<usize>().read_unaligned() };
            // A number is not the address of an object that there was, for all practical purposes.
            call.uses(Key::new(Kind::Memory, handle), Kind::Memory.invalid());
        }
    }
}

/// The platform whose extension function is wanted.
#[repr(transparent)]
pub(crate) struct PlatformOf(*mut c_void);

impl Param for PlatformOf {
    fn visit(&mut self, call: &mut Call) {
        call.platform = self.0.addr();
    }
}

/// The name of an extension function.
#[repr(transparent)]
pub(crate) struct Name(*const c_char);

impl Param for Name {
    fn visit(&mut self, call: &mut Call) {
        if !self.0.is_null() {
            // SAFETY: the program passes a C string.
            let name = unsafe { CStr::from_ptr(self.0) };
            call.name = name.to_str().ok().map(str::to_owned);
        }
    }
}

/// An error code as the returned value.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Code(i32);

impl Returned for Code {
    fn failure(code: i32, _call: &Call) -> Self {
        Self(code)
    }

    fn is_ok(&self) -> bool {
        self.0 == 0
    }

    fn created(&self, call: &Call) -> Option<Key> {
        call.creates_if_ok
    }
}

/// A new object, or null and a code where the [`Errcode`] points.
#[repr(transparent)]
pub(crate) struct New<M>(*mut c_void, PhantomData<M>);

impl<M: Marker> Returned for New<M> {
    fn failure(code: i32, call: &Call) -> Self {
        call.put_errcode(code);
        Self(std::ptr::null_mut(), PhantomData)
    }

    fn is_ok(&self) -> bool {
        !self.0.is_null()
    }

    fn created(&self, _call: &Call) -> Option<Key> {
        Some(Key::new(M::KIND, self.0.addr()))
    }
}

/// A mapped region, or null and a code where the [`Errcode`] points.
#[repr(transparent)]
pub(crate) struct Mapped(*mut c_void);

impl Returned for Mapped {
    fn failure(code: i32, call: &Call) -> Self {
        call.put_errcode(code);
        Self(std::ptr::null_mut())
    }

    fn is_ok(&self) -> bool {
        !self.0.is_null()
    }

    fn created(&self, call: &Call) -> Option<Key> {
        Some(Key { kind: Kind::Mapping, address: self.0.addr(), owner: call.memory() })
    }
}

/// The address of an extension function, or null.
#[repr(transparent)]
pub(crate) struct Address(*mut c_void);

impl Returned for Address {
    fn failure(_code: i32, _call: &Call) -> Self {
        Self(std::ptr::null_mut())
    }

    fn is_ok(&self) -> bool {
        !self.0.is_null()
    }

    fn finish(self, call: &Call) -> Self {
        let name = call.name.as_deref().unwrap_or_default();
        Self(layer::extension_address(call.platform, name, self.0))
    }
}

impl Returned for () {
    const CAN_FAIL: bool = false;

    fn failure(_code: i32, _call: &Call) {}

    fn is_ok(&self) -> bool {
        true
    }
}

/// A list of handles of the program.
///
/// # Safety
/// `first` points to `count` handles, or is null.
unsafe fn list<'a>(first: *const usize, count: usize) -> &'a [usize] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(first, count) }
}
