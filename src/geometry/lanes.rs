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

/// Defines `$name(level, args..)`, which runs the `#[inline(always)]` function `$body(args..)` compiled for `level`.
macro_rules! per_level {
    ($(#[$meta:meta])* $vis:vis fn $name:ident = $body:ident ( $($arg:ident : $ty:ty),* $(,)? ) -> $ret:ty) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name(level: $crate::geometry::lanes::Level, $($arg: $ty),*) -> $ret {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($arg: $ty),*) -> $ret {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) -> $ret {
                    $body($($arg),*)
                }
                match level {
                    // SAFETY: `Level::Avx512` is made only by `detect`, after these features were detected.
                    $crate::geometry::lanes::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: `Level::Avx2` is made only after AVX2 was detected.
                    $crate::geometry::lanes::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::geometry::lanes::Level::Baseline => {}
                }
            }
            let _ = level;
            $body($($arg),*)
        }
    };
}
pub(crate) use per_level;

/// Bit i is set where `values[i] < bound`.
#[inline(always)]
pub(crate) fn below(values: &F, bound: f32) -> u32 {
    const BIT: [u32; LANES] = {
        let mut bits = [0; LANES];
        let mut i = 0;
        while i < LANES {
            bits[i] = 1 << i;
            i += 1;
        }
        bits
    };
    // Select, then one horizontal OR: this form vectorises, shifting single comparisons does not.
    let mut picked = [0; LANES];
    for i in 0..LANES {
        picked[i] = if values[i] < bound { BIT[i] } else { 0 };
    }
    let mut mask = 0;
    for bits in picked {
        mask |= bits;
    }
    mask
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
