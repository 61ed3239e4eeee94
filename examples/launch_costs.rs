//! What a launch of a compiled graph costs on the host, against the driver's own cost for as many bare launches:
//!
//! ```sh
//! cargo run --release --example launch_costs
//! ```
//!
//! A chain of matrix products of one element each is executed, replayed from a recording, and compared with as many launches of a kernel
//! of one work-item that the program enqueues on a queue of its own, each way waited for once. The ways take turns, and the medians count.
//! The same of a single launch tells what one small execution and its wait cost.

use std::ffi::CString;
use std::ptr;
use std::time::Instant;

use anydnn::backend::{Backend, DataType, Engine, Event, Result, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::graph::{Attrs, Graph, GraphBuilder, OpKind};
use anydnn_opencl::{OpenCl, OpenClEngine};
use cl3::types::{cl_command_queue, cl_kernel, cl_mem};

/// Launches of each way.
const LAUNCHES: [usize; 2] = [100, 1];
/// How often each way has its turn.
const ROUNDS: usize = 400;
/// The ways in the order of a round.
const WAYS: [&str; 5] = ["driver", "driver, an event each", "replay", "execute", "steps apart"];

fn main() -> Result<()> {
    for device in anydnn_opencl::devices()? {
        let engine = OpenClEngine::on_device(&device)?;
        println!("{device}");
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            for launches in LAUNCHES {
                let medians = measure(&engine, &desc, launches)?;
                println!("  {:?} stream, {launches} launches and a wait", desc.order);
                for (way, median) in WAYS.iter().zip(&medians) {
                    let each = median / launches as f64;
                    println!(
                        "    {way:<22} {each:6.2} us a launch, {:5.2} of the driver's",
                        median / medians[0]
                    );
                }
            }
        }
    }
    Ok(())
}

/// Memory for each of a graph's inputs or outputs.
type Bound = Vec<(anydnn::graph::TensorId, <OpenCl as Backend>::Memory)>;

/// The median times of each way in microseconds.
fn measure(engine: &OpenClEngine, desc: &StreamDesc, launches: usize) -> Result<Vec<f64>> {
    let stream = engine.create_stream(desc)?;
    let graph = chain(launches)?;
    let compiled = CompiledGraph::<OpenCl>::new(&graph, engine, &CompileOptions::default())?;
    assert_eq!(compiled.launches(), launches, "a launch for each product");
    let network = compiled.load(&stream, &[])?;
    let kind = engine.capabilities().memory_kinds[0];
    let memory = |id| {
        let desc = compiled.input_desc(id).or(compiled.output_desc(id)).expect("a port");
        Ok((id, engine.create_memory(desc, kind)?))
    };
    let inputs = graph.inputs().iter().map(|&id| memory(id)).collect::<Result<Bound>>()?;
    let outputs = graph.outputs().iter().map(|&id| memory(id)).collect::<Result<Bound>>()?;
    let recording = network.record(&stream, &inputs, &outputs)?;
    let bare = Bare::new(engine, inputs[0].1.raw_mem(), stream.raw_queue(), launches);
    let ways: [&dyn Fn() -> Result<()>; WAYS.len()] = [
        &|| {
            bare.launch(false);
            Ok(())
        },
        &|| {
            bare.launch(true);
            Ok(())
        },
        &|| recording.replay(&[])?.wait(),
        &|| network.execute(&stream, &inputs, &outputs, &[])?.wait(),
        &|| network.execute_traced(&stream, &inputs, &outputs, &[])?.0.wait(),
    ];
    let mut times = vec![Vec::with_capacity(ROUNDS); WAYS.len()];
    for round in 0..ROUNDS + ROUNDS / 10 {
        for (way, times) in ways.iter().zip(&mut times) {
            let start = Instant::now();
            way()?;
            if round >= ROUNDS / 10 {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok(times.into_iter().map(median).collect())
}

/// Products of one element, each of the one before.
fn chain(launches: usize) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let w = g.input("w", DataType::F32, [1, 1]);
    let mut x = g.input("x", DataType::F32, [1, 1]);
    for i in 0..launches {
        x = g.op(&format!("step{i}"), OpKind::MatMul, &[x, w], Attrs::new())?;
    }
    g.build()
}

/// Launches through nothing but OpenCL: a kernel object for each, with every argument set.
struct Bare {
    kernels: Vec<cl_kernel>,
    queue: cl_command_queue,
}

impl Bare {
    fn new(engine: &OpenClEngine, mem: cl_mem, queue: cl_command_queue, launches: usize) -> Self {
        const SOURCE: &str = "
            kernel void multiply(global const float *a, ulong at_a, global const float *b, ulong at_b, global float *c, ulong at_c) {
                size_t i = get_global_id(0);
                float product = a[at_a + i] * b[at_b + i];
                if (product == 12345.0f) c[at_c + i] = product;
            }";
        let program =
            cl3::program::create_program_with_source(engine.raw_context(), &[SOURCE]).expect("a program");
        let options = CString::default();
        cl3::program::build_program(program, &[engine.raw_device()], &options, None, ptr::null_mut())
            .expect("it builds");
        let kernels = (0..launches).map(|_| {
            let kernel = cl3::kernel::create_kernel(program, &CString::from(c"multiply")).expect("a kernel");
            for i in 0..6 {
                let offset = 0_u64;
                let (size, value) = if i % 2 == 0 {
                    (size_of::<cl_mem>(), ptr::from_ref(&mem).cast())
                } else {
                    (8, ptr::from_ref(&offset).cast())
                };
                // SAFETY: a live kernel, and a value of its parameter's type.
                unsafe { cl3::kernel::set_kernel_arg(kernel, i, size, value) }.expect("an argument");
            }
            kernel
        });
        Self { kernels: kernels.collect(), queue }
    }

    fn launch(&self, with_events: bool) {
        let library = cl3::load_library().as_ref().expect("OpenCL is there");
        let mut events = vec![ptr::null_mut(); self.kernels.len()];
        for (kernel, event) in self.kernels.iter().zip(&mut events) {
            let event = if with_events { ptr::from_mut(event) } else { ptr::null_mut() };
            let (global, local) = ([1_usize; 3], [1_usize; 3]);
            let (global, local) = (global.as_ptr(), local.as_ptr());
            let (offset, waits) = (ptr::null(), ptr::null());
            let code = library
                .clEnqueueNDRangeKernel(self.queue, *kernel, 3, offset, global, local, 0, waits, event);
            assert_eq!(code, Some(0), "it is enqueued");
        }
        cl3::command_queue::finish(self.queue).expect("it runs");
        for event in events.into_iter().filter(|event| !event.is_null()) {
            // SAFETY: the reference that enqueueing gave.
            unsafe { cl3::event::release_event(event) }.expect("it is released");
        }
    }
}
