//! Random cases measured beside a peer: the ratios of its time to ours.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anydnn::backend::DataType;
use anydnn_backend::conformance::random::{Choices, Limits};
use anydnn_backend::conformance::values::Random;
use indexmap::IndexMap;
use serde_json::Value;

use super::answer::{Answer, Ending};
use super::args::SweepArgs;
use super::workers::Workers;
use crate::bench::{DRAWN, draw};
use crate::failure::Outcome;
use crate::failure::{Code, Failure};
use crate::output::{Style, print, table};

/// A case with the peer's time over ours.
#[derive(Clone, Debug)]
struct Ratio {
    text: String,
    value: f64,
    /// Seconds.
    ours: f64,
    how: String,
}

/// Measures random cases, or those of `--replay`, beside the peer, and reports.
pub(super) fn race(args: &SweepArgs) -> Outcome {
    let style = Style::new(args.no_color);
    let families = families(args)?;
    let data_type = args.data_type.unwrap_or(DataType::F32);
    let mut workers = Workers::new(args)?;
    print(&format!("sweep of {}, seed {}\n", workers.device(), args.seed))?;
    let most = args.cases.unwrap_or(if args.seconds.is_some() { u64::MAX } else { 200 });
    let start = Instant::now();
    let mut results = Results::default();
    for number in 0..most {
        let over = args.seconds.is_some_and(|seconds| start.elapsed().as_secs() >= seconds);
        if over || (!args.replay.is_empty() && number as usize >= args.replay.len()) {
            break;
        }
        let family = families[(number % families.len() as u64) as usize];
        let (family, text) = if let Some(text) = args.replay.get(number as usize) {
            ("told", text.clone())
        } else {
            let seed = Random::new(args.seed).bits() ^ Random::new(number).bits();
            (family, draw(&mut Choices::random(seed, Limits::WIDE), family, data_type)?)
        };
        let answer = workers.ask(&text)?;
        if answer.ending.is_defect() {
            print(&format!("{}  {text}\n    {}\n", style.bad(answer.ending.name()), answer.why))?;
        }
        results.add(family, text, &answer);
    }
    results.late = workers.close();
    print(&results.text(style, args.worst))?;
    let seconds = start.elapsed().as_secs_f64();
    print(&format!("{} cases in {seconds:.0} s, seed {}\n", results.total(), args.seed))?;
    results.wrong().map_or(Ok(()), |message| {
        let help = "run one again with `anydnn bench CASE --peer PEER`";
        Err(Failure::new(Code::Check, message, help))
    })
}

fn families(args: &SweepArgs) -> Result<Vec<&'static str>, Failure> {
    let known = |name: &String| {
        DRAWN.into_iter().find(|family| family == name).ok_or_else(|| {
            let message = format!("--family {name}: expected one of {}", DRAWN.join(", "));
            Failure::new(Code::Input, message, "with --peer the families are those of the bench")
        })
    };
    let chosen = args.families.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    Ok(if chosen.is_empty() { DRAWN.to_vec() } else { chosen })
}

#[derive(Debug, Default)]
struct Results {
    ratios: IndexMap<&'static str, Vec<Ratio>>,
    refused: usize,
    defects: Vec<(String, Answer)>,
    late: Option<String>,
}

impl Results {
    fn add(&mut self, family: &'static str, text: String, answer: &Answer) {
        let numbers: Value = serde_json::from_str(&answer.why).unwrap_or_default();
        match (answer.ending, numbers["ratio"].as_f64(), numbers["seconds"].as_f64()) {
            (Ending::Passed, Some(value), Some(ours)) => {
                let how = numbers["how"].as_str().unwrap_or_default().to_owned();
                self.ratios.entry(family).or_default().push(Ratio { text, value, ours, how });
            }
            (Ending::Passed | Ending::Refused, ..) => self.refused += 1,
            _ => self.defects.push((text, answer.clone())),
        }
    }

    fn total(&self) -> usize {
        self.ratios.values().map(Vec::len).sum::<usize>() + self.refused + self.defects.len()
    }

    fn wrong(&self) -> Option<String> {
        let mut parts = Vec::new();
        for ending in Ending::ALL.into_iter().filter(|ending| ending.is_defect()) {
            let count = self.defects.iter().filter(|(_, answer)| answer.ending == ending).count();
            if count > 0 {
                parts.push(format!("{count} {}", ending.name()));
            }
        }
        parts.extend(self.late.iter().map(|how| format!("and a worker ended with {how}")));
        (!parts.is_empty()).then(|| format!("of {} cases {}", self.total(), parts.join(", ")))
    }

    fn text(&self, style: Style, most: usize) -> String {
        let all: Vec<Ratio> = self.ratios.values().flatten().cloned().collect();
        let mut text = String::from("\nthe peer's time over ours\n");
        let lists = self.ratios.iter().map(|(name, list)| (*name, list)).chain([("all", &all)]);
        let rows: Vec<Vec<String>> = lists.map(|(name, list)| row(name, list)).collect();
        text += &table(style, &["family", "cases", "p10", "median", "least"], &[1, 2, 3, 4], &rows);
        for (name, list) in self.ratios.iter().filter(|_| self.ratios.len() > 1) {
            text += &worst(name, list, style, most);
        }
        text += &worst("all", &all, style, most);
        if self.refused > 0 {
            let _ = writeln!(text, "{} cases that the peer does not take", self.refused);
        }
        text
    }
}

fn row(name: &str, list: &[Ratio]) -> Vec<String> {
    let mut ratios: Vec<f64> = list.iter().map(|one| one.value).collect();
    ratios.sort_by(f64::total_cmp);
    let part = |part: f64| match ratios.len() {
        0 => "-".to_owned(),
        count => format!("{:.2}", ratios[((count - 1) as f64 * part).round() as usize]),
    };
    vec![name.to_owned(), list.len().to_string(), part(0.1), part(0.5), part(0.0)]
}

fn worst(name: &str, list: &[Ratio], style: Style, most: usize) -> String {
    let mut sorted: Vec<&Ratio> = list.iter().collect();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    let mut text = format!("{}\n", style.bold(&format!("worst of {name}")));
    for one in sorted.into_iter().take(most) {
        let time = crate::output::time(Duration::from_secs_f64(one.ours));
        let _ = writeln!(text, "  {:>6.2}  {time:>10}  {}  ({})", one.value, one.text, one.how);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_told_with_the_worst_cases() {
        let mut results = Results::default();
        for i in 1..=21 {
            let why = format!(r#"{{"ratio": {}, "seconds": 0.001, "how": "ocl:x"}}"#, f64::from(i) / 10.0);
            results.add("matmul", format!("matmul {i}x1:1x1"), &Answer::new(Ending::Passed, why));
        }
        results.add("conv", "conv".into(), &Answer::new(Ending::Refused, "not that"));
        assert_eq!(results.wrong(), None);
        let text = results.text(Style { color: false }, 16);
        assert!(text.contains("matmul     21  0.30    1.10   0.10"), "{text}");
        assert!(text.contains("0.10     1.00 ms  matmul 1x1:1x1  (ocl:x)"), "{text}");
        assert!(text.contains("1 cases that the peer does not take"), "{text}");
        assert!(!text.contains("matmul 17x1"), "{text}");
        results.add("conv", "conv".into(), &Answer::new(Ending::Hung, "no answer"));
        assert_eq!(results.wrong().expect("a defect"), "of 23 cases 1 hung");
    }
}
