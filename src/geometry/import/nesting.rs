//! Which way each shell faces, from how the shells lie in one another.
//!
//! An outer shell must face outwards. A shell inside the solid that the file winds against its container is a cavity and stays
//! inverted; one that winds alike is a part inside a part and stays as it is (its volume counts once). A shell in
//! the empty space of a cavity must face outwards again. A file that is inside out as a whole is turned as a whole.

use super::orient::Flood;
use super::topology::EdgeUses;
use super::watch::{Stopped, Watch};
use crate::geometry::winding::Winding;
use crate::geometry::{Point, TriMesh, Vec3};
use std::sync::OnceLock;

/// At most so many shells are compared with each other, the largest first; the rest face outwards by their volume.
const MOST: usize = 4096;
/// At most so many times is it asked whether a point lies in a shell, some microseconds each; the shells left then are treated
/// like those beyond the most. Shells side by side are told apart by their boxes, so that only such as lie in one another
/// by the thousand get there.
const POINTS: u64 = 1_000_000;
/// |volume| / area^(3/2) above which an open shell counts as a body with a hole (a ball has 0.094, a rod of length
/// 100 radii 0.02) ...
const OPEN_BODY: f64 = 5e-3;
/// ... and above which a closed one has an inside at all.
const CLOSED_BODY: f64 = 1e-9;

/// What [`orient`] did and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nesting {
    /// Shells that were turned.
    pub turned_shells: usize,
    /// Shells that bound an empty space inside a solid.
    pub cavities: usize,
    /// Shells that lie within another's solid and add nothing.
    pub nested: usize,
    /// Shells beyond the limit, oriented by their volume alone.
    pub unexamined: usize,
}

struct Shell {
    triangles: Vec<u32>,
    low: Point,
    high: Point,
    /// As the file winds it.
    volume: f64,
    body: bool,
    winding: OnceLock<Winding>,
}

/// Orients all shells, each consistent in itself, and notes in `flood` which triangles that turns.
pub(super) fn orient(
    mesh: &mut TriMesh,
    flood: &mut Flood,
    uses: &EdgeUses,
    watch: &Watch<'_>,
) -> Result<Nesting, Stopped> {
    let count = flood.shells;
    let shells = collect(mesh, &flood.shell, count, uses, watch)?;
    let mut order: Vec<usize> = (0..count).filter(|i| shells[*i].body).collect();
    let size = |i: usize| (shells[i].high - shells[i].low).norm();
    order.sort_by(|a, b| size(*b).total_cmp(&size(*a)));
    let mut result = Nesting::default();
    let mut points = 0;
    let mut faces_out = vec![1.0_f64; count];
    // Containers are larger, so that they come first and are decided already.
    for (rank, &i) in order.iter().enumerate() {
        let file = shells[i].volume.signum();
        let mut surrounding = 0.0;
        let mut parent: Option<usize> = None;
        watch.look()?;
        let examined = rank < MOST && points < POINTS;
        result.unexamined += usize::from(!examined);
        let larger = if examined { &order[..rank] } else { &[] };
        for &j in larger {
            if encloses(mesh, &shells[j], &shells[i], &mut points, watch)? {
                surrounding += faces_out[j];
                if parent.is_none_or(|p| shells[j].volume.abs() < shells[p].volume.abs()) {
                    parent = Some(j);
                }
            }
        }
        if let Some(p) = parent.filter(|_| surrounding > 0.5) {
            let parent_turned = faces_out[p] != shells[p].volume.signum();
            faces_out[i] = if parent_turned { -file } else { file };
            if faces_out[i] < 0.0 {
                result.cavities += 1;
            } else {
                result.nested += 1;
            }
        }
        if faces_out[i] != file {
            result.turned_shells += 1;
            for &t in &shells[i].triangles {
                mesh.triangles[t as usize].swap(1, 2);
                flood.turned[t as usize] ^= true;
            }
        }
    }
    watch.count(points);
    Ok(result)
}

