//! The force laws beside the default one: the object's normals, and the classic equations point by point.

use super::manifold::{points_of, with};
use super::*;
use hapticd::contact::vps::{ForceLaw, Normals, VoxelValue};

fn under(tool: &ToolShape, law: ForceLaw) -> ToolShape {
    ToolShape::Shell(Arc::new(points_of(tool).clone().with_law(law)))
}

const CLASSIC: [VoxelValue; 3] =
    [VoxelValue::Layer, VoxelValue::Scaled { digits: 3 }, VoxelValue::Interpolated];

fn classic(value: VoxelValue) -> ForceLaw {
    ForceLaw::Classic { value, shared: false }
}

#[test]
fn the_objects_normals_push_with_the_volume_below_and_never_along_a_floor() {
    let (r, size) = (0.02, 0.04);
    let ball = shell(&shapes::icosphere(r, 6), 20_000);
    let cube = shell(&shapes::cuboid(Vec3::repeat(size)), 300);
    let fine = shell(&shapes::torus(0.02, 0.007, 96, 48), 20_000);
    for law in [Normals::Field, Normals::Cubic].map(ForceLaw::Pressure) {
        for h in [0.002, 0.005, 0.02] {
            let c = ask(&under(&ball, law), &at(0.0, 0.0, r - h), &floor());
            close("cap", c.wrench.force.z, PRESSURE * PI * h * h * (3.0 * r - h) / 3.0, 0.01);
            assert!(c.wrench.force.xy().norm() < 1e-5 * c.wrench.force.z);
            assert!(c.points[..usize::from(c.n_points)].iter().all(|p| (p.normal - Vec3::z()).norm() < 1e-5));
        }
        for angle in [0.1, 0.5, PI / 4.0] {
            let h = 4e-3;
            let lowest = size / 2.0 * (f64::cos(angle) + f64::sin(angle));
            let pose = turned(Vec3::x(), angle, 0.0, 0.0, lowest - h);
            let f = ask(&under(&cube, law), &pose, &floor()).wrench.force;
            assert!(f.z > 0.0 && f.xy().norm() < 1e-5 * f.z, "{f}");
        }
        // Under a budget too, at the same scale.
        let fine = under(&fine, law);
        let pose = turned(Vec3::new(1.0, 0.3, 0.0), 0.4, 0.003, 0.001, 0.008);
        let full = ask(&fine, &pose, &floor()).wrench.force;
        let budget = Budget { units: 3000, deadline: None };
        let cut = ask_with(&fine, &pose, &Twist::ZERO, &floor(), &Pose::identity(), &MATERIAL, budget);
        assert!((cut.wrench.force - full).norm() < 0.05 * full.norm() && cut.wrench.force.xy().norm() < 1e-4);
    }
}

/// A depth with the direction in which it grows.
type Solid = fn(&Point) -> (f64, Vec3);

fn ball(p: &Point) -> (f64, Vec3) {
    (0.03 - p.coords.norm(), -p.coords.normalize())
}

/// A ring of 25 mm about z, 10 mm thick to each side.
fn ring(p: &Point) -> (f64, Vec3) {
    let middle = Vec3::new(p.x, p.y, 0.0).normalize() * 0.025;
    let off = p.coords - middle;
    (0.01 - off.norm(), -off.normalize())
}

/// 400 points in two hundredths of a millimetre, a probe of one place: too many for the gradients of a few points, and they pass from
/// cell to cell nearly as one.
fn probe(law: ForceLaw) -> ToolShape {
    let at = |i: u32| Point::new(0.0, f64::from(i % 20) * 1e-6, f64::from(i / 20) * 1e-6);
    let cloud: Vec<OrientedPoint> =
        (0..400).map(|i| OrientedPoint { at: at(i), outward: Vec3::new(-0.6, -0.64, -0.48) }).collect();
    let shell = PointShell::from_cloud(&cloud, Some(1e-4), ShellParams::points(400)).expect("a cloud");
    ToolShape::Shell(Arc::new(shell.with_law(law)))
}

