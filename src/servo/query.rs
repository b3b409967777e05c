//! All contact queries of one tick: broad phase, budget shares, one query per near object, fading, and their sum.
//!
//! A changed or jumped object that the tool touches never kicks: its force starts as the part of the new force that was
//! felt before the change and fades to the whole; so does one whose proxy comes to where it can come after it had been on its way, and
//! where that would be far more it stays what it was until the tool is out of there. An object whose stream stopped fades to nothing.
//! Real-time safe: every array is allocated once.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use super::fading::{Before, MAX_GAIN, about, begin, fade, pressed, size};
use super::lapse::{Back, Lapse, Pressed};
use super::mapping::ToolState;
use super::motion::{Motions, Played, Stream};
use super::own::Own;
use super::slots::{MEMORIES, Memory, Slot};
use crate::contact::near::{Near, near, nearest_facet};
use crate::contact::share::share_gently;
use crate::contact::{self, Budget, Deadline, Material, ObjectShape, Query, ToolShape};
use crate::geometry::{Point, Twist, Vec3, Wrench};
use crate::haptics::coupling;
use crate::haptics::effects::Push;
use crate::haptics::friction;
use crate::haptics::grip::{Held, Rubbed};
use crate::haptics::proxy::GRACE;
use crate::scene::snapshot::{MAX_MOVING, MAX_OBJECTS, MotionFrame, Snapshot, SnapshotObject};
use nalgebra::Matrix6;

/// An edit that would make what a ball is held back with so many times the force that was felt, and some newtons, lets it go.
const LEAP: f64 = 3.0;
const LEAP_FORCE: f64 = 1.0;
/// And a proxy that was long on its way presses no more than so many times what was felt, and those newtons, until it need not.
const CATCH: f64 = 2.0;
/// Balls whose proxy comes on in a tick that has nothing left; the others wait for their turn.
const TURNS: u64 = 4;

/// What one tick asks.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The scene.
    pub snapshot: &'a Snapshot,
    /// The moving poses.
    pub frame: Option<&'a MotionFrame>,
    /// The tool.
    pub tool: &'a ToolState,
    /// Tick number.
    pub tick: u64,
    /// Time of the tick, ns.
    pub now_ns: u64,
    /// Time since the last tick, s.
    pub dt: f64,
    /// When the snapshot was adopted in this tick: the generation felt before.
    pub since: Option<u64>,
    /// Work units for all queries together; 0 = unlimited.
    pub units: u32,
    /// Wall-clock guard.
    pub deadline: Option<&'a dyn Deadline>,
    /// Damping time of the coupling, s.
    pub tau: f64,
    /// Most that the friction of an object is stiff, N/m.
    pub grip: f64,
    /// Time over which changes fade in, s.
    pub fade: f64,
    /// Time over which a stopped object fades out, s.
    pub release: f64,
    /// Farthest that the tool goes between two samples, m.
    pub way: f64,
    /// The hand is held by force: it cannot have gone through a wall on purpose.
    pub keep: bool,
    /// How near an object brakes the tool, m; 0: none does.
    pub braking: f64,
    /// Where the tick stands in a lapse.
    pub lapse: Lapse,
}

/// What the tool feels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// Sum of the contact wrenches about the tool's origin, scene axes.
    pub contact: Wrench,
    /// The same with the coupling's damping.
    pub wrench: Wrench,
    /// Sum of the stiffnesses, same frame.
    pub stiffness: Matrix6<f64>,
    /// Upper bound of the damping, same frame.
    pub damping: Matrix6<f64>,
    /// Sum of the stiffnesses times the motion of what they belong to, same frame, N/s: how fast the wrench grows under a tool at rest.
    pub carried: Wrench,
    /// What the scene gives of its own.
    pub(super) own: Own,
    /// What objects that begin to fade in leave out, N, torques about the device's tool point and measured at the tool's radius.
    pub left_out: f64,
    /// Deepest penetration, m.
    pub depth: f64,
    /// Smallest known separation, m.
    pub distance: f64,
    /// Identifier of the deepest object; 0 = none.
    pub deepest_object: u32,
    /// Work units spent.
    pub work: u32,
    /// Objects queried.
    pub queried: u16,
    /// Objects touched.
    pub touched: u16,
    /// Something pushes, or is touched.
    pub felt: bool,
    /// Something is felt that has a place in the scene: a contact, or an effect with stiffness.
    pub placed: bool,
    /// Every query was complete, and no ball's proxy is on its way.
    pub complete: bool,
    /// The deadline ended a query.
    pub deadline_hit: bool,
    /// The stream of an object that is felt stopped.
    pub stopped: bool,
    /// After a lapse something of what is touched is held back.
    pub after_lapse: bool,
    /// How far a ball is behind what it cannot go through, m.
    pub behind: f64,
    /// What effects do beside the contacts.
    pub effects: Push,
    /// What is nearest within the reach of braking, and its motion at the tool's origin, m/s.
    pub near: Option<(Near, Vec3)>,
}

