//! The command line.

use clap::{Parser, Subcommand};

use crate::bench::{BenchArgs, PeerKind};
use crate::devices::DevicesArgs;
use crate::graph::GraphArgs;
use crate::run::RunArgs;
use crate::sweep::SweepArgs;

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
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists backends, platforms and devices, what they can do, and why something is missing.
    Devices(DevicesArgs),
    /// Runs a model and shows its results and times.
    Run(RunArgs),
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
    },
    /// Answers the requests of `bench` as a peer.
    #[command(hide = true)]
    BenchPeer {
        /// The peer.
        peer: String,
        /// Its library.
        library: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct DevicesArgs {
    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints no colours.
    #[arg(long)]
    pub(crate) no_color: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// A folder with a model.json, an ONNX file, or a graph JSON file; a bare graph gets random inputs and constants.
    pub(crate) model: PathBuf,
    /// The value of an open dimension of an ONNX model's inputs, such as batch=4.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, usize)>,
    /// The backend, instead of the environment's choice; `anydnn --help` names them.
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// Data of an input: a .npy file, a .safetensors file with a tensor of the input's name, a .json array, a .png picture, raw bytes, or
    /// the word random. Pictures are scaled to the input's size; floats are from 0 to 1, integers from 0 to 255.
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = binding)]
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// The type of all f32, f16 and bf16 tensors, or of one tensor, such as f16 or t3=s8.
    #[arg(long = "dt", value_name = "[TENSOR=]TYPE", value_parser = types)]
    pub(crate) types: Vec<Types>,
    /// The type that an ONNX model's f32 is computed with; inputs and outputs keep theirs.
    #[arg(long, value_name = "TYPE")]
    pub(crate) precision: Option<Narrow>,
    /// The shape of an input or a constant, such as t0=4x3x8x8.
    #[arg(long = "shape", value_name = "TENSOR=DIMS", value_parser = shapes)]
    pub(crate) shapes: Vec<Shapes>,
    /// The first dimension of every input; of a dataset, how many samples run at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// The seed of random data.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Compares the outputs with those of the host, computed without fusion, or of ONNX Runtime for an ONNX file.
    #[arg(long, value_name = "WITH", num_args = 0..=1, default_missing_value = "host")]
    pub(crate) check: Option<Check>,
    /// How often to run after the first time; times are the median.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) repeat: u32,
    /// Adds a table of the times by implementation, the longest first.
    #[arg(long)]
    pub(crate) times: bool,
    /// Writes when each step ran on the device into a file for Perfetto or Chrome's tracing page.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints no colours.
    #[arg(long)]
    pub(crate) no_color: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// A folder with a model.json, an ONNX file, or a graph JSON file.
    pub(crate) model: PathBuf,
    /// The value of an open dimension of an ONNX model's inputs, such as batch=4.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, usize)>,
    /// Writes a picture in Graphviz's DOT language; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "json"])]
    pub(crate) dot: Option<PathBuf>,
    /// Writes a picture as SVG; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) svg: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = crate::bench::FORMS)]
pub(crate) struct BenchArgs {
    /// What to measure: primitives as below, graph JSON files, or ONNX files.
    #[arg(value_name = "CASE")]
    pub(crate) cases: Vec<String>,
    /// The value of an open dimension of an ONNX model's inputs, such as batch=4.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, usize)>,
    /// The backend, instead of the environment's choice; `anydnn --help` names them.
    #[arg(long, value_name = "BACKEND", alias = "device")]
    pub(crate) backend: Option<String>,
    /// A library to compare with, measured by turns with us; may be given several times.
    #[arg(long = "peer", value_name = "PEER", value_delimiter = ',')]
    pub(crate) peers: Vec<PeerKind>,
    /// Another backend to compare with, measured by turns as peers are; may be given several times.
    #[arg(long, value_name = "BACKEND", value_delimiter = ',')]
    pub(crate) beside: Vec<String>,
    /// How many rounds of a sample of 40 ms of each.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How many sets of inputs and outputs take turns.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = sets)]
    pub(crate) sets: usize,
    /// Threads of the peers; as many as they choose themselves if not given.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Measures a list of cases as well.
    #[arg(long)]
    pub(crate) suite: Option<Suite>,
    /// Says which implementations were chosen, why, and which others there are.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Measures every implementation of a primitive and compares their results.
    #[arg(long)]
    pub(crate) each: bool,
    /// Writes everything measured into a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Prints no colours.
    #[arg(long)]
    pub(crate) no_color: bool,
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
