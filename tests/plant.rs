//! Physics of the simulated devices against closed forms, the literature's tables and conservation laws.

use hapticd::device::dynamics::Inertia;
use hapticd::device::kinematics::Kinematics;
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::script::Keyframe;
use hapticd::device::simulated::{Hand, HandScript, Setup, SimulatedDevice};
use hapticd::device::{Device, Sample};
use hapticd::geometry::pose::{Pose, Vec3, Wrench};
use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const T: f64 = 1e-3;

fn shipped(name: &str) -> Profile {
    Profile::clone(&Registry::builtin().profile(name).expect("shipped profile"))
}

/// The ideal device with another mass and viscous friction.
fn body(mass: f64, viscous: f64) -> Profile {
    let mut profile = shipped("ideal-6dof");
    let Inertia::Ideal { mass: m, .. } = &mut profile.dynamics.inertia else { panic!("ideal") };
    *m = mass;
    profile.dynamics.friction.viscous = [viscous; 3];
    profile
}

fn frictionless(mut profile: Profile) -> Profile {
    let f = &mut profile.dynamics.friction;
    (f.coulomb, f.stiction, f.viscous) = ([0.0; 3], [0.0; 3], [0.0; 3]);
    profile
}

fn open(profile: Profile, setup: Setup) -> SimulatedDevice {
    let mut device = SimulatedDevice::new(Arc::new(profile), setup).expect("device");
    device.calibrate().expect("calibrate");
    device
}

fn start_at(position: Vec3) -> HandScript {
    let pose = Pose::translation(position.x, position.y, position.z);
    HandScript { keyframes: vec![Keyframe { time: 0.0, pose }], ..HandScript::default() }
}

fn force(x: f64, y: f64, z: f64) -> Wrench {
    Wrench { force: Vec3::new(x, y, z), torque: Vec3::zeros() }
}

/// Runs `law` at 1 kHz for `ticks` ticks.
fn run(
    device: &mut SimulatedDevice,
    ticks: std::ops::Range<u64>,
    mut law: impl FnMut(u64, &Sample) -> Wrench,
) {
    for k in ticks {
        let sample = match device.read(k * MS) {
            Ok(s) => s,
            Err(e) => panic!("tick {k}: {e:?} {:?}", device.state()),
        };
        let wrench = law(k, &sample);
        device.write(k * MS, &wrench).expect("write");
    }
}

#[test]
fn constant_force_gives_the_parabola() {
    let mut device = open(body(0.1, 0.0), Setup::default());
    let f = force(0.02, 0.0, -0.01);
    run(&mut device, 0..101, |k, s| {
        let t = k as f64 * T;
        let want = f.force * (0.5 * t * t / 0.1);
        assert!((s.pose.translation.vector - want).norm() < 1e-12, "tick {k}");
        f
    });
}

#[test]
fn free_fall_is_g_t_squared_over_two() {
    let mut profile = body(0.1, 0.0);
    profile.dynamics.gravity = 9.81;
    let mut device = open(profile, Setup::default());
    run(&mut device, 0..150, |k, s| {
        let t = k as f64 * T;
        assert!(
            (s.pose.translation.vector - Vec3::new(0.0, -0.5 * 9.81 * t * t, 0.0)).norm() < 1e-12,
            "tick {k}"
        );
        Wrench::ZERO
    });
}

/// m x'' + b x' + k x = 0 from a push, in translation and rotation.
#[test]
fn hand_rings_like_the_closed_form() {
    let hand = Hand {
        mass: 0.5,
        damping: 6.0,
        stiffness: 135.0,
        inertia: 1e-3,
        rot_damping: 1e-2,
        rot_stiffness: 0.3,
    };
    let hand = HandScript { hand, ..start_at(Vec3::zeros()) };
    let mut device = open(shipped("ideal-6dof"), Setup { hand, ..Setup::default() });
    device.set_motion(Vec3::new(0.1, 0.0, 0.0), Vec3::new(0.0, 2.0, 0.0));
    let ring = |m: f64, b: f64, k: f64, v0: f64, t: f64| {
        let decay = b / (2.0 * m);
        let w = (k / m - decay * decay).sqrt();
        v0 / w * (-decay * t).exp() * (w * t).sin()
    };
    run(&mut device, 0..500, |k, s| {
        let t = k as f64 * T;
        let x = ring(0.6, 6.1, 135.0, 0.1, t);
        assert!((s.pose.translation.vector.x - x).abs() < 1e-12, "tick {k}");
        let a = ring(1.1e-3, 1.01e-2, 0.3, 2.0, t);
        assert!((s.pose.rotation.scaled_axis().y - a).abs() < 1e-10, "tick {k}");
        Wrench::ZERO
    });
}

