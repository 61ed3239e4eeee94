use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::serve_compiler;
use crate::testing::test_engines;

const TEXT: &str = "kernel void noop(global int *p) { p[get_global_id(0)] = N; }";

fn request(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        write(&mut bytes, part.as_bytes()).unwrap();
    }
    bytes
}

#[test]
fn a_process_answers_with_binaries_and_with_nothing_where_it_does_not_build() {
    for engine in test_engines() {
        let device = engine.opencl_device();
        let index = devices().unwrap().iter().position(|d| d.raw_device() == device.raw_device()).unwrap();
        let whose = format!("{index} {}", device.name());
        let input = request(&[&whose, "noop", "-DN=3", TEXT, "", "broken", "", "kernel void broken(", ""]);
        let mut output = Vec::new();
        serve_compiler(&*input, &mut output).unwrap();
        let mut answers = &*output;
        assert_eq!(read(&mut answers).unwrap().as_deref(), Some(READY));
        let binary = read(&mut answers).unwrap().unwrap();
        assert_eq!(read(&mut answers).unwrap(), Some(Vec::new()));
        assert_eq!(read(&mut answers).unwrap(), None);
        let loaded = Program::from_binary(&engine.inner.context, device, "noop", &binary, "-DN=3").unwrap();
        assert!(loaded.kernel("noop").is_ok(), "{device}");
    }
}

#[test]
fn a_process_tells_whether_it_has_launched_a_kernel() {
    for engine in test_engines() {
        let device = engine.opencl_device();
        let index = devices().unwrap().iter().position(|d| d.raw_device() == device.raw_device()).unwrap();
        let trial = |kernel: &str| {
            let trial =
                Trial { kernel: kernel.into(), memories: vec![4], numbered: false, table: Vec::new() };
            trial.bytes().unwrap()
        };
        let text = TEXT.replace("*p", "*p, ulong at");
        let mut input = request(&[&format!("{index} {}", device.name())]);
        for kernel in ["noop", "missing"] {
            input.extend(request(&["noop", "-DN=3", &text]));
            write(&mut input, &trial(kernel)).unwrap();
        }
        let mut output = Vec::new();
        serve_compiler(&*input, &mut output).unwrap();
        let mut answers = &*output;
        assert_eq!(read(&mut answers).unwrap().as_deref(), Some(READY), "{device}");
        assert_eq!(read(&mut answers).unwrap().as_deref(), Some(LAUNCHED), "{device}");
        assert_eq!(read(&mut answers).unwrap(), Some(Vec::new()), "{device}");
    }
}

#[test]
fn a_process_tells_whether_a_feature_works_in_its_context() {
    for engine in test_engines() {
        let device = engine.opencl_device();
        let index = devices().unwrap().iter().position(|d| d.raw_device() == device.raw_device()).unwrap();
        let whose = format!("{index} {}", device.name());
        let input = request(&[&whose, PROBE, "vload_half", "", "", PROBE, "no feature", "", ""]);
        let mut output = Vec::new();
        serve_compiler(&*input, &mut output).unwrap();
        let mut answers = &*output;
        assert_eq!(read(&mut answers).unwrap().as_deref(), Some(READY), "{device}");
        assert_eq!(read(&mut answers).unwrap().as_deref(), Some(&b"\x01vload_half is right"[..]), "{device}");
        assert_eq!(read(&mut answers).unwrap(), Some(Vec::new()), "{device}");
        // Without other processes a probe is this one's own.
        assert!(probe_elsewhere(device, "vload_half").is_none() && !has_others(device));
    }
}

#[test]
fn what_takes_long_does_not_keep_this_process_from_what_does_not() {
    let mut pool = Pool::new();
    let [long, first, second] = [HEAVY, 5, 7].map(|weight| pool.enter((Some(0), false), weight));
    assert!(pool.is_next(long, usize::MAX) && !pool.is_next(second, usize::MAX));
    assert!(pool.is_next(second, HEAVY) && !pool.is_next(first, HEAVY));
}

#[cfg(unix)]
#[test]
fn a_process_that_ends_early_or_answers_nonsense_is_an_error() {
    let helper = |script: &str| {
        let args = vec!["-c".into(), script.into()];
        let start = Start { program: "/bin/sh".into(), args, environment: Vec::new() };
        Helper::start(&start, 3, "a device").unwrap()
    };
    for script in ["exit 0", "printf 12345", "printf '\\377\\377\\377\\377\\377\\377\\377\\377'"] {
        let mut helper = helper(script);
        assert!(helper.make_ready().is_err(), "{script}");
        assert!(helper.ask(["noop", "", TEXT], &[]).is_err(), "{script}");
        helper.end();
    }
    // It answers with what it is told: first the device, which says of no context.
    let mut echo = helper("exec /bin/cat");
    assert_eq!(echo.make_ready().unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(echo.ask(["noop", "-DN=1", TEXT], &[]).unwrap(), b"noop");
    echo.end();
    let start = Start { program: "/nonexistent".into(), args: Vec::new(), environment: Vec::new() };
    assert!(Helper::start(&start, 0, "a device").is_err());
}

#[cfg(unix)]
#[test]
fn a_process_has_one_connection_to_the_device_unless_the_environment_says_otherwise() {
    let said = |environment: &[(&str, &str)]| {
        let script = r#"printf '\001\000\000\000\000\000\000\000%s' "$CUDA_DEVICE_MAX_CONNECTIONS"; exec /bin/cat >/dev/null"#;
        let environment = environment.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let start = Start { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()], environment };
        let mut helper = Helper::start(&start, 0, "a device").unwrap();
        let said = read(&mut helper.output).unwrap().unwrap();
        helper.end();
        String::from_utf8(said).unwrap()
    };
    assert_eq!(said(&[]), "1");
    assert_eq!(said(&[("CUDA_DEVICE_MAX_CONNECTIONS", "4")]), "4");
}

