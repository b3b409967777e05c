//! What the number of points does: closed forms on a floor, and the work of closed loops.

use super::*;

/// Force on a body in a floor over `PRESSURE`: the volume below. A body, the turn that sets it on the floor, and its volume h deep.
struct Case {
    name: &'static str,
    mesh: TriMesh,
    turn: UnitQuaternion<f64>,
    /// From the origin down to the lowest place, m.
    low: f64,
    volume: fn(f64) -> f64,
    depths: [f64; 2],
    /// The error of sparse contacts falls at least by this power of their points.
    power: f64,
}

fn cases() -> Vec<Case> {
    let diagonal = Rotation3::rotation_between(&Vec3::repeat(1.0), &-Vec3::z()).expect("not opposite");
    let about = |axis: Vec3| UnitQuaternion::from_scaled_axis(axis);
    vec![
        Case {
            name: "ball",
            mesh: shapes::icosphere(0.02, 6),
            turn: UnitQuaternion::identity(),
            low: 0.02,
            volume: |h| PI * h * h * (0.06 - h) / 3.0,
            depths: [5e-4, 0.01],
            power: -0.8,
        },
        Case {
            name: "edge",
            mesh: shapes::cuboid(Vec3::repeat(0.04)),
            turn: about(Vec3::x() * PI / 4.0),
            low: 0.02 * 2f64.sqrt(),
            volume: |h| 0.04 * h * h,
            depths: [5e-4, 0.012],
            power: -1.0,
        },
        Case {
            name: "corner",
            mesh: shapes::cuboid(Vec3::repeat(0.04)),
            turn: UnitQuaternion::from_rotation_matrix(&diagonal),
            low: 0.02 * 3f64.sqrt(),
            volume: |h| 0.75f64.sqrt() * h.powi(3),
            depths: [1.5e-3, 0.02],
            power: -1.0,
        },
        Case {
            name: "lying cylinder",
            mesh: shapes::cylinder(0.01, 0.05, 256),
            turn: about(Vec3::y() * PI / 2.0),
            low: 0.01,
            volume: |h| 0.05 * (1e-4 * ((0.01 - h) / 0.01).acos() - (0.01 - h) * (0.02 * h - h * h).sqrt()),
            depths: [2e-4, 0.008],
            power: -0.7,
        },
    ]
}

/// Slope of the straight line through the logarithms.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (mx, my) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let (xy, xx) =
        logs.iter().fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + (x - mx) * (y - my), xx + (x - mx).powi(2)));
    xy / xx
}

/// From 200 points in contact on the force is good to 2 %, whatever the density; below, the error falls at least so fast with their
/// number. An edge between two faces is a row of points: there it takes a depth of two and a half spacings besides.
#[test]
fn the_force_is_that_of_the_volume_from_two_hundred_points_on_and_below_by_a_power_of_their_number() {
    for case in cases() {
        let (mut errors, mut fine) = (Vec::<(f64, f64)>::new(), 0);
        let (mut worst, mut shallow) = (0.0f64, 0.0f64);
        for points in [150, 400, 1000, 2500, 6000, 15_000] {
            let tool = shell(&case.mesh, points);
            let sampled = super::manifold::points_of(&tool);
            for k in 0..24u32 {
                let h = case.depths[0] * (case.depths[1] / case.depths[0]).powf((f64::from(k) + 0.5) / 24.0);
                // Turned about the vertical, the ball any way, and moved against the grid.
                let any = Vec3::new(random(k, 2), random(k, 3), random(k, 4)) * 3.0;
                let any =
                    UnitQuaternion::from_scaled_axis(if case.name == "ball" { any } else { Vec3::zeros() });
                let turn = UnitQuaternion::from_scaled_axis(Vec3::z() * 6.0 * random(k, 1)) * case.turn * any;
                let shift = Vec3::new(0.01 * random(k, 5), 0.01 * random(k, 6), case.low - h);
                let pose = Pose::from_parts(shift.into(), turn);
                let n = (0..sampled.len).filter(|&i| (pose * sampled.position(i)).z < 0.0).count();
                let exact = PRESSURE * (case.volume)(h);
                let error = (ask(&tool, &pose, &floor()).wrench.force - Vec3::z() * exact).norm() / exact;
                match n {
                    200.. if case.name == "edge" && h < 2.5 * sampled.spacing() => {
                        shallow = shallow.max(error)
                    }
                    200.. => (fine, worst) = (fine + 1, worst.max(error)),
                    4.. => errors.push((n as f64, error)),
                    _ => {}
                }
            }
        }
        // Root mean square between 4, 8, 16, 32, 64, 128 and 200 points, where there are enough cases.
        let step = |low: f64| {
            let of: Vec<_> = errors.iter().filter(|e| e.0 >= low && e.0 < (2.0 * low).min(200.0)).collect();
            let n = of.len() as f64;
            let middle = (of.iter().map(|e| e.0.ln()).sum::<f64>() / n).exp();
            (of.len() >= 8).then(|| (middle, (of.iter().map(|e| e.1 * e.1).sum::<f64>() / n).sqrt()))
        };
        let steps: Vec<_> = [4.0, 8.0, 16.0, 32.0, 64.0, 128.0].into_iter().filter_map(step).collect();
        let power = exponent(&steps);
        println!(
            "{}: error by points {steps:.4?}: ~ n^{power:.2}; from 200 on {worst:.4} ({fine}), shallow {shallow:.4}",
            case.name
        );
        assert!(fine >= 20 && worst < 0.02, "{}: {worst} in {fine} cases", case.name);
        assert!(steps.len() >= 4 && power < case.power, "{}: ~ n^{power}, {steps:?}", case.name);
    }
}

