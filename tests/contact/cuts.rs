//! The proxy on meshes that cost it more than a tick has: it comes on in every tick, its force neither jumps nor stays where nothing
//! is. And what meshes hold that are not as they should be: two sheets, lobes that are inside out.
//!
//! Truth is the plane, the sphere or the prism of which the meshes are made.

use super::facets::{lead, mesh, rest, solid};
use super::proxy::{Over, Way, meshes};
use super::sheets::{dense, edge};
use super::*;

/// While a proxy is on its way it forgets what it pressed with, after so many ticks of it, in 0.1 s: of a tick such a part (docs/proxy.md).
const GRACE: u32 = 10;
const FORGETS: f64 = 0.01;
/// Longer than that, in ticks, it is not on its way in an edge.
const MOST: u32 = 20;

/// What a force may do in a tick in which the tool went `step` m.
fn bears(last: Vec3, force: Vec3, step: f64, what: &str) {
    let jump = (force - last).norm();
    assert!(jump < MATERIAL.stiffness * step + 0.3, "{what}: {jump} N in a tick, from {last} to {force}");
}

const BUDGETS: [Budget<'static>; 3] = [
    Budget::UNLIMITED,
    Budget { units: 1, deadline: None },
    Budget { units: 0, deadline: Some(&Over as &dyn Deadline) },
];

/// A way in steps; the force of each tick is shown to `see`, with where the tool is.
fn stroke(
    way: &mut Way,
    budget: Budget<'_>,
    from: Vec3,
    to: Vec3,
    step: f64,
    mut see: impl FnMut(Vec3, Vec3),
) {
    let ticks = ((to - from).norm() / step).ceil().max(1.0) as u32;
    for k in 1..=ticks {
        let x = from + (to - from) * (f64::from(k) / f64::from(ticks));
        let force = way.within(x, budget).wrench.force;
        see(x, force);
    }
}

/// A large ball comes obliquely onto a sheet whose triangles are a hundred times smaller, presses, swipes, goes far through and comes
/// back: as on a plane, whatever the tick has.
#[test]
fn a_dense_open_sheet_holds_a_large_ball() {
    let object = solid(&dense(300, 0.04));
    for (radius, along, across) in [(0.02, 3e-4, 3e-4), (0.01, 7e-4, 3e-4), (0.02, 1e-4, 1e-3)] {
        for (case, budget) in BUDGETS.into_iter().enumerate() {
            let mut way = Way::new(radius, object.clone(), Friction::NONE);
            let step = f64::hypot(along, across);
            let from = Vec3::new(-0.012, 1e-5, radius + 1e-3);
            let to = from + Vec3::new(along, 0.0, -across) * (0.012 / across).min(0.02 / along);
            way.within(from, budget);
            let mut last = Vec3::zeros();
            stroke(&mut way, budget, from, to, step, |x, force| {
                bears(last, force, step, &format!("{radius} {case} at {x}"));
                last = force;
                let depth = radius - x.z;
                assert!(
                    depth < 1e-6 || force.z > 0.8 * MATERIAL.stiffness * depth,
                    "{radius} {case}: {force} N, {depth} m deep"
                );
            });
            // A hand that stops.
            for _ in 0..if case == 0 { 20 } else { 100 } {
                last = way.within(to, budget).wrench.force;
            }
            let want = Vec3::z() * MATERIAL.stiffness * (radius - to.z);
            assert!((last - want).norm() < 1e-3 && !way.proxy.lags(), "{radius} {case}: {last}, not {want}");
        }
    }
    for (case, budget) in BUDGETS.into_iter().enumerate() {
        let r = 0.02;
        let mut way = Way::new(r, object.clone(), Friction::NONE);
        let places = [(-0.006, 1e-4), (-0.006, -1e-4), (0.002, -1e-4), (0.002, -0.01), (0.002, 1e-3)];
        let mut last = Vec3::zeros();
        for (k, pair) in places.windows(2).enumerate() {
            let [from, to] = [pair[0], pair[1]].map(|(x, z)| Vec3::new(x, 1e-5, r + z));
            let step = [5e-5, 4e-4, 5e-4, 2e-5][k];
            stroke(&mut way, budget, from, to, step, |x, force| {
                bears(last, force, step, &format!("swipe {case} {k} at {x}"));
                last = force;
                let want = MATERIAL.stiffness * (r - x.z).max(0.0);
                assert!((force.z - want).abs() < 0.2 * want + 1e-3, "swipe {case} {k}: {force}, not {want}");
            });
        }
        assert_eq!(last, Vec3::zeros());
        // Pressed, and over the edge: nothing there, nor beside it, nor under it.
        let places =
            [(-0.006, 1e-4), (-0.006, -2e-3), (0.05, -2e-3), (0.05, -0.08), (0.05, 0.03), (0.0, 0.03)];
        for (k, pair) in places.windows(2).enumerate() {
            let [from, to] = [pair[0], pair[1]].map(|(x, z)| Vec3::new(x, 1e-5, r + z));
            let step = [5e-5, 4e-4, 1e-3, 1e-3, 1e-3][k];
            stroke(&mut way, budget, from, to, step, |x, force| {
                bears(last, force, step, &format!("edge {case} {k} at {x}"));
                last = force;
                if x.x > 0.045 {
                    assert_eq!(force, Vec3::zeros(), "{case} {k}: in free air at {x}");
                }
            });
        }
    }
}

