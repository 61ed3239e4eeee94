//! Any backend behind trait objects: [`Erased`] is itself a [`Backend`], so a third party's backend takes part in run-time selection.

use std::any::{Any, type_name};
use std::sync::Arc;

use crate::allocator::Allocator;
use crate::arg::Arg;
use crate::backend::Backend;
use crate::engine::{Capabilities, DeviceInfo, Engine, EngineId, Work};
use crate::error::Result;
use crate::event::{Event, EventStatus, Timestamps};
use crate::forward::{EngineObject, EventObject, Holder, Holds, MemoryObject, PrimitiveObject, StreamObject};
use crate::list::{List, ListStep};
use crate::memory::{MapMode, Mapping, Memory, MemoryKind, Region};
use crate::memory_desc::MemoryDesc;
use crate::methods;
use crate::op::primitive_desc::PrimitiveDesc;
use crate::primitive::Primitive;
use crate::profile::Profiled;
use crate::stream::{Range, Stream, StreamDesc};

/// The family of erased types.
#[derive(Debug)]
pub enum Erased {}

impl Backend for Erased {
    type Engine = ErasedEngine;
    type Stream = ErasedStream;
    type Memory = ErasedMemory;
    type Event = ErasedEvent;
    type Primitive = ErasedPrimitive;
}

impl<B: Backend> Holds<B> for Erased {
    fn name() -> &'static str {
        type_name::<B>()
    }
}

/// An engine of some backend.
#[derive(Clone, Debug)]
pub struct ErasedEngine(Arc<dyn EngineObject<Erased>>);

/// A stream of some backend.
#[derive(Clone, Debug)]
pub struct ErasedStream(Arc<dyn StreamObject<Erased>>);

/// A memory of some backend.
#[derive(Clone, Debug)]
pub struct ErasedMemory(Arc<dyn MemoryObject<Erased>>);

/// An event of some backend.
#[derive(Clone, Debug)]
pub struct ErasedEvent(Arc<dyn EventObject<Erased>>);

/// A primitive of some backend.
#[derive(Clone, Debug)]
pub struct ErasedPrimitive(Arc<dyn PrimitiveObject<Erased>>);

/// Generates an erased type's constructor, its downcast and its methods, which pass to the object.
macro_rules! erased {
    (
        { $name:ident: $trait:ident, $object:ident, $what:literal, $($family:item)? }
        plain { $(fn $plain:ident(&$p_self:ident $(, $p_arg:ident: $p_type:ty)*) -> $p_result:ty;)* }
        converted { $(fn $converted:ident(&$c_self:ident $(, $c_arg:ident: $c_type:ty)*) -> $c_result:ty;)* }
        mutable { $(fn $mutable:ident(&mut $m_self:ident $(, $m_arg:ident: $m_type:ty)*) -> $m_result:ty;)* }
    ) => {
        impl $name {
            #[doc = concat!("Hides the type of the ", $what, ".")]
            pub fn new<T: $trait>(object: T) -> Self {
                Self(Arc::new(object))
            }

            #[doc = concat!("The ", $what, ", if it is of type `T`.")]
            pub fn downcast<T: $trait>(&self) -> Option<&T> {
                (&*self.0 as &dyn Any).downcast_ref()
            }
        }

        impl<T: $trait> Holder<T> for $name {
            fn hold(inner: T) -> Self {
                Self::new(inner)
            }

            fn held(&self) -> std::result::Result<&T, &'static str> {
                self.downcast().ok_or_else(|| (*self.0).type_name())
            }
        }

        #[deny(clippy::missing_trait_methods)]
        impl $trait for $name {
            $($family)?

            $(
                fn $plain(&$p_self $(, $p_arg: $p_type)*) -> $p_result {
                    (*$p_self.0).$plain($($p_arg),*)
                }
            )*
            $(
                fn $converted(&$c_self $(, $c_arg: $c_type)*) -> $c_result {
                    (*$c_self.0).$converted($($c_arg),*)
                }
            )*
            $(
                fn $mutable(&mut $m_self $(, $m_arg: $m_type)*) -> $m_result {
                    *$m_self = (*$m_self.0).$mutable($($m_arg),*)?;
                    Ok(())
                }
            )*
        }
    };
}

methods!(Engine of Erased, erased! { ErasedEngine: Engine, EngineObject, "engine", type B = Erased; });
methods!(Stream of Erased, erased! { ErasedStream: Stream, StreamObject, "stream", type B = Erased; });
methods!(Memory of Erased, erased! { ErasedMemory: Memory, MemoryObject, "memory", type B = Erased; });
methods!(Event of Erased, erased! { ErasedEvent: Event, EventObject, "event", });
methods!(Primitive of Erased, erased! { ErasedPrimitive: Primitive, PrimitiveObject, "primitive", type B = Erased; });
