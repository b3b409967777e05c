//! From blocks of floats to the finished field.

use super::grid::{BLOCK, Blocks, Grid};
use super::{Field, FieldError, Meter};
use rayon::prelude::*;

/// Rounds the depths (in cells) to counts of max|d| / 32767. Returns the field and the bound on its error at a node, m.
pub(super) fn quantise(grid: &Grid, depth: Blocks, meter: &Meter) -> Result<(Field, f64), FieldError> {
    // Unused places of border blocks hold zeros.
    let largest = depth
        .data
        .par_chunks(BLOCK)
        .map(|b| b.iter().fold(0.0f32, |m, d| m.max(d.abs())))
        .reduce(|| 0.0, f32::max);
    let scale = ((f64::from(largest) * grid.cell / 32767.0) as f32).max(f32::MIN_POSITIVE);
    let per_cell = grid.cell / f64::from(scale);
    let [nx, ny, nz] = grid.dims;
    let mut data = vec![0i16; nx * ny * nz].into_boxed_slice();
    let share = (grid.blocks() as u64).div_ceil(nz as u64);
    data.par_chunks_mut(nx * ny).enumerate().try_for_each(|(k, layer)| {
        for (j, row) in layer.chunks_mut(nx).enumerate() {
            for (i, count) in row.iter_mut().enumerate() {
                let d = (f64::from(depth.at([i, j, k])) * per_cell).round();
                *count = d.clamp(-32767.0, 32767.0) as i16;
            }
        }
        meter.step(share)
    })?;
    drop(depth);
    // Half a count, and the single-precision arithmetic of the distances: some 16 roundings of 2^-24 of coordinates that
    // reach from the centre to the corner of the grid.
    let corner = grid.dims.iter().map(|&n| (n * n) as f64).sum::<f64>().sqrt() * 0.5 * grid.cell;
    let error = 0.5 * f64::from(scale) + 1e-6 * corner;
    let field = Field::of_counts(grid.origin, grid.cell, grid.dims.map(|n| n as u32), scale, data);
    let error = error + field.coarse_error();
    Ok((field, error))
}
