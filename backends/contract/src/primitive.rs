//! Primitives: compiled operations.

use std::fmt::Debug;

use crate::backend::Backend;
use crate::engine::EngineId;
use crate::op::primitive_desc::PrimitiveDesc;

/// A compiled operation. Clones are handles to the same one; several streams and threads may execute it at once.
pub trait Primitive: Clone + Debug + Send + Sync + 'static {
    /// The backend this primitive belongs to.
    type B: Backend<Primitive = Self>;

    /// The engine this primitive was compiled for.
    fn engine_id(&self) -> EngineId;

    /// The description with every layout resolved. It declares how each argument is touched.
    fn desc(&self) -> &PrimitiveDesc;

    /// The name of the chosen implementation, such as `ocl:gemm:tiled`.
    fn implementation(&self) -> &str;

    /// Bytes of working memory for one execution: the least size of [`Arg::Scratchpad`](crate::Arg::Scratchpad) in user mode.
    fn scratchpad_size(&self) -> usize;

    /// How many commands one execution enqueues, such as kernel launches.
    fn launches(&self) -> usize {
        1
    }
}
