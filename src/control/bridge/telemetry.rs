//! Records from the servo to subscribers, events and dumps.

use super::super::names;
use super::super::outbox::Outbox;
use super::State;
use super::datagrams::Pace;
use super::unit::Unit;
use crate::servo::record::{FLAG_CONTACT_BEGIN, FLAG_CONTACT_END, Fault, ServoState, TickRecord, ZeroReason};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

struct Subscriber {
    outbox: Arc<Outbox>,
    pace: Pace,
    peak: f64,
    last_tick: Option<u64>,
}

type Dump = Box<dyn FnMut(Vec<TickRecord>, &'static str) + Send>;

pub(super) struct Telemetry {
    /// Role of the device; `None` where the daemon has but one.
    name: Option<Arc<str>>,
    subscribers: BTreeMap<u64, Subscriber>,
    pub(super) tap: Option<Box<dyn FnMut(&TickRecord) + Send>>,
    /// The last records, for a dump after a fault.
    flight: VecDeque<TickRecord>,
    capacity: usize,
    dump: Dump,
    pub(super) last: Option<TickRecord>,
}

impl Telemetry {
    pub(super) fn new(name: Option<Arc<str>>, capacity: usize, dump: Dump) -> Self {
        Self {
            name,
            subscribers: BTreeMap::new(),
            tap: None,
            flight: VecDeque::with_capacity(capacity),
            capacity,
            dump,
            last: None,
        }
    }

    pub(super) fn subscribe(&mut self, id: u64, outbox: Arc<Outbox>, rate: f64) {
        match Pace::new(rate) {
            Some(pace) => {
                let s = Subscriber { outbox, pace, peak: 0.0, last_tick: None };
                self.subscribers.insert(id, s);
            }
            None => self.unsubscribe(id),
        }
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        self.subscribers.remove(&id);
    }

    /// The servo is gone: its next record will be another's. True when it was armed. What it felt before a panic is dumped.
    pub(super) fn forget(&mut self, panicked: bool) -> bool {
        if panicked && !self.flight.is_empty() {
            (self.dump)(self.flight.iter().copied().collect(), names::fault(Fault::Panic));
        }
        self.flight.clear();
        let last = self.last.take();
        last.is_some_and(|r| matches!(r.state, ServoState::Armed | ServoState::Rendering))
    }

    pub(super) fn take(&mut self, r: &TickRecord, changes: &mut Vec<(&'static str, String)>) {
        if let Some(tap) = &mut self.tap {
            tap(r);
        }
        if self.capacity > 0 {
            if self.flight.len() >= self.capacity {
                self.flight.pop_front();
            }
            self.flight.push_back(*r);
        }
        let force = r.force.iter().map(|f| f * f).sum::<f64>().sqrt();
        self.subscribers.values_mut().for_each(|s| s.peak = s.peak.max(force));
        let before = self.last.replace(*r);
        let (state, fault) = before.map_or((ServoState::Absent, Fault::None), |b| (b.state, b.fault));
        if r.fault != fault && r.fault != Fault::None {
            let name = names::fault(r.fault);
            changes
                .push(("fault", format!("fault: {name} at tick {}; see `status`, then clear_fault", r.tick)));
            if self.capacity > 0 {
                (self.dump)(self.flight.iter().copied().collect(), name);
            }
        }
        let on = |s: ServoState| matches!(s, ServoState::Armed | ServoState::Rendering);
        if on(r.state) != on(state) && before.is_some() {
            match on(r.state) {
                true => changes.push(("armed", format!("armed at tick {}", r.tick))),
                false => {
                    let why = match r.zero {
                        ZeroReason::LeaseLost => {
                            " (the owner is gone, or the machine was too busy to renew the lease in time)"
                        }
                        _ => "",
                    };
                    changes.push(("disarmed", format!("{}{why} at tick {}", names::zero(r.zero), r.tick)));
                }
            }
        }
        for (bit, event) in [(FLAG_CONTACT_BEGIN, "contact_begin"), (FLAG_CONTACT_END, "contact_end")] {
            if r.flags & bit != 0 {
                // Nothing is touched any more when a contact ends: the one of the tick before is meant.
                let object = if bit == FLAG_CONTACT_END {
                    before.map_or(0, |b| b.deepest_object)
                } else {
                    r.deepest_object
                };
                self.contact(event, object, r.tick);
            }
        }
    }

    /// Contacts begin and end often: only those who asked for telemetry hear of them.
    fn contact(&self, event: &str, object: u32, tick: u64) {
        let text = match object {
            0 => format!("at tick {tick}"),
            id => format!("object {id} at tick {tick}"),
        };
        let note = crate::protocol::messages::EventNote {
            event: event.into(),
            text,
            device: self.name.as_deref().map(str::to_owned),
        };
        self.subscribers.values().for_each(|s| s.outbox.note("event", &note));
    }
}

/// How long the loop may sleep: no longer than the fastest stream waits.
pub(super) fn patience(longest: Duration, fastest_ns: u64) -> Duration {
    // poll counts whole milliseconds; a stream of 1 kHz needs every one.
    longest.min(Duration::from_nanos(fastest_ns)).max(Duration::from_millis(1))
}

impl Unit {
    /// Takes the servo's records to everybody who asked for them.
    pub(super) fn drain(&mut self, now: u64) {
        let Some(servo) = &mut self.servo else { return };
        let mut changes = Vec::new();
        let telemetry = &mut self.telemetry;
        let (n, lost) = servo.drain(&mut |r| telemetry.take(r, &mut changes));
        if lost > 0 {
            self.shared.lost.fetch_add(lost, Relaxed);
        }
        for (event, text) in changes {
            match &self.name {
                Some(device) => tracing::info!(event, %device, "{text}"),
                None => tracing::info!(event, "{text}"),
            }
            self.all.broadcast_of(self.name.as_deref(), event, &text);
        }
        if n > 0 {
            *self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = self.telemetry.last;
        }
        let Some(latest) = self.telemetry.last else { return };
        let workspace = servo.counters().workspace.newest();
        for s in self.telemetry.subscribers.values_mut() {
            if s.last_tick != Some(latest.tick) && s.pace.due(now) {
                s.last_tick = Some(latest.tick);
                let peak = std::mem::take(&mut s.peak);
                s.outbox.telemetry_of(self.name.clone(), names::to_json(&latest, workspace), peak);
            }
        }
    }
}

impl State {
    pub(super) fn drain(&mut self, now: u64) {
        for device in 0..self.units.len() {
            let Some(unit) = self.units.get_mut(device) else { continue };
            unit.drain(now);
            let (latest, lost) = (unit.telemetry.last, unit.shared.lost.load(Relaxed));
            if let Some(latest) = latest.filter(|_| unit.servo.is_some()) {
                self.send_states(device, &latest, lost, now);
            }
        }
        self.fastest_ns = self.fastest_state().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Whatever the fault is, what was felt before it is kept, once, as far back as there is room for.
    #[test]
    fn every_fault_dumps_what_came_before_it_once() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink = kept.clone();
        let dump: Dump = Box::new(move |records, name| sink.lock().unwrap().push((records, name)));
        let mut telemetry = Telemetry::new(None, 100, dump);
        let (mut tick, mut changes) = (0, Vec::new());
        let mut step = |fault| {
            tick += 1;
            let state = if fault == Fault::None { ServoState::Rendering } else { ServoState::Fault };
            telemetry.take(&TickRecord { tick, state, fault, ..TickRecord::default() }, &mut changes);
            tick
        };
        for fault in &Fault::ALL[1..] {
            (0..250).for_each(|_| _ = step(Fault::None));
            let at = step(*fault);
            (0..50).for_each(|_| _ = step(*fault));
            let dumps = std::mem::take(&mut *kept.lock().unwrap());
            let [(records, name)] = &dumps[..] else { panic!("{fault:?}: {} dumps", dumps.len()) };
            assert_eq!(*name, names::fault(*fault));
            let ticks: Vec<u64> = records.iter().map(|r| r.tick).collect();
            assert_eq!(ticks, (at - 99..=at).collect::<Vec<_>>(), "{fault:?}");
            assert_eq!(records.last().map(|r| r.fault), Some(*fault));
        }
        let told = changes.iter().filter(|(event, _)| *event == "fault").count();
        assert_eq!(told, Fault::ALL.len() - 1);
    }
}
