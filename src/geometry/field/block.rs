//! Sampling sixteen points of a field at once: the kernel under every fast query.
//!
//! In three steps, so that a caller can have several blocks under way and never waits for memory: [`Grid::place`] finds
//! the cells, [`Grid::find`] where they are stored (and asks the CPU for them), [`Cells::read`] reads them.

use super::bricks::{Bricks, EDGE};
use super::{Field, Storage};
use crate::geometry::simd::{LANES, Simd};

/// A field whose storage has been checked, in the form that kernels read.
#[derive(Clone, Copy)]
pub(crate) struct Grid<'a> {
    store: Store<'a>,
    /// Index of the last cell along each axis.
    last_cell: [i32; 3],
    /// Coordinate of the last node along each axis.
    last_node: [f32; 3],
    /// Metres per count.
    scale: f32,
    /// Square of the cell edge, m^2.
    cell_squared: f32,
}

#[derive(Clone, Copy)]
enum Store<'a> {
    /// Counts, nodes along x and y.
    Dense(&'a [i16], [i32; 2]),
    /// Table, bricks along x and y, quads.
    Bricks(&'a [u32], [i32; 2], &'a [[i16; 4]]),
}

impl<'a> Grid<'a> {
    /// Checks once what the kernels rely on: at least 2 nodes a side, exactly as many counts as nodes (or bricks made for
    /// just so many), and every index within i32. `None` for a field that breaks this (only possible when built by hand).
    pub(crate) fn new(field: &'a Field) -> Option<Self> {
        let nodes = field.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)))?;
        let store = match &field.storage {
            Storage::Dense(counts) => {
                let strides = [field.dims[0] as i32, field.dims[1] as i32];
                (counts.len() as u64 == nodes).then_some(Store::Dense(counts, strides))?
            }
            Storage::Bricks(bricks) => {
                let (dims, side, table, quads) = Bricks::parts(bricks);
                let sides = [side[0] as i32, side[1] as i32];
                (dims == field.dims).then_some(Store::Bricks(table, sides, quads))?
            }
        };
        let sound = field.dims.iter().all(|&d| d >= 2)
            && nodes <= i32::MAX as u64
            && (1e-9..1e9).contains(&field.cell)
            && field.scale.is_finite();
        sound.then(|| Self {
            store,
            last_cell: field.dims.map(|d| d as i32 - 2),
            last_node: field.dims.map(|d| (d - 1) as f32),
            scale: field.scale,
            cell_squared: (field.cell * field.cell) as f32,
        })
    }

    /// Finds the cells of sixteen points given in grid coordinates (node indices). Points outside the grid use the
    /// nearest point of its box.
    #[inline(always)]
    pub(crate) fn place<S: Simd>(&self, s: S, p: [S::F; 3], spot: &mut Spot) {
        let zero = s.splat(0.0);
        let mut cell = [s.isplat(0); 3];
        let mut outside = zero;
        for axis in 0..3 {
            // `max` returns its second operand for NaN: a NaN coordinate reads cell 0 and is marked by `outside`.
            let q = s.min(s.max(p[axis], zero), s.splat(self.last_node[axis]));
            cell[axis] = s.imin(s.trunc(q), s.isplat(self.last_cell[axis]));
            s.store(s.sub(q, s.to_f32(cell[axis])), &mut spot.fraction[axis]);
            let off = s.sub(p[axis], q);
            outside = s.add(outside, s.mul(off, off));
        }
        s.store(s.mul(outside, s.splat(self.cell_squared)), &mut spot.outside);
        spot.coarse = false;
        let [x, y, z] = cell;
        // 0 <= cell[a] <= dims[a] - 2 in every lane, NaN included (clamped above).
        match self.store {
            Store::Dense(_, [nx, ny]) => {
                let row = s.iadd(y, s.imul(s.isplat(ny), z));
                s.istore(s.iadd(x, s.imul(s.isplat(nx), row)), &mut spot.at);
            }
            Store::Bricks(_, sides, _) => {
                let (brick, quad) = in_bricks(s, [x, y, z], sides);
                s.istore(brick, &mut spot.brick);
                s.istore(quad, &mut spot.at);
            }
        }
    }

    /// For each of sixteen places a node of the grid that is held nearby, in grid coordinates, and its depth, m: where every node is held
    /// the nearest one, in a coarser brick one within its spacing. Places outside the grid, or that are no numbers, get nodes
    /// on its border.
    #[inline(always)]
    pub(crate) fn node_near<S: Simd>(&self, s: S, p: [S::F; 3]) -> ([S::F; 3], S::F) {
        let mut at = [[0; LANES]; 3];
        for axis in 0..3 {
            // `max` returns its second operand for NaN.
            let x = s.max(s.add(p[axis], s.splat(0.5)), s.splat(0.0));
            // The last node as well where it need not begin a cell.
            let last = match self.store {
                Store::Dense(..) => self.last_cell[axis] + 1,
                Store::Bricks(..) => self.last_cell[axis],
            };
            s.istore(s.imin(s.trunc(s.min(x, s.splat(self.last_node[axis]))), s.isplat(last)), &mut at[axis]);
        }
        let mut depth = [0.0; LANES];
        match self.store {
            Store::Dense(counts, [nx, ny]) => {
                let row = s.iadd(s.iload(&at[1]), s.imul(s.isplat(ny), s.iload(&at[2])));
                let mut index = [0; LANES];
                s.istore(s.iadd(s.iload(&at[0]), s.imul(s.isplat(nx), row)), &mut index);
                for lane in 0..LANES {
                    let count = counts.get(index[lane] as usize).copied().unwrap_or(i16::MIN);
                    index[lane] = i32::from(count);
                }
                s.store(s.to_f32(s.iload(&index)), &mut depth);
            }
            Store::Bricks(table, sides, quads) => {
                let cell = [s.iload(&at[0]), s.iload(&at[1]), s.iload(&at[2])];
                let (mut brick, mut local) = ([0; LANES], [0; LANES]);
                let (in_table, in_brick) = in_bricks(s, cell, sides);
                s.istore(in_table, &mut brick);
                s.istore(in_brick, &mut local);
                for lane in 0..LANES {
                    let entry = table.get(brick[lane] as usize).copied().unwrap_or(0);
                    let shift = entry & 3;
                    let mut quad = (entry >> 2) as i32 + local[lane];
                    if shift != 0 {
                        let [x, y, z] = [at[0][lane], at[1][lane], at[2][lane]];
                        quad = coarse_quad(entry, [x, y, z].map(|i| i % EDGE as i32));
                        let away = (1 << shift) - 1;
                        (at[0][lane], at[1][lane], at[2][lane]) = (x & !away, y & !away, z & !away);
                    }
                    depth[lane] = f32::from(quads.get(quad as usize).map_or(i16::MIN, |q| q[0]));
                }
            }
        }
        let node = [s.to_f32(s.iload(&at[0])), s.to_f32(s.iload(&at[1])), s.to_f32(s.iload(&at[2]))];
        (node, s.mul(s.load(&depth), s.splat(self.scale)))
    }

    /// Finds where the cells are stored and starts to fetch them.
    #[inline(always)]
    pub(crate) fn find(&self, spot: &mut Spot) {
        let Store::Bricks(table, _, quads) = self.store else { return };
        let mut any = 0;
        for lane in 0..LANES {
            let brick = spot.brick[lane] as usize;
            debug_assert!(brick < table.len());
            // SAFETY: `place` made the index from a cell of the grid, 0 <= cell[a] <= dims[a] - 2, and the table holds
            // ceil((dims[a] - 1) / 4) bricks along each axis (`Bricks`).
            let entry = unsafe { *table.get_unchecked(brick) };
            any |= entry;
            let at = spot.at[lane] + (entry >> 2) as i32;
            spot.at[lane] = at;
            // Also keeps the compiler from gathering the entries: loads one by one are faster, and do not wait.
            prefetch(quads, at as usize);
        }
        if any & 3 != 0 {
            self.find_coarse(table, spot);
        }
    }

    /// The lanes in bricks whose nodes lie farther apart.
    #[cold]
    #[inline(never)]
    fn find_coarse(&self, table: &[u32], spot: &mut Spot) {
        spot.coarse = true;
        for lane in 0..LANES {
            let entry = table.get(spot.brick[lane] as usize).copied().unwrap_or(0);
            let (first, shift) = ((entry >> 2) as i32, entry & 3);
            spot.per_cell[lane] = 1.0;
            if shift == 0 {
                continue;
            }
            let fine = spot.at[lane] - first;
            // As `place` counted: rows of EDGE + 1 quads, EDGE rows a layer.
            let (edge, row) = (EDGE as i32, EDGE as i32 + 1);
            let local = [fine % row, fine / row % edge, fine / (row * edge)];
            spot.at[lane] = coarse_quad(entry, local);
            let per = if shift == 1 { 0.5 } else { 0.25 };
            for axis in 0..3 {
                let before = local[axis] & ((1 << shift) - 1);
                spot.fraction[axis][lane] = (spot.fraction[axis][lane] + before as f32) * per;
            }
            spot.per_cell[lane] = per;
        }
    }
}

