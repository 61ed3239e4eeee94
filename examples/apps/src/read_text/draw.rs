//! The picture with the lines that were found.

use image::{Rgb, RgbImage};

use super::Line;

/// Of outlines and of the numbers beside them.
const COLOUR: Rgb<u8> = Rgb([214, 40, 57]);
/// Digits of three by five points, a row in three bits.
const DIGITS: [[u8; 5]; 10] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 7, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 1, 1, 1],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
];

/// The picture with the outlines of lines, numbered from one.
pub fn annotated(picture: &RgbImage, lines: &[Line]) -> RgbImage {
    let mut picture = picture.clone();
    for (index, line) in lines.iter().enumerate() {
        let corners = line.outline.corners();
        for (i, &from) in corners.iter().enumerate() {
            stroke(&mut picture, from, corners[(i + 1) % 4]);
        }
        let left = corners.iter().fold(f32::INFINITY, |least, corner| least.min(corner[0]));
        let top = corners.iter().fold(f32::INFINITY, |least, corner| least.min(corner[1]));
        for (place, digit) in (index + 1).to_string().bytes().enumerate() {
            let rows = DIGITS[usize::from(digit - b'0')];
            for (x, y) in (0..6_u32).flat_map(|x| (0..10_u32).map(move |y| (x, y))) {
                if rows[(y / 2) as usize] >> (2 - x / 2) & 1 == 1 {
                    dot(&mut picture, left + (place as f32 + 1.0) * 8.0 - 20.0 + x as f32, top + y as f32);
                }
            }
        }
    }
    picture
}

fn stroke(picture: &mut RgbImage, from: [f32; 2], to: [f32; 2]) {
    let steps = (to[0] - from[0]).abs().max((to[1] - from[1]).abs()).ceil().max(1.0);
    for step in 0..=steps as usize {
        let part = step as f32 / steps;
        let [x, y] = [0, 1].map(|i| from[i] + (to[i] - from[i]) * part);
        dot(picture, x, y);
        dot(picture, x, y + 1.0);
    }
}

fn dot(picture: &mut RgbImage, x: f32, y: f32) {
    if x >= 0.0
        && y >= 0.0
        && let Some(pixel) = picture.get_pixel_mut_checked(x as u32, y as u32)
    {
        *pixel = COLOUR;
    }
}
