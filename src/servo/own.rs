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

use super::fading::{along, size};
use super::mapping::Mapping;
use crate::contact::Contact;
use crate::geometry::{Twist, Vec3, Wrench};
use crate::haptics::coupling::Felt;
use crate::haptics::effects::Push;
use nalgebra::{Matrix3, Matrix6};

/// What a contact holds as a spring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spring {
    /// Its force squared, N^2.
    squared: f64,
    /// J, at most.
    held: f64,
}

impl Spring {
    /// Torques are measured at `length`.
    pub(super) fn of(contact: &Contact, length: f64) -> Self {
        let squared = size(&contact.wrench, length).powi(2);
        let stiffness = along(&contact.stiffness, &contact.wrench, length);
        // Of a force F that grows with K no more than F^2/K is held, whatever power of the depth it is from.
        Self { squared, held: if stiffness > 0.0 { squared / stiffness } else { 0.0 } }
    }
}

/// A sum over springs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Held {
    /// N^2.
    squared: f64,
    /// J.
    held: f64,
}

impl Held {
    const NOTHING: Self = Self { squared: 0.0, held: 0.0 };

    fn add(&mut self, spring: &Spring, part: f64) {
        self.squared += part * spring.squared;
        self.held += part * spring.held;
    }

    /// With a virtual tool's spring of that stiffness in series, N/m, J.
    fn through(&self, spring: Option<f64>) -> f64 {
        self.held + spring.map_or(0.0, |k| self.squared / k)
    }
}

/// A sum over the contacts of a tick, in the scene's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Own {
    /// What moving objects give the tool, W.
    pub(super) power: f64,
    /// What is felt.
    held: Held,
    /// What of it has come in this tick, of what fades in or comes back after a lapse.
    came: Held,
}

impl Own {
    /// Nothing.
    pub(super) const NOTHING: Self = Self { power: 0.0, held: Held::NOTHING, came: Held::NOTHING };

    /// An object with this `motion` at the tool's origin presses with `felt`.
    pub(super) fn drives(&mut self, felt: &Wrench, motion: &Twist) {
        self.power += felt.force.dot(&motion.linear) + felt.torque.dot(&motion.angular);
    }

    /// Of a contact this share is felt, which has risen by `came`.
    pub(super) fn holds(&mut self, spring: &Spring, share: f64, came: f64) {
        self.held.add(spring, share);
        self.came.add(spring, came.max(0.0));
    }
}

/// The same of a command, at the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// All that is wanted, before ramp, limits and guard.
    pub(super) wanted: Wrench,
    /// What effects push of that.
    pub(super) effects: Wrench,
    /// What moving objects give in the tick while all of `wanted` is there, J.
    pub(super) driven: f64,
    /// What springs that come in hold more than before, at most, J.
    pub(super) risen: f64,
}

impl Given {
    /// Of a tick of `dt` s without effects. `scale` is scene metres per device metre, `spring` the stiffness of a virtual tool's spring, N/m,
    /// `factor` what the cap leaves of contacts, `gain` the ramp's before and now.
    pub(super) fn of(
        own: &Own,
        wanted: &Wrench,
        dt: f64,
        scale: f64,
        spring: Option<f64>,
        factor: f64,
        gain: (f64, f64),
    ) -> Self {
        let part = factor / (scale * scale);
        Self {
            wanted: *wanted,
            effects: Wrench::ZERO,
            driven: part * own.power * dt,
            risen: part
                * (gain.1 * own.came.through(spring) + (gain.1 - gain.0).max(0.0) * own.held.through(spring)),
        }
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
