//! What a driver's read and write cost the servo thread in a tick: mailboxes, kinematics, motor codes. The I/O thread runs beside,
//! over an emulated Falcon and an emulated WoodenHaptics on the machine's clock.
//!
//! `cargo bench --bench device_io`. Median, 99 % and least of some thousand ticks, beside an empty measurement; a median of 5 us is aimed at.

use hapticd::device::Device;
use hapticd::device::driver;
use hapticd::device::emulated::bus::{Bus, Gadget, Plugged};
use hapticd::device::emulated::{falcon, hid_haptic};
use hapticd::device::io::front::Front;
use hapticd::device::io::port::Port;
use hapticd::device::io::runner::Runner;
use hapticd::device::io::scheduling::Scheduling;
use hapticd::device::io::shared::Shared;
use hapticd::device::io::thread::{IoThread, now_ns};
use hapticd::device::registry::Registry;
use hapticd::device::simulated::HandScript;
use hapticd::device::wire::hid_haptic::Layout;
use hapticd::device::{Lifecycle, profile::Profile};
use hapticd::geometry::pose::{Vec3, Wrench};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TICKS: usize = 4000;

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let us = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{what}: median {:.2} us, p99 {:.2} us, least {:.2} us", us(0.5), us(0.99), us(0.0));
}

fn run<G: Gadget + 'static>(what: &str, profile: Arc<Profile>, port: Box<dyn Port>, bus: Bus<G>) {
    let plugged = Plugged::real(bus, now_ns());
    let shared = Arc::new(Shared::default());
    let runner = Runner::new(Box::new(plugged), port, shared.clone());
    let thread = IoThread::start(runner, shared.clone(), Scheduling::default()).expect("a thread");
    let mut front = Front::new(profile, shared.clone(), Some(thread));
    std::thread::sleep(Duration::from_millis(50));
    shared.ask_calibration();
    let end = Instant::now() + Duration::from_secs(10);
    while front.lifecycle() != Lifecycle::Ready && Instant::now() < end {
        front.zero(now_ns());
        std::thread::sleep(Duration::from_millis(1));
    }
    let wrench = Wrench { force: Vec3::new(0.3, -0.2, 0.25), torque: Vec3::zeros() };
    let (mut times, mut good) = (Vec::with_capacity(TICKS), 0);
    let (begin, before) = (Instant::now(), shared.stats.list()[0].1);
    for _ in 0..TICKS {
        let begin = Instant::now();
        let now = now_ns();
        let read = front.read(now);
        let written = front.write(now, &wrench);
        times.push(begin.elapsed());
        good += usize::from(read.is_ok() && written.is_ok());
        std::thread::sleep(Duration::from_micros(900));
    }
    let rate = (shared.stats.list()[0].1 - before) as f64 / begin.elapsed().as_secs_f64();
    show(&format!("{what} ({good} of {TICKS} ticks read and written)"), times);
    let us = |share| shared.stats.latency_quantile(share).unwrap_or(0) / 1000;
    println!("    {rate:.0} samples/s, sense to force median {} us, p99 {} us", us(0.5), us(0.99));
}

fn main() {
    let empty = (0..TICKS)
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(now_ns());
            begin.elapsed()
        })
        .collect();
    show("nothing but the clock", empty);
    let profile = |name: &str| Registry::builtin().profile(name).expect("shipped");
    let hand = HandScript::default();
    let p = profile("novint-falcon");
    let gadget = falcon::Falcon::new(&p, &hand, falcon::Setup::default()).expect("in reach");
    run("Falcon", p, Box::new(driver::falcon::Falcon::new(None)), Bus::new(gadget, 0.0, 0, false));
    let p = profile("woodenhaptics-v2015");
    let gadget = hid_haptic::HidHaptic::new(&p, &hand, 64).expect("in reach");
    let port = driver::hid_haptic::HidHaptic::new(Layout::Padded, [0; 3]);
    run("WoodenHaptics", p, Box::new(port), Bus::new(gadget, 0.0, 0, true));
}
