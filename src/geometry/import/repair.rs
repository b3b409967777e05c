//! Degenerate and duplicate triangles.

use super::topology::{EdgeUses, Group, Sets};
use super::watch::{Stopped, Watch};
use crate::geometry::TriMesh;
use rayon::slice::ParallelSliceMut;
use std::collections::HashMap;

/// Height over longest side below which a triangle counts as having no area.
const FLAT: f64 = 1e-9;
/// At most so many triangles at edges, and so many more a needle, are looked through for needles' neighbours. At an edge of a
/// surface there are two, at a fan's all.
const LOOKED_THROUGH: u64 = 10_000_000;

/// What [`degenerate`] did, collapsed triangles apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Degenerate {
    /// Needles (three corners in a line) that were turned into their neighbour, which keeps the surface closed.
    pub turned: usize,
    /// Needles without a neighbour to turn into, dropped.
    pub dropped: usize,
}

/// Triangles of a file that are no surface, before anything is removed.
pub(super) struct Found {
    /// Without area.
    pub flat: usize,
    /// Further triangles with the same three corners as another.
    pub doubled: usize,
}

/// Counts without changing anything.
pub(super) fn find(mesh: &TriMesh, watch: &Watch<'_>) -> Result<Found, Stopped> {
    let mut flat = 0;
    for (t, [a, b, c]) in mesh.triangles.iter().enumerate() {
        watch.at(t)?;
        flat += usize::from(a == b || b == c || c == a || needle(mesh, t).is_some());
    }
    let doubled = by_corners(mesh).chunk_by(|a, b| a.0 == b.0).map(|set| set.len() - 1).sum();
    Ok(Found { flat, doubled })
}

/// Drops triangles of which two corners are the same, and returns how many: their third side, if any, is a line.
pub(super) fn collapsed(mesh: &mut TriMesh) -> usize {
    let before = mesh.triangles.len();
    mesh.triangles.retain(|[a, b, c]| a != b && b != c && c != a);
    before - mesh.triangles.len()
}

/// Removes triangles without area. A needle a-b-c with b between a and c is not simply dropped, as that would tear
/// its neighbours apart: the neighbour across a-c is split at b instead (an edge flip), which changes no point of
/// the surface.
pub(super) fn degenerate(mesh: &mut TriMesh, watch: &Watch<'_>) -> Result<Degenerate, Stopped> {
    let mut done = Degenerate::default();
    let mut queue: Vec<u32> =
        (0..mesh.triangles.len() as u32).filter(|t| needle(mesh, *t as usize).is_some()).collect();
    if queue.is_empty() {
        return Ok(done);
    }
    let mut edges: HashMap<(u32, u32), Vec<u32>> = HashMap::with_capacity(2 * mesh.triangles.len());
    for (t, tri) in mesh.triangles.iter().enumerate() {
        watch.at(t)?;
        for k in 0..3 {
            edges.entry(edge(tri[k], tri[(k + 1) % 3])).or_default().push(t as u32);
        }
    }
    let mut dead = vec![false; mesh.triangles.len()];
    // Each turn can make a new needle of the neighbour; the budget ends what does not settle.
    let mut budget = 8 * queue.len() + 64;
    let mut looks = LOOKED_THROUGH + 64 * queue.len() as u64;
    queue.reverse();
    while let Some(t) = queue.pop() {
        watch.look()?;
        if dead[t as usize] {
            continue;
        }
        let Some([a, b, c]) = needle(mesh, t as usize) else { continue };
        let crowd = |p, q| edges.get(&edge(p, q)).map_or(0, Vec::len) as u64;
        let looked = crowd(a, b) + crowd(b, c) + 3 * crowd(c, a);
        watch.count(looked);
        if looks < looked {
            // No needle is turned any more, so that nobody asks for edges again.
            looks = 0;
            done.dropped += 1;
            dead[t as usize] = true;
            continue;
        }
        looks -= looked;
        // Of several neighbours one that runs the other way, so that the sides stay in balance.
        let along = |t: u32| runs(&mesh.triangles[t as usize], a, c);
        let others = || edges[&edge(a, c)].iter().copied().filter(|x| *x != t && budget > 0);
        let partner = others().find(|x| along(*x) != along(t)).or_else(|| others().next());
        budget = budget.saturating_sub(1);
        let Some(n) = partner else {
            done.dropped += 1;
            remove(&mut edges, mesh, t);
            dead[t as usize] = true;
            continue;
        };
        let other = mesh.triangles[n as usize];
        let k = (0..3).find(|k| other[*k] != a && other[*k] != c).unwrap_or(0);
        let [d, x, y] = [other[k], other[(k + 1) % 3], other[(k + 2) % 3]];
        remove(&mut edges, mesh, t);
        if d == b {
            // Two needles on each other: both vanish, their other sides then meet.
            remove(&mut edges, mesh, n);
            dead[t as usize] = true;
            dead[n as usize] = true;
            done.turned += 2;
            continue;
        }
        remove(&mut edges, mesh, n);
        done.turned += 1;
        for (slot, tri) in [(t, [d, x, b]), (n, [d, b, y])] {
            mesh.triangles[slot as usize] = tri;
            for k in 0..3 {
                edges.entry(edge(tri[k], tri[(k + 1) % 3])).or_default().push(slot);
            }
            queue.push(slot);
        }
    }
    let mut gone = dead.iter();
    mesh.triangles.retain(|_| gone.next() != Some(&true));
    Ok(done)
}

