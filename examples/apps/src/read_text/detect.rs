//! Where the text is: a network gives each pixel's certainty, and certain pixels beside one another are a line (differentiable
//! binarization, Minghui Liao and others, 2019).

use anydnn::model::HostTensor;
use anydnn::onnx::Session;
use anydnn::select::AnyBackend;
use anyhow::{Result, ensure};
use image::RgbImage;
use image::imageops::{FilterType, resize};

use super::only;
use super::outline::Outline;

/// Sides of the picture as the network sees it are multiples of this.
const STEP: u32 = 32;
/// Its longer side is within these.
const LONGER: [u32; 2] = [480, 960];
/// A pixel with text.
const PIXEL: f32 = 0.3;
/// A line is as certain on average, and has as many pixels.
const LINE: f32 = 0.6;
const PIXELS: usize = 12;
/// The network marks the middle of a line: outlines grow by this part of their area over their circumference.
const GROWTH: f32 = 1.6;

/// The outlines of the lines of a picture.
pub(super) fn outlines(network: &Session<AnyBackend>, picture: &RgbImage) -> Result<Vec<Outline>> {
    let (width, height) = picture.dimensions();
    ensure!(width > 0 && height > 0, "the picture has no pixels");
    let [w, h] = seen(width, height);
    let picture =
        if (w, h) == (width, height) { picture.clone() } else { resize(picture, w, h, FilterType::Triangle) };
    let certain = only(network.run(&[("x", pixels(&picture)?)])?)?;
    ensure!(certain.desc().elements() == (w * h) as usize, "the network gave {}", certain.desc());
    let factors = [width as f32 / w as f32, height as f32 / h as f32];
    let found = regions(&certain.to_f32s(), w as usize).into_iter().map(|outline| outline.scaled(factors));
    Ok(found.collect())
}

/// The size in which the network sees a picture.
fn seen(width: u32, height: u32) -> [u32; 2] {
    let longer = width.max(height);
    let scale = f64::from(longer.clamp(LONGER[0], LONGER[1])) / f64::from(longer);
    [width, height].map(|side| ((f64::from(side) * scale / f64::from(STEP)).round() as u32).max(1) * STEP)
}

/// A picture as the networks take it: blue, green and red from -1 to 1, `[1, 3, H, W]`.
fn pixels(picture: &RgbImage) -> Result<HostTensor> {
    let (width, height) = picture.dimensions();
    let plane = |channel: usize| picture.pixels().map(move |pixel| f32::from(pixel[channel]) / 127.5 - 1.0);
    let values: Vec<f32> = [2, 1, 0].into_iter().flat_map(plane).collect();
    Ok(HostTensor::from_f32([1, 3, height as usize, width as usize], &values)?)
}

/// Outlines of pixels that touch one another.
fn regions(certain: &[f32], width: usize) -> Vec<Outline> {
    let mut found = Vec::new();
    let mut new: Vec<bool> = certain.iter().map(|&certain| certain > PIXEL).collect();
    let mut open = Vec::new();
    for start in 0..certain.len() {
        if !std::mem::take(&mut new[start]) {
            continue;
        }
        open.push(start);
        let (mut points, mut sum) = (Vec::new(), 0.0);
        while let Some(place) = open.pop() {
            let (x, y) = (place % width, place / width);
            points.push([x as f32, y as f32]);
            sum += certain[place];
            for y in y.saturating_sub(1)..=y + 1 {
                for x in x.saturating_sub(1)..=(x + 1).min(width - 1) {
                    let beside = y * width + x;
                    if new.get_mut(beside).is_some_and(std::mem::take) {
                        open.push(beside);
                    }
                }
            }
        }
        if points.len() >= PIXELS
            && sum / points.len() as f32 >= LINE
            && let Some(outline) = Outline::around(&points)
        {
            let circumference = 2.0 * (outline.size[0] + outline.size[1]);
            // Centres of pixels lie half a pixel inside.
            let center = outline.center.map(|x| x + 0.5);
            found.push(Outline { center, ..outline }.widened(GROWTH * outline.area() / circumference));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;

    #[test]
    fn pictures_keep_their_size_where_they_can() {
        assert_eq!(seen(512, 288), [512, 288]);
        assert_eq!(seen(100, 20), [480, 96]);
        assert_eq!(seen(4000, 3000), [960, 736]);
        assert_eq!(seen(5000, 1), [960, 32]);
    }

    #[test]
    fn regions_are_told_apart_and_grow() {
        let width = 64;
        let mut certain = vec![0.0; width * 32];
        for (x, y) in (8..40).flat_map(|x| (4..8).map(move |y| (x, y))) {
            certain[y * width + x] = 0.9;
            certain[(y + 14) * width + x + 20] = 0.5;
        }
        certain[31 * width + 63] = 1.0;
        let found = regions(&certain, width);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].center.map(f32::to_bits), [24.0_f32, 6.0].map(f32::to_bits));
        let growth = 2.0 * GROWTH * 32.0 * 4.0 / 72.0;
        assert_abs_diff_eq!(found[0].size[0], 32.0 + growth, epsilon = 1e-3);
    }
}
