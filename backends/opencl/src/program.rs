//! Programs: built once per engine and source, with kernel objects to share.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use anydnn_backend::{BuildFailure, Error, Result};
use cl3::program::CL_PROGRAM_BUILD_LOG;

use crate::call::{self, Check};
use crate::handle;
use crate::plan::ProgramSource;
use crate::platform::OpenClDevice;

/// The programs of one engine.
#[derive(Default)]
pub(crate) struct ProgramCache {
    slots: Mutex<HashMap<blake3::Hash, Arc<Slot>>>,
}

/// A place for one program. Its lock is held while the program builds, so that no two threads build the same one.
#[derive(Default)]
struct Slot {
    program: Mutex<Option<Arc<Program>>>,
}

/// A built program.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    device: OpenClDevice,
    handle: handle::Program,
}

impl ProgramCache {
    /// The built program for a source with more options, from the cache if it is there.
    pub(crate) fn program(
        &self,
        context: &handle::Context,
        device: &OpenClDevice,
        source: &ProgramSource,
        more_options: &str,
    ) -> Result<Arc<Program>> {
        let options = complete_options(&source.options, more_options);
        let key = key(&source.source, &options);
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key).or_default())
        };
        let mut program = slot.program.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*program {
            return Ok(Arc::clone(program));
        }
        let built = Arc::new(Program::build(context, device, &source.name, &source.source, &options)?);
        *program = Some(Arc::clone(&built));
        Ok(built)
    }
}

impl fmt::Debug for ProgramCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ProgramCache").field("programs", &slots.len()).finish()
    }
}

impl Program {
    /// Builds a program for one device.
    pub(crate) fn build(
        context: &handle::Context,
        device: &OpenClDevice,
        name: &str,
        source: &str,
        options: &str,
    ) -> Result<Self> {
        let c_options = CString::new(options).map_err(|_| {
            Error::invalid("build program", "options", format!("{options:?}"), "text without NUL")
        })?;
        let span = tracing::debug_span!("build program", name, device = device.name());
        let _entered = span.enter();
        let raw = cl3::program::create_program_with_source(context.raw(), &[source])
            .check("build program", "clCreateProgramWithSource")?;
        // SAFETY: the driver returned this program with one reference for the caller.
        let handle = unsafe { handle::Program::from_owned(raw) }?;
        let program = Self { name: name.into(), device: device.clone(), handle };
        let devices = [device.raw_device()];
        match cl3::program::build_program(raw, &devices, &c_options, None, ptr::null_mut()) {
            Ok(()) => {
                let log = program.log();
                if !log.is_empty() {
                    tracing::debug!(name, log, "the compiler had something to say");
                }
                Ok(program)
            }
            Err(code) => Err(program.failure("clBuildProgram", code)),
        }
    }

    /// A new kernel object.
    pub(crate) fn kernel(&self, kernel: &str) -> Result<handle::Kernel> {
        let name = CString::new(kernel).map_err(|_| {
            Error::invalid("create kernel", "name", format!("{kernel:?}"), "text without NUL")
        })?;
        let raw = cl3::kernel::create_kernel(self.handle.raw(), &name)
            // Some drivers finish compiling only here.
            .map_err(|code| self.failure(&format!("clCreateKernel({kernel})"), code))?;
        // SAFETY: the driver returned this kernel with one reference for the caller.
        unsafe { handle::Kernel::from_owned(raw) }
    }

    fn failure(&self, call: &str, code: i32) -> Error {
        if let lost @ Error::DeviceLost(_) = call::error("build program", call, code) {
            return lost;
        }
        Error::from(Box::new(BuildFailure {
            program: self.name.clone(),
            device: self.device.to_string(),
            call: call.into(),
            code,
            log: self.log(),
        }))
    }

    fn log(&self) -> String {
        let device = self.device.raw_device();
        let log = cl3::program::get_program_build_data(self.handle.raw(), device, CL_PROGRAM_BUILD_LOG);
        call::text(log, "read build log", "clGetProgramBuildInfo").unwrap_or_else(|error| error.to_string())
    }
}

/// The kernel objects of one kernel. Each is lent to one launch at a time, because setting arguments is not thread-safe.
#[derive(Debug)]
pub(crate) struct KernelPool {
    program: Arc<Program>,
    name: String,
    idle: Mutex<Vec<handle::Kernel>>,
}

impl KernelPool {
    /// A pool that holds one kernel object already, so that a wrong name shows at once.
    pub(crate) fn new(program: Arc<Program>, name: &str) -> Result<Self> {
        let first = program.kernel(name)?;
        Ok(Self { program, name: name.into(), idle: Mutex::new(vec![first]) })
    }

    pub(crate) fn take(&self) -> Result<handle::Kernel> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.program.kernel(&self.name), Ok)
    }

    pub(crate) fn give(&self, kernel: handle::Kernel) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(kernel);
    }
}

/// The options of a build: OpenCL C 1.2, which any device compiles, unless they say otherwise.
fn complete_options(options: &str, more: &str) -> String {
    let standard = if options.contains("-cl-std") { "" } else { "-cl-std=CL1.2" };
    [standard, options, more].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn key(source: &str, options: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(options.len() as u64).to_le_bytes());
    hasher.update(options.as_bytes());
    hasher.update(source.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_engines;

    fn source(source: &str) -> ProgramSource {
        ProgramSource { name: "test".into(), source: source.into(), options: String::new() }
    }

    #[test]
    fn options_name_a_standard_once() {
        assert_eq!(complete_options("", ""), "-cl-std=CL1.2");
        assert_eq!(complete_options("-DN=1", "-DM"), "-cl-std=CL1.2 -DN=1 -DM");
        assert_eq!(complete_options("-cl-std=CL3.0", ""), "-cl-std=CL3.0");
        assert_ne!(key("ab", "c"), key("b", "ca"));
    }

    #[test]
    fn programs_are_built_once_and_failures_carry_the_log() {
        for engine in test_engines() {
            let inner = &engine.inner;
            let build = |text: &str| inner.programs.program(&inner.context, &inner.device, &source(text), "");
            let text = "kernel void noop(global int *p) { p[get_global_id(0)] = 1; }";
            let (first, second) = (build(text).unwrap(), build(text).unwrap());
            assert!(Arc::ptr_eq(&first, &second));
            assert!(first.kernel("noop").is_ok());
            assert!(matches!(first.kernel("missing"), Err(Error::Build(failure)) if failure.code == -46));
            let Err(Error::Build(failure)) = build("kernel void broken(") else { panic!("it built") };
            assert_eq!(failure.program, "test");
            assert!(!failure.log.is_empty(), "{failure}");
        }
    }
}
