//! Programs: built from source or loaded from a binary.

pub(crate) mod compilers;
pub(crate) mod kernels;
pub(crate) mod machine;
pub(crate) mod ptx;
pub(crate) mod text;
pub(crate) mod threads;
pub(crate) mod trial;

use std::ffi::CString;
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anydnn_backend::{BuildFailure, Error, Result};
use cl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BUILD_LOG, CL_PROGRAM_DEVICES,
    CL_PROGRAM_KERNEL_NAMES, get_program_data,
};
use cl3::types::{cl_device_id, cl_program};

use crate::driver::call::{self, Check, Returned, Scalar};
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::program::kernels::Spare;

/// A built program.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    device: OpenClDevice,
    /// Before the program, which they refer to.
    spare: Spare,
    handle: handle::Program,
    /// What cache blobs carry, once one was made: the driver need not give the same bytes twice.
    binary: OnceLock<Arc<[u8]>>,
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
        let span = tracing::debug_span!("build program", name, device = device.name());
        let _entered = span.enter();
        if source.contains(ptx::UNREAD) {
            let text = Self::hidden(context, device, name, source, options)?;
            if let Some(text) = text.and_then(|text| ptx::translate(text.as_bytes())) {
                return Self::translated(context, device, name, &text, options);
            }
            tracing::debug!(name, "the driver's binary of hidden code is no text");
        }
        let raw = cl3::program::create_program_with_source(context.raw(), &[source])
            .check("build program", "clCreateProgramWithSource")?;
        let program = Self::finish(raw, device, name, options)?;
        if !source.contains(ptx::MARK) {
            return Ok(program);
        }
        let text = program.binary()?.and_then(|binary| ptx::translate(&binary));
        let text = text.ok_or_else(|| {
            Error::unavailable("warpgroup instructions", "the driver's binaries are no such PTX")
        })?;
        Self::translated(context, device, name, &text, options)
    }

    /// The driver's text of a program, without machine code of it; none where the driver gives none.
    fn hidden(
        context: &handle::Context,
        device: &OpenClDevice,
        name: &str,
        source: &str,
        options: &str,
    ) -> Result<Option<String>> {
        // In one piece: the binding hands over several as if they had no lengths between them.
        let source = [ptx::HIDDEN, source, ptx::END].concat();
        let raw = cl3::program::create_program_with_source(context.raw(), &[&source])
            .check("build program", "clCreateProgramWithSource")?;
        // SAFETY: the driver returned this program with one reference for the caller.
        let handle = unsafe { handle::Program::from_owned(raw) }?;
        let c_options = c_options(options)?;
        let start = Instant::now();
        let built =
            cl3::program::build_program(raw, &[device.raw_device()], &c_options, None, ptr::null_mut());
        tracing::debug!(name, ?built, milliseconds = start.elapsed().as_millis(), "built with hidden code");
        let program = Self::new(name, device, handle);
        // What else failed says so without hidden code.
        let binary = program.read_binary().unwrap_or_default();
        Ok(binary.and_then(|binary| ptx::shown(&binary)))
    }

    /// A program of a text with the instructions and the local memory that NVIDIA's compiler of OpenCL C does not let through; see [`ptx`] and
    /// [`machine`].
    fn translated(
        context: &handle::Context,
        device: &OpenClDevice,
        name: &str,
        text: &str,
        options: &str,
    ) -> Result<Self> {
        let Some((kernel, local)) = machine::wanted(text) else {
            return Self::from_binary(context, device, name, text.as_bytes(), options);
        };
        let start = Instant::now();
        let code: Arc<[u8]> = machine::assemble(text, kernel, local)?.into();
        tracing::debug!(name, local, milliseconds = start.elapsed().as_millis(), "assembled");
        let program = Self::from_binary(context, device, name, &code, options)?;
        program.keep_binary(&code);
        Ok(program)
    }

    /// Builds a program from a binary that this driver made for this device, with all its kernels.
    ///
    /// The binary must have been verified: drivers crash on those that are cut short.
    pub(crate) fn from_binary(
        context: &handle::Context,
        device: &OpenClDevice,
        name: &str,
        binary: &[u8],
        options: &str,
    ) -> Result<Self> {
        let span = tracing::debug_span!("load program", name, device = device.name());
        let _entered = span.enter();
        let raw =
            create_with_binary(context, device, binary).check("load program", "clCreateProgramWithBinary")?;
        let program = Self::finish(raw, device, name, options)?;
        program.create_kernels()?;
        Ok(program)
    }

    fn new(name: &str, device: &OpenClDevice, handle: handle::Program) -> Self {
        let (spare, binary) = (Spare::default(), OnceLock::new());
        Self { name: name.into(), device: device.clone(), spare, handle, binary }
    }

    fn finish(raw: cl_program, device: &OpenClDevice, name: &str, options: &str) -> Result<Self> {
        // SAFETY: the driver returned this program with one reference for the caller.
        let handle = unsafe { handle::Program::from_owned(raw) }?;
        let program = Self::new(name, device, handle);
        let c_options = c_options(options)?;
        let devices = [device.raw_device()];
        let start = Instant::now();
        match cl3::program::build_program(raw, &devices, &c_options, None, ptr::null_mut()) {
            Ok(()) => {
                tracing::debug!(name, milliseconds = start.elapsed().as_millis(), "built");
                let log = program.log();
                if !log.is_empty() {
                    tracing::debug!(name, log, "the compiler had something to say");
                }
                Ok(program)
            }
            Err(code) => Err(program.failure("clBuildProgram", code)),
        }
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The binary that the driver has for the device; none where it has none to give.
    pub(crate) fn binary(&self) -> Result<Option<Vec<u8>>> {
        // Some drivers finish compiling only when kernels are made, and have no binary before.
        self.create_kernels()?;
        self.read_binary()
    }

    fn read_binary(&self) -> Result<Option<Vec<u8>>> {
        let query =
            |info| get_program_data(self.handle.raw(), info).check("read program", "clGetProgramInfo");
        let devices: Vec<cl_device_id> = scalars(&query(CL_PROGRAM_DEVICES)?);
        let sizes: Vec<usize> = scalars(&query(CL_PROGRAM_BINARY_SIZES)?);
        // PoCL lists the whole device for a part of it.
        let own = devices.iter().position(|device| *device == self.device.raw_device());
        let own = own.or((devices.len() == 1).then_some(0));
        let Some((own, &size)) = own.and_then(|own| Some((own, sizes.get(own)?))) else { return Ok(None) };
        if size == 0 {
            return Ok(None);
        }
        let mut binary = vec![0_u8; size];
        let mut binaries = vec![ptr::null_mut(); sizes.len()];
        binaries[own] = binary.as_mut_ptr();
        read_binaries(self.handle.raw(), &mut binaries).check("read program", "clGetProgramInfo")?;
        Ok(Some(binary))
    }

    /// The binary as it was first read or loaded.
    pub(crate) fn kept_binary(&self) -> Result<Option<Arc<[u8]>>> {
        if let Some(binary) = self.binary.get() {
            return Ok(Some(Arc::clone(binary)));
        }
        let binary = self.binary()?;
        Ok(binary.map(|binary| Arc::clone(self.binary.get_or_init(|| Arc::from(binary)))))
    }

    /// Keeps the binary that the program was loaded from.
    pub(crate) fn keep_binary(&self, binary: &Arc<[u8]>) {
        let _ = self.binary.set(Arc::clone(binary));
    }

    /// Kernel objects that no launch has.
    pub(crate) fn spare(&self) -> &Spare {
        &self.spare
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

    /// Makes every kernel once, which shows whether the program is whole. One by one, because Intel's runtime makes them all at once
    /// only of programs that were built for every device of their context.
    fn create_kernels(&self) -> Result<()> {
        let (operation, call) = ("read program", "clGetProgramInfo");
        let names = get_program_data(self.handle.raw(), CL_PROGRAM_KERNEL_NAMES);
        let names = call::text(names, operation, call)?;
        if names.is_empty() {
            return Err(Error::unavailable("kernels", format!("program {:?} has none", self.name)));
        }
        names.split(';').try_for_each(|name| self.kernel(name).map(drop))
    }

    /// The error of a call that compiles: about the program where the code is, otherwise as of any call.
    fn failure(&self, call: &str, code: i32) -> Error {
        let log = self.log();
        if !is_of_program(code) {
            tracing::warn!(program = self.name, call, code, log, "a program was not compiled");
            return call::error("build program", call, code);
        }
        Error::from(Box::new(BuildFailure {
            program: self.name.clone(),
            device: self.device.to_string(),
            call: call.into(),
            code,
            log,
        }))
    }

    fn log(&self) -> String {
        let device = self.device.raw_device();
        let log = cl3::program::get_program_build_data(self.handle.raw(), device, CL_PROGRAM_BUILD_LOG);
        call::text(log, "read build log", "clGetProgramBuildInfo").unwrap_or_else(|error| error.to_string())
    }
}

fn c_options(options: &str) -> Result<CString> {
    CString::new(options)
        .map_err(|_| Error::invalid("build program", "options", format!("{options:?}"), "text without NUL"))
}

/// Whether a code is about a program's text, options or kernels, and not about memory, the device or the call.
fn is_of_program(code: i32) -> bool {
    use cl3::error_codes as codes;
    matches!(
        code,
        codes::CL_COMPILER_NOT_AVAILABLE
            | codes::CL_BUILD_PROGRAM_FAILURE
            | codes::CL_COMPILE_PROGRAM_FAILURE
            | codes::CL_LINKER_NOT_AVAILABLE
            | codes::CL_LINK_PROGRAM_FAILURE
            | codes::CL_INVALID_BINARY
            | codes::CL_INVALID_BUILD_OPTIONS
            | codes::CL_INVALID_PROGRAM_EXECUTABLE
            | codes::CL_INVALID_KERNEL_NAME
            | codes::CL_INVALID_KERNEL_DEFINITION
    )
}

/// A program from a binary for one device. The bindings pass the list of binaries in a layout that Rust does not promise.
fn create_with_binary(
    context: &handle::Context,
    device: &OpenClDevice,
    binary: &[u8],
) -> Returned<cl_program> {
    let create = cl3::load_library().as_ref().map_err(|_| call::LIBRARY_MISSING)?;
    let (device, length, bytes) = (device.raw_device(), binary.len(), binary.as_ptr());
    let (mut of_binary, mut code) = (0, 0);
    let program = create
        .clCreateProgramWithBinary(
            context.raw(),
            1,
            &raw const device,
            &raw const length,
            &raw const bytes,
            &raw mut of_binary,
            &raw mut code,
        )
        .ok_or(call::FUNCTION_MISSING)?;
    if code != 0 {
        return Err(code);
    }
    if of_binary != 0 {
        // SAFETY: the driver returned this program with one reference, which is given back.
        let _ = unsafe { cl3::program::release_program(program) };
        return Err(of_binary);
    }
    Ok(program)
}

/// Lets the driver write binaries to the pointers that are not null.
fn read_binaries(program: cl_program, binaries: &mut [*mut u8]) -> Returned<()> {
    let library = cl3::load_library().as_ref().map_err(|_| call::LIBRARY_MISSING)?;
    let (bytes, pointers) = (size_of_val(binaries), binaries.as_mut_ptr().cast());
    let code = library
        .clGetProgramInfo(program, CL_PROGRAM_BINARIES, bytes, pointers, ptr::null_mut())
        .ok_or(call::FUNCTION_MISSING)?;
    if code == 0 { Ok(()) } else { Err(code) }
}

fn scalars<T: Scalar>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).filter_map(T::from_bytes).collect()
}
