//! Plans as values, and the variants for every kind of device run on whatever devices there are.

use std::collections::BTreeMap;

use anydnn_backend::conformance::values::{Random, Values};
use anydnn_backend::conformance::{data, reference};
use anydnn_backend::op::{
    BatchNormalization, Binary, Convolution, ConvolutionWeights, Deconvolution, GroupNormalization,
    LayerNormalization, MatMul, Pooling, PoolingAlgorithm, Reduction, ReductionAlgorithm, Reorder, Select,
    Softmax,
};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, DeviceKind, Eltwise, Engine, Event, Layout, Memory,
    MemoryDesc, MemoryKind, Op, PostOp, Primitive, PrimitiveDesc, PrimitiveDescBuilder, Stream, StreamDesc,
    TensorValues, Tolerance,
};
use approx::relative_eq;

use super::{Wanted, choices, choose, plan};
use crate::OpenClPrimitive;
use crate::capability::Feature;
use crate::driver::platform::Vendor;
use crate::plan::{DeviceTraits, KernelPlan, KnownFeatures, LaunchArg};
use crate::testing::{engines_for, shared_test_engines};

pub(super) fn cpu() -> DeviceTraits {
    DeviceTraits {
        kind: DeviceKind::Cpu,
        max_work_group: 4096,
        local_memory_bytes: 256 << 10,
        compute_units: 2,
        float_lanes: 16,
        vendor: Vendor::Other,
        features: KnownFeatures::of(&[Feature::Fp64]),
        name: "test processor".into(),
        special: false,
    }
}

pub(super) fn gpu() -> DeviceTraits {
    DeviceTraits {
        kind: DeviceKind::Gpu,
        max_work_group: 1024,
        local_memory_bytes: 48 << 10,
        compute_units: 132,
        ..cpu()
    }
}

pub(super) fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

pub(super) fn tagged(dims: &[usize], tag: &str) -> MemoryDesc {
    MemoryDesc::with_tag(dims, DataType::F32, tag).unwrap()
}

pub(super) fn planned(builder: PrimitiveDescBuilder, device: &DeviceTraits) -> KernelPlan {
    plan(&builder.build().unwrap(), device).unwrap()
}

pub(super) fn matmul(src: MemoryDesc, weights: MemoryDesc) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src).weights(weights)
}

fn convolution(channels: usize, outputs: usize, groups: usize, tag: &str) -> PrimitiveDescBuilder {
    let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_groups(groups);
    PrimitiveDesc::builder(Op::Convolution(op))
        .src(tagged(&[2, channels, 7, 9], tag))
        .weights(f32(&[outputs, channels / groups, 3, 3]).to_any())
        .dst(tagged(&[2, outputs, 7, 9], tag))
}

fn deconvolution(channels: usize, outputs: usize, groups: usize, tag: &str) -> PrimitiveDescBuilder {
    let op = Deconvolution::new(2).with_pads([1, 0], [1, 0]).with_strides([1, 2]).with_groups(groups);
    PrimitiveDesc::builder(Op::Deconvolution(op))
        .src(tagged(&[2, channels, 5, 7], tag))
        .weights(f32(&[channels, outputs / groups, 3, 3]).to_any())
        .dst(tagged(&[2, outputs, 5, 15], tag))
}

fn convolution_weights(channels: usize, outputs: usize, groups: usize, tag: &str) -> PrimitiveDescBuilder {
    let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_groups(groups);
    PrimitiveDesc::builder(Op::ConvolutionWeights(ConvolutionWeights::new(op)))
        .src(tagged(&[2, channels, 7, 9], tag))
        .src(tagged(&[2, outputs, 7, 9], tag))
        .dst(f32(&[outputs, channels / groups, 3, 3]))
}

#[test]
fn nothing_is_launched_for_results_without_elements() {
    let product = |rows: usize, columns: usize| {
        matmul(f32(&[rows, 3]), f32(&[3, columns])).bias(f32(&[columns])).dst(f32(&[rows, columns]))
    };
    for device in [cpu(), gpu()] {
        for (rows, columns) in [(2, 0), (0, 2), (0, 0)] {
            let plan = planned(product(rows, columns), &device);
            assert_eq!((plan.launches.len(), plan.scratchpad), (0, 0), "{rows}x{columns}");
        }
        assert_eq!(planned(product(2, 2), &device).launches.len(), 1);
    }
}

