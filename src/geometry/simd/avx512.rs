//! Sixteen lanes in one AVX-512 register.

use super::{Kernel, LANES, Simd, call_with};
use std::arch::x86_64::*;

/// Proof that the CPU has AVX-512F.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The token, where the CPU and the operating system support AVX-512F.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }
}

/// Wraps an intrinsic: holding the token proves the CPU feature.
macro_rules! op {
    ($e:expr) => {{
        // SAFETY: `self` exists only where `detect` found AVX-512F; memory operands are references to 16 values.
        #[allow(unused_unsafe)]
        unsafe {
            $e
        }
    }};
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;

    #[inline(always)]
    fn splat(self, v: f32) -> Self::F {
        op!(_mm512_set1_ps(v))
    }
    #[inline(always)]
    fn isplat(self, v: i32) -> Self::I {
        op!(_mm512_set1_epi32(v))
    }
    #[inline(always)]
    fn load(self, v: &[f32; LANES]) -> Self::F {
        op!(_mm512_loadu_ps(v.as_ptr()))
    }
    #[inline(always)]
    fn store(self, v: Self::F, out: &mut [f32; LANES]) {
        op!(_mm512_storeu_ps(out.as_mut_ptr(), v))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        op!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn gt_bits(self, a: Self::F, b: Self::F) -> u16 {
        op!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b))
    }
    #[inline(always)]
    fn select_le(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F {
        op!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b), y, x))
    }
    #[inline(always)]
    fn trunc(self, a: Self::F) -> Self::I {
        op!(_mm512_cvttps_epi32(a))
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        op!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn imul(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn imin(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_min_epi32(a, b))
    }
    #[inline(always)]
    fn iand(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn iquarter(self, a: Self::I) -> Self::I {
        op!(_mm512_srli_epi32::<2>(a))
    }
    #[inline(always)]
    fn iload(self, v: &[i32; LANES]) -> Self::I {
        op!(_mm512_loadu_si512(v.as_ptr().cast()))
    }
    #[inline(always)]
    fn istore(self, a: Self::I, out: &mut [i32; LANES]) {
        op!(_mm512_storeu_si512(out.as_mut_ptr().cast(), a))
    }
    #[inline(always)]
    fn words(self, v: &[u16; LANES]) -> Self::F {
        op!(_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(v.as_ptr().cast()))))
    }
    #[inline(always)]
    unsafe fn gather_corners(self, data: &[i16], at: &[i32; LANES], dy: usize, dz: usize) -> [Self::F; 8] {
        // SAFETY: four pairs of each lane are read at `at`, + dy, + dz, + dy + dz, each two counts long; the caller
        // promises that the last one ends within the slice and that none of them is negative. The token proves AVX-512F.
        unsafe {
            let (p, base) = (data.as_ptr(), self.iload(at));
            let (a, b) = split(_mm512_i32gather_epi32::<2>(base, p.cast()));
            let (c, d) = split(_mm512_i32gather_epi32::<2>(base, p.add(dy).cast()));
            let (e, f) = split(_mm512_i32gather_epi32::<2>(base, p.add(dz).cast()));
            let (g, h) = split(_mm512_i32gather_epi32::<2>(base, p.add(dz).add(dy).cast()));
            [a, b, c, d, e, f, g, h]
        }
    }
    #[inline(always)]
    unsafe fn gather_quads(self, quads: &[[i16; 4]], at: &[i32; LANES]) -> [Self::F; 8] {
        // SAFETY: sixteen bytes are read at each lane's quad, which is two quads; the caller promises that both lie
        // within the slice. The token proves AVX-512F.
        unsafe {
            // Register k holds lanes k, k + 4, k + 8, k + 12; transposing 4 x 4 words then puts the lanes in order.
            let a = four(quads, [at[0], at[4], at[8], at[12]]);
            let b = four(quads, [at[1], at[5], at[9], at[13]]);
            let c = four(quads, [at[2], at[6], at[10], at[14]]);
            let d = four(quads, [at[3], at[7], at[11], at[15]]);
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (c0, c2) = split(_mm512_unpacklo_epi64(ab, cd));
            let (c4, c6) = split(_mm512_unpackhi_epi64(ab, cd));
            let (ab, cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            let (c1, c3) = split(_mm512_unpacklo_epi64(ab, cd));
            let (c5, c7) = split(_mm512_unpackhi_epi64(ab, cd));
            [c0, c1, c2, c3, c4, c5, c6, c7]
        }
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::F) -> f32 {
        op!(_mm512_reduce_max_ps(a))
    }
    #[inline(always)]
    fn compress(self, a: Self::F, bits: u16, out: &mut [f32; LANES]) {
        op!(_mm512_storeu_ps(out.as_mut_ptr(), _mm512_maskz_compress_ps(bits, a)))
    }
    #[inline(always)]
    fn accumulate(self, a: Self::F, acc: &mut [f64; LANES]) {
        let (low, high) = acc.split_at_mut(LANES / 2);
        op!({
            let high_half = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
            let l = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
            let h = _mm512_cvtps_pd(high_half);
            _mm512_storeu_pd(low.as_mut_ptr(), _mm512_add_pd(_mm512_loadu_pd(low.as_ptr()), l));
            _mm512_storeu_pd(high.as_mut_ptr(), _mm512_add_pd(_mm512_loadu_pd(high.as_ptr()), h));
        })
    }
    call_with!("avx512f", Avx512);
}

/// Two quads each at four places.
///
/// # Safety
/// `at >= 0` and `at + 1 < quads.len()` for each; the CPU must have AVX-512F.
#[inline(always)]
unsafe fn four(quads: &[[i16; 4]], at: [i32; 4]) -> __m512i {
    // SAFETY: passed on to the caller.
    unsafe {
        let p = quads.as_ptr();
        let v = _mm512_castsi128_si512(_mm_loadu_si128(p.add(at[0] as usize).cast()));
        let v = _mm512_inserti32x4::<1>(v, _mm_loadu_si128(p.add(at[1] as usize).cast()));
        let v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(p.add(at[2] as usize).cast()));
        _mm512_inserti32x4::<3>(v, _mm_loadu_si128(p.add(at[3] as usize).cast()))
    }
}

/// First and second count of each pair, as f32.
///
/// # Safety
/// The CPU must have AVX-512F.
#[inline(always)]
unsafe fn split(pair: __m512i) -> (__m512, __m512) {
    // SAFETY: passed on to the caller.
    unsafe {
        let low = _mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(pair));
        (_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(_mm512_srai_epi32::<16>(pair)))
    }
}
