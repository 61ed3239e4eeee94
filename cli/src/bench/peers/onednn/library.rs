//! The library with an engine and a stream, and its objects with their ends.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use libloading::Library;

use super::super::server::Refusal;
use super::api::{Api, Dims, ExecArg, Handle, MAX_DIMS};
use super::graph_api::GraphApi;

const CPU: c_int = 1;
const IN_ORDER: u32 = 1;
const ANY: c_int = 1;
const UNIMPLEMENTED: c_int = 3;
const QUERY_IMPLEMENTATION: c_int = 8;
const QUERY_ARG: c_int = 255;
const FROM: c_int = 1;
const TO: c_int = 17;

/// The loaded library; it is never unloaded.
#[derive(Debug)]
pub(super) struct Lib {
    pub(super) api: Api,
    pub(super) graph: GraphApi,
    pub(super) engine: Handle,
    pub(super) stream: Handle,
    _library: Library,
}

/// A handle with the function that ends it.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) handle: Handle,
    pub(super) destroy: unsafe extern "C" fn(Handle) -> c_int,
}

/// A memory with its bytes.
#[derive(Debug)]
pub(super) struct Memory {
    // The memory ends before its bytes.
    pub(super) object: Owned,
    pub(super) bytes: Vec<Line>,
}

/// Memory that starts at a cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Line([u8; 64]);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the handle is alive and given up here.
        unsafe { (self.destroy)(self.handle) };
    }
}

impl Lib {
    pub(super) fn load(path: &str) -> Result<Self, String> {
        // SAFETY: oneDNN's library may be loaded anywhere.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        let api = Api::of(&library).map_err(|error| error.to_string())?;
        let graph = GraphApi::of(&library).map_err(|error| error.to_string())?;
        let (mut engine, mut stream) = (null_mut(), null_mut());
        // SAFETY: the handles are places to write.
        done("engine", unsafe { (api.engine_create)(&raw mut engine, CPU, 0) })?;
        // SAFETY: as above, and the engine lives.
        done("stream", unsafe { (api.stream_create)(&raw mut stream, engine, IN_ORDER) })?;
        Ok(Self { api, graph, engine, stream, _library: library })
    }

    pub(super) fn version(&self) -> String {
        // SAFETY: the answer is never freed.
        let version = unsafe { &*(self.api.version)() };
        let runtime = match version.cpu_runtime {
            1 => "sequential",
            2 => "OpenMP",
            4 => "TBB",
            8 => "threadpool",
            512 => "SYCL",
            _ => "another runtime",
        };
        format!("oneDNN {}.{}.{}, CPU ({runtime})", version.major, version.minor, version.patch)
    }

    pub(super) fn wait(&self) -> Result<(), String> {
        // SAFETY: the stream lives.
        done("wait", unsafe { (self.api.stream_wait)(self.stream) })
    }

    /// An object of the library; what it does not implement is told apart.
    pub(super) fn make(
        &self,
        what: &str,
        destroy: unsafe extern "C" fn(Handle) -> c_int,
        make: impl FnOnce(*mut Handle) -> c_int,
    ) -> Result<Owned, Refusal> {
        let mut handle = null_mut();
        match make(&raw mut handle) {
            0 => Ok(Owned { handle, destroy }),
            UNIMPLEMENTED => Err(Refusal::Unsupported(format!("{what} is not implemented"))),
            status => Err(Refusal::Failed(format!("{what}: status {status}"))),
        }
    }

    /// A descriptor whose layout the library chooses.
    pub(super) fn any(&self, dims: &[usize], data_type: c_int) -> Result<Owned, Refusal> {
        let (rank, dims) = padded(dims);
        // SAFETY: the dimensions are as many as the largest rank.
        self.make("descriptor", self.api.md_destroy, |md| unsafe {
            (self.api.md_any)(md, rank, dims.as_ptr(), data_type, ANY)
        })
    }

    pub(super) fn strided(
        &self,
        dims: &[usize],
        strides: &[usize],
        data_type: c_int,
    ) -> Result<Owned, Refusal> {
        let (rank, dims) = padded(dims);
        let (_, strides) = padded(strides);
        // SAFETY: dimensions and strides are as many as the largest rank.
        self.make("descriptor", self.api.md_destroy, |md| unsafe {
            (self.api.md_strides)(md, rank, dims.as_ptr(), data_type, strides.as_ptr())
        })
    }

