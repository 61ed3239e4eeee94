//! The text of what is done to scores and weights.

use super::Shape;
use crate::primitive::nodes::Leaves;
use crate::primitive::numbers::{always, float};
use crate::primitive::value::Value;

/// What the nodes of scores and weights start from: the product or weight `x` and the further sources, at `s` and `t`; lanes run
/// along one of them.
pub(super) struct Scores<'a> {
    pub(super) shape: &'a Shape<'a>,
    pub(super) lanes: usize,
    pub(super) along: usize,
}

impl Scores<'_> {
    fn index_text(&self, axis: usize) -> String {
        let (index, loops) = (&self.shape.index[axis], &self.shape.space.loops);
        if !self.is_in_common() {
            return index.text(loops);
        }
        let terms = index.terms.iter().map(|&(v, factor)| match factor {
            1 => loops[v].name.clone(),
            _ => format!("{} * {}", loops[v].name, always(factor)),
        });
        format!("({})", terms.collect::<Vec<_>>().join(" + "))
    }

    /// Whether shapes have the text in common.
    fn is_in_common(&self) -> bool {
        self.shape.space.complete.is_some()
    }

    /// Whether the lanes run along an axis of the scores.
    fn is_lane(&self, axis: usize) -> bool {
        let from_end = if self.along == self.shape.s { 2 } else { 1 };
        self.lanes > 1 && axis + from_end == self.shape.index.len() && self.shape.extent(self.along) > 1
    }
}

impl Leaves for Scores<'_> {
    fn operand(&self, i: u16) -> String {
        match i {
            0 => "x".into(),
            _ => format!("LD_SRC{0}(OFF_SRC{0}, n)", i + 2),
        }
    }

    fn index(&self, axis: usize) -> String {
        let text = self.index_text(axis);
        if self.is_lane(axis) {
            format!("CONVERT(R, (VEC(int))((int)({text})) + LANE_NUMBERS)")
        } else {
            format!("(V)((R)({text}))")
        }
    }

    fn position(&self) -> String {
        let dims = &self.shape.op.scores.dims;
        let (mut terms, mut lanes) = (Vec::new(), String::new());
        for axis in 0..dims.len() {
            let stride: usize = dims[axis + 1..].iter().product();
            let number = if self.is_in_common() { always(stride).to_string() } else { stride.to_string() };
            terms.push(format!("(ulong)({}) * {number}", self.index_text(axis)));
            if self.is_lane(axis) {
                lanes = format!(" + CONVERT(ulong, LANE_NUMBERS) * (VEC(ulong))({stride})");
            }
        }
        format!("(VEC(ulong))({}){lanes}", terms.join(" + "))
    }

    fn constant(&self, value: Value, number: f32) -> String {
        match value {
            Value::F32 if self.is_in_common() => float(number),
            value => value.literal(number),
        }
    }

    fn scalar(&self, i: u16) -> String {
        format!("NAT1_SRC{0}(OFF_SRC{0})", i + 2)
    }

    // An attention's expressions have no folds; the contract refuses them.
    fn fold(&self, _: usize) -> String {
        "(V)(NAN)".into()
    }
}
