//! The engine under test, with what cases do on it all the time.

use super::{Failure, data};
use crate::op::Reorder;
use crate::{
    Arg, Backend, DataType, Engine, Error, Memory, MemoryDesc, MemoryKind, Op, PrimitiveDesc, Result, Stream,
    StreamDesc,
};

/// The engine that a case runs on.
#[derive(Clone, Debug)]
pub struct Subject<B: Backend> {
    engine: B::Engine,
    second: Option<B::Engine>,
}

impl<B: Backend> Subject<B> {
    /// An engine.
    pub fn new(engine: &B::Engine) -> Self {
        Self { engine: engine.clone(), second: None }
    }

    /// With another engine, of its own context.
    #[must_use]
    pub fn with_second_engine(mut self, engine: &B::Engine) -> Self {
        self.second = Some(engine.clone());
        self
    }

    /// The engine.
    pub fn engine(&self) -> &B::Engine {
        &self.engine
    }

    /// The other engine.
    pub fn second_engine(&self) -> Option<&B::Engine> {
        self.second.as_ref()
    }

    pub(super) fn device(&self) -> String {
        let device = self.engine.device();
        format!("{} on {} ({})", device.backend, device.name, device.platform)
    }

    pub(super) fn has_type(&self, data_type: DataType) -> bool {
        self.engine.capabilities().storage_types.contains(&data_type)
    }

    /// A new in-order stream.
    pub(super) fn stream(&self) -> Result<B::Stream> {
        self.engine.create_stream(&StreamDesc::default())
    }

    /// The engine's default kind of memory.
    pub(super) fn kind(&self) -> Result<MemoryKind, Failure> {
        self.engine
            .capabilities()
            .memory_kinds
            .first()
            .copied()
            .ok_or_else(|| Failure::new("capabilities list no kind of memory"))
    }

    /// Memory of the default kind.
    pub(super) fn memory(&self, desc: &MemoryDesc) -> Result<B::Memory, Failure> {
        let memory = self.engine.create_memory(desc, self.kind()?)?;
        if memory.region().bytes < desc.size() {
            let (given, needed) = (memory.region().bytes, desc.size());
            return Err(Failure::new(format!("memory of {given} bytes for {desc}, which needs {needed}")));
        }
        Ok(memory)
    }

    /// Memory of `bytes` bytes.
    pub(super) fn bytes(&self, bytes: usize) -> Result<B::Memory, Failure> {
        self.memory(&MemoryDesc::new([bytes], DataType::U8))
    }

    /// Memory that holds these values.
    pub(super) fn upload(
        &self,
        stream: &B::Stream,
        desc: &MemoryDesc,
        values: &[f64],
    ) -> Result<B::Memory, Failure> {
        let memory = self.memory(desc)?;
        stream.write(&memory, 0, &data::encode(desc, values)?, &[])?;
        Ok(memory)
    }

    /// The values of a memory, after the in-order stream's work.
    pub(super) fn download(&self, stream: &B::Stream, memory: &B::Memory) -> Result<Vec<f64>, Failure> {
        Ok(data::decode(memory.desc(), &read_all::<B>(stream, memory)?)?)
    }

    /// A primitive; a description that cannot be built is a failure too.
    pub(super) fn primitive(&self, desc: Result<PrimitiveDesc>) -> Result<B::Primitive, Failure> {
        Ok(self.engine.create_primitive(&desc?)?)
    }

    /// The values of `from` in the layout of `to`, through a reorder.
    pub(super) fn reorder(
        &self,
        stream: &B::Stream,
        from: &B::Memory,
        from_desc: &MemoryDesc,
        to: &B::Memory,
        to_desc: &MemoryDesc,
    ) -> Result<(), Failure> {
        let desc =
            PrimitiveDesc::builder(Op::Reorder(Reorder)).src(from_desc.clone()).dst(to_desc.clone()).build();
        let place = |error: Error| Failure::from(error).at(format!("reorder {from_desc} to {to_desc}"));
        let reorder = self.engine.create_primitive(&desc.map_err(place)?).map_err(place)?;
        stream.execute(&reorder, &[(Arg::SRC, from.clone()), (Arg::DST, to.clone())], &[]).map_err(place)?;
        Ok(())
    }
}

/// All bytes of a memory.
pub(super) fn read_all<B: Backend>(stream: &B::Stream, memory: &B::Memory) -> Result<Vec<u8>> {
    let mut bytes = vec![0; memory.region().bytes];
    stream.read(memory, 0, &mut bytes, &[])?;
    Ok(bytes)
}

/// The error that a call must give; it mentions every one of `naming`.
pub(super) fn expect_error<T>(
    result: Result<T>,
    what: &str,
    kind: impl Fn(&Error) -> bool,
    naming: &[&str],
) -> Result<Error, Failure> {
    let Err(error) = result else { return Err(Failure::new(format!("{what} succeeded, expected an error"))) };
    if !kind(error.root()) {
        return Err(Failure::new(format!("{what} gave the wrong group of error: {error:?}")));
    }
    let text = error.to_string();
    if let Some(missing) = naming.iter().find(|name| !text.contains(**name)) {
        return Err(Failure::new(format!("{what} gave an error that does not mention {missing:?}: {text}")));
    }
    Ok(error)
}

pub(super) fn is_invalid(error: &Error) -> bool {
    matches!(error, Error::Invalid(_))
}

pub(super) fn is_mismatch(error: &Error) -> bool {
    matches!(error, Error::Mismatch { .. })
}

pub(super) fn is_unsupported(error: &Error) -> bool {
    matches!(error, Error::Unsupported { .. })
}
