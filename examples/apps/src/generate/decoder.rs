//! A decoder on a device, whose keys and values stay there from one token to the next.

use anydnn::backend::{DataType, Dims, Engine, Memory, MemoryDesc, Range, Stream, StreamDesc};
use anydnn::model::HostTensor;
use anydnn::onnx::{Dim, Input, Model, Session};
use anydnn::select::{AnyBackend, AnyEngine, AnyMemory, AnyStream};
use anyhow::{Context, Result, bail, ensure};

/// The output that scores every token of the vocabulary.
const SCORES: &str = "logits";

/// A decoder with what it has read so far.
#[derive(Debug)]
pub struct Decoder {
    session: Session<AnyBackend>,
    stream: AnyStream,
    ids: AnyMemory,
    position: Option<(String, AnyMemory)>,
    mask: Option<String>,
    kept: Kept,
    length: usize,
}

/// Keys and values of the tokens read so far, on the device.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a decoder has one")]
enum Kept {
    /// Room for so many tokens, a row for each. What the model makes are rows, which are put behind those that are there.
    Rows { caches: Vec<Cache>, scores: AnyMemory, capacity: usize },
    /// What the last step has made: all rows so far, with the names that the model's inputs have for them.
    Grown { names: Vec<(String, String)>, all: Vec<AnyMemory> },
}

#[derive(Debug)]
struct Cache {
    input: String,
    memory: AnyMemory,
    output: String,
    row: AnyMemory,
}

impl Decoder {
    /// Loads a decoder: a model with the inputs `input_ids`, `position_ids` or `attention_mask` where it wants them, and `past..`, and with the
    /// outputs `logits` and, in the order of those inputs, `present..`, as exporters write it and [`decoder`](super::decoder) does.
    ///
    /// # Errors
    /// Where the model is no such decoder, or the device has no room for it.
    pub fn new(model: &Model, engine: &AnyEngine) -> Result<Self> {
        let session: Session<AnyBackend> = model.compile(engine, &[])?;
        let inputs = session.inputs();
        let named = |name: &str| inputs.iter().find(|input| input.name == name);
        ensure!(named("input_ids").is_some(), "the model has no input input_ids");
        ensure!(
            session.outputs().iter().any(|output| output.name == SCORES),
            "the model has no output {SCORES}"
        );
        let pasts: Vec<&Input> = inputs.iter().filter(|input| input.name.starts_with("past")).collect();
        let presents: Vec<_> =
            session.outputs().iter().filter(|output| output.name.starts_with("present")).collect();
        ensure!(
            !pasts.is_empty() && pasts.len() == presents.len(),
            "the model has {} inputs past.. and {} outputs present.., expected as many, and at least one",
            pasts.len(),
            presents.len()
        );
        if let Some(other) = inputs.iter().find(|input| {
            !["input_ids", "position_ids", "attention_mask"].contains(&input.name.as_str())
                && !input.name.starts_with("past")
        }) {
            bail!("the model has the input {:?}, which is none of a decoder's", other.name);
        }
        let stream = engine.create_stream(&StreamDesc::default())?;
        let number = || memory(engine, &[1, 1], DataType::S64);
        let position = named("position_ids").map(|input| number().map(|memory| (input.name.clone(), memory)));
        let names =
            pasts.iter().zip(&presents).map(|(past, present)| (past.name.clone(), present.name.clone()));
        let kept = if let [_, Dim::Fixed(capacity), Dim::Fixed(width)] = pasts[0].dims[..] {
            let mut caches = Vec::new();
            for (input, output) in names {
                let memory_of = |rows: usize| memory(engine, &[1, rows, width], DataType::F32);
                let cache = Cache { input, output, memory: memory_of(capacity)?, row: memory_of(1)? };
                // What is hidden is multiplied by zero, so that it must be a number.
                stream.write(&cache.memory, 0, &vec![0; capacity * width * size_of::<f32>()], &[])?;
                caches.push(cache);
            }
            let scores = session.outputs().iter().find(|output| output.name == SCORES);
            let scores = scores.and_then(|output| output.dims.as_ref()?.last());
            let Some(&Dim::Fixed(vocabulary)) = scores else {
                bail!("the output {SCORES} has an open number of tokens");
            };
            Kept::Rows { caches, scores: memory(engine, &[1, 1, vocabulary], DataType::F32)?, capacity }
        } else {
            let empty = |input: &&Input| {
                // One text, and nothing read so far.
                let dims = input.dims.iter().enumerate().map(|(at, dim)| match dim {
                    Dim::Fixed(extent) => *extent,
                    Dim::Open(_) => usize::from(at == 0),
                });
                memory(engine, &dims.collect::<Vec<_>>(), input.data_type)
            };
            Kept::Grown { names: names.collect(), all: pasts.iter().map(empty).collect::<Result<_>>()? }
        };
        let mask = named("attention_mask").map(|input| input.name.clone());
        Ok(Self { ids: number()?, position: position.transpose()?, mask, kept, length: 0, session, stream })
    }

