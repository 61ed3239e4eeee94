//! Rectangles of any angle around points.

/// A rectangle, by its middle and two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// The middle, in pixels from the left and from the top.
    pub center: [f32; 2],
    /// The direction of reading, of length one.
    pub along: [f32; 2],
    /// The length along that direction, and across it.
    pub size: [f32; 2],
}

impl Outline {
    /// The smallest rectangle around points; a point is a square with sides of one. None around no points.
    ///
    /// One of its sides lies on a side of the convex hull (Herbert Freeman and Ruth Shapira, 1975).
    pub fn around(points: &[[f32; 2]]) -> Option<Self> {
        let hull = hull(points);
        let mut best: Option<Self> = None;
        for (i, &a) in hull.iter().enumerate() {
            let b = hull[(i + 1) % hull.len()];
            let length = (b[0] - a[0]).hypot(b[1] - a[1]);
            let along =
                if length > 0.0 { [(b[0] - a[0]) / length, (b[1] - a[1]) / length] } else { [1.0, 0.0] };
            let across = [-along[1], along[0]];
            let extent = |axis: [f32; 2]| {
                let places = hull.iter().map(|point| point[0] * axis[0] + point[1] * axis[1]);
                places
                    .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)))
            };
            let ((l0, l1), (h0, h1)) = (extent(along), extent(across));
            let (u, v) = (f32::midpoint(l0, l1), f32::midpoint(h0, h1));
            let center = [u * along[0] + v * across[0], u * along[1] + v * across[1]];
            let found = Self { center, along, size: [l1 - l0 + 1.0, h1 - h0 + 1.0] };
            if best.as_ref().is_none_or(|best| found.area() < best.area()) {
                best = Some(found);
            }
        }
        best.map(Self::readable)
    }

    /// The corners, from the upper left one as the text is read.
    pub fn corners(&self) -> [[f32; 2]; 4] {
        [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]].map(|[u, v]| self.at(u, v))
    }

    /// A point from the middle, in parts of both sides.
    pub fn at(&self, u: f32, v: f32) -> [f32; 2] {
        let (u, v) = (u * self.size[0], v * self.size[1]);
        let [x, y] = self.along;
        [self.center[0] + u * x - v * y, self.center[1] + u * y + v * x]
    }

    /// Larger by a distance on every side.
    pub fn widened(self, distance: f32) -> Self {
        Self { size: self.size.map(|side| side + 2.0 * distance), ..self }
    }

    /// The same in a picture of another size.
    pub fn scaled(self, factors: [f32; 2]) -> Self {
        let scale = |[x, y]: [f32; 2]| [x * factors[0], y * factors[1]];
        let (along, across) = (scale(self.along), scale([-self.along[1], self.along[0]]));
        let length = along[0].hypot(along[1]);
        let size = [self.size[0] * length, self.size[1] * across[0].hypot(across[1])];
        Self { center: scale(self.center), along: [along[0] / length, along[1] / length], size }
    }

    /// The area in pixels.
    pub fn area(&self) -> f32 {
        self.size[0] * self.size[1]
    }

    /// With the direction in which text like this is read: to the right, and downwards in columns that are much higher than wide.
    fn readable(self) -> Self {
        let turned =
            |by: Self| Self { along: [-by.along[1], by.along[0]], size: [by.size[1], by.size[0]], ..by };
        let mut found = self;
        if found.along[0].abs() < found.along[1].abs() {
            found = turned(found);
        }
        if found.along[0] < 0.0 {
            found.along = found.along.map(|x| -x);
        }
        if found.size[1] >= 1.5 * found.size[0] { turned(found) } else { found }
    }
}

/// The convex hull, in order (Andrew's monotone chain, 1979).
fn hull(points: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let right = |a: [f32; 2], b: [f32; 2], c: [f32; 2]| {
        (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0.0
    };
    let chain = |points: &mut dyn Iterator<Item = [f32; 2]>| {
        let mut chain: Vec<[f32; 2]> = Vec::new();
        for point in points {
            while chain.len() >= 2 && right(chain[chain.len() - 2], chain[chain.len() - 1], point) {
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut hull = chain(&mut points.iter().copied());
    hull.extend(chain(&mut points.iter().rev().copied()));
    hull
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;

    #[test]
    fn a_slanted_line_of_text_has_a_slanted_outline() {
        let (sine, cosine) = 0.3_f32.sin_cos();
        let points: Vec<[f32; 2]> = (0..100)
            .flat_map(|u| (0..10).map(move |v| (u as f32, v as f32)))
            .map(|(u, v)| [50.0 + u * cosine - v * sine, 20.0 + u * sine + v * cosine])
            .collect();
        let found = Outline::around(&points).unwrap();
        assert_abs_diff_eq!(found.along[..], [cosine, sine][..], epsilon = 0.01);
        assert_abs_diff_eq!(found.size[..], [100.0, 10.0][..], epsilon = 0.5);
        assert_abs_diff_eq!(found.corners()[0][..], [50.0, 20.0][..], epsilon = 1.0);
    }

    #[test]
    fn columns_are_read_downwards() {
        let points: Vec<[f32; 2]> = (0..40).map(|y| [7.0, y as f32]).collect();
        let found = Outline::around(&points).unwrap();
        assert_eq!((found.along.map(f32::round), found.size), ([0.0, 1.0], [40.0, 1.0]));
        assert!(Outline::around(&[]).is_none());
        let point = Outline::around(&[[3.0, 4.0]]).unwrap();
        assert_eq!(point.size.map(f32::to_bits), [1.0_f32, 1.0].map(f32::to_bits));
    }
}
