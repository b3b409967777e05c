//! A SpaceMouse moves the place of another device's workspace: as far and fast as it says, and never a hand.

use crate::device::Puppet;
use crate::spheres;
use crate::world::{Bench, cube_tool, floor, norm, object, scene, sphere_tool};
use hapticd::contact::ObjectShape;
use hapticd::contact::effect::{Effect, EffectKind, SceneEffect};
use hapticd::device::driver;
use hapticd::device::emulated::Stepped;
use hapticd::device::emulated::bus::{Bus, Plugged};
use hapticd::device::emulated::spacemouse::SpaceMouse;
use hapticd::device::registry::Registry;
use hapticd::geometry::{Pose, Vec3, shapes};
use hapticd::haptics::coupling::{Coupling, Law};
use hapticd::scene::snapshot::{Snapshot, Tool};
use hapticd::servo::handle::{ServoCommand, ServoConfig, channel};
use hapticd::servo::record::{Fault, ServoState, TickRecord};
use hapticd::servo::run::VirtualServo;
use hapticd::servo::view::{GAP, STALE_NS, View};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Speeds at full deflection, as docs/devices.md states them: m/s, rad/s.
const SPEED: f64 = 0.15;
const TURN: f64 = 1.5;
const FULL: i16 = 350;

/// A mouse's servo and that of the device whose view it moves, tick by tick beside each other.
struct Desk {
    mouse: Bench,
    plugged: Plugged<SpaceMouse>,
    bench: Bench,
    puppet: Puppet,
}

fn direct() -> ServoConfig {
    ServoConfig::default()
}

fn dynamic() -> ServoConfig {
    let coupling = Coupling { law: Law::Dynamic, ..Coupling::default() };
    ServoConfig { coupling, ..ServoConfig::default() }
}

impl Desk {
    fn new(at: Vec3, config: ServoConfig, new_layout: bool) -> Self {
        let view = Arc::new(View::default());
        let mut gadget = SpaceMouse::default();
        gadget.new_layout = new_layout;
        let plugged = Plugged::new(Bus::new(gadget, 0.0, 5000, true));
        let profile = Registry::builtin().profile("spacemouse").expect("shipped");
        let port = Box::new(driver::spacemouse::SpaceMouse::default());
        let mut mouse = Bench::new(Box::new(Puppet::new(at)), direct());
        let (handle, mut end) = channel(direct());
        end.moves(view.clone());
        mouse.handle = handle;
        mouse.servo = VirtualServo::new(end, Box::new(Stepped::new(profile, port, plugged.clone())));
        let puppet = Puppet::new(at);
        let mut bench = Bench::new(Box::new(puppet.clone()), config.clone());
        let (handle, mut end) = channel(config);
        end.moved_by(view);
        bench.handle = handle;
        bench.servo = VirtualServo::new(end, Box::new(puppet.clone()));
        Self { mouse, plugged, bench, puppet }
    }

    /// One tick of both.
    fn step(&mut self) -> TickRecord {
        self.mouse.step();
        self.bench.step()
    }

    fn steps(&mut self, n: usize) -> TickRecord {
        (0..n).map(|_| self.step()).last().expect("ticks")
    }

    fn deflect(&mut self, axes: [i16; 6]) {
        self.plugged.bus().gadget.deflect(axes);
    }

    fn press(&mut self, buttons: u8) {
        self.plugged.bus().gadget.press(buttons);
    }

    fn arm(&mut self) {
        self.step();
        for command in [ServoCommand::Arm { session: 1 }, ServoCommand::Lease { until_ns: u64::MAX }] {
            self.bench.handle.send(command).expect("room");
        }
        let on = (0..1000).any(|_| self.step().ramp >= 1.0);
        assert!(on, "never came up: {:?}", self.bench.last);
    }

    /// Where the workspace is shown to stand.
    fn workspace(&self) -> Pose {
        self.bench.handle.counters().workspace.newest().expect("shown").pose
    }

    fn command(&self) -> f64 {
        let c = self.puppet.get().command;
        c.force.norm() + c.torque.norm()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The emulated mouse itself is no code of the servo's.
            assert_eq!(self.bench.handle.counters().heap.load(Relaxed), 0, "a tick touched the heap");
        }
    }
}

fn placed(mut snapshot: Box<Snapshot>, place: Pose, scale: f64) -> Box<Snapshot> {
    (snapshot.device_in_scene, snapshot.workspace_scale) = (place, scale);
    snapshot
}

fn position(r: &TickRecord) -> Vec3 {
    r.position.into()
}

