//! Plans for large products, as values and run on the devices there are.

use anydnn_backend::conformance::Sample;
use anydnn_backend::op::{Convolution, Deconvolution};
use anydnn_backend::{
    Arg, Attributes, Blocking, DataType, Dequantize, DeviceKind, Eltwise, FpMath, Layout, MemoryDesc, Op,
    PostOp, PrimitiveDesc, PrimitiveDescBuilder, Quantized,
};
use smallvec::SmallVec;

use crate::capability::Feature;
use crate::capability::sub_groups::SubGroups;
use crate::capability::units::DEEP;
use crate::plan::{DeviceTraits, KernelPlan};
use crate::primitive::tests::{check_everywhere, check_plan, f32, gpu, matmul, tagged};
use crate::primitive::{Wanted, choices, choose};
use crate::testing::{engines_for, shared_test_engines, sub_group_test_engines};

pub(super) fn hopper() -> DeviceTraits {
    gpu().with(Feature::Wgmma, Ok("made up"))
}

pub(super) fn names(desc: &PrimitiveDesc, device: &DeviceTraits) -> Vec<String> {
    choices(desc, device, Wanted::All).unwrap().into_iter().map(|c| c.plan.implementation).collect()
}

pub(super) fn named(desc: &PrimitiveDesc, device: &DeviceTraits, name: &str) -> KernelPlan {
    match choose(desc, device, Wanted::Named(name)) {
        Ok(choice) => choice.plan,
        Err(error) => panic!("{error}; there are {:?} with {:?}", names(desc, device), device.sub_groups()),
    }
}

pub(super) fn halves(m: usize, k: usize, n: usize) -> PrimitiveDesc {
    let matrix = |rows, columns| MemoryDesc::new([rows, columns], DataType::F16);
    matmul(matrix(m, k), matrix(k, n)).build().unwrap()
}

/// Whether the program of a plan's first launch defines a macro like this.
pub(super) fn defines(plan: &KernelPlan, text: &str) -> bool {
    known_text(plan).lines().any(|line| line == format!("#define {text}"))
}

/// The first launch's program with the numbers that come with it.
fn known_text(plan: &KernelPlan) -> String {
    let launch = &plan.launches[0];
    let mut text = launch.program.source.to_string();
    for (i, bytes) in launch.table.as_chunks().0.iter().enumerate() {
        text = text.replace(&format!("SHAPE({i})"), &i32::from_ne_bytes(*bytes).to_string());
    }
    text
}

#[test]
fn tensor_cores_come_first_where_they_serve() {
    let large = halves(4096, 4096, 4096);
    assert_eq!(names(&large, &hopper())[0], "ocl:matmul:wgmma-128x128");
    assert!(names(&large, &hopper()).contains(&"ocl:matmul:simt-256x128".into()));
    assert!(!names(&large, &gpu()).iter().any(|name| name.contains("wgmma")));
    let single = matmul(f32(&[4096, 4096]), f32(&[4096, 4096])).build().unwrap();
    assert_eq!(names(&single, &hopper())[0], "ocl:matmul:simt-256x128");
    let tf32 = matmul(f32(&[4096, 4096]), f32(&[4096, 4096]))
        .attributes(Attributes::default().with_fpmath(FpMath::TF32))
        .build()
        .unwrap();
    assert_eq!(names(&tf32, &hopper())[0], "ocl:matmul:wgmma-128x128");
    // Integers are summed exactly, which f32 does not.
    let bytes = MemoryDesc::new([4096, 4096], DataType::S8);
    let bytes = matmul(bytes.clone(), bytes).build().unwrap();
    assert_eq!(names(&bytes, &hopper())[0], "ocl:matmul:wgmma-128x128");
    assert!(!names(&bytes, &hopper()).iter().any(|name| name.contains("simt")));
}

/// The sums of the instruction have 14 bits, which results of f32 must permit.
#[test]
fn floats_of_eight_bits_go_to_tensor_cores_for_short_results() {
    let kinds = [DataType::F8E4M3, DataType::F8E5M2];
    let desc = |[m, k, n]: [usize; 3], [src, weights]: [DataType; 2], dst: DataType, fpmath: FpMath| {
        let weights = MemoryDesc::with_tag([k, n], weights, "ba").unwrap();
        matmul(MemoryDesc::new([m, k], src), weights)
            .dst(MemoryDesc::new([m, n], dst))
            .arg(Arg::Bias, f32(&[1, n]))
            .attributes(
                Attributes::default().with_fpmath(fpmath).with_post_op(PostOp::Eltwise(Eltwise::Relu)),
            )
            .build()
            .unwrap()
    };
    let first = |k: usize, dst, fpmath| names(&desc([256, k, 256], kinds, dst, fpmath), &hopper()).remove(0);
    for (k, dst, fpmath, serves) in [
        (512, DataType::BF16, FpMath::Strict, true),
        (512, DataType::F8E4M3, FpMath::Strict, true),
        (512, DataType::F32, FpMath::Any, true),
        (512, DataType::F32, FpMath::Strict, false),
        (16384, DataType::BF16, FpMath::Strict, false),
        (1024, DataType::F16, FpMath::Strict, true),
        (3191, DataType::F16, FpMath::Strict, false),
        (3191, DataType::F16, FpMath::Any, true),
    ] {
        assert_eq!(first(k, dst, fpmath).contains("wgmma"), serves, "{k} terms, {dst}, {fpmath:?}");
    }
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for (i, src) in kinds.into_iter().enumerate() {
            for weights in kinds {
                let size = [[70, 208, 72], [130, 77, 131]][i];
                let desc = desc(size, [src, weights], DataType::BF16, FpMath::Strict);
                let tiles = ["wgmma-128x128", "wgmma-64x64"];
                for tile in tiles {
                    check_plan(&engine, named(&desc, &engine.traits(), &format!("ocl:matmul:{tile}")), 0);
                }
            }
        }
    }
}

