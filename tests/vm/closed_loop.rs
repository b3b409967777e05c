//! Pressed onto the bunny over a driver, and how that ends: what the emulated device noted is judged, not what the driver says of itself.

use super::{bunny, wait, wait_for};
use hapticd::device::io::shared::{BUCKET_NS, BUCKETS, Shared};
use hapticd::device::io::thread::now_ns;
use hapticd::device::{Device, Lifecycle};
use hapticd::servo::handle::{ServoCommand, ServoConfig, ServoHandle, channel};
use hapticd::servo::record::{ServoState, TickRecord};
use hapticd::servo::rt::RtOptions;
use hapticd::servo::run::spawn;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The guest's processor is emulated: a hand that moves by at most a millisecond a packet takes so long to come down.
const PATIENCE: Duration = Duration::from_secs(150);
/// Packets before the stop of which one must have pushed: a tenth of a second at the 100 packets a second of a slow guest, some of which are zero because
/// the servo's command was older than 5 ms.
const BEFORE: usize = 10;
/// A force that counts as pressed onto the bunny, N.
const FELT: f64 = 0.2;

/// How a closed loop ends, while it pushes.
pub enum End<S, U, R> {
    /// The servo is stopped: told to stop while this says that the motors have a force.
    Stop(S),
    /// The plug is pulled, and put in again.
    Unplug(U, R),
}

/// Motor codes by time in ns, as an emulator noted them, and the times at which it was sent a packet.
#[derive(Debug, Default)]
pub struct Notes {
    pub applied: Vec<(u64, [i16; 3])>,
    pub packets: Vec<u64>,
}

/// The device was plugged in all the time and holds what it was told last: that its motors have zero is the driver's doing. What shows it, or what is wrong.
pub fn ends_with_zero(notes: &Notes, stopped_ns: u64) -> Result<String, String> {
    let force = |(_, codes): &(u64, [i16; 3])| *codes != [0; 3];
    let Some(last) = notes.applied.iter().rposition(force) else { return Err("it never pushed".into()) };
    let Some((let_go, _)) = notes.applied.get(last + 1) else {
        return Err(format!("the last packet pushes: {:?}", notes.applied[last].1));
    };
    if !notes.packets.contains(let_go) {
        return Err("nobody told it zero: its own watchdog let go".into());
    }
    let until = notes.applied.partition_point(|(at, _)| *at <= stopped_ns);
    let before = &notes.applied[until.saturating_sub(BEFORE)..until];
    if !before.iter().any(force) {
        return Err(format!("zero long before it was stopped: {before:?}"));
    }
    let ms = |at: u64| (at as f64 - stopped_ns as f64) * 1e-6;
    Ok(format!(
        "{} of the last {} packets before pushed | the last that pushes, {:?}, at {:+.1} ms | zero from {:+.1} ms on",
        before.iter().filter(|n| force(n)).count(),
        before.len(),
        notes.applied[last].1,
        ms(notes.applied[last].0),
        ms(*let_go),
    ))
}

/// Logs written by hand: a packet each 10 ms, stopped at 0.5 s.
#[test]
fn an_end_with_zero_is_told_from_others() {
    let log = |pushes_until: usize, packets: usize, watchdog: bool| {
        let at = |k: usize| k as u64 * 10_000_000;
        let codes = |k: usize| if k < pushes_until && !k.is_multiple_of(3) { [0, -7, 0] } else { [0; 3] };
        let mut applied: Vec<_> = (0..packets).map(|k| (at(k), codes(k))).collect();
        if watchdog {
            applied.push((at(packets) + 500_000_000, [0; 3]));
        }
        ends_with_zero(&Notes { applied, packets: (0..packets).map(at).collect() }, at(50))
    };
    assert!(log(51, 53, true).is_ok());
    assert!(log(51, 53, false).is_ok());
    assert!(log(0, 53, true).expect_err("no force").contains("never pushed"));
    assert!(log(53, 53, false).expect_err("force").contains("the last packet pushes"));
    assert!(log(53, 53, true).expect_err("force").contains("watchdog"));
    assert!(log(38, 53, true).expect_err("too early").contains("long before"));
}

