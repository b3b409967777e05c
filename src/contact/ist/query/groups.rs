//! Groups of cells that wait to be looked at, sixteen together.

use super::bound::{Proof, in_cells, proofs, reach, within};
use super::cells::{Block, FACE, add_cells, contribute, deepest, unpack};
use super::frame::Frame;
use super::kernel::{Seen, place};
use super::model::SphereTree;
use super::sums::{LOWER, Sums, UPPER};
use crate::geometry::lanes::{Constants, F, Lanes, load, splat};
use crate::geometry::simd::{LANES, Simd, apart, prefetch};

/// Up to sixteen groups, with what is known of them as nodes.
pub(super) struct Groups {
    len: usize,
    at: [F; 3],
    depth: F,
    gradient: [F; 3],
    r: F,
    volume: F,
    weight: F,
    first: [u32; LANES],
    count: [u32; LANES],
    certain: [bool; LANES],
    rest: Rest,
}

/// A node of the hierarchy that stands for cells, lane by lane of what was seen.
pub(super) struct Group {
    /// Block and cells.
    pub(super) cells: (u32, u32),
    /// Weight in the estimate.
    pub(super) weight: f32,
    /// Counted in the bounds already.
    pub(super) certain: bool,
    pub(super) at: [f32; 3],
    pub(super) depth: f32,
    pub(super) gradient: [f32; 3],
    pub(super) r: f32,
    pub(super) volume: f32,
}

