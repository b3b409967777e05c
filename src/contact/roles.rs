//! Which of two bodies is sampled: usually the tool's points ask the object's field; here the object's points ask the tool's.
//!
//! A shell feels what comes between its points only by luck, so the body with the finer parts should be the shell. The
//! exchanged question is answered by the same code as any other; the answer is then that of the other body:
//! equal and opposite, about the other origin.

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

use super::{Budget, Contact, ObjectShape, Query, QueryState, ToolShape, vps};
use crate::geometry::Vec3;
use crate::geometry::field::Field;
use nalgebra::Matrix6;
use std::sync::Arc;

/// An object as points, with the field of the tool that they are asked against.
#[derive(Clone, Debug)]
pub struct Sampled {
    shell: Arc<vps::PointShell>,
    tool: Arc<Field>,
    field: Arc<Field>,
    /// The same two, as a question wants them.
    exchanged: (ToolShape, ObjectShape),
}

impl Sampled {
    /// `shell`: the object's surface, object frame. `tool`: the tool's field, tool frame. `field`: the object's own field, for
    /// whatever else asks the object.
    pub fn new(shell: Arc<vps::PointShell>, tool: Arc<Field>, field: Arc<Field>) -> Self {
        let exchanged = (ToolShape::Shell(shell.clone()), ObjectShape::Field(tool.clone()));
        Self { shell, tool, field, exchanged }
    }

    /// The object's points. Real-time safe.
    pub fn shell(&self) -> &Arc<vps::PointShell> {
        &self.shell
    }

    /// The tool's field. Real-time safe.
    pub fn tool(&self) -> &Arc<Field> {
        &self.tool
    }

    /// The object's own field. Real-time safe.
    pub fn field(&self) -> &Arc<Field> {
        &self.field
    }

    /// The answer to `q`. Real-time safe.
    pub(super) fn query(&self, q: &Query<'_>, budget: Budget<'_>, state: &mut QueryState) -> Contact {
        let exchange = self.exchange(q);
        let mut contact = vps::query(&exchange, &self.shell, &self.tool, budget, state);
        state.kept.keep(&exchange, budget, &mut contact);
        exchanged(contact, q).with_positive_stiffness(reach(q.tool))
    }

    /// The same question from the object's side.
    fn exchange<'a>(&'a self, q: &Query<'a>) -> Query<'a> {
        Query {
            tool: &self.exchanged.0,
            tool_pose: q.object_pose,
            tool_twist: q.object_twist,
            object: &self.exchanged.1,
            object_pose: q.tool_pose,
            object_twist: q.tool_twist,
            material: q.material,
        }
    }
}

/// How far a tool reaches from its origin, m.
fn reach(tool: &ToolShape) -> f64 {
    match tool {
        ToolShape::Sphere { radius } => *radius,
        ToolShape::Shell(shell) | ToolShape::Both(shell, _) => shell.bound_radius,
        ToolShape::Spheres(tree) => tree.bound_radius,
    }
}

/// The answer to `q` from the answer to the exchanged question.
///
/// With d from the tool's origin to the object's, the tool's displacement (v, w) moves the object against it by
/// -(v + w x d, w) = -X (v, w), and the wrench W = (F, T) about the object's origin is -X^T W about the tool's; so the
/// stiffness K becomes X^T K X. But K is that of a body whose points carry their forces along: here they stay, and the tool turns
/// under them (-w x F, -w x T more about the object's origin), and its origin moves away from them (v x F). Of both together the
/// symmetric part is -\[F\] between force and turning, and -(\[d\] \[F\] + \[F\] \[d\]) / 2 between torque and turning.
fn exchanged(mut contact: Contact, q: &Query<'_>) -> Contact {
    let d: Vec3 = q.object_pose.translation.vector - q.tool_pose.translation.vector;
    let (lever, load) = (d.cross_matrix(), contact.wrench.force.cross_matrix());
    contact.wrench = contact.wrench.reaction(&d);
    let mut x = Matrix6::identity();
    x.fixed_view_mut::<3, 3>(0, 3).copy_from(&-lever);
    let mut k = x.transpose() * contact.stiffness * x;
    let mut add = |i, j, more: nalgebra::Matrix3<f64>| {
        let mut block = k.fixed_view_mut::<3, 3>(i, j);
        block += more;
    };
    add(0, 3, -load);
    add(3, 0, load);
    add(3, 3, (lever * load + load * lever) * -0.5);
    // Rounding must not make it lopsided.
    contact.stiffness = (k + k.transpose()) * 0.5;
    for patch in contact.patches.iter_mut().filter(|p| p.press > 0.0) {
        (patch.normal, patch.centre) = (-patch.normal, patch.centre + d);
    }
    for point in contact.points.iter_mut().take(contact.n_points.into()) {
        point.normal = -point.normal;
    }
    contact
}
