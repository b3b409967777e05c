//! Continuous collision: when on its way from one pose to another a shell first enters a field.
//!
//! A field's value rises over a way w by no more than a bound that grows with w ([`Place::way`]; the field of a distance is
//! 1-Lipschitz but for interpolation), and over the whole motion no point goes farther than |dp| + angle |r|. Balls that
//! cannot reach the surface within that are left out, then blocks of sixteen points; the rest advance by as much as they
//! surely may (conservative advancement, Mirtich 1996), sixteen at a time, until one is inside or the motion ends.

use super::ball::Place;
use super::near::{depths, near, place_of};
use crate::contact::Budget;
use crate::contact::vps::PointShell;
use crate::geometry::field::Field;
use crate::geometry::pose::pose_is_finite;
use crate::geometry::simd::{LANES, SimdLevel, level};
use crate::geometry::{Point, Pose, Vec3};
use nalgebra::{Translation3, UnitQuaternion};

/// Steps are at least this part of a cell: what rises out of the field for less than that on the way is not seen.
const LEAST_STEP: f64 = 1.0 / 16.0;
/// Points evaluated between two looks at the clock.
const LOOK: usize = LANES * LANES;
/// Halvings that place the impact between two steps.
const HALVINGS: u32 = 24;

/// The first entry of a shell into a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impact {
    /// When: 0 at the beginning of the motion, 1 at its end.
    pub time: f64,
    /// The point of the shell that enters first.
    pub id: u32,
    /// Where, object's frame, m.
    pub position: Point,
    /// The side from which it comes: unit vector out of the object there, object's frame.
    pub side: Vec3,
}

/// What a motion meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swept {
    /// The first entry of a point that was outside at the beginning.
    pub impact: Option<Impact>,
    /// The deepest point that was inside at the beginning, and its depth, m.
    pub inside: Option<(u32, f64)>,
    /// Points evaluated.
    pub work: u32,
    /// False where the budget ended the search, or the field or a pose is unsound: something earlier may have been missed.
    pub complete: bool,
    /// The deadline ended it.
    pub late: bool,
}

/// From one pose of the tool in the object's frame to another: the tool's origin on a straight line, turning about one axis
/// at one rate.
struct Motion {
    from: Pose,
    shift: Vec3,
    turn: Vec3,
}

impl Motion {
    fn new(from: &Pose, to: &Pose) -> Self {
        let turn = (from.rotation.inverse() * to.rotation).scaled_axis();
        Self { from: *from, shift: to.translation.vector - from.translation.vector, turn }
    }

    fn at(&self, time: f64) -> Pose {
        let turn = UnitQuaternion::from_scaled_axis(self.turn * time);
        Pose::from_parts(
            Translation3::from(self.from.translation.vector + self.shift * time),
            self.from.rotation * turn,
        )
    }

    /// No point within `lever` of the tool's origin goes farther, m.
    fn way(&self, lever: f64) -> f64 {
        (self.shift.norm() + self.turn.norm() * lever) * (1.0 + 1e-6)
    }
}

struct March<'a> {
    simd: SimdLevel,
    shell: &'a PointShell,
    field: &'a Field,
    motion: Motion,
    error: f64,
    first: Option<(f64, u32)>,
    inside: (u32, f32),
    work: usize,
    /// Work at which the clock is looked at again.
    look: usize,
    budget: Budget<'a>,
    complete: bool,
    late: bool,
}

/// The first entry of `shell` into `field` while the tool moves from one pose in the object's frame to another: its origin
/// on a straight line, turning at a constant rate by the smaller angle.
///
/// An excursion into the field is found if it is deeper than a sixteenth of a cell, whatever the speed; a wall that the
/// field holds (two cells or more, see [`crate::geometry::field::build::build_holding`]) is never passed by a point of the
/// shell. What is thinner than the points lie apart can pass between them. Points that are inside at the beginning are
/// reported apart, and cause no impact. Work is counted in points; the deadline counts too. Real-time safe.
pub fn sweep_to_impact(
    shell: &PointShell,
    field: &Field,
    from: &Pose,
    to: &Pose,
    budget: Budget<'_>,
) -> Swept {
    let none = Swept { impact: None, inside: None, work: 0, complete: false, late: false };
    if !(pose_is_finite(from) && pose_is_finite(to)) {
        return none;
    }
    let (motion, error) = (Motion::new(from, to), field.sample_error());
    let reach = motion.way(shell.bound_radius);
    let Some(place) = Place::new(field, from, shell.bound_radius, error) else { return none };
    let place = place.reaching(reach);
    let mut march = March {
        simd: level(),
        shell,
        field,
        motion,
        error,
        first: None,
        inside: (0, 0.0),
        work: 0,
        look: 0,
        budget,
        complete: true,
        late: false,
    };
    let all = 0..shell.sorted.blocks.len();
    near(march.simd, &place, &shell.sorted.tree, &all, |found| march.blocks(&place, found));
    Swept {
        impact: march.first.and_then(|(time, id)| march.impact(time, id)),
        inside: Some((march.inside.0, f64::from(march.inside.1))).filter(|i| i.1 > 0.0),
        work: march.work.min(u32::MAX as usize) as u32,
        complete: march.complete,
        late: march.late,
    }
}

