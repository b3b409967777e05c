//! The same promises from the drivers of real devices, each over its emulator: a bus with frames, stalls and damage, the
//! published bytes, the simulated mechanism. Truth is the emulator's own state.

use super::clauses::{self, is_asked};
use super::{CALLS, push};
use hapticd::device::driver;
use hapticd::device::emulated::bus::{Bus, DAMAGES, Gadget, Plugged};
use hapticd::device::emulated::{self, Stepped};
use hapticd::device::io::port::{Arrived, Latest, Pace, Port, Start};
use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::shared::Shared;
use hapticd::device::io::thread::now_ns;
use hapticd::device::io::{self, front::Front};
use hapticd::device::profile::Profile;
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::device::wire::hid_haptic::Layout;
use hapticd::device::{Device, Emergency, IoMode, Lifecycle, ReadFault, Sample, WriteFault};
use hapticd::geometry::pose::{Twist, Vec3, Wrench, pose_is_finite};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(super) const MS: u64 = 1_000_000;

/// A driver over an emulated device, and what the emulator alone knows.
pub(super) trait Rig: Device {
    fn motors(&self) -> [i16; 3];
    fn most(&self) -> i16;
    fn tip(&self) -> Vec3;
    fn applied(&self) -> Vec<(u64, [i16; 3])>;
    fn unplug(&mut self, now: u64);
    fn plug(&mut self, now: u64);
    fn damage(&mut self, share: f64);
    fn refuse(&mut self, on: bool);
    fn stall(&mut self, from: u64, to: u64);
    /// Calibrated, wherever it is held.
    fn calibrated(&mut self) -> u64;
    /// Lets the hand come from the pose of calibration into the workspace.
    fn at_work(&mut self) -> u64;
    fn ready(&mut self) -> u64 {
        self.calibrated();
        self.at_work()
    }
    fn now(&self) -> u64;
    fn shared(&self) -> Arc<Shared>;
    fn witness(&self) -> Box<dyn Fn() -> [i16; 3]>;
    /// A user does something, where nothing is told otherwise.
    fn stir(&mut self, k: u64);
}

trait Motors: Gadget + 'static {
    const MOST: i16;
    /// From when on its hand is in the workspace.
    const AT_WORK: u64 = 0;
    fn now(&self) -> [i16; 3];
    fn tip(&self) -> Vec3;
    fn applied(&self) -> &[(u64, [i16; 3])];
    /// A user does something, where nothing is told otherwise.
    fn stir(&mut self, _k: u64) {}
    /// Homes or calibrates, by hand as it were.
    fn calibrated(device: &mut Stepped<Self>) -> bool
    where
        Self: Sized;
}

impl Motors for emulated::falcon::Falcon {
    const MOST: i16 = 4096;
    fn now(&self) -> [i16; 3] {
        self.codes()
    }
    fn tip(&self) -> Vec3 {
        self.tip()
    }
    fn applied(&self) -> &[(u64, [i16; 3])] {
        &self.applied
    }
    fn calibrated(device: &mut Stepped<Self>) -> bool {
        device.until_ready(3000 * MS)
    }
}

impl Motors for emulated::hid_haptic::HidHaptic {
    const MOST: i16 = 2000;
    const AT_WORK: u64 = 550 * MS;
    fn now(&self) -> [i16; 3] {
        self.currents()
    }
    fn tip(&self) -> Vec3 {
        self.tip()
    }
    fn applied(&self) -> &[(u64, [i16; 3])] {
        &self.applied
    }
    fn calibrated(device: &mut Stepped<Self>) -> bool {
        let now = device.now_ns();
        device.advance(now + 30 * MS);
        device.shared().ask_calibration();
        device.until_ready(3000 * MS)
    }
}

impl Motors for emulated::spacemouse::SpaceMouse {
    const MOST: i16 = 0;
    fn now(&self) -> [i16; 3] {
        [0; 3]
    }
    fn tip(&self) -> Vec3 {
        Vec3::zeros()
    }
    fn applied(&self) -> &[(u64, [i16; 3])] {
        &[]
    }
    fn stir(&mut self, k: u64) {
        self.deflect([(k % 700) as i16 - 350, 350, 0, 0, (k % 3) as i16, -350]);
    }
    fn calibrated(device: &mut Stepped<Self>) -> bool {
        device.until_ready(3000 * MS)
    }
}

impl<G: Motors> Rig for Stepped<G> {
    fn motors(&self) -> [i16; 3] {
        self.plugged().bus().gadget.now()
    }
    fn most(&self) -> i16 {
        G::MOST
    }
    fn tip(&self) -> Vec3 {
        self.plugged().bus().gadget.tip()
    }
    fn applied(&self) -> Vec<(u64, [i16; 3])> {
        self.plugged().bus().gadget.applied().to_vec()
    }
    fn unplug(&mut self, now: u64) {
        self.advance(now);
        self.plugged().bus().unplug(now);
    }
    fn plug(&mut self, now: u64) {
        self.advance(now);
        self.plugged().bus().plug(now);
    }
    fn damage(&mut self, share: f64) {
        self.plugged().bus().damage(share, &DAMAGES, 4);
    }
    fn refuse(&mut self, on: bool) {
        self.plugged().bus().refuse(on);
    }
    fn stall(&mut self, from: u64, to: u64) {
        self.plugged().bus().stall(from, to);
    }
    fn calibrated(&mut self) -> u64 {
        assert!(G::calibrated(self), "{}", self.shared().trouble());
        (self.now_ns() / MS + 1) * MS
    }
    fn at_work(&mut self) -> u64 {
        self.advance(G::AT_WORK);
        (self.now_ns() / MS + 1) * MS
    }
    fn now(&self) -> u64 {
        self.now_ns()
    }
    fn shared(&self) -> Arc<Shared> {
        self.shared().clone()
    }
    fn witness(&self) -> Box<dyn Fn() -> [i16; 3]> {
        let plugged = self.plugged().clone();
        Box::new(move || plugged.bus().gadget.now())
    }
    fn stir(&mut self, k: u64) {
        self.plugged().bus().gadget.stir(k);
    }
}

