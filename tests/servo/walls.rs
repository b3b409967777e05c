//! Walls that are thinner than a tick's way, or softer than a hand: nothing armed gets through, and what went through by
//! itself is not pulled back.

use crate::device::Puppet;
use crate::world::{Bench, norm, object, scene, sphere_tool};
use hapticd::contact::vps::{PointShell, ShellParams};
use hapticd::contact::{ObjectShape, ToolShape};
use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::device::simulated::HandScript;
use hapticd::geometry::field::Field;
use hapticd::geometry::{Point, Pose, Vec3, shapes};
use hapticd::scene::snapshot::{Snapshot, Tool};
use hapticd::servo::handle::ServoConfig;
use hapticd::servo::record::{FLAG_CONTACT_END, ServoState};
use std::sync::Arc;

/// A sheet about y = 0, 12 mm wide and so thick, m, in cells of half its thickness.
fn sheet(thick: f64) -> ObjectShape {
    let half = Vec3::new(0.006, 0.5 * thick, 0.006);
    let depth = move |p: &Point| {
        let over = p.coords.abs() - half;
        -(over.map(|x| x.max(0.0)).norm() + over.max().min(0.0))
    };
    let cell = 0.5 * thick;
    let nodes = |edge: f64| (edge / cell) as u32 + 10;
    let dims = [nodes(0.012), nodes(thick), nodes(0.012)];
    // A third of a cell beside the nodes.
    let corner = dims.map(|n| -0.5 * f64::from(n - 1) * cell + cell / 3.0);
    ObjectShape::Field(Arc::new(Field::from_fn(Point::from(corner), cell, dims, depth)))
}

/// A ball of 1 mm as points.
fn bead() -> Arc<Tool> {
    let shell = PointShell::build(&shapes::icosphere(0.001, 4), ShellParams::points(400)).expect("a ball");
    let bound_radius = shell.bound_radius;
    let shape = ToolShape::Shell(Arc::new(shell));
    Arc::new(Tool { shape, offset: Pose::identity(), bound_radius, incarnation: 3 })
}

/// A tool with a name and how far from its origin it ends, m.
fn tools() -> Vec<(&'static str, Arc<Tool>, f64)> {
    vec![
        ("point", sphere_tool(0.0), 0.0),
        ("ball", sphere_tool(0.0004), 0.0004),
        ("bead of points", bead(), 0.001),
    ]
}

fn bench(tool: &Arc<Tool>, thick: f64, stiffness: f64) -> (Bench, Puppet) {
    let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.03, 0.0));
    bench.publish(scene(2, tool, vec![object(1, sheet(thick), Pose::identity(), stiffness)]));
    (bench, puppet)
}

fn at(puppet: &Puppet, y: f64) {
    puppet.place(Vec3::new(3e-4, y, 2e-4));
}

#[test]
fn a_fast_hand_is_held_before_a_thin_sheet_and_let_go_when_it_is_back() {
    for (name, tool, reach) in tools() {
        for phase in 0..12 {
            let (mut bench, puppet) = bench(&tool, 2e-4, 1000.0);
            bench.arm();
            // 1 m/s, to 6 mm behind the sheet.
            let mut y = 0.03 + f64::from(phase) * 1e-3 / 12.0;
            let mut last = 0.0;
            while y > -0.006 {
                y -= 1e-3;
                at(&puppet, y);
                let r = bench.step();
                let force = puppet.get().command.force;
                let behind = (reach - y - 1e-4).max(0.0);
                assert!(force.x.abs() < 0.05 && force.z.abs() < 0.05, "{name} {phase}: {force}");
                // Out of the sheet, the more the farther, never through; the sheet itself pushes with no more than its own.
                assert!(force.y >= last - 0.25, "{name} {phase} at {y}: {} after {last}", force.y);
                assert!(behind < 3e-3 || force.y > 0.5, "{name} {phase} at {y}: {} N", force.y);
                assert!(behind < 1e-4 || r.touched == 1, "{name} {phase} at {y}");
                last = force.y;
            }
            let held = bench.steps(50);
            assert!(held.force[1] > 2.0 && held.depth > 4e-3, "{name} {phase}: {:?}", held.force);
            // Back, slowly: the force ends where the tool is on its side again.
            let mut ended = None;
            while y < 0.004 {
                y += 5e-5;
                at(&puppet, y);
                let r = bench.step();
                assert!(puppet.get().command.force.y > -0.05, "{name} {phase} at {y}: pulled");
                if r.flags & FLAG_CONTACT_END != 0 {
                    ended = Some(y);
                }
            }
            let end = ended.expect("ends");
            assert!((end - reach - 1e-4).abs() < 2.5e-4, "{name} {phase}: let go at {end}");
            assert_eq!(puppet.get().command.force, Vec3::zeros());
        }
    }
}

