//! The proxy of a ball on the mesh itself: never nearer to any triangle than its radius, on the side from which it came.
//!
//! Distances are measured here anew, over all triangles, by the regions about a triangle's corners, edges and face (Ericson,
//! Real-Time Collision Detection, 2005, section 5.1.5).

use super::proxy::{Hand, Over, Way, built, keyed, meshes};
use super::*;
use hapticd::contact::ist::Solid;

/// What the proxy rests outside of a surface in a mesh of this half size, m: a ten-millionth.
fn skin(half: f64) -> f64 {
    1e-7 * half
}

/// By how much the direction may be off in which a ball is pushed, rad: by its play of a thousandth of the skin it takes the edge beside a
/// face for it. That of a point is the face's alone.
fn tilt(half: f64, radius: f64) -> f64 {
    if radius > 0.0 { (skin(half) / (500.0 * radius)).sqrt() } else { 0.0 }
}

/// A mesh for a proxy, with a field that is too coarse to be of any use.
pub fn solid(mesh: &TriMesh) -> ObjectShape {
    let field = built(mesh, 12);
    ObjectShape::Solid(Arc::new(Solid::new(mesh, field, &|| false).expect("not stopped")))
}

pub fn mesh(vertices: &[[f64; 3]], triangles: &[[u32; 3]]) -> TriMesh {
    TriMesh { vertices: vertices.iter().map(|v| Point::from(*v)).collect(), triangles: triangles.to_vec() }
}

/// The point of a triangle that is nearest to `p`.
fn nearest(p: &Point, [a, b, c]: &[Point; 3]) -> Point {
    let (ab, ac, ap) = (b - a, c - a, p - a);
    let (d1, d2) = (ab.dot(&ap), ac.dot(&ap));
    if d1 <= 0.0 && d2 <= 0.0 {
        return *a;
    }
    let bp = p - b;
    let (d3, d4) = (ab.dot(&bp), ac.dot(&bp));
    if d3 >= 0.0 && d4 <= d3 {
        return *b;
    }
    let vc = d1 * d4 - d3 * d2;
    if vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0 {
        return a + ab * (d1 / (d1 - d3));
    }
    let cp = p - c;
    let (d5, d6) = (ab.dot(&cp), ac.dot(&cp));
    if d6 >= 0.0 && d5 <= d6 {
        return *c;
    }
    let vb = d5 * d2 - d1 * d6;
    if vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0 {
        return a + ac * (d2 / (d2 - d6));
    }
    let va = d3 * d6 - d5 * d4;
    if va <= 0.0 && d4 - d3 >= 0.0 && d5 - d6 >= 0.0 {
        return b + (c - b) * ((d4 - d3) / ((d4 - d3) + (d5 - d6)));
    }
    a + ab * (vb / (va + vb + vc)) + ac * (vc / (va + vb + vc))
}

/// All triangles, each with a ball about it.
struct Truth {
    corners: Vec<[Point; 3]>,
    balls: Vec<[f64; 4]>,
}

impl Truth {
    fn new(mesh: &TriMesh) -> Self {
        let corners: Vec<_> = (0..mesh.triangles.len()).map(|t| mesh.corners(t)).collect();
        let ball = |c: &[Point; 3]| {
            let middle = (c[0].coords + c[1].coords + c[2].coords) / 3.0;
            let radius = c.iter().map(|p| (p.coords - middle).norm()).fold(0.0, f64::max);
            [middle.x, middle.y, middle.z, radius * (1.0 + 1e-9)]
        };
        let balls = corners.iter().map(ball).collect();
        Self { corners, balls }
    }

    /// Distance to the nearest of all triangles, m, where that is less than `reach`.
    fn distance(&self, p: &Point, reach: f64) -> f64 {
        let mut least = reach;
        for (corners, [x, y, z, radius]) in self.corners.iter().zip(&self.balls) {
            let far = (p.x - x).powi(2) + (p.y - y).powi(2) + (p.z - z).powi(2);
            if far < (radius + least).powi(2) {
                least = least.min((p - nearest(p, corners)).norm());
            }
        }
        least
    }

