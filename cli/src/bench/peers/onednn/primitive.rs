//! A case as one primitive of oneDNN's, with layouts of its choice and constants reordered once.

use std::ffi::c_int;
use std::ptr::null_mut;

use anydnn::backend::{DataType, Eltwise};

use super::super::server::Refusal;
use super::api::{ExecArg, Handle};
use super::data_type;
use super::library::{Lib, Memory, Owned, dense};
use super::recurrent::{Descs, Layer};
use crate::bench::data::Tensor;
use crate::bench::spec::{Fold, Pair, Post, Spec, Window, Work};

pub(super) const INFERENCE: c_int = 96;
const DIRECT: c_int = 1;
const ACCURATE: c_int = 0x3_0000;
const AVERAGE: c_int = 1023;
const MAX: c_int = 511;

const SRC: c_int = 1;
const SRC1: c_int = 2;
const DST: c_int = 17;
const WEIGHTS: c_int = 33;
const STATE_WEIGHTS: c_int = 34;
const BIAS: c_int = 41;
const MEAN: c_int = 49;
const VARIANCE: c_int = 50;
const SCALE: c_int = 51;
const SHIFT: c_int = 52;
const POST_OP: c_int = 0x8000;

const GLOBAL_STATISTICS: u32 = 1;
const USE_SCALE: u32 = 2;
const USE_SHIFT: u32 = 4;
const RMS: u32 = 32;

/// A primitive with its arguments for every set of inputs.
pub(in super::super) struct Loaded {
    library: &'static Lib,
    primitive: Owned,
    args: Vec<Vec<ExecArg>>,
    next: usize,
    /// Where the result of each set is, and how.
    results: Vec<usize>,
    dst: Owned,
    /// The result's dimensions and strides as everybody else has them.
    plain: (Vec<usize>, Vec<usize>),
    memories: Vec<Memory>,
    /// A recurrent layer, whose result has another order there.
    layer: Option<Layer>,
    /// The implementation's name.
    pub(super) note: String,
}

impl Loaded {
    pub(super) fn run(&mut self) -> Result<(), String> {
        self.library.execute(&self.primitive, &self.args[self.next])?;
        self.next = (self.next + 1) % self.args.len();
        Ok(())
    }

    pub(super) fn outputs(&mut self) -> Result<Vec<f32>, String> {
        self.next = 0;
        self.run()?;
        self.library.wait()?;
        let read = || {
            let plain = self.library.strided(
                &self.plain.0,
                &self.plain.1,
                data_type(DataType::F32).map_err(Refusal::Failed)?,
            )?;
            let memory = self.library.memory(plain.handle, &[])?;
            self.library.reorder((&self.dst, &self.memories[self.results[0]]), (&plain, &memory))?;
            let values = memory.f32s(self.plain.0.iter().product());
            Ok(self.layer.map_or_else(|| values.clone(), |layer| layer.turned(&values)))
        };
        read().map_err(|refusal: Refusal| format!("{refusal:?}"))
    }
}

