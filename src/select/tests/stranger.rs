//! A third party's backend that notes every call and computes nothing. It is generated from the list of the contract's methods and
//! leaves no provided method as it is; what it answers goes by the type alone.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};

use anydnn_backend::{
    Allocator, AllocatorStats, Arg, Backend, Capabilities, DataType, DeviceInfo, DeviceKind, Eltwise, Engine,
    EngineId, ErasedEngine, ErasedEvent, ErasedMemory, ErasedPrimitive, ErasedStream, Event, EventStatus,
    List, ListStep, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Op, Part, Primitive, PrimitiveDesc,
    Probe, Profiled, Range, Region, Result, Stream, StreamDesc, Timestamps, Work, methods,
};

use crate::select::{AnyEngine, AnyEvent, AnyMemory, AnyPrimitive, AnyStream};

#[derive(Clone, Debug)]
pub(super) enum Stranger {}

impl Backend for Stranger {
    type Engine = StrangerEngine;
    type Stream = StrangerStream;
    type Memory = StrangerMemory;
    type Event = StrangerEvent;
    type Primitive = StrangerPrimitive;
}

thread_local! {
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static NUMBERS: Cell<u8> = const { Cell::new(0) };
}

/// The calls that reached the stranger on this thread since this was asked last, with their arguments. Samples are numbered anew.
pub(super) fn calls() -> Vec<String> {
    NUMBERS.set(0);
    CALLS.take()
}

/// A number that no sample has had, so that arguments that changed places are seen.
fn number() -> u8 {
    NUMBERS.set(NUMBERS.get() + 1);
    NUMBERS.get()
}

fn note(method: &str, arguments: &[&dyn Debug]) {
    CALLS.with_borrow_mut(|calls| calls.push(format!("{method} {arguments:?}")));
}