/// Every WoodenHaptics, and where its tool point is in the pose in which it is calibrated: body b upright and straight ahead, body c level or, with the Vintage, hanging
/// along it. They differ in lengths, gears, counts, that pose and the motors' torque; reports and 2 A are the same. There the Vintage is folded as far as it goes, with its
/// tool on the axis of its waist, where no force at the tool is known: body c is a thousandth of a radian before that.
const WOODEN: [(&str, [f64; 3]); 3] = [
    ("woodenhaptics-v2015", [0.0, 0.205, 0.025]),
    ("woodenhaptics-v2019", [0.0, 0.205, 0.025]),
    ("woodenhaptics-vintage", [0.0, 0.082000056, -0.139888]),
];
const LAYOUTS: [Layout; 2] = [Layout::Short, Layout::Padded];

fn calibration_pose(name: &str) -> Option<Vec3> {
    WOODEN.iter().find(|(known, _)| *known == name).map(|(_, at)| Vec3::from(*at))
}

/// A hand that holds it in its calibration pose for a tenth of a second, and then takes it into the middle of its workspace.
fn wooden_gadget(profile: &Profile, layout: Layout) -> emulated::hid_haptic::HidHaptic {
    let at: [f64; 3] = calibration_pose(&profile.name).expect("a WoodenHaptics").into();
    let hand = HandScript::parse(&format!(
        "hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = {at:?}\n[[keyframe]]\ntime = 0.1\nposition = {at:?}\n\
         [[keyframe]]\ntime = 0.5\nposition = [0.0, 0.0, 0.0]\n"
    ));
    emulated::hid_haptic::HidHaptic::new(profile, &hand.expect("script"), layout.length()).expect("in reach")
}

fn wooden_port(profile: &Profile, layout: Layout) -> Box<dyn Port> {
    let preset = profile.encoders.expect("encoders").preset.map(|p| p.try_into().expect("of 16 bits"));
    Box::new(driver::hid_haptic::HidHaptic::new(layout, preset))
}

pub(super) fn profile(name: &str) -> Arc<Profile> {
    Registry::builtin().profile(name).expect("shipped")
}

fn falcon(setup: emulated::falcon::Setup, firmware: Option<Vec<u8>>) -> Box<dyn Rig> {
    let profile = profile("novint-falcon");
    let hand =
        HandScript::parse("hand = 'firm'\n[[keyframe]]\ntime = 0.0\nposition = [0.01, -0.005, 0.008]\n")
            .expect("script");
    let gadget = emulated::falcon::Falcon::new(&profile, &hand, setup).expect("in reach");
    let port = driver::falcon::Falcon::new(firmware.map(Into::into));
    Box::new(Stepped::new(profile, Box::new(port), Plugged::new(Bus::new(gadget, 120.0, 345_678, false))))
}

fn wooden(name: &str, layout: Layout) -> Box<dyn Rig> {
    let profile = profile(name);
    let bus = Bus::new(wooden_gadget(&profile, layout), -150.0, 91_000, true);
    Box::new(Stepped::new(profile.clone(), wooden_port(&profile, layout), Plugged::new(bus)))
}

/// Each of them with each of its reports.
fn woodens() -> impl Iterator<Item = (String, Box<dyn Rig>)> {
    WOODEN.iter().flat_map(|(name, _)| {
        LAYOUTS.map(|layout| (format!("{name}, {} bytes", layout.length()), wooden(name, layout)))
    })
}

fn mouse(new_layout: bool) -> Box<dyn Rig> {
    let mut gadget = emulated::spacemouse::SpaceMouse::default();
    gadget.new_layout = new_layout;
    let port = Box::new(driver::spacemouse::SpaceMouse::default());
    Box::new(Stepped::new(profile("spacemouse"), port, Plugged::new(Bus::new(gadget, 80.0, 5000, true))))
}

/// Every driver of which this is asked.
fn each(clause: &str, check: impl Fn(&str, Box<dyn Rig>)) {
    let homes = emulated::falcon::Setup { homes_after: Some(15 * MS), ..Default::default() };
    let mice = [("SpaceMouse, old layout", mouse(false)), ("SpaceMouse, new layout", mouse(true))];
    let all = [("Falcon".into(), falcon(homes, None))].into_iter().chain(woodens());
    for (name, rig) in all.chain(mice.map(|(name, rig)| (name.into(), rig))) {
        if is_asked(&name, clause) {
            check(&name, rig);
        }
    }
}