    /// How often the surface goes round `p`, by the solid angles of all triangles (Van Oosterom and Strackee 1983).
    fn winding(&self, p: &Point) -> f64 {
        let angle = |t: &[Point; 3]| {
            let [a, b, c] = t.map(|v| v - p);
            let (x, y, z) = (a.norm(), b.norm(), c.norm());
            let below = x * y * z + a.dot(&b) * z + b.dot(&c) * x + c.dot(&a) * y;
            2.0 * a.dot(&b.cross(&c)).atan2(below)
        };
        self.corners.iter().map(angle).sum::<f64>() / (4.0 * PI)
    }
}

/// Pushes a ball at a body and asks after every tick where its proxy is. Returns how many ticks touched.
fn push(name: &str, mesh: &TriMesh, closed: bool, pushes: u32, seed: u64) -> u32 {
    let (truth, object) = (Truth::new(mesh), solid(mesh));
    // As often as its cost allows: who is inside stays there.
    let seldom = 64.max(mesh.triangles.len() as u32 / 16);
    let (low, high) = mesh.bounds().expect("not empty");
    let mut hand = Hand::new(mesh, seed);
    let size = hand.size;
    let (mut touched, mut work, mut nearest) = (0, Vec::new(), f64::INFINITY);
    let rubber = Friction { statics: 0.6, dynamic: 0.4, stribeck: 0.0, viscous: 0.0 };
    for (radius, friction) in
        [(0.0, Friction::NONE), (0.0, rubber), (0.01 * size, Friction::NONE), (0.03 * size, rubber)]
    {
        let mut way = Way::new(radius, object.clone(), friction);
        way.to(hand.start(radius));
        for k in 0..pushes / 4 {
            // From a thousandth of the size to a quarter of it.
            let contact = way.to(hand.go(0.016 * size, 16.0, 0.01 * size));
            touched += u32::from(contact.touching);
            work.push(contact.work);
            let at = way.proxy.rest().expect("is known");
            let distance = truth.distance(&at, radius + 1e-3 * size);
            assert!(distance >= radius, "{name} {k}: {distance} m from a triangle, its radius is {radius}");
            nearest = nearest.min((distance - radius) / skin(0.5 * (high - low).amax()));
            if closed && k % seldom == 0 {
                assert!(truth.winding(&at) < 0.5, "{name} {k}: inside");
            }
        }
    }
    work.sort_unstable();
    println!(
        "{name}: {touched} of {pushes} touched, never nearer than {nearest:.3} of a skin; units {} median, {} p99, {} most",
        work[work.len() / 2],
        work[work.len() * 99 / 100],
        work[work.len() - 1]
    );
    touched
}

/// Bodies that are closed, with thin walls and without, concave and convex, and sheets that are not.
fn bodies() -> Vec<(&'static str, TriMesh, bool)> {
    vec![
        ("box", shapes::cuboid(Vec3::new(0.05, 0.03, 0.02)), true),
        ("plate", shapes::cuboid(Vec3::new(0.05, 0.05, 0.0002)), true),
        ("ball", shapes::icosphere(0.02, 3), true),
        ("torus", shapes::torus(0.03, 0.012, 48, 24), true),
        ("hole", keyed(), true),
        ("shell", shapes::hollow_sphere(0.02, 0.0199, 2), true),
        ("room", room(), false),
        ("sheet", sheet(7, 0.2), false),
        ("wedge", wedge(), true),
    ]
}

/// A million pushes.
#[test]
fn never_nearer_than_the_radius_whatever_the_push() {
    let mut touched = 0;
    for (name, mesh, closed) in bodies() {
        touched += push(name, &mesh, closed, 110_000, 1);
    }
    for (name, closed) in [("bunny.ply", false), ("screwdriver.ply", true), ("messy/truck.obj", false)] {
        let Some(mesh) = meshes::shared(name) else { continue };
        touched += push(name, &mesh, closed, 10_000, 2);
    }
    assert!(touched > 150_000, "{touched}");
}

