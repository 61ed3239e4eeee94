//! `anydnn bench`.

mod case;
mod data;
mod graphs;
mod measure;
pub(crate) mod notation;
mod ours;
mod peers;
mod report;
mod spec;

use anydnn::backend::{DeviceKind, Engine};
use anydnn::select::{Selection, Selector};

use self::case::Case;
use self::measure::{Measured, measure};
pub(crate) use self::notation::FORMS;
use self::peers::Peer;
pub(crate) use self::peers::{PeerKind, serve};
use self::report::Report;
use crate::Outcome;
use crate::args::BenchArgs;
use crate::failure::{Code, Failure};
use crate::output::{Style, print, progress};

/// A case with what was measured.
type Row = (Case, Measured);

/// Measures cases, alone or beside peers, and reports.
pub(crate) fn bench(args: &BenchArgs) -> Outcome {
    let cases = args.cases.iter().map(|text| Case::new(text)).collect::<Result<Vec<_>, _>>()?;
    if cases.is_empty() {
        return Err(Failure::new(Code::Input, "bench: expected at least one case", FORMS));
    }
    let selection = select(args)?;
    let gpu = selection.engine.device().kind == DeviceKind::Gpu;
    let mut peers =
        args.peers.iter().map(|&kind| Peer::start(kind, gpu, args.threads)).collect::<Result<Vec<_>, _>>()?;
    let bar = progress("measuring", cases.len() as u64);
    let mut rows: Vec<Row> = Vec::new();
    for case in cases {
        let measured = measure(&selection.engine, &case, &mut peers, args)?;
        rows.push((case, measured));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = Report { args, selection: &selection, peers: &peers, rows: &rows };
    print(&report.text(Style::new(args.no_color)))?;
    report.wrong().map_or(Ok(()), |message| {
        let help = "compare with another --backend and with `anydnn run --check`, and report it";
        Err(Failure::new(Code::Check, message, help))
    })
}

fn select(args: &BenchArgs) -> Result<Selection, Failure> {
    let selector = match &args.backend {
        Some(backend) => Selector::parse(backend).map_err(|error| error.at("--backend"))?,
        None => Selector::from_env()?,
    };
    Ok(selector.select()?)
}
