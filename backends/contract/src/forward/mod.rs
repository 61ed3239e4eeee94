//! Backends that hold objects of other backends and pass every call on to them: what [`Erased`](crate::Erased) and the choice at run
//! time have in common.
//!
//! [`methods!`](crate::methods) lists what is passed on. From it follow an object-safe trait for each trait of the contract, in terms
//! of the outer backend `W`, which every object of a backend that `W` [holds](Holds) has; and the methods of the outer backend's types,
//! which pass to that trait. Neither falls back on a provided method.

/// Generates the object-safe trait for a trait of the contract and implements it for the objects of each backend that `W` holds.
/// Methods that take or return objects go through the function of their name beside it, which converts these.
macro_rules! object {
    (
        { $object:ident: $trait:ident, $($holds:tt)+ }
        plain { $(fn $plain:ident(&$p_self:ident $(, $p_arg:ident: $p_type:ty)*) -> $p_result:ty;)* }
        converted { $(fn $converted:ident(&$c_self:ident $(, $c_arg:ident: $c_type:ty)*) -> $c_result:ty;)* }
        mutable { $(fn $mutable:ident(&mut $m_self:ident $(, $m_arg:ident: $m_type:ty)*) -> $m_result:ty;)* }
    ) => {
        #[doc = concat!("[`", stringify!($trait), "`] as a trait object, in terms of the backend `W` that holds it.")]
        pub trait $object<W: Backend>: Object {
            $(
                #[doc = concat!("See [`", stringify!($trait), "::", stringify!($plain), "`].")]
                #[allow(clippy::missing_errors_doc)]
                fn $plain(&$p_self $(, $p_arg: $p_type)*) -> $p_result;
            )*
            $(
                #[doc = concat!("See [`", stringify!($trait), "::", stringify!($converted), "`].")]
                #[allow(clippy::missing_errors_doc)]
                fn $converted(&$c_self $(, $c_arg: $c_type)*) -> $c_result;
            )*
            $(
                #[doc = concat!("What [`", stringify!($trait), "::", stringify!($mutable), "`] makes of the object.")]
                #[allow(clippy::missing_errors_doc)]
                fn $mutable(&$m_self $(, $m_arg: $m_type)*) -> Result<<W as Backend>::$trait>;
            )*
        }

        impl<W: $($holds)+, T: $trait> $object<W> for T {
            $(
                fn $plain(&$p_self $(, $p_arg: $p_type)*) -> $p_result {
                    $trait::$plain($p_self $(, $p_arg)*)
                }
            )*
            $(
                fn $converted(&$c_self $(, $c_arg: $c_type)*) -> $c_result {
                    $converted::<W, T>($c_self $(, $c_arg)*)
                }
            )*
            $(
                fn $mutable(&$m_self $(, $m_arg: $m_type)*) -> Result<<W as Backend>::$trait> {
                    $mutable::<W, T>($m_self $(, $m_arg)*)
                }
            )*
        }
    };
}

mod allocator;
mod engine;
mod event;
mod list;
mod memory;
mod methods;
mod primitive;
mod stream;

use std::any::{Any, type_name};
use std::fmt::{Debug, Display};

pub use engine::EngineObject;
pub use event::EventObject;
pub use memory::MemoryObject;
pub use primitive::PrimitiveObject;
pub use stream::StreamObject;

use crate::backend::Backend;
use crate::error::{Error, Result};

/// A backend whose objects may hold those of the backend `B`.
pub trait Holds<B: Backend>:
    Backend<
        Stream: Holder<B::Stream>,
        Memory: Holder<B::Memory>,
        Event: Holder<B::Event>,
        Primitive: Holder<B::Primitive>,
    >
{
    /// What messages call the backend `B`.
    fn name() -> &'static str;

    /// The `B`'s object that `outer` holds; `what` is what it is for `operation`.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where it holds one of another backend.
    fn inner<'a, T>(operation: &str, what: impl Display, outer: &'a impl Holder<T>) -> Result<&'a T> {
        outer.held().map_err(|other| {
            let expected = format!("backend {}", Self::name());
            Error::mismatch(operation, format!("{what} of backend {other}"), expected)
        })
    }

    /// The events of `B` that a command depends on.
    ///
    /// # Errors
    /// As [`Holds::inner`].
    fn inner_events(operation: &str, deps: &[Self::Event]) -> Result<Vec<B::Event>> {
        deps.iter().map(|event| Self::inner(operation, "a dependency", event).cloned()).collect()
    }
}

/// An object that may hold one of the type `T`.
pub trait Holder<T> {
    /// One that holds `inner`.
    fn hold(inner: T) -> Self;

    /// What it holds, where that is of the type `T`.
    ///
    /// # Errors
    /// What messages call the backend of the object that it holds instead.
    fn held(&self) -> std::result::Result<&T, &'static str>;
}

/// Anything that can be asked for its type.
pub trait Object: Any + Debug + Send + Sync {
    /// The name of its type.
    fn type_name(&self) -> &'static str;
}

impl<T: Any + Debug + Send + Sync> Object for T {
    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }
}
