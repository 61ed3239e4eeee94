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
         text {{ font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre; }}\n\
         g {{ animation: appear 0.01s both; }}\n\
         @keyframes appear {{ from {{ opacity: 0; }} }}\n\
         .b {{ font-weight: bold; }} .d {{ fill: #7f8896; }} .r {{ fill: #e06c75; }} .g {{ fill: #98c379; }}\n\
         @media (prefers-reduced-motion) {{ g {{ animation: none; }} }}\n\
         </style>\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e222a\"/>\n",
        escaped(command)
    );
    for (row, (after, line)) in lines.iter().enumerate() {
        let top = MARGIN + row as f64 * HEIGHT;
        let _ = write!(made, "<g style=\"animation-delay: {after:.2}s\">");
        let mut column = 0;
        for (look, text) in spans(line) {
            let x = MARGIN + column as f64 * WIDTH;
            column += text.chars().count();
            let y = top + 0.75 * HEIGHT;
            let text = escaped(&text);
            let _ = match look {
                Look::Class("") => write!(made, "<text x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"),
                Look::Class(class) => {
                    write!(made, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>")
                }
                // Half a block: a pixel above another one.
                Look::Pixels(pixels) => {
                    pixels.iter().zip([top, top + HEIGHT / 2.0]).try_for_each(|(grey, y)| {
                        let (width, height) = (WIDTH + 0.2, HEIGHT / 2.0 + 0.2);
                        write!(
                            made,
                            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" \
                         fill=\"#{grey:02x}{grey:02x}{grey:02x}\"/>"
                        )
                    })
                }
            };
        }
        made.push_str("</g>\n");
    }
    made.push_str("</svg>\n");
    made
}

/// How a part of a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Class(&'static str),
    /// The shades of grey of the upper and of the lower half, from 0 to 255.
    Pixels([u8; 2]),
}

/// The parts of a line with the look of each.
fn spans(line: &str) -> Vec<(Look, String)> {
    let mut spans = Vec::new();
    for (at, part) in line.split("\x1b[").enumerate() {
        let (look, text) = match part.split_once('m').filter(|_| at > 0) {
            None => (Look::Class(""), part),
            Some(("1", text)) => (Look::Class("b"), text),
            Some(("2", text)) => (Look::Class("d"), text),
            Some(("31", text)) => (Look::Class("r"), text),
            Some(("32", text)) => (Look::Class("g"), text),
            Some((codes, text)) => (pixels(codes).map_or(Look::Class(""), Look::Pixels), text),
        };
        if !text.is_empty() {
            spans.push((look, text.to_owned()));
        }
    }
    spans
}

/// Shades of grey of the palette of 256 colours, `38;5;A;48;5;B`.
fn pixels(codes: &str) -> Option<[u8; 2]> {
    let (upper, lower) = codes.strip_prefix("38;5;")?.split_once(";48;5;")?;
    let grey = |code: &str| {
        let step = code.parse::<u8>().ok()?.checked_sub(232)?;
        Some(8 + 10 * step)
    };
    Some([grey(upper)?, grey(lower)?])
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
            (
                Duration::from_millis(900),
                " & c\n\x1b[32mright\x1b[0m\x1b[38;5;232;48;5;255m\u{2580}\x1b[0m\n".to_owned(),
            ),
        ];
        let made = svg("anydnn", &pieces);
        let lines: Vec<&str> = made.lines().filter(|line| line.starts_with("<g style")).collect();
        assert_eq!(lines.len(), 4);
        // Typing takes a fourth of a second.
        for (line, delay, parts) in [
            (lines[0], "0.00s", &["class=\"g\">$</text>", "class=\"b\">anydnn</text>"][..]),
            (lines[1], "0.74s", &["class=\"b\">head</text>"]),
            (lines[2], "0.74s", &[">a &lt; b &amp; c</text>"]),
            (lines[3], "1.14s", &["class=\"g\">right</text>", "fill=\"#080808\"", "fill=\"#eeeeee\""]),
        ] {
            assert!(line.contains(&format!("animation-delay: {delay}")), "{line}");
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
    }
}
