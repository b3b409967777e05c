//! Requests to one device wait for one another, and for those to no other: a lane for each device and connection.
//!
//! Taking the force away waits in no lane. It is told to the bridge as soon as it is read, and voids what was asked for before and would
//! bring the force: under one lock for each device, so that an arm is either told to the bridge before it, and refused by the servo, or
//! is not told at all.

use super::answer;
use super::methods::Caller;
use crate::control::bridge::{Asked, refusal};
use crate::protocol::rpc::{Id, RpcError, codes};
use crate::servo::handle::Refusal;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Requests to a device that may wait, of one connection.
const WAITING: usize = 64;
/// Disarms of a device whose end may be waited for, of one connection.
const DISARMS: usize = 16;
/// What has waited longer is not done any more: whoever asked has given it up.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often everybody's force was taken away, by device.
#[derive(Debug)]
pub struct Gates(Box<[Mutex<u64>]>);

impl Gates {
    /// Of so many devices.
    pub fn of(devices: usize) -> Self {
        Self((0..devices).map(|_| Mutex::default()).collect())
    }

    /// The lock under which a device is armed or its force taken away; `None` for a device that does not exist.
    fn lock(&self, device: usize) -> Option<MutexGuard<'_, u64>> {
        self.0.get(device).map(|g| g.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What was taken away before a request was read: everybody's, and its connection's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([u64; 2]);

/// What a connection has asked of one device.
#[derive(Debug)]
pub(super) struct Own {
    device: usize,
    /// How often it took the force away. Read and changed under the device's gate.
    taken: AtomicU64,
    /// Requests for the force that wait or are under way.
    arms: AtomicUsize,
}

impl Own {
    fn new(device: usize) -> Self {
        Self { device, taken: AtomicU64::new(0), arms: AtomicUsize::new(0) }
    }

    /// Now.
    fn stamp(&self, gates: &Gates) -> Stamp {
        let all = gates.lock(self.device);
        Stamp([all.map_or(0, |all| *all), self.taken.load(Relaxed)])
    }

    /// Begins to arm, unless the force was taken away since `stamp`.
    ///
    /// # Errors
    /// It was, or what `begin` says.
    pub(super) fn arm<T>(
        &self,
        gates: &Gates,
        stamp: Stamp,
        begin: impl FnOnce() -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        let all = gates.lock(self.device);
        if stamp != Stamp([all.as_ref().map_or(0, |all| **all), self.taken.load(Relaxed)]) {
            return Err(refusal(Refusal::Disarmed));
        }
        begin()
    }

    /// Takes away what this connection has asked for so far, and everybody else with `any`.
    pub(super) fn void<T>(&self, gates: &Gates, any: bool, begin: impl FnOnce() -> T) -> T {
        let mut all = gates.lock(self.device);
        if let Some(all) = all.as_mut().filter(|_| any) {
            **all += 1;
        }
        self.taken.fetch_add(1, Relaxed);
        begin()
    }

    /// The connection waits for this device's force.
    pub(super) fn is_asked_for(&self) -> bool {
        self.arms.load(Relaxed) > 0
    }
}

/// Counts a request for the force while it lives.
struct Asking(Arc<Own>);

impl Asking {
    fn new(own: &Arc<Own>) -> Self {
        own.arms.fetch_add(1, Relaxed);
        Self(own.clone())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.arms.fetch_sub(1, Relaxed);
    }
}

/// What stands in a lane.
enum Job {
    Call {
        id: Option<Option<Id>>,
        method: String,
        params: Value,
        read: Instant,
        stamp: Stamp,
        asking: Option<Asking>,
    },
    /// Nothing before the end of a disarm that was read before.
    After(oneshot::Receiver<()>),
}

/// Something of the connection that is not done yet: it lives as long as this does.
pub(super) type Busy = mpsc::Sender<()>;

/// The lanes of a connection.
pub(super) struct Lanes(Vec<Lane>);

struct Lane {
    own: Arc<Own>,
    /// `None` once no more come.
    jobs: Option<mpsc::Sender<Job>>,
    worker: JoinHandle<()>,
    disarms: Arc<Semaphore>,
}

impl Lanes {
    /// One for each device.
    pub(super) fn new(caller: &Caller, devices: usize, busy: &Busy) -> Self {
        let lane = |device| {
            let (jobs, coming) = mpsc::channel(WAITING);
            let own = Arc::new(Own::new(device));
            let worker = tokio::spawn(work(caller.clone(), own.clone(), coming, busy.clone()));
            Lane { own, jobs: Some(jobs), worker, disarms: Arc::new(Semaphore::new(DISARMS)) }
        };
        Self((0..devices).map(lane).collect())
    }

    /// Takes a request to that device, which is answered in its turn; an error is the answer.
    pub(super) fn take(
        &self,
        caller: &Caller,
        device: usize,
        id: Option<Option<Id>>,
        method: String,
        params: Value,
    ) -> Result<(), RpcError> {
        let full = || {
            RpcError::new(
                codes::LIMIT,
                "too many requests to this device are waiting; read the answers first",
            )
        };
        let lane = self.0.get(device).ok_or_else(full)?;
        let asking = matches!(&*method, "arm" | "takeover").then(|| Asking::new(&lane.own));
        let (read, stamp) = (Instant::now(), lane.own.stamp(&caller.server.gates));
        let job = Job::Call { id, method, params, read, stamp, asking };
        lane.jobs.as_ref().ok_or_else(full)?.try_send(job).map_err(|_| full())
    }

    /// What was asked of each device, in their order.
    pub(super) fn own(&self) -> impl Iterator<Item = &Arc<Own>> {
        self.0.iter().map(|l| &l.own)
    }

    /// Waits beside everything else for the ends of these devices' disarms, which have begun, and answers. What is read after it about one
    /// of them waits for that. Where too many are waited for, this waits.
    pub(super) async fn disarmed(
        &self,
        caller: &Caller,
        id: Option<Option<Id>>,
        begun: Vec<(usize, Result<Asked<()>, RpcError>)>,
        busy: &Busy,
    ) {
        let mut permits: Vec<OwnedSemaphorePermit> = Vec::new();
        let mut barriers = Vec::new();
        for lane in begun.iter().filter_map(|(device, _)| self.0.get(*device)) {
            let (over, after) = oneshot::channel();
            // A full lane needs no barrier: all that is in it came before.
            if lane.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::After(after)).is_ok()) {
                barriers.push(over);
            }
            permits.extend(lane.disarms.clone().acquire_owned().await.ok());
        }
        let (caller, busy) = (caller.clone(), busy.clone());
        tokio::spawn(async move {
            let mut result = Ok(());
            for (_, asked) in begun {
                let one = match asked {
                    Ok(asked) => asked.end().await,
                    Err(e) => Err(e),
                };
                result = result.and(one);
            }
            answer(&caller.server, &caller.outbox, id, result.map(|()| caller.done()));
            drop((barriers, permits, busy));
        });
    }

