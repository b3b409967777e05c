//! The place where tool and object are nearest, as the last answer left it: what pre-contact braking asks.
//!
//! Nothing is searched for. Touching, it is the deepest point of the answer. Apart, it is the best of the sixteen points that the query
//! remembers as nearest, located in the field anew for this pose, or the closest points of the two triangles. So it costs little, its gap
//! is never less than the true one but for the field's error, and it may be more where another part of the tool has come nearer and the
//! query, that knows the tool to be clear, has not looked.
//!
//! Only a ball and an object that has its proxy on the mesh are searched for the nearest triangle, within few units of work: the
//! field of such a mesh may close what is open, and not have what is thin.

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

use super::{Contact, ObjectShape, Query, QueryState, ToolShape, ist};
use crate::geometry::bvh::sweep::Spend;
use crate::geometry::field::Field;
use crate::geometry::{Point, Pose, Vec3};

/// Shortest gradient that tells a side.
const LEAST: f64 = 0.25;
/// Two points so near each other tell no direction, m.
const SHORT: f64 = 1e-9;
/// Quarters of a unit that the search for the nearest triangle may spend.
const MOST: u32 = 4 * 64;

/// Where tool and object are nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// Unit direction in which the object would push the tool, scene axes.
    pub normal: Vec3,
    /// How far they are apart there, m; negative inside.
    pub gap: f64,
    /// The tool's point there, scene frame, m.
    pub at: Vec3,
}

impl Near {
    /// The two points that are nearest, the tool's and the object's, scene frame, m. Of sphere trees that are apart both lie on the
    /// meshes; of point shells the tool's is one of its points, and the object's is as near to the surface as the field's error.
    /// Real-time safe.
    pub fn witnesses(&self) -> [Vec3; 2] {
        [self.at, self.at - self.normal * self.gap]
    }
}

/// Where the tool of `q` is nearest to its object, of the query that `contact` answered and `state` was left by. `None` where that
/// is not known, or the field has no direction. Real-time safe.
pub fn near(q: &Query<'_>, contact: &Contact, state: &QueryState) -> Option<Near> {
    if let (true, Some(point)) = (contact.touching && contact.n_points > 0, contact.points.first()) {
        // Of the object's points it is the object's.
        let mine = if matches!(q.object, ObjectShape::Sampled(_)) { point.depth } else { 0.0 };
        let at = point.position - point.normal * mine;
        return Some(Near { normal: point.normal, gap: -point.depth, at });
    }
    match (q.object, q.tool) {
        (ObjectShape::Sampled(s), _) => {
            // The object's points against the tool's field: it would push the object, and the tool the other way.
            let points = s.shell().nearest_block(state.nearest)?;
            let found = best(s.tool(), q.tool_pose, q.object_pose, points)?;
            let [_, at] = found.witnesses();
            Some(Near { normal: -found.normal, at, ..found })
        }
        (object, ToolShape::Sphere { radius }) => {
            let found = best(object.field(), q.object_pose, q.tool_pose, [Point::origin()])?;
            Some(Near { gap: found.gap - radius, at: found.at - found.normal * *radius, ..found })
        }
        (ObjectShape::Solid(solid), ToolShape::Spheres(tree) | ToolShape::Both(_, tree)) => {
            let relative = q.object_pose.inv_mul(q.tool_pose);
            let [tool, object] = ist::witnesses(tree, solid, &relative, state)?;
            let (way, at) = (q.object_pose.rotation * (tool - object), q.object_pose * tool);
            let gap = way.norm();
            if !gap.is_finite() {
                return None;
            }
            // Of two that touch it may be the way in.
            match way.try_normalize(SHORT).filter(|_| !contact.touching) {
                Some(normal) => Some(Near { normal, gap, at: at.coords }),
                // The field knows the way out.
                None => {
                    best(&solid.field, q.object_pose, q.tool_pose, [relative.inverse_transform_point(&tool)])
                }
            }
        }
        (ObjectShape::Field(_), ToolShape::Spheres(_)) => None,
        (object, ToolShape::Shell(shell) | ToolShape::Both(shell, _)) => {
            best(object.field(), q.object_pose, q.tool_pose, shell.nearest_block(state.nearest)?)
        }
    }
}

struct Purse(u32);

impl Spend for Purse {
    fn spend(&mut self, quarters: u32) -> bool {
        self.0 += quarters;
        self.0 >= MOST
    }
}

/// The triangle that is nearest to a ball within `reach` (m) of it; where the search ends before its time, the nearest that it has
/// found. What it costs goes on the account of `contact`. Real-time safe.
pub fn nearest_facet(q: &Query<'_>, reach: f64, contact: &mut Contact) -> Option<Near> {
    let (ToolShape::Sphere { radius }, ObjectShape::Solid(solid)) = (q.tool, q.object) else { return None };
    let x = q.object_pose.inverse_transform_point(&Point::from(q.tool_pose.translation.vector));
    let mut best: Option<Vec3> = None;
    let mut within = radius + reach;
    let mut purse = Purse(0);
    solid.bvh.about(&x, within, &mut purse, &mut |slot| {
        if let Some((_, way)) = solid.bvh.facet(slot).map(|f| f.nearest(&x))
            && way.norm() < within
        {
            (best, within) = (Some(way), way.norm());
        }
        within
    });
    contact.work = contact.work.saturating_add(purse.0.div_ceil(4));
    let way = best?;
    let normal = q.object_pose.rotation * way.try_normalize(0.0)?;
    let at = q.tool_pose.translation.vector - normal * *radius;
    Some(Near { normal, gap: way.norm() - radius, at })
}

/// The deepest of some points of the body at `body` in the field of the one at `of`; the normal is the field's outward one.
fn best(field: &Field, of: &Pose, body: &Pose, points: impl IntoIterator<Item = Point>) -> Option<Near> {
    let relative = of.inv_mul(body);
    let deepest = points
        .into_iter()
        .map(|p| {
            let at = relative * p;
            (field.depth(&at), at)
        })
        .filter(|(depth, _)| depth.is_finite())
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (depth, gradient) = field.locate(&deepest.1);
    let length = gradient.norm();
    if !(length > LEAST && depth.is_finite()) {
        return None;
    }
    Some(Near { normal: of.rotation * (-gradient / length), gap: -depth, at: (of * deepest.1).coords })
}
