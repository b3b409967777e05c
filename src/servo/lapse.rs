//! How the force comes back after a lapse: samples were stale, or the clutch was held. Nothing holds the hand then, and it sinks into what it
//! leaned on. To render the wall where it stands would throw the hand out with all that the wall's spring holds that deep, which nobody
//! has put into it.
//!
//! So from then on each object gives no more than a limit. Of what it presses with, p, only p - b is felt; b is held back:
//!
//! - The limit is F + [`EASY`] in the beginning, with F wanted before the lapse, and [`FIRM`] more in every second. Where p - b would be more,
//!   b grows: a hand that still falls is caught as by clay, and does not bounce. What is felt is never more than without all this.
//! - b <= p: a hand that comes out of the wall feels nothing, and the wall is there where it has been farthest out.
//! - While less than F + [`EASY`] is felt, b falls by k [`WALK`] dt: the wall goes back to where it stands, and leads the hand out with it, which is as
//!   slow then. So it does under any hand when b is no more than [`EASY`].
//! - F follows what is felt, where that is more, in [`FOLLOW`]: who presses with P is led out after FOLLOW ln(P/EASY), too.
//!
//! With the stiffness k the wall's spring so holds (F + EASY)²/2k where it has caught the hand, and held F²/2k. The ramp brings that in as many ticks
//! as it went, unless another lapse began less than its time before; then, and after the clutch, it takes its time, and the limit is that of a spring
//! softer by the ramp's gain that holds as much, limit/√gain: else a hand would fall as long as the ramp takes.
//!
//! **Short lapses.** What a lapse takes is the part of the gain that was lost. Where half of it is left there is no limit at all, and the force comes back
//! as slowly as it comes on after arming: a stiff wall that came back at once would throw out what it let in softer. In between both go together. With the part r < 1/2 left the limit is (F + EASY)/(1 - 2r). F is then at least what was still felt. A limit that is there stays: short lapses
//! do not lift it, and F does not begin anew.
//!
//! Where the spring is softer than both what it was and what the material is, the limit is less by the root
//! of that, for the same energy: a pointshell or a sphere tree that is wholly inside is pressed by the same
//! wrench wherever it is, and feels nothing until it comes out.
//!
//! What makes an object press otherwise at the same place, such as an edit, makes b otherwise by the same factor.
//!
//! While nothing is known of an object, since its query is cut short or its proxy waits, the limit stays as it is. Real-time safe.

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

/// More than before that the hand may feel, N at the hand, of all objects together: it need not press with the very same force to be led out, and on the
/// way out the device's own friction is against it, with 0.26 N in the worst of those that ship (Phantom Omni), where on the way in it helped the wall.
pub const EASY: f64 = 0.6;
/// And so much more in every second where it presses by itself, N/s: within a second the wall is as firm as any.
pub const FIRM: f64 = 10.0;
/// How fast the hand is led out, m/s: 0.1 mJ of a hand's half kilogram.
pub const WALK: f64 = 0.02;
/// Who presses more than before does so on purpose after that time, s.
pub const FOLLOW: f64 = 1.0;
/// With this part of the gain left a lapse is no way in.
const SHORT: f64 = 0.5;
/// Who has touched nothing of an object for so many times [`FOLLOW`] is not inside it, also where there never is time for the whole query.
const CLEAR: f64 = 5.0;

/// What the servo knows of the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// There is no force.
    #[default]
    Off,
    /// Where it is, as in the tick before.
    Known,
    /// Not where it is, or the tool does not follow it.
    Away,
    /// Where it is, for the first time since.
    Back,
}

/// The ramp in a lapse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// In the last tick.
    pub was: f64,
    /// In this one, where it rises.
    pub comes: f64,
    /// What it had reached before.
    pub reached: f64,
    /// It comes back as fast as it went.
    pub quick: bool,
}

impl Gain {
    /// The whole force, and no lapse.
    pub const WHOLE: Self = Self { was: 1.0, comes: 1.0, reached: 0.0, quick: true };

    /// How far it is below what makes a lapse a short one; not positive where it is one. Real-time safe.
    pub fn lost(&self) -> f64 {
        SHORT * self.reached - self.was
    }

    /// Time of the ramp up after it, s: as fast as it went where all the gain was lost, and not faster than else (`up`) in a short one, which has no
    /// limit. Real-time safe.
    pub fn comes_over(&self, down: f64, up: f64) -> f64 {
        let part =
            if self.reached > 0.0 { (self.lost() / (SHORT * self.reached)).clamp(0.0, 1.0) } else { 0.0 };
        up + (down - up) * part
    }
}

/// A tick's place in a lapse, in the terms of the contact.
#[derive(Clone, Copy, Debug)]
pub struct Lapse {
    /// What is known.
    pub phase: Phase,
    /// The ramp.
    pub gain: Gain,
    /// [`EASY`], N.
    pub easy: f64,
    /// [`FIRM`] in a tick, N.
    pub firmer: f64,
    /// [`WALK`] in a tick, m.
    pub walk: f64,
    /// A tick's part of [`FOLLOW`].
    pub follow: f64,
}

impl Lapse {
    /// A tick of `dt` s; `more` is how many times the force and `farther` how many times the way is at the contact what it is at the hand.
    pub fn new(phase: Phase, gain: Gain, dt: f64, more: f64, farther: f64) -> Self {
        Self {
            phase,
            gain,
            easy: EASY * more,
            firmer: FIRM * dt * more,
            walk: WALK * dt * farther,
            follow: (dt / FOLLOW).min(1.0),
        }
    }

