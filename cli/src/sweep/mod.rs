//! `anydnn sweep`: random cases of every primitive, each in a process whose end is survived.

mod answer;
mod cases;
mod process;
mod race;
mod report;
mod run;
mod worker;
mod workers;

pub(crate) use self::cases::seed;
pub(crate) use self::run::sweep;
pub(crate) use self::worker::work;
