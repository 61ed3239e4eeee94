//! The first work-item of a launch, on zeros: makes drivers compile a kernel that do so at its launch, and keep it.

use std::ptr;
use std::sync::Arc;

use anydnn_backend::Result;
use cl3::memory::{CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR};

use crate::driver::call::Check;
use crate::driver::create::create_queue;
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::memory::allocation::Binding;
use crate::program::Program;
use crate::program::kernels::{Fixed, KernelPool, Place};

/// The most bytes of all memories: more are not taken from the system for this.
const MOST: usize = 1 << 30;

/// What every pointer to an element or vector is a multiple of.
const ALIGNMENT: usize = 4096;

/// What a work-item needs of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) kernel: String,
    /// The bytes of each memory.
    pub(crate) memories: Vec<usize>,
    pub(crate) numbered: bool,
    pub(crate) table: Vec<u8>,
}

impl Trial {
    /// For another process; none if it takes too much memory.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let total = self.memories.iter().try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes))?;
        let all = || postcard::to_allocvec(&(&self.kernel, &self.memories, self.numbered, &self.table)).ok();
        (total <= MOST).then(all).flatten()
    }

    /// What [`bytes`](Self::bytes) gave.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (kernel, memories, numbered, table) = postcard::from_bytes(bytes).ok()?;
        Some(Self { kernel, memories, numbered, table })
    }

    /// Computes it and waits.
    pub(crate) fn launch(
        &self,
        context: &handle::Context,
        device: &OpenClDevice,
        program: Arc<Program>,
    ) -> Result<()> {
        let operation = "try out kernel";
        let queue = create_queue(context, device, 0, operation)?;
        let fixed =
            Fixed { memories: self.memories.len(), numbered: self.numbered, table: self.table.clone() };
        let pool = Arc::new(KernelPool::alone(program, &self.kernel, fixed)?);
        let mut lent = pool.lend(self.memories.iter().map(|_| Binding::Mem(ptr::null_mut())).collect())?;
        let Some(kernel) = lent.kernel_mut() else { return Ok(()) };
        // Pages of zeros, which the system has only where they are touched. They outlive the buffers.
        let mut zeros: Vec<Vec<u8>> =
            self.memories.iter().map(|bytes| vec![0; bytes.max(&1) + 2 * ALIGNMENT]).collect();
        let mut buffers = Vec::new();
        for (i, zeros) in zeros.iter_mut().enumerate() {
            let start = zeros.as_mut_ptr();
            let skip = start.align_offset(ALIGNMENT);
            let bytes = zeros.len() - skip;
            // SAFETY: `bytes` bytes follow, which outlive the buffer: the queue is waited for below, and buffers go before them.
            let raw = unsafe {
                let start = start.add(skip).cast();
                cl3::memory::create_buffer(
                    context.raw(),
                    CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                    bytes,
                    start,
                )
            };
            let raw = raw.check(operation, "clCreateBuffer")?;
            // SAFETY: the driver returned this buffer with one reference for the caller.
            buffers.push(unsafe { handle::Mem::from_owned(raw) }?);
            let place = Place { binding: Binding::Mem(raw), allocation: i as u64 + 1, offset: 0 };
            kernel.bind(i, place, &self.kernel)?;
        }
        let one = [1_usize; 3];
        // SAFETY: live handles, every argument is set, and the sizes are three each.
        unsafe {
            cl3::command_queue::enqueue_nd_range_kernel(
                queue.raw(),
                kernel.raw(),
                3,
                ptr::null(),
                one.as_ptr(),
                one.as_ptr(),
                0,
                ptr::null(),
            )
        }
        .check(operation, "clEnqueueNDRangeKernel")
        .map(|event| {
            // SAFETY: the call gave this event with one reference for the caller.
            let _ = unsafe { cl3::event::release_event(event) };
        })?;
        cl3::command_queue::finish(queue.raw()).check(operation, "clFinish")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_engines;

    /// Sets what the last memory starts with to the sum of the first and the table: a work-item that read or wrote elsewhere would end the
    /// process.
    const TEXT: &str = "
        typedef struct { long numbers[2]; } table;
        kernel void sum(global const float16 *src, ulong at, global long *dst, ulong to, const table t) {
            dst[to + get_global_id(0)] = t.numbers[0] + t.numbers[1] + (long) src[at].s7;
        }";

    fn trial(kernel: &str, table: &[i64]) -> Trial {
        let table = table.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Trial { kernel: kernel.into(), memories: vec![64, 0], numbered: false, table }
    }

    #[test]
    fn a_trial_comes_back_from_its_bytes_unless_it_is_too_large() {
        let trial = trial("sum", &[3, 4]);
        assert_eq!(Trial::read(&trial.bytes().unwrap()), Some(trial.clone()));
        assert_eq!(Trial { memories: vec![MOST, 1], ..trial.clone() }.bytes(), None);
        assert_eq!(Trial { memories: vec![usize::MAX, 1], ..trial }.bytes(), None);
        assert_eq!(Trial::read(&[]), None);
    }

    #[test]
    fn one_work_item_runs_and_a_kernel_that_is_missing_is_an_error() {
        for engine in test_engines() {
            let inner = &engine.inner;
            let program = Arc::new(Program::build(&inner.context, &inner.device, "sum", TEXT, "").unwrap());
            let launch = |trial: Trial| trial.launch(&inner.context, &inner.device, Arc::clone(&program));
            launch(trial("sum", &[3, 4])).unwrap();
            assert!(launch(trial("product", &[3, 4])).is_err());
            // Without a table an argument is missing.
            assert!(launch(trial("sum", &[])).is_err());
        }
    }
}