/// A linkage held by a hand answers a push like the same mass, spring and damper: the tool's apparent mass comes
/// from J^-T M J^-1 at the centre (small motion).
#[test]
fn a_held_linkage_rings_with_its_apparent_mass() {
    for name in ["novint-falcon", "novint-falcon-mh", "phantom-omni", "phantom-premium-1.5"] {
        let mut profile = frictionless(shipped(name));
        profile.dynamics.gravity = 0.0;
        let k = profile.kinematics;
        let q = k.inverse(&Vec3::zeros()).expect("centre");
        let j = k.state(&q, None).expect("centre").jacobian;
        let inverse = j.try_inverse().expect("regular");
        let apparent = inverse.transpose() * profile.dynamics.mass_matrix(&q, &j) * inverse;
        let hand = Hand::NORMAL;
        let script = HandScript { hand, ..start_at(Vec3::zeros()) };
        let mut device = open(profile, Setup { hand: script, ..Setup::default() });
        // A principal direction moves straight.
        let eigen = apparent.symmetric_eigen();
        let (m, direction) = (eigen.eigenvalues[0] + hand.mass, eigen.eigenvectors.column(0).into_owned());
        device.set_motion(direction * 1e-3, Vec3::zeros());
        let decay = hand.damping / (2.0 * m);
        let w = (hand.stiffness / m - decay * decay).sqrt();
        let peak = 1e-3 / w;
        for tick in 0..400u64 {
            device.read(tick * MS).expect("read");
            let t = tick as f64 * T;
            let want = direction * (peak * (-decay * t).exp() * (w * t).sin());
            let error = (device.state().tip - want).norm();
            assert!(error < 0.01 * peak, "{name}: tick {tick}: {error} of {peak}");
        }
    }
}

/// Kinetic and potential energy of a swinging, frictionless linkage stay the same: mass matrix, velocity terms and
/// gravity belong together.
#[test]
fn a_free_linkage_keeps_its_energy() {
    for (name, velocity) in [
        ("novint-falcon", Vec3::new(0.15, 0.45, 0.1)),
        ("novint-falcon-mh", Vec3::new(-0.1, 0.45, 0.15)),
        ("phantom-omni", Vec3::new(0.4, 0.6, -0.2)),
        ("phantom-premium-1.5", Vec3::new(0.8, 0.5, 0.3)),
    ] {
        let profile = frictionless(shipped(name));
        let (kinematics, dynamics) = (profile.kinematics, profile.dynamics);
        let mut device = open(profile, Setup::default());
        device.set_motion(velocity, Vec3::zeros());
        let energy = |d: &SimulatedDevice| {
            let s = d.state();
            let inverse = kinematics.state(&s.joints, None)?.jacobian.try_inverse()?;
            dynamics.energy(&kinematics, &s.joints, &(inverse * s.velocity))
        };
        let at_start = energy(&device).expect("regular");
        let rest = {
            let q = device.state().joints;
            dynamics.energy(&kinematics, &q, &Vec3::zeros()).expect("regular")
        };
        let kinetic = at_start - rest;
        let mut travelled = 0.0f64;
        for tick in 0..120u64 {
            device.read(tick * MS).expect("read");
            let s = device.state();
            let (min, max) = kinematics.limits(&s.joints);
            if (0..3).any(|i| s.joints[i] < min[i] || s.joints[i] > max[i]) {
                break;
            }
            travelled = travelled.max(s.tip.norm());
            let now = energy(&device).expect("regular");
            assert!(
                (now - at_start).abs() < 2e-4 * kinetic,
                "{name}: tick {tick}: {} of {kinetic}",
                now - at_start
            );
        }
        assert!(travelled > 0.015, "{name} moved {travelled} m only");
    }
}