/// For sixteen cells, none of them negative, their bricks' places in a table of so many `sides` along x and y, and the places of their
/// quads in a brick of the finest cells.
#[inline(always)]
fn in_bricks<S: Simd>(s: S, [x, y, z]: [S::I; 3], [nx, ny]: [i32; 2]) -> (S::I, S::I) {
    let row = s.iadd(s.iquarter(y), s.imul(s.isplat(ny), s.iquarter(z)));
    let brick = s.iadd(s.iquarter(x), s.imul(s.isplat(nx), row));
    let last = s.isplat(EDGE as i32 - 1);
    let (x, y, z) = (s.iand(x, last), s.iand(y, last), s.iand(z, last));
    let row = s.iadd(y, s.imul(s.isplat(EDGE as i32), z));
    (brick, s.iadd(x, s.imul(s.isplat(EDGE as i32 + 1), row)))
}

/// The quad of the cell that holds the fine cell `local` of the brick of this entry.
fn coarse_quad(entry: u32, local: [i32; 3]) -> i32 {
    let shift = entry & 3;
    let cells = EDGE as i32 >> shift;
    let [x, y, z] = local.map(|i| i >> shift);
    (entry >> 2) as i32 + x + (cells + 1) * (y + cells * z)
}

/// Asks the CPU for the line of a quad, where it knows such a request; any index is harmless.
#[inline(always)]
fn prefetch(quads: &[[i16; 4]], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults; every x86-64 CPU has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(quads.as_ptr().wrapping_add(at).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (quads, at);
}

/// Where sixteen points lie in a field.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Spot {
    /// First corner in the storage; before `find`, in bricks, the quad within the brick.
    at: [i32; LANES],
    brick: [i32; LANES],
    /// Position within the cell, 0..=1.
    fraction: [[f32; LANES]; 3],
    /// Squared distance to the grid's box, m^2; 0 inside.
    outside: [f32; LANES],
    /// Cells of the grid per cell read, inverted; holds where `coarse`.
    per_cell: [f32; LANES],
    /// Some cell read is larger than one of the grid.
    coarse: bool,
}