/// What is left of a ball of triangles below the plane z = `top`.
fn bowl(radius: f64, finer: u32, top: f64) -> TriMesh {
    let mut ball = shapes::icosphere(radius, finer);
    let below = |t: &[u32; 3]| t.iter().all(|v| ball.vertices[*v as usize].z <= top);
    let triangles = ball.triangles.iter().copied().filter(below).collect();
    ball.triangles = triangles;
    ball
}

/// A ball in an open cup that it nearly fills, so that hundreds of triangles are about equally near to it: pressed and stroked across it,
/// the whole force, along the radius. (In a finer one, faster, or with little to spend it falls behind: docs/proxy.md.)
#[test]
fn a_socket_holds_the_ball_that_fills_it() {
    let (cup, r, press) = (0.0245, 0.024, 0.002);
    for (finer, speed) in [(5, 0.1), (5, 0.3), (6, 0.1)] {
        let mut way = Way::new(r, solid(&bowl(cup, finer, 0.001)), Friction::NONE);
        // Its middle goes about that of the cup at this distance.
        let far = cup - r + press;
        let at = |a: f64| Vec3::new(a.sin(), 0.01, -a.cos()).normalize() * far;
        let mut last = Vec3::zeros();
        stroke(&mut way, Budget::UNLIMITED, Vec3::zeros(), at(-0.5), 1e-4, |_, force| last = force);
        let (step, mut a) = (speed * 1e-3, -0.5);
        let (mut run, mut longest) = (0, 0);
        while a < 0.5 {
            a += step / far;
            let force = way.to(at(a)).wrench.force;
            let what = format!("finer {finer}, {speed} m/s, at {a}");
            bears(last, force, step + 1e-4, &what);
            last = force;
            let n = -at(a).normalize();
            let (across, along) = (force.dot(&n), (force - n * force.dot(&n)).norm());
            let want = MATERIAL.stiffness * press;
            assert!(across > 0.95 * want && across < 1.1 * want, "{what}: {across} N, not {want}");
            assert!(along < 0.2 * want, "{what}: {along} N along it");
            run = if way.proxy.lags() { run + 1 } else { 0 };
            longest = longest.max(run);
        }
        println!("finer {finer}, {speed} m/s: {longest} ticks under way at most");
        assert!(longest <= 2, "finer {finer}, {speed} m/s: {longest} ticks");
        for _ in 0..100 {
            way.to(at(a));
        }
        assert!(!way.proxy.lags(), "finer {finer}, {speed} m/s: never there");
    }
}

