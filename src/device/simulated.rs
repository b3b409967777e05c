//! The simulated device: a plant with a hand, behind the same trait as real hardware.
//!
//! Host -> `write` -> saturation and rounding to motor codes -> transport delay -> motors -> rigid body, friction,
//! stops, gravity, hand (integrated in steps of 0.1 ms) -> encoder counts -> transport delay -> `read` -> host.
//!
//! The plant lives on the servo's clock: `read(now)` and `write(now)` integrate it up to `now`. Two runs with the
//! same calls give the same bits. After a long gap (a suspended machine) at most [`MAX_STEPS`] steps are made up; the
//! rest of the gap has not happened in the simulated world, but the device's own watchdog has seen it.

pub mod bench;
pub mod faults;
mod friction;
pub mod hand;
mod ideal;
mod linkage;
pub mod path;
pub mod probe;
pub mod script;
mod sensors;
mod transport;

pub use faults::{Fault, FaultKind, Faults};
pub use hand::Hand;
pub use probe::Probe;
pub use script::{HandScript, ScriptError};

use crate::device::actuators::{self, Command};
use crate::device::kinematics::Kinematics;
use crate::device::profile::{Calibration, Profile, SAMPLE_PERIOD_NS, Workspace};
use crate::device::{Accepted, Device, DeviceError, Emergency, Lifecycle, ReadFault, Sample, WriteFault};
use crate::geometry::pose::{Pose, Vec3, Wrench};
use ideal::Ideal;
use linkage::Linkage;
use nalgebra::UnitQuaternion;
use path::Path;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sensors::Sensors;
use std::sync::Arc;
use transport::{CommandQueue, History};

/// Integration step, ns.
pub const STEP_NS: u64 = 100_000;
/// Integration step, s.
pub const STEP: f64 = 1e-4;
/// Most steps integrated in one call.
pub const MAX_STEPS: u64 = 200;

/// How to open a simulated device.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The user.
    pub hand: HandScript,
    /// Seed of sensor noise and lost samples; `None` = the script's, which the tremor always has.
    pub seed: Option<u64>,
    /// Faults besides those of the script.
    pub faults: Faults,
    /// Share of samples lost on the way, 0 to 1.
    pub drop_rate: f64,
    /// Transport delays instead of the profile's, samples (read, write).
    pub delays: Option<(u32, u32)>,
    /// Where accepted commands are noted; `None` = a probe of its own.
    pub probe: Option<Arc<Probe>>,
}

/// State of the mechanism, device frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlantState {
    /// Tool point, m.
    pub tip: Vec3,
    /// m/s.
    pub velocity: Vec3,
    /// Orientation of the tool.
    pub rotation: UnitQuaternion<f64>,
    /// rad/s, device axes.
    pub angular_velocity: Vec3,
    /// Driven joints, rad (the ideal device: unused).
    pub joints: Vec3,
    /// Gimbal angles, rad (unused without a gimbal).
    pub wrist: [f64; 3],
}

enum Plant {
    Ideal(Box<Ideal>),
    Linkage(Box<Linkage>),
}

impl Plant {
    fn state(&self) -> &PlantState {
        match self {
            Self::Ideal(p) => &p.state,
            Self::Linkage(p) => &p.state,
        }
    }
}

/// A simulated haptic device.
pub struct SimulatedDevice {
    profile: Arc<Profile>,
    plant: Plant,
    sensors: Option<Sensors>,
    path: Path,
    has_hand: bool,
    let_go: f64,
    hold_ns: Option<u64>,
    faults: Faults,
    drop_rate: f64,
    rng: Pcg64Mcg,
    probe: Arc<Probe>,
    lifecycle: Lifecycle,
    /// Servo time of plant time zero, ns; moves when a gap is skipped.
    base_ns: Option<u64>,
    steps: u64,
    queue: CommandQueue<Command>,
    history: History,
    read_delay: u32,
    write_delay_ns: u64,
    active: Command,
    /// When the device lets go of its torque, ns; `u64::MAX` = never, or nothing to let go of.
    release_ns: u64,
    last: Option<Sample>,
    seq: u64,
    lost: u32,
}

