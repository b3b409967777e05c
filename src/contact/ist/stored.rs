//! A sphere tree as bytes, for a cache on disk.
//!
//! Only what is expensive is kept: nodes and cells. The surface and what is read off the mesh are made anew.

use super::model::{SphereTree, ball};
use super::tree::{CELL_BYTES, CellBlock, CellStore, Child, NODE_WORDS, Node, WIDTH};
use crate::geometry::bvh::Bvh;
use crate::geometry::simd::LANES;
use crate::geometry::{Point, TriMesh};

/// Version of the build and of the encoding: bytes of another version, or trees that would be built otherwise today, are
/// of no use.
pub(crate) const VERSION: u32 = 2;

/// Bytes before the nodes: twelve words of eight.
const HEAD: usize = 12 * 8;

impl SphereTree {
    /// Origin, cell, volume, fill (f64), spheres, cells, steps, nodes, blocks, exact (u64), the nodes word by word, the
    /// blocks. Little-endian.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (nodes, blocks) = (&self.nodes, &self.cells.blocks);
        let size = HEAD + nodes.len() * NODE_WORDS * 4 + blocks.len() * CELL_BYTES;
        let mut out = Vec::with_capacity(size);
        for x in [self.origin.x, self.origin.y, self.origin.z, self.cell, self.volume, self.fill] {
            out.extend_from_slice(&x.to_le_bytes());
        }
        let counts = [self.spheres, self.cells.len, self.cells.steps_log as usize, nodes.len(), blocks.len()];
        for n in counts {
            out.extend_from_slice(&(n as u64).to_le_bytes());
        }
        out.extend_from_slice(&u64::from(self.exact).to_le_bytes());
        for word in nodes.iter().flat_map(Node::words) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for block in blocks {
            for q in block.at.iter().flatten().chain(&block.fraction) {
                out.extend_from_slice(&q.to_le_bytes());
            }
        }
        out
    }

    /// The tree of a mesh from the bytes of [`SphereTree::encode`]; `None` when they are none, or when `stop` said true.
    /// What queries rely on is checked. Not real-time safe.
    pub(crate) fn decode(bytes: &[u8], mesh: &TriMesh, stop: &(dyn Fn() -> bool + Sync)) -> Option<Self> {
        let (head, data) = bytes.split_at_checked(HEAD)?;
        let words = head.as_chunks::<8>().0;
        let real = |i: usize| words.get(i).map(|w| f64::from_le_bytes(*w)).filter(|x| x.is_finite());
        let count = |i: usize| usize::try_from(u64::from_le_bytes(*words.get(i)?)).ok();
        let (cells, log, nodes, blocks) = (count(7)?, count(8)?, count(9)?, count(10)?);
        let (nodes, blocks) =
            data.split_at_checked(nodes.checked_mul(NODE_WORDS * 4)?).filter(|(_, rest)| {
                blocks.checked_mul(CELL_BYTES) == Some(rest.len())
                    && cells <= blocks * LANES
                    && log < 16
                    && log > 0
            })?;
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).collect()
        };
        let nodes: Vec<Node> = words(nodes).as_chunks::<NODE_WORDS>().0.iter().map(Node::of_words).collect();
        let halves = |bytes: &[u8]| bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
        let blocks: Vec<CellBlock> = blocks
            .as_chunks::<CELL_BYTES>()
            .0
            .iter()
            .filter_map(|bytes| {
                let q: Vec<u16> = halves(bytes);
                let row = |i: usize| q.get(i * LANES..)?.first_chunk::<LANES>().copied();
                Some(CellBlock { at: [row(0)?, row(1)?, row(2)?], fraction: row(3)? })
            })
            .collect();
        if !nodes.iter().enumerate().all(|(i, n)| sound(i, n, nodes.len(), blocks.len())) {
            return None;
        }
        let (cell, volume) = (real(3).filter(|c| *c > 0.0)?, real(4).filter(|v| *v > 0.0)?);
        let bvh = Bvh::build_unless(mesh, stop)?;
        let (ball_centre, ball_radius) = ball(mesh);
        Some(Self {
            nodes,
            cells: CellStore { len: cells, steps_log: log as u32, blocks },
            origin: Point::new(real(0)?, real(1)?, real(2)?),
            cell,
            spheres: count(6)?,
            volume,
            fill: real(5)?,
            exact: count(11)? != 0,
            bvh,
            ball_centre,
            ball_radius,
            bound_radius: mesh.vertices.iter().map(|v| v.coords.norm()).fold(0.0, f64::max),
        })
    }
}

/// Children come after their parents, so that every walk ends, and all that a node points to is there.
fn sound(at: usize, node: &Node, nodes: usize, blocks: usize) -> bool {
    let finite = |v: &[f32; WIDTH]| v.iter().all(|x| x.is_finite());
    let rows = [&node.x, &node.y, &node.z, &node.r, &node.flat, &node.spread, &node.volume];
    rows.into_iter().all(finite)
        && (0..WIDTH).all(|i| match node.child(i) {
            Child::Empty | Child::Box => true,
            Child::Node(n) => n as usize > at && (n as usize) < nodes,
            Child::Group(first, count) => {
                count as usize <= super::tree::GROUP
                    && first as usize + (count as usize).div_ceil(LANES) <= blocks
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::ist::IstParams;
    use crate::geometry::field::build::Silent;
    use crate::geometry::shapes;

    #[test]
    fn a_tree_comes_back_and_damaged_bytes_do_not() {
        let mesh = shapes::torus(0.06, 0.02, 48, 24);
        let tree = SphereTree::build(&mesh, &IstParams::spheres(2000), &Silent).expect("builds");
        let bytes = tree.encode();
        let back = SphereTree::decode(&bytes, &mesh, &|| false).expect("the same bytes");
        assert!(back.nodes == tree.nodes && back.cells == tree.cells && back.exact == tree.exact);
        assert_eq!(
            (back.origin, back.cell, back.volume, back.fill, back.spheres),
            (tree.origin, tree.cell, tree.volume, tree.fill, tree.spheres)
        );
        assert_eq!((back.ball_centre, back.bound_radius), (tree.ball_centre, tree.bound_radius));
        for cut in [0, 7, HEAD, HEAD + 100, bytes.len() - 1] {
            assert!(SphereTree::decode(&bytes[..cut], &mesh, &|| false).is_none(), "{cut} bytes");
        }
        // The children of the first node: pointing at itself, before it, and past the end.
        let child = HEAD + 4 * 7 * WIDTH;
        for wrong in [0u32, tree.nodes.len() as u32, u32::MAX - 1] {
            let mut bytes = bytes.clone();
            bytes[child..child + 4].copy_from_slice(&wrong.to_le_bytes());
            assert!(SphereTree::decode(&bytes, &mesh, &|| false).is_none(), "{wrong}");
        }
        assert!(SphereTree::decode(&bytes, &mesh, &|| true).is_none(), "stopped");
    }
}
