//! What an execution needs, made ahead of it.

use anydnn_backend::{Backend, Dims, Result, ResultExt};

use super::{Cancel, Session};
use crate::model::HostTensor;

impl<B: Backend> Session<B> {
    /// Compiles all that executions with these extents of the [open dimensions](crate::onnx::Dim::Open) need, by running the model once on
    /// zeros: the next one is as fast as those behind it. [`Model::compile`](crate::onnx::Model::compile) alone leaves out what depends on
    /// values.
    ///
    /// ```
    /// use anydnn::onnx::Model;
    ///
    /// # fn start(model: &Model) -> Result<(), anydnn::backend::Error> {
    /// let session = model.compile(&anydnn_host::HostEngine::new(), &[])?;
    /// for length in [32, 64, 128] {
    ///     session.warm_up(&[("batch", 1), ("length", length)])?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) for a dimension that is unknown, or open and not given; errors of
    /// [`Session::run`], also those that zeros lead to where a model computes shapes from its inputs' values.
    pub fn warm_up(&self, dims: &[(&str, usize)]) -> Result<()> {
        self.inner.model.check_dims(dims)?;
        let mut inputs = Vec::with_capacity(self.inputs().len());
        for input in self.inputs() {
            let of_input = || format!("input {:?}", input.name);
            let extents = input.dims.iter().map(|dim| dim.extent(dims));
            let extents = extents.collect::<Result<Dims>>().at(of_input)?;
            inputs.push((input.name.as_str(), HostTensor::zeros(extents, input.data_type).at(of_input)?));
        }
        self.end_startup();
        self.run_on_device(&inputs, &Cancel::new()).map(|_| ())
    }
}
