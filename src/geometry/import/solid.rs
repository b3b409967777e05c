//! Volume of the solid: where the winding number exceeds one half, so that overlapping shells count once.
//!
//! For a closed mesh the signed sum over the triangles is the integral of the winding number w, exactly. The solid's volume is that
//! plus the integral of [w > 1/2] - w, which vanishes except where shells overlap: only that part is sampled, and
//! a clean mesh keeps its exact volume. An open mesh has no exact integral; there [w > 1/2] itself is sampled.

use crate::geometry::winding::Winding;
use crate::geometry::{Point, TriMesh, Vec3};
use rayon::prelude::*;

/// Most halvings of the box: 512 cells along each side.
const DEEPEST: u32 = 9;
/// Most further halvings where two shells come together, as there they may overlap ...
const DEEPER: u32 = 3;
/// ... as long as the samples in such cells stay below this number (some microseconds each).
const BUDGET: usize = 300_000;
/// Samples along each side of a cell with triangles in it: one at random in each of 2^3 parts.
const PARTS: u32 = 2;

/// A volume with its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Solid {
    /// m^3.
    pub volume: f64,
    /// One standard deviation of the sampled part, m^3; 0 when nothing had to be sampled.
    pub error: f64,
}

/// Measures the solid. `closed`: every edge has as many sides one way as the other, and then `signed` is the signed volume.
/// Cells with triangles in them are halved `levels` times.
/// `shell` is the shell of each triangle.
pub(super) fn measure(mesh: &TriMesh, shell: &[u32], closed: bool, signed: f64, levels: u32) -> Solid {
    let Some((low, high)) = mesh.bounds() else { return Solid::default() };
    let levels = levels.min(DEEPEST);
    let mut job = Job { mesh, winding: Winding::build(mesh), shell, closed, levels, deeper: 0 };
    let all: Vec<u32> = (0..mesh.triangles.len() as u32).collect();
    let common = job.common_cells(low, high, &all, 0);
    // A surface passes through about four of the eight parts of a cell.
    let samples = |deeper: u32| common.saturating_mul(4_usize.pow(deeper) * PARTS.pow(3) as usize);
    job.deeper = (0..=DEEPER).rev().find(|d| samples(*d) <= BUDGET).unwrap_or(0);
    let (sum, variance) = job.cell(low, high, &all, 0, 1);
    Solid { volume: if closed { signed + sum } else { sum }, error: variance.sqrt() }
}

struct Job<'a> {
    mesh: &'a TriMesh,
    winding: Winding,
    shell: &'a [u32],
    closed: bool,
    levels: u32,
    /// Further levels where shells come together.
    deeper: u32,
}

impl Job<'_> {
    /// Integral over a cell and its variance. `name` numbers the cell, so that samples repeat from run to run.
    fn cell(&self, low: Point, high: Point, triangles: &[u32], depth: u32, name: u64) -> (f64, f64) {
        let size = high - low;
        let volume = size.x * size.y * size.z;
        if volume <= 0.0 {
            return (0.0, 0.0);
        }
        if triangles.is_empty() {
            return (self.integrand(&nalgebra::center(&low, &high)) * volume, 0.0);
        }
        if depth >= self.levels && (depth >= self.levels + self.deeper || !self.several(triangles)) {
            return self.sample(low, size, volume, name);
        }
        let child = |k: u64| {
            let (lo, hi, inside) = self.part(&low, &size, triangles, k);
            self.cell(lo, hi, &inside, depth + 1, name * 8 + k)
        };
        // Collected in order before summing: the same bits whatever the number of threads.
        let parts: Vec<(f64, f64)> =
            if depth < 3 { (0..8).into_par_iter().map(child).collect() } else { (0..8).map(child).collect() };
        parts.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1))
    }

    /// Number of cells of the last regular level that hold triangles of several shells.
    fn common_cells(&self, low: Point, high: Point, triangles: &[u32], depth: u32) -> usize {
        if !self.several(triangles) {
            return 0;
        }
        if depth >= self.levels {
            return 1;
        }
        let size = high - low;
        let child = |k: u64| {
            let (lo, hi, inside) = self.part(&low, &size, triangles, k);
            self.common_cells(lo, hi, &inside, depth + 1)
        };
        if depth < 3 { (0..8).into_par_iter().map(child).sum() } else { (0..8).map(child).sum() }
    }

    fn several(&self, triangles: &[u32]) -> bool {
        triangles.iter().any(|t| self.shell[*t as usize] != self.shell[triangles[0] as usize])
    }

    /// The k-th of the eight parts of a cell and the triangles that may touch it.
    fn part(&self, low: &Point, size: &Vec3, triangles: &[u32], k: u64) -> (Point, Point, Vec<u32>) {
        let lo = Point::from(Vec3::from_fn(|i, _| low[i] + size[i] / 2.0 * ((k >> i) & 1) as f64));
        let hi = lo + size / 2.0;
        let inside = triangles.iter().copied().filter(|t| self.touches(*t, &lo, &hi)).collect();
        (lo, hi, inside)
    }

    /// The box and the plane of the triangle meet the cell: rather too many than too few.
    fn touches(&self, t: u32, low: &Point, high: &Point) -> bool {
        let [a, b, c] = self.mesh.corners(t as usize);
        let (lo, hi) = (a.inf(&b).inf(&c), a.sup(&b).sup(&c));
        if (0..3).any(|k| hi[k] < low[k] || lo[k] > high[k]) {
            return false;
        }
        let normal = (b - a).cross(&(c - a));
        let half = (high - low) / 2.0;
        let reach = normal.abs().dot(&half);
        normal.dot(&(low + half - a)).abs() <= reach * (1.0 + 1e-12)
    }

    fn sample(&self, low: Point, size: Vec3, volume: f64, name: u64) -> (f64, f64) {
        let n = PARTS.pow(3);
        let (mut sum, mut squares) = (0.0, 0.0);
        for k in 0..n {
            let part = [k % PARTS, k / PARTS % PARTS, k / PARTS / PARTS];
            let at = Vec3::from_fn(|i, _| {
                let jitter = unit(name.wrapping_mul(64).wrapping_add(u64::from(k * 3) + i as u64));
                size[i] * (f64::from(part[i]) + jitter) / f64::from(PARTS)
            });
            let g = self.integrand(&(low + at));
            sum += g;
            squares += g * g;
        }
        let n = f64::from(n);
        let mean = sum / n;
        let spread = (squares / n - mean * mean).max(0.0);
        (mean * volume, spread * volume * volume / (n - 1.0))
    }

    fn integrand(&self, p: &Point) -> f64 {
        let w = self.winding.number(p);
        if self.closed {
            // Whole but for the tree's error of some thousandths.
            let w = w.round();
            return f64::from(u8::from(w > 0.5)) - w;
        }
        f64::from(u8::from(w > 0.5))
    }
}

