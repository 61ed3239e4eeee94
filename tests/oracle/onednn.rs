//! One graph operation at a time on oneDNN's own CPU library, loaded at run time.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use anydnn::backend::{DataType, MemoryDesc};
use anydnn::graph::{AttrValue, Attrs, OpKind};
use anydnn::model::HostTensor;
use libloading::Library;

const CPU: c_int = 1;
const DEFAULT_STREAM: c_int = 1;
const VARIABLE: c_int = 1;
const DEBUG_POLICY: c_int = 2;
const MAX_DIMS: usize = 12;

type Dims = [i64; MAX_DIMS];
pub(super) type Handle = *mut c_void;

/// `dnnl_graph_logical_tensor_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct LogicalTensor {
    id: usize,
    ndims: c_int,
    dims: Dims,
    data_type: c_int,
    property: c_int,
    layout_type: c_int,
    strides: Dims,
}

/// `dnnl_version_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    hash: *const c_char,
    cpu_runtime: c_uint,
    gpu_runtime: c_uint,
}

/// The functions, each returning a status.
macro_rules! api {
    ($($field:ident: $name:ident($($arg:ty),*);)*) => {
        #[derive(Debug)]
        struct Api { $($field: unsafe extern "C" fn($($arg),*) -> c_int,)* }

        impl Api {
            fn of(library: &Library) -> Self {
                // SAFETY: the types are those of the published headers; the library stays loaded as long as the functions.
                unsafe { Self { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes()).unwrap(),)* } }
            }
        }
    };
}

api! {
    engine_create: dnnl_engine_create(*mut Handle, c_int, usize);
    engine_destroy: dnnl_engine_destroy(Handle);
    stream_create: dnnl_stream_create(*mut Handle, Handle, c_int);
    stream_wait: dnnl_stream_wait(Handle);
    stream_destroy: dnnl_stream_destroy(Handle);
    tensor_with_strides: dnnl_graph_logical_tensor_init_with_strides(
        *mut LogicalTensor, usize, c_int, i32, *const i64, *const i64, c_int);
    op_create: dnnl_graph_op_create(*mut Handle, usize, c_int, *const c_char);
    op_destroy: dnnl_graph_op_destroy(Handle);
    op_input: dnnl_graph_op_add_input(Handle, *const LogicalTensor);
    op_output: dnnl_graph_op_add_output(Handle, *const LogicalTensor);
    attr_f32: dnnl_graph_op_set_attr_f32(Handle, c_int, *const f32, usize);
    attr_bool: dnnl_graph_op_set_attr_bool(Handle, c_int, *const u8, usize);
    attr_s64: dnnl_graph_op_set_attr_s64(Handle, c_int, *const i64, usize);
    attr_str: dnnl_graph_op_set_attr_str(Handle, c_int, *const c_char, usize);
    graph_create: dnnl_graph_graph_create(*mut Handle, c_int);
    graph_destroy: dnnl_graph_graph_destroy(Handle);
    graph_add: dnnl_graph_add_op(Handle, Handle);
    graph_finalize: dnnl_graph_graph_finalize(Handle);
    graph_filter: dnnl_graph_graph_filter(Handle, c_int);
    partition_count: dnnl_graph_graph_get_partition_num(Handle, *mut usize);
    partitions: dnnl_graph_graph_get_partitions(Handle, usize, *mut Handle);
    partition_destroy: dnnl_graph_partition_destroy(Handle);
    is_supported: dnnl_graph_partition_is_supported(Handle, *mut u8);
    compiled_create: dnnl_graph_compiled_partition_create(*mut Handle, Handle);
    compile: dnnl_graph_partition_compile(
        Handle, Handle, usize, *const *const LogicalTensor, usize, *const *const LogicalTensor, Handle);
    execute: dnnl_graph_compiled_partition_execute(Handle, Handle, usize, *const Handle, usize, *const Handle);
    compiled_destroy: dnnl_graph_compiled_partition_destroy(Handle);
    tensor_create: dnnl_graph_tensor_create(*mut Handle, *const LogicalTensor, Handle, *mut c_void);
    tensor_destroy: dnnl_graph_tensor_destroy(Handle);
}

/// A handle with the function that ends it.
pub(super) struct Owned {
    pub(super) handle: Handle,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
}

