//! The arguments of `anydnn run`.

use std::path::PathBuf;

use anydnn::backend::{DataType, Dims};
use anydnn::onnx::Precision;

use crate::model::dim;

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct RunArgs {
    /// A folder with a model.json, an ONNX file, or a graph JSON file; a bare graph gets random inputs and constants.
    pub(crate) model: PathBuf,
    /// The value of an open dimension of an ONNX model's inputs, such as batch=4.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, usize)>,
    /// The backend, instead of the environment's choice; `anydnn --help` names them.
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// Data of an input: a .npy file, a .safetensors file with a tensor of the input's name, a .json array, a .png picture, raw bytes, or
    /// the word random. Pictures are scaled to the input's size; floats are from 0 to 1, integers from 0 to 255.
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = binding)]
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// The type of all f32, f16 and bf16 tensors, or of one tensor, such as f16 or t3=s8.
    #[arg(long = "dt", value_name = "[TENSOR=]TYPE", value_parser = types)]
    pub(crate) types: Vec<Types>,
    /// The type that an ONNX model's f32 is computed with; inputs and outputs keep theirs.
    #[arg(long, value_name = "TYPE")]
    pub(crate) precision: Option<Narrow>,
    /// The shape of an input or a constant, such as t0=4x3x8x8.
    #[arg(long = "shape", value_name = "TENSOR=DIMS", value_parser = shapes)]
    pub(crate) shapes: Vec<Shapes>,
    /// The first dimension of every input; of a dataset, how many samples run at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// The seed of random data.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Compares the outputs with those of the host, computed without fusion, or of ONNX Runtime for an ONNX file.
    #[arg(long, value_name = "WITH", num_args = 0..=1, default_missing_value = "host")]
    pub(crate) check: Option<Check>,
    /// How often to run after the first time; times are the median.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) repeat: u32,
    /// Of an ONNX file, ends with its first answer, which the host computes while the device's programs are compiled, and tells when it was
    /// there.
    #[arg(long, conflicts_with_all = ["check", "times", "trace", "types", "shapes", "batch"])]
    pub(crate) first: bool,
    /// Adds a table of the times by implementation, the longest first.
    #[arg(long)]
    pub(crate) times: bool,
    /// Writes when each step ran on the device into a file for Perfetto or Chrome's tracing page.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints no colours.
    #[arg(long)]
    pub(crate) no_color: bool,
}

/// Types in place of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Narrow {
    /// 16 bits, of which 10 are digits; infinite beyond 65,504
    F16,
    /// 16 bits with the range of f32, of which 7 are digits
    Bf16,
}

impl RunArgs {
    /// The precision that was asked for.
    pub(crate) fn precision(&self) -> Precision {
        match self.precision {
            None => Precision::Model,
            Some(Narrow::F16) => Precision::F16,
            Some(Narrow::Bf16) => Precision::BF16,
        }
    }
}

/// What results are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Check {
    /// The host backend, one operation at a time
    Host,
    /// ONNX Runtime on the CPU, with the same file
    Onnxruntime,
}

/// Types of one `--dt`, for one tensor each or for all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Types(pub(crate) Vec<(Option<String>, DataType)>);

/// Shapes of one `--shape`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shapes(pub(crate) Vec<(String, Dims)>);

/// `f16`, `t0=s8`, `0:s8+1:u8`.
fn types(text: &str) -> Result<Types, String> {
    let one = |part: &str| {
        let (tensor, name) = match part.split_once(['=', ':']) {
            Some((tensor, name)) if !tensor.is_empty() => (Some(tensor.to_owned()), name),
            Some(_) => return Err("expected TYPE or TENSOR=TYPE".to_owned()),
            None => (None, part),
        };
        Ok((tensor, name.parse().map_err(|error: anydnn::backend::Error| error.to_string())?))
    };
    text.split([',', '+']).map(one).collect::<Result<_, _>>().map(Types)
}

/// `t0=4x3`, `0:4x3+1:3x8`; `t0=` or `t0=scalar` is a single number.
fn shapes(text: &str) -> Result<Shapes, String> {
    let one = |part: &str| {
        let expected = || format!("expected TENSOR=DIMS such as t0=4x3x8x8, not {part:?}");
        let (tensor, dims) =
            part.split_once(['=', ':']).filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
        let dims: Dims = match dims {
            "" | "scalar" => Dims::default(),
            dims => dims.split('x').map(str::parse).collect::<Result<_, _>>().map_err(|_| expected())?,
        };
        Ok((tensor.to_owned(), dims))
    };
    text.split([',', '+']).map(one).collect::<Result<_, String>>().map(Shapes)
}

fn binding(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("expected NAME=FILE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_shapes_are_told_in_two_ways() {
        let t = |name: &str| Some(name.to_owned());
        assert_eq!(types("f16"), Ok(Types(vec![(None, DataType::F16)])));
        let both = Types(vec![(t("0"), DataType::S8), (t("t1"), DataType::U8)]);
        assert_eq!((types("0:s8+t1:u8"), types("0=s8,t1=u8")), (Ok(both.clone()), Ok(both)));
        assert!(types("t0=f17").is_err() && types("=f16").is_err());
        let both = Shapes(vec![("t0".into(), Dims::from([4, 3])), ("t1".into(), Dims::default())]);
        assert_eq!((shapes("t0=4x3,t1=scalar"), shapes("t0:4x3+t1:")), (Ok(both.clone()), Ok(both)));
        assert!(shapes("4x3").is_err() && shapes("t0=4x-1").is_err());
    }
}
