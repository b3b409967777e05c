use super::*;
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch};

/// Place, normal, gradient, force; every area is 1.
type Spot = ([f32; 3], [f32; 3], [f32; 3], f32);

fn gather_body<S: Simd>(s: S, points: &[Spot]) -> Gather {
    let mut gather = Gather::NONE;
    for some in points.chunks(TOGETHER * LANES) {
        let sixteens = some.chunks(LANES).map(|some| {
            let column = |of: &dyn Fn(&Spot) -> f32| {
                let mut column = [0.0; LANES];
                column.iter_mut().zip(some).for_each(|(out, p)| *out = of(p));
                column
            };
            let three = |of: &dyn Fn(&Spot) -> [f32; 3]| [0, 1, 2].map(|i| column(&|p| of(p)[i]));
            let [at, n, g] =
                [three(&|p| p.0), three(&|p| p.1), three(&|p| p.2)].map(|v| v.map(|c| s.load(&c)));
            Pressing::new(s, at, n, g, (s.load(&column(&|p| p.3)), s.splat(1.0)))
        });
        gather.add(s, &sixteens.collect::<Vec<_>>());
    }
    gather
}

fn gather(level: SimdLevel, points: &[Spot]) -> Gather {
    dispatch!(level, gather_body(points: &[Spot]) -> Gather)
}

fn one(points: &[Spot]) -> [Patch; MAX_PATCHES] {
    gather(SimdLevel::Scalar, points).patches(&UnitQuaternion::identity(), 1.0, 1.0)
}

/// The sums as they are defined, one after the other in double precision about the origin.
fn one_by_one(points: &[Spot]) -> Gather {
    let mut gather = Gather::NONE;
    for &(at, n, g, force) in points {
        let [at, n, g] = [at, n, g].map(|v| Vec3::from(v.map(f64::from)));
        let (force, squarely) = (f64::from(force), -n.dot(&g));
        if !(force > 0.0 && squarely != 0.0) {
            continue;
        }
        let out = n * squarely.signum();
        let far = [out.x.abs(), 0.9 * out.y.abs(), 0.8 * out.z.abs()];
        let axis = (0..3).rev().max_by(|&a, &b| far[a].total_cmp(&far[b])).unwrap();
        let sums = &mut gather.0[2 * axis + usize::from(out[axis] > 0.0)];
        let t = (squarely.abs() / 0.2).min(1.0);
        let push = n * (force * t * t * (3.0 - 2.0 * t));
        (0..3).for_each(|i| sums.push[i] += push[i]);
        if squarely < 0.0 {
            continue;
        }
        let w = force * squarely;
        (sums.weight, sums.area) = (sums.weight + w, sums.area + squarely);
        sums.fourth += w * at.norm_squared().powi(2);
        let pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)];
        pairs.iter().enumerate().for_each(|(k, &(i, j))| sums.moments[k] += w * at[i] * at[j]);
        for i in 0..3 {
            sums.at[i] += w * at[i];
            sums.out[i] -= w * g[i];
            sums.third[i] += w * at.norm_squared() * at[i];
        }
    }
    gather
}

fn there(patches: &[Patch]) -> Vec<Patch> {
    patches.iter().copied().filter(|p| p.press > 1e-9).collect()
}

const DOWN: [f32; 3] = [0.0, 0.0, -1.0];
const UP: [f32; 3] = [0.0, 0.0, 1.0];

#[test]
fn arms_of_known_shapes() {
    // A disc of radius 1, a line of half length 1, a rectangle of 2 x 1 (mean distance by quadrature), on a floor.
    let grid = |inside: &dyn Fn(f64, f64) -> bool| {
        let (mut points, mut mean, mut n) = (Vec::new(), 0.0, 0.0);
        for i in -100..=100 {
            for j in -100..=100 {
                let (x, y) = (f64::from(i) / 100.0, f64::from(j) / 100.0);
                if inside(x, y) {
                    points.push(([x as f32, y as f32, 0.0], UP, DOWN, 1.0));
                    mean += x.hypot(y);
                    n += 1.0;
                }
            }
        }
        (there(&one(&points))[0], mean / n)
    };
    let (disc, mean) = grid(&|x, y| x.hypot(y) <= 1.0);
    assert!((disc.arm - 2.0 / 3.0).abs() < 2e-3 && (mean - 2.0 / 3.0).abs() < 2e-3, "{}", disc.arm);
    assert!((disc.gyration - 0.5f64.sqrt()).abs() < 2e-3);
    // Never longer than it is: of what is not a disc a few hundredths are not counted, most of a line's.
    let (line, mean) = grid(&|_, y| y == 0.0);
    assert!(line.arm <= mean && line.arm > 0.93 * mean, "{} {mean}", line.arm);
    for half in [0.25, 0.5, 1.0] {
        let (slab, mean) = grid(&|_, y| y.abs() <= half);
        assert!(slab.arm <= mean * 1.001 && slab.arm > 0.93 * mean, "{half}: {} {mean}", slab.arm);
    }
}