/// Against the closed form of a ball's and a ring's normals: the tricubic gradient is several times closer to them, and does not leap
/// where the trilinear one does, at the faces of cells.
#[test]
fn the_tricubic_gradient_points_better_and_does_not_leap_at_borders_of_cells() {
    let cell = 0.002;
    for (name, solid) in [("ball", ball as Solid), ("ring", ring)] {
        let field = Field::from_fn(Point::new(-0.04, -0.04, -0.04), cell, [41; 3], |p| solid(p).0);
        let object = ObjectShape::Field(Arc::new(field));
        let figures = |normals| {
            let tool = probe(ForceLaw::Pressure(normals));
            let force = |p: &Vec3| ask(&tool, &at(p.x, p.y, p.z), &object).wrench.force;
            let (mut off, mut leap, mut asked) = (0.0f64, 0.0f64, 0);
            for k in 0..400 {
                // A millimetre or less below the surface.
                let r = |n: u32| random(k, n);
                let p = Vec3::new(r(1), r(2), r(3)) * 0.07 - Vec3::repeat(0.035);
                let (depth, inwards) = solid(&Point::from(p));
                let p = p + inwards * (1e-3 * r(4).max(0.1) - depth);
                let truth = solid(&Point::from(p)).1;
                // The probe's points face one way: where they do not face the surface they are not pushed out.
                if truth.dot(&Vec3::new(0.6, 0.64, 0.48)) > -0.3 {
                    continue;
                }
                asked += 1;
                off = off.max(force(&p).angle(&-truth));
                // A tenth of a micrometre on both sides of the nearest face across x.
                let face = (p.x / cell).round() * cell;
                let beside = |by: f64| force(&Vec3::new(face + by, p.y, p.z));
                let (left, right) = (beside(-1e-7), beside(1e-7));
                if left.norm() > 0.0 && right.norm() > 0.0 {
                    leap = leap.max(left.angle(&right));
                }
            }
            assert!(asked > 50, "{asked}");
            (off, leap)
        };
        let (trilinear, tricubic) = (figures(Normals::Field), figures(Normals::Cubic));
        println!(
            "{name}: force off its direction by at most {:.4} and {:.4} rad, leaps at faces of {:.4} and {:.6} rad",
            trilinear.0, tricubic.0, trilinear.1, tricubic.1
        );
        assert!(tricubic.0 < 0.3 * trilinear.0, "{name}: {trilinear:?} {tricubic:?}");
        // In two tenths of a micrometre the normals themselves turn by less than 1e-4.
        assert!(trilinear.1 > 0.01 && tricubic.1 < 1e-3, "{name}: {trilinear:?} {tricubic:?}");
    }
}

/// Another implementation: all points in f64.
#[test]
fn the_tricubic_force_is_the_sum_over_all_points_on_every_instruction_set() {
    let tool = under(&shell(&shapes::torus(0.02, 0.007, 96, 48), 3000), ForceLaw::Pressure(Normals::Cubic));
    let (points, object) = (points_of(&tool), round());
    let field = object.field();
    let mut touched = 0;
    for k in 0..60u32 {
        let r = |n: u32| random(k, n);
        let axis = Vec3::new(r(1) - 0.5, r(2) - 0.5, r(3) - 0.5);
        let pose = turned(axis, 6.0 * r(4), 0.03 * (r(5) - 0.5), 0.03 * (r(6) - 0.5), 0.05 * r(7));
        let answer = ask(&tool, &pose, &object);
        let (mut force, mut torque, mut size) = (Vec3::zeros(), Vec3::zeros(), 0.0);
        for i in 0..points.len {
            let p = pose * points.position(i);
            let depth = field.depth(&p);
            if depth <= 0.0 {
                continue;
            }
            let n = pose.rotation * Vec3::new(points.nx[i].into(), points.ny[i].into(), points.nz[i].into());
            let (_, g) = field.cubic(&p);
            let f = g * (n.dot(&g) * PRESSURE * f64::from(points.area[i]) * depth);
            force += f;
            torque += (p.coords - pose.translation.vector).cross(&f);
            size += f.norm();
        }
        touched += u32::from(size > 0.0);
        let c = answer.wrench;
        assert!((c.force - force).norm() <= 1e-4 * size + 1e-9, "{k}: {} {force}", c.force);
        assert!((c.torque - torque).norm() <= 1e-4 * size * 0.03 + 1e-9, "{k}: {} {torque}", c.torque);
        // The points that are listed push the same way.
        for p in &answer.points[..usize::from(answer.n_points)] {
            let (_, g) = field.cubic(&Point::from(p.position));
            assert!((p.normal + g.normalize()).norm() < 1e-5 || (p.normal - g.normalize()).norm() < 1e-5);
        }
        for level in SimdLevel::ALL {
            if force_simd(Some(level)) {
                let again = ask(&tool, &pose, &object);
                assert_eq!(wrench(&again).map(f64::to_bits), wrench(&answer).map(f64::to_bits), "{level}");
            }
        }
        force_simd(None);
    }
    assert!(touched > 20, "{touched}");
}

