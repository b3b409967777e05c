//! How the force comes back after a lapse: samples were stale, or the clutch was held. Nothing holds the hand then, and it sinks into what it
//! leaned on. To render the wall where it stands would throw the hand out with all that the wall's spring holds that deep, which nobody
//! has put into it.
//!
//! So each object's spring begins where the hand is. Of its wrench w, with the size |w|, (|w| - b)/|w| is felt, and b is held back:
//!
//! - In the tick that sees the hand again it is all but what was felt in the tick before, which after some 30 ms is nothing.
//! - b <= |w|, also later: a hand that comes out of the wall feels nothing, and the wall is there where it has been farthest out.
//! - Where the ramp's gain rises from g to g', b += (|w| - b)(1 - g/g'): the spring gets stiffer under the same force, and so holds less.
//! - |w| - b is no more than what was wanted before the lapse and [`EASY`], and [`FIRM`] more in every second: a hand that still falls
//!   is caught as by clay, and does not bounce.
//! - While less is felt than what was wanted before and [`EASY`], b falls by k [`WALK`] dt: the wall goes back to where it stands, and leads the hand
//!   out with it, which is as slow then. So it does under any hand when b is no more than [`EASY`].
//!
//! With F wanted before and the stiffness k, a hand that lets go while it is led out gets (F + EASY)²/2k at most, where F²/2k was held, and in the end
//! (F + 2 EASY)²/2k, if it has resisted so far. Under a hand that presses with more than that b stays until it no longer does. Where the wrench
//! does not change with the place (a pointshell or a sphere tree that is wholly inside), b is all of it, and nothing is felt until the tool comes out.
//! Real-time safe.

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

/// More than before that the hand may feel, N at the hand: it need not press with the very same force to be led out, and on the way out the device's
/// own friction is against it, with 0.26 N in the worst of those that ship (Phantom Omni), where on the way in it helped the wall.
pub const EASY: f64 = 0.6;
/// And so much more in every second where it presses by itself, N/s: within a second the wall is as firm as any.
pub const FIRM: f64 = 10.0;
/// How fast the hand is led out, m/s: 0.1 mJ of a hand's half kilogram.
pub const WALK: f64 = 0.02;

/// What the servo knows of the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// Where it is, as in the tick before; or there is no force at all.
    #[default]
    Known,
    /// Not where it is, or the tool does not follow it.
    Away,
    /// Where it is, for the first time since.
    Back,
}

/// A tick's place in a lapse, in the terms of the contact.
#[derive(Clone, Copy, Debug)]
pub struct Lapse {
    /// What is known.
    pub phase: Phase,
    /// The ramp's gain in the last tick, and in this one where it rises.
    pub gain: (f64, f64),
    /// [`EASY`], N.
    pub easy: f64,
    /// [`FIRM`] in a tick, N.
    pub firmer: f64,
    /// [`WALK`] in a tick, m.
    pub walk: f64,
}

impl Lapse {
    /// A tick of `dt` s; `more` is how many times the force and `farther` how many times the way is at the contact what it is at the hand.
    pub fn new(phase: Phase, gain: (f64, f64), dt: f64, more: f64, farther: f64) -> Self {
        Self { phase, gain, easy: EASY * more, firmer: FIRM * dt * more, walk: WALK * dt * farther }
    }

    /// There is none, and all the force.
    pub fn none() -> Self {
        Self::new(Phase::Known, (1.0, 1.0), 0.0, 1.0, 1.0)
    }
}

/// What is held back of one object's wrench. Sizes in N.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Back {
    back: f64,
    /// The wrench in the last tick.
    all: f64,
    /// Wanted, with its gain, when last nothing was held back.
    before: f64,
    /// Most that is felt.
    most: f64,
}

impl Back {
    /// Something is held back.
    pub(super) fn holds(&self) -> bool {
        self.back > 0.0
    }

