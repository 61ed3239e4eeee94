//! What a trial should compute: by oneDNN, which runs in a process of its own, and by a reference in f64.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anydnn::backend::{DataType, MemoryDesc};
use anydnn::model::HostTensor;

use super::exceptions::throws;
use super::onednn::OneDnn;
use super::reference;
use super::tensor::Tensor;
use super::trials::{Trial, results};

/// Names the file that a process with oneDNN's library writes to, and its first trial.
pub const CHILD: &str = "ANYDNN_ORACLE_CHILD";

/// Names the types that a process with oneDNN's library is not asked in.
const LACKING: &str = "ANYDNN_ORACLE_LACKING";

/// How many trials in a type end the process, and none is answered, before the processor is taken to lack it: each needs a process.
const ENOUGH: usize = 6;

/// Why there is no answer to a trial that ended the process.
pub const ENDS: &str = "ends the process";

/// What oneDNN makes of a trial, as values of the results' types; why not, where it does not take it.
pub type Answer = Result<Made, String>;

/// Results and the type in which they were computed.
#[derive(Clone, Debug)]
pub struct Made {
    pub data_type: DataType,
    pub outputs: Vec<Vec<f64>>,
}

/// Asks oneDNN in processes of their own: the library brings others that are not those of OpenCL drivers, and it ends its process on
/// some operations that it does not take.
pub fn ask(library: &Path, trials: &[Trial]) -> Vec<Answer> {
    let file = std::env::temp_dir().join(format!("anydnn-oracle-{}", std::process::id()));
    let mut answers: Vec<Answer> = Vec::new();
    while answers.len() < trials.len() {
        let lacking = lacking(trials, &answers);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["every_operation_computes_as_in_onednn", "--exact", "--nocapture"])
            .env(CHILD, format!("{}:{}", answers.len(), file.display()))
            .env(LACKING, lacking.iter().map(|data_type| data_type.name()).collect::<Vec<_>>().join(","))
            .env("LD_LIBRARY_PATH", library.parent().unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        answers.extend(text.lines().map(parse));
        if child.status.success() {
            assert_eq!(answers.len(), trials.len());
        } else {
            let why = String::from_utf8_lossy(&child.stderr);
            assert!(child.status.code().is_none(), "oneDNN's process: {why}");
            println!("oneDNN's process: {}: {}", child.status, trials[answers.len()].name());
            answers.push(Err(ENDS.to_owned()));
            // It does so in types that the processor lacks, never in all of them.
            assert!(answers.len() < 20 || answers.iter().any(Result::is_ok), "oneDNN's process: {why}");
        }
    }
    // Processors without AVX-512 lack the floats of 16 bits.
    let is_lacking = |data_type: DataType| data_type.is_float() && data_type.bits() == 16;
    let others = trials.iter().zip(&answers).filter(|(trial, _)| !is_lacking(trial.data_type));
    let (mut ended, mut all) = (0, 0);
    for (_, answer) in others {
        all += 1;
        ended += usize::from(is_end(answer));
    }
    assert!(
        4 * ended <= all,
        "oneDNN ended its process at {ended} of {all} trials in types that it should have"
    );
    answers
}

fn is_end(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|why| why == ENDS)
}

/// The types in which enough trials ended the process, and none was answered.
fn lacking(trials: &[Trial], answers: &[Answer]) -> Vec<DataType> {
    let mut lacking = Vec::new();
    for data_type in super::TYPES {
        let of_type = trials.iter().zip(answers).filter(|(trial, _)| trial.data_type == data_type);
        let (ended, answered): (Vec<_>, Vec<_>) = of_type
            .map(|(_, answer)| answer)
            .filter(|answer| answer.is_ok() || is_end(answer))
            .partition(|a| is_end(a));
        if ended.len() >= ENOUGH && answered.is_empty() {
            lacking.push(data_type);
        }
    }
    lacking
}

