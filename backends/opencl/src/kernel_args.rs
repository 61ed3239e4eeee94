//! Arguments of kernels.

use std::ptr;

use anydnn_backend::{Result, ResultExt};
use cl3::types::cl_kernel;

use crate::allocation::Binding;
use crate::call::{Check, Returned};
use crate::handle;

/// Sets the arguments of a kernel in order.
pub(crate) struct ArgSetter<'a> {
    kernel: Option<&'a handle::Kernel>,
    index: u32,
    name: &'a str,
}

impl<'a> ArgSetter<'a> {
    /// Sets the arguments of a kernel object that nobody else uses; without one it does nothing.
    pub(crate) fn new(kernel: Option<&'a handle::Kernel>, name: &'a str) -> Self {
        Self { kernel, index: 0, name }
    }

    /// Binds memory to a pointer parameter and its byte offset to the next one.
    pub(crate) fn bind(&mut self, binding: Binding, offset: usize) -> Result<()> {
        match binding {
            Binding::Mem(mem) => self.value(&mem)?,
            Binding::Usm(pointer, usm) => {
                // SAFETY: the kernel is lent to this launch alone.
                self.set_with("clSetKernelArgMemPointerINTEL", |kernel, index| unsafe {
                    usm.set_arg(kernel, index, pointer)
                })?;
            }
            Binding::Svm(pointer) => {
                // SAFETY: as above; the address is of memory that lives until the command has ended.
                self.set_with("clSetKernelArgSVMPointer", |kernel, index| unsafe {
                    cl3::kernel::set_kernel_arg_svm_pointer(kernel, index, pointer)
                })?;
            }
        }
        self.value(&(offset as u64))
    }

    pub(crate) fn value<T: Copy>(&mut self, value: &T) -> Result<()> {
        let (size, place) = (size_of::<T>(), ptr::from_ref(value).cast());
        // SAFETY: the kernel is lent to this launch alone; `place` points to `size` bytes, which the driver copies.
        self.set_with("clSetKernelArg", |kernel, index| unsafe {
            cl3::kernel::set_kernel_arg(kernel, index, size, place)
        })
    }

    fn set_with(&mut self, call: &str, set: impl FnOnce(cl_kernel, u32) -> Returned<()>) -> Result<()> {
        let Some(kernel) = self.kernel else { return Ok(()) };
        set(kernel.raw(), self.index)
            .check("set kernel argument", call)
            .at(|| format!("argument {} of kernel {}", self.index, self.name))?;
        self.index += 1;
        Ok(())
    }
}
