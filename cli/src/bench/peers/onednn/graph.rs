//! A case as a graph for oneDNN's graph API: fused partitions with layouts of its choice between them.

use std::collections::HashMap;
use std::ffi::{CString, c_int};

use anydnn::backend::MemoryDesc;
use anydnn::graph::{AttrValue, Graph, Op, OpKind, Property, TensorId};
use anydnn::model::HostTensor;

use super::super::server::Refusal;
use super::api::Handle;
use super::data_type;
use super::graph_api::{ANY, CONSTANT, CPU, FUSION, LogicalTensor, STRIDED, VARIABLE};
use super::library::{Lib, Line, Owned, done, lines};
use crate::bench::data::Tensor;

/// MiB that prepared constants may take.
const CONSTANTS: usize = 16 << 10;

/// Compiled partitions with their tensors for every set of inputs.
pub(in super::super) struct LoadedGraph {
    library: &'static Lib,
    partitions: Vec<Partition>,
    sets: usize,
    next: usize,
    /// Outputs of the first set: their place among the memories, and what they are.
    results: Vec<(usize, MemoryDesc)>,
    // Tensors end before their bytes.
    _tensors: Vec<Owned>,
    memories: Vec<Vec<Line>>,
    pub(super) note: String,
}

/// A compiled partition with its arguments for every set.
struct Partition {
    compiled: Owned,
    inputs: Vec<Vec<Handle>>,
    outputs: Vec<Vec<Handle>>,
}

impl LoadedGraph {
    pub(super) fn run(&mut self) -> Result<(), String> {
        let api = &self.library.graph;
        for partition in &self.partitions {
            let (inputs, outputs) = (&partition.inputs[self.next], &partition.outputs[self.next]);
            // SAFETY: everything lives, and counts are those of the arrays.
            let status = unsafe {
                (api.execute)(
                    partition.compiled.handle,
                    self.library.stream,
                    inputs.len(),
                    inputs.as_ptr(),
                    outputs.len(),
                    outputs.as_ptr(),
                )
            };
            done("execute", status)?;
        }
        self.next = (self.next + 1) % self.sets;
        Ok(())
    }

    pub(super) fn outputs(&mut self) -> Result<Vec<f32>, String> {
        self.next = 0;
        self.run()?;
        self.library.wait()?;
        let mut values = Vec::new();
        for (place, desc) in &self.results {
            let bytes =
                self.memories[*place].iter().flat_map(Line::bytes).copied().take(desc.size()).collect();
            values.extend(HostTensor::new(desc.clone(), bytes).map_err(|error| error.to_string())?.to_f32s());
        }
        Ok(values)
    }
}

/// Partitions and compiles a graph, and makes its tensors.
pub(super) fn load(
    library: &'static Lib,
    graph: &Graph,
    given: &[Tensor],
    sets: usize,
) -> Result<LoadedGraph, Refusal> {
    let api = &library.graph;
    // SAFETY: a plain number is set.
    unsafe { (api.constant_capacity)(CPU, CONSTANTS) };
    let parts = partitions(library, graph)?;
    let mut compiled = Vec::new();
    // What each tensor became when it was compiled.
    let mut known: HashMap<usize, LogicalTensor> = HashMap::new();
    for part in &parts {
        let (inputs, mut outputs) =
            (ports(part, api.input_count, api.inputs)?, ports(part, api.output_count, api.outputs)?);
        let inputs =
            inputs.iter().map(|t| known.get(&t.id).map_or_else(|| described(graph, t.id), |t| Ok(*t)));
        let inputs: Vec<LogicalTensor> = inputs.collect::<Result<_, _>>()?;
        for output in &mut outputs {
            let id = TensorId(output.id as u64);
            *output = described(graph, output.id)?;
            if !graph.outputs().contains(&id) {
                output.layout_type = ANY;
                output.strides = Default::default();
            }
        }
        // SAFETY: the partition and the engine live, counts are those of the arrays, and the place to write is there.
        let made = unsafe {
            let made = library.make("compiled partition", api.compiled_destroy, |c| {
                (api.compiled_create)(c, part.handle)
            })?;
            let pointers = |list: &[LogicalTensor]| list.iter().map(std::ptr::from_ref).collect::<Vec<_>>();
            let (reads, writes) = (pointers(&inputs), pointers(&outputs));
            let status = (api.compile)(
                part.handle,
                made.handle,
                reads.len(),
                reads.as_ptr(),
                writes.len(),
                writes.as_ptr(),
                library.engine,
            );
            done("compile", status).map_err(Refusal::Failed)?;
            made
        };
        for output in &mut outputs {
            // SAFETY: the compiled partition lives, and the tensor is a place to write.
            let status = unsafe { (api.compiled_tensor)(made.handle, output.id, output) };
            done("layout", status).map_err(Refusal::Failed)?;
            known.insert(output.id, *output);
        }
        for input in &inputs {
            known.insert(input.id, *input);
        }
        compiled.push((made, inputs, outputs));
    }
    let note = format!("{} partitions of {} operations", compiled.len(), graph.ops().len());
    let mut store = Store { library, tensors: Vec::new(), memories: Vec::new(), found: HashMap::new() };
    let mut ready = Vec::new();
    for (made, inputs, outputs) in compiled {
        let mut args = |list: &[LogicalTensor], set: usize| {
            list.iter().map(|tensor| store.tensor(tensor, set, given)).collect::<Result<Vec<_>, _>>()
        };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for set in 0..sets {
            reads.push(args(&inputs, set)?);
            writes.push(args(&outputs, set)?);
        }
        ready.push(Partition { compiled: made, inputs: reads, outputs: writes });
    }
    let mut results = Vec::new();
    for &id in graph.outputs() {
        let place = store.found.get(&(id.0 as usize, 0)).map(|&(place, _)| place);
        let desc = graph.tensor(id).and_then(|tensor| tensor.memory_desc().ok());
        let both = place.zip(desc).ok_or_else(|| Refusal::Failed(format!("no output {id}")))?;
        results.push((both.0, both.1.to_row_major()));
    }
    let Store { tensors, memories, .. } = store;
    Ok(LoadedGraph { library, partitions: ready, sets, next: 0, results, _tensors: tensors, memories, note })
}

