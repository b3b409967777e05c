//! What the proxy of a ball costs in a tick: on the distance field of a body and on its mesh, stroked and pressed, in the free and
//! thrown about. The bunny where the shared meshes are, and a ball of 20,480 triangles.
//!
//! `cargo bench --bench proxy`. Microseconds and work units, median and p99. Nothing is asserted.

use hapticd::contact::ist::Solid;
use hapticd::contact::{Budget, Friction, Material, ObjectShape, Query, QueryState, Texture, ToolShape};
use hapticd::geometry::bvh::Bvh;
use hapticd::geometry::field::build::{FieldParams, Resolution, Silent, build};
use hapticd::geometry::{Point, Pose, TriMesh, Twist, Vec3, shapes};
use hapticd::haptics::proxy::Proxy;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

#[path = "../tests/meshes/mod.rs"]
#[allow(dead_code, reason = "one mesh is enough")]
mod meshes;

const TICKS: usize = 20_000;

fn at<T: Copy + Ord>(sorted: &[T], q: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

/// Where the hand is in each tick: by this much a tick along a curve about the body, so deep in it or above it.
fn stroke(mesh: &TriMesh, bvh: &Bvh, step: f64, height: f64) -> Vec<Vec3> {
    let (low, high) = mesh.bounds().expect("not empty");
    let (middle, half) = ((low.coords + high.coords) * 0.5, (high - low) * 0.5);
    let mut on = Point::from(middle + half);
    (0..TICKS)
        .map(|k| {
            let t = k as f64 * step / half.norm();
            let out = Vec3::new((1.1 * t).sin(), (1.7 * t + 1.0).sin(), (0.9 * t).cos()).normalize();
            let near = bvh.closest(&Point::from(middle + out * half.norm())).point;
            // No faster than it says, whatever the body.
            let way = near - on;
            on += way * (step / way.norm().max(step));
            let foot = bvh.closest(&on).point;
            let away = (Point::from(middle + out * half.norm()) - foot).normalize();
            foot.coords + away * height
        })
        .collect()
}

fn run(name: &str, object: &ObjectShape, radius: f64, friction: Friction, hand: &[Vec3]) {
    let tool = ToolShape::Sphere { radius };
    let material =
        Material { stiffness: 800.0, reference_area: 1e-4, damping: 1.0, friction, texture: Texture::NONE };
    let (mut state, mut proxy) = (QueryState::following(), Proxy::default());
    let (mut ns, mut units, mut touched) = (Vec::new(), Vec::new(), 0);
    for x in hand {
        let pose = Pose::translation(x.x, x.y, x.z);
        let q = Query {
            tool: &tool,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object,
            object_pose: &Pose::identity(),
            object_twist: &Twist::ZERO,
            material: &material,
        };
        let start = Instant::now();
        let (contact, _) = black_box(proxy.touch(&q, Budget::UNLIMITED, &mut state, 1e-3));
        ns.push(start.elapsed().as_nanos() as u64);
        units.push(contact.work);
        touched += u32::from(contact.touching);
    }
    ns.sort_unstable();
    units.sort_unstable();
    println!(
        "{name:<56} {:>8.2} {:>8.2} us {:>6} {:>6} {:>6} units, {:>3.0} % touched",
        at(&ns, 0.5) as f64 / 1e3,
        at(&ns, 0.99) as f64 / 1e3,
        at(&units, 0.5),
        at(&units, 0.99),
        at(&units, 1.0),
        100.0 * f64::from(touched) / hand.len() as f64
    );
}

fn main() {
    println!("{:<56} {:>8} {:>8}    {:>6} {:>6} {:>6}", "", "median", "p99", "median", "p99", "most");
    let ball = ("ball of 20,480", shapes::icosphere(0.05, 5));
    let bunny = meshes::shared("bunny_filled.ply").map(|m| ("bunny of 69,664", m));
    for (body, mesh) in bunny.into_iter().chain([ball]) {
        let params = FieldParams { resolution: Resolution::Longest(128), ..FieldParams::default() };
        let field = Arc::new(build(&mesh, &params, &Silent).expect("builds").0);
        let solid = Solid::new(&mesh, field.clone(), &|| false).expect("not stopped");
        println!(
            "{body}: field {} kB, triangles and tree {} kB",
            field.bytes() / 1024,
            solid.surface_bytes() / 1024
        );
        let bvh = Bvh::build(&mesh);
        let objects = [("field", ObjectShape::Field(field)), ("mesh", ObjectShape::Solid(Arc::new(solid)))];
        let rubber = Friction { statics: 0.5, dynamic: 0.3, ..Friction::NONE };
        for radius in [0.0, 0.002, 0.01] {
            for (way, step, height, friction) in [
                ("stroked at 0.1 m/s, 1 mm deep", 1e-4, radius - 0.001, Friction::NONE),
                ("stroked at 0.1 m/s, 1 mm deep, rough", 1e-4, radius - 0.001, rubber),
                ("stroked at 1 m/s, 3 mm deep", 1e-3, radius - 0.003, Friction::NONE),
                ("1 m/s, 5 mm above", 1e-3, radius + 0.005, Friction::NONE),
            ] {
                let hand = stroke(&mesh, &bvh, step, height);
                for (on, object) in &objects {
                    let name = format!("{on}, radius {} mm, {way}", radius * 1e3);
                    run(&name, object, radius, friction, &hand);
                }
            }
        }
    }
}
