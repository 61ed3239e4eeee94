//! The report at the end.

use std::fmt::Write as _;

use anydnn_layer::{at_exit, end_process};

use crate::allocation::Kind;
use crate::settings::{Mode, settings};
use crate::state::{self, State};

at_exit!(report);

/// Checks what is left, reports, and ends the process with another status if that was asked for.
extern "C" fn report() {
    let Some(settings) = settings().filter(|settings| settings.mode != Mode::Off) else { return };
    let mut state = state::lock();
    let numbers: Vec<_> = state.allocations.keys().copied().collect();
    for number in numbers {
        // Drivers may be gone by now, so that canaries in their memory cannot be read.
        state.check_pages(number);
    }
    let text = text(&mut state);
    let failed = !state.violations.is_empty();
    drop(state);
    if let Some(target) = &settings.report {
        target.write("anydnn-fence", &text);
    }
    if let Some(status) = settings.exit.filter(|_| failed) {
        end_process(status);
    }
}

/// Everything that the layer has seen, in words.
fn text(state: &mut State) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_report(&mut text, state);
    text
}

fn write_report(out: &mut String, state: &mut State) -> std::fmt::Result {
    let tally = &state.tally;
    let total: u64 = tally.fenced.values().map(|(pages, canaries)| pages + canaries).sum();
    writeln!(out, "anydnn-fence: allocations fenced: {total}")?;
    for kind in Kind::ALL {
        let (pages, canaries) = tally.fenced.get(&kind).copied().unwrap_or_default();
        for (count, way) in [(pages, "by pages"), (canaries, "by canaries")] {
            if count > 0 {
                writeln!(out, "  {}, {way}: {count}", kind.name())?;
            }
        }
    }
    for note in &tally.notes {
        writeln!(out, "  canaries on {note}")?;
    }
    for (count, what) in [
        (tally.host_memory, "buffers over memory of the program's own, not fenced"),
        (tally.no_room, "allocations without room for a fence"),
        (tally.filled_in_part, "allocations filled at both ends only"),
        (tally.unchecked, "allocations released before they could be checked"),
    ] {
        if count > 0 {
            writeln!(out, "  {what}: {count}")?;
        }
    }
    writeln!(out, "anydnn-fence: violations: {}", state.violations.len())?;
    for violation in &state.violations {
        writeln!(out, "  {violation}")?;
    }
    Ok(())
}