/// Rate times time, in the axes of the workspace, at its size; with the force on or not.
#[test]
fn a_deflection_moves_the_workspace_at_the_speed_it_says() {
    let place = Pose::new(Vec3::new(0.3, 0.1, -0.2), Vec3::new(0.4, -0.2, 0.9));
    for (new_layout, armed, config, scale) in
        [(false, false, direct(), 1.0), (true, true, direct(), 4.0), (false, true, dynamic(), 0.25)]
    {
        let mut desk = Desk::new(Vec3::new(0.01, 0.02, 0.03), config, new_layout);
        desk.bench.publish(placed(scene(1, &sphere_tool(0.001), Vec::new()), place, scale));
        if armed {
            desk.arm();
        }
        desk.steps(50);
        let still = position(&desk.step());
        // Right and, the mouse being lifted, up: half as fast.
        desk.deflect([FULL, 0, -FULL / 2, 0, 0, 0]);
        desk.steps(20);
        let from = position(&desk.step());
        let to = position(&desk.steps(400));
        let way = place.rotation * Vec3::new(SPEED, SPEED / 2.0, 0.0) * (scale * 0.4);
        assert!((to - from - way).norm() < 1e-9, "{:?} is not {way:?}", to - from);
        desk.deflect([0; 6]);
        desk.steps(20);
        // A turn about the workspace's y takes its points along circles, its origin nowhere.
        let before = desk.workspace();
        desk.deflect([0, 0, 0, 0, 0, -FULL]);
        desk.steps(20);
        let start = desk.workspace();
        let end = {
            desk.steps(500);
            desk.workspace()
        };
        let turned = (start.rotation.inverse() * end.rotation).scaled_axis();
        assert!((turned - Vec3::new(0.0, TURN * 0.5, 0.0)).norm() < 1e-9, "{turned:?}");
        assert!((end.translation.vector - before.translation.vector).norm() < 1e-12);
        // The hand has done nothing, and has felt nothing.
        assert!((still - from).norm() < 0.03 * scale);
        assert!(desk.command() < 1e-9, "{}", desk.command());
        assert_eq!(desk.bench.last.fault, Fault::None);
        let shown = desk.workspace() * Vec3::new(0.01, 0.02, 0.03).map(|x| x * scale);
        let tool = desk.workspace().translation.vector + shown;
        assert!((tool - position(&desk.bench.last)).norm() < 1e-9, "it is shown where it stands");
    }
}

/// What tells places and no speeds moves the view as its tool point moves; neither servo touches the heap for it.
#[test]
fn another_device_without_motors_moves_the_view_with_its_tool() {
    let view = Arc::new(View::default());
    let bench = |puppet: &Puppet, moves: bool| {
        let (handle, mut end) = channel(direct());
        match moves {
            true => end.moves(view.clone()),
            false => end.moved_by(view.clone()),
        }
        let mut bench = Bench::new(Box::new(puppet.clone()), direct());
        (bench.handle, bench.servo) = (handle, VirtualServo::new(end, Box::new(puppet.clone())));
        bench.publish(scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]));
        bench
    };
    let (pen, hand) = (Puppet::of("spacemouse", Vec3::zeros()), Puppet::new(Vec3::new(0.0, 0.1, 0.0)));
    let (mut pens, mut hands) = (bench(&pen, true), bench(&hand, false));
    for k in 0..1500u32 {
        // 1e-4 m a tick for half a second; then it rests.
        pen.place(Vec3::new(1e-4 * f64::from(k.saturating_sub(500).min(500)), 0.0, 0.0));
        pens.step();
        hands.step();
        assert_eq!(pens.last.queried, 0, "it has no tool in the scene");
    }
    let went = hands.last.position[0];
    assert!((went - 0.05).abs() < 1e-3, "{went}");
    for bench in [&pens, &hands] {
        assert_eq!(bench.handle.counters().heap.load(Relaxed), 0, "a tick touched the heap");
    }
}

/// Tools of each kind of contact over something flat whose top is at y = 0, each centre 4 cm above.
fn tools() -> Vec<(&'static str, Arc<Tool>, ObjectShape, Pose, f64)> {
    let block = spheres::solid(&shapes::cuboid(Vec3::repeat(0.06)));
    let down = Pose::translation(0.0, -0.03, 0.0);
    vec![
        ("ball", sphere_tool(0.01), floor(), Pose::identity(), 0.01),
        ("points", cube_tool(2000), floor(), Pose::identity(), 0.01),
        ("spheres", spheres::tool(), block, down, 0.01),
    ]
}

