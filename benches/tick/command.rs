//! What control law and guard take of a tick by themselves: the calls that the tick makes between the contacts and the device, on a
//! contact that is given.

use super::TICKS;
use hapticd::device::kinematics::Kinematics;
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::geometry::{Pose, Twist, Vec3, Wrench};
use hapticd::haptics::coupling::dynamic::{Body, Load, Spring, VirtualTool};
use hapticd::haptics::coupling::{self, Caps, Coupling, Felt, Law};
use hapticd::haptics::guard::energy::{Account, EnergyGuard, PORTS, PerPort, Port};
use hapticd::haptics::guard::{self, Limits};
use nalgebra::{Matrix3, Matrix6};
use std::hint::black_box;
use std::time::Instant;

const DT: f64 = 1e-3;

/// The law with all that it remembers.
struct Control {
    law: Law,
    caps: Caps,
    tau: f64,
    factor: f64,
    tool: VirtualTool,
    body: Body,
    spring: Spring,
}

impl Control {
    fn new(law: Law, profile: &Profile, limits: &Limits) -> Self {
        let caps = Caps {
            stiffness: profile.max_stiffness,
            rot_stiffness: profile.max_rot_stiffness,
            damping: profile.max_damping,
            rot_damping: profile.max_rot_damping,
            actuated: profile.actuated,
        };
        let delay = f64::from(profile.transport.read_delay + profile.transport.write_delay) * DT;
        let tau = coupling::damping_time(DT, delay, &caps);
        let mass = Coupling { law, ..Coupling::default() }.virtual_mass().unwrap_or(0.0);
        let body = Body { mass, radius: 0.01, lever: 0.0, fastest: profile.max_velocity };
        // What is not driven is locked to the rest.
        let rot_stiffness = if caps.rot_stiffness > 0.0 {
            caps.rot_stiffness
        } else {
            20.0 * caps.stiffness * body.gyration()
        };
        let spring = Spring {
            stiffness: caps.stiffness,
            rot_stiffness,
            damping: tau * caps.stiffness,
            rot_damping: tau * rot_stiffness,
            max_force: 1.5 * limits.force(),
            max_torque: f64::INFINITY,
            max_stretch: 2.0 * limits.force() / caps.stiffness,
            max_turn: f64::INFINITY,
        };
        let tool = VirtualTool { pose: Pose::identity(), twist: Twist::ZERO };
        Self { law, caps, tau, factor: 1.0, tool, body, spring }
    }

    /// The wrench that the device is to give for a contact, and how stiff it is felt.
    fn step(
        &mut self,
        target: &Pose,
        motion: &Twist,
        wrench: &Wrench,
        stiffness: &Matrix6<f64>,
    ) -> (Wrench, f64) {
        let tau = if self.law == Law::Direct { self.tau } else { DT };
        let relative = if self.law == Law::Direct { motion } else { &self.tool.twist };
        let whole = *wrench + coupling::damping(tau, stiffness, relative, wrench);
        let damping = stiffness * tau;
        let told = coupling::translational(stiffness);
        if self.law == Law::Direct {
            let felt = Felt { wrench: whole, stiffness: *stiffness, damping };
            let rendered = coupling::render(&self.caps, &felt, self.factor, DT);
            self.factor = rendered.factor;
            return (rendered.wrench, told);
        }
        let load = Load { wrench: whole, stiffness: *stiffness, damping, carried: Wrench::ZERO };
        let pulled = self.tool.step(&self.body, &self.spring, target, motion, &load, DT);
        (self.caps.driven(&pulled), told * self.spring.stiffness / (told + self.spring.stiffness))
    }
}

/// The guard's account at the device's ports.
struct Ports {
    guard: EnergyGuard,
    account: Account,
    kinematics: Kinematics,
    jacobian: Matrix3<f64>,
    last: PerPort,
}

impl Ports {
    fn new(guard: EnergyGuard, profile: &Profile) -> Self {
        let mut ports = [Port::default(); PORTS];
        let sure = &profile.certified;
        for (i, port) in ports.iter_mut().enumerate() {
            let count =
                profile.encoders.as_ref().and_then(|e| e.radians_per_count.get(i)).map_or(0.0, |c| c.abs());
            *port = Port {
                driven: profile.driven_ports()[i],
                damping: sure.damping[i],
                friction: sure.coulomb[i],
                count,
            };
        }
        let delay = profile.transport.read_delay + profile.transport.write_delay;
        Self {
            guard,
            account: Account::new(ports, DT, delay),
            kinematics: profile.kinematics,
            jacobian: Matrix3::identity(),
            last: [0.0; PORTS],
        }
    }

    /// A sample of the device: what its ports have moved since the last.
    fn sample(&mut self, tick: u64, ports: &PerPort, place: &Vec3) {
        if self.guard == EnergyGuard::Off {
            return;
        }
        if !matches!(self.kinematics, Kinematics::Ideal) {
            let joints = Vec3::new(ports[0], ports[1], ports[2]);
            self.jacobian =
                self.kinematics.state(&joints, Some(place)).map_or_else(Matrix3::zeros, |s| s.jacobian);
        }
        let moved = std::array::from_fn(|i| ports[i] - self.last[i]);
        self.last = *ports;
        self.account.sample(tick, &moved, DT);
    }

