//! What a library of a peer that is this program itself does for the [loop](super::serve).

use serde_json::Value;

/// A peer's answers to the requests.
pub(super) trait Serve {
    /// What and where it is.
    fn version(&self) -> String;
    /// Takes the number of its threads, where it can choose.
    fn threads(&mut self, _count: usize) {}
    /// Whether cases may be ONNX files.
    fn reads_models(&self) -> bool {
        false
    }
    /// Takes a case and tells how it will run.
    fn prepare(&mut self, case: &Value) -> Result<String, Refusal>;
    /// Runs it once, to the end or into a queue.
    fn run(&mut self) -> Result<(), String>;
    /// Waits for what was queued.
    fn wait(&mut self) -> Result<(), String>;
    /// The outputs of the first set as f32.
    fn outputs(&mut self) -> Result<Vec<f32>, String>;
}

/// Why a case is not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The library does not do that.
    Unsupported(String),
    /// Something went wrong.
    Failed(String),
}
