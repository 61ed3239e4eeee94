//! Kernel objects: lent to launches, with what their arguments were last set to. Those of a launch that is gone serve the next launches of
//! their kernel: making and releasing one costs as much as several launches.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use anydnn_backend::{Result, ResultExt};
use cl3::types::cl_kernel;
use smallvec::SmallVec;

use crate::driver::call::{Check, Returned};
use crate::driver::handle;
use crate::memory::allocation::Binding;
use crate::program::Program;

/// The kernel objects of a launch's kernel. Each is lent to one launch at a time, because setting arguments is not thread-safe.
///
/// An argument that was once an address is never set to a buffer object again, nor the other way round: NVIDIA's driver then takes the
/// arguments for invalid. So launches whose arguments differ in that get different objects.
#[derive(Debug)]
pub(crate) struct KernelPool {
    program: Arc<Program>,
    name: String,
    fixed: Fixed,
    idle: Mutex<Vec<Kernel>>,
    /// Whether its kernel objects come from the program's spare ones and become such.
    shares: bool,
}

/// The kernel objects of a program that no launch has at the moment, by the kernel's name.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    kernels: Mutex<HashMap<String, Vec<Kernel>>>,
}

/// The most kernel objects of a kernel that wait for another launch: networks have so many launches of their most frequent one.
const MOST_SPARE: usize = 64;

/// What every kernel object of a pool is told once.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    /// How many memories stand before the table among the parameters.
    pub(crate) memories: usize,
    /// Whether the number of an execution stands between them.
    pub(crate) numbered: bool,
    /// The bytes of a structure of numbers; no parameter if empty.
    pub(crate) table: Vec<u8>,
}

/// A kernel object.
#[derive(Debug)]
pub(crate) struct Kernel {
    handle: handle::Kernel,
    /// How its memories were bound; the default for one that was never used.
    addresses: Addresses,
    /// What each memory argument is set to, as far as it is known: the driver is not told twice.
    known: SmallVec<[Option<Known>; 8]>,
}

/// Memory as a kernel was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// [`Allocation::serial`](crate::memory::allocation::Allocation::serial).
    allocation: u64,
    offset: usize,
}

/// Memory to bind: from a byte of an allocation on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) binding: Binding,
    pub(crate) allocation: u64,
    pub(crate) offset: usize,
}

/// Which memories of a launch are addresses, one bit for each in the order of the arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses(u128);

impl FromIterator<Binding> for Addresses {
    fn from_iter<T: IntoIterator<Item = Binding>>(memories: T) -> Self {
        let bit = |binding| u128::from(!matches!(binding, Binding::Mem(_)));
        Self(memories.into_iter().fold(1, |bits, binding| bits << 1 | bit(binding)))
    }
}

impl KernelPool {
    /// A pool that holds one kernel object already, so that a wrong name shows at once.
    pub(crate) fn new(program: Arc<Program>, name: &str, fixed: Fixed) -> Result<Self> {
        Self::with(program, name, fixed, true)
    }

    /// A pool of kernel objects that were never set to anything before, and serve nobody afterwards.
    pub(crate) fn alone(program: Arc<Program>, name: &str, fixed: Fixed) -> Result<Self> {
        Self::with(program, name, fixed, false)
    }

    fn with(program: Arc<Program>, name: &str, fixed: Fixed, shares: bool) -> Result<Self> {
        let pool = Self { program, name: name.into(), fixed, idle: Mutex::default(), shares };
        let first = pool.create(None)?;
        pool.give(first);
        Ok(pool)
    }

    /// A kernel object for one launch with such arguments.
    pub(crate) fn lend(self: &Arc<Self>, addresses: Addresses) -> Result<Lent> {
        Ok(Lent { kernel: Some(self.take(addresses)?), pool: Arc::clone(self) })
    }

