//! Wake error of the servo thread beside that of cyclictest, run alternately at the same priority, core and period.
//!
//! `cargo bench --bench wake [-- ROUNDS SECONDS]`. Needs the right to SCHED_FIFO; without it, and without cyclictest
//! (Debian package rt-tests: `apt-get install rt-tests`), it says so and reports what it can. Nothing is asserted: a virtual machine without
//! isolated cores shows the host's moods.

use hapticd::device::registry::{OpenOptions, Registry};
use hapticd::servo::handle::{ServoConfig, channel};
use hapticd::servo::rt::{RtOptions, pick_cpu};
use hapticd::servo::run::spawn;
use std::process::Command;
use std::time::{Duration, Instant};

const PRIORITY: u8 = 80;

fn at(sorted: &[f64], q: f64) -> f64 {
    sorted.get(((sorted.len().max(1) - 1) as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Wake errors of the servo over some time, us, sorted.
fn servo(cpu: Option<usize>, time: Duration) -> Vec<f64> {
    let device = Registry::builtin().open("ideal-6dof", &OpenOptions::default()).expect("shipped");
    let (mut handle, end) = channel(ServoConfig::default());
    let options = RtOptions { priority: PRIORITY, cpu, ..RtOptions::default() };
    let thread = spawn(end, device, options).expect("starts");
    for line in thread.report().shortfalls() {
        eprintln!("degraded {}: {}; cure: {}", line.what, line.why, line.cure);
    }
    let mut us = Vec::new();
    let started = Instant::now();
    while started.elapsed() < time {
        std::thread::sleep(Duration::from_millis(50));
        handle.drain(&mut |r| {
            us.push(r.wake_ns as f64 / 1e3);
        });
    }
    handle.stop();
    drop(thread);
    us.drain(..us.len().min(200));
    us.sort_by(f64::total_cmp);
    us
}

/// The same of cyclictest's histogram; `None` where it is not installed.
fn cyclictest(cpu: Option<usize>, time: Duration) -> Option<Vec<f64>> {
    let mut command = Command::new("cyclictest");
    command.args(["-m", "-q", "-t", "1", "-i", "1000", "-h", "20000", "-p", &PRIORITY.to_string()]);
    command.args(["-D", &time.as_secs().max(1).to_string()]);
    if let Some(cpu) = cpu {
        command.args(["-a", &cpu.to_string()]);
    }
    let out = command.output().ok()?;
    let mut us = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines().filter(|l| !l.starts_with('#')) {
        let mut words = line.split_whitespace();
        let pair = words.next().zip(words.next());
        if let Some((Ok(value), Ok(count))) = pair.map(|(v, c)| (v.parse::<f64>(), c.parse::<usize>())) {
            us.extend(std::iter::repeat_n(value, count));
        }
    }
    Some(us)
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let (rounds, seconds) = (numbers.first().copied().unwrap_or(3), numbers.get(1).copied().unwrap_or(5));
    let (cpu, time) = (pick_cpu(), Duration::from_secs(seconds));
    println!("SCHED_FIFO {PRIORITY}, CPU {cpu:?}, 1 kHz, {rounds} rounds of {seconds} s each; us");
    println!("{:>10} {:>9} {:>9} {:>9} {:>9}", "", "p50", "p99", "p99.9", "max");
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let ours = servo(cpu, time);
        let theirs = cyclictest(cpu, time);
        for (name, us) in [("hapticd", Some(&ours)), ("cyclictest", theirs.as_ref())] {
            match us {
                Some(us) => println!(
                    "{name:>10} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
                    at(us, 0.5),
                    at(us, 0.99),
                    at(us, 0.999),
                    at(us, 1.0)
                ),
                None => println!("{name:>10} not installed: apt-get install rt-tests"),
            }
        }
        if let Some(theirs) = theirs {
            // Cyclictest counts whole microseconds, rounded down.
            ratios.push((
                at(&ours, 0.5) / (at(&theirs, 0.5) + 0.5),
                at(&ours, 0.99) / (at(&theirs, 0.99) + 0.5),
            ));
        }
    }
    if !ratios.is_empty() {
        let median = |f: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = ratios.iter().map(f).collect();
            all.sort_by(f64::total_cmp);
            at(&all, 0.5)
        };
        println!(
            "ratio to cyclictest, median of rounds: p50 {:.2}, p99 {:.2}",
            median(|r| r.0),
            median(|r| r.1)
        );
    }
}