fn collect(
    mesh: &TriMesh,
    shell: &[u32],
    count: usize,
    uses: &EdgeUses,
    watch: &Watch<'_>,
) -> Result<Vec<Shell>, Stopped> {
    let mut members = vec![Vec::new(); count];
    shell.iter().enumerate().for_each(|(t, s)| members[*s as usize].push(t as u32));
    // Ends of the edges at which each shell is not complete: their mean lies in the hole.
    let mut rim = vec![(Vec3::zeros(), 0.0); count];
    for (i, g) in uses.groups().enumerate() {
        watch.at(i)?;
        let net = |s: u32| -> i64 {
            let of = g.sides().filter(|x| shell[x.triangle as usize] == s);
            of.map(|x| if rises(mesh, g.ends, x.triangle) { 1 } else { -1 }).sum()
        };
        let mut seen: Option<u32> = None;
        for s in g.sides().map(|x| shell[x.triangle as usize]).take(16) {
            if seen != Some(s) && net(s) != 0 {
                let ends = mesh.vertices[g.ends.0 as usize].coords + mesh.vertices[g.ends.1 as usize].coords;
                rim[s as usize].0 += ends / 2.0;
                rim[s as usize].1 += 1.0;
            }
            seen = Some(s);
        }
    }
    members
        .into_iter()
        .zip(rim)
        .enumerate()
        .map(|(i, (triangles, (sum, n)))| {
            watch.at(64 * i)?;
            let first = mesh.corners(triangles[0] as usize)[0];
            let (mut low, mut high) = (first, first);
            for p in triangles.iter().flat_map(|t| mesh.corners(*t as usize)) {
                low = low.inf(&p);
                high = high.sup(&p);
            }
            let apex = if n > 0.0 { Point::from(sum / n) } else { nalgebra::center(&low, &high) };
            let (mut volume, mut area) = (0.0, 0.0);
            for t in &triangles {
                let [a, b, c] = mesh.corners(*t as usize).map(|p| p - apex);
                volume += a.dot(&b.cross(&c)) / 6.0;
                area += (b - a).cross(&(c - a)).norm() / 2.0;
            }
            let least = if n > 0.0 { OPEN_BODY } else { CLOSED_BODY };
            let body = volume.abs() > least * area.powf(1.5);
            Ok(Shell { triangles, low, high, volume, body, winding: OnceLock::new() })
        })
        .collect()
}

/// Triangle `t` runs along the edge from its lower vertex to its higher. Read from the mesh, as turning changes it.
fn rises(mesh: &TriMesh, (low, high): (u32, u32), t: u32) -> bool {
    let tri = mesh.triangles[t as usize];
    (0..3).any(|k| tri[k] == low && tri[(k + 1) % 3] == high)
}

