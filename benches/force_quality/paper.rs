//! The response of the paper (Weller & Zachmann 2009, sections 4.2 and 5.1): a force for each pair of overlapping spheres, its size the
//! volume of their lens, its direction that of their normal cones.
//!
//! For each pair the axes of both cones are used, so that the bodies are pushed alike and opposite; as a cone widens to all
//! directions its axis is blended into the line of the centres. The spheres are those that hold all of a body's volume.

use hapticd::contact::ist::lens::lens;
use hapticd::contact::ist::packing::InnerSphere;
use hapticd::contact::ist::{IstParams, SphereTree};
use hapticd::geometry::field::build::Silent;
use hapticd::geometry::{Point, Pose, TriMesh, Vec3, Wrench};
use std::f64::consts::PI;

/// Most spheres of a leaf.
const LEAF: usize = 4;

/// A sphere with the volume of its cells.
struct Ball {
    centre: Point,
    radius: f64,
    /// Axis of its normal cone, outwards, and how far that is blended into the line of the centres.
    axis: Vec3,
    blend: f64,
}

impl Ball {
    fn new(s: &InnerSphere) -> Self {
        let t = f64::from(s.cone) / PI;
        Self {
            centre: s.centroid.map(f64::from).into(),
            radius: f64::from(s.secondary),
            axis: s.normal.map(f64::from).into(),
            blend: t * t * (3.0 - 2.0 * t),
        }
    }
}

/// A wrapped ball over `count` balls from `first` on, and its two halves.
struct Node {
    centre: Point,
    radius: f64,
    first: usize,
    count: usize,
    below: Option<[usize; 2]>,
}

/// The balls of one body.
struct Body {
    balls: Vec<Ball>,
    nodes: Vec<Node>,
}

impl Body {
    fn build(mesh: &TriMesh, spheres: u32) -> Self {
        let packed = SphereTree::build_with_packing(mesh, &IstParams::spheres(spheres), &Silent);
        let (_, packing) = packed.expect("the body is packed");
        let balls = packing.spheres.iter().map(Ball::new).collect();
        let mut body = Self { balls, nodes: Vec::new() };
        body.node(0, body.balls.len());
        body
    }

    fn node(&mut self, first: usize, count: usize) -> usize {
        let balls = &mut self.balls[first..first + count];
        let (mut low, mut high) = (balls[0].centre, balls[0].centre);
        for b in &*balls {
            (low, high) = (low.inf(&b.centre), high.sup(&b.centre));
        }
        let centre = nalgebra::center(&low, &high);
        let radius = balls.iter().map(|b| (b.centre - centre).norm() + b.radius).fold(0.0, f64::max);
        let at = self.nodes.len();
        if count > LEAF {
            let axis = (high - low).imax();
            balls.select_nth_unstable_by(count / 2, |a, b| a.centre[axis].total_cmp(&b.centre[axis]));
        }
        self.nodes.push(Node { centre, radius, first, count, below: None });
        if count > LEAF {
            let half = count / 2;
            self.nodes[at].below = Some([self.node(first, half), self.node(first + half, count - half)]);
        }
        at
    }
}

/// Both bodies of a path.
pub struct Paper {
    moving: Body,
    fixed: Body,
    /// N/m^3.
    stiffness: f64,
}

impl Paper {
    /// Packs both bodies.
    pub fn build(moving: &TriMesh, fixed: &TriMesh, spheres: u32, stiffness: f64) -> Self {
        Self { moving: Body::build(moving, spheres), fixed: Body::build(fixed, spheres), stiffness }
    }

    /// On the moving body about its origin, axes of the body at rest.
    pub fn wrench(&self, pose: &Pose) -> Wrench {
        let mut out = Wrench::ZERO;
        let mut left = vec![(0, 0)];
        while let Some((a, b)) = left.pop() {
            let (m, f) = (&self.moving.nodes[a], &self.fixed.nodes[b]);
            if (pose * m.centre - f.centre).norm() >= m.radius + f.radius {
                continue;
            }
            match (m.below, f.below) {
                (None, None) => self.leaves(pose, m, f, &mut out),
                (Some(halves), below) if below.is_none() || m.radius >= f.radius => {
                    left.extend(halves.map(|h| (h, b)));
                }
                (_, Some(halves)) => left.extend(halves.map(|h| (a, h))),
                (Some(_), None) => unreachable!("the arm above takes it"),
            }
        }
        out
    }

    fn leaves(&self, pose: &Pose, m: &Node, f: &Node, out: &mut Wrench) {
        for tool in &self.moving.balls[m.first..m.first + m.count] {
            let centre = pose * tool.centre;
            for object in &self.fixed.balls[f.first..f.first + f.count] {
                let between = centre - object.centre;
                let far = between.norm();
                let shared = lens(object.radius, tool.radius, far);
                if shared.volume <= 0.0 {
                    continue;
                }
                // Coincident centres have no line.
                let line = between / far.max(1e-12);
                // What leads the tool out: along the object's normals, and against its own.
                let out_of = |axis: Vec3, blend: f64| axis * (1.0 - blend) + line * blend;
                let push =
                    out_of(object.axis, object.blend) + out_of(-(pose.rotation * tool.axis), tool.blend);
                let Some(push) = push.try_normalize(1e-9) else { continue };
                let force = push * (self.stiffness * shared.volume);
                let at = object.centre + line * shared.centroid;
                out.force += force;
                out.torque += (at - Point::from(pose.translation.vector)).cross(&force);
            }
        }
    }
}
