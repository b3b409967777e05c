//! Volume, centroid and inertia of the solid: where the winding number exceeds one half, so that overlapping shells count
//! once.
//!
//! For a closed mesh the signed sum over the triangles is the integral of the winding number w, exactly. The solid's volume is that
//! plus the integral of [w > 1/2] - w, which vanishes except where shells overlap: only that part is sampled, and
//! a clean mesh keeps its exact volume. An open mesh has no exact integral; there [w > 1/2] itself is sampled.

use super::watch::{STRIDE, Stopped, Watch};
use crate::geometry::mass::{MassProperties, covariance_of, inertia_of, mass_properties};
use crate::geometry::winding::{self, Winding};
use crate::geometry::{Point, TriMesh, Vec3};
use nalgebra::{Matrix3, Matrix4, Vector4};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most halvings of the box: 512 cells along each side.
const DEEPEST: u32 = 9;
/// Most further halvings where two shells come together, as there they may overlap ...
const DEEPER: u32 = 3;
/// ... as long as the samples in such cells stay below this number (some microseconds each).
const BUDGET: usize = 300_000;
/// Most tests of a triangle against a cell in one pass (some 20 ns each) ...
const TESTS: u64 = 20_000_000;
/// ... and so many more for each triangle and level. A triangle smaller than the cells is in one or two of the parents, each with
/// eight parts, so that only large triangles by the ten thousand, in one another's way, get there.
const TESTS_EACH: u64 = 16;
/// Least variance of samples of 0 and 1 where cells are larger than was asked for: of eight that are all alike the next may
/// still differ with a chance of (0 + 1) / (8 + 2), by the rule of succession.
const UNSEEN: f64 = 0.1 * 0.9;
/// Samples along each side of a cell with triangles in it: one at random in each of 2^3 parts.
const PARTS: u32 = 2;

/// The tree works in `f32` on a mesh of about unit size: a point this near to the surface, as a fraction of the box, may be
/// taken for one on its other side.
const BLUR: f64 = 1.0 / (1 << 20) as f64;
/// Up to so many triangles the winding number is summed in `f64` where the tree is too coarse for the body ...
const EXACT: usize = 500;
/// ... which blurs like this: the denominator of the solid angle cancels to about the square of the distance.
const BLUR_EXACT: f64 = 4e-8;
/// Farther from one half than this at its corners and middle, the winding number is on that side in a whole empty cell.
const CLEAR: f64 = 0.1;
/// The winding number of a closed mesh is whole. One farther from it than this was not computed well.
const WHOLE: f64 = 0.05;

/// The solid's moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Solid {
    /// m^3.
    pub volume: f64,
    /// One standard deviation of the sampled part and what rounding can do to it, m^3; 0 when nothing had to be sampled. It grows
    /// where the cells are larger than was asked for.
    pub error: f64,
    /// m; the signed volume's where the solid has none.
    pub centroid: Point,
    /// About the centroid at 1 kg/m^3, kg·m^2.
    pub inertia: Matrix3<f64>,
}

impl From<&MassProperties> for Solid {
    /// What needed no sampling.
    fn from(m: &MassProperties) -> Self {
        Self { volume: m.volume, error: 0.0, centroid: m.centroid, inertia: m.inertia }
    }
}

/// Integrals of the products of (1, x, y, z) over a region, about a point near it.
type Moments = Matrix4<f64>;

/// Those of a box of that middle and size.
fn of_box(middle: &Vec3, size: &Vec3) -> Moments {
    let mut out = products(middle);
    for i in 0..3 {
        out[(i + 1, i + 1)] += size[i] * size[i] / 12.0;
    }
    out * (size.x * size.y * size.z)
}

/// The products of (1, x, y, z).
fn products(at: &Vec3) -> Moments {
    let x = Vector4::new(1.0, at.x, at.y, at.z);
    x * x.transpose()
}

/// Those of a body about `origin`.
fn of_mass(mass: &MassProperties, origin: &Point) -> Moments {
    let mut out = products(&(mass.centroid - origin)) * mass.volume;
    let mut second = out.fixed_view_mut::<3, 3>(1, 1);
    second += covariance_of(&mass.inertia);
    out
}

/// Centroid and inertia from them; `None` without a volume.
fn to_mass(m: &Moments, origin: &Point) -> Option<(Point, Matrix3<f64>)> {
    let volume = m[(0, 0)];
    if volume <= 0.0 {
        return None;
    }
    let c = Vec3::new(m[(1, 0)], m[(2, 0)], m[(3, 0)]) / volume;
    let covariance = m.fixed_view::<3, 3>(1, 1) - c * c.transpose() * volume;
    Some((origin + c, inertia_of(&covariance)))
}