#[test]
fn what_presses_is_what_the_surface_takes_along_its_normal() {
    let r = 0.5f32.sqrt();
    // Two faces of an edge of the tool on a floor: each presses with 3 along its own normal.
    let edge = one(&[([0.1, 0.0, 0.0], [r, 0.0, r], DOWN, 3.0), ([-0.1, 0.0, 0.0], [-r, 0.0, r], DOWN, 3.0)]);
    let force: f64 = there(&edge).iter().map(|p| p.press).sum();
    assert!((force - 6.0 * f64::from(r)).abs() < 1e-6, "{force}");
    assert!(there(&edge).iter().all(|p| (p.normal - Vec3::z()).norm() < 1e-6));
    // A face on an edge of the object: gradients to both sides.
    let face = one(&[([0.1, 0.0, 0.0], UP, [-r, 0.0, -r], 3.0), ([-0.1, 0.0, 0.0], UP, [r, 0.0, -r], 3.0)]);
    let [patch] = there(&face)[..] else { panic!("{face:?}") };
    assert!((patch.press - 6.0).abs() < 1e-6 && (patch.normal - Vec3::z()).norm() < 1e-6, "{patch:?}");
    // Side walls of what is sunk into a floor press along it: that is no patch. Nor is what pushes the wrong way.
    assert!(
        there(&one(&[([0.1, 0.0, 0.0], [1.0, 0.0, 0.0], DOWN, 3.0), ([0.0; 3], DOWN, DOWN, 2.0)])).is_empty()
    );
}

#[test]
fn what_presses_from_opposite_sides_does_not_cancel() {
    let (x, back) = ([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]);
    let pin = one(&[([-0.1, 0.0, 0.0], x, back, 2.0), ([0.1, 0.0, -1.0], back, x, 2.5)]);
    let mut found = there(&pin);
    found.sort_by(|a, b| a.press.total_cmp(&b.press));
    let [a, b] = found[..] else { panic!("{pin:?}") };
    assert!((a.press - 2.0).abs() < 1e-6 && (a.normal - Vec3::x()).norm() < 1e-6, "{a:?}");
    assert!((b.press - 2.5).abs() < 1e-6 && (b.centre - Vec3::new(0.1, 0.0, -1.0)).norm() < 1e-6, "{b:?}");
}

#[test]
fn mixing_is_continuous_and_ends_at_either() {
    let a = there(&one(&[([0.1, 0.0, 0.0], UP, DOWN, 3.0), ([0.3, 0.0, 0.0], UP, DOWN, 1.0)]))[0];
    let b = there(&one(&[([0.2, 0.1, 0.0], UP, DOWN, 5.0)]))[0];
    assert_eq!(a.mixed(&b, 0.0), a);
    let end = a.mixed(&b, 1.0);
    assert!((end.press - b.press).abs() < 1e-12 && (end.centre - b.centre).norm() < 1e-12);
    assert!((a.mixed(&Patch::NONE, 0.25).press - 3.0).abs() < 1e-12);
    assert!((a.mixed(&Patch::NONE, 0.25).centre - a.centre).norm() < 1e-12);
    assert_eq!(Patch::NONE.mixed(&Patch::NONE, 0.5), Patch::NONE);
}

/// A face whose gradient lies along it but for a hair, now to this side and now to that: nothing leaps.
#[test]
fn what_presses_is_continuous_where_a_point_meets_the_surface_not_at_all() {
    let press = |c: f32| {
        let g = [(1.0 - c * c).sqrt(), 0.0, -c];
        let face = [([0.0; 3], UP, DOWN, 50.0), ([0.1, 0.0, 0.0], UP, g, 9.0)];
        there(&one(&face)).iter().map(|p| p.press).sum::<f64>()
    };
    let mut last = press(-1.0);
    for k in -1000..=1000 {
        let now = press(k as f32 * 1e-3);
        assert!((now - last).abs() < 0.3, "{k}: {now} after {last}");
        last = now;
    }
    assert!((press(1e-4) - press(-1e-4)).abs() < 1e-3);
    assert!((last - 59.0).abs() < 1e-4, "{last}");
}