    /// The part of a wrench of the size `all` that is felt; `stiffness` is that along it, N/m, and `anew` tells that it did not come of the last tick's.
    pub(super) fn part(&mut self, all: f64, stiffness: f64, anew: bool, lapse: &Lapse) -> f64 {
        let (gain, next) = lapse.gain;
        let was = self.all - self.back;
        // The same felt at the next gain.
        let same = if gain < next { was * (gain / next) } else { was };
        match lapse.phase {
            Phase::Known if gain <= 0.0 => *self = Self::default(),
            Phase::Known if self.back > 0.0 => {
                self.back = if anew { all - same } else { self.back + (was - same) };
                self.most += lapse.firmer;
                self.back = self.back.max(all - self.most);
                if all - self.back < self.before + lapse.easy || self.back <= lapse.easy {
                    self.back -= stiffness.max(0.0) * lapse.walk;
                }
            }
            Phase::Back => {
                self.back = all - same;
                self.most = self.before + lapse.easy;
            }
            Phase::Known | Phase::Away => {}
        }
        // In this order what is no number holds nothing back.
        self.back = self.back.min(all).max(0.0);
        self.all = all;
        if !self.holds() {
            if lapse.phase == Phase::Known {
                self.before = all * next;
            }
            return 1.0;
        }
        (all - self.back) / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: f64 = 1e-3;

    fn at(phase: Phase, gain: (f64, f64)) -> Lapse {
        Lapse::new(phase, gain, MS, 1.0, 1.0)
    }

    /// A wall of this stiffness that was pressed with this force, until the samples stopped for so many ticks of a ramp of 30.
    fn lapsed(k: f64, force: f64, ticks: u32) -> (Back, f64) {
        let mut back = Back::default();
        assert_eq!(back.part(force, k, false, &Lapse::none()), 1.0);
        let mut gain = 1.0f64;
        for _ in 0..ticks {
            assert_eq!(back.part(force, k, false, &at(Phase::Away, (gain, gain))), 1.0);
            gain = (gain - 1.0 / 30.0).max(0.0);
        }
        (back, if gain < 1e-9 { 0.0 } else { gain })
    }

    #[test]
    fn the_hand_feels_what_it_felt_in_the_tick_before_wherever_it_is() {
        for (ticks, left) in [(0, 1.0f64), (10, 2.0 / 3.0), (29, 1.0 / 30.0), (30, 0.0), (200, 0.0)] {
            for all in [1.0, 2.0, 14.0, 500.0] {
                let (mut back, gain) = lapsed(1000.0, 2.0, ticks);
                let next = (gain + 1.0 / 30.0f64).min(1.0);
                let felt = next * all * back.part(all, 1000.0, false, &at(Phase::Back, (gain, next)));
                let expect = (2.0 * left).min(next * all);
                assert!((felt - expect).abs() < 1e-9, "{ticks} {all}: {felt}, not {expect} N");
            }
        }
        // What was not touched before is not there either; what is touched only afterwards is whole.
        let mut new = Back::default();
        assert_eq!(new.part(9.0, 1000.0, false, &at(Phase::Back, (0.0, 0.1))), 0.0);
        assert!(new.holds());
        let mut free = Back::default();
        assert_eq!(free.part(0.0, 0.0, false, &at(Phase::Back, (0.0, 0.1))), 1.0);
        assert_eq!(free.part(9.0, 1000.0, false, &at(Phase::Known, (0.1, 0.2))), 1.0);
    }

    #[test]
    fn the_wall_goes_back_at_walking_pace_and_not_under_a_hand_that_presses_more() {
        let (mut back, _) = lapsed(1000.0, 2.0, 40);
        back.part(14.0, 1000.0, false, &at(Phase::Back, (0.0, 1.0)));
        // A hand held in its place: 20 N/s, up to as much more than before.
        for k in 1..=600u32 {
            let felt = 14.0 * back.part(14.0, 1000.0, false, &at(Phase::Known, (1.0, 1.0)));
            let expect = (0.02 * f64::from(k)).min(2.6);
            assert!((felt - expect).abs() < 0.02 + 1e-9, "{k}: {felt} {expect}");
        }
        // It is led out with the wall at its back, until nothing is held back.
        let mut all = 14.0;
        for _ in 0..600 {
            all -= 0.02;
            let felt = all * back.part(all, 1000.0, false, &at(Phase::Known, (1.0, 1.0)));
            assert!(felt > 1.9 && felt < 2.7, "{felt}");
        }
        assert!(!back.holds());
        // Pressed with 4 N where 2 were before, it stays.
        let (mut back, _) = lapsed(1000.0, 2.0, 40);
        back.part(10.0, 1000.0, false, &at(Phase::Back, (0.0, 1.0)));
        let mut all = 10.0;
        for _ in 0..1000 {
            all += (4.0 - (all - back.back)).clamp(-0.1, 0.1);
            back.part(all, 1000.0, false, &at(Phase::Known, (1.0, 1.0)));
        }
        let held = back.back;
        for _ in 0..1000 {
            back.part(all, 1000.0, false, &at(Phase::Known, (1.0, 1.0)));
        }
        assert_eq!(back.back, held);
    }

    #[test]
    fn what_is_no_number_holds_nothing_back_for_good() {
        for broken in [f64::NAN, f64::INFINITY] {
            let (mut back, _) = lapsed(1000.0, 2.0, 40);
            back.part(broken, 1000.0, false, &at(Phase::Back, (0.0, 0.1)));
            back.part(1.0, broken, true, &at(Phase::Known, (0.1, 0.2)));
            back.part(1.0, 1000.0, false, &at(Phase::Known, (0.0, 0.0)));
            assert_eq!(back.part(1.0, 1000.0, false, &at(Phase::Known, (1.0, 1.0))), 1.0);
        }
    }

    proptest! {
        /// A hand that moves as it likes after any lapse gets no more out of the wall than was in it when the samples came back, and than the wall's
        /// own way back puts in: its force times that. The gain rises as it likes. Work by trapezoids: exact for a spring from tick to tick.
        #[test]
        fn no_motion_gets_more_out_of_the_wall_than_was_in_it(
            k in 50.0..5000.0f64, force in 0.0..8.0f64, ticks in 1u32..60, deep in 0.0..0.06f64,
            steps in prop::collection::vec(-6e-4..6e-4f64, 1..400), rise in 0.003..0.2f64
        ) {
            let (mut back, mut gain) = lapsed(k, force, ticks);
            let before = gain * force;
            let mut x = force / k + deep;
            let next = (gain + rise).min(1.0);
            let mut felt = next * k * x * back.part(k * x, k, false, &at(Phase::Back, (gain, next)));
            prop_assert!(felt <= before + 1e-9);
            gain = next;
            // What a spring of the gain then holds, and what the wall's way back adds.
            let held = felt * felt / (2.0 * k * gain);
            let (mut out, mut put) = (0.0, 0.0);
            for step in steps {
                x = (x + step).max(0.0);
                let next = (gain + rise).min(1.0);
                let part = back.part(k * x, k, false, &at(Phase::Known, (gain, next)));
                if !back.holds() {
                    // From here on it is the wall as it stands.
                    break;
                }
                gain = next;
                let now = gain * k * x * part;
                out -= 0.5 * (felt + now) * step;
                // A step of the wall under the largest force of the tick.
                put += WALK * MS * (felt.max(now) + k * step.abs());
                // Where it lets go of the hand within the step, the trapezoid is too large by less than that.
                if now == 0.0 || felt == 0.0 {
                    put += 0.5 * k * step * step;
                }
                felt = now;
                prop_assert!(out <= held + put + 1e-9, "{out} J of {held} and {put} J");
            }
        }
    }
}
