//! What waits to be written to one client. Answers are never dropped (a client that does not read them is closed);
//! telemetry drops its oldest and says how many; notes (events, progress) drop their oldest.

use crate::protocol::messages::TelemetryNote;
use crate::protocol::rpc::{Notification, Response};
use crate::protocol::telemetry::StateJson;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Bytes of unread answers after which the client is closed.
const MAX_ANSWERS: usize = 8 << 20;
/// Events and progress reports kept.
const MAX_NOTES: usize = 256;
/// Telemetry notes kept.
const MAX_TELEMETRY: usize = 16;

/// A queue with one writer task and any number of producers.
#[derive(Debug, Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
    wake: Notify,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    answers: VecDeque<Vec<u8>>,
    answer_bytes: usize,
    notes: VecDeque<Vec<u8>>,
    telemetry: VecDeque<(Option<Arc<str>>, StateJson, f64)>,
    gap: u64,
    closed: bool,
    /// Nothing but the first answer goes out yet.
    quiet: bool,
    /// The writer has taken something and not come back for more.
    writing: bool,
}

impl Outbox {
    /// One whose first line is an answer, that to hello: what happens meanwhile is told after it.
    pub fn quiet() -> Self {
        Self { inner: Mutex::new(Inner { quiet: true, ..Inner::default() }), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an answer. Closes the outbox when too much lies unread.
    pub fn answer(&self, response: &Response) {
        let line = line(response);
        let mut i = self.lock();
        i.answer_bytes += line.len();
        i.answers.push_back(line);
        if i.answer_bytes > MAX_ANSWERS {
            i.closed = true;
            self.ended.notify_waiters();
        }
        drop(i);
        self.wake.notify_one();
    }

    /// Queues an event or a progress report.
    pub fn note(&self, method: &str, params: &impl Serialize) {
        let value = serde_json::to_value(params).unwrap_or_default();
        let line = line(&Notification::new(method, value));
        let mut i = self.lock();
        if i.notes.len() >= MAX_NOTES {
            i.notes.pop_front();
        }
        i.notes.push_back(line);
        drop(i);
        self.wake.notify_one();
    }

    /// Queues a telemetry note.
    pub fn telemetry(&self, state: StateJson, peak_force: f64) {
        self.telemetry_of(None, state, peak_force);
    }

    /// Queues a telemetry note of that device; `None` where the daemon has but one.
    pub fn telemetry_of(&self, device: Option<Arc<str>>, state: StateJson, peak_force: f64) {
        let mut i = self.lock();
        if i.telemetry.len() >= MAX_TELEMETRY {
            i.telemetry.pop_front();
            i.gap += 1;
        }
        i.telemetry.push_back((device, state, peak_force));
        drop(i);
        self.wake.notify_one();
    }

    /// Ends the writer once it has written what it took.
    pub fn close(&self) {
        self.lock().closed = true;
        self.ended.notify_waiters();
        self.wake.notify_one();
    }

    /// True once closed or given up.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// True when every answer and note has been written, or never will be.
    pub fn is_idle(&self) -> bool {
        let i = self.lock();
        i.closed || (i.answers.is_empty() && i.notes.is_empty() && !i.writing)
    }

    /// Waits until the outbox is closed. Cancel safe.
    pub async fn closed(&self) {
        loop {
            let wait = self.ended.notified();
            if self.is_closed() {
                return;
            }
            wait.await;
        }
    }

    /// The next bytes to write; `None` once closed and nothing but telemetry is left. Cancel safe.
    pub async fn next(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut i = self.lock();
                // Whoever asks has written what it took before.
                i.writing = false;
                if i.answer_bytes > MAX_ANSWERS {
                    return None;
                }
                if let Some(a) = i.answers.pop_front() {
                    i.answer_bytes -= a.len();
                    i.writing = true;
                    i.quiet = false;
                    return Some(a);
                }
                if !i.quiet
                    && let Some(n) = i.notes.pop_front()
                {
                    i.writing = true;
                    return Some(n);
                }
                if i.closed {
                    return None;
                }
                if !i.quiet
                    && let Some((device, state, peak_force)) = i.telemetry.pop_front()
                {
                    let gap = std::mem::take(&mut i.gap);
                    drop(i);
                    let device = device.map(|d| d.to_string());
                    let note = TelemetryNote { gap, state, peak_force, device };
                    let value = serde_json::to_value(&note).unwrap_or_default();
                    return Some(line(&Notification::new("telemetry", value)));
                }
            }
            self.wake.notified().await;
        }
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Our own types always serialise: their maps have string keys.
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::rpc::Id;
    use serde_json::{Value, json};

    async fn read(o: &Outbox) -> Value {
        serde_json::from_slice(&o.next().await.expect("something")).expect("JSON")
    }

    fn tick(n: u64) -> StateJson {
        StateJson { tick: n, ..StateJson::default() }
    }

    #[tokio::test]
    async fn slow_readers_lose_the_oldest_and_learn_how_many() {
        let o = Outbox::default();
        for n in 0..20 {
            o.telemetry(tick(n), 0.0);
        }
        let mut got = Vec::new();
        for _ in 0..MAX_TELEMETRY {
            let v = read(&o).await;
            got.push((v["params"]["gap"].as_u64(), v["params"]["state"]["tick"].as_u64()));
        }
        assert_eq!(got[0], (Some(4), Some(4)), "4 of 20 were dropped, the fifth comes first");
        let want: Vec<_> = (5..20).map(|n| (Some(0), Some(n))).collect();
        assert_eq!(got[1..], want);
    }

    #[tokio::test]
    async fn answers_go_first_and_are_never_dropped() {
        let o = Outbox::default();
        o.telemetry(tick(1), 0.0);
        for n in 0..1000 {
            o.answer(&Response::ok(Some(Id::Number(n)), json!(null)));
        }
        for n in 0..1000 {
            assert_eq!(read(&o).await["id"], n);
        }
        assert_eq!(read(&o).await["method"], "telemetry");
    }

    #[tokio::test]
    async fn the_first_line_of_a_quiet_one_is_an_answer() {
        let o = Outbox::quiet();
        o.note("event", &json!({}));
        o.telemetry(tick(1), 0.0);
        let none = tokio::time::timeout(std::time::Duration::from_millis(20), o.next()).await;
        assert!(none.is_err(), "{none:?}");
        o.answer(&Response::ok(Some(Id::Number(7)), json!(null)));
        assert_eq!(read(&o).await["id"], 7);
        assert_eq!(read(&o).await["method"], "event");
        assert_eq!(read(&o).await["method"], "telemetry");
    }

    #[tokio::test]
    async fn who_reads_no_answers_is_given_up() {
        let o = Outbox::default();
        let big = "x".repeat(1 << 20);
        for _ in 0..9 {
            o.answer(&Response::ok(None, json!(big)));
        }
        assert!(o.is_closed());
        assert_eq!(o.next().await, None);
    }

    #[tokio::test]
    async fn closing_lets_the_last_answers_out() {
        let o = Outbox::default();
        o.answer(&Response::ok(Some(Id::Number(1)), json!(1)));
        o.telemetry(tick(1), 0.0);
        o.close();
        assert_eq!(read(&o).await["id"], 1);
        assert_eq!(o.next().await, None);
    }
}