/// The full count: `cargo test --release --test contact a_million_pushes_at_meshes -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn never_nearer_in_a_million_pushes_at_meshes() {
    for (name, mesh, closed) in bodies() {
        let touched = push(name, &mesh, closed, 1_000_000, 3);
        assert!(touched > 100_000, "{name}: {touched}");
    }
    let scanned = [
        ("armadillo.ply", true, 1_000_000),
        ("bunny.ply", false, 1_000_000),
        ("bunny_filled.ply", false, 1_000_000),
        ("rocker_arm.ply", true, 1_000_000),
        ("screwdriver.ply", true, 1_000_000),
        ("analytic/bolt_m10.ply", true, 200_000),
        ("analytic/gear24.ply", true, 200_000),
        ("messy/einsy-base.stl", false, 200_000),
        ("messy/teapot.obj", false, 200_000),
        ("messy/truck.obj", false, 200_000),
    ];
    for (name, closed, pushes) in scanned {
        let Some(mesh) = meshes::shared(name) else { continue };
        let touched = push(name, &mesh, closed, pushes, 4);
        assert!(touched > pushes / 20, "{name}: {touched}");
    }
}

/// Three walls of 4 cm: x, y and z are positive where one can be.
fn room() -> TriMesh {
    let s = 0.04;
    mesh(
        &[[0.0; 3], [s, 0.0, 0.0], [s, s, 0.0], [0.0, s, 0.0], [0.0, 0.0, s], [s, 0.0, s], [0.0, s, s]],
        &[[0, 1, 2], [0, 2, 3], [0, 4, 5], [0, 5, 1], [0, 3, 6], [0, 6, 4]],
    )
}

/// A single layer in the plane z = 0, 24 mm wide, of `n` x `n` squares, its inner corners moved by a part of a square.
fn sheet(n: u32, jitter: f64) -> TriMesh {
    let edge = 0.024 / f64::from(n);
    let mut out = TriMesh::default();
    for (i, j) in (0..=n).flat_map(|j| (0..=n).map(move |i| (i, j))) {
        let inner = i > 0 && j > 0 && i < n && j < n;
        let moved = |k: u32| if inner { jitter * (random(j * 100 + i, k) - 0.5) } else { 0.0 };
        let x = (f64::from(i) + moved(0)) * edge - 0.012;
        let y = (f64::from(j) + moved(1)) * edge - 0.012;
        out.vertices.push(Point::new(x, y, 0.0));
    }
    for (i, j) in (0..n).flat_map(|j| (0..n).map(move |i| (i, j))) {
        let a = j * (n + 1) + i;
        out.triangles.extend([[a, a + 1, a + n + 2], [a, a + n + 2, a + n + 1]]);
    }
    out
}

/// A blade along y: its edge at the origin, 20 mm deep, a fifth of a millimetre thick at its back.
fn wedge() -> TriMesh {
    let (l, d, h) = (0.02, 0.02, 1e-4);
    mesh(
        &[[0.0, -l, 0.0], [0.0, l, 0.0], [-d, -l, h], [-d, l, h], [-d, -l, -h], [-d, l, -h]],
        &[[0, 1, 3], [0, 3, 2], [0, 5, 1], [0, 4, 5], [2, 3, 5], [2, 5, 4], [0, 2, 4], [1, 5, 3]],
    )
}

/// Goes there in steps.
pub fn lead(way: &mut Way, from: Vec3, to: Vec3, steps: u32) -> Contact {
    let mut last = Contact::none(None);
    for k in 0..=steps {
        last = way.to(from + (to - from) * (f64::from(k) / f64::from(steps)));
    }
    last
}

pub fn rest(way: &Way) -> Vec3 {
    way.proxy.rest().expect("is known").coords
}

