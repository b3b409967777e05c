//! The closed loop against closed forms: stable stiffness and restitution of the shipped tick on a simulated device, without
//! guard and with the energy bound.

use crate::device::{Inside, Watched};
use crate::world::{Bench, MS, floor, object, scene, sphere_tool};
use hapticd::device::kinematics::Kinematics;
use hapticd::device::profile::{Certified, EXACT_LIMITS, Profile};
use hapticd::device::registry::Registry;
use hapticd::device::simulated::{HandScript, PlantState, Setup, SimulatedDevice};
use hapticd::device::{Accepted, Device, DeviceError, Lifecycle, ReadFault, Sample, WriteFault, actuators};
use hapticd::geometry::{Pose, Twist, Vec3, Wrench};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::haptics::guard::energy::EnergyGuard;
use hapticd::scene::snapshot::SnapshotObject;
use hapticd::servo::handle::{ServoCommand, ServoConfig};
use hapticd::servo::record::{FLAG_ENERGY_BOUND, ServoState, TickRecord};
use std::sync::{Arc, Mutex};

/// Nothing but the law: no limit of the profile or the configuration bites.
pub fn unlimited(profile: &mut Profile) {
    profile.max_stiffness = 1e12;
    profile.max_rot_stiffness = 1e12;
    profile.max_damping = 1e12;
    profile.max_rot_damping = 1e12;
    profile.max_velocity = 1e3;
    profile.max_angular_velocity = 1e4;
}

fn ideal(mass: f64, damping: f64, delay: u32) -> Profile {
    use hapticd::device::dynamics::Inertia;
    let mut profile = Profile::clone(&Registry::builtin().profile("ideal-6dof").expect("shipped"));
    unlimited(&mut profile);
    profile.max_force = 1e6;
    let Inertia::Ideal { mass: m, .. } = &mut profile.dynamics.inertia else { panic!("ideal") };
    *m = mass;
    profile.dynamics.friction.viscous = [damping; 3];
    profile.certified =
        Certified { damping: [damping, damping, damping, 1e-4, 1e-4, 1e-4], coulomb: [0.0; 6] };
    profile.transport.read_delay = 0;
    profile.transport.write_delay = delay;
    profile
}

pub fn config(damping_time: f64, energy: EnergyGuard) -> ServoConfig {
    ServoConfig {
        energy: Some(energy),
        damping_time: Some(damping_time),
        max_velocity: 1e3,
        slew_force: 1e9,
        slew_torque: 1e9,
        gate_force: 1e9,
        gate_torque: 1e9,
        gate_ticks: 1,
        ramp_up: 1e-3,
        ..ServoConfig::default()
    }
}

/// The script of no hand at all.
pub const NOBODY: &str = "hand = 'none'\n";

pub struct Rig {
    pub bench: Bench,
    inside: Arc<Mutex<Inside>>,
}

impl Rig {
    /// A moving device, armed.
    fn new(
        profile: &Profile,
        hand: &str,
        velocity: Vec3,
        config: ServoConfig,
        walls: Vec<SnapshotObject>,
    ) -> Self {
        Self::moving(profile, hand, &Twist { linear: velocity, angular: Vec3::zeros() }, config, walls)
    }

    /// The same, turning as well.
    pub fn moving(
        profile: &Profile,
        hand: &str,
        motion: &Twist,
        config: ServoConfig,
        walls: Vec<SnapshotObject>,
    ) -> Self {
        let profile = Arc::new(profile.clone());
        let hand = HandScript::parse(hand).expect("a hand");
        let mut device =
            SimulatedDevice::new(profile.clone(), Setup { hand, ..Setup::default() }).expect("opens");
        device.calibrate().expect("calibrates");
        device.set_motion(motion.linear, motion.angular);
        let (device, inside) = Watched::new(device);
        let mut bench = Bench::new(Box::new(device), config);
        bench.publish(scene(1, &sphere_tool(0.01), walls));
        bench.command(ServoCommand::Arm { session: 1 }).expect("arms");
        bench.command(ServoCommand::Lease { until_ns: u64::MAX / MS * MS }).expect("leases");
        Self { bench, inside }
    }

    pub fn step(&mut self) -> TickRecord {
        self.bench.step()
    }

    pub fn state(&self) -> PlantState {
        *self.inside.lock().unwrap().device.state()
    }