/// The contact's force on its way to the motors, N; 0 in the free, where the motors only carry the arm's weight.
fn pressed(r: &TickRecord) -> f64 {
    let norm = |f: &[f64; 3]| f.iter().map(|v| v * v).sum::<f64>().sqrt();
    let on = r.touched > 0 && norm(&r.applied_force) > 0.0;
    if on { norm(&r.contact_force).min(norm(&r.force)) } else { 0.0 }
}

fn arm(handle: &mut ServoHandle) {
    // Where there is no room it has been told so before.
    let _ = handle.send(ServoCommand::Arm { session: 1 });
    let _ = handle.send(ServoCommand::Lease { until_ns: u64::MAX });
}

/// Judges an end by the device's notes. False where the driver itself says that it knows of no zero, and there was none: in a guest that takes longer for a packet than
/// the driver's 20 ms that is no fault of the driver's. That it says otherwise and there is none is one.
pub fn ended_with_zero(what: &str, notes: &Notes, stopped_ns: u64, shared: &Shared) -> bool {
    let unconfirmed = shared.unconfirmed();
    let says = if unconfirmed { "not confirmed within the driver's 20 ms" } else { "confirmed" };
    match ends_with_zero(notes, stopped_ns) {
        Ok(shown) => println!("| {what} | stopped in contact | {shown} | {says} |"),
        Err(e) if unconfirmed => {
            println!("| {what} | stopped in contact, to be tried again | {e} | {says} |");
            return false;
        }
        Err(e) => panic!("{what}: {e}, and the driver says that zero is confirmed"),
    }
    true
}

