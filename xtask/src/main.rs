//! Project chores, run as `cargo xtask CHORE`.

mod command;
mod intel;
mod packages;
mod platforms;
mod setup;
mod steps;
mod tally;
mod test;
mod vendors;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores", long_about = None)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Make OpenCL available: PoCL and Intel's CPU runtime, where they are missing
    Setup,
    /// Set up, then run every check and test; a missing backend is a failure
    Test {
        /// Leave out the lints, the documentation and the runs without OpenCL
        #[arg(long)]
        fast: bool,
    },
}

fn main() -> ExitCode {
    let passed = match Cli::parse().chore {
        Chore::Setup => setup::setup().map(|ready| {
            println!("{ready}");
            true
        }),
        Chore::Test { fast } => test::test(fast),
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
