//! A library that has oneDNN's C functions, in a process of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::random::Words;

/// What a library makes of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Results(Vec<Output>),
    /// The status, with the call and the reason.
    Refused(String, String),
    /// The process ended, by what.
    Ended(String),
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) data_type: String,
    /// Whether padding holds anything but zeros.
    pub(crate) dirty: bool,
    /// Whether the values are those from before the execution.
    pub(crate) untouched: bool,
    pub(crate) values: Vec<f64>,
}

/// How the program is started for a library.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) program: PathBuf,
    pub(crate) library: PathBuf,
    /// `cpu`, or `gpu` and a word of the platform's name.
    pub(crate) engine: Vec<String>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) is_ours: bool,
}

impl Side {
    /// Runs all cases. A process that ends on one is followed by another for the rest.
    pub(crate) fn ask(&self, cases: &[Words]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(cases.len());
        while answers.len() < cases.len() {
            let (text, how) = self.run(&cases[answers.len()..]);
            let before = answers.len();
            let mut outputs = Vec::new();
            let mut begun = 0;
            for line in text.lines() {
                let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
                match word {
                    "case" => {
                        begun += 1;
                        outputs.clear();
                    }
                    "result" => outputs.push(output(rest)),
                    "end" => answers.push(ended(rest, std::mem::take(&mut outputs))),
                    // The library may print of its own.
                    _ => {}
                }
            }
            let (done, left) = (answers.len() - before, cases.len() - answers.len());
            // Time that ran out after some cases says nothing of the one that was next, nor does a process that leaves the rest to another.
            let leaves_rest = ["exit status: 124", "exit status: 0"].iter().any(|end| how.starts_with(end));
            // Threads of oneDNN's own runtime may end its process between two cases; nothing of ours may.
            let is_between = !self.is_ours && done > 0 && begun == done;
            if left > 0 && !(done > 0 && leaves_rest) && !is_between {
                assert!(begun == done + 1, "{}: {how}: {text}", self.library.display());
                answers.push(Answer::Ended(how));
            }
        }
        answers
    }

    fn run(&self, cases: &[Words]) -> (String, String) {
        let mut command = Command::new("timeout");
        command.arg("240").arg(&self.program).arg(&self.library).args(&self.engine);
        if let Some(folder) = &self.folder {
            command.env("LD_LIBRARY_PATH", folder);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let lines: Vec<String> = cases.iter().map(|case| case.to_string() + "\n").collect();
        let writer = std::thread::spawn(move || {
            // A process that has ended reads no more.
            let _ = stdin.write_all(lines.concat().as_bytes());
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.code() != Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        let stderr = String::from_utf8_lossy(&output.stderr);
        let why = format!("{} {}", output.status, stderr.lines().last().unwrap_or_default());
        (String::from_utf8_lossy(&output.stdout).into_owned(), why)
    }
}

/// The folder of a library's own libraries.
pub(crate) fn folder(library: &Path) -> Option<PathBuf> {
    library.parent().map(Path::to_owned)
}

fn ended(rest: &str, outputs: Vec<Output>) -> Answer {
    let (status, why) = rest.split_once(' ').unwrap_or((rest, ""));
    match status {
        "success" => Answer::Results(outputs),
        _ => Answer::Refused(status.to_owned(), why.trim().to_owned()),
    }
}

fn output(rest: &str) -> Output {
    let words: Vec<&str> = rest.split(' ').collect();
    let bits = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).unwrap());
    let numbers = words.get(3).copied().unwrap_or_default();
    Output {
        name: words[0].to_owned(),
        dirty: words[1] == "dirty",
        untouched: words[1] == "untouched",
        data_type: words[2].to_owned(),
        values: (0..numbers.len() / 16).map(|i| bits(&numbers[16 * i..16 * (i + 1)])).collect(),
    }
}