#[cfg(unix)]
fn waits() -> Start {
    let args = vec!["-c".into(), "exec /bin/cat".into()];
    Start { program: "/bin/sh".into(), args, environment: Vec::new() }
}

#[cfg(unix)]
#[test]
fn processes_that_start_early_get_a_device_later_and_their_contexts_before_anybody_waits() {
    // Nobody sees to what starts in this test.
    let mut pool = Pool { starters: AT_ONCE, ..Pool::new() };
    early::start(&mut pool, &waits(), 3);
    assert_eq!((pool.early.len(), pool.count), (3, 0));
    early::assign(&mut pool, 5, "a device", 2);
    assert_eq!((pool.early.len(), pool.count, &*pool.starting), (1, 2, &[5, 5][..]));
    for helper in &pool.unready {
        assert!(helper.is_early && (helper.device, &*helper.name) == (5, "a device"), "{helper:?}");
    }
    early::assign(&mut pool, 6, "another", 2);
    assert_eq!((pool.early.len(), &*pool.starting), (0, &[5, 5, 6][..]));
    pool.unready.into_iter().for_each(Helper::end);
    // One that does not start is none.
    let mut pool = Pool::new();
    let missing = Start { program: "/nonexistent".into(), args: Vec::new(), environment: Vec::new() };
    early::start(&mut pool, &missing, 3);
    assert!(pool.early.is_empty());
}

/// Other tests of this process may compile meanwhile, which makes fewer at a time, never more.
#[test]
fn as_many_compile_at_a_time_as_there_are_cores_and_all_are_served() {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (now, most, served) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    for engine in test_engines() {
        thread::scope(|scope| {
            for _ in 0..4 * cores {
                scope.spawn(|| {
                    let compiler = Compiler::of(engine.opencl_device(), 1);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(compiler);
                    served.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(served.swap(0, Ordering::SeqCst), 4 * cores);
        assert!((1..=cores).contains(&most.swap(0, Ordering::SeqCst)));
    }
}

#[test]
fn what_takes_longest_is_next_and_of_equals_the_first() {
    let mut pool = Pool::new();
    let weights = [3, 7, 7, 1];
    let places = weights.map(|weight| pool.enter((Some(0), false), weight));
    let other = pool.enter((Some(1), false), 2);
    let mut order = Vec::new();
    while let Some(at) = places.iter().position(|&p| pool.waiting.contains(&p) && pool.is_next(p, usize::MAX))
    {
        order.push(at);
        pool.leave(places[at]);
    }
    assert_eq!(order, [1, 2, 0, 3]);
    assert!(pool.is_next(other, usize::MAX));
}

#[cfg(unix)]
#[test]
fn processes_start_for_those_who_wait_and_what_does_not_start_is_made_up_for_here() {
    let mut pool = Pool::new();
    assert!(matches!(pool.find(Some(0), 1), Some(Worker::Here)));
    assert!(pool.find(Some(0), 1).is_none() && !pool.wants(0, 8));
    let places = [0, 0, 1].map(|device| pool.enter((Some(device), false), 1));
    pool.failed = 1;
    // Nobody sees to what starts in this test.
    pool.starters = AT_ONCE;
    begin(&mut pool, Helper::start(&waits(), 0, "a device").unwrap());
    assert_eq!((pool.unready.len(), &*pool.starting, pool.count), (1, &[0][..], 1));
    pool.unready.pop_front().unwrap().end();
    assert!(!pool.wants(0, 8));
    assert!(matches!(pool.find(Some(0), 1), Some(Worker::Here)) && pool.find(Some(0), 1).is_none());
    assert!(pool.wants(0, 8) && pool.wants(1, 8) && !pool.wants(1, 1));
    for place in places {
        pool.leave(place);
    }
    assert!(!pool.wants(0, 8));
}

#[test]
fn what_is_no_request_is_an_error() {
    let serve = |bytes: &[u8]| serve_compiler(bytes, io::sink());
    assert!(serve(&[]).is_ok());
    assert!(serve(&[1, 2, 3]).unwrap_err().to_string().contains("whole requests"));
    assert!(serve(&u64::MAX.to_le_bytes()).is_err());
    let error = serve(&request(&["99 no such device"])).unwrap_err().to_string();
    assert!(error.contains("99 no such device"), "{error}");
}