/// Gravity torque is the gradient of the potential energy.
#[test]
fn gravity_torque_is_the_gradient_of_the_potential() {
    for name in ["novint-falcon", "phantom-omni", "phantom-premium-1.5"] {
        let p = shipped(name);
        for tip in [Vec3::zeros(), Vec3::new(0.02, -0.01, 0.015), Vec3::new(-0.025, 0.02, -0.02)] {
            let q = p.kinematics.inverse(&tip).expect("reach");
            let j = p.kinematics.state(&q, None).expect("regular").jacobian;
            let tau = p.dynamics.gravity_torque(&p.kinematics, &q, &j);
            for i in 0..3 {
                let mut d = Vec3::zeros();
                d[i] = 1e-6;
                let v = |q: &Vec3| p.dynamics.energy(&p.kinematics, q, &Vec3::zeros()).expect("regular");
                let want = (v(&(q + d)) - v(&(q - d))) / 2e-6;
                assert!((tau[i] - want).abs() < 1e-8, "{name} joint {i}: {} {want}", tau[i]);
            }
        }
    }
}

/// Commanding the profile's gravity compensation holds a frictionless device; without it, it falls.
#[test]
fn gravity_compensation_holds_the_device() {
    for name in ["novint-falcon", "novint-falcon-mh", "phantom-omni", "phantom-premium-1.5"] {
        let mut profile = frictionless(shipped(name));
        // Fine motor codes: the rounding of real ones is not what is tested here.
        if let Some(m) = &mut profile.motors {
            m.torque_per_code = m.torque_per_code.map(|t| t / 1024.0);
            m.max_code *= 1024;
        }
        let start = start_at(Vec3::new(0.01, -0.01, 0.01));
        let sheet = profile.clone();
        // Without friction nothing ends the fall in which a delayed first command finds it.
        let delays = Some((profile.transport.read_delay, 0));
        let mut held = open(profile.clone(), Setup { hand: start.clone(), delays, ..Setup::default() });
        run(&mut held, 0..300, |_, s| sheet.gravity_compensation(&s.joints));
        let mut free = open(profile, Setup { hand: start, ..Setup::default() });
        run(&mut free, 0..300, |_, _| Wrench::ZERO);
        let at = Vec3::new(0.01, -0.01, 0.01);
        let (held, free) = ((held.state().tip - at).norm(), (free.state().tip - at).norm());
        assert!(held < 0.5e-3, "{name}: sagged {held} m");
        assert!(free > 10.0 * held, "{name}: fell {free} m, held {held} m");
    }
}

/// Below break-away nothing moves, to the bit; above it the body accelerates with what sliding friction leaves; then a
/// force between sliding and break-away friction keeps it going, and it stops for good without force.
#[test]
fn stick_band_holds_and_lets_go() {
    let mut profile = body(0.1, 0.0);
    profile.dynamics.friction.coulomb = [0.05; 3];
    profile.dynamics.friction.stiction = [0.08; 3];
    let mut device = open(profile, Setup { hand: start_at(Vec3::new(-0.05, 0.0, 0.0)), ..Setup::default() });
    run(&mut device, 0..1000, |k, s| {
        assert_eq!(s.pose.translation.vector, Vec3::new(-0.05, 0.0, 0.0), "tick {k}");
        force(if k % 2 == 0 { 0.0799 } else { -0.0799 }, 0.0, 0.0)
    });
    // The last command of the loop above lasts until the next write.
    run(&mut device, 1000..1101, |k, s| {
        let t = (k - 1000) as f64 * T;
        let want = -0.05 + 0.5 * (0.09 - 0.05) / 0.1 * t * t;
        assert!(
            (s.pose.translation.vector.x - want).abs() < 1e-12,
            "tick {k}: {}",
            s.pose.translation.vector.x
        );
        force(0.09, 0.0, 0.0)
    });
    let v = device.state().velocity.x;
    assert!((v - 0.04).abs() < 1e-12);
    run(&mut device, 1101..1201, |_, _| force(0.06, 0.0, 0.0));
    assert!(device.state().velocity.x > v);
    run(&mut device, 1201..2001, |_, _| Wrench::ZERO);
    assert_eq!(device.state().velocity, Vec3::zeros());
    let at = device.state().tip;
    run(&mut device, 2001..3000, |_, _| force(0.079, 0.0, 0.0));
    assert_eq!(device.state().tip, at);
}