    /// Nothing that was asked for so far brings a force any more.
    pub(super) fn void(&self, gates: &Gates) {
        self.own().for_each(|own| own.void(gates, false, || ()));
    }

    /// No further requests come; those that wait are answered.
    pub(super) fn close(&mut self) {
        self.0.iter_mut().for_each(|l| l.jobs = None);
    }
}

impl Drop for Lanes {
    /// The connection has ended: nobody waits for what has not begun.
    fn drop(&mut self) {
        self.0.iter().for_each(|l| l.worker.abort());
    }
}

/// Carries out the requests of a connection to one device, one after the other.
async fn work(caller: Caller, own: Arc<Own>, mut jobs: mpsc::Receiver<Job>, _busy: Busy) {
    while let Some(job) = jobs.recv().await {
        match job {
            Job::After(over) => drop(over.await),
            Job::Call { id, method, params, read, stamp, asking } => {
                let result = if read.elapsed() > PATIENCE {
                    let text =
                        "the requests to this device before it took too long; this one was not carried out";
                    Err(RpcError::new(codes::SERVO, text))
                } else {
                    caller.call(&method, params, Some((&own, stamp))).await
                };
                drop(asking);
                answer(&caller.server, &caller.outbox, id, result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(own: &Own, gates: &Gates, stamp: Stamp) -> bool {
        own.arm(gates, stamp, || Ok(())).is_ok()
    }

    /// A disarm voids what was asked for before it, of its own device and connection, or of all connections; and nothing later.
    #[test]
    fn a_disarm_voids_what_was_read_before_it_and_nothing_else() {
        let gates = Gates::of(2);
        let [mine, other, elsewhere] = [0, 0, 1].map(Own::new);
        for any in [false, true] {
            let stamps = [&mine, &other, &elsewhere].map(|own| own.stamp(&gates));
            assert!(armed(&mine, &gates, stamps[0]));
            mine.void(&gates, any, || ());
            assert!(!armed(&mine, &gates, stamps[0]));
            assert_eq!(armed(&other, &gates, stamps[1]), !any);
            assert!(armed(&elsewhere, &gates, stamps[2]));
            assert!(armed(&mine, &gates, mine.stamp(&gates)));
        }
    }

    /// Whatever happens at the same moment: an arm that is told at all is told before the disarm that voids it.
    #[test]
    fn no_arm_is_told_after_the_disarm_that_voids_it() {
        let gates = Gates::of(1);
        for _ in 0..2000 {
            let own = Own::new(0);
            let told = Mutex::new(Vec::new());
            let stamp = own.stamp(&gates);
            let tell = |what| told.lock().unwrap_or_else(PoisonError::into_inner).push(what);
            std::thread::scope(|s| {
                s.spawn(|| {
                    own.arm(&gates, stamp, || {
                        tell("arm");
                        Ok(())
                    })
                });
                s.spawn(|| own.void(&gates, false, || tell("disarm")));
            });
            let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(told.last(), Some(&"disarm"), "{told:?}");
        }
    }
}
