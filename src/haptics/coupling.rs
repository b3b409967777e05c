//! Coupling between device and tool. **Direct**: the tool is where the device is, the contact's spring-damper wrench goes
//! straight to the device with the damping that a sampled spring needs, and one continuous factor keeps stiffness and
//! damping below what the device renders stably. **Dynamic** and **static** ([`dynamic`]): a virtual tool lies between, with a mass or
//! without one.
//!
//! Real-time safe, pure.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

pub mod dynamic;

use crate::geometry::{Twist, Vec3, Wrench};
use nalgebra::{Matrix3, Matrix6, SMatrix, Vector6};

/// How device and tool hang together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Law {
    /// The tool is where the device is.
    #[default]
    Direct,
    /// A virtual tool with a mass, on a spring.
    Dynamic,
    /// A virtual tool without mass, on a spring: always where spring and contact are in balance.
    Static,
}

/// How it is to feel, in terms of what the device renders stably.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// A third of the stiffness.
    Soft,
    /// All of it, damped so that tools come to rest by themselves.
    #[default]
    Normal,
    /// All of it, with the least damping that is stable: livelier, and what nobody holds may ring.
    Crisp,
}

impl Preset {
    /// The part of the device's stiffness that is used.
    pub fn part(self) -> f64 {
        match self {
            Self::Soft => 1.0 / 3.0,
            Self::Normal | Self::Crisp => 1.0,
        }
    }
}

/// The coupling as it is configured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    /// How device and tool hang together.
    pub law: Law,
    /// How it is to feel.
    pub preset: Preset,
    /// Mass of the dynamic law's virtual tool, kg.
    pub mass: f64,
    /// Thickness at the hand of the layer before a surface in which the tool is braked ([`super::braking`]), m; 0: none.
    pub braking: f64,
}

impl Coupling {
    /// Mass of the virtual tool, kg; `None` where there is no such tool. Real-time safe.
    pub fn virtual_mass(&self) -> Option<f64> {
        match self.law {
            Law::Direct => None,
            Law::Dynamic => Some(self.mass),
            Law::Static => Some(0.0),
        }
    }
}

impl Default for Coupling {
    fn default() -> Self {
        // McNeely, Puterbaugh and Troy (1999) felt 12 g.
        Self { law: Law::Direct, preset: Preset::Normal, mass: 0.012, braking: 0.0 }
    }
}

/// What the device renders stably at this rate, from its profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caps {
    /// N/m.
    pub stiffness: f64,
    /// N·m/rad.
    pub rot_stiffness: f64,
    /// N·s/m.
    pub damping: f64,
    /// N·m·s/rad.
    pub rot_damping: f64,
    /// Which of x, y, z, rx, ry, rz are driven; the others carry no force and do not count.
    pub actuated: [bool; 6],
}

impl Caps {
    /// The stiffness that it renders along its driven axes, N/m; 0 where none of x, y, z is driven.
    pub fn linear(&self) -> f64 {
        if self.actuated[..3].contains(&true) { self.stiffness } else { 0.0 }
    }

    /// What the device can give of a wrench in its axes: undriven axes zero.
    pub fn driven(&self, wrench: &Wrench) -> Wrench {
        let [x, y, z, rx, ry, rz] = self.actuated.map(f64::from);
        Wrench {
            force: wrench.force.component_mul(&Vec3::new(x, y, z)),
            torque: wrench.torque.component_mul(&Vec3::new(rx, ry, rz)),
        }
    }
}

/// The contact as the device would feel it uncapped: at the tool point, device axes and device metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Felt {
    /// Wrench, N and N·m.
    pub wrench: Wrench,
    /// Stiffness, N/m, N, N·m/rad; symmetric, positive semidefinite.
    pub stiffness: Matrix6<f64>,
    /// Damping (an upper bound), same layout with one second more.
    pub damping: Matrix6<f64>,
}

