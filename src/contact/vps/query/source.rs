//! Where the kernel's blocks of sixteen points come from: the levels of a shell, or its points sorted by place.

use super::kernel::Deep;
use crate::contact::vps::sorted::Sorted;
use crate::contact::vps::{PointShell, UNSORTED};
use crate::geometry::simd::{LANES, Simd};

/// Where blocks of sixteen points come from.
pub(super) trait Source {
    /// Positions, m.
    fn at(&self, block: usize) -> Option<[&[f32; LANES]; 3]>;
    /// Inward unit normals.
    fn normal(&self, block: usize) -> Option<[&[f32; LANES]; 3]>;
    /// Areas, m^2.
    fn area<S: Simd>(&self, s: S, block: usize) -> Option<S::F>;
    /// Keeps the deepest point of each patch of a block of which `bits` touch.
    fn note<S: Simd>(&self, s: S, block: usize, depth: S::F, bits: u16, deep: &mut Deep);
}

/// The levels of a shell, in part.
#[derive(Clone, Copy)]
pub(super) struct Graded<'a> {
    pub(super) shell: &'a PointShell,
    /// Weights of the blocks before `blend_until`: `(1 - t) coarse + t fine`; of the others: `fine`.
    pub(super) coarse: &'a [[f32; LANES]],
    pub(super) fine: &'a [[f32; LANES]],
    pub(super) blend_until: usize,
    pub(super) t: f32,
    /// The level granted in part, if any.
    pub(super) partial: Partial,
}

#[inline(always)]
fn sixteen(column: &[f32], block: usize) -> Option<&[f32; LANES]> {
    column.as_chunks::<LANES>().0.get(block)
}

impl Source for Graded<'_> {
    #[inline(always)]
    fn at(&self, block: usize) -> Option<[&[f32; LANES]; 3]> {
        let shell = self.shell;
        Some([sixteen(&shell.x, block)?, sixteen(&shell.y, block)?, sixteen(&shell.z, block)?])
    }

    #[inline(always)]
    fn normal(&self, block: usize) -> Option<[&[f32; LANES]; 3]> {
        let shell = self.shell;
        Some([sixteen(&shell.nx, block)?, sixteen(&shell.ny, block)?, sixteen(&shell.nz, block)?])
    }

    #[inline(always)]
    fn area<S: Simd>(&self, s: S, block: usize) -> Option<S::F> {
        let mut area = s.load(self.fine.get(block)?);
        if block < self.blend_until
            && let Some(coarse) = self.coarse.get(block)
        {
            let c = s.load(coarse);
            area = s.add(c, s.mul(s.sub(area, c), s.splat(self.t)));
        }
        Some(s.mul(area, s.splat(self.partial.weight(self.shell, block))))
    }

    #[inline(always)]
    fn note<S: Simd>(&self, s: S, block: usize, depth: S::F, bits: u16, deep: &mut Deep) {
        let first = block * LANES;
        let patch = |i: usize| usize::from(self.shell.patch.get(i).copied().unwrap_or(0));
        if first < UNSORTED {
            let mut each = [0.0; LANES];
            s.store(depth, &mut each);
            let mut rest = bits;
            while rest != 0 {
                let lane = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                deep.offer(patch(first + lane), each[lane], (first + lane) as u32);
            }
        } else {
            // Behind the unsorted start a block lies together, in one patch.
            let (most, lane) = deepest_lane(s, depth);
            deep.offer(patch(first + lane), most, (first + lane) as u32);
        }
    }
}

impl Source for Sorted {
    #[inline(always)]
    fn at(&self, block: usize) -> Option<[&[f32; LANES]; 3]> {
        self.blocks.get(block).map(|b| b.at.each_ref())
    }

    #[inline(always)]
    fn normal(&self, block: usize) -> Option<[&[f32; LANES]; 3]> {
        self.blocks.get(block).map(|b| b.normal.each_ref())
    }

    #[inline(always)]
    fn area<S: Simd>(&self, s: S, block: usize) -> Option<S::F> {
        let block = self.blocks.get(block)?;
        Some(s.load(&block.area))
    }

    #[inline(always)]
    fn note<S: Simd>(&self, s: S, block: usize, depth: S::F, _: u16, deep: &mut Deep) {
        let (most, lane) = deepest_lane(s, depth);
        let id = self.blocks.get(block).and_then(|b| b.id.get(lane)).copied().unwrap_or(0);
        deep.offer(self.patch(block), most, id);
    }
}

/// The largest depth, if positive, and the first lane that has it.
#[inline(always)]
fn deepest_lane<S: Simd>(s: S, depth: S::F) -> (f32, usize) {
    let d = s.max(depth, s.splat(0.0));
    let most = s.reduce_max(d);
    let less = s.gt_bits(s.splat(most), d);
    (most, (!less).trailing_zeros() as usize % LANES)
}

/// A level of which only some blocks are granted: those of the lowest ranks, the last of them with fading weight, so
/// that a budget that grows little changes little.
#[derive(Clone, Copy)]
pub(super) struct Partial {
    /// First block of the level.
    pub(super) first: usize,
    /// Blocks granted.
    pub(super) granted: f32,
    /// Blocks over which the weight fades, plus one.
    fade: f32,
}

impl Partial {
    pub(super) const NONE: Self = Self { first: usize::MAX, granted: 0.0, fade: 1.0 };

    /// Fades over at most this many blocks.
    const FADE: f32 = 12.0;

    pub(super) fn new(first: usize, granted: f32, blocks: usize) -> Self {
        let fade = Self::FADE.min(0.5 * granted).min((blocks as f32 - granted).max(0.0));
        Self { first, granted, fade: fade + 1.0 }
    }

    /// Weight of a block, 0 = not visited.
    #[inline(always)]
    pub(super) fn weight(&self, shell: &PointShell, block: usize) -> f32 {
        if block < self.first {
            return 1.0;
        }
        let left = self.granted - shell.rank.get(block).map_or(f32::INFINITY, |&rank| rank as f32);
        if left <= 0.0 { 0.0 } else { (left / self.fade).min(1.0) }
    }
}
