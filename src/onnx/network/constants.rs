//! Constants of a network: what the file has, what follows from it, and what operators compute of both while they are imported.

use std::sync::{Arc, OnceLock};

use anydnn_backend::{DataType, Dims, Error, MAX_DIMS, MemoryDesc, Result, ResultExt};

use super::{Network, Source, Value};
use crate::graph::TensorId;
use crate::model::HostTensor;
use crate::onnx::constant::Constant;
use crate::onnx::files::ExternalData;
use crate::onnx::large;
use crate::onnx::node::Node;
use crate::onnx::program::ValueId;
use crate::onnx::proto::TensorProto;
use crate::onnx::room::Room;
use crate::onnx::tensor;

/// Bytes of a weight that is kept on the host, however often it is on the device.
const SMALL: usize = 1 << 12;

/// A constant with its place in the graph.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) constant: Constant,
    pub(super) name: Arc<str>,
    pub(super) id: Option<TensorId>,
    /// The weight of the file that it is.
    pub(super) weight: Option<ValueId>,
    /// Whether it is another one for other extents of what executions give.
    pub(super) follows_shape: bool,
}

impl Network {
    /// A tensor of the file; `small` holds it for every graph that is made of the file, where it has few bytes.
    pub(in crate::onnx) fn weight(
        &mut self,
        name: &Arc<str>,
        weight: ValueId,
        proto: &TensorProto,
        small: &OnceLock<Constant>,
        external: &mut ExternalData,
    ) -> Result<Value> {
        // What lies in a file takes memory when somebody needs it.
        if proto.data_location != Some(1) && proto.raw_data.as_ref().is_none_or(prost::bytes::Bytes::is_empty)
        {
            let data_type = tensor::data_type(proto.data_type.unwrap_or(0))?;
            self.room.take(&tensor::dims(&proto.dims, data_type)?, data_type)?;
        }
        let constant = if let Some(constant) = small.get() {
            constant.clone()
        } else {
            let made = Constant::weight(weight, tensor::stored(proto, external)?);
            if made.desc().size() <= SMALL { small.get_or_init(|| made).clone() } else { made }
        };
        let value = self.add_constant(Arc::clone(name), constant)?;
        if let Some(known) = self.constants.last_mut() {
            known.weight = Some(weight);
        }
        Ok(value)
    }

    pub(in crate::onnx) fn constant(&mut self, name: &str, tensor: HostTensor) -> Result<Value> {
        self.add_constant(name, Constant::new(large::returned_at_once(tensor)))
    }

    /// As [`Network::constant`]; it may be another one for other extents of what executions give.
    pub(in crate::onnx) fn constant_of_shape(
        &mut self,
        name: &str,
        tensor: HostTensor,
        follows_shape: bool,
    ) -> Result<Value> {
        let made = self.constant(name, tensor)?;
        if let Some(known) = self.constants.last_mut() {
            known.follows_shape = follows_shape;
        }
        Ok(made)
    }

    /// Whether a value is a constant that is another one for other extents of what executions give.
    pub(in crate::onnx) fn follows_shape(&self, value: &Value) -> bool {
        matches!(value.source, Source::Constant(index) if self.constants[index].follows_shape)
    }

    /// A constant that follows from others, computed if somebody needs its elements; `how` tells it from all others of them.
    pub(in crate::onnx) fn follows(
        &mut self,
        name: &str,
        (dims, data_type): (Dims, DataType),
        how: &str,
        others: &[&Value],
        make: impl Fn(&[&HostTensor]) -> Result<HostTensor> + Send + Sync + 'static,
    ) -> Result<Value> {
        self.room.take(&dims, data_type)?;
        let known = |value: &&Value| match value.source {
            Source::Constant(index) => Ok(self.constants[index].constant.clone()),
            _ => {
                Err(Error::invalid("constant", name.to_owned(), "of values of an execution", "of constants"))
            }
        };
        let others = others.iter().map(known).collect::<Result<_>>()?;
        let constant = Constant::computed(MemoryDesc::new(dims, data_type), how, others, make);
        self.add_constant(name, constant)
    }

    pub(super) fn add_constant(&mut self, name: impl Into<Arc<str>>, constant: Constant) -> Result<Value> {
        let desc = constant.desc();
        if desc.dims().len() > MAX_DIMS {
            let (given, expected) = (desc.dims().len().to_string(), "at most 12");
            return Err(Error::invalid("constant", "number of dimensions", given, expected));
        }
        let (dims, data_type) = (desc.dims().clone(), self.effective(desc.data_type()));
        let name = name.into();
        self.constants.push(Known { constant, name, id: None, weight: None, follows_shape: false });
        Ok(Value { dims, data_type, source: Source::Constant(self.constants.len() - 1) })
    }

    /// One number that broadcasts with `like` without changing its shape.
    pub(in crate::onnx) fn scalar(&mut self, node: &Node, number: f64, like: &Value) -> Result<Value> {
        let dims = if like.rank() == 0 { Dims::default() } else { Dims::from([1]) };
        let tensor = HostTensor::from_f64(dims, like.data_type, &[number])?;
        self.constant(&format!("{}/{number}", node.name()), tensor)
    }

    /// A constant that was computed from others.
    pub(in crate::onnx) fn computed(&mut self, name: &str, dims: Dims, values: &[f32]) -> Result<Value> {
        self.room.take(&dims, DataType::F32)?;
        self.constant(name, HostTensor::from_f32(dims, values)?)
    }

    /// Whether the elements of a value are known.
    pub(in crate::onnx) fn is_known(&self, value: &Value) -> bool {
        matches!(value.source, Source::Constant(_))
    }

    /// The elements of a value that is known. Where they cannot be had, the import [fails](Network::check).
    pub(in crate::onnx) fn known(&self, value: &Value) -> Option<&HostTensor> {
        match value.source {
            Source::Constant(index) => self.elements(index),
            Source::Held(_) | Source::Made(_) => None,
        }
    }

    pub(super) fn elements(&self, index: usize) -> Option<&HostTensor> {
        let known = self.constants.get(index)?;
        match known.constant.elements().at(|| format!("constant {:?}", known.name)) {
            Ok(elements) => Some(elements),
            Err(error) => {
                self.asked.borrow_mut().failure.get_or_insert(error);
                None
            }
        }
    }

    /// Whether the elements of all constants that operators asked for could be had.
    pub(in crate::onnx) fn check(&self) -> Result<()> {
        self.asked.borrow().failure.clone().map_or(Ok(()), Err)
    }

    /// The known inputs of a node, when all are, and the memory to compute with.
    pub(in crate::onnx) fn known_inputs(
        &mut self,
        node: &Node,
    ) -> Option<(Vec<Option<&HostTensor>>, &mut Room)> {
        if !node.inputs().iter().flatten().all(|value| self.is_known(value)) {
            return None;
        }
        let mut failure = None;
        let constants = &self.constants;
        let known = |value: &Option<Value>| match value {
            Some(Value { source: Source::Constant(index), .. }) => {
                let elements = constants[*index].constant.elements();
                elements.map_err(|error| failure = Some(error)).ok().map(Some)
            }
            _ => Some(None),
        };
        let known = node.inputs().iter().map(known).collect::<Option<_>>();
        if let Some(error) = failure {
            self.asked.borrow_mut().failure.get_or_insert(error);
        }
        Some((known?, &mut self.room))
    }
}
