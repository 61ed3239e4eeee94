//! Objects behind opaque pointers, and the pointers that come with them.

use std::fmt;
use std::ptr::NonNull;

use crate::boundary::{Failure, Outcome};

/// A kind of object that C knows by an opaque pointer to `Self`.
pub(crate) trait Handle: Sized {
    /// What is behind the pointer.
    type Value;
    /// Tells the kinds apart at run time.
    const TAG: u64;
    /// The name in messages.
    const NAME: &'static str;
}

/// An object that another one owns and lends to C, where it can be read and not destroyed.
pub(crate) struct Embedded<H: Handle>(NonNull<Object<H>>);

/// A new object, which C owns.
pub(crate) fn create<H: Handle>(value: H::Value) -> *mut H {
    Box::into_raw(Box::new(Object::<H>::new(value, true))).cast()
}

/// Writes a new object to where C wants it.
///
/// # Safety
/// `out` is null or can be written.
pub(crate) unsafe fn create_at<H: Handle>(
    out: *mut *mut H,
    value: impl FnOnce() -> Outcome<H::Value>,
) -> Outcome {
    if out.is_null() {
        return Err(Failure::null(H::NAME));
    }
    let handle = create(value()?);
    // SAFETY: the caller vouches for a pointer that is not null.
    unsafe { out.write(handle) };
    Ok(())
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is null or a handle of this library that lives for `'a`.
pub(crate) unsafe fn borrow<'a, H: Handle>(handle: *const H) -> Outcome<&'a H::Value> {
    // SAFETY: as the caller vouches; the tag is looked at before the value.
    Ok(&unsafe { &*check(handle)? }.value)
}

/// The object behind a handle, to change it.
///
/// # Safety
/// As for [`borrow`], and nothing else uses the object during `'a`.
pub(crate) unsafe fn borrow_mut<'a, H: Handle>(handle: *mut H) -> Outcome<&'a mut H::Value> {
    // SAFETY: as the caller vouches; the tag is looked at before the value.
    Ok(&mut unsafe { &mut *check(handle)?.cast_mut() }.value)
}

/// The object behind a handle, or none for null.
///
/// # Safety
/// As for [`borrow`].
pub(crate) unsafe fn borrow_optional<'a, H: Handle>(handle: *const H) -> Outcome<Option<&'a H::Value>> {
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller vouches.
    unsafe { borrow(handle) }.map(Some)
}

/// Ends an object; null is none.
///
/// # Safety
/// As for [`borrow`], and nothing uses the handle afterwards.
pub(crate) unsafe fn destroy<H: Handle>(handle: *mut H) -> Outcome {
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller vouches.
    let object = unsafe { check(handle)?.cast_mut() };
    // SAFETY: the tag is right, so this is one of ours that lives.
    let owned = unsafe { (*object).owned };
    if !owned {
        return Err(Failure::invalid(format!("the {} belongs to another object", H::NAME)));
    }
    // SAFETY: made by `create` from a box, and given up by the caller.
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

/// Stores a result.
///
/// # Safety
/// `out` is null or can be written.
pub(crate) unsafe fn write<T>(out: *mut T, what: &str, value: T) -> Outcome {
    if out.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the caller vouches for a pointer that is not null.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// An array of the caller; one without elements may be null.
///
/// # Safety
/// `data` is null or holds `len` elements for `'a`.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize, what: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::null(what));
    }
    if !data.is_aligned() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("{what} is no array of {len} elements")));
    }
    // SAFETY: the caller vouches for a pointer that is not null.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Serves a query for bytes: the size where `out` is null, the bytes where `*size` is exactly their number.
