//! A tool of spheres under the tick: in the corner of an angle a field of coarse cells shows a force before anything
//! touches, and that is felt under the same rules as a touch.

use crate::device::Puppet;
use crate::world::{Bench, norm, object, scene};
use hapticd::contact::ist::{IstParams, Solid, SphereTree};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::device::Device;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, Pose, TriMesh, Vec3, shapes};
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ZeroReason;
use std::sync::Arc;

const SIDE: f64 = 0.02;
const HALF: f64 = 0.03;

pub fn tool() -> Arc<Tool> {
    let tree = SphereTree::build(&shapes::cuboid(Vec3::repeat(SIDE)), &IstParams::spheres(2000), &Silent);
    let tree = tree.expect("builds");
    let bound_radius = tree.bound_radius;
    let shape = ToolShape::Spheres(Arc::new(tree));
    Arc::new(Tool { shape, offset: Pose::identity(), bound_radius, incarnation: 1 })
}

/// A bar along z with an angle for a section: two walls, x = 0 and y = 0, that meet in an inner corner.
fn angle() -> TriMesh {
    let section = [[-HALF, -HALF], [HALF, -HALF], [HALF, 0.0], [0.0, 0.0], [0.0, HALF], [-HALF, HALF]];
    let vertices: Vec<Point> =
        [-HALF, HALF].iter().flat_map(|&z| section.map(|[x, y]| Point::new(x, y, z))).collect();
    let fan = [[3, 4, 5], [3, 5, 0], [3, 0, 1], [3, 1, 2]];
    let mut triangles: Vec<[u32; 3]> =
        fan.iter().flat_map(|&[a, b, c]| [[a, c, b], [6 + a, 6 + b, 6 + c]]).collect();
    for i in 0..6 {
        let j = (i + 1) % 6;
        triangles.extend([[i, j, 6 + j], [i, 6 + j, 6 + i]]);
    }
    TriMesh { vertices, triangles }
}

