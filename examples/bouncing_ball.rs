//! The bouncing ball of Sagardia, Stouraitis and Lopes e Silva (2014), section 4.1: a ball of 0.5 m and 1 kg falls 1 m onto a
//! plane of 5 mm voxels; how deep does it get, and how high does it come back?
//!
//! ```text
//! cargo run --release --example bouncing_ball
//! ```
//!
//! The body is moved in steps (semi-implicit Euler, g = 10 m/s^2). An impact turns its speed round, times the coefficient of
//! restitution c; what it is inside is undone by a fifth a step, as physics engines do. Contacts are found
//! at the end of each step, from the manifold ("steps", as in the paper), or on the way ("swept"). What the former
//! gives is mostly the luck of where the steps fall: so the worst of 20 heights within one step's way stands beside it.

use hapticd::contact::vps::{
    ForceLaw, Manifold, ManifoldParams, PointShell, ShellParams, VoxelValue, sweep_to_impact,
};
use hapticd::contact::{
    Budget, Friction, Material, ObjectShape, Query, QueryState, Texture, ToolShape, query,
};
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Pose, Twist, Vec3, shapes};
use nalgebra::UnitQuaternion;
use std::sync::Arc;

/// Radius of the ball, m.
pub const RADIUS: f64 = 0.5;
/// Fall, m.
pub const FALL: f64 = 1.0;
/// Gravity, m/s^2.
pub const GRAVITY: f64 = 10.0;
/// Part of the penetration that is undone in a step.
pub const UNDONE: f64 = 0.2;
/// Restitution, and the paper's largest penetrations in mm: Bullet, 275 points, 25,880 points.
const PAPER: [(f64, [f64; 3]); 3] =
    [(0.1, [42.5, 6.8, 3.5]), (0.5, [42.5, 9.5, 4.0]), (0.9, [42.5, 20.1, 19.2])];

/// How contacts are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detector {
    /// Where each step ends.
    Steps,
    /// On the way.
    Swept,
}

/// What a bounce came to, m.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounce {
    /// Deepest the ball's lowest point got below the plane at the first impact.
    pub first: f64,
    /// The same over all impacts.
    pub deepest: f64,
    /// Height of the lowest point at the top of the first bounce.
    pub rebound: f64,
}

/// The plane z < 0.
pub fn plane() -> ObjectShape {
    let field = Field::from_fn(Point::new(-0.7, -0.7, -0.1), 0.005, [281, 281, 41], |p| -p.z);
    ObjectShape::Field(Arc::new(field))
}

/// A ball of so many points, in no particular orientation.
pub fn ball(points: u32) -> ToolShape {
    let shell = PointShell::build(&shapes::icosphere(RADIUS, 6), ShellParams::points(points));
    ToolShape::Shell(Arc::new(shell.expect("a ball can be sampled")))
}

/// With the ball's lowest point so high.
fn pose(height: f64) -> Pose {
    Pose::from_parts(
        Vec3::new(0.0, 0.0, RADIUS + height).into(),
        UnitQuaternion::from_scaled_axis(Vec3::new(0.4, -0.3, 0.7)),
    )
}

fn at<'a>(tool: &'a ToolShape, object: &'a ObjectShape, pose: &'a Pose, still: &'a Pose) -> Query<'a> {
    const STIFF: Material = Material {
        stiffness: 1.0,
        reference_area: 1.0,
        damping: 0.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    };
    Query {
        tool,
        tool_pose: pose,
        tool_twist: &Twist::ZERO,
        object,
        object_pose: still,
        object_twist: &Twist::ZERO,
        material: &STIFF,
    }
}

/// Drops the ball from `fall` with steps of `dt`, for `seconds`.
pub fn bounce(
    tool: &ToolShape,
    plane: &ObjectShape,
    detector: Detector,
    fall: f64,
    dt: f64,
    restitution: f64,
    seconds: f64,
) -> Bounce {
    let ToolShape::Shell(shell) = tool else { return Bounce::default() };
    let (still, params) = (Pose::identity(), ManifoldParams::default());
    let mut manifold = Manifold::default();
    let (mut z, mut v) = (fall, 0.0);
    let (mut impacts, mut inside) = (0, false);
    let mut out = Bounce::default();
    for _ in 0..(seconds / dt) as usize {
        v -= GRAVITY * dt;
        let (from, to) = (pose(z), pose(z + v * dt));
        let impact = match detector {
            Detector::Swept if v < 0.0 => {
                sweep_to_impact(shell, plane.field(), &from, &to, Budget::UNLIMITED).impact
            }
            _ => None,
        };
        if let Some(impact) = impact {
            // To the impact, and on with the new speed.
            z += v * dt * impact.time;
            out.deepest = out.deepest.max(-z);
            v *= -restitution;
            z += v * dt * (1.0 - impact.time);
            impacts += 1;
        } else {
            z += v * dt;
        }
        let here = pose(z);
        let contacts = manifold.update(&at(tool, plane, &here, &still), &params);
        let touches = contacts.first().filter(|c| c.normal.z > 0.5);
        if let Some(deepest) = touches {
            out.deepest = out.deepest.max(-z);
            if v < 0.0 {
                v *= -restitution;
                impacts += u32::from(!inside);
            }
            z += UNDONE * deepest.depth;
        }
        inside = touches.is_some();
        match impacts {
            0 => {}
            1 => {
                out.first = out.deepest;
                out.rebound = out.rebound.max(z);
            }
            _ => {}
        }
    }
    out
}