/// Implements a trait for one of the stranger's types.
macro_rules! stranger {
    (
        { $name:ident: $trait:ident [$($header:tt)+] $($family:item)? }
        plain { $(fn $plain:ident(&$p_self:ident $(, $p_arg:ident: $p_type:ty)*) -> $p_result:ty;)* }
        converted { $(fn $converted:ident(&$c_self:ident $(, $c_arg:ident: $c_type:ty)*) -> $c_result:ty;)* }
        mutable { $(fn $mutable:ident(&mut $m_self:ident $(, $m_arg:ident: $m_type:ty)*) -> $m_result:ty;)* }
    ) => {
        #[derive(Clone, Debug)]
        pub(super) struct $name(#[allow(dead_code, reason = "told by `Debug`")] u8);

        #[deny(clippy::missing_trait_methods)]
        impl $($header)+ for $name {
            $($family)?

            $(
                fn $plain(&$p_self $(, $p_arg: $p_type)*) -> $p_result {
                    note(concat!(stringify!($trait), "::", stringify!($plain)), &[$(&$p_arg),*]);
                    Sample::sample()
                }
            )*
            $(
                fn $converted(&$c_self $(, $c_arg: $c_type)*) -> $c_result {
                    note(concat!(stringify!($trait), "::", stringify!($converted)), &[$(&$c_arg),*]);
                    Sample::sample()
                }
            )*
            $(
                fn $mutable(&mut $m_self $(, $m_arg: $m_type)*) -> $m_result {
                    note(concat!(stringify!($trait), "::", stringify!($mutable)), &[$(&$m_arg),*]);
                    Sample::sample()
                }
            )*
        }
    };
}

methods!(Engine of Stranger, stranger! { StrangerEngine: Engine [Engine] type B = Stranger; });
methods!(Stream of Stranger, stranger! { StrangerStream: Stream [Stream] type B = Stranger; });
methods!(Memory of Stranger, stranger! { StrangerMemory: Memory [Memory] type B = Stranger; });
methods!(Event of Stranger, stranger! { StrangerEvent: Event [Event] });
methods!(Primitive of Stranger, stranger! { StrangerPrimitive: Primitive [Primitive] type B = Stranger; });
methods!(Allocator of Stranger, stranger! { StrangerAllocator: Allocator [Allocator] type B = Stranger; });
methods!(List of Stranger, stranger! { StrangerList: List [List<Stranger>] });

#[derive(Debug)]
struct StrangerMapping;

impl Mapping for StrangerMapping {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn unmap(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A value of a type that methods take or return.
pub(super) trait Sample {
    fn sample() -> Self;
}

macro_rules! samples {
    ($($type:ty => $value:expr;)+) => {
        $(
            impl Sample for $type {
                fn sample() -> Self {
                    $value
                }
            }
        )+
    };
}

samples! {
    () => ();
    bool => true;
    Work => Work::new(|| ());
    u8 => number();
    u64 => number().into();
    usize => number().into();
    &str => "strange";
    &mut [u8] => &mut [];
    EngineId => *ENGINE;
    DeviceInfo => DeviceInfo {
        backend: "stranger".into(),
        platform: "far away".into(),
        name: "device".into(),
        vendor: "vendor".into(),
        driver: "driver".into(),
        kind: DeviceKind::Other,
    };
    Capabilities => {
        let probe = Probe { works: true, detail: "seen".into() };
        let mut capabilities = Capabilities::default();
        capabilities.features = BTreeMap::from([("odd".into(), probe)]);
        capabilities
    };
    StreamDesc => StreamDesc::out_of_order().labelled("strange");
    MemoryDesc => MemoryDesc::new([7], DataType::F32);
    PrimitiveDesc => {
        let desc = MemoryDesc::sample();
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc.clone()).dst(desc).build().unwrap()
    };
    MemoryKind => MemoryKind::Svm;
    MapMode => MapMode::Write;
    Region => Region { allocation: 8, offset: 9, bytes: 10 };
    EventStatus => EventStatus::Running;
    Timestamps => Timestamps { queued: 11, submitted: 12, started: 13, ended: 14 };
    Profiled => Profiled {
        operation: "operation".into(),
        implementation: "implementation".into(),
        commands: 15,
        nanoseconds: 16,
    };
    AllocatorStats => AllocatorStats { created: 17, ..AllocatorStats::default() };
    Arg => Arg::Weights;
    Part => Part { slot: 18, offset: 19 };
    Box<dyn Mapping> => Box::new(StrangerMapping);
    Arc<dyn Allocator<B = Stranger>> => Arc::new(StrangerAllocator(number()));
    Box<dyn List<Stranger>> => Box::new(StrangerList(number()));
    StrangerEngine => Self(number());
    StrangerStream => Self(number());
    StrangerMemory => Self(number());
    StrangerEvent => Self(number());
    StrangerPrimitive => Self(number());
    ErasedEngine => Self::new(StrangerEngine::sample());
    ErasedStream => Self::new(StrangerStream::sample());
    ErasedMemory => Self::new(StrangerMemory::sample());
    ErasedEvent => Self::new(StrangerEvent::sample());
    ErasedPrimitive => Self::new(StrangerPrimitive::sample());
    AnyEngine => ErasedEngine::sample().into();
    AnyStream => ErasedStream::sample().into();
    AnyMemory => ErasedMemory::sample().into();
    AnyEvent => ErasedEvent::sample().into();
    AnyPrimitive => ErasedPrimitive::sample().into();
}

static ENGINE: LazyLock<EngineId> = LazyLock::new(EngineId::unique);

impl<T: Sample> Sample for Vec<T> {
    fn sample() -> Self {
        vec![T::sample()]
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample() -> Self {
        Some(T::sample())
    }
}

impl<T: Sample> Sample for Result<T> {
    fn sample() -> Self {
        Ok(T::sample())
    }
}

impl<T: Sample, U: Sample> Sample for (T, U) {
    fn sample() -> Self {
        (T::sample(), U::sample())
    }
}

impl<B: Backend<Memory: Sample>> Sample for Range<B> {
    fn sample() -> Self {
        Self { memory: Sample::sample(), offset: Sample::sample(), bytes: Sample::sample() }
    }
}

impl<B: Backend<Primitive: Sample>> Sample for ListStep<B> {
    fn sample() -> Self {
        Self { primitive: Sample::sample(), args: Sample::sample(), waits_for: Sample::sample() }
    }
}

impl<T: Sample + Send + Sync + 'static> Sample for &T {
    fn sample() -> Self {
        kept(T::sample())
    }
}

impl<T: Sample + Send + Sync + 'static> Sample for &[T] {
    fn sample() -> Self {
        kept(vec![T::sample()])
    }
}

/// Lends a value for as long as the tests run; one that nobody reaches would be a leak.
fn kept<T: Send + Sync + 'static>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<&(dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let value: &'static T = Box::leak(Box::new(value));
    KEPT.lock().unwrap().push(value);
    value
}
