//! Copies that are turned in a processor's registers.

use anydnn_backend::op::{Op, Reorder};
use anydnn_backend::{DataType, MemoryDesc, PrimitiveDesc, PrimitiveDescBuilder};

use crate::primitive::tests::{check_everywhere, cpu, planned, tagged};

/// A copy of `[2, 3, across, along]` whose source has the third dimension innermost.
fn turned(across: usize, along: usize, [from, to]: [DataType; 2]) -> PrimitiveDescBuilder {
    let dims = [2, 3, across, along];
    let desc = |tag: &str, data_type| MemoryDesc::with_tag(dims, data_type, tag).unwrap();
    PrimitiveDesc::builder(Op::Reorder(Reorder)).src(desc("abdc", from)).dst(desc("abcd", to))
}

/// The channels of groups in each other's places: `[1, places, 3, groups]` of `[1, places, groups, 3]`.
fn shuffled(places: usize, groups: usize, each: usize, data_type: DataType) -> PrimitiveDescBuilder {
    let dims = [2, places, each, groups];
    let desc = |tag: &str| MemoryDesc::with_tag(dims, data_type, tag).unwrap();
    PrimitiveDesc::builder(Op::Reorder(Reorder)).src(desc("abdc")).dst(desc("abcd"))
}

fn is_turned(builder: PrimitiveDescBuilder) -> bool {
    planned(builder, &cpu()).launches[0].kernel == "transposed_lanes"
}

#[test]
fn copies_are_turned_whatever_is_left_of_tiles() {
    let (f32, f16, u8) = (DataType::F32, DataType::F16, DataType::U8);
    let long = [(16, 190), (33, 97), (91, 35), (64, 48)];
    let types = [[f32, f32], [u8, u8], [f16, f32], [f32, DataType::S8]];
    let mut list: Vec<_> =
        long.into_iter().zip(types).map(|((across, along), types)| turned(across, along, types)).collect();
    let short = [(300, 2, 17), (90, 4, 68), (150, 3, 50), (60, 8, 33)];
    let each_type = [f32, u8, f16, DataType::BF16];
    list.extend(
        short.into_iter().zip(each_type).map(|((places, groups, each), t)| shuffled(places, groups, each, t)),
    );
    for builder in &list {
        assert!(is_turned(builder.clone()));
    }
    let list: Vec<PrimitiveDesc> = list.into_iter().map(|builder| builder.build().unwrap()).collect();
    check_everywhere(&list, |_| None);
}

/// Few elements, sides that have no turn, and what lies the same way take the programs that all copies have.
#[test]
fn other_copies_have_no_program_of_their_own() {
    let f32 = DataType::F32;
    assert!(!is_turned(turned(40, 40, [f32; 2])));
    assert!(!is_turned(turned(12, 800, [f32; 2])));
    assert!(!is_turned(shuffled(200, 5, 64, f32)));
    let same = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(tagged(&[64, 64, 16], "acb"));
    assert!(!is_turned(same.dst(tagged(&[64, 64, 16], "cab"))));
}

/// Extents are numbers of the launch.
#[test]
fn shapes_share_a_program() {
    let text = |builder| planned(builder, &cpu()).launches.remove(0).program.source.hash();
    let f32 = [DataType::F32; 2];
    assert_eq!(text(turned(64, 64, f32)), text(turned(33, 970, f32)));
    let flat = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(tagged(&[512, 300], "ba"));
    assert_eq!(text(turned(64, 64, f32)), text(flat.dst(tagged(&[512, 300], "ab"))));
    assert_ne!(text(shuffled(90, 4, 68, f32[0])), text(shuffled(90, 2, 68, f32[0])));
}