#[test]
fn in_corners_it_stands_along_all_walls_exactly() {
    for r in [0.0, 0.004] {
        for (x, want) in [
            (Vec3::new(0.01, 0.012, -0.003), Vec3::new(0.01, 0.012, r)),
            (Vec3::new(-0.002, -0.003, 0.01), Vec3::new(r, r, 0.01)),
            (Vec3::new(r - 0.0005, 0.01, r - 0.003), Vec3::new(r, 0.01, r)),
            (Vec3::new(-0.002, -0.003, -0.001), Vec3::new(r, r, r)),
            (Vec3::new(0.01, -0.003, 0.012), Vec3::new(0.01, r, 0.012)),
        ] {
            let mut way = Way::new(r, solid(&room()), Friction::NONE);
            let c = lead(&mut way, Vec3::new(0.012, 0.013, 0.011), x, 400);
            let near = 2.0 * skin(0.02);
            assert!((rest(&way) - want).norm() < near, "radius {r}, {x}: {}, not {want}", rest(&way));
            assert!((c.wrench.force - (want - x) * MATERIAL.stiffness).norm() < near * MATERIAL.stiffness);
            // As stiff as the material along what holds it, and not at all along the rest.
            let k = c.stiffness.fixed_view::<3, 3>(0, 0).into_owned() / MATERIAL.stiffness;
            for i in 0..3 {
                let leans = if x[i] < r { 1.0 } else { 0.0 };
                assert!((k[(i, i)] - leans).abs() < 1e-3, "radius {r}, {x}: {k}");
            }
        }
    }
}

/// Round a convex edge and corner the ball rolls on the offset of the body: at its radius from the nearest point of the box.
#[test]
fn outside_of_a_convex_body_it_is_the_nearest_point_of_the_offset() {
    let half = Vec3::new(0.02, 0.015, 0.01);
    let (radius, facets) = (0.005, shapes::icosphere(0.02, 3));
    let truth = Truth::new(&facets);
    for (name, mesh) in [("box", shapes::cuboid(half * 2.0)), ("ball", facets.clone())] {
        let mut way = Way::new(radius, solid(&mesh), Friction::NONE);
        let (mut worst, mut touched) = (0.0f64, 0);
        for k in 0..3000u32 {
            let t = f64::from(k) * 4e-3;
            let (a, b) = (1.5 * (1.3 * t).sin(), 2.0 * t);
            let out = Vec3::new(a.sin() * b.cos(), a.sin() * b.sin(), a.cos());
            // From the surface to outside of the offset.
            let height = radius * (0.6 + 0.55 * (7.1 * t).sin());
            let foot = match name {
                "box" => half.component_mul(&(out * (2.0 / out.amax())).map(|x| x.clamp(-1.0, 1.0))),
                _ => out * 0.02,
            };
            let x = Point::from(foot + out * height);
            let on = match name {
                "box" => Point::from(x.coords.zip_map(&half, |x, h| x.clamp(-h, h))),
                _ => {
                    let all = truth.corners.iter().map(|c| nearest(&x, c));
                    all.min_by(|a, b| (x - a).norm().total_cmp(&(x - b).norm())).expect("has triangles")
                }
            };
            let apart = x - on;
            if apart.norm() < 0.05 * radius {
                continue;
            }
            let want = if apart.norm() < radius { on + apart * (radius / apart.norm()) } else { x };
            // A hand that stops: until nothing moves any more.
            let (mut c, mut last) = (way.to(x.coords), None);
            for _ in 0..100 {
                if last == way.proxy.rest() {
                    break;
                }
                last = way.proxy.rest();
                c = way.to(x.coords);
            }
            touched += u32::from(c.touching);
            worst = worst.max((rest(&way) - want.coords).norm());
        }
        println!("{name}: {touched} touched, {worst:e} m off");
        assert!(touched > 1000, "{name}: {touched}");
        assert!(worst < 4.0 * skin(0.02) + radius * tilt(0.02, radius), "{name}: {worst} m off");
    }
}

/// A ball in a groove touches both its sides; a larger one across a slot its edges. By their angles.
#[test]
fn in_a_groove_it_lies_between_both_sides() {
    for angle in [10f64, 30.0, 60.0, 89.0, 89.9] {
        let (s, c) = angle.to_radians().sin_cos();
        let (l, w) = (0.03, 0.02);
        // Sides at this angle to the vertical plane x = 0.
        let groove = mesh(
            &[
                [0.0, -l, 0.0],
                [0.0, l, 0.0],
                [w * s, -l, w * c],
                [w * s, l, w * c],
                [-w * s, -l, w * c],
                [-w * s, l, w * c],
            ],
            &[[0, 1, 3], [0, 3, 2], [0, 5, 1], [0, 4, 5]],
        );
        let radius = 0.1 * w * s;
        let mut way = Way::new(radius, solid(&groove), Friction::NONE);
        let x = Vec3::new(0.02 * radius, 0.004, -0.003);
        lead(&mut way, Vec3::new(0.0, 0.0, w), x, 200);
        // In between; on the flattest ones on the side on which the hand leans.
        let n = Vec3::new(-c, 0.0, s);
        let foot = x + n * (radius - n.dot(&x));
        let want = if foot.x > 0.0 { foot } else { Vec3::new(0.0, 0.004, radius / s) };
        let near = 4.0 * skin(l) / s.min(c);
        assert!((rest(&way) - want).norm() < near, "{angle}: {}, not {want}", rest(&way));
        // Along it nothing holds it.
        lead(&mut way, x, x + Vec3::y() * 0.01, 50);
        assert!((rest(&way).y - 0.014).abs() < near, "{angle}: {}", rest(&way));
    }
}