impl SimulatedDevice {
    /// Builds the plant at the start of the hand's path, at rest. Not real-time.
    ///
    /// # Errors
    /// A drop rate or delay out of range.
    pub fn new(profile: Arc<Profile>, setup: Setup) -> Result<Self, DeviceError> {
        if !(0.0..=1.0).contains(&setup.drop_rate) {
            return Err(DeviceError::Driver(format!("drop rate {} is not between 0 and 1", setup.drop_rate)));
        }
        let (read_delay, write_delay) =
            setup.delays.unwrap_or((profile.transport.read_delay, profile.transport.write_delay));
        let most = crate::device::profile::MAX_DELAY;
        if read_delay > most || write_delay > most {
            return Err(DeviceError::Driver(format!("transport delay above {most} samples")));
        }
        let mut path = Path::new(&setup.hand);
        let start = path.at(0.0);
        let plant = match profile.kinematics {
            Kinematics::Ideal => {
                // The stops stand at the edge of the workspace's bounding cube.
                let stop = match profile.workspace {
                    Workspace::Ball { radius } => radius,
                    Workspace::Box { half } => half[0].max(half[1]).max(half[2]),
                };
                Plant::Ideal(Box::new(Ideal::new(&profile.dynamics, &setup.hand.hand, stop, &start, STEP)))
            }
            Kinematics::Delta(_) | Kinematics::Serial3R(_) => {
                let linkage = Linkage::new(
                    &profile.kinematics,
                    &profile.dynamics,
                    profile.gimbal,
                    &setup.hand.hand,
                    &start,
                    STEP,
                );
                let Some(linkage) = linkage else {
                    let p = start.position;
                    return Err(DeviceError::Driver(format!(
                        "{}: the hand script starts at ({:.4}, {:.4}, {:.4}) m, out of the device's reach; start within \
                         {:.3} m of the origin",
                        profile.name, p.x, p.y, p.z, profile.workspace_radius
                    )));
                };
                Plant::Linkage(Box::new(linkage))
            }
        };
        let hold_ns = profile.torque_hold.map(|s| (s * 1e9) as u64);
        let probe = setup.probe.unwrap_or_default();
        probe.reset(hold_ns);
        let mut faults = setup.hand.faults.clone();
        faults.0.extend(setup.faults.0);
        let lifecycle = match profile.calibration {
            Calibration::None => Lifecycle::Ready,
            Calibration::Homing | Calibration::Reset => Lifecycle::Uncalibrated,
        };
        let sensors = sensors::has_sensors(&profile.kinematics)
            .then(|| Sensors::new(Arc::clone(&profile), plant.state(), lifecycle == Lifecycle::Ready));
        Ok(Self {
            sensors,
            has_hand: setup.hand.hand != Hand::NONE,
            let_go: setup.hand.let_go.unwrap_or(f64::INFINITY),
            plant,
            path,
            hold_ns,
            faults,
            drop_rate: setup.drop_rate,
            rng: Pcg64Mcg::seed_from_u64(setup.seed.unwrap_or(setup.hand.seed)),
            probe,
            lifecycle,
            base_ns: None,
            steps: 0,
            queue: CommandQueue::new(Command::ZERO),
            history: History::new(),
            read_delay,
            write_delay_ns: u64::from(write_delay) * SAMPLE_PERIOD_NS,
            active: Command::ZERO,
            release_ns: u64::MAX,
            last: None,
            seq: 0,
            lost: 0,
            profile,
        })
    }

    /// Where the plant's last accepted command can be read.
    pub fn probe(&self) -> Arc<Probe> {
        Arc::clone(&self.probe)
    }

    /// True state of the mechanism, for tests and plots; the servo sees [`Device::read`] alone.
    pub fn state(&self) -> &PlantState {
        self.plant.state()
    }

    /// Moves the mechanism; for tests, before the first read.
    pub fn set_motion(&mut self, velocity: Vec3, angular_velocity: Vec3) {
        match &mut self.plant {
            Plant::Ideal(p) => {
                p.state.velocity = velocity;
                p.state.angular_velocity = angular_velocity;
            }
            Plant::Linkage(p) => p.set_velocity(&velocity),
        }
    }

    /// Plant time, s since the first read.
    fn time(&self) -> f64 {
        self.steps as f64 * STEP
    }

    /// Servo time of the plant's present, ns.
    fn plant_ns(&self) -> u64 {
        self.base_ns.unwrap_or(0).saturating_add(self.steps * STEP_NS)
    }

