//! Several devices at once: a session of the case on each, between which the executions are divided.

use std::thread;
use std::time::Instant;

use anydnn::backend::{Engine, Error, Specialize};
use anydnn::fusion::Policy;
use anydnn::model::HostTensor;
use anydnn::select::{AnyBackend, Selection, Selector};

use super::case::{Case, Told};
use super::measure::relative;
use super::opponent::Opponent;
use super::ours::{Ours, Sample};
use super::peers::{PeerSample, Prepared};
use crate::backend::specialize;
use crate::failure::Failure;

/// Executions by which a member's speed is told, and how often.
const FEW: usize = 4;
const TRIES: usize = 3;

/// The backend that is measured alone and others, which take a case together.
#[derive(Debug)]
pub(crate) struct Pool {
    devices: Vec<Selection>,
    version: String,
    members: Vec<Member>,
}

/// A device with the case.
#[derive(Debug)]
struct Member {
    ours: Ours<AnyBackend>,
    /// Executions in a second.
    speed: f64,
}

impl Pool {
    /// A pool of a backend and those of these names.
    pub(crate) fn start(
        own: &Selection,
        names: &[String],
        when: Option<Specialize>,
    ) -> Result<Self, Failure> {
        let own = Selection { engine: own.engine.clone(), chosen: own.chosen.clone(), rejected: Vec::new() };
        let mut devices = vec![own];
        for name in names {
            let selection = Selector::parse(name).and_then(|selector| selector.select());
            let selection = selection.map_err(|error| error.at("--pool"))?;
            if let Some(when) = when {
                specialize(&selection.engine, when);
            }
            devices.push(selection);
        }
        let names: Vec<String> = devices
            .iter()
            .map(|device| format!("{} ({})", device.chosen, device.engine.device().name))
            .collect();
        let version = format!("pool of {}", names.join(", "));
        Ok(Self { devices, version, members: Vec::new() })
    }
}

impl Opponent for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn is_pool(&self) -> bool {
        true
    }

    fn prepare(&mut self, case: &Case, _: &Told, sets: usize) -> Result<Prepared, Failure> {
        self.members.clear();
        for device in &self.devices {
            match Ours::new(&device.engine, case, sets, Policy::default()) {
                Ok(ours) => self.members.push(Member { ours, speed: 0.0 }),
                Err(error) => return Ok(Prepared::Refused(format!("{}: {error}", device.chosen))),
            }
        }
        // All at once, as they are going to run: they may share memory or cores.
        for _ in 0..=TRIES {
            let times = together(&mut self.members, &vec![FEW; self.devices.len()])?;
            for (member, time) in self.members.iter_mut().zip(times) {
                member.speed = f64::max(member.speed, FEW as f64 / time);
            }
        }
        let total: f64 = self.members.iter().map(|member| member.speed).sum();
        let shares = self
            .devices
            .iter()
            .zip(&self.members)
            .map(|(device, member)| format!("{} {:.0} %", device.chosen, member.speed / total * 100.0));
        Ok(Prepared::Ready(shares.collect::<Vec<_>>().join(", ")))
    }

    /// Those of the device whose results differ most from the first one's.
    fn outputs(&mut self) -> Result<Vec<f32>, Failure> {
        let mut found = Vec::new();
        for member in &mut self.members {
            found.push(member.ours.outputs()?.iter().flat_map(HostTensor::to_f32s).collect::<Vec<f32>>());
        }
        let apart = |values: &Vec<f32>| {
            let apart = relative(values, &found[0], 0.0);
            // What is no number is furthest.
            if apart.is_nan() { f64::INFINITY } else { apart }
        };
        let furthest = (0..found.len()).max_by(|&a, &b| apart(&found[a]).total_cmp(&apart(&found[b])));
        Ok(furthest.map(|furthest| found.swap_remove(furthest)).unwrap_or_default())
    }

    /// As many times on each device, divided by their speeds: with few executions those of a device cannot be half as many.
    fn run(&mut self, times: usize) -> Result<PeerSample, Failure> {
        let speeds: Vec<f64> = self.members.iter().map(|member| member.speed).collect();
        let more = if times == 1 { 1 } else { self.members.len() };
        let start = Instant::now();
        together(&mut self.members, &divided(times * more, &speeds))?;
        Ok(PeerSample { wall: start.elapsed().as_secs_f64() / more as f64, device: None })
    }
}

/// Runs the case so many times on each, all at once; the seconds that each took.
fn together(members: &mut [Member], times: &[usize]) -> anydnn::backend::Result<Vec<f64>> {
    thread::scope(|scope| {
        let parts = members.iter_mut().zip(times);
        let running: Vec<_> = parts
            .map(|(member, &times)| {
                scope.spawn(move || if times == 0 { Ok(0.0) } else { seconds(member.ours.run(times)) })
            })
            .collect();
        let panicked = || Error::unavailable("pool", "a device's thread panicked");
        running.into_iter().map(|thread| thread.join().map_err(|_| panicked())?).collect()
    })
}

fn seconds(sample: anydnn::backend::Result<Sample>) -> anydnn::backend::Result<f64> {
    sample.map(|sample| sample.wall)
}

/// Executions divided by speed, each where it ends first.
fn divided(times: usize, speeds: &[f64]) -> Vec<usize> {
    let mut parts = vec![0; speeds.len()];
    for _ in 0..times {
        let end = |&i: &usize| (parts[i] + 1) as f64 / speeds[i];
        if let Some(first) = (0..speeds.len()).min_by(|a, b| end(a).total_cmp(&end(b))) {
            parts[first] += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_divided_by_speed() {
        assert_eq!(divided(10, &[1.0, 1.0]), [5, 5]);
        assert_eq!(divided(10, &[4.0, 1.0]), [8, 2]);
        assert_eq!(divided(1, &[1.0, 3.0, 2.0]), [0, 1, 0]);
        assert_eq!(divided(0, &[1.0, 2.0]), [0, 0]);
        assert_eq!(divided(7, &[2.0]), [7]);
    }
}