    fn command(&self) -> actuators::Command {
        self.inside.lock().unwrap().command
    }
}

/// A wall that the ball enters by `depth` when it is at height `at`, from above, or from below.
pub fn wall(id: u32, at: f64, depth: f64, from_above: bool, stiffness: f64) -> SnapshotObject {
    let pose = if from_above {
        Pose::translation(0.0, at - 0.01 + depth, 0.0)
    } else {
        Pose::new(Vec3::new(0.0, at + 0.01 - depth, 0.0), Vec3::x() * std::f64::consts::PI)
    };
    object(id, floor(), pose, stiffness)
}

/// Does an oscillation about the middle between two walls, together of stiffness `k`, grow?
fn grows(mass: f64, damping: f64, virtual_damping: f64, delay: u32, k: f64) -> bool {
    let omega = (k / mass).sqrt();
    let walls = vec![wall(1, 0.0, 5e-3, true, 0.5 * k), wall(2, 0.0, 5e-3, false, 0.5 * k)];
    let velocity = Vec3::y() * (2e-4 * omega);
    let config = config(virtual_damping / k, EnergyGuard::Off);
    let mut rig = Rig::new(&ideal(mass, damping, delay), NOBODY, velocity, config, walls);
    let window = ((40.0 * std::f64::consts::TAU / omega / 1e-3) as usize).max(1500);
    let mut energy = || {
        let mut sum = 0.0;
        for _ in 0..window {
            let r = rig.step();
            if r.state == ServoState::Fault {
                return f64::INFINITY;
            }
            sum += r.position[1] * r.position[1];
        }
        sum
    };
    let before = energy();
    energy() > before
}

#[test]
fn the_stable_stiffness_is_that_of_the_sampled_loop_within_two_percent() {
    for (mass, b, damping, limits) in EXACT_LIMITS {
        for (delay, limit) in (0..).zip(limits) {
            assert!(
                !grows(mass, b, damping, delay, 0.98 * limit),
                "{mass} {b} {damping} {delay}: below {limit}"
            );
            assert!(
                grows(mass, b, damping, delay, 1.02 * limit),
                "{mass} {b} {damping} {delay}: above {limit}"
            );
        }
    }
}

/// What a bounce was like.
struct Bounce {
    /// Kinetic energy after over before, its root.
    restitution: f64,
    /// Largest kinetic energy from first touch on over that at first touch.
    worst: f64,
    bounded: bool,
    /// What the readings' and the codes' rounding can be worth, over the kinetic energy at first touch.
    allowance: f64,
}

/// Kinetic energy of the mechanism, J.
fn kinetic(profile: &Profile, s: &PlantState) -> f64 {
    let w = match profile.kinematics {
        Kinematics::Ideal => s.velocity,
        _ => {
            let link = profile.kinematics.state(&s.joints, None).expect("regular");
            link.jacobian.try_inverse().expect("regular") * s.velocity
        }
    };
    let jacobian = profile.kinematics.state(&s.joints, None).expect("regular").jacobian;
    0.5 * w.dot(&(profile.dynamics.mass_matrix(&s.joints, &jacobian) * w))
}

/// A free mechanism falls on a wall `above` m away at 0.1 m/s.
fn bounce(profile: &Profile, config: ServoConfig, k: f64, above: f64) -> Bounce {
    let mut rig = Rig::new(profile, NOBODY, Vec3::y() * -0.1, config, vec![]);
    let at = rig.bench.last.position;
    let mut floor = wall(1, at[1], -above, true, k);
    floor.pose.translation.x = at[0];
    floor.pose.translation.z = at[2];
    rig.bench.publish(scene(2, &sphere_tool(0.01), vec![floor]));
    let mut last = rig.state();
    for tick in 0.. {
        if rig.step().touched > 0 {
            break;
        }
        last = rig.state();
        assert!(tick < 200, "{}: never touched, {last:?}", profile.name);
    }
    // The last reading before the touch is one of a tick before; nothing was commanded yet.
    let start = kinetic(profile, &last);
    let (mut worst, mut bounded, mut ticks) = (0.0f64, false, 0);
    let (mut way, mut most) = (Vec3::zeros(), Vec3::zeros());
    let mut r = rig.bench.last;
    while r.touched > 0 && ticks < 2000 {
        worst = worst.max(kinetic(profile, &rig.state()));
        bounded |= r.flags & FLAG_ENERGY_BOUND != 0;
        most = most.sup(&rig.command().torque.abs());
        let before = rig.state().joints;
        r = rig.step();
        way += (rig.state().joints - before).abs();
        assert_ne!(r.state, ServoState::Fault, "{}: {:?}", profile.name, r.fault);
        ticks += 1;
    }
    // What was on its way still acts.
    for _ in 0..=profile.transport.write_delay {
        worst = worst.max(kinetic(profile, &rig.state()));
        rig.step();
    }
    let end = kinetic(profile, &rig.state());
    worst = worst.max(end);
    let mut allowance = 0.0;
    if let (Some(encoders), Some(motors)) = (profile.encoders, profile.motors) {
        for i in 0..3 {
            allowance += most[i] * encoders.radians_per_count[i].abs();
            allowance += way[i] * 0.5 * motors.torque_per_code[i].abs();
        }
    }
    Bounce { restitution: (end / start).sqrt(), worst: worst / start, bounded, allowance: allowance / start }
}

