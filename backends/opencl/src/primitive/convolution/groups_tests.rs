//! Weights of groups in panels, against the reference and where they are chosen.

use anydnn_backend::op::{Convolution, Op, Reorder};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, DeviceKind, Eltwise, Engine, Event, Layout, Memory,
    MemoryDesc, MemoryKind, PostOp, PrimitiveDesc, PrimitiveDescBuilder, Stream, StreamDesc,
};

use crate::OpenClPrimitive;
use crate::plan::DeviceTraits;
use crate::primitive::opaque::GroupPanels;
use crate::primitive::tests::{check_everywhere, cpu, f32, gpu, planned, tagged};
use crate::testing::shared_test_engines;

/// A convolution of groups of so many channels and outputs over images with these channels last.
fn grouped(
    groups: usize,
    [channels, outputs]: [usize; 2],
    kernel: usize,
    extent: usize,
    weights: impl FnOnce(MemoryDesc) -> MemoryDesc,
) -> PrimitiveDescBuilder {
    let pad = kernel / 2;
    let op = Convolution::new(2).with_pads([pad; 2], [pad; 2]).with_groups(groups);
    let image = |channels: usize| tagged(&[2, channels, extent, extent], "acdb");
    PrimitiveDesc::builder(Op::Convolution(op))
        .src(image(groups * channels))
        .weights(weights(f32(&[groups * outputs, channels, kernel, kernel])))
        .dst(image(groups * outputs))
}

fn panels_of(groups: usize, width: usize) -> impl Fn(MemoryDesc) -> MemoryDesc {
    move |weights| GroupPanels { groups, width }.layout(&weights).unwrap()
}

#[test]
fn layouts_tell_their_groups_and_width() {
    let weights = f32(&[4 * 17, 9, 3, 1]);
    let panels = GroupPanels { groups: 4, width: 32 };
    let layout = panels.layout(&weights).unwrap();
    assert_eq!((GroupPanels::of(&layout), layout.size()), (Some(panels), 4 * 32 * 27 * 4));
    assert_eq!(GroupPanels { groups: 3, width: 32 }.layout(&weights), None, "outputs of no group");
    assert_eq!(GroupPanels::of(&weights), None);
    let Layout::Opaque { id, bytes } = *layout.layout() else { panic!("{layout}") };
    for (id, bytes) in [(id, bytes + 4), (id + 1, bytes), (id ^ 1 << 63, bytes)] {
        let other =
            MemoryDesc::with_layout(weights.dims().clone(), DataType::F32, Layout::Opaque { id, bytes })
                .unwrap();
        assert_eq!(GroupPanels::of(&other), None);
    }
}

#[test]
fn groups_are_multiplied_by_panels_of_their_own() {
    let bias = |builder: PrimitiveDescBuilder, outputs: usize| builder.bias(f32(&[outputs]));
    let addend = tagged(&[2, 3 * 40, 5, 5], "acdb");
    let added = PostOp::Binary { algorithm: BinaryAlgorithm::Add, operand: addend, reversed: false };
    let post_ops = Attributes::default().with_post_op(added).with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let list = [
        bias(grouped(4, [5, 17], 1, 9, panels_of(4, 32)), 68),
        grouped(3, [8, 40], 3, 5, panels_of(3, 48)).attributes(post_ops),
        grouped(2, [3, 5], 3, 8, panels_of(2, 16)),
        grouped(5, [16, 68], 1, 4, panels_of(5, 64)),
    ];
    let list: Vec<PrimitiveDesc> = list.into_iter().map(|builder| builder.build().unwrap()).collect();
    for desc in &list {
        let plan = crate::primitive::plan(desc, &cpu()).unwrap();
        assert_eq!((plan.implementation.as_str(), plan.launches.len()), ("ocl:convolution:blocked", 1));
    }
    check_everywhere(&list, |_| None);
}

#[test]
fn open_weights_of_groups_become_panels_where_tiles_read_them() {
    let resolved = |builder: PrimitiveDescBuilder, device: &_| {
        let plan = planned(builder, device);
        let weights = plan.desc.find(Arg::Weights).unwrap().clone();
        (GroupPanels::of(&weights).map(|panels| panels.groups), plan.implementation)
    };
    let open = |groups, outputs| grouped(groups, [6, outputs], 3, 12, |weights| weights.to_any());
    assert_eq!(resolved(open(4, 17), &cpu()), (Some(4), "ocl:convolution:blocked".to_owned()));
    // Blocks of all outputs tell where each group begins.
    assert_eq!(resolved(open(4, 64), &cpu()).0, None);
    assert_eq!(resolved(open(1, 17), &cpu()).0, None);
    assert_eq!(resolved(open(4, 17), &gpu()).0, None);
    // Results whose channels lie in blocks are not what tiles store.
    let op = Convolution::new(2).with_pads([1; 2], [1; 2]).with_groups(4);
    let blocks = PrimitiveDesc::builder(Op::Convolution(op))
        .src(tagged(&[2, 24, 12, 12], "acdb"))
        .weights(f32(&[68, 6, 3, 3]).to_any())
        .dst(tagged(&[2, 68, 12, 12], "aBcd16b"));
    assert_eq!(resolved(blocks, &cpu()).0, None);
}

