//! Cases that are measured together.

use anydnn::backend::DeviceKind;
use clap::ValueEnum;

use super::patterns;

/// A list of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Primitives of usual sizes for the kind of the device, and the networks
    #[value(alias = "gpu")]
    Core,
    /// What an NVIDIA H200 is measured by, beside torch and clblast
    H200,
    /// One small case of each primitive
    Smoke,
    /// A graph of every fusion pattern in three sizes, to be held against its operations by --unfused
    Patterns,
}

/// Rows for processors.
const PROCESSOR: [&str; 28] = [
    "matmul 512x512:512x512",
    "matmul 1024x1024:1024x1024",
    "matmul 128x768:768x768",
    "matmul 128x3072:3072x768",
    "matmul 128x768:768x3072 +bias+gelu",
    "matmul 1x4096:4096x4096",
    "matmul 12x128x64:12x64x128",
    "conv 1x56x56x64 o64 k3 p1",
    "conv 1x14x14x256 o256 k3 p1",
    "conv 1x56x56x64 o256 k1",
    "conv 1x14x14x1024 o256 k1",
    "conv 1x224x224x3 o64 k7 s2 p3",
    "conv 1x56x56x144 o144 k3 p1 g144",
    "conv 1x14x14x384 o384 k3 p1 g384",
    "softmax 1536x128",
    "softmax 1024x4096",
    "layernorm 128x768",
    "layernorm 8192x1024",
    "add+relu 16777216",
    "attention b1 h12 s128 d64",
    "attention b1 h12 s512 d64",
    "gru t300 n1 i600 h600",
    "lstm t589 n1 i128 h128 bidirectional",
    "lstm t100 n32 i512 h512",
    "bert4",
    "resnet-stage",
    "gated-mlp",
    "chain100",
];

/// Rows for graphics processors.
const GRAPHICS: [&str; 23] = [
    "matmul 1024x1024:1024x1024",
    "matmul 4096x4096:4096x4096",
    "matmul 8192x8192:8192x8192",
    "matmul 4096x4096:4096x4096 f16",
    "matmul 8192x8192:8192x8192 f16",
    "matmul 4096x4096:4096x4096 f16 +bias+gelu",
    "matmul 4096x4096:4096x4096 bf16",
    "matmul 8192x8192:8192x8192 bf16",
    "matmul 1x4096:4096x4096 f16",
    "matmul 16x8192:8192x8192 f16",
    "matmul 64x1024x64:64x64x1024 f16",
    "conv 32x56x56x256 o256 k3 p1 f16",
    "softmax 65536x1024",
    "layernorm 65536x1024",
    "rmsnorm 65536x1024 f16",
    "add+relu 67108864",
    "reduce sum 65536x1024",
    "attention b4 h16 s2048 d128 f16",
    "attention b4 h16 s2048 d128 f16 causal",
    "lstm t512 n64 i1024 h1024 f16",
    "bert4",
    "resnet-stage",
    "chain100",
];

