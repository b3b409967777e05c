//! Merging vertices: equal ones, those within a tolerance, and those at the two sides of a crack.

use super::topology::EdgeUses;
use super::watch::{Stopped, Watch};
use crate::geometry::{Point, TriMesh};
use std::collections::HashMap;

/// Merges exactly equal vertices (0 and -0 are equal) and drops those that no triangle uses, in file order.
/// Returns the mesh, the number merged, and the number unused.
pub(super) fn exact(
    vertices: &[Point],
    triangles: Vec<[u32; 3]>,
    watch: &Watch<'_>,
) -> Result<(TriMesh, usize, usize), Stopped> {
    let mut used = vec![false; vertices.len()];
    triangles.iter().flatten().for_each(|i| used[*i as usize] = true);
    let mut known: HashMap<[u64; 3], u32> = HashMap::with_capacity(triangles.len() / 2);
    let mut kept: Vec<Point> = Vec::with_capacity(triangles.len() / 2);
    let mut map = vec![0; vertices.len()];
    let mut count = 0;
    for (i, ((v, used), slot)) in vertices.iter().zip(&used).zip(&mut map).enumerate() {
        watch.at(i)?;
        if *used {
            count += 1;
            let key = [v.x, v.y, v.z].map(|c| (c + 0.0).to_bits());
            *slot = *known.entry(key).or_insert_with(|| {
                kept.push(*v);
                kept.len() as u32 - 1
            });
        }
    }
    let (merged, unused) = (count - kept.len(), vertices.len() - count);
    kept.shrink_to_fit();
    Ok((TriMesh { vertices: kept, triangles: renumber(triangles, &map) }, merged, unused))
}

/// Merges vertices closer than `tolerance` (m) to the nearest one kept before them. Kept vertices are farther apart
/// than the tolerance, so that merging never runs along a chain. Returns the number merged.
pub(super) fn within(mesh: &mut TriMesh, tolerance: f64, watch: &Watch<'_>) -> Result<usize, Stopped> {
    let all = vec![true; mesh.vertices.len()];
    merge(mesh, tolerance, &all, watch)
}

/// As [`within`], but only among vertices of open edges: closes cracks and leaves fine detail alone.
pub(super) fn cracks(mesh: &mut TriMesh, tolerance: f64, watch: &Watch<'_>) -> Result<usize, Stopped> {
    let mut open = vec![false; mesh.vertices.len()];
    let uses = EdgeUses::new(&mesh.triangles);
    for (a, b) in uses.groups().filter(|g| g.uses.len() == 1).map(|g| g.ends) {
        open[a as usize] = true;
        open[b as usize] = true;
    }
    if open.contains(&true) { merge(mesh, tolerance, &open, watch) } else { Ok(0) }
}

fn merge(mesh: &mut TriMesh, tolerance: f64, may: &[bool], watch: &Watch<'_>) -> Result<usize, Stopped> {
    let cell = |p: &Point| [p.x, p.y, p.z].map(|c| (c / tolerance).floor() as i64);
    let mut grid: HashMap<[i64; 3], Vec<u32>> = HashMap::new();
    let mut kept: Vec<Point> = Vec::with_capacity(mesh.vertices.len());
    let mut map = Vec::with_capacity(mesh.vertices.len());
    for (i, (v, may)) in mesh.vertices.iter().zip(may).enumerate() {
        watch.at(8 * i)?;
        let home = cell(v);
        let near = may.then(|| nearest(&grid, &kept, v, home, tolerance)).flatten();
        map.push(near.unwrap_or_else(|| {
            let new = kept.len() as u32;
            if *may {
                grid.entry(home).or_default().push(new);
            }
            kept.push(*v);
            new
        }));
    }
    let merged = mesh.vertices.len() - kept.len();
    mesh.vertices = kept;
    mesh.triangles = renumber(std::mem::take(&mut mesh.triangles), &map);
    Ok(merged)
}