/// Mean over where within a sample the touch falls.
fn restitution(mass: f64, damping: f64, virtual_damping: f64, delay: u32, k: f64) -> f64 {
    guarded_restitution(mass, damping, virtual_damping, delay, k, EnergyGuard::Off)
}

fn guarded_restitution(
    mass: f64,
    damping: f64,
    virtual_damping: f64,
    delay: u32,
    k: f64,
    guard: EnergyGuard,
) -> f64 {
    const PHASES: u32 = 16;
    let profile = ideal(mass, damping, delay);
    let sum: f64 = (0..PHASES)
        .map(|i| {
            let above = 2e-3 + 1e-4 * (f64::from(i) + 0.5) / f64::from(PHASES);
            bounce(&profile, config(virtual_damping / k, guard), k, above).restitution
        })
        .sum();
    sum / f64::from(PHASES)
}

/// The passivity controller takes most of what a sampled wall gives too much, and touches nothing where none is given: the wall is as
/// stiff as without.
#[test]
fn the_controller_damps_what_was_given_too_much_and_keeps_the_stiffness() {
    for (mass, b, damping, delay, k, e) in RESTITUTION {
        let with = guarded_restitution(mass, b, damping, delay, k, EnergyGuard::Controller);
        if e > 1.0 {
            // What is given in the last period of a touch stays: there is no contact any more to damp it.
            assert!(
                with * with - 1.0 < 0.5 * (e * e - 1.0),
                "{mass} {b} {damping} {delay} {k}: {with}, without {e}"
            );
        }
        assert!(with <= e * 1.01, "{mass} {b} {damping} {delay} {k}: {with}, without {e}");
    }
    // A hand that presses slowly feels the same with and without.
    let hand = "hand = 'normal'\nkeyframe = [{ time = 0.0, position = [0, 0.002, 0] }, { time = 0.2, position = [0, 0.002, 0] }, \
                { time = 1.2, position = [0, -0.01, 0] }]\n";
    let press = |guard| {
        let walls = vec![wall(1, 0.0, 0.0, true, 1000.0)];
        let mut rig = Rig::new(&ideal(0.1, 1.0, 1), hand, Vec3::zeros(), config(0.0, guard), walls);
        (0..2500).map(|_| rig.step()).last().expect("ticks")
    };
    let (plain, controlled) = (press(EnergyGuard::Observe), press(EnergyGuard::Controller));
    let felt = |r: &TickRecord| Vec3::from(r.applied_force).norm() / r.depth;
    assert!(
        plain.depth > 1e-4 && (felt(&controlled) / felt(&plain) - 1.0).abs() < 0.01,
        "{controlled:?} {plain:?}"
    );
}

/// Restitution without hand and guard (research: exact integration of the sampled loop): mass, b, B, delay, K, e.
const RESTITUTION: [(f64, f64, f64, u32, f64, f64); 15] = [
    (0.1, 0.0, 0.0, 0, 500.0, 1.057),
    (0.1, 0.0, 0.0, 0, 1000.0, 1.082),
    (0.1, 0.0, 0.0, 0, 2000.0, 1.117),
    (0.1, 0.0, 0.0, 0, 5000.0, 1.191),
    (0.1, 0.0, 0.0, 1, 1000.0, 1.264),
    (0.1, 0.0, 0.0, 1, 2000.0, 1.389),
    (0.1, 0.0, 0.0, 1, 5000.0, 1.666),
    (0.25, 0.0, 0.0, 0, 1000.0, 1.051),
    (0.25, 0.0, 0.0, 1, 1000.0, 1.160),
    (0.1, 0.5, 0.0, 0, 1000.0, 0.990),
    (0.1, 1.5, 0.0, 1, 1000.0, 0.955),
    (0.1, 0.0, 1.0, 0, 1000.0, 0.930),
    (0.1, 0.0, 5.0, 0, 1000.0, 0.546),
    (0.1, 0.0, 1.0, 1, 1000.0, 1.090),
    (0.1, 0.0, 5.0, 1, 1000.0, 0.649),
];

