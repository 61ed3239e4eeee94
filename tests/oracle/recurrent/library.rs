//! Recurrent layers on oneDNN's own CPU library, loaded at run time.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::Path;
use std::ptr::null_mut;

use anydnn::backend::op::{Cell, Recurrent, RecurrentBackward as Backward};
use anydnn::backend::{Arg, DataType};
use libloading::Library;

use super::super::onednn::{Handle, Line, Owned, done, lines};
use super::api::{
    ANY, ARGUMENT, ATTENTION, Api, BIAS, BY_GATE_AND_UNIT, BY_UNIT, CPU, DIFF, DST, ExecArg, IN_ORDER,
    INITIAL_CELL, INITIAL_STATE, PROJECTION, SRC, STATE_WEIGHTS, WEIGHTS, WORKSPACE, number, number_of,
};
use super::layers::{Layer, Pass};

/// The library with a CPU engine and a stream.
pub(super) struct OneDnn {
    // Fields end in this order: the library last.
    stream: Owned,
    pub(super) engine: Owned,
    pub(super) api: Api,
    _library: Library,
}

/// Memory with its bytes.
struct Tensor {
    memory: Owned,
    bytes: Vec<Line>,
    elements: usize,
    data_type: DataType,
}

/// An operand as the library has it: its dimensions, its type, and values where it is no result.
struct Operand {
    md: Owned,
    dims: Vec<usize>,
    data_type: DataType,
    values: Vec<f64>,
}

/// What is known of a layer: operands by their numbers, and the memory of those that are there.
pub(super) struct Known<'a> {
    pub(super) layer: &'a Layer,
    operands: BTreeMap<c_int, Operand>,
    tensors: BTreeMap<c_int, Tensor>,
    pub(super) attr: Owned,
}

impl Known<'_> {
    /// The descriptor of an argument, null where there is none.
    pub(super) fn md(&self, number: c_int) -> Handle {
        self.operands.get(&number).map_or(null_mut(), |operand| operand.md.handle)
    }
}

impl OneDnn {
    pub(super) fn load(path: &Path) -> Self {
        // SAFETY: oneDNN's library may be loaded anywhere.
        let library = unsafe { Library::new(path) }.unwrap();
        let api = Api::of(&library);
        // SAFETY: the handles are places to write, and the engine lives.
        let engine = Owned::new("engine", api.engine_destroy, |e| unsafe { (api.engine_create)(e, CPU, 0) });
        let engine = engine.unwrap();
        // SAFETY: as before.
        let stream = Owned::new("stream", api.stream_destroy, |s| unsafe {
            (api.stream_create)(s, engine.handle, IN_ORDER)
        });
        Self { stream: stream.unwrap(), engine, api, _library: library }
    }

    /// The results of a layer in their order, computed in f32 but of layers of integers.
    pub(super) fn evaluate(&self, layer: &Layer, seed: u64) -> Result<Vec<Vec<f64>>, String> {
        let mut known = Known {
            layer,
            operands: self.operands(layer, seed)?,
            tensors: BTreeMap::new(),
            attr: self.attributes(layer, seed)?,
        };
        let forward = self.forward(&known)?;
        self.run(&mut known, forward.handle, |number| number < DIFF)?;
        if layer.gradients {
            let backward = self.backward(&known, forward.handle)?;
            self.run(&mut known, backward.handle, |_| true)?;
        }
        Ok(layer.results().into_iter().map(|(pass, arg)| known.result(pass, arg)).collect())
    }

    /// Makes the memory of those arguments that have none yet, and runs the primitive. Weights lie as it wants them.
    fn run(&self, known: &mut Known<'_>, pd: Handle, takes: impl Fn(c_int) -> bool) -> Result<(), String> {
        let api = &self.api;
        let numbers: Vec<c_int> = known.operands.keys().copied().filter(|&number| takes(number)).collect();
        for number in numbers {
            let operand = &known.operands[&number];
            let is_weight = matches!(number, WEIGHTS | STATE_WEIGHTS | PROJECTION);
            if !is_weight && known.tensors.contains_key(&number) {
                continue;
            }
            let tensor = if is_weight {
                self.reordered(known, operand, pd, number)?
            } else {
                self.tensor(operand.md.handle, operand.data_type, &operand.values, operand.count())?
            };
            known.tensors.insert(number, tensor);
        }
        if known.layer.gradients && !known.tensors.contains_key(&WORKSPACE) {
            // SAFETY: the description lives.
            let (md, size) = unsafe {
                let md = (api.query_md)(pd, ARGUMENT, WORKSPACE);
                (md, (api.md_size)(md))
            };
            known.tensors.insert(WORKSPACE, self.tensor(md, DataType::U8, &[], size)?);
        }
        self.execute(pd, known.tensors.iter().map(|(&number, tensor)| (number, tensor)))
    }

