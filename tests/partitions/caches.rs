//! What is kept between compilations and between executions.

use std::sync::Barrier;

use anydnn::backend::{Backend, DataType, Engine, Memory, MemoryDesc, MemoryKind, Stream};
use anydnn::graph::{LogicalTensor, OpKind, Property};
use anydnn::partition::{CompiledPartition, ConstantCache, Partition, PartitionCache, PartitionOptions};

use crate::common::{arg, constant, lt, op, port, read, single, streams, t, unknown, write};

crate::everywhere!(
    constants_are_prepared_once,
    constants_leave_when_there_is_no_room,
    equal_requests_are_compiled_once,
    unequal_requests_are_compiled_apart,
);

/// An addition to a blocked constant, which is unpacked first.
fn with_constant<E: Engine>(engine: &E, cache: Option<&ConstantCache<E::B>>) -> CompiledPartition<E::B> {
    let blocked = LogicalTensor::of(t(1), &MemoryDesc::with_tag([3, 10], DataType::F32, "aB4b").unwrap())
        .with_property(Property::Constant);
    let all = [lt(0, [3, 10]), constant(1, [3, 10]), lt(2, [3, 10])];
    let partition = single(op(0, OpKind::Add, &[0, 1], &[2]), &all);
    let options = PartitionOptions { constants: cache.cloned(), ..PartitionOptions::default() };
    partition.compile(engine, &[all[0].clone(), blocked], &all[2..], &options).unwrap()
}

/// Runs it: the result, and the number of steps that were enqueued.
fn run<E: Engine>(
    engine: &E,
    stream: &<E::B as anydnn::backend::Backend>::Stream,
    compiled: &CompiledPartition<E::B>,
    constant: &<E::B as anydnn::backend::Backend>::Memory,
) -> (Vec<f32>, usize) {
    let (x, y) = (port(engine, compiled, 0, |i| i as f32), port(engine, compiled, 2, |_| 0.0));
    let inputs = [arg(0, &x), arg(1, constant)];
    let (done, steps) = compiled.execute_traced(stream, &inputs, &[(t(2), y.clone())], None, &[]).unwrap();
    (read(engine, &y, &done), steps.len())
}

fn sums(constant: f32) -> Vec<f32> {
    (0..30).map(|i| i as f32 + constant).collect()
}

fn constants_are_prepared_once<E: Engine>(engine: &E) {
    for stream in streams(engine) {
        let off = with_constant(engine, None);
        let thousand = port(engine, &off, 1, |_| 1000.0);
        assert_eq!(run(engine, &stream, &off, &thousand), (sums(1000.0), 2), "without a cache each time");
        assert_eq!(run(engine, &stream, &off, &thousand), (sums(1000.0), 2));
        let off = ConstantCache::default();
        let compiled = with_constant(engine, Some(&off));
        assert_eq!(run(engine, &stream, &compiled, &thousand).1, 2, "a cache is off at first");
        assert_eq!((off.capacity(engine), off.stats(engine).entries), (0, 0));

        let cache = ConstantCache::new(1 << 20);
        let compiled = with_constant(engine, Some(&cache));
        let mut thousand = port(engine, &compiled, 1, |_| 1000.0);
        assert_eq!(run(engine, &stream, &compiled, &thousand), (sums(1000.0), 2));
        for _ in 0..3 {
            assert_eq!(run(engine, &stream, &compiled, &thousand), (sums(1000.0), 1));
        }
        let stats = cache.stats(engine);
        assert_eq!((stats.hits, stats.misses, stats.entries), (3, 1, 1));
        assert!(stats.bytes >= 120, "{stats:?}");
        // A handle to the same memory is the same constant; other bytes in the handle are another one.
        assert_eq!(run(engine, &stream, &compiled, &thousand.clone()), (sums(1000.0), 1));
        let hundred = port(engine, &compiled, 1, |_| 100.0);
        thousand.replace(&hundred).unwrap();
        assert_eq!(run(engine, &stream, &compiled, &thousand), (sums(100.0), 2));
        assert_eq!(run(engine, &stream, &compiled, &hundred), (sums(100.0), 1));
        // Who changes a constant says so.
        write(engine, &hundred, |_| 7.0);
        cache.invalidate(&hundred);
        assert_eq!(run(engine, &stream, &compiled, &hundred), (sums(7.0), 2));
        cache.flush();
        assert_eq!(cache.stats(engine).entries, 0);
        assert_eq!(run(engine, &stream, &compiled, &hundred), (sums(7.0), 2));
        // Another compiled partition has made nothing of it.
        let other = with_constant(engine, Some(&cache));
        assert_eq!(run(engine, &stream, &other, &hundred), (sums(7.0), 2));
        assert_eq!(cache.stats(engine).entries, 2);
        drop(other);
        assert_eq!(cache.stats(engine).entries, 1, "nobody can ask for it");
        cache.set_capacity(engine, 1 << 10);
        assert_eq!(cache.stats(engine).entries, 0);
        stream.wait().unwrap();
    }
}

fn constants_leave_when_there_is_no_room<E: Engine>(engine: &E) {
    let stream = crate::common::stream(engine);
    let cache = ConstantCache::new(1 << 20);
    let compiled = with_constant(engine, Some(&cache));
    let [a, b] = [1.0, 2.0].map(|value| port(engine, &compiled, 1, move |_| value));
    run(engine, &stream, &compiled, &a);
    let bytes = cache.stats(engine).bytes;
    // Room for one: they take turns.
    cache.set_kind_capacity(engine.device().kind, bytes);
    assert_eq!(cache.capacity(engine), bytes);
    for _ in 0..2 {
        for (constant, value) in [(&a, 1.0), (&b, 2.0)] {
            assert_eq!(run(engine, &stream, &compiled, constant), (sums(value), 2));
            assert_eq!(run(engine, &stream, &compiled, constant), (sums(value), 1));
        }
    }
    let stats = cache.stats(engine);
    assert_eq!((stats.evictions, stats.entries, stats.bytes), (3, 1, bytes));
    // Room for none.
    cache.set_capacity(engine, bytes - 1);
    assert_eq!(run(engine, &stream, &compiled, &a), (sums(1.0), 2));
    assert_eq!(run(engine, &stream, &compiled, &a), (sums(1.0), 2));
    assert_eq!(cache.stats(engine).entries, 0);
}

