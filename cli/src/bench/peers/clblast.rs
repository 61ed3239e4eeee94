//! `CLBlast` on the same OpenCL device: matrix products without anything behind them.

use std::ffi::{c_int, c_void};
use std::process::Command;
use std::ptr::null_mut;

use anydnn::backend::{DataType, Engine, Event, Memory as _, MemoryDesc, MemoryKind, Stream, StreamDesc};
use anydnn::select::{AnyEngine, AnyMemory, AnyStream, Selector};
use libloading::Library;
use serde_json::Value;

use super::server::{Refusal, Serve};
use crate::bench::data::Tensor;
use crate::bench::notation;
use crate::bench::spec::Work;
use crate::failure::{Code, Failure};

const LIBRARY: &str = "libclblast.so.1";
const ROW_MAJOR: c_int = 101;
const AS_IT_IS: c_int = 111;

type Raw = *mut c_void;
type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    usize,
    usize,
    usize,
    f32,
    Raw,
    usize,
    usize,
    Raw,
    usize,
    usize,
    f32,
    Raw,
    usize,
    usize,
    *mut Raw,
    *mut Raw,
) -> c_int;
type Batched = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    usize,
    usize,
    usize,
    f32,
    Raw,
    usize,
    usize,
    usize,
    Raw,
    usize,
    usize,
    usize,
    f32,
    Raw,
    usize,
    usize,
    usize,
    usize,
    *mut Raw,
    *mut Raw,
) -> c_int;

/// This program as the peer, on the device that it is compared with.
pub(super) fn command(device: &str) -> Result<Command, Failure> {
    let library = std::env::var("ANYDNN_CLBLAST_LIBRARY").unwrap_or_else(|_| LIBRARY.to_owned());
    // SAFETY: CLBlast's library may be loaded anywhere.
    if let Err(error) = unsafe { Library::new(&library) } {
        let help =
            "on Debian: sudo apt-get install libclblast1; or set ANYDNN_CLBLAST_LIBRARY to libclblast.so.1";
        return Err(Failure::new(Code::Unavailable, format!("peer clblast: {error}"), help));
    }
    let own = std::env::current_exe().map_err(|error| anydnn::backend::Error::io("this program", error))?;
    let mut command = Command::new(own);
    command.args(["bench-peer", "clblast", &library]).env(Selector::VARIABLE, device);
    Ok(command)
}

/// The library with an engine of ours for buffers and a queue.
pub(super) struct ClBlast {
    case: Option<Product>,
    single: Sgemm,
    batched: Batched,
    engine: AnyEngine,
    stream: AnyStream,
    _library: Library,
}

/// A product with its buffers for every set.
struct Product {
    sizes: [usize; 4],
    shared_weights: bool,
    sets: Vec<[AnyMemory; 3]>,
    next: usize,
}