    /// Integrates up to `now_ns`. Real-time safe: bounded work.
    fn advance(&mut self, now_ns: u64) {
        let base = *self.base_ns.get_or_insert(now_ns);
        let target = now_ns.saturating_sub(base) / STEP_NS;
        let mut due = target.saturating_sub(self.steps);
        if due > MAX_STEPS {
            let skipped = (due - MAX_STEPS) * STEP_NS;
            self.base_ns = Some(base.saturating_add(skipped));
            self.lost =
                self.lost.saturating_add(u32::try_from(skipped / SAMPLE_PERIOD_NS).unwrap_or(u32::MAX));
            due = MAX_STEPS;
        }
        for _ in 0..due {
            self.step();
        }
        if due > 0
            && let Plant::Linkage(p) = &mut self.plant
        {
            p.sync();
        }
    }

    fn step(&mut self) {
        let now = self.plant_ns();
        while let Some((at, command)) = self.queue.pop_due(now) {
            self.active = command;
            self.probe.record(at, &command.wrench);
        }
        if now > self.release_ns {
            self.release_ns = u64::MAX;
            self.active = Command::ZERO;
            self.probe.record(now, &Wrench::ZERO);
        }
        let middle = (self.steps as f64 + 0.5) * STEP;
        let held = self.has_hand && middle < self.let_go;
        let target = held.then(|| self.path.at(middle));
        match &mut self.plant {
            Plant::Ideal(p) => p.step(&self.active.wrench, target.as_ref()),
            Plant::Linkage(p) => p.step(&self.active.torque, target.as_ref()),
        }
        self.steps += 1;
        if self.read_delay > 0 {
            self.history.push(self.steps, self.plant.state());
        }
        if !self.faults.is_empty() {
            self.lasting_faults();
        }
    }

    /// Faults that change the device's life.
    fn lasting_faults(&mut self) {
        let t = self.faults.unbroken(self.time());
        if self.lifecycle == Lifecycle::Absent {
            return;
        }
        if self.faults.active(FaultKind::Unplug, t).is_some() {
            self.lifecycle = Lifecycle::Absent;
            self.queue.clear();
            self.active = Command::ZERO;
            self.probe.record(self.plant_ns(), &Wrench::ZERO);
        } else if self.faults.active(FaultKind::LinkLost, t).is_some() {
            self.lifecycle = Lifecycle::Absent;
        } else if self.lifecycle == Lifecycle::Ready
            && self.faults.active(FaultKind::LoseCalibration, t).is_some()
        {
            self.lifecycle = Lifecycle::Uncalibrated;
            if let Some(sensors) = &mut self.sensors {
                sensors.forget(self.plant.state());
            }
            // A device that has lost its frame drives nothing: no force means anything.
            self.queue.clear();
            self.active = Command::ZERO;
            self.probe.record(self.plant_ns(), &Wrench::ZERO);
        }
    }

    /// What the driver makes of the encoders now; `None` when it makes no pose of them.
    fn measure(&mut self) -> Option<(Pose, [f64; 6])> {
        let state = match self.read_delay {
            0 => *self.plant.state(),
            n => {
                self.history.before(self.steps, u64::from(n) * SAMPLE_PERIOD_NS / STEP_NS, self.plant.state())
            }
        };
        match &mut self.sensors {
            None => Some(sensors::cartesian(&state)),
            Some(sensors) => sensors.measure(&state, &mut self.rng),
        }
    }