/// The same for joints: a Premium without gravity stands still, to the bit, under torques within the stick band.
#[test]
fn a_stuck_linkage_does_not_creep() {
    for name in ["phantom-premium-1.5", "phantom-omni", "novint-falcon"] {
        let mut profile = shipped(name);
        profile.dynamics.gravity = 0.0;
        let k = profile.kinematics;
        let j = k.state(&k.inverse(&Vec3::zeros()).expect("centre"), None).expect("regular").jacobian;
        // The largest force along x whose torques stay at 90 % of break-away in every joint.
        let s = profile.dynamics.friction.stiction;
        let f = (0..3).map(|i| 0.9 * s[i] / j[(0, i)].abs()).fold(f64::INFINITY, f64::min);
        let mut device = open(profile, Setup::default());
        device.read(0).expect("read");
        let joints = device.state().joints;
        run(&mut device, 1..1000, |t, _| force(if t % 7 < 4 { f } else { -f }, 0.0, 0.0));
        assert_eq!(device.state().joints, joints, "{name}");
        run(&mut device, 1000..1200, |_, _| force(1.3 * f, 0.0, 0.0));
        assert_ne!(device.state().joints, joints, "{name}: 1.17 x break-away moves nothing");
    }
}

/// Dry friction alone stops a sliding body after the distance m v^2 / 2 f.
#[test]
fn sliding_distance_follows_from_the_energy() {
    let mut profile = body(0.1, 0.0);
    profile.dynamics.friction.coulomb = [0.05; 3];
    profile.dynamics.friction.stiction = [0.05; 3];
    let mut device = open(profile, Setup::default());
    device.set_motion(Vec3::new(0.2, 0.0, 0.0), Vec3::zeros());
    run(&mut device, 0..1000, |_, _| Wrench::ZERO);
    let want = 0.1 * 0.2 * 0.2 / (2.0 * 0.05);
    assert!((device.state().tip.x - want).abs() < 1e-6 * want, "{}", device.state().tip.x);
}

/// However it is pushed, the mechanism stays at its stops.
#[test]
fn end_stops_hold() {
    for name in ["novint-falcon", "novint-falcon-mh", "phantom-omni", "phantom-premium-1.5"] {
        for push in [Vec3::x(), -Vec3::x(), Vec3::y(), -Vec3::y(), Vec3::z(), -Vec3::z()] {
            let profile = shipped(name);
            let (k, motors) = (profile.kinematics, profile.motors.expect("motors"));
            let (stiffness, housing) = (profile.dynamics.stop_stiffness, profile.dynamics.housing);
            let mut device = open(profile, Setup::default());
            run(&mut device, 0..2000, |_, _| Wrench { force: push * 3.0, torque: Vec3::zeros() });
            let q = device.state().joints;
            let (min, max) = k.limits(&q);
            for i in 0..3 {
                // Static give of the stop under the largest torque, gravity's share and some dynamics included.
                let give = 2.0 * (motors.torque_per_code[i] * f64::from(motors.max_code) + 0.3) / stiffness;
                assert!(
                    q[i] > min[i] - give && q[i] < max[i] + give,
                    "{name} {push:?}: joint {i} = {}",
                    q[i]
                );
            }
            if let Some(h) = housing {
                let give = 1.5 * 10.0 / h.stiffness;
                assert!(
                    device.state().tip.norm() < h.radius + give,
                    "{name} {push:?}: {}",
                    device.state().tip.norm()
                );
            }
            assert!(device.state().tip.norm() < 0.5 && device.state().velocity.norm() < 5.0, "{name}");
        }
    }
    let mut device = open(shipped("ideal-6dof"), Setup::default());
    run(&mut device, 0..3000, |_, _| force(5.0, 0.0, 0.0));
    let x = device.state().tip.x;
    assert!((x - 0.15 - 5.0 / 2000.0).abs() < 1e-6, "{x}");
}

