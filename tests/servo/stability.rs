//! The felt stiffness stays within what each device renders stably: a tool wedged between two walls comes to rest across
//! them after the hand has let go, whether it touches with faces, edges or corners, small or large. (Along the walls
//! nothing holds it but the device: there is no friction.)

use crate::device::Watched;
use crate::world::{Bench, field, object, scene};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Friction, ObjectShape, ToolShape};
use hapticd::device::Device;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{HandScript, Setup, SimulatedDevice};
use hapticd::geometry::shapes::cuboid;
use hapticd::geometry::{Point, Pose, TriMesh, Vec3};
use hapticd::haptics::coupling::Coupling;
use hapticd::scene::snapshot::{SnapshotObject, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_STIFFNESS_CAPPED, ServoState};
use nalgebra::UnitQuaternion;
use std::sync::Arc;

/// How the tool lies between the walls.
#[derive(Clone, Copy, Debug)]
pub enum Lies {
    Flat,
    OnEdges,
    OnCorners,
}

/// How a cube is turned to lie so.
pub fn laid(lies: Lies) -> UnitQuaternion<f64> {
    let toward = match lies {
        Lies::Flat => Vec3::y(),
        Lies::OnEdges => Vec3::new(1.0, 1.0, 0.0),
        Lies::OnCorners => Vec3::new(1.0, 1.0, 1.0),
    };
    UnitQuaternion::rotation_between(&toward, &Vec3::y()).expect("not opposite")
}

/// Who holds the tool.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// A light hand for a second, then nobody.
    Nobody,
    Light,
    Normal,
}

impl Holds {
    /// With `level` it keeps the tool from tipping for good: a driven wrist balancing on an edge
    /// would tip over, rightly.
    pub fn hand(self, level: bool) -> HandScript {
        HandScript::parse(&self.script(level)).expect("parses")
    }

    fn script(self, level: bool) -> String {
        let turn = "inertia = 1e-3, rot_damping = 0.1, rot_stiffness = 20.0";
        let hand = match (self, level) {
            (Self::Nobody, false) => "'light'\nlet_go = 1.0".into(),
            (Self::Light, false) => "'light'".into(),
            (Self::Normal, false) => "'normal'".into(),
            (Self::Nobody, true) => format!("{{ mass = 0.0, damping = 0.0, stiffness = 0.0, {turn} }}"),
            (Self::Light, true) => format!("{{ mass = 0.1, damping = 2.0, stiffness = 30.0, {turn} }}"),
            (Self::Normal, true) => format!("{{ mass = 0.5, damping = 6.0, stiffness = 135.0, {turn} }}"),
        };
        format!("hand = {hand}\nkeyframe = [{{ time = 0.0, position = [0.0, 0.0, 0.0] }}]\n")
    }
}

/// Points of the cube's shell: coarse, on purpose, so that the sampling's own work must be taken out as well.
pub const POINTS: u32 = 3000;

/// What became of a wedged tool.
pub struct Wedged {
    /// Largest change of the speed across the walls from tick to tick in the last half second, m/s.
    pub shakes: f64,
    /// The same along the walls.
    pub along: f64,
    /// Largest speed of the device itself across the walls in the last half second, m/s.
    pub plant: f64,
    /// How far the force that the motors got went up and down in the last half second, N.
    pub ripple: f64,
    /// Largest rotation speed out of the walls' plane after the hand let go, and in the last half second, rad/s.
    pub turns: (f64, f64),
    /// Largest stiffness wanted, N/m.
    pub wanted: f64,
    /// The cap bit.
    pub capped: bool,
}

/// A tool and how it lies between the walls.
pub struct Laid<'a> {
    pub mesh: &'a TriMesh,
    pub points: u32,
    pub turn: UnitQuaternion<f64>,
    /// Radius to which the walls are hollow, m; infinite for flat ones.
    pub hollow: f64,
    /// Of the walls.
    pub friction: Friction,
}

/// Depth in a wall that lies beyond `y` (towards larger y for `sign` 1, smaller for -1) on the tool's axis.
fn wall(p: &Point, y: f64, sign: f64, hollow: f64) -> f64 {
    if hollow.is_infinite() {
        return sign * (p.y - y);
    }
    (p - Point::new(0.0, y - sign * hollow, 0.0)).norm() - hollow
}

/// Wedges a cube of edge `a`.
fn wedge(device: &str, lies: Lies, a: f64, stiffness: f64, holds: Holds, friction: Friction) -> Wedged {
    let tips = device == "ideal-6dof" && !matches!(lies, Lies::Flat);
    let mesh = cuboid(Vec3::repeat(a));
    press(
        device,
        &Laid { mesh: &mesh, points: POINTS, turn: laid(lies), hollow: f64::INFINITY, friction },
        stiffness,
        holds,
        tips,
    )
}

/// Wedges a tool 0.5 mm into walls above and below, 0.2 mm off the middle, and lets go.
pub fn press(device: &str, laid: &Laid<'_>, stiffness: f64, holds: Holds, tips: bool) -> Wedged {
    press_by(Coupling::default(), device, laid, stiffness, holds, tips)
}