    fn chance(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn accept(&mut self, now_ns: u64, command: Command) {
        self.release_ns = match self.hold_ns {
            Some(hold) => now_ns.saturating_add(self.write_delay_ns).saturating_add(hold),
            None => u64::MAX,
        };
        if self.write_delay_ns == 0 {
            self.active = command;
            self.probe.record(now_ns, &command.wrench);
        } else {
            self.queue.push(now_ns.saturating_add(self.write_delay_ns), command);
        }
    }
}

impl Device for SimulatedDevice {
    fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    fn calibrate(&mut self) -> Result<(), DeviceError> {
        match self.lifecycle {
            Lifecycle::Ready => Ok(()),
            Lifecycle::Absent => Err(DeviceError::Driver(format!(
                "{}: the device is gone; plug it in and open it again",
                self.profile.name
            ))),
            Lifecycle::Fault => Err(DeviceError::Driver(format!(
                "{}: the device is in a fault; open it again",
                self.profile.name
            ))),
            Lifecycle::Booting | Lifecycle::Uncalibrated => {
                if self.faults.active(FaultKind::LoseCalibration, self.time()).is_some() {
                    return Err(DeviceError::Driver(format!(
                        "{}: homing did not succeed; move the tool through its whole range and try again",
                        self.profile.name
                    )));
                }
                if let Some(sensors) = &mut self.sensors {
                    sensors.calibrate();
                    // The driver's joints are right from now on, before the next read too.
                    let state = *self.plant.state();
                    let _ = sensors.measure(&state, &mut self.rng);
                }
                self.lifecycle = Lifecycle::Ready;
                Ok(())
            }
        }
    }

    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let before = self.steps;
        self.advance(now_ns);
        if self.lifecycle == Lifecycle::Absent {
            return Err(ReadFault::Gone);
        }
        let t = self.time();
        let mut spike = None;
        if !self.faults.is_empty() {
            if self.faults.active(FaultKind::Garbled, t).is_some() {
                self.lost = self.lost.saturating_add(1);
                return Err(ReadFault::Garbled);
            }
            if self.faults.active(FaultKind::Stale, t).is_some() {
                self.lost = self.lost.saturating_add(1);
                return Err(ReadFault::Stale);
            }
            if self.faults.active(FaultKind::Duplicate, t).is_some()
                && let Some(last) = self.last
            {
                return Ok(Sample { lost: 0, ..last });
            }
            spike = self.faults.active(FaultKind::Spike, t).map(|f| f.size);
        }
        // Nothing moved since the last read: the device has no newer sample.
        if before == self.steps
            && let Some(last) = self.last
        {
            return Ok(Sample { lost: 0, ..last });
        }
        if self.drop_rate > 0.0 && self.chance() < self.drop_rate {
            self.seq += 1;
            self.lost = self.lost.saturating_add(1);
            return Err(ReadFault::Stale);
        }
        let Some((mut pose, joints)) = self.measure() else {
            self.lost = self.lost.saturating_add(1);
            return Err(ReadFault::Garbled);
        };
        if let Some(size) = spike {
            pose.translation.vector.x += size;
        }
        if !self.faults.is_empty() && self.faults.active(FaultKind::NanPose, t).is_some() {
            pose.translation.vector.y = f64::NAN;
        }
        self.seq += 1;
        let age = u64::from(self.read_delay) * SAMPLE_PERIOD_NS;
        let sample = Sample {
            pose,
            joints,
            time_ns: self.plant_ns().saturating_sub(age),
            seq: self.seq,
            lost: std::mem::take(&mut self.lost),
            buttons: self.path.buttons(t),
        };
        self.last = Some(sample);
        Ok(sample)
    }

    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        self.advance(now_ns);
        match self.lifecycle {
            Lifecycle::Ready => {}
            Lifecycle::Absent => return Err(WriteFault::Gone),
            _ if *wrench == Wrench::ZERO => {}
            _ => return Err(WriteFault::NotReady),
        }
        if !self.faults.is_empty() && self.faults.active(FaultKind::FailWrites, self.time()).is_some() {
            return Err(WriteFault::Failed);
        }
        if !wrench.is_finite() {
            // Never a number that is none: the driver sends zero and says so.
            self.accept(now_ns, Command::ZERO);
            return Err(WriteFault::Failed);
        }
        let joints = match (&self.sensors, &self.last) {
            (Some(sensors), _) => sensors.joints,
            (None, Some(last)) => last.joints,
            (None, None) => [0.0; 6],
        };
        let (command, saturated) = actuators::command(&self.profile, &joints, wrench);
        self.accept(now_ns, command);
        Ok(Accepted { applied: command.wrench, saturated })
    }

    /// Zero overtakes commands that are still on their way. A device whose link is gone cannot be told; its own
    /// watchdog ends its torque (see [`Profile::torque_hold`]).
    fn zero(&mut self, now_ns: u64) {
        if self.lifecycle == Lifecycle::Absent {
            return;
        }
        self.advance(now_ns);
        if self.lifecycle == Lifecycle::Absent {
            return;
        }
        self.queue.clear();
        self.active = Command::ZERO;
        self.probe.record_zero(now_ns);
    }

    fn emergency(&self) -> Option<Arc<dyn Emergency>> {
        (!self.faults.has(FaultKind::Deaf)).then(|| self.probe.clone() as Arc<dyn Emergency>)
    }
}

impl Drop for SimulatedDevice {
    fn drop(&mut self) {
        // The last time known is the plant's own.
        let now = self.plant_ns();
        self.zero(now);
        self.probe.release();
    }
}
