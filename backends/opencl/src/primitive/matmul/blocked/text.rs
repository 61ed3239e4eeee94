//! The text of programs that multiply by blocks (`matmul/blocked.cl`).

use std::borrow::Cow;

use super::super::Shape;
use super::{Reading, Room};
use crate::primitive::epilogue::{EPILOGUE, Epilogue};
use crate::primitive::numbers::{always, mark};
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::Space;
use crate::primitive::value::{Value, storage};

const TILE: &str = anydnn_kernels::text("matmul/tile.cl");
const BLOCKED: &str = anydnn_kernels::text("matmul/blocked.cl");
const TRANSPOSE: &str = anydnn_kernels::text("common/transpose.cl");

/// How many terms ahead a tile fetches the rows of the source, which are read once for all of a panel's columns.
const SOURCE_AHEAD: usize = 64;

/// How a product is cut into blocks and tiles. Lengths are in elements.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The loops over rows, lanes and terms; those over batches come before the first.
    pub(super) m: usize,
    pub(super) lane: usize,
    pub(super) k: usize,
    /// Columns of a panel, and of each of its parts.
    pub(super) width: usize,
    pub(super) part: usize,
    pub(super) panels: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) terms: usize,
    /// Terms of a block.
    pub(super) block: usize,
    /// Tiles of rows; the first `more` of them have a row more than `least`, and a program has both where there are `two_sizes`. The last
    /// one may have rows in common with that before it.
    pub(super) tiles: usize,
    pub(super) least: usize,
    pub(super) more: usize,
    pub(super) two_sizes: bool,
    /// Tiles and panels of a work-item, and which of both is the outer loop.
    pub(super) item_tiles: usize,
    pub(super) item_panels: usize,
    pub(super) tiles_outside: bool,
    /// Lines of the next block to fetch, and terms to fetch ahead, in programs that do so.
    pub(super) ahead: Option<usize>,
    pub(super) near: Option<usize>,
    /// The vectors of the last panel's tiles where these are fewer than the others', else zero.
    pub(super) last_vectors: usize,
    /// Whether the last panel has fewer parts.
    pub(super) missing: bool,
    pub(super) source: Reading,
    pub(super) weights: Reading,
    pub(super) room: Room,
    /// From a row of the source that tiles read to the next one, and from a term.
    pub(super) source_steps: (usize, usize),
    /// From a term of the weights that tiles read to the next one; the columns of a part, and from a part to the next one.
    pub(super) weights_steps: (usize, usize, usize),
}

impl Blocks {
    /// The rows that the last tile has in common with the one before it.
    pub(super) fn common_rows(&self) -> usize {
        (self.tiles * self.least).saturating_sub(self.rows)
    }

    /// The vectors of the last panel that have no columns.
    pub(super) fn empty_vectors(&self) -> usize {
        (self.panels * self.width - self.columns) / CPU_LANES
    }

    /// With tiles that have no rows in common, and those of the last panel as wide as its columns.
    pub(super) fn exact(mut self) -> Self {
        if self.empty_vectors() > 0 {
            self.last_vectors = self.width / CPU_LANES - self.empty_vectors();
        }
        if self.common_rows() > 0 {
            (self.least, self.more) = (self.rows / self.tiles, self.rows % self.tiles);
            self.two_sizes = self.more > 0;
        }
        self
    }