/// Softly and slowly, through a wall of 1 mm: the force never turns round and never jumps.
#[test]
fn a_hard_push_does_not_come_out_on_the_other_side() {
    for (name, tool, reach) in tools() {
        let (mut bench, puppet) = bench(&tool, 1e-3, 800.0);
        bench.arm();
        let (mut y, step) = (0.03, 1e-5);
        while y > 0.003 {
            y -= 2e-4;
            at(&puppet, y);
            bench.step();
        }
        let (mut last, mut worst, mut back) = (0.0f64, 0.0f64, 0.0f64);
        while y > -0.004 {
            y -= step;
            at(&puppet, y);
            let r = bench.step();
            assert_eq!(r.state, ServoState::Rendering, "{name} at {y}");
            let force = puppet.get().command.force.y;
            worst = worst.max((force - last).abs());
            back = back.max(last - force);
            last = force;
        }
        println!("{name}: {last:.2} N at the end, steps of {worst:.4} N, back {back:.4} N");
        // The spring of the material over one step's way, and as much again for the change of the field about the middle.
        assert!(worst < 800.0 * step * 6.0, "{name}: a step of {worst} N");
        assert!(back < 0.02, "{name}: {back} N less on the way in");
        // The material's spring behind the middle.
        assert!(last > 800.0 * (0.004 - 0.001) * 0.9, "{name}: {last} N");
        assert!(last < 800.0 * (0.004 + 5e-4 + reach) * 1.2, "{name}: {last} N");
    }
}

#[test]
fn round_the_edge_the_tool_is_let_go() {
    for (name, tool, _) in tools() {
        let (mut bench, puppet) = bench(&tool, 2e-4, 1000.0);
        bench.arm();
        for k in 0..34 {
            at(&puppet, 0.03 - 1e-3 * f64::from(k));
            bench.step();
        }
        assert!(bench.steps(20).force[1] > 1.0, "{name}: held");
        // Along behind the sheet, past its edge at 6 mm, and up beside it.
        let mut worst = 0.0f64;
        let mut last = bench.last.force;
        for k in 0..=200 {
            puppet.place(Vec3::new(3e-4 + 5e-5 * f64::from(k), -3e-3, 2e-4));
            let r = bench.step();
            worst = worst.max(norm([r.force[0] - last[0], r.force[1] - last[1], r.force[2] - last[2]]));
            last = r.force;
        }
        assert_eq!((bench.last.touched, bench.last.force), (0, [0.0; 3]), "{name}");
        for k in 0..100 {
            puppet.place(Vec3::new(0.0103, -3e-3 + 1e-4 * f64::from(k), 2e-4));
            assert_eq!(bench.step().force, [0.0; 3], "{name}");
        }
    }
}

/// Who moves the tool without force may go where he likes, and is not pulled out of there when he arms.
#[test]
fn without_force_nothing_is_kept() {
    for (name, tool, _) in tools() {
        let (mut bench, puppet) = bench(&tool, 2e-4, 1000.0);
        bench.steps(10);
        for k in 0..40 {
            at(&puppet, 0.03 - 1e-3 * f64::from(k));
            bench.step();
        }
        bench.steps(10);
        bench.arm();
        assert_eq!(bench.steps(50).force, [0.0; 3], "{name}");
        // From here it is the other side that is kept.
        for k in 0..=20 {
            at(&puppet, -0.01 + 1e-3 * f64::from(k));
            bench.step();
        }
        assert!(bench.steps(20).force[1] < -1.0, "{name}: {:?}", bench.last.force);
    }
}