    /// Memory with these first bytes.
    pub(super) fn memory(&self, md: Handle, content: &[u8]) -> Result<Memory, Refusal> {
        // SAFETY: the descriptor lives.
        let size = unsafe { (self.api.md_size)(md) };
        if content.len() > size {
            return Err(Refusal::Failed(format!("{} bytes for a memory of {size}", content.len())));
        }
        let mut bytes = lines(content, size);
        // SAFETY: the bytes are at least as many as the descriptor's, and live as long as the memory.
        let object = self.make("memory", self.api.memory_destroy, |memory| unsafe {
            (self.api.memory_create)(memory, md, self.engine, bytes.as_mut_ptr().cast())
        })?;
        Ok(Memory { object, bytes })
    }

    /// The descriptor that a primitive wants for an argument; none where it has no such argument.
    pub(super) fn wanted(&self, pd: &Owned, arg: c_int) -> Result<Option<Owned>, Refusal> {
        // SAFETY: the description lives; what it returns is its own.
        let md = unsafe { (self.api.pd_query_md)(pd.handle, QUERY_ARG, arg) };
        if md.is_null() {
            return Ok(None);
        }
        // SAFETY: the description, and with it what it returned, lives.
        self.make("descriptor", self.api.md_destroy, |clone| unsafe { (self.api.md_clone)(clone, md) })
            .map(Some)
    }

    pub(super) fn implementation(&self, pd: &Owned) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the description lives, and the place to write is one for a pointer.
        let status =
            unsafe { (self.api.pd_query)(pd.handle, QUERY_IMPLEMENTATION, 0, (&raw mut name).cast()) };
        if status != 0 || name.is_null() {
            return "unnamed".to_owned();
        }
        // SAFETY: the name is a string that lives as long as the description.
        unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    pub(super) fn primitive(&self, pd: &Owned) -> Result<Owned, Refusal> {
        // SAFETY: the description lives.
        self.make("primitive", self.api.primitive_destroy, |p| unsafe {
            (self.api.primitive_create)(p, pd.handle)
        })
    }

    pub(super) fn execute(&self, primitive: &Owned, args: &[ExecArg]) -> Result<(), String> {
        // SAFETY: everything lives, and the count is that of the arguments.
        let status =
            unsafe { (self.api.execute)(primitive.handle, self.stream, args.len() as c_int, args.as_ptr()) };
        done("execute", status)
    }

    /// Copies into another layout or type, and waits.
    pub(super) fn reorder(&self, from: (&Owned, &Memory), to: (&Owned, &Memory)) -> Result<(), Refusal> {
        // SAFETY: descriptors and engine live; no attributes are given.
        let pd = self.make("reorder", self.api.pd_destroy, |pd| unsafe {
            (self.api.reorder)(pd, from.0.handle, self.engine, to.0.handle, self.engine, null_mut())
        })?;
        let primitive = self.primitive(&pd)?;
        let args =
            [(FROM, from.1), (TO, to.1)].map(|(arg, memory)| ExecArg { arg, memory: memory.object.handle });
        self.execute(&primitive, &args).and_then(|()| self.wait()).map_err(Refusal::Failed)
    }

    pub(super) fn equal(&self, a: &Owned, b: &Owned) -> bool {
        // SAFETY: both live.
        unsafe { (self.api.md_equal)(a.handle, b.handle) != 0 }
    }
}

impl Memory {
    /// The first bytes as f32.
    pub(super) fn f32s(&self, count: usize) -> Vec<f32> {
        let lines = self.bytes.iter().flat_map(|line| line.0.as_chunks::<4>().0);
        lines.take(count).map(|bytes| f32::from_ne_bytes(*bytes)).collect()
    }
}

impl Line {
    pub(super) fn bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

/// Room for `size` bytes, which begins with these.
pub(super) fn lines(content: &[u8], size: usize) -> Vec<Line> {
    let mut lines = vec![Line([0; 64]); size.div_ceil(64) + 1];
    for (line, part) in lines.iter_mut().zip(content.chunks(64)) {
        line.0[..part.len()].copy_from_slice(part);
    }
    lines
}

/// Strides of a row-major tensor.
pub(super) fn dense(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

pub(super) fn done(what: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what}: status {status}")) }
}

fn padded(numbers: &[usize]) -> (c_int, Dims) {
    let mut dims = [0; MAX_DIMS];
    for (dim, &number) in dims.iter_mut().zip(numbers) {
        *dim = number as i64;
    }
    (numbers.len() as c_int, dims)
}
