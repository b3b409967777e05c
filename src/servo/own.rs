//! What the scene gives of its own: the work of moving objects, what comes as objects fade in, what effects push. It is there to be given, and
//! no debt of the sampled loop's. Real-time safe.

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

use super::fading::{along, dot};
use super::mapping::Mapping;
use super::query::Touch;
use crate::geometry::{Twist, Vec3, Wrench};
use crate::haptics::coupling::Felt;
use crate::haptics::effects::Push;
use crate::haptics::guard::energy::PerPort;
use nalgebra::{Matrix3, Matrix6};

/// A sum over the contacts of a tick, in the scene's terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Own {
    /// What moving objects give the tool, W.
    pub(super) power: f64,
    /// What has come in this tick of the forces of what fades in, or comes back after a lapse.
    came: Wrench,
}

impl Own {
    /// Nothing.
    pub(super) const NOTHING: Self = Self { power: 0.0, came: Wrench::ZERO };

    /// An object with this `motion` at the tool's origin presses with `felt`.
    pub(super) fn drives(&mut self, felt: &Wrench, motion: &Twist) {
        self.power += felt.force.dot(&motion.linear) + felt.torque.dot(&motion.angular);
    }

    /// The share that is felt of a contact's spring has risen by `came`.
    pub(super) fn comes(&mut self, spring: &Wrench, came: f64) {
        self.came += spring.scaled(came.max(0.0));
    }
}

/// The same of a command, at the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// All that is wanted, before ramp, limits and guard.
    wanted: Wrench,
    /// What effects push of that.
    effects: Wrench,
    /// What moving objects give in the tick while all of `wanted` is there, J.
    driven: f64,
    /// What a tool that gives way can have more than before of springs that come in, at most, J.
    risen: f64,
}

impl Given {
    /// Of a tick of `dt` s in which all is wanted, of it the effects. `scale` is scene metres per device metre, `length` where torques are
    /// measured, `spring` the stiffness of a virtual tool's spring, N/m, `factor` what the cap leaves of contacts, `gain` the ramp's before and now.
    pub(super) fn of(
        touch: &Touch,
        (all, effects): (&Wrench, &Wrench),
        dt: f64,
        (scale, length): (f64, f64),
        spring: Option<f64>,
        factor: f64,
        gain: (f64, f64),
    ) -> Self {
        // From a force F that grows with K no more than F^2/K comes out, whatever power of the depth it is from; of walls that press against each
        // other only what they do not hold themselves.
        let (force, stiffness) = (&touch.contact, along(&touch.stiffness, &touch.contact, length));
        let soft = if stiffness > 0.0 { 1.0 / stiffness + spring.map_or(0.0, |k| 1.0 / k) } else { 0.0 };
        let comes =
            gain.1 * dot(force, &touch.own.came, length) + (gain.1 - gain.0) * dot(force, force, length);
        let part = factor / (scale * scale);
        Self {
            wanted: *all,
            effects: *effects,
            driven: part * touch.own.power * dt,
            risen: part * soft * comes.max(0.0),
        }
    }

    /// What is left of `applied` without the effects, and what the scene has given besides, J; both wrenches as `efforts` of the ports.
    pub(super) fn apart(&self, applied: &PerPort, efforts: impl Fn(&Wrench) -> PerPort) -> (PerPort, f64) {
        let dot = |a: &PerPort, b: &PerPort| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let wanted = efforts(&self.wanted);
        let whole = dot(&wanted, &wanted);
        // How much of what is wanted there is in what is applied.
        let part = if whole > 0.0 { (dot(applied, &wanted) / whole).clamp(0.0, 1.0) } else { 0.0 };
        let mut rest = *applied;
        rest.iter_mut().zip(efforts(&self.effects)).for_each(|(effort, effect)| *effort -= part * effect);
        (rest, part * self.driven + self.risen)
    }
}

/// What effects do to a tool at `lever` from the device's tool point, in the device's terms; `None` where there are none.
pub(super) fn effects(push: &Push, mapping: &Mapping, lever: &Vec3) -> Option<Felt> {
    if *push == Push::NONE {
        return None;
    }
    let at_origin = |m: &Matrix3<f64>| {
        let mut whole = Matrix6::zeros();
        whole.fixed_view_mut::<3, 3>(0, 0).copy_from(m);
        mapping.stiffness(&whole, lever)
    };
    let wrench = Wrench { force: push.force, torque: Vec3::zeros() };
    Some(Felt {
        wrench: mapping.wrench(&wrench, lever),
        stiffness: at_origin(&push.stiffness),
        damping: at_origin(&push.damping),
    })
}
