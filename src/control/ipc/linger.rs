//! What becomes of a session whose connection has ended.

use super::Server;
use crate::control::session::Session;
use crate::scene::model::{Edit, Meta};
use std::sync::Arc;

/// Waits for a resumption, then fades out and removes what the session owned.
pub(super) async fn linger(server: Arc<Server>, session: Arc<Session>) {
    /// Steps of the fade.
    const STEPS: u32 = 20;
    let owner = session.id;
    let mine = |m: &Meta| m.owner == owner && !m.persistent;
    let scene = server.scene.scene();
    let parts = scene.materials().any(|m| mine(&m.meta)) || scene.geometries().any(|g| mine(&g.meta));
    let owns = scene.objects().map(|o| &o.meta).chain(scene.effects().map(|e| &e.meta)).any(mine);
    if !owns && !parts {
        // Nothing to take up again: a token of it just opens a new session.
        server.sessions.forget(&session);
        return;
    }
    drop(scene);
    rest(server.clone(), session.clone()).await;
    tokio::time::sleep(server.options.resume).await;
    if !server.sessions.forget(&session) {
        return;
    }
    if owns {
        for step in 1..STEPS {
            let gain = 1.0 - f64::from(step) / f64::from(STEPS);
            apply(&server, owner, Edit::FadeOwned { owner, gain }).await;
            tokio::time::sleep(server.options.fade / STEPS).await;
        }
    }
    apply(&server, owner, Edit::RemoveOwned { owner }).await;
    if owns {
        server.sessions.broadcast("object_faded", &format!("the objects of session {owner} are gone"));
    }
}

/// The effects of a session push only while it is there: nobody else would end them.
pub(super) async fn rest(server: Arc<Server>, session: Arc<Session>) {
    let owner = session.id;
    let mine = |m: &Meta| m.owner == owner && !m.persistent;
    if !server.scene.scene().effects().any(|e| mine(&e.meta)) {
        return;
    }
    // It may come and go while the scene is edited.
    loop {
        let there = session.outbox().is_some();
        apply(&server, owner, Edit::RestEffects { owner, rest: !there }).await;
        if session.outbox().is_some() == there {
            return;
        }
    }
}

async fn apply(server: &Arc<Server>, owner: u64, edit: Edit) {
    let scene = server.scene.clone();
    let done = tokio::task::spawn_blocking(move || scene.apply(owner, &[edit])).await;
    if let Ok(Err(e)) = done {
        tracing::warn!("a dead session's objects could not be changed: {e}");
    }
}
