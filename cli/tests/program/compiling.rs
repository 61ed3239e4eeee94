//! The processes that compile beside the one that a user starts.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{root, scratch, text};

/// Sends messages to a process that compiles, each its length and its bytes, and returns the answers.
fn compile(messages: &[&str]) -> Vec<Vec<u8>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    let command = command.arg("compile").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the program starts");
    let mut input = process.stdin.take().expect("a pipe");
    for message in messages {
        let length = (message.len() as u64).to_le_bytes();
        input.write_all(&[&length[..], message.as_bytes()].concat()).expect("the process reads");
    }
    drop(input);
    let output = process.wait_with_output().expect("the process ends");
    assert!(output.status.success(), "{messages:?}: {}", text(&output.stderr));
    let (mut answers, mut rest) = (Vec::new(), &output.stdout[..]);
    let mut length = [0; 8];
    while rest.read_exact(&mut length).is_ok() {
        let mut answer = vec![0; u64::from_le_bytes(length) as usize];
        rest.read_exact(&mut answer).expect("a whole answer");
        answers.push(answer);
    }
    answers
}

/// One that has not asked the system for matrix units ends with the first use of them.
#[test]
fn processes_that_compile_survive_the_probe_of_every_unit() {
    for (number, device) in anydnn_opencl::devices().expect("a list").iter().enumerate() {
        for feature in ["amx", "avx512_vnni_bytes", "avx512_bf16", "avx512_vnni"] {
            let answers = compile(&[&format!("{number} {}", device.name()), "?", feature, "", ""]);
            assert_eq!(answers.len(), 2, "{device}, {feature}");
            assert_eq!(answers[0], b"ready");
            let (&works, detail) = answers[1].split_first().expect("an outcome");
            assert!(works <= 1 && !detail.is_empty(), "{device}, {feature}: {works}, {detail:?}");
            let engine = anydnn_opencl::OpenClEngine::on_device(device).expect("an engine");
            let found = anydnn::backend::Engine::capabilities(&engine).features[feature].works;
            assert_eq!(works == 1, found, "{device}, {feature}: {}", text(detail));
        }
    }
}

/// The places of words in what a run of digits logs, by the order in which they come.
fn run(cache: &Path, words: &[&str]) -> Vec<Option<usize>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.current_dir(root()).args(["run", "examples/digits", "--repeat", "0", "--backend", "opencl"]);
    command.env("ANYDNN_LOG", "anydnn_opencl=debug").env("ANYDNN_CACHE_DIR", cache);
    let output = command.output().expect("the program starts");
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    words.iter().map(|word| log.find(word)).collect()
}

#[test]
fn processes_that_compile_start_before_drivers_load_where_nothing_is_kept_on_disk() {
    let devices = anydnn_opencl::devices().expect("a list");
    if devices.is_empty() || Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let folder = scratch();
    let words = ["processes that compile start", "platforms are loaded"];
    let [Some(start), Some(loaded)] = run(folder.path(), &words)[..] else { panic!("neither is logged") };
    assert!(start < loaded);
    // What a run left tells the next one that there is little to compile.
    std::fs::write(folder.path().join("one.program"), "").expect("a file");
    assert_eq!(run(folder.path(), &words)[0], None);
}
