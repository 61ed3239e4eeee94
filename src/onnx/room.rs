//! Memory of the host for constants that are computed while importing.

use anydnn_backend::{DataType, Dims, Error, Result, check_host_memory};

use super::tensor;

/// Asks for memory before it is taken: large requests one by one, small ones by their sum.
#[derive(Debug, Default)]
pub(super) struct Room {
    pending: usize,
    /// The most elements of a tensor, where there is a limit.
    most: Option<usize>,
}

impl Room {
    /// Lets tensors have no more elements than this; any number without.
    pub(super) fn limit(&mut self, most: Option<usize>) {
        self.most = most;
    }

    /// Checks that there is memory for one more tensor.
    pub(super) fn take(&mut self, dims: &Dims, data_type: DataType) -> Result<()> {
        tensor::check_size(dims, data_type)?;
        if let Some(most) = self.most.filter(|&most| dims.elements() > most) {
            let why = format!("at most {most} elements are computed while importing");
            return Err(Error::unsupported(format!("a constant {dims} of {data_type}"), why));
        }
        self.pending = self.pending.saturating_add(data_type.bytes_for(dims.elements()));
        // On the way to its type each element is a number of eight bytes.
        let room = self.pending.saturating_add(dims.elements().saturating_mul(size_of::<f64>()));
        check_host_memory(room, || format!("a constant {dims} of {data_type}"))?;
        // What was granted is in use from now on, and the next check sees it.
        if self.pending >= 64 << 20 {
            self.pending = 0;
        }
        Ok(())
    }
}
