//! Field effects: viscosity, a constant force, a spring to a point, a magnet. Each within a maximum of its own, and behind all of
//! them whatever guards a contact's force too: the stiffness cap (of which they get what the contacts leave), the ramps, limits and
//! the energy account.
//!
//! Springs and magnets are conservative and damped like contacts. Viscosity pushes against the velocity as it is estimated: what it
//! adds when that is out of date is bounded by its coefficient, and the cap holds that to what the device damps stably
//! (`max_damping` of the profile, at this rate and delay). A constant force is not passive: it is bounded by its maximum only.
//!
//! Nothing comes or goes in a step: an effect fades in once the force is on, out when it is deleted, and goes from its old to its new
//! numbers. Real-time safe.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use crate::contact::effect::{Effect, EffectKind, MAX_EFFECTS, SceneEffect};
use crate::contact::sound;
use crate::geometry::Vec3;
use crate::geometry::pose::finite;
use nalgebra::Matrix3;

/// Those that are there and those that still fade out.
const SLOTS: usize = 2 * MAX_EFFECTS;
/// Largest value of t (1 - t)^2 in 0..1, at t = 1/3.
const PEAK: f64 = 4.0 / 27.0;

/// What effects do to a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Push {
    /// Force at the tool's origin, scene axes, N.
    pub force: Vec3,
    /// Positive part of -d(force)/d(position), N/m.
    pub stiffness: Matrix3<f64>,
    /// -d(force)/d(velocity), N·s/m.
    pub damping: Matrix3<f64>,
}

impl Push {
    /// No effect.
    pub const NONE: Self = Self {
        force: Vec3::new(0.0, 0.0, 0.0),
        stiffness: Matrix3::new(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        damping: Matrix3::new(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    };

    /// It pulls to a place: another pose of the tool is another force. Real-time safe.
    pub fn holds(&self) -> bool {
        self.stiffness != Self::NONE.stiffness
    }

    /// Adds `gain` times another. Real-time safe.
    pub(crate) fn add(&mut self, other: &Self, gain: f64) {
        self.force += other.force * gain;
        self.stiffness += other.stiffness * gain;
        self.damping += other.damping * gain;
    }
}

/// A spring that pulls by `pull` N at `away` m from its point, growing by `grows` N/m there.
fn towards(away: &Vec3, pull: f64, grows: f64, most: f64) -> Push {
    let distance = away.norm();
    let Some(out) = away.try_normalize(0.0) else {
        return Push { stiffness: Matrix3::identity() * grows.max(0.0), ..Push::NONE };
    };
    let (pull, grows) = if pull > most { (most, 0.0) } else { (pull, grows.max(0.0)) };
    let radial = out * out.transpose();
    Push {
        force: out * -pull,
        stiffness: radial * grows + (Matrix3::identity() - radial) * (pull / distance),
        damping: Matrix3::zeros(),
    }
}

/// What an effect does at `x` (scene, m) to a tool that moves with `v` (m/s); springs are damped with `tau` s times their stiffness. Never
/// more than its maximum, nothing for numbers that cannot be read. Real-time safe.
pub fn push(effect: &Effect, x: &Vec3, v: &Vec3, tau: f64) -> Push {
    let (strength, most) = (sound(effect.strength), sound(effect.max_force));
    if !(finite(&effect.vector) && finite(x) && finite(v)) {
        return Push::NONE;
    }
    let away = x - effect.vector;
    let mut push = match effect.kind {
        EffectKind::Viscosity => {
            Push { force: v * -strength, damping: Matrix3::identity() * strength, ..Push::NONE }
        }
        EffectKind::Constant => Push { force: effect.vector, ..Push::NONE },
        EffectKind::Spring => towards(&away, strength * away.norm(), strength, most),
        EffectKind::Magnet => {
            let range = sound(effect.range);
            let t = away.norm() / range;
            // Nothing at the point and from the range on, most of it at a third of the way.
            if t >= 1.0 || t.is_nan() {
                return Push::NONE;
            }
            let pull = strength * t * (1.0 - t) * (1.0 - t) / PEAK;
            let grows = strength * (1.0 - t) * (1.0 - 3.0 * t) / (PEAK * range);
            towards(&away, pull, grows, most)
        }
    };
    push.damping += push.stiffness * tau;
    push.force -= push.stiffness * v * tau;
    let size = push.force.norm();
    if size > most {
        push.force *= most / size;
        push.damping *= most / size;
    }
    push
}

/// One effect under way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u32,
    /// What it is, what it comes from, and how far it has come.
    to: Effect,
    from: Effect,
    part: f64,
    gain: f64,
}

impl Slot {
    /// The effect between its old and its new numbers.
    fn now(&self) -> Effect {
        let (a, b, t) = (&self.from, &self.to, self.part);
        let mix = |a: f64, b: f64| a + (b - a) * t;
        Effect {
            kind: b.kind,
            strength: mix(a.strength, b.strength),
            vector: a.vector + (b.vector - a.vector) * t,
            range: mix(a.range, b.range),
            max_force: mix(a.max_force, b.max_force),
        }
    }
}

/// The tick in numbers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time since the last tick, s.
    pub dt: f64,
    /// Time over which effects come and change, s.
    pub fade: f64,
    /// Time over which they go, s.
    pub release: f64,
    /// Damping time of springs, s.
    pub tau: f64,
    /// Scene metres per device metre: forces and maxima are meant at the hand.
    pub scale: f64,
}