/// The work of a process with oneDNN's library.
pub fn answer(library: &Path, task: &str, trials: &[Trial]) {
    let (first, file) = task.split_once(':').unwrap();
    let onednn = OneDnn::load(library);
    let mut file = OpenOptions::new().create(true).append(true).open(PathBuf::from(file)).unwrap();
    let lacking = std::env::var(LACKING).unwrap_or_default();
    for trial in &trials[first.parse::<usize>().unwrap()..] {
        let answer = if throws(trial) {
            Err("throws".to_owned())
        } else if lacking.split(',').any(|name| name == trial.data_type.name()) {
            Err(ENDS.to_owned())
        } else {
            evaluate(&onednn, trial)
        };
        file.write_all(line(&answer).as_bytes()).unwrap();
    }
}

/// What oneDNN makes of the values, in their type or a wider one.
fn evaluate(onednn: &OneDnn, trial: &Trial) -> Answer {
    let descs = results(trial.graph.as_ref().map_err(Clone::clone)?);
    let mut why = String::new();
    for (i, data_type) in [trial.data_type, DataType::F32, DataType::S8, DataType::U8].into_iter().enumerate()
    {
        if i > 0 && data_type == trial.data_type {
            continue;
        }
        let Some(cast) = trial.case.recast(&trial.values, data_type) else { continue };
        let Ok(theirs) = trial.case.graph(data_type) else { continue };
        match onednn.evaluate(trial.kind(), &trial.case.attrs, &cast, &results(&theirs)) {
            Ok(made) => return Ok(Made { data_type, outputs: limited(&made, &descs) }),
            Err(error) if i == 0 => why = error,
            Err(_) => {}
        }
    }
    Err(why)
}

/// Values limited to integer types; those of floats stay as they are.
fn limited(made: &[HostTensor], descs: &[MemoryDesc]) -> Vec<Vec<f64>> {
    let limited = made.iter().zip(descs).map(|(tensor, desc)| {
        if desc.data_type().is_float() { tensor.to_f64s() } else { tensor.cast(desc.data_type()).to_f64s() }
    });
    limited.collect()
}

fn line(answer: &Answer) -> String {
    match answer {
        Err(why) => format!("-\t{}\n", why.replace(['\n', '\t'], " ")),
        Ok(made) => {
            let mut text = made.data_type.name().to_owned();
            for output in &made.outputs {
                text.push('\t');
                for value in output {
                    write!(text, "{:016x}", value.to_bits()).unwrap();
                }
            }
            text + "\n"
        }
    }
}

fn parse(line: &str) -> Answer {
    let mut parts = line.split('\t');
    let name = parts.next().unwrap();
    if name == "-" {
        return Err(parts.next().unwrap().to_owned());
    }
    let data_type = super::TYPES.into_iter().find(|t| t.name() == name).unwrap();
    let value = |digits: &[u8]| {
        let bits = u64::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        f64::from_bits(bits)
    };
    let outputs = parts.map(|part| part.as_bytes().chunks(16).map(value).collect()).collect();
    Ok(Made { data_type, outputs })
}

/// What plain loops in f64 make of the values.
pub fn by_reference(trial: &Trial) -> Option<Vec<Vec<f64>>> {
    let graph = trial.graph.as_ref().ok()?;
    let op = &graph.ops()[0];
    let tensors = trial.values.iter().map(|t| Tensor::new(t.dims(), t.to_f64s()));
    let given: HashMap<_, _> = op.inputs.iter().copied().zip(tensors).collect();
    let all = reference::evaluate(graph, &given);
    let made = op.outputs.iter().zip(results(graph)).map(|(id, desc)| {
        let values = &all[id].values;
        if desc.data_type().is_float() {
            return values.clone();
        }
        HostTensor::from_f64(desc.dims().clone(), desc.data_type(), values).unwrap().to_f64s()
    });
    Some(made.collect())
}
