//! The `anydnn` command line: devices, run, warm, graph, bench, sweep.

mod args;
mod backend;
mod bench;
mod clock;
mod devices;
mod failure;
mod graph;
mod model;
mod output;
mod plausible;
mod recording;
mod run;
mod sweep;
#[cfg(test)]
mod tests;
mod warm;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, Command};
use crate::failure::{Code, Failure, Outcome};

fn main() -> ExitCode {
    clock::begin();
    let args = Args::parse();
    // Compiling in other processes is no need: without them it takes longer.
    if let (Ok(program), false) = (std::env::current_exe(), matches!(args.command, Command::Compile)) {
        anydnn_opencl::compile_in_processes(program, ["compile".into()]);
    }
    if args.record.is_some() {
        recording::begin();
    }
    let result = log().and_then(|()| match &args.command {
        Command::Devices(args) => devices::devices(args),
        Command::Run(args) => run::run(args),
        Command::Warm(args) => warm::warm(args),
        Command::Graph(args) => graph::graph(args),
        Command::Bench(args) => bench::bench(args),
        Command::Sweep(args) => sweep::sweep(args),
        Command::SweepWorker { backend, peer, rounds } => sweep::work(backend, *peer, *rounds),
        Command::Compile => compile(),
        Command::BenchPeer { peer, library } => bench::serve(peer, library),
    });
    let recorded = match &args.record {
        Some(file) => recording::end(file, &command()).map_err(Failure::from),
        None => Ok(()),
    };
    match result.and(recorded) {
        Ok(()) => {
            if matches!(&args.command, Command::Run(args) if args.first) {
                leave();
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Ends the process at once and well, whatever other threads do: nobody waits for programs that are still compiled.
fn leave() {
    #[cfg(unix)]
    // SAFETY: it ends the process without running any code of it; what was printed has been written.
    unsafe {
        libc::_exit(0)
    }
}

/// The command as it was given, without what records it.
fn command() -> String {
    let mut words = vec!["anydnn".to_owned()];
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        if word == "--record" {
            given.next();
        } else if !word.starts_with("--record=") {
            words.push(if word.contains(' ') { format!("\"{word}\"") } else { word });
        }
    }
    words.join(" ")
}

/// Compiles what another process of this program asks for.
fn compile() -> Outcome {
    Ok(anydnn_opencl::serve_compiler(std::io::stdin().lock(), std::io::stdout().lock())?)
}

/// Logs to standard error what `ANYDNN_LOG` asks for.
fn log() -> Outcome {
    let wanted = std::env::var("ANYDNN_LOG").ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or("error")).map_err(|error| {
        let help = "give a level (error, warn, info, debug, trace) or a filter such as anydnn_opencl=debug";
        Failure::new(Code::Input, format!("ANYDNN_LOG: {error}"), help)
    })?;
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    Ok(())
}
