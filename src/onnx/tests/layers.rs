//! Recurrent layers against ONNX Runtime's numbers, and operators made of several others against numbers worked out by hand.

use anydnn_backend::Dims;
use anydnn_backend::conformance::values::Random;

use super::*;
use crate::graph::OpKind;

#[track_caller]
fn near(found: &HostTensor, expected: &[f32]) {
    assert_close(found, expected, 1e-5);
}

/// A layer of two hidden elements over two steps of two elements, with small weights that go round.
fn recurrent(operator: &str, gates: i64, attributes: Vec<AttributeProto>) -> Vec<HostTensor> {
    let round = |count: i64, by: i64, less: i64, unit: f32| -> Vec<f32> {
        (0..count).map(|i| (i % by - less) as f32 * unit).collect()
    };
    let outputs = if operator == "LSTM" { "y, h, c" } else { "y, h" };
    let draft = Draft::new(14)
        .input("x", &["2", "1", "2"])
        .floats("w", &[1, gates * 2, 2], &round(gates * 4, 5, 2, 0.25))
        .floats("r", &[1, gates * 2, 2], &round(gates * 4, 3, 1, 0.5))
        .floats("b", &[1, gates * 4], &round(gates * 4, 4, 1, 0.125))
        .node(&format!("{outputs} = {operator}(x, w, r, b)"), attributes)
        .output("y")
        .output("h");
    let draft = if operator == "LSTM" { draft.output("c") } else { draft };
    draft.run(&[], &[tensor([2, 1, 2], &[1.0, -1.0, 0.5, 2.0])]).unwrap()
}

#[test]
fn layers_keep_their_state() {
    let made = recurrent("LSTM", 4, vec![]);
    assert_eq!((made[0].dims().to_vec(), made[2].dims().to_vec()), (vec![2, 1, 1, 2], vec![1, 1, 2]));
    near(&made[0], &[0.0, 0.211_813_76, 0.068_132_5, -0.039_989]);
    near(&made[1], &[0.068_132_5, -0.039_989]);
    near(&made[2], &[0.170_817_88, -0.067_575_69]);
    let made = recurrent("LSTM", 4, vec![word("direction", "reverse")]);
    near(&made[0], &[0.042_879_54, 0.188_571_63, 0.063_870_68, -0.089_659_62]);
    near(&made[1], &[0.042_879_54, 0.188_571_63]);
    near(&recurrent("GRU", 3, vec![])[0], &[-0.137_687_5, 0.0, 0.485_958_58, -0.155_272_9]);
    let made = recurrent("GRU", 3, vec![int("linear_before_reset", 1)]);
    near(&made[0], &[-0.155_301_23, -0.062_176_5, 0.458_432_38, -0.226_220_41]);
    near(&recurrent("RNN", 1, vec![])[0], &[-0.244_918_64, 0.0, -0.556_356_5, 0.556_356_43]);
}

/// A layer of `steps` steps, a batch of three, four inputs and five hidden units with every operand that it can have.
struct Whole {
    operator: &'static str,
    gates: i64,
    steps: i64,
    attributes: Vec<AttributeProto>,
    lengths: Option<Vec<i32>>,
}

impl Whole {
    fn new(operator: &'static str, gates: i64, steps: i64) -> Self {
        Self { operator, gates, steps, attributes: Vec::new(), lengths: None }
    }

    fn with(mut self, attribute: AttributeProto) -> Self {
        self.attributes.push(attribute);
        self
    }

    /// The operands by name, with dimensions and values.
    fn operands(&self) -> Vec<(&'static str, Vec<i64>, Vec<f32>)> {
        let is = |value: &str| self.attributes.iter().any(|a| a.s.as_deref() == Some(value.as_bytes()));
        let batch_first = self.attributes.iter().any(|a| a.name.as_deref() == Some("layout"));
        let (d, rows) = (if is("bidirectional") { 2 } else { 1 }, self.gates * 5);
        let first = |a: i64, b: i64, c: i64| if batch_first { vec![b, a, c] } else { vec![a, b, c] };
        let mut list = vec![
            ("x", first(self.steps, 3, 4)),
            ("w", vec![d, rows, 4]),
            ("r", vec![d, rows, 5]),
            ("b", vec![d, 2 * rows]),
            ("h0", first(d, 3, 5)),
        ];
        if self.operator == "LSTM" {
            list.extend([("c0", first(d, 3, 5)), ("p", vec![d, 15])]);
        }
        let mut random = Random::new(7);
        let mut values =
            |dims: Vec<i64>| (0..dims.iter().product()).map(|_| random.unit() as f32 - 0.5).collect();
        list.into_iter().map(|(name, dims)| (name, dims.clone(), values(dims))).collect()
    }