/// Restitution of a free mass from an undamped wall: e = exp((pi/2)(1/2 + n) T sqrt(K/m)), averaged over where in the
/// sample the contact begins. `wall` sees depth and its rate.
fn restitution(mass: f64, delay: u32, wall: impl Fn(f64, f64) -> f64) -> f64 {
    let (v0, phases) = (0.1, 40);
    let mut sum = 0.0;
    for phase in 0..phases {
        // Depth is -x: the wall fills x < 0.
        let x0 = 2e-3 + v0 * T * f64::from(phase) / f64::from(phases);
        let setup =
            Setup { hand: start_at(Vec3::new(x0, 0.0, 0.0)), delays: Some((0, delay)), ..Setup::default() };
        let mut profile = body(mass, 0.0);
        profile.max_force = 1e3;
        let mut device = open(profile, setup);
        device.set_motion(Vec3::new(-v0, 0.0, 0.0), Vec3::zeros());
        let mut last = -x0;
        run(&mut device, 0..400, |_, s| {
            let depth = -s.pose.translation.vector.x;
            let rate = (depth - last) / T;
            last = depth;
            force(if depth > 0.0 { wall(depth, rate).max(0.0) } else { 0.0 }, 0.0, 0.0)
        });
        assert!(device.state().velocity.x > 0.0, "did not bounce");
        sum += device.state().velocity.x / v0;
    }
    sum / f64::from(phases)
}

#[test]
fn bouncing_gains_the_energy_that_sampling_leaks() {
    for (mass, k, delay) in [
        (0.1, 500.0, 0),
        (0.1, 1000.0, 0),
        (0.1, 2000.0, 0),
        (0.1, 5000.0, 0),
        (0.1, 1000.0, 1),
        (0.1, 2000.0, 1),
        (0.25, 1000.0, 0),
        (0.25, 1000.0, 1),
    ] {
        let e = restitution(mass, delay, |depth, _| k * depth);
        let want = (FRAC_PI_2 * (0.5 + f64::from(delay)) * T * (k / mass).sqrt()).exp();
        assert!((e / want - 1.0).abs() < 0.01, "m {mass} K {k} n {delay}: {e}, expected {want}");
    }
    // Damped walls, force never pulling: values of exact ZOH integration.
    for (b, delay, want) in [(1.0, 0, 0.930), (5.0, 0, 0.546), (1.0, 1, 1.090), (5.0, 1, 0.649)] {
        let e = restitution(0.1, delay, |depth, rate| 1000.0 * depth + b * rate);
        assert!((e / want - 1.0).abs() < 0.01, "B {b} n {delay}: {e}, expected {want}");
    }
}

/// Growth of a spring loop around the free device: late over early amplitude.
fn growth(mass: f64, viscous: f64, k: f64, b: f64, read_delay: u32, write_delay: u32, seconds: u64) -> f64 {
    let mut profile = body(mass, viscous);
    profile.max_force = 1e6;
    let setup = Setup {
        hand: start_at(Vec3::new(1e-4, 0.0, 0.0)),
        delays: Some((read_delay, write_delay)),
        ..Setup::default()
    };
    let mut device = open(profile, setup);
    let (mut early, mut late, mut last) = (0.0, 0.0, 1e-4);
    let end = seconds * 1000;
    for tick in 0..end {
        let x = device.read(tick * MS).expect("read").pose.translation.vector.x;
        let rate = (x - last) / T;
        last = x;
        if x.abs() > 0.05 {
            return f64::INFINITY;
        }
        if (end / 4..end / 2).contains(&tick) {
            early += x * x;
        } else if tick >= 3 * end / 4 {
            late += x * x;
        }
        device.write(tick * MS, &force(-k * x - b * rate, 0.0, 0.0)).expect("write");
    }
    (late / early).sqrt()
}

