//! What a cache blob saves: the time to the first results of a handful of primitives, on every OpenCL device.
//!
//! A first process compiles the programs from source and writes the engine's cache blob; a second one starts from the blob. The drivers'
//! own caches are kept out of it: PoCL gets an empty folder, NVIDIA's is switched off.
//!
//! `cargo run --release --example warm_start`

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anydnn::backend::op::{
    Convolution, LayerNormalization, MatMul, Pooling, PoolingAlgorithm, Reduction, ReductionAlgorithm,
    Softmax,
};
use anydnn::backend::{
    DataType, Eltwise, Engine, MemoryDesc, MemoryKind, Op, Primitive, PrimitiveDesc, PrimitiveDescBuilder,
    Result, Stream, StreamDesc,
};
use anydnn_opencl::{CacheOutcome, DiskCache, OpenClDevice, OpenClEngine};

/// What a process that this program starts is told: which part it plays, on which device, and where the blob is.
const PART: &str = "--part";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, part, device, blob] = args.as_slice()
        && flag == PART
    {
        return play(part, device.parse()?, Path::new(blob));
    }
    let scratch = tempfile::tempdir()?;
    for (index, device) in anydnn_opencl::devices()?.iter().enumerate() {
        println!("{device}");
        let blob = scratch.path().join(format!("{index}.blob"));
        for part in ["cold", "warm"] {
            // A cache of PoCL's that nothing is in.
            let drivers = scratch.path().join(format!("{index}-{part}"));
            std::fs::create_dir(&drivers)?;
            let status = Command::new(std::env::current_exe()?)
                .args([PART, part, &index.to_string()])
                .arg(&blob)
                .env("POCL_CACHE_DIR", &drivers)
                .env("CUDA_CACHE_DISABLE", "1")
                .status()?;
            if !status.success() {
                return Err(format!("the {part} process ended with {status}").into());
            }
        }
    }
    Ok(())
}

/// One process: an engine from source or from the blob, all of the work, and the times it took.
fn play(part: &str, index: usize, path: &Path) -> Result<(), Box<dyn Error>> {
    let devices = anydnn_opencl::devices()?;
    let device = devices.get(index).ok_or("the device is gone")?;
    let blob = (part == "warm").then(|| std::fs::read(path)).transpose()?;
    let start = Instant::now();
    let engine = engine(device, blob.as_deref())?;
    let (compiled, sums) = work(&engine)?;
    let total = start.elapsed();
    let stats = engine.program_stats();
    println!(
        "  {part}: {:8.1} ms to create, {:8.1} ms to the results; {} programs from source, {} from the blob, {} probed; checksum {sums:?}",
        milliseconds(compiled.duration_since(start)),
        milliseconds(total),
        stats.built,
        stats.from_blob,
        stats.probed,
    );
    if part == "cold" {
        let start = Instant::now();
        let blob = engine.cache_blob()?;
        println!("  blob: {} bytes, written in {:.1} ms", blob.len(), milliseconds(start.elapsed()));
        std::fs::write(path, blob)?;
    }
    Ok(())
}

fn engine(device: &OpenClDevice, blob: Option<&[u8]>) -> Result<OpenClEngine, Box<dyn Error>> {
    let engine = match blob {
        None => OpenClEngine::on_device(device)?,
        Some(blob) => match OpenClEngine::from_cache_blob(device, blob)? {
            (engine, CacheOutcome::Warm { .. }) => engine,
            (_, outcome) => return Err(format!("the blob was not taken: {outcome:?}").into()),
        },
    };
    Ok(engine.with_disk_cache(DiskCache::off()))
}

/// Creates all primitives, runs each once, and gives the time between the two and a checksum of the results.
fn work(engine: &OpenClEngine) -> Result<(Instant, u64)> {
    let primitives =
        descriptions()?.iter().map(|desc| engine.create_primitive(desc)).collect::<Result<Vec<_>>>()?;
    let created = Instant::now();
    let stream = engine.create_stream(&StreamDesc::default())?;
    let mut checksum = 0;
    for primitive in &primitives {
        let desc = primitive.desc();
        let mut args = Vec::new();
        for operand in desc.args() {
            let memory = engine.create_memory(&operand.desc, MemoryKind::Buffer)?;
            let values = (0..operand.desc.size() / 4).map(|i| (i % 13) as f32 - 6.0);
            let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
            stream.write(&memory, 0, &bytes, &[])?;
            args.push((operand.arg, memory));
        }
        stream.execute(primitive, &args, &[])?;
        for (operand, (_, memory)) in
            desc.args().iter().zip(&args).filter(|(operand, _)| operand.access.writes())
        {
            let mut bytes = vec![0; operand.desc.size()];
            stream.read(memory, 0, &mut bytes, &[])?;
            checksum = bytes
                .iter()
                .fold(checksum, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        }
    }
    Ok((created, checksum))
}

/// The primitives of a small network.
fn descriptions() -> Result<Vec<PrimitiveDesc>> {
    let f32 = |dims: &[usize]| MemoryDesc::new(dims, DataType::F32);
    let image = || f32(&[2, 16, 14, 14]);
    let convolution = Convolution::new(2).with_pads([1, 1], [1, 1]);
    let pooling = Pooling::new(PoolingAlgorithm::Max, [2, 2]).with_strides([2, 2]);
    let builders = [
        PrimitiveDesc::builder(Op::Convolution(convolution))
            .src(image())
            .weights(f32(&[32, 16, 3, 3]))
            .dst(f32(&[2, 32, 14, 14])),
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(image()).dst(image()),
        PrimitiveDesc::builder(Op::Pooling(pooling)).src(image()).dst(f32(&[2, 16, 7, 7])),
        PrimitiveDesc::builder(Op::MatMul(MatMul)).src(f32(&[64, 128])).weights(f32(&[128, 96])),
        PrimitiveDesc::builder(Op::LayerNormalization(LayerNormalization::new(1, 1e-5))).src(f32(&[64, 96])),
        PrimitiveDesc::builder(Op::Softmax(Softmax::new(1))).src(f32(&[64, 96])),
        PrimitiveDesc::builder(Op::Reduction(Reduction::new(ReductionAlgorithm::Sum)))
            .src(f32(&[64, 96]))
            .dst(f32(&[64, 1])),
    ];
    builders.into_iter().map(PrimitiveDescBuilder::build).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