    /// There is none, and all the force.
    pub fn none() -> Self {
        Self::new(Phase::Known, Gain::WHOLE, 0.0, 1.0, 1.0)
    }

    /// For each of so many objects that are touched. Real-time safe.
    pub fn shared(self, objects: u16) -> Self {
        let each = 1.0 / f64::from(objects.max(1));
        Self { easy: self.easy * each, firmer: self.firmer * each, ..self }
    }
}

/// What an object presses with in a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressed {
    /// Its size, N.
    pub all: f64,
    /// How fast that grows with the depth, N/m.
    pub stiffness: f64,
    /// Of its material, N/m.
    pub material: f64,
    /// It did not come of the last tick's.
    pub anew: bool,
    /// All is known of it.
    pub settled: bool,
    /// How much of it was wanted in the last tick: it fades in.
    pub gain: f64,
}

/// What is held back of one object. Sizes in N.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    back: f64,
    /// Pressed in the last tick.
    all: f64,
    /// Wanted in the last tick that knew where the hand is, with its gain; and the stiffness, N/m.
    wanted: f64,
    stiffness: f64,
    /// The same before the lapse; the stiffness is infinite where nothing was wanted.
    before: f64,
    spring: f64,
    /// Most that is felt; infinite where there is no limit.
    most: f64,
    /// What of that is [`Lapse::easy`], and how much that was: how many objects share it is known a tick later.
    eased: (f64, f64),
    /// [`Pressed::gain`] in the last tick.
    gain: f64,
    /// For how long nothing of it has pressed, parts of [`FOLLOW`].
    clear: f64,
}

impl Default for Back {
    fn default() -> Self {
        Self {
            back: 0.0,
            all: 0.0,
            wanted: 0.0,
            stiffness: 0.0,
            before: 0.0,
            spring: 0.0,
            most: f64::INFINITY,
            eased: (0.0, 0.0),
            gain: 1.0,
            clear: 0.0,
        }
    }
}

impl Back {
    /// Something is held back.
    pub(super) fn holds(&self) -> bool {
        self.back > 0.0
    }

    /// The part of what presses that is felt.
    pub(super) fn part(&mut self, now: &Pressed, lapse: &Lapse) -> f64 {
        let was = (self.all - self.back) * self.gain;
        let known = lapse.phase == Phase::Known;
        match lapse.phase {
            Phase::Off => *self = Self::default(),
            Phase::Back => self.limit(was, lapse),
            Phase::Known | Phase::Away => {}
        }
        if self.most < f64::INFINITY {
            if now.anew && self.all > 0.0 {
                self.back *= now.all / self.all;
            }
            // Something is known of it.
            let seen = known && (now.settled || now.all > 0.0);
            if known {
                let (part, of) = std::mem::take(&mut self.eased);
                if lapse.easy < of {
                    self.most -= part * (1.0 - lapse.easy / of);
                }
            }
            if seen {
                self.most += lapse.firmer;
            }
            self.back = self.back.max(now.all - self.most_of(now, &lapse.gain));
            let pressed = (now.all - self.back) * now.gain.max(1.0);
            let leads = pressed < self.before + lapse.easy || self.back <= lapse.easy;
            if seen && leads {
                self.back -= now.stiffness.max(0.0) * lapse.walk;
            }
        }
        self.back = self.back.min(now.all).max(0.0);
        self.all = now.all;
        if known {
            self.wanted = (now.all - self.back) * lapse.gain.comes * now.gain;
            self.stiffness = now.stiffness;
            self.before += (self.wanted - self.before).max(0.0) * lapse.follow;
            // Within a second it is as firm as any, also where there never is time for the whole query.
            self.clear = if now.all > 0.0 { 0.0 } else { self.clear + lapse.follow };
            let firm =
                now.settled || self.most > self.before + lapse.firmer / lapse.follow || self.clear > CLEAR;
            if firm && !self.holds() && lapse.gain.comes >= lapse.gain.reached {
                self.most = f64::INFINITY;
            }
        }
        self.gain = now.gain;
        // What is no number is for the guard to see.
        if self.holds() { (now.all - self.back) / now.all } else { 1.0 }
    }

    /// The hand is back, and felt `was` of it in the last tick, at the gain then.
    fn limit(&mut self, was: f64, lapse: &Lapse) {
        let lost = lapse.gain.lost();
        if !(lost > 0.0) {
            return;
        }
        self.clear = 0.0;
        if !(self.most < f64::INFINITY) {
            self.before = self.wanted;
            self.spring =
                if self.wanted > 0.0 && self.stiffness > 0.0 { self.stiffness } else { f64::INFINITY };
        }
        let looser = SHORT * lapse.gain.reached / lost;
        let most = (self.before.max(lapse.gain.was * was) + lapse.easy) * looser;
        if most < self.most {
            (self.most, self.eased) = (most, (lapse.easy * looser, lapse.easy));
        }
    }

    /// Most that may be wanted of it at this place and gain.
    fn most_of(&self, now: &Pressed, gain: &Gain) -> f64 {
        let most = if gain.quick || !(gain.comes > 0.0) { self.most } else { self.most / gain.comes.sqrt() };
        // What was softened and keeps its force for a while is felt more than it presses.
        let most = most / now.gain.max(1.0);
        let softer = now.stiffness.max(0.0) / self.spring.min(now.material);
        if softer < 1.0 { most * softer.sqrt() } else { most }
    }
}

#[cfg(test)]
#[path = "lapse_tests.rs"]
mod tests;
