//! How fast the winding number can change where there is no surface.
//!
//! Away from the triangles the winding number changes only because of the mesh's boundary: its gradient is the Biot-Savart
//! integral over the boundary edges, grad w = 1/(4 pi) * integral of r x dl / |r|^3. So |grad w| <= sum of |m| L / (4 pi d^2)
//! over the edges, with L their lengths, d their distances and m how often an edge is left over when the directed edges of
//! all triangles are added up. For a closed mesh that is zero: the winding number is constant between surfaces.

use crate::geometry::wide::{self, LEAF, NONE, Stop, Tree};
use crate::geometry::{Point, TriMesh, Vec3};
use std::collections::HashMap;
use std::f64::consts::PI;

/// Boundary edges in a tree.
pub(super) struct Rim {
    tree: Tree,
    /// Bounds of each node's children.
    groups: Vec<[Group; wide::LANES]>,
    edges: Vec<Edge>,
}

#[derive(Clone, Copy)]
struct Edge {
    a: Point,
    b: Point,
    /// Length times multiplicity, m.
    weight: f64,
}

#[derive(Clone, Copy)]
struct Group {
    center: Point,
    radius: f64,
    weight: f64,
}

impl Rim {
    pub(super) fn build_unless(mesh: &TriMesh, stop: Stop) -> Option<Self> {
        let edges = boundary(mesh, stop)?;
        let middles: Vec<[f64; 3]> =
            edges.iter().map(|e| (e.a.coords * 0.5 + e.b.coords * 0.5).into()).collect();
        let tree = wide::group(&middles, stop)?;
        let edges: Vec<Edge> = tree.order.iter().map(|&i| edges[i as usize]).collect();
        let bound =
            |&(start, len): &(u32, u32)| Group::around(&edges[start as usize..(start + len) as usize]);
        let groups = tree.nodes.iter().map(|n| n.range.each_ref().map(bound)).collect();
        Some(Self { tree, groups, edges })
    }

    /// Bound on the gradient of the winding number (1/m) within `reach` of a point, surfaces left out. Infinite when
    /// a boundary edge may lie there.
    pub(super) fn steepest(&self, center: &Point, reach: f64) -> f64 {
        let mut sum = 0.0;
        let mut stack = vec![0u32];
        if self.tree.nodes.is_empty() {
            return 0.0;
        }
        while let Some(at) = stack.pop() {
            let node = &self.tree.nodes[at as usize];
            for (lane, &child) in node.child.iter().enumerate().filter(|(_, c)| **c != NONE) {
                let g = &self.groups[at as usize][lane];
                let gap = (g.center - center).norm() - g.radius - reach;
                if gap > 2.0 * g.radius {
                    sum += g.weight / (gap * gap);
                } else if child & LEAF == 0 {
                    stack.push(child);
                } else {
                    let (start, len) = node.range[lane];
                    for e in &self.edges[start as usize..(start + len) as usize] {
                        let gap = (project(center, e) - center).norm() - reach;
                        if gap <= 0.0 {
                            return f64::INFINITY;
                        }
                        sum += e.weight / (gap * gap);
                    }
                }
            }
        }
        sum / (4.0 * PI)
    }

    /// The nearest point of a boundary edge, if it lies within `reach` (m).
    pub(super) fn nearest(&self, p: &Point, reach: f64) -> Option<Point> {
        let (mut best, mut found) = (reach, None);
        let mut stack = if self.tree.nodes.is_empty() { vec![] } else { vec![0u32] };
        while let Some(at) = stack.pop() {
            let node = &self.tree.nodes[at as usize];
            for (lane, &child) in node.child.iter().enumerate().filter(|(_, c)| **c != NONE) {
                let g = &self.groups[at as usize][lane];
                if (g.center - p).norm() - g.radius > best {
                    continue;
                }
                if child & LEAF == 0 {
                    stack.push(child);
                    continue;
                }
                let (start, len) = node.range[lane];
                for e in &self.edges[start as usize..(start + len) as usize] {
                    let q = project(p, e);
                    if (q - p).norm() < best {
                        (best, found) = ((q - p).norm(), Some(q));
                    }
                }
            }
        }
        found
    }
}

impl Group {
    fn around(edges: &[Edge]) -> Self {
        let n = (2 * edges.len()).max(1) as f64;
        let center = Point::from(edges.iter().map(|e| e.a.coords + e.b.coords).sum::<Vec3>() / n);
        let far = |e: &Edge| (e.a - center).norm().max((e.b - center).norm());
        Self {
            center,
            radius: edges.iter().map(far).fold(0.0, f64::max),
            weight: edges.iter().map(|e| e.weight).sum(),
        }
    }
}

/// The nearest point of an edge.
fn project(p: &Point, e: &Edge) -> Point {
    let d = e.b - e.a;
    e.a + d * ((p - e.a).dot(&d) / d.norm_squared()).clamp(0.0, 1.0)
}