/// Through a sheet of a single layer and one of 0.2 mm, at 1 m/s and faster, through faces, edges and corners of its triangles alike.
#[test]
fn no_sheet_lets_it_through_however_fast() {
    let thin = shapes::cuboid(Vec3::new(0.024, 0.024, 2e-4));
    for (name, mesh, half) in
        [("single", sheet(6, 0.0), 0.0), ("jittered", sheet(9, 0.6), 0.0), ("thin", thin, 1e-4)]
    {
        let object = solid(&mesh);
        for (radius, side) in [(0.0, 1.0), (0.0, -1.0), (4e-4, 1.0), (0.003, -1.0)] {
            for case in 0..400u32 {
                // Every second one at a corner or the middle of an edge.
                let t = mesh.corners(case as usize % mesh.triangles.len());
                let at = match case % 4 {
                    0 => t[0].coords,
                    1 => (t[0].coords + t[2].coords) * 0.5,
                    _ => Vec3::new(0.02 * random(case, 0) - 0.01, 0.02 * random(case, 1) - 0.01, 0.0),
                };
                if at.xy().amax() > 0.011 {
                    continue;
                }
                let step = [1e-3, 1e-2, 0.1, 3.7e-3][(case / 4 % 4) as usize];
                let across = Vec3::new(0.3 * random(case, 2), 0.3 * random(case, 3), -1.0)
                    * (case % 3) as f64
                    - Vec3::z();
                let down = across.component_mul(&Vec3::new(1.0, 1.0, side)).normalize() * step;
                let above =
                    at.xy().push(side * (half + radius)) - down * (0.3 + random(case, 4)) - down * 2.0;
                let mut way = Way::new(radius, object.clone(), Friction::NONE);
                let mut x = above;
                for tick in 0..12 {
                    let c = way.to(x);
                    let p = rest(&way);
                    // Past its edge one may go.
                    if p.xy().amax() > 0.012 + radius || x.xy().amax() > 0.012 {
                        break;
                    }
                    assert!(side * p.z >= half + radius, "{name} {radius} {side} {case} {tick}: {p}");
                    let depth = half + radius - side * x.z;
                    if depth > 1e-6 {
                        close(
                            "held",
                            side * c.wrench.force.z,
                            MATERIAL.stiffness * depth,
                            1e-3 + 1e-8 / depth,
                        );
                    }
                    x += down;
                }
            }
        }
    }
}

/// Round its edge it is let go.
#[test]
fn round_the_edge_of_a_sheet_it_is_let_go() {
    for radius in [0.0, 0.001] {
        let mut way = Way::new(radius, solid(&sheet(5, 0.4)), Friction::NONE);
        let below = Vec3::new(0.001, 0.002, -0.003);
        assert!(lead(&mut way, Vec3::new(0.001, 0.002, 0.004), below, 10).wrench.force.z > 2.0);
        let c = lead(&mut way, below, Vec3::new(0.016, 0.002, -0.003), 100);
        assert_eq!((c.touching, c.wrench.force), (false, Vec3::zeros()), "{radius}");
        let c = lead(&mut way, Vec3::new(0.016, 0.002, -0.003), Vec3::new(0.001, 0.002, -0.003), 100);
        assert_eq!(c.wrench.force, Vec3::zeros(), "{radius}");
        let c = lead(&mut way, below, Vec3::new(0.001, 0.002, 0.003), 20);
        close("from below", c.wrench.force.z, -MATERIAL.stiffness * (0.003 + radius), 1e-4);
    }
}

