//! The classic force of Voxmap-PointShell (Sagardia, Stouraitis and Lopes e Silva 2014, equations 1 to 5), point by point in
//! f64. Voxels are the cells about the field's nodes.

use super::near::{near, normal_of, place_of};
use super::{Ask, contact_point};
use crate::contact::vps::VoxelValue;
use crate::contact::{Budget, Contact, MAX_POINTS};
use crate::geometry::field::Field;
use crate::geometry::simd::LANES;
use crate::geometry::{Point, Vec3, Wrench};
use nalgebra::{Matrix6, Vector6};

/// A point may press though the field's surface is so many voxels away: half a voxel's diagonal to its node, as much along
/// the normal, and half a voxel by rounding; and the node may be off by as much again. What a scaled value is cut to comes on
/// top.
const SLACK: f64 = 3.0;
/// From so many points on they share the force of so many.
const SHARED: f64 = 10.0;

struct Sums<'a> {
    ask: &'a Ask<'a>,
    value: VoxelValue,
    wrench: Wrench,
    stiffness: Matrix6<f64>,
    points: u32,
    /// The deepest so far, deepest first.
    deep: [Option<(f64, u32)>; MAX_POINTS],
    nearest: f64,
    work: usize,
}

impl Ask<'_> {
    /// The classic answer: all points in reach, or, where the budget is smaller than the shell, as many whole levels as fit.
    pub(super) fn classic(
        &self,
        value: VoxelValue,
        shared: bool,
        units: usize,
        budget: &Budget<'_>,
    ) -> Contact {
        let (shell, field) = (self.shell, self.field);
        let mut sums = Sums {
            ask: self,
            value,
            wrench: Wrench::ZERO,
            stiffness: Matrix6::zeros(),
            points: 0,
            deep: [None; MAX_POINTS],
            nearest: f64::NEG_INFINITY,
            work: 0,
        };
        let passed = || budget.deadline.is_some_and(|d| d.passed());
        let mut late = false;
        let complete = units >= shell.len;
        if complete {
            let cut = match value {
                VoxelValue::Scaled { digits } => 10f64.powi(-i32::from(digits)),
                VoxelValue::Layer | VoxelValue::Interpolated => 0.0,
            };
            let place = self.job.place.reaching(SLACK * field.cell + cut);
            let all = 0..shell.sorted.blocks.len();
            near(self.simd, &place, &shell.sorted.tree, &all, |found| {
                for &block in found {
                    late = late || passed();
                    let end = shell.len.saturating_sub(block as usize * LANES).min(LANES);
                    let ids = shell.sorted.blocks.get(block as usize).and_then(|b| b.id.get(..end));
                    if !late && let Some(ids) = ids {
                        ids.iter().for_each(|&id| sums.add(id));
                    }
                }
            });
        } else {
            let least = LANES.min(shell.len);
            let end = shell.levels.iter().rev().map(|l| l.len).find(|&n| n <= units).unwrap_or(least);
            for id in 0..end as u32 {
                late = late || ((id as usize).is_multiple_of(LANES) && passed());
                if !late {
                    sums.add(id);
                }
            }
        }
        sums.answer(shared, complete && !late, late)
    }
}

impl Sums<'_> {
    fn add(&mut self, id: u32) {
        self.work += 1;
        let ask = self.ask;
        let (Some(at), Some(normal)) = (place_of(ask.shell, id), normal_of(ask.shell, id)) else { return };
        let turn = ask.relative.rotation;
        let Some(depth) = penetration(ask.field, self.value, &(ask.relative * at), &(turn * normal)) else {
            return;
        };
        self.nearest = self.nearest.max(depth);
        if depth <= 0.0 {
            return;
        }
        self.points += 1;
        self.wrench += Wrench::from_force_at(normal * depth, &at.coords);
        let turning = at.coords.cross(&normal);
        let row = Vector6::new(normal.x, normal.y, normal.z, turning.x, turning.y, turning.z);
        self.stiffness += row * row.transpose();
        let mut deeper = Some((depth, id));
        for slot in &mut self.deep {
            if slot.is_none_or(|s| deeper.is_some_and(|d| d.0 > s.0)) {
                std::mem::swap(slot, &mut deeper);
            }
        }
    }

    fn answer(&self, shared: bool, complete: bool, late: bool) -> Contact {
        let (ask, q) = (self.ask, self.ask.q);
        let known = self.nearest > f64::NEG_INFINITY;
        let mut contact = Contact::none((known && self.points == 0).then_some(-self.nearest));
        contact.work = self.work.min(u32::MAX as usize) as u32;
        contact.need = ask.shell.len as u32;
        (contact.complete, contact.deadline_hit) = (complete, late);
        contact.depth_bounds = Some(ask.gap.bounds());
        if self.points == 0 {
            return contact;
        }
        let k = q.material.stiffness;
        let k = if k.is_finite() && k > 0.0 { k } else { 0.0 };
        let part = if shared { (SHARED / f64::from(self.points)).min(1.0) } else { 1.0 };
        let turn = &q.tool_pose.rotation;
        contact.touching = true;
        contact.depth = self.nearest;
        contact.distance = Some(0.0);
        contact.wrench =
            Wrench { force: turn * self.wrench.force, torque: turn * self.wrench.torque }.scaled(k * part);
        let along = self.stiffness * (k * part);
        contact.stiffness = crate::contact::stiffness::rotated(&along, &turn.to_rotation_matrix());
        for &(depth, id) in self.deep.iter().flatten() {
            let point = contact_point(q, ask.shell, ask.field, id, depth, 0.0);
            if let (Some(point), Some(slot)) = (point, contact.points.get_mut(usize::from(contact.n_points)))
            {
                *slot = point;
                contact.n_points += 1;
            }
        }
        contact
    }
}

/// V(P) of a point with inward normal `n`, both in the object's frame, m; `None` outside the grid.
fn penetration(field: &Field, value: VoxelValue, p: &Point, n: &Vec3) -> Option<f64> {
    let mut node = [0u32; 3];
    for axis in 0..3 {
        let index = ((p[axis] - field.origin[axis]) / field.cell).round();
        if !(index >= 0.0 && index < f64::from(field.dims[axis])) {
            return None;
        }
        node[axis] = index as u32;
    }
    let centre = field.origin + Vec3::from(node.map(f64::from)) * field.cell;
    let (s, at) = (field.cell, field.node(node));
    let local = n.dot(&(centre - p));
    Some(match value {
        VoxelValue::Layer => local + (at / s).round() * s,
        VoxelValue::Scaled { digits } => {
            let scale = 10f64.powi(i32::from(digits));
            local + (at * scale).trunc() / scale
        }
        VoxelValue::Interpolated => {
            let towards = p - centre;
            let slope = |axis: usize| {
                let mut next = node;
                let up = towards[axis] >= 0.0;
                // At the border of the grid the neighbour on the other side.
                let up = if up { node[axis] + 1 < field.dims[axis] } else { node[axis] == 0 };
                next[axis] = if up { node[axis] + 1 } else { node[axis] - 1 };
                let difference = field.node(next) - at;
                if up { difference } else { -difference }
            };
            at + (0..3).map(|axis| slope(axis) * towards[axis]).sum::<f64>() / s
        }
    })
}
