//! The ways to put a shell's points together in balls answer alike, and are the same sampling.

use super::{MATERIAL, ask_with, at, floor, round, turned, wrench};
use hapticd::contact::vps::{Clusters, Density, PointShell, ShellParams};
use hapticd::contact::{Budget, Contact, ObjectShape, ToolShape};
use hapticd::geometry::{Point, Pose, TriMesh, Twist, Vec3, shapes};
use std::collections::BTreeMap;
use std::sync::Arc;

const ALL: [Clusters; 3] = [Clusters::Morton, Clusters::BottomUp, Clusters::Mixed];

fn shells(mesh: &TriMesh, params: ShellParams) -> [PointShell; 3] {
    ALL.map(|clusters| PointShell::build(mesh, ShellParams { clusters, ..params }).expect("a proper mesh"))
}

/// What stands at a point: bits of its normal and area.
type Row = [u32; 7];

fn rows(shell: &PointShell, len: usize) -> BTreeMap<Row, usize> {
    let columns = [&shell.x, &shell.y, &shell.z, &shell.nx, &shell.ny, &shell.nz, &shell.area];
    let mut rows = BTreeMap::new();
    for i in 0..len {
        *rows.entry(columns.map(|c| c[i].to_bits())).or_insert(0) += 1;
    }
    rows
}

/// A box has corners and edges, a torus has neither.
#[test]
fn a_shell_is_the_same_on_any_number_of_threads() {
    for mesh in [shapes::cuboid(Vec3::new(0.02, 0.03, 0.05)), shapes::torus(0.03, 0.01, 64, 32)] {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| shells(&mesh, ShellParams::points(9000)))
        };
        let alone = on(1);
        assert!(alone[0].levels().count() > 5 && alone[0].covering_radius > 0.0);
        // Points, normals, areas, levels, balls and radii, in order.
        assert!(on(3) == alone);
    }
}

#[test]
fn all_are_the_same_points_level_by_level() {
    let spaced = ShellParams { density: Density::Spacing(0.0007), ..ShellParams::points(1) };
    for (mesh, params) in [
        (shapes::torus(0.02, 0.007, 96, 48), ShellParams::points(9000)),
        (shapes::cuboid(Vec3::new(0.04, 0.02, 0.001)), ShellParams::points(1003)),
        (shapes::icosphere(0.01, 4), spaced),
        (shapes::icosphere(0.01, 4), ShellParams::points(65)),
    ] {
        let [a, b, c] = shells(&mesh, params);
        // The third has the levels of the first.
        assert!(
            [&a.x, &a.y, &a.z, &a.nx, &a.area] == [&c.x, &c.y, &c.z, &c.nx, &c.area]
                && a.levels().eq(c.levels())
        );
        assert_eq!(a.len, b.len);
        assert_eq!((a.covering_radius, a.bound_radius), (b.covering_radius, b.bound_radius));
        assert!((a.total_area / b.total_area - 1.0).abs() < 1e-9);
        assert!(a.levels().eq(b.levels()));
        for (len, _) in a.levels() {
            assert!(rows(&a, len) == rows(&b, len), "{len} of {}", a.len);
        }
        assert_eq!(b, shells(&mesh, params)[1], "not the same twice");
    }
}

#[test]
fn every_level_covers_the_surface_as_it_says() {
    let (ring, tube) = (0.02, 0.007);
    let mesh = shapes::torus(ring, tube, 96, 48);
    let [_, shell, _] = shells(&mesh, ShellParams::points(6000));
    // Corners and middles of the triangles.
    let places: Vec<Point> = (0..mesh.triangles.len())
        .flat_map(|t| {
            let [a, b, c] = mesh.corners(t);
            [a, Point::from((a.coords + b.coords + c.coords) / 3.0)]
        })
        .collect();
    for (len, radius) in shell.levels() {
        let farthest = places.iter().fold(0.0f64, |far, p| {
            let nearest = (0..len).map(|i| (shell.position(i) - p).norm_squared());
            far.max(nearest.fold(f64::INFINITY, f64::min))
        });
        assert!(farthest.sqrt() <= radius, "{len}: {} {radius}", farthest.sqrt());
        // As good as a sampling of that many points can be: n discs of that radius cover at least the area.
        let discs = len as f64 * std::f64::consts::PI * radius * radius / shell.total_area;
        assert!(discs > 1.0 && discs < 12.0, "{len}: {discs}");
    }
}

/// A ball's depth in a floor and in a ball, known exactly; with all of the budget, and cut to levels and to parts of them.
#[test]
fn bounds_hold_and_forces_agree_in_all() {
    let r = 0.015;
    let tools =
        shells(&shapes::icosphere(r, 6), ShellParams::points(8000)).map(|s| ToolShape::Shell(Arc::new(s)));
    // The mesh lies up to this much within the ball.
    let sagitta = 0.0002 * r;
    fn answer(tool: &ToolShape, pose: &Pose, object: &ObjectShape, units: u32) -> Contact {
        let budget = Budget { units, deadline: None };
        ask_with(tool, pose, &Twist::ZERO, object, &Pose::identity(), &MATERIAL, budget)
    }
    let flat = |p: &Vec3| -p.z;
    for (object, depth) in [(floor(), flat as fn(&Vec3) -> f64), (round(), |p| 0.03 - p.norm())] {
        for k in 0..60 {
            let t = f64::from(k) / 60.0;
            let pose = at(0.02 + 0.01 * t, 0.01, 0.05 - 0.06 * t)
                * turned(Vec3::new(1.0, t, 0.3), 2.0 * t, 0.0, 0.0, 0.0);
            let exact = depth(&pose.translation.vector) + r;
            let whole = tools.each_ref().map(|tool| answer(tool, &pose, &object, 0));
            let size = wrench(&whole[0]).norm();
            for other in &whole[1..] {
                assert!((wrench(&whole[0]) - wrench(other)).norm() <= 2e-5 * size + 1e-9, "{k}");
            }
            for units in [0, 16, 64, 300, 1000, 5000] {
                for tool in &tools {
                    let c = answer(tool, &pose, &object, units);
                    let b = c.depth_bounds.expect("the method bounds the depth");
                    let holds = b.lower <= exact && exact - sagitta <= b.upper;
                    assert!(holds, "units {units} k {k}: {exact} not in {b:?}");
                    // A budget that a level fits into leaves little of the force out.
                    if units >= 1000 && exact > 0.003 {
                        let off = (c.wrench.force - whole[0].wrench.force).norm();
                        assert!(off < 0.1 * size, "units {units} k {k}: {off} of {size}");
                    }
                }
            }
        }
    }
}
