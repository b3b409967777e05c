//! A keyed pin and the block with its hole: the scene of the demo.
//!
//! Both are lofts along x: rings with equal vertex counts at rising or equal x, joined by quads. A ring is an outline
//! round the x axis, sampled at angles that all rings share, so that the key's corners and the square's corners are
//! vertices of every ring and the surfaces between them stay planar. Defaults follow the peg-in-hole of Sagardia,
//! Stouraitis and Lopes e Silva (2014): at cells of 1 mm the block spans 280 x 160 x 160.

use super::primitives::turn;
use crate::geometry::{Point, TriMesh, Vec3};
use std::collections::HashMap;

/// A key (feather) or keyway of rectangular section, on the +z side, parallel to the x axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Width along y, m; less than the diameter.
    pub width: f64,
    /// Distance of its flat top from the axis, m; more than the radius.
    pub top: f64,
}

/// A shank along -x with a lead-in at its tip, a square head at x >= 0 and a key from the head on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PinShape {
    /// Radius of the shank, m.
    pub radius: f64,
    /// Length of the shank, m: from x = -length to 0.
    pub length: f64,
    /// Lead-in cone at the tip: its length along x and the radius it takes away, m.
    pub lead_in: (f64, f64),
    /// Key, if any.
    pub key: Option<Key>,
    /// The key spans x = -key_length to 0, m; less than the shank without its lead-in.
    pub key_length: f64,
    /// Edge of the square head, m; its half exceeds radius and key.
    pub head_side: f64,
    /// Thickness of the head, m.
    pub head_length: f64,
    /// Steps round the axis; rounded up to a multiple of 8.
    pub segments: u32,
    /// Longest step along x, m; infinite for none but the needed ones.
    pub axial_step: f64,
}

impl Default for PinShape {
    /// A shank of 29.5 mm radius and 200 mm length with a 9 mm key.
    fn default() -> Self {
        Self {
            radius: 0.0295,
            length: 0.200,
            lead_in: (0.012, 0.004),
            key: Some(Key { width: 0.009, top: 0.037 }),
            key_length: 0.150,
            head_side: 0.120,
            head_length: 0.040,
            segments: 128,
            axial_step: f64::INFINITY,
        }
    }
}

impl PinShape {
    /// Whether the measures fit together.
    ///
    /// # Errors
    /// What contradicts what.
    pub fn check(&self) -> Result<(), &'static str> {
        let Self { radius: r, length, lead_in, key, key_length, head_side, head_length, .. } = *self;
        let reach = key.map_or(r, |k| k.top.hypot(k.width / 2.0));
        check_round(r, key, self.axial_step)?;
        require(r > lead_in.1 && lead_in.0 > 0.0 && lead_in.1 >= 0.0, "lead-in does not fit the shank")?;
        require(length > lead_in.0, "shank shorter than its lead-in")?;
        require(head_side / 2.0 > reach && head_length > 0.0, "head does not cover the shank")?;
        let fits = key.is_none() || (key_length > 0.0 && key_length < length - lead_in.0);
        require(fits, "key does not fit the shank")
    }
}

/// A block with a through bore along x, a chamfer at its +x mouth and a keyway along the whole bore.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoleShape {
    /// Radius of the bore, m. Facets cut into it by radius * (1 - cos(pi / segments)).
    pub radius: f64,
    /// Length of the block along x, m: from -length/2 to length/2.
    pub length: f64,
    /// Edge of the block along y and z, m.
    pub side: f64,
    /// Depth of the 45 degree chamfer at +x, m; 0 for none.
    pub chamfer: f64,
    /// Keyway, if any; its top lies beyond the chamfer.
    pub key: Option<Key>,
    /// Steps round the axis; rounded up to a multiple of 8.
    pub segments: u32,
    /// Longest step along x, m; infinite for none but the needed ones.
    pub axial_step: f64,
}

impl Default for HoleShape {
    /// A bore of 30 mm radius with a 10 mm keyway in a block of 280 x 160 x 160 mm.
    fn default() -> Self {
        Self {
            radius: 0.030,
            length: 0.280,
            side: 0.160,
            chamfer: 0.006,
            key: Some(Key { width: 0.010, top: 0.038 }),
            segments: 128,
            axial_step: f64::INFINITY,
        }
    }
}

