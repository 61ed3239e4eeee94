//! Regions of images.

use anydnn_backend::{Dims, Result};

use super::call::Call;
use super::numbers::indices;
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
    let half = node.word("coordinate_transformation_mode", old)? == "half_pixel";
    let greatest = node.word("mode", "avg")? == "max";
    let dims = Dims::from([count, channels, rows, columns]);
    call.take(&dims, src.data_type())?;
    let values = src.to_f64s();
    let mut made = Vec::with_capacity(dims.elements());
    let shift = if half { 0.5 } else { 0.0 };
    for (region, &n) in boxes.chunks_exact(4).zip(&batch) {
        let [left, top, right, bottom] = [0, 1, 2, 3].map(|i| region[i] * scale - shift);
        let (mut wide, mut high) = (right - left, bottom - top);
        if !half {
            (wide, high) = (wide.max(1.0), high.max(1.0));
        }
        let (bin_h, bin_w) = (high / rows as f64, wide / columns as f64);
        let steps = |bin: f64| if ratio > 0 { ratio } else { (bin.ceil() as i64).clamp(0, 1 << 16) };
        let (steps_h, steps_w) = (steps(bin_h), steps(bin_w));
        for c in 0..channels {
            let plane = &values[(n as usize * channels + c) * height * width..][..height * width];
            for row in 0..rows {
                for column in 0..columns {
                    let (mut sum, mut most) = (0.0, f64::NEG_INFINITY);
                    for i in 0..steps_h {
                        let y = top + row as f64 * bin_h + (i as f64 + 0.5) * bin_h / steps_h as f64;
                        for j in 0..steps_w {
                            let x = left + column as f64 * bin_w + (j as f64 + 0.5) * bin_w / steps_w as f64;
                            let parts = corners(plane, (height, width), y, x);
                            sum += parts.iter().sum::<f64>();
                            most = parts.into_iter().fold(most, f64::max);
                        }
                    }
                    made.push(if greatest { most } else { sum / (steps_h * steps_w).max(1) as f64 });
                }
            }
        }
    }
    call.output(dims, src.data_type(), &made)
}

/// The weighed elements around a place: zero beyond one outside the image, the nearest ones up to there.
fn corners(plane: &[f64], (height, width): (usize, usize), y: f64, x: f64) -> [f64; 4] {
    if y < -1.0 || y > height as f64 || x < -1.0 || x > width as f64 || plane.is_empty() {
        return [0.0; 4];
    }
    let split = |at: f64, extent: usize| {
        let at = at.max(0.0);
        let low = (at as usize).min(extent - 1);
        if low == extent - 1 { (low, low, 0.0) } else { (low, low + 1, at - low as f64) }
    };
    let (top, bottom, down) = split(y, height);
    let (left, right, along) = split(x, width);
    [
        (1.0 - down) * (1.0 - along) * plane[top * width + left],
        (1.0 - down) * along * plane[top * width + right],
        down * (1.0 - along) * plane[bottom * width + left],
        down * along * plane[bottom * width + right],
    ]
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
