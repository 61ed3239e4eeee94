//! Tiles whose sums are divided among work-groups: which ones, and what becomes of their shares.

use anydnn_backend::{
    Arg, Attributes, DataType, Dequantize, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, Quantized,
};

use super::shares::Shares;
use super::tests::{halves, hopper, named, names};
use super::{Product, wgmma};
use crate::capability::Feature;
use crate::capability::units::{DEEP, Tile};
use crate::plan::{DeviceTraits, KernelPlan};
use crate::primitive::quantized;
use crate::primitive::source::add_post_ops;
use crate::primitive::space::{Binding, Index, Space, broadcast};
use crate::primitive::tests::{check_plan, f32, matmul};
use crate::primitive::tiles::Tiles;
use crate::primitive::value::Value;
use crate::testing::shared_test_engines;

/// A few tiles behind those that fill the device take as long as a whole round of them, unless work-groups share their sums.
#[test]
fn last_tiles_that_fill_no_device_are_divided() {
    let name = "ocl:matmul:wgmma-128x128";
    let plan = |desc: &PrimitiveDesc| named(desc, &hopper(), name);
    let number = |plan: &KernelPlan, macro_name: &str| {
        let text = plan.launches[0].program.source.to_string();
        let head = format!("#define {macro_name} ");
        text.lines().find_map(|line| line.strip_prefix(&head)).map(|number| number.parse::<usize>().unwrap())
    };
    // 279 tiles, of which 264 fill 132 units by two, as floats and as integers whose sums are the result.
    let bytes = |columns: usize| {
        let weights = MemoryDesc::with_tag([4096, columns], DataType::S8, "ba").unwrap();
        let dst = MemoryDesc::new([1152, columns], DataType::S32);
        matmul(MemoryDesc::new([1152, 4096], DataType::S8), weights).dst(dst).build().unwrap()
    };
    for desc in [halves(1152, 4096, 3968), bytes(3968)] {
        let plan = plan(&desc);
        let parts = number(&plan, "LAST_PARTS").unwrap();
        assert_eq!(number(&plan, "WHOLE_TILES"), Some(264));
        assert!((3..=17).contains(&parts), "{parts} parts");
        assert_eq!(plan.scratchpad, 15 * parts * 128 * 128 * 4);
        let [sums, join] = plan.launches.as_slice() else { panic!("{} launches", plan.launches.len()) };
        assert_eq!((sums.global, join.global), ([264 * 256, 1, 1], [15 * 256, 4, 1]));
        assert_eq!((&*sums.kernel, &*join.kernel), ("matmul_wgmma", "matmul_wgmma_join"));
        assert_eq!(sums.program.source.to_string(), join.program.source.to_string());
    }
    // Rounds that are full, tiles that do not fill one, and sums too short to pay.
    for sizes in [[4096, 4096, 4096], [1408, 4096, 3072], [1280, 4096, 1792], [1152, 128, 3968]] {
        let [m, k, n] = sizes;
        assert_eq!(number(&plan(&halves(m, k, n)), "LAST_PARTS"), None, "{sizes:?}");
    }
    let first = |m, k, n| names(&halves(m, k, n), &hopper()).remove(0);
    // Smaller tiles take more bytes and fill the device better; rows that begin within sectors of the cache cost the more bytes the more.
    assert_eq!(first(1761, 3712, 1248), "ocl:matmul:wgmma-64x128");
    assert_eq!(first(1935, 3360, 1336), name);
    assert_eq!(first(512, 4096, 4096), "ocl:matmul:wgmma-64x128");
    assert_eq!(first(256, 4096, 4096), "ocl:matmul:wgmma-64x64");
}

fn tiles() -> impl Iterator<Item = &'static Tile> {
    Feature::Wgmma.tiles().iter().chain(&DEEP)
}