/// What is rendered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rendered {
    /// Wrench after the cap, undriven axes zero.
    pub wrench: Wrench,
    /// The factor, 0..=1; 1 when nothing had to be lowered.
    pub factor: f64,
    /// What is rendered as a part of the caps, 0..=1.
    pub load: f64,
}

/// Time over which a lowered factor comes back by a factor of e, s.
const RECOVERY: f64 = 0.1;

/// Renders a contact: drops what the device cannot drive and lowers the whole by one factor so that the largest
/// eigenvalues of stiffness and damping, in units of the device's caps, stay at or below one.
///
/// `last` is the factor of the tick before, `dt` s ago. The factor falls at once and comes back slowly: a sampled
/// contact's stiffness jumps with each point that enters or leaves, and a factor that followed it both ways would
/// drive the hand in a limit cycle. Falling on the way in and recovering after the way out, it takes energy out.
pub fn render(caps: &Caps, felt: &Felt, last: f64, dt: f64) -> Rendered {
    render_within(caps, felt, 1.0, last, dt)
}

/// As [`render`], within a part (above 0) of the caps: for what comes beside something else.
pub fn render_within(caps: &Caps, felt: &Felt, part: f64, last: f64, dt: f64) -> Rendered {
    let on = caps.actuated.map(f64::from);
    let scaled = |m: &Matrix6<f64>, linear: f64, angular: f64| {
        // S M S with S = diag(1/sqrt(cap)): eigenvalues become multiples of the cap.
        let (linear, angular) = (inverse_sqrt(linear), inverse_sqrt(angular));
        let s: [f64; 6] = std::array::from_fn(|i| on[i] * if i < 3 { linear } else { angular });
        let scaled = Matrix6::from_fn(|i, j| s[i] * m[(i, j)] * s[j]);
        // What is not driven is zero, and most devices drive no rotation: an eighth of the work.
        if caps.actuated[3..].contains(&true) {
            largest(&scaled)
        } else {
            largest(&scaled.fixed_view::<3, 3>(0, 0).into_owned())
        }
    };
    let worst = scaled(&felt.stiffness, caps.stiffness, caps.rot_stiffness).max(scaled(
        &felt.damping,
        caps.damping,
        caps.rot_damping,
    ));
    let factor = (if worst > part { part / worst } else { 1.0 }).min(recovered(last, dt));
    Rendered {
        wrench: caps.driven(&felt.wrench).scaled(factor),
        factor,
        load: (worst * factor).clamp(0.0, 1.0),
    }
}

/// The factor after `dt` s without anything to lower it.
pub fn recovered(last: f64, dt: f64) -> f64 {
    // From zero (a contact that could not be read) it has to start somewhere.
    (last.max(1e-3) * (1.0 + dt / RECOVERY)).min(1.0)
}

/// Damping time tau of the coupling: a contact of stiffness K is damped with B = tau K. Seconds.
///
/// At least what keeps a sampled spring stable whatever its stiffness: K (T/2 + t_d) < b + B (Hulin, Gil and others,
/// 10.1109/TCST.2013.2283372), that is tau > T/2 + t_d; half as much again is taken. Stable alone is not at rest: what
/// is left of tau beyond T/2 + t_d is all that takes energy out, and a sampled surface puts some in. Its normals do
/// not add up to zero along a wall and its force has a curl, both of the order of the point spacing over the width of
/// the contact, so an edge or a vertex without a hand kept sliding and bouncing. So tau is also at least half of what
/// the device damps stably at the stiffness it renders stably, B_max / K_max: a contact at the stiffness cap then
/// uses half of the damping cap, and a softer one is damped in proportion.
///
/// `delay` is the loop's delay beside the hold, s.
pub fn damping_time(period: f64, delay: f64, caps: &Caps) -> f64 {
    let ratio = |damping: f64, stiffness: f64, axes: &[bool]| {
        let t = damping / stiffness;
        if axes.contains(&true) && t.is_finite() { t } else { f64::INFINITY }
    };
    let [linear, angular] = [&caps.actuated[..3], &caps.actuated[3..]];
    let device =
        ratio(caps.damping, caps.stiffness, linear).min(ratio(caps.rot_damping, caps.rot_stiffness, angular));
    let device = if device.is_finite() { 0.5 * device } else { 0.0 };
    least_damping_time(period, delay).max(device)
}

