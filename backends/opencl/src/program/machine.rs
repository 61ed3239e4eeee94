//! Programs with more local memory than NVIDIA's OpenCL grants a work-group.
//!
//! The driver refuses text with more than 48 KiB, whatever the device has, but takes machine code for a binary and launches it with as much
//! local memory as its sections say. So kernels name the bytes that they use in a comment of inline PTX; the text is assembled here by the
//! driver's own compiler of PTX, and the section of the kernel's local memory becomes as long as that.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use anydnn_backend::{Error, Result};
use dlopen2::raw::Library;

/// What stands before the bytes of local memory of the kernel around it.
const LOCAL: &str = "//@local ";
/// The driver's compiler of PTX.
const COMPILER: &str = "libnvidia-ptxjitcompiler.so.1";
const OPTIONS: [&std::ffi::CStr; 1] = [c"--gpu-name=sm_90a"];
/// Bytes at the beginning of local memory that belong to the system, on every device that has these instructions.
const SYSTEM_BYTES: u64 = 1024;

/// The kernel of a text that wants more local memory, and the bytes.
pub(crate) fn wanted(text: &str) -> Option<(&str, u64)> {
    let (before, after) = text.split_once(LOCAL)?;
    let (_, entry) = before.rsplit_once(".entry ")?;
    let name = entry.split(|c: char| c == '(' || c.is_whitespace()).next()?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    Some((name, after[..digits].parse().ok()?))
}

/// Whether the driver's compiler of PTX is there.
pub(crate) fn is_available() -> Result<()> {
    compiler().map(drop)
}

/// Machine code of a text, whose kernel of this name has so many bytes of local memory.
pub(crate) fn assemble(text: &str, kernel: &str, local: u64) -> Result<Vec<u8>> {
    let mut code = compiler()?.compile(text)?;
    extend(&mut code, kernel, local)
        .ok_or_else(|| unavailable("the driver's machine code has other sections"))?;
    Ok(code)
}

fn unavailable(why: impl Into<String>) -> Error {
    Error::unavailable("local memory beyond 48 KiB", why.into())
}

type Handle = *mut c_void;

/// The functions of the driver's compiler, which stays loaded.
struct Compiler {
    create: unsafe extern "C" fn(*mut Handle, usize, *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    program: unsafe extern "C" fn(Handle, *mut u8) -> c_int,
    _library: Library,
}

fn compiler() -> Result<&'static Compiler> {
    static COMPILER_OF_PROCESS: OnceLock<Result<Compiler, String>> = OnceLock::new();
    COMPILER_OF_PROCESS
        .get_or_init(|| Compiler::load().map_err(|error| format!("{COMPILER}: {error}")))
        .as_ref()
        .map_err(unavailable)
}

impl Compiler {
    fn load() -> Result<Self, dlopen2::Error> {
        let library = Library::open(COMPILER)?;
        // SAFETY: the signatures are those of NVIDIA's "PTX Compiler APIs"; the library lives as long as the functions.
        unsafe {
            Ok(Self {
                create: library.symbol("nvPTXCompilerCreate")?,
                destroy: library.symbol("nvPTXCompilerDestroy")?,
                compile: library.symbol("nvPTXCompilerCompile")?,
                size: library.symbol("nvPTXCompilerGetCompiledProgramSize")?,
                program: library.symbol("nvPTXCompilerGetCompiledProgram")?,
                _library: library,
            })
        }
    }

    fn compile(&self, text: &str) -> Result<Vec<u8>> {
        let done = |code: c_int, call: &str| {
            if code == 0 { Ok(()) } else { Err(unavailable(format!("{call} gave {code}"))) }
        };
        let bytes = CString::new(text).map_err(|_| unavailable("the driver's text has a zero byte"))?;
        let options = OPTIONS.map(std::ffi::CStr::as_ptr);
        let mut handle = ptr::null_mut();
        // SAFETY: the text and its end lie behind the pointer, and both outlive the handle.
        let created = unsafe { (self.create)(&raw mut handle, text.len(), bytes.as_ptr()) };
        done(created, "nvPTXCompilerCreate")?;
        let read = || {
            let (mut size, count) = (0, options.len() as c_int);
            // SAFETY: a live handle; as many options as there are.
            let compiled = unsafe { (self.compile)(handle, count, options.as_ptr()) };
            done(compiled, "nvPTXCompilerCompile")?;
            // SAFETY: a live handle whose text was compiled.
            let sized = unsafe { (self.size)(handle, &raw mut size) };
            done(sized, "nvPTXCompilerGetCompiledProgramSize")?;
            let mut code = vec![0; size];
            // SAFETY: as many bytes as the program has.
            let given = unsafe { (self.program)(handle, code.as_mut_ptr()) };
            done(given, "nvPTXCompilerGetCompiledProgram")?;
            Ok(code)
        };
        let code = read();
        // SAFETY: a live handle, which is not used after.
        unsafe { (self.destroy)(&raw mut handle) };
        code
    }
}