#[test]
fn variants_fit_the_device_and_the_layouts() {
    let name = |builder: PrimitiveDescBuilder, device: &DeviceTraits| planned(builder, device).implementation;
    let (m, k, n) = (128, 256, 512);
    let row_major = || matmul(f32(&[m, k]), f32(&[k, n]));
    assert_eq!(name(matmul(f32(&[m, k]), f32(&[k, n]).to_any()), &cpu()), "ocl:matmul:blocked");
    assert_eq!(name(row_major(), &cpu()), "ocl:matmul:blocked");
    let small = DeviceTraits { local_memory_bytes: 32 << 10, ..cpu() };
    let by_columns = || matmul(f32(&[m, k]), tagged(&[k, n], "ba"));
    assert_eq!(name(by_columns(), &cpu()), "ocl:matmul:blocked");
    assert_eq!(name(by_columns(), &small), "ocl:matmul:vector-packing");
    let half = |dims: &[usize]| MemoryDesc::new(dims, DataType::F16);
    assert_eq!(name(matmul(half(&[4, k]), half(&[k, n])), &cpu()), "ocl:matmul:vector");
    assert_eq!(name(matmul(f32(&[4, k]), tagged(&[k, n], "ba")), &cpu()), "ocl:matmul:dot");
    assert_eq!(name(row_major(), &gpu()), "ocl:matmul:simt-64x64");
    assert_eq!(name(matmul(f32(&[1, k]), tagged(&[k, n], "ba")), &gpu()), "ocl:matmul:skinny");
    let bytes = |t| MemoryDesc::new([m, m], t);
    assert_eq!(name(matmul(bytes(DataType::U8), bytes(DataType::S8)), &cpu()), "ocl:matmul:words-packing");
    assert_eq!(name(convolution(32, 64, 1, "acdb"), &cpu()), "ocl:convolution:blocked");
    assert_eq!(name(convolution(32, 32, 32, "acdb"), &cpu()), "ocl:convolution:depthwise-rows");
    assert_eq!(name(convolution(32, 32, 32, "abcd"), &cpu()), "ocl:convolution:depthwise-beside");
    assert!(name(convolution(32, 64, 1, "abcd"), &gpu()).starts_with("ocl:convolution:simt-"));
    assert_eq!(name(deconvolution(6, 64, 2, "abcd"), &cpu()), "ocl:deconvolution:vector");
    assert_eq!(name(deconvolution(32, 32, 32, "acdb"), &cpu()), "ocl:deconvolution:depthwise");
    assert!(name(deconvolution(6, 64, 2, "abcd"), &gpu()).starts_with("ocl:deconvolution:simt-"));
    for tag in ["abcd", "acdb"] {
        assert_eq!(name(convolution_weights(3, 16, 1, tag), &cpu()), "ocl:convolution_weights:vector");
        assert_eq!(name(convolution_weights(3, 16, 1, tag), &gpu()), "ocl:convolution_weights:group");
    }
    let softmax = |axis| PrimitiveDesc::builder(Op::Softmax(Softmax::new(axis))).src(f32(&[8, 64, 64]));
    assert_eq!(name(softmax(2), &cpu()), "ocl:softmax:vector");
    assert_eq!(name(softmax(1), &cpu()), "ocl:softmax:vertical");
    assert_eq!(name(softmax(2), &gpu()), "ocl:softmax:parts");
    let reorder = || {
        PrimitiveDesc::builder(Op::Reorder(Reorder))
            .src(tagged(&[2, 70, 5, 17], "acdb"))
            .dst(f32(&[2, 70, 5, 17]))
    };
    assert_eq!(name(reorder(), &gpu()), "ocl:reorder:transposed");
    assert_eq!(name(reorder(), &cpu()), "ocl:reorder:nd");
}

#[test]
fn small_groups_fall_back() {
    let device = DeviceTraits { max_work_group: 1, ..gpu() };
    let builder = matmul(f32(&[64, 64]), f32(&[64, 64]));
    let plan = planned(builder, &device);
    assert_eq!(plan.implementation, "ocl:matmul:ref");
    assert_eq!(plan.launches[0].local, Some([1, 1, 1]));
}

#[test]
fn open_weights_become_panels_on_cpus() {
    let plan = planned(matmul(f32(&[2, 3, 8, 30]), f32(&[2, 3, 30, 100]).to_any()), &cpu());
    let weights = plan.desc.find(Arg::Weights).unwrap();
    assert!(weights.same_bytes(&tagged(&[2, 3, 30, 100], "abDc64d")), "{weights}");
    assert_eq!((plan.scratchpad, plan.launches.len()), (0, 1));
    let plan = planned(matmul(f32(&[8, 30]), f32(&[30, 100]).to_any()), &gpu());
    assert!(plan.desc.find(Arg::Weights).unwrap().is_row_major());
}

#[test]
fn packing_copies_whole_and_partial_panels_through_the_scratchpad() {
    let desc = matmul(f32(&[64, 30]), f32(&[30, 100])).build().unwrap();
    let plan = choose(&desc, &cpu(), Wanted::Named("ocl:matmul:vector-packing")).unwrap().plan;
    assert_eq!(plan.scratchpad, 2 * 64 * 30 * 4);
    let kernels: Vec<&str> = plan.launches.iter().map(|l| l.kernel.as_str()).collect();
    // What there is of the second panel, and some of it once more in the lanes that are left.
    assert_eq!(kernels, ["pointwise", "pointwise", "pointwise", "matmul_vector"]);
    assert!(plan.launches[3].args.iter().any(|a| matches!(a, LaunchArg::Scratchpad { offset: 0 })));
}

#[test]
fn dense_equal_layouts_run_flat() {
    // A function that lists of steps do not have.
    let nhwc = || tagged(&[2, 5, 4, 3], "acdb");
    let add = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Add)))
        .src(nhwc())
        .src(nhwc())
        .dst(nhwc())
        .attributes(Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Mish)));
    let plan = planned(add, &cpu());
    assert_eq!(plan.implementation, "ocl:binary:flat");
    let source = &plan.launches[0].program.source.to_string();
    let from = source.find("#define OFF_SRC0").unwrap();
    let to = source.find("#define OFF_SRC1").unwrap();
    insta::assert_snapshot!(&source[from..to], @r"
    #define OFF_SRC0 (i0 + SHAPE(0))
    #define NAT1_SRC0(o) unpack_f32_1(get_32(src0, o))
    #define LD1_SRC0(o) convert_float(NAT1_SRC0(o))
    #define LD_SRC0(o, n) convert_float16(unpack_f32_16(load_32_16(src0, o, n)))
    #define KEEP_SRC0(o, n, v) store_32_16(src0, o, n, pack_f32_16(v))
    #define ST_SRC0(o, n, v) (SHAPE(1) ? stream_32_16(src0, o, n, pack_f32_16(v)) : store_32_16(src0, o, n, pack_f32_16(v)))
    ");
    assert!(
        source.contains("v = eltwise_mish(v);")
            && source.contains("#define DECLARE_ROW(number) const int rows = 1; \n")
    );
}

/// As rows of pictures with few channels have them.
#[test]
fn runs_of_few_elements_are_vectors_on_cpus() {
    let scaled = |channels: usize| {
        let rows = MemoryDesc::new([500, channels], DataType::F32);
        let factors = MemoryDesc::new([1, channels], DataType::F32);
        let op = Op::Binary(Binary::new(BinaryAlgorithm::Multiply));
        PrimitiveDesc::builder(op).src(rows).src(factors).build().unwrap()
    };
    let lanes = [(3, 1), (4, 4), (5, 16), (8, 8), (11, 16), (12, 16), (16, 16)];
    for (channels, lanes) in lanes {
        let plan = plan(&scaled(channels), &cpu()).unwrap();
        let source = plan.launches[0].program.source.to_string();
        assert!(source.contains(&format!("#define LANES {lanes}\n")), "{channels} channels");
    }
    check_everywhere(&lanes.map(|(channels, _)| scaled(channels)), |_| None);
}