/// Ticks of a servo that pushes; the last sample.
pub(super) fn tick(rig: &mut dyn Rig, from: u64, ticks: u64, wrench: &Wrench) -> (u64, Option<Sample>) {
    let mut last = None;
    for k in 0..ticks {
        last = rig.read(from + k * MS).ok().or(last);
        let _ = rig.write(from + k * MS, wrench);
    }
    (from + ticks * MS, last)
}

#[test]
fn a_thousand_openings_each_end_with_zero() {
    for round in 0..3000u64 {
        let setup = emulated::falcon::Setup { seed: round, ..Default::default() };
        let mut rig = match round % 3 {
            0 => falcon(setup, None),
            1 => {
                let k = (round / 3) as usize;
                wooden(WOODEN[k % 3].0, LAYOUTS[k % 2])
            }
            _ => mouse(round % 2 == 0),
        };
        // At another point of its life each time.
        let witness = rig.witness();
        let now = if round % 5 < 3 { rig.calibrated() } else { round * MS / 100 };
        tick(&mut *rig, now, round % 9, &push());
        drop(rig);
        assert_eq!(witness(), [0; 3], "round {round}");
    }
}

#[test]
fn the_pose_is_the_mechanism_s_own_once_it_is_calibrated() {
    each(clauses::POSE, |name, mut rig| {
        let mut now = rig.calibrated();
        // A preset is as good as the pose in which it was made: the arm's weight moves the hand a little.
        let sag = calibration_pose(&rig.profile().name).map_or(0.0, |pose| (rig.tip() - pose).norm());
        assert!(sag < 5e-3, "{name}: {sag} m");
        for place in ["where it was calibrated", "in its workspace"] {
            let (_, sample) = tick(&mut *rig, now, 30, &Wrench::ZERO);
            let off = (sample.expect("a sample").pose.translation.vector - rig.tip()).norm();
            // One count of each joint, and what a firm hand moves in a frame.
            assert!(off < 3e-4 + sag, "{name} {place}: {off} m, {sag} m");
            now = rig.at_work();
        }
        assert!(rig.tip().norm() < 0.02, "{name}: {}", rig.tip());
    });
}

/// The wrench that `write` reports is the one that the emulator's motor codes make, by its own joints.
#[test]
fn what_is_accepted_is_what_the_motors_get() {
    each(clauses::ACCEPTED, |name, mut rig| {
        let now = rig.ready();
        // The motors are those of the device that was made, whichever its driver takes it for.
        let made = name.split(", ").next().filter(|name| calibration_pose(name).is_some());
        let p = made.map_or_else(|| rig.profile().clone(), profile);
        for (k, size) in [(0u64, 0.5), (1, 2.0), (2, 1000.0)] {
            let at = now + k * 20 * MS;
            let (next, _) = tick(&mut *rig, at, 15, &push().scaled(size));
            let accepted = rig.write(next, &push().scaled(size)).expect("takes force");
            assert_eq!(accepted.saturated, size > 100.0, "{name} x{size}");
            let sample = rig.read(next).expect("reads");
            let codes = rig.motors();
            let q = Vec3::new(sample.joints[0], sample.joints[1], sample.joints[2]);
            let state = p.kinematics.state(&q, None).expect("regular");
            let tau =
                Vec3::from_fn(|i, _| f64::from(codes[i]) * p.motors.expect("motors").torque_per_code[i]);
            let force = state.jacobian.transpose().try_inverse().expect("regular") * tau;
            // The tool moved by some counts between the two commands.
            let off = (force - accepted.applied.force).norm();
            assert!(off < 0.02 * accepted.applied.force.norm() + 0.01, "{name} x{size}: {off} N");
            assert!(codes.iter().all(|c| c.abs() <= rig.most()));
            // Saturation keeps the direction of what was asked for.
            let cos = force.normalize().dot(&push().force.normalize());
            assert!(cos > 0.99, "{name} x{size}: direction {cos}");
        }
    });
}

#[test]
fn before_it_is_calibrated_only_zero_is_taken() {
    each(clauses::BEFORE, |name, mut rig| {
        let mut refused = 0;
        for k in 0..2000u64 {
            let at = k * MS / 4;
            match rig.lifecycle() {
                Lifecycle::Ready => break,
                life => {
                    let _ = rig.read(at);
                    let want =
                        if life == Lifecycle::Absent { WriteFault::Gone } else { WriteFault::NotReady };
                    // The state may change while the write lets time pass.
                    if rig.lifecycle() == life && life != Lifecycle::Ready {
                        assert_eq!(rig.write(at, &push()), Err(want), "{name} at {at}");
                        refused += 1;
                    }
                }
            }
            assert_eq!(rig.motors(), [0; 3], "{name}");
        }
        assert!(refused > 40, "{name}: {refused}");
    });
}

