//! What a line says: its pixels, set straight, go through two networks.

use anydnn::model::HostTensor;
use anydnn::onnx::Session;
use anydnn::select::AnyBackend;
use anyhow::{Result, ensure};
use image::RgbImage;

use super::only;
use super::outline::Outline;

/// The height in which both networks see a line.
const HEIGHT: usize = 48;
/// The width for the network that knows what is upside down.
const SHORT: usize = 192;
/// Widths for reading are multiples of this, so that few plans serve all lines.
const LONG: usize = 320;
/// The most such.
const MOST: usize = 6;
/// How certain a line is turned.
const TURNED: f32 = 0.9;

/// Whether a line stands on its head.
pub(super) fn is_turned(network: &Session<AnyBackend>, picture: &RgbImage, line: &Outline) -> Result<bool> {
    let input = straight(picture, line, false, SHORT, SHORT)?;
    let scores = only(network.run(&[("x", input)])?)?.to_f32s();
    Ok(scores.get(1).is_some_and(|&score| score > TURNED))
}

/// What a line says, and how certain that is.
pub(super) fn text(
    network: &Session<AnyBackend>,
    characters: &[String],
    picture: &RgbImage,
    line: &Outline,
    turned: bool,
) -> Result<(String, f32)> {
    let own = (HEIGHT as f32 * line.size[0] / line.size[1]).round().max(1.0) as usize;
    let width = own.next_multiple_of(LONG).min(MOST * LONG);
    let input = straight(picture, line, turned, own.min(width), width)?;
    let scores = only(network.run(&[("x", input)])?)?;
    let count = characters.len();
    ensure!(
        scores.dims().last() == Some(&count),
        "the network gave {}, expected {count} scores",
        scores.desc()
    );
    Ok(decoded(&scores.to_f32s(), characters))
}

/// A line's pixels as the networks take them: blue, green and red from -1 to 1, `[1, 3, HEIGHT, total]`, grey behind `width`.
fn straight(
    picture: &RgbImage,
    line: &Outline,
    turned: bool,
    width: usize,
    total: usize,
) -> Result<HostTensor> {
    let own = (HEIGHT as f32 * line.size[0] / line.size[1]).round().max(1.0) as usize;
    let width = own.min(width);
    let sign = if turned { -1.0 } else { 1.0 };
    // Large lines are means of several points for each pixel.
    let parts = ((line.size[1] / HEIGHT as f32).ceil() as usize).clamp(1, 4);
    let mut values = vec![0.0; 3 * HEIGHT * total];
    for (y, x) in (0..HEIGHT).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let mut sum = [0.0; 3];
        for (i, j) in (0..parts).flat_map(|i| (0..parts).map(move |j| (i, j))) {
            let part = |place: usize, part: usize| place as f32 + (part as f32 + 0.5) / parts as f32;
            let point =
                line.at(sign * (part(x, j) / width as f32 - 0.5), sign * (part(y, i) / HEIGHT as f32 - 0.5));
            let colour = colour(picture, point);
            sum.iter_mut().zip(colour).for_each(|(sum, value)| *sum += value);
        }
        for (channel, sum) in [2, 1, 0].into_iter().zip(sum) {
            values[(channel * HEIGHT + y) * total + x] = sum / (parts * parts) as f32 / 127.5 - 1.0;
        }
    }
    Ok(HostTensor::from_f32([1, 3, HEIGHT, total], &values)?)
}

/// The colour at a point between pixels; the border goes on outside.
fn colour(picture: &RgbImage, point: [f32; 2]) -> [f32; 3] {
    let (width, height) = picture.dimensions();
    let [x, y] = point.map(|x| x - 0.5);
    let pixel = |x: f32, y: f32| {
        let x = x.clamp(0.0, (width - 1) as f32) as u32;
        let y = y.clamp(0.0, (height - 1) as f32) as u32;
        picture.get_pixel(x, y).0.map(f32::from)
    };
    let (left, top) = (x.floor(), y.floor());
    let (u, v) = (x - left, y - top);
    let mix =
        |a: [f32; 3], b: [f32; 3], part: f32| std::array::from_fn(|i| a[i] * (1.0 - part) + b[i] * part);
    let row = |y: f32| mix(pixel(left, y), pixel(left + 1.0, y), u);
    mix(row(top), row(top + 1.0), v)
}

/// The best character at each place, without repetitions and without none (Alex Graves and others, 2006), and the mean certainty.
fn decoded(scores: &[f32], characters: &[String]) -> (String, f32) {
    let (mut text, mut sum, mut count, mut last) = (String::new(), 0.0, 0, 0);
    for row in scores.chunks_exact(characters.len()) {
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        if best != 0 && best != last {
            text += &characters[best];
            sum += row[best];
            count += 1;
        }
        last = best;
    }
    (text.trim().to_owned(), sum / count.max(1) as f32)
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;

    #[test]
    fn repetitions_count_once_unless_none_is_between() {
        let characters = ["", "a", "b"].map(str::to_owned);
        let row = |best: usize| (0..3).map(move |i| if i == best { 0.8 } else { 0.1 });
        let scores: Vec<f32> = [0, 1, 1, 0, 1, 2, 2, 0].into_iter().flat_map(row).collect();
        let (text, score) = decoded(&scores, &characters);
        assert_eq!(text, "aab");
        assert_abs_diff_eq!(score, 0.8, epsilon = 1e-6);
        assert_eq!(decoded(&[], &characters), (String::new(), 0.0));
    }

    #[test]
    fn a_turned_line_is_read_from_its_other_end() {
        let picture = RgbImage::from_fn(96, 48, |x, _| image::Rgb([if x < 48 { 255 } else { 0 }, 0, 0]));
        let line = Outline { center: [48.0, 24.0], along: [1.0, 0.0], size: [96.0, 48.0] };
        let red = |turned: bool| {
            let values = straight(&picture, &line, turned, 128, 128).unwrap().to_f32s();
            let at = |x: usize| values[(2 * HEIGHT + 24) * 128 + x];
            [at(10), at(80), at(120)]
        };
        assert_eq!((red(false), red(true)), ([1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]));
    }
}