    /// The definitions and the files of the program for a product over a space, with its post-operations in it or as a list.
    pub(super) fn text(
        &self,
        shape: &Shape<'_>,
        mut space: Space,
        list: Option<&Epilogue>,
    ) -> (Source, Vec<Cow<'static, str>>) {
        space.complete = Some(self.lane);
        let value = Value::F32;
        let mut source = Source::new(&space, value, (CPU_LANES, Some(self.lane)), shape.wide, true);
        source.general().declare("DECLARE_BATCH", &space, 0..self.m);
        self.define(&mut source);
        for name in ["SRC0"].iter().chain(shape.matrices()) {
            let Some(operand) = space.find(name) else { continue };
            let (bits, kind) = storage(operand.data_type);
            let pointer = name.to_lowercase();
            source.define(
                format!("RUN_{name}(o, n)"),
                format!("convert_float16(unpack_{kind}_16(load_{bits}_16({pointer}, o, n)))"),
            );
        }
        let mut files: Vec<Cow<'static, str>> = Vec::new();
        source.define("LISTED", i32::from(list.is_some()));
        if let Some(list) = list {
            shape.define_factors(&mut source, &space, value, &[self.k]);
            source.define("ADD_BIAS(v, n)", "").no_post_ops();
            list.define(&mut source, &space, self.m);
            files.push(EPILOGUE.into());
        } else {
            shape.define(&mut source, &space, value, &[self.k]);
        }
        if self.weights == Reading::AlongK {
            files.push(TRANSPOSE.into());
        }
        let vectors = self.width / CPU_LANES;
        for (of, vectors) in [("", vectors), ("_of_last", self.last_vectors)] {
            if vectors == 0 {
                continue;
            }
            files.extend(tile(&format!("tile_least{of}"), self.least, vectors));
            if self.two_sizes {
                files.extend(tile(&format!("tile_more{of}"), self.least + 1, vectors));
            } else {
                files.push(format!("#define tile_more{of} tile_least{of}\n").into());
            }
        }
        files.push(BLOCKED.into());
        (source, files)
    }

    fn define(&self, source: &mut Source) {
        let width = self.width;
        let space_of = |reading| if reading == Reading::InPlace { "__global" } else { "__local" };
        let (m_step, k_step) = self.source_steps;
        let (b_step, b_part, b_part_step) = self.weights_steps;
        let at_part = format!("(j) * 16 / {b_part}");
        let at_part = if self.missing { format!("min({at_part}, last_part)") } else { at_part };
        // A panel's own width is known.
        let b_step = if b_step == width { b_step.to_string() } else { always(b_step).to_string() };
        source
            .define("PANEL", width)
            .number_of("PANELS", self.panels)
            .define("PART", self.part)
            .number_of("N_SIZE", self.columns)
            .number_of("WHOLE_PANELS", i32::from(self.columns.is_multiple_of(width)))
            .number_of("M_SIZE", self.rows)
            .number_of("K_SIZE", self.terms)
            .number_of("K_BLOCK", self.block)
            .number_of("ONE_BLOCK", i32::from(self.block >= self.terms))
            .number_of("TILES", self.tiles)
            .number_of("TILES_MORE", self.more)
            .define("TILE_LEAST", self.least)
            .number_of("ITEM_TILES", self.item_tiles)
            .number_of("ITEM_PANELS", self.item_panels)
            .number_of("TILES_OUTSIDE", i32::from(self.tiles_outside))
            .define("SUMS", self.room.sums)
            .define("HAS_AHEAD", i32::from(self.ahead.is_some()))
            .number_of("AHEAD", self.ahead.unwrap_or(0))
            .define("HAS_NEAR", i32::from(self.near.is_some()))
            .number_of("NEAR", self.near.unwrap_or(0))
            .define("SOURCE_AHEAD", if self.source == Reading::InPlace { SOURCE_AHEAD } else { 0 })
            .define("LAST_VECTORS", self.last_vectors)
            .define("PACK_SRC0", self.source as u8)
            .define("PACK_WEIGHTS", self.weights as u8)
            .define("A_BLOCK", self.room.source)
            .define("B_BLOCK", self.room.weights)
            .define("A_SPACE", space_of(self.source))
            .define("A_STEP_M", format_args!("(idx){}", always(m_step)))
            .define("A_STEP_K", format_args!("(idx){}", mark(k_step)))
            .define("B_SPACE", space_of(self.weights))
            .define("B_STEP_K", format_args!("(idx){b_step}"))
            .define("MISSING", i32::from(self.missing))
            .define(
                "B_AT(j)",
                format_args!("({at_part} * (idx){} + (j) * 16 % {b_part})", always(b_part_step)),
            );
    }
}

/// The register tile of this name and numbers of rows and vectors (`matmul/tile.cl`), for a program that defines what that needs.
fn tile(name: &str, rows: usize, vectors: usize) -> [Cow<'static, str>; 3] {
    let names = format!("#define TILE {name}\n#define TILE_M {rows}\n#define TILE_VECTORS {vectors}\n");
    [names.into(), TILE.into(), "#undef TILE\n#undef TILE_M\n#undef TILE_VECTORS\n".into()]
}
