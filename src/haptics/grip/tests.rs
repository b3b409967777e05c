use super::*;
use crate::contact::{Friction, Material, ObjectShape, Texture, ToolShape};
use crate::geometry::field::Field;
use nalgebra::UnitQuaternion;
use proptest::prelude::*;
use std::sync::Arc;

const RUBBER: Friction = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
/// A disc of 10 mm: mean distance 2/3 R, radius of gyration R / sqrt 2.
const RADIUS: f64 = 0.01;

fn disc(press: f64, stiffness: f64) -> Patch {
    Patch {
        press,
        normal: Vec3::z(),
        centre: Vec3::new(0.003, 0.0, -0.02),
        stiffness,
        gyration: RADIUS * 0.5f64.sqrt(),
        arm: RADIUS * 2.0 / 3.0,
    }
}

fn alone(patch: Patch) -> [Patch; MAX_PATCHES] {
    let mut all = [Patch::NONE; MAX_PATCHES];
    all[5] = patch;
    all
}

/// A grip, and what it is asked with.
struct Bench {
    grip: Grip,
    friction: Friction,
    tool: Pose,
    object: Pose,
    shape: (ToolShape, ObjectShape),
    held: Held,
}

impl Bench {
    fn new(friction: Friction) -> Self {
        let field = Field::from_fn(Point::new(-0.1, -0.1, -0.1), 0.1, [3; 3], |p| -p.z);
        let shape = (ToolShape::Sphere { radius: 0.0 }, ObjectShape::Field(Arc::new(field)));
        let still = Pose::identity();
        let held = Held { tool: 1, tau: 0.0, most: f64::INFINITY, part: 1.0, late: false };
        Self { grip: Grip::default(), friction, tool: still, object: still, shape, held }
    }

    fn rub(&mut self, patches: &[Patch; MAX_PATCHES], tool_twist: &Twist) -> Wrench {
        let material = Material {
            stiffness: 1000.0,
            reference_area: 1e-4,
            damping: 0.0,
            friction: self.friction,
            texture: Texture::NONE,
        };
        let q = Query {
            tool: &self.shape.0,
            tool_pose: &self.tool,
            tool_twist,
            object: &self.shape.1,
            object_pose: &self.object,
            object_twist: &Twist::ZERO,
            material: &material,
        };
        self.grip.rub(&q, patches, &self.held).map_or(Wrench::ZERO, |r| r.wrench)
    }

    fn at(&mut self, x: f64, patch: Patch) -> Vec3 {
        self.tool.translation.vector.x = x;
        self.rub(&alone(patch), &Twist::ZERO).force
    }

    /// Turned about the patch's own normal through its centre.
    fn turned(&mut self, angle: f64, patch: Patch) -> f64 {
        let turn = UnitQuaternion::from_scaled_axis(Vec3::z() * angle);
        // The tool's origin goes round the centre.
        self.tool = Pose::from_parts((patch.centre - turn * patch.centre).into(), turn);
        let turned = Patch { centre: turn * patch.centre, ..patch };
        let wrench = self.rub(&alone(turned), &Twist::ZERO);
        (wrench.torque - turned.centre.cross(&wrench.force)).z
    }
}

