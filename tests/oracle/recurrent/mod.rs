//! Recurrent layers, which are no operation of oneDNN's graph API: every cell in every direction beside its primitives.

use std::ffi::{c_int, c_uint};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

use anydnn::backend::op::{Activation, Cell, Direction, GateOrder, Recurrent};
use anydnn::backend::{
    Access, Arg, Backend, DataType, Engine, Event, Memory, MemoryDesc, PrimitiveDesc, Result, Stream,
    StreamDesc, Tolerance,
};
use anydnn::model::HostTensor;
use anydnn_host::HostEngine;
use libloading::Library;

use super::onednn::{Handle, Line, Owned, done, lines};

/// Names the file that a process with oneDNN's library writes to.
const CHILD: &str = "ANYDNN_ORACLE_LAYERS";

const CPU: c_int = 1;
const IN_ORDER: c_uint = 1;
const INFERENCE: c_int = 96;
const F32: c_int = 3;
const RELU: c_int = 0x20;
const TANH: c_int = 0x21;
const LOGISTIC: c_int = 0x29;

/// A layer with the operands that it has besides the usual ones.
#[derive(Clone, Copy, Debug)]
struct Layer {
    op: Recurrent,
    /// `[T, N, I, H]`
    sizes: [usize; 4],
    peepholes: bool,
    /// Whether states are given and asked for.
    states: bool,
}

fn layers() -> Vec<Layer> {
    let cells = [
        Cell::Vanilla(Activation::Relu),
        Cell::Vanilla(Activation::LeakyRelu { alpha: 0.25 }),
        Cell::Vanilla(Activation::Tanh),
        Cell::Vanilla(Activation::Logistic),
        Cell::Lstm(GateOrder::InputForgetCandidateOutput),
        Cell::Gru,
        Cell::GruLinearBeforeReset,
    ];
    let directions = [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum];
    let sizes = [[5, 2, 7, 9], [1, 3, 16, 20], [4, 1, 3, 33], [3, 4, 5, 16]];
    let mut layers = Vec::new();
    for (i, cell) in cells.into_iter().enumerate() {
        for (j, direction) in directions.into_iter().enumerate() {
            let layer = Layer {
                op: Recurrent::new(cell, direction),
                sizes: sizes[(i + j) % 4],
                peepholes: false,
                states: (i + j) % 2 == 0,
            };
            layers.push(layer);
            if cell.is_lstm() {
                layers.push(Layer { peepholes: true, states: !layer.states, ..layer });
            }
        }
    }
    layers
}

impl Layer {
    /// The operands as both sides have them, in f32 and in the order of their dimensions.
    fn operands(&self) -> Vec<(Arg, Vec<usize>)> {
        let [t, n, i, h] = self.sizes;
        let (d, g) = (self.op.direction.count(), self.op.cell.gates());
        let shown = if self.op.direction == Direction::Sum { 1 } else { d };
        let mut operands = vec![
            (Arg::SRC, vec![t, n, i]),
            (Arg::Weights, vec![d, i, g, h]),
            (Recurrent::STATE_WEIGHTS, vec![d, h, g, h]),
            (Arg::Bias, vec![d, g, h]),
            (Arg::DST, vec![t, n, shown, h]),
        ];
        if self.op.cell == Cell::GruLinearBeforeReset {
            operands.push((Recurrent::STATE_BIAS, vec![d, g, h]));
        }
        if self.peepholes {
            operands.push((Recurrent::PEEPHOLES, vec![d, 3, h]));
        }
        if self.states {
            operands
                .extend([Recurrent::INITIAL_STATE, Recurrent::LAST_STATE].map(|arg| (arg, vec![d, n, h])));
            if self.op.cell.is_lstm() {
                operands
                    .extend([Recurrent::INITIAL_CELL, Recurrent::LAST_CELL].map(|arg| (arg, vec![d, n, h])));
            }
        }
        operands
    }

    fn desc(&self) -> PrimitiveDesc {
        let mut builder = PrimitiveDesc::builder(self.op);
        for (arg, dims) in self.operands() {
            builder = builder.arg(arg, MemoryDesc::new(dims, DataType::F32));
        }
        builder.build().unwrap()
    }

    /// Values between -1 and 1, weights smaller; a state's bias is there for the candidate alone, as oneDNN has no other.
    fn values(&self, arg: Arg, dims: &[usize], seed: u64) -> Vec<f32> {
        let mut state = (seed * 64 + u64::from(format!("{arg}").bytes().map(u32::from).sum::<u32>())) | 1;
        let scale = if matches!(arg, Arg::Weights | Recurrent::STATE_WEIGHTS) { 0.4 } else { 1.0 };
        let h = dims[dims.len() - 1];
        (0..dims.iter().product::<usize>())
            .map(|at| {
                // Knuth's MMIX generator; its upper bits are the random ones.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
                let unused = arg == Recurrent::STATE_BIAS && at / h % 3 != 2;
                if unused { 0.0 } else { scale * value }
            })
            .collect()
    }
}