#[test]
fn few_rows_or_columns_have_flat_tiles() {
    let first = |m: usize, n: usize| {
        let desc = matmul(f32(&[m, 4096]), f32(&[4096, n])).build().unwrap();
        names(&desc, &gpu()).into_iter().find(|name| name.contains("simt")).unwrap()
    };
    assert_eq!(first(32, 4096), "ocl:matmul:simt-32x256");
    assert_eq!(first(4096, 32), "ocl:matmul:simt-256x32");
    assert_eq!(first(64, 4096), "ocl:matmul:simt-64x256");
    assert_eq!(first(64, 64), "ocl:matmul:simt-64x64");
}

/// A device whose copies go past the registers.
fn with_copies() -> DeviceTraits {
    DeviceTraits { compute_units: 132, ..gpu().with(Feature::NvidiaMma, Ok("made up")) }
}

/// Slices come past the registers where rows are no whole vectors, and for tiles of which several share a unit.
#[test]
fn slices_of_floats_come_by_copies_where_that_pays() {
    let product = |m: usize, k: usize, n: usize| matmul(f32(&[m, k]), f32(&[k, n])).build().unwrap();
    let copies = |desc: &PrimitiveDesc, device: &DeviceTraits, tile: &str| {
        defines(&named(desc, device, &format!("ocl:matmul:simt-{tile}")), "COPIES 1")
    };
    let (whole, odd) = (product(512, 512, 512), product(511, 511, 511));
    for (tile, of_whole) in [("64x128", true), ("128x64", true), ("256x128", false), ("64x64", false)] {
        assert_eq!(copies(&whole, &with_copies(), tile), of_whole, "{tile}");
        assert!(copies(&odd, &with_copies(), tile), "{tile}");
    }
    for tile in ["128x64", "256x128", "64x64"] {
        assert!(!copies(&odd, &gpu(), tile), "another device has no such copies");
    }
    let scaled = scaled([63, 63, 63], Quantized::Weights, &[1, 63]).build().unwrap();
    assert!(!copies(&scaled, &with_copies(), "64x64"), "scales are applied in registers");
    // Of few rows such weights come faster by tiles than by vectors.
    let first = |m: usize, n: usize| names(&product(m, 936, n), &with_copies()).swap_remove(0);
    assert!(first(12, 3975).contains("simt"), "{}", first(12, 3975));
    assert_eq!([first(12, 3976), first(7, 3975)], ["ocl:matmul:skinny", "ocl:matmul:skinny"]);
}

/// Sums have the number of parts that fills the units best: 24 tiles of 115 slices.
#[test]
fn sums_of_floats_have_any_number_of_parts() {
    let desc = matmul(f32(&[379, 1839]), f32(&[1839, 417])).build().unwrap();
    let plan = named(&desc, &with_copies(), "ocl:matmul:simt-128x64");
    assert!(defines(&plan, "PARTS 6"));
    assert_eq!(plan.launches.len(), 2);
}

#[test]
fn results_whose_rows_are_no_vectors_are_stored_by_neighbours() {
    let lone = |dst: &MemoryDesc, n: usize| {
        let desc = matmul(f32(&[64, 8]), f32(&[8, n])).dst(dst.clone()).build().unwrap();
        defines(&named(&desc, &gpu(), "ocl:matmul:simt-64x64"), "LONE_RESULTS 1")
    };
    assert!(lone(&f32(&[64, 67]), 67));
    assert!(!lone(&f32(&[64, 68]), 68));
    assert!(!lone(&MemoryDesc::new([64, 67], DataType::F16), 67), "results of 16 bits");
    assert!(!lone(&MemoryDesc::with_tag([64, 67], DataType::F32, "ba").unwrap(), 67), "columns lie apart");
}

#[test]
fn few_tiles_split_their_sums() {
    let name = "ocl:matmul:wgmma-128x128";
    let whole = named(&halves(4096, 4096, 4096), &hopper(), name);
    assert_eq!((whole.launches.len(), whole.scratchpad), (1, 0));
    assert!(defines(&whole, "PARTS 1"));
    let split = named(&halves(128, 16384, 256), &hopper(), name);
    assert_eq!(split.launches.len(), 2);
    let parts = split.launches[0].global[2];
    assert!(parts > 1 && split.scratchpad == (parts * 128 * 256 + 15) * 4, "{split:?}");
    assert!(split.launches[1].program.source.to_string().contains("LD_PARTIAL"));
    // The vectors of every part are aligned.
    let odd = named(&halves(1, 16384, 237), &hopper(), "ocl:matmul:wgmma-64x64");
    assert!(
        defines(&odd, "PARTIAL_SIZE 240") && odd.scratchpad == (odd.launches[0].global[2] * 240 + 15) * 4
    );
}

/// Few slices leave registers for what the sums before still need; many do where there is no bias.
#[test]
fn first_slices_come_while_sums_are_stored() {
    let name = "ocl:matmul:wgmma-128x128";
    let half = |dims: [usize; 2]| MemoryDesc::new(dims, DataType::F16);
    let overlaps = |terms: usize, has_bias: bool| {
        let product = matmul(half([4096, terms]), half([terms, 4096]));
        let product = if has_bias { product.bias(half([1, 4096])) } else { product };
        defines(&named(&product.build().unwrap(), &hopper(), name), "OVERLAPS 1")
    };
    assert!(overlaps(512, true) && !overlaps(544, true) && overlaps(4096, false));
}