#[test]
fn it_sticks_like_a_spring_and_slides_at_the_limit() {
    let (press, k) = (2.0, 1000.0);
    let mut bench = Bench::new(RUBBER);
    bench.at(0.0, disc(press, k));
    // Up to 1.6 N at 1.6 mm.
    for i in 1..=159 {
        let x = f64::from(i) * 1e-5;
        assert!((bench.at(x, disc(press, k)) + Vec3::x() * k * x).norm() < 1e-9);
    }
    assert!((bench.at(0.0, disc(press, k))).norm() < 1e-12, "back where it was");
    assert!((bench.at(1.7e-3, disc(press, k)).x + RUBBER.dynamic * press).abs() < 1e-9);
    for i in 1..100 {
        assert!((bench.at(1.7e-3 + f64::from(i) * 1e-4, disc(press, k)).x + 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_disc_holds_two_thirds_of_its_radius() {
    let press = 3.0;
    let most = RUBBER.statics * press * RADIUS * 2.0 / 3.0;
    let turning = 1000.0 * (RADIUS * 2.0 / 3.0).powi(2);
    let mut bench = Bench::new(RUBBER);
    bench.turned(0.0, disc(press, 1000.0));
    let mut angle = 0.0;
    let mut last = 0.0;
    // Turned bit by bit until it breaks away.
    let found = loop {
        angle += 1e-4;
        let torque = -bench.turned(angle, disc(press, 1000.0));
        if torque < last {
            break last;
        }
        assert!((torque - turning * angle).abs() < 1e-9, "{torque} at {angle}");
        last = torque;
    };
    assert!(found <= most && found > most - turning * 1.1e-4, "{found} of {most}");
    let slides = -bench.turned(angle + 0.5, disc(press, 1000.0));
    assert!((slides - most * RUBBER.dynamic / RUBBER.statics).abs() < 1e-9, "{slides}");
}

#[test]
fn what_slides_one_way_holds_less_of_a_twist() {
    // Slid along by far more than it turns: the torque that is left is arm times the part of the motion that turns.
    let patch = disc(2.0, 1000.0);
    let mut bench = Bench::new(Friction::of(0.5));
    let mut torque = 0.0;
    for i in 0..2000 {
        let t = f64::from(i) * 1e-4;
        let turn = UnitQuaternion::from_scaled_axis(Vec3::z() * t);
        let slide = Vec3::x() * (0.05 * t);
        bench.tool = Pose::from_parts((slide + patch.centre - turn * patch.centre).into(), turn);
        let turned = Patch { centre: turn * patch.centre, ..patch };
        let w = bench.rub(&alone(turned), &Twist::ZERO);
        torque = (w.torque - turned.centre.cross(&w.force)).z;
        let limit = w.force.norm().hypot(torque / patch.arm);
        assert!(limit <= 1.0 + 1e-9, "{limit}");
    }
    // The ellipsoid's normal is the motion (v, w): of 1 N the torque's part is arm (arm w) / |(v, arm w)|.
    let share = patch.arm / 0.05f64.hypot(patch.arm);
    assert!((-torque / (patch.arm * share) - 1.0).abs() < 0.03, "{torque} {}", patch.arm * share);
}

#[test]
fn it_goes_along_with_its_object_and_lets_go_in_the_air() {
    let mut bench = Bench::new(RUBBER);
    bench.at(0.0, disc(2.0, 1000.0));
    let held = bench.at(1e-3, disc(2.0, 1000.0));
    // Both carried off and turned together: the pull turns along.
    let moved = Pose::from_parts(
        Vec3::new(1.0, 2.0, 3.0).into(),
        UnitQuaternion::from_scaled_axis(Vec3::new(0.3, 0.2, 1.0)),
    );
    let before = bench.tool;
    for part in 1..=100 {
        let a = Pose::identity().lerp_slerp(&moved, f64::from(part) / 100.0);
        (bench.object, bench.tool) = (a, a * before);
        let p = disc(2.0, 1000.0);
        let patch = Patch { normal: a.rotation * p.normal, centre: a.rotation * p.centre, ..p };
        let pull = bench.rub(&alone(patch), &Twist::ZERO).force;
        assert!((pull - a.rotation * held).norm() < 1e-9, "{pull}");
    }
    bench.rub(&[Patch::NONE; MAX_PATCHES], &Twist::ZERO);
    let p = disc(2.0, 1000.0);
    let patch = Patch { normal: moved.rotation * p.normal, centre: moved.rotation * p.centre, ..p };
    assert_eq!(bench.rub(&alone(patch), &Twist::ZERO).force.norm(), 0.0);
}

#[test]
fn what_flickers_does_not_pull_it_loose() {
    // The press jumps by a tenth and the stiffness by a fifth each tick, under four fifths of what it holds.
    let mut bench = Bench::new(RUBBER);
    bench.at(0.0, disc(2.0, 1000.0));
    let held = bench.at(1.28e-3, disc(2.0, 1000.0));
    for i in 0..60_000 {
        let flicker = f64::from(i % 2);
        let now = bench.at(1.28e-3, disc(2.0 + 0.2 * flicker, 900.0 + 200.0 * flicker));
        assert_eq!(now, held, "tick {i}");
    }
}

#[test]
fn damping_stays_within_the_limit_and_acts_on_what_sticks() {
    let mut bench = Bench::new(RUBBER);
    bench.held.tau = 4e-3;
    let patch = disc(2.0, 1000.0);
    bench.rub(&alone(patch), &Twist::ZERO);
    let moving = |v: f64| Twist { linear: Vec3::new(v, 0.0, 0.0), angular: Vec3::zeros() };
    assert!((bench.rub(&alone(patch), &moving(0.1)).force + Vec3::x() * 0.4).norm() < 1e-12);
    assert!((bench.rub(&alone(patch), &moving(5.0)).force + Vec3::x() * 1.6).norm() < 1e-12);
    // Leaving fast, nothing presses and nothing holds.
    let leaving = Twist { linear: Vec3::new(0.1, 0.0, 0.6), angular: Vec3::zeros() };
    assert_eq!(bench.rub(&alone(patch), &leaving).force, Vec3::zeros());
}

#[test]
fn no_friction_is_none_and_unreadable_friction_too() {
    for friction in [Friction::NONE, Friction::of(f64::NAN), Friction::of(-1.0)] {
        let mut bench = Bench::new(friction);
        bench.at(0.0, disc(2.0, 1000.0));
        assert_eq!(bench.at(1e-3, disc(2.0, 1000.0)), Vec3::zeros());
        assert_eq!(bench.grip, Grip::default());
    }
}

#[test]
fn a_pose_that_is_no_number_is_forgotten() {
    let mut bench = Bench::new(RUBBER);
    bench.at(0.0, disc(2.0, 1000.0));
    bench.at(1e-3, disc(2.0, 1000.0));
    for bad in [f64::NAN, f64::INFINITY] {
        assert_eq!(bench.at(bad, disc(2.0, 1000.0)), Vec3::zeros());
        assert_eq!(bench.grip, Grip::default());
        assert_eq!(bench.at(1e-3, disc(2.0, 1000.0)), Vec3::zeros(), "it starts anew");
        let still = Twist { linear: Vec3::x() * bad, angular: Vec3::zeros() };
        assert_eq!(bench.rub(&alone(disc(2.0, 1000.0)), &still), Wrench::ZERO);
    }
    bench.at(0.0, disc(2.0, 1000.0));
    assert!((bench.at(1e-4, disc(2.0, 1000.0)).x + 0.1).abs() < 1e-12);
}

#[test]
fn the_springs_are_no_stiffer_together_than_told() {
    let mut bench = Bench::new(RUBBER);
    bench.held.most = 400.0;
    let mut two = alone(disc(2.0, 1000.0));
    two[4] = Patch { normal: -Vec3::z(), ..disc(2.0, 1000.0) };
    bench.rub(&two, &Twist::ZERO);
    bench.tool.translation.vector.x = 1e-4;
    assert!((bench.rub(&two, &Twist::ZERO).force.x + 0.04).abs() < 1e-12);
}

proptest! {
    /// Whatever moves and presses: no patch goes beyond its limit, and no path that starts with nothing held gets work out of it.
    #[test]
    fn friction_takes_and_never_gives(
        steps in prop::collection::vec((prop::array::uniform3(-3e-4..3e-4f64), prop::array::uniform3(-0.02..0.02f64), 0.1..5.0f64, 100.0..5000.0f64), 10..60),
        mu in 0.1..1.5f64, part in 0.1..1.0f64
    ) {
        let mut bench = Bench::new(Friction { statics: mu, dynamic: mu * part, stribeck: 0.01, viscous: 0.1 });
        let mut work = 0.0;
        let mut pose = Pose::identity();
        for (shift, turn, press, stiffness) in steps {
            let patch = disc(press, stiffness);
            let at = pose * Point::from(patch.centre);
            let centre = at - Point::from(pose.translation.vector);
            // The patch keeps its place in the scene and its normal: the tool moves through it.
            let there = Patch { centre, ..patch };
            bench.tool = pose;
            bench.rub(&alone(there), &Twist::ZERO);
            let turn = UnitQuaternion::from_scaled_axis(Vec3::from(turn));
            let moved = Vec3::from(shift);
            let next = Pose::from_parts((moved + at.coords + turn * (pose.translation.vector - at.coords)).into(), turn * pose.rotation);
            bench.tool = next;
            let centre = at.coords + moved - next.translation.vector;
            let there = Patch { centre, ..patch };
            let w = bench.rub(&alone(there), &Twist::ZERO);
            let torque = (w.torque - centre.cross(&w.force)).z;
            prop_assert!(w.force.z.abs() < 1e-9);
            prop_assert!(w.force.norm().hypot(torque / patch.arm) <= mu * press * (1.0 + 1e-9));
            work += w.force.dot(&moved) + torque * turn.scaled_axis().z;
            pose = next;
            // What it holds now it could give back at most.
            prop_assert!(work <= 1e-12, "{work} J");
        }
    }
}

/// One patch takes all of what is allowed; another one comes: both stay within it.
#[test]
fn a_patch_that_comes_leaves_the_sum_where_it_was() {
    let mut bench = Bench::new(RUBBER);
    bench.held.most = 400.0;
    let both = |second: f64| {
        let mut two = alone(disc(2.0, 1000.0));
        two[4] = Patch { normal: -Vec3::z(), ..disc(2.0, second) };
        two
    };
    let sum = |b: &Bench| b.grip.holds.iter().map(|h| h.stiffness).sum::<f64>();
    bench.rub(&both(0.0), &Twist::ZERO);
    assert!((sum(&bench) - 400.0).abs() < 1e-9);
    for k in 0..100 {
        bench.rub(&both(10.0 * f64::from(k * k)), &Twist::ZERO);
        assert!(sum(&bench) <= 400.0 * (1.0 + 1e-12), "{k}: {}", sum(&bench));
    }
}

/// A query that ran out of time may miss a patch: what it held is held on.
#[test]
fn a_tick_cut_short_does_not_let_go() {
    let mut bench = Bench::new(RUBBER);
    bench.at(0.0, disc(2.0, 1000.0));
    let held = bench.at(1e-3, disc(2.0, 1000.0));
    bench.held.late = true;
    bench.rub(&[Patch::NONE; MAX_PATCHES], &Twist::ZERO);
    bench.held.late = false;
    assert_eq!(bench.at(1e-3, disc(2.0, 1000.0)), held);
}
