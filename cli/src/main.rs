//! The `anydnn` command line: devices, run, graph.

mod args;
mod devices;
mod failure;
mod graph;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let args = Args::parse();
    log();
    let result = match &args.command {
        Command::Devices(args) => devices::devices(args),
        Command::Run(args) => run::run(args),
        Command::Graph(args) => graph::graph(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Logs to standard error what `ANYDNN_LOG` asks for.
fn log() {
    let filter = EnvFilter::try_from_env("ANYDNN_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// What a command ends with.
type Outcome = Result<(), Failure>;