/// The largest stable stiffness of a sampled spring is that of the eigenvalues (ZOH, backward difference, no hand), for
/// a delay on either side of the wire: 2 % below it rings out, 2 % above it grows.
#[test]
fn stable_stiffness_table() {
    for (mass, viscous, b, delay, k) in [
        (0.1, 0.1, 0.0, 0, 200.0),
        (0.1, 0.5, 0.0, 0, 1000.8),
        (0.1, 1.0, 0.0, 0, 2003.3),
        (0.1, 0.1, 0.0, 1, 66.7),
        (0.1, 0.5, 0.0, 1, 333.8),
        (0.1, 0.1, 0.0, 2, 40.0),
        (0.1, 0.1, 1.0, 0, 2178.5),
        (0.1, 0.1, 1.0, 1, 725.4),
        (0.1, 0.1, 5.0, 0, 9704.0),
        (0.25, 1.0, 5.0, 1, 3916.0),
        (1.0, 2.0, 10.0, 1, 7916.0),
    ] {
        for (read, write) in if delay == 0 { vec![(0, 0)] } else { vec![(0, delay), (delay, 0)] } {
            let below = growth(mass, viscous, 0.98 * k, b, read, write, 60);
            let above = growth(mass, viscous, 1.02 * k, b, read, write, 60);
            assert!(below < 0.99, "m {mass} b {viscous} B {b} n {delay}: K = 0.98 x {k} grows by {below}");
            assert!(above > 1.01, "m {mass} b {viscous} B {b} n {delay}: K = 1.02 x {k} shrinks to {above}");
        }
    }
}

/// Encoders floor to whole counts of the joint; a count is as large at the tool as published.
#[test]
fn encoders_floor_in_joint_counts() {
    for (name, smallest, largest) in [
        ("novint-falcon", 25e-6, 60e-6),
        ("novint-falcon-mh", 25e-6, 62e-6),
        // 29 um is 215 mm over 4096 x 11.2 counts a turn; the waist at the same reach is a little coarser.
        ("phantom-premium-1.5", 20e-6, 32e-6),
        ("phantom-omni", 50e-6, 80e-6),
    ] {
        let profile = shipped(name);
        let e = profile.encoders.expect("encoders");
        let (k, delay) = (profile.kinematics, profile.transport.read_delay);
        let q = k.inverse(&Vec3::zeros()).expect("centre");
        let j = k.state(&q, None).expect("regular").jacobian;
        // Singular values of J x counts: the step at the tool by direction.
        let steps =
            (j * nalgebra::Matrix3::from_diagonal(&Vec3::from(e.radians_per_count))).singular_values();
        assert!(steps.min() > smallest && steps.max() < largest, "{name}: {steps:?}");
        let hand = HandScript::parse(
            "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n\
             [[keyframe]]\ntime = 1.0\nposition = [0.01, 0.02, 0.015]\n",
        )
        .expect("script");
        let mut device = open(profile, Setup { hand, delays: Some((0, 0)), ..Setup::default() });
        assert!(delay <= 1);
        let mut moved = 0;
        let mut before = [0i64; 3];
        for tick in 0..1000 {
            let s = device.read(tick * MS).expect("read");
            let truth = device.state().joints;
            for i in 0..3 {
                let counts = (s.joints[i] - e.offset[i]) / e.radians_per_count[i];
                assert!((counts - counts.round()).abs() < 1e-6, "{name}: not a whole count");
                let rest = (truth[i] - s.joints[i]) / e.radians_per_count[i];
                assert!((-1e-6..1.0 + 1e-6).contains(&rest), "{name}: not the floor: {rest}");
                moved += u32::from(counts.round() as i64 != before[i]);
                before[i] = counts.round() as i64;
            }
        }
        assert!(moved > 100, "{name} moved {moved} counts");
    }
}