/// With more local memory than OpenCL grants, rings of slices are deeper. What comes through registers stays with small tiles.
#[test]
fn deep_rings_need_large_local_memory() {
    let device = hopper().with(Feature::LargeLocal, Ok("made up"));
    let large = halves(4096, 4096, 4096);
    assert_eq!(names(&large, &device)[0], "ocl:matmul:wgmma-128x256");
    assert_eq!(names(&halves(512, 4096, 4096), &device)[0], "ocl:matmul:wgmma-128x128-deep");
    // One round of tiles of the width that fills it best.
    assert_eq!(names(&halves(256, 4096, 4096), &device)[0], "ocl:matmul:wgmma-128x64-deep");
    assert_eq!(names(&halves(128, 4096, 4096), &device)[0], "ocl:matmul:wgmma-64x64");
    assert_eq!(names(&halves(1175, 3440, 2080), &device)[0], "ocl:matmul:wgmma-128x192");
    assert_eq!(names(&halves(33_000, 1152, 128), &device)[0], "ocl:matmul:wgmma-256x128");
    assert_eq!(named(&halves(256, 4096, 4096), &device, "ocl:matmul:wgmma-128x256").launches.len(), 1);
    let is_deep = |name: &String| DEEP.iter().any(|tile| name.ends_with(tile.variant));
    assert!(!names(&large, &hopper()).iter().any(is_deep));
    for [m, k, n] in [[4095, 4095, 4095], [4096, 504, 4096]] {
        assert!(!names(&halves(m, k, n), &device).iter().any(is_deep));
    }
    let plan = named(&large, &device, "ocl:matmul:wgmma-128x256");
    assert!(defines(&plan, "STAGES 4") && defines(&plan, "LAG 1"));
    assert!(defines(&plan, "LOCAL_BYTES \"196608\""));
    let plan = named(&large, &device, "ocl:matmul:wgmma-128x128-deep");
    assert!(defines(&plan, "STAGES 7") && defines(&plan, "LOCAL_BYTES \"229376\""));
    let plan = named(&large, &device, "ocl:matmul:wgmma-128x128");
    assert!(
        defines(&plan, "LAG 0")
            && !plan.launches[0].program.source.to_string().contains("define LOCAL_BYTES")
    );
    let tf32 = matmul(f32(&[4096, 4096]), tagged(&[4096, 4096], "ba"))
        .attributes(Attributes::default().with_fpmath(FpMath::TF32));
    let plan = named(&tf32.build().unwrap(), &device, "ocl:matmul:wgmma-128x256");
    assert!(defines(&plan, "STAGES 4") && defines(&plan, "K_TILE 32"));
}

/// Where a result has no whole vectors, storing it takes as long as many terms: smaller tiles share that out, and few terms need no large ones.
#[test]
fn results_without_vectors_have_smaller_tiles() {
    let first = |m, k, n| names(&halves(m, k, n), &hopper()).remove(0);
    assert_eq!(first(2255, 106, 965), "ocl:matmul:wgmma-64x64");
    assert_eq!(first(461, 15, 5093), "ocl:matmul:tiled");
    assert_eq!(first(461, 33, 5093), "ocl:matmul:wgmma-64x64");
    assert_ne!(first(461, 15, 5096), "ocl:matmul:tiled");
}

/// Groups go on with the tiles of the next product of a batch.
#[test]
fn batches_share_groups() {
    let half = |dims: [usize; 3]| MemoryDesc::new(dims, DataType::F16);
    let desc = matmul(half([64, 1024, 64]), half([64, 64, 1024])).build().unwrap();
    let plan = named(&desc, &hopper(), "ocl:matmul:wgmma-128x128");
    assert!(defines(&plan, "BATCHES 64"));
    assert_eq!(plan.launches[0].global, [hopper().compute_units * 2 * 256, 1, 1]);
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for [batch, m, k, n] in [[600, 9, 16, 24], [1100, 10, 70, 13], [3, 130, 66, 140]] {
            let desc = matmul(half([batch, m, k]), half([batch, k, n])).build().unwrap();
            for tile in ["128x128", "64x64"] {
                let plan = named(&desc, &engine.traits(), &format!("ocl:matmul:wgmma-{tile}"));
                check_plan(&engine, plan, 0);
            }
        }
    }
}

/// Rows that are no multiples of 16 bytes come by words, and by way of registers where they may begin within one.
#[test]
fn rows_that_are_no_whole_vectors_come_in_words() {
    let half = |dims: [usize; 2], tag: &str| MemoryDesc::with_tag(dims, DataType::F16, tag).unwrap();
    let desc = |[m, k, n]: [usize; 3], tags: [&str; 2]| {
        matmul(half([m, k], tags[0]), half([k, n], tags[1])).build().unwrap()
    };
    let words = |sizes: [usize; 3], tags: [&str; 2], letter: &str| {
        let plan = named(&desc(sizes, tags), &hopper(), "ocl:matmul:wgmma-64x64");
        let odd = [0, 1].into_iter().find(|odd| defines(&plan, &format!("{letter}_ODD {odd}")));
        let text = known_text(&plan);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("#define {letter}_LINE ")));
        (defines(&plan, &format!("{letter}_WORDS 1")), odd, line.map(str::to_owned))
    };
    let found = |odd: i32, line: &str| (true, Some(odd), Some(line.to_owned()));
    assert_eq!(words([80, 66, 72], ["ab", "ab"], "A"), found(0, "132"));
    assert_eq!(words([80, 66, 72], ["ab", "ab"], "B"), (false, None, None));
    assert_eq!(words([80, 72, 67], ["ab", "ab"], "B"), found(1, "134"));
    assert_eq!(words([81, 72, 64], ["ba", "ba"], "A"), found(1, "162"));
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for sizes in [[70, 66, 74], [71, 67, 73], [130, 129, 131], [65, 33, 258]] {
            for tags in [["ab", "ab"], ["ba", "ba"], ["ba", "ab"]] {
                for tile in ["128x128", "128x64", "64x128", "64x64"] {
                    let name = format!("ocl:matmul:wgmma-{tile}");
                    check_plan(&engine, named(&desc(sizes, tags), &engine.traits(), &name), 0);
                }
            }
        }
    }
}