/// The law's sum of k a d n is minus the gradient of a potential but for the sampling: what closed loops do falls with the density.
#[test]
fn the_work_of_closed_loops_goes_to_zero_with_the_density() {
    let mesh = shapes::torus(0.02, 0.007, 96, 48);
    let object = round();
    let (steps, seeds, loops) = (160, 4, 6u32);
    let mut parts = Vec::new();
    for points in [400u32, 1600, 6400, 25_600] {
        let mut squares = 0.0;
        for seed in 1..=seeds {
            let params = ShellParams { seed, ..ShellParams::points(points) };
            let tool = ToolShape::Shell(Arc::new(PointShell::build(&mesh, params).expect("a torus")));
            for k in 0..loops {
                let part = loop_work(&tool, &object, k + 50 * seed as u32, steps);
                squares += part * part;
            }
        }
        parts.push((f64::from(points), (squares / f64::from(loops * seeds as u32)).sqrt()));
    }
    let power = exponent(&parts);
    println!("work of loops, part of what is turned over, by points {parts:?}: ~ n^{power:.2}");
    assert!(parts.windows(2).all(|w| w[1].1 < w[0].1), "{parts:?}");
    assert!(power < -0.5 && parts[3].1 < 4e-4, "~ n^{power}: {parts:?}");
}

/// Work of a closed loop of poses, as a part of what is turned over on the way: one of many loops in and out of a ball.
fn loop_work(tool: &ToolShape, object: &ObjectShape, k: u32, steps: usize) -> f64 {
    let r = |n: u32| random(k + 7, n);
    let (axis, phase) = (Vec3::new(r(1) - 0.5, r(2) - 0.5, r(3) - 0.5), 6.0 * r(4));
    let pose_at = |i: usize| {
        let a = 2.0 * PI * i as f64 / steps as f64;
        let place = [0.032 + 0.004 * (a + phase).cos(), 0.006 * a.sin(), 0.004 * (2.0 * a).sin()];
        turned(axis, 3.0 * r(5) + 0.2 * a.sin(), place[0], place[1], place[2])
    };
    let (mut work, mut turned_over) = (0.0, 0.0);
    for i in 0..steps {
        let (a, b) = (pose_at(i), pose_at(i + 1));
        let c = ask(tool, &a.lerp_slerp(&b, 0.5), object);
        let shift = b.translation.vector - a.translation.vector;
        let turn = (b.rotation * a.rotation.inverse()).scaled_axis();
        let w = c.wrench.force.dot(&shift) + c.wrench.torque.dot(&turn);
        work += w;
        turned_over += w.abs();
    }
    assert!(turned_over > 1e-4, "{k}: {turned_over}");
    work / turned_over
}
