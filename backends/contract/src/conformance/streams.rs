//! Streams and events: order, dependencies, waiting, time, threads.

use std::time::{Duration, Instant};

use super::report::ensure;
use super::subject::{expect_error, is_invalid};
use super::{Case, Failure, Lacking, Outcome, Subject};
use crate::op::Binary;
use crate::{
    Arg, Backend, BinaryAlgorithm, DataType, Eltwise, Engine, Event, EventStatus, MemoryDesc, Op, Primitive,
    PrimitiveDesc, Range, Stream, StreamDesc,
};

/// Large enough that commands which should wait for each other would meet if they did not.
const ELEMENTS: usize = 1 << 14;
const STEPS: usize = 24;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new("streams/in_order", |subject| chain(subject, &StreamDesc::default(), false)),
        Case::new("streams/out_of_order_chain", |subject: &Subject<B>| {
            if !subject.engine().capabilities().out_of_order {
                return Ok(Outcome::Unsupported(Lacking::OutOfOrder));
            }
            chain(subject, &StreamDesc::out_of_order(), true)
        }),
        Case::new("streams/across_in_order", |subject| across(subject, &StreamDesc::default())),
        Case::new("streams/across_out_of_order", |subject: &Subject<B>| {
            if !subject.engine().capabilities().out_of_order {
                return Ok(Outcome::Unsupported(Lacking::OutOfOrder));
            }
            across(subject, &StreamDesc::out_of_order())
        }),
        Case::new("streams/diamond", diamond),
        Case::new("streams/transfers_wait", transfers_wait),
        Case::new("streams/markers", markers),
        Case::new("streams/wait_completes", wait_completes),
        Case::new("streams/flush_makes_progress", flush),
        Case::new("streams/events_outlive_streams", outlive),
        Case::new("streams/timestamps", timestamps),
        Case::new("streams/timestamps_without_profiling", no_timestamps),
        Case::new("streams/profile", |subject| profile(subject, &StreamDesc::default())),
        Case::new("streams/profile_out_of_order", |subject: &Subject<B>| {
            if !subject.engine().capabilities().out_of_order {
                return Ok(Outcome::Unsupported(Lacking::OutOfOrder));
            }
            profile(subject, &StreamDesc::out_of_order())
        }),
        Case::new("streams/profile_without_profiling", no_profile),
        Case::new("streams/threads", threads),
        Case::new("streams/threads_on_one_stream", shared_stream),
    ]
}

/// Two steps that do not commute, `2x + 1` and `x/2`: one left out, done twice or out of turn shows in the result, exactly.
struct Steps<B: Backend> {
    primitives: [B::Primitive; 2],
    memory: B::Memory,
    start: Vec<f64>,
    desc: MemoryDesc,
}

impl<B: Backend> Steps<B> {
    fn new(subject: &Subject<B>) -> Result<Self, Failure> {
        let desc = MemoryDesc::new([ELEMENTS], DataType::F32);
        let step = |alpha, beta| {
            let op = Op::Eltwise(Eltwise::Linear { alpha, beta });
            subject.primitive(PrimitiveDesc::builder(op).src(desc.clone()).dst(desc.clone()).build())
        };
        let start: Vec<f64> = (0..ELEMENTS).map(|i| (i % 64) as f64).collect();
        let stream = subject.stream()?;
        let memory = subject.upload(&stream, &desc, &start)?;
        stream.wait()?;
        Ok(Self { primitives: [step(2.0, 1.0)?, step(0.5, 0.0)?], memory, start, desc })
    }

    /// The `i`-th step, in place.
    fn enqueue(&self, stream: &B::Stream, i: usize, deps: &[B::Event]) -> crate::Result<B::Event> {
        let args = [(Arg::SRC, self.memory.clone()), (Arg::DST, self.memory.clone())];
        stream.execute(&self.primitives[i % 2], &args, deps)
    }

    /// What `count` steps make of the start.
    fn expected(&self, count: usize) -> Vec<f64> {
        let step = |x: f64, i: usize| if i.is_multiple_of(2) { 2.0 * x + 1.0 } else { 0.5 * x };
        self.start.iter().map(|&x| (0..count).fold(x, step)).collect()
    }

    fn check(&self, subject: &Subject<B>, count: usize, what: &str) -> Result<(), Failure> {
        self.check_memory(subject, &self.memory, &self.expected(count), what)
    }

