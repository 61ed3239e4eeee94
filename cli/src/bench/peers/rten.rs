//! rten: ONNX files on the CPU, in Rust. The feature `rten` builds it in.

use std::process::Command;

#[cfg(feature = "rten")]
pub(super) use self::library::Rten;
use crate::failure::{Code, Failure};

/// This program as the peer.
pub(super) fn command() -> Result<Command, Failure> {
    if cfg!(not(feature = "rten")) {
        let help = "build it in: cargo build --release --package anydnn-cli --features rten";
        return Err(Failure::new(Code::Unavailable, "peer rten: this program is built without it", help));
    }
    let own = std::env::current_exe().map_err(|error| anydnn::backend::Error::io("this program", error))?;
    let mut command = Command::new(own);
    command.args(["bench-peer", "rten", "built-in"]);
    Ok(command)
}

#[cfg(feature = "rten")]
mod library {
    use std::sync::Arc;

    use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
    use serde_json::Value as Json;

    use super::super::server::{Refusal, Serve};

    /// The library with the model that it took.
    #[derive(Default)]
    pub(in super::super) struct Rten {
        pool: Option<Arc<ThreadPool>>,
        taken: Option<Taken>,
    }

    struct Taken {
        model: Model,
        outputs: Vec<NodeId>,
        /// The inputs of each set.
        sets: Vec<Vec<(NodeId, Value)>>,
        next: usize,
    }

    impl Serve for Rten {
        fn version(&self) -> String {
            "rten 0.24, CPU".into()
        }

        fn threads(&mut self, count: usize) {
            self.pool = Some(Arc::new(ThreadPool::with_num_threads(count)));
        }

        fn reads_models(&self) -> bool {
            true
        }

        fn prepare(&mut self, case: &Json) -> Result<String, Refusal> {
            self.taken = None;
            let Some(file) = case["model"].as_str() else {
                return Err(Refusal::Unsupported("it runs ONNX files alone".into()));
            };
            let refused =
                |what: &str, error: &dyn std::fmt::Display| Refusal::Unsupported(format!("{what}: {error}"));
            let model = ModelOptions::with_all_ops()
                .prepack_weights(true)
                .load_file(file)
                .map_err(|error| refused("loading", &error))?;
            let node = |name: &Json| {
                let name = name.as_str().unwrap_or_default();
                model.node_id(name).map_err(|error| refused(name, &error))
            };
            let outputs = list(&case["outputs"]).iter().map(node).collect::<Result<Vec<_>, _>>()?;
            let mut sets = Vec::new();
            for inputs in list(&case["inputs"]) {
                let inputs = list(inputs).iter().map(|input| Ok((node(&input["name"])?, value(input)?)));
                sets.push(inputs.collect::<Result<Vec<_>, Refusal>>()?);
            }
            let mut taken = Taken { model, outputs, sets, next: 0 };
            // What it cannot run is refused now.
            taken.run(self.pool.as_ref()).map_err(|error| refused("running", &error))?;
            taken.next = 0;
            self.taken = Some(taken);
            Ok("weights packed".into())
        }

        fn run(&mut self) -> Result<(), String> {
            let taken = self.taken.as_mut().ok_or("no case was prepared")?;
            taken.run(self.pool.as_ref()).map(drop)
        }

        fn wait(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn outputs(&mut self) -> Result<Vec<f32>, String> {
            let taken = self.taken.as_mut().ok_or("no case was prepared")?;
            taken.next = 0;
            let mut values = Vec::new();
            for output in taken.run(self.pool.as_ref())? {
                match output {
                    Value::FloatTensor(tensor) => values.extend(tensor.into_data()),
                    Value::Int32Tensor(tensor) => {
                        values.extend(tensor.into_data().iter().map(|&value| value as f32));
                    }
                    Value::Int8Tensor(tensor) => {
                        values.extend(tensor.into_data().iter().map(|&value| f32::from(value)));
                    }
                    Value::UInt8Tensor(tensor) => {
                        values.extend(tensor.into_data().iter().map(|&value| f32::from(value)));
                    }
                    _ => return Err("an output is no tensor of numbers".into()),
                }
            }
            Ok(values)
        }
    }

    impl Taken {
        fn run(&mut self, pool: Option<&Arc<ThreadPool>>) -> Result<Vec<Value>, String> {
            let set = &self.sets[self.next % self.sets.len().max(1)];
            self.next += 1;
            let inputs = set.iter().map(|(node, value)| (*node, value.as_view().into())).collect();
            let mut options = RunOptions::default();
            options.thread_pool = pool.cloned();
            self.model.run(inputs, &self.outputs, Some(options)).map_err(|error| error.to_string())
        }
    }

    fn list(json: &Json) -> &[Json] {
        json.as_array().map_or(&[], Vec::as_slice)
    }

    /// An input from its file: 64-bit integers and truth values are 32-bit integers to the library.
    fn value(input: &Json) -> Result<Value, Refusal> {
        let failed = |error: &dyn std::fmt::Display| Refusal::Failed(error.to_string());
        let bytes =
            std::fs::read(input["file"].as_str().unwrap_or_default()).map_err(|error| failed(&error))?;
        let dims: Vec<usize> =
            list(&input["dims"]).iter().filter_map(Json::as_u64).map(|dim| dim as usize).collect();
        let words = || bytes.as_chunks::<4>().0.iter();
        match input["type"].as_str().unwrap_or_default() {
            "f32" => {
                let data: Vec<f32> = words().map(|word| f32::from_ne_bytes(*word)).collect();
                Value::from_shape(&dims, data).map_err(|error| failed(&error))
            }
            "s32" => {
                let data: Vec<i32> = words().map(|word| i32::from_ne_bytes(*word)).collect();
                Value::from_shape(&dims, data).map_err(|error| failed(&error))
            }
            "s64" => {
                let long =
                    |word: &[u8; 8]| i64::from_ne_bytes(*word).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                let data: Vec<i32> = bytes.as_chunks::<8>().0.iter().map(long).collect();
                Value::from_shape(&dims, data).map_err(|error| failed(&error))
            }
            "boolean" => {
                let data: Vec<i32> = bytes.iter().map(|&byte| i32::from(byte != 0)).collect();
                Value::from_shape(&dims, data).map_err(|error| failed(&error))
            }
            "u8" => Value::from_shape(&dims, bytes.clone()).map_err(|error| failed(&error)),
            "s8" => {
                let data: Vec<i8> = bytes.iter().map(|&byte| byte.cast_signed()).collect();
                Value::from_shape(&dims, data).map_err(|error| failed(&error))
            }
            other => Err(Refusal::Unsupported(format!("it has no {other}"))),
        }
    }
}
