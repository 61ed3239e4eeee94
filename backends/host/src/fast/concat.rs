//! Tensors side by side: each source goes to its place by runs.

use anydnn_backend::op::Concat as Op;
use anydnn_backend::{Arg, PrimitiveDesc};

use super::Fast;
use super::call::Call;
use super::streaming::Streaming;

#[derive(Debug)]
pub(super) struct Concat(Vec<Streaming>);

impl Concat {
    pub(super) fn new(op: Op, desc: &PrimitiveDesc) -> Option<Self> {
        if !desc.attributes().post_ops.is_empty() {
            return None;
        }
        let mut before = 0;
        let mut parts = Vec::new();
        for operand in desc.args().iter().filter(|operand| matches!(operand.arg, Arg::Src(_))) {
            if operand.desc.elements() > 0 {
                parts.push(Streaming::of_source(desc, operand.arg, op.axis, before)?);
            }
            before += operand.desc.dims()[op.axis];
        }
        Some(Self(parts))
    }
}

impl Fast for Concat {
    fn name(&self) -> &'static str {
        "host:streaming"
    }

    fn run(&self, call: &Call<'_>) {
        self.0.iter().for_each(|part| part.run(call));
    }
}