/// As sums of quantised convolutions and masks of token numbers have them.
#[test]
fn integers_are_vectors_on_cpus() {
    let of = |data_type, dims: [usize; 2]| MemoryDesc::new(dims, data_type);
    let add = |data_type| {
        let op = Op::Binary(Binary::new(BinaryAlgorithm::Add));
        PrimitiveDesc::builder(op).src(of(data_type, [37, 203])).src(of(data_type, [1, 203])).build().unwrap()
    };
    let select = |condition| {
        let (condition, values) = (of(condition, [37, 203]), of(DataType::S64, [37, 203]));
        let builder = PrimitiveDesc::builder(Op::Select(Select));
        builder.src(condition).src(values.clone()).src(values).build().unwrap()
    };
    let cast = |data_type| {
        let builder = PrimitiveDesc::builder(Op::Reorder(Reorder));
        builder.src(of(data_type, [37, 203])).dst(of(DataType::F32, [37, 203])).build().unwrap()
    };
    let list = [
        (add(DataType::S32), true),
        (add(DataType::S64), true),
        (select(DataType::Boolean), true),
        // A half must not become zero on its way into a vector of integers.
        (select(DataType::F32), false),
        (cast(DataType::S32), true),
        (cast(DataType::S64), true),
    ];
    for (desc, are_vectors) in &list {
        let plan = plan(desc, &cpu()).unwrap();
        let source = plan.launches[0].program.source.to_string();
        assert_eq!(source.contains("#define LANES 16\n"), *are_vectors, "{desc:?}");
    }
    check_everywhere(&list.map(|(desc, _)| desc), |arg| {
        // Sums of some are beyond what 32 bits hold, and some conditions are fractions.
        Some(if arg == Arg::SRC { Values::Uniform(-0.9, 3e9) } else { Values::Uniform(-2e9, 2e9) })
    });
}

#[test]
fn short_rows_that_end_within_vectors_stay_in_the_caches() {
    // Places of a large result, of 32 channels and of 33: few vectors of those begin where they may pass the caches by.
    let streams = |channels: usize| {
        let image = |count| MemoryDesc::with_tag([1, count, 400, 400], DataType::F32, "acdb").unwrap();
        let op = Op::Convolution(Convolution::new(2));
        let desc = PrimitiveDesc::builder(op)
            .src(image(16))
            .weights(f32(&[channels, 16, 1, 1]).to_any())
            .dst(image(channels));
        let plan = planned(desc, &cpu());
        let launch = plan.launches.last().unwrap();
        let text = launch.program.source.to_string();
        let (_, rest) = text.split_once("#define ST_DST(o, n, v) (SHAPE(").unwrap();
        let (number, _) = rest.split_once(')').unwrap();
        let at = number.parse::<usize>().unwrap() * 4;
        i32::from_ne_bytes(launch.table[at..at + 4].try_into().unwrap())
    };
    assert_eq!((streams(32), streams(33)), (1, 0));
}

#[test]
fn large_results_pass_the_caches() {
    // One program does both; a number of the launch chooses.
    let streams = |count: usize| {
        let plan = planned(PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(f32(&[count])), &cpu());
        let launch = &plan.launches[0];
        let text = launch.program.source.to_string();
        let (_, rest) = text.split_once("#define DST_STREAMS SHAPE(").unwrap();
        let (number, _) = rest.split_once(")\n").unwrap();
        let at = number.parse::<usize>().unwrap() * 4;
        i32::from_ne_bytes(launch.table[at..at + 4].try_into().unwrap())
    };
    assert_eq!((streams(1 << 20), streams(1 << 21)), (0, 1));
    // A size that is no multiple of a vector's, and a chunk's.
    let desc =
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Square)).src(f32(&[3, (1 << 20) + 5])).build().unwrap();
    check_everywhere(&[desc], |_| None);
}

#[test]
fn roots_of_variances_are_near_enough_and_exact_at_their_ends() {
    let inf = f64::INFINITY;
    let of = |variances: Vec<f64>| {
        // Channels of one vector, and of several.
        let desc = |channels: usize| {
            let statistics = || f32(&[channels]);
            PrimitiveDesc::builder(Op::BatchNormalization(BatchNormalization::new(0.0)))
                .src(f32(&[6, channels]))
                .arg(Arg::Mean, statistics())
                .arg(Arg::Variance, statistics())
                .build()
                .unwrap()
        };
        check_everywhere(&[desc(40), desc(16)], |arg| {
            (arg == Arg::Variance).then(|| Values::Listed(variances.clone()))
        });
    };
    of(vec![0.25, 2.0, 1.7, 0.03]);
    of(vec![inf, 3e38, 0.5]);
    of(vec![0.0, 1.3e-38]);
}

#[test]
fn work_items_take_all_columns_of_their_rows_where_terms_are_few() {
    let groups = |m: usize, k: usize, n: usize| {
        let product = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(f32(&[m, k])).weights(f32(&[k, n]));
        let plan = planned(product, &cpu());
        assert_eq!(plan.implementation, "ocl:matmul:vector");
        plan.launches.last().unwrap().global[0]
    };
    let panels = 837_usize.div_ceil(64);
    // Enough rows for every core, weights that stay near; fewer, of which smaller blocks are enough; too few rows; too many terms.
    let of = [(5000, 1, 837), (100, 1, 837), (13, 1, 837), (5000, 40, 832)].map(|(m, k, n)| groups(m, k, n));
    assert_eq!(of, [1, 1, panels, panels - 1]);
    // Lines of whole cache lines may be shared.
    assert_eq!(groups(100, 1, 832), panels - 1);
}

