//! Sixteen-lane `f32` arithmetic over plain arrays.
//!
//! The bodies are ordinary loops over `[f32; 16]`, which the compiler vectorises inside a function that
//! [`dispatch`](super::simd::dispatch) compiled for an instruction set; whatever such a body calls must be
//! `#[inline(always)]`, closures included. There is no fused multiply-add, so all sets give the same bits. Only what the compiler
//! does not find by itself, the mask of a comparison, is taken from [`Simd`].

pub(crate) use super::simd::LANES;
use super::simd::Simd;

/// One value per lane.
pub(crate) type F = [f32; LANES];

/// Bit i is set where `values[i] < bound`.
#[inline(always)]
pub(crate) fn below<S: Simd>(simd: S, values: &F, bound: f32) -> u32 {
    u32::from(simd.gt_bits(simd.splat(bound), simd.load(values)))
}

/// The dot product of `p` with lane `i` of a vector.
#[inline(always)]
pub(crate) fn dot(p: [f32; 3], v: &[F; 3], i: usize) -> f32 {
    p[0] * v[0][i] + p[1] * v[1][i] + p[2] * v[2][i]
}

/// `p` minus lane `i` of a vector.
#[inline(always)]
pub(crate) fn minus(p: [f32; 3], v: &[F; 3], i: usize) -> [f32; 3] {
    [p[0] - v[0][i], p[1] - v[1][i], p[2] - v[2][i]]
}

/// The smaller one; a plain compare and select (one instruction), unlike `f32::min`.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// The larger one; a plain compare and select.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}