/// The view is driven at full speed at a wall, and turned about: the hand, which keeps still, feels nothing, and nothing is touched.
/// Nothing keeps it from being driven away again.
#[test]
fn a_view_never_takes_a_tool_to_a_wall() {
    for (what, tool, shape, at, half) in tools() {
        for config in [direct(), dynamic()] {
            let law = config.coupling.law;
            let mut desk = Desk::new(Vec3::new(0.0, 0.04, 0.0), config, false);
            desk.bench.publish(scene(1, &tool, vec![object(1, shape.clone(), at, 1000.0)]));
            desk.arm();
            desk.deflect([0, 0, FULL, 0, 0, 0]);
            for k in 0..1200 {
                let r = desk.step();
                assert_eq!(r.touched, 0, "{what} {law:?} tick {k}");
                assert!(desk.command() < 1e-3, "{what} {law:?} tick {k}: {} N", desk.command());
            }
            let gap = desk.bench.last.position[1] - half;
            assert!((0.5 * GAP..2.5 * GAP).contains(&gap), "{what} {law:?}: it stops before: {gap}");
            // About an axis of the workspace, far from the tool: corners swing towards the wall.
            for axes in [[0, 0, 0, FULL, 0, 0], [0, 0, 0, 0, FULL, 0], [FULL, FULL, FULL, FULL, FULL, FULL]] {
                desk.deflect(axes);
                for k in 0..400 {
                    let r = desk.step();
                    assert_eq!(r.touched, 0, "{what} {law:?} turned, tick {k}");
                    assert!(desk.command() < 1e-3, "{what} {law:?} turned, tick {k}: {} N", desk.command());
                }
            }
            assert_eq!((desk.bench.last.state, desk.bench.last.fault), (ServoState::Rendering, Fault::None));
            // Lifted off by the hand it goes on.
            desk.deflect([0; 6]);
            desk.steps(20);
            let from = desk.workspace();
            desk.puppet.place(Vec3::new(0.0, 0.06, 0.0));
            desk.deflect([FULL, 0, 0, 0, 0, 0]);
            desk.steps(500);
            let gone = (desk.workspace().translation.vector - from.translation.vector).norm();
            assert!(gone > 0.02, "{what} {law:?}: {gone}");
        }
    }
}

/// Comes down on the floor, presses, strokes and lifts off, with the mouse deflected all the while or not.
fn stroke(
    what: &str,
    tool: &Arc<Tool>,
    shape: &ObjectShape,
    at: Pose,
    config: ServoConfig,
    axes: [i16; 6],
) -> Vec<[u64; 6]> {
    let mut desk = Desk::new(Vec3::new(0.0, 0.015, 0.0), config, true);
    desk.bench.publish(scene(1, tool, vec![object(1, shape.clone(), at, 800.0)]));
    desk.arm();
    let mut felt = Vec::new();
    let mut touched = 0;
    for k in 0..900u32 {
        let t = f64::from(k);
        let down = if k < 300 { 0.02e-3 * t } else { 6e-3 };
        let along = if k < 500 { 0.0 } else { 1e-5 * (t - 500.0) };
        desk.puppet.place(Vec3::new(along, 0.015 - down, 0.0));
        // From the moment at which it touches.
        if touched == 1 {
            desk.deflect(axes);
        }
        let r = desk.step();
        touched += u32::from(r.touched > 0);
        felt.push(
            [r.position, r.force]
                .concat()
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
                .try_into()
                .expect("six"),
        );
    }
    assert!(touched > 500, "{what}");
    felt
}

/// The view stands still while the tool is touched: what is felt is the same to the last bit.
#[test]
fn a_hand_that_presses_feels_nothing_of_the_mouse() {
    for (what, tool, shape, at, _) in tools() {
        // Spheres are slow where nothing is optimized; the law asks none of its tool.
        let laws = if what == "spheres" { vec![direct()] } else { vec![direct(), dynamic()] };
        let pushed = [[0, 0, FULL, 0, 0, 0], [0, 0, -FULL, FULL, 0, -FULL], [FULL; 6]];
        let pushed = if what == "spheres" { &pushed[2..] } else { &pushed[..] };
        for config in laws {
            let quiet = stroke(what, &tool, &shape, at, config.clone(), [0; 6]);
            for axes in pushed {
                assert!(stroke(what, &tool, &shape, at, config.clone(), *axes) == quiet, "{what}, {axes:?}");
            }
        }
    }
}