/// Motors: integers, one common factor, and what is reported as applied is what moves the device.
#[test]
fn saturation_keeps_the_direction_in_motor_space() {
    for name in ["novint-falcon", "novint-falcon-mh", "phantom-omni", "phantom-premium-1.5"] {
        let profile = shipped(name);
        let (k, m, sheet) = (profile.kinematics, profile.motors.expect("motors"), profile.clone());
        let mut device = open(profile, Setup::default());
        let s = device.read(0).expect("read");
        let j = k.state(&Vec3::new(s.joints[0], s.joints[1], s.joints[2]), None).expect("regular").jacobian;
        for f in [Vec3::new(1.0, 0.3, -0.2), Vec3::new(-0.1, 0.9, 0.4), Vec3::new(0.2, -0.1, 1.0)] {
            for size in [0.5, 2.0, 100.0] {
                let w = Wrench { force: f.normalize() * size, torque: Vec3::new(0.1, 0.0, 0.0) };
                let a = device.write(0, &w).expect("write");
                assert_eq!(a.applied.torque, Vec3::zeros());
                let codes = j.tr_mul(&a.applied.force).component_div(&Vec3::from(m.torque_per_code));
                for i in 0..3 {
                    assert!((codes[i] - codes[i].round()).abs() < 1e-6, "{name}: no whole code: {codes:?}");
                    assert!(codes[i].abs() <= f64::from(m.max_code) + 1e-6, "{name}: {codes:?}");
                }
                assert_eq!(a.saturated, size > 50.0, "{name} {size}");
                // Rounding moves the force by at most half a code in each motor.
                let half =
                    j.transpose().try_inverse().expect("regular").abs() * Vec3::from(m.torque_per_code) * 0.5;
                let scale = if a.saturated {
                    sheet.motor_scale(&s.joints, &Wrench { torque: Vec3::zeros(), ..w })
                } else {
                    1.0
                };
                let error = (a.applied.force - w.force * scale).abs();
                assert!((0..3).all(|i| error[i] <= half[i] * (1.0 + 1e-9)), "{name}: {error:?} {half:?}");
                assert!(a.applied.force.norm() <= sheet.max_force + half.norm());
            }
        }
    }
}

/// A sample of a device with delay is the state of so many ms ago and says so.
#[test]
fn read_delay_shows_the_past() {
    for n in [1u32, 2, 8] {
        let hand = Hand::NONE;
        let setup = Setup {
            hand: HandScript { hand, ..start_at(Vec3::zeros()) },
            delays: Some((n, 0)),
            ..Setup::default()
        };
        let mut device = open(body(0.1, 0.0), setup);
        device.set_motion(Vec3::new(0.1, 0.0, 0.0), Vec3::zeros());
        run(&mut device, 0..100, |k, s| {
            let past = (k as f64 - f64::from(n)).max(0.1) * T;
            assert!((s.pose.translation.vector.x - 0.1 * past).abs() < 1.1e-5, "n {n} tick {k}");
            if k > u64::from(n) {
                assert!((s.pose.translation.vector.x - 0.1 * past).abs() < 1e-12, "n {n} tick {k}");
                assert_eq!(s.time_ns, (k - u64::from(n)) * MS);
            }
            Wrench::ZERO
        });
    }
}

/// Hand, drops, noise, friction: two runs give the same bits; another seed does not.
#[test]
fn two_runs_are_equal_to_the_bit() {
    let script = "hand = 'normal'\nseed = 11\nlet_go = 0.8\nrepeat = true\n\
                  tremor = { amplitude = 0.0002, frequency = 9.0 }\n\
                  [[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n\
                  [[keyframe]]\ntime = 0.3\nposition = [0.02, -0.01, 0.015]\nrotation_deg = [20.0, 10.0, -30.0]\n\
                  [[keyframe]]\ntime = 0.5\nposition = [-0.01, 0.01, 0.0]\n";
    let hand = HandScript::parse(script).expect("script");
    for profile in Registry::builtin().profiles() {
        let trace = |seed: Option<u64>| {
            let setup = Setup { hand: hand.clone(), seed, drop_rate: 0.05, ..Setup::default() };
            let mut device = open(Profile::clone(profile), setup);
            let mut bits = Vec::new();
            for k in 0..1200u64 {
                match device.read(k * MS) {
                    Ok(s) => {
                        bits.extend(s.pose.translation.vector.iter().map(|v| v.to_bits()));
                        bits.extend(s.pose.rotation.coords.iter().map(|v| v.to_bits()));
                        let p = s.pose.translation.vector;
                        let _ = device.write(k * MS, &Wrench { force: -p * 150.0, torque: p * 0.3 });
                    }
                    Err(fault) => bits.push(fault as u64),
                }
            }
            bits
        };
        let (a, b, c) = (trace(None), trace(None), trace(Some(12)));
        assert_eq!(a, b, "{}", profile.name);
        assert_ne!(a, c, "{}", profile.name);
    }
}