/// Parts lie channels last, results by channel: they pass through tiles in local memory on the way.
#[test]
fn parts_are_joined_along_the_results() {
    let desc = |tag: &str| {
        let relu = PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 });
        let addend = PostOp::Binary {
            algorithm: anydnn_backend::BinaryAlgorithm::Add,
            operand: f32(&[1, 40, 18, 17]),
            reversed: false,
        };
        PrimitiveDesc::builder(Op::Convolution(Convolution::new(2)))
            .src(tagged(&[1, 1024, 18, 17], "acdb"))
            .weights(tagged(&[40, 1024, 1, 1], "cdba"))
            .dst(tagged(&[1, 40, 18, 17], tag))
            .arg(Arg::Bias, f32(&[40]))
            .attributes(Attributes::default().with_post_op(addend).with_post_op(relu))
            .build()
            .unwrap()
    };
    let joined = |tag: &str, device: &DeviceTraits| {
        let plan = named(&desc(tag), device, "ocl:convolution:simt-64x64");
        assert_eq!(plan.launches.len(), 2);
        plan
    };
    assert_eq!(joined("acdb", &gpu()).launches[1].kernel, "pointwise");
    assert_eq!(joined("abcd", &gpu()).launches[1].kernel, "transposed");
    for engine in engines_for(&desc("abcd")) {
        let device = DeviceTraits { kind: DeviceKind::Gpu, compute_units: 64, ..engine.traits() };
        let plan = joined("abcd", &device);
        assert_eq!(plan.launches[1].kernel, "transposed");
        check_plan(&engine, plan, 0);
    }
}

#[test]
fn operands_come_as_they_lie() {
    let name = "ocl:matmul:wgmma-64x64";
    let fetches = |src: MemoryDesc, weights: MemoryDesc| {
        let plan = named(&matmul(src, weights).build().unwrap(), &hopper(), name);
        let how = |letter: &str| {
            let kinds = ["BY_TERMS", "BY_ROWS", "BY_ELEMENT"];
            kinds.into_iter().find(|kind| defines(&plan, &format!("{letter}_FETCH {kind}"))).unwrap()
        };
        (how("A"), how("B"))
    };
    let matrix = |rows: usize, columns: usize, tag: &str| {
        MemoryDesc::with_tag([rows, columns], DataType::F16, tag).unwrap()
    };
    assert_eq!(fetches(matrix(64, 64, "ab"), matrix(64, 64, "ab")), ("BY_TERMS", "BY_ROWS"));
    assert_eq!(fetches(matrix(64, 64, "ba"), matrix(64, 64, "ba")), ("BY_ROWS", "BY_TERMS"));
    assert_eq!(fetches(matrix(64, 65, "ab"), matrix(65, 65, "ab")), ("BY_TERMS", "BY_ROWS"));
    // TF32 has words of its own size.
    let tf32 =
        matmul(f32(&[64, 65]), f32(&[65, 65])).attributes(Attributes::default().with_fpmath(FpMath::TF32));
    let plan = named(&tf32.build().unwrap(), &hopper(), name);
    assert!(defines(&plan, "A_FETCH BY_ELEMENT") && !defines(&plan, "A_WORDS 1"));
    let channels_last = |dims: [usize; 4]| MemoryDesc::with_tag(dims, DataType::F16, "acdb").unwrap();
    let op = Op::Convolution(Convolution::new(2).with_pads([1, 1], [1, 1]));
    let desc = PrimitiveDesc::builder(op)
        .src(channels_last([2, 16, 9, 9]))
        .weights(channels_last([32, 16, 3, 3]))
        .dst(channels_last([2, 32, 9, 9]))
        .build()
        .unwrap();
    let plan = named(&desc, &hopper(), "ocl:convolution:wgmma-64x64");
    assert!(defines(&plan, "A_FETCH BY_TERMS") && defines(&plan, "B_FETCH BY_TERMS"));
    // A slice of 64 terms has channels of several taps here.
    assert!(!plan.launches[0].program.source.to_string().contains("#define A_TAPS"));
}

#[test]
fn slices_of_one_tap_share_its_place() {
    let half = |dims: [usize; 4], tag| MemoryDesc::with_tag(dims, DataType::F16, tag).unwrap();
    let desc = |strides: [usize; 2]| {
        let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_strides(strides);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(half([2, 64, 9, 7], "acdb"))
            .weights(half([40, 64, 3, 3], "cdba"))
            .dst(half([2, 40, 9_usize.div_ceil(strides[0]), 7_usize.div_ceil(strides[1])], "acdb"))
            .arg(Arg::Bias, MemoryDesc::new([40], DataType::F16))
            .build()
            .unwrap()
    };
    let plan = named(&desc([1, 1]), &hopper(), "ocl:convolution:wgmma-64x64");
    assert!(
        defines(&plan, "A_CHANNELS 64") && defines(&plan, "A_TAPS 9") && defines(&plan, "BIAS_BY_COLUMN 1")
    );
    assert!(defines(&plan, "OFF_TAP (kh * 448 + kw * 64 + c)") && defines(&plan, "B_STRIDE 80"));
    for engine in shared_test_engines() {
        let max_work_group = engine.traits().max_work_group.min(256);
        let device = DeviceTraits { kind: DeviceKind::Gpu, max_work_group, ..engine.traits() };
        let tiles: &[&str] = if device.has(Feature::Wgmma) {
            &["wgmma-128x128", "wgmma-128x64", "wgmma-64x128", "wgmma-64x64"]
        } else {
            &["simt-64x64"]
        };
        for tile in tiles {
            let strides = if tile.ends_with("64x64") { [2, 1] } else { [1, 1] };
            check_plan(&engine, named(&desc(strides), &device, &format!("ocl:convolution:{tile}")), 0);
        }
    }
}

