use super::*;
use nalgebra::Matrix3;
use proptest::prelude::*;

const T: f64 = 1e-3;
/// McNeely's 12 g, and a ball of 25 mm.
const BODY: Body = Body { mass: 0.012, radius: 0.025, lever: 0.0, fastest: 2.0 };
/// The quasi-static one, and both.
const WEIGHTLESS: Body = Body { mass: 0.0, ..BODY };
const BODIES: [Body; 2] = [BODY, WEIGHTLESS];
const SPRING: Spring = Spring {
    stiffness: 1000.0,
    rot_stiffness: 1.0,
    damping: 5.0,
    rot_damping: 5e-3,
    max_force: f64::INFINITY,
    max_torque: f64::INFINITY,
    max_stretch: f64::INFINITY,
    max_turn: f64::INFINITY,
};

fn at(x: f64, y: f64, z: f64) -> VirtualTool {
    VirtualTool { pose: Pose::translation(x, y, z), twist: Twist::ZERO }
}

const FREE: Load = Load {
    wrench: Wrench::ZERO,
    stiffness: Matrix6::from_array_storage(nalgebra::ArrayStorage([[0.0; 6]; 6])),
    damping: Matrix6::from_array_storage(nalgebra::ArrayStorage([[0.0; 6]; 6])),
    carried: Wrench::ZERO,
};

/// A half-space y < 0 of stiffness k that pushes a point at `lever` from the coupling point (tool axes).
fn floor(tool: &VirtualTool, k: f64, lever: &Vec3) -> Load {
    let arm = tool.pose.rotation * lever;
    let depth = -(tool.pose.translation.vector.y + arm.y);
    if depth <= 0.0 {
        return FREE;
    }
    // Displacement of the point for one of the tool: (I, -[arm]x); it is pushed along y.
    let row = Vector6::new(0.0, 1.0, 0.0, -arm.z, 0.0, arm.x);
    let force = Vec3::y() * (k * depth);
    Load { wrench: Wrench::from_force_at(force, &arm), stiffness: row * row.transpose() * k, ..FREE }
}

/// Presses straight down into the floor to `y` and waits.
fn pressed(body: &Body, k: f64, spring: &Spring, y: f64) -> (VirtualTool, Wrench) {
    let mut tool = at(0.0, 0.001, 0.0);
    let mut felt = Wrench::ZERO;
    for _ in 0..3000 {
        let load = floor(&tool, k, &Vec3::zeros());
        felt = tool.step(body, spring, &Pose::translation(0.0, y, 0.0), &Twist::ZERO, &load, T);
    }
    (tool, felt)
}

#[test]
fn at_rest_the_stiffness_felt_is_that_of_both_in_series() {
    for (body, k) in BODIES.iter().flat_map(|b| [100.0, 1e3, 1e4, 1e5, 1e6].map(|k| (b, k))) {
        let (tool, felt) = pressed(body, k, &SPRING, -2e-3);
        let expect = SPRING.stiffness * k / (SPRING.stiffness + k) * 2e-3;
        assert!((felt.force.y / expect - 1.0).abs() < 1e-9, "K {k}: {} {expect}", felt.force.y);
        assert!(
            (-tool.pose.translation.vector.y * k / expect - 1.0).abs() < 1e-6,
            "the contact carries the same"
        );
    }
}

#[test]
fn the_spring_saturates_where_it_says() {
    let spring = Spring { max_force: 4.0, ..SPRING };
    // 1000 N/m stretched by 8 mm is twice the 4 N: 2/(1 + 2) of it.
    let (_, felt) = pressed(&BODY, 1e9, &spring, -8e-3);
    assert!((felt.force.y - 8.0 / 3.0).abs() < 1e-4, "{}", felt.force.y);
    let (_, felt) = pressed(&WEIGHTLESS, 1e6, &spring, -10.0);
    assert!(felt.force.y < 4.0 && felt.force.y > 3.99);
}

#[test]
fn the_tool_follows_in_the_free_and_its_mass_is_felt() {
    let mut tool = at(0.0, 0.0, 0.0);
    // Accelerated at 1 m/s^2 the device feels 12 mN, no drag that grows with speed.
    for k in 1..2000 {
        let t = T * f64::from(k);
        let motion = Twist { linear: Vec3::x() * t, angular: Vec3::zeros() };
        let target = Pose::translation(0.5 * t * t, 0.0, 0.0);
        let felt = tool.step(&BODY, &SPRING, &target, &motion, &FREE, T);
        if k > 500 {
            assert!((felt.force.x + 0.012).abs() < 1e-3, "{k}: {}", felt.force.x);
        }
    }
}

