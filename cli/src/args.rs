//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::bench::{BenchArgs, PeerKind};
use crate::devices::DevicesArgs;
use crate::graph::GraphArgs;
use crate::run::RunArgs;
use crate::sweep::SweepArgs;
use crate::warm::WarmArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the work failed on the device or in a file
  2  wrong usage or bad input
  3  --check found a result outside its tolerance
  4  the backend or device is not available

Environment:
  ANYDNN_BACKEND  the backend: host, opencl, opencl:gpu, opencl:cpu, opencl:pocl, opencl:nvidia:0, mock, mock:SEED,
                  or a comma-separated list, the most wanted first
  ANYDNN_LOG      what to log to stderr: error, warn, info, debug, trace, or a filter such as anydnn_opencl=debug
  NO_COLOR        no colours when set";

/// Neural networks on any OpenCL device.
#[derive(Debug, Parser)]
#[command(name = "anydnn", version, about = "Neural networks on any OpenCL device", after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Args {
    /// Writes what is shown into a file as well: an animated SVG, as of a terminal.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists backends, platforms and devices, what they can do, and why something is missing.
    Devices(DevicesArgs),
    /// Runs a model and shows its results and times.
    Run(RunArgs),
    /// Compiles what a model needs ahead of its first run, and keeps it on disk.
    Warm(WarmArgs),
    /// Shows how a model's graph is partitioned, and why each chain ends where it does.
    Graph(GraphArgs),
    /// Measures primitives and graphs, alone or beside other libraries.
    Bench(BenchArgs),
    /// Runs random cases of every primitive and compares their results, in processes whose end is survived.
    Sweep(SweepArgs),
    /// Answers the cases of `sweep`.
    #[command(hide = true)]
    SweepWorker {
        /// The backend.
        backend: String,
        /// The peer to compare with.
        #[arg(long)]
        peer: Option<PeerKind>,
        /// Rounds of a case beside a peer.
        #[arg(long, default_value_t = crate::sweep::ROUNDS)]
        rounds: u32,
    },
    /// Compiles programs for another process of this program.
    #[command(hide = true)]
    Compile,
    /// Answers the requests of `bench` as a peer.
    #[command(hide = true)]
    BenchPeer {
        /// The peer.
        peer: String,
        /// Its library.
        library: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