    /// How many tokens have been read.
    pub fn length(&self) -> usize {
        self.length
    }

    /// How many plans there are: one for all lengths, or one for each.
    pub fn plans(&self) -> usize {
        self.session.describe().len()
    }

    /// Forgets all that was read.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn restart(&mut self) -> Result<()> {
        self.length = 0;
        if let Kept::Grown { all, .. } = &mut self.kept {
            for memory in all {
                let mut dims = memory.desc().dims().to_vec();
                let at = dims.len().saturating_sub(2);
                dims[at] = 0;
                let desc = MemoryDesc::new(dims, memory.desc().data_type());
                *memory = memory.view(&desc, 0)?;
            }
        }
        Ok(())
    }

    /// Reads a token and scores those that may follow.
    ///
    /// # Errors
    /// Where there is no room left, or the device fails.
    pub fn step(&mut self, token: u32) -> Result<Vec<f32>> {
        let engine = self.session.engine();
        self.stream.write(&self.ids, 0, &i64::from(token).to_ne_bytes(), &[])?;
        let mut inputs = vec![("input_ids", self.ids.clone())];
        if let Some((name, position)) = &self.position {
            self.stream.write(position, 0, &(self.length as i64).to_ne_bytes(), &[])?;
            inputs.push((name.as_str(), position.clone()));
        }
        if let Some(name) = &self.mask {
            let mask = memory(engine, &[1, self.length + 1], DataType::S64)?;
            let ones = 1_i64.to_ne_bytes().repeat(self.length + 1);
            self.stream.write(&mask, 0, &ones, &[])?;
            inputs.push((name.as_str(), mask));
        }
        let scores = match &mut self.kept {
            Kept::Rows { caches, scores, capacity } => {
                ensure!(
                    self.length < *capacity,
                    "the text has {capacity} tokens, for which alone there is room"
                );
                inputs.extend(caches.iter().map(|cache| (cache.input.as_str(), cache.memory.clone())));
                let mut outputs = vec![(SCORES, scores.clone())];
                outputs.extend(caches.iter().map(|cache| (cache.output.as_str(), cache.row.clone())));
                self.session.run_into(&self.stream, &inputs, &outputs, &[])?;
                for cache in caches {
                    let bytes = cache.row.desc().size();
                    let from = Range { memory: cache.row.clone(), offset: 0, bytes };
                    let to = Range { memory: cache.memory.clone(), offset: self.length * bytes, bytes };
                    self.stream.copy(from, to, &[])?;
                }
                scores.clone()
            }
            Kept::Grown { names, all } => {
                inputs.extend(
                    names.iter().zip(&*all).map(|((name, _), memory)| (name.as_str(), memory.clone())),
                );
                let (outputs, _) = self.session.run_on(&self.stream, &inputs, &[])?;
                let output = |name: &str| {
                    let found = outputs.iter().find(|(own, _)| own == name);
                    found.map(|(_, memory)| memory.clone()).with_context(|| format!("no output {name}"))
                };
                let made = names.iter().map(|(_, present)| output(present)).collect::<Result<_>>()?;
                *all = made;
                output(SCORES)?
            }
        };
        self.length += 1;
        let mut made = HostTensor::zeros(scores.desc().dims().clone(), scores.desc().data_type())?;
        self.stream.read(&scores, 0, made.bytes_mut(), &[])?;
        Ok(made.to_f32s())
    }
}

fn memory(engine: &AnyEngine, dims: &[usize], data_type: DataType) -> Result<AnyMemory> {
    let kind = *engine.memory_kinds().first().context("the engine names no kind of memory")?;
    Ok(engine.create_memory(&MemoryDesc::new(Dims::new(dims), data_type), kind)?)
}