/// A smooth bowl of small facets under a hand in an enlarged workspace, of whose way a tick has many facets: it does not drag.
#[test]
fn a_bowl_of_small_facets_does_not_drag() {
    let object = solid(&bowl(0.0245, 6, 0.001));
    for radius in [1e-4, 2e-3] {
        for step in [4e-4, 2.1e-3, 6.4e-3] {
            let mut way = Way::new(radius, object.clone(), Friction::NONE);
            let far = 0.0245 - radius + 0.002;
            let at = |a: f64| Vec3::new(a.sin(), 1e-3, -a.cos()) * far;
            lead(&mut way, Vec3::zeros(), at(-1.2), 50);
            let mut a = -1.2;
            let mut worst: f64 = 0.0;
            while a < 1.2 {
                a += step / far;
                let force = way.to(at(a)).wrench.force;
                let n = -at(a).normalize();
                let part = (force - n * force.dot(&n)).norm() / force.dot(&n);
                worst = worst.max(part);
            }
            println!("radius {radius}, {step} m a tick: {worst} along of across, lags {}", way.proxy.lags());
            assert!(worst < 0.05, "radius {radius}, {step} m a tick: {worst}");
        }
    }
}

/// A cone about z, its tip at the origin, 10 mm wide and deep.
fn cone(sides: u32, closed: bool) -> TriMesh {
    let mut vertices = vec![Point::origin()];
    let turn = |k: u32| f64::from(k) * 2.0 * PI / f64::from(sides);
    vertices.extend((0..sides).map(|k| Point::new(0.005 * turn(k).cos(), 0.005 * turn(k).sin(), -0.01)));
    let mut triangles: Vec<_> = (0..sides).map(|k| [0, 1 + k, 1 + (k + 1) % sides]).collect();
    if closed {
        triangles.extend((1..sides - 1).map(|k| [1, 2 + k, 1 + k]));
    }
    TriMesh { vertices, triangles }
}

/// The tip of a fan: all its triangles are there.
#[test]
fn the_tip_of_a_fan_is_felt() {
    for (sides, closed) in [(800, true), (1000, false), (1000, true)] {
        let object = solid(&cone(sides, closed));
        let r = 0.002;
        let mut way = Way::new(r, object.clone(), Friction::NONE);
        for k in 0..=60 {
            let depth = -1e-3 + 5e-3 * f64::from(k) / 60.0;
            let force = way.to(Vec3::z() * (r - depth)).wrench.force;
            let want = MATERIAL.stiffness * depth.max(0.0);
            assert!((force.z - want).abs() < 0.05 * want + 1e-3, "{sides} {closed}: {force}, {depth} m deep");
            assert!(force.xy().norm() < 0.05 * want + 1e-3, "{sides} {closed}: {force}, {depth} m deep");
        }
        // Without a way behind it: from out of reach to its middle beside the tip.
        for k in 0..20 {
            let depth = -1e-3 + 2.9e-3 * f64::from(k) / 20.0;
            let mut way = Way::new(r, object.clone(), Friction::NONE);
            let force = way.to(Vec3::z() * (r - depth)).wrench.force;
            assert_eq!(way.proxy.anew(), depth > 0.0, "it fades in: {sides} {closed}, {depth} m deep");
            let want = MATERIAL.stiffness * depth.max(0.0);
            assert!((force - Vec3::z() * want).norm() < 0.01, "{sides} {closed}: {force}, {depth} m deep");
        }
    }
}

