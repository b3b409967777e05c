//! A simulated device, a ball for a tool, and flat walls, on the virtual clock: the shipped servo with nothing else.

use crate::contact::{Friction, Material, ObjectShape, Texture, ToolShape};
use crate::device::profile::Profile;
use crate::device::simulated::{HandScript, Setup, SimulatedDevice};
use crate::device::{Accepted, Device, DeviceError, Lifecycle, ReadFault, Sample, WriteFault};
use crate::geometry::field::Field;
use crate::geometry::{Point, Pose, Vec3, Wrench};
use crate::scene::snapshot::{Snapshot, SnapshotObject, Tool};
use crate::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel};
use crate::servo::record::TickRecord;
use crate::servo::run::VirtualServo;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Radius of the tool, m.
const RADIUS: f64 = 0.01;
/// Half the edge of the wall's field, m.
const HALF: f64 = 0.06;

/// Which walls stand about the tool.
#[derive(Clone, Copy, Debug)]
pub(super) enum Walls {
    /// One of this stiffness (N/m) so far (m) below the tool.
    Below(f64, f64),
    /// One below and one above, both pressed in by this depth (m), of this stiffness together.
    Between(f64, f64),
}

/// The servo, its device and the control side.
pub(super) struct Rig {
    handle: ServoHandle,
    servo: VirtualServo,
    motion: Arc<Mutex<Vec3>>,
}

/// The simulated device, whose true motion is seen from outside: what the servo makes of its readings is filtered and late.
struct Seen {
    device: SimulatedDevice,
    /// Velocity of the tool point, m/s.
    motion: Arc<Mutex<Vec3>>,
}

impl Seen {
    fn look(&self) {
        *self.motion.lock().unwrap_or_else(PoisonError::into_inner) = self.device.state().velocity;
    }
}

impl Device for Seen {
    fn profile(&self) -> &Arc<Profile> {
        self.device.profile()
    }
    fn lifecycle(&self) -> Lifecycle {
        self.device.lifecycle()
    }
    fn calibrate(&mut self) -> Result<(), DeviceError> {
        self.device.calibrate()
    }
    fn read(&mut self, now_ns: u64) -> Result<Sample, ReadFault> {
        let read = self.device.read(now_ns);
        self.look();
        read
    }
    fn write(&mut self, now_ns: u64, wrench: &Wrench) -> Result<Accepted, WriteFault> {
        self.device.write(now_ns, wrench)
    }
    fn zero(&mut self, now_ns: u64) {
        self.device.zero(now_ns);
    }
}

impl Rig {
    /// A device at the hand's start, moving at `speed` m/s along y, armed, with walls about it.
    pub(super) fn new(
        profile: &Arc<Profile>,
        hand: HandScript,
        speed: f64,
        config: ServoConfig,
        walls: Walls,
    ) -> Result<Self, DeviceError> {
        let mut device = SimulatedDevice::new(profile.clone(), Setup { hand, ..Setup::default() })?;
        device.calibrate()?;
        device.set_motion(Vec3::y() * speed, Vec3::zeros());
        let (handle, end) = channel(config);
        let motion = Arc::new(Mutex::new(Vec3::zeros()));
        let device = Box::new(Seen { device, motion: motion.clone() });
        let mut rig = Self { handle, servo: VirtualServo::new(end, device), motion };
        let at = Vec3::from(rig.step().position);
        let wall = |id: u32, turn: f64, from: f64, stiffness: f64| SnapshotObject {
            id,
            incarnation: 1,
            slot: id as u16,
            motion: None,
            pose: Pose::new(at + Vec3::y() * from, Vec3::x() * turn),
            shape: plane(),
            material: Material {
                stiffness,
                reference_area: 1e-4,
                damping: 0.0,
                friction: Friction::NONE,
                texture: Texture::NONE,
            },
            bound_centre: Point::origin(),
            bound_radius: 2.0 * HALF,
        };
        let objects = match walls {
            Walls::Below(stiffness, apart) => vec![wall(1, 0.0, -RADIUS - apart, stiffness)],
            Walls::Between(stiffness, depth) => vec![
                wall(1, 0.0, depth - RADIUS, 0.5 * stiffness),
                wall(2, std::f64::consts::PI, RADIUS - depth, 0.5 * stiffness),
            ],
        };
        let tool = Arc::new(Tool {
            shape: ToolShape::Sphere { radius: RADIUS },
            offset: Pose::identity(),
            bound_radius: RADIUS,
            incarnation: 1,
        });
        // The first generation of a fresh channel cannot be stale, and its command ring is empty.
        let _ = rig.handle.publish(Box::new(Snapshot::new(1, tool, objects.into(), Pose::identity(), 1.0)));
        let _ = rig.handle.send(ServoCommand::Arm { session: 1 });
        let _ = rig.handle.send(ServoCommand::Lease { until_ns: u64::MAX });
        Ok(rig)
    }

    /// The tool point's true velocity as the last tick began, m/s.
    pub(super) fn motion(&self) -> Vec3 {
        *self.motion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One tick.
    pub(super) fn step(&mut self) -> TickRecord {
        let record = self.servo.step();
        self.handle.drain(&mut |_| {});
        record
    }
}

/// Gives force at once: these tools stand where they stand.
pub(super) fn config() -> ServoConfig {
    ServoConfig {
        gate_force: 1e9,
        gate_torque: 1e9,
        gate_ticks: 1,
        ramp_up: 1e-3,
        slew_force: 1e9,
        slew_torque: 1e9,
        ..ServoConfig::default()
    }
}

/// The half-space y < 0, exact under trilinear interpolation.
fn plane() -> ObjectShape {
    static PLANE: OnceLock<Arc<Field>> = OnceLock::new();
    let field = PLANE.get_or_init(|| {
        let nodes = 33;
        let cell = 2.0 * HALF / f64::from(nodes - 1);
        Arc::new(Field::from_fn(Point::new(-HALF, -HALF, -HALF), cell, [nodes; 3], |p| -p.y))
    });
    ObjectShape::Field(field.clone())
}
