//! The loop around the tick: on the real clock in a thread of its own, or on the virtual clock step by step.

use super::clock::{Clock, RealClock, VirtualClock};
use super::handle::ServoEnd;
use super::heap;
use super::record::{Fault, TickRecord};
use super::rt::{self, RtOptions, RtReport};
use super::schedule::{Lateness, Schedule};
use super::tick::Servo;
use crate::device::Device;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Growth of the suspended time that counts as a suspend, ns; less is a preemption between two clock readings.
const SUSPEND_NS: u64 = 50_000_000;

/// A servo, its device and its schedule on some clock.
struct Loop<C> {
    servo: Servo,
    device: Box<dyn Device>,
    clock: C,
    schedule: Schedule,
    suspended_ns: u64,
}

impl<C: Clock> Loop<C> {
    fn new(end: ServoEnd, device: Box<dyn Device>, clock: C) -> Self {
        let config = end.config.clone();
        let schedule = Schedule::new(
            config.period_ns,
            clock.now_ns(),
            config.late_in_row,
            config.late_per_second,
            (config.max_gap * 1e9) as u64,
        );
        let suspended_ns = clock.suspended_ns();
        Self { servo: Servo::new(end, device.profile()), device, clock, schedule, suspended_ns }
    }

    /// Sleeps until the next tick is due and does it.
    fn step(&mut self) -> TickRecord {
        self.clock.sleep_until(self.schedule.due_ns());
        let (plan, lateness) = self.schedule.wake(self.clock.now_ns());
        let fault = self.judge(lateness);
        let before = heap::operations();
        let record = self.servo.tick(&mut *self.device, &self.clock, plan, fault);
        let counted = heap::operations().wrapping_sub(before);
        super::flags::add(&self.servo.end.counters.heap, counted);
        let now = self.clock.now_ns();
        self.schedule.ended(now);
        if let Some(sample_ns) = self.device.next_sample_ns(now) {
            self.schedule.follow(sample_ns);
        }
        record
    }

    fn judge(&mut self, lateness: Lateness) -> Fault {
        let suspended = self.clock.suspended_ns();
        let grown = suspended.saturating_sub(self.suspended_ns);
        self.suspended_ns = suspended;
        if grown > SUSPEND_NS || lateness == Lateness::Gap {
            self.schedule.forgive();
            return Fault::Suspended;
        }
        // Lateness endangers only whom the device pushes; otherwise it is counted and no more.
        if lateness == Lateness::TooOften && self.servo.arming.owned() {
            self.schedule.forgive();
            return Fault::Overrun;
        }
        Fault::None
    }
}

/// A servo on the virtual clock: deterministic, faster than real time. Dropping it commands zero.
pub struct VirtualServo {
    inner: Loop<VirtualClock>,
}

impl VirtualServo {
    /// A servo at time 0. The first step is the tick at time 0.
    pub fn new(end: ServoEnd, device: Box<dyn Device>) -> Self {
        Self { inner: Loop::new(end, device, VirtualClock::default()) }
    }

    /// One tick; time moves on by one period.
    pub fn step(&mut self) -> TickRecord {
        self.inner.step()
    }

    /// When the next tick is due, ns.
    pub fn now_ns(&self) -> u64 {
        self.inner.schedule.due_ns().max(self.inner.clock.now_ns())
    }

    /// Lets time pass as if the thread had been kept from running: the next tick is late.
    pub fn delay(&mut self, ns: u64) {
        let due = self.inner.schedule.due_ns();
        self.inner.clock.sleep_until(due);
        self.inner.clock.advance(ns);
    }

    /// Suspends the machine for some time.
    pub fn suspend(&mut self, ns: u64) {
        self.inner.clock.suspend(ns);
    }

    /// Whether the real-time set-up suffices to arm, as [`spawn`] finds out on a real machine.
    pub fn set_rt_ok(&mut self, ok: bool) {
        self.inner.servo.set_rt_ok(ok);
    }

    /// As [`Servo::set_degraded`].
    pub fn set_degraded(&mut self, degraded: bool) {
        self.inner.servo.set_degraded(degraded);
    }

    /// True once the servo was asked to stop and holds no force any more.
    pub fn finished(&self) -> bool {
        self.inner.servo.finished()
    }

    /// The device.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.inner.device
    }
}

impl Drop for VirtualServo {
    fn drop(&mut self) {
        let now = self.inner.clock.now_ns();
        self.inner.device.zero(now);
        self.inner.servo.ended(1);
    }
}

