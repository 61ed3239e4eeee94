//! Tensors side by side.

use anydnn_backend::op::Concat;
use anydnn_backend::{Arg, Result};

use super::element::Real;
use super::elementwise::Elementwise;
use super::epilogue::{Epilogue, produce};
use super::operands::Operands;
use super::view::View;

impl Elementwise for Concat {
    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()> {
        let dst = operands.desc.dst();
        let inner: usize = dst.dims()[self.axis + 1..].iter().product();
        let row = dst.dims()[self.axis] * inner;
        // Sources with elements, each with its first and one past its last position in a row of the result.
        let mut sources = Vec::new();
        let mut end = 0;
        for operand in operands.desc.args().iter().filter(|a| matches!(a.arg, Arg::Src(_))) {
            let (desc, source_bytes) = operands.required(operand.arg)?;
            let start = end;
            end += desc.dims()[self.axis] * inner;
            if end > start {
                sources.push((start, end, View::new(desc, source_bytes)?));
            }
        }
        produce(dst, bytes, epilogue, |start, values: &mut [T]| {
            let mut values = values;
            let mut at = start;
            while !values.is_empty() {
                let (outer, position) = (at / row, at % row);
                let source = sources.partition_point(|&(_, end, _)| end <= position);
                let (first, last, view) = &sources[source];
                let (run, rest) = values.split_at_mut((last - position).min(values.len()));
                view.load(outer * (last - first) + position - first, run);
                at += run.len();
                values = rest;
            }
        })
    }
}
