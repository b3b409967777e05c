//! Sixteen lanes in plain Rust; also the definition that the others are tested against.

use super::{Kernel, LANES, Simd};

/// The token of the plain implementation: always available.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Scalar {
    type F = [f32; LANES];
    type I = [i32; LANES];

    #[inline(always)]
    fn splat(self, v: f32) -> Self::F {
        [v; LANES]
    }
    #[inline(always)]
    fn isplat(self, v: i32) -> Self::I {
        [v; LANES]
    }
    #[inline(always)]
    fn load(self, v: &[f32; LANES]) -> Self::F {
        *v
    }
    #[inline(always)]
    fn store(self, v: Self::F, out: &mut [f32; LANES]) {
        *out = v;
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn gt_bits(self, a: Self::F, b: Self::F) -> u16 {
        (0..LANES).fold(0, |m, i| m | (u16::from(a[i] > b[i]) << i))
    }
    #[inline(always)]
    fn select_le(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] <= b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    fn trunc(self, a: Self::F) -> Self::I {
        a.map(|v| v as i32)
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        a.map(|v| v as f32)
    }
    #[inline(always)]
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    fn imul(self, a: Self::I, b: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i].wrapping_mul(b[i]))
    }
    #[inline(always)]
    fn imin(self, a: Self::I, b: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i].min(b[i]))
    }
    #[inline(always)]
    fn iand(self, a: Self::I, b: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i] & b[i])
    }
    #[inline(always)]
    fn iquarter(self, a: Self::I) -> Self::I {
        a.map(|v| v >> 2)
    }
    #[inline(always)]
    fn iload(self, v: &[i32; LANES]) -> Self::I {
        *v
    }
    #[inline(always)]
    fn words(self, v: &[u16; LANES]) -> Self::F {
        let mut out = [0.0; LANES];
        for lane in 0..LANES {
            out[lane] = f32::from(v[lane]);
        }
        out
    }
    #[inline(always)]
    fn istore(self, a: Self::I, out: &mut [i32; LANES]) {
        *out = a;
    }
    // 128 loads each, lane by lane.
    #[inline(never)]
    unsafe fn gather_corners(self, data: &[i16], at: &[i32; LANES], dy: usize, dz: usize) -> [Self::F; 8] {
        let mut out = [[0.0; LANES]; 8];
        for lane in 0..LANES {
            let base = at[lane] as usize;
            debug_assert!(base + 1 + dy + dz < data.len());
            for (k, corner) in out.iter_mut().enumerate() {
                let i = base + (k & 1) + dy * (k >> 1 & 1) + dz * (k >> 2);
                // SAFETY: the caller promises 0 <= at and at + 1 + dy + dz < data.len(); i is no larger.
                corner[lane] = f32::from(unsafe { *data.get_unchecked(i) });
            }
        }
        out
    }
    // 128 loads each, lane by lane.
    #[inline(never)]
    unsafe fn gather_quads(self, quads: &[[i16; 4]], at: &[i32; LANES]) -> [Self::F; 8] {
        let mut out = [[0.0; LANES]; 8];
        for lane in 0..LANES {
            let at = at[lane] as usize;
            debug_assert!(at + 1 < quads.len());
            // SAFETY: the caller promises at >= 0 and at + 1 < quads.len().
            let (low, high) = unsafe { (*quads.get_unchecked(at), *quads.get_unchecked(at + 1)) };
            for k in 0..4 {
                out[2 * k][lane] = f32::from(low[k]);
                out[2 * k + 1][lane] = f32::from(high[k]);
            }
        }
        out
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::F) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, |m, v| if v > m { v } else { m })
    }
    #[inline(always)]
    fn accumulate(self, a: Self::F, acc: &mut [f64; LANES]) {
        for lane in 0..LANES {
            acc[lane] += f64::from(a[lane]);
        }
    }
    #[inline(never)]
    fn call<K: Kernel<Self>>(self, kernel: K) -> K::Out {
        kernel.run(self)
    }
}
