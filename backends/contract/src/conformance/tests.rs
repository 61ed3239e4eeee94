//! The suite on a small backend that is right, and on the same one with defects that the suite must find.

mod naive;

use naive::{Defect, Naive, NaiveEngine};

use super::{Lacking, Level, Outcome, Report, Sample, Suite, cases};
use crate::DataType;

fn suite(defect: Option<Defect>) -> Suite<Naive> {
    Suite::new(&NaiveEngine::new(defect)).with_second_engine(&NaiveEngine::new(None))
}

#[test]
fn a_correct_backend_passes() {
    let report = suite(None).run();
    report.assert_passed();
    // What it lacks is named, and nothing else is left out.
    let lacks_allowed = |lacking: &Lacking| {
        matches!(lacking, Lacking::MemoryKind(_) | Lacking::Profiling | Lacking::OutOfOrder)
    };
    assert!(report.unsupported().iter().all(|(_, lacking)| lacks_allowed(lacking)), "{report}");
    assert!(report.passed() > 300, "{report}");
}

#[test]
fn the_sweeps_pass_too() {
    Suite::<Naive>::new(&NaiveEngine::new(None))
        .with_level(Level::Thorough)
        .with_filter("sweep/")
        .with_sample(Sample::from_env())
        .run()
        .assert_passed();
}

#[test]
fn names_are_unique_and_the_standard_level_is_a_part_of_the_thorough_one() {
    let names =
        |level| -> Vec<String> { cases::<Naive>(level).iter().map(|case| case.name().to_owned()).collect() };
    let (standard, thorough) = (names(Level::Standard), names(Level::Thorough));
    for list in [&standard, &thorough] {
        let mut sorted = list.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), list.len(), "{list:?}");
    }
    assert!(standard.iter().all(|name| thorough.contains(name)));
    // A device that compiles for every primitive takes a tenth of a second and more for each.
    let groups =
        |name: &str| !["engine/", "memory/", "streams/", "errors/"].iter().any(|g| name.starts_with(g));
    let primitives = standard.iter().filter(|name| groups(name)).count();
    assert!((330..=700).contains(&primitives), "{primitives} primitives: {standard:#?}");
}

/// The failed cases of a backend with a defect.
#[track_caller]
fn finds(defect: Defect, filter: &str, at_least: &[&str]) {
    let report = suite(Some(defect)).with_filter(filter).run();
    let failed = report.failed();
    for name in at_least {
        assert!(
            failed.iter().any(|(case, _)| case == name),
            "{defect:?} went unnoticed by {name}:\n{report}"
        );
    }
}

#[test]
fn wrong_values_are_found() {
    finds(Defect::OffByATenThousandth, "matmul/", &["matmul/shape/primes", "matmul/open/f32/weights"]);
    finds(
        Defect::NanBecomesZero,
        "",
        &["eltwise/f32/relu", "binary/f32/maximum", "post_ops/nan_passes_through"],
    );
}

#[test]
fn stray_writes_are_found() {
    finds(Defect::FillsGaps, "layout", &["eltwise/layout/gaps", "reorder/layout/gaps_and_offsets"]);
    finds(Defect::LeavesPadding, "block", &["eltwise/layout/plain_to_blocked", "concat/blocked"]);
    finds(Defect::WritesPastTheEnd, "softmax/", &["softmax/last"]);
}

#[test]
fn disorder_is_found() {
    finds(Defect::IgnoresViews, "memory/", &["memory/views"]);
    finds(Defect::ForgetsMapping, "memory/", &["memory/kind/host"]);
    finds(
        Defect::SkipsSecondCommand,
        "streams/",
        &["streams/in_order", "streams/diamond", "streams/threads"],
    );
    finds(
        Defect::NoValidation,
        "errors/",
        &["errors/missing_argument", "errors/aliasing", "errors/too_small"],
    );
    finds(Defect::NeverCountsBack, "engine/", &["engine/allocator_counts"]);
    finds(Defect::Panics, "reduction/", &["reduction/shape/scalar"]);
}

#[test]
fn a_backend_must_support_what_is_required() {
    let report = suite(Some(Defect::NoHalf)).with_filter("matmul/f16").run();
    assert!(!report.is_success(), "{report}");
    let text = report.to_string();
    assert!(text.contains("required: f16 is not a storage type"), "{text}");
    let report: Report = suite(Some(Defect::NoHalf)).with_filter("matmul/shape").run();
    report.assert_passed();
    let report = suite(None).with_filter("memory/kind/svm").run();
    assert!(report.is_success() && !report.require(Lacking::MemoryKind(crate::MemoryKind::Svm)).is_success());
}

#[test]
fn a_refusal_without_reason_is_a_failure() {
    // The capabilities list f16, so that the primitive may not be refused.
    let report = suite(Some(Defect::RefusesHalf)).with_filter("eltwise/f16/abs").run();
    assert_eq!(report.failed().len(), 1, "{report}");
    let engine = NaiveEngine::new(Some(Defect::NoHalf));
    let lacking = Outcome::Unsupported(Lacking::DataType(DataType::F16));
    let report = Suite::<Naive>::new(&engine).with_filter("eltwise/f16/abs").run();
    assert_eq!(report.entries()[0].result, Ok(lacking));
}
