//! Friction of ball tools through the whole servo: what it holds, what it takes, and that it stays in its cone.

use crate::device::Puppet;
use crate::world::{Bench, MS, floor, object, scene, sphere_tool};
use hapticd::contact::{Friction, ObjectShape};
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Pose, Vec3};
use hapticd::scene::snapshot::SnapshotObject;
use hapticd::servo::record::ServoState;
use nalgebra::UnitQuaternion;
use std::sync::Arc;

const RUBBER: Friction = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
/// N/m.
const STIFFNESS: f64 = 1000.0;

fn rough(shape: ObjectShape, pose: Pose, friction: Friction) -> SnapshotObject {
    let mut object = object(1, shape, pose, STIFFNESS);
    object.material.friction = friction;
    object
}

/// An armed puppet 2 cm over the floor (y = 0) with a ball of 1 cm.
fn over(objects: Vec<SnapshotObject>) -> (Bench, Puppet) {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
    bench.publish(scene(2, &sphere_tool(0.01), objects));
    bench.arm();
    (bench, puppet)
}

fn rough_floor(friction: Friction) -> (Bench, Puppet) {
    over(vec![rough(floor(), Pose::identity(), friction)])
}

/// Takes the puppet there in a straight line, no faster than a hand.
fn bring(bench: &mut Bench, puppet: &Puppet, to: Vec3) {
    let from = puppet.get().pose.translation.vector;
    let steps = ((to - from).norm() / 1e-4).ceil();
    for k in 1..=steps as u32 {
        puppet.place(from + (to - from) * (f64::from(k) / steps));
        bench.step();
    }
}

/// A free mass in the hand's place: what the servo commands and what pulls besides moves it (exact for a force that is held).
struct Mass {
    kg: f64,
    at: Vec3,
    v: Vec3,
}

impl Mass {
    fn tick(&mut self, bench: &mut Bench, puppet: &Puppet, pull: &Vec3) -> Vec3 {
        puppet.place(self.at);
        let r = bench.step();
        assert_eq!(r.state, ServoState::Rendering, "{:?}", r.fault);
        let command = puppet.get().command.force;
        let a = (command + pull) / self.kg;
        self.at += self.v * 1e-3 + a * 5e-7;
        self.v += a * 1e-3;
        command
    }
}

/// A hand that presses, strokes, turns, lifts and lands: no sample leaves the cone.
#[test]
fn no_sample_leaves_the_cone() {
    for friction in [
        RUBBER,
        Friction { stribeck: 0.02, ..RUBBER },
        Friction { viscous: 3.0, dynamic: 0.2, ..RUBBER },
        Friction::of(0.3),
    ] {
        let (mut bench, puppet) = rough_floor(friction);
        let (mut pressed, mut full) = (0, 0);
        bring(&mut bench, &puppet, Vec3::new(0.0, 0.0095, 0.012 * 1f64.sin()));
        for k in 0..20_000 {
            let t = f64::from(k) * 1e-3;
            let (a, b) = ((2.1 * t).sin(), (3.7 * t + 1.0).sin());
            puppet.place(Vec3::new(0.015 * a, 0.0095 + 0.0015 * (5.3 * t).sin(), 0.012 * b));
            bench.step();
            let force = puppet.get().command.force;
            let along = force.x.hypot(force.z);
            assert!(along <= friction.statics * force.y + 1e-9, "tick {k}: {force}");
            pressed += u32::from(force.y > 0.1);
            full += u32::from(along > 0.9 * friction.dynamic * force.y && force.y > 0.1);
        }
        assert!(pressed > 8000 && full > 2000, "{pressed} ticks pressed, {full} rubbed");
    }
}