/// The plan of a product `[batch, m, n]` by a tile, the tiles behind so many divided.
fn divided(
    desc: &PrimitiveDesc,
    variant: &str,
    (whole, parts): (usize, usize),
    device: &DeviceTraits,
) -> KernelPlan {
    let dims = desc.dst().dims();
    let weights = desc.find(Arg::Weights).unwrap();
    let mut space = Space::default();
    let index: Vec<Index> = ["batch0", "m", "col"]
        .iter()
        .zip(dims.iter())
        .map(|(name, &dim)| Index::of(space.push(*name, dim)))
        .collect();
    let [batch, m, n] = [0, 1, 2].map(|i| index[i].clone());
    let k = Index::of(space.push("k", weights.dims()[1]));
    space.operand("SRC0", Binding::Arg(Arg::SRC), desc.src(), &[batch.clone(), m, k.clone()]);
    let at = [batch, k, n];
    space.operand("WEIGHTS", Binding::Arg(Arg::Weights), weights, &at);
    quantized::add(&mut space, desc, Quantized::Weights, "WEIGHTS", weights.dims(), &at);
    if let Some(bias) = desc.find(Arg::Bias) {
        space.operand("BIAS", Binding::Arg(Arg::Bias), bias, &broadcast(bias, dims, &index));
    }
    space.operand("DST", Binding::Arg(Arg::DST), desc.dst(), &index);
    add_post_ops(&mut space, desc, &index);
    let loops = Tiles { batch: 0..1, m: 1..2, n: 2..3, k: 3..4, inside: "true" };
    let product = Product { desc, space, loops, window: None, value: Value::F32, wide: false };
    let tile = tiles().find(|tile| tile.variant == variant).unwrap();
    let planned = wgmma::planned(&product, tile, Shares::Last { parts, whole }, device).unwrap();
    KernelPlan {
        implementation: format!("ocl:matmul:{variant}"),
        scratchpad: planned.scratchpad,
        launches: planned.launches,
        desc: desc.clone(),
    }
}

/// With biases, post-operations, batches, edges and sums of integers. The product runs where there are such tensor cores.
#[test]
fn shares_of_the_last_tiles_are_joined() {
    let half = |dims: [usize; 3]| MemoryDesc::new(dims, DataType::F16);
    let relu = || Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 }));
    let by_rows = PostOp::Binary {
        algorithm: anydnn_backend::BinaryAlgorithm::Add,
        operand: f32(&[3, 200, 1]),
        reversed: false,
    };
    let bytes = || {
        let weights = MemoryDesc::with_tag([1, 660, 270], DataType::S8, "acb").unwrap();
        matmul(MemoryDesc::new([1, 200, 660], DataType::S8), weights)
    };
    let scale = f32(&[1, 1, 270]);
    let scaled = Dequantize { operand: Quantized::Weights, scale: Some(scale), zero_point: None };
    let list = [
        matmul(half([1, 200, 660]), half([1, 660, 270]))
            .dst(half([1, 200, 270]))
            .bias(half([1, 1, 270]))
            .attributes(relu()),
        matmul(half([1, 250, 1030]), half([1, 1030, 136])).dst(half([1, 250, 136])).bias(f32(&[1, 250, 1])),
        matmul(half([3, 200, 300]), half([3, 300, 139]))
            .dst(half([3, 200, 139]))
            .attributes(relu().with_post_op(by_rows)),
        bytes().dst(MemoryDesc::new([1, 200, 270], DataType::S32)),
        bytes().dst(half([1, 200, 270])).attributes(relu().with_dequantize(scaled)),
    ];
    for (i, builder) in list.into_iter().enumerate() {
        let desc = builder.build().unwrap();
        let [batch, m, n] = [0, 1, 2].map(|axis| desc.dst().dims()[axis]);
        for (j, tile) in tiles().enumerate() {
            let tiles = batch * m.div_ceil(tile.m) * n.div_ceil(tile.n);
            // Each is a program of a second or two where it runs: every tile and every product meets each of them in turn.
            let (whole, parts) = [(tiles - 1, 4), (tiles / 2, 3), (1, 2)][(i + j) % 3];
            let plan =
                divided(&desc, tile.variant, (whole, parts), &DeviceTraits { compute_units: 2, ..hopper() });
            let last = tiles - whole;
            assert_eq!(plan.scratchpad, last * parts * tile.m * tile.n * 4);
            assert_eq!(plan.launches[1].global, [last * tile.m * 2, tile.n / 32, 1]);
            let needs = if tile.is_deep() { Feature::LargeLocal } else { Feature::Wgmma };
            for engine in shared_test_engines().into_iter().filter(|e| e.traits().has(needs)) {
                let device = DeviceTraits { compute_units: 2, ..engine.traits() };
                for offset in [0, 2] {
                    check_plan(&engine, divided(&desc, tile.variant, (whole, parts), &device), offset);
                }
            }
        }
    }
}
