//! [`AnyBackend`]: a backend whose types are enums over the enabled backends.

use std::sync::Arc;

use anydnn_backend::forward::{
    EngineObject, EventObject, Holder, Holds, MemoryObject, PrimitiveObject, StreamObject,
};
use anydnn_backend::{
    Allocator, Arg, Backend, Capabilities, DeviceInfo, Engine, EngineId, Erased, ErasedEngine, ErasedEvent,
    ErasedMemory, ErasedPrimitive, ErasedStream, Event, EventStatus, List, ListStep, MapMode, Mapping,
    Memory, MemoryDesc, MemoryKind, Primitive, PrimitiveDesc, Profiled, Range, Region, Result, Stream,
    StreamDesc, Timestamps, Work, methods,
};
#[cfg(feature = "host")]
use anydnn_host::{Host, HostEngine, HostEvent, HostMemory, HostPrimitive, HostStream};
#[cfg(feature = "mock")]
use anydnn_mock::{Mock, MockEngine, MockEvent, MockMemory, MockPrimitive, MockStream};
#[cfg(feature = "opencl")]
use anydnn_opencl::{OpenCl, OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream};

/// The family of types that hold an object of any enabled backend.
///
/// Code that is generic over [`Backend`] runs on it unchanged; the backend is chosen at run time. Mixing objects of two backends is an
/// [`Error::Mismatch`](anydnn_backend::Error::Mismatch).
#[derive(Debug)]
pub enum AnyBackend {}

impl Backend for AnyBackend {
    type Engine = AnyEngine;
    type Stream = AnyStream;
    type Memory = AnyMemory;
    type Event = AnyEvent;
    type Primitive = AnyPrimitive;
}

/// One enum over the backends' types of one role.
macro_rules! any_type {
    ($any:ident, $doc:literal, $($(#[$gate:meta])* $variant:ident($type:ty), $name:literal, $own:ident;)+) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum $any {
            $(
                $(#[$gate])*
                #[doc = concat!("Of the backend `", $name, "`.")]
                $variant($type),
            )+
        }

        impl $any {
            /// The name of the backend it belongs to.
            pub const fn backend(&self) -> &'static str {
                match self {
                    $($(#[$gate])* Self::$variant(_) => $name,)+
                }
            }

            $(
                $(#[$gate])*
                #[doc = concat!("The object itself, if it is of the backend `", $name, "`.")]
                pub const fn $own(&self) -> Option<&$type> {
                    match self {
                        Self::$variant(own) => Some(own),
                        // With a single enabled backend nothing is left.
                        #[allow(unreachable_patterns)]
                        _ => None,
                    }
                }
            )+
        }

        $(
            $(#[$gate])*
            impl From<$type> for $any {
                fn from(own: $type) -> Self {
                    Self::$variant(own)
                }
            }

            $(#[$gate])*
            impl Holder<$type> for $any {
                fn hold(inner: $type) -> Self {
                    Self::$variant(inner)
                }

                fn held(&self) -> std::result::Result<&$type, &'static str> {
                    self.$own().ok_or_else(|| self.backend())
                }
            }
        )+
    };
}

/// Generates the enums, what they hold, and `each!`, which evaluates an expression on whichever backend's object it is.
macro_rules! any_backend {
    ($d:tt $(
        $(#[$gate:meta])*
        $variant:ident, $name:literal, $own:ident,
        $backend:ty { $engine:ty, $stream:ty, $memory:ty, $event:ty, $primitive:ty }
    )+) => {
        any_type!(AnyEngine, "An engine of any enabled backend.", $($(#[$gate])* $variant($engine), $name, $own;)+);
        any_type!(AnyStream, "A stream of any enabled backend.", $($(#[$gate])* $variant($stream), $name, $own;)+);
        any_type!(AnyMemory, "A memory of any enabled backend.", $($(#[$gate])* $variant($memory), $name, $own;)+);
        any_type!(AnyEvent, "An event of any enabled backend.", $($(#[$gate])* $variant($event), $name, $own;)+);
        any_type!(AnyPrimitive, "A primitive of any enabled backend.", $($(#[$gate])* $variant($primitive), $name, $own;)+);

        $(
            $(#[$gate])*
            impl Holds<$backend> for AnyBackend {
                fn name() -> &'static str {
                    $name
                }
            }
        )+

        macro_rules! each {
            ($d any:ident, $d value:expr, $d object:ident => $d result:expr) => {
                match $d value {
                    $($(#[$gate])* $d any::$variant($d object) => $d result,)+
                }
            };
        }
    };
}

any_backend! { $
    #[cfg(feature = "host")]
    Host, "host", as_host, Host { HostEngine, HostStream, HostMemory, HostEvent, HostPrimitive }
    #[cfg(feature = "opencl")]
    OpenCl, "opencl", as_opencl, OpenCl { OpenClEngine, OpenClStream, OpenClMemory, OpenClEvent, OpenClPrimitive }
    #[cfg(feature = "mock")]
    Mock, "mock", as_mock, Mock { MockEngine, MockStream, MockMemory, MockEvent, MockPrimitive }
    Erased, "erased", as_erased, Erased { ErasedEngine, ErasedStream, ErasedMemory, ErasedEvent, ErasedPrimitive }
}

#[cfg(feature = "host")]
impl AnyEngine {
    /// The host with the plain reference alone ([`anydnn_host::HostEngine::reference`]): what results of any backend are compared with.
    pub fn reference() -> Self {
        anydnn_host::HostEngine::reference().into()
    }
}

/// Generates an enum's methods, which pass to the object of whichever backend it holds.
macro_rules! any {
    (
        { $any:ident: $trait:ident, $object:ident, $($family:item)? }
        plain { $(fn $plain:ident(&$p_self:ident $(, $p_arg:ident: $p_type:ty)*) -> $p_result:ty;)* }
        converted { $(fn $converted:ident(&$c_self:ident $(, $c_arg:ident: $c_type:ty)*) -> $c_result:ty;)* }
        mutable { $(fn $mutable:ident(&mut $m_self:ident $(, $m_arg:ident: $m_type:ty)*) -> $m_result:ty;)* }
    ) => {
        #[deny(clippy::missing_trait_methods)]
        impl $trait for $any {
            $($family)?

            $(
                fn $plain(&$p_self $(, $p_arg: $p_type)*) -> $p_result {
                    each!($any, $p_self, object => $object::<AnyBackend>::$plain(object $(, $p_arg)*))
                }
            )*
            $(
                fn $converted(&$c_self $(, $c_arg: $c_type)*) -> $c_result {
                    each!($any, $c_self, object => $object::<AnyBackend>::$converted(object $(, $c_arg)*))
                }
            )*
            $(
                fn $mutable(&mut $m_self $(, $m_arg: $m_type)*) -> $m_result {
                    *$m_self =
                        each!($any, $m_self, object => $object::<AnyBackend>::$mutable(object $(, $m_arg)*))?;
                    Ok(())
                }
            )*
        }
    };
}

methods!(Engine of AnyBackend, any! { AnyEngine: Engine, EngineObject, type B = AnyBackend; });
methods!(Stream of AnyBackend, any! { AnyStream: Stream, StreamObject, type B = AnyBackend; });
methods!(Memory of AnyBackend, any! { AnyMemory: Memory, MemoryObject, type B = AnyBackend; });
methods!(Event of AnyBackend, any! { AnyEvent: Event, EventObject, });
methods!(Primitive of AnyBackend, any! { AnyPrimitive: Primitive, PrimitiveObject, type B = AnyBackend; });
