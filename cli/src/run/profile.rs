//! The table of steps: what ran, how, and for how long.

use std::time::Duration;

use anydnn::compile::StepInfo;
use anydnn::graph::Graph;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::session::Run;
use crate::output::{Style, table, time};

/// The steps with their times, the mean of several runs.
pub(super) struct Profile<'a> {
    graph: &'a Graph,
    steps: &'a [StepInfo],
    times: Vec<Option<Duration>>,
}

impl<'a> Profile<'a> {
    pub(super) fn new(graph: &'a Graph, steps: &'a [StepInfo], runs: &[&Run]) -> Self {
        let time = |step: usize| {
            let all: Vec<Duration> = runs
                .iter()
                .flat_map(|run| &run.steps)
                .filter(|(own, _)| *own == step)
                .filter_map(|(_, time)| *time)
                .collect();
            (!all.is_empty()).then(|| all.iter().sum::<Duration>() / all.len() as u32)
        };
        Self { graph, steps, times: (0..steps.len()).map(time).collect() }
    }

    /// The steps of each execution as a table; then a line on those that ran once.
    pub(super) fn text(&self, style: Style) -> String {
        let total: Duration = self.times.iter().flatten().sum();
        let rows: Vec<Vec<String>> = self
            .repeated()
            .map(|(index, step)| {
                let own = self.times[index];
                let share =
                    own.filter(|_| !total.is_zero()).map(|own| own.as_secs_f64() / total.as_secs_f64());
                vec![
                    index.to_string(),
                    step.desc.op().name().to_owned(),
                    step.implementation.clone(),
                    own.map_or_else(|| "-".into(), time),
                    share.map_or_else(|| "-".into(), |share| format!("{:.1} %", share * 100.0)),
                    self.ops(step).join(" + "),
                ]
            })
            .collect();
        let mut text = table(
            style,
            &["step", "primitive", "implementation", "time", "share", "operations"],
            &[0, 3, 4],
            &rows,
        );
        let once = self.steps.len() - rows.len();
        if once > 0 {
            text += &style.dim(&format!("  and {once} that prepared constants once\n"));
        }
        if total.is_zero() {
            text += &style.dim("  the device takes no timestamps\n");
        }
        text
    }

    /// The times by implementation, the longest first.
    pub(super) fn summary(&self, style: Style) -> String {
        let mut sums: IndexMap<(&str, &str), (usize, Duration)> = IndexMap::new();
        for (index, step) in self.repeated() {
            let sum = sums.entry((step.desc.op().name(), &step.implementation)).or_default();
            sum.0 += 1;
            sum.1 += self.times[index].unwrap_or_default();
        }
        sums.sort_by(|_, a, _, b| b.1.cmp(&a.1));
        let total: Duration = sums.values().map(|sum| sum.1).sum();
        let row = |((primitive, implementation), (count, own)): (&(&str, &str), &(usize, Duration))| {
            let share = own.as_secs_f64() / total.as_secs_f64().max(1e-12) * 100.0;
            vec![
                (*primitive).to_owned(),
                (*implementation).to_owned(),
                count.to_string(),
                time(*own),
                format!("{share:.1} %"),
            ]
        };
        let rows: Vec<_> = sums.iter().map(row).collect();
        table(style, &["primitive", "implementation", "steps", "time", "share"], &[2, 3, 4], &rows)
    }

    pub(super) fn json(&self) -> Value {
        let one = |(index, step): (usize, &StepInfo)| {
            json!({
                "step": index,
                "name": step.name,
                "primitive": step.desc.op().name(),
                "implementation": step.implementation,
                "ops": self.ops(step),
                "once": step.constant,
                "time_us": self.times[index].map(|time| time.as_secs_f64() * 1e6),
            })
        };
        self.steps.iter().enumerate().map(one).collect()
    }

    fn repeated(&self) -> impl Iterator<Item = (usize, &StepInfo)> {
        self.steps.iter().enumerate().filter(|(_, step)| !step.constant)
    }

    fn ops(&self, step: &StepInfo) -> Vec<&str> {
        step.ops.iter().map(|&op| self.graph.ops()[op].name.as_str()).collect()
    }
}
