//! Comparison with what another program computes from the same file and inputs.

use std::path::Path;

use anydnn::model::HostTensor;
use serde_json::{Value, json};

use crate::bench::{ModelFile, Peer, PeerKind, Prepared};
use crate::failure::{Code, Failure};

/// The least cosine of the angle between the results.
const COSINE: f64 = 0.9999;

/// The comparison of one output.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    output: String,
    elements: usize,
    /// The largest difference of two elements.
    difference: f64,
    cosine: f64,
}

impl Compared {
    pub(super) fn new(output: &str, actual: &[f32], expected: &[f32]) -> Self {
        let difference = |(a, b): (&f32, &f32)| {
            // Equal infinities have no difference, nor have what both times is no number.
            let is_same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            if is_same { 0.0 } else { f64::from((a - b).abs()) }
        };
        // A maximum that keeps what is not a number.
        let most = |most: f64, next: f64| if next <= most { most } else { next };
        // Those have no angle either; where only one of two is finite the difference tells.
        let (mut product, mut squares) = (0.0, [0.0; 2]);
        for (&a, &b) in actual.iter().zip(expected).filter(|(a, b)| a.is_finite() && b.is_finite()) {
            let (a, b) = (f64::from(a), f64::from(b));
            product += a * b;
            squares = [squares[0] + a * a, squares[1] + b * b];
        }
        let difference = actual.iter().zip(expected).map(difference).fold(0.0, most);
        let cosine = if difference == 0.0 { 1.0 } else { product / (squares[0] * squares[1]).sqrt() };
        Self { output: output.to_owned(), elements: actual.len(), difference, cosine }
    }

    pub(super) fn passed(&self) -> bool {
        self.cosine >= COSINE && self.difference.is_finite()
    }

    pub(super) fn describe(&self) -> String {
        let Self { output, elements, difference, cosine } = self;
        format!(
            "{output}: {elements} elements, max difference {difference:.2e}, cosine {cosine:.7} (at least {COSINE})"
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "output": self.output,
            "elements": self.elements,
            "passed": self.passed(),
            "max_difference": self.difference,
            "cosine": self.cosine,
        })
    }
}

/// Compares outputs with those of ONNX Runtime.
pub(super) fn onnxruntime(
    file: &Path,
    inputs: &[(String, HostTensor)],
    outputs: &[(String, HostTensor)],
) -> Result<Vec<Compared>, Failure> {
    let mut peer = Peer::start(PeerKind::Onnxruntime, "", false, None)?;
    let names: Vec<String> = outputs.iter().map(|(name, _)| name.clone()).collect();
    let told = ModelFile::new(file, &names, &[inputs.to_vec()])?;
    if let Prepared::Refused(why) = peer.prepare(told.json())? {
        let help = "without `onnxruntime` behind --check the host is compared with";
        return Err(Failure::new(Code::Unavailable, format!("--check onnxruntime: {why}"), help));
    }
    let theirs = peer.outputs()?;
    let own: usize = outputs.iter().map(|(_, tensor)| tensor.desc().elements()).sum();
    if theirs.len() != own {
        let message = format!("ONNX Runtime's outputs have {} elements, expected {own}", theirs.len());
        return Err(Failure::new(Code::Check, message, "`anydnn graph` shows the shapes of every tensor"));
    }
    let mut rest = &theirs[..];
    let compared = outputs.iter().map(|(name, tensor)| {
        let (expected, behind) = rest.split_at(tensor.desc().elements());
        rest = behind;
        Compared::new(name, &tensor.to_f32s(), expected)
    });
    Ok(compared.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_must_point_the_same_way() {
        let same = Compared::new("y", &[1.0, f32::INFINITY], &[1.0, f32::INFINITY]);
        assert!(same.passed() && same.difference == 0.0, "{same:?}");
        assert!(Compared::new("y", &[1.0, 2.0], &[1.0, 2.001]).passed());
        assert!(!Compared::new("y", &[1.0, 2.0], &[1.0, -2.0]).passed());
        assert!(!Compared::new("y", &[1.0, f32::NAN], &[1.0, 2.0]).passed());
        assert!(!Compared::new("y", &[1.0, 2.0], &[1.0, f32::INFINITY]).passed());
        assert!(
            Compared::new("y", &[1.0, f32::NAN, f32::INFINITY], &[1.001, -f32::NAN, f32::INFINITY]).passed()
        );
        assert!(!Compared::new("y", &[0.0], &[1.0]).passed());
    }
}
