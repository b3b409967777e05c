//! What a proxy asks of that which it cannot go through.

use crate::contact::Contact;
use crate::geometry::{Point, Vec3};
use nalgebra::Matrix3;

/// Where a way ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slid {
    /// The place that is nearest to the target of those that can be reached; never inside.
    pub(super) at: Point,
    /// Where the free way ended, on the surface.
    pub(super) entry: Option<Point>,
    /// The target itself.
    pub(super) arrived: bool,
    /// The way was too long for one tick: it goes on in the next.
    pub(super) unfinished: bool,
}

/// The surface at a ball's radius from an object, object's frame. Real-time safe.
pub(super) trait Walls {
    /// Of the ball, m.
    fn radius(&self) -> f64;

    /// Puts what was done on the contact's account.
    fn charge(&self, contact: &mut Contact);

    /// Where a proxy is that comes to be with the tool at `x`, and true where that is not `x`; `None` where there is no such place.
    fn begin(&mut self, x: &Point, contact: &Contact) -> Option<(Point, bool)>;

    /// Nothing is so near to the tool, m; 0 where that would have to be found out.
    fn clear(&self, contact: &Contact) -> f64;

    /// From `start`, which is not inside, as near to `target` as can be reached.
    fn slide(&mut self, start: &Point, target: &Point) -> Slid;

    /// Where a ball on its way at `at` would end if there were no walls but those that it knows there: it cannot know more.
    /// `touching`: it was at the surface. `None` where that tells nothing.
    fn across(&mut self, at: &Point, x: &Point, touching: bool) -> Option<Point>;

    /// How deep the ball is for what was not on the way, m. `None` where nothing says so: then what a proxy pressed with is forgotten while
    /// it is on its way, which may be long.
    fn told(&self, contact: &Contact) -> Option<f64>;

    /// The last way is that of the proxy itself.
    fn settle(&mut self) {}

    /// The proxy is still on its way, and at no wall.
    fn under_way(&self, _: &mut Contact) {}

    /// Nothing is in the tool's way.
    fn let_go(&self, _: &mut Contact) {}

    /// The unit vector away from the object at `p`; `None` where it is not known.
    fn normal(&mut self, p: &Point) -> Option<Vec3>;

    /// How far outside a place on the surface lies, m: no more than where it may come to rest.
    fn trace(&mut self, p: &Point) -> f64;

    /// What is so near, in m, tells no direction.
    fn blur(&self) -> f64;

    /// What the shape of the surface at `p` adds to a spring that presses `depth` deep along `-n`, as a part of its stiffness:
    /// along the surface, where it follows the tool less than a plane would.
    fn hollow(&mut self, p: &Point, n: &Vec3, depth: f64) -> Matrix3<f64>;
}
