//! Steps of a micrometre where the force has a closed form: across cells of the field, and from level to level of the shell.

use super::*;

/// Radius of [`round`], m.
const OBJECT: f64 = 0.03;

/// Part of the force that a leap may have between 60 and 120 points in contact: there the push goes over from a gradient without leaps to
/// that of the interpolation, before the normals alone push.
const FADING: f64 = 5e-4;

/// Force on a ball of radius r whose centre lies d from that of a ball of radius R, over the pressure gradient: the integral of the
/// direction outwards over the overlap. In shells about the object's centre, of radius s, the tool holds what is nearer to its own
/// direction than the angle of cosine (s^2 + d^2 - r^2) / (2 s d).
fn push(r: f64, d: f64) -> f64 {
    let a = d * d - r * r;
    let sum =
        |s: f64| s.powi(3) / 3.0 - (s.powi(5) / 5.0 + 2.0 * a * s.powi(3) / 3.0 + a * a * s) / (4.0 * d * d);
    PI * (sum(OBJECT) - sum(d - r))
}

#[test]
fn the_closed_form_is_the_sum_over_the_overlap() {
    // Against slices across the line of the centres, each a disc of the object's or the tool's, cut into rings.
    let (r, d) = (0.01, 0.036);
    let (mut total, n) = (0.0, 800);
    for i in 0..n {
        let z = d - r + (OBJECT - d + r) * (f64::from(i) + 0.5) / f64::from(n);
        let edge = (OBJECT * OBJECT - z * z).min(r * r - (z - d) * (z - d)).max(0.0).sqrt();
        for j in 0..n {
            let rho = edge * (f64::from(j) + 0.5) / f64::from(n);
            total += 2.0 * PI * rho * (edge / f64::from(n)) * z / z.hypot(rho);
        }
    }
    total *= (OBJECT - d + r) / f64::from(n);
    close("closed form", push(r, d), total, 1e-5);
}

/// How far the steps of the force go off those of the closed form: the largest, N.
fn worst(tool: &ToolShape, object: &ObjectShape, r: f64, path: &dyn Fn(usize) -> Pose, steps: usize) -> f64 {
    let mut last: Option<(Vec3, Vec3)> = None;
    let mut worst = 0.0f64;
    for k in 0..steps {
        let pose = path(k);
        let c = ask(tool, &pose, object);
        let x = pose.translation.vector;
        let exact =
            if x.norm() < OBJECT + r { x.normalize() * PRESSURE * push(r, x.norm()) } else { Vec3::zeros() };
        if let Some((force, before)) = last {
            worst = worst.max(((c.wrench.force - force) - (exact - before)).norm());
        }
        last = Some((c.wrench.force, exact));
    }
    worst
}

/// A ball slides over a ball at the same depth, across hundreds of cells: its force turns with it, and does not leap.
#[test]
fn a_ball_slides_over_the_cells_of_a_ball_without_a_leap() {
    let (r, object) = (0.01, round());
    for points in [5000, 40_000] {
        let tool = shell(&shapes::icosphere(r, 6), points);
        let d = OBJECT + r - 1.5e-3;
        let path = |k: usize| {
            let a = 1e-6 * k as f64 / d;
            turned(
                Vec3::new(0.3, 1.0, 0.2),
                0.4 + a,
                d * (0.6 + a).cos(),
                d * (0.6 + a).sin() * 0.8,
                d * (0.6 + a).sin() * 0.6,
            )
        };
        let peak = PRESSURE * push(r, d);
        // A micrometre deeper changes it by so much.
        let slope = PRESSURE * (push(r, d - 1e-6) - push(r, d));
        let off = worst(&tool, &object, r, &path, 4000);
        println!(
            "{points} points: steps off by {off:.2e} N; peak {peak:.3} N, a micrometre deeper {slope:.2e} N"
        );
        assert!(off <= 0.05 * slope, "{points}: {off} {slope}");
        // And into it, from the first touch on.
        let path = |k: usize| {
            let d = OBJECT + r + 1e-4 - 1e-6 * k as f64;
            turned(Vec3::new(0.3, 1.0, 0.2), 0.4 + 1e-5 * k as f64, 0.48 * d, 0.64 * d, 0.6 * d)
        };
        let off = worst(&tool, &object, r, &path, 2100);
        println!("{points} points: coming nearer steps are off by {off:.2e} N");
        assert!(off <= 0.2 * slope, "{points}: {off} {slope}");
    }
}