/// Whatever the hand does in the free, the quasi-static tool follows without a force, and it is where the device is up to what the
/// damper lets it lag.
#[test]
fn without_mass_nothing_is_felt_in_the_free() {
    let mut tool = at(0.0, 0.0, 0.0);
    let mut before = Vec3::zeros();
    for k in 1..5000 {
        let t = T * f64::from(k);
        let x = Vec3::new(0.02 * (9.0 * t).sin(), 0.01 * (40.0 * t).sin(), if k < 2500 { 0.0 } else { 0.01 });
        let turn = Vec3::z() * 0.5 * (5.0 * t).sin();
        let motion = Twist { linear: (x - before) / T, angular: Vec3::z() * 2.5 * (5.0 * t).cos() };
        before = x;
        let felt = tool.step(&WEIGHTLESS, &SPRING, &Pose::new(x, turn), &motion, &FREE, T);
        // But where it is thrown faster than the device can go, and catches up.
        if !(2500..2520).contains(&k) {
            assert!(felt.force.norm() < 1e-11 && felt.torque.norm() < 1e-5, "{k}: {felt:?}");
            assert!((tool.pose.translation.vector - x).norm() < 1e-3, "{k}");
        }
    }
}

/// 1000 N/m, saturating at 4 N: 2 mm give 2/(1 + 1/2) N, and so does whatever is farther, in any direction; turns likewise.
#[test]
fn beyond_its_reach_the_spring_pulls_no_harder() {
    let spring = Spring {
        max_force: 4.0,
        max_torque: 0.4,
        max_stretch: 2e-3,
        max_turn: 0.2,
        rot_stiffness: 2.0,
        ..SPRING
    };
    let still = at(0.0, 0.0, 0.0);
    for k in 1..100 {
        let far = 2e-4 * f64::from(k);
        let way = Vec3::new(1.0, -2.0, 0.5).normalize();
        let target = Pose::new(way * far, way * (100.0 * far).min(3.0));
        let (pull, slopes) = spring.pull(&still.pose, &Twist::ZERO, &target, &Twist::ZERO);
        let s = far.min(2e-3);
        let expect = way * (1000.0 * s / (1.0 + 250.0 * s));
        assert!((pull.force - expect).norm() < 1e-9, "{far}: {}", pull.force);
        let turn = (100.0 * far).min(3.0);
        let t = turn.min(0.2);
        assert!((pull.torque - way * (2.0 * t / (1.0 + 5.0 * t))).norm() < 1e-9, "{far}: {}", pull.torque);
        assert!((slopes.0 * far - expect.norm()).abs() < 1e-9);
    }
}

/// What the device feels is what the contact gives where the tool is, at once: there is no inertia to wait for.
#[test]
fn without_mass_the_contact_itself_is_felt() {
    let lever = Vec3::new(0.02, 0.0, 0.01);
    let mut tool = at(0.0, 1e-3, 0.0);
    for k in 0..2000 {
        let y = 2e-3 * (0.02 * f64::from(k)).cos();
        let motion =
            Twist { linear: Vec3::y() * (-0.04 * (0.02 * f64::from(k)).sin()), angular: Vec3::zeros() };
        let load = floor(&tool, 1e4, &lever);
        let felt = tool.step(&WEIGHTLESS, &SPRING, &Pose::translation(0.0, y, 0.0), &motion, &load, T);
        let then = floor(&tool, 1e4, &lever);
        // Where it stays in contact; the lever turns by less than a milliradian a tick.
        if load != FREE && then != FREE {
            let (f, g) = (felt.force, then.wrench.force);
            assert!((f - g).norm() < 2e-3 * g.norm() + 1e-4, "{k}: {f} {g}");
            assert!((felt.torque - then.wrench.torque).norm() < 2e-3 * felt.torque.norm() + 1e-5, "{k}");
        }
    }
}

#[test]
fn a_turned_device_turns_the_tool_the_short_way() {
    for angle in [0.5, 2.0, 3.0] {
        let axis = Vec3::new(1.0, -2.0, 0.5).normalize();
        let target = Pose::new(Vec3::zeros(), axis * angle);
        let mut tool = at(0.0, 0.0, 0.0);
        let felt = tool.step(&BODY, &SPRING, &target, &Twist::ZERO, &FREE, T);
        assert!(felt.torque.dot(&axis) < 0.0, "the device is turned back");
        for _ in 0..3000 {
            tool.step(&BODY, &SPRING, &target, &Twist::ZERO, &FREE, T);
        }
        assert!(tool.pose.rotation.angle_to(&target.rotation) < 1e-9, "{angle}");
    }
}

