//! Sessions: identity, key, token, role; what outlives a connection.

use super::outbox::Outbox;
use super::peer::Peer;
use crate::protocol::datagram::KEY;
use crate::protocol::messages::{Role, SessionInfo};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A client's session.
#[derive(Debug)]
pub struct Session {
    /// Number, below 2^53 so that every JSON reader keeps it.
    pub id: u64,
    token: String,
    uid: u32,
    started: Instant,
    heard: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Fresh for each connection, so that nothing recorded on an earlier one can be replayed.
    key: [u8; KEY],
    client: String,
    role: Role,
    pid: i32,
    /// The connection, when there is one.
    outbox: Option<Arc<Outbox>>,
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Key of its datagrams; another one after each resumption.
    pub fn key(&self) -> [u8; KEY] {
        self.lock().key
    }

    /// What it may do.
    pub fn role(&self) -> Role {
        self.lock().role
    }

    /// The name that the client gave.
    pub fn client(&self) -> String {
        self.lock().client.clone()
    }

    /// Where its messages go, while it is connected.
    pub fn outbox(&self) -> Option<Arc<Outbox>> {
        self.lock().outbox.clone()
    }

    /// Secret that resumes it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The user whose session it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Notes that the client has sent something.
    pub fn heard(&self) {
        self.heard.store(self.started.elapsed().as_millis() as u64, Relaxed);
    }

    /// How long the client has been silent.
    pub fn silence(&self) -> Duration {
        let now = self.started.elapsed();
        now.saturating_sub(Duration::from_millis(self.heard.load(Relaxed)))
    }

    fn info(&self) -> SessionInfo {
        let s = self.lock();
        SessionInfo {
            session: self.id,
            client: s.client.clone(),
            role: s.role,
            pid: s.pid,
            uid: self.uid,
            connected: s.outbox.is_some(),
        }
    }
}

/// Who asks for a session.
pub struct Applicant<'a> {
    /// Credentials.
    pub peer: &'a Peer,
    /// Name.
    pub client: &'a str,
    /// What it may do.
    pub role: Role,
    /// Token of an earlier session.
    pub token: Option<&'a str>,
    /// Its connection.
    pub outbox: Arc<Outbox>,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    all: Mutex<BTreeMap<u64, Arc<Session>>>,
}

/// Why no session was given.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Too many.
    #[error("{0} sessions are open, the most that control.sessions allows; close one first")]
    Full(usize),
    /// No random numbers.
    #[error("no random numbers for a key: {0}")]
    Random(#[from] io::Error),
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Session>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resumes the session of that token (same user only) or opens a new one. A connection that still holds the
    /// resumed session is closed. Returns the session and whether it was resumed.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn admit(&self, a: Applicant<'_>, limit: usize) -> Result<(Arc<Session>, bool), Denied> {
        let mut all = self.lock();
        let mut key = [0; KEY];
        random(&mut key)?;
        let known = a.token.and_then(|t| all.values().find(|s| same(&s.token, t) && s.uid == a.peer.uid));
        if let Some(session) = known.cloned() {
            let mut state = session.lock();
            let new =
                State { key, client: a.client.into(), role: a.role, pid: a.peer.pid, outbox: Some(a.outbox) };
            let old = std::mem::replace(&mut *state, new);
            drop(state);
            if let Some(o) = old.outbox {
                o.close();
            }
            session.heard();
            return Ok((session, true));
        }
        // Those that wait to be resumed are bounded by what they own.
        if all.values().filter(|s| s.lock().outbox.is_some()).count() >= limit {
            return Err(Denied::Full(limit));
        }
        let mut token = [0; 16];
        let mut id = [0; 8];
        random(&mut token)?;
        let id = loop {
            random(&mut id)?;
            let id = u64::from_le_bytes(id) >> 11;
            if id != 0 && !all.contains_key(&id) {
                break id;
            }
        };
        let session = Arc::new(Session {
            id,
            token: hex(&token),
            uid: a.peer.uid,
            started: Instant::now(),
            heard: AtomicU64::new(0),
            state: Mutex::new(State {
                key,
                client: a.client.into(),
                role: a.role,
                pid: a.peer.pid,
                outbox: Some(a.outbox),
            }),
        });
        all.insert(id, session.clone());
        Ok((session, false))
    }

    /// Notes that a connection ended; false when the session has another connection meanwhile.
    pub fn disconnect(&self, session: &Session, outbox: &Arc<Outbox>) -> bool {
        let mut state = session.lock();
        let mine = state.outbox.as_ref().is_some_and(|o| Arc::ptr_eq(o, outbox));
        if mine {
            state.outbox = None;
        }
        mine
    }

    /// Forgets a session unless it has been resumed; true when it is gone.
    pub fn forget(&self, session: &Session) -> bool {
        let mut all = self.lock();
        if session.lock().outbox.is_some() {
            return false;
        }
        all.remove(&session.id).is_some()
    }

    /// The session of that number.
    pub fn get(&self, id: u64) -> Option<Arc<Session>> {
        self.lock().get(&id).cloned()
    }

    /// All of them, as others see them.
    pub fn list(&self) -> Vec<SessionInfo> {
        self.lock().values().map(|s| s.info()).collect()
    }

    /// True when nothing waits to be written to any client.
    pub fn all_idle(&self) -> bool {
        let all: Vec<_> = self.lock().values().filter_map(|s| s.outbox()).collect();
        all.iter().all(|o| o.is_idle())
    }

    /// Sends an event to every connected client.
    pub fn broadcast(&self, event: &str, text: &str) {
        self.broadcast_of(None, event, text);
    }

    /// Sends an event about a device to every connected client; `None` where the daemon has but one.
    pub fn broadcast_of(&self, device: Option<&str>, event: &str, text: &str) {
        let device = device.map(str::to_owned);
        let note = crate::protocol::messages::EventNote { event: event.into(), text: text.into(), device };
        let outboxes: Vec<_> = self.lock().values().filter_map(|s| s.outbox()).collect();
        outboxes.iter().for_each(|o| o.note("event", &note));
    }
}