/// Makes the local memory of a kernel in an ELF file so long; none where it has no such section or a longer one.
fn extend(code: &mut [u8], kernel: &str, local: u64) -> Option<()> {
    const SECTION_BYTES: usize = 64;
    const SEGMENT_BYTES: usize = 56;
    let size = local.checked_add(SYSTEM_BYTES)?;
    if !code.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let [segments, sections] = [32, 40].map(|at| number(code, at, 8));
    let [segment_count, section_count, names] = [56, 60, 62].map(|at| number(code, at, 2));
    let header = |table: Option<u64>, i: u64, bytes: usize| {
        usize::try_from(table?).ok()?.checked_add(usize::try_from(i).ok()?.checked_mul(bytes)?)
    };
    let text = number(code, header(sections, names?, SECTION_BYTES)? + 24, 8)?;
    let name = format!(".nv.shared.{kernel}\0");
    let named = (0..section_count?).filter_map(|i| header(sections, i, SECTION_BYTES)).find(|&at| {
        let start = number(code, at, 4).and_then(|start| usize::try_from(text.checked_add(start)?).ok());
        start.and_then(|start| code.get(start..)).is_some_and(|rest| rest.starts_with(name.as_bytes()))
    })?;
    let (offset, before) = (number(code, named + 24, 8)?, number(code, named + 32, 8)?);
    if before > size {
        return None;
    }
    put(code, named + 32, size)?;
    // The part that has no bytes in the file.
    for i in 0..segment_count? {
        let at = header(segments, i, SEGMENT_BYTES)?;
        let of_section = number(code, at + 8, 8)? == offset && number(code, at + 32, 8)? == 0;
        if of_section && number(code, at + 40, 8)? == before {
            put(code, at + 40, size)?;
        }
    }
    Some(())
}

fn number(code: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let mut all = [0; 8];
    all[..bytes].copy_from_slice(code.get(range(at, bytes)?)?);
    Some(u64::from_le_bytes(all))
}

fn put(code: &mut [u8], at: usize, value: u64) -> Option<()> {
    code.get_mut(range(at, 8)?)?.copy_from_slice(&value.to_le_bytes());
    Some(())
}

fn range(at: usize, bytes: usize) -> Option<Range<usize>> {
    Some(at..at.checked_add(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_name_their_local_memory() {
        let text = ".entry other(\n)\n{ }\n.entry matmul(\n.param .u32 x)\n{ //@local 196608;\n}";
        assert_eq!(wanted(text), Some(("matmul", 196_608)));
        assert_eq!(wanted(".entry matmul() { //@resident 2;\n}"), None);
        assert_eq!(wanted("//@local 5;"), None);
    }

    /// A file of one segment and three sections: the names, and the local memory of two kernels.
    fn file() -> Vec<u8> {
        let names = b".nv.shared.b\0.nv.shared.a\0";
        let (segment, sections, text) = (64, 128, 128 + 3 * 64);
        let mut code = vec![0; text + names.len()];
        code[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut set = |at: usize, value: usize| put(&mut code, at, value as u64).unwrap();
        set(32, segment);
        set(40, sections);
        set(segment + 8, text);
        set(segment + 40, 2048);
        set(sections + 24, text);
        for (i, name) in [13, 0].into_iter().enumerate() {
            let at = sections + 64 * (i + 1);
            set(at, name);
            set(at + 24, text);
            set(at + 32, [2048, 1024][i]);
        }
        code[56..58].copy_from_slice(&[1, 0]);
        code[60..64].copy_from_slice(&[3, 0, 0, 0]);
        code[text..].copy_from_slice(names);
        code
    }

    #[test]
    fn the_local_memory_of_one_kernel_grows() {
        let mut code = file();
        extend(&mut code, "a", 196_608).unwrap();
        let at = [64 + 40, 192 + 32, 256 + 32].map(|at| number(&code, at, 8).unwrap());
        assert_eq!(at, [197_632, 197_632, 1024]);
    }

    #[test]
    fn other_files_stay_as_they_are() {
        for (kernel, local) in [("a", 512), ("c", 196_608), ("a", u64::MAX)] {
            let mut code = file();
            assert_eq!(extend(&mut code, kernel, local), None, "{kernel} {local}");
            assert_eq!(code, file());
        }
        assert_eq!(extend(&mut b".version 9.0".to_vec(), "a", 5), None);
        for length in 0..file().len() {
            // A file that ends early may lack what is looked for, but nothing is read beyond it.
            let _ = extend(&mut file()[..length].to_vec(), "a", 196_608);
        }
    }
}