fn partitions(library: &Lib, graph: &Graph) -> Result<Vec<Owned>, Refusal> {
    let api = &library.graph;
    // SAFETY: the handles below live, and arrays are as long as told.
    unsafe {
        let whole = library.make("graph", api.graph_destroy, |g| (api.graph_create)(g, CPU))?;
        for (number, op) in graph.ops().iter().enumerate() {
            let made = operation(library, graph, number, op)?;
            let status = (api.graph_add)(whole.handle, made.handle);
            done(op.kind.name(), status).map_err(Refusal::Unsupported)?;
        }
        let step = |what: &str, status: c_int| done(what, status).map_err(Refusal::Unsupported);
        step("finalize", (api.graph_finalize)(whole.handle))?;
        step("filter", (api.graph_filter)(whole.handle, FUSION))?;
        let mut count = 0;
        step("count", (api.partition_count)(whole.handle, &raw mut count))?;
        let mut handles = vec![std::ptr::null_mut(); count];
        step("partitions", (api.partitions)(whole.handle, count, handles.as_mut_ptr()))?;
        let parts: Vec<Owned> =
            handles.into_iter().map(|handle| Owned { handle, destroy: api.partition_destroy }).collect();
        for part in &parts {
            let mut supported = 0;
            step("support", (api.is_supported)(part.handle, &raw mut supported))?;
            if supported == 0 {
                return Err(Refusal::Unsupported("a partition is not supported".into()));
            }
        }
        Ok(parts)
    }
}

fn operation(library: &Lib, graph: &Graph, number: usize, op: &Op) -> Result<Owned, Refusal> {
    let api = &library.graph;
    let text = |text: &str| CString::new(text).map_err(|error| Refusal::Failed(error.to_string()));
    let name = text(&op.name)?;
    let kind = OpKind::ALL.iter().position(|&kind| kind == op.kind).unwrap_or_default() as c_int;
    // SAFETY: the operation lives, and values and tensors are as many as told.
    unsafe {
        let made = library
            .make(op.kind.name(), api.op_destroy, |o| (api.op_create)(o, number, kind, name.as_ptr()))?;
        for (name, value) in op.attrs.iter() {
            let Some(number) = attribute(name) else { continue };
            let status = match value {
                AttrValue::F32(v) => (api.attr_f32)(made.handle, number, v, 1),
                AttrValue::F32s(v) => (api.attr_f32)(made.handle, number, v.as_ptr(), v.len()),
                AttrValue::S64(v) => (api.attr_s64)(made.handle, number, v, 1),
                AttrValue::S64s(v) => (api.attr_s64)(made.handle, number, v.as_ptr(), v.len()),
                AttrValue::Bool(v) => (api.attr_bool)(made.handle, number, &u8::from(*v), 1),
                AttrValue::String(v) => (api.attr_str)(made.handle, number, text(v)?.as_ptr(), v.len()),
            };
            done(name, status).map_err(Refusal::Failed)?;
        }
        for (ids, add) in [(&op.inputs, api.op_input), (&op.outputs, api.op_output)] {
            for id in ids {
                let tensor = described(graph, id.0 as usize)?;
                done("operand", add(made.handle, &raw const tensor)).map_err(Refusal::Failed)?;
            }
        }
        Ok(made)
    }
}

