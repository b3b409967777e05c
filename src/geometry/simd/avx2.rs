//! Sixteen lanes in two AVX2 registers.

use super::{Kernel, LANES, Simd, call_with};
use std::arch::x86_64::*;

/// Proof that the CPU has AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, where the CPU and the operating system support AVX2.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

/// Wraps intrinsics: holding the token proves the CPU feature.
macro_rules! op {
    ($e:expr) => {{
        // SAFETY: `self` exists only where `detect` found AVX2; memory operands are references to 16 values.
        #[allow(unused_unsafe)]
        unsafe {
            $e
        }
    }};
}

/// The same intrinsic on both halves.
macro_rules! both {
    ($f:ident($($a:ident),*)) => { op!([$f($($a[0]),*), $f($($a[1]),*)]) };
}

impl Simd for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];

    #[inline(always)]
    fn splat(self, v: f32) -> Self::F {
        op!([_mm256_set1_ps(v); 2])
    }
    #[inline(always)]
    fn isplat(self, v: i32) -> Self::I {
        op!([_mm256_set1_epi32(v); 2])
    }
    #[inline(always)]
    fn load(self, v: &[f32; LANES]) -> Self::F {
        op!([_mm256_loadu_ps(v.as_ptr()), _mm256_loadu_ps(v.as_ptr().add(8))])
    }
    #[inline(always)]
    fn store(self, v: Self::F, out: &mut [f32; LANES]) {
        op!({
            _mm256_storeu_ps(out.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), v[1]);
        })
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        both!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    fn gt_bits(self, a: Self::F, b: Self::F) -> u16 {
        op!({
            let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a[0], b[0]));
            let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a[1], b[1]));
            (low | (high << 8)) as u16
        })
    }
    #[inline(always)]
    fn select_le(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F {
        op!([
            _mm256_blendv_ps(y[0], x[0], _mm256_cmp_ps::<_CMP_LE_OQ>(a[0], b[0])),
            _mm256_blendv_ps(y[1], x[1], _mm256_cmp_ps::<_CMP_LE_OQ>(a[1], b[1])),
        ])
    }
    #[inline(always)]
    fn trunc(self, a: Self::F) -> Self::I {
        both!(_mm256_cvttps_epi32(a))
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        both!(_mm256_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn imul(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn imin(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_min_epi32(a, b))
    }
    #[inline(always)]
    fn iand(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn iquarter(self, a: Self::I) -> Self::I {
        op!([_mm256_srli_epi32::<2>(a[0]), _mm256_srli_epi32::<2>(a[1])])
    }
    #[inline(always)]
    fn iload(self, v: &[i32; LANES]) -> Self::I {
        op!([_mm256_loadu_si256(v.as_ptr().cast()), _mm256_loadu_si256(v.as_ptr().add(8).cast())])
    }
    #[inline(always)]
    fn istore(self, a: Self::I, out: &mut [i32; LANES]) {
        op!({
            _mm256_storeu_si256(out.as_mut_ptr().cast(), a[0]);
            _mm256_storeu_si256(out.as_mut_ptr().add(8).cast(), a[1]);
        })
    }
    #[inline(always)]
    fn words(self, v: &[u16; LANES]) -> Self::F {
        op!({
            let (low, high) = (_mm_loadu_si128(v.as_ptr().cast()), _mm_loadu_si128(v.as_ptr().add(8).cast()));
            [_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(low)), _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(high))]
        })
    }
    #[inline(always)]
    unsafe fn gather_corners(self, data: &[i16], at: &[i32; LANES], dy: usize, dz: usize) -> [Self::F; 8] {
        // SAFETY: four pairs of each lane are read at `at`, + dy, + dz, + dy + dz, each two counts long; the caller
        // promises that the last one ends within the slice and that none of them is negative. The token proves AVX2.
        unsafe {
            let p = data.as_ptr();
            let (a, b) = split(row(p, at));
            let (c, d) = split(row(p.add(dy), at));
            let (e, f) = split(row(p.add(dz), at));
            let (g, h) = split(row(p.add(dz).add(dy), at));
            [a, b, c, d, e, f, g, h]
        }
    }
    #[inline(always)]
    unsafe fn gather_quads(self, quads: &[[i16; 4]], at: &[i32; LANES]) -> [Self::F; 8] {
        // SAFETY: sixteen bytes are read at each lane's quad, which is two quads; the caller promises that both lie
        // within the slice. The token proves AVX2.
        unsafe {
            let low = words(quads, [at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]]);
            let high = words(quads, [at[8], at[9], at[10], at[11], at[12], at[13], at[14], at[15]]);
            let (c0, c2) = split([low[0], high[0]]);
            let (c4, c6) = split([low[1], high[1]]);
            let (c1, c3) = split([low[2], high[2]]);
            let (c5, c7) = split([low[3], high[3]]);
            [c0, c1, c2, c3, c4, c5, c6, c7]
        }
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::F) -> f32 {
        op!({
            let x = _mm256_max_ps(a[0], a[1]);
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps::<1>(x, x)))
        })
    }
    #[inline(always)]
    fn compress(self, a: Self::F, bits: u16, out: &mut [f32; LANES]) {
        let [low, high] = bits.to_le_bytes();
        let next = low.count_ones() as usize;
        op!({
            _mm256_storeu_ps(out.as_mut_ptr().add(8), _mm256_setzero_ps());
            _mm256_storeu_ps(out.as_mut_ptr(), front(a[0], low));
            // next <= 8, so the last place is 15.
            _mm256_storeu_ps(out.as_mut_ptr().add(next), front(a[1], high));
        })
    }
    #[inline(always)]
    fn accumulate(self, a: Self::F, acc: &mut [f64; LANES]) {
        let (chunks, _) = acc.as_chunks_mut::<4>();
        op!({
            let quarters = [
                _mm256_castps256_ps128(a[0]),
                _mm256_extractf128_ps::<1>(a[0]),
                _mm256_castps256_ps128(a[1]),
                _mm256_extractf128_ps::<1>(a[1]),
            ];
            for (out, quarter) in chunks.iter_mut().zip(quarters) {
                let sum = _mm256_add_pd(_mm256_loadu_pd(out.as_ptr()), _mm256_cvtps_pd(quarter));
                _mm256_storeu_pd(out.as_mut_ptr(), sum);
            }
        })
    }
    call_with!("avx2", Avx2);
}