#[test]
fn rows_wait_in_local_memory_while_it_lasts() {
    let softmax = |dims: [usize; 2], data_type: DataType, log: bool| {
        let mut op = Softmax::new(1);
        op.log = log;
        let layout = || MemoryDesc::new(dims, data_type);
        PrimitiveDesc::builder(Op::Softmax(op)).src(layout()).dst(layout())
    };
    let small = DeviceTraits { local_memory_bytes: 32 << 10, ..cpu() };
    let kept = |builder| {
        let source = planned(builder, &small).launches[0].program.source.to_string();
        let value = |name: &str| {
            let line = source.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            line.map_or(usize::MAX, |text| text.parse().unwrap())
        };
        (value("KEPT"), value("SOURCE_KEPT"), value("CHAINS"))
    };
    assert_eq!(kept(softmax([4, 100], DataType::F32, false)), (8, 0, 4));
    assert_eq!(kept(softmax([4, 20], DataType::F16, false)), (2, 1, 2));
    assert_eq!(kept(softmax([4, 100], DataType::F32, true)), (0, 0, 4));
    assert_eq!(kept(softmax([4, 100], DataType::BF16, true)), (8, 1, 4));
    assert_eq!(kept(softmax([4, 9000], DataType::F16, false)), (0, 0, 4));
    let fetches = |length: usize| {
        let builder = softmax([4, length], DataType::F32, false);
        planned(builder, &small).launches[0].program.source.to_string().contains("#define FETCHES_NEXT 1\n")
    };
    assert_eq!((fetches(100), fetches(300)), (false, true));
    let norm = |data_type| {
        let layout = || MemoryDesc::new([3, 203], data_type);
        let op = Op::LayerNormalization(LayerNormalization::new(1, 1e-5));
        PrimitiveDesc::builder(op).src(layout()).dst(layout()).build().unwrap()
    };
    let mut list = vec![norm(DataType::F16), norm(DataType::BF16)];
    for (dims, data_type, log) in [
        ([5, 203], DataType::F16, false),
        ([5, 7], DataType::BF16, true),
        ([2, 1500], DataType::F32, false),
        ([2, 1500], DataType::F16, false),
        ([7, 300], DataType::F32, false),
        ([7, 300], DataType::F16, true),
    ] {
        list.push(softmax(dims, data_type, log).build().unwrap());
    }
    for desc in &list {
        for engine in engines_for(desc) {
            let device = DeviceTraits { kind: DeviceKind::Cpu, local_memory_bytes: 4096, ..engine.traits() };
            let primitive = OpenClPrimitive::from_plan(&engine, plan(desc, &device).unwrap()).unwrap();
            check(&engine, &primitive, &|_| None);
        }
    }
}

#[test]
fn pooling_joins_rows_and_then_columns() {
    let pool = |op: Pooling, src: &[usize], dst: &[usize], tag: &str| {
        PrimitiveDesc::builder(Op::Pooling(op)).src(tagged(src, tag)).dst(tagged(dst, tag))
    };
    let max = || Pooling::new(PoolingAlgorithm::Max, [3, 3]).with_strides([2, 2]).with_pads([1, 1], [1, 1]);
    let include = |stride: usize| {
        Pooling::new(PoolingAlgorithm::AverageIncludePadding, [2, 3])
            .with_strides([1, stride])
            .with_pads([1, 2], [1, 2])
            .with_dilations([2, 1])
    };
    let exclude = || {
        Pooling::new(PoolingAlgorithm::AverageExcludePadding, [2, 2, 2])
            .with_strides([2, 1, 1])
            .with_pads([1, 0, 1], [0, 1, 1])
    };
    let single = |kernel: usize, stride: usize| {
        Pooling::new(PoolingAlgorithm::AverageExcludePadding, [kernel, kernel]).with_strides([stride, stride])
    };
    let list = [
        pool(max(), &[2, 3, 9, 39], &[2, 3, 5, 20], "abcd"),
        pool(max(), &[2, 19, 9, 11], &[2, 19, 5, 6], "acdb"),
        pool(include(3), &[1, 2, 6, 35], &[1, 2, 6, 13], "abcd"),
        pool(include(1), &[1, 17, 6, 8], &[1, 17, 6, 10], "acdb"),
        pool(exclude(), &[1, 2, 5, 4, 18], &[1, 2, 3, 4, 19], "abcde"),
        // Few channels, whose vectors reach into the next columns; windows side by side, apart, and in a single column.
        pool(include(1), &[2, 3, 6, 35], &[2, 3, 6, 37], "acdb"),
        pool(include(2), &[2, 5, 6, 35], &[2, 5, 6, 19], "acdb"),
        pool(exclude(), &[1, 3, 5, 4, 18], &[1, 3, 3, 4, 19], "acdeb"),
        pool(single(11, 3), &[2, 11, 30, 11], &[2, 11, 7, 1], "acdb"),
        pool(single(1, 1), &[2, 7, 5, 9], &[2, 7, 5, 9], "acdb"),
        pool(single(1, 3), &[2, 3, 7, 19], &[2, 3, 3, 7], "acdb"),
        // Lines of several segments, and channels in parts.
        pool(max(), &[1, 300, 5, 201], &[1, 300, 3, 101], "acdb"),
        pool(include(3), &[1, 200, 4, 402], &[1, 200, 4, 135], "acdb"),
        pool(single(3, 1), &[1, 203, 3, 9], &[1, 203, 1, 7], "acdb"),
        pool(max(), &[1, 1, 5, 40_001], &[1, 1, 3, 20_001], "abcd"),
    ];
    let list = list.map(|builder| {
        assert_eq!(planned(builder.clone(), &cpu()).implementation, "ocl:pooling:lines");
        builder.build().unwrap()
    });
    check_everywhere(&list, |_| None);
}