/// A blade of a degree: pushed across it, it stays on its side of it; over the edge it comes to the other.
#[test]
fn a_blade_keeps_its_sides() {
    for radius in [0.0, 0.002] {
        for side in [1.0, -1.0] {
            let mut way = Way::new(radius, solid(&wedge()), Friction::NONE);
            let at = |x: f64, z: f64| Vec3::new(x, 0.003, side * z);
            let c = lead(&mut way, at(-0.005, 0.006), at(-0.005, -0.01), 16);
            let p = rest(&way);
            assert!(side * p.z > radius && side * c.wrench.force.z > 7.0, "{radius} {side}: {p}");
            // The nearest place of that face: along its slope of 1 to 200.
            assert!((p.x + 0.005).abs() < 1.2e-4, "{radius} {side}: {p}");
            let c = lead(&mut way, at(-0.005, -0.01), at(0.01, -0.01), 40);
            assert_eq!(c.wrench.force, Vec3::zeros());
            let c = lead(&mut way, at(0.01, -0.01), at(-0.005, -0.004), 40);
            assert!(!c.touching, "on the other side now: {}", rest(&way));
        }
    }
}

/// The order of triangles, and of their corners, is no property of a surface.
#[test]
fn the_order_of_triangles_changes_nothing() {
    let torus = shapes::torus(0.03, 0.012, 24, 12);
    let n = torus.triangles.len();
    let turned = torus
        .triangles
        .iter()
        .enumerate()
        .map(|(k, [a, b, c])| [[*a, *b, *c], [*b, *c, *a], [*c, *a, *b]][k % 3]);
    let turned: Vec<_> = turned.collect();
    let triangles = (0..n).map(|k| turned[(k * 257 + 13) % n]).collect();
    let other = TriMesh { vertices: torus.vertices.clone(), triangles };
    for radius in [0.0, 0.004] {
        let mut ways = [&torus, &other].map(|m| Way::new(radius, solid(m), Friction::NONE));
        let (mut worst, mut touched, mut others) = (0.0f64, 0, 0);
        for k in 0..4000u32 {
            let t = f64::from(k) * 1e-3;
            let (a, b) = (2.0 * t, 5.3 * t);
            // Above the surface, where the nearest place is the only one; a point alone is in it.
            let tube =
                0.012 + radius * (0.7 + 0.4 * (3.7 * t).sin()) - if radius > 0.0 { 0.0 } else { 0.001 };
            let x = Vec3::new(
                (0.03 + tube * b.cos()) * a.cos(),
                (0.03 + tube * b.cos()) * a.sin(),
                tube * b.sin(),
            );
            let [one, two] = ways.each_mut().map(|w| {
                for _ in 0..4 {
                    w.to(x);
                }
                w.to(x)
            });
            touched += u32::from(one.touching);
            let apart = (one.wrench.force - two.wrench.force).norm();
            if apart > 100.0 * skin(0.042) * MATERIAL.stiffness {
                // Over an edge a point goes at once, a tick sooner or later.
                others += 1;
            } else {
                worst = worst.max(apart);
            }
        }
        println!("radius {radius}: {touched} touched, {worst:e} N apart, {others} ticks differ");
        let most = if radius > 0.0 { 0 } else { 40 };
        assert!(touched > 2000 && others <= most, "{radius}: {touched} touched, {others} differ");
    }
}

