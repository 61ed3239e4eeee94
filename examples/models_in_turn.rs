//! What a further, different model costs a process that has run others: loads ONNX models one after the other and tells how long each takes
//! to its first answer, and how many programs were made for it.
//!
//! ```sh
//! cargo run --release --example models_in_turn -- MODEL [DIM=N ...] MODEL [DIM=N ...] ...
//! ```
//!
//! The device is what `ANYDNN_BACKEND` names. With `ANYDNN_CACHE_DIR` naming an empty folder nothing is known from before; for Intel's runtime
//! `~/.cache/neo_compiler_cache` counts too, and for PoCL `POCL_CACHE_DIR`. The first time includes all that the engine and its device need
//! to start. Inputs are zeros: it is time that counts here. Models stay loaded. Programs are counted on OpenCL devices.

mod support;

use std::collections::HashMap;
use std::error::Error;
use std::time::Instant;

use anydnn::onnx::Model;
use anydnn::select::{AnyBackend, AnyEngine, Selector};

use self::support::{programs, zeros};

fn main() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    if help_to_compile()? {
        return Ok(());
    }
    let mut models: Vec<(String, HashMap<String, usize>)> = Vec::new();
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            None => models.push((arg, HashMap::new())),
            Some((name, extent)) => {
                let (_, dims) = models.last_mut().ok_or("expected MODEL before DIM=N")?;
                dims.insert(name.to_owned(), extent.parse()?);
            }
        }
    }
    if models.is_empty() {
        return Err("expected MODEL [DIM=N ...] MODEL [DIM=N ...] ...".into());
    }
    let selection = Selector::from_env()?.select()?;
    println!("{}", selection.chosen);
    let (mut sessions, mut begin, mut made) = (Vec::new(), begin, 0);
    for (path, dims) in &models {
        let session = Model::load(path)?.compile::<AnyEngine, AnyBackend>(&selection.engine, &[])?;
        let inputs = zeros(&session, |open| dims.get(open).copied())?;
        session.run(&inputs)?;
        let programs = programs(&selection.engine);
        println!("{:7.3} s, {:2} programs: {path}", begin.elapsed().as_secs_f64(), programs - made);
        made = programs;
        drop(inputs);
        sessions.push(session);
        begin = Instant::now();
    }
    Ok(())
}

/// Compiles what another process of this program asks for, if that has started it; otherwise lets engines of this process start such.
fn help_to_compile() -> Result<bool, Box<dyn Error>> {
    #[cfg(feature = "opencl")]
    {
        const COMPILE: &str = "--compile";
        if std::env::args().nth(1).as_deref() == Some(COMPILE) {
            anydnn_opencl::serve_compiler(std::io::stdin().lock(), std::io::stdout().lock())?;
            return Ok(true);
        }
        anydnn_opencl::compile_in_processes(std::env::current_exe()?, [COMPILE.into()]);
    }
    Ok(false)
}