/// A scene that changes under a moving view, objects that come to the tool, a tool deep in something while nobody holds the force.
#[test]
fn what_comes_to_the_tool_stops_the_view() {
    let mut desk = Desk::new(Vec3::new(0.0, 0.04, 0.0), direct(), true);
    let tool = sphere_tool(0.01);
    desk.bench.publish(scene(1, &tool, Vec::new()));
    desk.arm();
    desk.deflect([0, 0, FULL / 2, 0, 0, 0]);
    desk.steps(100);
    // A floor appears just below the ball: the view is held in its first tick already.
    let under = desk.bench.last.position[1] - 0.01 - 1e-4;
    desk.bench.publish(scene(2, &tool, vec![object(1, floor(), Pose::translation(0.0, under, 0.0), 1000.0)]));
    let before = desk.workspace();
    desk.steps(300);
    assert_eq!(desk.workspace(), before);
    assert_eq!(desk.command(), 0.0);
    // Nobody holds the force: it goes where it is driven, into the floor, too.
    desk.bench.handle.disarm();
    desk.steps(300);
    assert!(desk.bench.last.touched > 0 && desk.command() == 0.0);
    // There it can neither get a force nor be stuck.
    desk.bench.handle.send(ServoCommand::Arm { session: 1 }).expect("room");
    desk.bench.handle.send(ServoCommand::Lease { until_ns: u64::MAX }).expect("room");
    desk.steps(200);
    assert_eq!((desk.bench.last.state, desk.command()), (ServoState::Armed, 0.0));
    desk.deflect([0, 0, -FULL, 0, 0, 0]);
    let on = (0..2000).any(|_| desk.step().ramp >= 1.0);
    assert!(on && desk.command() == 0.0);
}

/// A mouse that is unplugged, and one whose servo hangs, move nothing any more.
#[test]
fn a_mouse_that_is_gone_or_hangs_moves_nothing() {
    for hangs in [false, true] {
        let mut desk = Desk::new(Vec3::zeros(), direct(), false);
        desk.bench.publish(scene(1, &sphere_tool(0.001), Vec::new()));
        desk.steps(50);
        desk.deflect([FULL, 0, 0, 0, 0, 0]);
        desk.steps(100);
        let from = position(&desk.step());
        if hangs {
            // Its ticks do not come any more; the view goes on for as long as a request holds.
            desk.bench.steps(500);
        } else {
            let now = desk.mouse.servo.now_ns();
            desk.plugged.bus().unplug(now);
            desk.steps(500);
        }
        let end = position(&desk.bench.last);
        let most = SPEED * (STALE_NS as f64 * 1e-9 + 2e-3);
        assert!((end - from).norm() <= most, "{hangs}: {:?}", end - from);
        let later = if hangs { desk.bench.steps(200) } else { desk.steps(200) };
        assert_eq!(position(&later), end);
        if !hangs {
            // It comes back with its spring at rest, not with what it said last.
            let now = desk.mouse.servo.now_ns();
            desk.plugged.bus().plug(now);
            let r = desk.steps(1000);
            assert_eq!(position(&r), end);
            desk.deflect([0, FULL, 0, 0, 0, 0]);
            let r = desk.steps(200);
            assert!((position(&r) - end).norm() > 0.5 * SPEED * 0.2, "it moves again");
        }
    }
}

/// The second button puts the view back: a jump of the tool, so what is felt fades out and comes through the gate.
#[test]
fn a_button_puts_the_view_back_without_a_kick() {
    let place = Pose::translation(0.0, 0.005, 0.0);
    let mut desk = Desk::new(Vec3::new(0.0, 0.03, 0.0), direct(), false);
    desk.bench.publish(placed(
        scene(1, &sphere_tool(0.01), vec![object(1, floor(), Pose::identity(), 1000.0)]),
        place,
        1.0,
    ));
    desk.arm();
    desk.deflect([0, 0, -FULL, 0, 0, 0]);
    desk.steps(150);
    desk.deflect([0; 6]);
    desk.steps(20);
    let lifted = desk.workspace().translation.vector.y;
    assert!(lifted > 0.02, "{lifted}");
    // The hand goes down by as much and presses a little.
    let down = |desk: &mut Desk, to: f64| {
        let mut y = desk.puppet.get().pose.translation.vector.y;
        while (y - to).abs() > 1e-9 {
            y += (to - y).clamp(-1e-4, 1e-4);
            desk.puppet.place(Vec3::new(0.0, y, 0.0));
            desk.step();
        }
        desk.steps(100)
    };
    let r = down(&mut desk, 0.0075 - lifted);
    let pressed = norm(r.force);
    assert!((pressed - 2.5).abs() < 0.2, "{pressed}");
    desk.press(2);
    let mut last = pressed;
    let mut zeros = 0;
    for _ in 0..400 {
        let r = desk.step();
        let now = desk.command();
        // Put back it stands some 2 cm deep in the floor: 20 N, of which nothing may come.
        assert!(now <= last + 1e-9, "{now} after {last}");
        assert!(r.fault == Fault::None);
        last = now;
        zeros += u32::from(now == 0.0);
    }
    assert!(zeros > 300, "{zeros}");
    assert_eq!(desk.workspace(), place);
    assert_eq!(desk.bench.last.state, ServoState::Armed);
    // Held, it is pressed once only.
    desk.deflect([0, 0, -FULL, 0, 0, 0]);
    desk.steps(100);
    assert!(desk.workspace().translation.vector.y > place.translation.vector.y + 0.01);
}

