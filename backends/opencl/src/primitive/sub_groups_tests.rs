//! Kernels for sub-groups, on whatever devices have them.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{
    GroupNormalization, LayerNormalization, MatMul, Op, Reduction, ReductionAlgorithm, Softmax,
};
use anydnn_backend::{
    Arg, Attributes, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, PrimitiveDescBuilder,
};

use super::tests::{check_on, cpu, f32, gpu, matmul, tagged};
use super::{Wanted, choices, plan};
use crate::capability::Feature;
use crate::capability::sub_groups::SubGroups;
use crate::plan::DeviceTraits;
use crate::testing::sub_group_test_engines;

/// A GPU with sub-groups of 16 work-items, or of 8 or 32 where kernels ask for it.
fn with_sub_groups() -> DeviceTraits {
    gpu().with_sub_groups(&SubGroups {
        width: 16,
        settable: vec![8, 16, 32],
        standard: "-cl-std=CL1.2".into(),
        extension: "cl_khr_subgroups".into(),
        exchange: Some("sub_group_shuffle_xor".into()),
    })
}

fn softmax(dims: &[usize]) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(Op::Softmax(Softmax::new(dims.len() - 1))).src(f32(dims))
}

/// Rows of every kind: in parts of a sub-group and several of them, in registers and not.
fn rows() -> Vec<PrimitiveDesc> {
    use ReductionAlgorithm as A;
    let half = |dims: &[usize]| MemoryDesc::new(dims, DataType::F16);
    let mut logarithm = Softmax::new(1);
    logarithm.log = true;
    let layer = |dims: [usize; 2], rms| {
        let mut op = LayerNormalization::new(1, 1e-5);
        op.rms = rms;
        let builder = PrimitiveDesc::builder(Op::LayerNormalization(op)).src(f32(&dims));
        builder.arg(Arg::Scale, f32(&dims[1..])).build().unwrap()
    };
    let groups = PrimitiveDesc::builder(Op::GroupNormalization(GroupNormalization::new(3, 1e-5)))
        .src(f32(&[2, 6, 8, 5]));
    let reduce = |algorithm, dims: &[usize]| {
        let op = Op::Reduction(Reduction::new(algorithm));
        PrimitiveDesc::builder(op).src(f32(dims)).dst(f32(&[dims[0], 1])).build().unwrap()
    };
    let tanh = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Tanh));
    let mut list = vec![
        softmax(&[7, 100]).build().unwrap(),
        softmax(&[3, 20, 36]).build().unwrap(),
        softmax(&[5, 1000]).attributes(tanh).build().unwrap(),
        softmax(&[2, 9004]).build().unwrap(),
        PrimitiveDesc::builder(Op::Softmax(logarithm)).src(half(&[9, 520])).build().unwrap(),
        layer([5, 300], false),
        layer([3, 4100], false),
        layer([33, 64], true),
        groups.build().unwrap(),
        reduce(A::Max, &[300, 104]),
        reduce(A::Max, &[3, 70_000]),
    ];
    let algorithms = [A::Sum, A::Mean, A::Min, A::Product, A::NormL1, A::NormL2];
    list.extend(algorithms.map(|algorithm| reduce(algorithm, &[4, 76])));
    list
}

#[test]
fn gpus_with_sub_groups_take_them_for_rows() {
    let device = with_sub_groups();
    let made = plan(&softmax(&[8, 64, 64]).build().unwrap(), &device).unwrap();
    assert_eq!(made.implementation, "ocl:softmax:sub-groups");
    let launch = &made.launches[0];
    assert_eq!((launch.sub_group, launch.program.options.as_str()), (Some(16), "-cl-std=CL1.2"));
    let text = launch.program.source.to_string();
    assert!(text.starts_with("#pragma OPENCL EXTENSION cl_khr_subgroups : enable"));
    assert!(text.contains("intel_reqd_sub_group_size(16)") && text.contains("sub_group_shuffle_xor"));
    let width = |dims: &[usize], device: &DeviceTraits| {
        plan(&softmax(dims).build().unwrap(), device).unwrap().launches[0].sub_group
    };
    // Narrower ones where there is less to do, none where most of their work-items would idle.
    assert_eq!(width(&[64, 32], &device), Some(8));
    assert_eq!(width(&[64, 8], &device), None);
    let fixed = device.clone().with_sub_groups(&device.sub_groups().unwrap().of_width(16));
    assert_eq!((width(&[64, 32], &fixed), width(&[64, 40], &fixed)), (None, Some(16)));
    assert_eq!(width(&[64, 512], &gpu()), None);
    // Processors have vectors instead.
    let odd = plan(&softmax(&[64, 511]).build().unwrap(), &device).unwrap();
    assert_eq!(odd.implementation, "ocl:softmax:parts");
    let processor = DeviceTraits { kind: cpu().kind, ..device };
    assert_eq!(width(&[64, 512], &processor), None);
}