#[test]
fn a_force_that_is_no_number_is_zero_and_a_failure() {
    each(clauses::NO_NUMBER, |name, mut rig| {
        let now = rig.ready();
        let (now, _) = tick(&mut *rig, now, 10, &push());
        assert!(rig.motors() != [0; 3] || rig.most() == 0);
        for (k, bad) in [f64::NAN, f64::INFINITY, -f64::INFINITY].into_iter().enumerate() {
            let w = Wrench { force: Vec3::new(0.1, bad, 0.0), torque: Vec3::zeros() };
            assert_eq!(rig.write(now + k as u64 * MS, &w), Err(WriteFault::Failed), "{name}");
        }
        let _ = rig.read(now + 6 * MS);
        assert_eq!(rig.motors(), [0; 3], "{name}");
    });
}

#[test]
fn zero_reaches_the_motors_within_three_frames_and_stays() {
    each(clauses::ZERO, |name, mut rig| {
        let now = rig.ready();
        for k in 0..20u64 {
            let at = now + k * 30 * MS + k * 47_000;
            let (at, _) = tick(&mut *rig, at, 10, &push());
            assert_ne!(rig.motors(), [0; 3], "{name}");
            rig.zero(at);
            let _ = rig.read(at + 3 * MS + MS / 10);
            assert_eq!(rig.motors(), [0; 3], "{name}");
            let before = rig.applied().len();
            let _ = rig.read(at + 15 * MS);
            assert!(
                rig.applied()[before..].iter().all(|(_, c)| *c == [0; 3]),
                "{name}: an old command came late"
            );
        }
    });
}

/// Unplugged at every quarter of a millisecond from the start into the contact: reported in time, no force remembered, and
/// back without force until somebody asks for it.
#[test]
fn unplugging_at_any_moment_ends_in_absent_and_begins_anew() {
    for at in (0..60u64).map(|k| 3 * MS + k * MS / 4) {
        each(clauses::UNPLUGGED, |name, mut rig| {
            let late = at > 12 * MS;
            let base = if late { rig.ready() } else { 0 };
            let (mut now, _) = tick(&mut *rig, base, at / MS, &push());
            now = now.max(base + at);
            rig.unplug(now);
            let mut gone = None;
            for k in 1..50u64 {
                let read = rig.read(now + k * MS);
                let _ = rig.write(now + k * MS, &push());
                if rig.lifecycle() == Lifecycle::Absent {
                    assert!(rig.rate().is_none_or(|r| r == Twist::ZERO), "{name}: it moves on");
                }
                if rig.lifecycle() == Lifecycle::Absent && gone.is_none() {
                    gone = Some(k);
                    assert_eq!(read, Err(ReadFault::Gone), "{name}");
                }
            }
            assert!(gone.is_some_and(|k| k <= 50), "{name}: not reported in 50 ms");
            assert!(!rig.shared().trouble().is_empty());
            now += 100 * MS;
            rig.plug(now);
            let before = rig.applied().len();
            let moves = rig.most() > 0;
            let (mut uncalibrated, mut ready) = (!moves, false);
            for k in 0..1500u64 {
                let _ = rig.read(now + k * MS);
                // Whoever pushed before pushes on; it is not let through before the frame is known again.
                let pushed = rig.write(now + k * MS, &push());
                uncalibrated |= rig.lifecycle() == Lifecycle::Uncalibrated;
                ready |= rig.lifecycle() == Lifecycle::Ready;
                if !ready {
                    assert!(pushed.is_err() && rig.motors() == [0; 3], "{name}");
                }
                if k == 600 && !ready {
                    rig.shared().ask_calibration();
                }
            }
            assert!(uncalibrated && ready, "{name}: {uncalibrated} {ready}");
            assert!(!moves || rig.applied().len() > before);
        });
    }
}

/// A fifth of all transfers lost, wrong, doubled, cut, too long or late: never a pose that is none, never a force beyond the
/// limit, numbers that only rise; and afterwards all is well at once.
#[test]
fn damaged_transfers_do_no_harm() {
    each(clauses::DAMAGED, |name, mut rig| {
        let now = rig.ready();
        rig.damage(0.2);
        let mut last = 0;
        let (mut good, mut lost) = (0, 0);
        for k in 0..2000u64 {
            rig.stir(k);
            if let Ok(s) = rig.read(now + k * MS) {
                assert!(pose_is_finite(&s.pose) && s.joints.iter().all(|j| j.is_finite()), "{name}");
                assert!(s.seq >= last && s.time_ns <= now + k * MS, "{name}");
                assert!(
                    rig.most() > 0
                        || s.pose.translation.vector.norm() <= rig.profile().workspace_radius * (1.0 + 1e-9)
                );
                good += u32::from(s.seq > last);
                lost += s.lost;
                last = s.seq;
            }
            let _ = rig.write(now + k * MS, &push().scaled(if k % 7 == 0 { 1e6 } else { 1.0 }));
        }
        // What speaks only when something changes cannot be missed.
        assert!(good > 1000 && (lost > 50 || rig.most() == 0), "{name}: {good} good, {lost} lost");
        assert!(rig.applied().iter().all(|(_, c)| c.iter().all(|c| c.abs() <= rig.most())), "{name}");
        rig.damage(0.0);
        let now = now + 2000 * MS;
        // Damage may have looked like a lost frame; then it has to be calibrated again.
        if rig.lifecycle() != Lifecycle::Ready {
            rig.ready();
        }
        let _ = tick(&mut *rig, now, 50, &push());
        let now = now + 60 * MS;
        let seqs: Vec<u64> = (0..50).map(|k| rig.read(now + k * MS).map_or(0, |s| s.seq)).collect();
        let distinct = seqs.windows(2).filter(|w| w[0] != w[1]).count();
        assert!(distinct >= 40 || rig.lifecycle() != Lifecycle::Ready, "{name}: {distinct}");
    });
}

