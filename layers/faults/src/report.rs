//! The environment at the start and the report at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use anydnn_layer::{Target, at_exit, end_process, exit_status, variable};

use crate::code::code_name;
use crate::fault::Fault;
use crate::state::{self, State};
use crate::table::Function;

/// What the environment asks for.
#[derive(Debug)]
struct Settings {
    report: Option<Target>,
    /// The status to end with when there were leaks or violations.
    exit: Option<i32>,
}

/// Set when a loader uses this copy of the library as a layer.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Reads the environment.
pub(crate) fn configure() -> Result<(), String> {
    let switch = |name: &str, on: &str, off: &str| match variable(name).as_deref() {
        None => Ok(None),
        Some(value) if value == on => Ok(Some(true)),
        Some(value) if value == off => Ok(Some(false)),
        Some(value) => Err(format!("{name} is {value:?}, expected {on} or {off}")),
    };
    let faults = Fault::parse_all(&variable("ANYDNN_FAULTS").unwrap_or_default())
        .map_err(|error| format!("ANYDNN_FAULTS: {error}"))?;
    let exit = exit_status("ANYDNN_FAULTS_EXIT")?;
    let settings = Settings { report: Target::from_variable("ANYDNN_FAULTS_REPORT"), exit };
    let refuse = switch("ANYDNN_FAULTS_INVALID", "refuse", "pass")?;
    let perform = switch("ANYDNN_FAULTS_RELEASES", "perform", "keep")?;
    let mut state = state::lock();
    state.refuse = refuse.unwrap_or(state.refuse);
    state.perform_releases = perform.unwrap_or(state.perform_releases);
    for fault in faults {
        state.faults.arm(fault);
    }
    drop(state);
    SETTINGS.set(settings).map_err(|_| "the layer is set up already".to_owned())
}

/// Everything the layer has seen, in words.
pub(crate) fn text(state: &State) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_report(&mut text, state);
    text
}

fn write_report(out: &mut String, state: &State) -> std::fmt::Result {
    let called = || Function::all().filter(|function| state.counts[*function as usize] > 0);
    let total: u64 = state.counts.iter().sum();
    writeln!(out, "anydnn-faults: calls: {total}, functions: {}", called().count())?;
    for function in called() {
        writeln!(out, "  {} {}", function.name(), state.counts[function as usize])?;
    }
    writeln!(out, "anydnn-faults: faults injected: {}", state.injected.len())?;
    for fault in &state.injected {
        let (name, code) = (fault.function.name(), fault.code);
        writeln!(out, "  {name} call {}: {code} ({})", fault.call, code_name(code).unwrap_or("unknown"))?;
    }
    let live = state.ledger.live();
    writeln!(out, "anydnn-faults: leaks: {}", live.len())?;
    let mut groups = BTreeMap::<_, (u64, u64)>::new();
    for (key, object) in &live {
        let (objects, references) = groups.entry((key.kind, object.creator.name())).or_default();
        *objects += 1;
        *references += object.references;
    }
    for ((kind, creator), (objects, references)) in groups {
        writeln!(out, "  {kind} by {creator}: {objects}, references: {references}")?;
    }
    writeln!(out, "anydnn-faults: violations: {}", state.violations.len())?;
    for violation in &state.violations {
        let wrong = violation.wrong.c_name().trim_end_matches('\0');
        let (name, creator) = (violation.function.name(), violation.creator.name());
        let (kind, handle) = (violation.kind, violation.handle);
        writeln!(out, "  {name}: {wrong}: {kind} {handle:#x} by {creator}")?;
    }
    Ok(())
}

/// Reports and ends the process with another status if that was asked for.
extern "C" fn at_exit() {
    let Some(settings) = SETTINGS.get() else { return };
    let state = state::lock();
    let text = text(&state);
    let failed = !state.ledger.live().is_empty() || !state.violations.is_empty();
    drop(state);
    if let Some(target) = &settings.report {
        target.write("anydnn-faults", &text);
    }
    if let Some(status) = settings.exit.filter(|_| failed) {
        end_process(status);
    }
}

at_exit!(at_exit);
