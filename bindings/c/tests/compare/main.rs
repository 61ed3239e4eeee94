//! The same C calls on this library and on oneDNN's own, over random descriptors, layouts, types and attributes of each primitive.
//!
//! `ANYDNN_COMPARE` is the number of cases of each primitive, `ANYDNN_COMPARE_SEED` where they begin, `ANYDNN_COMPARE_ONLY` one primitive,
//! `ANYDNN_COMPARE_CASE` one case in words, as failures print it; `ANYDNN_COMPARE_ON` one platform, or `host`. `ANYDNN_SAMPLE` lets the
//! platforms take turns.
#![allow(clippy::unwrap_used, reason = "this is a test")]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod exceptions;
mod judge;
mod library;
mod more_cases;
mod narrow;
mod random;
mod recurrent;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anydnn_backend::conformance::Sample;

use cases::PRIMITIVES;
use judge::{Verdict, judge};
use library::{Answer, Side};
use more_cases::MORE;
use random::{Random, Words};

#[test]
fn primitives_compute_as_in_onednn() {
    let (Some(include), Some(onednn)) =
        (common::include(), common::required("ANYDNN_ONEDNN_LIBRARY", "oneDNN's own library"))
    else {
        return;
    };
    let program = compile(&include);
    let theirs = Side {
        program: program.clone(),
        folder: library::folder(&onednn),
        library: onednn,
        engine: vec!["cpu".to_owned()],
        is_ours: false,
    };
    let cases = drawn();
    let expected = theirs.ask(&cases);
    let wider = widened(&theirs, &cases, &expected);
    let mut failures = Vec::new();
    let sample = Sample::from_env();
    for (number, (platform, engine)) in platforms().into_iter().enumerate() {
        // Platforms take turns where the cases of a sample are asked for.
        let (at, mine): (Vec<usize>, Vec<Words>) =
            cases.iter().cloned().enumerate().filter(|(i, _)| sample.takes(*i, number)).unzip();
        let ours = Side {
            program: program.clone(),
            library: common::library().join("libdnnl.so.3"),
            engine,
            folder: None,
            is_ours: true,
        };
        let mut counts: BTreeMap<&str, [usize; 6]> = BTreeMap::new();
        let mut missing: BTreeMap<String, usize> = BTreeMap::new();
        let answers = ours.ask(&mine);
        let asked = at.iter().zip(mine.iter().zip(&answers));
        let verdicts: Vec<Verdict> =
            asked.map(|(&i, (case, answer))| judge(case, answer, &expected[i], wider[i].as_ref())).collect();
        for (case, verdict) in mine.iter().zip(resolved(&theirs, &mine, &answers, verdicts)) {
            let column = match verdict {
                Verdict::Equal => 0,
                Verdict::BothRefuse => 1,
                Verdict::More => 2,
                Verdict::Missing(why) => {
                    *missing.entry(format!("{}: {why}", case.primitive())).or_default() += 1;
                    3
                }
                Verdict::Different(_) if exceptions::known(case).is_some() => {
                    let why = exceptions::known(case).unwrap_or_default();
                    *missing.entry(format!("{}: {why}", case.primitive())).or_default() += 1;
                    3
                }
                Verdict::Contradiction => {
                    println!("oneDNN contradicts itself: {case}");
                    4
                }
                Verdict::Different(how) => {
                    failures.push(format!("{platform}: {case}\n    {how}"));
                    5
                }
            };
            counts.entry(case.primitive()).or_default()[column] += 1;
        }
        let heads = ["equal", "refuse", "more", "lack", "itself", "differ"];
        println!("{platform:25}{}", heads.map(|head| format!(" {head:>6}")).concat());
        for (primitive, counts) in counts {
            println!("{primitive:25}{}", counts.map(|count| format!(" {count:6}")).concat());
        }
        for (what, count) in missing {
            println!("    lacks {count} of {what}");
        }
    }
    std::fs::remove_file(program).unwrap();
    let count = failures.len();
    assert!(failures.is_empty(), "{count} of {} cases differ:\n{}", cases.len(), failures.join("\n"));
}