#[test]
fn a_bus_that_stands_still_gives_stale_samples_and_goes_on() {
    each(clauses::STALE, |name, mut rig| {
        let now = rig.ready();
        let (now, before) = tick(&mut *rig, now, 20, &push());
        rig.stall(now, now + 40 * MS);
        let (then, _) = tick(&mut *rig, now + 2 * MS, 36, &push());
        let held = rig.read(then).expect("held over");
        assert!(held.seq <= before.expect("samples").seq + 2, "{name}: something arrived through a stall");
        assert_eq!(rig.lifecycle(), Lifecycle::Ready, "{name}: 40 ms are no end");
        let (_, after) = tick(&mut *rig, now + 40 * MS, 6, &push());
        assert!(after.expect("samples").seq > held.seq, "{name}");
    });
}

#[test]
fn refused_writes_close_the_device_and_it_is_opened_again() {
    each(clauses::REFUSED, |name, mut rig| {
        let now = rig.ready();
        let (now, _) = tick(&mut *rig, now, 10, &push());
        rig.refuse(true);
        let (mut absent, mut pushed) = (0, 0);
        for k in 0..600u64 {
            let _ = rig.read(now + k * MS);
            pushed += u32::from(rig.write(now + k * MS, &push()).is_ok());
            absent += u32::from(rig.lifecycle() == Lifecycle::Absent);
        }
        assert!(absent > 500 && pushed < 5, "{name}: absent for {absent} ms, {pushed} forces taken");
        let starts = rig.shared().stats.starts.load(Relaxed);
        assert!(starts < 20, "{name}: opened {starts} times: no busy loop");
        rig.refuse(false);
        let _ = tick(&mut *rig, now + 600 * MS, 800, &push());
        assert_ne!(rig.lifecycle(), Lifecycle::Absent, "{name}");
    });
}

/// As `each`, of devices that hold their torque for ever, as far as there are such, while the servo pushes.
fn each_that_holds(check: impl Fn(&str, Box<dyn Rig>, u64)) {
    let holds = emulated::falcon::Setup { hold_ns: u64::MAX, ..Default::default() };
    for (name, mut rig) in [("Falcon".into(), falcon(holds, None))].into_iter().chain(woodens()) {
        let now = rig.ready();
        let (now, _) = tick(&mut *rig, now, 12, &push());
        assert_ne!(rig.motors(), [0; 3], "{name}");
        check(&name, rig, now);
    }
}

/// Whatever ends the exchange while the device is there leaves its last force on: until it has had two zeros on another link nobody says that it has
/// one, and it gets them as soon as the bus carries them, although the servo pushes on.
#[test]
fn a_link_that_breaks_under_force_is_opened_again_for_a_zero() {
    for refused_ms in [2, 5, 60, 300] {
        each_that_holds(|name, mut rig, now| {
            let before = rig.applied().len();
            rig.refuse(true);
            let (then, _) = tick(&mut *rig, now, refused_ms, &push());
            assert!(rig.shared().unconfirmed(), "{name}, {refused_ms} ms");
            rig.refuse(false);
            // It is tried as often as the device has been away, four times a second at least.
            let soon = 20 + refused_ms.min(250);
            let (_, _) = tick(&mut *rig, then, soon, &push());
            let applied = rig.applied().split_off(before);
            let zero = |(_, codes): &&(u64, [i16; 3])| *codes == [0; 3];
            let first = applied.iter().position(|a| zero(&a)).unwrap_or(applied.len());
            let zeros = applied[first..].iter().take_while(zero).count();
            assert!(zeros >= 2, "{name}, {refused_ms} ms: {zeros} zeros in {soon} ms after: {applied:?}");
            assert!(!rig.shared().unconfirmed(), "{name}, {refused_ms} ms");
        });
    }
}

/// The bus stands still until the device counts as mute.
#[test]
fn a_device_that_was_mute_under_force_gets_its_zero_when_it_is_heard_again() {
    each_that_holds(|name, mut rig, now| {
        rig.stall(now, now + 620 * MS);
        let (then, _) = tick(&mut *rig, now, 619, &push());
        assert!(rig.shared().unconfirmed(), "{name}");
        let before = rig.applied().len();
        let (then, _) = tick(&mut *rig, then, 25, &push());
        let after = rig.applied().split_off(before);
        assert!(
            after.iter().any(|(_, codes)| *codes == [0; 3]) || rig.motors() == [0; 3],
            "{name}: {after:?}"
        );
        let (_, _) = tick(&mut *rig, then, 300, &Wrench::ZERO);
        assert!(!rig.shared().unconfirmed() && rig.motors() == [0; 3], "{name}");
    });
}