#[test]
fn the_restitution_without_guard_is_that_of_the_sampled_loop_within_one_percent() {
    for (mass, b, damping, delay, k, expect) in RESTITUTION {
        let e = restitution(mass, b, damping, delay, k);
        println!("m {mass} b {b} B {damping} n {delay} K {k}: {e:.4}, {expect}");
        assert!(
            (e / expect - 1.0).abs() <= 0.01,
            "m {mass} b {b} B {damping} n {delay} K {k}: {e}, {expect}"
        );
    }
}

/// The shipped profile at this delay; where nothing is certified, what the simulated mechanism really dissipates is.
fn certified(shipped: &Profile, delay: u32) -> Profile {
    let mut profile = shipped.clone();
    unlimited(&mut profile);
    profile.transport.read_delay = 0;
    profile.transport.write_delay = delay;
    if !profile.certifiable() {
        let (f, [a, b, c]) = (profile.dynamics.friction, profile.dynamics.friction.viscous);
        let [d, e, g] = f.coulomb;
        profile.certified =
            Certified { damping: [a, b, c, 0.0, 0.0, 0.0], coulomb: [d, e, g, 0.0, 0.0, 0.0] };
    }
    profile
}

/// Its motors hold its own weight where the tests are. Where they do not, there is no free device: it falls whatever it is told, and no wall
/// throws it back.
fn holds_itself(profile: &Profile) -> bool {
    let q = profile.kinematics.inverse(&Vec3::zeros()).expect("within reach");
    let joints = [q.x, q.y, q.z, 0.0, 0.0, 0.0];
    !actuators::command(profile, &joints, &profile.gravity_compensation(&joints)).1
}

/// Every profile with motors that [hold it](holds_itself).
pub fn free_devices() -> Vec<Arc<Profile>> {
    let motored: Vec<_> =
        Registry::builtin().profiles().iter().filter(|p| p.max_force > 0.0).cloned().collect();
    let (free, heavy): (Vec<_>, Vec<_>) = motored.into_iter().partition(|p| holds_itself(p));
    let heavy: Vec<_> = heavy.iter().map(|p| p.name.as_str()).collect();
    assert_eq!((free.len(), heavy), (7, vec!["woodenhaptics-vintage"]));
    free
}

#[test]
fn certified_contact_gives_no_energy_on_any_profile() {
    for shipped in free_devices() {
        let (mut bounded, mut liveliest, mut runs) = (0, 0.0f64, 0);
        for delay in [0, 1, 2] {
            let profile = certified(&shipped, delay);
            assert!(profile.certifiable(), "{}", profile.name);
            for k in [200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0] {
                for phase in 0..4 {
                    let above = 3e-4 + 2.5e-5 * (f64::from(phase) + 0.5);
                    let b = bounce(&profile, config(0.0, EnergyGuard::Certified), k, above);
                    bounded += u32::from(b.bounded);
                    runs += 1;
                    liveliest = liveliest.max(b.restitution);
                    let what = format!("{} n {delay} K {k}: e {:.4}", profile.name, b.restitution);
                    assert!(b.restitution <= 1.0, "{what}");
                    // A per mille for the plant's own integration.
                    assert!(b.worst <= 1.001 + b.allowance, "{what}, worst {}", b.worst);
                }
            }
        }
        println!("{}: bounded in {bounded} of {runs}, e {liveliest:.4} at most", shipped.name);
        assert!(bounded > 0, "{}: the bound was to bite", shipped.name);
        assert!(liveliest > 0.0, "{}: it was to bounce", shipped.name);
    }
}

/// What commands have given a plant.
struct Given {
    /// Their work on the plant's true motion less what the plant's friction took at least, since contact began, beyond what readings and
    /// codes can hide, at most, J.
    most: f64,
    /// The same, with nothing allowed for.
    plain: f64,
    touched: u32,
    bounded: bool,
}