/// A suspended machine: hours pass between two reads, bounded work is done, the loss is counted, nothing blows up.
#[test]
fn a_long_gap_is_not_integrated() {
    for profile in Registry::builtin().profiles() {
        let mut device = open(Profile::clone(profile), Setup::default());
        device.set_motion(Vec3::new(0.05, 0.0, 0.0), Vec3::zeros());
        device.read(0).expect("read");
        device.write(0, &force(0.1, 0.0, 0.0)).expect("write");
        let hours = 10 * 3600 * 1_000_000_000u64;
        let s = device.read(hours).expect("read");
        assert!(s.lost > 35_000_000, "{}: lost {}", profile.name, s.lost);
        assert!(hours - s.time_ns < 10 * MS, "{}: the sample is fresh", profile.name);
        assert!(s.pose.translation.vector.norm() < 0.03, "{}: {:?}", profile.name, s.pose);
        let s = device.read(hours + MS).expect("read");
        assert_eq!(s.lost, 0);
        // Clocks that step back do no harm.
        assert!(device.read(0).is_ok());
    }
}

/// Without fresh writes the device lets go of its torque after the profile's time.
#[test]
fn the_device_s_own_watchdog_ends_the_force() {
    let mut profile = body(0.1, 0.0);
    profile.torque_hold = Some(0.02);
    let mut device = open(profile, Setup::default());
    device.read(0).expect("read");
    device.write(0, &force(0.1, 0.0, 0.0)).expect("write");
    let probe = device.probe();
    let mut speed = 0.0;
    for k in 1..=20 {
        device.read(k * MS).expect("read");
        assert!(device.state().velocity.x > speed);
        speed = device.state().velocity.x;
    }
    assert!(!probe.read().is_zero());
    for k in 21..100 {
        device.read(k * MS).expect("read");
    }
    assert!((device.state().velocity.x - 0.02).abs() < 2e-4, "{}", device.state().velocity.x);
    assert!(probe.read().is_zero());
    assert!((20 * MS..=21 * MS).contains(&probe.read().time_ns));
}

/// After the hand lets go the device keeps its motion and nobody pulls any more.
#[test]
fn letting_go_leaves_a_free_body() {
    let script = HandScript { hand: Hand::FIRM, let_go: Some(0.05), ..start_at(Vec3::zeros()) };
    let mut device = open(body(0.1, 0.0), Setup { hand: script, ..Setup::default() });
    device.set_motion(Vec3::new(0.2, 0.0, 0.0), Vec3::zeros());
    run(&mut device, 0..51, |_, _| Wrench::ZERO);
    let v = device.state().velocity;
    assert!(v.x < 0.19);
    run(&mut device, 51..200, |_, _| Wrench::ZERO);
    assert!((device.state().velocity - v).norm() < 1e-12);
}

/// A firm hand follows its path: the tool is where the script says once motion has ended.
#[test]
fn the_hand_leads_the_tool_along_its_path() {
    let script = "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.0, 0.0, 0.0]\n\
                  [[keyframe]]\ntime = 0.5\nposition = [0.015, 0.02, -0.01]\nrotation_deg = [0.0, 25.0, 10.0]\n";
    let hand = HandScript::parse(script).expect("script");
    for profile in Registry::builtin().profiles() {
        let mut device = open(Profile::clone(profile), Setup { hand: hand.clone(), ..Setup::default() });
        run(&mut device, 0..5000, |_, s| profile.gravity_compensation(&s.joints));
        let end = hand.keyframes[1].pose;
        // Dry friction may leave the spring of 400 N/m loaded with break-away force.
        let k = &profile.kinematics;
        let slack = if *k == Kinematics::Ideal {
            1e-9
        } else {
            let j = k.state(&device.state().joints, None).expect("regular").jacobian;
            let stick = Vec3::from(profile.dynamics.friction.stiction);
            (j.transpose().try_inverse().expect("regular").abs() * stick).norm() / 400.0
        };
        let error = (device.state().tip - end.translation.vector).norm();
        assert!(error <= slack * 1.05, "{}: {error} > {slack}", profile.name);
        if profile.senses_rotation() {
            assert!(device.state().rotation.angle_to(&end.rotation) < 1e-6, "{}", profile.name);
        }
    }
}
