//! Sixteen `f32` lanes, three implementations, one answer.
//!
//! A kernel is written once over `Simd` and compiled three times (plain Rust, AVX2, AVX-512F). Every operation
//! is an IEEE-exact one (add, subtract, multiply, divide, square root, compare, exact integer work): no fused
//! multiply-add, no approximate reciprocal. The order of operations is that of the source, so all three give the
//! same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use scalar::Scalar;

use std::sync::atomic::{AtomicU8, Ordering};

/// Number of lanes of every implementation; arrays that kernels read are padded to a multiple of it.
pub const LANES: usize = 16;

/// Which implementation answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SimdLevel {
    /// Plain Rust: every CPU.
    Scalar = 1,
    /// AVX2: two registers of eight lanes.
    Avx2 = 2,
    /// AVX-512F: one register of sixteen lanes.
    Avx512 = 3,
}

impl std::fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

impl SimdLevel {
    /// All levels, slowest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// True when this CPU (and its operating system) can run the level. Real-time safe.
    pub fn available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }
}

/// 0 = not chosen yet.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The level that kernels use: the best one this CPU has, chosen once, or what [`force`] said. Real-time safe.
#[inline]
pub fn level() -> SimdLevel {
    match CHOSEN.load(Ordering::Relaxed) {
        1 => SimdLevel::Scalar,
        2 => SimdLevel::Avx2,
        3 => SimdLevel::Avx512,
        _ => choose(),
    }
}

#[cold]
fn choose() -> SimdLevel {
    let best = SimdLevel::ALL.into_iter().rev().find(|l| l.available()).unwrap_or(SimdLevel::Scalar);
    CHOSEN.store(best as u8, Ordering::Relaxed);
    best
}

/// Makes every kernel use `level` from now on; `None` returns to the best one. Results are the same bits either
/// way, only the speed changes. Returns false, and changes nothing, where the CPU lacks the level.
pub fn force(level: Option<SimdLevel>) -> bool {
    match level {
        None => {
            choose();
            true
        }
        Some(l) if l.available() => {
            CHOSEN.store(l as u8, Ordering::Relaxed);
            true
        }
        Some(_) => false,
    }
}

/// Sixteen-lane arithmetic. The value that implements it is a token: holding one proves that the CPU has the
/// instructions, which is what makes the methods safe to call.
///
/// Kernels call these from `#[inline(always)]` functions only, never from a closure handed to library code: an
/// intrinsic can be inlined only where the enclosing function has the CPU feature, and a closure that stays a
/// function of its own has not.
///
/// `min` and `max` follow the x86 rule: the second operand is returned when either is NaN.
pub(crate) trait Simd: Copy {
    /// 16 x f32.
    type F: Copy;
    /// 16 x i32.
    type I: Copy;