    /// A kernel object for arguments like these, to [give](KernelPool::give) back.
    pub(crate) fn take(&self, addresses: Addresses) -> Result<Kernel> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle.iter().rposition(|kernel| kernel.fits(addresses)).map(|i| idle.swap_remove(i));
        drop(idle);
        let kernel = found.map_or_else(|| self.create(Some(addresses)), Ok)?;
        Ok(Kernel { addresses, ..kernel })
    }

    pub(crate) fn give(&self, kernel: Kernel) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(kernel);
    }

    /// How many kernel objects nobody uses.
    #[cfg(test)]
    pub(crate) fn idle_count(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A kernel object with this pool's table: for arguments like these, if any are given.
    fn create(&self, addresses: Option<Addresses>) -> Result<Kernel> {
        let Fixed { memories, numbered, table } = &self.fixed;
        let behind = 2 * *memories as u32;
        let spare = if self.shares { self.program.spare().take(&self.name, addresses) } else { None };
        let kernel = if let Some(kernel) = spare {
            kernel
        } else {
            let handle = self.program.kernel(&self.name)?;
            let kernel = Kernel { handle, addresses: Addresses::default(), known: SmallVec::new() };
            if *numbered {
                kernel.value(behind, &0_u64, &self.name)?;
            }
            kernel
        };
        if !table.is_empty() {
            kernel.values(behind + u32::from(*numbered), table, &self.name)?;
        }
        Ok(kernel)
    }
}

impl Drop for KernelPool {
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        if self.shares {
            self.program.spare().keep(&self.name, idle);
        }
    }
}

impl Spare {
    /// A kernel object for arguments like these, or for any.
    fn take(&self, name: &str, addresses: Option<Addresses>) -> Option<Kernel> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = kernels.get_mut(name)?;
        let fits = |kernel: &Kernel| addresses.is_none_or(|wanted| kernel.fits(wanted));
        let at = spare.iter().rposition(fits)?;
        Some(spare.swap_remove(at))
    }

    /// Keeps kernel objects for others; those beyond the limit go. What memory they were told of is forgotten: it may be gone.
    fn keep(&self, name: &str, mut idle: Vec<Kernel>) {
        if idle.is_empty() {
            return;
        }
        for kernel in &mut idle {
            kernel.known.clear();
        }
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if !kernels.contains_key(name) {
            kernels.insert(name.to_owned(), Vec::new());
        }
        let Some(spare) = kernels.get_mut(name) else { return };
        let room = MOST_SPARE.saturating_sub(spare.len());
        let mut idle = idle.into_iter();
        spare.extend(idle.by_ref().take(room));
        drop(kernels);
        // The driver is told without the lock.
        drop(idle);
    }

    /// How many there are of a kernel.
    #[cfg(test)]
    pub(crate) fn count(&self, name: &str) -> usize {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).get(name).map_or(0, Vec::len)
    }
}

/// A number for an execution. Memory that was never written has it with the probability of one in 2^64: the first one is drawn, also so
/// that memory of an earlier process has others.
fn next_number() -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0_u8)));
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A kernel object lent from a pool, to which it returns when dropped: a launch copies the arguments.
#[derive(Debug)]
pub(crate) struct Lent {
    /// There until it is dropped.
    kernel: Option<Kernel>,
    pool: Arc<KernelPool>,
}

impl Lent {
    pub(crate) fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    pub(crate) fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_mut()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(kernel) = self.kernel.take() {
            self.pool.give(kernel);
        }
    }
}

impl Kernel {
    pub(crate) fn raw(&self) -> cl_kernel {
        self.handle.raw()
    }

    /// Whether it may be bound to memories like these.
    fn fits(&self, addresses: Addresses) -> bool {
        [addresses, Addresses::default()].contains(&self.addresses)
    }

    /// How its memories are bound.
    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Binds memory to the `i`-th pair of parameters: the pointer, then the byte offset. `name` is the kernel's, for messages.
    pub(crate) fn bind(&mut self, i: usize, place: Place, name: &str) -> Result<()> {
        let wanted = Known { allocation: place.allocation, offset: place.offset };
        if self.known.len() <= i {
            self.known.resize(i + 1, None);
        }
        let known = self.known[i];
        if known == Some(wanted) {
            return Ok(());
        }
        // After a failure nothing is known.
        self.known[i] = None;
        let (pointer, offset) = (2 * i as u32, 2 * i as u32 + 1);
        if known.is_none_or(|known| known.allocation != wanted.allocation) {
            self.bind_pointer(pointer, place.binding, name)?;
        }
        self.value(offset, &(place.offset as u64), name)?;
        self.known[i] = Some(wanted);
        Ok(())
    }

