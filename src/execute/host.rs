//! Tensors of the host in and out, for programs that keep their data there.

use anydnn_backend::{Backend, Engine, Error, Event, Memory, Result, Stream};
use indexmap::IndexMap;

use super::Executable;
use crate::compile::CompiledGraph;
use crate::graph::TensorId;
use crate::model::HostTensor;

impl<B: Backend> CompiledGraph<B> {
    /// As [`CompiledGraph::load`], from tensors of the host. Tensors that the graph does not know are an error.
    ///
    /// # Errors
    /// As [`CompiledGraph::load`].
    pub fn load_tensors(
        &self,
        stream: &B::Stream,
        constants: &IndexMap<TensorId, HostTensor>,
    ) -> Result<Executable<B>> {
        let memories = constants
            .iter()
            .map(|(&id, tensor)| Ok((id, upload(self, stream, id, tensor)?)))
            .collect::<Result<Vec<_>>>()?;
        self.load(stream, &memories)
    }
}

impl<B: Backend> Executable<B> {
    /// Runs the graph on tensors of the host, waits, and returns the outputs in port order.
    ///
    /// ```
    /// use anydnn::backend::{DataType, Engine, StreamDesc};
    /// use anydnn::compile::{CompileOptions, CompiledGraph};
    /// use anydnn::graph::{Attrs, GraphBuilder, OpKind};
    /// use anydnn::model::HostTensor;
    ///
    /// let mut g = GraphBuilder::new();
    /// let x = g.input("x", DataType::F32, [3]);
    /// g.op("act", OpKind::ReLU, &[x], Attrs::new())?;
    /// let engine = anydnn_host::HostEngine::new();
    /// let stream = engine.create_stream(&StreamDesc::default())?;
    /// let network = CompiledGraph::new(&g.build()?, &engine, &CompileOptions::default())?;
    /// let network = network.load(&stream, &[])?;
    /// let outputs = network.run(&stream, &[(x, HostTensor::from_f32([3], &[-1.0, 0.0, 2.0])?)])?;
    /// assert_eq!(outputs[0].to_f32s(), [0.0, 0.0, 2.0]);
    /// # Ok::<(), anydnn::backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Executable::execute`].
    pub fn run(&self, stream: &B::Stream, inputs: &[(TensorId, HostTensor)]) -> Result<Vec<HostTensor>> {
        let compiled = self.compiled();
        let kind = memory_kind(&compiled)?;
        if let Some(strided) = compiled.inner.output_descs.iter().find(|desc| !desc.is_row_major()) {
            let why = format!("output {strided} is not dense row-major; execute on memory of your own");
            return Err(Error::unsupported("run on tensors of the host", why));
        }
        let bound = inputs
            .iter()
            .map(|(id, tensor)| Ok((*id, upload(&compiled, stream, *id, tensor)?)))
            .collect::<Result<Vec<_>>>()?;
        let outputs = compiled
            .graph()
            .outputs()
            .iter()
            .zip(&compiled.inner.output_descs)
            .map(|(&id, desc)| Ok((id, compiled.engine().create_memory(desc, kind)?)))
            .collect::<Result<Vec<_>>>()?;
        let done = self.execute(stream, &bound, &outputs, &[])?;
        done.wait()?;
        outputs
            .iter()
            .map(|(_, memory)| {
                let desc = memory.desc();
                let mut tensor = HostTensor::zeros(desc.dims().clone(), desc.data_type())?;
                stream.read(memory, 0, tensor.bytes_mut(), std::slice::from_ref(&done))?;
                Ok(tensor.labelled(desc.label().unwrap_or_default()))
            })
            .collect()
    }
}

/// A tensor of the host in memory of the engine, with the descriptor that the graph asks for.
fn upload<B: Backend>(
    compiled: &CompiledGraph<B>,
    stream: &B::Stream,
    id: TensorId,
    tensor: &HostTensor,
) -> Result<B::Memory> {
    let wanted = compiled.input_desc(id).ok_or_else(|| {
        Error::invalid("execute", "tensor", id.to_string(), "an input or constant of the graph")
    })?;
    if !tensor.desc().same_bytes(wanted) {
        return Err(Error::invalid(
            "execute",
            format!("tensor {id}"),
            tensor.desc().to_string(),
            wanted.to_string(),
        ));
    }
    let memory = compiled.engine().create_memory(wanted, memory_kind(compiled)?)?;
    stream.write(&memory, 0, tensor.bytes(), &[])?.wait()?;
    Ok(memory)
}

fn memory_kind<B: Backend>(compiled: &CompiledGraph<B>) -> Result<anydnn_backend::MemoryKind> {
    let kinds = compiled.engine().memory_kinds();
    kinds.first().copied().ok_or_else(|| Error::unsupported("execute", "the engine names no kind of memory"))
}