/// All sampled points of `inner` that can tell lie inside `outer`, and at least one can. Counts the points.
fn encloses(
    mesh: &TriMesh,
    outer: &Shell,
    inner: &Shell,
    points: &mut u64,
    watch: &Watch<'_>,
) -> Result<bool, Stopped> {
    let fits = (0..3).all(|k| outer.low[k] <= inner.low[k] && inner.high[k] <= outer.high[k]);
    if !fits {
        return Ok(false);
    }
    watch.look()?;
    if outer.winding.get().is_none() {
        let vertices = outer.triangles.iter().flat_map(|t| mesh.corners(*t as usize)).collect();
        let triangles = (0..outer.triangles.len() as u32).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect();
        let stop = || watch.stopped();
        let built = Winding::build_unless(&TriMesh { vertices, triangles }, &stop).ok_or(Stopped)?;
        let _ = outer.winding.set(built);
    }
    let Some(winding) = outer.winding.get() else { return Ok(false) };
    let step = (inner.triangles.len() / 8).max(1);
    let mut inside = 0;
    for t in inner.triangles.iter().step_by(step) {
        let [a, b, c] = mesh.corners(*t as usize);
        // Where the two touch the number is between those of the sides: no vote.
        *points += 1;
        let w = winding.number(&Point::from((a.coords + b.coords + c.coords) / 3.0)).abs();
        if w < 0.35 {
            return Ok(false);
        }
        inside += usize::from(w > 0.65);
    }
    Ok(inside > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{import::orient::flood, mass::mass_properties, shapes};

    fn shell(radius: f64, outward: bool) -> TriMesh {
        let mut mesh = shapes::icosphere(radius, 2);
        if !outward {
            mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
        }
        mesh
    }

    fn union(parts: impl IntoIterator<Item = TriMesh>) -> TriMesh {
        let mut all = TriMesh::default();
        for part in parts {
            let base = all.vertices.len() as u32;
            all.vertices.extend(part.vertices);
            all.triangles.extend(part.triangles.iter().map(|t| t.map(|i| i + base)));
        }
        all
    }

    /// Signs after orientation of concentric balls, outermost first.
    fn run(balls: &[(f64, bool)]) -> (Vec<bool>, Nesting) {
        let mut mesh = union(balls.iter().map(|(r, o)| shell(*r, *o)));
        let uses = EdgeUses::new(&mesh.triangles);
        let mut f = flood(&mut mesh, &uses, &Watch::silent()).unwrap();
        let n = orient(&mut mesh, &mut f, &uses, &Watch::silent()).unwrap();
        let each = mesh.triangles.len() / balls.len();
        let signs = (0..balls.len())
            .map(|k| {
                let triangles = mesh.triangles[k * each..(k + 1) * each].to_vec();
                mass_properties(&TriMesh { vertices: mesh.vertices.clone(), triangles }).volume > 0.0
            })
            .collect();
        (signs, n)
    }

    #[test]
    fn hollow_ball_keeps_its_cavity_whichever_way_the_file_winds() {
        for flip in [false, true] {
            let (signs, n) = run(&[(1.0, !flip), (0.8, flip)]);
            assert_eq!(signs, [true, false]);
            assert_eq!((n.cavities, n.nested), (1, 0));
            assert_eq!(n.turned_shells, if flip { 2 } else { 0 });
        }
    }

    #[test]
    fn part_within_a_part_is_no_cavity() {
        for flip in [false, true] {
            let (signs, n) = run(&[(1.0, !flip), (0.8, !flip)]);
            assert_eq!(signs, [true, true]);
            assert_eq!((n.cavities, n.nested), (0, 1));
        }
    }

    #[test]
    fn solid_in_a_cavity_faces_outwards() {
        for third in [true, false] {
            let (signs, n) = run(&[(1.0, true), (0.8, false), (0.5, third), (0.3, !third)]);
            assert_eq!(signs, [true, false, true, false]);
            assert_eq!(n.cavities, 2);
        }
    }

    #[test]
    fn shells_side_by_side_all_face_outwards() {
        let mut parts = Vec::new();
        for k in 0..6 {
            let mut ball = shell(0.4, k % 2 == 0);
            ball.vertices.iter_mut().for_each(|v| v.x += f64::from(k));
            parts.push(ball);
        }
        let mut mesh = union(parts);
        let uses = EdgeUses::new(&mesh.triangles);
        let mut f = flood(&mut mesh, &uses, &Watch::silent()).unwrap();
        let n = orient(&mut mesh, &mut f, &uses, &Watch::silent()).unwrap();
        assert_eq!((n.turned_shells, n.cavities, n.nested), (3, 0, 0));
        let one = mass_properties(&shell(0.4, true)).volume;
        assert!((mass_properties(&mesh).volume - 6.0 * one).abs() < 1e-12);
    }

    #[test]
    fn open_body_inside_out_is_turned_and_a_sheet_is_left_alone() {
        let mut ball = shell(1.0, false);
        ball.triangles.truncate(ball.triangles.len() - 20);
        let uses = EdgeUses::new(&ball.triangles);
        let mut f = flood(&mut ball, &uses, &Watch::silent()).unwrap();
        assert_eq!(orient(&mut ball, &mut f, &uses, &Watch::silent()).unwrap().turned_shells, 1);
        let p = |x, y| Point::new(x, y, 0.0);
        let mut sheet =
            TriMesh { vertices: vec![p(0., 0.), p(0., 1.), p(1., 0.)], triangles: vec![[0, 1, 2]] };
        let uses = EdgeUses::new(&sheet.triangles);
        let mut f = flood(&mut sheet, &uses, &Watch::silent()).unwrap();
        assert_eq!(orient(&mut sheet, &mut f, &uses, &Watch::silent()).unwrap().turned_shells, 0);
    }
}