impl Groups {
    pub(super) fn new() -> Self {
        let none = [0.0; LANES];
        Self {
            len: 0,
            at: [none; 3],
            depth: none,
            gradient: [none; 3],
            r: none,
            volume: none,
            weight: none,
            first: [0; LANES],
            count: [0; LANES],
            certain: [true; LANES],
            rest: Rest::new(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= LANES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes one more; nothing where there is no room.
    #[inline(always)]
    pub(super) fn push(&mut self, tree: &SphereTree, group: &Group) {
        let i = self.len;
        if i >= LANES {
            return;
        }
        self.len += 1;
        for axis in 0..3 {
            self.at[axis][i] = group.at[axis];
            self.gradient[axis][i] = group.gradient[axis];
        }
        self.depth[i] = group.depth;
        self.r[i] = group.r;
        self.volume[i] = group.volume;
        self.weight[i] = group.weight;
        self.first[i] = group.cells.0;
        self.count[i] = group.cells.1;
        self.certain[i] = group.certain;
        let first = group.cells.0 as usize;
        for block in first..first + 2 {
            if let Some(block) = tree.cells.blocks.get(block) {
                prefetch(block);
            }
        }
    }

    #[inline(always)]
    fn add<S: Simd>(
        simd: S,
        groups: &mut Self,
        tree: &SphereTree,
        frame: &Frame<'_>,
        sums: &mut Sums,
    ) -> u32 {
        let k = Constants(simd);
        let zero = k.of(0.0);
        let seen = Seen {
            at: load(simd, &groups.at),
            depth: k.at(&groups.depth),
            gradient: load(simd, &groups.gradient),
        };
        let proofs = proofs(simd, frame, &seen, k.at(&groups.r));
        let len = groups.len.min(LANES);
        let mut whole = [0.0; LANES];
        let mut work = 0;
        for i in 0..len {
            if proofs.gone >> i & 1 != 0 {
                continue;
            }
            if proofs.sure >> i & 1 != 0 {
                whole[i] = groups.weight[i] * groups.volume[i];
                let v = if groups.certain[i] { 0.0 } else { f64::from(groups.volume[i]) };
                sums.lower += v;
                sums.upper += v;
                continue;
            }
            work += groups.count[i];
            groups.open(simd, tree, frame, (i, &proofs.of(i)), sums);
        }
        let volume = k.at(&whole);
        if simd.gt_bits(volume.bare(), zero.bare()) != 0 {
            deepest(simd, frame, &seen, k.at(&groups.r) * k.of(FACE), volume, sums);
            contribute(simd, frame, &seen, volume, (k.of(1.0), zero), sums);
        }
        groups.len = 0;
        work
    }

    /// Adds the cells of group `i`.
    #[inline(always)]
    fn open<S: Simd>(
        &mut self,
        simd: S,
        tree: &SphereTree,
        frame: &Frame<'_>,
        (i, proof): (usize, &Proof),
        sums: &mut Sums,
    ) {
        let k = Constants(simd);
        let zero = k.of(0.0);
        let volume = frame.cell * frame.cell * frame.cell;
        let gradient = [self.gradient[0][i], self.gradient[1][i], self.gradient[2][i]];
        let bounded = !self.certain[i];
        let fresh = if bounded { 1.0 } else { 0.0 };
        let (mut left, mut index) = (self.count[i] as usize, self.first[i] as usize);
        while left > 0 {
            let Some(block) = unpack(simd, &tree.cells, index, left) else { break };
            let (reach, p) = (reach(simd, &block), in_cells(simd, frame, &block));
            let fraction = k.at(&block.fraction);
            let (near, least) = within(simd, p, reach, &proof.inside);
            let sure = near.at_most(least, fraction, zero);
            let (far, most) = within(simd, p, reach, &proof.outside);
            let open = far.at_most(most, zero, fraction - sure);
            if simd.gt_bits(sure.bare(), zero.bare()) != 0 {
                if bounded {
                    let doubt = k.at(&block.doubt);
                    let whole = k.of(volume);
                    let lower = sure.at_most(zero, zero, (sure - doubt) * whole);
                    let upper = sure.at_most(zero, zero, (sure + doubt) * whole);
                    sums.add(simd, LOWER, lower);
                    sums.add(simd, UPPER, upper);
                }
                let seen = Seen {
                    at: place(simd, &frame.step_to_grid, &frame.first, load(simd, &block.at)),
                    depth: zero,
                    gradient: splat(simd, gradient),
                };
                let inside = sure * k.of(volume * self.weight[i]);
                contribute(simd, frame, &seen, inside, (k.of(1.0), zero), sums);
            }
            self.rest.take(simd, &block, simd.gt_bits(open.bare(), zero.bare()), (self.weight[i], fresh));
            if self.rest.len >= LANES {
                self.rest.add(simd, frame, sums);
            }
            left = left.saturating_sub(LANES);
            index += 1;
        }
    }

    /// Adds the cells that still wait.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(&mut self, simd: S, frame: &Frame<'_>, sums: &mut Sums) {
        if self.rest.len > 0 {
            self.rest.add(simd, frame, sums);
        }
    }
}

apart! {
    /// Adds all of them and returns the number of cells looked at.
    ///
    /// What a ball proves to be inside counts whole with the group's normal; the field is read for the cells that the
    /// balls leave open, and only there is the surface.
    pub(super) fn add_groups['a, 'f](groups: &'a mut Groups, tree: &'a SphereTree, frame: &'a Frame<'f>, sums: &'a mut Sums) -> u32 =
        Groups::add
}

/// Room for cells that wait: fewer than sixteen, and sixteen more.
const WAITING: usize = 2 * LANES;

/// Cells that the balls left open, close together, with their weights in the estimate and in the bounds.
struct Rest {
    len: usize,
    columns: [[f32; WAITING]; 10],
}

impl Rest {
    fn new() -> Self {
        Self { len: 0, columns: [[0.0; WAITING]; 10] }
    }

    #[inline(always)]
    fn take<S: Simd>(&mut self, simd: S, block: &Block, bits: u16, (weight, fresh): (f32, f32)) {
        if bits == 0 {
            return;
        }
        let [x, y, z] = &block.at;
        let [u, v, w] = &block.offset;
        let (weight, fresh) = ([weight; LANES], [fresh; LANES]);
        let from = [x, y, z, u, v, w, &block.fraction, &block.doubt, &weight, &fresh];
        for (column, from) in self.columns.iter_mut().zip(from) {
            if let Some(out) = column.get_mut(self.len..).and_then(<[f32]>::first_chunk_mut) {
                Lanes::load(simd, from).compress(bits, out);
            }
        }
        self.len += bits.count_ones() as usize;
    }

    /// Adds the first sixteen of them; places past the last hold nothing.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, frame: &Frame<'_>, sums: &mut Sums) {
        let mut taken = [[0.0; LANES]; 10];
        for (out, column) in taken.iter_mut().zip(&mut self.columns) {
            let [first, second] = column.as_chunks_mut::<LANES>().0 else { return };
            (*out, *first, *second) = (*first, *second, [0.0; LANES]);
        }
        self.len = self.len.saturating_sub(LANES);
        let [x, y, z, u, v, w, fraction, doubt, weight, fresh] = taken;
        let block = Block { at: [x, y, z], offset: [u, v, w], fraction, doubt };
        let k = Constants(simd);
        add_cells(simd, frame, &block, (k.at(&weight), k.at(&fresh)), sums);
    }
}