#[test]
fn recurrent_layers_compute_as_in_onednn() {
    let Some(library) = std::env::var_os("ANYDNN_ONEDNN_LIBRARY").map(PathBuf::from) else {
        let message = "ANYDNN_ONEDNN_LIBRARY does not name oneDNN's own library; `cargo xtask setup` installs it and tells";
        assert!(std::env::var_os("ANYDNN_REQUIRE").is_none(), "{message}");
        eprintln!("NOT TESTED: {message}");
        return;
    };
    let layers = layers();
    if let Some(file) = std::env::var_os(CHILD) {
        std::fs::write(file, answers(&library, &layers)).unwrap();
        return;
    }
    let expected = ask(&library);
    assert_eq!(expected.len(), layers.len());
    let host = HostEngine::new();
    let mut wrong = check(&host, "host", &layers, &expected);
    #[cfg(feature = "opencl")]
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let name = engine.opencl_device().alias();
        wrong.extend(check(&engine, &name, &layers, &expected));
    }
    assert!(wrong.is_empty(), "{} results differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs all layers on an engine; what differs, in words.
fn check<E: Engine>(engine: &E, name: &str, layers: &[Layer], expected: &[Vec<Vec<f64>>]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (seed, (layer, expected)) in layers.iter().zip(expected).enumerate() {
        let desc = layer.desc();
        let made = execute(engine, layer, &desc, seed as u64).unwrap();
        assert_eq!(made.len(), expected.len());
        for ((arg, made), expected) in made.iter().zip(expected) {
            // Both sides may be off by the bound of one.
            let bound = Tolerance::of_result(&desc, *arg);
            let both = Tolerance { relative: 2.0 * bound.relative, ..bound };
            if let Err(error) = both.compare(made, expected) {
                wrong.push(format!("{name}: {layer:?}: {arg}: {error}"));
            }
        }
    }
    wrong
}

fn execute<E: Engine>(
    engine: &E,
    layer: &Layer,
    desc: &PrimitiveDesc,
    seed: u64,
) -> Result<Vec<(Arg, Vec<f64>)>> {
    let stream = engine.create_stream(&StreamDesc::default())?;
    let primitive = engine.create_primitive(desc)?;
    let kind = engine.capabilities().memory_kinds[0];
    let mut args: Vec<(Arg, <E::B as Backend>::Memory)> = Vec::new();
    for arg in desc.args() {
        let memory = engine.create_memory(&arg.desc, kind)?;
        if arg.access == Access::Read {
            let values = layer.values(arg.arg, arg.desc.dims(), seed);
            let tensor = HostTensor::from_f32(arg.desc.dims().to_vec(), &values)?;
            stream.write(&memory, 0, tensor.bytes(), &[])?.wait()?;
        }
        args.push((arg.arg, memory));
    }
    let done = stream.execute(&primitive, &args, &[])?;
    let mut results = Vec::new();
    for arg in RESULTS {
        let Some((_, memory)) = args.iter().find(|(own, _)| *own == arg) else { continue };
        let mut bytes = vec![0; memory.desc().size()];
        stream.read(memory, 0, &mut bytes, std::slice::from_ref(&done))?;
        results.push((arg, HostTensor::new(memory.desc().clone(), bytes)?.to_f64s()));
    }
    Ok(results)
}

const RESULTS: [Arg; 3] = [Arg::DST, Recurrent::LAST_STATE, Recurrent::LAST_CELL];

/// What oneDNN makes of every layer, in a process of its own: the library brings others that are not those of OpenCL drivers.
fn ask(library: &Path) -> Vec<Vec<Vec<f64>>> {
    let file = std::env::temp_dir().join(format!("anydnn-oracle-layers-{}", std::process::id()));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["recurrent::recurrent_layers_compute_as_in_onednn", "--exact"])
        .env(CHILD, &file)
        .env("LD_LIBRARY_PATH", library.parent().unwrap())
        .output()
        .unwrap();
    assert!(child.status.success(), "oneDNN's process: {}", String::from_utf8_lossy(&child.stdout));
    let text = std::fs::read_to_string(&file).unwrap();
    let _ = std::fs::remove_file(&file);
    let value = |digits: &str| f64::from(f32::from_bits(u32::from_str_radix(digits, 16).unwrap()));
    let result = |text: &str| text.split_whitespace().map(value).collect();
    text.lines().map(|line| line.split('\t').map(result).collect()).collect()
}