fn nearest(
    grid: &HashMap<[i64; 3], Vec<u32>>,
    kept: &[Point],
    v: &Point,
    home: [i64; 3],
    tolerance: f64,
) -> Option<u32> {
    let mut best = None;
    for k in 0..27_i64 {
        let at = [k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1];
        let key = [0, 1, 2].map(|i| home[i].saturating_add(at[i]));
        for &other in grid.get(&key).into_iter().flatten() {
            let d = (kept[other as usize] - v).norm();
            if d <= tolerance && best.is_none_or(|(least, _)| d < least) {
                best = Some((d, other));
            }
        }
    }
    best.map(|(_, i)| i)
}

fn renumber(mut triangles: Vec<[u32; 3]>, map: &[u32]) -> Vec<[u32; 3]> {
    triangles.iter_mut().flatten().for_each(|i| *i = map[*i as usize]);
    triangles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Vec3, shapes};

    #[test]
    fn soup_of_a_box_becomes_eight_vertices() {
        let cube = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        let mut soup: Vec<Point> = (0..12).flat_map(|t| cube.corners(t)).collect();
        soup.push(Point::new(9.0, 9.0, 9.0));
        let numbered = (0..12).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect();
        let (mesh, merged, unused) = exact(&soup, numbered, &Watch::silent()).unwrap();
        assert_eq!((mesh.vertices.len(), merged, unused), (8, 28, 1));
    }

    #[test]
    fn minus_zero_is_zero() {
        let p = |x| Point::new(x, 0.0, 0.0);
        let (mesh, merged, _) = exact(&[p(0.0), p(-0.0), p(1.0)], vec![[0, 1, 2]], &Watch::silent()).unwrap();
        assert_eq!((mesh.vertices.len(), merged), (2, 1));
    }

    #[test]
    fn tolerance_does_not_run_along_a_chain() {
        let vertices: Vec<_> = (0..100).map(|i| Point::new(f64::from(i) * 0.6e-3, 0.0, 0.0)).collect();
        let triangles = (0..98).map(|i| [i, i + 1, i + 2]).collect();
        let mut mesh = TriMesh { vertices, triangles };
        within(&mut mesh, 1e-3, &Watch::silent()).unwrap();
        assert_eq!(mesh.vertices.len(), 50);
        for pair in mesh.vertices.windows(2) {
            assert!((pair[1] - pair[0]).norm() > 1e-3);
        }
    }

    #[test]
    fn cracks_close_and_detail_elsewhere_stays() {
        // Two boxes: one torn along its triangles by 1e-7, one sound but only 1e-8 large.
        let cube = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        let mut mesh = TriMesh::default();
        for t in 0..12 {
            for (k, c) in cube.corners(t).iter().enumerate() {
                let shift = 1e-7 * f64::from((t as u32 * 3 + k as u32) % 5) / 5.0;
                mesh.vertices.push(c + Vec3::new(shift, 0.0, -shift));
            }
            let n = mesh.vertices.len() as u32;
            mesh.triangles.push([n - 3, n - 2, n - 1]);
        }
        let base = mesh.vertices.len() as u32;
        mesh.vertices.extend(cube.vertices.iter().map(|v| Point::from(v.coords * 1e-8 + Vec3::repeat(3.0))));
        mesh.triangles.extend(cube.triangles.iter().map(|t| t.map(|i| i + base)));
        assert_eq!(cracks(&mut mesh, 1e-6, &Watch::silent()), Ok(28));
        assert_eq!(mesh.vertices.len(), 16);
        assert_eq!(EdgeUses::new(&mesh.triangles).groups().filter(|g| g.uses.len() != 2).count(), 0);
    }

    #[test]
    fn tiny_and_huge_tolerances_are_harmless() {
        for tolerance in [1e-300, 1e-12, 1.0, 1e300] {
            let mut mesh = shapes::icosphere(1e3, 2);
            let n = mesh.vertices.len();
            let merged = within(&mut mesh, tolerance, &Watch::silent()).unwrap();
            assert_eq!(mesh.vertices.len(), n - merged);
        }
    }
}