/// The same by a coupling of one's choice.
pub fn press_by(
    coupling: Coupling,
    device: &str,
    laid: &Laid<'_>,
    stiffness: f64,
    holds: Holds,
    tips: bool,
) -> Wedged {
    let heights = laid.mesh.vertices.iter().map(|v| (laid.turn * v).y);
    let (low, high) = heights.fold((f64::MAX, f64::MIN), |(l, h), y| (l.min(y), h.max(y)));
    let shell = PointShell::build(laid.mesh, ShellParams::points(laid.points)).expect("a closed mesh");
    let bound_radius = shell.bound_radius;
    let tool = Arc::new(Tool {
        shape: ToolShape::Shell(Arc::new(shell)),
        offset: Pose::from_parts(Vec3::zeros().into(), laid.turn),
        bound_radius,
        incarnation: 1,
    });
    // A pocket: walls across y, and far enough out along x and z to catch what slides away.
    let (floor, ceiling, side) = (low + 5e-4, high - 5e-4, bound_radius + 2e-3);
    let reach = side + 0.02;
    let depth = |p: &Point| {
        let walls = wall(p, ceiling, 1.0, laid.hollow).max(wall(p, floor, -1.0, laid.hollow));
        walls.max(p.x.abs() - side).max(p.z.abs() - side)
    };
    let walls = ObjectShape::Field(field(reach, 65, depth));
    let slot = |at: &Vec3| {
        let mut slot = object(1, walls, Pose::translation(at.x, at.y, at.z), stiffness);
        slot.bound_radius = 2.0 * reach;
        slot.material.friction = laid.friction;
        vec![slot]
    };
    press_into(coupling, device, &tool, slot, holds, tips)
}

/// The same with any tool, between walls that come to where it rests, 0.2 mm off.
pub fn press_into(
    coupling: Coupling,
    device: &str,
    tool: &Arc<Tool>,
    walls: impl FnOnce(&Vec3) -> Vec<SnapshotObject>,
    holds: Holds,
    tips: bool,
) -> Wedged {
    let hand = holds.hand(tips);
    let profile = Registry::builtin().profile(device).expect("shipped");
    let mut plant = SimulatedDevice::new(profile, Setup { hand, ..Setup::default() }).expect("opens");
    plant.calibrate().expect("calibrates");
    let (opened, inside) = Watched::new(plant);
    let gate = ServoConfig { gate_force: 1e4, gate_torque: 1e4, ..ServoConfig::default() };
    let config = ServoConfig { coupling, ramp_up: 0.05, ..gate };
    let mut bench = Bench::new(Box::new(opened), config);
    // The device rests where it rests; the walls come to it.
    bench.publish(scene(1, tool, vec![]));
    let at = Vec3::from(bench.steps(3).position) + Vec3::new(0.0, 2e-4, 0.0);
    let walls = walls(&at);
    let touching = walls.len() as u16;
    bench.publish(scene(2, tool, walls));
    bench.step();
    bench.own();
    let mut seen = Wedged {
        shakes: 0.0,
        along: 0.0,
        plant: 0.0,
        ripple: 0.0,
        turns: (0.0, 0.0),
        wanted: 0.0,
        capped: false,
    };
    let mut range = [(f64::MAX, f64::MIN); 3];
    let mut before = [0.0; 3];
    // A hand that holds on damps: it needs no long wait.
    let ticks = if matches!(holds, Holds::Nobody) { 3000 } else { 1500 };
    for k in 0..ticks {
        let r = bench.step();
        assert_ne!(r.state, ServoState::Fault, "{device}: {:?} at {k}", r.fault);
        // About y nothing but friction would hold the tool.
        let tilting = r.angular_velocity[0].hypot(r.angular_velocity[2]);
        seen.wanted = seen.wanted.max(r.stiffness);
        seen.capped |= r.flags & FLAG_STIFFNESS_CAPPED != 0;
        match ticks - k {
            1001..=2000 => seen.turns.0 = seen.turns.0.max(tilting),
            ..=500 => {
                seen.turns.1 = seen.turns.1.max(tilting);
                let change: [f64; 3] = std::array::from_fn(|i| r.velocity[i] - before[i]);
                seen.shakes = seen.shakes.max(change[1].abs());
                seen.along = seen.along.max(change[0].hypot(change[2]));
                seen.plant = seen.plant.max(inside.lock().unwrap().device.state().velocity.y.abs());
                for ((low, high), f) in range.iter_mut().zip(r.applied_force) {
                    (*low, *high) = (low.min(f), high.max(f));
                }
            }
            _ => {}
        }
        before = r.velocity;
    }
    seen.ripple = range.iter().map(|(low, high)| high - low).fold(0.0, f64::max);
    assert!(bench.last.touched == touching && bench.last.ramp == 1.0, "still wedged");
    seen
}

fn comes_to_rest(device: &str, step: f64, holds: Holds) {
    for lies in [Lies::Flat, Lies::OnEdges, Lies::OnCorners] {
        // Faces of 1, 9 and 100 cm^2; 2000 N/m on each cm^2 is far beyond every device on the largest.
        for edge in [0.01, 0.03, 0.1] {
            rests(device, lies, edge, 2000.0, step, holds);
        }
    }
}