/// What runs once takes the program that serves all layouts; anything else takes one of its own, and the table on demand.
#[test]
fn layouts_that_change_once_share_a_program() {
    let of =
        |src: MemoryDesc, dst: MemoryDesc| PrimitiveDesc::builder(Op::Reorder(Reorder)).src(src).dst(dst);
    let halves = |dims: &[usize]| MemoryDesc::new(dims, DataType::F16);
    let blocked = |dims: &[usize], tag| MemoryDesc::with_tag(dims, DataType::S8, tag).unwrap();
    let list = [
        of(f32(&[120, 70, 3, 3]), tagged(&[120, 70, 3, 3], "Acdb64a")),
        of(f32(&[19, 35, 1, 5]), tagged(&[19, 35, 1, 5], "ABcd16b16a")),
        of(tagged(&[70, 33], "ba"), tagged(&[70, 33], "Ba32b")),
        of(f32(&[5000, 3]), tagged(&[5000, 3], "ba")),
        of(halves(&[3, 70, 9]), MemoryDesc::with_tag([3, 70, 9], DataType::F16, "cab").unwrap()),
        of(MemoryDesc::new([65, 30], DataType::S8), blocked(&[65, 30], "BA16a64b4a")),
        of(
            MemoryDesc::new([7, 9], DataType::S64),
            MemoryDesc::with_tag([7, 9], DataType::S64, "ba").unwrap(),
        ),
        of(f32(&[1, 1]), f32(&[1, 1])),
    ];
    let once = Attributes::default().with_once(true);
    let mut sources = std::collections::HashSet::new();
    for builder in &list {
        let desc = builder.clone().build().unwrap();
        assert_ne!(plan(&desc, &cpu()).unwrap().implementation, "ocl:reorder:table");
        let plan = planned(builder.clone().attributes(once.clone()), &cpu());
        assert_eq!(plan.implementation, "ocl:reorder:table", "{desc}");
        assert_eq!(plan.launches.len(), 1);
        if desc.dst().data_type() == DataType::F32 {
            sources.insert(plan.launches[0].program.source.to_string());
        }
        check_those(&desc, |name| name == "ocl:reorder:table");
    }
    assert_eq!(sources.len(), 1, "one program for all of a size");
    // What changes elements, or where they cannot be addressed like that, takes a program of its own.
    let own = [
        of(f32(&[8, 8]), halves(&[8, 8])),
        of(tagged(&[32, 8], "Ab16a"), f32(&[32, 8])),
        of(f32(&[17, 17, 17]), tagged(&[17, 17, 17], "ABC2a2b2c")),
    ];
    for builder in own {
        let plan = planned(builder.attributes(once.clone()), &cpu());
        assert_ne!(plan.implementation, "ocl:reorder:table", "{}", plan.desc);
    }
}

/// What a result is padded with is zero, whatever was there before.
#[test]
fn layouts_that_change_once_are_padded_with_zeros() {
    use anydnn_backend::{Engine, MemoryKind, Stream, StreamDesc};
    let once = Attributes::default().with_once(true);
    let builder =
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(f32(&[3, 5])).dst(tagged(&[3, 5], "AB4a8b"));
    let desc = builder.attributes(once).build().unwrap();
    for engine in shared_test_engines() {
        let plan = plan(&desc, &engine.traits()).unwrap();
        assert_eq!(plan.implementation, "ocl:reorder:table");
        let primitive = OpenClPrimitive::from_plan(&engine, plan).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let memory = |desc: &MemoryDesc| engine.create_memory(desc, MemoryKind::Buffer).unwrap();
        let (src, dst) = (memory(desc.src()), memory(desc.dst()));
        stream.write(&src, 0, &1.0_f32.to_ne_bytes().repeat(15), &[]).unwrap();
        stream.write(&dst, 0, &[0xFF; 4 * 32], &[]).unwrap();
        stream.execute(&primitive, &[(Arg::SRC, src), (Arg::DST, dst.clone())], &[]).unwrap();
        let mut bytes = [0; 4 * 32];
        stream.read(&dst, 0, &mut bytes, &[]).unwrap();
        let ones = bytes.chunks(4).filter(|element| *element == 1.0_f32.to_ne_bytes()).count();
        let zeros = bytes.chunks(4).filter(|element| *element == [0; 4]).count();
        assert_eq!((ones, zeros), (15, 17));
    }
}

#[test]
fn padding_is_a_launch_of_its_own() {
    let reorder =
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(f32(&[2, 19, 3])).dst(tagged(&[2, 19, 3], "aBc16b"));
    let plan = planned(reorder, &cpu());
    assert_eq!(plan.launches.len(), 2);
    assert!(plan.launches[1].program.source.to_string().contains("#define PADDING i1 >= 19"));
}

#[test]
fn few_long_rows_are_reduced_in_two_stages() {
    let reduce = |dims: &[usize], dst: &[usize]| {
        let op = Op::Reduction(Reduction::new(ReductionAlgorithm::Sum));
        planned(PrimitiveDesc::builder(op).src(f32(dims)).dst(f32(dst)), &cpu())
    };
    let plan = reduce(&[512, 512], &[1, 1]);
    assert_eq!((plan.implementation.as_str(), plan.launches.len()), ("ocl:reduction:two-stage", 2));
    assert_eq!(plan.scratchpad, 8 * 4);
    assert_eq!(reduce(&[512, 512], &[512, 1]).launches.len(), 1);
}

#[test]
fn nothing_to_compute_is_nothing_to_launch() {
    let plan = planned(PrimitiveDesc::builder(Op::Eltwise(Eltwise::Exp)).src(f32(&[3, 0])), &gpu());
    assert!(plan.launches.iter().all(|launch| launch.global.contains(&0)));
}

#[test]
fn what_has_no_kernel_is_unsupported() {
    let relu =
        |t| PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(MemoryDesc::new([4], t)).build().unwrap();
    assert!(DataType::ALL.iter().all(|&t| plan(&relu(t), &cpu()).is_ok()));
    let without = gpu().with(Feature::Fp64, Err("none"));
    let error = plan(&relu(DataType::F64), &without).unwrap_err().to_string();
    assert!(error.contains("test processor has no f64 arithmetic"), "{error}");
}