/// The end right after a refusal: what the motors hold is not said to be zero unless it is, and the end tries for it.
#[test]
fn an_end_after_a_refusal_is_confirmed_only_with_its_zero() {
    for stays in [true, false] {
        for steps in [2, 3, 30] {
            each_that_holds(|name, mut rig, now| {
                rig.refuse(true);
                let (_, _) = tick(&mut *rig, now, steps, &push());
                let (shared, witness) = (rig.shared(), rig.witness());
                assert!(shared.unconfirmed(), "{name}, {steps} ticks");
                assert!(!Emergency::zero(&*shared, 0), "{name}, {steps} ticks: nothing was sent");
                rig.refuse(stays);
                drop(rig);
                assert_eq!(shared.unconfirmed(), stays, "{name}, {steps} ticks");
                if !stays {
                    assert_eq!(witness(), [0; 3], "{name}, {steps} ticks");
                } else if name == "Falcon" {
                    assert_ne!(witness(), [0; 3], "a bus that takes nothing: it is not known, and not so");
                }
            });
        }
    }
}

#[test]
fn a_dip_of_the_supply_takes_the_frame_and_the_force_with_it() {
    let profile = profile("novint-falcon");
    let setup = emulated::falcon::Setup { homes_after: Some(40 * MS), ..Default::default() };
    let gadget = emulated::falcon::Falcon::new(&profile, &HandScript::default(), setup).expect("in reach");
    let plugged = Plugged::new(Bus::new(gadget, 0.0, 0, false));
    let mut device = Stepped::new(profile, Box::new(driver::falcon::Falcon::new(None)), plugged.clone());
    let now = Rig::ready(&mut device);
    let (now, _) = tick(&mut device, now, 10, &push());
    plugged.bus().gadget.lose_home();
    let (_, _) = tick(&mut device, now, 10, &push());
    assert_eq!(device.lifecycle(), Lifecycle::Uncalibrated);
    assert_eq!(plugged.bus().gadget.codes(), [0; 3]);
    assert_eq!(plugged.bus().gadget.leds, 8, "red while it does not know its frame");
}

/// The ring: red (8) while the frame is not known, blue (4) when it is, green (2) while it pushes. Each of the grip's buttons is a bit.
#[test]
fn the_ring_tells_what_the_falcon_does_and_its_grip_is_heard() {
    let profile = profile("novint-falcon");
    let setup = emulated::falcon::Setup { homes_after: Some(30 * MS), ..Default::default() };
    let gadget = emulated::falcon::Falcon::new(&profile, &HandScript::default(), setup).expect("in reach");
    let plugged = Plugged::new(Bus::new(gadget, 0.0, 0, false));
    let mut device = Stepped::new(profile, Box::new(driver::falcon::Falcon::new(None)), plugged.clone());
    let leds = || plugged.bus().gadget.leds;
    device.advance(20 * MS);
    assert_eq!((device.lifecycle(), leds()), (Lifecycle::Uncalibrated, 8));
    let mut now = Rig::ready(&mut device);
    let mut sample = None;
    for (wrench, light) in [(Wrench::ZERO, 4), (push(), 2), (Wrench::ZERO, 4)] {
        (now, sample) = tick(&mut device, now, 10, &wrench);
        assert_eq!(leds(), light, "{wrench:?}");
    }
    assert_eq!(sample.expect("samples").buttons, 0);
    for buttons in (0..16u8).rev() {
        plugged.bus().gadget.press(buttons);
        (now, sample) = tick(&mut device, now, 6, &Wrench::ZERO);
        assert_eq!(sample.expect("samples").buttons, u32::from(buttons));
    }
}

/// A mouse's deflection moves the tool; its force is none; without changes its samples stay fresh.
#[test]
fn a_mouse_moves_the_tool_and_gives_no_force() {
    for new_layout in [false, true] {
        let mut gadget = emulated::spacemouse::SpaceMouse::default();
        gadget.new_layout = new_layout;
        let plugged = Plugged::new(Bus::new(gadget, 80.0, 5000, true));
        let port = Box::new(driver::spacemouse::SpaceMouse::default());
        let mut device = Stepped::new(profile("spacemouse"), port, plugged.clone());
        device.advance(50 * MS);
        assert_eq!(device.lifecycle(), Lifecycle::Ready);
        plugged.bus().gadget.deflect([350, 0, -350, 0, 0, 0]);
        plugged.bus().gadget.press(2);
        let mut last = device.read(60 * MS).expect("reads");
        let mut fresh = 0;
        for k in 61..461u64 {
            let s = device.read(k * MS).expect("reads");
            fresh += u32::from(s.seq != last.seq);
            last = s;
            let accepted = device.write(k * MS, &push()).expect("takes it");
            assert_eq!(accepted.applied, Wrench::ZERO);
        }
        let p = last.pose.translation.vector;
        // 0.15 m/s for 0.4 s to the right and, the mouse being lifted, up.
        assert!((p - Vec3::new(0.06, 0.06, 0.0)).norm() < 2e-3, "{p:?}");
        assert!(fresh >= 390, "{fresh}");
        assert_eq!(last.buttons, 2);
    }
}

/// A Falcon on the machine's clock.
fn on_the_clock(setup: emulated::falcon::Setup) -> Plugged<emulated::falcon::Falcon> {
    let gadget = emulated::falcon::Falcon::new(&profile("novint-falcon"), &HandScript::default(), setup)
        .expect("in reach");
    Plugged::real(Bus::new(gadget, 0.0, 0, false), now_ns())
}