/// Memory at an old address with other content is another constant. `wrap` makes memory anew over the bytes of another one.
fn an_address_is_no_constant<E: Engine>(
    engine: &E,
    kind: MemoryKind,
    wrap: impl Fn(&<E::B as Backend>::Memory) -> <E::B as Backend>::Memory,
) {
    let stream = crate::common::stream(engine);
    let cache = ConstantCache::new(1 << 20);
    let compiled = with_constant(engine, Some(&cache));
    let owner = crate::common::memory(engine, compiled.memory_desc(t(1)).unwrap(), kind, |_| 1.0);
    let first = wrap(&owner);
    assert_eq!(run(engine, &stream, &compiled, &first), (sums(1.0), 2), "{kind}");
    assert_eq!(run(engine, &stream, &compiled, &first), (sums(1.0), 1), "{kind}");
    drop(first);
    write(engine, &owner, |_| 2.0);
    assert_eq!(run(engine, &stream, &compiled, &wrap(&owner)), (sums(2.0), 2), "{kind}");
}

#[cfg(feature = "opencl")]
#[test]
fn a_users_pointer_is_not_known_by_its_address() {
    use anydnn_opencl::OpenClMemory;

    for engine in anydnn_opencl::testing::test_engines() {
        let kinds = &engine.capabilities().memory_kinds;
        let kind =
            kinds.iter().copied().find(|kind| kind.is_pointer() && *kind != MemoryKind::System).unwrap();
        an_address_is_no_constant(&engine, kind, |owner| {
            // SAFETY: the memory outlives the handle, and is of the engine's context.
            unsafe { OpenClMemory::from_pointer(&engine, owner.desc(), owner.raw_pointer()) }.unwrap()
        });
    }
}

#[test]
fn a_pointer_of_the_host_is_not_known_by_its_address() {
    let engine = anydnn_host::HostEngine::new();
    an_address_is_no_constant(&engine, MemoryKind::System, |owner: &anydnn_host::HostMemory| {
        // SAFETY: the memory outlives the handle.
        unsafe { anydnn_host::HostMemory::from_pointer(&engine, owner.desc(), owner.raw_pointer()) }.unwrap()
    });
}

fn relu() -> Partition {
    single(op(0, OpKind::ReLU, &[0], &[1]), &[unknown(0), unknown(1)])
}

fn equal_requests_are_compiled_once<E: Engine>(engine: &E) {
    let cache = PartitionCache::default();
    assert_eq!(cache.capacity(), 1024);
    let options = PartitionOptions { cache: Some(cache.clone()), ..PartitionOptions::default() };
    let compile = |partition: &Partition, rows| {
        partition.compile(engine, &[lt(0, [rows, 4])], &[unknown(1)], &options).unwrap()
    };
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        let (start, compile) = (&start, &compile);
        for _ in 0..8 {
            scope.spawn(move || {
                let partition = relu();
                start.wait();
                compile(&partition, 2);
            });
        }
    });
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.hits, stats.entries), (1, 7, 1));
    assert!(compile(&relu(), 2).was_cached() && !compile(&relu(), 3).was_cached());
    // Room for one: the least recently used goes.
    cache.set_capacity(1);
    assert!(compile(&relu(), 3).was_cached() && !compile(&relu(), 2).was_cached());
    assert_eq!((cache.stats().evictions, cache.stats().entries), (2, 1));
    cache.set_capacity(0);
    assert!(!compile(&relu(), 2).was_cached() && !compile(&relu(), 2).was_cached());
    assert_eq!(cache.stats().entries, 0);
}

fn unequal_requests_are_compiled_apart<E: Engine>(engine: &E) {
    let cache = PartitionCache::new(100);
    let options = PartitionOptions { cache: Some(cache.clone()), ..PartitionOptions::default() };
    let elu = |alpha: f32, name: &str| {
        let mut elu = op(0, OpKind::Elu, &[0], &[1]);
        elu.attrs.set("alpha", alpha);
        name.clone_into(&mut elu.name);
        single(elu, &[unknown(0), unknown(1)])
    };
    let strided = LogicalTensor::of(t(0), &MemoryDesc::with_strides([2, 4], DataType::F32, [1, 2]).unwrap());
    let compile = |partition: Partition, input: LogicalTensor| {
        partition.compile(engine, &[input], &[unknown(1)], &options).unwrap().was_cached()
    };
    assert!(!compile(elu(1.0, "a"), lt(0, [2, 4])));
    assert!(compile(elu(1.0, "b"), lt(0, [2, 4])), "names say nothing");
    assert!(!compile(elu(2.0, "a"), lt(0, [2, 4])));
    assert!(!compile(elu(1.0, "a"), strided));
    assert!(!compile(elu(1.0, "a"), lt(0, [2, 4]).with_property(Property::Constant)));
    // A failure is not kept.
    for _ in 0..2 {
        elu(1.0, "a").compile(engine, &[lt(0, [2, 4])], &[lt(1, [2, 5])], &options).unwrap_err();
    }
    assert_eq!(cache.stats().entries, 4);
    cache.clear();
    assert!(!compile(elu(1.0, "a"), lt(0, [2, 4])));
}