    /// The weights of a plain layout as a primitive wants them.
    fn reordered(
        &self,
        known: &Known<'_>,
        operand: &Operand,
        pd: Handle,
        number: c_int,
    ) -> Result<Tensor, String> {
        let (api, engine) = (&self.api, self.engine.handle);
        let plain = self.described(&operand.dims, DataType::F32)?;
        let from = self.tensor(plain.handle, DataType::F32, &operand.values, operand.count())?;
        // SAFETY: the descriptions live, and the wanted descriptor as long as the primitive's.
        unsafe {
            let wanted = (api.query_md)(pd, ARGUMENT, number);
            let size = (api.md_size)(wanted);
            let to = self.tensor(wanted, DataType::U8, &[], size)?;
            let reorder = Owned::new("reorder", api.pd_destroy, |own| {
                (api.reorder)(own, plain.handle, engine, wanted, engine, known.attr.handle)
            })?;
            self.execute(reorder.handle, [(SRC, &from), (DST, &to)].into_iter())?;
            Ok(to)
        }
    }

    fn execute<'a>(&self, pd: Handle, args: impl Iterator<Item = (c_int, &'a Tensor)>) -> Result<(), String> {
        let api = &self.api;
        let args: Vec<ExecArg> =
            args.map(|(arg, tensor)| ExecArg { arg, memory: tensor.memory.handle }).collect();
        // SAFETY: everything lives, and the count is that of the arguments.
        unsafe {
            let primitive =
                Owned::new("primitive", api.primitive_destroy, |own| (api.primitive_create)(own, pd))?;
            let count = args.len() as c_int;
            done("execute", (api.execute)(primitive.handle, self.stream.handle, count, args.as_ptr()))?;
            done("wait", (api.stream_wait)(self.stream.handle))
        }
    }

    fn attributes(&self, layer: &Layer, seed: u64) -> Result<Owned, String> {
        let api = &self.api;
        let scales = |arg: Arg| {
            let operands = layer.operands(Pass::Forward);
            let (_, dims) = operands.iter().find(|(own, _)| *own == arg)?;
            Some(layer.values(arg, dims, seed).into_iter().map(|value| value as f32).collect::<Vec<_>>())
        };
        // SAFETY: the attributes are written and live, and each count is that of its scales.
        unsafe {
            let attr = Owned::new("attributes", api.attr_destroy, |own| (api.attr_create)(own))?;
            if let Some(own) = layer.op.quantization {
                done("data", (api.data_qparams)(attr.handle, own.scale, own.shift))?;
            }
            if let Some(own) = scales(Recurrent::WEIGHTS_SCALES) {
                let count = own.len() as i64;
                done("weights", (api.weights_qparams)(attr.handle, count, BY_GATE_AND_UNIT, own.as_ptr()))?;
            }
            if let Some(own) = scales(Recurrent::PROJECTION_SCALES) {
                let count = own.len() as i64;
                done("projection", (api.projection_qparams)(attr.handle, count, BY_UNIT, own.as_ptr()))?;
            }
            Ok(attr)
        }
    }

    /// A descriptor row by row.
    fn described(&self, dims: &[usize], data_type: DataType) -> Result<Owned, String> {
        let api = &self.api;
        let extents: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let mut strides = vec![1; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i] * extents[i];
        }
        // SAFETY: dimensions and strides are as many as told.
        Owned::new("descriptor", api.md_destroy, |md| unsafe {
            (api.md_create)(md, dims.len() as c_int, extents.as_ptr(), number_of(data_type), strides.as_ptr())
        })
    }

    /// One whose layout the library chooses.
    fn open(&self, dims: &[usize], data_type: DataType) -> Result<Owned, String> {
        let extents: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        // SAFETY: dimensions are as many as told.
        Owned::new("descriptor", self.api.md_destroy, |md| unsafe {
            (self.api.md_open)(md, dims.len() as c_int, extents.as_ptr(), number_of(data_type), ANY)
        })
    }

    /// Memory of values, or of zeros where there are none.
    fn tensor(
        &self,
        md: Handle,
        data_type: DataType,
        values: &[f64],
        elements: usize,
    ) -> Result<Tensor, String> {
        let mut content = vec![0; data_type.bytes_for(elements)];
        for (i, value) in values.iter().enumerate() {
            data_type.write_at(*value, &mut content, i);
        }
        let mut bytes = lines(&content);
        // SAFETY: the descriptor lives; the bytes are as many as its and live as long as the memory.
        let memory = Owned::new("memory", self.api.memory_destroy, |memory| unsafe {
            (self.api.memory_create)(memory, md, self.engine.handle, bytes.as_mut_ptr().cast())
        })?;
        Ok(Tensor { memory, bytes, elements, data_type })
    }

    /// The operands by their numbers, with a dimension for layers but those of sequences, whose directions stand in one row.
    fn operands(&self, layer: &Layer, seed: u64) -> Result<BTreeMap<c_int, Operand>, String> {
        let mut all = BTreeMap::new();
        let passes: &[Pass] =
            if layer.gradients { &[Pass::Forward, Pass::Backward] } else { &[Pass::Forward] };
        for &pass in passes {
            let given = layer.operands(pass);
            let values = |arg: Arg| {
                let (_, dims) = given.iter().find(|(own, _)| *own == arg)?;
                Some(layer.values(arg, dims, seed))
            };
            for (arg, dims) in &given {
                let Some(number) = number(pass, *arg).filter(|number| !all.contains_key(number)) else {
                    continue;
                };
                let mut dims = match number % DIFF {
                    DST => vec![dims[0], dims[1], dims[2] * dims[3]],
                    SRC | ATTENTION => dims.clone(),
                    _ => [&[1], &dims[..]].concat(),
                };
                let is_result = matches!(arg, Arg::Dst(_));
                let mut own = if is_result { Vec::new() } else { values(*arg).unwrap_or_default() };
                if number % DIFF == BIAS && layer.op.cell == Cell::GruLinearBeforeReset {
                    // The candidate's bias of the state comes behind the three of the input.
                    let h = dims[3];
                    let of_state = values(Recurrent::STATE_BIAS).unwrap_or_default();
                    let ways = own.chunks_exact(3 * h).zip(of_state.chunks_exact(3 * h));
                    own = ways.flat_map(|(input, state)| [input, &state[2 * h..]].concat()).collect();
                    dims[2] = 4;
                }
                let scales = match number {
                    WEIGHTS | STATE_WEIGHTS => values(Recurrent::WEIGHTS_SCALES),
                    PROJECTION => values(Recurrent::PROJECTION_SCALES),
                    _ => None,
                };
                if let Some(scales) = scales {
                    own.iter_mut().zip(scales.iter().cycle()).for_each(|(value, scale)| *value /= scale);
                }
                let is_weight = matches!(number, WEIGHTS | STATE_WEIGHTS | PROJECTION);
                let data_type = if layer.is_integer() { layer.type_of(pass, *arg) } else { DataType::F32 };
                let md =
                    if is_weight { self.open(&dims, data_type)? } else { self.described(&dims, data_type)? };
                all.insert(number, Operand { md, dims, data_type, values: own });
            }
        }
        if layer.gradients && !layer.states {
            // Without states before the first step, oneDNN's gradients by the state's weights are not those by zeros.
            let [_, n, _, h] = layer.sizes;
            let dims = [1, layer.op.direction.count(), n, h];
            let kept =
                if layer.op.cell.is_lstm() { &[INITIAL_STATE, INITIAL_CELL][..] } else { &[INITIAL_STATE] };
            for number in kept.iter().flat_map(|&number| [number, DIFF + number]) {
                let (md, data_type) = (self.described(&dims, DataType::F32)?, DataType::F32);
                all.insert(number, Operand { md, dims: dims.to_vec(), data_type, values: Vec::new() });
            }
        }
        Ok(all)
    }
}