/// A minute under four fifths of what breaks it away: not a micrometre.
#[test]
fn below_break_away_nothing_drifts() {
    let (mut bench, puppet) = rough_floor(RUBBER);
    let mut mass = Mass { kg: 0.1, at: Vec3::new(0.0, 0.0102, 0.0), v: Vec3::zeros() };
    let press = 1.5;
    bring(&mut bench, &puppet, mass.at);
    // It lands, then the pull comes.
    for k in 0..3000 {
        let pull = 0.8 * RUBBER.statics * press * (f64::from(k - 1000) / 1000.0).clamp(0.0, 1.0);
        mass.tick(&mut bench, &puppet, &Vec3::new(pull, -press, 0.0));
    }
    let start = mass.at;
    let pull = Vec3::new(0.8 * RUBBER.statics * press, -press, 0.0);
    let mut worst = 0.0f64;
    for _ in 0..60_000 {
        mass.tick(&mut bench, &puppet, &pull);
        worst = worst.max((mass.at - start).norm());
    }
    println!("{worst:e} m in 60 s");
    assert!(worst < 1e-8, "{worst} m");
    // It is friction that holds it.
    assert!(bench.last.force[0] < -0.9 * pull.x, "{:?}", bench.last.force);
    // And a quarter more breaks it away.
    for _ in 0..60 {
        mass.tick(&mut bench, &puppet, &Vec3::new(1.3 * pull.x, -press, 0.0));
    }
    assert!(mass.at.x - start.x > 0.003, "{}", mass.at.x - start.x);
}

/// Work of the force over a stroke: mu times the normal force times the way that it slid.
#[test]
fn a_stroke_costs_mu_times_the_press_times_the_way() {
    for (dynamic, stribeck, viscous, expect) in
        [(0.5, 0.0, 0.0, 0.5), (0.3, 0.0, 0.0, 0.3), (0.2, 0.02, 0.0, 0.2), (0.2, 0.0, 3.0, 0.5)]
    {
        let (mut bench, puppet) = rough_floor(Friction { statics: 0.8, dynamic, stribeck, viscous });
        let depth = 0.002;
        let place = |x: f64, depth: f64| puppet.place(Vec3::new(x, 0.01 - depth, 0.0));
        bring(&mut bench, &puppet, Vec3::new(-0.02, 0.0105, 0.0));
        bring(&mut bench, &puppet, Vec3::new(-0.02, 0.01 - depth, 0.0));
        bench.steps(200);
        // At 0.1 m/s; the force of a tick holds until the next.
        let (mut x, mut work, mut way) = (-0.02, 0.0, 0.0);
        for _ in 0..400 {
            let force = puppet.get().command.force;
            x += 1e-4;
            // The first tenth is the spring's.
            if x > -0.016 {
                work -= force.x * 1e-4;
                way += 1e-4;
            }
            place(x, depth);
            bench.step();
        }
        let want = expect * STIFFNESS * depth * way;
        println!("{work:.6} J of {want:.6} J");
        assert!((work / want - 1.0).abs() < 0.01, "{work} J, {want} J");
    }
}

/// Coulomb's incline: it sticks below atan(mu) and slides above, with g (sin a - mu cos a).
#[test]
fn a_ball_on_an_incline_sticks_and_slides() {
    let mu = 0.5;
    for (degrees, slides) in [(20.0f64, false), (26.0, false), (27.2, true), (35.0, true)] {
        let angle = degrees.to_radians();
        let turn = UnitQuaternion::from_scaled_axis(Vec3::z() * -angle);
        let incline = Pose::from_parts(Vec3::zeros().into(), turn);
        let (mut bench, puppet) = over(vec![rough(floor(), incline, Friction::of(mu))]);
        // Down the slope, and out of it.
        let (down, out) = (turn * Vec3::x(), turn * Vec3::y());
        let (kg, g) = (0.1, 9.81);
        let mut mass = Mass { kg, at: out * 0.01 - down * 0.03, v: Vec3::zeros() };
        // Held by a hand until it lies.
        bring(&mut bench, &puppet, mass.at + out * 0.001);
        mass.at -= out * (kg * g * angle.cos() / STIFFNESS);
        bring(&mut bench, &puppet, mass.at);
        bench.steps(100);
        let start = mass.at;
        let mut way = Vec::new();
        // The hand lets go over 0.3 s.
        for k in 0..700 {
            let free = (f64::from(k) / 300.0).min(1.0);
            let pull = (down * (angle.sin() * free) - out * angle.cos()) * (kg * g);
            mass.tick(&mut bench, &puppet, &pull);
            if k >= 300 {
                way.push((mass.at - start).dot(&down));
            }
        }
        let slid = way[399];
        println!("{degrees} degrees: {:.3} mm", slid * 1e3);
        if slides {
            let a = g * (angle.sin() - mu * angle.cos());
            let speed = |k: usize| (way[k] - way[k - 20]) / 0.02;
            let grown = (speed(150) - speed(50)) / 0.1;
            println!("{grown:.4} m/s^2, {a:.4}");
            assert!((grown / a - 1.0).abs() < 0.02, "{degrees}: {grown} m/s^2 of {a}");
        } else {
            // Within the stick spring's stretch.
            assert!(slid < 2.0 * kg * g * angle.sin() / STIFFNESS, "{degrees}: {slid} m");
            assert!((way[399] - way[300]).abs() < 1e-4, "{degrees}: {way:?}");
        }
    }
}