/// Blocks along the width, in which a window's places are not those of its first tap and of the taps behind it added up.
#[test]
fn windows_over_blocked_lines_come_without_a_table() {
    let desc = |tag: &str| {
        let half = |dims: [usize; 3], tag: &str| MemoryDesc::with_tag(dims, DataType::F16, tag).unwrap();
        PrimitiveDesc::builder(Op::Convolution(Convolution::new(1)))
            .src(half([1, 256, 5], tag))
            .weights(half([40, 256, 2], "abc"))
            .dst(half([1, 40, 4], "abc"))
            .build()
            .unwrap()
    };
    let by_table = |tag| defines(&named(&desc(tag), &hopper(), "ocl:convolution:wgmma-64x64"), "A_TABLE 1");
    assert_eq!(["AbC4a4c", "abC4c", "aBc4b"].map(by_table), [false, false, true]);
    for engine in shared_test_engines() {
        for choice in choices(&desc("AbC4a4c"), &engine.traits(), Wanted::All).unwrap() {
            check_plan(&engine, choice.plan, 0);
        }
    }
}

#[test]
fn windows_of_few_channels_come_by_a_table_of_their_terms() {
    let batch_of = |batch: usize, channels: usize, tag: &str| {
        let half = |dims: [usize; 4]| MemoryDesc::with_tag(dims, DataType::F16, tag).unwrap();
        let op = Convolution::new(2).with_pads([3, 2], [2, 3]).with_strides([2, 1]).with_dilations([1, 2]);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(half([batch, channels, 23, 19]))
            .weights(half([40, channels, 7, 5]))
            .dst(half([batch, 40, 11, 16]))
            .build()
            .unwrap()
    };
    let desc = |channels: usize, tag: &str| batch_of(2, channels, tag);
    let by_table = |channels, tag, tile: &str| {
        let plan = named(&desc(channels, tag), &hopper(), &format!("ocl:convolution:{tile}"));
        (defines(&plan, "A_TABLE 1"), defines(&plan, "A_FETCH BY_TERMS"))
    };
    assert_eq!(by_table(3, "acdb", "wgmma-128x64"), (true, false));
    assert_eq!(names(&batch_of(2000, 3, "acdb"), &hopper())[0], "ocl:convolution:wgmma-128x64");
    // Neighbours along the image, copies of whole vectors, and more terms than a table has.
    assert_eq!(by_table(3, "abcd", "wgmma-128x64"), (false, false));
    assert_eq!(by_table(8, "acdb", "wgmma-128x64"), (false, true));
    assert_eq!(by_table(101, "acdb", "wgmma-128x64"), (false, false));
    // A smaller tile has longer slices, beside which this table has no room.
    assert_eq!(by_table(85, "acdb", "wgmma-64x64"), (false, false));
    assert_eq!(by_table(85, "acdb", "wgmma-128x64"), (true, false));
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for (channels, tile) in [(3, "128x128"), (5, "128x64"), (1, "64x128"), (3, "64x64")] {
            let plan =
                named(&desc(channels, "acdb"), &engine.traits(), &format!("ocl:convolution:wgmma-{tile}"));
            check_plan(&engine, plan, 0);
        }
    }
}

/// Windows whose taps and channels are neighbours: pairs begin within words where a row of the source and a step of the window are words.
#[test]
fn neighbours_along_the_width_come_by_pairs() {
    let desc = |channels: usize, width: usize, stride: usize, pads: [usize; 2], data_type: DataType| {
        let op = Convolution::new(2).with_pads([pads[0], pads[1]], [2, 3]).with_strides([2, stride]);
        let placed = |dims: [usize; 4]| MemoryDesc::with_tag(dims, data_type, "acdb").unwrap();
        let columns = (width + pads[1] + 3 - 5) / stride + 1;
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(placed([2, channels, 23, width]))
            .weights(MemoryDesc::with_tag([40, channels, 7, 5], data_type, "cdba").unwrap())
            .dst(placed([2, 40, (23 + pads[0] + 2 - 7) / 2 + 1, columns]))
            .build()
            .unwrap()
    };
    let half = DataType::F16;
    let pairs = |desc: &PrimitiveDesc| {
        let plan = named(desc, &hopper(), "ocl:convolution:wgmma-128x64");
        let number = |name: &str| (0..40).find(|n| defines(&plan, &format!("{name} {n}")));
        (number("A_PAIRS"), number("PAIR_TERMS"), number("PAIR_LEAD"))
    };
    // The first pair begins a term before the window, or ends behind it, or neither.
    assert_eq!(pairs(&desc(3, 20, 2, [3, 3], half)), (Some(8), Some(15), Some(1)));
    assert_eq!(pairs(&desc(3, 20, 2, [3, 2], half)), (Some(8), Some(15), Some(0)));
    assert_eq!(pairs(&desc(2, 19, 1, [3, 3], half)), (Some(5), Some(10), Some(0)));
    // A row that ends within a word, steps of half a word, and other elements.
    for other in [desc(3, 19, 2, [3, 3], half), desc(3, 20, 1, [3, 3], half)] {
        assert_eq!(pairs(&other).0, None);
    }
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for (channels, width, stride, pad, tile) in [
            (3, 20, 2, 3, "128x64"),
            (3, 20, 2, 2, "64x64"),
            (2, 19, 1, 3, "128x128"),
            (5, 34, 2, 1, "64x128"),
        ] {
            for (data_type, offset) in [(half, 0), (DataType::BF16, 0), (half, 2)] {
                let desc = desc(channels, width, stride, [1, pad], data_type);
                let name = format!("ocl:convolution:wgmma-{tile}");
                check_plan(&engine, named(&desc, &engine.traits(), &name), offset);
            }
        }
    }
}