/// A line for each layer, with its results between tabs.
fn answers(library: &Path, layers: &[Layer]) -> String {
    let onednn = OneDnn::load(library);
    let mut text = String::new();
    for (seed, layer) in layers.iter().enumerate() {
        let results: Vec<String> = onednn.evaluate(layer, seed as u64).unwrap();
        writeln!(text, "{}", results.join("\t")).unwrap();
    }
    text
}

/// The functions of oneDNN's C API that are called, by their published declarations.
macro_rules! api {
    ($($field:ident: $name:ident($($arg:ty),*);)*) => {
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
    stream_create: dnnl_stream_create(*mut Handle, Handle, c_uint);
    stream_wait: dnnl_stream_wait(Handle);
    stream_destroy: dnnl_stream_destroy(Handle);
    md_create: dnnl_memory_desc_create_with_strides(*mut Handle, c_int, *const i64, c_int, *const i64);
    md_destroy: dnnl_memory_desc_destroy(Handle);
    memory_create: dnnl_memory_create(*mut Handle, Handle, Handle, *mut std::ffi::c_void);
    memory_destroy: dnnl_memory_destroy(Handle);
    vanilla_rnn: dnnl_vanilla_rnn_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, f32, f32, Handle);
    lstm: dnnl_lstm_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, Handle);
    gru: dnnl_gru_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, Handle);
    lbr_gru: dnnl_lbr_gru_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, Handle);
    pd_destroy: dnnl_primitive_desc_destroy(Handle);
    primitive_create: dnnl_primitive_create(*mut Handle, Handle);
    primitive_destroy: dnnl_primitive_destroy(Handle);
    execute: dnnl_primitive_execute(Handle, Handle, c_int, *const ExecArg);
}

/// `dnnl_exec_arg_t`.
#[repr(C)]
struct ExecArg {
    arg: c_int,
    memory: Handle,
}

/// The library with a CPU engine and a stream.
struct OneDnn {
    // Fields end in this order: the library last.
    stream: Owned,
    engine: Owned,
    api: Api,
    _library: Library,
}

/// An operand of oneDNN's: its number, descriptor, memory and bytes.
struct Operand {
    arg: Arg,
    number: c_int,
    memory: Owned,
    md: Owned,
    bytes: Vec<Line>,
    elements: usize,
}

impl OneDnn {
    fn load(path: &Path) -> Self {
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

    fn operand(&self, arg: Arg, number: c_int, dims: &[usize], values: &[f32]) -> Result<Operand, String> {
        let api = &self.api;
        let extents: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let mut strides = vec![1; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i] * extents[i];
        }
        let elements = dims.iter().product::<usize>();
        let content: Vec<u8> = if values.is_empty() {
            vec![0xFF; elements * size_of::<f32>()]
        } else {
            values.iter().flat_map(|value| value.to_ne_bytes()).collect()
        };
        let mut bytes = lines(&content);
        // SAFETY: dimensions and strides are as many as told; the bytes are as many as the descriptor's and live as long as the memory.
        unsafe {
            let md = Owned::new("descriptor", api.md_destroy, |md| {
                (api.md_create)(md, dims.len() as c_int, extents.as_ptr(), F32, strides.as_ptr())
            })?;
            let memory = Owned::new("memory", api.memory_destroy, |memory| {
                (api.memory_create)(memory, md.handle, self.engine.handle, bytes.as_mut_ptr().cast())
            })?;
            Ok(Operand { arg, number, memory, md, bytes, elements })
        }
    }