/// The edges of the boundary chain. Vertices at the same place count as one, so that a mesh that was not welded is no
/// worse off than a welded one.
fn boundary(mesh: &TriMesh, stop: Stop) -> Option<Vec<Edge>> {
    let by_index = chain(mesh.triangles.iter().copied());
    if by_index.is_empty() || stop() {
        return (!stop()).then(Vec::new);
    }
    let mut first_at = HashMap::new();
    let mut same = vec![0u32; mesh.vertices.len()];
    for (i, v) in mesh.vertices.iter().enumerate() {
        if i % 65_536 == 0 && stop() {
            return None;
        }
        // Adding zero turns -0 into 0.
        let key = [v.x, v.y, v.z].map(|x| (x + 0.0).to_bits());
        same[i] = *first_at.entry(key).or_insert(i as u32);
    }
    let welded = chain(mesh.triangles.iter().map(|t| t.map(|v| same[v as usize])));
    let edge = |(a, b, m): (u32, u32, i32)| {
        let (a, b) = (mesh.vertices[a as usize], mesh.vertices[b as usize]);
        Edge { a, b, weight: (b - a).norm() * f64::from(m.abs()) }
    };
    Some(welded.into_iter().map(edge).filter(|e| e.weight > 0.0).collect())
}

/// Sum of the directed edges: (low vertex, high vertex, how often in that direction), zeros left out.
fn chain(triangles: impl Iterator<Item = [u32; 3]>) -> Vec<(u32, u32, i32)> {
    let mut edges: Vec<(u32, u32, i32)> = triangles
        .flat_map(|[a, b, c]| [(a, b), (b, c), (c, a)])
        .filter(|(a, b)| a != b)
        .map(|(a, b)| if a < b { (a, b, 1) } else { (b, a, -1) })
        .collect();
    edges.sort_unstable_by_key(|e| (e.0, e.1));
    let mut sums: Vec<(u32, u32, i32)> = Vec::new();
    for e in edges {
        match sums.last_mut() {
            Some(last) if (last.0, last.1) == (e.0, e.1) => last.2 += e.2,
            _ => {
                if sums.last().is_some_and(|s| s.2 == 0) {
                    sums.pop();
                }
                sums.push(e);
            }
        }
    }
    if sums.last().is_some_and(|s| s.2 == 0) {
        sums.pop();
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{shapes, winding};

    fn rim(mesh: &TriMesh) -> Rim {
        Rim::build_unless(mesh, &|| false).unwrap()
    }

    #[test]
    fn closed_meshes_have_no_rim_welded_or_not() {
        let mesh = shapes::torus(1.0, 0.3, 40, 20);
        assert!(rim(&mesh).edges.is_empty());
        let loose = TriMesh {
            vertices: (0..mesh.triangles.len()).flat_map(|t| mesh.corners(t)).collect(),
            triangles: (0..mesh.triangles.len() as u32).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
        };
        assert!(rim(&loose).edges.is_empty());
        assert_eq!(rim(&mesh).steepest(&Point::origin(), 0.5), 0.0);
    }

    #[test]
    fn the_bound_holds_against_differences_of_the_exact_winding_number() {
        let mut mesh = shapes::icosphere(1.0, 4);
        let vertices = mesh.vertices.clone();
        mesh.triangles.retain(|t| t.iter().any(|&v| vertices[v as usize].z < 0.5));
        let rim = rim(&mesh);
        assert!(rim.edges.len() > 20 && rim.edges.iter().all(|e| e.a.z > 0.4));
        assert_eq!(rim.steepest(&rim.edges[0].a, 0.1), f64::INFINITY);
        let (mut largest, h) = (0.0f64, 1e-4);
        for i in 0..300 {
            let f = f64::from(i);
            let p = Point::new((f * 0.7).sin(), (f * 1.3).cos(), (f * 0.37).sin()) * 0.55;
            let at = |d: Vec3| winding::exact(&mesh, &(p + d));
            let slope = Vec3::new(
                at(Vec3::x() * h) - at(Vec3::x() * -h),
                at(Vec3::y() * h) - at(Vec3::y() * -h),
                at(Vec3::z() * h) - at(Vec3::z() * -h),
            ) / (2.0 * h);
            let bound = rim.steepest(&p, 0.0);
            assert!(slope.norm() <= bound + 1e-6, "{} exceeds {bound} at {p}", slope.norm());
            // With a reach, the bound must hold for every point within it.
            let off = Vec3::new((f * 2.1).cos(), (f * 1.7).sin(), (f * 0.9).cos()) * 0.05;
            assert!(slope.norm() <= rim.steepest(&(p + off), 0.1) + 1e-6, "within reach of {}", p + off);
            largest = largest.max(slope.norm() / bound);
        }
        assert!(largest > 0.3, "the bound is loose by a factor of {}", 1.0 / largest);
    }
}