/// A room with walls at 0, in which a ball rests in a corner of two and three walls.
fn room() -> ObjectShape {
    let depth = |p: &Point| -(p.x.min(p.y).min(p.z));
    ObjectShape::Field(Arc::new(Field::from_fn(Point::new(-0.0123, -0.0117, -0.0121), 1e-3, [64; 3], depth)))
}

/// Pressed into a concave corner by a steady hand: ten seconds without ripple, with and without friction, of one object and of
/// several.
#[test]
fn in_a_concave_corner_it_rests_without_ripple() {
    let walls = |friction: Friction| -> Vec<SnapshotObject> {
        // Three floors, turned to be walls.
        let turns = [
            Vec3::zeros(),
            Vec3::z() * -std::f64::consts::FRAC_PI_2,
            Vec3::x() * std::f64::consts::FRAC_PI_2,
        ];
        turns
            .iter()
            .enumerate()
            .map(|(i, t)| {
                let pose = Pose::from_parts(Vec3::zeros().into(), UnitQuaternion::from_scaled_axis(*t));
                let mut wall = rough(floor(), pose, friction);
                (wall.id, wall.slot) = (i as u32 + 1, i as u16 + 1);
                wall
            })
            .collect()
    };
    for friction in [Friction::NONE, RUBBER] {
        for (name, objects) in
            [("one", vec![rough(room(), Pose::identity(), friction)]), ("three", walls(friction))]
        {
            for pull in [Vec3::new(-1.0, -1.5, 0.0), Vec3::new(-1.0, -1.5, -0.7)] {
                let (mut bench, puppet) = Bench::puppet(Vec3::new(0.02, 0.022, 0.018));
                bench.publish(scene(2, &sphere_tool(0.004), objects.clone()));
                bench.arm();
                // The hand's own damping.
                let mut mass = Mass { kg: 0.1, at: Vec3::new(0.02, 0.022, 0.018), v: Vec3::zeros() };
                let mut forces = Vec::new();
                for k in 0..12_000 {
                    let hand = pull - mass.v * 5.0;
                    let force = mass.tick(&mut bench, &puppet, &hand);
                    if k >= 2000 {
                        forces.push(force);
                    }
                }
                let n = forces.len() as f64;
                let mean = forces.iter().sum::<Vec3>() / n;
                let ripple = (forces.iter().map(|f| (f - mean).norm_squared()).sum::<f64>() / n).sqrt();
                println!("{name}, {pull:?}, mu {}: {:.2e} N", friction.statics, ripple);
                assert!((mean + pull).norm() < 0.01, "{name}: {mean} against {pull}");
                assert!(ripple < 0.01, "{name}, {pull}: {ripple} N");
                assert!(mass.at.min() > 0.001, "{name}: {}", mass.at);
            }
        }
    }
}