impl Touch {
    /// Nothing near.
    pub const NOTHING: Self = Self {
        contact: Wrench::ZERO,
        wrench: Wrench::ZERO,
        stiffness: Matrix6::from_array_storage(nalgebra::ArrayStorage([[0.0; 6]; 6])),
        damping: Matrix6::from_array_storage(nalgebra::ArrayStorage([[0.0; 6]; 6])),
        carried: Wrench::ZERO,
        own: Own::NOTHING,
        left_out: 0.0,
        depth: 0.0,
        distance: f64::INFINITY,
        deepest_object: 0,
        work: 0,
        queried: 0,
        touched: 0,
        felt: false,
        placed: false,
        complete: true,
        deadline_hit: false,
        stopped: false,
        after_lapse: false,
        behind: 0.0,
        effects: Push::NONE,
        near: None,
    };

    /// Something is felt, or an effect is there. Real-time safe.
    pub(super) fn acts(&self) -> bool {
        self.felt || self.effects != Push::NONE
    }

    /// Adds what effects do to a virtual tool that moves with `velocity`.
    pub(super) fn pushed(&mut self, push: &Push, velocity: &Vec3) {
        self.wrench.force += push.force;
        // What they damp is taken, and nobody's to give.
        self.own.power += (push.force + push.damping * velocity).dot(velocity);
        let (mut k, mut b) =
            (self.stiffness.fixed_view_mut::<3, 3>(0, 0), self.damping.fixed_view_mut::<3, 3>(0, 0));
        k += push.stiffness;
        b += push.damping;
        self.felt |= *push != Push::NONE;
    }
}

/// The servo's memory of all objects.
pub struct Queries {
    slots: Box<[Slot]>,
    memories: Box<[Memory]>,
    near: Box<[u16]>,
    needs: Box<[u32]>,
    last: Box<[u32]>,
    units: Box<[u32]>,
    played: Box<[Option<Played>]>,
    motions: Motions,
    /// [`Touch::behind`] of the last tick.
    behind: f64,
    /// Objects of which something was held back in the last tick, or that were touched if there were none; and those of this tick.
    shares: u16,
    held: u16,
}

impl Default for Queries {
    #[allow(clippy::disallowed_macros, reason = "allocated once, before the first tick")]
    fn default() -> Self {
        Self {
            slots: vec![Slot::new(); MAX_OBJECTS].into(),
            memories: vec![Memory::new(); MEMORIES].into(),
            near: vec![0; MAX_OBJECTS].into(),
            needs: vec![0; MAX_OBJECTS].into(),
            last: vec![0; MAX_OBJECTS].into(),
            units: vec![0; MAX_OBJECTS].into(),
            played: vec![None; MAX_MOVING].into(),
            motions: Motions::default(),
            behind: 0.0,
            shares: 0,
            held: 0,
        }
    }
}

impl Queries {
    /// Asks about everything that the tool may touch.
    pub fn touch(&mut self, world: &World<'_>) -> Touch {
        let (near, gap) = self.broad(world);
        let radius = world.snapshot.tool.bound_radius;
        let mut sum = Touch { distance: (gap - radius).max(0.0), ..Touch::NOTHING };
        self.share(world, near);
        for i in 0..near {
            let (Some(&index), Some(&units)) = (self.near.get(i), self.units.get(i)) else { break };
            if let Some(object) = world.snapshot.objects.get(usize::from(index)) {
                let turn = (i as u64).wrapping_add(world.tick) % (near as u64) < TURNS;
                self.object(world, object, usize::from(index), units, turn, &mut sum);
            }
        }
        self.behind = sum.behind;
        let held = std::mem::take(&mut self.held);
        self.shares = if held > 0 { held } else { sum.touched };
        sum
    }

