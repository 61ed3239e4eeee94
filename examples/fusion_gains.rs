//! What fusion gains: the launches and times of three graphs, fused and operation by operation, on every OpenCL device and the host.
//!
//! Each round runs both one after the other; the times are medians of all rounds, from the enqueueing to the end.
//!
//! `cargo run --release --example fusion_gains [ROUNDS]`

use std::error::Error;
use std::time::Instant;

use anydnn::backend::{
    Backend, DataType, Engine, Event, Memory, MemoryDesc, MemoryKind, Result, Stream, StreamDesc,
};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::execute::Executable;
use anydnn::fusion::Policy;
use anydnn::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, OpKind, TensorId};
use anydnn::select::{AnyBackend, Selector};

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(15), |text| text.parse())?;
    let graphs = [
        ("attention, B=1 H=12 S=512 D=64", attention(12, 512, 64)?),
        ("gated MLP, 32 rows, 4096-11008", gated_mlp(32, 4096, 11008)?),
        ("ResNet block, 56x56, 256-64-64-256", resnet_block(56, 256, 64)?),
    ];
    for candidate in Selector::from_env()?.candidates() {
        let Ok(engine) = candidate.create() else { continue };
        println!("{candidate}");
        for (name, graph) in &graphs {
            match compare::<AnyBackend>(&engine, graph, rounds) {
                Ok(line) => println!("  {name}: {line}"),
                Err(error) => println!("  {name}: {error}"),
            }
        }
    }
    Ok(())
}

/// Runs a graph fused and operation by operation, and says how many launches and how long.
fn compare<B: Backend>(engine: &B::Engine, graph: &Graph, rounds: usize) -> Result<String> {
    let stream = engine.create_stream(&StreamDesc::default())?;
    let kind = engine.capabilities().memory_kinds[0];
    let mut runs = Vec::new();
    for policy in [Policy::Fusion, Policy::Debug] {
        let options = CompileOptions { policy, ..CompileOptions::default() };
        let compiled = CompiledGraph::<B>::new(graph, engine, &options)?;
        runs.push(Run::new(&compiled, &stream, kind)?);
    }
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (run, times) in runs.iter().zip(&mut times) {
            let start = Instant::now();
            run.executable.execute(&stream, &run.inputs, &run.outputs, &[])?.wait()?;
            // The first round warms up.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let difference = difference(&stream, &runs[0], &runs[1])?;
    let [fused, single] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    Ok(format!(
        "{} launches and {fused:.3} ms fused, {} and {single:.3} ms operation by operation ({:.2} times faster); results differ by at most {difference:.1e}",
        runs[0].launches,
        runs[1].launches,
        single / fused
    ))
}

/// A loaded graph with memory for everything.
struct Run<B: Backend> {
    executable: Executable<B>,
    launches: usize,
    inputs: Vec<(TensorId, B::Memory)>,
    outputs: Vec<(TensorId, B::Memory)>,
}

impl<B: Backend> Run<B> {
    fn new(compiled: &CompiledGraph<B>, stream: &B::Stream, kind: MemoryKind) -> Result<Self> {
        let engine = compiled.engine();
        let graph = compiled.graph();
        let filled = |id: TensorId| {
            let desc = graph
                .tensor(id)
                .map_or_else(|| Ok(MemoryDesc::new([0], DataType::F32)), LogicalTensor::memory_desc)?;
            let memory = engine.create_memory(&desc, kind)?;
            // Small numbers, so that long sums stay small.
            let value = |i: usize| ((i.wrapping_mul(2_654_435_761) >> 8) % 1000) as f32 / 2000.0 - 0.25;
            let bytes: Vec<u8> = (0..desc.size() / 4)
                .flat_map(|i| (value(i + id.0 as usize * 7) * 0.25).to_ne_bytes())
                .collect();
            stream.write(&memory, 0, &bytes, &[])?.wait()?;
            Ok((id, memory))
        };
        let constants = graph.constants().map(|t| filled(t.id)).collect::<Result<Vec<_>>>()?;
        let inputs = graph.inputs().iter().map(|&id| filled(id)).collect::<Result<Vec<_>>>()?;
        let outputs = graph.outputs().iter().map(|&id| filled(id)).collect::<Result<Vec<_>>>()?;
        let executable = compiled.load(stream, &constants)?;
        Ok(Self { executable, launches: compiled.launches(), inputs, outputs })
    }
}

fn difference<B: Backend>(stream: &B::Stream, a: &Run<B>, b: &Run<B>) -> Result<f64> {
    let mut worst = 0.0_f64;
    for ((_, a), (_, b)) in a.outputs.iter().zip(&b.outputs) {
        let read = |memory: &B::Memory| {
            let mut bytes = vec![0; memory.desc().size()];
            stream.read(memory, 0, &mut bytes, &[])?;
            Ok::<Vec<f32>, anydnn::backend::Error>(
                bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect(),
            )
        };
        for (x, y) in read(a)?.into_iter().zip(read(b)?) {
            worst = worst.max(f64::from((x - y).abs()));
        }
    }
    Ok(worst)
}

/// `softmax(Q K^T / scale + mask) V`.
fn attention(heads: usize, length: usize, width: usize) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, DataType::F32, [1, heads, length, width]));
    let (scale, mask) =
        (g.input("scale", DataType::F32, [1]), g.input("mask", DataType::F32, [1, 1, length, length]));
    let scores = g.op("scores", OpKind::MatMul, &[q, k], Attrs::new().with("transpose_b", true))?;
    let scaled = g.op("scaled", OpKind::Divide, &[scores, scale], Attrs::new())?;
    let masked = g.op("masked", OpKind::Add, &[scaled, mask], Attrs::new())?;
    let weights = g.op("weights", OpKind::SoftMax, &[masked], Attrs::new().with("axis", -1_i64))?;
    g.op("out", OpKind::MatMul, &[weights, v], Attrs::new())?;
    g.build()
}