    fn check_memory(
        &self,
        subject: &Subject<B>,
        memory: &B::Memory,
        expected: &[f64],
        what: &str,
    ) -> Result<(), Failure> {
        let values = subject.download(&subject.stream()?, memory)?;
        #[expect(clippy::float_cmp, reason = "the steps are exact in f32")]
        let wrong = values.iter().zip(expected).position(|(value, expected)| value != expected);
        match wrong {
            None => Ok(()),
            Some(i) => {
                Err(Failure::new(format!("{what}: element {i} is {}, expected {}", values[i], expected[i])))
            }
        }
    }
}

fn chain<B: Backend>(subject: &Subject<B>, desc: &StreamDesc, depend: bool) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let stream = subject.engine().create_stream(desc)?;
    let mut last: Vec<B::Event> = Vec::new();
    for i in 0..STEPS {
        last = vec![steps.enqueue(&stream, i, if depend { &last } else { &[] })?];
    }
    stream.wait()?;
    steps.check(subject, STEPS, "commands ran out of order")?;
    Ok(Outcome::Passed)
}

/// A chain that changes the stream at every step.
fn across<B: Backend>(subject: &Subject<B>, desc: &StreamDesc) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let streams = [subject.engine().create_stream(desc)?, subject.engine().create_stream(desc)?];
    let mut last: Vec<B::Event> = Vec::new();
    for i in 0..STEPS {
        last = vec![steps.enqueue(&streams[i % 2], i, &last)?];
    }
    for event in &last {
        event.wait()?;
    }
    steps.check(subject, STEPS, "a dependency on another stream's event was not kept")?;
    streams[0].wait()?;
    streams[1].wait()?;
    Ok(Outcome::Passed)
}

/// One source, two branches, one join; on whatever order of stream there is.
fn diamond<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let desc = &steps.desc;
    let out_of_order = subject.engine().capabilities().out_of_order;
    let kind = if out_of_order { StreamDesc::out_of_order() } else { StreamDesc::default() };
    let stream = subject.engine().create_stream(&kind)?;
    let other = subject.engine().create_stream(&kind)?;
    let join = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)))
        .src(desc.clone())
        .src(desc.clone())
        .dst(desc.clone());
    let join = subject.primitive(join.build())?;
    let (left, right) = (subject.memory(desc)?, subject.memory(desc)?);
    let mut last: Vec<B::Event> = Vec::new();
    let rounds = 4;
    for _ in 0..rounds {
        let source = steps.enqueue(&stream, 0, &last)?;
        let branch = |stream: &B::Stream, i: usize, to: &B::Memory| {
            let args = [(Arg::SRC, steps.memory.clone()), (Arg::DST, to.clone())];
            stream.execute(&steps.primitives[i], &args, std::slice::from_ref(&source))
        };
        let branches = [branch(&stream, 0, &left)?, branch(&other, 1, &right)?];
        let args = [(Arg::SRC, left.clone()), (Arg::Src(1), right.clone()), (Arg::DST, steps.memory.clone())];
        last = vec![stream.execute(&join, &args, &branches)?];
    }
    last.iter().try_for_each(Event::wait)?;
    let round = |x: f64, _| {
        let source = 2.0 * x + 1.0;
        (2.0 * source + 1.0) - 0.5 * source
    };
    let expected: Vec<f64> = steps.start.iter().map(|&x| (0..rounds).fold(x, round)).collect();
    steps.check_memory(subject, &steps.memory, &expected, "a join and its branches ran out of order")?;
    Ok(Outcome::Passed)
}

/// Writes, copies and reads honour dependencies like primitives do.
fn transfers_wait<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let (one, other) = (subject.stream()?, subject.stream()?);
    let size = steps.desc.size();
    let target = subject.memory(&steps.desc)?;
    let mut done: Vec<B::Event> = Vec::new();
    for i in 0..STEPS {
        done = vec![steps.enqueue(&one, i, &done)?];
    }
    let from = Range { memory: steps.memory.clone(), offset: 0, bytes: size };
    let to = Range { memory: target.clone(), offset: 0, bytes: size };
    let copied = other.copy(from, to, &done)?;
    // Overwrites the source of the copy, after it.
    let zeros = one.write(&steps.memory, 0, &vec![0; size], std::slice::from_ref(&copied))?;
    let mut bytes = vec![0xEE; size];
    other.read(&steps.memory, 0, &mut bytes, std::slice::from_ref(&zeros))?;
    ensure!(bytes.iter().all(|&b| b == 0), "a read did not wait for the write that it depends on");
    let expected = steps.expected(STEPS);
    steps.check_memory(
        subject,
        &target,
        &expected,
        "a copy did not wait for the chain that it depends on",
    )?;
    Ok(Outcome::Passed)
}

