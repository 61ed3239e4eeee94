//! Rows picked by indices.

use anydnn_backend::{Arg, Result};

use super::{Anchor, input};
use crate::compile::program::Program;
use crate::graph::{Op, gather_of};

/// `Gather`.
pub(super) fn gather(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, indices) = (input(program, op, 0)?, input(program, op, 1)?);
    let gather = gather_of(op, src.desc.rank())?;
    Ok(Anchor::plain(anydnn_backend::Op::Gather(gather), vec![(Arg::Src(0), src), (Arg::Src(1), indices)]))
}