/// Twenty jabs at a wall. The plant's own coordinates: its joints, or places where it has none. A command stands for a period, so
/// its work is effort times way, exactly; b (dx)^2/T and f |dx| are the least that friction takes. Allowed for is what `bounce` allows
/// for: one count times every change of the effort since contact began, and half a code times the way.
fn jabbed(profile: &Profile, hand: &str, let_go: &str, k: f64, guard: EnergyGuard) -> Given {
    let key = |t: f64, y: f64| format!("{{ time = {t:.3}, position = [0.0, {y:.4}, 0.0] }}");
    let jab: Vec<String> =
        (0..20).map(|i| key(0.1 * f64::from(i), if i % 2 == 0 { 0.0 } else { -0.012 })).collect();
    let script = format!("hand = '{hand}'\n{let_go}keyframe = [{}]\n", jab.join(", "));
    let fall = if hand == "none" { Vec3::y() * -0.1 } else { Vec3::zeros() };
    let mut rig = Rig::new(profile, &script, fall, config(0.0, guard), vec![]);
    let at = rig.bench.last.position;
    let mut floor = wall(1, at[1], if hand == "none" { -5e-4 } else { -3e-3 }, true, k);
    (floor.pose.translation.x, floor.pose.translation.z) = (at[0], at[2]);
    rig.bench.publish(scene(2, &sphere_tool(0.01), vec![floor]));
    let linked = !matches!(profile.kinematics, Kinematics::Ideal);
    let place = |s: &PlantState| if linked { s.joints } else { s.tip };
    // Of the command but what balances the weight: with the weight that does no work.
    let effort = |rig: &Rig| {
        let command = rig.command();
        if !linked {
            return command.wrench.force;
        }
        let joints = rig.inside.lock().unwrap().sample.expect("read").joints;
        let q = Vec3::new(joints[0], joints[1], joints[2]);
        let jacobian = profile.kinematics.state(&q, None).expect("regular").jacobian;
        command.torque - jacobian.tr_mul(&profile.gravity_compensation(&joints).force)
    };
    let count = profile.encoders.map_or([0.0; 3], |e| e.radians_per_count.map(f64::abs));
    let code = profile.motors.as_ref().map_or([0.0; 3], |m| m.torque_per_code.map(f64::abs));
    let delay = profile.transport.write_delay as usize;
    let mut efforts = vec![effort(&rig); delay + 1];
    let (mut net, mut hidden, mut free) = (0.0f64, 0.0f64, 0);
    let mut seen = Given { most: f64::MIN, plain: f64::MIN, touched: 0, bounded: false };
    let mut before = place(&rig.state());
    for _ in 0..2000 {
        let r = rig.step();
        assert_ne!(r.state, ServoState::Fault, "{}: {:?}", profile.name, r.fault);
        // The tick has moved the plant up to now, under the command that was in force.
        let (now, last) = (place(&rig.state()), efforts.len() - 1);
        let (way, tau) = (now - before, efforts[last - delay]);
        before = now;
        efforts.push(effort(&rig));
        for i in 0..3 {
            net += tau[i] * way[i]
                - profile.certified.damping[i] * way[i].powi(2) / 1e-3
                - profile.certified.coulomb[i] * way[i].abs();
            hidden += count[i] * (efforts[last + 1][i] - efforts[last][i]).abs();
            hidden += 0.5 * code[i] * way[i].abs();
        }
        free = if r.touched > 0 { 0 } else { free + 1 };
        if free > delay + 1 {
            (net, hidden) = (0.0, 0.0);
        }
        seen.touched += u32::from(r.touched > 0);
        seen.bounded |= r.flags & FLAG_ENERGY_BOUND != 0;
        seen.most = seen.most.max(net - hidden);
        seen.plain = seen.plain.max(net);
    }
    seen
}