#[test]
fn wide_integers_stay_exact() {
    let s32 = || MemoryDesc::new([40], DataType::S32);
    let multiply =
        || PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Multiply))).src(s32()).src(s32());
    assert!(planned(multiply(), &cpu()).launches[0].program.source.to_string().contains("#define R long"));
    let fused = multiply().attributes(Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu)));
    assert!(planned(fused, &cpu()).launches[0].program.source.to_string().contains("#define R float"));
}

/// Kernels for both kinds of devices on every device there is: a kind decides about speed, never about results.
#[test]
fn variants_for_every_kind_of_device_compute_what_the_operations_mean() {
    let all = Attributes::default()
        .with_post_op(PostOp::Eltwise(Eltwise::Tanh))
        .with_post_op(PostOp::sum(0.5))
        .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1])));
    let large = matmul(f32(&[2, 130, 40]), f32(&[1, 40, 135])).bias(f32(&[135]));
    let batched = matmul(f32(&[3, 33, 20]), tagged(&[3, 20, 70], "acb")).attributes(all.clone());
    let bytes = matmul(MemoryDesc::new([65, 40], DataType::U8), MemoryDesc::new([40, 66], DataType::S8));
    let vector = matmul(f32(&[1, 300]), tagged(&[300, 20], "ba"));
    let convolutions = [
        convolution(5, 20, 1, "abcd").attributes(all),
        convolution(6, 40, 2, "acdb"),
        convolution(20, 20, 20, "abcd"),
        convolution(20, 20, 20, "acdb"),
    ];
    let pool = Pooling::new(PoolingAlgorithm::AverageIncludePadding, [3, 2]).with_pads([1, 1], [1, 0]);
    let row = |axis, dims: &[usize]| PrimitiveDesc::builder(Op::Softmax(Softmax::new(axis))).src(f32(dims));
    let norm = PrimitiveDesc::builder(Op::LayerNormalization(LayerNormalization::new(1, 1e-5)))
        .src(f32(&[5, 300]))
        .arg(Arg::Scale, f32(&[300]))
        .arg(Arg::Mean, f32(&[5]))
        .arg(Arg::Variance, f32(&[5]));
    let groups = PrimitiveDesc::builder(Op::GroupNormalization(GroupNormalization::new(3, 1e-5)))
        .src(f32(&[2, 6, 7, 5]))
        .arg(Arg::Shift, f32(&[6]));
    let fold = |algorithm, dims: &[usize], dst: &[usize]| {
        PrimitiveDesc::builder(Op::Reduction(Reduction::new(algorithm))).src(f32(dims)).dst(f32(dst))
    };
    let flat = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Swish { alpha: 1.0 })).src(f32(&[3, 35]));
    let mut list = vec![
        large,
        batched,
        bytes,
        vector,
        PrimitiveDesc::builder(Op::Pooling(pool)).src(f32(&[2, 3, 8, 9])),
        row(1, &[7, 100]),
        row(1, &[3, 20, 40]),
        row(0, &[5, 3]),
        row(1, &[9, 10]),
        norm,
        groups,
        PrimitiveDesc::builder(Op::Reorder(Reorder))
            .src(tagged(&[2, 70, 5, 17], "acdb"))
            .dst(MemoryDesc::new([2, 70, 5, 17], DataType::F16)),
        PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Add)))
            .src(tagged(&[66, 130], "ba"))
            .src(f32(&[1, 130]))
            .attributes(Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu))),
        fold(ReductionAlgorithm::NormL2, &[20, 90], &[20, 1]),
        fold(ReductionAlgorithm::Max, &[300, 1003], &[300, 1]),
        fold(ReductionAlgorithm::Max, &[400, 100], &[1, 1]),
        flat,
    ];
    list.extend(convolutions);
    list.extend([
        deconvolution(6, 40, 2, "abcd"),
        convolution_weights(3, 20, 1, "abcd"),
        convolution_weights(6, 40, 2, "acdb"),
    ]);
    for (i, builder) in list.iter().enumerate() {
        let desc = builder.clone().build().unwrap();
        for engine in engines_for(&desc) {
            for kind in [DeviceKind::Cpu, DeviceKind::Gpu] {
                // A small group shows whether a kernel relies on its size.
                let group = engine.traits().max_work_group.min(if i % 2 == 0 { 256 } else { 64 });
                let device = DeviceTraits { kind, max_work_group: group, ..engine.traits() };
                let plan = plan(&desc, &device).unwrap();
                let primitive = OpenClPrimitive::from_plan(&engine, plan).unwrap();
                check(&engine, &primitive, &|_| None);
            }
        }
    }
}

#[test]
fn softmax_meets_infinities_in_any_order() {
    let softmax = |dims: &[usize], inf_as_zero| {
        let mut op = Softmax::new(1);
        op.inf_as_zero = inf_as_zero;
        PrimitiveDesc::builder(Op::Softmax(op)).src(f32(dims)).build().unwrap()
    };
    let list = [softmax(&[3, 3, 40], false), softmax(&[3, 3, 40], true), softmax(&[70, 9], true)];
    let inf = f64::INFINITY;
    // Every other row of three is minus infinity throughout.
    check_everywhere(&list, |_| Some(Values::Listed(vec![1.5, -inf, 0.25, -inf, -inf, -inf])));
    check_everywhere(&list[..1], |_| Some(Values::Listed(vec![-inf, inf, 1.5, 2.0, 0.25, -2.0, f64::NAN])));
}