impl Spot {
    pub(crate) const EMPTY: Self = Self {
        at: [0; LANES],
        brick: [0; LANES],
        fraction: [[0.0; LANES]; 3],
        outside: [0.0; LANES],
        per_cell: [0.0; LANES],
        coarse: false,
    };
}

/// The cells that hold sixteen points, interpolated as far as value and gradient share it.
pub(crate) struct Cells<S: Simd> {
    /// Differences along x of the pairs (y, z) = 00, 10, 01, 11.
    dx: [S::F; 4],
    /// Differences along y at the lower and upper z, and along z.
    dy: [S::F; 2],
    dz: S::F,
    /// Place in the cell along y and z, 0..=1.
    fraction: [S::F; 2],
    /// Value in counts.
    value: S::F,
    /// Squared distance to the grid's box, m^2; 0 inside.
    pub(crate) outside: S::F,
    scale: f32,
    /// Factor of the gradient in each lane, unless 1 everywhere.
    per_cell: Option<S::F>,
}

impl<S: Simd> Cells<S> {
    /// All three steps at once.
    #[inline(always)]
    pub(crate) fn look_up(s: S, grid: &Grid<'_>, p: [S::F; 3]) -> Self {
        let mut spot = Spot::EMPTY;
        grid.place(s, p, &mut spot);
        grid.find(&mut spot);
        Self::read(s, grid, &spot)
    }