impl March<'_> {
    /// So many of the blocks wanted may be evaluated; with fewer than all the search ends.
    fn grant(&mut self, wanted: usize) -> usize {
        if self.work >= self.look {
            self.look = self.work + LOOK;
            self.late |= self.budget.deadline.is_some_and(|d| d.passed());
            self.complete &= !self.late;
        }
        let left = match self.budget.units {
            _ if !self.complete => 0,
            0 => wanted,
            units => (units as usize).saturating_sub(self.work) / LANES,
        };
        let granted = wanted.min(left);
        self.complete &= granted == wanted;
        self.work += granted * LANES;
        granted
    }

    /// All at the beginning, then those on their way that may get there before the first known impact.
    fn blocks(&mut self, place: &Place<'_>, found: &[u32]) {
        let [balls, ..] = &self.shell.sorted.tree.tiers;
        for some in found.chunks(LANES) {
            let some = some.get(..self.grant(some.len())).unwrap_or(some);
            let mut each = [[f32::NEG_INFINITY; LANES]; LANES];
            depths(self.simd, place, &self.shell.sorted, some, false, &mut each);
            for (&block, start) in some.iter().zip(&each) {
                let lever = balls.reach(block as usize);
                self.block(place, block, start, self.motion.way(lever));
            }
        }
    }

    /// One block, at these depths when the motion begins; none of its points goes farther than `way`, m.
    fn block(&mut self, place: &Place<'_>, block: u32, start: &[f32; LANES], way: f64) {
        let Some(ids) = self.shell.sorted.blocks.get(block as usize).map(|b| &b.id) else { return };
        let mut outside = 0u16;
        for (lane, (&depth, &id)) in start.iter().zip(ids).enumerate() {
            if depth <= 0.0 {
                outside |= 1 << lane;
            } else if depth > self.inside.1 {
                self.inside = (id, depth);
            }
        }
        let least = LEAST_STEP * self.field.cell;
        let (mut time, mut now) = (0.0, *start);
        if outside == 0 {
            return;
        }
        loop {
            let end = self.first.map_or(1.0, |f| f.0);
            let most = lanes(outside).filter_map(|l| now.get(l)).fold(f32::NEG_INFINITY, |m, &d| m.max(d));
            let sure = f64::from(place.way(most));
            if !(way > 0.0) || time + sure / way >= end {
                return;
            }
            let next = (time + sure.max(least) / way).min(end);
            if next <= time {
                // So long a way that a step is less than the time's last digit.
                self.complete = false;
                return;
            }
            if self.grant(1) == 0 {
                return;
            }
            let Some(there) =
                Place::new(self.field, &self.motion.at(next), self.shell.bound_radius, self.error)
            else {
                return;
            };
            let mut one = [[f32::NEG_INFINITY; LANES]; LANES];
            depths(self.simd, &there, &self.shell.sorted, &[block], false, &mut one);
            now = one[0];
            let mut entered = false;
            for lane in lanes(outside) {
                if now.get(lane).is_some_and(|&d| d > 0.0)
                    && let Some(&id) = ids.get(lane)
                {
                    entered = true;
                    let when = self.entry(id, time, next);
                    if self.first.is_none_or(|f| when < f.0) {
                        self.first = Some((when, id));
                    }
                }
            }
            if entered {
                return;
            }
            time = next;
        }
    }

    /// When a point enters that is outside at the first time and inside at the second.
    fn entry(&self, id: u32, mut outside: f64, mut inside: f64) -> f64 {
        let Some(at) = place_of(self.shell, id) else { return inside };
        for _ in 0..HALVINGS {
            let middle = 0.5 * (outside + inside);
            if self.field.depth(&(self.motion.at(middle) * at)) > 0.0 {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        inside
    }

    fn impact(&self, time: f64, id: u32) -> Option<Impact> {
        let position = self.motion.at(time) * place_of(self.shell, id)?;
        let (_, gradient) = self.field.cubic(&position);
        let out = match gradient.try_normalize(1e-3) {
            Some(inward) => -inward,
            // Only the field's rounding leaves no gradient where a point enters; then against its motion.
            None => {
                let before = self.motion.at((time - 1e-3).max(0.0)) * place_of(self.shell, id)?;
                let back = (before - position).try_normalize(0.0);
                back.or_else(|| (-self.motion.shift).try_normalize(0.0)).unwrap_or_else(Vec3::x)
            }
        };
        Some(Impact { time, id, position, side: out })
    }
}

fn lanes(bits: u16) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| bits >> lane & 1 != 0)
}