impl Operand {
    fn count(&self) -> usize {
        self.dims.iter().product()
    }
}

impl Known<'_> {
    fn result(&self, pass: Pass, arg: Arg) -> Vec<f64> {
        let of_state = pass == Pass::Backward && arg == Backward::DIFF_STATE_BIAS;
        let of_bias = pass == Pass::Backward && arg == Backward::DIFF_BIAS;
        let number = if of_state { DIFF + BIAS } else { number(pass, arg).unwrap() };
        let values = self.tensors[&number].values();
        if self.layer.op.cell != Cell::GruLinearBeforeReset || !(of_state || of_bias) {
            return values;
        }
        // The rows of update, reset and candidate; the state's candidate has the fourth.
        let h = self.layer.sizes[3];
        let last = if of_state { 3 } else { 2 };
        let ways = values.chunks_exact(4 * h);
        ways.flat_map(|way| [&way[..2 * h], &way[last * h..(last + 1) * h]].concat()).collect()
    }
}

impl Tensor {
    fn values(&self) -> Vec<f64> {
        let bytes: Vec<u8> = self.bytes.iter().flat_map(Line::words).flat_map(u32::to_ne_bytes).collect();
        (0..self.elements).map(|i| self.data_type.read_at(&bytes, i)).collect()
    }
}
