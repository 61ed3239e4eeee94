//! Operations that move elements or number them.

use anydnn::graph::OpKind as K;

use super::{Cases, none, x};

pub(super) fn add(cases: &mut Cases) {
    let axis = |axis: i64| none().with("axis", axis);
    cases.add(K::Concat, axis(1), &[x(&[2, 3, 4]), x(&[2, 1, 4])]);
    cases.add(K::Concat, axis(-1), &[x(&[2, 3]), x(&[2, 1]), x(&[2, 4])]);
    cases.add(K::GenIndex, axis(1), &[x(&[2, 3, 4])]);
    cases.add(K::GenIndex, axis(-1), &[x(&[5, 3])]);
    cases.add(K::Reorder, none(), &[x(&[3, 5])]);
    cases.add(K::Reorder, none(), &[x(&[2, 3, 4, 2])]);
    let shape = |shape: [i64; 2], special: bool| none().with("shape", shape).with("special_zero", special);
    cases.add(K::StaticReshape, shape([6, 4], false), &[x(&[2, 3, 4])]);
    cases.add(K::StaticReshape, shape([0, -1], true), &[x(&[2, 3, 4])]);
    cases.add(K::StaticTranspose, none().with("order", [1, 0]), &[x(&[3, 6])]);
    cases.add(K::StaticTranspose, none().with("order", [0, 2, -1, 1]), &[x(&[2, 3, 4, 2])]);
}