fn markers<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let stream = subject.stream()?;
    stream.marker(&[])?.wait()?;
    for i in 0..STEPS {
        steps.enqueue(&stream, i, &[])?;
    }
    // On an in-order stream it stands for everything before it.
    let marker = stream.marker(&[])?;
    let other = subject.stream()?;
    steps.enqueue(&other, STEPS, &[marker])?.wait()?;
    steps.check(subject, STEPS + 1, "a marker completed before the commands in front of it")?;
    if subject.engine().capabilities().out_of_order {
        let loose = subject.engine().create_stream(&StreamDesc::out_of_order())?;
        loose.marker(&[])?.wait()?;
        let first = steps.enqueue(&loose, STEPS + 1, &[])?;
        let joined = loose.marker(&[first])?;
        steps.enqueue(&loose, STEPS + 2, &[joined])?.wait()?;
        steps.check(subject, STEPS + 3, "a marker completed before the events that it waits for")?;
    }
    Ok(Outcome::Passed)
}

fn wait_completes<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let stream = subject.stream()?;
    stream.wait()?;
    let events = (0..8).map(|i| steps.enqueue(&stream, i, &[])).collect::<crate::Result<Vec<_>>>()?;
    let write = stream.write(&steps.memory, 0, &[0; 4], &[])?;
    let marker = stream.marker(&[])?;
    stream.wait()?;
    for (i, event) in events.iter().chain([&write, &marker]).enumerate() {
        let status = event.status()?;
        ensure!(status == EventStatus::Complete, "event {i} is {status:?} after its stream was waited for");
        // Waiting again is fine, also on a clone.
        event.clone().wait()?;
    }
    stream.wait()?;
    Ok(Outcome::Passed)
}

fn flush<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let stream = subject.stream()?;
    stream.flush()?;
    let event = steps.enqueue(&stream, 0, &[])?;
    stream.flush()?;
    let begin = Instant::now();
    while event.status()? != EventStatus::Complete {
        let status = event.status()?;
        ensure!(status != EventStatus::Failed, "a flushed command failed");
        ensure!(
            begin.elapsed() < Duration::from_secs(10),
            "a flushed command is still {status:?} after 10 s"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    event.wait()?;
    steps.check(subject, 1, "a complete command has no effect")?;
    Ok(Outcome::Passed)
}

fn outlive<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let event = {
        let stream = subject.stream()?;
        for i in 0..STEPS - 1 {
            steps.enqueue(&stream, i, &[])?;
        }
        steps.enqueue(&stream, STEPS - 1, &[])?
    };
    event.wait()?;
    let status = event.status()?;
    ensure!(status == EventStatus::Complete, "the event of a dropped stream is {status:?} after waiting");
    steps.check(subject, STEPS, "a dropped stream lost commands")?;
    Ok(Outcome::Passed)
}

fn timestamps<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    if !subject.engine().capabilities().profiling {
        return Ok(Outcome::Unsupported(Lacking::Profiling));
    }
    let steps = Steps::new(subject)?;
    let stream = subject.engine().create_stream(&StreamDesc::default().with_profiling())?;
    let events = (0..4).map(|i| steps.enqueue(&stream, i, &[])).collect::<crate::Result<Vec<_>>>()?;
    stream.wait()?;
    let mut previous = 0;
    for (i, event) in events.iter().enumerate() {
        let Some(t) = event.timestamps()? else {
            return Err(Failure::new(format!("event {i} of a profiling stream has no timestamps")));
        };
        ensure!(
            t.queued <= t.submitted && t.submitted <= t.started && t.started <= t.ended,
            "the times of event {i} are out of order: {t:?}"
        );
        ensure!(
            t.started >= previous,
            "event {i} of an in-order stream began before the one in front: {t:?}"
        );
        previous = t.started;
    }
    Ok(Outcome::Passed)
}

fn no_timestamps<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let steps = Steps::new(subject)?;
    let stream = subject.stream()?;
    let event = steps.enqueue(&stream, 0, &[])?;
    event.wait()?;
    let times = event.timestamps()?;
    ensure!(times.is_none(), "a stream without profiling gave {times:?}");
    Ok(Outcome::Passed)
}