/// On every profile, whatever the hand does, one that lets go included: what the motors have given the plant never exceeds what its
/// friction took. Without the bound it does.
#[test]
fn certified_motors_give_nothing_on_any_profile() {
    for shipped in free_devices() {
        let (mut most, mut plain, mut unbounded, mut bounded) = (f64::MIN, f64::MIN, f64::MIN, 0);
        for delay in [0, 1] {
            let profile = certified(&shipped, delay);
            let f = profile.dynamics.friction;
            for i in 0..3 {
                let takes = (profile.certified.damping[i], profile.certified.coulomb[i]);
                assert!(takes.0 <= f.viscous[i] && takes.1 <= f.coulomb[i], "{}: {takes:?}", profile.name);
            }
            for (hand, let_go) in
                [("none", ""), ("light", ""), ("normal", ""), ("firm", ""), ("normal", "let_go = 0.73\n")]
            {
                for k in [1000.0, 20_000.0] {
                    let seen = jabbed(&profile, hand, let_go, k, EnergyGuard::Certified);
                    let what = format!("{} {hand} {let_go:?} n {delay} K {k}", profile.name);
                    assert!(seen.most <= 1e-9, "{what}: {} J, {} J in all", seen.most, seen.plain);
                    assert!(seen.touched > 20, "{what}: {}", seen.touched);
                    bounded += u32::from(seen.bounded);
                    (most, plain) = (most.max(seen.most), plain.max(seen.plain));
                }
                let observed = jabbed(&profile, hand, let_go, 20_000.0, EnergyGuard::Observe);
                unbounded = unbounded.max(observed.most);
            }
        }
        println!(
            "{}: {most:.2e} J at most, {plain:.2e} J with nothing allowed for, without the bound {unbounded:.2e} J; bounded in {bounded} of 20",
            shipped.name
        );
        assert!(bounded > 0 && unbounded > 1e-6, "{}: {bounded}, {unbounded} J", shipped.name);
    }
}

/// With any hand, one that lets go included: what the commanded force has given the plant in all never exceeds what the
/// plant's own friction took meanwhile.
#[test]
fn certified_force_gives_nothing_whatever_the_hand_does() {
    let key = |t: f64, y: f64| format!("{{ time = {t:.3}, position = [0.0, {y:.4}, 0.0] }}");
    let jab: Vec<String> =
        (0..20).map(|i| key(0.1 * f64::from(i), if i % 2 == 0 { 0.0 } else { -0.012 })).collect();
    for (hand, let_go) in
        [("none", ""), ("light", ""), ("normal", ""), ("firm", ""), ("normal", "let_go = 0.73\n")]
    {
        for delay in [0, 1, 2] {
            for k in [1000.0, 20_000.0] {
                let script = format!("hand = '{hand}'\n{let_go}keyframe = [{}]\n", jab.join(", "));
                let profile = ideal(0.1, 0.1, delay);
                let fall = if hand == "none" { Vec3::y() * -0.1 } else { Vec3::zeros() };
                let walls = vec![wall(1, 0.0, -3e-3, true, k)];
                let mut rig = Rig::new(&profile, &script, fall, config(0.0, EnergyGuard::Certified), walls);
                let (mut given, mut most, mut touched) = (0.0f64, f64::MIN, 0);
                let mut forces = vec![0.0; delay as usize];
                let mut before = rig.state().tip.y;
                for _ in 0..2000 {
                    let r = rig.step();
                    // The tick has moved the plant up to now, under the command that was in force.
                    let y = rig.state().tip.y;
                    let force = if forces.len() > delay as usize {
                        forces[forces.len() - 1 - delay as usize]
                    } else {
                        0.0
                    };
                    given += force * (y - before) - 0.1 * (y - before).powi(2) / 1e-3;
                    before = y;
                    forces.push(rig.command().wrench.force.y);
                    if r.touched == 0 && forces.iter().rev().take(1 + delay as usize).all(|f| *f == 0.0) {
                        given = 0.0;
                    }
                    touched += u32::from(r.touched > 0);
                    most = most.max(given);
                }
                println!("{hand} {let_go:?} n {delay} K {k}: at most {most:.3e} J, touched {touched}");
                assert!(most <= 1e-9, "{hand} {delay} {k}: {most} J");
                assert!(touched > 50, "{hand} {delay} {k}: {touched}");
            }
        }
    }
}

