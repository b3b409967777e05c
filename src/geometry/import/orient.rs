//! One winding for all triangles that hang together, by flooding over their common edges.

use super::topology::{EdgeUses, Sets};
use super::watch::{Stopped, Watch};
use crate::geometry::TriMesh;

const NONE: u32 = u32::MAX;

/// What [`flood`] did and found.
pub(super) struct Flood {
    /// Which triangles were turned.
    pub turned: Vec<bool>,
    /// Edges whose two sides still run the same way: a Moebius strip has no consistent winding.
    pub contradictions: usize,
    /// Shell of each triangle. Surfaces that touch along an edge but are each complete there (two boxes with a
    /// common edge) are two shells.
    pub shell: Vec<u32>,
    /// Number of shells.
    pub shells: usize,
}

/// Turns as few triangles as possible so that neighbours wind alike.
pub(super) fn flood(mesh: &mut TriMesh, uses: &EdgeUses, watch: &Watch<'_>) -> Result<Flood, Stopped> {
    let n = mesh.triangles.len();
    // Neighbour across each side, and whether it winds the other way; only where exactly two triangles meet.
    let mut neighbours = vec![[(NONE, false); 3]; n];
    for (i, g) in uses.groups().filter(|g| g.uses.len() == 2).enumerate() {
        watch.at(i)?;
        let mut sides = g.sides();
        if let (Some(a), Some(b)) = (sides.next(), sides.next()) {
            let against = a.rising == b.rising;
            for (from, to) in [(a, b), (b, a)] {
                let list = &mut neighbours[from.triangle as usize];
                if let Some(free) = list.iter_mut().find(|x| x.0 == NONE) {
                    *free = (to.triangle, against);
                }
            }
        }
    }
    let mut patch = vec![NONE; n];
    let mut turned = vec![false; n];
    let mut patches = 0;
    let mut stack = Vec::new();
    let mut members = Vec::new();
    for seed in 0..n {
        watch.at(seed)?;
        if patch[seed] != NONE {
            continue;
        }
        members.clear();
        stack.push(seed as u32);
        patch[seed] = patches;
        while let Some(t) = stack.pop() {
            members.push(t);
            watch.at(members.len())?;
            for (other, against) in neighbours[t as usize] {
                if other != NONE && patch[other as usize] == NONE {
                    patch[other as usize] = patches;
                    turned[other as usize] = turned[t as usize] ^ against;
                    stack.push(other);
                }
            }
        }
        // The file's majority decides.
        if 2 * members.iter().filter(|t| turned[**t as usize]).count() > members.len() {
            members.iter().for_each(|t| turned[*t as usize] ^= true);
        }
        patches += 1;
    }
    let mut sets = Sets::new(patches as usize);
    balance(uses, &patch, patches as usize, &mut turned, &mut sets, watch)?;
    for (tri, _) in mesh.triangles.iter_mut().zip(&turned).filter(|(_, t)| **t) {
        tri.swap(1, 2);
    }
    let contradictions = uses
        .groups()
        .filter(|g| g.uses.len() == 2)
        .filter(|g| {
            g.sides().map(|s| if s.rising ^ turned[s.triangle as usize] { 1 } else { -1 }).sum::<i32>() != 0
        })
        .count();
    let (names, shells) = sets.numbered();
    let shell = patch.iter().map(|p| names[*p as usize]).collect();
    Ok(Flood { turned, contradictions, shell, shells })
}