/// Measures the solid. `closed`: every edge has as many sides one way as the other. `signed`: the moments of the signed sum.
/// Cells with triangles in them are halved `levels` times, or less often where that takes more than [`TESTS`]: counted, so that the
/// same mesh always gives the same figures. `shell` is the shell of each triangle.
pub(super) fn measure(
    mesh: &TriMesh,
    shell: &[u32],
    closed: bool,
    signed: &MassProperties,
    levels: u32,
    watch: &Watch<'_>,
) -> Result<Solid, Stopped> {
    let levels = levels.min(DEEPEST);
    let each = TESTS_EACH * u64::from(levels + DEEPER + 1);
    let limit = TESTS + each * mesh.triangles.len() as u64;
    measure_within(mesh, shell, closed, signed, Effort { levels, limit }, watch)
}

/// What may be spent.
#[derive(Clone, Copy)]
struct Effort {
    levels: u32,
    /// Tests of a triangle against a cell, in one pass.
    limit: u64,
}

fn measure_within(
    mesh: &TriMesh,
    shell: &[u32],
    closed: bool,
    signed: &MassProperties,
    effort: Effort,
    watch: &Watch<'_>,
) -> Result<Solid, Stopped> {
    let Some((low, high)) = mesh.bounds() else { return Ok(signed.into()) };
    let stretch = if closed { to_cube(&low, &high) } else { Vec3::repeat(1.0) };
    if stretch == Vec3::repeat(1.0) {
        return measure_here(mesh, shell, closed, signed, effort, watch);
    }
    // How often a closed surface surrounds a point does not change when the axes are stretched, so that a needle or a plate
    // along them is measured as a compact body.
    let put = |p: &Point| Point::from(p.coords.component_mul(&stretch));
    let cube =
        TriMesh { vertices: mesh.vertices.iter().map(put).collect(), triangles: mesh.triangles.clone() };
    let factor = stretch.product();
    let there = mass_properties(&cube);
    let got = measure_here(&cube, shell, closed, &there, effort, watch)?;
    if got.error == 0.0 {
        return Ok(signed.into());
    }
    let back = stretch.map(|s| 1.0 / s);
    let covariance = covariance_of(&got.inertia).component_mul(&(back * back.transpose())) / factor;
    Ok(Solid {
        volume: got.volume / factor,
        error: got.error / factor,
        centroid: Point::from(got.centroid.coords.component_mul(&back)),
        inertia: inertia_of(&covariance),
    })
}

/// Factors that make the box a cube; 1 for a box that is nearly one, or has no thickness.
fn to_cube(low: &Point, high: &Point) -> Vec3 {
    let size = high - low;
    if size.amin() <= 0.0 || size.amax() < 100.0 * size.amin() {
        return Vec3::repeat(1.0);
    }
    size.map(|s| size.amax() / s)
}

