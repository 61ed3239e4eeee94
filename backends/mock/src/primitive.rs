//! Primitives of the mock device: the reference implementations.

use std::sync::Arc;

use anydnn_backend::{ArgDesc, Dims, EngineId, MemoryDesc, Primitive, PrimitiveDesc, Result};

use crate::Mock;
use crate::command::Compiled;
use crate::device::OpenLayouts;
use crate::random::Random;
use crate::state::{Shared, State, Token, labelled};

/// A primitive that computes by reference on host memory.
///
/// With [`ScratchpadMode::User`](anydnn_backend::ScratchpadMode::User) it asks for as many bytes as its result has, at least 64, so that
/// a scratchpad which is missing, or shared between unordered commands, shows.
#[derive(Clone, Debug)]
pub struct MockPrimitive {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    compiled: Arc<Compiled>,
    token: Token,
}

impl MockPrimitive {
    pub(crate) const IMPLEMENTATION: &'static str = "mock:reference";

    pub(crate) fn new(shared: &Arc<Shared>, state: &mut State, desc: &PrimitiveDesc) -> Result<Self> {
        let resolved = resolve(shared, state, desc)?;
        let scratchpad = Compiled::scratchpad_size(&resolved);
        let what = labelled(format!("primitive {}", desc.op().name()), desc.label());
        let token = Token::new(shared, state, what);
        Ok(Self {
            inner: Arc::new(Inner { compiled: Arc::new(Compiled { desc: resolved, scratchpad }), token }),
        })
    }

    pub(crate) fn compiled(&self) -> Arc<Compiled> {
        Arc::clone(&self.inner.compiled)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.token.shared
    }
}

impl Primitive for MockPrimitive {
    type B = Mock;

    fn engine_id(&self) -> EngineId {
        self.shared().engine
    }

    fn desc(&self) -> &PrimitiveDesc {
        &self.inner.compiled.desc
    }

    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn scratchpad_size(&self) -> usize {
        self.inner.compiled.scratchpad
    }
}

/// The description with layouts in the place of open ones.
pub(crate) fn resolve(shared: &Shared, state: &mut State, desc: &PrimitiveDesc) -> Result<PrimitiveDesc> {
    let mut resolved = desc.clone();
    for ArgDesc { arg, desc, .. } in desc.args().iter().filter(|operand| operand.desc.is_any()) {
        resolved = resolved.resolved(*arg, layout(desc, shared.open_layouts, &mut state.random)?)?;
    }
    Ok(resolved)
}

/// Resolves an open layout.
fn layout(desc: &MemoryDesc, how: OpenLayouts, random: &mut Random) -> Result<MemoryDesc> {
    let column_major = how == OpenLayouts::Seeded && random.below(2) == 1;
    // Elements smaller than a byte stay where a byte holds neighbours of the last dimension.
    if !column_major || desc.rank() < 2 || desc.data_type().bits() < 8 {
        return Ok(desc.to_row_major());
    }
    let reversed: Dims = desc.dims().iter().rev().copied().collect();
    let order: Vec<usize> = (0..desc.rank()).rev().collect();
    let column = MemoryDesc::new(reversed, desc.data_type()).permuted(&order)?;
    Ok(match desc.label() {
        Some(label) => column.labelled(label),
        None => column,
    })
}