impl HoleShape {
    /// Whether the measures fit together.
    ///
    /// # Errors
    /// What contradicts what.
    pub fn check(&self) -> Result<(), &'static str> {
        let Self { radius: r, length, side, chamfer, key, .. } = *self;
        let mouth = r + chamfer;
        let reach = key.map_or(mouth, |k| k.top.hypot(k.width / 2.0));
        check_round(r, key, self.axial_step)?;
        require(side / 2.0 > reach, "block does not surround the bore")?;
        require((0.0..length).contains(&chamfer), "chamfer does not fit the block")?;
        require(key.is_none_or(|k| k.top > mouth), "keyway is no deeper than the chamfer")
    }
}

fn require(fits: bool, or: &'static str) -> Result<(), &'static str> {
    if fits { Ok(()) } else { Err(or) }
}

fn check_round(radius: f64, key: Option<Key>, axial_step: f64) -> Result<(), &'static str> {
    require(radius > 0.0 && radius.is_finite(), "radius must be positive")?;
    require(axial_step > 0.0, "axial step must be positive")?;
    let Some(k) = key else { return Ok(()) };
    require(k.width > 0.0 && k.width < 2.0 * radius * 0.7, "key wider than a quarter of the shank")?;
    require(k.top > radius, "key inside the shank")
}

/// The pin as one closed mesh.
///
/// # Panics
/// When [`PinShape::check`] refuses the measures.
pub fn keyed_pin(shape: &PinShape) -> TriMesh {
    let PinShape { radius: r, length, lead_in, key, key_length, head_side, head_length, .. } = *shape;
    assert_eq!(shape.check(), Ok(()));
    let rays = Rays::new(shape.segments, r, key);
    let mut loft = Loft::new(shape.axial_step);
    loft.ring(-length, rays.circle(r - lead_in.1));
    loft.ring(lead_in.0 - length, rays.circle(r));
    if key.is_some() {
        loft.ring(-key_length, rays.circle(r));
        loft.ring(-key_length, rays.keyed(r));
    }
    loft.ring(0.0, rays.keyed(r));
    loft.ring(0.0, rays.square(head_side / 2.0));
    loft.ring(head_length, rays.square(head_side / 2.0));
    loft.capped()
}

/// The block with its hole as one closed mesh.
///
/// # Panics
/// When [`HoleShape::check`] refuses the measures.
pub fn keyed_hole(shape: &HoleShape) -> TriMesh {
    let HoleShape { radius: r, length, side, chamfer, key, .. } = *shape;
    let mouth = r + chamfer;
    assert_eq!(shape.check(), Ok(()));
    let rays = Rays::new(shape.segments, r, key);
    let mut loft = Loft::new(shape.axial_step);
    // Outside first: with the outline anticlockwise about +x, rising x makes an outward surface, falling x a bore.
    loft.ring(-length / 2.0, rays.square(side / 2.0));
    loft.ring(length / 2.0, rays.square(side / 2.0));
    loft.ring(length / 2.0, rays.keyed(mouth));
    if chamfer > 0.0 {
        loft.ring(length / 2.0 - chamfer, rays.keyed(r));
    }
    loft.ring(-length / 2.0, rays.keyed(r));
    loft.closed()
}

/// An outline in the y-z plane, anticlockwise seen from +x, starting at -z.
type Outline = Vec<(f64, f64)>;

/// The angles that all outlines share, as unit vectors (y, z).
struct Rays {
    /// Directions outside the key, from one flank of the key round to the other.
    plain: Outline,
    /// The key, and its directions when it is flattened into a circle or square.
    key: Option<Key>,
    /// Radius at which the key's foot was put for `plain` and flattened outlines.
    radius: f64,
}

impl Rays {
    fn new(segments: u32, radius: f64, key: Option<Key>) -> Self {
        let n = segments.max(8).div_ceil(8) * 8;
        // Rays closer to the foot than a quarter step would make slivers.
        let step = 2.0 * std::f64::consts::PI / f64::from(n);
        let foot = key.map_or(-1.0, |k| (k.width / 2.0 / radius).asin() + step / 4.0);
        let plain = (0..n)
            .map(|i| turn(i, n))
            // Angle 0 is +z, growing towards -y: anticlockwise seen from +x.
            .filter(|&(s, c)| s.atan2(c).abs() > foot)
            .map(|(s, c)| (-s, c))
            .collect();
        Self { plain, key, radius }
    }