/// Groups of two and four channels, some of them in the vector before as well, of lines that tiles fill and of shorter ones.
#[test]
fn few_channels_of_a_group_are_spread_over_its_lanes() {
    let rows = |groups, members, kernel, extent, strides: [usize; 2]| {
        let pad: usize = kernel / 2;
        let op = Convolution::new(2).with_pads([pad; 2], [pad; 2]).with_groups(groups).with_strides(strides);
        let channels = groups * members;
        let image = |extents: [usize; 2]| tagged(&[2, channels, extents[0], extents[1]], "acdb");
        let result = strides.map(|stride| (extent + 2 * pad - kernel) / stride + 1);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(image([extent; 2]))
            .weights(f32(&[channels, members, kernel, kernel]).to_any())
            .bias(f32(&[channels]))
            .dst(image(result))
    };
    let addend = tagged(&[2, 36, 9, 9], "acdb");
    let added = PostOp::Binary { algorithm: BinaryAlgorithm::Add, operand: addend, reversed: false };
    let list = [
        rows(9, 2, 3, 16, [1, 1]),
        rows(9, 4, 3, 9, [1, 1]).attributes(Attributes::default().with_post_op(added)),
        rows(4, 4, 5, 4, [2, 2]),
        rows(16, 2, 1, 8, [2, 1]),
        rows(5, 4, 3, 2, [1, 1]),
    ];
    for builder in list {
        let plan = planned(builder, &cpu());
        assert_eq!(plan.implementation, "ocl:convolution:grouped-rows");
        check_everywhere(&[plan.desc], |_| None);
    }
    // Vectors of fewer lanes, and dilated taps, which have no program of their own.
    assert_ne!(planned(rows(3, 4, 3, 9, [1, 1]), &cpu()).implementation, "ocl:convolution:grouped-rows");
    assert_ne!(planned(rows(8, 4, 3, 9, [3, 3]), &cpu()).implementation, "ocl:convolution:grouped-rows");
}

/// Each group's last panel is filled up with what is there, and left out on the way back.
#[test]
fn weights_of_any_type_come_into_panels_and_back() {
    let weights = f32(&[3 * 21, 2, 3, 3]);
    let own = panels_of(3, 16)(weights.clone());
    let reorder = |from: &MemoryDesc, to: &MemoryDesc| {
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(from.clone()).dst(to.clone()).build().unwrap()
    };
    let launches = |desc: &PrimitiveDesc| {
        let plan = crate::primitive::plan(desc, &cpu()).unwrap();
        assert_eq!(plan.implementation, "ocl:reorder:panels");
        plan.launches.len()
    };
    assert_eq!([(&weights, &own), (&own, &weights)].map(|(from, to)| launches(&reorder(from, to))), [3, 2]);
    for engine in shared_test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let device = DeviceTraits { kind: DeviceKind::Cpu, ..engine.traits() };
        let values: Vec<f32> = (0..weights.elements()).map(|i| (i % 97) as f32 - 48.0).collect();
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let memory = |desc: &MemoryDesc| engine.create_memory(desc, MemoryKind::Buffer).unwrap();
        let (given, made, back) = (memory(&weights), memory(&own), memory(&weights));
        let halves = memory(&MemoryDesc::new(weights.dims().clone(), DataType::F16));
        stream.write(&given, 0, &bytes(&values), &[]).unwrap();
        // Small integers are the same numbers in 16 bits.
        let ways = [(&given, &halves), (&halves, &made), (&made, &back)];
        for (from, to) in ways {
            let plan = crate::primitive::plan(&reorder(from.desc(), to.desc()), &device).unwrap();
            let primitive = OpenClPrimitive::from_plan(&engine, plan).unwrap();
            let args = [(Arg::SRC, from.clone()), (Arg::DST, to.clone())];
            stream.execute(&primitive, &args, &[]).unwrap().wait().unwrap();
        }
        let mut read = vec![0; weights.size()];
        stream.read(&back, 0, &mut read, &[]).unwrap();
        assert_eq!(read, bytes(&values), "{}", device.name);
        let mut read = vec![0; own.size()];
        stream.read(&made, 0, &mut read, &[]).unwrap();
        // The second panel of the first group: outputs 16 to 20 three times, and the first of them, each behind the one before.
        let second: Vec<f32> = (0..16).map(|lane| values[(16 + lane % 5) * 18]).collect();
        assert_eq!(read[16 * 18 * 4..][..64], bytes(&second), "{}", device.name);
    }
    let other = MemoryDesc::with_tag(weights.dims().clone(), DataType::F32, "Abcd16a").unwrap();
    assert!(crate::primitive::plan(&reorder(&other, &own), &cpu()).is_err(), "blocks of outputs");
}