/// Pressed into the edge of two fine walls and drawn along it with little to spend: both walls go on pressing.
#[test]
fn in_an_edge_both_walls_press_whatever_is_cut() {
    let object = solid(&edge());
    for radius in [0.004, 0.015] {
        for speed in [0.1, 0.3, 1.0] {
            for (case, budget) in BUDGETS.into_iter().enumerate() {
                // With nothing to spend the triangles that it knows end under a hand that goes two of them a tick: the force is
                // lost until it is there (docs/proxy.md).
                let ends = case > 0 && speed > 0.5;
                let (turns, ticks) = if ends { (0.4, 60) } else { (0.3, MOST) };
                let mut way = Way::new(radius, object.clone(), Friction::NONE);
                let at = |y: f64| Vec3::new(radius - 2e-3, y, radius - 1.4e-3);
                let want = Vec3::new(2e-3, 0.0, 1.4e-3) * MATERIAL.stiffness;
                let out = Vec3::new(radius + 4e-3, -0.01, radius + 4e-3);
                let mut last = Vec3::zeros();
                stroke(&mut way, budget, out, at(-0.01), 1.3e-4, |_, force| last = force);
                // What is left of the press while it is on its way.
                let (mut left, mut run, mut longest, mut worst) = (1.0, 0, 0, 0.0f64);
                for k in 0..80 {
                    // It stops half-way.
                    let y = -0.01 + speed * 1e-3 * f64::from(k.min(40)).min(0.02 / (speed * 1e-3));
                    let force = way.within(at(y), budget).wrench.force;
                    let what = format!("{radius} {speed} {case} {k}");
                    run = if way.proxy.lags() { run + 1 } else { 0 };
                    let gone = 1.0 - left;
                    left = match run {
                        0 => 1.0,
                        run if run > GRACE => left * (1.0 - FORGETS),
                        _ => left,
                    };
                    let jump = (force - last).norm();
                    // What has been forgotten is back at once, before the servo's fade (tests/servo/behind.rs).
                    let back = if way.proxy.anew() { gone * want.norm() } else { 0.0 };
                    let most = turns + want.norm() * (1.0 - left);
                    if ends {
                        // It is lost, and never more, nor the other way.
                        let along = force.dot(&want) / want.norm();
                        let most = want.norm() + turns;
                        assert!(force.norm() < most && along > -turns, "{what}: {force}, not {want}");
                    } else {
                        assert!(jump < turns + back, "{what}: {jump} N, {force} after {last}");
                        assert!((force - want).norm() < most, "{what}: {force}, not {want}, {left} left");
                    }
                    (longest, worst) = (longest.max(run), worst.max((force - want).norm()));
                    last = force;
                }
                println!("{radius} {speed} {case}: {longest} ticks under way, {worst} N off");
                assert!(longest <= ticks, "{radius} {speed} {case}: {longest} ticks under way");
                assert!((last - want).norm() < 1e-3, "{radius} {speed} {case}: {last}, not {want}");
            }
        }
    }
}

/// At 96 units, or with no time at all, a scanned body is felt by a hand that strokes it and stops, as by one that may spend what it
/// likes, and it is there soon.
#[test]
fn a_starved_tick_comes_on_over_a_scanned_body() {
    let Some(bunny) = meshes::shared("bunny.ply") else { return };
    let object = solid(&bunny);
    let (low, high) = bunny.bounds().expect("not empty");
    let middle = nalgebra::center(&low, &high).coords;
    for (case, budget) in BUDGETS.into_iter().enumerate() {
        for radius in [0.002, 0.01, 0.02] {
            let (mut under, mut longest, mut run) = (0, 0, 0);
            let (mut pressed, mut weak, mut least) = (0, 0, 1.0f64);
            for k in 0..4 {
                let way = &mut Way::new(radius, object.clone(), Friction::NONE);
                let twin = &mut Way::new(radius, object.clone(), Friction::NONE);
                let out = Vec3::new(random(k, 1) - 0.5, random(k, 2) - 0.5, random(k, 3) - 0.5).normalize();
                let side = out.cross(&Vec3::new(0.3, -0.5, 0.8)).normalize();
                let mut x = middle + out * (0.09 + radius);
                for tick in 0..500 {
                    x += if way.proxy.behind() < 2e-3 { -out * 3e-4 } else { Vec3::zeros() };
                    x += if tick > 200 && tick < 400 { side * 3e-4 } else { Vec3::zeros() };
                    let force = way.within(x, budget).wrench.force;
                    let whole = twin.to(x).wrench.force;
                    // What comes in within ten ticks counts for nothing.
                    if whole.norm() > 0.3 && tick > 10 {
                        let part = force.dot(&whole) / whole.norm_squared();
                        (pressed, weak) = (pressed + 1, weak + u32::from(part < 0.8));
                        least = least.min(part);
                    }
                    run = if way.proxy.lags() { run + 1 } else { 0 };
                    (longest, under) = (longest.max(run), under + u32::from(way.proxy.lags()));
                }
                assert!(!way.proxy.lags() && way.proxy.behind() < 0.1, "{case} {radius} {k}: not there");
            }
            println!(
                "{case}: radius {radius}: {under} of 2000 ticks under way, {longest} in a row; {weak} of {pressed} weaker, {least} at least"
            );
            assert!(case > 0 || longest < 3, "{radius}: {longest}");
            assert!(
                20 * weak <= pressed && least > 0.4,
                "{case} {radius}: {weak} of {pressed} weak, {least}"
            );
            assert!(under <= 2000 / 3, "{case} {radius}: {under} ticks under way");
        }
    }
}