/// Doubled triangles, and such without area or with very little, are the surface that they lie on.
#[test]
fn degenerate_triangles_are_no_holes_and_no_bumps() {
    let mut messy = sheet(4, 0.3);
    let count = messy.triangles.len();
    messy.triangles.extend_from_within(..count / 2);
    let a = messy.triangles[3];
    messy.triangles.extend([[a[0], a[0], a[1]], [a[2]; 3]]);
    // Slivers across it in its plane, and a gap a millionth of an edge wide that they close.
    let base = messy.vertices.len() as u32;
    for k in 0..20u32 {
        let (x, y) = (0.018 * random(k, 0) - 0.009, 0.018 * random(k, 1) - 0.009);
        let (dx, dy) = (random(k, 2) - 0.5, random(k, 3) - 0.5);
        let width = [1e-6, 1e-8, 1e-10, 1e-13][k as usize % 4];
        let p = |s: f64, w: f64| Point::new(x + s * dx - w * dy, y + s * dy + w * dx, 0.0);
        messy.vertices.extend([p(0.0, 0.0), p(0.006, 0.0), p(0.002, width)]);
        messy.triangles.push([0, 1, 2].map(|i| base + 3 * k + i));
    }
    let clean = sheet(1, 0.0);
    for radius in [0.0, 0.002] {
        let mut ways = [&messy, &clean].map(|m| Way::new(radius, solid(m), Friction::NONE));
        for k in 0..3000u32 {
            let t = f64::from(k) * 4e-3;
            let x =
                Vec3::new(0.009 * (1.1 * t).sin(), 0.009 * (1.7 * t).cos(), radius - 0.002 * (0.9 * t).sin());
            let [one, two] = ways.each_mut().map(|w| w.to(x).wrench.force);
            let near = 4.0 * skin(0.012) + 0.002 * tilt(0.012, radius);
            assert!((one - two).norm() < near * MATERIAL.stiffness, "{radius} {k}: {one} and {two}");
        }
    }
}

/// Whatever ends the way early, what was reached is free, and what presses goes on pressing.
#[test]
fn the_budget_never_puts_it_inside() {
    let mesh = shapes::torus(0.03, 0.012, 96, 48);
    let (truth, object) = (Truth::new(&mesh), solid(&mesh));
    for radius in [0.0, 0.004, 0.02] {
        for budget in [
            Budget { units: 1, deadline: None },
            Budget { units: 120, deadline: None },
            Budget { units: 0, deadline: Some(&Over as &dyn Deadline) },
        ] {
            let mut way = Way::new(radius, object.clone(), Friction::of(0.3));
            way.within(Vec3::new(0.1, 0.0, 0.0), budget);
            let mut cut = 0;
            for k in 0..1500u32 {
                let t = f64::from(k) * 5e-3;
                let x = Vec3::new(0.05 * (3.0 * t).cos(), 0.05 * (2.2 * t).sin(), 0.02 * (7.7 * t).sin());
                let c = way.within(x, budget);
                assert!(c.work <= 2 + budget.units.max(96) + 2 * 96, "{radius}: {}", c.work);
                cut += u32::from(c.work >= 96);
                let Some(at) = way.proxy.rest() else { continue };
                let distance = truth.distance(&at, radius + 1e-3);
                assert!(distance >= radius, "{radius} {k}: {distance}");
            }
            // A hand that stops arrives where one with time does.
            let still = Vec3::new(0.036, 0.004, 0.003);
            let mut free = Way::new(radius, object.clone(), Friction::NONE);
            let out = Vec3::new(0.08, 0.004, 0.003);
            let mut way = Way::new(radius, object.clone(), Friction::NONE);
            way.within(out, budget);
            free.to(out);
            for _ in 0..60 {
                way.within(still, budget);
                free.to(still);
            }
            let apart = (rest(&way) - rest(&free)).norm();
            println!("radius {radius}, {} units: {cut} cut, {apart:e} m apart at rest", budget.units);
            assert!(apart < 1e-6, "{radius}: {apart}");
        }
    }
}

/// Without a way behind it: out of a solid by the shortest way, and a sheet's side is where it is.
#[test]
fn a_ball_without_a_way_comes_out_of_solids_and_stays_beside_sheets() {
    let half = Vec3::new(0.02, 0.015, 0.01);
    let body = shapes::cuboid(half * 2.0);
    for radius in [0.0, 0.003] {
        for k in 0..500 {
            let x = Vec3::new(random(k, 0), random(k, 1), random(k, 2)) * 2.0 - Vec3::repeat(1.0);
            let x = x.component_mul(&half);
            let mut way = Way::new(radius, solid_once(&body), Friction::NONE);
            let c = way.to(x);
            let depth = (half - x.abs()).min() + radius;
            let force = c.wrench.force.norm();
            assert!(
                (force - MATERIAL.stiffness * depth).abs() < 2.0 * skin(0.02) * MATERIAL.stiffness,
                "{x}: {force}"
            );
            assert!((rest(&way) - x).norm() < depth + 2.0 * skin(0.02) && c.touching);
        }
        let mut way = Way::new(radius, solid(&sheet(3, 0.0)), Friction::NONE);
        let c = way.to(Vec3::new(0.001, 0.002, -0.0005));
        close(
            "its side",
            -c.wrench.force.z + 1.0,
            MATERIAL.stiffness * (radius - 0.0005).max(0.0) + 1.0,
            1e-5,
        );
        // Interrupted where it was pushed through, it is there.
        let c = lead(&mut way, Vec3::new(0.001, 0.002, -0.005), Vec3::new(0.001, 0.002, 0.005), 10);
        assert!(c.wrench.force.z < -3.0);
        way.proxy.interrupt();
        assert!(!way.to(Vec3::new(0.001, 0.002, 0.005)).touching && way.proxy.behind() == 0.0);
    }
}

