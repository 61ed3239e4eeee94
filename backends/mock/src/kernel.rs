//! The user's own kernels, as functions on bytes.

use std::fmt;
use std::sync::Arc;

use anydnn_backend::{Access, Result};

/// A kernel of the user's program: what runs before and behind the library's primitives on a real device.
///
/// ```
/// use anydnn_backend::{Access, DataType, Engine, MemoryDesc, MemoryKind, Stream, StreamDesc};
/// use anydnn_mock::{MockDevice, MockKernel};
///
/// # fn main() -> anydnn_backend::Result<()> {
/// let device = MockDevice::new(1);
/// let engine = device.engine();
/// let stream = engine.create_stream(&StreamDesc::out_of_order())?;
/// let bytes = engine.create_memory(&MemoryDesc::new([3], DataType::U8), MemoryKind::Buffer)?;
/// let double = MockKernel::new("double", |args| {
///     args[0].iter_mut().for_each(|byte| *byte *= 2);
///     Ok(())
/// });
/// let written = stream.write(&bytes, 0, &[1, 2, 3], &[])?;
/// let doubled = stream.launch(&double, &[(Access::ReadWrite, bytes.clone())], &[written])?;
/// let mut result = [0; 3];
/// stream.read(&bytes, 0, &mut result, &[doubled])?;
/// assert_eq!(result, [2, 4, 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MockKernel {
    name: Arc<str>,
    body: Arc<Body>,
}

/// Works on the arguments' bytes, in the order they were given; what it does to arguments that are only read is dropped.
type Body = dyn Fn(&mut [&mut [u8]]) -> Result<()> + Send + Sync;

impl MockKernel {
    /// A kernel that does what `body` does to its arguments' bytes.
    pub fn new(
        name: impl AsRef<str>,
        body: impl Fn(&mut [&mut [u8]]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { name: Arc::from(name.as_ref()), body: Arc::new(body) }
    }

    /// The kernel's name in messages and the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the body. Arguments that are only written come in as they lie in memory: poisoned.
    pub(crate) fn run(&self, args: &mut [(Access, Vec<u8>)]) -> Result<()> {
        let mut bytes: Vec<&mut [u8]> = args.iter_mut().map(|(_, bytes)| &mut **bytes).collect();
        (self.body)(&mut bytes)
    }
}

impl fmt::Debug for MockKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockKernel").field("name", &self.name).finish_non_exhaustive()
    }
}