/// Two single layers, nearer together than the ball is wide: between them there is no room for it, and it is not put beyond either.
#[test]
fn between_two_sheets_it_is_put_beyond_neither() {
    let s = 0.01;
    let layer = |z: f64| [[-s, -s, z], [s, -s, z], [s, s, z], [-s, s, z]];
    let object =
        solid(&mesh(&[layer(0.0), layer(1e-3)].concat(), &[[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]]));
    for k in 1..10 {
        let z = 1e-4 * f64::from(k);
        let mut way = Way::new(0.003, object.clone(), Friction::NONE);
        for _ in 0..3 {
            let c = way.to(Vec3::new(1e-4, 2e-4, z));
            assert_eq!((c.touching, c.wrench.force), (false, Vec3::zeros()), "{z}");
        }
        // Out of there, over their edge, and it is a ball like any other.
        lead(&mut way, Vec3::new(1e-4, 2e-4, z), Vec3::new(0.02, 2e-4, z), 100);
        lead(&mut way, Vec3::new(0.02, 2e-4, z), Vec3::new(0.0, 2e-4, 0.006), 100);
        let c = lead(&mut way, Vec3::new(0.0, 2e-4, 0.006), Vec3::new(0.0, 2e-4, 0.003), 100);
        close("on the upper one", c.wrench.force.z, MATERIAL.stiffness * 1e-3, 1e-4);
    }
}

/// A closed prism whose profile crosses itself: one of its lobes is inside out. Whatever the side, it never pulls.
#[test]
fn a_lobe_that_is_inside_out_does_not_pull() {
    let (a, h) = (0.02, 0.02);
    let profile = [[-a, -a], [a, a], [a, -a], [-a, a]];
    let layer = |y: f64| profile.map(|[x, z]| [x, y, z]);
    let sides = (0..4).flat_map(|i: u32| {
        let j = (i + 1) % 4;
        [[i, j, 4 + j], [i, 4 + j, 4 + i]]
    });
    let caps = [[0, 2, 1], [0, 3, 2], [4, 5, 6], [4, 6, 7]];
    let prism = mesh(&[layer(-h), layer(h)].concat(), &sides.chain(caps).collect::<Vec<_>>());
    let object = solid(&prism);
    let radius = 0.003;
    for side in [1.0, -1.0] {
        for gap in [-0.002, -0.001, 1e-5, 1e-3, 5e-3, 12e-3, 0.1] {
            let x = Vec3::new(side * (a + radius + gap), 1e-4, 2e-4);
            let mut way = Way::new(radius, object.clone(), Friction::NONE);
            for _ in 0..3 {
                let force = way.to(x).wrench.force;
                let want = Vec3::x() * side * MATERIAL.stiffness * (-gap).max(0.0);
                assert!((force - want).norm() < 1e-3, "{side}, {gap}: {force} N, not {want}");
            }
        }
        // And it holds from outside.
        let mut way = Way::new(radius, object.clone(), Friction::NONE);
        let at = |x: f64| Vec3::new(side * x, 1e-4, 2e-4);
        let c = lead(&mut way, at(0.03), at(0.015), 60);
        close("held", side * c.wrench.force.x, MATERIAL.stiffness * (a + radius - 0.015), 1e-3);
        assert!(side * rest(&way).x > a);
    }
}

/// In a hollow open ball of many triangles all of them are equally near to its middle: nothing is there.
#[test]
fn in_the_middle_of_a_hollow_ball_is_nothing() {
    let object = solid(&bowl(0.02, 5, 0.0199));
    let mut way = Way::new(0.004, object, Friction::NONE);
    let c = way.to(Vec3::zeros());
    assert!(!c.touching && way.proxy.rest().is_some(), "{:?}", c.wrench.force);
    let c = lead(&mut way, Vec3::zeros(), Vec3::new(0.0, 0.0, -0.018), 100);
    assert!((c.wrench.force.z - MATERIAL.stiffness * 0.002).abs() < 0.05, "{}", c.wrench.force);
}
