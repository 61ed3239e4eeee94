use std::convert::Infallible;

use approx::{assert_abs_diff_eq, assert_relative_eq, relative_eq};

use super::*;

#[test]
fn erf_matches_published_values() {
    // Abramowitz and Stegun, table 7.1; and erfc(3) from NIST DLMF 7.
    let erf = |x: f64| Eltwise::Erf.reference(x);
    for (x, expected) in [
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (3.0, 0.999_977_909_503_001_4),
    ] {
        assert_abs_diff_eq!(erf(x), expected, epsilon = 1e-14);
        assert_abs_diff_eq!(erf(-x), -expected, epsilon = 1e-14);
    }
}

#[test]
fn functions_meet_known_points() {
    let at = |f: Eltwise, x: f64| f.reference(x);
    assert_abs_diff_eq!(at(Eltwise::GeluErf, 1.0), 0.841_344_746_068_542_9, epsilon = 1e-12);
    // x/2 * (1 + tanh(sqrt(2/pi) * 1.044715)), with the hyperbolic tangent of 0.833561 from a table.
    assert_abs_diff_eq!(at(Eltwise::GeluTanh, 1.0), 0.841_191_990_608_303, epsilon = 1e-9);
    assert_abs_diff_eq!(at(Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }, -3.1), 0.0, epsilon = 1e-12);
    assert_abs_diff_eq!(at(Eltwise::SoftPlus { beta: 2.0 }, 0.0), 2f64.ln() / 2.0, epsilon = 1e-12);
    assert_abs_diff_eq!(at(Eltwise::SoftPlus { beta: 1.0 }, 1000.0), 1000.0, epsilon = 1e-9);
    assert_abs_diff_eq!(at(Eltwise::Round, 2.5), 2.0);
    assert_abs_diff_eq!(at(Eltwise::Round, -1.5), -2.0);
}

#[test]
fn gelu_keeps_its_relative_accuracy_in_the_tail() {
    // Phi(-5) = 2.866515718791939e-7 (standard normal table).
    let mut x = [-5.0];
    Eltwise::GeluErf.apply(&mut x);
    assert_relative_eq!(f64::from(x[0]), -5.0 * 2.866_515_718_791_939e-7, max_relative = 1e-6);
}

#[test]
fn nan_stays() {
    for row in Eltwise::TABLE {
        assert!(row.example.reference(f64::NAN).is_nan(), "{}", row.name);
        let mut values = [f32::NAN];
        row.example.apply(&mut values);
        assert!(values[0].is_nan(), "{}", row.name);
    }
}

#[test]
fn slopes_are_those_of_the_values() {
    for row in Eltwise::TABLE {
        let of = |x: f64| row.example.reference(x);
        for i in -40..40 {
            // Off the kinks and steps of every function, and within every domain.
            let x = f64::from(i) * 0.17 + 0.031;
            let step = 1e-5;
            let (low, high) = (of(x - step), of(x + step));
            if !low.is_finite() || !high.is_finite() {
                continue;
            }
            let expected = (high - low) / (2.0 * step);
            let actual = row.example.gradient(false, x, 1.0);
            let near = |a: f64| relative_eq!(a, expected, epsilon = 1e-5, max_relative = 1e-5);
            assert!(near(actual), "{} at {x}: {actual}, expected {expected}", row.name);
            if row.example.has_gradient_of_result() {
                let actual = row.example.gradient(true, of(x), 1.0);
                assert!(near(actual), "{} of the result at {x}: {actual}, expected {expected}", row.name);
            }
        }
    }
}

#[test]
fn rows_are_sorted_whole_and_different() {
    let mut names = Vec::new();
    for row in Eltwise::TABLE {
        names.push(row.name);
        assert_eq!(row.example.row().name, row.name);
        assert_eq!(row.example.parameters().len(), row.parameters.len());
        for spelling in row.graph.iter().chain(&row.onnx) {
            assert_eq!(spelling.parameters.len(), row.parameters.len(), "{}", row.name);
        }
        for name in std::iter::once(&row.name).chain(row.aliases) {
            assert_eq!(Function::named(name).map(|found| found.name), Some(row.name));
        }
        assert!(row.onednn.len() <= 3 && row.parameters.len() <= 2);
    }
    assert!(names.is_sorted_by(|a, b| a < b));
}

/// Attributes that tell their names' lengths.
struct Lengths;

impl Attributes<Infallible> for Lengths {
    fn number(&self, name: &str, absent: Option<f32>) -> Result<f32, Infallible> {
        Ok(absent.unwrap_or(name.len() as f32))
    }

    fn is(&self, name: &str, word: &str) -> bool {
        (name, word) == ("mode", "gelu_tanh")
    }
}

#[test]
fn operations_of_other_vocabularies_are_found_with_their_parameters() {
    let graph = |name: &str| Function::of_graph(name, &Lengths).unwrap();
    let onnx = |name: &str| Function::of_onnx(name, &Lengths).unwrap();
    assert_eq!(graph("Clamp"), Some(Eltwise::Clamp { min: 3.0, max: 3.0 }));
    assert_eq!(graph("GELU"), Some(Eltwise::GeluTanh));
    assert_eq!(onnx("Gelu"), Some(Eltwise::GeluErf));
    assert_eq!(graph("HardSwish"), Some(Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }));
    assert_eq!(graph("Pow"), Some(Eltwise::Pow { alpha: 1.0, beta: 4.0 }));
    assert_eq!(onnx("LeakyRelu"), Some(Eltwise::LeakyRelu { alpha: 0.01 }));
    assert_eq!([graph("MatMul"), onnx("Clip"), graph("Swish")], [None; 3]);
    assert!(Function::is_graph("ReLU") && !Function::is_graph("Relu"));
}

#[test]
fn algorithm_kinds_of_onednn_are_found() {
    let name = |kind: i32| Function::of_onednn(kind).map(|row| row.name);
    assert_eq!(name(0x20), Some("leaky_relu"));
    assert_eq!([name(0x28), name(0x104), name(0x35)], [Some("hard_sigmoid"), Some("sigmoid"), None]);
}