/// One wedged cube rests.
fn rests(device: &str, lies: Lies, edge: f64, stiffness: f64, step: f64, holds: Holds) -> Wedged {
    rests_on(device, lies, edge, stiffness, step, holds, Friction::NONE)
}

fn rests_on(
    device: &str,
    lies: Lies,
    edge: f64,
    stiffness: f64,
    step: f64,
    holds: Holds,
    friction: Friction,
) -> Wedged {
    let seen = wedge(device, lies, edge, stiffness, holds, friction);
    println!(
        "{device} {holds:?} {lies:?} {edge} m: wants {:.0} N/m, capped {}, shakes by {:.4} mm/s, turns {:?}",
        seen.wanted,
        seen.capped,
        seen.shakes * 1e3,
        seen.turns
    );
    // At rest up to what nobody could hold stiller: the field's own steps (up to 0.1 m / 32767 = 3 um, felt
    // through 4000 N/m by 0.1 kg: 0.12 m/s^2), and one encoder step between two samples.
    assert!(
        seen.shakes <= 1.2e-4 + 3.0 * step / 1e-3,
        "{device} {holds:?} {lies:?} {edge}: {} m/s",
        seen.shakes
    );
    // A driven rotation that the faces hold does not grow. A wrist that is only sensed flickers with its sensors.
    if device == "ideal-6dof" && matches!(lies, Lies::Flat) {
        assert!(seen.turns.1 <= 1.1 * seen.turns.0 + 0.05, "{edge}: turns {:?}", seen.turns);
    }
    seen
}

/// A hundred times as hard, corners a thousand times: wants up to ten thousand times what the device renders, with
/// nobody to hold it.
#[test]
fn capped_faces_edges_and_corners_come_to_rest() {
    for lies in [Lies::Flat, Lies::OnEdges, Lies::OnCorners] {
        for edge in [0.01, 0.03, 0.1] {
            let stiffness = if matches!(lies, Lies::OnCorners) { 2e6 } else { 2e5 };
            let seen = rests("ideal-6dof", lies, edge, stiffness, 0.0, Holds::Nobody);
            assert!(seen.capped && seen.wanted > 4000.0, "{lies:?} {edge}: the cap was to bite");
        }
    }
}

#[test]
fn corners_at_and_about_the_cap_come_to_rest() {
    for edge in [0.01, 0.03, 0.1] {
        for stiffness in [2e4, 2e5] {
            rests("ideal-6dof", Lies::OnCorners, edge, stiffness, 0.0, Holds::Nobody);
        }
    }
}

/// Rough walls hold the tool along them too, with springs of their own: they come to rest on every device, those among them that sense six
/// axes and drive three, and the speed along the walls dies out as well.
#[test]
fn rough_walls_come_to_rest_on_every_device() {
    let rough = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
    for (device, step) in [
        ("ideal-6dof", 0.0),
        ("novint-falcon", 60e-6),
        ("phantom-omni", 60e-6),
        ("phantom-premium-1.5", 30e-6),
    ] {
        for lies in [Lies::Flat, Lies::OnEdges, Lies::OnCorners] {
            for (edge, stiffness) in [(0.03, 2000.0), (0.1, 2000.0), (0.03, 2e5)] {
                let seen = rests_on(device, lies, edge, stiffness, step, Holds::Nobody, rough);
                assert!(
                    seen.along <= 1.2e-4 + 3.0 * step / 1e-3,
                    "{device} {lies:?} {edge}: {} m/s along",
                    seen.along
                );
            }
        }
    }
}

/// One test for each device and hand, so that they run beside each other.
macro_rules! come_to_rest {
    ($($name:ident: $device:literal, $step:literal, $holds:ident;)*) => {$(
        #[test]
        fn $name() {
            comes_to_rest($device, $step, Holds::$holds);
        }
    )*};
}

come_to_rest! {
    the_ideal_device_comes_to_rest: "ideal-6dof", 0.0, Nobody;
    the_ideal_device_lightly_held_comes_to_rest: "ideal-6dof", 0.0, Light;
    the_ideal_device_held_comes_to_rest: "ideal-6dof", 0.0, Normal;
    the_falcon_comes_to_rest: "novint-falcon", 60e-6, Nobody;
    the_falcon_lightly_held_comes_to_rest: "novint-falcon", 60e-6, Light;
    the_falcon_held_comes_to_rest: "novint-falcon", 60e-6, Normal;
    the_omni_comes_to_rest: "phantom-omni", 60e-6, Nobody;
    the_omni_lightly_held_comes_to_rest: "phantom-omni", 60e-6, Light;
    the_omni_held_comes_to_rest: "phantom-omni", 60e-6, Normal;
    the_premium_comes_to_rest: "phantom-premium-1.5", 30e-6, Nobody;
    the_premium_lightly_held_comes_to_rest: "phantom-premium-1.5", 30e-6, Light;
    the_premium_held_comes_to_rest: "phantom-premium-1.5", 30e-6, Normal;
}
