//! Sharp corners and edges of a mesh: places that a shell must have points at.
//!
//! Where a corner or an edge presses, the surface inside the object is smaller than the point spacing. Points thrown
//! at random then touch late, one at a time, and each pushes along the normal of its own face only, up to 90 degrees
//! off: a force that has a curl and drives a tool along a wall. A point of each face that meets there, all at the same
//! place and with areas in balance, touches when the corner does and pushes along the mean of the faces.

use super::build::Candidate;
use crate::geometry::{Point, TriMesh, Vec3};

/// Faces whose normals differ by more than acos of this meet in a sharp edge.
const SHARP: f64 = 0.8;
/// Two sharp edges that turn by less than acos of this run through a vertex without making it a corner.
const STRAIGHT: f64 = 0.8;
/// A vertex without sharp edges is a corner (the apex of a cone) where the mean of its normals is shorter than this.
const BLUNT: f64 = 0.8;
/// Triangles about a vertex count as one face up to acos of this between their normals.
const ONE_FACE: f64 = 0.7;
/// Edge places per point spacing.
const PER_SPACING: f64 = 4.0;

/// A place with one point for each face that meets there.
pub(super) struct Site {
    pub(super) at: Point,
    /// Inward unit normal of each face, and the angle that it takes of the place, rad.
    pub(super) faces: Vec<(Vec3, f64)>,
    /// A corner comes before an edge.
    pub(super) corner: bool,
}

impl Site {
    /// Points that weigh nothing by themselves: their area is that of the surface about them.
    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        self.faces.iter().map(|&(normal, _)| Candidate { at: self.at, normal, weight: 0.0 })
    }
}

/// The corners, then places along the sharp edges, for a shell of `points` about `spacing` m apart. No more of either
/// than a few for each point.
pub(super) fn sites(mesh: &TriMesh, points: f64, spacing: f64) -> Vec<Site> {
    let (name, places) = weld(mesh);
    let mut fans: Vec<Vec<Wedge>> = vec![Vec::new(); places.len()];
    // Each side of each triangle: the lower vertex, the higher one, inward normal.
    let mut sides: Vec<(u32, u32, Vec3)> = Vec::with_capacity(3 * mesh.triangles.len());
    for t in 0..mesh.triangles.len() {
        let c = mesh.corners(t);
        let cross = (c[1] - c[0]).cross(&(c[2] - c[0]));
        let normal = -cross / cross.norm();
        if !normal.x.is_finite() {
            continue;
        }
        let v = mesh.triangles[t].map(|i| name[i as usize]);
        for i in 0..3 {
            let (here, next, last) = (c[i], c[(i + 1) % 3], c[(i + 2) % 3]);
            let angle = (next - here).angle(&(last - here));
            fans[v[i] as usize].push(Wedge { normal, angle });
            sides.push((v[i].min(v[(i + 1) % 3]), v[i].max(v[(i + 1) % 3]), normal));
        }
    }
    sides.sort_by_key(|s| (s.0, s.1));
    let mut along: Vec<Vec<Vec3>> = vec![Vec::new(); places.len()];
    let mut edges = Vec::new();
    let mut whole = 0.0;
    for side in sides.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let normals = side.iter().map(|s| Wedge { normal: s.2, angle: std::f64::consts::PI });
        let Some(least) = side.iter().map(|s| s.2.dot(&side[0].2)).reduce(f64::min) else { continue };
        let (a, b) = (places[side[0].0 as usize], places[side[0].1 as usize]);
        let length = (b - a).norm();
        if least > SHARP || length <= 0.0 {
            continue;
        }
        along[side[0].0 as usize].push((b - a) / length);
        along[side[0].1 as usize].push((a - b) / length);
        whole += length;
        edges.push((a, (b - a) / length, length, faces(normals)));
    }
    let corners: Vec<usize> = (0..places.len()).filter(|&v| is_corner(&along[v], &fans[v])).collect();
    let every = (corners.len() as f64 / points).ceil().max(1.0) as usize;
    let corner = |v: usize| Site { at: places[v], faces: faces(fans[v].iter().copied()), corner: true };
    let mut out: Vec<Site> = corners.into_iter().step_by(every).map(corner).collect();
    // Along all edges as if they were one: of many short ones only some get a place.
    let step = (spacing / PER_SPACING).max(whole / (PER_SPACING * points));
    let mut next = 0.5 * step;
    for (start, direction, length, faces) in edges {
        while next < length {
            out.push(Site { at: start + direction * next, faces: faces.clone(), corner: false });
            next += step;
        }
        next -= length;
    }
    out
}

