//! What a streamed motion feels like against the same motion evaluated exactly: no more than twice the force energy
//! above 100 Hz at 60, 200 and 500 Hz with 5 ms of jitter and 5 % of loss.

use crate::device::Puppet;
use crate::world::{Bench, MS, ball, cube_tool, scene};
use hapticd::contact::{Budget, Contact, Query, QueryState, query};
use hapticd::control::motion::{Fate, MotionTable, Moving};
use hapticd::device::registry::Registry;
use hapticd::geometry::{Pose, Twist, Vec3};
use hapticd::haptics::coupling;
use hapticd::protocol::datagram::{Datagram, KEY, MAX_DATAGRAM, MAX_POSES, MotionPose, Sender};
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::{ServoConfig, motion_delay_ns};
use nalgebra::UnitQuaternion;
use rand::{RngExt, SeedableRng};
use std::f64::consts::TAU;
use std::sync::Arc;

/// A motion with its exact twist.
type Motion = fn(f64) -> (Pose, Twist);

/// A hand-held object: presses and slides along, turning a little; all below 3 Hz.
fn rub(t: f64) -> (Pose, Twist) {
    let wave = |a: f64, f: f64, p: f64| (a * (TAU * f * t + p).sin(), a * TAU * f * (TAU * f * t + p).cos());
    let (x, vx) = wave(0.006, 0.9, 0.0);
    let (y, vy) = wave(0.0006, 2.3, 1.0);
    let (z, vz) = wave(0.004, 1.3, 0.5);
    let (angle, rate) = wave(0.3, 0.7, 0.2);
    let p = Vec3::new(x, y - 0.0285, z);
    let pose = Pose::from_parts(p.into(), UnitQuaternion::from_scaled_axis(Vec3::y() * angle));
    (pose, Twist { linear: Vec3::new(vx, vy, vz), angular: Vec3::y() * rate })
}

/// Taps: contact is made and lost twice a second.
fn tap(t: f64) -> (Pose, Twist) {
    let (s, c) = (TAU * 2.0 * t).sin_cos();
    let pose = Pose::translation(0.0, 0.004 * s - 0.031, 0.0);
    (pose, Twist { linear: Vec3::new(0.0, 0.004 * TAU * 2.0 * c, 0.0), angular: Vec3::zeros() })
}

const FROM: f64 = 1.0;
const LENGTH: usize = 4096;

fn moving(shape: hapticd::contact::ObjectShape) -> SnapshotObject {
    SnapshotObject {
        motion: Some(0),
        bound_radius: 0.06,
        ..crate::world::object(1, shape, Pose::translation(0.0, -0.1, 0.0), 800.0)
    }
}

/// What the puppet's profile renders stably.
fn puppet_caps() -> coupling::Caps {
    let p = Registry::builtin().profile("ideal-6dof").expect("shipped");
    coupling::Caps {
        stiffness: p.max_stiffness,
        rot_stiffness: p.max_rot_stiffness,
        damping: p.max_damping,
        rot_damping: p.max_rot_damping,
        actuated: p.actuated,
    }
}

/// Force on the resting tool with the object exactly where it belongs, by the same contact query and coupling.
fn exact(motion: Motion, tool: &Tool, object: &SnapshotObject, delay: f64) -> Vec<Vec3> {
    let tau = coupling::damping_time(1e-3, 0.0, &puppet_caps());
    let tool_pose = Pose::identity();
    let force = |k: usize| {
        let (pose, twist) = motion(FROM + k as f64 * 1e-3 - delay);
        let q = Query {
            tool: &tool.shape,
            tool_pose: &tool_pose,
            tool_twist: &Twist::ZERO,
            object: &object.shape,
            object_pose: &pose,
            object_twist: &twist,
            material: &object.material,
        };
        let c: Contact = query(&q, Budget::UNLIMITED, &mut QueryState::default());
        let at_tool = twist.at(&-pose.translation.vector);
        let relative = Twist { linear: -at_tool, angular: -twist.angular };
        (c.wrench + coupling::damping(tau, &c.stiffness, &relative, &c.wrench)).force
    };
    (0..LENGTH).map(force).collect()
}