/// A number in [0, 1) from a key (the mixing steps of splitmix64, Steele, Lea and Flood 2014).
fn unit(key: u64) -> f64 {
    let mut z = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::import::{orient::flood, topology::EdgeUses};
    use crate::geometry::{mass::mass_properties, shapes};
    use std::f64::consts::PI;

    fn run(mesh: &TriMesh, closed: bool, signed: f64) -> Solid {
        let mut copy = mesh.clone();
        let flood = flood(&mut copy, &EdgeUses::new(&mesh.triangles));
        assert_eq!(&copy, mesh, "the test's mesh is consistent");
        measure(mesh, &flood.shell, closed, signed, 5)
    }

    fn with(mut a: TriMesh, b: TriMesh, by: Vec3) -> TriMesh {
        let base = a.vertices.len() as u32;
        a.vertices.extend(b.vertices.iter().map(|v| v + by));
        a.triangles.extend(b.triangles.iter().map(|t| t.map(|i| i + base)));
        a
    }

    #[test]
    fn clean_meshes_keep_their_exact_volume() {
        for mesh in [
            shapes::torus(0.06, 0.02, 64, 32),
            shapes::hollow_sphere(0.05, 0.03, 3),
            shapes::keyed_hole(&shapes::HoleShape::default()),
        ] {
            let v = mass_properties(&mesh).volume;
            assert_eq!(run(&mesh, true, v), Solid { volume: v, error: 0.0 });
        }
    }

    #[test]
    fn overlapping_boxes_count_once() {
        let cube = || shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        let by = Vec3::new(0.37, 0.21, -0.4);
        let mesh = with(cube(), cube(), by);
        let truth = 2.0 - (1.0 - by.x) * (1.0 - by.y) * (1.0 + by.z);
        let got = run(&mesh, true, 2.0);
        assert!(got.error < 1e-3 && (got.volume - truth).abs() < 4.0 * got.error + 1e-9, "{got:?} {truth}");
    }

    #[test]
    fn overlapping_balls_count_their_lens_once() {
        let (r, d): (f64, f64) = (0.05, 0.06);
        let mesh = with(shapes::icosphere(r, 4), shapes::icosphere(r, 4), Vec3::new(d, 0.0, 0.0));
        let v = mass_properties(&mesh).volume;
        // Lens of two equal balls: pi (4 r + d) (2 r - d)^2 / 12.
        let lens = PI * (4.0 * r + d) * (2.0 * r - d).powi(2) / 12.0;
        let got = run(&mesh, true, v);
        // The balls are polyhedra, 0.3 % short in volume; so is the lens, to that order.
        assert!((got.volume - (v - lens)).abs() < 0.02 * lens + 4.0 * got.error, "{got:?} {v} {lens}");
        assert!(got.volume < v - 0.9 * lens);
    }

    #[test]
    fn inverted_body_is_no_solid() {
        let mut mesh = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
        let got = run(&mesh, true, -1.0);
        assert!(got.volume.abs() < 3.0 * got.error + 1e-9 && got.error < 1e-2, "{got:?}");
    }

    #[test]
    fn ball_with_a_hole_has_nearly_its_volume() {
        let mut mesh = shapes::icosphere(1.0, 4);
        let whole = mass_properties(&mesh).volume;
        mesh.triangles.retain(|t| t.iter().any(|i| mesh.vertices[*i as usize].z < 0.97));
        let got = run(&mesh, false, 0.0);
        assert!((got.volume - whole).abs() < 0.01 * whole, "{got:?} {whole}");
        assert!(got.error < 2e-3 * whole);
    }
}