impl Owned {
    pub(super) fn new(
        what: &str,
        destroy: unsafe extern "C" fn(Handle) -> c_int,
        make: impl FnOnce(*mut Handle) -> c_int,
    ) -> Result<Self, String> {
        let mut handle = null_mut();
        done(what, make(&raw mut handle))?;
        Ok(Self { handle, destroy })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the handle is alive and given up here.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// Memory that starts at a cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Line([u8; 64]);

impl Line {
    pub(super) fn words(&self) -> impl Iterator<Item = u32> + use<> {
        let bytes = self.0;
        (0..16).map(move |i| {
            u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
        })
    }
}

/// The library with a CPU engine and a stream.
pub struct OneDnn {
    // Fields end in this order: the library last.
    stream: Owned,
    engine: Owned,
    api: Api,
    _library: Library,
}

impl OneDnn {
    pub fn load(path: &Path) -> Self {
        // SAFETY: oneDNN's library may be loaded anywhere.
        let library = unsafe { Library::new(path) }.unwrap();
        let api = Api::of(&library);
        // SAFETY: the function is that of the published header, and its answer stays.
        let version =
            unsafe { *library.get::<unsafe extern "C" fn() -> *const Version>(b"dnnl_version\0").unwrap()() };
        assert!(version.cpu_runtime != 0, "{version:?} of {} computes nothing on CPUs", path.display());
        // SAFETY: the handles are places to write, and the engine lives.
        let engine = Owned::new("engine", api.engine_destroy, |e| unsafe { (api.engine_create)(e, CPU, 0) });
        let engine = engine.unwrap();
        // SAFETY: as before.
        let stream = Owned::new("stream", api.stream_destroy, |s| unsafe {
            (api.stream_create)(s, engine.handle, DEFAULT_STREAM)
        });
        Self { stream: stream.unwrap(), engine, api, _library: library }
    }

    /// What an operation makes of dense inputs; why not, where the library does not take it.
    pub fn evaluate(
        &self,
        kind: OpKind,
        attrs: &Attrs,
        inputs: &[HostTensor],
        outputs: &[MemoryDesc],
    ) -> Result<Vec<HostTensor>, String> {
        let api = &self.api;
        let ins: Vec<_> = inputs.iter().enumerate().map(|(i, t)| self.logical(i, t.desc())).collect();
        let outs: Vec<_> = outputs.iter().enumerate().map(|(i, d)| self.logical(100 + i, d)).collect();
        let described = self.describe(kind, attrs, &ins, &outs)?;
        // SAFETY: every handle below is alive, counts are those of the arrays, and places to write are there.
        unsafe {
            let graph = Owned::new("graph", api.graph_destroy, |g| (api.graph_create)(g, CPU))?;
            done("add", (api.graph_add)(graph.handle, described.handle))?;
            done("finalize", (api.graph_finalize)(graph.handle))?;
            done("filter", (api.graph_filter)(graph.handle, DEBUG_POLICY))?;
            let mut count = 0;
            done("count", (api.partition_count)(graph.handle, &raw mut count))?;
            if count != 1 {
                return Err(format!("{count} partitions"));
            }
            let partition =
                Owned::new("partitions", api.partition_destroy, |p| (api.partitions)(graph.handle, 1, p))?;
            let mut supported = 0;
            done("support", (api.is_supported)(partition.handle, &raw mut supported))?;
            if supported == 0 {
                return Err("not supported".to_owned());
            }
            let compiled =
                Owned::new("compiled", api.compiled_destroy, |c| (api.compiled_create)(c, partition.handle))?;
            let pointers = |tensors: &[LogicalTensor]| -> Vec<*const LogicalTensor> {
                tensors.iter().map(std::ptr::from_ref).collect()
            };
            let (reads, writes) = (pointers(&ins), pointers(&outs));
            done(
                "compile",
                (api.compile)(
                    partition.handle,
                    compiled.handle,
                    reads.len(),
                    reads.as_ptr(),
                    writes.len(),
                    writes.as_ptr(),
                    self.engine.handle,
                ),
            )?;
            let mut given: Vec<_> = inputs.iter().map(|t| lines(t.bytes())).collect();
            let mut made: Vec<_> = outputs.iter().map(|d| lines(&vec![0xA5; d.size()])).collect();
            let bind = |logical: &[LogicalTensor], memory: &mut [Vec<Line>]| {
                let tensors = logical.iter().zip(memory).map(|(tensor, memory)| {
                    Owned::new("tensor", api.tensor_destroy, |t| {
                        (api.tensor_create)(t, tensor, self.engine.handle, memory.as_mut_ptr().cast())
                    })
                });
                tensors.collect::<Result<Vec<_>, _>>()
            };
            let (sources, results) = (bind(&ins, &mut given)?, bind(&outs, &mut made)?);
            let handles = |tensors: &[Owned]| tensors.iter().map(|t| t.handle).collect::<Vec<_>>();
            let (sources, results) = ((handles(&sources), sources), (handles(&results), results));
            let run = (api.execute)(
                compiled.handle,
                self.stream.handle,
                sources.0.len(),
                sources.0.as_ptr(),
                results.0.len(),
                results.0.as_ptr(),
            );
            done("execute", run)?;
            done("wait", (api.stream_wait)(self.stream.handle))?;
            let made = outputs.iter().zip(&made).map(|(desc, memory)| {
                let bytes = memory.iter().flat_map(|line| line.0).take(desc.size()).collect();
                HostTensor::new(desc.clone(), bytes).map_err(|error| error.to_string())
            });
            made.collect()
        }
    }

    fn describe(
        &self,
        kind: OpKind,
        attrs: &Attrs,
        ins: &[LogicalTensor],
        outs: &[LogicalTensor],
    ) -> Result<Owned, String> {
        let api = &self.api;
        let name = CString::new(kind.name()).unwrap();
        // SAFETY: the operation is alive, and values and tensors are as many as told.
        unsafe {
            let made = Owned::new("operation", api.op_destroy, |o| {
                (api.op_create)(o, 0, number(kind), name.as_ptr())
            })?;
            for (name, value) in attrs.iter() {
                let number = attribute(name);
                let status = match value {
                    AttrValue::F32(v) => (api.attr_f32)(made.handle, number, v, 1),
                    AttrValue::F32s(v) => (api.attr_f32)(made.handle, number, v.as_ptr(), v.len()),
                    AttrValue::S64(v) => (api.attr_s64)(made.handle, number, v, 1),
                    AttrValue::S64s(v) => (api.attr_s64)(made.handle, number, v.as_ptr(), v.len()),
                    AttrValue::Bool(v) => (api.attr_bool)(made.handle, number, &u8::from(*v), 1),
                    AttrValue::String(v) => {
                        let word = CString::new(v.as_ref()).unwrap();
                        (api.attr_str)(made.handle, number, word.as_ptr(), v.len())
                    }
                };
                done(name, status)?;
            }
            for tensor in ins {
                done("input", (api.op_input)(made.handle, tensor))?;
            }
            for tensor in outs {
                done("output", (api.op_output)(made.handle, tensor))?;
            }
            Ok(made)
        }
    }

    fn logical(&self, id: usize, desc: &MemoryDesc) -> LogicalTensor {
        let mut tensor = LogicalTensor::default();
        let (mut dims, mut strides): (Dims, Dims) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        let mut stride = 1;
        for (axis, &dim) in desc.dims().iter().enumerate().rev() {
            (dims[axis], strides[axis]) = (dim as i64, stride);
            stride *= dim as i64;
        }
        let (number, rank) = (data_type(desc.data_type()), desc.rank() as i32);
        // SAFETY: the tensor is a place to write, and there are as many dimensions as the largest rank.
        let status = unsafe {
            (self.api.tensor_with_strides)(
                &raw mut tensor,
                id,
                number,
                rank,
                if rank == 0 { null() } else { dims.as_ptr() },
                if rank == 0 { null() } else { strides.as_ptr() },
                VARIABLE,
            )
        };
        if status != 0 {
            // A scalar has nothing to point to.
            tensor = LogicalTensor {
                id,
                ndims: rank,
                dims,
                data_type: number,
                property: VARIABLE,
                layout_type: 2,
                strides,
            };
        }
        tensor
    }
}

pub(super) fn done(what: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what}: status {status}")) }
}

pub(super) fn lines(bytes: &[u8]) -> Vec<Line> {
    let mut lines = vec![Line([0; 64]); bytes.len() / 64 + 1];
    for (line, part) in lines.iter_mut().zip(bytes.chunks(64)) {
        line.0[..part.len()].copy_from_slice(part);
    }
    lines
}

/// The number of a kind in `dnnl_graph_op_kind_t`.
fn number(kind: OpKind) -> c_int {
    OpKind::ALL.iter().position(|&other| other == kind).unwrap() as c_int
}

/// The number of a type in `dnnl_data_type_t`.
fn data_type(of: DataType) -> c_int {
    match of {
        DataType::F16 => 1,
        DataType::BF16 => 2,
        DataType::F32 => 3,
        DataType::S32 => 4,
        DataType::S8 => 5,
        DataType::U8 => 6,
        DataType::F64 => 7,
        DataType::Boolean => 8,
        DataType::F8E5M2 => 9,
        DataType::F8E4M3 => 10,
        DataType::S4 => 11,
        DataType::U4 => 12,
        DataType::S64 => 16,
        other => panic!("{other} is in no case"),
    }
}

/// The number of an attribute in `dnnl_graph_op_attr_t`.
fn attribute(name: &str) -> c_int {
    const ALL: [(c_int, &[&str]); 6] = [
        (0x1, &["alpha", "beta", "epsilon", "max", "min", "momentum"]),
        (0x20, &["scales"]),
        (0x30, &["axis", "begin_norm_axis", "groups"]),
        (
            0x40,
            &[
                "axes",
                "dilations",
                "dst_shape",
                "kernel",
                "order",
                "output_padding",
                "pads_begin",
                "pads_end",
                "shape",
                "sizes",
                "src_shape",
                "strides",
                "weights_shape",
                "zps",
                "group_shape",
            ],
        ),
        (
            0x60,
            &[
                "exclude_pad",
                "keep_dims",
                "keep_stats",
                "per_channel_broadcast",
                "special_zero",
                "transpose_a",
                "transpose_b",
                "use_affine",
                "use_dst",
            ],
        ),
        (
            0x80,
            &[
                "auto_broadcast",
                "auto_pad",
                "coordinate_transformation_mode",
                "data_format",
                "mode",
                "qtype",
                "rounding_type",
                "weights_format",
                "accumulation_mode",
            ],
        ),
    ];
    let found = ALL.iter().find_map(|(first, names)| {
        names.iter().position(|known| *known == name).map(|position| first + position as c_int)
    });
    found.unwrap_or_else(|| panic!("attribute {name}"))
}
