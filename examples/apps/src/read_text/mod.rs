//! Text in pictures, by three networks of PP-OCRv4: one finds lines of text, one tells which of them stand on their head, one reads them.

mod detect;
mod draw;
mod outline;
mod recognize;

use anydnn::model::HostTensor;
use anydnn::onnx::{Model, Session};
use anydnn::select::{AnyBackend, AnyEngine};
use anyhow::{Context, Result};
use image::RgbImage;

pub use self::draw::annotated;
pub use self::outline::Outline;
use crate::fetch::{File, Package};
use crate::session;

/// The three networks, in the order in which they are used.
pub const MODELS: Package = Package {
    name: "rapidocr-onnxruntime",
    version: "1.4.4",
    files: &[
        File {
            path: "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            bytes: 4_745_517,
            sha256: "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        },
        File {
            path: "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            bytes: 585_532,
            sha256: "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        },
        File {
            path: "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            bytes: 10_857_958,
            sha256: "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        },
    ],
};

/// Less certain lines are none.
const CERTAIN: f32 = 0.5;

/// The networks.
#[derive(Debug)]
pub struct Reader {
    detection: Session<AnyBackend>,
    classification: Session<AnyBackend>,
    recognition: Session<AnyBackend>,
    /// The characters by their numbers; the first stands for none.
    characters: Vec<String>,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Where it is in the picture.
    pub outline: Outline,
    /// Whether it stands on its head.
    pub turned: bool,
    /// What it says.
    pub text: String,
    /// How certain that is, from zero to one.
    pub score: f32,
}

impl Reader {
    /// Fetches the files and loads them.
    ///
    /// # Errors
    /// Where they cannot be had.
    pub fn load(engine: &AnyEngine) -> Result<Self> {
        let folder = MODELS.fetch()?;
        let path = |index: usize| folder.join(MODELS.files[index].path);
        let listed = Model::load(path(2))?;
        let listed = listed.metadata("character").context("the network has no list of characters")?;
        // The networks know a space beside the characters of the list.
        let characters = std::iter::once("").chain(listed.lines()).chain([" "]).map(str::to_owned).collect();
        Ok(Self {
            detection: session(&path(0), engine)?,
            classification: session(&path(1), engine)?,
            recognition: session(&path(2), engine)?,
            characters,
        })
    }

    /// The lines of a picture, from top to bottom.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn read(&self, picture: &RgbImage) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for outline in detect::outlines(&self.detection, picture)? {
            let turned = recognize::is_turned(&self.classification, picture, &outline)?;
            let (text, score) =
                recognize::text(&self.recognition, &self.characters, picture, &outline, turned)?;
            if score >= CERTAIN && !text.is_empty() {
                lines.push(Line { outline, turned, text, score });
            }
        }
        Ok(in_order(lines))
    }
}

/// The only output of a network.
fn only(outputs: Vec<(String, HostTensor)>) -> Result<HostTensor> {
    outputs.into_iter().next().map(|(_, tensor)| tensor).context("the network has no output")
}

/// From top to bottom, and from left to right where lines are beside one another.
fn in_order(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| a.outline.center[1].total_cmp(&b.outline.center[1]));
    let mut rows: Vec<Vec<Line>> = Vec::new();
    for line in lines {
        let beside = |row: &Vec<Line>| {
            let last = &row[row.len() - 1].outline;
            (line.outline.center[1] - last.center[1]).abs() < 0.5 * last.size[1].min(line.outline.size[1])
        };
        match rows.last_mut() {
            Some(row) if beside(row) => row.push(line),
            _ => rows.push(vec![line]),
        }
    }
    for row in &mut rows {
        row.sort_by(|a, b| a.outline.center[0].total_cmp(&b.outline.center[0]));
    }
    rows.into_iter().flatten().collect()
}
