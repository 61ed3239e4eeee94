//! The same primitives through the C functions and through the Rust API, in turns, and what it takes to create one that the cache has.
//!
//! `cargo bench -p anydnn-c --bench rust_and_c [platform]`; without cargo's `--bench` each case runs once.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::Instant;

use anydnn_backend::op::{
    Binary, Convolution, LayerNormalization, MatMul, Op, Pooling, PoolingAlgorithm, Reduction,
    ReductionAlgorithm, Reorder, Softmax,
};
use anydnn_backend::{
    Arg, BinaryAlgorithm, DataType, Eltwise, Engine, Event, MemoryDesc, PrimitiveDesc, Result, Stream,
    StreamDesc,
};
use anydnn_c::object_types::{
    dnnl_binary_add, dnnl_eltwise_tanh, dnnl_forward_inference, dnnl_softmax_accurate,
};
use anydnn_c::types::{dnnl_f32, dnnl_format_tag_any};
use anydnn_opencl::{OpenClEngine, OpenClMemory, OpenClPrimitive, OpenClStream};

type Handle = *mut c_void;

unsafe extern "C" {
    fn dnnl_ocl_interop_engine_create(engine: *mut Handle, device: Handle, context: Handle) -> c_int;
    fn dnnl_stream_create(stream: *mut Handle, engine: Handle, flags: c_int) -> c_int;
    fn dnnl_stream_wait(stream: Handle) -> c_int;
    fn dnnl_memory_desc_create_with_tag(
        md: *mut Handle,
        rank: c_int,
        dims: *const i64,
        data_type: c_int,
        tag: c_int,
    ) -> c_int;
    fn dnnl_memory_desc_create_with_strides(
        md: *mut Handle,
        rank: c_int,
        dims: *const i64,
        data_type: c_int,
        strides: *const i64,
    ) -> c_int;
    fn dnnl_memory_create(memory: *mut Handle, md: *const c_void, engine: Handle, handle: Handle) -> c_int;
    fn dnnl_memory_get_data_handle(memory: Handle, handle: *mut Handle) -> c_int;
    fn dnnl_memory_destroy(memory: Handle) -> c_int;
    fn dnnl_primitive_desc_query_md(pd: Handle, what: c_int, index: c_int) -> *const c_void;
    fn dnnl_primitive_desc_destroy(pd: Handle) -> c_int;
    fn dnnl_primitive_create(primitive: *mut Handle, pd: Handle) -> c_int;
    fn dnnl_primitive_destroy(primitive: Handle) -> c_int;
    fn dnnl_primitive_execute(primitive: Handle, stream: Handle, count: c_int, args: *const ExecArg)
    -> c_int;
    fn dnnl_matmul_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        src: Handle,
        weights: Handle,
        bias: Handle,
        dst: Handle,
        attr: Handle,
    ) -> c_int;
    fn dnnl_inner_product_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        src: Handle,
        weights: Handle,
        bias: Handle,
        dst: Handle,
        attr: Handle,
    ) -> c_int;
    fn dnnl_convolution_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        weights: Handle,
        bias: Handle,
        dst: Handle,
        strides: *const i64,
        dilates: *const i64,
        left: *const i64,
        right: *const i64,
        attr: Handle,
    ) -> c_int;
    fn dnnl_pooling_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        strides: *const i64,
        kernel: *const i64,
        dilation: *const i64,
        left: *const i64,
        right: *const i64,
        attr: Handle,
    ) -> c_int;
    fn dnnl_softmax_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        axis: c_int,
        attr: Handle,
    ) -> c_int;
    fn dnnl_layer_normalization_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        src: Handle,
        dst: Handle,
        statistics: Handle,
        epsilon: f32,
        flags: u32,
        attr: Handle,
    ) -> c_int;
    fn dnnl_eltwise_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        alpha: f32,
        beta: f32,
        attr: Handle,
    ) -> c_int;
    fn dnnl_binary_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        algorithm: c_int,
        src0: Handle,
        src1: Handle,
        dst: Handle,
        attr: Handle,
    ) -> c_int;
    fn dnnl_reduction_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        p: f32,
        epsilon: f32,
        attr: Handle,
    ) -> c_int;
    fn dnnl_reorder_primitive_desc_create(
        pd: *mut Handle,
        src: Handle,
        src_engine: Handle,
        dst: Handle,
        dst_engine: Handle,
        attr: Handle,
    ) -> c_int;
}