/// The first impact of a ball that knows its lowest point exactly, in closed form: steps until it is inside, how deep it is
/// then, and the speed (m/s) at which it arrives. After n steps the speed is g n T and the height
/// h - g T^2 n (n + 1) / 2.
pub fn first_impact(fall: f64, dt: f64) -> (u32, f64, f64) {
    let per = GRAVITY * dt * dt / 2.0;
    // The smallest n with n (n + 1) > h / per.
    let mut n = ((fall / per + 0.25).sqrt() - 0.5).floor().max(0.0);
    while n * (n + 1.0) * per <= fall {
        n += 1.0;
    }
    (n as u32, n * (n + 1.0) * per - fall, GRAVITY * n * dt)
}

/// Height of the top of a flight that begins at `height` with `speed` upwards, in steps: the sum of the positive speeds.
pub fn top(height: f64, speed: f64, dt: f64) -> f64 {
    let steps = (speed / (GRAVITY * dt)).floor();
    height + steps * speed * dt - GRAVITY * dt * dt * steps * (steps + 1.0) / 2.0
}

fn main() {
    let plane = plane();
    println!("ball of {RADIUS} m from {FALL} m, plane of 5 mm voxels; penetration and rebound in mm");
    println!("worst: over 20 heights within one step's way; ideal: c^2 h; paper: its table 1, at 200 Hz\n");
    println!("points  rate   c   found  first  deepest  worst | rebound   ideal   off % | paper  its Bullet");
    let tools = [275, 25_880].map(ball);
    for (tool, column) in tools.iter().zip([1, 2]) {
        let ToolShape::Shell(shell) = tool else { continue };
        for rate in [200.0, 1000.0] {
            for (restitution, paper) in PAPER {
                for detector in [Detector::Steps, Detector::Swept] {
                    let dt = 1.0 / rate;
                    let run = |fall| bounce(tool, &plane, detector, fall, dt, restitution, 3.0);
                    let nominal = run(FALL);
                    let way = first_impact(FALL, dt).2 * dt;
                    let worst = (0..20)
                        .map(|k| run(FALL + way * f64::from(k) / 20.0).deepest)
                        .fold(nominal.deepest, f64::max);
                    let ideal = restitution * restitution * FALL;
                    let of_paper = if rate == 200.0 && detector == Detector::Steps {
                        format!("{:5.1} {:11.1}", paper[column], paper[0])
                    } else {
                        String::new()
                    };
                    println!(
                        "{:6} {rate:5.0} {restitution:4.1} {:>6} {:6.2} {:8.2} {:6.2} | {:7.1} {:7.1} {:7.1} | {of_paper}",
                        shell.len,
                        format!("{detector:?}").to_lowercase(),
                        nominal.first * 1e3,
                        nominal.deepest * 1e3,
                        worst * 1e3,
                        nominal.rebound * 1e3,
                        ideal * 1e3,
                        100.0 * (nominal.rebound / ideal - 1.0),
                    );
                }
            }
        }
    }
    println!(
        "\nforces 10 mm deep, stiffness 1 N/m (classic: a point; default: 1 m^2): equations (2) to (5) beside the area law"
    );
    println!("points        law       force N    depth mm");
    let deep = pose(-0.01);
    for tool in &tools {
        let ToolShape::Shell(shell) = tool else { continue };
        let laws = [
            ("layers", ForceLaw::Classic { value: VoxelValue::Layer, shared: false }),
            ("scaled, p=3", ForceLaw::Classic { value: VoxelValue::Scaled { digits: 3 }, shared: false }),
            ("interpolated", ForceLaw::Classic { value: VoxelValue::Interpolated, shared: false }),
            ("N/10", ForceLaw::Classic { value: VoxelValue::Interpolated, shared: true }),
            ("pressure", ForceLaw::default()),
        ];
        for (name, law) in laws {
            let tool = ToolShape::Shell(Arc::new(PointShell::clone(shell).with_law(law)));
            let still = Pose::identity();
            let c = query(&at(&tool, &plane, &deep, &still), Budget::UNLIMITED, &mut QueryState::default());
            println!("{:6} {name:>12} {:12.6} {:10.3}", shell.len, c.wrench.force.z, c.depth * 1e3);
        }
    }
}
