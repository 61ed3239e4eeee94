//! Commands that share an event, as they do where an event takes the driver long.

use anydnn_backend::op::{Eltwise, Op};
use anydnn_backend::{
    Arg, DataType, Engine, Event, EventStatus, MemoryDesc, MemoryKind, Primitive, PrimitiveDesc, Stream,
    StreamDesc,
};
use cl3::types::cl_event;

use super::*;
use crate::testing::test_engines;

const N: usize = 64;

/// Engines that wait as one of a graphics processor does.
fn engines() -> impl Iterator<Item = OpenClEngine> {
    test_engines().into_iter().map(|engine| engine.with_wait_method(WaitMethod::Poll))
}

/// A primitive that doubles its source, and what it reads and writes.
struct Doubling {
    primitive: OpenClPrimitive,
    args: [(Arg, OpenClMemory); 2],
}

impl Doubling {
    fn new(engine: &OpenClEngine) -> Self {
        let desc = MemoryDesc::new([N], DataType::F32);
        let double = Op::Eltwise(Eltwise::Linear { alpha: 2.0, beta: 0.0 });
        let op = PrimitiveDesc::builder(double).src(desc.clone()).dst(desc.clone()).build().unwrap();
        let primitive = engine.create_primitive(&op).unwrap();
        assert_eq!(primitive.scratchpad_size(), 0);
        let args =
            [Arg::SRC, Arg::DST].map(|arg| (arg, engine.create_memory(&desc, MemoryKind::Buffer).unwrap()));
        Self { primitive, args }
    }

    fn execute(&self, stream: &OpenClStream, deps: &[OpenClEvent]) -> OpenClEvent {
        stream.execute(&self.primitive, &self.args, deps).unwrap()
    }

    /// Writes numbers to the source.
    fn fill(&self, stream: &OpenClStream, first: f32) {
        let bytes: Vec<u8> = (0..N).flat_map(|i| (first + i as f32).to_ne_bytes()).collect();
        stream.write(&self.args[0].1, 0, &bytes, &[]).unwrap();
    }

    fn check(&self, stream: &OpenClStream, first: f32) {
        let expected: [f32; N] = std::array::from_fn(|i| 2.0 * (first + i as f32));
        assert_eq!(read(stream, &self.args[1].1).map(f32::to_bits), expected.map(f32::to_bits));
    }
}

fn read(stream: &OpenClStream, memory: &OpenClMemory) -> [f32; N] {
    let mut bytes = [0; N * 4];
    stream.read(memory, 0, &mut bytes, &[]).unwrap();
    std::array::from_fn(|i| f32::from_ne_bytes(std::array::from_fn(|b| bytes[i * 4 + b])))
}

fn gate(engine: &OpenClEngine) -> (cl_event, OpenClEvent) {
    let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
    // SAFETY: a live event.
    (raw, unsafe { OpenClEvent::from_raw(engine, raw) }.unwrap())
}

fn open(raw: cl_event) {
    cl3::event::set_user_event_status(raw, cl3::event::CL_COMPLETE).unwrap();
    // SAFETY: the reference that making it gave.
    unsafe { cl3::event::release_event(raw) }.unwrap();
}

#[test]
fn launches_of_an_in_order_stream_share_events() {
    for engine in engines() {
        let doubling = Doubling::new(&engine);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        doubling.fill(&stream, 3.0);
        let events: Vec<_> = (0..100).map(|_| doubling.execute(&stream, &[])).collect();
        let mut fates: Vec<_> = events.iter().map(|event| Arc::as_ptr(&event.fate)).collect();
        fates.dedup();
        assert_eq!(fates.len(), 4, "{engine:?}");
        // The last ones have no event yet.
        assert!(!events[0].fate.is_open() && events[99].fate.is_open());
        events[99].wait().unwrap();
        assert!(events.iter().all(|event| event.status().unwrap() == EventStatus::Complete));
        doubling.check(&stream, 3.0);
        doubling.fill(&stream, 5.0);
        let last = doubling.execute(&stream, &[]);
        stream.wait().unwrap();
        assert_eq!(last.status().unwrap(), EventStatus::Complete);
        doubling.check(&stream, 5.0);
    }
}

#[test]
fn other_streams_have_an_event_for_each_launch() {
    for engine in engines() {
        let doubling = Doubling::new(&engine);
        let user = engine.create_stream(&StreamDesc::default()).unwrap();
        user.raw_queue();
        let others = [StreamDesc::out_of_order(), StreamDesc::default().with_profiling()]
            .map(|desc| engine.create_stream(&desc).unwrap());
        for stream in [user].iter().chain(&others) {
            let events = [(); 3].map(|()| doubling.execute(stream, &[]));
            assert!(events.iter().all(|event| !event.fate.is_open()), "{stream:?}");
            assert!(!Arc::ptr_eq(&events[0].fate, &events[1].fate));
            stream.wait().unwrap();
        }
    }
}

/// An event must not come behind commands that the user holds back.
#[test]
fn earlier_launches_end_while_later_commands_wait_for_the_user() {
    for engine in engines() {
        let doubling = Doubling::new(&engine);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let early = doubling.execute(&stream, &[]);
        let (raw, gate) = gate(&engine);
        let held = doubling.execute(&stream, &[gate]);
        let behind = doubling.execute(&stream, &[]);
        early.wait().unwrap();
        assert!(
            held.status().unwrap() != EventStatus::Complete
                && behind.status().unwrap() != EventStatus::Complete
        );
        open(raw);
        behind.wait().unwrap();
        stream.wait().unwrap();
    }
}

#[test]
fn earlier_launches_end_while_the_user_holds_the_queue() {
    for engine in engines() {
        let doubling = Doubling::new(&engine);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let early = doubling.execute(&stream, &[]);
        let queue = stream.raw_queue();
        let (raw, _gate) = gate(&engine);
        // SAFETY: a live queue and event.
        let marker = unsafe { cl::enqueue_marker_with_wait_list(queue, 1, &raw const raw) }.unwrap();
        early.wait().unwrap();
        open(raw);
        stream.wait().unwrap();
        // SAFETY: the reference that the call gave.
        unsafe { cl3::event::release_event(marker) }.unwrap();
    }
}

#[test]
fn other_streams_and_threads_wait_for_launches_that_share_events() {
    for engine in engines() {
        let [doubling, again] = [(); 2].map(|()| Doubling::new(&engine));
        let again =
            Doubling { args: [(Arg::SRC, doubling.args[1].1.clone()), again.args[1].clone()], ..again };
        let [stream, other] = [(); 2].map(|()| engine.create_stream(&StreamDesc::default()).unwrap());
        doubling.fill(&stream, 1.0);
        for _ in 0..50 {
            let done = doubling.execute(&stream, &[]);
            let twice = again.execute(&other, &[done]);
            twice.wait().unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..200).for_each(|_| doubling.execute(&stream, &[]).wait().unwrap()));
                scope.spawn(|| (0..200).for_each(|_| drop(doubling.execute(&stream, &[]))));
            }
        });
        assert_eq!(read(&other, &again.args[1].1)[..2], [4.0, 8.0]);
        doubling.check(&stream, 1.0);
    }
}
