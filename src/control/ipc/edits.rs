//! Edits of one connection: carried out in the order in which they came, beside everything else the connection asks.

use super::lanes::Busy;
use super::methods::Caller;
use super::{Server, answer, need};
use crate::control::ceiling;
use crate::control::outbox::Outbox;
use crate::control::scene::{Owner, convert, may_build};
use crate::control::session::Session;
use crate::geometry::field::build::Progress;
use crate::protocol::edit::Edit;
use crate::protocol::messages::{Cancel, ProgressNote, Role, Transaction};
use crate::protocol::rpc::{Id, Request, RpcError, arguments, codes, shown};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc;

/// Time between two progress reports, ms.
const REPORT_MS: u64 = 100;

/// An edit on its way.
pub(super) struct Job {
    id: Option<Id>,
    transaction: Transaction,
    /// The edit is the request itself, not one of a list.
    alone: bool,
    descriptor: Option<OwnedFd>,
}

impl Job {
    /// [`may_place`], at the time when the job comes.
    pub(super) fn may_place(&self, server: &Server, session: &Session) -> Result<(), RpcError> {
        let may = may_place(server, session, &self.transaction.edits);
        may.map_err(|e| if self.alone { convert::alone(e) } else { e })
    }
}

/// Another tool, or another place, moves what a hand holds: of several devices those that are held have theirs changed by who
/// holds them, or by an admin. With one device it is as it always was.
fn may_place(server: &Server, session: &Session, edits: &[Edit]) -> Result<(), RpcError> {
    let board = &server.board;
    let all = board.roles().len();
    if all < 2 || session.role() == Role::Admin {
        return Ok(());
    }
    for (i, edit) in edits.iter().enumerate() {
        if !matches!(edit, Edit::ToolSet { .. } | Edit::DevicePlace { .. }) {
            continue;
        }
        // A role that no device has is refused with the transaction.
        let devices = match edit.device() {
            Some(role) => board.find(Some(role)).map_or(0..0, |d| d..d + 1),
            None => 0..all,
        };
        let holder = |d: &usize| server.bridge.shared.owner(*d);
        let foreign = |d: &usize| holder(d) != 0 && holder(d) != session.id;
        let Some(device) = devices.into_iter().find(foreign) else { continue };
        let text = format!(
            "session {} holds the force of '{}'; only it or an admin may change its tool or place",
            holder(&device),
            board.name(device).unwrap_or_default()
        );
        return Err(convert::at(RpcError::new(codes::NOT_OWNER, text).field("device"), i));
    }
    Ok(())
}

/// True for `transaction` and for the edits that are methods of their own.
pub(super) fn is_edit(method: &str) -> bool {
    method == "transaction" || Edit::OPS.contains(&method)
}

pub(super) fn queue_full() -> RpcError {
    RpcError::new(codes::LIMIT, "too many edits of this connection are waiting; read the answers first")
}

/// Reads the arguments of an edit.
pub(super) fn job(request: Request, descriptor: Option<OwnedFd>, role: Role) -> Result<Job, RpcError> {
    need(role, Role::Owner, &request.method)?;
    let alone = request.method != "transaction";
    let transaction = if alone {
        let mut params = match request.params {
            Value::Object(m) => m,
            Value::Null => serde_json::Map::new(),
            _ => return Err(RpcError::new(codes::INVALID_PARAMS, "arguments are given by name")),
        };
        if params.insert("op".into(), request.method.into()).is_some() {
            return Err(RpcError::new(codes::INVALID_PARAMS, "`op` is the method here").field("op"));
        }
        let edit = arguments::<Edit>(Value::Object(params))?;
        Transaction { edits: vec![edit], expect_generation: None }
    } else {
        let raw: Raw = arguments(request.params)?;
        let edits = raw.edits.into_iter().enumerate().map(|(i, e)| {
            let op = e.get("op").and_then(Value::as_str);
            match op.filter(|op| !Edit::OPS.contains(op)) {
                Some(op) => {
                    let text = format!("there is no edit '{}'", shown(op));
                    Err(convert::at(RpcError::new(codes::INVALID_PARAMS, text).field("op"), i))
                }
                None => arguments::<Edit>(e).map_err(|e| convert::at(e, i)),
            }
        });
        Transaction { edits: edits.collect::<Result<_, _>>()?, expect_generation: raw.expect_generation }
    };
    if transaction.edits.iter().any(|e| matches!(e, Edit::SceneClear {})) {
        need(role, Role::Admin, "scene.clear")?;
    }
    Ok(Job { id: request.id, transaction, descriptor, alone })
}

