//! Which triangles meet at which edge.

use crate::geometry::TriMesh;
use rayon::slice::ParallelSliceMut;

/// All sides of all triangles, grouped by edge.
pub(super) struct EdgeUses {
    /// (lower vertex << 32 | higher vertex, triangle << 1 | 1 where the side runs from lower to higher), sorted.
    sides: Vec<(u64, u32)>,
}

/// One edge.
pub(super) struct Group<'a> {
    /// Its vertices, the lower number first.
    pub ends: (u32, u32),
    /// The sides that lie on it.
    pub uses: &'a [(u64, u32)],
}

/// A triangle at an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub triangle: u32,
    /// Runs from the lower vertex to the higher.
    pub rising: bool,
}

impl EdgeUses {
    /// Sides between two equal vertices are left out.
    pub fn new(triangles: &[[u32; 3]]) -> Self {
        let mut sides = Vec::with_capacity(3 * triangles.len());
        for (t, &[a, b, c]) in triangles.iter().enumerate() {
            for (i, j) in [(a, b), (b, c), (c, a)] {
                if i != j {
                    let key = u64::from(i.min(j)) << 32 | u64::from(i.max(j));
                    sides.push((key, (t as u32) << 1 | u32::from(i < j)));
                }
            }
        }
        sides.par_sort_unstable();
        Self { sides }
    }

    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.sides
            .chunk_by(|a, b| a.0 == b.0)
            .map(|uses| Group { ends: ((uses[0].0 >> 32) as u32, uses[0].0 as u32), uses })
    }

    /// Counts of irregular edges.
    pub fn count(&self) -> EdgeCount {
        let mut n = EdgeCount::default();
        for g in self.groups() {
            match g.uses.len() {
                1 => n.open += 1,
                2 => n.inconsistent += usize::from(g.balance() != 0),
                _ => n.non_manifold += 1,
            }
        }
        n
    }
}

impl Group<'_> {
    pub fn sides(&self) -> impl Iterator<Item = Side> {
        self.uses.iter().map(|u| Side { triangle: u.1 >> 1, rising: u.1 & 1 == 1 })
    }

    /// Sides that rise less those that fall; 0 round a closed, consistently wound surface.
    pub fn balance(&self) -> i64 {
        self.sides().map(|s| if s.rising { 1 } else { -1 }).sum()
    }
}

/// Irregular edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EdgeCount {
    /// Used by one triangle.
    pub open: usize,
    /// Used by more than two.
    pub non_manifold: usize,
    /// Used by two triangles that wind against each other.
    pub inconsistent: usize,
}

/// Disjoint sets of numbers, merged step by step.
pub(super) struct Sets(Vec<u32>);

impl Sets {
    pub fn new(n: usize) -> Self {
        Self((0..n as u32).collect())
    }

    pub fn find(&mut self, mut i: u32) -> u32 {
        while self.0[i as usize] != i {
            let up = self.0[self.0[i as usize] as usize];
            self.0[i as usize] = up;
            i = up;
        }
        i
    }

    pub fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }

    /// A number from 0 for each element's set, in order of first appearance, and how many there are.
    pub fn numbered(mut self) -> (Vec<u32>, usize) {
        let mut names = vec![u32::MAX; self.0.len()];
        let mut next = 0;
        let labels = (0..self.0.len() as u32)
            .map(|i| {
                let name = &mut names[self.find(i) as usize];
                if *name == u32::MAX {
                    *name = next;
                    next += 1;
                }
                *name
            })
            .collect();
        (labels, next as usize)
    }
}

/// Number of sets of triangles that hang together over common vertices. Every vertex must be in use.
pub(super) fn components(mesh: &TriMesh) -> usize {
    let mut sets = Sets::new(mesh.vertices.len());
    for [a, b, c] in &mesh.triangles {
        sets.join(*a, *b);
        sets.join(*b, *c);
    }
    sets.numbered().1
}