/// A body of the cells of a grid that are filled: faces between those that are and those that are not.
pub fn blocks(planes: &[f64], filled: impl Fn([usize; 3]) -> bool) -> TriMesh {
    let n = planes.len();
    let vertex = |[i, j, k]: [usize; 3]| ((i * n + j) * n + k) as u32;
    let cells = n - 1;
    let mut triangles = vec![];
    for cell in
        (0..cells.pow(3)).map(|c| [c / cells.pow(2), c / cells % cells, c % cells]).filter(|c| filled(*c))
    {
        for axis in 0..3 {
            let [u, v] = [(axis + 1) % 3, (axis + 2) % 3];
            for up in [false, true] {
                let mut beside = cell;
                beside[axis] = if up { cell[axis] + 1 } else { cell[axis].wrapping_sub(1) };
                if beside[axis] < cells && filled(beside) {
                    continue;
                }
                let corner = |du: usize, dv: usize| {
                    let mut at = cell;
                    at[axis] += usize::from(up);
                    (at[u], at[v]) = (cell[u] + du, cell[v] + dv);
                    vertex(at)
                };
                let [a, b, c, d] = [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
                let quad = if up { [[a, b, c], [a, c, d]] } else { [[a, c, b], [a, d, c]] };
                triangles.extend(quad);
            }
        }
    }
    // Without those that nothing uses.
    let mut used: Vec<u32> = triangles.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let place = |v: u32| planes[v as usize];
    let n = n as u32;
    let vertices =
        used.iter().map(|v| Point::new(place(v / (n * n)), place(v / n % n), place(v % n))).collect();
    let new = |v: u32| used.binary_search(&v).expect("used") as u32;
    TriMesh { vertices, triangles: triangles.into_iter().map(|t| t.map(new)).collect() }
}

pub fn solid(mesh: &TriMesh) -> ObjectShape {
    let params = FieldParams { resolution: Resolution::Cell(0.002), padding: 8 };
    let (field, _) = build(mesh, &params, &Silent).expect("builds");
    ObjectShape::Solid(Arc::new(Solid::new(mesh, Arc::new(field), &|| false).expect("never stopped")))
}

/// Where the gap to both walls is `gap` m.
fn place(gap: f64) -> Vec3 {
    Vec3::new(0.5 * SIDE + gap, 0.5 * SIDE + gap, 0.0)
}

/// Armed in the free, then half a millimetre from the corner of a material of so many N/m; `beside` deep in something as
/// soft as can be.
fn corner(stiffness: f64, beside: bool) -> (Bench, Puppet, Arc<Tool>, Vec<SnapshotObject>) {
    let tool = tool();
    let mut objects = vec![object(1, solid(&angle()), Pose::identity(), stiffness)];
    let puppet = Puppet::new(place(5e-3));
    let mut bench = Bench::new(Box::new(puppet.clone()), ServoConfig::default());
    bench.publish(scene(1, &tool, objects.clone()));
    bench.arm();
    if beside {
        let at = Pose::translation(0.5 * SIDE, 0.5 * SIDE, 0.5 * SIDE + HALF - 1e-3);
        objects.push(object(2, solid(&shapes::cuboid(Vec3::repeat(2.0 * HALF))), at, 0.1));
        bench.publish(scene(2, &tool, objects.clone()));
    }
    for i in 0..225 {
        puppet.place(place(5e-3 - 2e-5 * f64::from(i)));
        bench.step();
    }
    (bench, puppet, tool, objects)
}

/// Every micrometre of the gap from 200 down to -30, at rest.
fn descent() -> impl Iterator<Item = i32> {
    (-30..=200).rev()
}

const STEP: f64 = 1e-6;

#[test]
fn a_force_before_a_touch_grows_into_that_of_the_touch() {
    let stiffness = 200.0;
    let (mut bench, puppet, tool, mut objects) = corner(stiffness, false);
    // Pressed into both walls at once the tool is pushed back by their whole faces.
    let steepest = stiffness / 1e-4 * SIDE * SIDE;
    let mut last: Option<Vec3> = None;
    let mut before = 0.0f64;
    for i in descent() {
        puppet.place(place(f64::from(i) * STEP));
        let r = bench.steps(12);
        let force = Vec3::from(r.force);
        assert_eq!((r.touched > 0, r.distance > 0.0), (i <= 0, i > 0), "{i} µm");
        assert_eq!(r.zero == ZeroReason::None, force != Vec3::zeros(), "{i} µm: {:?}", r.zero);
        if let Some(last) = last {
            let slope = (force - last).norm() / (STEP * 2f64.sqrt());
            assert!(slope <= 1.1 * steepest, "{i} µm: {slope} N/m");
        }
        if i > 0 {
            before = before.max(force.norm());
        }
        last = Some(force);
    }
    assert!(before > 1e-3, "nothing was felt before the touch: {before} N");

    // Twice as stiff, and then twice the force, but not at once.
    puppet.place(place(20.0 * STEP));
    let soft = norm(bench.steps(50).force);
    objects[0].material.stiffness *= 2.0;
    bench.publish(scene(3, &tool, objects));
    let at_once = norm(bench.step().force);
    assert!((at_once / soft - 1.0).abs() < 0.05, "{at_once} N after {soft} N");
    let hard = norm(bench.steps(400).force);
    assert!((hard / soft - 2.0).abs() < 0.01, "{hard} N after {soft} N");
}

#[test]
fn a_force_before_a_touch_is_capped_like_that_of_the_touch() {
    for beside in [false, true] {
        let (mut bench, puppet, ..) = corner(2e5, beside);
        let most = puppet.profile().max_stiffness;
        let mut last: Option<(Vec3, f64)> = None;
        let mut capped = 0;
        for i in descent() {
            puppet.place(place(f64::from(i) * STEP));
            let r = bench.steps(12);
            let contact = Vec3::from(r.contact_force);
            // At rest nothing is damped.
            let (force, whole) = (norm(r.force), contact.norm());
            assert!((force - r.cap * whole).abs() <= 1e-3 * whole, "{beside} {i} µm: {force} N of {whole} N");
            if let Some((c, cap)) = last {
                let slope = (contact - c).norm() / (STEP * 2f64.sqrt()) * r.cap.min(cap);
                assert!(slope <= 1.1 * most, "{beside} {i} µm: {slope} N/m");
            }
            capped += usize::from(i > 0 && r.cap < 1.0 && force > 0.1);
            last = Some((contact, r.cap));
        }
        assert!(capped > 20, "{beside}: {capped} places before the touch");
    }
}
