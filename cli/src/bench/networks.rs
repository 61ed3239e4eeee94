//! Graphs that are built in.

use anydnn::backend::{DataType, Result};
use anydnn::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};

use super::graphs::attention;

/// The built-in graphs with what they are.
pub(crate) const NETWORKS: [(&str, &str); 4] = [
    ("bert4", "four encoder layers: 128 tokens of 768, 12 heads, 3072 in between, GELU"),
    ("resnet-stage", "four bottleneck blocks of 1x1, 3x3, 1x1 convolutions: 56x56, 256-64-64-256"),
    ("gated-mlp", "(swish(x G) . (x U)) D: 32 rows, 4096-11008-4096"),
    ("chain100", "100 products of 16x16 matrices that depend on one another: the cost of launches"),
];

/// A built-in graph by its name.
pub(crate) fn network(name: &str, data_type: DataType) -> Option<Result<Graph>> {
    match name {
        "bert4" => Some(encoder(4, 128, 768, 12, 3072, data_type)),
        "resnet-stage" => Some(bottlenecks(4, 56, 256, 64, data_type)),
        "gated-mlp" => Some(gated_mlp(32, 4096, 11008, data_type)),
        "chain100" => Some(chain(100, 16, data_type)),
        _ => None,
    }
}

fn encoder(
    layers: usize,
    tokens: usize,
    width: usize,
    heads: usize,
    inner: usize,
    t: DataType,
) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let mut x = g.input("tokens", t, [1, tokens, width]);
    let size = width / heads;
    for layer in 0..layers {
        let mut block = Block { g: &mut g, prefix: format!("l{layer}"), t };
        let split = |block: &mut Block<'_>, name: &str, x: TensorId| {
            let x = block.linear(name, x, width, width)?;
            let shape = Attrs::new().with("shape", [1, tokens as i64, heads as i64, size as i64]);
            let x = block.op(
                &format!("{name}_heads"),
                OpKind::StaticReshape,
                &[x],
                shape.with("special_zero", false),
            )?;
            block.op(
                &format!("{name}_first"),
                OpKind::StaticTranspose,
                &[x],
                Attrs::new().with("order", [0, 2, 1, 3]),
            )
        };
        let (q, k, v) =
            (split(&mut block, "query", x)?, split(&mut block, "key", x)?, split(&mut block, "value", x)?);
        let name = block.name("attention");
        let y = attention(block.g, &name, [q, k, v], [1, heads, heads, tokens, tokens, size], false, t)?;
        let y = block.op("last", OpKind::StaticTranspose, &[y], Attrs::new().with("order", [0, 2, 1, 3]))?;
        let shape = Attrs::new().with("shape", [1, tokens as i64, width as i64]).with("special_zero", false);
        let y = block.op("joined", OpKind::StaticReshape, &[y], shape)?;
        let y = block.linear("mixed", y, width, width)?;
        let y = block.op("first_sum", OpKind::Add, &[y, x], Attrs::new())?;
        let x1 = block.norm("first_norm", y, width)?;
        let y = block.linear("widened", x1, width, inner)?;
        let y = block.op("gelu", OpKind::GELU, &[y], Attrs::new().with("mode", "gelu_erf"))?;
        let y = block.linear("narrowed", y, inner, width)?;
        let y = block.op("second_sum", OpKind::Add, &[y, x1], Attrs::new())?;
        x = block.norm("second_norm", y, width)?;
    }
    g.output(x);
    g.build()
}

fn bottlenecks(blocks: usize, size: usize, wide: usize, narrow: usize, t: DataType) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let mut x = g.input("image", t, [1, size, size, wide]);
    for number in 0..blocks {
        let mut block = Block { g: &mut g, prefix: format!("b{number}"), t };
        let y = block.convolution("reduce", x, 1, wide, narrow)?;
        let y = block.op("relu1", OpKind::ReLU, &[y], Attrs::new())?;
        let y = block.convolution("middle", y, 3, narrow, narrow)?;
        let y = block.op("relu2", OpKind::ReLU, &[y], Attrs::new())?;
        let y = block.convolution("expand", y, 1, narrow, wide)?;
        let y = block.op("sum", OpKind::Add, &[y, x], Attrs::new())?;
        x = block.op("relu3", OpKind::ReLU, &[y], Attrs::new())?;
    }
    g.output(x);
    g.build()
}

