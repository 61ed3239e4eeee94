//! The table of operations and types in `docs/reference/operations.md`.

use std::fmt::Write;
use std::path::Path;

use anydnn::graph::OpKind;

use super::checks::{Check, How};
use super::engines::{Outcome, Runs};
use super::exceptions::{Exception, NOT_TAKEN, OTHERWISE};
use super::expected::ENDS;
use super::trials::{Role, Trial};
use super::{EMPTY, TYPES};

/// The engines that the table tells of.
const ENGINES: [&str; 3] = ["host", "pocl", "intel"];

/// Writes the table where that is asked for, and else fails when it is out of date. What a device did not run stays as it was written.
pub fn check(trials: &[Trial], checks: &[Check], runs: &[Runs]) {
    let of = |name: &&str| runs.iter().find(|run| run.name == *name);
    let Some(engines) = ENGINES.iter().map(of).collect::<Option<Vec<_>>>() else {
        eprintln!("NOT TESTED: without {ENGINES:?} the table of operations is not compared");
        return;
    };
    let ended =
        trials.iter().zip(checks).filter(|(trial, check)| trial.in_table && check.why == ENDS).count();
    if ended > 0 {
        eprintln!(
            "NOT TESTED: oneDNN lacks {ended} types of operations on this processor, which the table says that it has"
        );
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/operations.md");
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let made = write(trials, checks, &engines, &there);
    if std::env::var_os("ANYDNN_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    assert!(
        there == made,
        "docs/reference/operations.md is stale: ANYDNN_BLESS=1 ANYDNN_ORACLE=all cargo test --all-features --test oracle"
    );
}

fn write(trials: &[Trial], checks: &[Check], engines: &[&Runs], known: &str) -> String {
    let mut text = head(trials, checks);
    let names: Vec<_> = TYPES.iter().map(|t| t.name()).collect();
    writeln!(text, "| operation | cases | {} |", names.join(" | ")).unwrap();
    writeln!(text, "|---|--:|{}", ":-:|".repeat(TYPES.len())).unwrap();
    let mut kinds: Vec<_> = OpKind::ALL.to_vec();
    kinds.sort_by_key(|kind| kind.name());
    for kind in kinds {
        if EMPTY.contains(&kind) {
            writeln!(text, "| {kind} | 0 |{}", " |".repeat(TYPES.len())).unwrap();
            continue;
        }
        let ran = |t: &&Trial| t.kind() == kind && t.role != Role::Typed;
        let count = trials.iter().filter(ran).count();
        let start = format!("| {kind} | ");
        let known = known.lines().find(|line| line.starts_with(&start));
        let cells: Vec<_> = TYPES
            .into_iter()
            .enumerate()
            .map(|(column, data_type)| {
                let at = |data_type| {
                    trials
                        .iter()
                        .position(|t| t.in_table && t.kind() == kind && t.data_type == data_type)
                        .unwrap()
                };
                let main =
                    trials.iter().position(|t| t.in_table && t.kind() == kind && t.role == Role::Chosen);
                let known = known.and_then(|line| line.split('|').nth(column + 3)).map_or("?", str::trim);
                cell(&checks[at(data_type)], engines, [at(data_type), main.unwrap()], known)
            })
            .collect();
        writeln!(text, "| {kind} | {count} | {} |", cells.join(" | ")).unwrap();
    }
    list(&mut text, "Not taken by oneDNN", NOT_TAKEN);
    list(&mut text, "Computed otherwise by oneDNN", OTHERWISE);
    text
}

/// The letter of a type, for each engine where they differ. Where a device did not run the case, the known cell tells whether it does.
fn cell(check: &Check, engines: &[&Runs], [at, main]: [usize; 2], known: &str) -> String {
    let letter = match check.how {
        How::Oracle => "o",
        How::Wider => "w",
        How::Reference => "r",
    };
    let of = |(i, run): (usize, &&Runs)| match (&run.outcomes[at], &run.outcomes[main]) {
        (Outcome::Right(launches), Outcome::Right(fewest)) if launches > fewest => format!("{letter}+"),
        (Outcome::Right(_), Outcome::Right(_)) => letter.to_owned(),
        (Outcome::NotRun, _) => match known.split('/').nth(i).unwrap_or(known) {
            known @ ("-" | "?") => known.to_owned(),
            known => format!("{letter}{}", if known.ends_with('+') { "+" } else { "" }),
        },
        _ => "-".to_owned(),
    };
    let letters: Vec<_> = engines.iter().enumerate().map(of).collect();
    if letters.iter().all(|letter| *letter == letters[0]) { letters[0].clone() } else { letters.join("/") }
}

fn list(text: &mut String, title: &str, exceptions: &[Exception]) {
    write!(text, "\n## {title}\n\n").unwrap();
    if exceptions.is_empty() {
        text.push_str("Nothing.\n");
    }
    for exception in exceptions {
        writeln!(text, "- {}: {}.", exception.what, exception.why).unwrap();
    }
}

fn head(trials: &[Trial], checks: &[Check]) -> String {
    let of = |how| {
        let told = trials.iter().zip(checks).filter(|(t, c)| t.role != Role::Typed && c.how == how);
        told.count()
    };
    format!(
        "# Operations\n\n\
         Every operation of the graph API in every data type, on the host, on PoCL and on Intel's OpenCL runtime. Written by the test\n\
         `every_operation_computes_as_in_onednn` from what it computes (`ANYDNN_BLESS=1 ANYDNN_ORACLE=all cargo test --all-features --test\n\
         oracle` writes it anew).\n\n\
         | | checked against |\n|---|---|\n\
         | `o` | oneDNN's own CPU library in the same type, and a reference in f64 |\n\
         | `w` | that library on the same values in a wider type, because it refuses this one, and a reference in f64 |\n\
         | `r` | a reference in f64: plain loops over the operation's shapes and attributes |\n\
         | `-` | refused |\n\n\
         A `+` means more launches than in the operation's usual type. Where engines differ a cell has a letter for each: host, PoCL, Intel.\n\
         The type is that of the operation's values, its first operand for quantised ones; masks, scales, statistics and affine vectors\n\
         keep theirs. Values are stored in their type, and widened where they are read.\n\n\
         The column *cases* counts those with chosen shapes and attributes and those whose shapes, types and attributes follow from a\n\
         seed. The host computes all of them, OpenCL devices some of each operation. Of these cases, {} are checked against oneDNN in their own type, {} in a wider one, and {} against the reference alone.\n\n",
        of(How::Oracle),
        of(How::Wider),
        of(How::Reference)
    )
}