/// Where more than two triangles meet, the flood stops. Patches that meet there are turned, small ones first, while that brings
/// more of those edges into balance (as many sides one way as the other). Patches that need each other for it become
/// one set.
fn balance(
    uses: &EdgeUses,
    patch: &[u32],
    patches: usize,
    turned: &mut [bool],
    sets: &mut Sets,
    watch: &Watch<'_>,
) -> Result<(), Stopped> {
    let mut size = vec![0_usize; patches];
    patch.iter().for_each(|p| size[*p as usize] += 1);
    // Net direction of each patch at each such edge.
    let mut edges: Vec<Vec<(u32, i32)>> = Vec::new();
    let mut at: std::collections::BTreeMap<u32, Vec<usize>> = std::collections::BTreeMap::new();
    for (i, g) in uses.groups().filter(|g| g.uses.len() > 2).enumerate() {
        watch.at(16 * i)?;
        let mut net: Vec<(u32, i32)> = Vec::new();
        for s in g.sides() {
            let p = patch[s.triangle as usize];
            let step = if s.rising ^ turned[s.triangle as usize] { 1 } else { -1 };
            match net.iter().position(|x| x.0 == p) {
                Some(i) => net[i].1 += step,
                // An edge with very many patches is no surface; leave it.
                None if net.len() < 16 => net.push((p, step)),
                None => {}
            }
        }
        let mut needy = net.iter().filter(|x| x.1 != 0).map(|x| x.0);
        if let Some(first) = needy.next() {
            needy.for_each(|p| sets.join(first, p));
        }
        net.iter().for_each(|x| at.entry(x.0).or_default().push(edges.len()));
        edges.push(net);
    }
    let mut order: Vec<u32> = at.keys().copied().collect();
    order.sort_by_key(|p| size[*p as usize]);
    let mut flip = vec![false; patches];
    for _ in 0..8 {
        let mut changed = false;
        for (i, &p) in order.iter().enumerate() {
            watch.at(64 * i)?;
            let gain: i32 = at[&p]
                .iter()
                .map(|&e| {
                    let total: i32 = edges[e].iter().map(|x| x.1).sum();
                    let own = edges[e].iter().find(|x| x.0 == p).map_or(0, |x| x.1);
                    total.abs() - (total - 2 * own).abs()
                })
                .sum();
            if gain > 0 {
                changed = true;
                flip[p as usize] ^= true;
                for &e in &at[&p] {
                    edges[e].iter_mut().filter(|x| x.0 == p).for_each(|x| x.1 = -x.1);
                }
            }
        }
        if !changed {
            break;
        }
    }
    for (t, p) in turned.iter_mut().zip(patch) {
        *t ^= flip[*p as usize];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Point, Vec3, mass::mass_properties, shapes};
    use rand::{RngExt, SeedableRng};

    fn run(mesh: &mut TriMesh) -> Flood {
        let uses = EdgeUses::new(&mesh.triangles);
        flood(mesh, &uses, &Watch::silent()).unwrap()
    }

    fn turned(done: &Flood) -> usize {
        done.turned.iter().filter(|t| **t).count()
    }

    #[test]
    fn mixed_winding_is_repaired_with_the_fewest_turns() {
        let mut rng = rand_pcg::Pcg32::seed_from_u64(3);
        for share in [0.02, 0.3, 0.45] {
            let sound = shapes::torus(0.06, 0.02, 40, 20);
            let mut mesh = sound.clone();
            let mut hit = 0;
            for t in &mut mesh.triangles {
                if rng.random_bool(share) {
                    t.swap(1, 2);
                    hit += 1;
                }
            }
            let done = run(&mut mesh);
            assert_eq!((turned(&done), done.contradictions, done.shells), (hit, 0, 1));
            let (a, b) = (mass_properties(&mesh).volume, mass_properties(&sound).volume);
            assert!((a - b).abs() < 1e-12 * b);
        }
    }

    #[test]
    fn moebius_strip_is_reported() {
        let n = 20;
        let mut mesh = TriMesh::default();
        for i in 0..n {
            let a = std::f64::consts::TAU * f64::from(i) / f64::from(n);
            let lean = Vec3::new((a / 2.0).cos() * a.cos(), (a / 2.0).cos() * a.sin(), (a / 2.0).sin()) * 0.3;
            let mid = Vec3::new(a.cos(), a.sin(), 0.0);
            mesh.vertices.extend([Point::from(mid + lean), Point::from(mid - lean)]);
        }
        for i in 0..n as u32 {
            let (a, b) = (2 * i, 2 * i + 1);
            let (c, d) = if i + 1 == n as u32 { (1, 0) } else { (2 * i + 2, 2 * i + 3) };
            mesh.triangles.extend([[a, b, d], [a, d, c]]);
        }
        let done = run(&mut mesh);
        assert!(done.contradictions > 0);
        assert_eq!(done.shells, 1);
    }

    /// The mesh and a copy moved by `by`, which share the vertices that fall together.
    fn doubled(mut mesh: TriMesh, by: Vec3) -> TriMesh {
        let mut map = Vec::new();
        for v in mesh.vertices.clone() {
            let at = mesh.vertices.iter().position(|w| *w == v + by).unwrap_or_else(|| {
                mesh.vertices.push(v + by);
                mesh.vertices.len() - 1
            });
            map.push(at as u32);
        }
        let second: Vec<_> = mesh.triangles.iter().map(|t| t.map(|i| map[i as usize])).collect();
        mesh.triangles.extend(second);
        mesh
    }

    #[test]
    fn boxes_with_a_common_edge_are_two_shells() {
        let mut mesh = doubled(shapes::cuboid(Vec3::new(1.0, 1.0, 1.0)), Vec3::new(1.0, 1.0, 0.0));
        assert_eq!(EdgeUses::new(&mesh.triangles).count().non_manifold, 1);
        let done = run(&mut mesh);
        assert_eq!((turned(&done), done.shells), (0, 2));
    }

    #[test]
    fn a_wall_stored_backwards_is_turned_where_four_triangles_meet() {
        // Two boxes on each other, each with its wall, the walls split along different diagonals: at the four edges
        // round them four triangles meet, and each wall is a patch of its own.
        let mut mesh = doubled(shapes::cuboid(Vec3::new(1.0, 1.0, 1.0)), Vec3::new(1.0, 0.0, 0.0));
        let walls: Vec<usize> = (0..24)
            .filter(|t| mesh.triangles[*t].iter().all(|i| mesh.vertices[*i as usize].x == 0.5))
            .collect();
        assert_eq!(walls.len(), 4);
        let ([a, b, c], d) = (mesh.triangles[walls[2]], mesh.triangles[walls[3]][2]);
        assert_eq!(mesh.triangles[walls[3]], [a, c, d]);
        mesh.triangles[walls[2]] = [a, b, d];
        mesh.triangles[walls[3]] = [b, c, d];
        assert!(EdgeUses::new(&mesh.triangles).groups().all(|g| g.balance() == 0));
        for w in &walls[2..] {
            mesh.triangles[*w].swap(1, 2);
        }
        let done = run(&mut mesh);
        assert_eq!((turned(&done), done.shells, done.contradictions), (2, 1, 0));
        assert!(EdgeUses::new(&mesh.triangles).groups().all(|g| g.balance() == 0));
        assert!((mass_properties(&mesh).volume - 2.0).abs() < 1e-14);
    }
}
