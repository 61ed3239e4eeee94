//! The same primitives through the C functions and through the Rust API, in turns, and what it takes to create one that the cache has.
//!
//! Turns are many, since the speed of a machine changes by more from second to second than the two differ, and long beside the time in which
//! a device's threads wake up: turns of 1.5 ms gave errors of 2 %, those of 6 ms give 0.2 %. A ratio is the median over blocks of four turns
//! (Rust, C, C, Rust), in which both sides meet the same speed; `+-` is its standard error. Two engines have programs of their own, which a
//! device need not run equally fast: `Rust/Rust` is what a second engine of the Rust API takes beside the first.
//!
//! `cargo bench -p anydnn-c --bench rust_and_c -- [platform [part of a case's name]]`; without cargo's `--bench` each case runs once.

mod cases;
mod functions;

use std::ffi::c_int;
use std::ptr;
use std::time::Instant;

use anydnn_backend::{Arg, Engine, Event, Result, Stream, StreamDesc};
use anydnn_opencl::{OpenClEngine, OpenClMemory, OpenClPrimitive, OpenClStream};

use crate::cases::{Case, cases};
use crate::functions::{
    ALLOCATE, EXEC_ARG_MD, ExecArg, Handle, IN_ORDER, call, check, dnnl_memory_create, dnnl_memory_destroy,
    dnnl_memory_get_data_handle, dnnl_ocl_interop_engine_create, dnnl_primitive_create,
    dnnl_primitive_desc_destroy, dnnl_primitive_desc_query_md, dnnl_primitive_destroy,
    dnnl_primitive_execute, dnnl_stream_create, dnnl_stream_wait,
};

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let measures = given.iter().any(|word| word == "--bench");
    let mut words = given.iter().filter(|word| !word.starts_with('-'));
    let (wanted, part) = (words.next(), words.next());
    for engine in anydnn_opencl::testing::test_engines() {
        let platform = engine.opencl_device().alias();
        if wanted.is_some_and(|wanted| *wanted != platform) {
            continue;
        }
        println!(
            "{platform:22} {:>10} {:>10} {:>7} {:>6} {:>10} {:>6}   {:>12} {:>12}",
            "Rust, us", "C, us", "C/Rust", "+-", "Rust/Rust", "+-", "create, us", "with desc, us"
        );
        let c = CSide::new(&engine);
        // SAFETY: the first engine keeps both alive.
        let twin = unsafe { OpenClEngine::from_raw(engine.raw_device(), engine.raw_context()) }?;
        for case in cases()?.iter().filter(|case| part.is_none_or(|part| case.name.contains(part.as_str()))) {
            measure([&engine, &twin], &c, case, if measures { BLOCKS } else { 1 })?;
        }
    }
    Ok(())
}

/// How many blocks of turns a case takes, and how many seconds a turn lasts if one execution is shorter.
const BLOCKS: usize = 300;
const TURN: f64 = 0.006;

/// An engine of the C functions in the context of another one, with a stream.
struct CSide {
    engine: Handle,
    stream: Handle,
}

impl CSide {
    fn new(on: &OpenClEngine) -> Self {
        let (mut engine, mut stream) = (ptr::null_mut(), ptr::null_mut());
        let (device, context) = (on.raw_device().cast(), on.raw_context().cast());
        check(call!(dnnl_ocl_interop_engine_create(&raw mut engine, device, context)));
        check(call!(dnnl_stream_create(&raw mut stream, engine, IN_ORDER)));
        Self { engine, stream }
    }

    fn described(&self, case: &Case) -> Handle {
        let mut pd = ptr::null_mut();
        check((case.describe)(self.engine, &raw mut pd));
        pd
    }

    fn created(pd: Handle) -> Handle {
        let mut primitive = ptr::null_mut();
        check(call!(dnnl_primitive_create(&raw mut primitive, pd)));
        primitive
    }

    /// Memory of the library's own for each argument.
    fn memories(&self, case: &Case, pd: Handle) -> Vec<ExecArg> {
        let memory = |&(_, number): &(Arg, c_int)| {
            let mut memory = ptr::null_mut();
            let md = call!(dnnl_primitive_desc_query_md(pd, EXEC_ARG_MD, number));
            let allocate = ptr::without_provenance_mut(ALLOCATE);
            check(call!(dnnl_memory_create(&raw mut memory, md, self.engine, allocate)));
            ExecArg { number, memory }
        };
        case.args.iter().map(memory).collect()
    }

    /// Seconds of one of so many executions.
    fn run(&self, primitive: Handle, args: &[ExecArg], count: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..count {
            check(call!(dnnl_primitive_execute(primitive, self.stream, args.len() as c_int, args.as_ptr())));
        }
        check(call!(dnnl_stream_wait(self.stream)));
        start.elapsed().as_secs_f64() / count as f64
    }
}

/// A primitive of the Rust API with its stream and arguments.
struct RustSide {
    stream: OpenClStream,
    primitive: OpenClPrimitive,
    args: Vec<(Arg, OpenClMemory)>,
}