/// Makes the primitive and its memories.
pub(super) fn load(
    library: &'static Lib,
    spec: &Spec,
    tensors: &[Tensor],
    sets: usize,
) -> Result<Loaded, Refusal> {
    if spec.weights.is_some() {
        return Err(Refusal::Unsupported("weights of few bits are not asked of it".into()));
    }
    let plan = Plan::new(spec)?;
    let numbered = |t: DataType| data_type(t).map_err(Refusal::Unsupported);
    let attributes = Attributes::new(library, spec, &plan)?;
    let pd = describe(library, spec, &plan, attributes.handle.handle)?;
    let mut loaded = Loaded {
        library,
        primitive: library.primitive(&pd)?,
        args: vec![Vec::new(); sets],
        next: 0,
        results: Vec::new(),
        dst: library.wanted(&pd, DST)?.ok_or_else(|| Refusal::Failed("no result".into()))?,
        plain: (plan.dst.dims.clone(), plan.dst.strides.clone()),
        memories: Vec::new(),
        layer: layer(spec),
        note: library.implementation(&pd),
    };
    for operand in &plan.operands {
        let tensor = tensors.iter().find(|tensor| tensor.name == operand.name);
        let tensor = tensor.ok_or_else(|| Refusal::Failed(format!("no tensor {}", operand.name)))?;
        let given =
            library.strided(&operand.shape.dims, &operand.shape.strides, numbered(operand.data_type)?)?;
        for set in 0..if tensor.constant { 1 } else { sets } {
            let mut values = tensor.values(set).map_err(|error| Refusal::Failed(error.to_string()))?;
            if let Some(layer) = loaded.layer.filter(|_| tensor.constant) {
                values = layer.ordered(&tensor.name, &values)?;
            }
            let mut memory = library.memory(given.handle, values.bytes())?;
            if let Some(wanted) = library.wanted(&pd, operand.arg)?
                && !library.equal(&wanted, &given)
            {
                let reordered = library.memory(wanted.handle, &[])?;
                library.reorder((&given, &memory), (&wanted, &reordered))?;
                memory = reordered;
            }
            let arg = ExecArg { arg: operand.arg, memory: memory.object.handle };
            if tensor.constant {
                loaded.args.iter_mut().for_each(|args| args.push(arg));
            } else {
                loaded.args[set].push(arg);
            }
            loaded.memories.push(memory);
        }
    }
    for args in &mut loaded.args {
        let memory = library.memory(loaded.dst.handle, &[])?;
        args.push(ExecArg { arg: DST, memory: memory.object.handle });
        loaded.results.push(loaded.memories.len());
        loaded.memories.push(memory);
    }
    Ok(loaded)
}

/// The operands as everybody else has them, in oneDNN's order of dimensions.
struct Plan {
    operands: Vec<Operand>,
    dst: Shape,
}

struct Operand {
    arg: c_int,
    name: String,
    shape: Shape,
    data_type: DataType,
}

#[derive(Clone)]
struct Shape {
    dims: Vec<usize>,
    strides: Vec<usize>,
}

impl Shape {
    fn dense(dims: &[usize]) -> Self {
        Self { dims: dims.to_vec(), strides: dense(dims) }
    }

    /// `[N, H, W, C]` in memory as `[N, C, H, W]`.
    fn image(dims: [usize; 4]) -> Self {
        let s = dense(&dims);
        let [n, h, w, c] = dims;
        Self { dims: vec![n, c, h, w], strides: vec![s[0], s[3], s[1], s[2]] }
    }

    /// `[kh, kw, I, O]` in memory as `[O, I, kh, kw]`, or with groups `[G, O/G, I, kh, kw]`.
    fn filter(kernel: [usize; 2], inputs: usize, outputs: usize, groups: usize) -> Self {
        let s = dense(&[kernel[0], kernel[1], inputs, outputs]);
        let (mut dims, mut strides) =
            (vec![outputs / groups, inputs, kernel[0], kernel[1]], vec![s[3], s[2], s[0], s[1]]);
        if groups > 1 {
            dims.insert(0, groups);
            strides.insert(0, outputs / groups);
        }
        Self { dims, strides }
    }
}