/// So many seconds of contact with the bunny over a driver, from the first touch on, and an end while it pushes. `press`: the hand comes down now. The time of the
/// stop, ns; `None` where the guest stood still for so long that the device was opened again, and is uncalibrated in the middle of it.
pub fn closed_loop<S: Fn(&dyn Fn()) -> bool, U: FnOnce(), R: FnOnce()>(
    what: &str,
    front: Box<dyn Device>,
    shared: &Arc<Shared>,
    seconds: u64,
    press: impl FnOnce(),
    end: End<S, U, R>,
) -> Option<u64> {
    // What a guest that is late by tens of milliseconds would make a fault of; and half the rate, since its ticks take more than a millisecond each.
    let config = ServoConfig {
        period_ns: 2_000_000,
        late_in_row: u32::MAX,
        late_per_second: u32::MAX,
        max_gap: 60.0,
        stale_fault: 5.0,
        stale_ticks: 100,
        gate_ticks: 5,
        gate_force: 5.0,
        ramp_up: 0.01,
        lease: 60.0,
        ..ServoConfig::default()
    };
    let (scene, body) = bunny::scene();
    let (mut handle, servo_end) = channel(config);
    handle.publish(scene).expect("first");
    let options = RtOptions { priority: 50, cpu: Some(0), ..RtOptions::none() };
    let servo = spawn(servo_end, front, options).expect("starts");
    let counters = handle.counters();
    wait("idle", || counters.state() == ServoState::Idle);
    arm(&mut handle);
    press();
    let (mut ticks, mut pushing, mut strongest, mut last) = (0u64, 0u64, 0f64, None);
    let (mut faults, mut before) = (0, ServoState::Idle);
    let mut drain = || {
        // A guest that gets no processor for half a second: its device counts as mute and is opened again, which is a fault.
        let state = counters.state();
        match state {
            ServoState::Fault => {
                if before != ServoState::Fault {
                    faults += 1;
                    println!("| {what} | fault | {} |", shared.trouble());
                }
                let _ = handle.send(ServoCommand::ClearFault);
            }
            ServoState::Idle => arm(&mut handle),
            _ => {}
        }
        before = state;
        handle.drain(&mut |r| {
            let force = pressed(r);
            ticks += 1;
            pushing += u64::from(force > FELT);
            strongest = strongest.max(force);
            last = Some(*r);
        });
        std::thread::sleep(Duration::from_millis(5));
        (ticks, pushing, strongest, last, faults)
    };
    let stats = || shared.stats.list().into_iter().collect::<BTreeMap<_, _>>();
    let lost = || shared.lifecycle() == Lifecycle::Uncalibrated;
    let touches = |drain: &mut dyn FnMut() -> (u64, u64, f64, Option<TickRecord>, u32)| {
        let begin = Instant::now();
        while drain().3.is_none_or(|r| pressed(&r) <= FELT) && !lost() {
            let waits = begin.elapsed() < PATIENCE;
            assert!(waits, "no force: {:#?}\n{:?} {}", drain().3, stats(), shared.trouble());
        }
        begin.elapsed()
    };
    let came_down = touches(&mut drain);
    let (before, at_first, begin) = (stats(), drain(), Instant::now());
    while begin.elapsed() < Duration::from_secs(seconds) && !lost() {
        drain();
    }
    let (after, in_all, seconds) = (stats(), drain(), begin.elapsed().as_secs_f64());
    if lost() {
        handle.stop();
        drop(servo.join());
        return None;
    }
    let count = |name: &str| after[name] - before[name];
    let latency = |name: &str| {
        let us = after[name];
        let most = BUCKETS as u64 * BUCKET_NS / 1000;
        if us >= most { "> 20 ms".into() } else { format!("{:.2} ms", us as f64 * 1e-3) }
    };
    println!(
        "| {what}, {body}, touched after {:.1} s | ticks/s | faults | pressed | at most | samples/s | lost | late | garbled | late commands | sense to force, median | p99 |",
        came_down.as_secs_f64()
    );
    println!(
        "| {seconds:.1} s | {:.0} | {} | {} | {:.2} N | {:.0} | {} | {} | {} | {} | {} | {} |",
        (in_all.0 - at_first.0) as f64 / seconds,
        in_all.4 - at_first.4,
        in_all.1 - at_first.1,
        in_all.2,
        count("device_readings") as f64 / seconds,
        count("device_lost"),
        count("device_late"),
        count("device_garbled"),
        count("device_expired"),
        latency("device_sense_to_force_us_median"),
        latency("device_sense_to_force_us_p99"),
    );
    // An emulated machine on a busy host does few ticks; some of them push.
    assert!(in_all.1 > 20, "{in_all:?}; state {:?}", counters.state());
    touches(&mut drain);
    if lost() {
        handle.stop();
        drop(servo.join());
        return None;
    }
    let stopped = match end {
        End::Stop(stop) => {
            let begin = Instant::now();
            while !stop(&|| handle.stop()) {
                assert!(
                    begin.elapsed() < PATIENCE,
                    "no force at the motors: {} {:?}",
                    shared.trouble(),
                    stats()
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            now_ns()
        }
        End::Unplug(unplug, replug) => {
            unplug();
            let gone = wait("absent", || shared.lifecycle() == Lifecycle::Absent);
            wait("no force", || !matches!(counters.state(), ServoState::Armed | ServoState::Rendering));
            println!(
                "| {what} | unplugged in contact | absent after {} ms: {} |",
                gone.as_millis(),
                shared.trouble()
            );
            // Whatever error the kernel gave.
            wait("the reason", || shared.trouble().starts_with("the device was unplugged"));
            assert!(gone < Duration::from_millis(1000));
            replug();
            let back = wait_for("back", PATIENCE, || {
                matches!(shared.lifecycle(), Lifecycle::Uncalibrated | Lifecycle::Ready)
            });
            println!("| {what} | plugged in again | its driver runs after {} ms |", back.as_millis());
            std::thread::sleep(Duration::from_millis(300));
            let state = counters.state();
            assert!(!matches!(state, ServoState::Armed | ServoState::Rendering), "force without arming");
            handle.stop();
            now_ns()
        }
    };
    drop(servo.join());
    Some(stopped)
}