fn gated_mlp(rows: usize, width: usize, hidden: usize, t: DataType) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let x = g.input("x", t, [rows, width]);
    let [up, gate] = ["up", "gate"].map(|name| g.constant(name, t, [width, hidden]));
    let down = g.constant("down", t, [hidden, width]);
    let u = g.op("u", OpKind::MatMul, &[x, up], Attrs::new())?;
    let s = g.op("s", OpKind::MatMul, &[x, gate], Attrs::new())?;
    let sigmoid = g.op("sigmoid", OpKind::Sigmoid, &[s], Attrs::new())?;
    let swish = g.op("swish", OpKind::Multiply, &[s, sigmoid], Attrs::new())?;
    let gated = g.op("gated", OpKind::Multiply, &[swish, u], Attrs::new())?;
    g.op("out", OpKind::MatMul, &[gated, down], Attrs::new())?;
    g.build()
}

fn chain(length: usize, size: usize, t: DataType) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let mut x = g.input("x", t, [size, size]);
    let weights = g.constant("weights", t, [size, size]);
    for step in 0..length {
        x = g.op(&format!("step{step}"), OpKind::MatMul, &[x, weights], Attrs::new())?;
    }
    g.output(x);
    g.build()
}

/// A repeated part, with names of its own.
struct Block<'a> {
    g: &'a mut GraphBuilder,
    prefix: String,
    t: DataType,
}

impl Block<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}_{name}", self.prefix)
    }

    fn op(&mut self, name: &str, kind: OpKind, inputs: &[TensorId], attrs: Attrs) -> Result<TensorId> {
        let name = self.name(name);
        self.g.op(&name, kind, inputs, attrs)
    }

    fn linear(&mut self, name: &str, x: TensorId, from: usize, to: usize) -> Result<TensorId> {
        let weights = self.g.constant(&self.name(&format!("{name}_weights")), self.t, [from, to]);
        let bias = self.g.constant(&self.name(&format!("{name}_bias")), self.t, [to]);
        self.op(name, OpKind::MatMul, &[x, weights, bias], Attrs::new())
    }

    fn norm(&mut self, name: &str, x: TensorId, width: usize) -> Result<TensorId> {
        let [gamma, beta] = ["gamma", "beta"]
            .map(|part| self.g.constant(&self.name(&format!("{name}_{part}")), DataType::F32, [width]));
        let attrs = Attrs::new().with("begin_norm_axis", -1_i64).with("keep_stats", false);
        self.op(name, OpKind::LayerNorm, &[x, gamma, beta], attrs)
    }

    fn convolution(
        &mut self,
        name: &str,
        x: TensorId,
        kernel: usize,
        from: usize,
        to: usize,
    ) -> Result<TensorId> {
        let weights =
            self.g.constant(&self.name(&format!("{name}_weights")), self.t, [kernel, kernel, from, to]);
        let bias = self.g.constant(&self.name(&format!("{name}_bias")), self.t, [to]);
        let pad = (kernel / 2) as i64;
        let attrs = Attrs::new()
            .with("strides", [1, 1])
            .with("dilations", [1, 1])
            .with("pads_begin", [pad, pad])
            .with("pads_end", [pad, pad])
            .with("data_format", "NXC")
            .with("weights_format", "XIO");
        self.op(name, OpKind::Convolution, &[x, weights, bias], attrs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_is_a_graph() {
        for (name, _) in NETWORKS {
            let graph = network(name, DataType::F32).expect("it is built in").expect("it is well formed");
            assert_eq!((graph.inputs().len(), graph.outputs().len()), (1, 1), "{name}");
        }
        assert!(network("bert5", DataType::F32).is_none());
    }
}