/// The part of [`damping_time`] that stability alone asks for, s: for [`Preset::Crisp`].
pub fn least_damping_time(period: f64, delay: f64) -> f64 {
    1.5 * (0.5 * period + delay)
}

/// Damping wrench -tau K xi for the motion `relative` of the tool against what it touches. It never turns the contact
/// wrench `contact` round: a retreating tool is not held back by more than it is pushed. Torques are compared with
/// forces at the contact's own lever, L^2 = tr K_rot / tr K_trans, so a rotation without net force (a tool that rocks
/// between two walls) is measured by its torque.
pub fn damping(tau: f64, stiffness: &Matrix6<f64>, relative: &Twist, contact: &Wrench) -> Wrench {
    let wrench = times(stiffness, relative).scaled(-tau);
    let trace = |from: usize| (from..from + 3).map(|i| stiffness[(i, i)]).sum::<f64>();
    let per_lever = trace(0) / trace(3);
    let dot = |a: &Wrench, b: &Wrench| {
        // Without rotational stiffness there is neither torque nor a lever to compare it at.
        let torques = if per_lever.is_finite() { a.torque.dot(&b.torque) * per_lever } else { 0.0 };
        a.force.dot(&b.force) + torques
    };
    let (against, push) = (-dot(&wrench, contact), dot(contact, contact));
    if against > push { wrench.scaled(push / against) } else { wrench }
}

/// A stiffness times a motion: the wrench that grows in a second.
pub fn times(stiffness: &Matrix6<f64>, motion: &Twist) -> Wrench {
    let (v, w) = (&motion.linear, &motion.angular);
    let d = stiffness * Vector6::new(v.x, v.y, v.z, w.x, w.y, w.z);
    Wrench { force: Vec3::new(d[0], d[1], d[2]), torque: Vec3::new(d[3], d[4], d[5]) }
}

fn inverse_sqrt(x: f64) -> f64 {
    // A cap of zero on a driven axis means that the axis renders nothing stiff: the factor goes to zero.
    1.0 / x.max(1e-12).sqrt()
}

/// Upper bound of the largest eigenvalue of a symmetric positive semidefinite matrix of up to 6 rows, at most 0.71 % above it, by
/// eight squarings: tr(A^256)^(1/256) <= 6^(1/256) x the largest. Smooth in A (unlike the eigenvalue where two cross),
/// so the factor is continuous and jumps in no derivative. A non-finite matrix gives infinity.
fn largest<const N: usize>(a: &SMatrix<f64, N, N>) -> f64 {
    let (mut a, mut octaves, mut power) = (*a, 0.0, 1.0);
    for _ in 0..7 {
        let trace = a.trace();
        if !trace.is_finite() {
            return f64::INFINITY;
        }
        if trace <= 0.0 {
            // The zero matrix, or one that is not positive semidefinite.
            return if a.iter().all(|x| x.is_finite()) { 0.0 } else { f64::INFINITY };
        }
        // By a power of two that brings the trace near 1: exact, and no logarithm each time. 2045: its inverse is still a normal number.
        let exponent = (trace.to_bits() >> 52).min(2045);
        a *= f64::from_bits((2046 - exponent) << 52);
        octaves += (exponent as f64 - 1023.0) * power;
        a = squared(&a);
        power *= 0.5;
    }
    // The last one's trace is the sum of the squares.
    let all = (octaves + a.norm_squared().log2() * 0.5 * power).exp2();
    // What is no number must not look small to who takes the larger of two.
    if all.is_nan() { f64::INFINITY } else { all }
}