/// For each byte the numbers of its set bits, from the lowest on, one in a byte.
static SET: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut n, mut i) = (0, 0);
        while i < 8 {
            if bits >> i & 1 != 0 {
                table[bits][n] = i as u8;
                n += 1;
            }
            i += 1;
        }
        bits += 1;
    }
    table
};

/// The lanes whose bit is set, in order from the first place on; 0 in the places after them.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn front(a: __m256, bits: u8) -> __m256 {
    // SAFETY: passed on to the caller; eight bytes of the table are read.
    unsafe {
        let from = _mm256_cvtepu8_epi32(_mm_loadl_epi64(SET[usize::from(bits)].as_ptr().cast()));
        let place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let used = _mm256_cmpgt_epi32(_mm256_set1_epi32(bits.count_ones() as i32), place);
        _mm256_and_ps(_mm256_permutevar8x32_ps(a, from), _mm256_castsi256_ps(used))
    }
}

/// Words 0 to 3 of two quads each at eight places.
///
/// # Safety
/// `at >= 0` and `at + 1 < quads.len()` for each; the CPU must have AVX2.
#[inline(always)]
unsafe fn words(quads: &[[i16; 4]], at: [i32; 8]) -> [__m256i; 4] {
    // SAFETY: passed on to the caller.
    unsafe {
        let (a, b) = (two(quads, at[0], at[4]), two(quads, at[1], at[5]));
        let (c, d) = (two(quads, at[2], at[6]), two(quads, at[3], at[7]));
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (ab1, cd1) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab, cd),
            _mm256_unpackhi_epi64(ab, cd),
            _mm256_unpacklo_epi64(ab1, cd1),
            _mm256_unpackhi_epi64(ab1, cd1),
        ]
    }
}

/// Two quads each at two places.
///
/// # Safety
/// `at >= 0` and `at + 1 < quads.len()` for both; the CPU must have AVX2.
#[inline(always)]
unsafe fn two(quads: &[[i16; 4]], low: i32, high: i32) -> __m256i {
    // SAFETY: passed on to the caller.
    unsafe {
        let low = _mm_loadu_si128(quads.as_ptr().add(low as usize).cast());
        let high = _mm_loadu_si128(quads.as_ptr().add(high as usize).cast());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// The pairs (p[i], p[i + 1]) of sixteen indices, loaded one by one: quicker than the instruction that gathers (Zen 3).
///
/// # Safety
/// `i >= 0`, and `p[i]` and `p[i + 1]` must be readable, for each index; the CPU must have AVX2.
#[inline(always)]
unsafe fn row(p: *const i16, at: &[i32; LANES]) -> [__m256i; 2] {
    // SAFETY: passed on to the caller.
    unsafe {
        [
            eight(p, [at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]]),
            eight(p, [at[8], at[9], at[10], at[11], at[12], at[13], at[14], at[15]]),
        ]
    }
}

/// The pairs of eight indices.
///
/// # Safety
/// As [`row`].
#[inline(always)]
unsafe fn eight(p: *const i16, at: [i32; 8]) -> __m256i {
    let mut pairs = [0; 8];
    for (pair, at) in pairs.iter_mut().zip(at) {
        // SAFETY: passed on to the caller: one 32-bit load covers the two counts.
        *pair = unsafe { p.add(at as usize).cast::<i32>().read_unaligned() };
    }
    let [a, b, c, d, e, f, g, h] = pairs;
    // SAFETY: the CPU has AVX2.
    unsafe { _mm256_setr_epi32(a, b, c, d, e, f, g, h) }
}

/// First and second count of each pair, as f32.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn split(pair: [__m256i; 2]) -> ([__m256; 2], [__m256; 2]) {
    // SAFETY: passed on to the caller.
    unsafe {
        let low = [
            _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(pair[0])),
            _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(pair[1])),
        ];
        let high = [_mm256_srai_epi32::<16>(pair[0]), _mm256_srai_epi32::<16>(pair[1])];
        (
            [_mm256_cvtepi32_ps(low[0]), _mm256_cvtepi32_ps(low[1])],
            [_mm256_cvtepi32_ps(high[0]), _mm256_cvtepi32_ps(high[1])],
        )
    }
}