/// Free motion is worth nothing in the next contact: neither the rounding of gravity compensation nor the spring of a virtual tool
/// that is waved about.
#[test]
fn free_motion_earns_no_credit() {
    let wave: Vec<String> = (0..20)
        .map(|i| {
            format!("{{ time = {}, position = [0.0, {}, 0.0] }}", 0.1 * f64::from(i), 0.01 * f64::from(i % 2))
        })
        .collect();
    let hand = format!("hand = 'normal'\nkeyframe = [{}]\n", wave.join(", "));
    let shipped = |name| Registry::builtin().profile(name).expect("shipped");
    // A virtual tool's spring takes its stiffness from the profile.
    let sprung = |delay| {
        let of = shipped("ideal-6dof");
        Profile {
            max_stiffness: of.max_stiffness,
            max_rot_stiffness: of.max_rot_stiffness,
            max_damping: of.max_damping,
            max_rot_damping: of.max_rot_damping,
            max_force: of.max_force,
            ..ideal(0.1, 0.1, delay)
        }
    };
    for (profile, law) in [
        (certified(&shipped("phantom-premium-1.5"), 0), Law::Direct),
        (sprung(0), Law::Direct),
        (sprung(0), Law::Dynamic),
        (sprung(2), Law::Dynamic),
        (sprung(2), Law::Static),
    ] {
        let coupling = Coupling { law, ..Coupling::default() };
        let config = ServoConfig { coupling, ..config(0.0, EnergyGuard::Certified) };
        // A wall far below keeps the scene from being empty.
        let mut rig =
            Rig::new(&profile, &hand, Vec3::zeros(), config, vec![wall(1, -0.05, 0.0, true, 1000.0)]);
        let (mut most, mut fastest, mut pushed) = (f64::MIN, 0.0f64, 0.0f64);
        for tick in 0..2000 {
            let r = rig.step();
            assert_eq!(r.touched, 0, "{} {law:?}: touched", profile.name);
            fastest = fastest.max(rig.state().velocity.norm());
            pushed = pushed.max(rig.command().wrench.force.norm());
            if tick > 100 {
                most = most.max(r.energy);
            }
        }
        println!("{} {law:?} delay {}: at most {most:.3e} J", profile.name, profile.transport.write_delay);
        assert!(fastest > 0.05, "{} {law:?}: it was to be waved, {fastest} m/s", profile.name);
        // Nothing but what commands on their way hold, each at most its force squared times T/4b.
        let on_its_way = f64::from(profile.transport.write_delay) * pushed * pushed * 1e-3 / (4.0 * 0.1);
        assert!(most <= on_its_way, "{} {law:?}: {most} J", profile.name);
    }
}

/// What balances the weight is put back beside what the account covers; a lowered limit holds for both together.
#[test]
fn the_bound_never_brings_more_than_the_limits_allow() {
    let premium = Registry::builtin().profile("phantom-premium-1.5").expect("shipped");
    let profile = certified(&premium, 0);
    let hand = "hand = 'normal'\nkeyframe = [{ time = 0.1, position = [0.0, 0.0, 0.0] }, \
                { time = 1.1, position = [0.0, -0.01, 0.0] }]\n";
    let mut rig = Rig::new(&profile, hand, Vec3::zeros(), config(0.0, EnergyGuard::Certified), vec![]);
    let at = rig.bench.last.position;
    let mut floor = wall(1, at[1], -1e-3, true, 20_000.0);
    (floor.pose.translation.x, floor.pose.translation.z) = (at[0], at[2]);
    rig.bench.publish(scene(2, &sphere_tool(0.01), vec![floor]));
    for _ in 0..1500 {
        rig.step();
    }
    assert!(rig.bench.last.bound < 1.0 && rig.bench.last.touched > 0, "bounded in contact");
    for limit in [0.5, 0.05, 0.0] {
        let lower = ServoCommand::Limits { force: limit, torque: 1.0, velocity: 1e3 };
        rig.bench.command(lower).expect("lowered");
        for _ in 0..50 {
            let r = rig.step();
            let force = Vec3::from(r.force).norm();
            assert!(force <= limit * (1.0 + 1e-9), "{force} N with a limit of {limit} N");
        }
    }
}