#[test]
fn a_face_on_a_floor_of_whole_voxels_presses_each_point_with_the_depth() {
    let size = 0.04;
    let cube = shell(&shapes::cuboid(Vec3::repeat(size)), 3000);
    let points = points_of(&cube);
    let bottom = (0..points.len).filter(|&i| points.nz[i] > 0.5).count() as f64;
    for h in [1e-4, 7e-4, 1.3e-3] {
        for value in CLASSIC {
            let c = ask(&under(&cube, classic(value)), &at(0.0, 0.0, size / 2.0 - h), &floor());
            // The floor's nodes lie 2 mm apart: whole layers and whole millimetres are exact, to half a count of the field.
            close("force", c.wrench.force.z, MATERIAL.stiffness * bottom * h, 2e-6 / h);
            // Of the others the part of C - P along the normal counts as depth of the points on the sides, too.
            assert!((c.depth - h).abs() < 1e-6 || value != VoxelValue::Interpolated);
            assert!(c.depth >= h - 1e-6 && c.touching && c.complete);
            close("k N", c.stiffness[(2, 2)], MATERIAL.stiffness * bottom, 1e-3);
            let shared = ForceLaw::Classic { value, shared: true };
            let less = ask(&under(&cube, shared), &at(0.0, 0.0, size / 2.0 - h), &floor());
            let pressing = pressing(&cube, value, &at(0.0, 0.0, size / 2.0 - h), &floor()).len() as f64;
            close("shared", less.wrench.force.z, c.wrench.force.z * 10.0 / pressing, 1e-12);
        }
    }
    // The force is that of the number of points: the default law's is not.
    let double = shell(&shapes::cuboid(Vec3::repeat(size)), 6000);
    let f = |tool: &ToolShape, law| {
        ask(&under(tool, law), &at(0.0, 0.0, size / 2.0 - 1e-3), &floor()).wrench.force.z
    };
    let law = classic(VoxelValue::Interpolated);
    assert!((f(&double, law) / f(&cube, law) - 2.0).abs() < 0.1);
    close("pressure", f(&double, ForceLaw::default()), f(&cube, ForceLaw::default()), 3e-3);
}

/// Equations (1), (4) and (5), written again: depth and normal of the points that press.
fn pressing(
    tool: &ToolShape,
    value: VoxelValue,
    pose: &Pose,
    object: &ObjectShape,
) -> Vec<(usize, f64, Vec3)> {
    let (points, field) = (points_of(tool), object.field());
    let node = |i: [f64; 3]| field.node(i.map(|x| x as u32));
    (0..points.len)
        .filter_map(|i| {
            let p = pose * points.position(i);
            let n = pose.rotation * Vec3::new(points.nx[i].into(), points.ny[i].into(), points.nz[i].into());
            let u: [f64; 3] = [0, 1, 2].map(|a| (p[a] - field.origin[a]) / field.cell);
            let c = u.map(f64::round);
            if (0..3).any(|a| c[a] < 0.0 || c[a] > f64::from(field.dims[a] - 1)) {
                return None;
            }
            let e = Vec3::from_fn(|a, _| (c[a] - u[a]) * field.cell);
            let v = match value {
                VoxelValue::Layer => n.dot(&e) + (node(c) / field.cell).round() * field.cell,
                VoxelValue::Scaled { digits } => {
                    let lambda = 10f64.powi(-i32::from(digits));
                    n.dot(&e) + (node(c) / lambda).trunc() * lambda
                }
                VoxelValue::Interpolated => {
                    let mut v = node(c);
                    for a in 0..3 {
                        let mut alpha = if u[a] >= c[a] { 1.0 } else { -1.0 };
                        if c[a] + alpha < 0.0 || c[a] + alpha > f64::from(field.dims[a] - 1) {
                            alpha = -alpha;
                        }
                        let mut next = c;
                        next[a] += alpha;
                        v += (node(next) - node(c)) / alpha * (u[a] - c[a]);
                    }
                    v
                }
            };
            (v > 0.0).then_some((i, v, n))
        })
        .collect()
}