    fn efforts(&self, wrench: &Wrench) -> PerPort {
        let (f, t) = (&wrench.force, &wrench.torque);
        if matches!(self.kinematics, Kinematics::Ideal) {
            return [f.x, f.y, f.z, t.x, t.y, t.z];
        }
        let tau = self.jacobian.tr_mul(f);
        [tau.x, tau.y, tau.z, 0.0, 0.0, 0.0]
    }

    fn bound(&self, tick: u64, command: &Wrench) -> Wrench {
        match self.guard {
            EnergyGuard::Certified => command.scaled(self.account.factor(tick, &self.efforts(command))),
            EnergyGuard::Controller => {
                let [a, b, c, d, e, f] = self.account.repayment();
                let back = match self.kinematics {
                    Kinematics::Ideal => Wrench { force: Vec3::new(a, b, c), torque: Vec3::new(d, e, f) },
                    _ => {
                        let back = self.jacobian.transpose().try_inverse();
                        let force = back.map_or_else(Vec3::zeros, |back| back * Vec3::new(a, b, c));
                        Wrench { force, torque: Vec3::zeros() }
                    }
                };
                *command + back
            }
            EnergyGuard::Off | EnergyGuard::Observe => *command,
        }
    }

    fn applied(&mut self, tick: u64, command: &Wrench) {
        if self.guard != EnergyGuard::Off {
            let efforts = self.efforts(command);
            self.account.applied(tick, &efforts, true, 0.0);
        }
    }
}

/// A contact of a tool that lies flat on a surface, as its query tells it at a depth and a tilt: all of its stiffness counts.
fn contact(depth: f64, tilt: f64) -> (Wrench, Matrix6<f64>) {
    let (k, arm) = (2000.0, 8e-3);
    let force = Vec3::new(tilt * k * depth, k * depth, 0.1 * k * depth);
    let wrench = Wrench { force, torque: Vec3::new(0.0, 0.01 * force.y, arm * force.y) };
    let mut stiffness = Matrix6::zeros();
    for (i, n) in [Vec3::new(tilt, 1.0, 0.1), Vec3::new(-tilt, 1.0, 0.0)].into_iter().enumerate() {
        let torque = Vec3::new(arm, 0.0, if i == 0 { arm } else { -arm }).cross(&n);
        let row = nalgebra::Vector6::new(n.x, n.y, n.z, torque.x, torque.y, torque.z);
        stiffness += 0.5 * k * row * row.transpose();
    }
    (wrench, stiffness)
}

/// Times of control law and guard alone on a device by name, ns.
pub fn alone(device: &str, law: Law, energy: EnergyGuard) -> Vec<u64> {
    let profile = Registry::builtin().profile(device).expect("shipped");
    let limits = Limits::new(profile.max_force, profile.max_torque, 1.0, 0.1);
    let (mut control, mut ports) = (Control::new(law, &profile, &limits), Ports::new(energy, &profile));
    let mut last = Wrench::ZERO;
    let mut ns = Vec::with_capacity(TICKS);
    for k in 0..TICKS + 200 {
        // A hand that presses and sways.
        let s = k as f64 * 0.02;
        let (depth, tilt) = (2e-3 + 1e-3 * s.sin(), 0.3 * (0.7 * s).cos());
        let place = Vec3::new(0.005 * (0.3 * s).sin(), -depth, 0.004 * (0.4 * s).cos());
        let motion = Twist {
            linear: Vec3::new(0.03 * (0.3 * s).cos(), -0.02 * s.cos(), -0.03 * (0.4 * s).sin()),
            angular: Vec3::new(0.1, 0.2 * s.cos(), 0.0),
        };
        let joints = profile.kinematics.inverse(&place).unwrap_or(place);
        let readings = [joints.x, joints.y, joints.z, 0.1 * s.sin(), 0.1 * s.cos(), 0.0];
        let target = Pose::translation(place.x, place.y, place.z);
        let (wrench, stiffness) = contact(depth, tilt);
        let given = black_box((target, motion, wrench, stiffness, readings));
        let start = Instant::now();
        let (target, motion, wrench, stiffness, readings) = &given;
        ports.sample(k as u64, readings, &target.translation.vector);
        let (wanted, felt) = control.step(target, motion, wrench, stiffness);
        let lowered = limits.lowered(1.0, 1.0);
        let command = guard::output(&lowered, &last, &wanted, 1.0).map_or(Wrench::ZERO, |out| out.wrench);
        let command = guard::saturate(&lowered, &ports.bound(k as u64, &command));
        ports.applied(k as u64, &command);
        last = command;
        black_box((command, felt));
        let took = start.elapsed().as_nanos() as u64;
        if k >= 200 {
            ns.push(took);
        }
    }
    assert!(last.is_finite() && last.force.norm() > 0.0, "{device}, {law:?}: a force");
    ns
}