/// Pressed by a hand the bound lets 2 b/((n + 1) T) be felt, and friction beyond.
#[test]
fn certified_contact_is_felt_as_stiff_as_the_friction_covers() {
    let hand = "hand = 'normal'\nkeyframe = [{ time = 0.1, position = [0.0, 0.0, 0.0] }, \
                { time = 1.1, position = [0.0, -0.01, 0.0] }]\n";
    for (delay, b) in [(0, 0.1), (0, 0.5), (1, 0.5), (2, 0.5)] {
        let walls = vec![wall(1, 0.0, -1e-3, true, 20_000.0)];
        let mut rig =
            Rig::new(&ideal(0.1, b, delay), hand, Vec3::zeros(), config(0.0, EnergyGuard::Certified), walls);
        for _ in 0..2500 {
            rig.step();
        }
        let (r, covered) = (rig.bench.last, 2.0 * b / (f64::from(delay + 1) * 1e-3));
        let felt = r.force[1] / r.depth;
        println!("n {delay} b {b}: {felt:.1} N/m, {covered}");
        assert!((felt / covered - 1.0).abs() < 0.1, "n {delay} b {b}: {felt}, {covered}");
        assert!(r.bound < 1.0 && r.flags & FLAG_ENERGY_BOUND != 0);
    }
}

/// Kept and shown, the force as without: bit for bit.
#[test]
fn observing_changes_nothing_and_shows_the_balance() {
    let mut seen = vec![];
    for guard in [EnergyGuard::Off, EnergyGuard::Observe] {
        let walls = vec![wall(1, 0.0, -2e-3, true, 2000.0)];
        let mut rig = Rig::new(&ideal(0.1, 0.1, 0), NOBODY, Vec3::y() * -0.1, config(0.0, guard), walls);
        seen.push((0..200).map(|_| rig.step()).collect::<Vec<_>>());
    }
    for (off, on) in seen[0].iter().zip(&seen[1]) {
        assert_eq!((off.force, off.position, on.bound), (on.force, on.position, 1.0));
        assert_eq!(off.energy, 0.0);
    }
    // Twice the speed squared: the wall returned more than it took, and the account says so at the end of the contact.
    let touching: Vec<_> = seen[1].iter().filter(|r| r.touched > 0).collect();
    let stored = touching.iter().map(|r| r.energy).fold(0.0, f64::max);
    assert!((4e-4..6e-4).contains(&stored), "half a mJ of kinetic energy: {stored}");
    assert!(touching.last().expect("touched").energy < -1e-5, "a debt");
}

/// A device whose samples say when they were seen: every other one late by so much, ns.
struct SeenLate {
    inner: SimulatedDevice,
    late_ns: u64,
}

impl Device for SeenLate {
    fn profile(&self) -> &Arc<Profile> {
        self.inner.profile()
    }
    fn lifecycle(&self) -> Lifecycle {
        self.inner.lifecycle()
    }
    fn calibrate(&mut self) -> Result<(), DeviceError> {
        self.inner.calibrate()
    }
    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let sample = self.inner.read(now_ns)?;
        let late = if sample.seq.is_multiple_of(2) { self.late_ns } else { 0 };
        Ok(Sample { time_ns: (sample.time_ns + late).saturating_sub(MS), ..sample })
    }
    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        self.inner.write(now_ns, wrench)
    }
    fn zero(&mut self, now_ns: u64) {
        self.inner.zero(now_ns);
    }
}

/// The same motion under the same forces, only that every other sample is seen 0.4 ms late: no more is credited than is certain of it.
#[test]
fn samples_that_are_seen_late_earn_no_more_than_others() {
    let run = |late_ns: u64| -> Vec<TickRecord> {
        let mut inner = SimulatedDevice::new(Arc::new(ideal(0.1, 0.5, 0)), Setup::default()).expect("opens");
        inner.calibrate().expect("calibrates");
        inner.set_motion(Vec3::y() * -0.1, Vec3::zeros());
        let device = SeenLate { inner, late_ns };
        // Without damping the law does not ask how fast the tool is.
        let mut bench = Bench::new(Box::new(device), config(0.0, EnergyGuard::Observe));
        bench.publish(scene(1, &sphere_tool(0.01), vec![wall(1, 0.0, -2e-3, true, 2000.0)]));
        bench.command(ServoCommand::Arm { session: 1 }).expect("arms");
        bench.command(ServoCommand::Lease { until_ns: u64::MAX / MS * MS }).expect("leases");
        (0..200).map(|_| bench.step()).collect()
    };
    let (on_time, late) = (run(0), run(400_000));
    let mut touched = 0;
    for (a, b) in on_time.iter().zip(&late) {
        assert_eq!((a.position, a.force), (b.position, b.force));
        assert!(b.energy <= a.energy + 1e-12, "tick {}: {} J, on time {} J", a.tick, b.energy, a.energy);
        touched += u32::from(a.touched > 0);
    }
    assert!(touched > 15, "{touched}");
}