/// A product of floats, one of which has scales.
fn scaled([m, k, n]: [usize; 3], operand: Quantized, dims: &[usize]) -> PrimitiveDescBuilder {
    let scale = Dequantize { operand, scale: Some(f32(dims)), zero_point: None };
    matmul(f32(&[m, k]), f32(&[k, n])).attributes(Attributes::default().with_dequantize(scale))
}

/// Sums of integers cannot have scales of each position of the source, which a window that slides over the result brings together.
#[test]
fn scales_of_positions_keep_transposed_convolutions_from_tensor_cores() {
    let has_tensor_cores = |scales: [usize; 4]| {
        let bytes = |dims: &[usize]| tagged(dims, "acdb").with_data_type(DataType::S8);
        let scale = Dequantize { operand: Quantized::Src(0), scale: Some(f32(&scales)), zero_point: None };
        let desc = PrimitiveDesc::builder(Op::Deconvolution(Deconvolution::new(2)))
            .src(bytes(&[1, 64, 8, 36]))
            .weights(bytes(&[64, 48, 1, 3]))
            .dst(tagged(&[1, 48, 8, 38], "acdb"))
            .attributes(Attributes::default().with_dequantize(scale));
        names(&desc.build().unwrap(), &hopper()).iter().any(|name| name.contains(":wgmma"))
    };
    assert!(has_tensor_cores([1, 1, 1, 1]));
    assert!(!has_tensor_cores([1, 1, 1, 36]) && !has_tensor_cores([1, 1, 8, 1]));
}

/// A vector of results has one scale, or one for each of them: those of blocks that vectors cross are read one by one.
#[test]
fn scales_of_blocks_of_columns_are_no_vectors() {
    let has_tensor_cores = |blocks: usize, columns: usize| {
        let bytes = |dims: [usize; 2]| MemoryDesc::new(dims, DataType::S8);
        let scale = f32(&[1, blocks]);
        let scale = Dequantize { operand: Quantized::Weights, scale: Some(scale), zero_point: None };
        let desc = matmul(bytes([70, 96]), bytes([96, columns]))
            .dst(f32(&[70, columns]))
            .attributes(Attributes::default().with_dequantize(scale));
        names(&desc.build().unwrap(), &hopper()).iter().any(|name| name.contains(":wgmma"))
    };
    assert!(has_tensor_cores(15, 15) && has_tensor_cores(1, 15));
    assert!(has_tensor_cores(2, 32), "blocks of whole vectors");
    assert!(!has_tensor_cores(3, 15));
    let list = [
        scaled([40, 33, 45], Quantized::Weights, &[1, 9]).build().unwrap(),
        scaled([45, 33, 40], Quantized::Src(0), &[9, 1]).build().unwrap(),
    ];
    check_everywhere(&list, |_| None);
}

#[test]
fn simt_tiles_are_right_on_every_device() {
    let padded = MemoryDesc::with_strides([130, 36], DataType::F32, [40, 1]).unwrap();
    let batched = matmul(f32(&[3, 70, 20]), f32(&[3, 20, 67])).arg(Arg::Bias, f32(&[1, 1, 67]));
    let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_groups(2);
    let convolution = |tag: &str| {
        PrimitiveDesc::builder(Op::Convolution(op.clone()))
            .src(tagged(&[2, 8, 9, 7], tag))
            .weights(tagged(&[36, 4, 3, 3], tag))
            .dst(tagged(&[2, 36, 9, 7], tag))
    };
    let list = [
        (matmul(padded, f32(&[36, 132])), "ocl:matmul:simt-256x128"),
        (matmul(tagged(&[66, 33], "ba"), tagged(&[33, 66], "ba")), "ocl:matmul:simt-128x64"),
        (batched, "ocl:matmul:simt-64x64"),
        (matmul(f32(&[67, 36]), tagged(&[36, 130], "ba")), "ocl:matmul:simt-64x128"),
        (matmul(f32(&[30, 72]), f32(&[72, 260])), "ocl:matmul:simt-32x256"),
        (matmul(f32(&[61, 72]), f32(&[72, 516])), "ocl:matmul:simt-64x256"),
        (matmul(tagged(&[64, 36], "ba"), tagged(&[36, 260], "ba")), "ocl:matmul:simt-64x256"),
        (matmul(f32(&[259, 68]), tagged(&[68, 30], "ba")), "ocl:matmul:simt-256x32"),
        (matmul(f32(&[129, 36]), f32(&[36, 68])), "ocl:matmul:simt-128x64"),
        (matmul(f32(&[261, 45]), f32(&[45, 131])), "ocl:matmul:simt-256x128"),
        (matmul(tagged(&[261, 46], "ba"), tagged(&[46, 131], "ba")), "ocl:matmul:simt-256x128"),
        (matmul(f32(&[70, 38]), tagged(&[38, 133], "ba")), "ocl:matmul:simt-64x64"),
        // Long enough for parts.
        (matmul(f32(&[5, 1030]), f32(&[1030, 6])).arg(Arg::Bias, f32(&[1, 6])), "ocl:matmul:simt-64x64"),
        (convolution("abcd"), "ocl:convolution:simt-64x64"),
        (convolution("acdb"), "ocl:convolution:simt-64x64"),
        (matmul(f32(&[30, 70]), f32(&[70, 133])), "ocl:matmul:simt-32x128"),
        (matmul(tagged(&[31, 35], "ba"), tagged(&[35, 166], "ba")), "ocl:matmul:simt-32x128"),
        (matmul(f32(&[131, 66]), tagged(&[66, 30], "ba")), "ocl:matmul:simt-128x32"),
        (matmul(tagged(&[7, 1030], "ba"), f32(&[1030, 29])), "ocl:matmul:simt-128x32"),
        // Floats with scales, which vectors of neighbours do not have yet.
        (scaled([36, 72, 68], Quantized::Src(0), &[1, 1]), "ocl:matmul:simt-64x64"),
        (scaled([36, 72, 68], Quantized::Weights, &[1, 68]), "ocl:matmul:simt-64x64"),
    ];
    for (builder, name) in list {
        let desc = builder.build().unwrap();
        for engine in engines_for(&desc) {
            let max_work_group = engine.traits().max_work_group.min(256);
            let device =
                DeviceTraits { kind: DeviceKind::Gpu, max_work_group, compute_units: 16, ..engine.traits() };
            check_plan(&engine, named(&desc, &device, name), 0);
        }
    }
}
#[test]
fn gpus_with_sub_groups_multiply_by_their_registers() {
    let own = "16 work-items of 8/16/32, -cl-std=CL1.2, cl_khr_subgroups";
    let device = gpu().with(Feature::SubGroups, Ok(own));
    let desc = matmul(f32(&[2048, 512]), f32(&[512, 2048])).build().unwrap();
    let list = names(&desc, &device);
    for name in ["sub-groups-64x64", "sub-groups-32x64", "simt-256x128"] {
        assert!(list.contains(&format!("ocl:matmul:{name}")), "{list:?}");
    }
    let plan = named(&desc, &device, "ocl:matmul:sub-groups-64x64");
    assert_eq!((plan.launches[0].sub_group, plan.launches[0].local), (Some(16), Some([256, 1, 1])));
    // As wide as the tile: a work-item has one column.
    let wide = gpu().with(Feature::SubGroups, Ok("64 work-items, -cl-std=CL2.0, cl_khr_subgroups"));
    let plan = named(&desc, &wide, "ocl:matmul:sub-groups-32x64");
    assert_eq!((plan.launches[0].sub_group, plan.launches[0].local), (Some(64), Some([256, 1, 1])));
    // What is no float has other kernels.
    let bytes = matmul(MemoryDesc::new([512, 512], DataType::U8), MemoryDesc::new([512, 512], DataType::S8));
    assert!(!names(&bytes.build().unwrap(), &device).iter().any(|name| name.contains("sub-groups")));
    assert!(!names(&desc, &gpu()).iter().any(|name| name.contains("sub-groups")));
}