    fn bind_pointer(&self, index: u32, binding: Binding, name: &str) -> Result<()> {
        match binding {
            Binding::Mem(mem) => self.value(index, &mem, name),
            Binding::Usm(pointer, usm) => self.set("clSetKernelArgMemPointerINTEL", index, name, |kernel| {
                // SAFETY: the kernel is this owner's alone.
                unsafe { usm.set_arg(kernel, index, pointer) }
            }),
            Binding::Svm(pointer) => self.set("clSetKernelArgSVMPointer", index, name, |kernel| {
                // SAFETY: as above; the address is of memory that lives until the command has ended.
                unsafe { cl3::kernel::set_kernel_arg_svm_pointer(kernel, index, pointer) }
            }),
        }
    }

    /// Sets a parameter to the number of the execution that is enqueued next.
    pub(crate) fn number(&self, index: u32) -> Returned<()> {
        let number = next_number();
        // SAFETY: the kernel is this owner's alone; the driver copies the bytes.
        unsafe {
            cl3::kernel::set_kernel_arg(
                self.raw(),
                index,
                size_of_val(&number),
                std::ptr::from_ref(&number).cast(),
            )
        }
    }

    /// Sets a parameter that is no memory.
    pub(crate) fn value<T: Copy>(&self, index: u32, value: &T, name: &str) -> Result<()> {
        self.values(index, std::slice::from_ref(value), name)
    }

    /// Sets a parameter that is a structure of such values.
    fn values<T: Copy>(&self, index: u32, values: &[T], name: &str) -> Result<()> {
        let (size, place) = (size_of_val(values), values.as_ptr().cast());
        self.set("clSetKernelArg", index, name, |kernel| {
            // SAFETY: the kernel is this owner's alone; `place` points to `size` bytes, which the driver copies.
            unsafe { cl3::kernel::set_kernel_arg(kernel, index, size, place) }
        })
    }

    fn set(
        &self,
        call: &str,
        index: u32,
        name: &str,
        set: impl FnOnce(cl_kernel) -> Returned<()>,
    ) -> Result<()> {
        set(self.raw()).check("set kernel argument", call).at(|| format!("argument {index} of kernel {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ProgramSource;
    use crate::testing::shared_test_engines;

    #[test]
    fn kernel_objects_of_a_launch_that_is_gone_serve_the_next_one() {
        for engine in shared_test_engines() {
            let source = "typedef struct { int at[1]; } Shape;
                          kernel void spared(global uchar *dst, ulong at, const Shape s) { dst[at] = s.at[0]; }";
            let name = "spared".to_owned();
            let source = ProgramSource { name, source: source.into(), options: String::new() };
            let inner = &engine.inner;
            let program = inner.programs.program(&inner.context, &inner.device, &source, "").unwrap();
            let pool = |table: i32| {
                let fixed = Fixed { memories: 1, numbered: false, table: table.to_ne_bytes().to_vec() };
                Arc::new(KernelPool::new(Arc::clone(&program), "spared", fixed).unwrap())
            };
            let buffers: Addresses = [Binding::Mem(std::ptr::null_mut())].into_iter().collect();
            let svm: Addresses = [Binding::Svm(std::ptr::null_mut())].into_iter().collect();
            let spare = || program.spare().count("spared");
            let first = pool(1);
            let made: Vec<_> = (0..2).map(|_| first.lend(buffers).unwrap()).collect();
            let raw = |lent: &Lent| lent.kernel().unwrap().raw();
            let kept: Vec<_> = made.iter().map(raw).collect();
            drop(made);
            assert_eq!(spare(), 0);
            drop(first);
            assert_eq!(spare(), 2);
            // Those that were bound to buffer objects are bound to such ones again alone.
            let second = pool(2);
            let (other, own) = (second.lend(svm).unwrap(), second.lend(buffers).unwrap());
            assert!(kept.contains(&raw(&own)) && !kept.contains(&raw(&other)));
            drop((other, own, second));
            assert_eq!(spare(), 3);
            let many = pool(3);
            let lent: Vec<_> = (0..MOST_SPARE + 3).map(|_| many.lend(buffers).unwrap()).collect();
            drop((lent, many));
            assert_eq!(spare(), MOST_SPARE);
        }
    }
}
