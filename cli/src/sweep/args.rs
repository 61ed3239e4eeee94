//! The arguments of `anydnn sweep`.

use anydnn::backend::DataType;

use super::cases::seed;
use crate::bench::PeerKind;

/// Rounds of a case beside a peer: few, as there are many cases.
pub(crate) const ROUNDS: u32 = 5;

/// Cases of a family, or of all, that are told at the end.
const WORST: usize = 16;

#[derive(Debug, clap::Args)]
pub(crate) struct SweepArgs {
    /// The backend, instead of the environment's choice; `anydnn --help` names them.
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// How many cases; 1000 if neither this nor --seconds is given.
    #[arg(long, value_name = "N")]
    pub(crate) cases: Option<u64>,
    /// How long to go on.
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// What the cases follow from: a number, or the word today for that of the day.
    #[arg(long, default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,
    /// Only cases of a family, such as matmul or softmax; may be given several times.
    #[arg(long = "family", value_name = "FAMILY", value_delimiter = ',')]
    pub(crate) families: Vec<String>,
    /// The data type wherever one is chosen at random.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) data_type: Option<DataType>,
    /// Measures cases of the bench beside a library instead, and tells the ratios of its times to ours.
    #[arg(long, value_name = "PEER")]
    pub(crate) peer: Option<PeerKind>,
    /// How many rounds of a sample of 10 ms of each side; more where the machine is not quiet.
    #[arg(long, value_name = "N", requires = "peer", default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How many of the cases that are slowest beside the peer are told.
    #[arg(long, value_name = "N", requires = "peer", default_value_t = WORST)]
    pub(crate) worst: usize,
    /// Runs a case again by its text, such as matmul:11,399,1199, or with --peer as in `anydnn bench`; may be given several times.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["cases", "seconds", "families", "data_type"])]
    pub(crate) replay: Vec<String>,
    /// Leaves failing cases as they were found.
    #[arg(long)]
    pub(crate) no_shrink: bool,
    /// Seconds after which a case counts as hung.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) patience: u64,
    /// Prints no colours.
    #[arg(long)]
    pub(crate) no_color: bool,
}