#[test]
fn tiles_of_sub_groups_are_right_where_there_are_such() {
    let padded = MemoryDesc::with_strides([66, 36], DataType::F32, [40, 1]).unwrap();
    let batched = matmul(f32(&[3, 70, 20]), f32(&[3, 20, 67])).arg(Arg::Bias, f32(&[1, 1, 67]));
    let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_groups(2);
    let convolution = |tag: &str| {
        PrimitiveDesc::builder(Op::Convolution(op.clone()))
            .src(tagged(&[2, 8, 9, 7], tag))
            .weights(tagged(&[36, 4, 3, 3], tag))
            .dst(tagged(&[2, 36, 9, 7], tag))
    };
    let half = |dims: &[usize]| MemoryDesc::new(dims, DataType::F16);
    let list = [
        (matmul(padded, f32(&[36, 132])), "ocl:matmul:sub-groups-64x64"),
        (matmul(tagged(&[66, 33], "ba"), tagged(&[33, 66], "ba")), "ocl:matmul:sub-groups-32x64"),
        (batched, "ocl:matmul:sub-groups-64x64"),
        (matmul(half(&[33, 40]), half(&[40, 65])), "ocl:matmul:sub-groups-32x64"),
        // Long enough for parts.
        (
            matmul(f32(&[5, 1030]), f32(&[1030, 6])).arg(Arg::Bias, f32(&[1, 6])),
            "ocl:matmul:sub-groups-32x64",
        ),
        (convolution("abcd"), "ocl:convolution:sub-groups-32x64"),
        (convolution("acdb"), "ocl:convolution:sub-groups-32x64"),
    ];
    for engine in sub_group_test_engines() {
        for (i, (builder, name)) in list.iter().enumerate() {
            let device = DeviceTraits { compute_units: 16, ..engine.traits() };
            let own = device.sub_groups().unwrap();
            let other = own.settable.iter().copied().find(|&width| width == 8 && i % 2 == 0);
            let width = other.unwrap_or(own.width);
            let device = device.clone().with_sub_groups(&SubGroups { width, ..own });
            let plan = named(&builder.clone().build().unwrap(), &device, name);
            assert_eq!(plan.launches[0].sub_group, Some(width));
            check_plan(&engine, plan, 0);
        }
    }
}

/// A matrix with rows or columns side by side, in most cases apart and behind a gap.
fn drawn_matrix(random: &mut impl FnMut(usize) -> usize, dims: &[usize], data_type: DataType) -> MemoryDesc {
    let [rows, columns] = [dims[dims.len() - 2], dims[dims.len() - 1]];
    let (by_rows, gap) = (random(3) > 0, [0, 0, 1, 3, 8][random(5)]);
    let lead = if by_rows { columns } else { rows } + gap;
    let mut strides = vec![if by_rows { lead } else { 1 }, if by_rows { 1 } else { lead }];
    if dims.len() > 2 {
        strides.insert(0, lead * if by_rows { rows } else { columns } + gap);
    }
    let offset = [0, 0, 8, 5][random(4)];
    let blocking = Blocking { strides: strides.into(), inner: SmallVec::new(), offset };
    MemoryDesc::with_layout(dims, data_type, Layout::Blocked(blocking)).unwrap()
}

