//! What each preset takes of each profile comes to rest on the simulated device: along every axis, and about every axis that is driven.

use crate::energy::{NOBODY, Rig, config, free_devices, unlimited, wall};
use crate::world::{field, object, scene, sphere_tool};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::device::dynamics::Inertia;
use hapticd::device::profile::Profile;
use hapticd::geometry::{Pose, Twist, Vec3, shapes};
use hapticd::haptics::coupling::{Caps, Coupling, Law, Preset, damping_time, least_damping_time};
use hapticd::haptics::guard::energy::EnergyGuard;
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::ServoState;
use nalgebra::UnitQuaternion;
use std::sync::Arc;

const PRESETS: [Preset; 3] = [Preset::Soft, Preset::Normal, Preset::Crisp];
const HANDS: [&str; 2] = [NOBODY, "hand = 'normal'\n"];

/// What a preset takes of a profile, and the time that it damps with, s.
fn taken(profile: &Profile, preset: Preset) -> (Caps, f64) {
    let delay = f64::from(profile.transport.read_delay + profile.transport.write_delay) * 1e-3;
    let caps = Caps {
        stiffness: preset.part() * profile.max_stiffness,
        rot_stiffness: preset.part() * profile.max_rot_stiffness,
        damping: profile.max_damping,
        rot_damping: profile.max_rot_damping,
        actuated: profile.actuated,
    };
    let tau = match preset {
        Preset::Crisp => least_damping_time(1e-3, delay),
        Preset::Soft | Preset::Normal => damping_time(1e-3, delay, &caps),
    };
    (caps, tau)
}

/// A tool between two walls, and how it is pushed. Axes: the walls lie across y.
struct Squeezed {
    tool: Arc<Tool>,
    walls: Vec<SnapshotObject>,
    push: Twist,
    /// The place on the tool whose way across the walls is watched, m.
    at: Vec3,
}

impl Squeezed {
    /// A ball at the device's own place.
    fn ball(k: f64) -> Self {
        Self {
            tool: sphere_tool(0.01),
            walls: vec![wall(1, 0.0, 5e-3, true, 0.5 * k), wall(2, 0.0, 5e-3, false, 0.5 * k)],
            push: Twist { linear: Vec3::y() * 0.05, angular: Vec3::zeros() },
            at: Vec3::zeros(),
        }
    }

    /// A ball `lever` m beside it, knocked: at first nothing moves but what the walls hold.
    fn beside(k: f64, lever: f64, mass: f64, inertia: f64) -> Self {
        let at = Vec3::x() * lever;
        let ball = Tool { offset: Pose::from(at), ..Tool::clone(&sphere_tool(0.01)) };
        let mut squeezed = Self::ball(k);
        squeezed.walls.iter_mut().for_each(|w| w.pose.translation.x += lever);
        let impulse = 0.025 / (1.0 / mass + lever * lever / inertia);
        let push =
            Twist { linear: Vec3::y() * (impulse / mass), angular: Vec3::z() * (impulse * lever / inertia) };
        Self { tool: Arc::new(ball), push, at, ..squeezed }
    }

    /// Two faces of a cube of edge `a`, which hold turns about x and z.
    fn faces(k: f64, a: f64) -> Self {
        let shell = PointShell::build(&shapes::cuboid(Vec3::repeat(a)), ShellParams::points(1000));
        let shell = Arc::new(shell.expect("a cube has a shell"));
        let (half, deep) = (0.75 * a, 3e-3);
        let plane = ObjectShape::Field(field(half, 33, |p| -p.y));
        let face = |id: u32, turn: f64, y: f64| {
            let pose = Pose::new(Vec3::y() * y, Vec3::x() * turn);
            // Of the whole face.
            let mut wall = object(id, plane.clone(), pose, 0.5 * k * 1e-4 / (a * a));
            wall.bound_radius = 2.0 * half;
            wall
        };
        let y = 0.5 * a - deep;
        Self {
            tool: Arc::new(Tool {
                bound_radius: shell.bound_radius,
                shape: ToolShape::Shell(shell),
                offset: Pose::identity(),
                incarnation: 2,
            }),
            walls: vec![face(1, 0.0, -y), face(2, std::f64::consts::PI, y)],
            push: Twist { linear: Vec3::zeros(), angular: Vec3::z() * 0.5 },
            at: Vec3::x() * (0.5 * a),
        }
    }