    /// The layer with its operands as inputs, which the graph's operation computes, or as constants, which a function of the importer does.
    fn draft(&self, known: bool) -> Draft {
        let mut draft = Draft::new(14);
        for (name, dims, values) in self.operands() {
            let texts: Vec<String> = dims.iter().map(i64::to_string).collect();
            draft = if known {
                draft.floats(name, &dims, &values)
            } else {
                draft.input(name, &texts.iter().map(String::as_str).collect::<Vec<_>>())
            };
        }
        if let Some(lengths) = &self.lengths {
            draft.graph.initializer.push(TensorProto {
                name: Some("n".into()),
                dims: vec![lengths.len() as i64],
                data_type: Some(6),
                raw_data: Some(lengths.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>().into()),
                ..TensorProto::default()
            });
        }
        let (n, lstm) = (if self.lengths.is_some() { "n" } else { "" }, self.operator == "LSTM");
        let (made, more) = if lstm { ("y, h, c", ", c0, p") } else { ("y, h", "") };
        let call = format!("{made} = {}(x, w, r, b, {n}, h0{more})", self.operator);
        let draft = draft.node(&call, self.attributes.clone()).output("y").output("h");
        if lstm { draft.output("c") } else { draft }
    }

    #[track_caller]
    fn agrees(self) {
        let operands = self.operands().into_iter().map(|(_, dims, values)| {
            HostTensor::from_f32(dims.iter().map(|&dim| dim as usize).collect::<Dims>(), &values).unwrap()
        });
        let model = self.draft(false).load().unwrap().graph(&[]).unwrap();
        let kinds: Vec<OpKind> = model.graph.ops().iter().map(|op| op.kind).collect();
        assert!(kinds.contains(&OpKind::Recurrent), "{kinds:?}");
        let made = run(&model, &operands.collect::<Vec<_>>()).unwrap();
        let expected = self.draft(true).run(&[], &[]).unwrap();
        for (made, expected) in made.iter().zip(&expected) {
            assert_eq!(made.dims(), expected.dims());
            near(made, &expected.to_f32s());
        }
    }
}

#[test]
fn layers_of_every_kind_agree_with_steps_one_after_the_other() {
    for steps in [1, 200] {
        for direction in ["forward", "reverse", "bidirectional"] {
            for (operator, gates) in [("LSTM", 4), ("GRU", 3), ("RNN", 1)] {
                let layer = || Whole::new(operator, gates, steps).with(word("direction", direction));
                layer().agrees();
                layer().with(int("layout", 1)).agrees();
                Whole { lengths: Some(vec![steps as i32, 0, steps as i32 / 2]), ..layer() }.agrees();
            }
            let layer = || Whole::new("GRU", 3, steps).with(word("direction", direction));
            layer().with(int("linear_before_reset", 1)).agrees();
        }
    }
    for function in ["Relu", "sigmoid", "Tanh"] {
        let functions = AttributeProto {
            strings: vec![function.as_bytes().to_vec().into()],
            ..attribute("activations", 8)
        };
        Whole::new("RNN", 1, 3).with(functions).agrees();
    }
}

#[test]
fn layers_refuse_what_does_not_fit() {
    let long = Whole { lengths: Some(vec![4, 5, 1]), ..Whole::new("LSTM", 4, 4) };
    let error = long.draft(false).refused();
    assert!(error.contains("sequence_lens") && error.contains('5') && error.contains("0 to 4"), "{error}");
    let mut draft = Whole::new("GRU", 3, 4).draft(false);
    draft.graph.input.truncate(4);
    let error = draft.input("h0", &["1", "2", "5"]).refused();
    assert!(error.contains("input 5") && error.contains("1x2x5") && error.contains("1x3x5"), "{error}");
}