/// What is left of the step least like its neighbours when it is cut down to a tenth of a nanometre: a leap, where there is one, N; and the
/// largest force on the way.
fn leap(
    tool: &ToolShape,
    object: &ObjectShape,
    units: u32,
    path: &dyn Fn(f64) -> Pose,
    steps: u32,
) -> (f64, f64) {
    let budget = Budget { units, deadline: None };
    let force = |s: f64| {
        ask_with(tool, &path(s), &Twist::ZERO, object, &Pose::identity(), &MATERIAL, budget).wrench.force
    };
    let forces: Vec<Vec3> = (0..=steps).map(|k| force(f64::from(k))).collect();
    // Steps that are unlike those beside them.
    let step: Vec<Vec3> = forces.windows(2).map(|w| w[1] - w[0]).collect();
    let mut unlike: Vec<(f64, u32)> =
        step.windows(3).zip(1..).map(|(w, k)| ((w[1] - w[0]).norm() + (w[1] - w[2]).norm(), k)).collect();
    unlike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut left = 0.0f64;
    for (_, k) in unlike.into_iter().take(12) {
        let (mut from, mut to) = (f64::from(k), f64::from(k + 1));
        // What the steps beside it let expect of a micrometre.
        let slope = 0.5 * (step[k as usize - 1] + step[k as usize + 1]);
        let off = |a: f64, b: f64| (force(b) - force(a) - slope * (b - a)).norm();
        while to - from > 1e-4 {
            let middle = 0.5 * (from + to);
            if off(from, middle) > off(middle, to) { to = middle } else { from = middle }
        }
        left = left.max(off(from, to));
    }
    (left, forces.iter().map(Vec3::norm).fold(0.0, f64::max))
}

/// From apart to two millimetres deep, with budgets that are spent on ever coarser levels of the shell as more of it may touch.
#[test]
fn levels_of_a_shell_come_and_go_without_a_leap() {
    let (r, object) = (0.01, round());
    let tool = shell(&shapes::icosphere(r, 6), 40_000);
    let path = |s: f64| {
        let d = OBJECT + r + 1e-4 - 1e-6 * s;
        turned(Vec3::new(0.3, 1.0, 0.2), 0.4 + 1e-5 * s, 0.48 * d, 0.64 * d, 0.6 * d)
    };
    for (units, limit) in [(200, 5e-5), (1000, FADING), (3000, FADING), (9000, 5e-5)] {
        let (left, peak) = leap(&tool, &object, units, &path, 2100);
        println!("{units} units: largest step within 0.1 nm {left:.2e} N; peak {peak:.3} N");
        // Single precision adds up to some millionths.
        assert!(left <= limit * peak, "{units}: {left} of {peak}");
    }
}

/// Contacts of few points, whose push is along the field's gradient: its leap at faces of cells must not be felt.
#[test]
fn a_few_points_slide_over_the_cells_without_a_leap() {
    let (r, object) = (0.01, round());
    for (points, deep, limit) in
        [(300, 2e-4, 1e-4), (300, 1e-3, 1e-4), (500, 1.5e-3, 1e-4), (2000, 1e-3, FADING)]
    {
        let tool = shell(&shapes::icosphere(r, 5), points);
        let d = OBJECT + r - deep;
        let path = |s: f64| {
            let a = 1e-6 * s / d;
            at(d * (0.6 + a).cos(), d * (0.6 + a).sin() * 0.8, d * (0.6 + a).sin() * 0.6)
        };
        let (left, peak) = leap(&tool, &object, 0, &path, 4000);
        println!("{points} points, {deep} m deep: largest step within 0.1 nm {left:.2e} N; peak {peak:.4} N");
        assert!(left <= limit * peak, "{points} {deep}: {left} of {peak}");
    }
}