/// What is set elsewhere went through nothing: a sheet that jumps over the tool does not hold it.
#[test]
fn a_jump_of_the_object_is_no_way_through() {
    for (name, tool, _) in tools() {
        let (mut bench, puppet) = bench(&tool, 2e-4, 1000.0);
        bench.arm();
        at(&puppet, 0.004);
        bench.steps(10);
        let up = Pose::translation(0.0, 0.008, 0.0);
        let moved = vec![object(1, sheet(2e-4), up, 1000.0)];
        bench.publish(scene(3, &tool, moved));
        for _ in 0..100 {
            assert_eq!(bench.step().force, [0.0; 3], "{name}");
        }
    }
}

/// The plant in the loop: a firm hand throws the tool at a sheet with 1 m/s and pushes on.
#[test]
fn a_firm_hand_feels_the_sheet_and_comes_back() {
    for (name, tool, reach) in tools() {
        let script = "hand = 'firm'\nkeyframe = [\n{ time = 0.0, position = [0.0003, 0.02, 0.0002] },\n\
                      { time = 1.0, position = [0.0003, 0.02, 0.0002] },\n\
                      { time = 1.024, position = [0.0003, -0.004, 0.0002] },\n\
                      { time = 1.5, position = [0.0003, -0.004, 0.0002] },\n\
                      { time = 1.8, position = [0.0003, 0.02, 0.0002] },\n]\n";
        let hand = HandScript::parse(script).expect("parses");
        let device = Registry::builtin().open("ideal-6dof", &OpenOptions { hand, ..OpenOptions::default() });
        let mut device = device.expect("shipped");
        device.calibrate().expect("calibrates");
        let mut bench = Bench::new(device, ServoConfig::default());
        bench.publish(scene(1, &tool, vec![object(1, sheet(2e-4), Pose::identity(), 2000.0)]));
        bench.step();
        bench.own();
        let (mut lowest, mut held) = (f64::INFINITY, 0);
        while bench.last.planned_ns < 2_200_000_000 {
            let r = bench.step();
            assert_ne!(r.state, ServoState::Fault, "{name}: {:?}", r.fault);
            lowest = lowest.min(r.position[1]);
            let ms = r.planned_ns / 1_000_000;
            // The first bounces are over.
            if (1300..1500).contains(&ms) {
                held += u32::from(r.touched == 1 && r.force[1] > 0.3);
            }
        }
        println!("{name}: lowest {:.2} mm, {held} ticks pushed", lowest * 1e3);
        assert_eq!(held, 200, "{name}: felt while the hand pushes on");
        assert!(lowest > reach - 0.006, "{name}: {lowest}");
        assert_eq!((bench.last.touched, bench.last.force), (0, [0.0; 3]), "{name}");
        assert!(bench.last.position[1] > 0.015, "{name}");
    }
}

/// A workspace enlarged twentyfold: in a tick the tool goes farther than the sheet and its surroundings are wide.
#[test]
fn an_enlarged_hand_is_held_before_a_thin_sheet() {
    let scale = 20.0;
    for (name, tool, reach) in tools() {
        for phase in 0..12 {
            let (mut bench, puppet) = Bench::puppet(Vec3::new(0.0, 0.01, 0.0));
            let mut small = object(1, sheet(2e-4), Pose::identity(), 1000.0);
            small.bound_radius = 0.0086;
            let enlarged = Snapshot::new(2, tool.clone(), vec![small].into(), Pose::identity(), scale);
            bench.publish(Box::new(enlarged));
            bench.arm();
            // 0.9 m/s, 18 mm a tick in the scene, to 6 to 24 mm behind the sheet.
            let mut y = 0.2 + f64::from(phase) * 1.5e-3;
            while y > -0.006 {
                y -= 0.018;
                puppet.place(Vec3::new(3e-4, y, 2e-4) / scale);
                bench.step();
            }
            let held = bench.steps(50);
            let behind = reach - y;
            assert!(
                held.touched == 1 && held.force[1] > 0.0,
                "{name} {phase}: {behind} m behind, {:?}",
                held.force
            );
            assert!((held.depth / behind - 1.0).abs() < 0.1, "{name} {phase}: {} of {behind}", held.depth);
        }
    }
}
