//! Wrench, stiffness and contact points from the sums of a query.

use super::distance::Purse;
use super::frame::Frame;
use super::model::SphereTree;
use super::sums::{DAMPING, Deepest, FORCE, STIFFNESS, Sums, TORQUE};
use crate::contact::stiffness::{positive_part, rotated, symmetric};
use crate::contact::vps::per_area;
use crate::contact::{Contact, ContactPoint, Deadline, MAX_POINTS, Query};
use crate::geometry::{Point, Vec3, Wrench};
use nalgebra::Vector6;

/// Fills in everything about a contact that pushes. The force never pulls: damping is limited to the spring's size.
/// The stiffness is that of the surface's springs; the small parts from the surface's curvature and from turning
/// the lever arms (depth over size) are left out. Real-time safe.
pub(super) fn respond(
    contact: &mut Contact,
    q: &Query<'_>,
    tree: &SphereTree,
    frame: &Frame<'_>,
    sums: &Sums,
    deadline: Option<&dyn Deadline>,
) {
    let (pressure, damping) = per_area(q.material);
    let triple = |i: usize| Vec3::new(sums.total(i), sums.total(i + 1), sums.total(i + 2));
    let (force, torque) = (triple(FORCE) * pressure, triple(TORQUE) * pressure);
    let (slow, turn) = (triple(DAMPING) * damping, triple(DAMPING + 3) * damping);
    let length = tree.bound_radius.max(1e-6);
    let size = |f: &Vec3, t: &Vec3| (f.norm_squared() + (t / length).norm_squared()).sqrt();
    let (spring, brake) = (size(&force, &torque), size(&slow, &turn));
    let share = if brake > spring { spring / brake } else { 1.0 };
    let rotation = &q.object_pose.rotation;
    contact.wrench =
        Wrench { force: rotation * (force + slow * share), torque: rotation * (torque + turn * share) };

    let symmetric = symmetric(|i| pressure * sums.total(STIFFNESS + i));
    contact.stiffness = rotated(&positive_part(&symmetric, length), &rotation.to_rotation_matrix());

    if let Some(rub) = &sums.rub {
        contact.patches = rub.patches.patches(rotation, pressure, pressure);
    }

    // Deepest place of each octant about the tool's origin, deepest first.
    let area = (0..3).map(|i| symmetric[(i, i)]).sum::<f64>() / pressure.max(f64::MIN_POSITIVE);
    let mut order: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    order.sort_unstable_by(|&a, &b| sums.deepest[b].depth.total_cmp(&sums.deepest[a].depth));
    let found = sums.deepest.iter().filter(|d| d.depth > 0.0).count().min(MAX_POINTS);
    for (slot, &octant) in contact.points.iter_mut().zip(&order).take(found) {
        let deepest = &sums.deepest[octant];
        *slot = ContactPoint {
            position: (q.object_pose * place(frame, deepest)).coords,
            normal: normal(q, &gradient(deepest)),
            depth: f64::from(deepest.depth),
            area: area / found as f64,
            id: octant as u32,
        };
    }
    contact.n_points = found as u8;
    if found > 0 {
        deepen(contact, q, tree, frame, &sums.deepest[order[0]], deadline);
    }
}

/// Where it is, the object's frame.
fn place(frame: &Frame<'_>, deepest: &Deepest) -> Point {
    frame.field.origin + Vec3::from(deepest.at.map(f64::from)) * frame.field.cell
}

fn gradient(deepest: &Deepest) -> Vec3 {
    Vec3::from(deepest.inward.map(f64::from))
}

/// Out of the object, scene axes.
fn normal(q: &Query<'_>, gradient: &Vec3) -> Vec3 {
    q.object_pose.rotation * -gradient.try_normalize(1e-9).unwrap_or_else(Vec3::zeros)
}

/// Searches for the deepest place of the tool's surface, and how far each goes along the gradient, cells of the tool.
const CLIMB: u32 = 3;
const STRIDE: f64 = 4.0;

/// Moves the first point, which stands for a cell or for a whole node, to the tool's surface and there to where it is deepest; or to
/// its middle, where the surface is nowhere deeper than that (the deepest place lies inside the tool). The others are no deeper.
fn deepen(
    contact: &mut Contact,
    q: &Query<'_>,
    tree: &SphereTree,
    frame: &Frame<'_>,
    from: &Deepest,
    deadline: Option<&dyn Deadline>,
) {
    let relative = q.object_pose.inv_mul(q.tool_pose);
    let (mut deepest, mut inward, mut hint) = (f64::from(from.middle), gradient(from), u32::MAX);
    let mut next = place(frame, from);
    let mut best = next - inward * f64::from(from.depth - from.middle);
    let searches = if contact.touching { CLIMB } else { 0 };
    let (work, late) = (contact.work, contact.deadline_hit);
    let mut purse = Purse { work, units: u32::MAX, deadline, late, short: false };
    for _ in 0..searches {
        if !purse.pay(1) {
            break;
        }
        let found = tree.bvh.closest_from(&relative.inverse_transform_point(&next), hint);
        let surface = relative * found.point;
        let (depth, slope) = frame.field.depth_gradient(&surface);
        if !(found.found() && depth > deepest) {
            break;
        }
        (best, deepest, inward, hint) = (surface, depth, slope, found.triangle);
        next = surface + slope * (STRIDE * tree.cell);
    }
    contact.work = purse.work;
    contact.need = contact.need.max(contact.work);
    contact.depth = deepest.max(0.0);
    for point in &mut contact.points {
        point.depth = point.depth.min(contact.depth);
    }
    let first = &mut contact.points[0];
    first.position = (q.object_pose * best).coords;
    first.depth = contact.depth;
    first.normal = normal(q, &inward);
}

/// Lets wrench and stiffness of bodies that lie `distance` apart fade to nothing at `width`, m. Real-time safe.
///
/// The fading itself is stiff: coming nearer by dx lets the wrench W grow by W |d(share)/d(distance)| dx. The way along
/// which the distance falls is taken to be that of W, whose force says how far the surfaces move for a displacement,
/// or its torque at the tool's size where opposite forces leave none.
pub(super) fn fade(contact: &mut Contact, tree: &SphereTree, distance: f64, width: f64) {
    let t = (distance / width).clamp(0.0, 1.0);
    let (share, slope) = (1.0 - t * t * (3.0 - 2.0 * t), 6.0 * t * (1.0 - t) / width);
    let Wrench { force, torque } = contact.wrench;
    let size = force.norm().max(torque.norm() / tree.bound_radius.max(1e-6));
    contact.wrench = contact.wrench.scaled(share);
    contact.stiffness *= share;
    contact.patches = contact.patches.map(|p| p.scaled(share));
    if size > 0.0 {
        let w = Vector6::new(force.x, force.y, force.z, torque.x, torque.y, torque.z);
        contact.stiffness += w * w.transpose() * (slope / size);
    }
    (contact.depth, contact.n_points) = (0.0, 0);
}