/// An edge of a cube along an edge of a block, each of 90 degrees and turned by 45: where they pass each other the gradient turns over
/// under all of the points on the cube's edge at once, and the push must not.
///
/// In the axes of the faces the overlap is a rectangle of U x V, and the depth at (a, b) from its far corner min(a, b). With U <= V the
/// integral is (U^2 V / 2 - U^3 / 6) times the length; the push is the pressure times its derivatives by U and V, U V - U^2 / 2
/// and U^2 / 2: together U V.
#[test]
fn an_edge_passes_over_an_edge_without_a_leap() {
    let (size, length) = (0.05, 0.03);
    // The ridge lies along z, its faces at 45 degrees.
    let ridge = Field::from_fn(Point::new(-size, -size, -size), 1e-3, [101; 3], |p| {
        -(p.y + p.x.abs()) * std::f64::consts::FRAC_1_SQRT_2
    });
    let object = ObjectShape::Field(Arc::new(ridge));
    let tool = shell(&shapes::cuboid(Vec3::repeat(length)), 6000);
    let half = length * std::f64::consts::FRAC_1_SQRT_2;
    // Of points some 0.95 mm apart; what an edge that presses less deep than 2.5 of them weighs too much is another matter.
    for (deep, limit) in [(0.5e-3, None), (1e-3, None), (1.4e-3, None), (1.75e-3, None), (3e-3, Some(0.05))] {
        let place = |s: f64| 1e-6 * (s - 150.0);
        let path = |s: f64| turned(Vec3::z(), std::f64::consts::FRAC_PI_4, place(s), half - deep, 0.0);
        let exact = |x: f64| {
            let [u, v] = [deep + x, deep - x].map(|w| w * std::f64::consts::FRAC_1_SQRT_2);
            let (small, large) = (u.min(v), u.max(v));
            PRESSURE * length * small * large * std::f64::consts::FRAC_1_SQRT_2
        };
        let (left, peak) = leap(&tool, &object, 0, &path, 300);
        println!("{deep} m deep: largest step within 0.1 nm {left:.2e} N; peak {peak:.3} N");
        assert!(left <= 1e-4 * peak, "{deep}: {left} of {peak}");
        // To the side by what the volume says or less, and nowhere in the middle.
        for k in 0..=30 {
            let (x, force) =
                (place(f64::from(10 * k)), ask(&tool, &path(f64::from(10 * k)), &object).wrench.force);
            let [u, v] = [deep - x.abs(), deep + x.abs()].map(|w| w * std::f64::consts::FRAC_1_SQRT_2);
            let aside = PRESSURE * length * u * (v - u) * std::f64::consts::FRAC_1_SQRT_2;
            assert!(force.x.abs() <= aside + 0.02 * peak, "{deep} at {x}: {force}, {aside}");
        }
        let Some(limit) = limit else { continue };
        for s in [0.0, 75.0, 150.0, 225.0, 300.0] {
            let force = ask(&tool, &path(s), &object).wrench.force;
            close("along the bisector", force.y, exact(place(s)), limit);
        }
    }
}

/// A small body about the origin, in cells of half a millimetre.
fn small(depth: impl Fn(&Point) -> f64) -> ObjectShape {
    ObjectShape::Field(Arc::new(Field::from_fn(Point::new(-0.016, -0.016, -0.016), 5e-4, [65; 3], depth)))
}

