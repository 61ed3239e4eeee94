//! Processes that compile, which start early where no programs are on disk.

use std::ffi::OsString;
use std::path::PathBuf;

use super::DiskCache;
use crate::program::compilers;

/// Lets engines of this process compile in other processes where a driver compiles one program at a time or is slowed down by threads
/// (NVIDIA's and Intel's): `program`, started with these arguments, has to call [`serve_compiler`](crate::serve_compiler) with its standard input and output.
/// Only the first call counts; it belongs at the start of a program, before drivers are loaded: where no compiled program is on disk yet,
/// processes load their drivers while this one does, for NVIDIA's from this call on, for others from the first look at devices, and end after a
/// second if nobody asks for a program.
///
/// A process that does not start, ends early or answers nonsense costs its time: the program is compiled here then.
pub fn compile_in_processes(program: impl Into<PathBuf>, args: impl IntoIterator<Item = OsString>) {
    compilers::start_with(program.into(), args.into_iter().collect(), DiskCache::from_env().is_empty());
}