/// Square of a symmetric matrix, half of which is the other half.
fn squared<const N: usize>(a: &SMatrix<f64, N, N>) -> SMatrix<f64, N, N> {
    let mut square = SMatrix::zeros();
    for i in 0..N {
        for j in 0..=i {
            let dot = a.column(i).dot(&a.column(j));
            (square[(i, j)], square[(j, i)]) = (dot, dot);
        }
    }
    square
}

/// Largest eigenvalue of the translational block of a stiffness, N/m: the trigonometric solution of the characteristic
/// cubic of a symmetric 3x3 matrix (O. K. Smith, Comm. ACM 4(4), 1961).
pub fn translational(stiffness: &Matrix6<f64>) -> f64 {
    let a: Matrix3<f64> = stiffness.fixed_view::<3, 3>(0, 0).into_owned();
    let q = a.trace() / 3.0;
    let b = a - Matrix3::identity() * q;
    let p = (b.norm_squared() / 6.0).sqrt();
    if p.is_nan() || p <= 1e-12 * q.abs() {
        return q;
    }
    let r = ((b / p).determinant() / 2.0).clamp(-1.0, 1.0);
    q + 2.0 * p * (r.acos() / 3.0).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPS: Caps =
        Caps { stiffness: 1000.0, rot_stiffness: 5.0, damping: 10.0, rot_damping: 0.1, actuated: [true; 6] };

    fn felt(diagonal: [f64; 6]) -> Felt {
        Felt {
            wrench: Wrench { force: Vec3::new(1.0, -2.0, 3.0), torque: Vec3::new(0.1, 0.2, -0.3) },
            stiffness: Matrix6::from_diagonal(&diagonal.into()),
            damping: Matrix6::zeros(),
        }
    }

    /// With nothing lowered before.
    fn first(caps: &Caps, felt: &Felt) -> Rendered {
        render(caps, felt, 1.0, 1e-3)
    }

    #[test]
    fn the_factor_falls_at_once_and_comes_back_slowly() {
        let (stiff, soft) = (felt([4000.0, 0.0, 0.0, 0.0, 0.0, 0.0]), felt([0.0; 6]));
        let low = first(&CAPS, &stiff).factor;
        assert!(low < 0.251);
        let mut factor = low;
        for _ in 0..100 {
            let next = render(&CAPS, &soft, factor, 1e-3).factor;
            assert!(next > factor && next <= factor * 1.011);
            factor = next;
        }
        // 100 ms: a factor of e, give or take the compounding.
        assert!((factor / low / std::f64::consts::E - 1.0).abs() < 0.01, "{}", factor / low);
        assert!(recovered(0.0, 1e-3) > 0.0 && recovered(0.999, 1e-3) == 1.0);
    }

    #[test]
    fn soft_contacts_pass_unchanged() {
        let soft = felt([900.0, 0.0, 0.0, 0.0, 0.0, 4.5]);
        let one = first(&CAPS, &soft);
        assert_eq!((one.wrench, one.factor), (soft.wrench, 1.0));
        // Beside something else that takes a part of the caps the rest is left, whatever asks for more.
        let hard = Felt { stiffness: soft.stiffness * 1e6, ..soft };
        let beside = render_within(&CAPS, &hard, 0.25, 1.0, 1e-3);
        assert!((beside.load - 0.25).abs() < 1e-12 && first(&CAPS, &hard).load > 0.999, "{beside:?}");
    }

    #[test]
    fn stiff_contacts_are_lowered_to_the_cap() {
        for (stiffness, ratio) in
            [([4000.0, 0.0, 0.0, 0.0, 0.0, 0.0], 4.0), ([10.0, 0.0, 0.0, 0.0, 15.0, 0.0], 3.0)]
        {
            let stiff = felt(stiffness);
            let out = first(&CAPS, &stiff);
            assert!((out.factor * ratio - 1.0).abs() < 0.0071, "{}", out.factor);
            assert!(out.factor * ratio <= 1.0 + 1e-12, "the bound never lets more through");
            assert_eq!(out.wrench, stiff.wrench.scaled(out.factor));
        }
        let mut damped = felt([0.0; 6]);
        damped.damping[(1, 1)] = 50.0;
        assert!((first(&CAPS, &damped).factor - 0.2).abs() < 0.002);
    }

    #[test]
    fn undriven_axes_carry_nothing_and_do_not_count() {
        let caps = Caps { actuated: [true, true, true, false, false, false], ..CAPS };
        let out = first(&caps, &felt([100.0, 0.0, 0.0, 1e9, 0.0, 0.0]));
        assert_eq!(out.factor, 1.0);
        assert_eq!(out.wrench.torque, Vec3::zeros());
        assert_eq!(out.wrench.force, Vec3::new(1.0, -2.0, 3.0));
    }

    #[test]
    fn unreadable_stiffness_renders_nothing() {
        let mut bad = felt([0.0; 6]);
        bad.stiffness[(0, 0)] = f64::NAN;
        assert_eq!(first(&CAPS, &bad).factor, 0.0);
        bad.stiffness[(0, 0)] = f64::INFINITY;
        assert!(!(first(&CAPS, &bad).factor > 0.0));
        // Wherever it stands, and as large as numbers are, whether or not rotation is driven.
        let points = Caps { actuated: [true, true, true, false, false, false], ..CAPS };
        for caps in [CAPS, points] {
            for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut bad = felt([500.0; 6]);
                    (bad.damping[(i, j)], bad.damping[(j, i)]) = (odd, odd);
                    let factor = first(&caps, &bad).factor;
                    assert!(!(factor > 0.0), "{odd} at {i}, {j}: {factor}");
                }
            }
            for large in [1e100, 1e160, 1e300] {
                let factor = first(&caps, &felt([large; 6])).factor;
                assert!(factor * large <= 1000.0 * (1.0 + 1e-9), "{large}: {factor}");
            }
        }
    }

    #[test]
    fn damping_opposes_the_motion_and_never_pulls() {
        let k = Matrix6::from_diagonal(&[1000.0, 0.0, 0.0, 0.0, 0.0, 2.0].into());
        let push = Wrench { force: Vec3::new(3.0, 0.0, 0.0), torque: Vec3::zeros() };
        let moving = |v: f64| Twist { linear: Vec3::new(v, 7.0, 0.0), angular: Vec3::new(0.0, 0.0, 0.5) };
        let out = damping(2e-3, &k, &moving(-0.1), &push);
        assert!((out.force - Vec3::new(0.2, 0.0, 0.0)).norm() < 1e-12, "1000 N/m x 2 ms x 0.1 m/s");
        assert!((out.torque - Vec3::new(0.0, 0.0, -0.002)).norm() < 1e-12);
        let fast = damping(2e-3, &k, &moving(5.0), &push);
        assert!((fast.force + push.force).norm() < 1e-12, "just lets go: {}", fast.force);
    }

    #[test]
    fn a_rocking_tool_between_two_walls_stays_damped() {
        // The forces of both walls cancel but for a trace; the torque rights the tool.
        let k = Matrix6::from_diagonal(&[4000.0, 4000.0, 4000.0, 2.0, 2.0, 2.0].into());
        let contact = Wrench { force: Vec3::new(1e-6, 0.0, 0.0), torque: Vec3::new(0.0, 0.0, 0.02) };
        let moving = |v: f64, w: f64| Twist { linear: Vec3::x() * v, angular: Vec3::z() * w };
        let out = damping(4e-3, &k, &moving(1e-6, -0.5), &contact);
        assert!((out.torque.z - 0.004).abs() < 1e-12, "{}", out.torque.z);
        // Turning back fast, it is let go and not held.
        let out = damping(4e-3, &k, &moving(0.0, 50.0), &contact);
        assert!((out.torque + contact.torque).norm() < 1e-6, "{}", out.torque);
    }

    #[test]
    fn damping_time_is_stable_and_uses_what_the_device_can() {
        // 10 N s/m at 1000 N/m allow 10 ms, 0.1 at 5 allow 20 ms: half of the smaller.
        assert_eq!(damping_time(1e-3, 0.0, &CAPS), 5e-3);
        let weak = Caps { damping: 0.0, ..CAPS };
        assert_eq!(damping_time(1e-3, 1e-3, &weak), 1.5 * 1.5e-3, "what stability asks for");
        let points = Caps { rot_stiffness: 0.0, rot_damping: 0.0, ..CAPS };
        let points = Caps { actuated: [true, true, true, false, false, false], ..points };
        assert_eq!(damping_time(1e-3, 0.0, &points), 5e-3);
        // The point of it, on a free 0.1 kg mass pressed on a sampled spring of 1000 N/m with a backward difference:
        // the amplitude's decay a period is that of the continuous damper less T/2, exp(-pi (tau - T/2) sqrt(K/m)).
        let (m, k, t, tau) = (0.1, 1000.0, 1e-3, damping_time(1e-3, 0.0, &CAPS));
        let (mut x, mut v, mut before) = (1e-3, 0.0, 1e-3);
        let mut peaks = vec![];
        for _ in 0..400 {
            let a = (-k * x - tau * k * (x - before) / t) / m;
            before = x;
            let was = v;
            x += v * t + 0.5 * a * t * t;
            v += a * t;
            if was < 0.0 && v >= 0.0 {
                peaks.push(-x);
            }
        }
        let expect = (-std::f64::consts::PI * (tau - 0.5 * t) * (k / m).sqrt()).exp();
        let decay = peaks[1] / peaks[0];
        assert!((decay.ln() / expect.ln() - 1.0).abs() < 0.2, "{decay} {expect}");
    }

    #[test]
    fn the_bound_holds_from_end_to_end_of_the_numbers() {
        for x in [5e-324, 1e-310, f64::MIN_POSITIVE, 1e-200, 1e-3, 1.0, 1e9, 1e200, f64::MAX / 8.0] {
            let bound = largest(&Matrix6::from_diagonal(&[x, 0.0, 0.3 * x, x, 0.0, x].into()));
            // Of subnormal numbers there are only so many.
            let least = 5e-324f64;
            assert!(bound >= x * (1.0 - 1e-9) - least && bound <= x * 1.0071 + least, "{bound:e} {x:e}");
        }
        let whole = Matrix6::repeat(f64::MAX / 64.0);
        assert!((f64::MAX / 11.0..f64::MAX / 10.5).contains(&largest(&whole)), "six times each");
        assert_eq!(largest(&Matrix6::zeros()), 0.0);
        assert_eq!(largest(&Matrix6::repeat(f64::MAX)), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn bounds_hold_against_an_eigenvalue_solver(c in prop::collection::vec(-10.0..10.0f64, 36), s in -6.0..6.0f64) {
            let l = Matrix6::from_row_slice(&c) * 10f64.powf(s);
            let a = l * l.transpose();
            let exact = a.symmetric_eigen().eigenvalues.max();
            let bound = largest(&a);
            prop_assert!(bound >= exact * (1.0 - 1e-9) && bound <= exact * 1.0071, "{bound} {exact}");
            let block: Matrix3<f64> = a.fixed_view::<3, 3>(0, 0).into_owned();
            let exact = block.symmetric_eigen().eigenvalues.max();
            let bound = largest(&block);
            prop_assert!(bound >= exact * (1.0 - 1e-9) && bound <= exact * 1.0071, "{bound} {exact}");
            prop_assert!((translational(&a) - exact).abs() <= 1e-9 * exact.abs());
        }
    }
}
