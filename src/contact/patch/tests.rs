use super::*;

fn one(points: &[([f32; 3], [f32; 3], [f32; 3], f32)]) -> [Patch; MAX_PATCHES] {
    let mut gather = Gather::NONE;
    for &(at, n, g, force) in points {
        gather.add(at, n, g, force, 1.0);
    }
    gather.patches(&UnitQuaternion::identity(), 1.0, 1.0)
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
