//! Manifolds and segments against all points one by one, in f64.

use super::*;
use hapticd::contact::ContactPoint;
use hapticd::contact::vps::{Manifold, ManifoldParams, Normals, Segments};

pub fn with<R>(tool: &ToolShape, pose: &Pose, object: &ObjectShape, ask: impl FnOnce(&Query<'_>) -> R) -> R {
    ask(&Query {
        tool,
        tool_pose: pose,
        tool_twist: &Twist::ZERO,
        object,
        object_pose: &Pose::identity(),
        object_twist: &Twist::ZERO,
        material: &MATERIAL,
    })
}

fn reduced(
    tool: &ToolShape,
    pose: &Pose,
    object: &ObjectShape,
    params: &ManifoldParams,
) -> Vec<ContactPoint> {
    with(tool, pose, object, |q| Manifold::default().update(q, params).to_vec())
}

pub fn points_of(tool: &ToolShape) -> &PointShell {
    let ToolShape::Shell(shell) = tool else { panic!("a shell") };
    shell
}

/// Places (scene) and depths of all points that push.
fn pushing(tool: &ToolShape, pose: &Pose, object: &ObjectShape) -> Vec<(u32, Vec3, f64)> {
    let shell = points_of(tool);
    let field = object.field();
    (0..shell.len)
        .filter_map(|i| {
            let p = pose * shell.position(i);
            let (depth, g) = field.depth_gradient(&p);
            let n = pose.rotation * Vec3::new(shell.nx[i].into(), shell.ny[i].into(), shell.nz[i].into());
            (depth > 0.0 && n.dot(&g) < -0.1).then_some((i as u32, p.coords, depth))
        })
        .collect()
}

/// Area of the convex hull over the floor.
fn hull(points: impl Iterator<Item = Vec3>) -> f64 {
    let mut points: Vec<[f64; 2]> = points.map(|p| [p.x, p.y]).collect();
    points.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let turn =
        |a: [f64; 2], b: [f64; 2], c: [f64; 2]| (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    let chain = |points: &mut dyn Iterator<Item = [f64; 2]>| {
        let mut chain: Vec<[f64; 2]> = Vec::new();
        for p in points {
            while chain.len() > 1 && turn(chain[chain.len() - 2], chain[chain.len() - 1], p) <= 0.0 {
                chain.pop();
            }
            chain.push(p);
        }
        chain.pop();
        chain
    };
    let mut outline = chain(&mut points.iter().copied());
    outline.extend(chain(&mut points.iter().rev().copied()));
    let n = outline.len();
    (0..n).map(|i| turn([0.0; 2], outline[i], outline[(i + 1) % n])).sum::<f64>() / 2.0
}

/// The same rule over all points, seen from above: deepest, farthest from it, widest triangle, then whatever widens the area
/// most.
fn greedy(all: &[(u32, Vec3, f64)], first: Vec3, most: usize) -> f64 {
    let mut chosen = vec![first];
    while chosen.len() < most.min(all.len()) {
        let merit = |p: &Vec3| match chosen.as_slice() {
            [a] => (p - a).xy().norm(),
            more => hull(more.iter().copied().chain([*p])),
        };
        let best = all.iter().max_by(|a, b| merit(&a.1).total_cmp(&merit(&b.1))).expect("some");
        chosen.push(best.1);
    }
    hull(chosen.into_iter())
}

#[test]
fn a_standing_cube_has_its_four_corners_and_a_ball_spreads_about_its_deepest_point() {
    let size = 0.04;
    let cube = shell(&shapes::cuboid(Vec3::repeat(size)), 4000);
    for normals in [Normals::Shell, Normals::Field] {
        let params = ManifoldParams { normals, ..ManifoldParams::default() };
        let contacts = reduced(&cube, &at(0.003, 0.001, size / 2.0 - 1e-3), &floor(), &params);
        assert_eq!(contacts.len(), 4);
        close("area", hull(contacts.iter().map(|c| c.position)), size * size, 1e-6);
        for c in &contacts {
            assert!((c.depth - 1e-3).abs() < 1e-6 && (c.position.z + 1e-3).abs() < 1e-8);
            assert!((c.normal - Vec3::z()).norm() < 1e-6, "{}", c.normal);
        }
    }
    // A cap of radius a: its lowest point, then the rim.
    let (r, h): (f64, f64) = (0.02, 0.002);
    let ball = shell(&shapes::icosphere(r, 6), 20_000);
    let contacts = reduced(&ball, &at(0.0, 0.0, r - h), &floor(), &ManifoldParams::default());
    assert_eq!(contacts.len(), 4);
    close("deepest", contacts[0].depth, h, 0.01);
    let a = (2.0 * r * h - h * h).sqrt();
    for c in &contacts[1..] {
        close("rim", c.position.xy().norm(), a, 0.03);
    }
}

#[test]
fn the_area_is_that_of_the_rule_over_all_points() {
    let tools = [
        shell(&shapes::torus(0.02, 0.007, 96, 48), 4000),
        shell(&shapes::cuboid(Vec3::new(0.05, 0.02, 0.03)), 2000),
        shell(&shapes::cylinder(0.012, 0.04, 64), 2500),
    ];
    let (mut checked, mut worst): (u32, f64) = (0, 1.0);
    for k in 0..45u32 {
        let r = |n: u32| random(k, n);
        let tool = &tools[k as usize % 3];
        let axis = Vec3::new(r(1) - 0.5, r(2) - 0.5, r(3) - 0.5);
        let turn = UnitQuaternion::from_scaled_axis(axis.normalize() * 6.0 * r(4));
        let points = points_of(tool);
        let lowest = (0..points.len).map(|i| (turn * points.position(i)).z).fold(f64::INFINITY, f64::min);
        let pose = Pose::from_parts(Translation3::new(0.0, 0.0, -lowest - 2e-4 - 4e-3 * r(5)), turn);
        let all = pushing(tool, &pose, &floor());
        for contacts in [3, 4, 8] {
            let params = ManifoldParams { contacts, ..ManifoldParams::default() };
            let got = reduced(tool, &pose, &floor(), &params);
            assert!(!got.is_empty() && got.len() <= usize::from(contacts));
            let deepest = all.iter().map(|p| p.2).fold(0.0, f64::max);
            assert!(got[0].depth >= deepest * (1.0 - 2e-3) - 1e-8, "{k}: {} {deepest}", got[0].depth);
            for c in &got {
                let mine = all.iter().find(|p| p.0 == c.id).expect("a point that pushes");
                assert!((mine.1 - c.position).norm() < 1e-7 && (mine.2 - c.depth).abs() < 1e-6);
            }
            let ids: std::collections::BTreeSet<u32> = got.iter().map(|c| c.id).collect();
            assert_eq!(ids.len(), got.len());
            // The corners of an area are known to the gap between the directions: four contacts span it within a tenth.
            // Of a long, thin area only the ends are surely known, so that more contacts may add less than they could.
            let part = if contacts > 4 { 0.65 } else { 0.9 };
            let want = greedy(&all, got[0].position, usize::from(contacts));
            let area = hull(got.iter().map(|c| c.position));
            let cell = points.total_area / points.len as f64;
            assert!(area >= part * want - 0.5 * cell, "{k}: {contacts} contacts span {area}, not {want}");
            if want > 10.0 * cell {
                checked += 1;
                worst = worst.min(area / want);
            }
        }
    }
    println!("{checked} areas, the worst {worst:.3} of the rule's");
    assert!(checked > 60, "{checked}");
}

#[test]
fn an_edge_has_two_contacts_and_a_corner_one() {
    let size = 0.04;
    let cube = shell(&shapes::cuboid(Vec3::repeat(size)), 4000);
    let params = ManifoldParams::default();
    let h = 1e-4;
    let pose = turned(Vec3::x(), PI / 4.0, 0.0, 0.0, size * 0.5f64.sqrt() - h);
    let contacts = reduced(&cube, &pose, &floor(), &params);
    assert_eq!(contacts.len(), 2, "{contacts:?}");
    assert!((contacts[0].position.x - contacts[1].position.x).abs() > 0.9 * size);
    assert!(contacts.iter().all(|c| (c.normal - Vec3::z()).norm() < 1e-6));
    let diagonal = Rotation3::rotation_between(&Vec3::repeat(1.0), &-Vec3::z()).expect("not opposite");
    let pose = Pose::from_parts(
        Translation3::new(0.0, 0.0, size * 0.75f64.sqrt() - h),
        UnitQuaternion::from_rotation_matrix(&diagonal),
    );
    let contacts = reduced(&cube, &pose, &floor(), &params);
    assert_eq!(contacts.len(), 1, "{contacts:?}");
    assert!((contacts[0].depth - h).abs() < 1e-6);
    // Apart, and asked nonsense: none.
    assert!(reduced(&cube, &at(0.0, 0.0, 0.03), &floor(), &params).is_empty());
    assert!(reduced(&cube, &at(f64::NAN, 0.0, 0.0), &floor(), &params).is_empty());
    assert!(reduced(&ToolShape::Sphere { radius: 0.01 }, &at(0.0, 0.0, 0.0), &floor(), &params).is_empty());
}

#[test]
fn kept_contacts_stay_until_they_are_clearly_beaten() {
    let size = 0.04;
    let cube = shell(&shapes::cuboid(Vec3::repeat(size)), 8000);
    // A millimetre deep, rocking by some micrometres, sliding and turning slowly.
    let pose = |k: u32, tilt: f64| {
        let s = f64::from(k);
        let turn = UnitQuaternion::from_scaled_axis(Vec3::new(
            1e-4 * (7.0 * s).sin() + tilt,
            1e-4 * (11.0 * s).cos(),
            1e-3 * s,
        ));
        Pose::from_parts(Translation3::new(1e-5 * s, 0.0, size / 2.0 - 1e-3), turn)
    };
    let run = |keep: f64| {
        let params = ManifoldParams { keep, ..ManifoldParams::default() };
        let mut manifold = Manifold::default();
        let mut ids: Vec<Vec<u32>> = Vec::new();
        for k in 0..200 {
            let now = with(&cube, &pose(k, 0.0), &floor(), |q| manifold.update(q, &params).to_vec());
            assert_eq!(now.len(), 4);
            ids.push(now.iter().map(|c| c.id).collect());
        }
        ids.windows(2).filter(|w| w[0] != w[1]).count()
    };
    assert_eq!(run(0.2), 0, "contacts changed although nothing beat them");
    assert!(run(0.0) > 50, "the motion would not have moved the contacts anyway");
    // Tilted, another edge is deepest by far: it takes over.
    let params = ManifoldParams::default();
    let mut manifold = Manifold::default();
    with(&cube, &pose(0, 0.02), &floor(), |q| manifold.update(q, &params).len());
    for k in 0..400 {
        let pose = pose(k, 0.02 - 1e-4 * f64::from(k));
        let deepest = pushing(&cube, &pose, &floor()).iter().map(|p| p.2).fold(0.0, f64::max);
        let first = with(&cube, &pose, &floor(), |q| manifold.update(q, &params)[0]);
        assert!(
            first.depth * (1.0 + params.keep) >= deepest * (1.0 - 1e-6),
            "{k}: {} {deepest}",
            first.depth
        );
    }
    // Another shell's indices mean nothing.
    let other = shell(&shapes::cuboid(Vec3::repeat(size)), 2000);
    let here = pose(0, 0.0);
    let after = with(&other, &here, &floor(), |q| manifold.update(q, &params).to_vec());
    assert_eq!(after, reduced(&other, &here, &floor(), &params));
}

#[test]
fn segments_add_up_to_the_contact_and_know_their_own_deepest_point() {
    let tools = [
        shell(&shapes::torus(0.02, 0.007, 96, 48), 9000),
        shell(&shapes::torus(0.02, 0.007, 96, 48), 900),
        shell(&shapes::cuboid(Vec3::repeat(0.03)), 3000),
        shell(&shapes::cuboid(Vec3::repeat(0.03)), 10),
    ];
    for (tool, levels) in tools.iter().zip([8, 6, 8, 3]) {
        let points = points_of(tool);
        for level in 1..=levels {
            let mut segments = Segments::new(points, level);
            let count = segments.answers().len();
            assert!(count <= 1 << (level - 1) && (count == 1 << (level - 1) || points.len < 256 << level));
            // Each point once.
            let mut of = vec![usize::MAX; points.len];
            for i in 0..count {
                for id in segments.points(points, i) {
                    assert_eq!(std::mem::replace(&mut of[id as usize], i), usize::MAX);
                }
            }
            assert!(!of.contains(&usize::MAX));
            let mut touched = 0;
            for (k, object) in [round(), floor()].into_iter().cycle().take(4).enumerate() {
                let s = k as f64;
                let pose =
                    turned(Vec3::new(0.3, 1.0, 0.2 * s), 0.4 + s, 0.004 * s.sin(), 0.002, 0.012 + 0.003 * s);
                let whole = ask(tool, &pose, &object);
                let answers = with(tool, &pose, &object, |q| segments.update(q).to_vec());
                let sum = answers.iter().fold(Vector6::zeros(), |sum: Vector6<f64>, a| {
                    let (f, t) = (a.wrench.force, a.wrench.torque);
                    sum + Vector6::new(f.x, f.y, f.z, t.x, t.y, t.z)
                });
                let size: f64 = answers.iter().map(|a| a.wrench.force.norm()).sum();
                assert!((sum - wrench(&whole)).norm() <= 1e-5 * size + 1e-9, "{sum} {}", wrench(&whole));
                let all = pushing(tool, &pose, &object);
                for (i, a) in answers.iter().enumerate() {
                    let mine = all.iter().filter(|p| of[p.0 as usize] == i).map(|p| p.2).fold(0.0, f64::max);
                    let depth = a.deepest.map_or(0.0, |p| p.depth);
                    assert!((depth - mine).abs() < 1e-6, "{depth} {mine}");
                    assert!(a.deepest.is_none_or(|p| of[p.id as usize] == i && a.pressed > 0.0));
                    touched += u32::from(a.deepest.is_some());
                }
            }
            assert!(touched >= 2, "{touched}");
        }
    }
    // Made of another shell: nothing.
    let mut segments = Segments::new(points_of(&tools[0]), 3);
    let pose = at(0.0, 0.0, 0.0);
    assert!(with(&tools[1], &pose, &floor(), |q| segments.update(q).iter().all(|a| a.pressed == 0.0)));
}

#[test]
fn a_stool_has_a_contact_under_each_leg_though_one_is_longer() {
    // Four legs of 10 mm, one of them half a millimetre longer.
    let mut stool = TriMesh::default();
    for (i, (x, y)) in [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)].into_iter().enumerate() {
        let mut leg = shapes::cuboid(Vec3::new(0.01, 0.01, 0.03));
        let longer = if i == 0 { 5e-4 } else { 0.0 };
        leg.vertices.iter_mut().for_each(|v| *v += Vec3::new(0.02 * x, 0.02 * y, -longer));
        let first = stool.vertices.len() as u32;
        stool.vertices.extend(leg.vertices);
        stool.triangles.extend(leg.triangles.iter().map(|t| t.map(|v| v + first)));
    }
    let tool = shell(&stool, 8000);
    let pose = at(0.0, 0.0, 0.0149);
    let legs = |points: Vec<Vec3>| {
        points.iter().map(|p| (p.x > 0.0, p.y > 0.0)).collect::<std::collections::BTreeSet<_>>().len()
    };
    let contacts = reduced(&tool, &pose, &floor(), &ManifoldParams::default());
    assert_eq!(legs(contacts.iter().map(|c| c.position).collect()), 4, "{contacts:?}");
    let mut segments = Segments::about(points_of(&tool), 4);
    assert_eq!(segments.level(), 3);
    let answers = with(&tool, &pose, &floor(), |q| segments.update(q).to_vec());
    assert_eq!(legs(answers.iter().filter_map(|a| a.deepest).map(|c| c.position).collect()), 4);
}

#[test]
fn manifolds_and_segments_have_the_same_bits_on_every_instruction_set() {
    let tool = shell(&shapes::torus(0.02, 0.007, 96, 48), 7777);
    let object = round();
    let answers = || -> Vec<u64> {
        let (mut manifold, mut segments) = (Manifold::default(), Segments::new(points_of(&tool), 5));
        (0..60)
            .flat_map(|k| {
                let s = f64::from(k) * 2e-4;
                let pose = turned(Vec3::new(0.3, 1.0, 0.2), 0.5 + 20.0 * s, 0.050 - s, 0.002, 0.7 * s);
                with(&tool, &pose, &object, |q| {
                    let mut bits = Vec::new();
                    for c in manifold.update(q, &ManifoldParams::default()) {
                        bits.extend([u64::from(c.id), c.depth.to_bits(), c.normal.x.to_bits()]);
                    }
                    for a in segments.update(q) {
                        bits.extend([
                            a.wrench.force.x.to_bits(),
                            a.wrench.torque.z.to_bits(),
                            a.pressed.to_bits(),
                        ]);
                    }
                    bits
                })
            })
            .collect()
    };
    let reference = answers();
    for level in SimdLevel::ALL {
        if force_simd(Some(level)) {
            assert_eq!(reference, answers(), "{level}");
        } else {
            println!("skipped {level}: this CPU lacks it");
        }
    }
    force_simd(None);
}
