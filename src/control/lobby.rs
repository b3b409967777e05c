//! Where connections wait until they have said what they want: a bounded room in which a crowd crowds out itself.
//!
//! When the room is full, whoever comes in next takes the place of the one that has waited longest among the peer that
//! holds the most places: first by user, then by process. A client that speaks at once therefore always gets its answer,
//! however many silent connections others hold open.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

struct Waiting {
    ticket: u64,
    user: u32,
    process: i32,
    /// Dropped when the place is given to another.
    _stay: oneshot::Sender<()>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    /// In the order of arrival.
    waiting: Vec<Waiting>,
}

/// The room.
pub struct Lobby {
    places: usize,
    inner: Mutex<Inner>,
}

impl Lobby {
    /// A room of so many places, at least one.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places: places.max(1), inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, somebody else's when none is free.
    pub fn enter(self: &Arc<Self>, user: u32, process: i32) -> Place {
        let (stay, given_away) = oneshot::channel();
        let mut inner = self.lock();
        while inner.waiting.len() >= self.places {
            let leaves = most(inner.waiting.iter().map(|w| w.user))
                .and_then(|u| most(inner.waiting.iter().filter(|w| w.user == u).map(|w| (u, w.process))));
            let at = inner.waiting.iter().position(|w| leaves == Some((w.user, w.process)));
            inner.waiting.remove(at.unwrap_or(0));
        }
        inner.next += 1;
        let ticket = inner.next;
        inner.waiting.push(Waiting { ticket, user, process, _stay: stay });
        drop(inner);
        Place { lobby: self.clone(), ticket, given_away }
    }

    /// Places taken.
    pub fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// True when nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which comes most often; of several the one that came first.
fn most<K: Copy + Eq + Hash>(keys: impl Iterator<Item = K> + Clone) -> Option<K> {
    let mut count: HashMap<K, usize> = HashMap::new();
    keys.clone().for_each(|k| *count.entry(k).or_default() += 1);
    let largest = count.values().copied().max()?;
    keys.clone().find(|k| count[k] == largest)
}

/// A place in the lobby; free again when dropped.
pub struct Place {
    lobby: Arc<Lobby>,
    ticket: u64,
    given_away: oneshot::Receiver<()>,
}

impl Place {
    /// Waits until the place is given to another. Cancel safe.
    pub async fn given_away(&mut self) {
        let _ = (&mut self.given_away).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.lobby.lock();
        inner.waiting.retain(|w| w.ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(p: &mut Place) -> bool {
        p.given_away.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_crowd_crowds_out_itself_oldest_first() {
        let lobby = Lobby::new(4);
        let mut other = lobby.enter(2, 50);
        let mut crowd: Vec<Place> = (0..3).map(|_| lobby.enter(1, 10)).collect();
        let mut newcomer = lobby.enter(1, 11);
        assert_eq!((lobby.len(), crowd.iter_mut().map(gone).collect()), (4, vec![true, false, false]));
        crowd.extend((0..100).map(|_| lobby.enter(1, 10)));
        assert!(!gone(&mut other) && !gone(&mut newcomer));
        assert_eq!(crowd.iter_mut().filter_map(|p| (!gone(p)).then_some(())).count(), 2);
        drop(crowd);
        assert_eq!(lobby.len(), 2, "each frees its own place, once");
    }

    /// One process for each connection does not help.
    #[test]
    fn a_user_with_many_processes_crowds_out_himself_before_others() {
        let lobby = Lobby::new(4);
        let mut other = [lobby.enter(2, 50), lobby.enter(2, 50)];
        let mut crowd: Vec<Place> = (0..100).map(|n| lobby.enter(1, n)).collect();
        // Two users with two places each: the one that came first gives one, then the other has more.
        assert!(other.iter_mut().filter_map(|p| (!gone(p)).then_some(())).count() >= 1);
        assert!(!gone(&mut crowd[99]), "the newest always has a place");
        let mut newcomer = lobby.enter(3, 7);
        assert!(!gone(&mut newcomer));
        assert_eq!(lobby.len(), 4);
    }

    #[tokio::test]
    async fn whoever_loses_the_place_is_told() {
        let lobby = Lobby::new(1);
        let mut first = lobby.enter(1, 1);
        let _second = lobby.enter(1, 2);
        first.given_away().await;
        drop(first);
        assert!(!lobby.is_empty());
    }
}