impl RustSide {
    /// On the same bytes as the C functions: where they lie makes a tenth of the time.
    fn new(engine: &OpenClEngine, case: &Case, memories: &[ExecArg]) -> Result<Self> {
        let stream = engine.create_stream(&StreamDesc::default())?;
        let primitive = engine.create_primitive(&case.desc)?;
        let resolved = anydnn_backend::Primitive::desc(&primitive);
        let memory = |(&(arg, _), of_c): (&(Arg, c_int), &ExecArg)| {
            let desc = resolved.find(arg).unwrap_or(resolved.dst());
            let mut handle = ptr::null_mut();
            check(call!(dnnl_memory_get_data_handle(of_c.memory, &raw mut handle)));
            // SAFETY: the memory of C keeps its buffer to the end of `measure`.
            let memory = unsafe { OpenClMemory::from_raw(engine, desc, handle.cast()) }?;
            let values = (0..desc.size() / 4).map(|i| (i % 17) as f32 / 8.0 - 1.0);
            let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
            stream.write(&memory, 0, &bytes, &[])?.wait()?;
            Ok((arg, memory))
        };
        let args = case.args.iter().zip(memories).map(memory).collect::<Result<Vec<_>>>()?;
        Ok(Self { stream, primitive, args })
    }

    /// Seconds of one of so many executions.
    fn run(&self, count: usize) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            self.stream.execute(&self.primitive, &self.args, &[])?;
        }
        self.stream.wait()?;
        Ok(start.elapsed().as_secs_f64() / count as f64)
    }
}

/// Two sides in blocks of turns: the median seconds of both, the median of their ratios by blocks, the second to the first, and its error.
fn beside(
    blocks: usize,
    first: impl Fn() -> Result<f64>,
    second: impl Fn() -> Result<f64>,
) -> Result<[f64; 4]> {
    let (mut of_first, mut of_second, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..blocks {
        let before = first()?;
        let inner = second()? + second()?;
        let outer = before + first()?;
        of_first.push(outer / 2.0);
        of_second.push(inner / 2.0);
        ratios.push(inner / outer);
    }
    let error = error_of_median(&ratios);
    Ok([median(of_first), median(of_second), median(ratios), error])
}

fn measure(engines: [&OpenClEngine; 2], c: &CSide, case: &Case, blocks: usize) -> Result<()> {
    let pd = c.described(case);
    let (own, memories) = (CSide::created(pd), c.memories(case, pd));
    let [rust, twin] = engines.map(|engine| RustSide::new(engine, case, &memories));
    let (rust, twin) = (rust?, twin?);
    rust.run(2)?;
    let once = rust.run(4)?.min(c.run(own, &memories, 4));
    let count = if blocks > 1 { ((TURN / once).ceil() as usize).clamp(2, 2000) } else { 1 };
    let of_rust_side = || rust.run(count);
    let [of_rust, of_c, ratio, error] = beside(blocks, of_rust_side, || Ok(c.run(own, &memories, count)))?;
    let [_, _, of_twin, twins_error] = beside(blocks, of_rust_side, || twin.run(count))?;
    let creations = if blocks > 1 { 501 } else { 1 };
    let alone = median(
        (0..creations).map(|_| timed(|| CSide::created(pd), |p| destroy(p, ptr::null_mut()))).collect(),
    );
    let both = || {
        let pd = c.described(case);
        (CSide::created(pd), pd)
    };
    let with_desc = median((0..creations).map(|_| timed(both, |(p, pd)| destroy(p, pd))).collect());
    println!(
        "{:22} {:10.2} {:10.2} {ratio:7.3} {error:6.3} {of_twin:10.3} {twins_error:6.3}   {:12.2} {:12.2}",
        case.name,
        of_rust * 1e6,
        of_c * 1e6,
        alone * 1e6,
        with_desc * 1e6
    );
    destroy(own, pd);
    for arg in memories {
        check(call!(dnnl_memory_destroy(arg.memory)));
    }
    Ok(())
}

fn timed<T>(make: impl Fn() -> T, end: impl Fn(T)) -> f64 {
    let start = Instant::now();
    let made = make();
    let seconds = start.elapsed().as_secs_f64();
    end(made);
    seconds
}

fn destroy(primitive: Handle, pd: Handle) {
    check(call!(dnnl_primitive_destroy(primitive)));
    check(call!(dnnl_primitive_desc_destroy(pd)));
}

/// The standard error of the median of values that are spread like the normal distribution around it: 1.253 deviations by the root of how many
/// there are, a deviation being 1.483 of the median distance from the median, which outliers do not move.
fn error_of_median(values: &[f64]) -> f64 {
    let middle = median(values.to_vec());
    let distance = median(values.iter().map(|value| (value - middle).abs()).collect());
    1.253 * 1.483 * distance / (values.len() as f64).sqrt()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