/// How the servo thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Asked to stop: ramped to zero, zero at the device.
    Stopped,
    /// A panic in the tick; zero was commanded at once.
    Panicked,
}

/// What the thread hands back: how it ended, and everything that it must not free itself.
type Remains = (Ended, Box<dyn Device>, ServoEnd);

/// A running servo thread. Dropping it stops and joins.
pub struct ServoThread {
    thread: Option<JoinHandle<Remains>>,
    flags: super::handle::Flags,
    report: RtReport,
}

impl ServoThread {
    /// What the real-time set-up reached, with every shortfall and its cure.
    pub fn report(&self) -> &RtReport {
        &self.report
    }

    /// True once the thread has ended by itself.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end (after [`ServoHandle::stop`](super::handle::ServoHandle::stop)) and gives the device back.
    pub fn join(mut self) -> (Ended, Option<Box<dyn Device>>) {
        self.finish()
    }

    fn finish(&mut self) -> (Ended, Option<Box<dyn Device>>) {
        match self.thread.take().map(JoinHandle::join) {
            // The servo's memory is freed here, on the control side.
            Some(Ok((ended, device, end))) => {
                drop(end);
                (ended, Some(device))
            }
            Some(Err(_)) => (Ended::Panicked, None),
            None => (Ended::Stopped, None),
        }
    }
}

impl Drop for ServoThread {
    fn drop(&mut self) {
        self.flags.stop();
        let _ = self.finish();
    }
}

/// Starts the servo thread: sets it up for real time inside the thread itself, so that nothing of it is inherited by
/// other threads, and runs ticks until the handle stops it. Returns once set-up is done.
///
/// # Errors
/// When the thread cannot be started at all. Shortfalls of the set-up are no error: they stand in the report, and with
/// [`RtOptions::require_rt`] the servo refuses to arm.
pub fn spawn(end: ServoEnd, device: Box<dyn Device>, options: RtOptions) -> io::Result<ServoThread> {
    let flags = end.flags.clone();
    let counters = end.counters.clone();
    if let Some(last_word) = device.emergency() {
        let _ = counters.emergency.set(last_word);
    }
    let mut report = rt::process(&options);
    let mut io_ok = true;
    if let Some(io) = device.io() {
        if let Some(line) = io.scheduling().map(rt::device_io) {
            io_ok = line.ok;
            report.lines.push(line);
        }
        let _ = counters.io.set(io);
    }
    let (tell, told) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("servo".into()).stack_size(rt::STACK).spawn(move || {
        counters.set_own_thread();
        // Dropped on this thread only if the set-up itself panics.
        let (lines, guard) = rt::thread(&options);
        let sound = io_ok && lines.iter().all(|l| l.ok);
        let _ = tell.send(lines);
        drop(tell);
        let mut servo = Loop::new(end, device, RealClock);
        servo.servo.set_rt_ok(sound || !options.require_rt);
        servo.servo.set_degraded(!sound);
        let ended = run(&mut servo);
        drop(guard);
        let Loop { servo, device, .. } = servo;
        (ended, device, servo.end)
    })?;
    match told.recv() {
        Ok(lines) => report.lines.extend(lines),
        Err(_) => return Err(io::Error::other("the servo thread ended during its set-up")),
    }
    Ok(ServoThread { thread: Some(thread), flags, report })
}

/// Ticks until told to stop; whatever happens, the last command is zero.
fn run(servo: &mut Loop<RealClock>) -> Ended {
    let result = catch_unwind(AssertUnwindSafe(|| {
        while !servo.servo.finished() {
            servo.step();
        }
    }));
    let now = servo.clock.now_ns();
    let zeroed = catch_unwind(AssertUnwindSafe(|| servo.device.zero(now)));
    let ended = if result.is_ok() && zeroed.is_ok() { Ended::Stopped } else { Ended::Panicked };
    if ended == Ended::Panicked {
        servo.servo.arming.fail(Fault::Panic);
        servo.servo.end.counters.fail(Fault::Panic);
    }
    servo.servo.ended(if ended == Ended::Stopped { 1 } else { 2 });
    ended
}

impl Servo {
    /// Marks the thread's end for the counters: 1 stopped, 2 panicked.
    fn ended(&self, how: u32) {
        self.end.counters.ended.store(how, Release);
        self.end.counters.owner.store(0, Relaxed);
    }
}