/// An object that moves carries what sticks to it along: the hand feels the spring's stretch, up to the cone.
#[test]
fn a_moving_object_carries_what_sticks_to_it() {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
    let mut slab = rough(floor(), Pose::identity(), RUBBER);
    slab.motion = Some(0);
    bench.publish(scene(2, &sphere_tool(0.01), vec![slab]));
    // Still until the ball lies on it, then 20 mm/s along x.
    let from = 900 * MS;
    let path = move |ns: u64| Vec3::new(ns.saturating_sub(from) as f64 * 0.02e-9, 0.0, 0.0);
    let step = |bench: &mut Bench| bench.step_streamed(path);
    for _ in 0..20 {
        step(&mut bench);
    }
    bench.own();
    while bench.last.planned_ns < 800 * MS {
        let y = 0.03 - 0.022 * (bench.last.planned_ns as f64 / (700.0 * MS as f64)).min(1.0);
        puppet.place(Vec3::new(0.0, y, 0.0));
        step(&mut bench);
    }
    // 2 mm deep: carried by up to 1.6 mm, then it slides with what half of the press gives.
    let (mut carried, mut slid) = (0, 0);
    while bench.last.planned_ns < 1200 * MS {
        let r = step(&mut bench);
        let ms = r.planned_ns as f64 / MS as f64;
        // It is played late by the stream's delay.
        let moved = 0.02 * (ms - 900.0 - 8.0) * 1e-3;
        assert!(r.force[0] <= RUBBER.statics * r.force[1] + 1e-9, "{:?}", r.force);
        if (1e-4..1.5e-3).contains(&moved) {
            // The spring and its damping: tau K v.
            let want = STIFFNESS * moved;
            assert!(r.force[0] > want - 0.02 && r.force[0] < want + 0.15, "{ms}: {:?}, {want}", r.force);
            carried += 1;
        }
        if moved > 2.2e-3 {
            assert!((r.force[0] / r.force[1] - RUBBER.dynamic).abs() < 0.02, "{ms}: {:?}", r.force);
            slid += 1;
        }
    }
    assert!(carried > 50 && slid > 100, "{carried} carried, {slid} slid");
}

/// Another coefficient is felt from the next tick on, and the place where it sticks stays.
#[test]
fn a_change_of_friction_leaves_what_sticks_where_it_is() {
    let shape = floor();
    let rub = |friction| vec![rough(shape.clone(), Pose::identity(), friction)];
    let (mut bench, puppet) = over(rub(RUBBER));
    let y = 0.008;
    bring(&mut bench, &puppet, Vec3::new(0.0, y, 0.0));
    bring(&mut bench, &puppet, Vec3::new(1e-3, y, 0.0));
    let held = bench.steps(100).force;
    assert!((held[0] + 1.0).abs() < 0.02, "stretched by 1 mm: {held:?}");
    let more = Friction { dynamic: 0.8, ..RUBBER };
    bench.publish(scene(3, &sphere_tool(0.01), rub(more)));
    for _ in 0..200 {
        let force = bench.step().force;
        assert!((force[0] - held[0]).abs() < 1e-9 && (force[1] - held[1]).abs() < 1e-6, "{force:?}");
    }
    // Without friction it lets go at once, as what is deleted does; and sticks where it is when friction comes back.
    bench.publish(scene(4, &sphere_tool(0.01), rub(Friction::NONE)));
    for k in 0..100 {
        let force = bench.step().force;
        assert!(k == 0 || force[0].abs() < 1e-9 && (force[1] - held[1]).abs() < 1e-6, "{force:?}");
    }
    bench.publish(scene(5, &sphere_tool(0.01), rub(RUBBER)));
    for _ in 0..100 {
        let force = bench.step().force;
        assert!(force[0].abs() < 1e-9 && (force[1] - held[1]).abs() < 1e-6, "{force:?}");
    }
    bring(&mut bench, &puppet, Vec3::new(0.5e-3, y, 0.0));
    assert!((bench.steps(100).force[0] - 0.5).abs() < 0.02, "{:?}", bench.last.force);
}