    /// Reads the cells of a spot that went through `place` and `find` of the same grid.
    #[inline(always)]
    pub(crate) fn read(s: S, grid: &Grid<'_>, spot: &Spot) -> Self {
        let c = match grid.store {
            Store::Dense(counts, [nx, ny]) => {
                let dy = nx as usize;
                let dz = dy * ny as usize;
                // SAFETY: `place` gave 0 <= cell[a] <= dims[a] - 2, and `Grid::new` checked that there are
                // dims[0] * dims[1] * dims[2] <= i32::MAX counts, so no index overflows. The largest index read is
                // base + 1 + dy + dz <= (nx - 1) + nx (ny - 1) + nx ny (nz - 1) = len - 1.
                unsafe { s.gather_corners(counts, &spot.at, dy, dz) }
            }
            // SAFETY: `find` gave a quad of a cell of a brick, and a brick's rows end with a quad of their own, all of
            // them within the slice (`Bricks`).
            Store::Bricks(_, _, quads) => unsafe { s.gather_quads(quads, &spot.at) },
        };
        let (fx, fy, fz) = (s.load(&spot.fraction[0]), s.load(&spot.fraction[1]), s.load(&spot.fraction[2]));
        let dx = [s.sub(c[1], c[0]), s.sub(c[3], c[2]), s.sub(c[5], c[4]), s.sub(c[7], c[6])];
        let x = [
            s.add(c[0], s.mul(dx[0], fx)),
            s.add(c[2], s.mul(dx[1], fx)),
            s.add(c[4], s.mul(dx[2], fx)),
            s.add(c[6], s.mul(dx[3], fx)),
        ];
        let dy = [s.sub(x[1], x[0]), s.sub(x[3], x[2])];
        let y = [s.add(x[0], s.mul(dy[0], fy)), s.add(x[2], s.mul(dy[1], fy))];
        let dz = s.sub(y[1], y[0]);
        let value = s.add(y[0], s.mul(dz, fz));
        Self {
            dx,
            dy,
            dz,
            fraction: [fy, fz],
            value,
            outside: s.load(&spot.outside),
            scale: grid.scale,
            per_cell: if spot.coarse { Some(s.load(&spot.per_cell)) } else { None },
        }
    }

    /// Depth, m: trilinear inside the grid; outside it minus a lower bound on the distance, see
    /// [`Field::depth`](super::Field::depth). NaN for a NaN coordinate.
    #[inline(always)]
    pub(crate) fn depth(&self, s: S) -> S::F {
        let inside = s.mul(self.value, s.splat(self.scale));
        // Most blocks lie within the grid: no root for them. A lane that is no number is not less.
        if s.gt_bits(s.splat(f32::MIN_POSITIVE), self.outside) == u16::MAX {
            return inside;
        }
        let zero = s.splat(0.0);
        let border = s.min(inside, zero);
        let bound = s.sub(zero, s.sqrt(s.add(s.mul(border, border), self.outside)));
        s.select_le(self.outside, zero, inside, bound)
    }

    /// `value` in the lanes inside the grid, `other` in the rest.
    #[inline(always)]
    pub(crate) fn if_inside(&self, s: S, value: S::F, other: S::F) -> S::F {
        s.select_le(self.outside, s.splat(0.0), value, other)
    }

    /// Gradient of the trilinear value along the grid's axes, m of depth per cell. Holds inside the grid only.
    #[inline(always)]
    pub(crate) fn gradient(&self, s: S) -> [S::F; 3] {
        let [fy, fz] = self.fraction;
        let [a, b, c, d] = self.dx;
        let scale = match self.per_cell {
            None => s.splat(self.scale),
            Some(per_cell) => s.mul(per_cell, s.splat(self.scale)),
        };
        [
            s.mul(lerp(s, lerp(s, a, b, fy), lerp(s, c, d, fy), fz), scale),
            s.mul(lerp(s, self.dy[0], self.dy[1], fz), scale),
            s.mul(self.dz, scale),
        ]
    }
}

#[inline(always)]
fn lerp<S: Simd>(s: S, a: S::F, b: S::F, t: S::F) -> S::F {
    s.add(a, s.mul(s.sub(b, a), t))
}
