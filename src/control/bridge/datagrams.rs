//! Datagrams in and out.

use super::super::motion::Fate;
use super::super::names;
use super::super::session::Session;
use super::super::udp::Batch;
use super::{BATCHES_A_ROUND, State};
use crate::protocol::datagram::{
    Datagram, KEY, Kind, MAX_DATAGRAM, MAX_POSES, MotionPose, Sender, WireError,
};
use crate::protocol::replay::{Verdict, Window};
use crate::servo::handle::monotonic_ns;
use crate::servo::record::TickRecord;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

pub(super) struct Udp {
    pub(super) socket: UdpSocket,
    pub(super) batch: Batch,
}

/// Something that is due at a steady rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    period_ns: u64,
    due_ns: u64,
}

impl Pace {
    /// `rate` a second, `None` for 0.
    pub(super) fn new(rate: f64) -> Option<Self> {
        (rate > 0.0).then(|| Self { period_ns: (1e9 / rate) as u64, due_ns: 0 })
    }

    /// True when one is due; keeps the phase, skips what was missed.
    pub(super) fn due(&mut self, now: u64) -> bool {
        if now < self.due_ns {
            return false;
        }
        let missed = now - self.due_ns >= self.period_ns;
        self.due_ns = if missed { now + self.period_ns } else { self.due_ns + self.period_ns };
        true
    }

    pub(super) fn period_ns(&self) -> u64 {
        self.period_ns
    }
}

/// A session as the datagram plane sees it.
pub(super) struct Client {
    pub(super) session: Arc<Session>,
    key: [u8; KEY],
    /// State streams by device.
    pub(super) streams: Box<[StateStream]>,
    attach: Window,
    address: Option<SocketAddr>,
}

/// What a session is sent about one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateStream {
    pub(super) pace: Option<Pace>,
    seq: u32,
    last_tick: Option<u64>,
}

impl Client {
    pub(super) fn new(session: Arc<Session>, devices: usize) -> Self {
        let (key, streams) = (session.key(), vec![StateStream::default(); devices].into());
        Self { session, key, streams, attach: Window::default(), address: None }
    }
}

impl State {
    pub(super) fn receive_datagrams(&mut self) {
        for _ in 0..BATCHES_A_ROUND {
            let mut batch = std::mem::take(&mut self.udp.batch);
            let n = batch.receive(&self.udp.socket).unwrap_or(0);
            let now = monotonic_ns();
            self.shared.udp.received.fetch_add(n as u64, Relaxed);
            for i in 0..n {
                let (bytes, from) = batch.get(i);
                if let Err(e) = self.datagram(bytes, from, now) {
                    self.shared.udp.refuse(e);
                }
            }
            self.udp.batch = batch;
            if n < Batch::capacity() {
                return;
            }
        }
    }

    fn datagram(&mut self, bytes: &[u8], from: SocketAddr, now: u64) -> Result<(), WireError> {
        let c = &self.shared.udp;
        if !from.ip().is_loopback() {
            c.source.fetch_add(1, Relaxed);
            return Ok(());
        }
        let d = Datagram::parse(bytes)?;
        let Some(client) = self.sessions.get_mut(&d.header.session) else {
            c.session.fetch_add(1, Relaxed);
            return Ok(());
        };
        d.verify(&client.key)?;
        match d.header.kind {
            Kind::State => Err(WireError::Kind),
            Kind::Attach => {
                match client.attach.check(d.header.seq) {
                    Verdict::Newest { .. } => {
                        client.address = Some(from);
                        c.taken.fetch_add(1, Relaxed);
                    }
                    Verdict::Replay => count(&c.replay),
                    Verdict::Late | Verdict::Old => count(&c.old),
                }
                client.session.heard();
                Ok(())
            }
            Kind::Motion => {
                let blank = MotionPose { object: 0, position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] };
                let mut poses = [blank; MAX_POSES];
                let n = d.poses(&mut poses)?;
                match self.motion.feed(&d.header, &poses[..n], now) {
                    Fate::Taken { gap, late, stepped, strangers } => {
                        c.taken.fetch_add(1, Relaxed);
                        c.gaps.fetch_add(gap.into(), Relaxed);
                        c.late.fetch_add(late.into(), Relaxed);
                        c.clock_steps.fetch_add(stepped.into(), Relaxed);
                        c.strangers.fetch_add(strangers.into(), Relaxed);
                        client.session.heard();
                    }
                    Fate::Replay => count(&c.replay),
                    Fate::Old => count(&c.old),
                    Fate::NoStream => count(&c.stream),
                }
                Ok(())
            }
        }
    }

    /// Sends the newest tick of a device to every attached session whose datagram is due.
    pub(super) fn send_states(&mut self, device: usize, latest: &TickRecord, lost: u64, now: u64) {
        let mut out = [0; MAX_DATAGRAM];
        for client in self.sessions.values_mut() {
            let Some(stream) = client.streams.get_mut(device) else { continue };
            let (Some(to), Some(pace)) = (client.address, &mut stream.pace) else { continue };
            if stream.last_tick == Some(latest.tick) || !pace.due(now) {
                continue;
            }
            stream.last_tick = Some(latest.tick);
            // There are few devices.
            let sender = Sender { session: client.session.id, key: &client.key, stream: device as u16 };
            let n = sender.state(stream.seq, now, &names::to_state(latest, lost), &mut out);
            stream.seq = stream.seq.wrapping_add(1);
            let counter = match self.udp.socket.send_to(&out[..n], to) {
                Ok(_) => &self.shared.udp.sent,
                Err(_) => &self.shared.udp.send_failed,
            };
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn fastest_state(&self) -> Option<u64> {
        let attached = self.sessions.values().filter(|c| c.address.is_some());
        attached.flat_map(|c| c.streams.iter()).filter_map(|s| s.pace.as_ref()).map(Pace::period_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_keeps_its_phase_and_skips_what_it_missed() {
        assert!(Pace::new(0.0).is_none());
        let mut p = Pace::new(100.0).expect("a pace");
        assert!(p.due(1_000_000_000));
        assert!(!p.due(1_009_999_999));
        assert!(p.due(1_010_000_005));
        assert!(p.due(1_020_000_000), "the phase is kept");
        assert!(p.due(1_100_000_000));
        assert!(!p.due(1_100_000_001), "no burst after a pause");
    }
}
