//! Each method of the contract's traits reaches a third party's backend through the choice at run time, as it is called. The list from
//! which the layers are generated is also the list of what is tried here.

use std::fmt::Debug;

use anydnn_backend::{
    Allocator, Arg, Backend, DataType, Eltwise, Engine, Erased, ErasedEngine, Event, List, ListStep, MapMode,
    Memory, MemoryDesc, MemoryKind, Op, Part, Primitive, PrimitiveDesc, Range, Stream, StreamDesc, Work,
    methods,
};

use super::stranger::{self, Sample, Stranger};
use crate::select::{AnyBackend, AnyEngine};

/// What came of one call.
#[derive(Clone, Debug, PartialEq)]
struct Observed {
    method: &'static str,
    /// What was returned, without the wrappers.
    result: String,
    /// The calls that reached the third party's backend.
    calls: Vec<String>,
}

fn observe<R: Debug>(method: &'static str, call: impl FnOnce() -> R) -> Observed {
    stranger::calls();
    let result = unwrapped(&format!("{:?}", call()));
    Observed { method, result, calls: stranger::calls() }
}

/// The text of an object without the names of the types that hold it.
fn unwrapped(text: &str) -> String {
    let words = text.split(['(', ')']);
    words.filter(|word| !word.starts_with("Erased")).collect::<Vec<_>>().join(" ").trim().into()
}

/// A backend of which every object can be made.
trait Sampled: Backend<Engine: Sample, Stream: Sample, Memory: Sample, Event: Sample, Primitive: Sample> {}

impl<B> Sampled for B where
    B: Backend<Engine: Sample, Stream: Sample, Memory: Sample, Event: Sample, Primitive: Sample>
{
}

/// Generates a function that calls every method of a trait once.
macro_rules! sweep {
    (
        { $sweep:ident: $trait:ident of $object:ty }
        plain { $(fn $plain:ident(&$p_self:ident $(, $p_arg:ident: $p_type:ty)*) -> $p_result:ty;)* }
        converted { $(fn $converted:ident(&$c_self:ident $(, $c_arg:ident: $c_type:ty)*) -> $c_result:ty;)* }
        mutable { $(fn $mutable:ident(&mut $m_self:ident $(, $m_arg:ident: $m_type:ty)*) -> $m_result:ty;)* }
    ) => {
        #[allow(unused_variables, unused_mut, reason = "not every trait has methods that change their object")]
        fn $sweep<B: Sampled>(object: $object) -> Vec<Observed> {
            let mut object = object;
            vec![
                $(observe(concat!(stringify!($trait), "::", stringify!($plain)), || {
                    $trait::$plain(&*object $(, <$p_type as Sample>::sample())*)
                }),)*
                $(observe(concat!(stringify!($trait), "::", stringify!($converted)), || {
                    $trait::$converted(&*object $(, <$c_type as Sample>::sample())*)
                }),)*
                $(observe(concat!(stringify!($trait), "::", stringify!($mutable)), || {
                    $trait::$mutable(&mut *object $(, <$m_type as Sample>::sample())*)
                }),)*
            ]
        }
    };
}

methods!(Engine of B, sweep! { engine: Engine of &B::Engine });
methods!(Stream of B, sweep! { stream: Stream of &B::Stream });
methods!(Memory of B, sweep! { memory: Memory of &mut B::Memory });
methods!(Event of B, sweep! { event: Event of &B::Event });
methods!(Primitive of B, sweep! { primitive: Primitive of &B::Primitive });
methods!(Allocator of B, sweep! { allocator: Allocator of &dyn Allocator<B = B> });
methods!(List of B, sweep! { list: List of &mut dyn List<B> });

fn every_method<B: Sampled>() -> Vec<Observed> {
    let own = B::Engine::sample();
    let mut readied = own.ready(Sample::sample(), Sample::sample()).unwrap().unwrap();
    [
        engine::<B>(&own),
        stream::<B>(&Sample::sample()),
        memory::<B>(&mut Sample::sample()),
        event::<B>(&Sample::sample()),
        primitive::<B>(&Sample::sample()),
        allocator::<B>(&*own.allocator()),
        list::<B>(&mut *readied),
    ]
    .concat()
}

#[test]
fn a_third_party_s_backend_gets_every_call() {
    let direct = every_method::<Stranger>();
    for Observed { method, calls, .. } in &direct {
        assert!(calls.len() == 1 && calls[0].starts_with(&format!("{method} ")), "{method}: {calls:?}");
    }
    assert_eq!(every_method::<Erased>(), direct);
    assert_eq!(every_method::<AnyBackend>(), direct);
}

/// Runs a list of one step where the backend readies one.
fn runs_a_list<E: Engine>(engine: &E) {
    let desc = MemoryDesc::new([4], DataType::F32);
    let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc.clone()).dst(desc.clone());
    let step = ListStep {
        primitive: engine.create_primitive(&relu.build().unwrap()).unwrap(),
        args: vec![(Arg::SRC, Part { slot: 0, offset: 0 }), (Arg::DST, Part { slot: 1, offset: 0 })],
        waits_for: vec![],
    };
    let mut list = engine.ready(&[step], 2).unwrap().expect("a list");
    let memory = || engine.create_memory(&desc, engine.capabilities().memory_kinds[0]).unwrap();
    let (src, dst) = (memory(), memory());
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
    let written = stream.write(&src, 0, &bytes([-1.0, 2.0, -3.0, 4.0]), &[]).unwrap();
    let done = list.enqueue(&stream, &[&src, &dst], &[written]).unwrap();
    let mut result = vec![0; 16];
    stream.read(&dst, 0, &mut result, &[done]).unwrap();
    assert_eq!(result, bytes([0.0, 2.0, 0.0, 4.0]));
}

#[test]
fn a_third_party_s_lists_run() {
    for engine in anydnn_opencl::testing::test_engines() {
        let erased = ErasedEngine::new(engine.clone());
        runs_a_list(&engine);
        runs_a_list(&erased);
        runs_a_list(&AnyEngine::from(erased));
    }
}