/// `(swish(x G) . (x U)) D`.
fn gated_mlp(rows: usize, width: usize, hidden: usize) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [rows, width]);
    let [up, gate] = ["up", "gate"].map(|name| g.constant(name, DataType::F32, [width, hidden]));
    let down = g.constant("down", DataType::F32, [hidden, width]);
    let u = g.op("u", OpKind::MatMul, &[x, up], Attrs::new())?;
    let s = g.op("s", OpKind::MatMul, &[x, gate], Attrs::new())?;
    let sigmoid = g.op("sigmoid", OpKind::Sigmoid, &[s], Attrs::new())?;
    let swish = g.op("swish", OpKind::Multiply, &[s, sigmoid], Attrs::new())?;
    let gated = g.op("gated", OpKind::Multiply, &[swish, u], Attrs::new())?;
    g.op("out", OpKind::MatMul, &[gated, down], Attrs::new())?;
    g.build()
}

/// A bottleneck of 1x1, 3x3 and 1x1 convolutions around which the input goes, channels last.
fn resnet_block(size: usize, wide: usize, narrow: usize) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [1, size, size, wide]);
    let convolution = |g: &mut GraphBuilder, name: &str, src, kernel: usize, from: usize, to: usize| {
        let weights = g.constant(&format!("{name}_weights"), DataType::F32, [kernel, kernel, from, to]);
        let bias = g.constant(&format!("{name}_bias"), DataType::F32, [to]);
        let pad = (kernel / 2) as i64;
        let attrs = Attrs::new()
            .with("strides", [1, 1])
            .with("dilations", [1, 1])
            .with("pads_begin", [pad, pad])
            .with("pads_end", [pad, pad])
            .with("data_format", "NXC")
            .with("weights_format", "XIO");
        g.op(name, OpKind::Convolution, &[src, weights, bias], attrs)
    };
    let a = convolution(&mut g, "reduce", x, 1, wide, narrow)?;
    let a = g.op("relu1", OpKind::ReLU, &[a], Attrs::new())?;
    let b = convolution(&mut g, "middle", a, 3, narrow, narrow)?;
    let b = g.op("relu2", OpKind::ReLU, &[b], Attrs::new())?;
    let c = convolution(&mut g, "expand", b, 1, narrow, wide)?;
    let sum = g.op("sum", OpKind::Add, &[c, x], Attrs::new())?;
    g.op("relu3", OpKind::ReLU, &[sum], Attrs::new())?;
    g.build()
}