/// Rows for the largest GPUs.
const H200: [&str; 68] = [
    "matmul 4096x4096:4096x4096",
    "matmul 8192x8192:8192x8192",
    "matmul 4096x4096:4096x4096 tf32",
    "matmul 8192x8192:8192x8192 tf32",
    "matmul 4096x4096:4096x4096 f16",
    "matmul 8192x8192:8192x8192 f16",
    "matmul 4096x4096:4096x4096 bf16",
    "matmul 8192x8192:8192x8192 bf16",
    "matmul 4096x4096:4096x4096 f16 +bias+gelu",
    "matmul 8192x8192:8192x8192 f16 +bias+gelu",
    "matmul 4096x4096:4096x4096 bf16 +bias+gelu",
    "matmul 4095x4095:4095x4095 f16",
    "conv 32x56x56x256 o256 k3 p1 f16",
    "conv 32x56x56x64 o256 k1 f16",
    "conv 32x28x28x256 o256 k3 s2 p1 f16",
    "attention b4 h16 s2048 d128 f16",
    "attention b4 h16 s2048 d128 f16 causal",
    "attention b4 h16 s2048 d64 bf16",
    "attention b8 h32 s1 t4096 d128 kv8 f16",
    "softmax 16384x4096",
    "softmax 32768x4096 f16",
    "layernorm 16384x4096",
    "layernorm 32768x4096 f16",
    "add+relu 67108864",
    "add+relu 134217728 f16",
    "matmul 1024x1024:1024x1024",
    "matmul 2048x2048:2048x2048",
    "matmul 1x4096:4096x4096",
    "matmul 4x4096:4096x4096",
    "matmul 16x4096:4096x4096",
    "matmul 32x4096:4096x4096",
    "matmul 64x4096:4096x4096",
    "matmul 4096x4096:4096x16",
    "matmul 1x8192:8192x8192 f16",
    "matmul 16x8192:8192x8192 f16",
    "matmul 64x1024x64:64x64x1024 f16",
    "lstm t512 n64 i1024 h1024 f16",
    "lstm t100 n32 i512 h512",
    "bert4 f16",
    "chain100",
    "matmul 128x4096:4096x4096 f16",
    "matmul 256x4096:4096x4096 f16",
    "matmul 512x4096:4096x4096 f16",
    "matmul 1000x1000:1000x1000 f16",
    "gated-mlp f16",
    "conv 32x14x14x512 o512 k3 p1 f16",
    "conv 32x56x56x64 o64 k3 p1 f16",
    "conv 32x56x56x256 o64 k1 f16",
    "conv 32x56x56x128 o128 k3 s2 p1 f16",
    "conv 32x224x224x3 o64 k7 s2 p3 f16",
    "conv 32x56x56x144 o144 k3 p1 g144 f16",
    "conv 32x28x28x384 o384 k3 p1 g384 f16",
    "attention b2 h16 s4096 d128 f16 causal",
    "attention b4 h16 s777 d64 f16",
    "attention b1 h32 s1 t4096 d128 f16",
    "attention b5 h25 s4 t224 d128",
    "eltwise gelu 134217728 f16",
    "softmax 100x30000",
    "matmul 4096x4096:4096x4096 s8",
    "matmul 8192x8192:8192x8192 s8",
    "matmul 128x4096:4096x4096 s8",
    "matmul 4096x4096:4096x4096 f8_e4m3",
    "matmul 8192x8192:8192x8192 f8_e4m3",
    "matmul 128x4096:4096x4096 f8_e4m3",
    "matmul 1x8192:8192x8192 f16 wu4 g128",
    "matmul 1x8192:8192x8192 f16 ws8 g128",
    "matmul 16x8192:8192x8192 f16 wu4 g128",
    "matmul 4096x4096:4096x4096 f16 wu4 g128",
];

const SMOKE: [&str; 13] = [
    "matmul 24x40:40x72 +bias+gelu",
    "matmul 3x16x8:3x8x16",
    "conv 1x8x8x16 o16 k3 p1 +relu",
    "pool max 1x8x8x16 k2 s2",
    "softmax 16x64",
    "layernorm 16x64",
    "rmsnorm 16x64",
    "batchnorm 1x8x8x16",
    "reduce sum 16x64",
    "add+relu 4096",
    "attention b1 h2 s16 d8 causal",
    "gru t4 n2 i8 h16 bidirectional",
    "copy 4096",
];

impl Suite {
    /// The cases for a kind of device.
    pub(crate) fn cases(self, kind: DeviceKind) -> Vec<String> {
        let list: &[&str] = match (self, kind) {
            (Self::Patterns, _) => return patterns::cases(),
            (Self::Smoke, _) => &SMOKE,
            (Self::H200, _) => &H200,
            (Self::Core, DeviceKind::Gpu | DeviceKind::Accelerator) => &GRAPHICS,
            (Self::Core, _) => &PROCESSOR,
        };
        list.iter().map(|&case| case.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::networks::NETWORKS;
    use crate::bench::notation::parse;

    #[test]
    fn the_usual_cases_have_two_names() {
        for name in ["core", "gpu"] {
            assert_eq!(Suite::from_str(name, false), Ok(Suite::Core), "{name}");
        }
    }

    #[test]
    fn every_case_is_one() {
        for case in [&PROCESSOR[..], &GRAPHICS, &H200, &SMOKE].concat() {
            let name = case.split(' ').next().unwrap_or_default();
            assert!(NETWORKS.iter().any(|(network, _)| *network == name) || parse(case).is_ok(), "{case}");
        }
    }
}