    /// The key's four corners (foot, top, top, foot) on a shank of radius `r`, in order after `plain`.
    fn corners(key: &Key, r: f64) -> [(f64, f64); 4] {
        let h = key.width / 2.0;
        let foot = (r * r - h * h).sqrt();
        [(h, foot), (h, key.top), (-h, key.top), (-h, foot)]
    }

    fn directions(&self) -> Outline {
        let mut all = self.plain.clone();
        if let Some(k) = &self.key {
            all.extend(Self::corners(k, self.radius).map(|(y, z)| (y / y.hypot(z), z / y.hypot(z))));
        }
        all
    }

    fn circle(&self, r: f64) -> Outline {
        self.directions().iter().map(|&(y, z)| (r * y, r * z)).collect()
    }

    fn square(&self, half: f64) -> Outline {
        let onto = |(y, z): (f64, f64)| {
            let (ay, az) = (y.abs(), z.abs());
            // Both when equal to rounding: the corners must be exact.
            if (ay - az).abs() < 1e-12 {
                (half.copysign(y), half.copysign(z))
            } else if ay > az {
                (half.copysign(y), half * z / ay)
            } else {
                (half * y / az, half.copysign(z))
            }
        };
        self.directions().into_iter().map(onto).collect()
    }

    fn keyed(&self, r: f64) -> Outline {
        let mut all: Outline = self.plain.iter().map(|&(y, z)| (r * y, r * z)).collect();
        if let Some(k) = &self.key {
            all.extend(Self::corners(k, r));
        }
        all
    }
}

/// Rings joined by quads. Coincident vertices are shared and quads that collapse vanish.
struct Loft {
    rings: Vec<(f64, Outline)>,
    step: f64,
}

impl Loft {
    fn new(step: f64) -> Self {
        Self { rings: Vec::new(), step }
    }

    /// Adds a ring and, between it and the last one, as many as the axial step asks for (at most 10,000).
    fn ring(&mut self, x: f64, outline: Outline) {
        let between = self.rings.last().map(|(x0, from)| {
            let n = ((x - x0).abs() / self.step).ceil().clamp(1.0, 10_000.0);
            let mix = |a: f64, b: f64, k: f64| a + (b - a) * (k / n);
            (1..n as u32)
                .map(|k| {
                    let k = f64::from(k);
                    let blend = from.iter().zip(&outline).map(|(p, q)| (mix(p.0, q.0, k), mix(p.1, q.1, k)));
                    (mix(*x0, x, k), blend.collect::<Outline>())
                })
                .collect::<Vec<_>>()
        });
        self.rings.extend(between.into_iter().flatten());
        self.rings.push((x, outline));
    }

    /// Closes both ends with flat caps.
    fn capped(self) -> TriMesh {
        let mut out = Builder::default();
        let (first, last) = (self.rings.first().cloned(), self.rings.last().cloned());
        out.join(&self.rings);
        if let (Some((x0, a)), Some((x1, b))) = (first, last) {
            out.cap(x0, &a, false);
            out.cap(x1, &b, true);
        }
        out.mesh
    }

    /// Joins the last ring to the first.
    fn closed(mut self) -> TriMesh {
        if let Some(first) = self.rings.first().cloned() {
            self.rings.push(first);
        }
        let mut out = Builder::default();
        out.join(&self.rings);
        out.mesh
    }
}

#[derive(Default)]
struct Builder {
    mesh: TriMesh,
    known: HashMap<[u64; 3], u32>,
}

impl Builder {
    fn vertex(&mut self, x: f64, (y, z): (f64, f64)) -> u32 {
        // Rounding noise far below any measure must not split a vertex: share within a picometre grid.
        let v = Vec3::new(x, y, z);
        let key = [v.x, v.y, v.z].map(|c| ((c * 1e12).round() as i64) as u64);
        let vertices = &mut self.mesh.vertices;
        *self.known.entry(key).or_insert_with(|| {
            vertices.push(Point::from(v));
            vertices.len() as u32 - 1
        })
    }

