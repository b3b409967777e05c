//! Sixteen-lane `f32` arithmetic over plain arrays, compiled once per instruction set.
//!
//! The bodies are ordinary loops over `[f32; 16]` without fused multiply-add, which the compiler turns into AVX-512, AVX2
//! or SSE2 code. Every variant does the same IEEE operations in the same order, so the results are equal bit for bit.

// By index is what the vectoriser reads best when many arrays take part.
#![allow(clippy::needless_range_loop)]

/// Lanes of one group: the width of an AVX-512 register.
pub(crate) const LANES: usize = 16;
/// One value per lane.
pub(crate) type F = [f32; LANES];

/// The instruction set that a query runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Whatever the build target guarantees.
    Baseline,
    /// 256-bit AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit AVX-512 F/BW/DQ/VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best level of this processor. The standard library caches the detection.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl")
            {
                return Self::Avx512;
            }
            if std::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// Every level that this processor can run, for tests.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Self> {
        let mut all = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") {
                all.push(Self::Avx2);
            }
            if Self::detect() == Self::Avx512 {
                all.push(Self::Avx512);
            }
        }
        all
    }
}

/// What the compiler does not find by itself: a comparison of 16 lanes to a bit mask. A value of such a type is proof that
/// the processor has the instructions.
pub(crate) trait Lanes: Copy {
    /// Bit i is set where `values[i] < bound`.
    fn below(self, values: &F, bound: f32) -> u32;
}

/// The build target's own instructions.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

impl Lanes for Plain {
    #[inline(always)]
    fn below(self, values: &F, bound: f32) -> u32 {
        let mut mask = 0;
        for i in 0..LANES {
            mask |= u32::from(values[i] < bound) << i;
        }
        mask
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    //! Proofs of x86 extensions.

    use super::{F, Lanes};
    use std::arch::x86_64::*;

    /// AVX2 is there.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        /// # Safety
        /// The processor must have AVX2.
        #[inline(always)]
        pub(crate) unsafe fn assume() -> Self {
            Self(())
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn below(self, values: &F, bound: f32) -> u32 {
            // SAFETY: `self` is proof of AVX2; both loads lie within the 16 values.
            unsafe {
                let b = _mm256_set1_ps(bound);
                let lo = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_loadu_ps(values.as_ptr()), b);
                let hi = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_loadu_ps(values.as_ptr().add(8)), b);
                _mm256_movemask_ps(lo) as u32 | (_mm256_movemask_ps(hi) as u32) << 8
            }
        }
    }

    /// AVX-512 F, BW, DQ and VL are there.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(());

    impl Avx512 {
        /// # Safety
        /// The processor must have AVX-512 F, BW, DQ and VL.
        #[inline(always)]
        pub(crate) unsafe fn assume() -> Self {
            Self(())
        }
    }

    impl Lanes for Avx512 {
        #[inline(always)]
        fn below(self, values: &F, bound: f32) -> u32 {
            // SAFETY: `self` is proof of AVX-512 F; the load takes the 16 values.
            unsafe {
                let v = _mm512_loadu_ps(values.as_ptr());
                u32::from(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(v, _mm512_set1_ps(bound)))
            }
        }
    }
}

/// Defines `$name(level, args..)`, which runs the `#[inline(always)]` function `$body(lanes, args..)` compiled for `level`.
/// Whatever the body calls must be `#[inline(always)]` too, closures included, or it is compiled for the build target.
macro_rules! per_level {
    ($(#[$meta:meta])* $vis:vis fn $name:ident = $body:ident ( $($arg:ident : $ty:ty),* $(,)? ) -> $ret:ty) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name(level: $crate::geometry::lanes::Level, $($arg: $ty),*) -> $ret {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::geometry::lanes::{Level, x86};
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($arg: $ty),*) -> $ret {
                    // SAFETY: this function is only entered where these features are.
                    $body(unsafe { x86::Avx512::assume() }, $($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) -> $ret {
                    // SAFETY: this function is only entered where AVX2 is.
                    $body(unsafe { x86::Avx2::assume() }, $($arg),*)
                }
                match level {
                    // SAFETY: `Level::Avx512` is made only by `detect`, after these features were detected.
                    Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: `Level::Avx2` is made only after AVX2 was detected.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Baseline => {}
                }
            }
            let _ = level;
            $body($crate::geometry::lanes::Plain, $($arg),*)
        }
    };
}
pub(crate) use per_level;

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