    /// Does what is pushed come to rest, or nearer to it? With y turned to this axis.
    fn dies_out(&self, profile: &Profile, hand: &str, config: ServoConfig, axis: usize) -> bool {
        let to = [Vec3::x(), Vec3::y(), Vec3::z()][axis];
        let turn = UnitQuaternion::rotation_between(&Vec3::y(), &to).expect("not opposite");
        let push = Twist { linear: turn * self.push.linear, angular: turn * self.push.angular };
        let mut rig = Rig::moving(profile, hand, &push, config, vec![]);
        let middle = Pose::from_parts(rig.bench.last.position.into(), turn);
        let mut walls = self.walls.clone();
        walls.iter_mut().for_each(|w| w.pose = middle * w.pose);
        let offset = Pose::from_parts(Vec3::zeros().into(), turn) * self.tool.offset;
        let tool = Arc::new(Tool { offset, ..Tool::clone(&self.tool) });
        rig.bench.publish(scene(2, &tool, walls));
        rig.step();
        let mut deviation = || {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..2000 {
                let r = rig.step();
                if r.state == ServoState::Fault || r.touched < 2 {
                    return f64::INFINITY;
                }
                let state = rig.state();
                let y = (state.tip + state.rotation * (turn * self.at)).dot(&to);
                sum += y;
                squares += y * y;
            }
            (squares / 2e3 - (sum / 2e3).powi(2)).max(0.0).sqrt()
        };
        let (before, after) = (deviation(), deviation());
        // A count of an encoder to and fro is rest.
        after <= 3e-5 || after < 0.995 * before
    }
}

/// The stiffness and damping that each preset takes of each profile lie below what the simulated device renders stably with the delays that it
/// states, along each axis: in nobody's hand, and in a relaxed one, which presses a device out of its friction.
#[test]
fn every_preset_stays_below_what_the_device_renders_stably() {
    for shipped in free_devices() {
        for preset in PRESETS {
            let (caps, tau) = taken(&shipped, preset);
            let mut profile = Profile::clone(&shipped);
            unlimited(&mut profile);
            let squeezed = Squeezed::ball(caps.stiffness);
            for (hand, axis) in HANDS.into_iter().flat_map(|hand| [0, 1, 2].map(|axis| (hand, axis))) {
                let what = format!(
                    "{} {preset:?}, {hand:?}, axis {axis}: {:.0} N/m, {:.2} N s/m",
                    profile.name,
                    caps.stiffness,
                    tau * caps.stiffness
                );
                assert!(squeezed.dies_out(&profile, hand, config(tau, EnergyGuard::Off), axis), "{what}");
            }
        }
    }
}

