//! Sampling against closed forms, and the fast paths against each other.

use super::*;
use crate::geometry::simd::SimdLevel;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A ball of 20 mm about the origin, grid of 2 mm cells with `pad` cells of room.
fn ball(pad: u32) -> Field {
    let n = 21 + 2 * pad;
    let low = -0.002 * (10.0 + f64::from(pad));
    Field::from_fn(Point::new(low, low, low), 0.002, [n, n, n], |p| 0.02 - p.coords.norm())
}

fn uniform(rng: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    low + (high - low) * (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn affine_fields_are_reproduced_exactly_within_rounding() {
    let n = Vec3::new(2.0, -3.0, 6.0) / 7.0;
    let field =
        Field::from_fn(Point::new(-0.05, -0.04, -0.03), 0.005, [21, 17, 13], |p| n.dot(&p.coords) + 0.01);
    let rounding = 0.5 * f64::from(field.scale);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..2000 {
        let p = Point::new(
            uniform(&mut rng, -0.05, 0.05),
            uniform(&mut rng, -0.04, 0.04),
            uniform(&mut rng, -0.03, 0.03),
        );
        let (d, g) = field.depth_gradient(&p);
        assert!((d - (n.dot(&p.coords) + 0.01)).abs() <= 1.001 * rounding, "{p}: {d}");
        assert_eq!(d, field.depth(&p));
        assert!((g - n).amax() <= 2.0 * rounding / field.cell, "{p}: {g}");
        assert!((field.smooth_gradient(&p).norm()).is_finite());
    }
}

#[test]
fn error_stays_below_the_stated_bound_on_a_ball() {
    let field = ball(4);
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    for _ in 0..20_000 {
        let p = Point::from(Vec3::from_fn(|_, _| uniform(&mut rng, -0.028, 0.028)));
        let exact = 0.02 - p.coords.norm();
        assert!((field.depth(&p) - exact).abs() <= field.sample_error(), "{p}");
    }
}

#[test]
fn outside_the_grid_the_distance_is_never_overstated_and_never_contact() {
    let field = ball(2);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut widest: f64 = 0.0;
    for _ in 0..50_000 {
        let p = Point::from(Vec3::from_fn(|_, _| uniform(&mut rng, -0.2, 0.2)));
        if p.coords.amax() <= 0.024 {
            continue;
        }
        let d = field.depth(&p);
        assert!(d < 0.0);
        let exact = p.coords.norm() - 0.02;
        assert!(-d <= exact + field.sample_error(), "{p}: bound {} above {exact}", -d);
        widest = widest.max(exact + d);
    }
    // The bound is not vacuous: it never falls short of the distance to the box, which here is within
    // sqrt(3) * 24 mm - 20 mm of the ball.
    assert!(widest <= 3.0f64.sqrt() * 0.024 - 0.02 + field.sample_error(), "{widest}");
}

#[test]
fn distance_outside_is_exact_before_a_plane_and_near_it_around_a_ball() {
    let plane = Field::from_fn(Point::new(-0.05, -0.04, -0.03), 0.005, [21, 17, 13], |p| 0.01 - p.z);
    let ball = ball(2);
    let mut rng = Pcg64Mcg::seed_from_u64(4);
    for _ in 0..20_000 {
        let p = Point::from(Vec3::from_fn(|_, _| uniform(&mut rng, -0.2, 0.2)));
        // Beside the box the place of the surface nearest to p is one that the box does not see: its own is farther away.
        let (d, exact, rounding) = (-plane.locate(&p).0, p.z - 0.01, 3.0 * f64::from(plane.scale));
        assert!(d >= exact - rounding, "{p}: {d} for {exact}");
        if p.x.abs() <= 0.05 && p.y.abs() <= 0.04 && p.z > 0.03 {
            assert!(d <= exact + rounding, "{p}: {d} for {exact}");
        }
        if !ball.covers(&p) {
            // To the ball's point nearest to q, but for q's distance, at most sqrt(3) 24 - 20 mm, times the angle by which the
            // gradient is turned: it is taken up to sqrt(3) cells from q, at least 22 mm from the centre.
            let q = p.coords.map(|x| x.clamp(-0.024, 0.024));
            let (d, exact) = (-ball.locate(&p).0, (p.coords - q.normalize() * 0.02).norm());
            let off = (3f64.sqrt() * 0.024 - 0.02) * 3f64.sqrt() * ball.cell / 0.022;
            assert!(d >= p.coords.norm() - 0.02 - ball.sample_error(), "{p}: {d}");
            assert!((d - exact).abs() <= off + ball.sample_error(), "{p}: {d} for {exact}");
        }
    }
}

#[test]
fn the_value_is_continuous_across_the_border() {
    let field = ball(2);
    let far = field.far_corner();
    for t in 0..200 {
        let y = -0.024 + 0.00024 * f64::from(t);
        let inside = field.depth(&Point::new(far.x - 1e-9, y, 0.003));
        let outside = field.depth(&Point::new(far.x + 1e-9, y, 0.003));
        assert!((inside - outside).abs() < 3e-9, "{inside} {outside}");
    }
}

#[test]
fn a_field_cut_off_inside_the_solid_claims_no_contact_beyond_its_grid() {
    let slab = Field::from_fn(Point::new(-0.01, -0.01, -0.01), 0.002, [11, 11, 11], |p| -p.z);
    assert!(slab.depth(&Point::new(0.0, 0.0, -0.005)) > 0.0);
    assert!(slab.depth(&Point::new(0.011, 0.0, -0.005)) <= 0.0);
}

#[test]
fn gradient_outside_is_the_slope_of_the_bound() {
    let field = ball(2);
    let p = Point::new(0.0311, 0.0047, -0.0412);
    let (_, g) = field.depth_gradient(&p);
    let h = 1e-6;
    for axis in 0..3 {
        let mut e = Vec3::zeros();
        e[axis] = h;
        let slope = (field.depth(&(p + e)) - field.depth(&(p - e))) / (2.0 * h);
        assert!((slope - g[axis]).abs() < 1e-5, "axis {axis}: {slope} {}", g[axis]);
    }
}

#[test]
fn nan_and_infinity_do_no_harm() {
    let field = ball(2);
    for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
        let d = field.depth(&Point::new(v, 0.0, 0.0));
        assert!(d.is_nan() || d < 0.0);
        let mut x = [0.0f32; 16];
        x[5] = v as f32;
        let mut out = [0.0f32; 16];
        for level in SimdLevel::ALL {
            assert_eq!(sample_batch_at(level, &field, [&x, &x, &x], &mut out, None), 16);
            assert!(out[5].is_nan() || out[5] < 0.0);
        }
    }
    // A hand-made field whose storage does not match is refused, not read.
    let broken = Field { dims: [50, 50, 50], ..ball(2) };
    assert_eq!(sample_batch(&broken, [&[0.0; 16]; 3], &mut [0.0; 16], None), 0);
}

#[test]
fn all_instruction_sets_give_the_same_bits_and_follow_the_f64_reference() {
    const N: usize = 1_000_000;
    let mut rng = Pcg64Mcg::seed_from_u64(4);
    let dims = [37, 23, 51];
    let counts = (0..dims.iter().product::<u32>()).map(|_| rng.next_u32() as i16).collect();
    let field = Field::of_counts(Point::new(0.1, -0.2, 0.3), 0.0013, dims, 3.1e-7, counts);
    let mut axis = |n: u32| -> Vec<f32> {
        let last = f64::from(n - 1);
        (0..N)
            .map(|i| match i % 50 {
                // Mostly inside; some on nodes, on the border, outside, absurd.
                0 => (rng.next_u32() % n) as f32,
                1 => last as f32,
                2 => uniform(&mut rng, -3.0 * last, 4.0 * last) as f32,
                3 if i % 5000 == 3 => f32::from_bits(rng.next_u32()),
                _ => uniform(&mut rng, -0.5, last + 0.5) as f32,
            })
            .collect()
    };
    let (x, y, z) = (axis(dims[0]), axis(dims[1]), axis(dims[2]));
    let run = |level| {
        let mut out = [vec![0.0f32; N], vec![0.0f32; N], vec![0.0f32; N], vec![0.0f32; N]];
        let [d, gx, gy, gz] = &mut out;
        assert_eq!(sample_batch_at(level, &field, [&x, &y, &z], d, Some([gx, gy, gz])), N);
        out
    };
    let reference = run(SimdLevel::Scalar);
    for level in [SimdLevel::Avx2, SimdLevel::Avx512] {
        if !level.available() {
            println!("skipped {level}: this CPU lacks it");
            continue;
        }
        println!("compared {level} with scalar on {N} inputs");
        for (a, b) in reference.iter().flatten().zip(run(level).iter().flatten()) {
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{level}: {a} {b}");
        }
    }
    let range = f64::from(field.scale) * 32767.0;
    for i in 0..N {
        let u = [x[i], y[i], z[i]].map(f64::from);
        // On the border itself rounding decides whether the random field counts as cut off.
        let border = (0..3).any(|a| (u[a] - f64::from(dims[a] - 1)).abs() < 1e-9 || u[a].abs() < 1e-9);
        if !border && u.iter().all(|u| u.abs() < 1e3) {
            let p = field.origin + field.cell * Vec3::from(u);
            let (d, g) = field.depth_gradient(&p);
            let tolerance = 1e-5 * range + 2e-6 * d.abs();
            assert!((d - f64::from(reference[0][i])).abs() < tolerance, "{u:?} {d} {}", reference[0][i]);
            // Away from cell faces, where the gradient jumps.
            let smooth = (0..3)
                .all(|a| u[a] > 0.0 && u[a] < f64::from(dims[a] - 1) && (u[a] - u[a].round()).abs() > 1e-4);
            for a in 0..3 {
                let slope = f64::from(reference[a + 1][i]) / field.cell;
                assert!(!smooth || (slope - g[a]).abs() < 1e-4 * range / field.cell, "{u:?} axis {a}");
            }
        }
    }
}