#[test]
fn a_lever_is_felt_as_a_torque() {
    // The floor pushes 2 cm beside the coupling point; the wrench that the device feels is the contact's.
    let lever = Vec3::x() * 0.02;
    let mut tool = at(0.0, 0.0005, 0.0);
    let (mut felt, mut load) = (Wrench::ZERO, FREE);
    for _ in 0..20_000 {
        load = floor(&tool, 1e4, &lever);
        felt = tool.step(&BODY, &SPRING, &Pose::translation(0.0, -1e-3, 0.0), &Twist::ZERO, &load, T);
    }
    assert!(load.wrench.force.y > 0.1, "pressed");
    assert!((felt.force - load.wrench.force).norm() < 1e-6, "{} {}", felt.force, load.wrench.force);
    assert!((felt.torque - load.wrench.torque).norm() < 1e-6, "{} {}", felt.torque, load.wrench.torque);
}

/// A million ticks of a hand that shakes the device through and about a floor as stiff as any, felt at a lever: the tool
/// never gets deeper than the pull of the spring presses it and one tick at full speed carries it.
#[test]
fn no_contact_blows_up_in_a_million_ticks() {
    let stiff = [1e3, 1e4, 1e5, 3e5, 1e6].into_iter().enumerate();
    for (body, (i, k)) in BODIES.iter().flat_map(|b| stiff.clone().map(move |ik| (b, ik))) {
        let mut tool = at(0.0, 0.05, 0.0);
        let lever = Vec3::new(0.02, -0.01, 0.005);
        let (mut before, mut touched) = (0.05, 0);
        for tick in 0..200_000 {
            let t = T * f64::from(tick);
            // Incommensurate tones, up to 10 Hz and 2 cm.
            let y = 0.01 * (7.0 * t + i as f64).sin() + 0.01 * (61.3 * t).sin();
            let place = Vec3::new(0.01 * (3.1 * t).sin(), y, 0.0);
            let target = Pose::new(place, Vec3::z() * 0.3 * (11.7 * t).sin());
            let motion = Twist { linear: Vec3::y() * ((y - before) / T), angular: Vec3::zeros() };
            before = y;
            let load = floor(&tool, k, &lever);
            touched += u32::from(load != FREE);
            let felt = tool.step(body, &SPRING, &target, &motion, &load, T);
            let fast = tool.twist.linear.norm() + tool.twist.angular.norm() * BODY.radius;
            assert!(felt.is_finite() && fast <= BODY.fastest * (1.0 + 1e-12), "K {k} tick {tick}");
            let deep = -(tool.pose * nalgebra::Point3::from(lever)).y;
            // 40 mm of stretch at most, and 3.5 N of the damper.
            assert!(deep < BODY.fastest * T + 45.0 / k, "K {k} tick {tick}: {deep} m deep");
        }
        assert!(touched > 20_000, "K {k}: {touched}");
    }
}

#[test]
fn what_is_not_finite_comes_out_as_such() {
    let mut tool = at(0.0, 0.0, 0.0);
    let bad = Load { stiffness: Matrix6::repeat(f64::NAN), ..FREE };
    assert!(!tool.step(&BODY, &SPRING, &Pose::identity(), &Twist::ZERO, &bad, T).is_finite());
    tool.follow(&Pose::identity(), &Twist::ZERO);
    assert_eq!(tool, at(0.0, 0.0, 0.0), "and following the device again heals it");
}

proptest! {
    /// Left alone with the device held still, spring, damper and any linear contact only lose energy.
    #[test]
    fn a_step_never_adds_energy(
        c in prop::collection::vec(-1.0..1.0f64, 36), s in 0.0..3.0f64,
        v in prop::array::uniform3(-1.0..1.0f64), x in prop::array::uniform3(-0.02..0.02f64)
    ) {
        let l = Matrix6::from_row_slice(&c) * 10f64.powf(s);
        let mut k = l * l.transpose();
        // Rotation apart, where the energy is quadratic too.
        for i in 0..6 { for j in 0..6 { if i >= 3 || j >= 3 { k[(i, j)] = 0.0; } } }
        let block: Matrix3<f64> = k.fixed_view::<3, 3>(0, 0).into_owned();
        let mut tool = at(x[0], x[1], x[2]);
        tool.twist.linear = Vec3::from(v);
        let energy = |t: &VirtualTool| {
            let (x, v) = (t.pose.translation.vector, t.twist.linear);
            0.5 * (BODY.mass * v.norm_squared() + SPRING.stiffness * x.norm_squared() + x.dot(&(block * x)))
        };
        for _ in 0..200 {
            let before = energy(&tool);
            let x = tool.pose.translation.vector;
            let wrench = Wrench { force: -(block * x), torque: Vec3::zeros() };
            let load = Load { wrench, stiffness: k, ..FREE };
            tool.step(&BODY, &SPRING, &Pose::identity(), &Twist::ZERO, &load, T);
            prop_assert!(energy(&tool) <= before * (1.0 + 1e-9) + 1e-18, "{} {before}", energy(&tool));
        }
    }
}
