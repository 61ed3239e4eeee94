//! Words to the terminal: colours, tables, progress.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anydnn::backend::Error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::recording;

/// Whether and how text is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) color: bool,
}

impl Style {
    /// Colours when standard output is a terminal and nobody objects.
    pub(crate) fn new(no_color: bool) -> Self {
        let objected = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { color: recording::is_on() || !objected && io::stdout().is_terminal() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Writes to standard output. A reader that closed the pipe has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    recording::keep(text);
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", error)),
        _ => Ok(()),
    }
}

/// Writes one JSON object to standard output.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Error> {
    print(&format!("{value:#}\n"))
}

/// A table with a head; columns of numbers are aligned to the right.
pub(crate) fn table(style: Style, head: &[&str], numbers: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            let _ = if numbers.contains(&column) {
                write!(line, "  {cell:>width$}")
            } else {
                write!(line, "  {cell:<width$}")
            };
        }
        line.trim_end().to_owned()
    };
    let mut text = style.bold(&line(head)) + "\n";
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        text += &line(&cells);
        text.push('\n');
    }
    text
}

/// A progress bar on standard error; hidden unless that is a terminal.
pub(crate) fn progress(what: &str, total: u64) -> ProgressBar {
    let target =
        if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg:>12} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar
}

/// A duration in a unit that suits it.
pub(crate) fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        m if m < 1e3 => format!("{m:.1} us"),
        m if m < 1e6 => format!("{:.2} ms", m / 1e3),
        m => format!("{:.2} s", m / 1e6),
    }
}

/// A number of bytes in a unit that suits it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_suit_the_size() {
        assert_eq!(time(Duration::from_nanos(1500)), "1.5 us");
        assert_eq!(time(Duration::from_millis(12)), "12.00 ms");
        assert_eq!(bytes(1000), "1000 bytes");
        assert_eq!(bytes(3 << 20), "3.0 MiB");
    }

    #[test]
    fn columns_align() {
        let rows = [vec!["a".into(), "10".into()], vec!["long".into(), "2".into()]];
        let text = table(Style { color: false }, &["name", "n"], &[1], &rows);
        assert_eq!(text, "  name   n\n  a     10\n  long   2\n");
    }
}