    /// Finds the objects within reach: number of entries of `near`, and the smallest gap of the others to the tool's
    /// origin.
    fn broad(&mut self, world: &World<'_>) -> (usize, f64) {
        let snapshot = world.snapshot;
        let centre = Point::from(world.tool.pose.translation.vector);
        // What holds a ball back is asked until it lets go, however far the ball is pushed past it.
        let past = if self.behind > 0.0 { 2.0 * self.behind } else { 0.0 };
        // And what the tool may be beyond in the next tick is asked now: from which side it came is known by then.
        let ahead = if world.keep { world.way } else { 0.0 };
        let reach = snapshot.tool.bound_radius + past + ahead + world.braking;
        let (mut found, mut gap) = snapshot.broad.near(&centre, reach, &mut self.near);
        for &index in snapshot.broad.moving() {
            let Some(object) = snapshot.objects.get(usize::from(index)) else { continue };
            let played = self.motions.play(object, world.frame, world.now_ns);
            if let Some(place) = object.motion.and_then(|m| self.played.get_mut(usize::from(m))) {
                *place = Some(played);
            }
            let ball = played.pose * object.bound_centre;
            let distance = (ball - centre).norm() - object.bound_radius;
            match self.near.get_mut(found) {
                // It may come towards the tool.
                Some(place) if distance <= reach + played.twist.linear.norm() * 2.0 * world.dt => {
                    *place = index;
                    found += 1;
                }
                _ => gap = gap.min(distance),
            }
        }
        (found, gap)
    }

    /// Divides the tick's budget by what each object needed in the last tick.
    fn share(&mut self, world: &World<'_>, near: usize) {
        for i in 0..near {
            let object = self.near.get(i).and_then(|n| world.snapshot.objects.get(usize::from(*n)));
            let slot = object.and_then(|o| Some((o, self.slots.get(usize::from(o.slot))?)));
            let known = slot.filter(|(o, s)| s.id == o.id && s.tick + 1 == world.tick).map(|(_, s)| s);
            if let (Some(need), Some(last)) = (self.needs.get_mut(i), self.last.get_mut(i)) {
                *need = known.map_or(0, |s| s.need);
                *last = known.map_or(0, |s| s.units);
            }
        }
        if let (Some(needs), Some(last), Some(units)) =
            (self.needs.get(..near), self.last.get(..near), self.units.get_mut(..near))
        {
            share_gently(world.units, needs, last, units);
        }
    }