/// Force commanded by the servo with the motion streamed: sealed datagrams through the control side's own decoding and
/// motion table, from a sender whose clock is an hour off.
fn streamed(
    motion: Motion,
    tool: &Arc<Tool>,
    object: &SnapshotObject,
    rate: f64,
    delay: u64,
    seed: u64,
) -> Vec<Vec3> {
    const SESSION: u64 = 7;
    const CLOCK: u64 = 3_600_000 * MS;
    let key = [5u8; KEY];
    let mut table = MotionTable::default();
    table.set_objects(&[Moving { index: 0, id: 1, incarnation: 1, owner: SESSION, persistent: false }]);
    let stream = table.open(SESSION, delay, 1000 * MS, 0).expect("the first");
    let sender = Sender { session: SESSION, key: &key, stream };

    let (jitter, loss) = (5e-3, 0.05);
    let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
    let mut arrivals: Vec<(u64, Vec<u8>)> = (0u32..)
        .map(|k| (k, f64::from(k) / rate))
        .take_while(|(_, t)| *t < FROM + LENGTH as f64 * 1e-3)
        .filter_map(|(seq, t)| {
            let (lost, late) = (rng.random::<f64>() < loss, jitter * rng.random::<f64>());
            let pose = motion(t).0;
            let pose = MotionPose {
                object: 1,
                position: pose.translation.vector.into(),
                orientation: pose.rotation.coords.into(),
            };
            let mut bytes = [0; MAX_DATAGRAM];
            let n = sender.motion(seq, CLOCK + (t * 1e9) as u64, &[pose], &mut bytes).expect("one pose");
            (!lost).then(|| (((t + late) * 1e9) as u64, bytes[..n].to_vec()))
        })
        .collect();
    arrivals.sort_by_key(|a| a.0);
    let mut arrivals = arrivals.into_iter().peekable();
    let mut poses = [MotionPose { object: 0, position: [0.0; 3], orientation: [0.0; 4] }; MAX_POSES];

    let puppet = Puppet::new(Vec3::zeros());
    let mut bench =
        Bench::new(Box::new(puppet), ServoConfig { gate_force: 1e3, gate_torque: 1e3, ..Default::default() });
    bench.publish(scene(1, tool, vec![object.clone()]));
    let mut forces = Vec::new();
    let mut armed = false;
    while forces.len() < LENGTH {
        let now = bench.servo.now_ns();
        while let Some((_, bytes)) = arrivals.next_if(|(at, _)| *at <= now) {
            let datagram = Datagram::parse(&bytes).expect("well formed");
            datagram.verify(&key).expect("sealed with this key");
            let n = datagram.poses(&mut poses).expect("sound poses");
            let fate = table.feed(&datagram.header, &poses[..n], now);
            assert!(matches!(fate, Fate::Taken { strangers: 0, stepped: false, .. }), "{fate:?}");
        }
        if let Some(frame) = table.frame() {
            bench.handle.publish_motion(frame);
            bench.handle.reclaim();
        }
        if now == 20 * MS && !armed {
            bench.handle.send(hapticd::servo::handle::ServoCommand::Arm { session: 1 }).unwrap();
            bench.handle.send(hapticd::servo::handle::ServoCommand::Lease { until_ns: u64::MAX }).unwrap();
            armed = true;
        }
        let r = bench.step();
        if r.planned_ns >= (FROM * 1e9) as u64 {
            assert_eq!(r.ramp, 1.0);
            forces.push(Vec3::from(r.force));
        }
    }
    forces
}

