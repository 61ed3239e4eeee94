//! How long a network the size of ResNet-50 takes to compile, on every OpenCL device: in a first process, which leaves its programs in
//! the cache on disk, and in those after it.
//!
//! ```sh
//! cargo run --release --example network_start [DEVICE]
//! ```
//!
//! The cache is a folder of the program's own, and so is PoCL's; NVIDIA's is switched off. Each time is from the enumerated device on: an
//! engine, the graph partitioned, every primitive with its programs.

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use anydnn::backend::{DataType, Engine, Event, MemoryKind, Result, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};
use anydnn_opencl::{OpenCl, OpenClEngine};

/// What a process that this program starts is told: which part it plays, and on which device.
const PART: &str = "--part";
/// Processes that start from the cache.
const WARM: usize = 5;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, part, device] = args.as_slice()
        && flag == PART
    {
        return play(part, device.parse()?);
    }
    let scratch = tempfile::tempdir()?;
    for (index, device) in anydnn_opencl::devices()?.iter().enumerate() {
        if args.first().is_some_and(|wanted| !device.to_string().contains(wanted)) {
            continue;
        }
        println!("{device}");
        let folder = |name: &str| scratch.path().join(format!("{index}-{name}"));
        std::fs::create_dir(folder("driver"))?;
        for part in std::iter::once("cold").chain([("warm"); WARM]) {
            let status = Command::new(std::env::current_exe()?)
                .args([PART, part, &index.to_string()])
                .env("ANYDNN_CACHE", "1")
                .env("ANYDNN_CACHE_DIR", folder("programs"))
                .env("POCL_CACHE_DIR", folder("driver"))
                .env("CUDA_CACHE_DISABLE", "1")
                .status()?;
            if !status.success() {
                return Err(format!("the {part} process ended with {status}").into());
            }
        }
    }
    Ok(())
}

/// One process: an engine, the graph compiled, and its first execution.
fn play(part: &str, index: usize) -> std::result::Result<(), Box<dyn Error>> {
    let graph = residual_network()?;
    let devices = anydnn_opencl::devices()?;
    let device = devices.get(index).ok_or("the device is gone")?;
    let start = Instant::now();
    let engine = OpenClEngine::on_device(device)?;
    let made = start.elapsed();
    let compiled = CompiledGraph::<OpenCl>::new(&graph, &engine, &CompileOptions::default())?;
    let total = start.elapsed();
    let stats = engine.program_stats();
    let stream = engine.create_stream(&StreamDesc::default())?;
    let memory = |id: TensorId| {
        let desc = compiled.input_desc(id).or(compiled.output_desc(id)).expect("a port");
        Ok((id, engine.create_memory(desc, MemoryKind::Buffer)?))
    };
    let constants = graph.constants().map(|tensor| memory(tensor.id)).collect::<Result<Vec<_>>>()?;
    let inputs = graph.inputs().iter().map(|&id| memory(id)).collect::<Result<Vec<_>>>()?;
    let outputs = graph.outputs().iter().map(|&id| memory(id)).collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let network = compiled.load(&stream, &constants)?;
    let loaded = start.elapsed();
    network.execute(&stream, &inputs, &outputs, &[])?.wait()?;
    println!(
        "  {part}: {:8.1} ms (engine {:.1}) to compile {} steps; {} programs built, {} from disk, {} shared; then {:.1} ms to load, {:.1} to the first result",
        milliseconds(total),
        milliseconds(made),
        compiled.steps().len(),
        stats.built,
        stats.from_disk,
        stats.reused,
        milliseconds(loaded),
        milliseconds(start.elapsed()),
    );
    Ok(())
}

/// ResNet-50 for one image: 53 convolutions with biases, most of them with `ReLU`, sixteen of them with a residual sum before it.
fn residual_network() -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let mut net = Network { g: &mut g, convolutions: 0 };
    let image = net.g.input("image", DataType::F32, [1, 224, 224, 3]);
    let first = net.convolve(image, [3, 64], 7, 2)?;
    let mut x = net.relu(first)?;
    let window = Attrs::new()
        .with("kernel", [3_i64, 3])
        .with("strides", [2_i64, 2])
        .with("pads_begin", [1_i64, 1])
        .with("pads_end", [1_i64, 1]);
    x = net.g.op("pool", OpKind::MaxPool, &[x], window)?;
    let mut channels = 64;
    for (stage, (blocks, inner)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if block == 0 && stage > 0 { 2 } else { 1 };
            let outer = 4 * inner;
            let shortcut = if block == 0 { net.convolve(x, [channels, outer], 1, stride)? } else { x };
            let a = net.convolve(x, [channels, inner], 1, 1)?;
            let a = net.relu(a)?;
            let b = net.convolve(a, [inner, inner], 3, stride)?;
            let b = net.relu(b)?;
            let c = net.convolve(b, [inner, outer], 1, 1)?;
            let name = format!("sum{}", net.convolutions);
            let sum = net.g.op(&name, OpKind::Add, &[c, shortcut], Attrs::new())?;
            x = net.relu(sum)?;
            channels = outer;
        }
    }
    let window = Attrs::new()
        .with("kernel", [7_i64, 7])
        .with("strides", [1_i64, 1])
        .with("pads_begin", [0_i64, 0])
        .with("pads_end", [0_i64, 0])
        .with("exclude_pad", true);
    let pooled = g.op("mean", OpKind::AvgPool, &[x], window)?;
    let flat = Attrs::new().with("shape", [1_i64, 2048]).with("special_zero", false);
    let flat = g.op("flat", OpKind::StaticReshape, &[pooled], flat)?;
    let (weights, bias) = (
        g.constant("classes", DataType::F32, [2048, 1000]),
        g.constant("classes_bias", DataType::F32, [1000]),
    );
    g.op("classify", OpKind::MatMul, &[flat, weights, bias], Attrs::new())?;
    g.build()
}

struct Network<'a> {
    g: &'a mut GraphBuilder,
    convolutions: usize,
}

impl Network<'_> {
    fn convolve(
        &mut self,
        x: TensorId,
        [from, to]: [usize; 2],
        kernel: usize,
        stride: i64,
    ) -> Result<TensorId> {
        let name = format!("conv{}", self.convolutions);
        self.convolutions += 1;
        let weights = self.g.constant(&format!("{name}_weights"), DataType::F32, [kernel, kernel, from, to]);
        let bias = self.g.constant(&format!("{name}_bias"), DataType::F32, [to]);
        let pad = (kernel / 2) as i64;
        let attrs = Attrs::new()
            .with("strides", [stride; 2])
            .with("pads_begin", [pad; 2])
            .with("pads_end", [pad; 2])
            .with("dilations", [1_i64, 1])
            .with("weights_format", "XIO");
        self.g.op(&name, OpKind::Convolution, &[x, weights, bias], attrs)
    }

    fn relu(&mut self, x: TensorId) -> Result<TensorId> {
        let name = format!("relu{}", self.convolutions);
        self.g.op(&name, OpKind::ReLU, &[x], Attrs::new())
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