/// Over the top of a small body and down on it, two millimetres in so many steps each: no leap above this part of the largest force.
fn passes(
    what: &str,
    tool: &ToolShape,
    turn: UnitQuaternion<f64>,
    object: &ObjectShape,
    deepest: Vec3,
    (steps, limit): (u32, f64),
) {
    for (way, go) in [
        ("along x", Vec3::new(1.0, 0.0, 0.13)),
        ("along z", Vec3::new(0.07, 0.0, 1.0)),
        ("down", Vec3::new(0.03, -1.0, 0.05)),
    ] {
        let place = |s: f64| deepest + go * (2e-3 * s / f64::from(steps) - 1e-3);
        let path = |s: f64| Pose::from_parts(Translation3::from(place(s)), turn);
        let (left, peak) = leap(tool, object, 0, &path, steps);
        println!("{what}, {way}: largest leap {left:.2e} N of {peak:.4} N");
        assert!(left <= limit * peak, "{what}, {way}: {left} of {peak}");
    }
}

/// What turns a cube so that this direction of it looks along y: its corner or edge to the other side.
fn upright(lies: &Vec3) -> UnitQuaternion<f64> {
    UnitQuaternion::rotation_between(lies, &Vec3::y()).expect("not opposite")
}

/// A corner on small bodies, and an edge on a ball of 10 mm: few points each, of some 0.95 mm apart.
#[test]
fn corners_and_edges_pass_over_small_bodies_without_a_leap() {
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.03)), 6000);
    let (corner, edge) = (Vec3::repeat(1.0), Vec3::new(1.0, 1.0, 0.0));
    let small_ball = small(|p| 0.005 - p.coords.norm());
    let ball = small(|p| 0.01 - p.coords.norm());
    let cube = small(|p| 0.004 - p.coords.amax());
    for (name, lies, object, r) in [
        ("a corner on a ball of 5 mm", corner, &small_ball, 0.005),
        ("a corner on a ball of 10 mm", corner, &ball, 0.01),
        ("a corner on a cube of 8 mm", corner, &cube, 0.004),
        ("an edge on a ball of 10 mm", edge, &ball, 0.01),
    ] {
        let half = 0.015 * lies.norm();
        for deep in [3e-4, 1e-3, 2e-3] {
            let deepest = Vec3::new(3e-4, r + half - deep, 2e-4);
            let what = format!("{name}, {deep} m deep");
            passes(&what, &tool, upright(&lies), object, deepest, (2000, FADING));
        }
    }
}

/// An edge on bodies hardly larger than the points lie apart: it has them in rows, which pass from cell to cell as one where they lie along
/// the grid. What tells the object's edges from its bends must not leap with them.
#[test]
fn an_edge_passes_over_small_bodies_without_a_leap() {
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.03)), 6000);
    let edge = Vec3::new(1.0, 1.0, 0.0);
    let half = 0.015 * edge.norm();
    let ball = small(|p| 0.005 - p.coords.norm());
    let cube = small(|p| 0.004 - p.coords.amax());
    for (name, object, r) in [("a ball of 5 mm", &ball, 0.005), ("a cube of 8 mm", &cube, 0.004)] {
        // About the vertical, and out of it.
        for (spin, tilt, depths) in [
            (0.0, 0.0, [3e-4, 1.5e-3, 2e-3]),
            (0.7, 0.0, [3e-4, 1e-3, 2e-3]),
            (0.5 * PI, 0.13, [1e-3, 1.5e-3, 2e-3]),
        ] {
            let turn = UnitQuaternion::from_scaled_axis(Vec3::new(0.8 * tilt, 0.0, 0.6 * tilt))
                * UnitQuaternion::from_scaled_axis(Vec3::y() * spin)
                * upright(&edge);
            for deep in depths {
                let deepest = Vec3::new(3e-4, r + half - deep, 2e-4);
                let what = format!("{name}, turned by {spin} and {tilt}, {deep} m deep");
                passes(&what, &tool, turn, object, deepest, (800, 1e-4));
            }
        }
    }
}
