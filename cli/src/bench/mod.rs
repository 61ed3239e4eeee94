//! `anydnn bench`.

mod args;
mod case;
mod ceilings;
mod data;
mod draw;
mod duel;
mod each;
mod graphs;
mod measure;
mod networks;
pub(crate) mod notation;
mod opponent;
mod ours;
mod patterns;
mod peers;
mod pool;
mod report;
mod spec;
mod suite;

use anydnn::backend::{DeviceKind, Engine, Error};
use anydnn::select::Selection;

pub(crate) use self::args::BenchArgs;
use self::case::Case;
use self::ceilings::Ceilings;
pub(crate) use self::draw::{FAMILIES as DRAWN, draw};
pub(crate) use self::duel::{Compared, Duel};
use self::measure::{Effort, Measured, SAMPLE, measure};
use self::notation::FORMS;
use self::opponent::{Opponent, Other};
pub(crate) use self::peers::{ModelFile, Peer, PeerKind, Prepared, serve};
use self::pool::Pool;
use self::report::Report;
use crate::backend::{select, specialize};
use crate::failure::Outcome;
use crate::failure::{Code, Failure};
use crate::output::{Style, print, progress};

/// A case with what was measured.
type Row = (Case, Measured);

/// Measures cases on the backend that is asked for, alone or beside peers, and reports.
pub(crate) fn bench(args: &BenchArgs) -> Outcome {
    let selection = select(args.backend.as_deref())?;
    if let Some(when) = args.specialize() {
        specialize(&selection.engine, when);
    }
    bench_on(args, &selection)
}

/// Measures cases on a backend.
pub(crate) fn bench_on(args: &BenchArgs, selection: &Selection) -> Outcome {
    let kind = selection.engine.device().kind;
    let suite = args.suite.map(|suite| suite.cases(kind)).unwrap_or_default();
    let texts = args.cases.iter().chain(&suite);
    let cases = texts.map(|text| Case::new(text, &args.dims)).collect::<Result<Vec<_>, _>>()?;
    if cases.is_empty() {
        return Err(Failure::new(Code::Input, "bench: expected a case or --suite", FORMS));
    }
    let gpu = kind == DeviceKind::Gpu;
    let mut peers: Vec<Box<dyn Opponent>> = Vec::new();
    for &kind in &args.peers {
        peers.push(Box::new(Peer::start(kind, &selection.chosen, gpu, args.threads)?));
    }
    for name in &args.beside {
        peers.push(Box::new(Other::start(name, args.specialize())?));
    }
    if args.unfused {
        peers.push(Box::new(Other::unfused(&selection.chosen, args.specialize())?));
    }
    if !args.pool.is_empty() {
        peers.push(Box::new(Pool::start(selection, &args.pool, args.specialize())?));
    }
    let ceilings = Ceilings::of(&selection.engine);
    let bar = progress("measuring", cases.len() as u64);
    let (rounds, sets) = (args.rounds, args.sets);
    let effort = Effort { rounds, sets, sample: SAMPLE, each: args.each, explain: args.explain };
    let mut rows: Vec<Row> = Vec::new();
    for case in cases {
        let measured = measure(&selection.engine, &case, &mut peers, &effort)?;
        rows.push((case, measured));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = Report { args, selection, ceilings, peers: &peers, rows: &rows };
    print(&report.text(Style::new(args.no_color)))?;
    if let Some(file) = &args.json {
        let write = std::fs::write(file, format!("{:#}\n", report.json()));
        write.map_err(|error| Error::io(file.display().to_string(), error))?;
    }
    report.wrong().map_or(Ok(()), |message| {
        let help = "compare with another --backend and with `anydnn run --check`, and report it";
        Err(Failure::new(Code::Check, message, help))
    })
}