fn effect(kind: EffectKind, strength: f64, vector: Vec3) -> SceneEffect {
    SceneEffect { id: 5, effect: Effect { kind, strength, vector, range: 0.03, max_force: 2.0 }, gain: 1.0 }
}

fn publish(desk: &mut Desk, generation: u64, effects: &[SceneEffect]) {
    let snapshot = scene(generation, &sphere_tool(0.005), vec![]).with_effects(effects.into());
    desk.bench.publish(Box::new(snapshot));
}

/// With either law: an effect that pulls to a place holds the view, so that the hand is not dragged from there; what is the same
/// everywhere, a constant force or viscosity, lets it go, and stays what it was.
#[test]
fn an_effect_holds_the_view_where_it_holds_the_tool() {
    let at = Vec3::new(0.01, 0.02, 0.03);
    let near = at + Vec3::new(0.0, 0.01, 0.0);
    let cases = [
        // Below and beyond its maximum.
        (effect(EffectKind::Spring, 100.0, near), true),
        (effect(EffectKind::Spring, 900.0, near), true),
        (effect(EffectKind::Magnet, 1.5, near), true),
        (effect(EffectKind::Constant, 0.0, Vec3::new(0.0, -1.5, 0.0)), false),
        (effect(EffectKind::Viscosity, 5.0, Vec3::zeros()), false),
    ];
    for (effect, holds) in cases {
        for config in [direct(), dynamic()] {
            let what = format!("{:?} {:?}", effect.effect.kind, config.coupling.law);
            let mut desk = Desk::new(at, config, true);
            publish(&mut desk, 1, &[effect]);
            desk.arm();
            desk.steps(600);
            let (from, felt) = (desk.workspace(), desk.puppet.get().command.force);
            assert_eq!(felt.norm() > 0.3, effect.effect.kind != EffectKind::Viscosity, "{what}: {felt:?}");
            desk.deflect([FULL, 0, 0, 0, 0, 0]);
            for k in 0..300 {
                desk.step();
                let now = desk.puppet.get().command.force;
                assert!((now - felt).norm() < 1e-3, "{what} tick {k}: {now:?} was {felt:?}");
            }
            let went = (desk.workspace().translation.vector - from.translation.vector).norm();
            match holds {
                true => assert_eq!(desk.workspace(), from, "{what}"),
                // A few ticks pass until the mouse's report is there.
                false => assert!((went - SPEED * 0.3).abs() < SPEED * 0.03, "{what}: {went}"),
            }
            // Without it the view goes on.
            publish(&mut desk, 2, &[]);
            desk.steps(100);
            let from = desk.workspace();
            desk.steps(200);
            let went = (desk.workspace().translation.vector - from.translation.vector).norm();
            assert!((went - SPEED * 0.2).abs() < 1e-9, "{what}, deleted: {went}");
        }
    }
}

/// A magnet far away: the view comes to its edge, where it does not pull yet.
#[test]
fn a_view_stops_at_the_edge_of_a_magnet() {
    for config in [direct(), dynamic()] {
        let law = config.coupling.law;
        let mut desk = Desk::new(Vec3::zeros(), config, false);
        let magnet = Vec3::new(0.06, 0.0, 0.0);
        publish(&mut desk, 1, &[effect(EffectKind::Magnet, 1.5, magnet)]);
        desk.arm();
        desk.deflect([FULL, 0, 0, 0, 0, 0]);
        for _ in 0..600 {
            desk.step();
            assert!(desk.command() < 0.01, "{law:?}: {} N", desk.command());
        }
        // Its range is 3 cm; a tick's way is 0.15 mm.
        let away = (magnet - position(&desk.bench.last)).norm();
        assert!((0.0295..=0.03).contains(&away), "{law:?}: {away}");
    }
}