/// Compares secrets in time that does not depend on where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

fn random(out: &mut [u8]) -> io::Result<()> {
    // Not from /dev/urandom: a client must be able to say `disarm` when no descriptor is left.
    getrandom::fill(out).map_err(io::Error::from)
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32) -> Peer {
        Peer { pid: 1, uid, groups: vec![] }
    }

    fn ask<'a>(peer: &'a Peer, token: Option<&'a str>, outbox: &Arc<Outbox>) -> Applicant<'a> {
        Applicant { peer, client: "t", role: Role::Owner, token, outbox: outbox.clone() }
    }

    #[test]
    fn a_token_resumes_its_session_for_the_same_user_only() {
        let sessions = Sessions::default();
        let (o1, o2) = (Arc::new(Outbox::default()), Arc::new(Outbox::default()));
        let (s, resumed) = sessions.admit(ask(&peer(5), None, &o1), 9).expect("admitted");
        assert!(!resumed && s.id < 1 << 53);
        let (token, old_key) = (s.token().to_owned(), s.key());
        let (stranger, resumed) = sessions.admit(ask(&peer(6), Some(&token), &o2), 9).expect("admitted");
        assert!(!resumed && stranger.id != s.id && stranger.key() != s.key());
        assert!(sessions.disconnect(&s, &o1));
        let (again, resumed) = sessions.admit(ask(&peer(5), Some(&token), &o2), 9).expect("admitted");
        assert!(resumed && Arc::ptr_eq(&again, &s));
        assert_ne!(again.key(), old_key, "a new connection has a new key");
        assert!(!sessions.forget(&s), "it is connected");
        assert!(!sessions.disconnect(&s, &o1), "the old connection no longer counts");
        assert!(sessions.disconnect(&s, &o2));
        assert!(sessions.forget(&s));
        assert!(sessions.get(s.id).is_none());
    }

    #[test]
    fn resuming_closes_the_connection_that_still_holds_it() {
        let sessions = Sessions::default();
        let (o1, o2) = (Arc::new(Outbox::default()), Arc::new(Outbox::default()));
        let (s, _) = sessions.admit(ask(&peer(5), None, &o1), 9).expect("admitted");
        sessions.admit(ask(&peer(5), Some(s.token()), &o2), 9).expect("admitted");
        assert!(o1.is_closed() && !o2.is_closed());
    }

    #[test]
    fn sessions_are_limited() {
        let sessions = Sessions::default();
        let o = Arc::new(Outbox::default());
        sessions.admit(ask(&peer(5), None, &o), 1).expect("admitted");
        assert!(matches!(sessions.admit(ask(&peer(5), None, &o), 1), Err(Denied::Full(1))));
    }
}