/// The I/O thread over a device on the machine's clock, and the servo's end.
fn threaded<G: Gadget + 'static>(plugged: &Plugged<G>, port: Box<dyn Port>) -> Front {
    threaded_as(profile("novint-falcon"), plugged, port)
}

fn threaded_as<G: Gadget + 'static>(
    profile: Arc<Profile>,
    plugged: &Plugged<G>,
    port: Box<dyn Port>,
) -> Front {
    io::start(profile, Box::new(plugged.clone()), port, Scheduling::default()).expect("a thread")
}

/// Waits for something that another thread does, however busy the machine is.
fn wait(what: &str, mut until: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if until() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("waited in vain: {what}");
}

/// Before the servo runs nobody commands anything, so after a tenth of a second nothing is sent: whoever calibrates then has to speak.
#[test]
fn a_device_that_nobody_speaks_to_is_calibrated_all_the_same() {
    let profile = profile("woodenhaptics-v2015");
    let bus = Bus::new(wooden_gadget(&profile, Layout::Padded), 0.0, 0, true);
    let plugged = Plugged::real(bus, now_ns());
    let port = wooden_port(&profile, Layout::Padded);
    let mut front = threaded_as(profile, &plugged, port);
    front.zero(now_ns());
    wait("the first packets", || front.lifecycle() == Lifecycle::Uncalibrated);
    let mut last = u64::MAX;
    wait("silence", || {
        let sent = front.shared().stats.sent.load(Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::mem::replace(&mut last, sent) == sent
    });
    // A machine that stands still for seconds needs another try.
    wait("calibrated", || front.calibrate().is_ok());
    assert_eq!(front.lifecycle(), Lifecycle::Ready);
}

/// Unplugged while it pushes: the I/O thread sleeps from then on, but for a look now and then, although the servo goes on; so do its rounds while the device
/// runs follow the frames and not the processor's speed. Rounds are counted, since a busy machine can only make them fewer.
#[test]
fn without_its_device_the_io_thread_sleeps() {
    let plugged = on_the_clock(emulated::falcon::Setup::default());
    let mut front = threaded(&plugged, Box::new(driver::falcon::Falcon::new(None)));
    let shared = front.shared().clone();
    // Rounds in a second or so of the servo's ticks, and that time in ms.
    let rounds = |front: &mut Front| {
        let (before, begin) = (shared.stats.rounds.load(Relaxed), std::time::Instant::now());
        for _ in 0..1000 {
            let _ = (front.read(now_ns()), front.write(now_ns(), &push()));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        (shared.stats.rounds.load(Relaxed) - before, begin.elapsed().as_millis() as u64)
    };
    wait("force", || {
        let _ = (front.read(now_ns()), front.write(now_ns(), &push()));
        plugged.bus().gadget.codes() != [0; 3]
    });
    let (busy, ms) = rounds(&mut front);
    println!("{busy} rounds in {ms} ms while it runs");
    assert!(busy < 8 * ms, "{busy} rounds in {ms} ms");
    plugged.bus().unplug(now_ns());
    wait("absent", || front.lifecycle() == Lifecycle::Absent);
    let (idle, ms) = rounds(&mut front);
    println!("{idle} rounds in {ms} ms after it was unplugged");
    // It looks for its end twenty times a second, for its device four times.
    assert!(idle <= 5 + ms / 20, "{idle} rounds in {ms} ms");
    plugged.bus().plug(now_ns());
    wait("it is back", || {
        front.zero(now_ns());
        front.lifecycle() == Lifecycle::Ready
    });
}

/// What a port is asked.
pub(super) enum Asked<'a> {
    /// What is next in its start, and what it answered.
    Start(u64, &'a Start),
    Arrived,
    Prepare,
}

/// A Falcon's packets, and somebody who sees each question before its answer has an effect.
pub(super) struct Seen<F> {
    pub(super) port: driver::falcon::Falcon,
    pub(super) sees: F,
}

impl<F: FnMut(Asked) + Send> Port for Seen<F> {
    fn pace(&self) -> Pace {
        self.port.pace()
    }
    fn begin(&mut self, product: u16) {
        self.port.begin(product);
    }
    fn start(&mut self, now_ns: u64) -> Start {
        let next = self.port.start(now_ns);
        (self.sees)(Asked::Start(now_ns, &next));
        next
    }
    fn arrived(&mut self, bytes: &[u8]) -> Arrived {
        (self.sees)(Asked::Arrived);
        self.port.arrived(bytes)
    }
    fn latest(&self) -> Latest {
        self.port.latest()
    }
    fn prepare(&mut self, codes: &[i32; 3]) {
        (self.sees)(Asked::Prepare);
        self.port.prepare(codes);
    }
    fn outgoing(&self) -> &[u8] {
        self.port.outgoing()
    }
}

/// The I/O thread panics with force on, over a device that would push on for ever: it is told zero, whether the servo goes on
/// commanding, is silent, or ends at the same time.
#[test]
fn a_panic_of_the_io_thread_leaves_no_force() {
    for end in ["pushes on", "is silent", "ends"] {
        let plugged = on_the_clock(emulated::falcon::Setup { hold_ns: u64::MAX, ..Default::default() });
        let panic = Arc::new(AtomicBool::new(false));
        let panics = panic.clone();
        let sees = move |asked: Asked| {
            if let Asked::Prepare = asked {
                assert!(!panics.swap(false, Relaxed), "a panic for the test");
            }
        };
        let port = Seen { port: driver::falcon::Falcon::new(None), sees };
        let mut front = threaded(&plugged, Box::new(port));
        wait("force", || {
            let _ = (front.read(now_ns()), front.write(now_ns(), &push()));
            plugged.bus().gadget.codes() != [0; 3]
        });
        panic.store(true, Relaxed);
        wait("the panic", || !panic.load(Relaxed));
        let shared = front.shared().clone();
        if end == "ends" {
            drop(front);
        } else {
            wait(end, || {
                if end == "pushes on" {
                    let _ = (front.read(now_ns()), front.write(now_ns(), &push()));
                }
                shared.trouble().contains("has failed") && plugged.bus().gadget.codes() == [0; 3]
            });
            assert_eq!((front.read(now_ns()), front.lifecycle()), (Err(ReadFault::Gone), Lifecycle::Absent));
        }
        assert_eq!(plugged.bus().gadget.codes(), [0; 3], "the servo {end}");
        assert_eq!(shared.lifecycle(), Lifecycle::Absent);
    }
}

/// Says the last word, again where the machine was too busy for it; the one that is said to be taken has two packets behind it.
fn taken(last_word: &dyn Emergency, shared: &Shared) {
    wait("two packets", || {
        let before = shared.stats.sent.load(Relaxed);
        last_word.zero(now_ns()) && shared.stats.sent.load(Relaxed) - before >= 2
    });
}

/// It is known to be taken when it is, and not otherwise: nobody steps the I/O side here. Without its frame the device may yet
/// have a packet with force under way.
#[test]
fn a_last_word_is_not_said_to_be_taken_before_it_is() {
    each(clauses::ZERO, |name, mut rig| {
        let word = |rig: &dyn Rig| Emergency::zero(&*rig.shared(), 0);
        assert!(word(&*rig), "{name}: not opened yet");
        for _ in 0..4000 {
            if rig.lifecycle() == Lifecycle::Uncalibrated {
                break;
            }
            let at = rig.now() + MS / 4;
            let _ = rig.read(at);
        }
        assert_eq!(rig.lifecycle(), Lifecycle::Uncalibrated, "{name}");
        assert!(!word(&*rig), "{name}: nothing was sent");
        let now = rig.ready();
        assert!(!word(&*rig), "{name}: nothing was sent");
        rig.unplug(now);
        let _ = rig.read(now + 50 * MS);
        assert!(word(&*rig), "{name}: gone");
    });
}

/// Until it is homed, and long after the servo was heard last: two packets all the same.
#[test]
fn a_last_word_goes_to_a_device_that_is_not_homed_and_is_asked_nothing() {
    let setup = emulated::falcon::Setup { homes_after: None, ..Default::default() };
    let plugged = on_the_clock(setup);
    let mut front = threaded(&plugged, Box::new(driver::falcon::Falcon::new(None)));
    front.zero(now_ns());
    wait("the first packets", || front.lifecycle() == Lifecycle::Uncalibrated);
    let mut last = u64::MAX;
    wait("silence", || {
        let sent = front.shared().stats.sent.load(Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::mem::replace(&mut last, sent) == sent
    });
    taken(&*front.emergency().expect("has one"), front.shared());
}

/// The real thread over an emulator on the real clock: samples arrive, force arrives, and this side of the mailboxes neither
/// allocates nor frees.
#[test]
fn the_io_thread_serves_a_servo_that_allocates_nothing() {
    let plugged = on_the_clock(emulated::falcon::Setup::default());
    let mut front = threaded(&plugged, Box::new(driver::falcon::Falcon::new(None)));
    assert_eq!(front.io_mode(), IoMode::Threaded);
    wait("ready", || {
        front.zero(now_ns());
        front.lifecycle() == Lifecycle::Ready
    });
    let calls = || CALLS.with(std::cell::Cell::get);
    let (mut read, mut written, mut moved) = (0, 0, false);
    let before = calls();
    for _ in 0..3000 {
        let now = now_ns();
        read += u32::from(front.read(now).is_ok());
        written += u32::from(front.write(now, &push()).is_ok());
        let _ = (front.next_sample_ns(now), front.lifecycle());
        let allocated = calls() - before;
        assert_eq!(allocated, 0);
        moved = plugged.bus().gadget.codes() != [0; 3];
        if moved && read > 100 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(moved && read > 0 && written > 0, "{moved} {read} {written}");
    // The last word of a dying process: zero goes out, and nothing after it whatever is commanded.
    let last_word = front.emergency().expect("has one");
    taken(&*last_word, front.shared());
    assert_eq!(plugged.bus().gadget.codes(), [0; 3], "at once, when it is said to be taken");
    assert!(!last_word.mend(0), "it shares no memory with other processes");
    let commands = plugged.bus().gadget.applied.len();
    for _ in 0..50 {
        let _ = front.read(now_ns());
        let _ = front.write(now_ns(), &push());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(plugged.bus().gadget.applied[commands..].iter().all(|(_, c)| *c == [0; 3]));
    drop(front);
    assert_eq!(plugged.bus().gadget.codes(), [0; 3], "zero at the end");
}