/// A [`Transaction`] whose edits are read one by one, so that an error can name its edit.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    edits: Vec<Value>,
    #[serde(default)]
    expect_generation: Option<u64>,
}

/// Builds that can be cancelled, by request.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<Mutex<Vec<(Option<Id>, Arc<AtomicBool>)>>>);

impl Running {
    fn start(&self, id: Option<Id>) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(false));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((id, flag.clone()));
        flag
    }

    fn end(&self, flag: &Arc<AtomicBool>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, f)| !Arc::ptr_eq(f, flag));
    }

    /// Cancels one request; false when it is not running.
    pub(super) fn cancel(&self, c: &Cancel) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = false;
        for (_, flag) in all.iter().filter(|(id, _)| id.as_ref() == Some(&c.request)) {
            flag.store(true, Relaxed);
            found = true;
        }
        found
    }

    pub(super) fn cancel_all(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|(_, f)| f.store(true, Relaxed));
    }
}

/// Carries out the jobs of a connection, one after the other.
pub(super) async fn work(caller: Caller, mut jobs: mpsc::Receiver<Job>, _busy: Busy) {
    let Caller { server, session, outbox, running } = caller;
    while let Some(job) = jobs.recv().await {
        // Who has gone gets nothing more done.
        if outbox.is_closed() {
            return;
        }
        let (id, alone) = (job.id.clone(), job.alone);
        let result = carry_out(&server, &session, &outbox, &running, job).await;
        let result = result.map_err(|e| if alone { convert::alone(e) } else { e });
        answer(&server, &outbox, id.map(Some), result);
    }
}

async fn carry_out(
    server: &Arc<Server>,
    session: &Arc<Session>,
    outbox: &Arc<Outbox>,
    running: &Running,
    job: Job,
) -> Result<Value, RpcError> {
    let closed = |_| RpcError::new(codes::SHUTDOWN, "the daemon is shutting down");
    // Only what may build waits for a place.
    let builds = job.transaction.edits.iter().any(may_build);
    let _place = if builds {
        // Who goes while he waits leaves the queue, with his descriptor.
        tokio::select! {
            place = server.builds.acquire() => Some(place.map_err(closed)?),
            () = outbox.closed() => return Err(RpcError::new(codes::CANCELLED, "the connection has ended")),
        }
    } else {
        None
    };
    let cancel = running.start(job.id.clone());
    let report = Report::new(outbox.clone(), job.id.clone(), cancel.clone());
    let owner = Owner { session: session.id, uid: session.uid() };
    let (serving, asking) = (server.clone(), session.clone());
    let stiff = ceiling::named(&job.transaction.edits);
    let done = tokio::task::spawn_blocking(move || {
        let t = &job.transaction;
        // Who may is asked again when the build is done: a device may have come into other hands.
        let may = || may_place(&serving, &asking, &t.edits);
        serving.scene.transact_if(owner, t, job.descriptor, &report, &may)
    })
    .await;
    running.end(&cancel);
    match done {
        Ok(result) => result.map(|mut c| {
            c.notes.extend(ceiling::notes(&server.scene.scene(), &stiff, &server.board));
            serde_json::to_value(&c).unwrap_or_default()
        }),
        Err(_) => Err(RpcError::new(codes::INTERNAL, "the edit failed by a bug of the daemon; see its log")),
    }
}

/// Progress of a build as notifications.
struct Report {
    outbox: Arc<Outbox>,
    request: Option<Id>,
    cancel: Arc<AtomicBool>,
    start: Instant,
    last_ms: AtomicU64,
    stage: Mutex<&'static str>,
}

impl Report {
    fn new(outbox: Arc<Outbox>, request: Option<Id>, cancel: Arc<AtomicBool>) -> Self {
        let stage = Mutex::new("build");
        Self { outbox, request, cancel, start: Instant::now(), last_ms: AtomicU64::new(0), stage }
    }
}

impl Progress for Report {
    fn step(&self, done: u64, total: u64) {
        let now = self.start.elapsed().as_millis() as u64;
        let last = self.last_ms.load(Relaxed);
        let due = now >= last + REPORT_MS;
        // One of the worker threads wins; the others go on.
        if due && self.last_ms.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
            let stage = (*self.stage.lock().unwrap_or_else(PoisonError::into_inner)).into();
            let note = ProgressNote { request: self.request.clone(), stage, done, total };
            self.outbox.note("progress", &note);
        }
    }

    fn stage(&self, name: &'static str) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    fn cancelled(&self) -> bool {
        self.cancel.load(Relaxed)
    }
}
