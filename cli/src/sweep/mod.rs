//! `anydnn sweep`: random cases of every primitive, each in a process whose end is survived.

mod answer;
mod args;
mod cases;
mod process;
mod race;
mod report;
mod run;
mod worker;
mod workers;

pub(crate) use self::args::ROUNDS;
pub(crate) use self::args::SweepArgs;
pub(crate) use self::run::sweep;
pub(crate) use self::worker::work;
