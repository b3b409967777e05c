//! Box, spheres, cylinder, torus and the hollow sphere.

use crate::geometry::{Point, TriMesh, Vec3};
use std::collections::HashMap;
use std::f64::consts::PI;

/// Axis-aligned box of the given edge lengths (m), centred at the origin: 8 vertices, 12 triangles.
pub fn cuboid(size: Vec3) -> TriMesh {
    let h = size / 2.0;
    let vertices = (0..8)
        .map(|i| {
            let s = |bit: usize, x: f64| if i >> bit & 1 == 1 { x } else { -x };
            Point::new(s(0, h.x), s(1, h.y), s(2, h.z))
        })
        .collect();
    let quads = [[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]];
    let triangles = quads.iter().flat_map(|&[a, b, c, d]| [[a, b, c], [a, c, d]]).collect();
    TriMesh { vertices, triangles }
}

/// Sphere of `radius` (m) about the origin, poles on z, `segments` meridians (>= 3) and `rings` bands (>= 2).
pub fn uv_sphere(radius: f64, segments: u32, rings: u32) -> TriMesh {
    let (n, m) = (segments.max(3), rings.max(2));
    let mut vertices = vec![Point::new(0.0, 0.0, -radius)];
    for j in 1..m {
        let latitude = PI * (f64::from(j) / f64::from(m) - 0.5);
        for i in 0..n {
            let (s, c) = turn(i, n);
            vertices.push(Point::from(
                Vec3::new(c * latitude.cos(), s * latitude.cos(), latitude.sin()) * radius,
            ));
        }
    }
    vertices.push(Point::new(0.0, 0.0, radius));
    let mut triangles = Vec::new();
    let at = |j: u32, i: u32| 1 + (j - 1) * n + i % n;
    let top = 1 + (m - 1) * n;
    for i in 0..n {
        triangles.push([0, at(1, i + 1), at(1, i)]);
        for j in 1..m - 1 {
            quad(&mut triangles, [at(j, i), at(j, i + 1), at(j + 1, i + 1), at(j + 1, i)]);
        }
        triangles.push([top, at(m - 1, i), at(m - 1, i + 1)]);
    }
    TriMesh { vertices, triangles }
}

/// Icosahedron whose triangles are split into four `subdivisions` times (at most 9) and pushed onto the sphere of
/// `radius` (m) about the origin: 20 * 4^subdivisions nearly equal triangles.
pub fn icosphere(radius: f64, subdivisions: u32) -> TriMesh {
    let g = (1.0 + 5.0_f64.sqrt()) / 2.0;
    let mut vertices: Vec<Vec3> = Vec::new();
    for (a, b) in [(1.0, g), (-1.0, g), (1.0, -g), (-1.0, -g)] {
        vertices.extend([Vec3::new(0.0, a, b), Vec3::new(a, b, 0.0), Vec3::new(b, 0.0, a)]);
    }
    vertices.iter_mut().for_each(|v| *v = v.normalize());
    let mut triangles = icosahedron(&vertices);
    for _ in 0..subdivisions.min(9) {
        let mut middles = HashMap::new();
        let mut finer = Vec::with_capacity(4 * triangles.len());
        for [a, b, c] in triangles {
            let mut mid = |i: u32, j: u32| {
                *middles.entry((i.min(j), i.max(j))).or_insert_with(|| {
                    vertices.push((vertices[i as usize] + vertices[j as usize]).normalize());
                    vertices.len() as u32 - 1
                })
            };
            let (ab, bc, ca) = (mid(a, b), mid(b, c), mid(c, a));
            finer.extend([[a, ab, ca], [b, bc, ab], [c, ca, bc], [ab, bc, ca]]);
        }
        triangles = finer;
    }
    TriMesh { vertices: vertices.iter().map(|v| Point::from(v * radius)).collect(), triangles }
}

/// The 20 faces: all triples of mutually nearest vertices, wound outwards.
fn icosahedron(v: &[Vec3]) -> Vec<[u32; 3]> {
    let near = |i: usize, j: usize| v[i].dot(&v[j]) > 0.4;
    let mut faces = Vec::new();
    for i in 0..12 {
        for j in i + 1..12 {
            for k in j + 1..12 {
                if near(i, j) && near(j, k) && near(i, k) {
                    let outward = (v[j] - v[i]).cross(&(v[k] - v[i])).dot(&v[i]) > 0.0;
                    let (j, k) = if outward { (j, k) } else { (k, j) };
                    faces.push([i as u32, j as u32, k as u32]);
                }
            }
        }
    }
    faces
}

/// Cylinder of `radius` and `length` (m) about the z axis, centred at the origin, with `segments` (>= 3) sides.
pub fn cylinder(radius: f64, length: f64, segments: u32) -> TriMesh {
    let n = segments.max(3);
    let mut vertices = Vec::new();
    for z in [-length / 2.0, length / 2.0] {
        vertices.extend((0..n).map(|i| {
            let (s, c) = turn(i, n);
            Point::new(radius * c, radius * s, z)
        }));
    }
    vertices.extend([Point::new(0.0, 0.0, -length / 2.0), Point::new(0.0, 0.0, length / 2.0)]);
    let mut triangles = Vec::new();
    for i in 0..n {
        let j = (i + 1) % n;
        quad(&mut triangles, [i, j, n + j, n + i]);
        triangles.push([2 * n, j, i]);
        triangles.push([2 * n + 1, n + i, n + j]);
    }
    TriMesh { vertices, triangles }
}

/// Torus about the z axis: centre circle of radius `major`, tube of radius `minor` < `major` (m), with `sections`
/// steps (>= 3) along the circle and `sides` (>= 3) round the tube.
pub fn torus(major: f64, minor: f64, sections: u32, sides: u32) -> TriMesh {
    let (n, m) = (sections.max(3), sides.max(3));
    let mut vertices = Vec::new();
    for i in 0..n {
        let (s, c) = turn(i, n);
        for j in 0..m {
            let (sv, cv) = turn(j, m);
            let r = major + minor * cv;
            vertices.push(Point::new(r * c, r * s, minor * sv));
        }
    }
    let at = |i: u32, j: u32| i % n * m + j % m;
    let mut triangles = Vec::new();
    for i in 0..n {
        for j in 0..m {
            quad(&mut triangles, [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)]);
        }
    }
    TriMesh { vertices, triangles }
}

/// A ball of radius `outer` with a concentric cavity of radius `inner` < `outer` (m): two shells, the inner inverted.
pub fn hollow_sphere(outer: f64, inner: f64, subdivisions: u32) -> TriMesh {
    let mut mesh = icosphere(outer, subdivisions);
    let cavity = icosphere(inner, subdivisions);
    let base = mesh.vertices.len() as u32;
    mesh.vertices.extend(cavity.vertices);
    mesh.triangles.extend(cavity.triangles.iter().map(|&[a, b, c]| [base + a, base + c, base + b]));
    mesh
}

/// (sin, cos) of the i-th of n equal steps; exact at the quarter turns.
pub(super) fn turn(i: u32, n: u32) -> (f64, f64) {
    let (q, rest) = (4 * u64::from(i) / u64::from(n), 4 * u64::from(i) % u64::from(n));
    let (s, c) = (PI / 2.0 * rest as f64 / f64::from(n)).sin_cos();
    match q % 4 {
        0 => (s, c),
        1 => (c, -s),
        2 => (-s, -c),
        _ => (-c, s),
    }
}

/// The two triangles of a quad.
fn quad(out: &mut Vec<[u32; 3]>, [a, b, c, d]: [u32; 4]) {
    out.extend([[a, b, c], [a, c, d]]);
}