#[test]
fn extremes_sums_and_triangles() {
    let x = tensor([2, 3], &[1.0, 5.0, 5.0, -2.0, -7.0, 0.0]);
    let y = |text: &str, attributes: Vec<AttributeProto>| {
        let draft = Draft::new(14).input("x", &["2", "3"]).ints("k", &[], &[1]).node(text, attributes);
        let made = draft.output("y").run(&[], std::slice::from_ref(&x)).unwrap().remove(0);
        (made.dims().to_vec(), made.to_f64s())
    };
    assert_eq!(y("y = ArgMax(x)", vec![int("axis", 1)]), (vec![2, 1], vec![1.0, 2.0]));
    let last = vec![int("axis", -1), int("select_last_index", 1), int("keepdims", 0)];
    assert_eq!(y("y = ArgMax(x)", last), (vec![2], vec![2.0, 2.0]));
    assert_eq!(y("y = ArgMin(x)", vec![]), (vec![1, 3], vec![1.0, 1.0, 1.0]));
    assert_eq!(y("y = CumSum(x, k)", vec![]).1, [1.0, 6.0, 11.0, -2.0, -9.0, -9.0]);
    let behind = vec![int("exclusive", 1), int("reverse", 1)];
    assert_eq!(y("y = CumSum(x, k)", behind).1, [10.0, 5.0, 0.0, -7.0, 0.0, 0.0]);
    assert_eq!(y("y = Trilu(x, k)", vec![]).1, [0.0, 5.0, 5.0, 0.0, 0.0, 0.0]);
    assert_eq!(y("y = Trilu(x)", vec![int("upper", 0)]).1, [1.0, 0.0, 0.0, -2.0, -7.0, 0.0]);
}

#[test]
fn one_place_is_hot() {
    let draft = Draft::new(13)
        .input("x", &["3"])
        .ints("d", &[1], &[3])
        .floats("v", &[2], &[-1.0, 4.0])
        .node("i = Cast(x)", vec![int("to", 7)])
        .node("y = OneHot(i, d, v)", vec![])
        .output("y");
    let made = draft.run(&[], &[tensor([3], &[0.0, -1.0, 7.0])]).unwrap();
    assert_eq!(made[0].to_f32s(), [4.0, -1.0, -1.0, -1.0, -1.0, 4.0, -1.0, -1.0, -1.0]);
}

/// Channels in another order, and parts of them, between convolutions: whatever the order of what lies in memory, they are those that are gathered.
#[test]
fn shuffled_channels_are_those_that_are_gathered() {
    let numbers = |count: usize| (0..count).map(|i| (i * 7 % 11) as f32 / 8.0 - 0.5).collect::<Vec<_>>();
    let draft = |shuffles: bool| {
        let draft = Draft::new(13)
            .input("x", &["1", "2", "3", "5"])
            .floats("first", &[6, 2, 3, 3], &numbers(108))
            .floats("each", &[6, 1, 3, 3], &numbers(54))
            .floats("last", &[4, 6, 1, 1], &numbers(24))
            .ints("apart", &[5], &[1, 3, 2, 3, 5])
            .ints("together", &[4], &[1, 6, 3, 5])
            .ints("order", &[6], &[0, 2, 4, 1, 3, 5])
            .ints("low", &[3], &[0, 1, 2])
            .ints("high", &[3], &[3, 4, 5])
            .ints("zero", &[1], &[0])
            .ints("half", &[1], &[3])
            .ints("all", &[1], &[6])
            .ints("axis", &[1], &[1])
            .node("c = Conv(x, first)", vec![ints("pads", &[1, 1, 1, 1])]);
        let along = || vec![int("axis", 1)];
        let draft = if shuffles {
            let draft = draft.node("g = Reshape(c, apart)", vec![]);
            let draft = draft.node("t = Transpose(g)", vec![ints("perm", &[0, 2, 1, 3, 4])]);
            draft.node("s = Reshape(t, together)", vec![])
        } else {
            draft.node("s = Gather(c, order)", along())
        };
        let draft = draft.node("d = Conv(s, each)", vec![ints("pads", &[1, 1, 1, 1]), int("group", 6)]);
        let draft = if shuffles {
            let draft = draft.node("a = Slice(d, zero, half, axis)", vec![]);
            draft.node("b = Slice(d, half, all, axis)", vec![])
        } else {
            draft.node("a = Gather(d, low)", along()).node("b = Gather(d, high)", along())
        };
        draft.node("j = Concat(b, a)", along()).node("y = Conv(j, last)", vec![]).output("y")
    };
    let x = tensor([1, 2, 3, 5], &numbers(30));
    let [shuffled, gathered] =
        [true, false].map(|shuffles| draft(shuffles).run(&[], std::slice::from_ref(&x)).unwrap());
    assert_eq!(shuffled, gathered);
}
