//! The arguments of `anydnn bench`.

use std::path::PathBuf;

use anydnn::backend::Specialize;

use super::notation::FORMS;
use super::peers::PeerKind;
use super::suite::Suite;
use crate::backend::specialization_measured;
use crate::model::dim;

#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
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
    /// Another backend that takes part beside the first one: each case is measured on both at once too, by turns with the first one alone,
    /// with the executions (batches of a model) divided between them by their speed; may be given several times.
    #[arg(long, value_name = "BACKEND", value_delimiter = ',')]
    pub(crate) pool: Vec<String>,
    /// Compares with the operations one by one on the same backend, measured by turns as peers are.
    #[arg(long)]
    pub(crate) unfused: bool,
    /// How many rounds of a sample of 40 ms of each.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How many sets of inputs and outputs take turns.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = sets)]
    pub(crate) sets: usize,
    /// Threads of the peers; as many as they choose themselves if not given.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// When kernels get programs for one shape: background, never or eager. If not given, what `ANYDNN_SPECIALIZE` says, else eager: the
    /// steady state is measured.
    #[arg(long, value_name = "WHEN")]
    pub(crate) specialize: Option<Specialize>,
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

impl BenchArgs {
    /// When kernels get programs for one shape; none as the environment says.
    pub(super) fn specialize(&self) -> Option<Specialize> {
        self.specialize.or_else(specialization_measured)
    }
}

fn sets(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|sets| (1..=64).contains(sets))
        .ok_or_else(|| "expected a number from 1 to 64".to_owned())
}