/// A plate sunk deeper than it is thick is borne by the difference of its faces alone.
#[test]
fn the_far_side_is_taken_off() {
    let plate = one(&[([0.0, 0.0, 0.0], UP, DOWN, 10.0), ([0.0, 0.0, 0.1], DOWN, DOWN, 8.0)]);
    let [patch] = there(&plate)[..] else { panic!("{plate:?}") };
    assert!((patch.press - 2.0).abs() < 1e-6, "{patch:?}");
    let under = one(&[([0.0; 3], UP, DOWN, 1.0), ([0.0; 3], DOWN, DOWN, 8.0)]);
    assert!(there(&under).is_empty(), "bounded at nothing: {under:?}");
}

/// Nearly all in the middle, a little far out: the arm is the mean distance, not the radius of gyration.
#[test]
fn a_peak_has_a_short_arm() {
    for part in [0.01f32, 0.1, 0.3] {
        let mut points = vec![([0.5, 0.2, -0.3], UP, DOWN, 1.0 - part)];
        for k in 0..16 {
            let (s, c) = (k as f32 * std::f32::consts::TAU / 16.0).sin_cos();
            points.push(([0.5 + c, 0.2 + s, -0.3], UP, DOWN, part / 16.0));
        }
        let patch = there(&one(&points))[0];
        let mean = f64::from(part);
        assert!(patch.arm <= 1.09 * mean && patch.arm > 0.9 * mean, "{part}: {}", patch.arm);
    }
}

/// Small patches far from the tool's origin, faces to all sides, some that push back in, lanes without a force: sixteen at a
/// time they add up to what they do one by one, with the same bits on every instruction set.
#[test]
fn sixteen_at_a_time_is_one_by_one() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_pcg::Pcg64::seed_from_u64(5);
    for round in 0..400 {
        let mut within = |half: f32| -> [f32; 3] { [0; 3].map(|_| rng.random_range(-half..half)) };
        let centre = within(if round % 2 == 0 { 0.3 } else { 0.01 });
        let size = [0.001, 0.01, 0.1][round % 3];
        let points: Vec<Spot> = (0..1 + (round * 37) % 700)
            .map(|k| {
                let (d, n, g) = (within(size), within(1.0), within(1.0));
                let at = [0, 1, 2].map(|i| centre[i] + d[i]);
                let n = Vec3::from(n.map(f64::from)).normalize().cast::<f32>();
                // Half of them square on a surface, as most that presses is.
                let g = if k % 2 == 0 { [-n.x, -n.y, -n.z] } else { g };
                (at, n.into(), g, if k % 5 == 3 { 0.0 } else { 2.0 + within(1.0)[0] })
            })
            .collect();
        let got = gather(SimdLevel::Scalar, &points);
        for level in [SimdLevel::Avx2, SimdLevel::Avx512].into_iter().filter(|l| l.available()) {
            assert_eq!(format!("{got:?}"), format!("{:?}", gather(level, &points)), "{level:?}");
        }
        let turn = UnitQuaternion::identity();
        let (got, want) = (got.patches(&turn, 2.0, 3.0), one_by_one(&points).patches(&turn, 2.0, 3.0));
        for (got, want) in got.iter().zip(&want) {
            let near = |got: f64, want: f64, scale: f64| (got - want).abs() <= 1e-5 * scale;
            let size = f64::from(size);
            assert!(near(got.press, want.press, points.len() as f64 * 2.0), "{got:?} {want:?}");
            if want.press > 1e-3 * points.len() as f64 {
                assert!(near(got.stiffness, want.stiffness, want.stiffness), "{got:?} {want:?}");
                assert!((got.normal - want.normal).norm() < 1e-4, "{got:?} {want:?}");
                assert!((got.centre - want.centre).norm() < 1e-4 * size, "{got:?} {want:?}");
                assert!((got.gyration - want.gyration).abs() < 1e-4 * size, "{got:?} {want:?}");
                assert!((got.arm - want.arm).abs() < 1e-3 * size, "{got:?} {want:?}");
            }
        }
    }
}

/// What is no number presses nowhere, and spoils nothing beside it.
#[test]
fn broken_lanes_press_nowhere() {
    let sound = [([0.1, 0.2, 0.0], UP, DOWN, 3.0)];
    for broken in [
        ([f32::NAN; 3], UP, DOWN, 0.0),
        ([0.0; 3], [f32::NAN; 3], DOWN, 1.0),
        ([0.0; 3], UP, [f32::NAN; 3], 1.0),
        ([0.0; 3], UP, DOWN, f32::NAN),
        ([0.0; 3], UP, DOWN, -1.0),
    ] {
        assert_eq!(one(&[sound[0], broken]), one(&sound), "{broken:?}");
    }
}