///
/// # Safety
/// `size` is null or can be read and written; `out` is null or can take `*size` bytes.
pub(crate) unsafe fn bytes_out(bytes: &[u8], size: *mut usize, out: *mut u8) -> Outcome {
    if size.is_null() {
        return Err(Failure::null("size"));
    }
    if out.is_null() {
        // SAFETY: not null, so the caller vouches for it.
        unsafe { size.write_unaligned(bytes.len()) };
        return Ok(());
    }
    // SAFETY: as above.
    let given = unsafe { size.read_unaligned() };
    if given != bytes.len() {
        return Err(Failure::invalid(format!("size is {given}, expected {}", bytes.len())));
    }
    // SAFETY: the caller vouches for that many bytes, and they are not ours.
    unsafe { out.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

#[repr(C)]
struct Object<H: Handle> {
    tag: u64,
    owned: bool,
    value: H::Value,
}

impl<H: Handle> Object<H> {
    fn new(value: H::Value, owned: bool) -> Self {
        Self { tag: H::TAG, owned, value }
    }
}

impl<H: Handle> Drop for Object<H> {
    fn drop(&mut self) {
        // Makes the most frequent use after the end an error; volatile, or the write would be optimised out.
        // SAFETY: the field is ours.
        unsafe { (&raw mut self.tag).write_volatile(!H::TAG) };
    }
}

/// # Safety
/// As for [`borrow`].
unsafe fn check<H: Handle>(handle: *const H) -> Outcome<*const Object<H>> {
    if handle.is_null() {
        return Err(Failure::null(H::NAME));
    }
    let object = handle.cast::<Object<H>>();
    // SAFETY: the caller vouches for it, and the alignment is checked first; every kind of object begins with its tag.
    if !object.is_aligned() || unsafe { (&raw const (*object).tag).read() } != H::TAG {
        return Err(Failure::invalid(format!("the handle is not one of a living {}", H::NAME)));
    }
    Ok(object)
}

impl<H: Handle> Embedded<H> {
    /// An object to lend.
    pub(crate) fn new(value: H::Value) -> Self {
        Self(NonNull::from(Box::leak(Box::new(Object::new(value, false)))))
    }

    /// The handle to lend; it lives as long as this.
    pub(crate) fn as_ptr(&self) -> *const H {
        self.0.as_ptr().cast_const().cast()
    }

    /// The object.
    pub(crate) fn value(&self) -> &H::Value {
        // SAFETY: made from a box that this owns, and only read.
        &unsafe { self.0.as_ref() }.value
    }
}

impl<H: Handle> Drop for Embedded<H> {
    fn drop(&mut self) {
        // SAFETY: made from a box in `new`.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: it owns the value and gives out shared references only.
unsafe impl<H: Handle<Value: Send>> Send for Embedded<H> {}
// SAFETY: as above.
unsafe impl<H: Handle<Value: Sync>> Sync for Embedded<H> {}

impl<H: Handle<Value: fmt::Debug>> fmt::Debug for Embedded<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct One;
    struct Other;

    impl Handle for One {
        type Value = Arc<u32>;
        const TAG: u64 = 0x1111_1111_0000_0001;
        const NAME: &'static str = "one";
    }

    impl Handle for Other {
        type Value = Arc<u32>;
        const TAG: u64 = 0x1111_1111_0000_0002;
        const NAME: &'static str = "other";
    }

    #[test]
    fn objects_live_from_create_to_destroy() {
        let value = Arc::new(5);
        let handle = create::<One>(value.clone());
        // SAFETY: the handle lives until it is destroyed below.
        unsafe {
            assert_eq!(**borrow(handle).unwrap(), 5);
            assert!(borrow(handle.cast::<Other>()).is_err());
            assert!(borrow(std::ptr::null::<One>()).is_err());
            assert!(borrow(handle.cast::<u8>().add(1).cast::<One>()).is_err());
            assert!(borrow_optional(std::ptr::null::<One>()).unwrap().is_none());
            assert_eq!(Arc::strong_count(&value), 2);
            destroy(handle).unwrap();
            destroy(std::ptr::null_mut::<One>()).unwrap();
        }
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn what_is_lent_cannot_be_destroyed() {
        let value = Arc::new(5);
        let embedded = Embedded::<One>::new(value.clone());
        // SAFETY: the handle lives as long as `embedded`.
        unsafe {
            assert_eq!(**borrow(embedded.as_ptr()).unwrap(), 5);
            assert!(destroy(embedded.as_ptr().cast_mut()).is_err());
        }
        drop(embedded);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn bytes_go_out_when_the_size_is_exact() {
        let (mut size, mut out) = (0, [0_u8; 3]);
        // SAFETY: all pointers are null or to these variables.
        unsafe {
            assert!(bytes_out(b"abc", std::ptr::null_mut(), out.as_mut_ptr()).is_err());
            bytes_out(b"abc", &raw mut size, std::ptr::null_mut()).unwrap();
            assert_eq!(size, 3);
            size = 2;
            assert!(bytes_out(b"abc", &raw mut size, out.as_mut_ptr()).is_err());
            size = 3;
            bytes_out(b"abc", &raw mut size, out.as_mut_ptr()).unwrap();
        }
        assert_eq!(&out, b"abc");
    }
}
