//! A scene, a device and the servo on the virtual clock: what `hapticd simulate` and the scenario tests run.
//!
//! It does what the daemon's scene service does, in one thread: edit, compile, publish, send motion and commands.
//! With fixed work units for its budget, the same inputs give the same records, bit for bit.

use crate::device::Device;
use crate::geometry::field::build::Progress;
use crate::scene::compile::{CompileError, CompileReport, Compiler};
use crate::scene::model::{Applied, Edit, EditError, Scene};
use crate::scene::motion::{MotionScript, Player};
use crate::scene::snapshot::MotionFrame;
use crate::servo::handle::{Ack, QueueFull, ServoCommand, ServoConfig, ServoHandle, channel};
use crate::servo::record::TickRecord;
use crate::servo::run::VirtualServo;
use std::sync::Arc;

/// Why the scene of a running simulation did not change.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The edit makes no sense.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// It cannot be built.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// A running simulation.
pub struct Simulation {
    compiler: Arc<Compiler>,
    scene: Scene,
    handle: ServoHandle,
    servo: VirtualServo,
    players: Vec<(u32, Player)>,
    frames: u64,
    report: CompileReport,
}

impl Simulation {
    /// Compiles the scene, publishes it, and puts the servo between it and the device at time 0.
    ///
    /// # Errors
    /// The scene cannot be compiled.
    pub fn new(
        scene: Scene,
        motions: &[(u32, MotionScript)],
        compiler: Arc<Compiler>,
        device: Box<dyn Device>,
        config: ServoConfig,
        progress: &dyn Progress,
    ) -> Result<Self, CompileError> {
        let (snapshot, report) = compiler.compile_reported(&scene, progress)?;
        let (mut handle, end) = channel(config);
        // The first generation of a fresh channel cannot be stale.
        let published = handle.publish(Box::new(snapshot));
        debug_assert!(published.is_ok());
        let player = |(id, script): &(u32, MotionScript)| {
            let o = scene.object(*id)?;
            Some((*id, Player::new(script.clone(), *id, o.incarnation, o.pose)))
        };
        let players = motions.iter().filter_map(player).collect();
        let servo = VirtualServo::new(end, device);
        Ok(Self { compiler, scene, handle, servo, players, frames: 0, report })
    }

    /// Changes the scene; the next tick feels it.
    ///
    /// # Errors
    /// [`ChangeError`]; the scene is as before.
    pub fn change(
        &mut self,
        owner: u64,
        edits: &[Edit],
        progress: &dyn Progress,
    ) -> Result<Applied, ChangeError> {
        let (scene, applied) = self.scene.apply(owner, edits)?;
        let (snapshot, report) = self.compiler.compile_reported(&scene, progress)?;
        let published = self.handle.publish(Box::new(snapshot));
        debug_assert!(published.is_ok(), "revisions rise");
        (self.scene, self.report) = (scene, report);
        let scene = &self.scene;
        self.players.retain_mut(|(id, player)| {
            let object = scene.object(*id);
            object.is_some_and(|o| {
                player.retarget(o.incarnation);
                true
            })
        });
        Ok(applied)
    }

    /// Sends a command to the servo, as a session would.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn send(&mut self, command: ServoCommand) -> Result<u64, QueueFull> {
        self.handle.send(command)
    }

    /// Answers to commands.
    pub fn acks(&mut self) -> impl Iterator<Item = Ack> + '_ {
        self.handle.acks()
    }

    /// The control side's view of the servo.
    pub fn handle(&self) -> &ServoHandle {
        &self.handle
    }

    /// The scene as the next tick feels it.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// What the last compilation did.
    pub fn report(&self) -> &CompileReport {
        &self.report
    }

    /// Virtual time of the next tick, ns.
    pub fn now_ns(&self) -> u64 {
        self.servo.now_ns()
    }

    /// One tick: sends the motion that is due, steps the servo, frees what it returned.
    pub fn step(&mut self) -> TickRecord {
        self.stream();
        let record = self.servo.step();
        // The record is returned here; the telemetry ring must not fill up meanwhile.
        self.handle.drain(&mut |_| {});
        self.handle.reclaim();
        record
    }

    fn stream(&mut self) {
        let now = self.now_ns();
        let mut due = false;
        for (_, player) in &mut self.players {
            due |= player.advance(now);
        }
        if !due {
            return;
        }
        self.frames += 1;
        let mut entries = Vec::new();
        for (id, player) in &self.players {
            let Some(slot) = self.scene.object(*id).and_then(|o| o.motion) else { continue };
            let slot = usize::from(slot);
            if entries.len() <= slot {
                entries.resize(slot + 1, None);
            }
            entries[slot] = player.entry();
        }
        self.handle.publish_motion(Box::new(MotionFrame { sequence: self.frames, entries }));
    }
}