    /// The bits of each result.
    fn evaluate(&self, layer: &Layer, seed: u64) -> Result<Vec<String>, String> {
        let api = &self.api;
        let operands = self.operands(layer, seed)?;
        let md = |arg: Arg| {
            operands.iter().find(|operand| operand.arg == arg).map_or(null_mut(), |operand| operand.md.handle)
        };
        let direction = match layer.op.direction {
            Direction::LeftToRight => 1,
            Direction::RightToLeft => 2,
            Direction::Concat => 3,
            Direction::Sum => 4,
        };
        let engine = self.engine.handle;
        let [src, state, cell] = [Arg::SRC, Recurrent::INITIAL_STATE, Recurrent::INITIAL_CELL].map(md);
        let [weights, state_weights, peepholes] =
            [Arg::Weights, Recurrent::STATE_WEIGHTS, Recurrent::PEEPHOLES].map(md);
        let [bias, dst, last, last_cell] =
            [Arg::Bias, Arg::DST, Recurrent::LAST_STATE, Recurrent::LAST_CELL].map(md);
        let none = null_mut();
        // SAFETY: the descriptors live, and those that may be missing are null where they are.
        let described = Owned::new("layer", api.pd_destroy, |pd| unsafe {
            match layer.op.cell {
                Cell::Vanilla(activation) => {
                    let (kind, alpha) = match activation {
                        Activation::Relu => (RELU, 0.0),
                        Activation::LeakyRelu { alpha } => (RELU, alpha),
                        Activation::Tanh => (TANH, 0.0),
                        Activation::Logistic => (LOGISTIC, 0.0),
                    };
                    (api.vanilla_rnn)(
                        pd,
                        engine,
                        INFERENCE,
                        kind,
                        direction,
                        src,
                        state,
                        weights,
                        state_weights,
                        bias,
                        dst,
                        last,
                        0,
                        alpha,
                        0.0,
                        none,
                    )
                }
                Cell::Lstm(_) => (api.lstm)(
                    pd,
                    engine,
                    INFERENCE,
                    direction,
                    src,
                    state,
                    cell,
                    weights,
                    state_weights,
                    peepholes,
                    none,
                    bias,
                    dst,
                    last,
                    last_cell,
                    0,
                    none,
                ),
                Cell::Gru => (api.gru)(
                    pd,
                    engine,
                    INFERENCE,
                    direction,
                    src,
                    state,
                    weights,
                    state_weights,
                    bias,
                    dst,
                    last,
                    0,
                    none,
                ),
                Cell::GruLinearBeforeReset => (api.lbr_gru)(
                    pd,
                    engine,
                    INFERENCE,
                    direction,
                    src,
                    state,
                    weights,
                    state_weights,
                    bias,
                    dst,
                    last,
                    0,
                    none,
                ),
            }
        })?;
        // SAFETY: the description lives.
        let primitive = Owned::new("primitive", api.primitive_destroy, |primitive| unsafe {
            (api.primitive_create)(primitive, described.handle)
        })?;
        let args: Vec<ExecArg> = operands
            .iter()
            .map(|operand| ExecArg { arg: operand.number, memory: operand.memory.handle })
            .collect();
        // SAFETY: everything lives, and the count is that of the arguments.
        unsafe {
            let count = args.len() as c_int;
            done("execute", (api.execute)(primitive.handle, self.stream.handle, count, args.as_ptr()))?;
            done("wait", (api.stream_wait)(self.stream.handle))?;
        }
        let results = RESULTS.iter().filter_map(|arg| operands.iter().find(|operand| operand.arg == *arg));
        Ok(results.map(Operand::bits).collect())
    }

    fn operands(&self, layer: &Layer, seed: u64) -> Result<Vec<Operand>, String> {
        let given = layer.operands();
        let values = |arg: Arg| {
            let (_, dims) = given.iter().find(|(own, _)| *own == arg)?;
            Some(layer.values(arg, dims, seed))
        };
        let mut operands = Vec::new();
        for (arg, dims) in given.iter().filter(|(arg, _)| *arg != Recurrent::STATE_BIAS) {
            let number = match *arg {
                Arg::SRC => 1,
                Recurrent::INITIAL_STATE => 2,
                Recurrent::INITIAL_CELL => 3,
                Arg::DST => 17,
                Recurrent::LAST_STATE => 18,
                Recurrent::LAST_CELL => 19,
                Arg::Weights => 33,
                Recurrent::STATE_WEIGHTS => 34,
                Recurrent::PEEPHOLES => 35,
                _ => 41,
            };
            // A dimension for layers, but for sequences, whose directions stand in one row.
            let dims = match *arg {
                Arg::SRC => dims.clone(),
                Arg::DST => vec![dims[0], dims[1], dims[2] * dims[3]],
                _ => [&[1], &dims[..]].concat(),
            };
            let mut own = if RESULTS.contains(arg) { Vec::new() } else { values(*arg).unwrap_or_default() };
            let mut dims = dims;
            if *arg == Arg::Bias
                && let Some(of_state) = values(Recurrent::STATE_BIAS)
            {
                // The candidate's bias of the state comes behind the three of the input.
                let h = dims[3];
                let ways = own.chunks_exact(3 * h).zip(of_state.chunks_exact(3 * h));
                own = ways.flat_map(|(input, state)| [input, &state[2 * h..]].concat()).collect();
                dims[2] = 4;
            }
            operands.push(self.operand(*arg, number, &dims, &own)?);
        }
        Ok(operands)
    }
}

impl Operand {
    fn bits(&self) -> String {
        let words = self.bytes.iter().flat_map(Line::words).take(self.elements);
        words.map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(" ")
    }
}