/// Energy of a series above `from` Hz at 1 kHz: Hann window, then the discrete Fourier transform bin by bin.
fn energy_above(series: &[Vec3], from: f64) -> f64 {
    let n = series.len();
    let window = |k: usize| 0.5 - 0.5 * (TAU * k as f64 / n as f64).cos();
    let windowed: Vec<Vec3> = series.iter().enumerate().map(|(k, v)| v * window(k)).collect();
    let first = (from * n as f64 / 1000.0).ceil() as usize;
    (first..=n / 2)
        .map(|bin| {
            // A rotating phasor; renewed often enough not to drift.
            let step = TAU * bin as f64 / n as f64;
            let (mut re, mut im) = (Vec3::zeros(), Vec3::zeros());
            for (block, chunk) in windowed.chunks(64).enumerate() {
                let (s0, c0) = (step * (block * 64) as f64).sin_cos();
                let (ds, dc) = step.sin_cos();
                let (mut s, mut c) = (s0, c0);
                for v in chunk {
                    re += v * c;
                    im -= v * s;
                    (s, c) = (s * dc + c * ds, c * dc - s * ds);
                }
            }
            (re.norm_squared() + im.norm_squared()) / n as f64
        })
        .sum()
}

#[test]
fn the_energy_measure_knows_a_tone() {
    let tone = |f: f64| (0..1000).map(|k| Vec3::x() * (TAU * f * k as f64 * 1e-3).sin()).collect::<Vec<_>>();
    // Hann keeps 3/8 of a tone's energy, one half of the square, one half for the positive frequencies.
    assert!((energy_above(&tone(200.0), 100.0) - 1000.0 * 3.0 / 8.0 / 4.0).abs() < 1.0);
    assert!(energy_above(&tone(20.0), 100.0) < 1e-6);
}

fn compare(name: &str, motion: Motion, tool: &Arc<Tool>, object: &SnapshotObject) {
    let cases = [60.0, 200.0, 500.0].into_iter().flat_map(|rate| {
        let interval = (1e9 / rate) as u64;
        // What the servo recommends, and the shortest that bridges one lost sample.
        [(rate, motion_delay_ns(interval, 5 * MS)), (rate, 2 * interval + 6 * MS)]
    });
    for (seed, (rate, delay)) in cases.enumerate() {
        let truth = exact(motion, tool, object, delay as f64 * 1e-9);
        let felt = streamed(motion, tool, object, rate, delay, seed as u64);
        let peak = truth.iter().map(|f| f.norm()).fold(0.0, f64::max);
        assert!(peak > 0.5, "{name}: the motion touches: {peak}");
        let off = felt.iter().zip(&truth).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
        let ratio = energy_above(&felt, 100.0) / energy_above(&truth, 100.0);
        println!(
            "{name} at {rate} Hz: energy above 100 Hz x {ratio:.3}, worst force error {:.4} of the peak",
            off / peak
        );
        assert!(ratio <= 2.0, "{name} at {rate} Hz: {ratio}");
        assert!(off < 0.1 * peak, "{name} at {rate} Hz: off by {off} of {peak}");
    }
}

#[test]
fn rubbing_with_a_streamed_object_is_as_smooth_as_the_motion() {
    compare("rubbing", rub, &cube_tool(4000), &moving(ball()));
}

#[test]
fn tapping_with_a_streamed_object_is_as_crisp_as_the_motion() {
    compare("tapping", tap, &cube_tool(4000), &moving(ball()));
}

#[test]
fn poses_that_are_merely_held_would_be_caught() {
    /// The last sample of a 200 Hz stream, at rest until the next.
    fn held(t: f64) -> (Pose, Twist) {
        (rub((t * 200.0).floor() / 200.0).0, Twist::ZERO)
    }
    let (tool, object) = (cube_tool(4000), moving(ball()));
    let [smooth, steps] = [rub as Motion, held].map(|m| energy_above(&exact(m, &tool, &object, 0.0), 100.0));
    assert!(steps > 20.0 * smooth, "{steps} {smooth}");
}