impl Plan {
    fn new(spec: &Spec) -> Result<Self, Refusal> {
        let t = spec.data_type;
        let operand =
            |arg, name: &str, shape, data_type| Operand { arg, name: name.to_owned(), shape, data_type };
        let vector = |size: usize| Shape::dense(&[size]);
        let result = spec.result();
        let mut dst = Shape::dense(&result);
        let image = |dims: &[usize]| match *dims {
            [n, h, w, c] => Ok(Shape::image([n, h, w, c])),
            _ => Err(Refusal::Failed("no image".into())),
        };
        let mut operands = Vec::new();
        match &spec.work {
            Work::MatMul { src, weights } => {
                // A constant factor has the same rank.
                let mut factor = vec![1; src.len() - weights.len()];
                factor.extend(weights);
                operands.push(operand(SRC, "src", Shape::dense(src), t));
                operands.push(operand(WEIGHTS, "weights", Shape::dense(&factor), t));
                if spec.post_ops.first() == Some(&Post::Bias) {
                    let mut dims = vec![1; src.len()];
                    dims[src.len() - 1] = weights[weights.len() - 1];
                    operands.push(operand(BIAS, "bias", Shape::dense(&dims), t));
                }
            }
            Work::Convolution { src, outputs, window, groups } => {
                dst = image(&result)?;
                operands.push(operand(SRC, "src", Shape::image(*src), t));
                let filter = Shape::filter(window.kernel, src[3] / groups, *outputs, *groups);
                operands.push(operand(WEIGHTS, "weights", filter, t));
                if spec.post_ops.first() == Some(&Post::Bias) {
                    operands.push(operand(BIAS, "bias", vector(*outputs), t));
                }
            }
            Work::Pooling { src, .. } => {
                dst = image(&result)?;
                operands.push(operand(SRC, "src", Shape::image(*src), t));
            }
            Work::BatchNorm { src } => {
                dst = image(&result)?;
                operands.push(operand(SRC, "src", Shape::image(*src), t));
                for (arg, name) in [(SCALE, "gamma"), (SHIFT, "beta"), (MEAN, "mean"), (VARIANCE, "variance")]
                {
                    operands.push(operand(arg, name, vector(src[3]), DataType::F32));
                }
            }
            Work::LayerNorm { dims, rms } => {
                operands.push(operand(SRC, "src", Shape::dense(dims), t));
                let size = dims[dims.len() - 1];
                operands.push(operand(SCALE, "gamma", vector(size), DataType::F32));
                if !rms {
                    operands.push(operand(SHIFT, "beta", vector(size), DataType::F32));
                }
            }
            Work::Softmax { dims }
            | Work::Reduction { dims, .. }
            | Work::Eltwise { dims, .. }
            | Work::Copy { dims } => {
                operands.push(operand(SRC, "src", Shape::dense(dims), t));
            }
            Work::Binary { dims, .. } => {
                operands.push(operand(SRC, "src0", Shape::dense(dims), t));
                operands.push(operand(SRC1, "src1", Shape::dense(dims), t));
            }
            Work::Recurrent { .. } => {
                let layer = layer(spec).ok_or_else(|| Refusal::Failed("no layer".into()))?;
                dst = Shape::dense(&layer.result());
                let src = Shape::dense(&[layer.steps, layer.batch, layer.inputs]);
                operands.push(operand(SRC, "src", src, t));
                operands.push(operand(WEIGHTS, "weights", Shape::dense(&layer.weights(layer.inputs)), t));
                let of_states = Shape::dense(&layer.weights(layer.hidden));
                operands.push(operand(STATE_WEIGHTS, "state_weights", of_states, t));
                operands.push(operand(BIAS, "bias", Shape::dense(&layer.biases()), DataType::F32));
            }
            Work::Attention { .. } => return Err(Refusal::Unsupported("attention is no primitive".into())),
        }
        let others = spec.post_ops.iter().filter(|post| **post != Post::Bias).enumerate();
        for (i, post) in others {
            if matches!(post, Post::Pair(_)) {
                let arg = (POST_OP * (i as c_int + 1)) | SRC1;
                operands.push(operand(arg, &format!("other{i}"), dst.clone(), t));
            }
        }
        Ok(Self { operands, dst })
    }

    fn find(&self, arg: c_int) -> Option<&Operand> {
        self.operands.iter().find(|operand| operand.arg == arg)
    }
}

/// The recurrent layer of a case, if it is one.
fn layer(spec: &Spec) -> Option<Layer> {
    let Work::Recurrent { cell, direction, steps, batch, inputs, hidden } = spec.work else { return None };
    Some(Layer { cell, direction, steps, batch, inputs, hidden })
}

/// Post-operations.
struct Attributes {
    handle: Owned,
}