impl ClBlast {
    pub(super) fn load(path: &str) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        // SAFETY: CLBlast's library may be loaded anywhere.
        let library = unsafe { Library::new(path) }.map_err(|error| text(&error))?;
        // SAFETY: the types are those of the published header, and the library stays as long as the functions.
        let (single, batched) = unsafe {
            (
                *library.get::<Sgemm>(b"CLBlastSgemm\0").map_err(|error| text(&error))?,
                *library.get::<Batched>(b"CLBlastSgemmStridedBatched\0").map_err(|error| text(&error))?,
            )
        };
        let engine = Selector::from_env().and_then(|s| s.select()).map_err(|error| text(&error))?.engine;
        if engine.as_opencl().is_none() {
            return Err(format!("{} is no OpenCL device", engine.device().name));
        }
        let stream = engine.create_stream(&StreamDesc::default()).map_err(|error| text(&error))?;
        Ok(Self { case: None, single, batched, engine, stream, _library: library })
    }

    fn load_case(&self, case: &Value) -> Result<Product, Refusal> {
        let refused = |why: &str| Refusal::Unsupported(why.to_owned());
        let spec = case["case"].as_str().and_then(|text| notation::parse(text).ok());
        let spec = spec.ok_or_else(|| refused("only matrix products"))?;
        let Work::MatMul { src, weights } = &spec.work else { return Err(refused("only matrix products")) };
        if spec.data_type != DataType::F32 || !spec.post_ops.is_empty() || spec.weights.is_some() {
            return Err(refused("only f32 and without post-operations"));
        }
        let rank = src.len();
        let (m, k, n) = (src[rank - 2], src[rank - 1], weights[weights.len() - 1]);
        let batch: usize = src[..rank - 2].iter().product();
        let failed = |error: anydnn::backend::Error| Refusal::Failed(error.to_string());
        let tensors: Option<Vec<Tensor>> =
            case["tensors"].as_array().and_then(|list| list.iter().map(Tensor::from_json).collect());
        let tensors = tensors.unwrap_or_default();
        let filled = |name: &str, set: usize| {
            let tensor = tensors.iter().find(|tensor| tensor.name == name);
            let tensor = tensor.ok_or_else(|| Refusal::Failed(format!("no tensor {name}")))?;
            let memory = self.memory(&tensor.dims)?;
            let set = if tensor.constant { 0 } else { set };
            let values = tensor.values(set).map_err(failed)?;
            self.stream
                .write(&memory, 0, values.bytes(), &[])
                .and_then(|event| event.wait())
                .map_err(failed)?;
            Ok(memory)
        };
        let sets = (0..case["sets"].as_u64().unwrap_or(1) as usize)
            .map(|set| Ok([filled("src", set)?, filled("weights", set)?, self.memory(&spec.result())?]))
            .collect::<Result<_, Refusal>>()?;
        Ok(Product { sizes: [batch, m, n, k], shared_weights: weights.len() == 2, sets, next: 0 })
    }

    fn memory(&self, dims: &[usize]) -> Result<AnyMemory, Refusal> {
        let made = self.engine.create_memory(&MemoryDesc::new(dims, DataType::F32), MemoryKind::Buffer);
        made.map_err(|error| Refusal::Failed(error.to_string()))
    }
}

impl Serve for ClBlast {
    fn version(&self) -> String {
        format!("CLBlast on {}", self.engine.device().name)
    }

    fn prepare(&mut self, case: &Value) -> Result<String, Refusal> {
        self.case = None;
        self.case = Some(self.load_case(case)?);
        Ok("GEMM".to_owned())
    }

    fn run(&mut self) -> Result<(), String> {
        let case = self.case.as_mut().ok_or("no case is prepared")?;
        let stream = self.stream.as_opencl().ok_or("no queue")?;
        let mut queue: Raw = stream.raw_queue();
        let raw =
            |memory: &AnyMemory| memory.as_opencl().map_or(null_mut(), anydnn_opencl::OpenClMemory::raw_mem);
        let [a, b, c] = &case.sets[case.next];
        let (a, b, c) = (raw(a), raw(b), raw(c));
        case.next = (case.next + 1) % case.sets.len();
        let [batch, m, n, k] = case.sizes;
        // A shared factor makes all rows those of one product.
        let (batch, m) = if case.shared_weights { (1, batch * m) } else { (batch, m) };
        // SAFETY: the buffers and the queue live, and the buffers hold as many elements as the sizes say.
        let status = unsafe {
            if batch == 1 {
                (self.single)(
                    ROW_MAJOR,
                    AS_IT_IS,
                    AS_IT_IS,
                    m,
                    n,
                    k,
                    1.0,
                    a,
                    0,
                    k,
                    b,
                    0,
                    n,
                    0.0,
                    c,
                    0,
                    n,
                    &raw mut queue,
                    null_mut(),
                )
            } else {
                (self.batched)(
                    ROW_MAJOR,
                    AS_IT_IS,
                    AS_IT_IS,
                    m,
                    n,
                    k,
                    1.0,
                    a,
                    0,
                    k,
                    m * k,
                    b,
                    0,
                    n,
                    k * n,
                    0.0,
                    c,
                    0,
                    n,
                    m * n,
                    batch,
                    &raw mut queue,
                    null_mut(),
                )
            }
        };
        if status == 0 { Ok(()) } else { Err(format!("CLBlast: status {status}")) }
    }

    fn wait(&mut self) -> Result<(), String> {
        self.stream.wait().map_err(|error| error.to_string())
    }

    fn outputs(&mut self) -> Result<Vec<f32>, String> {
        if let Some(case) = &mut self.case {
            case.next = 0;
        }
        self.run()?;
        self.wait()?;
        let case = self.case.as_ref().ok_or("no case is prepared")?;
        let result = &case.sets[0][2];
        let mut bytes = vec![0; result.desc().size()];
        self.stream.read(result, 0, &mut bytes, &[]).map_err(|error| error.to_string())?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
    }
}