/// One of the triangle's sides runs from `a` to `c`.
fn runs(tri: &[u32; 3], a: u32, c: u32) -> bool {
    (0..3).any(|k| tri[k] == a && tri[(k + 1) % 3] == c)
}

fn edge(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

fn remove(edges: &mut HashMap<(u32, u32), Vec<u32>>, mesh: &TriMesh, t: u32) {
    let tri = mesh.triangles[t as usize];
    for k in 0..3 {
        if let Some(list) = edges.get_mut(&edge(tri[k], tri[(k + 1) % 3])) {
            list.retain(|x| *x != t);
        }
    }
}

/// The corners of a triangle without area, the one between the others in the middle; `None` for a sound one.
fn needle(mesh: &TriMesh, t: usize) -> Option<[u32; 3]> {
    let p = mesh.corners(t);
    let tri = mesh.triangles[t];
    let side = |k: usize| (p[(k + 1) % 3] - p[k]).norm();
    let k = (0..3).max_by(|i, j| side(*i).total_cmp(&side(*j))).unwrap_or(0);
    let twice = (p[1] - p[0]).cross(&(p[2] - p[0])).norm();
    (twice <= FLAT * side(k) * side(k)).then(|| [tri[k], tri[(k + 2) % 3], tri[(k + 1) % 3]])
}

/// Leaves at most one of all triangles with the same three corners; returns how many went.
///
/// Equal windings: one stays. Opposite windings cancel. A region of such pairs whose border lies on an otherwise
/// complete surface is a membrane or fin without thickness and goes altogether; one that fills a hole of the rest,
/// or is all there is, is a sheet drawn on both sides, of which one side stays.
pub(super) fn duplicates(mesh: &mut TriMesh, watch: &Watch<'_>) -> Result<usize, Stopped> {
    let sorted = by_corners(mesh);
    watch.look()?;
    if sorted.windows(2).all(|w| w[0].0 != w[1].0) {
        return Ok(0);
    }
    let even = |t: u32| {
        let [a, b, c] = mesh.triangles[t as usize];
        (a < b) ^ (b < c) ^ (a < c)
    };
    let evens = |set: &[([u32; 3], u32)]| set.iter().filter(|s| even(s.1)).count();
    let cancels = |set: &[([u32; 3], u32)]| 2 * evens(set) == set.len();
    let mut paired = vec![false; mesh.triangles.len()];
    for (i, set) in sorted.chunk_by(|a, b| a.0 == b.0).filter(|s| cancels(s)).enumerate() {
        watch.at(i)?;
        set.iter().for_each(|s| paired[s.1 as usize] = true);
    }
    let vanish = vanishing(mesh, &paired, watch)?;
    let mut keep = vec![true; mesh.triangles.len()];
    for (i, set) in sorted.chunk_by(|a, b| a.0 == b.0).filter(|s| s.len() > 1).enumerate() {
        watch.at(i)?;
        // One of the winding that prevails; of a sheet, the side that stands first in the file.
        let prevails = if cancels(set) { even(set[0].1) } else { 2 * evens(set) > set.len() };
        let chosen = set.iter().map(|s| s.1).find(|t| even(*t) == prevails && !vanish[*t as usize]);
        set.iter().for_each(|s| keep[s.1 as usize] = Some(s.1) == chosen);
    }
    let before = mesh.triangles.len();
    let mut keep = keep.iter();
    mesh.triangles.retain(|_| keep.next() == Some(&true));
    Ok(before - mesh.triangles.len())
}

/// Triangles with their sorted corners, equal ones next to each other in file order.
fn by_corners(mesh: &TriMesh) -> Vec<([u32; 3], u32)> {
    let mut sorted: Vec<_> = (0_u32..)
        .zip(&mesh.triangles)
        .map(|(t, tri)| {
            let mut key = *tri;
            key.sort_unstable();
            (key, t)
        })
        .collect();
    sorted.par_sort_unstable();
    sorted
}

/// Which of the paired triangles belong to membranes and fins.
fn vanishing(mesh: &TriMesh, paired: &[bool], watch: &Watch<'_>) -> Result<Vec<bool>, Stopped> {
    let uses = EdgeUses::new(&mesh.triangles);
    let mut sets = Sets::new(mesh.triangles.len());
    // Triangles at the edge that are no pair: none within a region, one round a hole that it fills.
    let single = |g: &Group<'_>| g.sides().filter(|s| !paired[s.triangle as usize]).count();
    for (i, g) in uses.groups().filter(|g| single(g) == 0).enumerate() {
        watch.at(i)?;
        let mut sides = g.sides();
        if let Some(first) = sides.next() {
            sides.for_each(|s| sets.join(first.triangle, s.triangle));
        }
    }
    let (region, count) = sets.numbered();
    let (mut fills, mut touches) = (vec![false; count], vec![false; count]);
    for (i, g) in uses.groups().enumerate() {
        watch.at(i)?;
        let n = single(&g);
        for s in g.sides().filter(|s| paired[s.triangle as usize]) {
            let r = region[s.triangle as usize] as usize;
            fills[r] |= n == 1;
            touches[r] |= n >= 2;
        }
    }
    let vanish = |(r, p): (&u32, &bool)| *p && touches[*r as usize] && !fills[*r as usize];
    Ok(region.iter().zip(paired).map(vanish).collect())
}

/// Drops vertices that no triangle uses any more, in order.
pub(super) fn unused_vertices(mesh: &mut TriMesh) {
    let mut map = vec![u32::MAX; mesh.vertices.len()];
    mesh.triangles.iter().flatten().for_each(|i| map[*i as usize] = 0);
    for (next, slot) in (0..).zip(map.iter_mut().filter(|m| **m == 0)) {
        *slot = next;
    }
    let mut at = map.iter();
    mesh.vertices.retain(|_| at.next() != Some(&u32::MAX));
    mesh.triangles.iter_mut().flatten().for_each(|i| *i = map[*i as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Point, Vec3, mass::mass_properties, shapes};

    fn closed(mesh: &TriMesh) -> bool {
        let n = EdgeUses::new(&mesh.triangles).count();
        n.open + n.non_manifold + n.inconsistent == 0
    }

    /// A box with a needle: a corner `m` in the middle of an edge, on one side of it only.
    fn with_needle() -> TriMesh {
        let mut mesh = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        let [a, b, c] = mesh.triangles[0];
        let m = mesh.vertices.len() as u32;
        mesh.vertices.push(nalgebra::center(&mesh.vertices[a as usize], &mesh.vertices[b as usize]));
        mesh.triangles[0] = [a, m, c];
        mesh.triangles.extend([[m, b, c], [a, b, m]]);
        mesh
    }

    #[test]
    fn needle_is_turned_and_the_box_stays_closed() {
        let mut mesh = with_needle();
        assert!(closed(&mesh));
        let done = degenerate(&mut mesh, &Watch::silent()).unwrap();
        assert_eq!(done, Degenerate { turned: 1, dropped: 0 });
        assert!(closed(&mesh));
        let m = mass_properties(&mesh);
        assert!((m.volume - 1.0).abs() < 1e-15 && (m.area - 6.0).abs() < 1e-14);
        assert_eq!(mesh.triangles.len(), 14);
    }

    #[test]
    fn chains_of_needles_settle() {
        // A fan of needles over one edge: a, m1..m9, b all in a line.
        let mut mesh = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        let [a, b, c] = mesh.triangles[0];
        let (pa, pb) = (mesh.vertices[a as usize], mesh.vertices[b as usize]);
        let base = mesh.vertices.len() as u32;
        mesh.vertices.extend((1..10).map(|k| pa + (pb - pa) * (f64::from(k) / 10.0)));
        let line: Vec<u32> = std::iter::once(a).chain(base..base + 9).chain([b]).collect();
        mesh.triangles.swap_remove(0);
        for w in line.windows(2) {
            mesh.triangles.push([w[0], w[1], c]);
        }
        for w in line[1..].windows(2) {
            mesh.triangles.push([a, w[1], w[0]]);
        }
        assert!(closed(&mesh));
        let done = degenerate(&mut mesh, &Watch::silent()).unwrap();
        assert_eq!(done.dropped, 0);
        assert!(done.turned >= 9 && closed(&mesh));
        assert!((mass_properties(&mesh).volume - 1.0).abs() < 1e-14);
        assert!((0..mesh.triangles.len()).all(|t| needle(&mesh, t).is_none()));
    }

    #[test]
    fn collapsed_and_lonely_degenerates_go() {
        let p = |x| Point::new(x, 0.0, 0.0);
        let mut mesh = TriMesh {
            vertices: vec![p(0.0), p(1.0), p(2.0)],
            triangles: vec![[0, 0, 1], [0, 1, 2], [2, 2, 2]],
        };
        assert_eq!(find(&mesh, &Watch::silent()).unwrap().flat, 3);
        assert_eq!(collapsed(&mut mesh), 2);
        assert_eq!(degenerate(&mut mesh, &Watch::silent()).unwrap(), Degenerate { turned: 0, dropped: 1 });
        assert!(mesh.triangles.is_empty());
    }

    #[test]
    fn equal_duplicates_leave_one_and_a_membrane_goes() {
        let mut mesh = shapes::cuboid(Vec3::new(1.0, 1.0, 1.0));
        mesh.triangles.push(mesh.triangles[3]);
        let [a, b, c] = mesh.triangles[5];
        mesh.triangles.push([b, c, a]);
        // A membrane through the box: the diagonal plane, both ways.
        mesh.triangles.extend([[0, 1, 7], [1, 0, 7]]);
        assert_eq!(duplicates(&mut mesh, &Watch::silent()).unwrap(), 4);
        assert!(closed(&mesh));
        assert_eq!(mesh.triangles.len(), 12);
    }

    #[test]
    fn a_part_of_a_surface_drawn_on_both_sides_stays_closed() {
        let mut mesh = shapes::icosphere(1.0, 2);
        let back: Vec<_> = mesh.triangles[40..90].iter().map(|[a, b, c]| [*a, *c, *b]).collect();
        mesh.triangles.extend(back);
        assert_eq!(duplicates(&mut mesh, &Watch::silent()).unwrap(), 50);
        assert!(closed(&mesh));
        // A fin: a flap of two triangles, both sides, on one edge.
        let [a, b, _] = mesh.triangles[0];
        let n = mesh.vertices.len() as u32;
        mesh.vertices.extend([Point::new(2.0, 2.0, 2.0), Point::new(2.0, 3.0, 2.0)]);
        mesh.triangles.extend([[a, b, n], [b, a, n], [b, n, n + 1], [n, b, n + 1]]);
        assert_eq!(duplicates(&mut mesh, &Watch::silent()).unwrap(), 4);
        assert!(closed(&mesh));
    }

    #[test]
    fn a_sheet_drawn_on_both_sides_keeps_one() {
        let mut mesh = shapes::icosphere(1.0, 1);
        let back: Vec<_> = mesh.triangles.iter().map(|[a, b, c]| [*a, *c, *b]).collect();
        mesh.triangles.extend(back);
        assert_eq!(duplicates(&mut mesh, &Watch::silent()).unwrap(), 80);
        assert!(closed(&mesh));
        assert!(mass_properties(&mesh).volume > 0.0, "the side that stands first in the file stays");
    }
}