impl Attributes {
    fn new(library: &Lib, spec: &Spec, plan: &Plan) -> Result<Self, Refusal> {
        let api = &library.api;
        // SAFETY: the places to write are there.
        let handle = library.make("attributes", api.attr_destroy, |a| unsafe { (api.attr_create)(a) })?;
        // SAFETY: as before.
        let list =
            library.make("post-operations", api.post_ops_destroy, |p| unsafe { (api.post_ops_create)(p) })?;
        let t = data_type(spec.data_type).map_err(Refusal::Unsupported)?;
        for post in spec.post_ops.iter().filter(|post| **post != Post::Bias) {
            let status = match post {
                Post::Function(f) => {
                    let (algorithm, alpha, beta) = function(*f)?;
                    // SAFETY: the list lives.
                    unsafe { (api.post_eltwise)(list.handle, algorithm, alpha, beta) }
                }
                Post::Pair(p) => {
                    let other = library.any(&plan.dst.dims, t)?;
                    // SAFETY: list and descriptor live; the descriptor is copied.
                    unsafe { (api.post_binary)(list.handle, pair(*p), other.handle) }
                }
                Post::Bias => 0,
            };
            super::library::done("post-operation", status).map_err(Refusal::Failed)?;
        }
        // SAFETY: both live; the list is copied.
        let status = unsafe { (api.attr_post_ops)(handle.handle, list.handle) };
        super::library::done("post-operations", status).map_err(Refusal::Failed)?;
        Ok(Self { handle })
    }
}