/// The same solid for all cases of a test.
fn solid_once(mesh: &TriMesh) -> ObjectShape {
    thread_local!(static KEPT: std::cell::RefCell<Option<ObjectShape>> = const { std::cell::RefCell::new(None) });
    KEPT.with_borrow_mut(|kept| kept.get_or_insert_with(|| solid(mesh)).clone())
}

/// Sticks where it was put, to the bit, on a face and in the edge of two; slides as far behind the hand as friction holds it.
#[test]
fn it_sticks_without_drift_and_slides() {
    let friction = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
    let mut way = Way::new(0.004, solid(&sheet(7, 0.5)), friction);
    lead(&mut way, Vec3::new(0.0, 0.0, 0.006), Vec3::new(0.0, 0.0, 0.003), 3);
    let stays = way.proxy.rest();
    for k in 0..800 {
        way.to(Vec3::new(1e-6 * f64::from(k), 0.0, 0.003));
        assert_eq!(way.proxy.rest(), stays, "{k}");
    }
    for k in 0..200 {
        let force = way.to(Vec3::new(0.81e-3 + 1e-5 * f64::from(k), 0.0, 0.003)).wrench.force;
        close("slides", -force.x / force.z, 0.5, 1e-5);
        close("presses", force.z, MATERIAL.stiffness * 1e-3, 1e-4);
    }
    // A minute of a trembling hand in an edge.
    let mut way = Way::new(0.002, solid(&room()), Friction::of(0.5));
    let x = Vec3::new(0.0005, 0.0004, 0.01);
    lead(&mut way, Vec3::new(0.02, 0.02, 0.01), x, 40);
    let stays = way.proxy.rest();
    for k in 0..60_000u32 {
        let tremble = Vec3::new(random(k, 0) - 0.5, random(k, 1) - 0.5, random(k, 2) - 0.5) * 1e-4;
        way.to(x + tremble);
        assert_eq!(way.proxy.rest(), stays, "{k}");
    }
}

/// Same steps, same bits; nonsense does no harm.
#[test]
fn it_repeats_and_bears_nonsense() {
    let object = solid(&keyed());
    let run = || {
        let mut way = Way::new(0.002, object.clone(), Friction::of(0.5));
        let mut sum = Vec::new();
        for k in 0..3000u32 {
            let s = |f: f64| 0.03 * (f64::from(k) * 1e-3 * f).sin();
            sum.push(way.to(Vec3::new(s(3.0), s(5.0), s(7.7))).wrench.force.map(f64::to_bits));
        }
        sum
    };
    assert_eq!(run(), run());
    for bad in [f64::NAN, f64::INFINITY, 1e300, 1e9, -1.0] {
        let friction = Friction { statics: bad, dynamic: bad, stribeck: bad, viscous: bad };
        let mut way = Way::new(bad, object.clone(), friction);
        let texture = Texture { height: bad, wavelength: bad };
        way.material = Material { stiffness: 800.0, reference_area: bad, damping: bad, friction, texture };
        for k in 0..60 {
            let x = if k % 7 == 3 { bad } else { 0.03 - 1e-3 * f64::from(k) };
            let c = way.to(Vec3::new(x, 0.001, 0.002));
            assert!(c.wrench.is_finite(), "{bad} {k}: {:?}", c.wrench);
        }
    }
}