/// The cases of this run.
fn drawn() -> Vec<Words> {
    if let Ok(case) = std::env::var("ANYDNN_COMPARE_CASE") {
        return vec![Words::parse(&case)];
    }
    let number = |name: &str, absent: u64| std::env::var(name).map_or(absent, |text| text.parse().unwrap());
    let (count, seed) = (number("ANYDNN_COMPARE", 8), number("ANYDNN_COMPARE_SEED", 1));
    let only = std::env::var("ANYDNN_COMPARE_ONLY").ok();
    let all = PRIMITIVES.iter().chain(&MORE);
    let wanted = all.filter(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let all = wanted.flat_map(|(_, draw)| {
        (seed..seed + count).map(move |seed| {
            let mut case = draw(&mut Random(seed.wrapping_mul(0x1234_5678_9abc_def1)));
            case.set("seed", seed);
            case
        })
    });
    all.collect()
}

/// What oneDNN makes of cases in f32 that it does not take in half floats.
fn widened(side: &Side, cases: &[Words], answers: &[Answer]) -> Vec<Option<Answer>> {
    let wider = |(case, answer): (&Words, &Answer)| match answer {
        Answer::Results(_) => None,
        _ => case.widened(),
    };
    let wider: Vec<Option<Words>> = cases.iter().zip(answers).map(wider).collect();
    let asked: Vec<Words> = wider.iter().flatten().cloned().collect();
    let mut answers = side.ask(&asked).into_iter();
    wider.iter().map(|case| case.as_ref().and_then(|_| answers.next())).collect()
}

/// Asks oneDNN the cases that differ once more, [plain](Words::plain): where it gives what this library gives, its first answer contradicts
/// the second, as the numbers are the same.
fn resolved(side: &Side, cases: &[Words], answers: &[Answer], mut verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let differs = |i: &usize| matches!(verdicts[*i], Verdict::Different(_));
    let disputed: Vec<(usize, Words)> =
        (0..cases.len()).filter(differs).filter_map(|i| Some((i, cases[i].plain()?))).collect();
    let plain: Vec<Words> = disputed.iter().map(|(_, case)| case.clone()).collect();
    for ((i, _), answer) in disputed.into_iter().zip(side.ask(&plain)) {
        let (Answer::Results(own), Answer::Results(mut other)) = (&answers[i], answer) else { continue };
        // Gradients of what was left out are none that this library was asked for.
        other.retain(|output| own.iter().any(|own| own.name == output.name));
        if judge(&cases[i], &answers[i], &Answer::Results(other), None) == Verdict::Equal {
            verdicts[i] = Verdict::Contradiction;
        }
    }
    verdicts
}

/// What to run on: the platforms of OpenCL by their short names and the words that find them, and the host.
fn platforms() -> Vec<(String, Vec<String>)> {
    let engines = anydnn_opencl::testing::test_engines();
    let known = [("pocl", "Portable"), ("intel", "Intel"), ("nvidia", "NVIDIA")];
    let found = engines.iter().filter_map(|engine| {
        let alias = engine.opencl_device().alias();
        let word = known.iter().find(|(name, _)| *name == alias)?.1;
        Some((alias, vec!["gpu".to_owned(), word.to_owned()]))
    });
    let mut all: Vec<_> = found.collect();
    all.dedup();
    all.push(("host".to_owned(), vec!["cpu".to_owned()]));
    let only = std::env::var("ANYDNN_COMPARE_ON").ok();
    all.retain(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    all
}

fn compile(include: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compare");
    let program = common::scratch("programs").join(format!("compare.{}", std::process::id()));
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
    common::run(
        Command::new(compiler)
            .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"])
            .args(["-DCL_TARGET_OPENCL_VERSION=300", "-isystem"])
            .arg(include)
            .arg(folder.join("compare.cpp"))
            .arg("-o")
            .arg(&program)
            .arg("-ldl"),
    );
    program
}
