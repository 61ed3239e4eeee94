//! Classification: predictions, accuracy, and pictures of the samples.

use anydnn::model::{HostTensor, Model};
use serde_json::{Value, json};

use super::art::{Captioned, Image, gallery};
use super::session::Run;
use super::work::Work;
use crate::output::Style;

/// How many right and wrong samples are shown.
const SHOWN: usize = 8;
const SHOWN_WRONG: usize = 16;
/// Larger images do not fit a terminal.
const LARGEST: usize = 32;

/// The predictions of a model for its samples.
#[derive(Debug)]
pub(super) struct Classification {
    predictions: Vec<Prediction>,
    /// Whether the samples have labels.
    labelled: bool,
}

#[derive(Clone, Debug)]
struct Prediction {
    sample: usize,
    class: usize,
    score: f64,
    label: Option<i64>,
    image: Option<Image>,
}

impl Prediction {
    fn right(&self) -> bool {
        self.label == Some(self.class as i64)
    }
}

impl Classification {
    /// The predictions of one pass; none where the model does not classify.
    pub(super) fn new(model: &Model, work: &Work, runs: &[Run]) -> Option<Self> {
        let labels = model.dataset.as_ref().and_then(|dataset| dataset.labels());
        if model.task.as_deref() != Some("classification") {
            return None;
        }
        let mut predictions = Vec::new();
        for (batch, run) in work.batches.iter().zip(runs) {
            let scores = &run.outputs.first()?.1;
            let [rows, classes] = scores.dims()[..] else { return None };
            let values = scores.to_f64s();
            let images = batch.inputs.first().map_or_else(Vec::new, |(_, tensor)| images(tensor));
            for row in batch.again..rows {
                let (class, score) = largest(&values[row * classes..(row + 1) * classes])?;
                let sample = batch.rows.start + row - batch.again;
                let label =
                    labels.filter(|_| !batch.rows.is_empty()).and_then(|labels| labels.get(sample)).copied();
                predictions.push(Prediction { sample, class, score, label, image: images.get(row).cloned() });
            }
        }
        let labelled = predictions.iter().any(|prediction| prediction.label.is_some());
        Some(Self { predictions, labelled })
    }

    /// The number of samples.
    pub(super) fn samples(&self) -> usize {
        self.predictions.len()
    }

    /// The number of right predictions; none without labels.
    pub(super) fn correct(&self) -> Option<usize> {
        self.labelled.then(|| self.predictions.iter().filter(|prediction| prediction.right()).count())
    }

    /// Some samples with their predictions, then the wrong ones.
    pub(super) fn pictures(&self, style: Style, classes: &[String]) -> String {
        let caption = |prediction: &Prediction| {
            let name = |class: usize| classes.get(class).cloned().unwrap_or_else(|| class.to_string());
            let percent = format!("{:.0}%", prediction.score * 100.0);
            match prediction.label {
                Some(label) if !prediction.right() => {
                    format!("{} (is {}) {percent}", name(prediction.class), name(label as usize))
                }
                _ => format!("{} {percent}", name(prediction.class)),
            }
        };
        let show = |title: &str, chosen: &mut dyn Iterator<Item = &Prediction>| {
            let images: Vec<Captioned> = chosen
                .filter_map(|p| Some(Captioned { image: p.image.clone()?, caption: caption(p) }))
                .collect();
            if images.is_empty() {
                String::new()
            } else {
                format!("{}\n{}", style.bold(title), gallery(&images, style.color))
            }
        };
        let wrong = |prediction: &&Prediction| self.labelled && !prediction.right();
        let some = show(
            "some samples and predictions",
            &mut self.predictions.iter().filter(|p| !wrong(p)).take(SHOWN),
        );
        some + &show("wrong predictions", &mut self.predictions.iter().filter(wrong).take(SHOWN_WRONG))
    }

    pub(super) fn json(&self, images_per_second: f64) -> Value {
        let correct = self.correct();
        let wrong: Vec<Value> = self
            .predictions
            .iter()
            .filter(|prediction| self.labelled && !prediction.right())
            .map(|p| json!({ "sample": p.sample, "label": p.label, "prediction": p.class, "score": p.score }))
            .collect();
        json!({
            "samples": self.samples(),
            "correct": correct,
            "accuracy": correct.map(|correct| correct as f64 / self.samples().max(1) as f64),
            "images_per_second": images_per_second,
            "wrong": wrong,
            "predictions": self.predictions.iter().map(|p| p.class).collect::<Vec<_>>(),
        })
    }
}

/// The samples of a batch as images, if they are small grey images: `[N, H, W]` or `[N, 1, H, W]`.
fn images(tensor: &HostTensor) -> Vec<Image> {
    let ([_, height, width] | [_, 1, height, width]) = tensor.dims()[..] else { return Vec::new() };
    if height == 0 || width == 0 || height > LARGEST || width > LARGEST {
        return Vec::new();
    }
    let values = tensor.to_f64s();
    let (least, most) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), &v| (l.min(v), m.max(v)));
    let range = if most > least { most - least } else { 1.0 };
    let image = |pixels: &[f64]| Image {
        width,
        height,
        pixels: pixels.iter().map(|v| (v - least) / range).collect(),
    };
    values.chunks_exact(height * width).map(image).collect()
}

fn largest(scores: &[f64]) -> Option<(usize, f64)> {
    scores.iter().copied().enumerate().filter(|(_, score)| !score.is_nan()).max_by(|a, b| a.1.total_cmp(&b.1))
}