/// Part of a triangle at one of its vertices or sides.
#[derive(Clone, Copy)]
struct Wedge {
    normal: Vec3,
    angle: f64,
}

fn is_corner(sharp: &[Vec3], fan: &[Wedge]) -> bool {
    match sharp {
        [a, b] => a.dot(b) > -STRAIGHT,
        // Where a crease ends on a smooth surface, and where there is none, the surface itself may have a tip.
        [] | [_] => {
            let (sum, angle) =
                fan.iter().fold((Vec3::zeros(), 0.0), |(s, a), w| (s + w.normal * w.angle, a + w.angle));
            sum.norm() < BLUNT * angle
        }
        _ => true,
    }
}

/// Wedges that look much the same way are one face, along their mean.
fn faces(wedges: impl Iterator<Item = Wedge>) -> Vec<(Vec3, f64)> {
    let mut out: Vec<(Vec3, Vec3, f64)> = Vec::new();
    for w in wedges {
        let sum = w.normal * w.angle;
        match out.iter_mut().find(|(first, ..)| first.dot(&w.normal) > ONE_FACE) {
            Some((_, total, angle)) => {
                *total += sum;
                *angle += w.angle;
            }
            None => out.push((w.normal, sum, w.angle)),
        }
    }
    out.into_iter().filter(|f| f.2 > 0.0).map(|(_, total, angle)| (total.normalize(), angle)).collect()
}