fn describe(library: &Lib, spec: &Spec, plan: &Plan, attributes: Handle) -> Result<Owned, Refusal> {
    let (api, engine) = (&library.api, library.engine);
    let numbered = |t: DataType| data_type(t).map_err(Refusal::Unsupported);
    let result_type = spec.result_type();
    let plain = |arg: c_int| -> Result<Owned, Refusal> {
        let operand = plan.find(arg).ok_or_else(|| Refusal::Failed(format!("no argument {arg}")))?;
        library.strided(&operand.shape.dims, &operand.shape.strides, numbered(operand.data_type)?)
    };
    let open = |arg: c_int| -> Result<Owned, Refusal> {
        let operand = plan.find(arg).ok_or_else(|| Refusal::Failed(format!("no argument {arg}")))?;
        library.any(&operand.shape.dims, numbered(operand.data_type)?)
    };
    let dst = library.strided(&plan.dst.dims, &plan.dst.strides, numbered(result_type)?)?;
    let bias = plan.find(BIAS).map(|_| plain(BIAS)).transpose()?;
    let bias = bias.as_ref().map_or(null_mut(), |bias| bias.handle);
    let what = "this primitive";
    match &spec.work {
        Work::MatMul { src, weights } => {
            let constant = weights.len() == 2;
            let (a, b) = (plain(SRC)?, if constant { open(WEIGHTS)? } else { plain(WEIGHTS)? });
            debug_assert_eq!(src.len(), plan.dst.dims.len());
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.matmul)(pd, engine, a.handle, b.handle, bias, dst.handle, attributes)
            })
        }
        Work::Convolution { window, .. } => {
            let (x, w) = (open(SRC)?, open(WEIGHTS)?);
            let dst = library.any(&plan.dst.dims, numbered(result_type)?)?;
            let [stride, dilation, pad] = spatial(window);
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.convolution)(
                    pd,
                    engine,
                    INFERENCE,
                    DIRECT,
                    x.handle,
                    w.handle,
                    bias,
                    dst.handle,
                    stride.as_ptr(),
                    dilation.as_ptr(),
                    pad.as_ptr(),
                    pad.as_ptr(),
                    attributes,
                )
            })
        }
        Work::Pooling { window, average, .. } => {
            let x = plain(SRC)?;
            let [stride, dilation, pad] = spatial(window);
            let kernel = window.kernel.map(|k| k as i64);
            let algorithm = if *average { AVERAGE } else { MAX };
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.pooling)(
                    pd,
                    engine,
                    INFERENCE,
                    algorithm,
                    x.handle,
                    dst.handle,
                    stride.as_ptr(),
                    kernel.as_ptr(),
                    dilation.as_ptr(),
                    pad.as_ptr(),
                    pad.as_ptr(),
                    attributes,
                )
            })
        }
        Work::Softmax { dims } => {
            let x = plain(SRC)?;
            let axis = dims.len() as c_int - 1;
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.softmax)(pd, engine, INFERENCE, ACCURATE, x.handle, dst.handle, axis, attributes)
            })
        }
        Work::LayerNorm { rms, .. } => {
            let x = plain(SRC)?;
            let flags = if *rms { RMS | USE_SCALE } else { USE_SCALE | USE_SHIFT };
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.layer_norm)(
                    pd,
                    engine,
                    INFERENCE,
                    x.handle,
                    dst.handle,
                    null_mut(),
                    1e-5,
                    flags,
                    attributes,
                )
            })
        }
        Work::BatchNorm { .. } => {
            let x = plain(SRC)?;
            let flags = GLOBAL_STATISTICS | USE_SCALE | USE_SHIFT;
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.batch_norm)(pd, engine, INFERENCE, x.handle, dst.handle, 1e-5, flags, attributes)
            })
        }
        Work::Reduction { fold, .. } => {
            let x = plain(SRC)?;
            let algorithm = match fold {
                Fold::Max => 0x2_fff2,
                Fold::Min => 0x2_fff3,
                Fold::Sum => 0x2_fff4,
                Fold::Mean => 0x2_fff6,
            };
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.reduction)(pd, engine, algorithm, x.handle, dst.handle, 0.0, 0.0, attributes)
            })
        }
        Work::Eltwise { function: f, .. } => {
            let x = plain(SRC)?;
            let (algorithm, alpha, beta) = function(*f)?;
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.eltwise)(pd, engine, INFERENCE, algorithm, x.handle, dst.handle, alpha, beta, attributes)
            })
        }
        Work::Binary { function, .. } => {
            let (a, b) = (plain(SRC)?, plain(SRC1)?);
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.binary)(pd, engine, pair(*function), a.handle, b.handle, dst.handle, attributes)
            })
        }
        Work::Copy { .. } => {
            let x = plain(SRC)?;
            // SAFETY: the descriptors live, and arrays have an entry for each dimension.
            library.make(what, api.pd_destroy, |pd| unsafe {
                (api.reorder)(pd, x.handle, engine, dst.handle, engine, attributes)
            })
        }
        Work::Recurrent { .. } => {
            let layer = layer(spec).ok_or_else(|| Refusal::Failed("no layer".into()))?;
            let descs = Descs {
                src: plain(SRC)?,
                weights: open(WEIGHTS)?,
                state_weights: open(STATE_WEIGHTS)?,
                bias: plain(BIAS)?,
                dst,
            };
            layer.describe(library, &descs, attributes)
        }
        Work::Attention { .. } => Err(Refusal::Unsupported("attention is no primitive".into())),
    }
}

/// Strides, dilations (zero is dense) and padding.
fn spatial(window: &Window) -> [[i64; 2]; 3] {
    [window.stride, window.dilation.map(|d| d - 1), window.pad].map(|pair| pair.map(|number| number as i64))
}

/// The algorithm kind with alpha and beta.
pub(super) fn function(function: Eltwise) -> Result<(c_int, f32, f32), Refusal> {
    let Some(&algorithm) = function.row().onednn.first() else {
        return Err(Refusal::Unsupported(format!("oneDNN has no algorithm for {}", function.name())));
    };
    let parameters = function.parameters();
    let parameter = |i: usize| parameters.get(i).copied().unwrap_or(0.0);
    Ok((algorithm, parameter(0), parameter(1)))
}

const fn pair(pair: Pair) -> c_int {
    match pair {
        Pair::Add => 0x1_fff0,
        Pair::Multiply => 0x1_fff1,
        Pair::Maximum => 0x1_fff2,
        Pair::Minimum => 0x1_fff3,
        Pair::Divide => 0x1_fff4,
        Pair::Subtract => 0x1_fff5,
    }
}
