//! What a match keeps, and what belongs to none.

use anydnn_backend::DataType::F32;

use super::{Expr, Formula, Match, Matcher, Scope, Web, any, at_least, find_map, it, number, op};
use crate::graph::OpKind::{Add, Exp, MatMul, Multiply, ReLU, SoftMax, Tanh, TypeCast};
use crate::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};

/// A graph where anything is to be had, whose constants hold their own identities.
struct Whole(Graph);

impl Scope for Whole {
    fn graph(&self) -> &Graph {
        &self.0
    }

    fn is_free(&self, _op: usize) -> bool {
        true
    }

    fn is_result(&self, tensor: TensorId) -> bool {
        self.0.outputs().contains(&tensor)
    }

    fn leaves(&self, ops: &[usize], tensor: TensorId) -> bool {
        self.is_result(tensor) || self.0.consumers(tensor).iter().any(|reader| !ops.contains(reader))
    }

    fn number(&self, tensor: TensorId) -> Option<f64> {
        self.0.constants().any(|constant| constant.id == tensor).then_some(tensor.0 as f64)
    }
}

#[derive(Default)]
struct Net(GraphBuilder);

impl Net {
    fn x(&mut self, dims: [usize; 2]) -> TensorId {
        self.0.input("x", F32, dims)
    }

    fn op(&mut self, kind: OpKind, inputs: &[TensorId]) -> TensorId {
        let attrs = if kind == SoftMax { Attrs::new().with("axis", 1_i64) } else { Attrs::new() };
        self.0.op(kind.name(), kind, inputs, attrs).unwrap()
    }

    fn scope(&self) -> Whole {
        Whole(self.0.clone().build().unwrap())
    }
}

/// The match that the last operation ends.
fn find(scope: &Whole, expr: Expr) -> Option<Match> {
    Matcher::new(scope).find(&Formula::new(expr), scope.0.ops().len() - 1)
}

#[test]
fn a_match_keeps_what_stands_for_each_name() {
    let mut net = Net::default();
    let (x, w, other) = (net.x([4, 8]), net.x([8, 6]), net.x([4, 6]));
    let product = net.op(MatMul, &[x, w]);
    let tanh = net.op(Tanh, &[product]);
    let relu = net.op(ReLU, &[tanh]);
    net.op(Add, &[other, relu]);
    let chain = op(MatMul).of([any().named("x"), any().named("w")]).capture("product");
    let links = [Tanh, ReLU].map(|kind| vec![op(kind).of([it()]).capture("link").into()]);
    let sum = op(Add).of([chain.repeat(0..=4, links.to_vec()), any().named("other")]);
    let found = find(&net.scope(), sum).unwrap();
    assert_eq!(found.ops, [0, 1, 2, 3]);
    assert_eq!(found.op("product"), Some(0));
    assert_eq!(found.all("link").collect::<Vec<_>>(), [2, 1]);
    let named = ["x", "w", "other", "nothing"].map(|name| found.tensor(name));
    assert_eq!(named, [Some(x), Some(w), Some(other), None]);
}

/// Both factors can be the first one.
#[test]
fn another_match_is_tried_where_nothing_is_made_of_one() {
    let mut net = Net::default();
    let (x, y) = (net.x([4, 8]), net.x([4, 8]));
    let (a, b) = (net.op(Exp, &[x]), net.op(Exp, &[y]));
    net.op(Multiply, &[a, b]);
    let scope = net.scope();
    let factor = |name| op(Exp).of([any().named(name)]);
    let formula = Formula::new(op(Multiply).of([factor("first"), factor("second")]));
    for wanted in [x, y] {
        let mut tried = 0;
        let made = find_map(&scope, &formula, 2, |found| {
            tried += 1;
            found.tensor("first").filter(|&first| first == wanted)
        });
        assert_eq!((made, tried), (Some(wanted), if wanted == x { 1 } else { 2 }));
    }
    assert_eq!(find_map(&scope, &formula, 2, |_| None::<()>), None);
}

#[test]
fn numbers_are_what_constants_hold() {
    let mut net = Net::default();
    let x = net.x([4, 8]);
    let constant = net.0.constant("c", F32, [1]);
    let given = constant.0 as f64;
    let sum = net.op(Add, &[constant, x]);
    net.op(Exp, &[sum]);
    let scope = net.scope();
    let fits = |expr: Expr| find(&scope, op(Add).of([any(), expr]).then(Exp)).is_some();
    assert!(fits(number(given)) && fits(number(given * 1.0005)) && fits(at_least(given)));
    assert!(!fits(number(given * 1.01)) && !fits(number(-given)) && !fits(at_least(given + 0.1)));
}

fn web() -> Expr {
    let kinds = vec![Exp, Tanh, Add, Multiply, TypeCast];
    let web = Web { kinds: kinds.clone(), capture: "web", aside: (kinds, "aside") };
    op(MatMul).capture("product").then(web).then(SoftMax)
}

#[test]
fn a_web_is_whatever_hangs_together_and_what_is_made_for_it_alone() {
    for is_seen in [false, true] {
        let mut net = Net::default();
        let (x, w, mask) = (net.x([4, 8]), net.x([8, 6]), net.x([4, 6]));
        let y = net.op(MatMul, &[x, w]);
        let (a, b) = (net.op(Exp, &[y]), net.op(Tanh, &[y]));
        let c = net.op(Add, &[a, b]);
        let mask = net.op(Exp, &[mask]);
        let d = net.op(Multiply, &[c, mask]);
        let p = net.op(SoftMax, &[d]);
        net.0.output(p);
        if is_seen {
            net.0.output(a);
        }
        let scope = net.scope();
        let softmax = scope.0.ops().iter().position(|op| op.kind == SoftMax).unwrap();
        let found = Matcher::new(&scope).find(&Formula::new(web()), softmax);
        assert_eq!(found.is_none(), is_seen, "what is seen outside belongs to no web");
        let Some(found) = found else { continue };
        let kinds = |name| {
            let mut kinds: Vec<_> = found.all(name).map(|op| scope.0.ops()[op].kind).collect();
            kinds.sort_unstable();
            kinds
        };
        let mut inner = vec![Add, Exp, Multiply, Tanh];
        inner.sort_unstable();
        assert_eq!((kinds("product"), kinds("web"), kinds("aside")), (vec![MatMul], inner, vec![Exp]));
        assert_eq!(found.ops.len(), 7);
    }
}

#[test]
fn an_operation_beside_a_match_is_none_of_it() {
    let mut net = Net::default();
    let x = net.x([4, 8]);
    let y = net.op(Exp, &[x]);
    let sum = net.op(Add, &[y, y]);
    let z = net.op(ReLU, &[sum]);
    net.0.output(y);
    net.0.output(z);
    let scope = net.scope();
    let pair = |operand: Expr| op(Add).of([operand.clone(), operand]).then(ReLU);
    assert!(find(&scope, pair(op(Exp))).is_none(), "it is seen outside");
    let found = find(&scope, pair(op(Exp).beside().capture("exp"))).unwrap();
    assert_eq!((found.ops.clone(), found.all("exp").collect::<Vec<_>>()), (vec![1, 2], vec![0, 0]));
}