/// The effects that are felt. Fixed size.
#[derive(Debug, Default)]
pub struct Effects {
    slots: [Option<Slot>; SLOTS],
}

impl Effects {
    /// Nobody holds the force: what comes fades in anew. Real-time safe.
    pub fn reset(&mut self) {
        self.slots = [None; SLOTS];
    }

    /// One tick of the effects of a scene on a tool at `x` (m) with `v` (m/s), scene axes. Real-time safe.
    pub fn step(&mut self, scene: &[SceneEffect], x: &Vec3, v: &Vec3, pace: &Pace) -> Push {
        for e in scene.iter().take(MAX_EFFECTS) {
            self.enter(e);
        }
        let mut sum = Push::NONE;
        for place in &mut self.slots {
            let Some(slot) = place else { continue };
            let wanted = scene.iter().take(MAX_EFFECTS).find(|e| is(e, slot)).map(|e| e.gain.clamp(0.0, 1.0));
            let goal = wanted.unwrap_or(0.0);
            slot.gain = match goal > slot.gain {
                true => (slot.gain + pace.dt / pace.fade).min(goal),
                false => (slot.gain - pace.dt / pace.release).max(goal),
            };
            slot.part = (slot.part + pace.dt / pace.fade).min(1.0);
            if wanted.is_none() && slot.gain <= 0.0 {
                *place = None;
                continue;
            }
            sum.add(&push(&at_hand(slot.now(), pace.scale), x, v, pace.tau), slot.gain);
        }
        sum
    }

    /// Takes in what is new of an effect.
    fn enter(&mut self, e: &SceneEffect) {
        if let Some(slot) = self.slots.iter_mut().flatten().find(|s| is(e, s)) {
            if slot.to != e.effect {
                (slot.from, slot.part) = (slot.now(), 0.0);
                slot.to = e.effect;
            }
            return;
        }
        let new = Slot { id: e.id, to: e.effect, from: e.effect, part: 1.0, gain: 0.0 };
        // A free place, or that of what has faded most: there are twice as many as effects.
        let place = self.slots.iter_mut().min_by(|a, b| {
            let gain = |s: &Option<Slot>| s.map_or(-1.0, |s| s.gain);
            gain(a).total_cmp(&gain(b))
        });
        if let Some(place) = place.filter(|p| p.is_none_or(|s| s.gain < 1.0)) {
            *place = Some(new);
        }
    }
}

/// In newtons of the scene, which the mapping to the device divides by the scale; what is per metre is the same on both sides.
fn at_hand(effect: Effect, scale: f64) -> Effect {
    let whole = |kind, yes| if effect.kind == kind { yes } else { 1.0 };
    Effect {
        vector: effect.vector * whole(EffectKind::Constant, scale),
        strength: effect.strength * whole(EffectKind::Magnet, scale),
        max_force: effect.max_force * scale,
        ..effect
    }
}

/// An effect of another kind is another effect.
fn is(e: &SceneEffect, slot: &Slot) -> bool {
    e.id == slot.id && e.effect.kind == slot.to.kind
}

#[cfg(test)]
mod tests;
