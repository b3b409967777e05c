//! Sixteen `f32` with operators, so that kernels over [`Simd`] read like the formulas that they are.

pub(crate) use super::simd::LANES;
use super::simd::Simd;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// One value per lane, in memory.
pub(crate) type F = [f32; LANES];

/// Sixteen lanes in registers, with the proof of the instructions that work on them. Every operation is the IEEE one, so
/// all instruction sets give the same bits.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<S: Simd>(S, S::F);

impl<S: Simd> Lanes<S> {
    /// The same value in all lanes.
    #[inline(always)]
    pub(crate) fn splat(simd: S, value: f32) -> Self {
        Self(simd, simd.splat(value))
    }

    /// Takes lanes that are in registers already.
    #[inline(always)]
    pub(crate) fn of(simd: S, lanes: S::F) -> Self {
        Self(simd, lanes)
    }

    /// The bare lanes.
    #[inline(always)]
    pub(crate) fn bare(self) -> S::F {
        self.1
    }

    /// Reads the lanes.
    #[inline(always)]
    pub(crate) fn load(simd: S, values: &F) -> Self {
        Self(simd, simd.load(values))
    }

    /// Writes the lanes.
    #[inline(always)]
    pub(crate) fn store(self) -> F {
        let mut out = [0.0; LANES];
        self.0.store(self.1, &mut out);
        out
    }

    /// The smaller one; the second operand when either is NaN.
    #[inline(always)]
    pub(crate) fn min(self, other: Self) -> Self {
        Self(self.0, self.0.min(self.1, other.1))
    }

    /// The larger one; the second operand when either is NaN.
    #[inline(always)]
    pub(crate) fn max(self, other: Self) -> Self {
        Self(self.0, self.0.max(self.1, other.1))
    }

    /// Magnitude.
    #[inline(always)]
    pub(crate) fn abs(self) -> Self {
        self.max(-self)
    }

    /// Square root.
    #[inline(always)]
    pub(crate) fn sqrt(self) -> Self {
        Self(self.0, self.0.sqrt(self.1))
    }

    /// `x` where self <= bound, else `y`; `y` for NaN.
    #[inline(always)]
    pub(crate) fn at_most(self, bound: Self, x: Self, y: Self) -> Self {
        Self(self.0, self.0.select_le(self.1, bound.1, x.1, y.1))
    }

    /// The lanes whose bit is set, from the first place on, with 0 after them.
    #[inline(always)]
    pub(crate) fn compress(self, bits: u16, out: &mut F) {
        self.0.compress(self.1, bits, out);
    }

    /// Bit i is set where lane i is less than `bound`.
    #[inline(always)]
    pub(crate) fn below(self, bound: f32) -> u32 {
        u32::from(self.0.gt_bits(self.0.splat(bound), self.1))
    }
}

macro_rules! operator {
    ($trait:ident $method:ident) => {
        impl<S: Simd> $trait for Lanes<S> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.0, self.0.$method(self.1, other.1))
            }
        }
    };
}
operator!(Add add);
operator!(Sub sub);
operator!(Mul mul);
operator!(Div div);

impl<S: Simd> Neg for Lanes<S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::splat(self.0, 0.0) - self
    }
}

/// Three coordinates, or a vector, in each lane.
pub(crate) type Vector<S> = [Lanes<S>; 3];

/// Reads 16 vectors.
#[inline(always)]
pub(crate) fn load<S: Simd>(simd: S, v: &[F; 3]) -> Vector<S> {
    [Lanes::load(simd, &v[0]), Lanes::load(simd, &v[1]), Lanes::load(simd, &v[2])]
}

/// The same vector in all lanes.
#[inline(always)]
pub(crate) fn splat<S: Simd>(simd: S, v: [f32; 3]) -> Vector<S> {
    [Lanes::splat(simd, v[0]), Lanes::splat(simd, v[1]), Lanes::splat(simd, v[2])]
}

