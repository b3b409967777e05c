//! Scenes with exact fields, and a bench that steps a servo.

use crate::device::Puppet;
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{Friction, Material, ObjectShape, Texture, ToolShape};
use hapticd::device::Device;
use hapticd::geometry::field::Field;
use hapticd::geometry::shapes;
use hapticd::geometry::{Point, Pose, Vec3, Wrench};
use hapticd::scene::snapshot::{
    MOTION_HISTORY, MotionEntry, MotionFrame, MotionSample, Snapshot, SnapshotObject, Tool,
};
use hapticd::servo::handle::{Ack, Refusal, ServoCommand, ServoConfig, ServoHandle, channel};
use hapticd::servo::record::{ServoState, TickRecord, ZeroReason};
use hapticd::servo::run::VirtualServo;
use std::sync::Arc;

pub const MS: u64 = 1_000_000;

/// A field sampled from an exact depth function (positive inside) over a cube of half edge `half` about the origin.
pub fn field(half: f64, nodes: u32, depth: impl Fn(&Point) -> f64) -> Arc<Field> {
    let cell = 2.0 * half / f64::from(nodes - 1);
    Arc::new(Field::from_fn(Point::new(-half, -half, -half), cell, [nodes; 3], depth))
}

/// The half-space y < 0 as far as a cube of 2 x 6 cm reaches: depth -y, exact for trilinear interpolation.
pub fn floor() -> ObjectShape {
    ObjectShape::Field(field(0.06, 33, |p| -p.y))
}

/// A ball of radius 2 cm.
pub fn ball() -> ObjectShape {
    ObjectShape::Field(field(0.03, 49, |p| 0.02 - p.coords.norm()))
}

pub fn material(stiffness: f64) -> Material {
    Material {
        stiffness,
        reference_area: 1e-4,
        damping: 0.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    }
}

pub fn object(id: u32, shape: ObjectShape, pose: Pose, stiffness: f64) -> SnapshotObject {
    SnapshotObject {
        id,
        incarnation: 1,
        slot: id as u16,
        motion: None,
        pose,
        shape,
        material: material(stiffness),
        bound_centre: Point::origin(),
        bound_radius: 0.11,
    }
}

pub fn sphere_tool(radius: f64) -> Arc<Tool> {
    Arc::new(Tool {
        shape: ToolShape::Sphere { radius },
        offset: Pose::identity(),
        bound_radius: radius,
        incarnation: 1,
    })
}

/// A cube of 2 cm as a pointshell.
pub fn cube_tool(points: u32) -> Arc<Tool> {
    let mesh = shapes::cuboid(Vec3::new(0.02, 0.02, 0.02));
    let shell = PointShell::build(&mesh, ShellParams::points(points)).expect("a cube has a shell");
    let bound_radius = shell.bound_radius;
    Arc::new(Tool {
        shape: ToolShape::Shell(Arc::new(shell)),
        offset: Pose::identity(),
        bound_radius,
        incarnation: 2,
    })
}

pub fn scene(generation: u64, tool: &Arc<Tool>, objects: Vec<SnapshotObject>) -> Box<Snapshot> {
    Box::new(Snapshot::new(generation, tool.clone(), objects.into(), Pose::identity(), 1.0))
}

/// A moving object's poses as a client streams them: one every 2 ms, the newest of that time, played 8 ms late.
pub fn streamed(id: u32, newest_ns: u64, lease_until_ns: u64, at: impl Fn(u64) -> Vec3) -> MotionEntry {
    let sample = |i: usize| {
        let time_ns = newest_ns.saturating_sub((MOTION_HISTORY - 1 - i) as u64 * 2 * MS);
        MotionSample { time_ns, pose: Pose::from(at(time_ns)) }
    };
    MotionEntry {
        id,
        incarnation: 1,
        samples: std::array::from_fn(sample),
        len: MOTION_HISTORY as u8,
        delay_ns: 8 * MS,
        lease_until_ns,
    }
}