#[test]
fn the_classic_force_is_that_of_its_equations_over_all_points() {
    let tools = [
        shell(&shapes::torus(0.02, 0.007, 96, 48), 3000),
        shell(&shapes::cuboid(Vec3::new(0.03, 0.01, 0.02)), 799),
    ];
    let (mut touched, mut spared) = (0, 0);
    for k in 0..40u32 {
        let r = |n: u32| random(k, n);
        let (tool, object) = (&tools[k as usize % 2], &[round(), floor()][k as usize / 2 % 2]);
        let axis = Vec3::new(r(1) - 0.5, r(2) - 0.5, r(3) - 0.5);
        let pose = turned(axis, 6.0 * r(4), 0.03 * (r(5) - 0.5), 0.03 * (r(6) - 0.5), 0.05 * r(7));
        // Centimetres, too, in cells of 1 and 2 mm: what is cut off reaches many cells.
        for value in CLASSIC.into_iter().chain([VoxelValue::Scaled { digits: 2 }]) {
            let c = ask(&under(tool, classic(value)), &pose, object);
            let all = pressing(tool, value, &pose, object);
            let (mut force, mut torque) = (Vec3::zeros(), Vec3::zeros());
            for (i, v, n) in &all {
                let f = n * (v * MATERIAL.stiffness);
                force += f;
                torque += (pose.rotation * points_of(tool).position(*i).coords).cross(&f);
            }
            let size: f64 = all.iter().map(|p| p.1 * MATERIAL.stiffness).sum();
            assert!((c.wrench.force - force).norm() <= 1e-6 * size + 1e-12, "{k} {value:?} {force}");
            assert!((c.wrench.torque - torque).norm() <= 1e-8 * size + 1e-12, "{k} {value:?}");
            assert_eq!(c.touching, !all.is_empty(), "{k} {value:?}");
            let deepest = all.iter().map(|p| p.1).fold(0.0, f64::max);
            assert!((c.depth - deepest).abs() < 1e-9);
            touched += u32::from(c.touching);
            spared += u32::from((c.work as usize) < points_of(tool).len);
            assert!(c.n_points > 0 || !c.touching || all.len() < 3);
        }
    }
    assert!(touched > 40 && spared > 40, "{touched} {spared}");
}

#[test]
fn how_far_the_three_values_are_off_and_how_a_budget_cuts() {
    // A floor that slopes through its voxels.
    let up = Vec3::new(0.3, -0.5, 0.8).normalize();
    let slope = Field::from_fn(Point::new(-0.03, -0.03, -0.03), 0.001, [61, 61, 61], |p| -up.dot(&p.coords));
    let slope = ObjectShape::Field(Arc::new(slope));
    let cube = shell(&shapes::cuboid(Vec3::repeat(0.02)), 2000);
    let turn = UnitQuaternion::rotation_between(&Vec3::z(), &up).expect("not opposite");
    let h = 2e-3;
    let pose = Pose::from_parts((up * (0.01 - h)).into(), turn);
    let bottom = (0..2000).filter(|&i| points_of(&cube).nz[i] > 0.5).count() as f64;
    // Linear: the interpolated value is exact but for the field's counts. The others are off by what rounding takes. (The
    // points on the sides push across.)
    for (value, off) in [
        (VoxelValue::Interpolated, 4e-6),
        (VoxelValue::Scaled { digits: 3 }, 1e-3),
        (VoxelValue::Scaled { digits: 5 }, 1.2e-5),
        (VoxelValue::Layer, 0.5e-3 + 2e-6),
    ] {
        let c = ask(&under(&cube, classic(value)), &pose, &slope);
        let mean = c.wrench.force.dot(&up) / (MATERIAL.stiffness * bottom);
        assert!((mean - h).abs() <= off, "{value:?}: {mean} instead of {h}");
        assert!(c.depth_bounds.is_some_and(|b| b.lower <= h && h <= b.upper));
    }
    // A smaller budget: a prefix of the shell, so a smaller force; said so.
    let law = classic(VoxelValue::Interpolated);
    let tool = under(&cube, law);
    let full = ask(&tool, &pose, &slope);
    let budget = Budget { units: 1000, deadline: None };
    let cut = ask_with(&tool, &pose, &Twist::ZERO, &slope, &Pose::identity(), &MATERIAL, budget);
    assert!(!cut.complete && cut.work <= 1000 && full.complete);
    let part = f64::from(cut.work) / 2000.0;
    assert!((cut.wrench.force.norm() / full.wrench.force.norm() - part).abs() < 0.15 * part);
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let material = Material {
            stiffness: bad,
            reference_area: bad,
            damping: bad,
            friction: Friction::NONE,
            texture: Texture::NONE,
        };
        let q = |q: &Query<'_>| {
            query(&Query { material: &material, ..*q }, Budget::UNLIMITED, &mut QueryState::default())
        };
        assert_eq!(with(&tool, &pose, &slope, q).wrench.force, Vec3::zeros());
    }
}
