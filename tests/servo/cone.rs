//! Friction of a ball stays in its cone on a plane, over an edge and in a corner, behind each law: |f_t| <= mu f_n in every sample, for the
//! normals that the shape has there.

use crate::device::Puppet;
use crate::spheres::{blocks, solid};
use crate::world::{Bench, field, object, scene, sphere_tool};
use hapticd::contact::{Friction, ObjectShape};
use hapticd::geometry::{Point, Pose, TriMesh, Vec3, shapes};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::servo::handle::ServoConfig;

/// N/m.
const STIFFNESS: f64 = 1000.0;
/// Of the fields, m.
const CELL: f64 = 1e-3;
const D: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// Something to rub on with a ball.
struct Thing {
    name: &'static str,
    depth: fn(&Point) -> f64,
    mesh: fn() -> TriMesh,
    /// Of its faces, each across the others: it presses in any direction between them.
    normals: &'static [[f64; 3]],
    radius: f64,
    /// Where the hand goes at a time, s.
    path: fn(f64) -> Vec3,
}

/// A cube about this place, turned by `turn` about z.
fn cube(at: Vec3, turn: f64) -> TriMesh {
    let mut mesh = shapes::cuboid(Vec3::repeat(0.08));
    let pose = Pose::new(Vec3::zeros(), Vec3::z() * turn) * Pose::from(at);
    mesh.vertices.iter_mut().for_each(|v| *v = pose * *v);
    mesh
}

const THINGS: [Thing; 3] = [
    Thing {
        name: "a plane",
        depth: |p| -p.y,
        mesh: || cube(Vec3::y() * -0.04, 0.0),
        normals: &[[0.0, 1.0, 0.0]],
        radius: 0.01,
        path: |t| {
            Vec3::new(0.015 * (2.1 * t).sin(), 0.0095 + 0.0015 * (5.3 * t).sin(), 0.012 * (3.7 * t).sin())
        },
    },
    Thing {
        name: "an edge",
        depth: |p| -(p.y + p.x.abs()) * D,
        mesh: || cube(Vec3::new(-0.04, -0.04, 0.0), std::f64::consts::FRAC_PI_4),
        normals: &[[D, D, 0.0], [-D, D, 0.0]],
        radius: 0.01,
        path: |t| {
            Vec3::new(0.005 * (2.1 * t).sin(), 0.009 + 0.0015 * (5.3 * t).sin(), 0.012 * (3.7 * t).sin())
        },
    },
    Thing {
        name: "a corner that goes in",
        depth: |p| -(p.x.min(p.y).min(p.z)),
        mesh: || blocks(&[-0.04, 0.0, 0.06], |c| c.contains(&0)),
        normals: &[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        radius: 0.004,
        path: |t| {
            let h = |a: f64| 0.0042 + 0.001 * (a * t).sin();
            Vec3::new(h(2.1), h(3.7), 0.008 + 0.005 * (1.3 * t).sin())
        },
    },
];

impl Thing {
    /// How far outside of the cone a force lies, N, and what presses of it.
    fn outside(&self, mu: f64, force: &Vec3) -> (f64, f64) {
        let press: Vec3 =
            self.normals.iter().map(|n| Vec3::from(*n)).map(|n| n * force.dot(&n).max(0.0)).sum();
        ((force - press).norm() - mu * press.norm(), press.norm())
    }

    /// A hand presses, strokes, lifts and lands. How far outside the contact's own force, and with the direct law that of the motors, comes at most:
    /// beyond this part of it, N.
    fn rubbed(&self, shape: &ObjectShape, law: Law, friction: Friction, part: f64) -> f64 {
        let mut object = object(1, shape.clone(), Pose::identity(), STIFFNESS);
        object.material.friction = friction;
        let from = Vec3::repeat(0.004);
        let puppet = Puppet::new((self.path)(0.0) + from);
        let coupling = Coupling { law, ..Coupling::default() };
        let mut bench =
            Bench::new(Box::new(puppet.clone()), ServoConfig { coupling, ..ServoConfig::default() });
        bench.publish(scene(1, &sphere_tool(self.radius), vec![object]));
        bench.arm();
        let (mut worst, mut pressed, mut full) = (f64::MIN, 0, 0);
        for k in 0..10_000 {
            let t = f64::from(k) * 1e-3;
            puppet.place((self.path)(t) + from * (1.0 - t / 0.5).max(0.0));
            bench.step();
            let own = Vec3::from(bench.last.contact_force);
            let (off, press) = self.outside(friction.statics, &own);
            worst = worst.max(off - part * own.norm());
            // A virtual tool's spring also carries what moves the tool.
            if law == Law::Direct {
                let felt = puppet.get().command.force;
                worst = worst.max(self.outside(friction.statics, &felt).0 - part * felt.norm());
            }
            pressed += u32::from(press > 0.1);
            full += u32::from(press > 0.1 && off > (0.9 * friction.dynamic - friction.statics) * press);
        }
        assert!(pressed > 3000 && full > 100, "{}: {pressed} ticks pressed, {full} rubbed", self.name);
        worst
    }

    fn stays(&self, kind: &str, shape: &ObjectShape, most: f64, part: f64) {
        let rubber = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
        let oil = Friction { viscous: 3.0, dynamic: 0.2, ..rubber };
        for law in [Law::Direct, Law::Dynamic, Law::Static] {
            for friction in [rubber, Friction { stribeck: 0.02, ..rubber }, oil, Friction::of(0.3)] {
                let worst = self.rubbed(shape, law, friction, part);
                let what = format!("{} of a {kind}, {law:?}, {friction:?}", self.name);
                println!("{what}: {worst:.2e} N outside");
                assert!(worst <= most, "{what}: {worst} N outside");
            }
        }
    }
}

/// Triangles have exact edges and corners; a ball's proxy on them is pushed in a direction that is off by at most 1e-4 (docs/proxy.md).
#[test]
fn no_sample_leaves_the_cone_of_a_mesh() {
    for thing in &THINGS {
        thing.stays("mesh", &solid(&(thing.mesh)()), 1e-9, 1e-4);
    }
}

/// A field's plane is exact. Within a cell of an edge the proxy may stand up to a cell beside (docs/proxy.md), and the spring pulls there.
#[test]
fn no_sample_leaves_the_cone_of_a_field_but_within_a_cell_of_an_edge() {
    for thing in &THINGS {
        let shape = ObjectShape::Field(field(0.05, 101, thing.depth));
        let beside = if thing.normals.len() == 1 { 0.0 } else { STIFFNESS * CELL };
        thing.stays("field", &shape, beside + 1e-9, 0.0);
    }
}