/// Vectors are as wide as rows are aligned to, of each operand, and two at least; narrow ones have more steps, of which registers hold fewer.
#[test]
fn rows_that_start_between_vectors_have_narrower_ones() {
    let f16 = |dims: &[usize]| f32(dims).with_data_type(DataType::F16);
    let softmax = |src: MemoryDesc| PrimitiveDesc::builder(Op::Softmax(Softmax::new(1))).src(src);
    let found = |src: MemoryDesc| {
        let text = planned(softmax(src), &gpu()).launches[0].program.source.to_string();
        let number = |name: &str| {
            let mut lines = text.lines().rev();
            let line = lines.find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            line.and_then(|number| number.trim().parse::<usize>().ok())
        };
        ["LANES", "PARTS", "HELD_STEPS"].map(number)
    };
    let [some, none] = [Some as fn(usize) -> Option<usize>, |_| None];
    assert_eq!(found(f16(&[20, 1776])), [8, 64, 4].map(some));
    assert_eq!(found(f16(&[20, 1772])), [4, 128, 4].map(some));
    assert_eq!(found(f16(&[20, 1774])), [2, 128, 8].map(some));
    assert_eq!(found(f16(&[20, 1775])), [2, 128, 8].map(some));
    assert_eq!(found(f32(&[20, 1774])), [2, 128, 8].map(some));
    // Too much for registers.
    assert_eq!(found(f16(&[20, 30_001])), [some(2), some(1024), none(0)]);
    let desc = |src| softmax(src).build().unwrap();
    let list = [f16(&[5, 1774]), f16(&[5, 1775]), f32(&[5, 202]), f32(&[3, 203]), f16(&[3, 2308])].map(desc);
    check_everywhere(&list, |_| Some(Values::Uniform(-4.0, 4.0)));
}

/// Runs descriptions by the kernels for both kinds of devices on every device there is. Operands are drawn from `values`, or else as suits
/// their types.
pub(super) fn check_everywhere(list: &[PrimitiveDesc], values: impl Fn(Arg) -> Option<Values>) {
    for (i, desc) in list.iter().enumerate() {
        for engine in engines_for(desc) {
            // Too small a group leaves the references; every other description shows enough of them.
            let kinds = [(DeviceKind::Cpu, 256), (DeviceKind::Gpu, 256), (DeviceKind::Gpu, 32)];
            for (kind, group) in kinds.into_iter().take(if i % 2 == 0 { 3 } else { 2 }) {
                let group = engine.traits().max_work_group.min(group);
                // Register tiles for both kinds of registers, whatever the device has.
                let float_lanes = if i % 2 == 0 { 16 } else { 8 };
                let device = DeviceTraits { kind, max_work_group: group, float_lanes, ..engine.traits() };
                let plan = plan(desc, &device).unwrap();
                let primitive = OpenClPrimitive::from_plan(&engine, plan).unwrap();
                check(&engine, &primitive, &values);
            }
        }
    }
}

/// Runs a plan, on operands that are drawn from `values`, or else as suits their types.
pub(super) fn check_on(
    engine: &crate::OpenClEngine,
    plan: KernelPlan,
    values: impl Fn(Arg) -> Option<Values>,
) {
    check(engine, &OpenClPrimitive::from_plan(engine, plan).unwrap(), &values);
}

/// Runs a plan on drawn operands, each of which starts this many bytes into its memory.
pub(super) fn check_plan(engine: &crate::OpenClEngine, plan: KernelPlan, offset: usize) {
    check_at(engine, &OpenClPrimitive::from_plan(engine, plan).unwrap(), &|_| None, offset);
}

/// How many random shapes to take, and where they come from: a few, as a program has to be built for each of them. `ANYDNN_SWEEP=n` takes
/// so many, `ANYDNN_SWEEP=n@seed` others.
pub(super) fn sweep(few: usize) -> (usize, Random) {
    let Ok(text) = std::env::var("ANYDNN_SWEEP") else { return (few, Random::new(20_261_121)) };
    let (count, seed) = text.split_once('@').unwrap_or((&text, "20261121"));
    (count.parse().unwrap(), Random::new(seed.parse().unwrap()))
}

/// Runs a description by every implementation that each device has for it.
pub(super) fn check_choices(desc: &PrimitiveDesc) {
    check_those(desc, |_| true);
}

/// Runs a description by those implementations of each device whose names are wanted.
pub(super) fn check_those(desc: &PrimitiveDesc, wanted: impl Fn(&str) -> bool) {
    for engine in engines_for(desc) {
        check_those_of(&engine, &engine.traits(), desc, &wanted);
    }
}

/// The same for registers of so many floats.
pub(super) fn check_those_with(float_lanes: usize, desc: &PrimitiveDesc, wanted: impl Fn(&str) -> bool) {
    for engine in engines_for(desc) {
        check_those_of(&engine, &DeviceTraits { float_lanes, ..engine.traits() }, desc, &wanted);
    }
}

fn check_those_of(
    engine: &crate::OpenClEngine,
    device: &DeviceTraits,
    desc: &PrimitiveDesc,
    wanted: &impl Fn(&str) -> bool,
) {
    let all = choices(desc, device, Wanted::All).unwrap();
    for choice in all.into_iter().filter(|choice| wanted(&choice.plan.implementation)) {
        let primitive = OpenClPrimitive::from_plan(engine, choice.plan).unwrap();
        check(engine, &primitive, &|_| None);
    }
}

fn check(engine: &crate::OpenClEngine, primitive: &OpenClPrimitive, values: &impl Fn(Arg) -> Option<Values>) {
    check_at(engine, primitive, values, 0);
}

/// Bytes behind every operand that nothing writes.
const BESIDE: usize = 64;