/// A tensor of the graph, dense and row-major.
fn described(graph: &Graph, id: usize) -> Result<LogicalTensor, Refusal> {
    let failed = |error: String| Refusal::Failed(error);
    let tensor = graph.tensor(TensorId(id as u64)).ok_or_else(|| failed(format!("no tensor {id}")))?;
    let desc = tensor.memory_desc().map_err(|error| failed(error.to_string()))?;
    let property = if tensor.property == Property::Constant { CONSTANT } else { VARIABLE };
    let mut told = LogicalTensor {
        id,
        ndims: desc.rank() as c_int,
        data_type: data_type(desc.data_type()).map_err(Refusal::Unsupported)?,
        property,
        layout_type: STRIDED,
        ..LogicalTensor::default()
    };
    let mut stride = 1;
    for (axis, &dim) in desc.dims().iter().enumerate().rev() {
        (told.dims[axis], told.strides[axis]) = (dim as i64, stride);
        stride *= dim as i64;
    }
    Ok(told)
}

type Count = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Ports = unsafe extern "C" fn(Handle, usize, *mut LogicalTensor) -> c_int;

fn ports(part: &Owned, count: Count, ports: Ports) -> Result<Vec<LogicalTensor>, Refusal> {
    let mut number = 0;
    // SAFETY: the partition lives, and the number is a place to write.
    done("ports", unsafe { count(part.handle, &raw mut number) }).map_err(Refusal::Failed)?;
    let mut list = vec![LogicalTensor::default(); number];
    // SAFETY: as above, and the list is as long as told.
    done("ports", unsafe { ports(part.handle, number, list.as_mut_ptr()) }).map_err(Refusal::Failed)?;
    Ok(list)
}

/// Tensors with their bytes, each made once for every set; constants and what lies between partitions once for all.
struct Store {
    library: &'static Lib,
    tensors: Vec<Owned>,
    memories: Vec<Vec<Line>>,
    /// The place of its bytes and the tensor, by identity and set.
    found: HashMap<(usize, usize), (usize, Handle)>,
}

impl Store {
    fn tensor(&mut self, tensor: &LogicalTensor, set: usize, given: &[Tensor]) -> Result<Handle, Refusal> {
        let told = given.iter().find(|given| given.id as usize == tensor.id);
        let set = if told.is_some_and(|told| told.constant) { 0 } else { set };
        if let Some(&(_, handle)) = self.found.get(&(tensor.id, set)) {
            return Ok(handle);
        }
        let api = &self.library.graph;
        let mut size = 0;
        // SAFETY: the tensor lives, and the size is a place to write.
        done("size", unsafe { (api.tensor_size)(tensor, &raw mut size) }).map_err(Refusal::Failed)?;
        let mut bytes = match told {
            Some(told) => {
                let values = told.values(set).map_err(|error| Refusal::Failed(error.to_string()))?;
                lines(values.bytes(), size.max(values.bytes().len()))
            }
            None => lines(&[], size),
        };
        // SAFETY: the bytes are as many as the tensor's, and live as long.
        let made = self.library.make("tensor", api.tensor_destroy, |t| unsafe {
            (api.tensor_create)(t, tensor, self.library.engine, bytes.as_mut_ptr().cast())
        })?;
        let handle = made.handle;
        self.found.insert((tensor.id, set), (self.memories.len(), handle));
        self.tensors.push(made);
        self.memories.push(bytes);
        Ok(handle)
    }
}

/// The number of an attribute in `dnnl_graph_op_attr_t`.
fn attribute(name: &str) -> Option<c_int> {
    Some(match name {
        "alpha" => 0x1,
        "beta" => 0x2,
        "epsilon" => 0x3,
        "max" => 0x4,
        "min" => 0x5,
        "momentum" => 0x6,
        "scales" => 0x20,
        "axis" => 0x30,
        "begin_norm_axis" => 0x31,
        "groups" => 0x32,
        "axes" => 0x40,
        "dilations" => 0x41,
        "kernel" => 0x43,
        "order" => 0x44,
        "pads_begin" => 0x46,
        "pads_end" => 0x47,
        "shape" => 0x48,
        "strides" => 0x4b,
        "zps" => 0x4d,
        "exclude_pad" => 0x60,
        "keep_dims" => 0x61,
        "keep_stats" => 0x62,
        "per_channel_broadcast" => 0x63,
        "special_zero" => 0x64,
        "transpose_a" => 0x65,
        "transpose_b" => 0x66,
        "use_affine" => 0x67,
        "auto_broadcast" => 0x80,
        "auto_pad" => 0x81,
        "data_format" => 0x83,
        "mode" => 0x84,
        "qtype" => 0x85,
        "rounding_type" => 0x86,
        "weights_format" => 0x87,
        _ => return None,
    })
}
