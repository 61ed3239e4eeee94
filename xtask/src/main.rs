//! Project chores, run as `cargo xtask CHORE`.

mod book;
mod command;
mod fence;
mod fuzz;
mod header;
mod imports;
mod install;
mod intel;
mod jobs;
mod ledger;
mod links;
mod oclgrind;
mod onednn;
mod onnx;
mod packages;
mod platforms;
mod programs;
mod python;
mod sample;
mod sanitize;
mod setup;
mod steps;
mod sweep;
mod tally;
mod test;
mod vendors;
mod wheel;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::steps::Extent;
use self::wheel::Package;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores", long_about = None)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Make OpenCL available: PoCL and Intel's CPU runtime, where they are missing; and what the C API is tested with
    Setup,
    /// Check that the imports of every package go one way, and print the order of its modules
    Imports,
    /// Make the C API's header from its source
    Header,
    /// Build the C libraries and install them with the header and pkg-config files
    Install {
        /// The folder to install into
        #[arg(long)]
        prefix: PathBuf,
    },
    /// Build the book of `docs/` into `target/book` and check the links of all Markdown files
    Book,
    /// Build the Python package's wheel and check it: pytest, mypy and ruff
    Python {
        /// Build the wheel for use, into `target/wheels`, rather than as tests are built
        #[arg(long)]
        release: bool,
        /// Build no wheel: check the package around the library that the build for tests has made
        #[arg(long, conflicts_with = "release")]
        built: bool,
    },
    /// Set up, then run every check and test; a missing backend is a failure
    Test {
        /// Leave out lints, documentation, the runs without OpenCL and the longest programs; take each eighth of long lists of cases
        #[arg(long)]
        fast: bool,
        /// Run every case on every device, and the programs under the fence also without it and in both of its modes
        #[arg(long, conflicts_with = "fast")]
        long: bool,
    },
    /// Change ONNX models at random and import them, in search of what crashes
    Fuzz {
        /// Seconds of the processor's time
        #[arg(long, default_value_t = 1800)]
        seconds: u64,
        /// Other numbers make other cases
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// A folder with more models to change
        #[arg(long)]
        models: Option<PathBuf>,
    },
    /// Run random cases of every primitive: the arguments of `anydnn sweep`, and --fence over, under or canary
    Sweep {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the baseline kernels of every primitive in a simulator that sees bad accesses, races and uninitialised values
    Oclgrind {
        /// Only conformance cases whose names contain this, such as `softmax/`
        #[arg(long)]
        filter: Option<String>,
    },
    /// Run the tests under AddressSanitizer, ThreadSanitizer, Valgrind and Miri; takes hours on two cores
    Sanitize {
        /// The tools, all if none is named
        parts: Vec<sanitize::Part>,
    },
    /// Start a test program of the test run
    #[command(hide = true)]
    Start {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let passed = match Cli::parse().chore {
        Chore::Setup => setup::setup().map(|ready| {
            println!("{ready}");
            true
        }),
        Chore::Imports => imports::check(),
        Chore::Header => header::write().map(|()| true),
        Chore::Install { prefix } => install::install(&prefix).map(|()| true),
        Chore::Book => book::book(),
        Chore::Python { release, built } => wheel::check(match (release, built) {
            (true, _) => Package::Release,
            (false, true) => Package::Built,
            (false, false) => Package::Development,
        }),
        Chore::Test { fast, long } => test::test(match (fast, long) {
            (true, _) => Extent::Fast,
            (_, true) => Extent::Long,
            _ => Extent::Whole,
        }),
        Chore::Fuzz { seconds, seed, models } => fuzz::fuzz(seconds, seed, models.as_deref()),
        Chore::Sweep { args } => sweep::sweep(&args),
        Chore::Oclgrind { filter } => oclgrind::check(filter.as_deref()),
        Chore::Sanitize { parts } => sanitize::check(&parts),
        Chore::Start { program, args } => match ledger::run(&program, &args) {
            // The program's own status goes through to cargo.
            Ok(status) => std::process::exit(status),
            Err(error) => Err(error),
        },
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