/// a - b.
#[inline(always)]
pub(crate) fn minus<S: Simd>(a: Vector<S>, b: Vector<S>) -> Vector<S> {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// a . b, summed from the left.
#[inline(always)]
pub(crate) fn dot<S: Simd>(a: Vector<S>, b: Vector<S>) -> Lanes<S> {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// a x b.
#[inline(always)]
pub(crate) fn cross<S: Simd>(a: Vector<S>, b: Vector<S>) -> Vector<S> {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Short names for constants and loads; a closure would not be inlined into the dispatched function.
#[derive(Clone, Copy)]
pub(crate) struct Constants<S>(pub(crate) S);

impl<S: Simd> Constants<S> {
    /// Reads the lanes.
    #[inline(always)]
    pub(crate) fn at(self, values: &F) -> Lanes<S> {
        Lanes::load(self.0, values)
    }

    /// The same value in all lanes.
    #[inline(always)]
    pub(crate) fn of(self, value: f32) -> Lanes<S> {
        Lanes::splat(self.0, value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::{SimdLevel, dispatch};
    use super::*;

    /// Lanes to pick: none, all, one, each half, and across the halves.
    const FEW: [u16; 8] = [0, 0xffff, 1, 0x8000, 0xff, 0xff00, 0x0180, 0b1010_0000_1100_0110];

    const WORDS: [u16; LANES] =
        [0, 1, 2, 255, 256, 32_767, 32_768, 65_534, 65_535, 3, 9, 1000, 40_000, 50_000, 60_000, 7];

    /// Every operation on lanes i, with its scalar result.
    fn all_body<S: Simd>(simd: S, a: &F, b: &F) -> Vec<F> {
        let (x, y) = (Lanes::load(simd, a), Lanes::load(simd, b));
        let zero = Lanes::splat(simd, 0.0);
        let mut out: Vec<F> = [x + y, x - y, x * y, x / y, x.min(y), x.max(y), x.abs(), x.abs().sqrt(), -x]
            .into_iter()
            .map(Lanes::store)
            .collect();
        out.push(x.at_most(zero, y, x).store());
        out.push(std::array::from_fn(|i| ((x.below(0.25) >> i) & 1) as f32));
        for bits in FEW {
            let mut few = [7.0; LANES];
            x.compress(bits, &mut few);
            out.push(few);
        }
        out.push(dot([x, y, x], minus([y, y, x], [x, x, y])).store());
        out.extend(cross([x, y, x], [y, y, x]).map(Lanes::store));
        out.push(Lanes::of(simd, simd.words(&WORDS)).store());
        out
    }

    #[test]
    fn every_operation_is_that_of_its_lane() {
        let a: F = std::array::from_fn(|i| (i as f32 * 1.7).sin() * 3.0);
        let mut b: F = std::array::from_fn(|i| (i as f32 * 0.9).cos() * 2.0);
        b[3] = 0.0;
        let want = |f: &dyn Fn(f32, f32) -> f32| -> F { std::array::from_fn(|i| f(a[i], b[i])) };
        let mut table = vec![
            want(&|x, y| x + y),
            want(&|x, y| x - y),
            want(&|x, y| x * y),
            want(&|x, y| x / y),
            want(&f32::min),
            want(&f32::max),
            want(&|x, _| x.abs()),
            want(&|x, _| x.abs().sqrt()),
            want(&|x, _| -x),
            want(&|x, y| if x <= 0.0 { y } else { x }),
            want(&|x, _| f32::from(u8::from(x < 0.25))),
        ];
        for bits in FEW {
            let mut few = [0.0; LANES];
            let lanes = (0..LANES).filter(|lane| bits >> lane & 1 != 0);
            lanes.enumerate().for_each(|(n, lane)| few[n] = a[lane]);
            table.push(few);
        }
        table.extend([
            want(&|x, y| x * (y - x) + y * (y - x) + x * (x - y)),
            want(&|x, y| y * x - x * y),
            want(&|x, y| x * y - x * x),
            want(&|x, y| x * y - y * y),
            WORDS.map(f32::from),
        ]);
        for level in SimdLevel::ALL.into_iter().filter(|l| l.available()) {
            let (a, b) = (&a, &b);
            let got = dispatch!(level, all_body(a: &F, b: &F) -> Vec<F>);
            // -0 and 0 are equal here, as they are to every kernel.
            assert_eq!(got, table, "{level}");
        }
    }
}
