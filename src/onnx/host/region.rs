//! Regions of images.

use anydnn_backend::{Dims, Result};

use super::call::Call;
use super::numbers::indices;
use super::stencils::{Planes, Stencils};
use crate::model::HostTensor;

/// Regions as images of one size, each element the mean or the greatest of places in its part.
pub(in crate::onnx) fn roi_align(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, regions) = (call.ranked(0, 4)?, call.ranked(1, 2)?);
    let count = regions.dims()[0];
    let boxes = call.values(1, count * 4)?;
    let batch = call.ints(2)?;
    let [samples, channels, height, width] = [0, 1, 2, 3].map(|i| src.dims()[i]);
    if batch.len() != count || batch.iter().any(|&n| usize::try_from(n).map_or(true, |n| n >= samples)) {
        return Err(call.invalid("batch indices", format!("{batch:?}"), format!("{count} below {samples}")));
    }
    let node = call.node;
    let length = |name: &str| node.int(name, 1).map(|value| usize::try_from(value).unwrap_or(0).max(1));
    let (rows, columns) = (length("output_height")?, length("output_width")?);
    let ratio = node.int("sampling_ratio", 0)?;
    let scale = f64::from(node.float("spatial_scale", 1.0)?);
    let old = if node.opset() < 16 { "output_half_pixel" } else { "half_pixel" };
    // A negative number says as little as zero.
    let ratio = ratio.clamp(0, 1 << 16);
    let half = node.word("coordinate_transformation_mode", old)? == "half_pixel";
    let greatest = node.word("mode", "avg")? == "max";
    let dims = Dims::from([count, channels, rows, columns]);
    call.take(&dims, src.data_type())?;
    let planes = Planes::of(src);
    let mut made = planes.zeros(dims.elements());
    let (shift, bins) = (if half { 0.5 } else { 0.0 }, rows * columns);
    for n in 0..samples {
        let own: Vec<usize> = (0..count).filter(|&at| batch[at] == n as i64).collect();
        let mut next = own.iter().copied().peekable();
        while next.peek().is_some() {
            let mut stencils = if greatest { Stencils::greatest() } else { Stencils::default() };
            let mut taken = Vec::new();
            while let Some(at) = next.next_if(|_| stencils.len() < MOST_TAPS) {
                let [left, top, right, bottom] = [0, 1, 2, 3].map(|i| boxes[4 * at + i] * scale - shift);
                let (mut wide, mut high) = (right - left, bottom - top);
                if !half {
                    (wide, high) = (wide.max(1.0), high.max(1.0));
                }
                let places = |start, size: f64, bins, extent| {
                    let made = Places::of(start, size / bins as f64, bins, ratio, extent);
                    made.ok_or_else(|| call.node.unsupported("so many places of a region are not read"))
                };
                let (down, along) = (places(top, high, rows, height)?, places(left, wide, columns, width)?);
                if greatest && down.steps() * along.steps() > MOST_TAPS {
                    let why = "the greatest of so many places of a region is not computed";
                    return Err(call.node.unsupported(why));
                }
                for bin in 0..bins {
                    let (rows, columns) = (down.bin(bin / columns), along.bin(bin % columns));
                    let add = if greatest { each_corner } else { mean };
                    add(&mut stencils, rows, columns, width);
                    stencils.end();
                }
                taken.push(at);
            }
            let mut of_image = planes.like(channels * taken.len() * bins);
            planes.apply(n * channels..(n + 1) * channels, height * width, &stencils, &mut of_image);
            for (number, &at) in taken.iter().enumerate() {
                for c in 0..channels {
                    let from = (c * taken.len() + number) * bins;
                    made.put((at * channels + c) * bins, &of_image, from, bins);
                }
            }
        }
    }
    Ok(vec![made.tensor(dims, src.data_type())?])
}

/// Elements that are weighed before their sums are made.
const MOST_TAPS: usize = 1 << 20;

/// The elements around a place along a dimension, with their weights; none where the place is too far outside.
type Neighbours = Option<[(usize, f64); 2]>;

/// The places along a dimension that a region's parts are read at, each as two neighbours with their weights: none beyond one outside the
/// image, the nearest ones up to there.
struct Places {
    each: usize,
    places: Vec<Neighbours>,
}