    fn splat(self, v: f32) -> Self::F;
    fn isplat(self, v: i32) -> Self::I;
    fn load(self, v: &[f32; LANES]) -> Self::F;
    fn store(self, v: Self::F, out: &mut [f32; LANES]);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// a < b ? a : b
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// a > b ? a : b
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn sqrt(self, a: Self::F) -> Self::F;
    /// Lane-wise `a > b`, bit i for lane i; false for NaN.
    fn gt_bits(self, a: Self::F, b: Self::F) -> u16;
    /// Lane-wise `a <= b ? x : y`; `y` for NaN.
    fn select_le(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F;
    /// Towards zero; the lanes must lie in the range of i32.
    fn trunc(self, a: Self::F) -> Self::I;
    fn to_f32(self, a: Self::I) -> Self::F;
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I;
    fn imul(self, a: Self::I, b: Self::I) -> Self::I;
    fn imin(self, a: Self::I, b: Self::I) -> Self::I;
    fn iand(self, a: Self::I, b: Self::I) -> Self::I;
    /// A quarter, rounded down; the lanes must not be negative.
    fn iquarter(self, a: Self::I) -> Self::I;
    fn iload(self, v: &[i32; LANES]) -> Self::I;
    fn istore(self, a: Self::I, out: &mut [i32; LANES]);
    /// Unsigned words as f32.
    fn words(self, v: &[u16; LANES]) -> Self::F;
    /// The eight corners of each lane's cell as f32, first corner at `at`: corner k lies at
    /// `at + (k & 1) + dy (k >> 1 & 1) + dz (k >> 2)`.
    ///
    /// # Safety
    /// For each lane, `at >= 0` and `at + 1 + dy + dz < data.len()`.
    unsafe fn gather_corners(self, data: &[i16], at: &[i32; LANES], dy: usize, dz: usize) -> [Self::F; 8];
    /// The eight corners of each lane's cell as f32 from two neighbouring quads, at `at` and `at + 1`: the first holds the
    /// corners of lower x in the order (y, z) = 00, 10, 01, 11, the second those of higher x.
    ///
    /// # Safety
    /// For each lane, `at >= 0` and `at + 1 < quads.len()`.
    unsafe fn gather_quads(self, quads: &[[i16; 4]], at: &[i32; LANES]) -> [Self::F; 8];
    /// Largest lane; the lanes must not be NaN.
    fn reduce_max(self, a: Self::F) -> f32;
    /// The lanes whose bit is set, in order from the first place on; 0 in the places after them.
    #[inline(always)]
    fn compress(self, a: Self::F, bits: u16, out: &mut [f32; LANES]) {
        let mut lanes = [0.0; LANES];
        self.store(a, &mut lanes);
        *out = [0.0; LANES];
        let mut n = 0;
        for (i, lane) in lanes.into_iter().enumerate() {
            if bits >> i & 1 != 0 {
                out[n & (LANES - 1)] = lane;
                n += 1;
            }
        }
    }
    /// Adds lane i to `acc[i]` in f64.
    fn accumulate(self, a: Self::F, acc: &mut [f64; LANES]);
    /// Runs a kernel as a function of its own, compiled for the token's instructions.
    fn call<K: Kernel<Self>>(self, kernel: K) -> K::Out;
}

/// What [`Simd::call`] runs; [`apart`] makes them. `run` is `#[inline(always)]`.
pub(crate) trait Kernel<S: Simd> {
    type Out;
    fn run(self, simd: S) -> Self::Out;
}

/// `fn name['a](arg: &'a T) -> R = body` is `body(simd, arg)` as a function of its own, once for each instruction set. All else of
/// a kernel is inlined into every place that uses it: code that is large and used in many places would fill the
/// instruction cache, and the compiler's hours.
macro_rules! apart {
    ($(#[$meta:meta])* $vis:vis fn $name:ident[$($life:lifetime),* $(; $other:ident: $bound:path)?]($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = $f:path) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name<$($life,)* S: Simd $(, $other: $bound)?>(simd: S, $($arg: $ty),*) -> $ret {
            struct Call<$($life,)* S: Simd $(, $other: $bound)?> {
                $($arg: $ty,)*
                simd: std::marker::PhantomData<S>,
            }
            impl<$($life,)* S: Simd $(, $other: $bound)?> $crate::geometry::simd::Kernel<S> for Call<$($life,)* S $(, $other)?> {
                type Out = $ret;
                #[inline(always)]
                fn run(self, simd: S) -> Self::Out {
                    $f(simd, $(self.$arg),*)
                }
            }
            simd.call(Call { $($arg,)* simd: std::marker::PhantomData })
        }
    };
}
pub(crate) use apart;

/// Asks the CPU for the cache lines of a value that will be read soon, where it knows such a request. Real-time safe.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults; every x86-64 CPU has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().wrapping_add(line)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// [`Simd::call`] of a token that stands for a CPU feature.
#[cfg(target_arch = "x86_64")]
macro_rules! call_with {
    ($feature:literal, $token:ty) => {
        #[inline(always)]
        fn call<K: Kernel<Self>>(self, kernel: K) -> K::Out {
            #[target_feature(enable = $feature)]
            #[inline(never)]
            fn apart<K: Kernel<$token>>(token: $token, kernel: K) -> K::Out {
                kernel.run(token)
            }
            // SAFETY: the token exists, so the CPU has the feature.
            unsafe { apart(self, kernel) }
        }
    };
}
#[cfg(target_arch = "x86_64")]
use call_with;

/// Calls the generic function `$f(token, args...)` compiled for `$level`; falls back to plain Rust where the CPU
/// lacks the level.
macro_rules! dispatch {
    ($level:expr, $f:ident ( $($arg:ident : $ty:ty),* ) $(-> $ret:ty)?) => {{
        use $crate::geometry::simd::Scalar;
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = $level;
            $f(Scalar, $($arg),*)
        }
        #[cfg(target_arch = "x86_64")]
        {
            use $crate::geometry::simd::{Avx2, Avx512, SimdLevel};
            #[target_feature(enable = "avx512f")]
            fn with_avx512(token: Avx512, $($arg: $ty),*) $(-> $ret)? { $f(token, $($arg),*) }
            #[target_feature(enable = "avx2")]
            fn with_avx2(token: Avx2, $($arg: $ty),*) $(-> $ret)? { $f(token, $($arg),*) }
            match $level {
                SimdLevel::Avx512 => match Avx512::detect() {
                    // SAFETY: the token exists, so the CPU has AVX-512F.
                    Some(token) => unsafe { with_avx512(token, $($arg),*) },
                    None => $f(Scalar, $($arg),*),
                },
                SimdLevel::Avx2 => match Avx2::detect() {
                    // SAFETY: the token exists, so the CPU has AVX2.
                    Some(token) => unsafe { with_avx2(token, $($arg),*) },
                    None => $f(Scalar, $($arg),*),
                },
                SimdLevel::Scalar => $f(Scalar, $($arg),*),
            }
        }
    }};
}
pub(crate) use dispatch;