#[test]
fn every_variant_serves_any_size() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let sample = Sample::from_env();
    for (number, engine) in shared_test_engines().into_iter().enumerate() {
        let (count, most) = if engine.traits().has(Feature::Wgmma) { (32, 300) } else { (2, 40) };
        let max_work_group = engine.traits().max_work_group.min(256);
        let device = DeviceTraits { kind: DeviceKind::Gpu, max_work_group, ..engine.traits() };
        let cases: Vec<(PrimitiveDesc, usize)> =
            (0..count).map(|_| (drawn_product(&mut random, most), [0, 0, 4][random(3)])).collect();
        // What takes long is compiling.
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
        std::thread::scope(|scope| {
            for part in cases.chunks(cases.len().div_ceil(threads)) {
                let (engine, device) = (&engine, &device);
                scope.spawn(move || {
                    for (desc, offset) in part {
                        let names = names(desc, device).into_iter().enumerate();
                        for (_, name) in names.filter(|(i, _)| sample.takes(*i, number)) {
                            check_plan(engine, named(desc, device, &name), *offset);
                        }
                    }
                });
            }
        });
    }
}

/// A product of matrices of up to so many rows and columns, with a bias.
fn drawn_product(random: &mut impl FnMut(usize) -> usize, most: usize) -> PrimitiveDesc {
    let data_type = [DataType::F32, DataType::F16, DataType::BF16][random(3)];
    // Long sums now and then, to be split.
    let longest = most * (1 + 8 * (random(8) / 7));
    let (m, k, n) = (1 + random(most), 1 + random(longest), 1 + random(most));
    let batch = [0, 0, 0, 2][random(4)];
    let mut matrix = |rows: usize, columns: usize| {
        let dims = if batch > 0 { vec![batch, rows, columns] } else { vec![rows, columns] };
        drawn_matrix(random, &dims, data_type)
    };
    let (src, weights, dst) = (matrix(m, k), matrix(k, n), matrix(m, n));
    let mut bias = vec![1; src.rank()];
    bias[src.rank() - 1] = n;
    let fpmath = [FpMath::Strict, FpMath::TF32][random(2)];
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu)).with_fpmath(fpmath);
    matmul(src, weights).dst(dst).arg(Arg::Bias, f32(&bias)).attributes(relu).build().unwrap()
}

/// What a process waits for at first are programs for every shape: those by tensor cores too, but for large products, whose numbers are worth
/// one of their own at once, and for tables.
#[test]
fn tensor_cores_share_programs_among_small_shapes() {
    let name = "ocl:matmul:wgmma-64x64";
    let text = |[m, k, n]: [usize; 3]| {
        let launch = named(&halves(m, k, n), &hopper(), name).launches.remove(0);
        (launch.program.source.to_string(), launch.special.is_some())
    };
    let first = text([128, 384, 1536]);
    assert!(first.1);
    for sizes in [[96, 512, 384], [128, 1024, 256], [77, 64, 72]] {
        assert!(text(sizes) == first, "{sizes:?}");
    }
    assert!(!text([4096, 512, 4096]).1);
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for sizes in [[70, 64, 72], [130, 200, 136], [65, 1000, 64], [200, 66, 74]] {
            for tile in ["128x128", "128x64", "64x128", "64x64"] {
                let name = format!("ocl:matmul:wgmma-{tile}");
                check_plan(&engine, named(&halves(sizes[0], sizes[1], sizes[2]), &engine.traits(), &name), 0);
            }
        }
    }
}

/// Compilers see neither dimensions that tensors of a rank lack nor loops that an operand does not know, and all shapes of a rank share that.
#[test]
fn texts_leave_out_what_no_shape_of_a_rank_has() {
    let case = |spatial: usize, channels: usize, extent: usize| {
        let op = Convolution::new(spatial).with_pads(vec![1; spatial], vec![1; spatial]);
        let dims = |outer: [usize; 2], inner: usize| [&outer[..], &vec![inner; spatial]].concat();
        let desc = PrimitiveDesc::builder(Op::Convolution(op))
            .src(MemoryDesc::new(dims([2, channels], extent), DataType::F32))
            .weights(MemoryDesc::new(dims([64, channels], 3), DataType::F32))
            .bias(f32(&[64]))
            .dst(MemoryDesc::new(dims([2, 64], extent), DataType::F32))
            .build()
            .unwrap();
        named(&desc, &gpu(), "ocl:convolution:simt-64x64").launches.remove(0).program.source.to_string()
    };
    let line = |text: &str, start: &str| {
        let found = text.lines().find(|line| line.starts_with(start)).map(str::to_owned);
        found.unwrap_or_else(|| panic!("no {start}"))
    };
    let flat = case(2, 16, 96);
    let other = case(2, 40, 112);
    let differs = flat.lines().zip(other.lines()).find(|(one, other)| one != other);
    assert_eq!(differs, None, "shapes of a rank differ");
    for text in ["#define SRC_D 1", "#define KERNEL_D 1", "#define PAD_D 0"] {
        assert!(flat.contains(&format!("{text}\n")), "{text}");
    }
    assert!(line(&flat, "#define DECLARE_M(").contains("const idx od = 0; const idx image = rest_oh;"));
    assert!(line(&flat, "#define DECLARE_K(").contains("const idx kh = rest_kw; const idx kd = 0;"));
    let (source, weights) = (line(&flat, "#define OFF_SRC0 "), line(&flat, "#define OFF_WEIGHTS "));
    for (text, without) in [(&source, ["od *", "kd *"]), (&weights, ["image *", "ow *"])] {
        assert!(without.iter().all(|name| !text.contains(name)), "{text}");
    }
    assert!(
        !line(&flat, "#define OFF_BIAS ").contains("oh *")
            && !line(&flat, "#define OFF_DST ").contains("kh *")
    );
    let deep = case(3, 16, 28);
    assert!(line(&deep, "#define OFF_SRC0 ").contains("od *") && deep.contains("#define KERNEL_D SHAPE("));
}