/// Every execution has its entry, in the order of submission, and nothing else has.
fn profile<B: Backend>(subject: &Subject<B>, desc: &StreamDesc) -> Result<Outcome, Failure> {
    if !subject.engine().capabilities().profiling {
        return Ok(Outcome::Unsupported(Lacking::Profiling));
    }
    let steps = Steps::new(subject)?;
    let stream = subject.engine().create_stream(&desc.clone().with_profiling())?;
    let named = |label: &str, beta| {
        let op = Op::Eltwise(Eltwise::Linear { alpha: 1.0, beta });
        let (src, dst) = (steps.desc.clone(), steps.desc.clone());
        subject.primitive(PrimitiveDesc::builder(op).src(src).dst(dst).label(label).build())
    };
    let primitives = [named("first", 1.0)?, named("second", 2.0)?];
    let args = [(Arg::SRC, steps.memory.clone()), (Arg::DST, steps.memory.clone())];
    ensure!(stream.profile()?.is_empty(), "a fresh stream has a profile");
    let mut events: Vec<B::Event> = Vec::new();
    for i in 0..5 {
        let last = events.last().cloned();
        events.push(stream.execute(&primitives[i % 2], &args, last.as_slice())?);
    }
    let last = events.last().cloned();
    let marker = stream.marker(last.as_slice())?;
    stream.write(&steps.memory, 0, &[0; 4], &[marker])?.wait()?;
    let entries = stream.clone().profile()?;
    let names: Vec<&str> = entries.iter().map(|entry| &*entry.operation).collect();
    ensure!(names == ["first", "second", "first", "second", "first"], "the profile lists {names:?}");
    for (i, (entry, event)) in entries.iter().zip(&events).enumerate() {
        let status = event.status()?;
        ensure!(status == EventStatus::Complete, "the profile lists execution {i}, which is {status:?}");
        let implementation = primitives[i % 2].implementation();
        ensure!(
            *entry.implementation == *implementation,
            "entry {i} is of {}, expected {implementation}",
            entry.implementation
        );
        ensure!(entry.commands > 0 && entry.nanoseconds > 0, "entry {i} took no time: {entry:?}");
        let duration = event.timestamps()?.map(|times| times.duration());
        ensure!(
            entry.commands > 1 || duration == Some(entry.nanoseconds),
            "entry {i} of one command is {entry:?}, its event took {duration:?} ns"
        );
    }
    stream.reset_profile()?;
    ensure!(stream.profile()?.is_empty(), "a reset left entries behind");
    stream.execute(&primitives[1], &args, &[])?;
    let entries = stream.profile()?;
    ensure!(
        entries.len() == 1 && &*entries[0].operation == "second",
        "after a reset and one execution the profile is {entries:?}"
    );
    stream.wait()?;
    Ok(Outcome::Passed)
}

fn no_profile<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    expect_error(stream.profile(), "the profile of a stream without profiling", is_invalid, &["profil"])?;
    expect_error(stream.reset_profile(), "its reset", is_invalid, &["profil"])?;
    Ok(Outcome::Passed)
}

/// One primitive, executed by several threads on streams and memories of their own.
fn threads<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let shared = Steps::new(subject)?;
    let work = |_: usize| -> Result<(), Failure> {
        let stream = subject.stream()?;
        let memory = subject.upload(&stream, &shared.desc, &shared.start)?;
        let own = Steps::<B> {
            primitives: shared.primitives.clone(),
            memory,
            start: shared.start.clone(),
            desc: shared.desc.clone(),
        };
        for i in 0..STEPS {
            own.enqueue(&stream, i, &[])?;
        }
        stream.wait()?;
        own.check(subject, STEPS, "a primitive shared by threads went wrong")
    };
    on_threads(&work)
}

fn shared_stream<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let all = (0..4).map(|_| Steps::new(subject)).collect::<Result<Vec<Steps<B>>, _>>()?;
    let work = |thread: usize| -> Result<(), Failure> {
        let own = &all[thread];
        let mut last = None;
        for i in 0..STEPS {
            last = Some(own.enqueue(&stream, i, &[])?);
        }
        last.iter().try_for_each(Event::wait)?;
        own.check(subject, STEPS, "a stream shared by threads mixed up their commands")
    };
    on_threads(&work)
}

fn on_threads(work: &(dyn Fn(usize) -> Result<(), Failure> + Sync)) -> Result<Outcome, Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|i| scope.spawn(move || work(i))).collect();
        for thread in threads {
            thread.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok(Outcome::Passed)
    })
}
