//! Words to build graphs with.

use anydnn_backend::DataType::{self, F32};

use crate::graph::{Attrs, GraphBuilder, LogicalTensor, OpKind as K, TensorId};

/// A graph being built; operations are named by their kind.
#[derive(Debug, Default)]
pub(super) struct Net(pub(super) GraphBuilder);

impl Net {
    pub(super) fn input(&mut self, data_type: DataType, dims: &[usize]) -> TensorId {
        self.0.input("input", data_type, dims.to_vec())
    }

    pub(super) fn x(&mut self, dims: &[usize]) -> TensorId {
        self.input(F32, dims)
    }

    pub(super) fn weights(&mut self, data_type: DataType, dims: &[usize]) -> TensorId {
        self.0.constant("weights", data_type, dims.to_vec())
    }

    pub(super) fn op(&mut self, kind: K, inputs: &[TensorId], attrs: Attrs) -> TensorId {
        self.0.op(&kind.to_string(), kind, inputs, attrs).unwrap()
    }

    pub(super) fn ops(
        &mut self,
        kind: K,
        inputs: &[TensorId],
        attrs: Attrs,
        outputs: usize,
    ) -> Vec<TensorId> {
        self.0.op_multi(&kind.to_string(), kind, inputs, attrs, outputs).unwrap()
    }

    pub(super) fn plain(&mut self, kind: K, inputs: &[TensorId]) -> TensorId {
        self.op(kind, inputs, Attrs::new())
    }

    /// An operation whose result has a type of its own.
    pub(super) fn typed(
        &mut self,
        kind: K,
        inputs: &[TensorId],
        attrs: Attrs,
        data_type: DataType,
    ) -> TensorId {
        let id = self.op(kind, inputs, attrs);
        let tensor = LogicalTensor { data_type: Some(data_type), ..LogicalTensor::unknown(id) };
        self.0.add_tensor(tensor).unwrap();
        id
    }

    pub(super) fn cast(&mut self, x: TensorId, data_type: DataType) -> TensorId {
        self.typed(K::TypeCast, &[x], Attrs::new(), data_type)
    }

    pub(super) fn dequantize(&mut self, x: TensorId, scale: f32, zp: i64) -> TensorId {
        self.op(K::Dequantize, &[x], Attrs::new().with("scales", vec![scale]).with("zps", vec![zp]))
    }

    pub(super) fn quantize(&mut self, x: TensorId, scale: f32, zp: i64, data_type: DataType) -> TensorId {
        let attrs = Attrs::new().with("scales", vec![scale]).with("zps", vec![zp]);
        self.typed(K::Quantize, &[x], attrs, data_type)
    }

    pub(super) fn reshape(&mut self, x: TensorId, shape: &[i64]) -> TensorId {
        let attrs = Attrs::new().with("shape", shape.to_vec()).with("special_zero", false);
        self.op(K::StaticReshape, &[x], attrs)
    }

    pub(super) fn transpose(&mut self, x: TensorId, order: &[i64]) -> TensorId {
        self.op(K::StaticTranspose, &[x], Attrs::new().with("order", order.to_vec()))
    }

    pub(super) fn matmul(&mut self, a: TensorId, b: TensorId) -> TensorId {
        self.plain(K::MatMul, &[a, b])
    }

    pub(super) fn matmul_with(&mut self, a: TensorId, b: TensorId, transposed: [bool; 2]) -> TensorId {
        let attrs = Attrs::new().with("transpose_a", transposed[0]).with("transpose_b", transposed[1]);
        self.op(K::MatMul, &[a, b], attrs)
    }

    pub(super) fn softmax(&mut self, x: TensorId) -> TensorId {
        self.op(K::SoftMax, &[x], Attrs::new().with("axis", -1_i64).with("mode", "inf_as_zero"))
    }

    /// A convolution that keeps the size, channels last.
    pub(super) fn conv(&mut self, x: TensorId, weights: TensorId, pad: i64) -> TensorId {
        let attrs = Attrs::new()
            .with("strides", [1, 1])
            .with("pads_begin", [pad, pad])
            .with("pads_end", [pad, pad])
            .with("dilations", [1, 1])
            .with("data_format", "NXC")
            .with("weights_format", "XIO");
        self.op(K::Convolution, &[x, weights], attrs)
    }
}