fn measure_here(
    mesh: &TriMesh,
    shell: &[u32],
    closed: bool,
    signed: &MassProperties,
    effort: Effort,
    watch: &Watch<'_>,
) -> Result<Solid, Stopped> {
    let Some((low, high)) = mesh.bounds() else { return Ok(signed.into()) };
    let skin = signed.area * (high - low).amax();
    let thin = skin * BLUR > 1e-4 * signed.volume.abs();
    let exact = thin && mesh.triangles.len() <= EXACT;
    // Near one surface 0 may be taken for 1, which changes nothing; only where two are as near to each other as that.
    let blur = match (thin, exact) {
        (false, _) => 0.0,
        (true, false) => skin * BLUR,
        (true, true) => skin * BLUR_EXACT,
    };
    let middle = nalgebra::center(&low, &high);
    let mut job = Job {
        mesh,
        winding: Winding::build_unless(mesh, &|| watch.stopped()).ok_or(Stopped)?,
        shell,
        closed,
        levels: effort.levels,
        deeper: 0,
        lowered: false,
        exact,
        middle,
        limit: effort.limit,
        tests: AtomicU64::new(0),
        finished: AtomicU64::new(0),
        watch,
    };
    let all: Vec<u32> = (0..mesh.triangles.len() as u32).collect();
    let common = match job.common_cells(low, high, &all, 0) {
        Ok(common) => {
            // A surface passes through about four of the eight parts of a cell.
            let samples = |deeper: u32| common.saturating_mul(4_usize.pow(deeper) * PARTS.pow(3) as usize);
            job.deeper = (0..=DEEPER).rev().find(|d| samples(*d) <= BUDGET).unwrap_or(0);
            common > 0
        }
        Err(Halt::Stopped) => return Err(Stopped),
        Err(Halt::Over) => {
            job.lower();
            true
        }
    };
    let Share { moments: sum, variance, doubt } = loop {
        *job.tests.get_mut() = 0;
        match job.cell(low, high, &all, 0, 1) {
            Ok(share) => break share,
            Err(Halt::Stopped) => return Err(Stopped),
            Err(Halt::Over) => job.lower(),
        }
    };
    // Where shells come together that are thinner than the finest cells, samples may all miss what they share. Larger cells of
    // an open mesh have that in their variance already.
    let finest = (high - low).amax() / 2_f64.powi((job.levels + job.deeper) as i32);
    let unseen = common && (closed || !job.lowered);
    let missed = if unseen && finest > 2.0 * signed.volume.abs() / signed.area {
        0.5 * signed.volume.abs()
    } else {
        0.0
    };
    if closed && sum == Moments::zeros() && variance == 0.0 && doubt + missed == 0.0 {
        return Ok(signed.into());
    }
    let total = if closed { of_mass(signed, &middle) + sum } else { sum };
    let error = variance.sqrt() + doubt + missed + blur;
    let (centroid, inertia) = to_mass(&total, &middle).unwrap_or((signed.centroid, signed.inertia));
    Ok(Solid { volume: total[(0, 0)], error, centroid, inertia })
}

/// What a part of the box adds.
#[derive(Clone, Copy, Default)]
struct Share {
    moments: Moments,
    /// Of the volume.
    variance: f64,
    /// Volume in which the winding number could not be computed well.
    doubt: f64,
}

/// Why a pass ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// The caller cancelled.
    Stopped,
    /// It takes more tests than allowed.
    Over,
}

impl From<Stopped> for Halt {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

struct Job<'a> {
    mesh: &'a TriMesh,
    winding: Winding,
    shell: &'a [u32],
    closed: bool,
    levels: u32,
    /// Further levels where shells come together.
    deeper: u32,
    /// Fewer levels than asked for.
    lowered: bool,
    /// The winding number is summed in `f64`.
    exact: bool,
    /// Point about which moments are taken.
    middle: Point,
    /// Most tests of a triangle against a cell in a pass.
    limit: u64,
    /// Those of this pass.
    tests: AtomicU64,
    /// Cells of the third level that are done.
    finished: AtomicU64,
    watch: &'a Watch<'a>,
}