#[repr(C)]
struct ExecArg {
    number: c_int,
    memory: Handle,
}

// Numbers of `dnnl_types.h`.
const IN_ORDER: c_int = 1;
const ALLOCATE: usize = usize::MAX;
const EXEC_ARG_MD: c_int = 255;
const CONVOLUTION_DIRECT: c_int = 0x1;
const POOLING_MAX: c_int = 0x1ff;
const REDUCTION_SUM: c_int = 0x2fff4;

/// Calls a C function and returns its status.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: descriptors and engines stay to the end, descriptions and primitives until they are destroyed; arrays are as long as the
        // descriptors' dimensions, and what is written has room.
        unsafe { $function($($argument),*) }
    };
}

/// Describes a primitive through the C functions.
type Describe = Box<dyn Fn(Handle, *mut Handle) -> c_int>;

/// A primitive on both ways, and its arguments by the numbers of both.
struct Case {
    name: &'static str,
    desc: PrimitiveDesc,
    describe: Describe,
    args: Vec<(Arg, c_int)>,
}

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let measures = given.iter().any(|word| word == "--bench");
    let wanted = given.iter().find(|word| !word.starts_with('-'));
    for engine in anydnn_opencl::testing::test_engines() {
        let platform = engine.opencl_device().alias();
        if wanted.is_some_and(|wanted| *wanted != platform) {
            continue;
        }
        println!(
            "{platform:22} {:>10} {:>10} {:>7}   {:>12} {:>12}",
            "Rust, us", "C, us", "C/Rust", "create, us", "with desc, us"
        );
        let c = CSide::new(&engine);
        for case in cases()? {
            measure(&engine, &c, &case, if measures { 41 } else { 1 })?;
        }
    }
    Ok(())
}

/// An engine of the C functions in the context of another one, with a stream.
struct CSide {
    engine: Handle,
    stream: Handle,
}

impl CSide {
    fn new(on: &OpenClEngine) -> Self {
        let (mut engine, mut stream) = (ptr::null_mut(), ptr::null_mut());
        let (device, context) = (on.raw_device().cast(), on.raw_context().cast());
        check(call!(dnnl_ocl_interop_engine_create(&raw mut engine, device, context)));
        check(call!(dnnl_stream_create(&raw mut stream, engine, IN_ORDER)));
        Self { engine, stream }
    }

    fn described(&self, case: &Case) -> Handle {
        let mut pd = ptr::null_mut();
        check((case.describe)(self.engine, &raw mut pd));
        pd
    }

    fn created(pd: Handle) -> Handle {
        let mut primitive = ptr::null_mut();
        check(call!(dnnl_primitive_create(&raw mut primitive, pd)));
        primitive
    }

    /// Memory of the library's own for each argument.
    fn memories(&self, case: &Case, pd: Handle) -> Vec<ExecArg> {
        let memory = |&(_, number): &(Arg, c_int)| {
            let mut memory = ptr::null_mut();
            let md = call!(dnnl_primitive_desc_query_md(pd, EXEC_ARG_MD, number));
            let allocate = ptr::without_provenance_mut(ALLOCATE);
            check(call!(dnnl_memory_create(&raw mut memory, md, self.engine, allocate)));
            ExecArg { number, memory }
        };
        case.args.iter().map(memory).collect()
    }