/// For real time on a busy machine: late and missed ticks are no fault.
pub fn unhurried() -> ServoConfig {
    ServoConfig { late_in_row: u32::MAX, late_per_second: u32::MAX, max_gap: 60.0, ..ServoConfig::default() }
}

/// A servo on the virtual clock with its control side.
pub struct Bench {
    pub handle: ServoHandle,
    pub servo: VirtualServo,
    pub last: TickRecord,
    /// The device, where it is one on strings.
    puppet: Option<Puppet>,
    /// Motion frames published.
    frames: u64,
}

impl Bench {
    pub fn new(device: Box<dyn Device>, config: ServoConfig) -> Self {
        let (handle, end) = channel(config);
        Self {
            handle,
            servo: VirtualServo::new(end, device),
            last: TickRecord::default(),
            puppet: None,
            frames: 0,
        }
    }

    /// A puppet at a place, and a sphere tool of 1 cm over the floor.
    pub fn puppet(at: Vec3) -> (Self, Puppet) {
        let puppet = Puppet::new(at);
        let mut bench = Self::new(Box::new(puppet.clone()), ServoConfig::default());
        bench.puppet = Some(puppet.clone());
        bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]));
        (bench, puppet)
    }

    pub fn publish(&mut self, snapshot: Box<Snapshot>) {
        self.handle.publish(snapshot).expect("generations rise");
        self.handle.reclaim();
    }

    /// One tick. Where the record says that there is no force, it says why, and the device has been told so: what tests say of a
    /// record's zero holds at the motors.
    pub fn step(&mut self) -> TickRecord {
        self.last = self.servo.step();
        self.handle.drain(&mut |_| {});
        let r = &self.last;
        if norm(r.force) == 0.0 && norm(r.torque) == 0.0 {
            assert_ne!(r.zero, ZeroReason::None, "tick {}, {:?}", r.tick, r.state);
            if let Some(puppet) = &self.puppet {
                assert_eq!(puppet.get().command, Wrench::ZERO, "tick {}, {:?}", r.tick, r.zero);
            }
        }
        self.last
    }

    /// One tick, with the poses of object 1 streamed as they were 2 ms before.
    pub fn step_streamed(&mut self, path: impl Fn(u64) -> Vec3) -> TickRecord {
        self.frames += 1;
        let now = self.last.planned_ns + MS;
        let entries = vec![Some(streamed(1, now.saturating_sub(2 * MS), now + 100 * MS, path))];
        self.handle.publish_motion(Box::new(MotionFrame { sequence: self.frames, entries }));
        self.handle.reclaim();
        self.step()
    }

    pub fn steps(&mut self, n: usize) -> TickRecord {
        for _ in 0..n {
            self.step();
        }
        self.last
    }

    /// Sends a command, steps, and gives the answer.
    pub fn command(&mut self, command: ServoCommand) -> Result<(), Refusal> {
        let id = self.handle.send(command).expect("room in the queue");
        self.step();
        let acks: Vec<Ack> = self.handle.acks().collect();
        acks.iter().find(|a| a.id == id).expect("answered in the next tick").result
    }

    /// Arms with an endless lease, in two ticks; the force comes when the gate lets it.
    pub fn own(&mut self) {
        assert_eq!(self.command(ServoCommand::Arm { session: 1 }), Ok(()));
        assert_eq!(self.command(ServoCommand::Lease { until_ns: u64::MAX }), Ok(()));
    }

    /// Arms with an endless lease and steps until the force is fully on; the tool must be in the free.
    pub fn arm(&mut self) {
        self.step();
        self.own();
        let on = (0..1000).any(|_| self.step().ramp >= 1.0);
        assert!(on, "never came up: {:?}", self.last);
        assert_eq!(self.last.state, ServoState::Rendering);
    }
}

pub fn norm(v: [f64; 3]) -> f64 {
    Vec3::from(v).norm()
}