impl Job<'_> {
    /// Goes less deep.
    fn lower(&mut self) {
        self.lowered = true;
        if self.deeper > 0 {
            self.deeper = 0;
        } else {
            // Without any level there is no test.
            self.levels = self.levels.saturating_sub(1);
        }
    }

    /// Whether a pass gets over its limit does not depend on the order of the tests.
    fn count(&self, tests: usize) -> Result<(), Halt> {
        self.watch.look()?;
        let tests = tests as u64;
        self.watch.count(tests);
        let over = self.tests.fetch_add(tests, Relaxed) + tests > self.limit;
        if over { Err(Halt::Over) } else { Ok(()) }
    }

    /// What a cell adds. `name` numbers the cell, so that samples repeat from run to run.
    fn cell(&self, low: Point, high: Point, triangles: &[u32], depth: u32, name: u64) -> Result<Share, Halt> {
        let size = high - low;
        let volume = size.x * size.y * size.z;
        if volume <= 0.0 {
            return Ok(Share::default());
        }
        if triangles.is_empty() && (self.closed || self.is_even(&low, &size)) {
            let middle = nalgebra::center(&low, &high);
            let (g, sure) = self.integrand(&middle);
            let moments =
                if g == 0.0 { Moments::zeros() } else { of_box(&(middle - self.middle), &size) * g };
            return Ok(Share { moments, variance: 0.0, doubt: if sure { 0.0 } else { volume } });
        }
        if depth >= self.levels && (depth >= self.levels + self.deeper || !self.several(triangles)) {
            self.watch.look()?;
            return Ok(self.sample(low, size, volume, name));
        }
        let child = |k: u64| {
            let (lo, hi, inside) = self.part(&low, &size, triangles, k)?;
            self.cell(lo, hi, &inside, depth + 1, name * 8 + k)
        };
        // Collected in order before summing: the same bits whatever the number of threads.
        let parts: Result<Vec<Share>, Halt> =
            if depth < 3 { (0..8).into_par_iter().map(child).collect() } else { (0..8).map(child).collect() };
        if depth == 3 {
            self.watch.measured(self.finished.fetch_add(1, Relaxed) + 1, 512);
        }
        Ok(parts?.iter().fold(Share::default(), |s, p| Share {
            moments: s.moments + p.moments,
            variance: s.variance + p.variance,
            doubt: s.doubt + p.doubt,
        }))
    }

    /// The surface that the winding number puts over a hole of an open mesh, where no triangle is, stays clear of this cell.
    fn is_even(&self, low: &Point, size: &Vec3) -> bool {
        let corners = (0..8_u32).map(|k| Vec3::from_fn(|i, _| f64::from(k >> i & 1)));
        let mut at = corners
            .chain([Vec3::repeat(0.5)])
            .map(|c| self.winding.number(&(low + size.component_mul(&c))) - 0.5);
        let first = at.next().unwrap_or(0.0);
        first.abs() > CLEAR && at.all(|w| w.abs() > CLEAR && (w > 0.0) == (first > 0.0))
    }

    /// Number of cells of the last regular level that hold triangles of several shells.
    fn common_cells(&self, low: Point, high: Point, triangles: &[u32], depth: u32) -> Result<usize, Halt> {
        if !self.several(triangles) {
            return Ok(0);
        }
        if depth >= self.levels {
            return Ok(1);
        }
        let size = high - low;
        let child = |k: u64| {
            let (lo, hi, inside) = self.part(&low, &size, triangles, k)?;
            self.common_cells(lo, hi, &inside, depth + 1)
        };
        if depth < 3 { (0..8).into_par_iter().map(child).sum() } else { (0..8).map(child).sum() }
    }

    fn several(&self, triangles: &[u32]) -> bool {
        triangles.iter().any(|t| self.shell[*t as usize] != self.shell[triangles[0] as usize])
    }

    /// The k-th of the eight parts of a cell and the triangles that may touch it.
    fn part(
        &self,
        low: &Point,
        size: &Vec3,
        triangles: &[u32],
        k: u64,
    ) -> Result<(Point, Point, Vec<u32>), Halt> {
        let lo = Point::from(Vec3::from_fn(|i, _| low[i] + size[i] / 2.0 * ((k >> i) & 1) as f64));
        let hi = lo + size / 2.0;
        let mut inside = Vec::new();
        for some in triangles.chunks(STRIDE) {
            self.count(some.len())?;
            inside.extend(some.iter().copied().filter(|t| self.touches(*t, &lo, &hi)));
        }
        Ok((lo, hi, inside))
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

    fn sample(&self, low: Point, size: Vec3, volume: f64, name: u64) -> Share {
        let n = PARTS.pow(3);
        let (mut sum, mut squares, mut unsure) = (Moments::zeros(), 0.0, 0.0);
        for k in 0..n {
            let part = [k % PARTS, k / PARTS % PARTS, k / PARTS / PARTS];
            let at = Vec3::from_fn(|i, _| {
                let jitter = unit(name.wrapping_mul(64).wrapping_add(u64::from(k * 3) + i as u64));
                size[i] * (f64::from(part[i]) + jitter) / f64::from(PARTS)
            });
            let (g, sure) = self.integrand(&(low + at));
            unsure += f64::from(u8::from(!sure));
            if g != 0.0 {
                sum += products(&(low + at - self.middle)) * g;
            }
            squares += g * g;
        }
        let n = f64::from(n);
        let mean = sum / n;
        let least = if self.lowered { UNSEEN } else { 0.0 };
        let spread = (squares / n - mean[(0, 0)] * mean[(0, 0)]).max(least);
        let variance = spread * volume * volume / (n - 1.0);
        Share { moments: mean * volume, variance, doubt: unsure / n * volume }
    }

    /// The integrand, and whether it could be computed.
    fn integrand(&self, p: &Point) -> (f64, bool) {
        let w = if self.exact { winding::exact(self.mesh, p) } else { self.winding.number(p) };
        if self.closed {
            // Whole but for the tree's error of some thousandths.
            let whole = w.round();
            return (f64::from(u8::from(whole > 0.5)) - whole, (w - whole).abs() < WHOLE);
        }
        (f64::from(u8::from(w > 0.5)), true)
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
mod tests;