    fn object(
        &mut self,
        world: &World<'_>,
        object: &SnapshotObject,
        index: usize,
        units: u32,
        turn: bool,
        sum: &mut Touch,
    ) {
        let Some(slot) = self.slots.get_mut(usize::from(object.slot)) else { return };
        let rest = Played { pose: object.pose, twist: Twist::ZERO, stream: Stream::Rest, jumped: false };
        let played = object.motion.and_then(|m| *self.played.get(usize::from(m))?).unwrap_or(rest);
        let same = slot.id == object.id && slot.incarnation == object.incarnation;
        let Some(memory) = self.memories.get_mut(usize::from(object.slot) % MEMORIES) else { return };
        if (memory.id, memory.incarnation) != (object.id, object.incarnation) {
            memory.state.forget();
            memory.proxy.interrupt();
            memory.grip.interrupt();
            (memory.id, memory.incarnation) = (object.id, object.incarnation);
        }
        let recent = slot.tick + 1 == world.tick;
        // Higher coefficients fade in where lower ones are felt; what is new has its own.
        let wanted = &object.material.friction;
        let friction = match same && recent {
            true => friction::toward(&slot.friction, wanted, world.dt / world.fade),
            false => *wanted,
        };
        slot.friction = friction;
        let material = Material { friction, ..object.material };
        let query = Query {
            tool: &world.snapshot.tool.shape,
            tool_pose: &world.tool.pose,
            tool_twist: &world.tool.twist,
            object: &object.shape,
            object_pose: &played.pose,
            object_twist: &played.twist,
            material: &material,
        };
        let changed = played.jumped || world.since.is_some_and(|g| world.snapshot.broad.changed(index) > g);
        // Another material is another force at the same place.
        let edited = changed && !(same && slot.rest == object.pose);
        // Nothing holds a hand that feels nothing: where it is then is no deeper than it looks. Nor is a wall that was soft meant to throw
        // out what has sunk into it.
        let stiffness = object.material.stiffness;
        let silent = recent && slot.stopped && slot.gain <= 0.0 || !(stiffness > 0.0);
        let leap = changed && stiffness * memory.proxy.behind() > LEAP * slot.felt.force.norm() + LEAP_FORCE;
        if played.jumped || edited || silent || leap || !recent || !world.keep {
            memory.state.kept.interrupt();
            memory.proxy.interrupt();
            memory.grip.interrupt();
            slot.most = f64::INFINITY;
        }
        let budget = Budget { units, deadline: world.deadline };
        // What a ball meets on a mesh is the mesh's to say, also before there is force: the gate asks for what will be felt.
        let by_mesh = by_mesh(&query);
        // The least that each proxy has would be many times a tick's budget.
        sum.deadline_hit |= by_mesh && world.deadline.is_some_and(|d| d.passed());
        let over = sum.deadline_hit || (world.units > 0 && sum.work >= world.units);
        let (mut c, cone) = match (world.keep || by_mesh, over && !turn) {
            (true, true) => memory.proxy.wait(&query, budget, &mut memory.state, world.dt),
            (true, false) => memory.proxy.touch(&query, budget, &mut memory.state, world.dt),
            _ => (contact::query(&query, budget, &mut memory.state), None),
        };
        let waited = if world.keep { memory.proxy.waited() } else { 0.0 };
        let anew = changed || world.keep && memory.proxy.anew();
        sum.behind = sum.behind.max(memory.proxy.behind());
        sum.complete &= !memory.proxy.lags();

        let motion = motion(world.tool, &played);
        let close = c.distance.is_some_and(|d| d < world.braking);
        let within = sum.near.map_or(world.braking, |(other, _)| other.gap.clamp(0.0, world.braking));
        let found = match by_mesh && !c.touching && world.braking > 0.0 {
            true if over && !turn => None,
            // What its field has there, or has not, need not be on the mesh.
            true => nearest_facet(&query, within, &mut c),
            false if close => near(&query, &c, &memory.state),
            false => None,
        };
        if let Some(found) = found
            && sum.near.is_none_or(|(other, _)| found.gap < other.gap)
        {
            sum.near = Some((found, motion.linear));
        }
        let relative = Twist {
            linear: world.tool.twist.linear - motion.linear,
            angular: world.tool.twist.angular - motion.angular,
        };
        let radius = world.snapshot.tool.bound_radius;
        // Another object's is none; an edited one is held back as it was.
        if !(slot.id == object.id && recent) {
            slot.lapse = Back::default();
        }
        let (all, along) = pressed(&c, cone.as_ref(), radius);
        let settled = c.complete && !memory.proxy.lags();
        let all = Pressed {
            all,
            stiffness: along,
            material: stiffness,
            anew: anew || !same,
            settled,
            gain: if recent { slot.gain } else { 1.0 },
        };
        let part = slot.lapse.part(&all, &world.lapse.shared(self.shares));
        self.held = self.held.saturating_add(slot.lapse.holds().into());
        let spring = c.wrench;
        c.wrench = c.wrench.scaled(part);
        // Where nothing of it is felt nothing is damped: on the way out that would hold the hand back.
        let tau = if part > 0.0 { world.tau } else { 0.0 };
        let damping = coupling::damping(tau, &c.stiffness, &relative, &c.wrench);
        let mut whole = c.wrench + damping;
        if let Some(cone) = cone {
            whole.force = cone.cut(&whole.force);
        }
        let held = Held {
            tool: world.snapshot.tool.incarnation,
            tau: world.tau,
            most: world.grip,
            part,
            late: c.deadline_hit,
        };
        let rubbed = match world.keep {
            true => memory.grip.rub(&query, &c.patches, &held),
            false => None,
        };
        if let Some(rubbed) = &rubbed {
            c.wrench += rubbed.wrench;
            whole += rubbed.wrench;
        }
        let before = if recent { slot.gain } else { 1.0 };
        let again = same && recent && slot.anew;
        if anew && c.felt() {
            let felt = if recent { slot.felt } else { Wrench::ZERO };
            let there = if same && recent { slot.stiffness / stiffness } else { 0.0 };
            let in_place = changed && same && slot.pose == played.pose;
            let most = if in_place { MAX_GAIN } else { 1.0 };
            let moved = (world.dt + waited.min(GRACE)) * there.min(1.0);
            let before =
                Before { spring: if recent { slot.spring } else { Wrench::ZERO }, moved, most, again };
            slot.gain = begin(&before, &c, &relative, &played, world);
            let most = CATCH * size(&felt, radius) + LEAP_FORCE;
            if waited > GRACE && most < size(&c.wrench, radius) {
                slot.most = most;
            }
        } else {
            slot.gain = fade(slot.gain, &played, c.felt(), recent, world);
        }
        match size(&c.wrench, radius) {
            all if all > slot.most => slot.gain = slot.gain.min(slot.most / all),
            _ => slot.most = f64::INFINITY,
        }
        let gain = slot.gain;
        let share = std::mem::replace(&mut slot.share, gain * part);
        slot.id = object.id;
        slot.incarnation = object.incarnation;
        (slot.tick, slot.need, slot.units) = (world.tick, c.need, units);
        (slot.pose, slot.rest, slot.stiffness) = (played.pose, object.pose, stiffness);
        (slot.anew, slot.stopped) = (anew && c.felt(), played.stream == Stream::Stopped);
        (slot.felt, slot.spring) = (whole.scaled(gain), c.wrench.scaled(gain));

        sum.contact += c.wrench.scaled(gain);
        sum.wrench += slot.felt;
        sum.queried = sum.queried.saturating_add(1);
        sum.work = sum.work.saturating_add(c.work);
        sum.complete &= c.complete;
        sum.deadline_hit |= c.deadline_hit;
        sum.after_lapse |= slot.lapse.holds();
        if c.felt() {
            let came = match (anew, recent) {
                (true, _) if again => world.dt / world.fade,
                (false, true) => gain * part - share,
                _ => 0.0,
            };
            sum.own.drives(&slot.felt, &motion);
            sum.own.comes(&spring, came);
            let stiffness = c.stiffness * gain;
            sum.stiffness += stiffness;
            sum.carried += coupling::times(&stiffness, &motion);
            let begins = anew || (before == 0.0 && played.stream != Stream::Stopped);
            if begins && gain < 1.0 {
                sum.left_out += (1.0 - gain) * size(&about(&whole, &world.tool.lever), radius);
            }
            let material = object.material.damping / object.material.stiffness.max(1e-9);
            sum.damping += stiffness * (material + world.tau);
            if let Some(Rubbed { stiffness, sliding, .. }) = rubbed {
                let stiffness = stiffness * gain;
                sum.stiffness += stiffness;
                sum.damping += stiffness * world.tau;
                // What slides goes along with the tool.
                sum.carried += coupling::times(&stiffness, &motion);
                sum.carried += coupling::times(&(sliding * gain), &relative);
            }
            (sum.felt, sum.placed) = (true, true);
            sum.stopped |= played.stream == Stream::Stopped;
        }
        if c.touching {
            sum.touched = sum.touched.saturating_add(1);
            sum.distance = 0.0;
            if c.depth > sum.depth || sum.deepest_object == 0 {
                (sum.depth, sum.deepest_object) = (c.depth.max(sum.depth), object.id);
            }
        } else if let Some(distance) = c.distance {
            sum.distance = sum.distance.min(distance);
        }
    }
}

/// A ball against an object that has its proxy on the mesh.
fn by_mesh(query: &Query<'_>) -> bool {
    matches!((query.tool, query.object), (ToolShape::Sphere { .. }, ObjectShape::Solid(_)))
}

/// Motion of an object at the tool's origin.
fn motion(tool: &ToolState, played: &Played) -> Twist {
    let lever = tool.pose.translation.vector - played.pose.translation.vector;
    Twist { linear: played.twist.at(&lever), angular: played.twist.angular }
}