impl Places {
    fn of(start: f64, bin: f64, bins: usize, ratio: i64, extent: usize) -> Option<Self> {
        let each = if ratio > 0 { ratio } else { (bin.ceil() as i64).clamp(0, 1 << 16) };
        if bins.saturating_mul(each as usize) > MOST_TAPS {
            return None;
        }
        let place = |number: usize, step: i64| {
            let at = start + number as f64 * bin + (step as f64 + 0.5) * bin / each as f64;
            if extent == 0 || at < -1.0 || at > extent as f64 {
                return None;
            }
            let at = at.max(0.0);
            let low = (at as usize).min(extent - 1);
            let (high, rest) = if low == extent - 1 { (low, 0.0) } else { (low + 1, at - low as f64) };
            Some([(low, 1.0 - rest), (high, rest)])
        };
        let places = (0..bins).flat_map(|number| (0..each).map(move |step| place(number, step))).collect();
        Some(Self { each: each as usize, places })
    }

    /// How many places there are in all parts.
    fn steps(&self) -> usize {
        self.places.len()
    }

    fn bin(&self, number: usize) -> &[Neighbours] {
        &self.places[number * self.each..][..self.each]
    }
}

/// Every corner around every place of a part, of which the greatest counts; what lies outside counts as zero.
fn each_corner(stencils: &mut Stencils, rows: &[Neighbours], columns: &[Neighbours], width: usize) {
    for row in rows {
        for column in columns {
            let (Some(row), Some(column)) = (row, column) else {
                if width > 0 {
                    stencils.add(0, 0.0);
                }
                continue;
            };
            for (y, down) in row {
                column.iter().for_each(|(x, along)| stencils.add(y * width + x, down * along));
            }
        }
    }
}

/// The mean of all places of a part: each row and each column counts with the sum of its weights.
fn mean(stencils: &mut Stencils, rows: &[Neighbours], columns: &[Neighbours], width: usize) {
    let summed = |places: &[Neighbours]| {
        let mut sums: Vec<(usize, f64)> = Vec::new();
        // Places go one way, so that equal ones come soon after one another.
        for &(place, weight) in places.iter().flatten().flatten() {
            match sums.iter_mut().rev().take(2).find(|(other, _)| *other == place) {
                Some((_, sum)) => *sum += weight,
                None => sums.push((place, weight)),
            }
        }
        sums
    };
    let part = 1.0 / (rows.len() * columns.len()).max(1) as f64;
    let columns = summed(columns);
    for (y, down) in summed(rows) {
        columns.iter().for_each(|(x, along)| stencils.add(y * width + x, part * down * along));
    }
}

/// Boxes by their scores, without those that overlap one with a better score.
pub(in crate::onnx) fn non_max_suppression(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (boxes, scores) = (call.ranked(0, 3)?, call.ranked(1, 3)?);
    let [batches, classes, count] = [0, 1, 2].map(|i| scores.dims()[i]);
    if **boxes.dims() != [batches, count, 4] {
        return Err(call.invalid(
            "boxes",
            boxes.desc(),
            format!("four numbers for each score of {}", scores.desc()),
        ));
    }
    let most = usize::try_from(call.int(2)?.unwrap_or(0)).unwrap_or(0);
    let limit = call.number(3)?.unwrap_or(0.0);
    let least = call.number(4)?;
    let centred = call.node.flag("center_point_box", false)?;
    let (boxes, scores) = (boxes.to_f64s(), scores.to_f64s());
    // Top, left, bottom and right.
    let corner = |at: usize| {
        let b = &boxes[at * 4..][..4];
        if centred {
            [b[1] - b[3] / 2.0, b[0] - b[2] / 2.0, b[1] + b[3] / 2.0, b[0] + b[2] / 2.0]
        } else {
            [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])]
        }
    };
    let overlap = |a: [f64; 4], b: [f64; 4]| {
        let area = |r: [f64; 4]| (r[2] - r[0]) * (r[3] - r[1]);
        let both = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0) * (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
        let union = area(a) + area(b) - both;
        if union > 0.0 { both / union } else { 0.0 }
    };
    let mut found: Vec<i64> = Vec::new();
    for n in 0..batches {
        for class in 0..classes {
            let scores = &scores[(n * classes + class) * count..][..count];
            let mut order: Vec<usize> =
                (0..count).filter(|&i| least.is_none_or(|least| scores[i] > least)).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            let mut kept: Vec<usize> = Vec::new();
            for i in order {
                if kept.len() >= most {
                    break;
                }
                let own = corner(n * count + i);
                if kept.iter().all(|&other| overlap(own, corner(n * count + other)) <= limit) {
                    kept.push(i);
                }
            }
            found.extend(kept.into_iter().flat_map(|i| [n as i64, class as i64, i as i64]));
        }
    }
    Ok(vec![indices([found.len() / 3, 3], &found)?])
}
