//! What the program writes to standard output as an animated SVG: each line appears when it was written, coloured as on a terminal.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anydnn::backend::Error;

/// Sizes of characters, in pixels.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
/// Around the text.
const MARGIN: f64 = 16.0;
/// The time that typing a character takes.
const TYPING: f64 = 0.04;

/// What was written so far, piece by piece.
static PIECES: Mutex<Option<Recording>> = Mutex::new(None);

#[derive(Debug)]
struct Recording {
    start: Instant,
    pieces: Vec<(Duration, String)>,
}

/// Begins to record.
pub(crate) fn begin() {
    set(Some(Recording { start: Instant::now(), pieces: Vec::new() }));
}

/// Whether anything is recorded, for which text is coloured as on a terminal.
pub(crate) fn is_on() -> bool {
    PIECES.lock().is_ok_and(|pieces| pieces.is_some())
}

/// Keeps what is written.
pub(crate) fn keep(text: &str) {
    if let Ok(mut recording) = PIECES.lock()
        && let Some(recording) = &mut *recording
    {
        let after = recording.start.elapsed();
        recording.pieces.push((after, text.to_owned()));
    }
}

/// Ends the recording and writes it, below the command that made it.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn end(file: &Path, command: &str) -> Result<(), Error> {
    let Some(recording) = set(None) else { return Ok(()) };
    fs::write(file, svg(command, &recording.pieces)).map_err(|error| Error::io(file.display(), error))
}

fn set(recording: Option<Recording>) -> Option<Recording> {
    let mut pieces = PIECES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::mem::replace(&mut *pieces, recording)
}

/// The picture of a command and what it wrote after so long.
fn svg(command: &str, pieces: &[(Duration, String)]) -> String {
    let typed = command.chars().count() as f64 * TYPING;
    let mut lines = vec![(0.0, format!("\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m"))];
    let mut goes_on = false;
    for (after, text) in pieces {
        for part in text.split_inclusive('\n') {
            match lines.last_mut().filter(|_| goes_on) {
                Some((_, line)) => line.push_str(part.trim_end_matches('\n')),
                None => lines.push((typed + after.as_secs_f64(), part.trim_end_matches('\n').to_owned())),
            }
            goes_on = !part.ends_with('\n');
        }
    }
    let columns =
        lines.iter().map(|(_, line)| spans(line).iter().map(|(_, text)| text.chars().count()).sum());
    let columns: usize = columns.max().unwrap_or(0);
    let (width, height) = (columns as f64 * WIDTH + 2.0 * MARGIN, lines.len() as f64 * HEIGHT + 2.0 * MARGIN);
    let mut made = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\">\n\
         <style>\n\
         text {{ font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre; \
         animation: appear 0.01s both; }}\n\
         @keyframes appear {{ from {{ opacity: 0; }} }}\n\
         .b {{ font-weight: bold; }} .d {{ fill: #7f8896; }} .r {{ fill: #e06c75; }} .g {{ fill: #98c379; }}\n\
         @media (prefers-reduced-motion) {{ text {{ animation: none; }} }}\n\
         </style>\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e222a\"/>\n",
        escaped(command)
    );
    for (row, (after, line)) in lines.iter().enumerate() {
        let y = MARGIN + (row as f64 + 0.75) * HEIGHT;
        let _ = write!(made, "<text x=\"{MARGIN}\" y=\"{y:.1}\" style=\"animation-delay: {after:.2}s\">");
        for (class, text) in spans(line) {
            let text = escaped(&text);
            let _ = match class {
                "" => write!(made, "{text}"),
                class => write!(made, "<tspan class=\"{class}\">{text}</tspan>"),
            };
        }
        made.push_str("</text>\n");
    }
    made.push_str("</svg>\n");
    made
}

/// The parts of a line with the class of each.
fn spans(line: &str) -> Vec<(&'static str, String)> {
    let mut spans = Vec::new();
    for (at, part) in line.split("\x1b[").enumerate() {
        let (class, text) = match part.split_once('m').filter(|_| at > 0) {
            None => ("", part),
            Some(("1", text)) => ("b", text),
            Some(("2", text)) => ("d", text),
            Some(("31", text)) => ("r", text),
            Some(("32", text)) => ("g", text),
            Some((_, text)) => ("", text),
        };
        if !text.is_empty() {
            spans.push((class, text.to_owned()));
        }
    }
    spans
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_appear_when_they_were_written_in_their_colours() {
        let pieces = [
            (Duration::from_millis(500), "\x1b[1mhead\x1b[0m\na < b".to_owned()),
            (Duration::from_millis(900), " & c\n\x1b[32mright\x1b[0m\n".to_owned()),
        ];
        let made = svg("anydnn", &pieces);
        let lines: Vec<&str> = made.lines().filter(|line| line.starts_with("<text")).collect();
        assert_eq!(lines.len(), 4);
        // Typing takes a fourth of a second.
        for (line, delay, text) in [
            (lines[0], "0.00s", "<tspan class=\"g\">$</tspan> <tspan class=\"b\">anydnn</tspan>"),
            (lines[1], "0.74s", "<tspan class=\"b\">head</tspan>"),
            (lines[2], "0.74s", "a &lt; b &amp; c"),
            (lines[3], "1.14s", "<tspan class=\"g\">right</tspan>"),
        ] {
            assert!(line.contains(&format!("animation-delay: {delay}")), "{line}");
            assert!(line.ends_with(&format!(">{text}</text>")), "{line}");
        }
    }
}