    /// Seconds of one of so many executions.
    fn run(&self, primitive: Handle, args: &[ExecArg], count: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..count {
            check(call!(dnnl_primitive_execute(primitive, self.stream, args.len() as c_int, args.as_ptr())));
        }
        check(call!(dnnl_stream_wait(self.stream)));
        start.elapsed().as_secs_f64() / count as f64
    }
}

fn measure(engine: &OpenClEngine, c: &CSide, case: &Case, rounds: usize) -> Result<()> {
    let stream = engine.create_stream(&StreamDesc::default())?;
    let primitive = engine.create_primitive(&case.desc)?;
    let resolved = anydnn_backend::Primitive::desc(&primitive);
    let pd = c.described(case);
    let (own, memories) = (CSide::created(pd), c.memories(case, pd));
    // The same bytes: where they lie makes a tenth of the time.
    let memory = |(&(arg, _), of_c): (&(Arg, c_int), &ExecArg)| {
        let desc = resolved.find(arg).unwrap_or(resolved.dst());
        let mut handle = ptr::null_mut();
        check(call!(dnnl_memory_get_data_handle(of_c.memory, &raw mut handle)));
        // SAFETY: the memory of C keeps its buffer to the end of this function.
        let memory = unsafe { OpenClMemory::from_raw(engine, desc, handle.cast()) }?;
        let values = (0..desc.size() / 4).map(|i| (i % 17) as f32 / 8.0 - 1.0);
        let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
        stream.write(&memory, 0, &bytes, &[])?.wait()?;
        Ok((arg, memory))
    };
    let args = case.args.iter().zip(&memories).map(memory).collect::<Result<Vec<_>>>()?;
    rust(&stream, &primitive, &args, 2)?;
    let once = rust(&stream, &primitive, &args, 4)?.min(c.run(own, &memories, 4));
    let count = if rounds > 1 { ((0.02 / once).ceil() as usize).clamp(4, 2000) } else { 1 };
    let (mut of_rust, mut of_c) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            of_rust.push(rust(&stream, &primitive, &args, count)?);
            of_c.push(c.run(own, &memories, count));
        } else {
            of_c.push(c.run(own, &memories, count));
            of_rust.push(rust(&stream, &primitive, &args, count)?);
        }
    }
    let (of_rust, of_c) = (median(of_rust), median(of_c));
    let creations = if rounds > 1 { 501 } else { 1 };
    let alone = median(
        (0..creations).map(|_| timed(|| CSide::created(pd), |p| destroy(p, ptr::null_mut()))).collect(),
    );
    let both = || {
        let pd = c.described(case);
        (CSide::created(pd), pd)
    };
    let with_desc = median((0..creations).map(|_| timed(both, |(p, pd)| destroy(p, pd))).collect());
    println!(
        "{:22} {:10.2} {:10.2} {:7.3}   {:12.2} {:12.2}",
        case.name,
        of_rust * 1e6,
        of_c * 1e6,
        of_c / of_rust,
        alone * 1e6,
        with_desc * 1e6
    );
    destroy(own, pd);
    for arg in memories {
        check(call!(dnnl_memory_destroy(arg.memory)));
    }
    Ok(())
}

/// Seconds of one of so many executions through the Rust API.
fn rust(
    stream: &OpenClStream,
    primitive: &OpenClPrimitive,
    args: &[(Arg, OpenClMemory)],
    count: usize,
) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        stream.execute(primitive, args, &[])?;
    }
    stream.wait()?;
    Ok(start.elapsed().as_secs_f64() / count as f64)
}

fn timed<T>(make: impl Fn() -> T, end: impl Fn(T)) -> f64 {
    let start = Instant::now();
    let made = make();
    let seconds = start.elapsed().as_secs_f64();
    end(made);
    seconds
}

fn destroy(primitive: Handle, pd: Handle) {
    check(call!(dnnl_primitive_destroy(primitive)));
    check(call!(dnnl_primitive_desc_destroy(pd)));
}