/// One number for all vertices at the same place, and the places.
fn weld(mesh: &TriMesh) -> (Vec<u32>, Vec<Point>) {
    // Adding zero makes -0 and 0 one place.
    let key = |i: u32| [0, 1, 2].map(|a| (mesh.vertices[i as usize][a] + 0.0).to_bits());
    let mut order: Vec<u32> = (0..mesh.vertices.len() as u32).collect();
    order.sort_by_cached_key(|&i| (key(i), i));
    let mut name = vec![0; order.len()];
    let mut places: Vec<Point> = Vec::new();
    for same in order.chunk_by(|&a, &b| key(a) == key(b)) {
        for &i in same {
            name[i as usize] = places.len() as u32;
        }
        places.push(mesh.vertices[same[0] as usize]);
    }
    (name, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::vps::{PointShell, ShellParams};
    use crate::geometry::shapes::{cuboid, cylinder, icosphere, torus};

    fn split(mesh: &TriMesh) -> (Vec<Site>, Vec<Site>) {
        let all = sites(mesh, 1000.0, 1e-3);
        assert!(all.is_sorted_by_key(|s| !s.corner));
        all.into_iter().partition(|s| s.corner)
    }

    #[test]
    fn a_cube_has_eight_corners_of_three_faces_and_twelve_edges_of_two() {
        let size = 0.02;
        let (corners, edges) = split(&cuboid(Vec3::repeat(size)));
        assert_eq!(corners.len(), 8);
        for c in &corners {
            assert!((c.at.coords.abs() - Vec3::repeat(size / 2.0)).norm() < 1e-15);
            assert_eq!(c.faces.len(), 3);
            for (normal, angle) in &c.faces {
                // Inwards, along an axis, a right angle.
                assert!(normal.dot(&c.at.coords) < 0.0 && (normal.amax() - 1.0).abs() < 1e-12);
                assert!((angle - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
            }
        }
        // Four a millimetre along 12 x 20 mm.
        assert!((edges.len() as f64 - 960.0).abs() <= 1.0, "{}", edges.len());
        for e in &edges {
            let on = e.at.coords.iter().filter(|x| (x.abs() - size / 2.0).abs() < 1e-15).count();
            assert_eq!((on, e.faces.len()), (2, 2));
        }
    }

    #[test]
    fn smooth_surfaces_have_none_rims_are_edges_and_a_tip_is_a_corner() {
        for smooth in [icosphere(0.01, 4), torus(0.02, 0.005, 96, 48)] {
            assert!(sites(&smooth, 1000.0, 1e-3).is_empty());
        }
        let (corners, edges) = split(&cylinder(0.01, 0.03, 64));
        assert!(corners.is_empty());
        let rims = 2.0 * 64.0 * 2.0 * 0.01 * (std::f64::consts::PI / 64.0).sin();
        assert!((edges.len() as f64 - rims * 4e3).abs() <= 1.0, "{}", edges.len());
        // A slim cone of many sides: nothing but the tip, and the rim.
        let mut cone = cylinder(0.01, 0.03, 64);
        let tip = cone.vertices[129];
        cone.vertices[64..128].fill(tip);
        let (corners, _) = split(&cone);
        assert_eq!(corners.len(), 1);
        let mean: Vec3 = corners[0].faces.iter().map(|(n, a)| n * *a).sum();
        assert!(mean.xy().norm() < 0.1 * mean.z.abs() && mean.z < 0.0, "{mean}");
    }

    #[test]
    fn vertices_that_are_given_twice_are_one() {
        let mesh = cuboid(Vec3::repeat(0.02));
        let soup = TriMesh {
            vertices: (0..12).flat_map(|t| mesh.corners(t)).collect(),
            triangles: (0..12).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
        };
        assert_eq!(split(&soup).0.len(), 8);
        assert_eq!(split(&soup).1.len(), split(&mesh).1.len());
    }

    #[test]
    fn many_creases_get_no_more_places_than_the_points_need() {
        let mut rough = icosphere(0.02, 5);
        for (i, v) in rough.vertices.iter_mut().enumerate() {
            *v *= 1.0 + 0.1 * f64::from(i as u32 * 7919 % 13) / 13.0;
        }
        let all = sites(&rough, 500.0, 1e-3);
        assert!(all.len() > 1000 && all.len() < 2800, "{}", all.len());
        assert_eq!(PointShell::build(&rough, ShellParams::points(500)).expect("closed").len, 500);
    }

    #[test]
    fn a_shell_takes_every_corner_in_balance_and_keeps_each_face_its_area() {
        let size = 0.02;
        for n in [500, 3000, 20_000] {
            let shell =
                PointShell::build(&cuboid(Vec3::repeat(size)), ShellParams::points(n)).expect("a cube");
            let normal = |i: usize| [shell.nx[i], shell.ny[i], shell.nz[i]];
            for level in &shell.levels {
                let mut faces = std::collections::BTreeMap::new();
                for i in 0..level.len {
                    *faces.entry(normal(i).map(|x| x.round() as i32)).or_insert(0.0) +=
                        f64::from(level.area[i]);
                }
                assert_eq!(faces.len(), 6);
                assert!(faces.values().all(|a| (a / (size * size) - 1.0).abs() < 1e-5), "{n}: {faces:?}");
            }
            for k in 0..8 {
                let corner =
                    Point::from(Vec3::from_fn(|a, _| if k >> a & 1 == 1 { 0.5 } else { -0.5 }) * size);
                let here: Vec<usize> =
                    (0..shell.len).filter(|&i| (shell.position(i) - corner).norm() < 1e-8).collect();
                assert_eq!(here.len(), 3, "{n}: corner {corner}");
                let area = here.iter().map(|&i| shell.area[i]);
                let (least, most) = area.fold((f32::MAX, 0.0f32), |(l, m), a| (l.min(a), m.max(a)));
                assert!(least > 0.0 && most < 1.01 * least, "{n}: {least} {most}");
            }
        }
    }
}