/// What holds a tool in rotation at all that a preset takes: in faces that are as stiff across as in rotation, and by a ball beside the device's
/// place, where both add up (the cap's largest eigenvalue).
fn in_rotation(profile: &Profile, caps: &Caps) -> [(&'static str, Squeezed); 2] {
    let (k, turning) = (caps.stiffness, caps.rot_stiffness);
    let Inertia::Ideal { mass, rot_inertia, .. } = profile.dynamics.inertia else {
        panic!("{}: what turns is ideal", profile.name)
    };
    [
        ("faces", Squeezed::faces(k, (12.0 * turning / k).sqrt())),
        ("beside", Squeezed::beside(0.5 * k, (turning / k).sqrt(), mass, rot_inertia)),
    ]
}

/// The same in rotation, for each profile that drives it; and of the spring of a virtual tool, whose k and b are the preset's own.
#[test]
fn every_preset_stays_below_what_the_device_renders_stably_in_rotation() {
    let mut driven = vec![];
    for shipped in free_devices().into_iter().filter(|p| p.actuated[3..].contains(&true)) {
        for preset in PRESETS {
            let (caps, tau) = taken(&shipped, preset);
            let mut free = Profile::clone(&shipped);
            unlimited(&mut free);
            // Ten times as hard as the spring, which is what is felt then.
            let hard =
                Caps { stiffness: 10.0 * caps.stiffness, rot_stiffness: 10.0 * caps.rot_stiffness, ..caps };
            let sprung = |law| ServoConfig {
                coupling: Coupling { law, preset, ..Coupling::default() },
                damping_time: None,
                ..config(0.0, EnergyGuard::Off)
            };
            let direct = config(tau, EnergyGuard::Off);
            for (law, profile, caps, config, axes) in [
                (Law::Direct, &free, &caps, direct, 0..3),
                (Law::Dynamic, &*shipped, &hard, sprung(Law::Dynamic), 1..2),
                (Law::Static, &*shipped, &hard, sprung(Law::Static), 1..2),
            ] {
                for (name, squeezed) in in_rotation(&shipped, caps) {
                    for (hand, axis) in
                        HANDS.into_iter().flat_map(|hand| axes.clone().map(move |axis| (hand, axis)))
                    {
                        let what =
                            format!("{} {preset:?} {law:?}, {name}, {hand:?}, axis {axis}", shipped.name);
                        assert!(squeezed.dies_out(profile, hand, config.clone(), axis), "{what}");
                    }
                }
            }
        }
        driven.push(shipped.name.clone());
    }
    assert_eq!(driven, ["ideal-6dof"]);
}

/// How much stiffer each could be, damping and all, for the page on stability: `cargo test --test servo could_be_stiffer -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes; prints a table"]
fn how_much_each_preset_could_be_stiffer() {
    const FACTORS: [f64; 5] = [1.5, 2.0, 3.0, 4.0, 5.0];
    // Up to the first that does not come to rest.
    let most =
        |rests: &dyn Fn(f64) -> bool| FACTORS.into_iter().take_while(|f| rests(*f)).last().unwrap_or(1.0);
    println!("{:22} {:8} {:24} {:>6} {:>6} {:>6}", "device", "preset", "hand", "x", "y", "z");
    for shipped in free_devices() {
        let mut free = Profile::clone(&shipped);
        unlimited(&mut free);
        for preset in PRESETS {
            let (caps, tau) = taken(&shipped, preset);
            let config = || config(tau, EnergyGuard::Off);
            for hand in HANDS {
                let [x, y, z] = [0, 1, 2].map(|axis| {
                    most(&|f| Squeezed::ball(f * caps.stiffness).dies_out(&free, hand, config(), axis))
                });
                let taken = format!("{preset:?}");
                println!("{:22} {taken:8} {:24} {x:6} {y:6} {z:6}", shipped.name, hand.trim());
                assert!(
                    x >= 1.5 && y >= 1.5 && z >= 1.5,
                    "{} {preset:?} {hand:?}: {x} {y} {z}",
                    shipped.name
                );
                if !shipped.actuated[3] {
                    continue;
                }
                for (i, name) in ["faces", "beside"].into_iter().enumerate() {
                    let turning = [0, 1, 2].map(|axis| {
                        most(&|f| {
                            let caps = Caps {
                                stiffness: f * caps.stiffness,
                                rot_stiffness: f * caps.rot_stiffness,
                                ..caps
                            };
                            in_rotation(&shipped, &caps)[i].1.dies_out(&free, hand, config(), axis)
                        })
                    });
                    println!("{:22} {taken:8} {:24} about: {turning:?}", shipped.name, name);
                }
            }
        }
    }
}