fn check(status: c_int) {
    assert_eq!(status, 0, "a C function failed");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A descriptor of C, dense along the axes in this order, that stays to the end.
fn permuted(dims: &[i64], order: &[usize]) -> Handle {
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        stride *= dims[axis];
    }
    let mut md = ptr::null_mut();
    let rank = dims.len() as c_int;
    let (dims, strides) = (dims.as_ptr(), strides.as_ptr());
    check(call!(dnnl_memory_desc_create_with_strides(&raw mut md, rank, dims, dnnl_f32 as c_int, strides)));
    md
}

fn dense(dims: &[i64]) -> Handle {
    permuted(dims, &(0..dims.len()).collect::<Vec<_>>())
}

fn open(dims: &[i64]) -> Handle {
    let mut md = ptr::null_mut();
    let (rank, data_type, tag) = (dims.len() as c_int, dnnl_f32 as c_int, dnnl_format_tag_any as c_int);
    check(call!(dnnl_memory_desc_create_with_tag(&raw mut md, rank, dims.as_ptr(), data_type, tag)));
    md
}

fn f32<const N: usize>(dims: [usize; N]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

fn cases() -> Result<Vec<Case>> {
    let (src, weights, dst) = ((Arg::SRC, 1), (Arg::Weights, 33), (Arg::DST, 17));
    let inference = dnnl_forward_inference as c_int;
    let none = ptr::null_mut;
    let mut all = Vec::new();
    let mut add =
        |name, op: Op, operands: &[(Arg, MemoryDesc)], describe: Describe, args: &[(Arg, c_int)]| {
            let builder = operands
                .iter()
                .fold(PrimitiveDesc::builder(op), |builder, (arg, desc)| builder.arg(*arg, desc.clone()));
            all.push(Case { name, desc: builder.build()?, describe, args: args.to_vec() });
            Ok::<_, anydnn_backend::Error>(())
        };
    let (a, b, c) = (dense(&[256, 256]), open(&[256, 256]), dense(&[256, 256]));
    add(
        "matmul",
        MatMul.into(),
        &[
            (Arg::SRC, f32([256, 256])),
            (Arg::Weights, MemoryDesc::any([256, 256], DataType::F32)),
            (Arg::DST, f32([256, 256])),
        ],
        Box::new(move |e, pd| call!(dnnl_matmul_primitive_desc_create(pd, e, a, b, none(), c, none()))),
        &[src, weights, dst],
    )?;
    let (a, b, c) = (dense(&[64, 1024]), open(&[512, 1024]), dense(&[64, 512]));
    add(
        "inner product",
        MatMul.into(),
        &[
            (Arg::SRC, f32([64, 1024])),
            (Arg::Weights, MemoryDesc::any([1024, 512], DataType::F32)),
            (Arg::DST, f32([64, 512])),
        ],
        Box::new(move |e, pd| {
            call!(dnnl_inner_product_forward_primitive_desc_create(pd, e, inference, a, b, none(), c, none()))
        }),
        &[src, weights, dst],
    )?;
    let (a, b, c) = (dense(&[1, 64, 28, 28]), open(&[64, 64, 3, 3]), dense(&[1, 64, 28, 28]));
    add(
        "convolution",
        Convolution::new(2).with_pads([1, 1], [1, 1]).into(),
        &[
            (Arg::SRC, f32([1, 64, 28, 28])),
            (Arg::Weights, MemoryDesc::any([64, 64, 3, 3], DataType::F32)),
            (Arg::DST, f32([1, 64, 28, 28])),
        ],
        Box::new(move |e, pd| {
            let (zeros, ones) = ([0_i64; 2], [1_i64; 2]);
            let [step, dilation, pad] = [&ones, &zeros, &ones].map(|list| list.as_ptr());
            call!(dnnl_convolution_forward_primitive_desc_create(
                pd,
                e,
                inference,
                CONVOLUTION_DIRECT,
                a,
                b,
                none(),
                c,
                step,
                dilation,
                pad,
                pad,
                none(),
            ))
        }),
        &[src, weights, dst],
    )?;
    let (a, c) = (dense(&[4, 64, 56, 56]), dense(&[4, 64, 28, 28]));
    add(
        "pooling",
        Pooling::new(PoolingAlgorithm::Max, [3, 3]).with_strides([2, 2]).with_pads([1, 1], [1, 1]).into(),
        &[(Arg::SRC, f32([4, 64, 56, 56])), (Arg::DST, f32([4, 64, 28, 28]))],
        Box::new(move |e, pd| {
            let (zeros, ones, twos, threes) = ([0_i64; 2], [1_i64; 2], [2_i64; 2], [3_i64; 2]);
            let [step, kernel, dilation, pad] = [&twos, &threes, &zeros, &ones].map(|list| list.as_ptr());
            call!(dnnl_pooling_forward_primitive_desc_create(
                pd,
                e,
                inference,
                POOLING_MAX,
                a,
                c,
                step,
                kernel,
                dilation,
                pad,
                pad,
                none(),
            ))
        }),
        &[src, dst],
    )?;
    let matrix = dense(&[512, 1024]);
    add(
        "softmax",
        Softmax::new(1).into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::DST, f32([512, 1024]))],
        Box::new(move |e, pd| {
            let algorithm = dnnl_softmax_accurate as c_int;
            call!(dnnl_softmax_forward_primitive_desc_create(
                pd,
                e,
                inference,
                algorithm,
                matrix,
                matrix,
                1,
                none()
            ))
        }),
        &[src, dst],
    )?;
    add(
        "layer normalisation",
        LayerNormalization::new(1, 1e-5).into(),
        &[
            (Arg::SRC, f32([512, 1024])),
            (Arg::Scale, f32([1024])),
            (Arg::Shift, f32([1024])),
            (Arg::DST, f32([512, 1024])),
        ],
        Box::new(move |e, pd| {
            call!(dnnl_layer_normalization_forward_primitive_desc_create(
                pd,
                e,
                inference,
                matrix,
                matrix,
                none(),
                1e-5,
                6,
                none(),
            ))
        }),
        &[src, (Arg::Scale, 51), (Arg::Shift, 52), dst],
    )?;
    add(
        "eltwise",
        Eltwise::Tanh.into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::DST, f32([512, 1024]))],
        Box::new(move |e, pd| {
            let algorithm = dnnl_eltwise_tanh as c_int;
            call!(dnnl_eltwise_forward_primitive_desc_create(
                pd,
                e,
                inference,
                algorithm,
                matrix,
                matrix,
                0.0,
                0.0,
                none()
            ))
        }),
        &[src, dst],
    )?;
    add(
        "binary",
        Binary::new(BinaryAlgorithm::Add).into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::Src(1), f32([512, 1024])), (Arg::DST, f32([512, 1024]))],
        Box::new(move |e, pd| {
            call!(dnnl_binary_primitive_desc_create(
                pd,
                e,
                dnnl_binary_add as c_int,
                matrix,
                matrix,
                matrix,
                none()
            ))
        }),
        &[src, (Arg::Src(1), 2), dst],
    )?;
    let (tall, column) = (dense(&[4096, 1024]), dense(&[4096, 1]));
    add(
        "reduction",
        Reduction::new(ReductionAlgorithm::Sum).into(),
        &[(Arg::SRC, f32([4096, 1024])), (Arg::DST, f32([4096, 1]))],
        Box::new(move |e, pd| {
            call!(dnnl_reduction_primitive_desc_create(pd, e, REDUCTION_SUM, tall, column, 0.0, 0.0, none()))
        }),
        &[src, dst],
    )?;
    let turned = permuted(&[512, 1024], &[1, 0]);
    add(
        "reorder",
        Reorder.into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::DST, f32([1024, 512]).permuted(&[1, 0])?)],
        Box::new(move |e, pd| call!(dnnl_reorder_primitive_desc_create(pd, matrix, e, turned, e, none()))),
        &[src, dst],
    )?;
    Ok(all)
}