#[test]
fn what_does_without_sub_groups_is_offered_behind_them() {
    let desc = softmax(&[8, 64]).build().unwrap();
    let names = |wanted, device: &DeviceTraits| -> Vec<String> {
        let list = choices(&desc, device, wanted).unwrap();
        list.into_iter().map(|choice| choice.plan.implementation).collect()
    };
    let device = with_sub_groups();
    assert_eq!(names(Wanted::All, &device), ["ocl:softmax:sub-groups", "ocl:softmax:parts"]);
    assert_eq!(names(Wanted::Named("ocl:softmax:parts"), &device), ["ocl:softmax:parts"]);
    assert_eq!(names(Wanted::All, &gpu()), ["ocl:softmax:parts"]);
}

/// By every width that kernels may ask for, by exchanges and without.
#[test]
fn rows_by_sub_groups_compute_what_the_operations_mean() {
    let by_columns = matmul(f32(&[40, 100]), tagged(&[100, 3], "ba")).build().unwrap();
    assert!(matches!(by_columns.op(), Op::MatMul(MatMul)));
    for engine in sub_group_test_engines() {
        let own = engine.traits().sub_groups().unwrap();
        let mut widths = own.settable.clone();
        widths.retain(|width| (8..=32).contains(width));
        for (i, desc) in rows().iter().enumerate() {
            // The compiler's own width for every second, and the others by turns.
            let other = widths.get(i / 2 % widths.len().max(1)).filter(|_| i % 2 > 0);
            let width = other.copied().unwrap_or(own.width);
            let exchange = own.exchange.clone().filter(|_| i % 3 > 0);
            let sub_groups = SubGroups { width, exchange, ..own.clone() };
            let device = engine.traits().with_sub_groups(&sub_groups);
            let made = plan(desc, &device).unwrap();
            assert!(made.launches[0].sub_group.is_some(), "{desc}: {}", made.implementation);
            check_on(&engine, made, |_| None);
        }
        for choice in choices(&by_columns, &engine.traits(), Wanted::Named("ocl:matmul:dot")).unwrap() {
            assert!(choice.plan.launches[0].sub_group.is_some());
            check_on(&engine, choice.plan, |_| None);
        }
    }
}

/// Elsewhere local memory joins what work-items have.
#[test]
fn rows_join_by_registers_on_nvidia() {
    let joins_by_registers = |device: &DeviceTraits| {
        let plan = plan(&softmax(&[100, 3000]).build().unwrap(), device).unwrap();
        plan.launches[0].program.source.to_string().contains("#define SHUFFLES 1")
    };
    assert!(joins_by_registers(&gpu().with(Feature::NvidiaPtx, Ok("made up"))));
    assert!(!joins_by_registers(&gpu()));
}

#[test]
fn infinities_come_through_sub_groups_and_nan_through_sums() {
    let inf = f64::INFINITY;
    let reduce = |algorithm| {
        let op = Op::Reduction(Reduction::new(algorithm));
        PrimitiveDesc::builder(op).src(f32(&[5, 72])).dst(f32(&[5, 1])).build().unwrap()
    };
    let list = [
        softmax(&[5, 72]).build().unwrap(),
        reduce(ReductionAlgorithm::Max),
        reduce(ReductionAlgorithm::Min),
    ];
    for engine in sub_group_test_engines() {
        for desc in &list {
            // Which of two a maximum takes where one is no number is left to the device.
            let sums = matches!(desc.op(), Op::Softmax(_)).then_some(f64::NAN);
            for special in [inf, -inf].into_iter().chain(sums) {
                let mut values = vec![0.5; 72];
                values[65] = special;
                let made = plan(desc, &engine.traits()).unwrap();
                check_on(&engine, made, |_| Some(Values::Listed(values.clone())));
            }
        }
    }
}

#[test]
fn kernels_are_written_for_the_width_that_the_compiler_chose() {
    let desc = softmax(&[5, 500]).build().unwrap();
    for engine in sub_group_test_engines() {
        let own = engine.traits().sub_groups().unwrap();
        // A compiler that is not told chooses its own width.
        let device = engine.traits().with_sub_groups(&own.of_width(own.width * 2));
        let wrong = plan(&desc, &device).unwrap();
        assert_eq!(wrong.launches[0].sub_group, Some(own.width * 2));
        let right = crate::backend::sub_groups::fitting(&engine, wrong, &device).unwrap();
        assert_eq!(right.launches[0].sub_group, Some(own.width));
        check_on(&engine, right, |_| None);
    }
}