fn check_at(
    engine: &crate::OpenClEngine,
    primitive: &OpenClPrimitive,
    values: &impl Fn(Arg) -> Option<Values>,
    offset: usize,
) {
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let desc = primitive.desc();
    let (mut inputs, mut args, mut wholes) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    for (seed, operand) in desc.args().iter().enumerate() {
        let layout = &operand.desc;
        let values = values(operand.arg).unwrap_or_else(|| Values::of(layout.data_type()));
        let drawn = values.draw(layout.elements(), seed as u64);
        let is_opaque = matches!(layout.layout(), Layout::Opaque { .. });
        let known = if is_opaque { layout.to_row_major() } else { layout.clone() };
        let bytes = data::encode(&known, &drawn).unwrap();
        let values = data::decode(&known, &bytes).unwrap();
        if operand.access.reads() {
            inputs.insert(operand.arg, reference::Tensor::new(layout.dims().clone(), values).unwrap());
        }
        let bytes = if is_opaque { prepared(engine, &known, &bytes, layout) } else { bytes };
        let whole = MemoryDesc::new([offset + layout.size() + BESIDE], DataType::U8);
        let whole = engine.create_memory(&whole, MemoryKind::Buffer).unwrap();
        let memory = whole.view(layout, offset).unwrap();
        stream.write(&memory, 0, &bytes, &[]).unwrap();
        stream.write(&whole, offset + layout.size(), &[0xa5; BESIDE], &[]).unwrap();
        wholes.insert(operand.arg, (whole, bytes));
        args.push((operand.arg, memory));
    }
    let failed = |error| -> ! {
        panic!("{desc} by {} on {}: {error}", primitive.implementation(), engine.traits().name)
    };
    if let Err(error) = stream.execute(primitive, &args, &[]).and_then(|event| event.wait()) {
        failed(error);
    }
    for (arg, expected) in reference::compute(desc, &inputs).unwrap() {
        let (_, memory) = args.iter().find(|(a, _)| *a == arg).unwrap();
        let layout = desc.find(arg).unwrap();
        let mut bytes = vec![0; layout.size()];
        stream.read(memory, 0, &mut bytes, &[]).unwrap();
        let actual = TensorValues::decode(layout, &bytes).unwrap();
        let expected = TensorValues::new(layout, expected.values).unwrap();
        let tolerance = if is_of_integers(desc) {
            Tolerance { absolute: 0.0, relative: 0.0, scaled: false }
        } else {
            Tolerance::of(desc)
        };
        assert!(
            relative_eq!(actual, expected.within(tolerance)),
            "{desc} by {} on {}: {arg} is {actual:?} instead of {expected:?}",
            primitive.implementation(),
            engine.traits().name
        );
        let (whole, before) = &wholes[&arg];
        let mut beside = [0; BESIDE];
        stream.read(whole, offset + layout.size(), &mut beside, &[]).unwrap();
        let written = gaps(layout).into_iter().filter(|&i| bytes[i] != before[i]).count();
        assert!(
            beside == [0xa5; BESIDE] && written == 0,
            "{desc} by {} on {}: {arg} is written beside its elements, {written} bytes between them",
            primitive.implementation(),
            engine.traits().name
        );
    }
}

/// Bytes in a layout that the engine alone knows.
fn prepared(engine: &crate::OpenClEngine, known: &MemoryDesc, bytes: &[u8], layout: &MemoryDesc) -> Vec<u8> {
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let [src, dst] = [known, layout].map(|desc| engine.create_memory(desc, MemoryKind::Buffer).unwrap());
    let desc = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(known.clone()).dst(layout.clone()).build();
    let reorder = engine.create_primitive(&desc.unwrap()).unwrap();
    stream.write(&src, 0, bytes, &[]).unwrap();
    stream.execute(&reorder, &[(Arg::SRC, src), (Arg::DST, dst.clone())], &[]).unwrap().wait().unwrap();
    let mut bytes = vec![0; layout.size()];
    stream.read(&dst, 0, &mut bytes, &[]).unwrap();
    bytes
}

/// The bytes of a memory that lie between the elements of strides.
fn gaps(layout: &MemoryDesc) -> Vec<usize> {
    let element = layout.data_type().bits() / 8;
    let is_strided = layout.blocking().is_some_and(|blocking| blocking.inner.is_empty());
    if !is_strided || element == 0 || layout.size() == layout.elements() * element {
        return Vec::new();
    }
    let mut free = vec![true; layout.size()];
    let dims = layout.dims();
    for number in 0..layout.elements() {
        let mut rest = number;
        let mut index = vec![0; dims.len()];
        for axis in (0..dims.len()).rev() {
            index[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        let at = layout.offset_of(&index).unwrap() * element;
        free[at..at + element].fill(false);
    }
    (0..free.len()).filter(|&i| free[i]).collect()
}

/// A device that has registers for work-groups of a kernel's usual size refuses larger ones, unless it is compiled for them.
#[test]
fn kernels_of_large_work_groups_are_compiled_for_them() {
    let required = |columns: usize| {
        let op = Op::LayerNormalization(LayerNormalization::new(1, 1e-5));
        let desc = PrimitiveDesc::builder(op).src(f32(&[2, columns]));
        let launch = planned(desc, &gpu()).launches.remove(0);
        let text = launch.program.source.to_string();
        let group = launch.local.unwrap()[0];
        (group, text.contains(&format!("__attribute__((reqd_work_group_size({group}, 1, 1)))")))
    };
    assert_eq!(required(16_386), (1024, true));
    assert_eq!(required(400), (256, false));
}

/// Whether a product's result is a sum of products of small integers and nothing else, which every kernel has to compute exactly.
fn is_of_integers(desc: &PrimitiveDesc) -> bool {
    let small =
        |arg: Arg| desc.find(arg).is_some_and(|d| matches!(d.data_type(), DataType::S8 | DataType::U8));
    let attributes = desc.attributes();
    matches!(desc.op(), Op::MatMul(_) | Op::Convolution(_))
        && small(Arg::SRC)
        && small(Arg::Weights)
        && desc.dst().data_type() == DataType::S32
        && desc.find(Arg::Bias).is_none()
        && attributes.post_ops.is_empty()
        && attributes.dequantize.iter().all(|d| d.scale.is_none())
}

/// Which squares become parts of sums would depend on the numbers that a compiler knows: results of both forms are the same bits.
#[test]
fn squares_of_norms_are_rounded_before_they_are_summed() {
    let keeps = |algorithm, device: &DeviceTraits| {
        let norm = PrimitiveDesc::builder(Op::Reduction(Reduction::new(algorithm))).src(f32(&[9, 198]));
        let plan = planned(norm.dst(f32(&[9, 1])), device);
        plan.launches
            .iter()
            .any(|launch| launch.program.source.to_string().contains("#define KEEPS_PRODUCTS 1"))
    };
    assert!(keeps(ReductionAlgorithm::NormL2, &gpu()));
    assert!(!keeps(ReductionAlgorithm::Sum, &gpu()) && !keeps(ReductionAlgorithm::NormL2, &cpu()));
}