    fn triangle(&mut self, [a, b, c]: [u32; 3]) {
        if a != b && b != c && c != a {
            self.mesh.triangles.push([a, b, c]);
        }
    }

    fn join(&mut self, rings: &[(f64, Outline)]) {
        for pair in rings.windows(2) {
            let ((x0, lower), (x1, upper)) = (&pair[0], &pair[1]);
            for i in 0..lower.len() {
                let j = (i + 1) % lower.len();
                let [a, b] = [i, j].map(|k| self.vertex(*x0, lower[k]));
                let [d, c] = [i, j].map(|k| self.vertex(*x1, upper[k]));
                self.triangle([a, b, c]);
                self.triangle([a, c, d]);
            }
        }
    }

    fn cap(&mut self, x: f64, outline: &Outline, upward: bool) {
        let centre = self.vertex(x, (0.0, 0.0));
        for i in 0..outline.len() {
            let [a, b] = [i, (i + 1) % outline.len()].map(|k| self.vertex(x, outline[k]));
            self.triangle(if upward { [centre, a, b] } else { [centre, b, a] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::mass::mass_properties;

    /// Area of an outline by the shoelace formula.
    fn area(outline: &Outline) -> f64 {
        let n = outline.len();
        (0..n)
            .map(|i| outline[i].0 * outline[(i + 1) % n].1 - outline[(i + 1) % n].0 * outline[i].1)
            .sum::<f64>()
            / 2.0
    }

    fn near(a: f64, b: f64, rel: f64) {
        assert!((a - b).abs() <= rel * b.abs(), "{a} is not {b} within {rel}");
    }

    #[test]
    fn pin_volume_is_the_sum_of_its_prisms_and_its_cone() {
        let s = PinShape::default();
        let rays = Rays::new(s.segments, s.radius, s.key);
        let (a, b) = (area(&rays.circle(s.radius - s.lead_in.1)), area(&rays.circle(s.radius)));
        let cone = s.lead_in.0 / 3.0 * (a + b + (a * b).sqrt());
        let plain = b * (s.length - s.lead_in.0 - s.key_length);
        let keyed = area(&rays.keyed(s.radius)) * s.key_length;
        let head = s.head_side.powi(2) * s.head_length;
        near(mass_properties(&keyed_pin(&s)).volume, cone + plain + keyed + head, 1e-12);
        // An independent figure: the same solid by Boolean operations of another library, in f32 (models/README.md).
        near(cone + plain + keyed + head, 0.00112861669, 2e-4);
    }

    #[test]
    fn hole_volume_is_the_block_less_the_bore() {
        let s = HoleShape { chamfer: 0.0, ..HoleShape::default() };
        let rays = Rays::new(s.segments, s.radius, s.key);
        let bore = area(&rays.keyed(s.radius)) * s.length;
        near(mass_properties(&keyed_hole(&s)).volume, s.side.powi(2) * s.length - bore, 1e-12);
        near(mass_properties(&keyed_hole(&HoleShape::default())).volume, 0.00635039204, 2e-4);
    }

    #[test]
    fn pin_fits_the_hole() {
        let (pin, hole) = (PinShape::default(), HoleShape::default());
        let apothem = hole.radius * (std::f64::consts::PI / f64::from(hole.segments)).cos();
        assert!(pin.radius < apothem);
        let (key, way) = (pin.key.unwrap(), hole.key.unwrap());
        assert!(key.width < way.width && key.top.hypot(key.width / 2.0) < way.top.hypot(way.width / 2.0));
        assert!(key.top < way.top);
    }

    #[test]
    fn bounds_are_the_stated_measures() {
        let (lo, hi) = keyed_pin(&PinShape::default()).bounds().unwrap();
        assert!(
            (lo - Point::new(-0.2, -0.06, -0.06)).norm() < 1e-15
                && (hi - Point::new(0.04, 0.06, 0.06)).norm() < 1e-15
        );
        let (lo, hi) = keyed_hole(&HoleShape::default()).bounds().unwrap();
        assert!(
            (lo - Point::new(-0.14, -0.08, -0.08)).norm() < 1e-15
                && (hi - Point::new(0.14, 0.08, 0.08)).norm() < 1e-15
        );
    }
}
