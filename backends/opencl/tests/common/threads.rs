//! Sixteen threads on one stream.

use std::sync::Mutex;

use anydnn_backend::{Engine, Event, MemoryKind, Stream, StreamDesc};
use anydnn_opencl::{OpenClEngine, OpenClEvent};

use super::{floats, linear, src_dst, to_bytes, to_floats};

pub const THREADS: usize = 16;
pub const EXECUTIONS: usize = 10_000;

const ELEMENTS: usize = 256;
const STEPS: usize = EXECUTIONS / THREADS;

/// Sixteen threads share the engine, its primitives and one stream for 10,000 executions. Each has a chain of steps on memory of its
/// own, which do not commute, so a step left out, done twice or out of turn shows; now and then a step waits for a neighbour's too.
pub fn share_one_stream(engine: &OpenClEngine, desc: &StreamDesc) {
    let stream = engine.create_stream(desc).unwrap();
    let steps =
        [linear(engine, ELEMENTS, (2.0, 1.0), "double"), linear(engine, ELEMENTS, (0.5, 0.0), "halve")];
    let newest: Vec<Mutex<Option<OpenClEvent>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    let work = &|thread: usize| {
        let start: Vec<f32> = (0..ELEMENTS).map(|i| ((i + thread) % 64) as f32).collect();
        let memory = engine.create_memory(&floats(ELEMENTS), MemoryKind::Buffer).unwrap();
        let mut last = stream.write(&memory, 0, &to_bytes(&start), &[]).unwrap();
        for i in 0..STEPS {
            let mut deps = vec![last];
            if i % 25 == 24 {
                deps.extend(newest[(thread + 1) % THREADS].lock().unwrap().clone());
            }
            last = stream.execute(&steps[i % 2], &src_dst(&memory, &memory), &deps).unwrap();
            *newest[thread].lock().unwrap() = Some(last.clone());
            if thread.is_multiple_of(2) && i % 100 == 99 {
                last.wait().unwrap();
            }
        }
        let mut bytes = vec![0; 4 * ELEMENTS];
        stream.read(&memory, 0, &mut bytes, &[last]).unwrap();
        let step = |x: f32, i: usize| if i.is_multiple_of(2) { 2.0 * x + 1.0 } else { 0.5 * x };
        let expected: Vec<f32> = start.iter().map(|&x| (0..STEPS).fold(x, step)).collect();
        assert_eq!(to_floats(&bytes), expected, "thread {thread}");
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || work(thread));
        }
    });
    stream.wait().unwrap();
}
