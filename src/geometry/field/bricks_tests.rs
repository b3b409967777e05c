//! Bricks against the dense counts they were made from, and against closed forms.

use super::super::{Field, Storage};
use super::*;
use crate::geometry::{Point, Vec3};

/// A ball in a grid of `dims` nodes with cells of 1 mm.
fn ball(dims: [u32; 3], radius: f64) -> (Field, impl Fn(&Point) -> f64) {
    let centre =
        Point::from(Vec3::from(dims.map(|n| f64::from(n - 1) * 0.5e-3)) + Vec3::new(1e-4, 2e-4, -3e-4));
    let depth = move |p: &Point| radius - (p - centre).norm();
    (Field::from_fn(Point::origin(), 1e-3, dims, depth), depth)
}

#[test]
fn nodes_near_the_surface_are_exact_and_all_others_within_the_stated_error() {
    // Grids whose cells are, and are not, whole bricks.
    for dims in [[121, 105, 101], [118, 103, 120], [120, 122, 99]] {
        let (field, exact) = ball(dims, 0.022);
        let Storage::Bricks(bricks) = &field.storage else { panic!("{dims:?}: no bricks") };
        assert!(field.bytes() < 2 * field.nodes());
        assert!((2..3u32).all(|s| bricks.table.iter().any(|e| e & 3 == s)), "no coarse bricks");
        let half = 0.501 * f64::from(field.scale);
        let mut worst: f64 = 0.0;
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                for i in 0..dims[0] {
                    let p = Point::from(Vec3::new(f64::from(i), f64::from(j), f64::from(k)) * 1e-3);
                    let error = (field.node([i, j, k]) - exact(&p)).abs();
                    worst = worst.max(error);
                    assert!(exact(&p).abs() > 3e-3 || error <= half, "{p}: {error}");
                }
            }
        }
        assert!(worst <= field.coarse_error() + half, "{worst}");
        assert!(worst > 0.5 * field.coarse_error(), "the stated error is not vacuous: {worst}");
        assert!(field.coarse_error() < 0.1 * field.cell);
    }
}

#[test]
fn the_value_is_continuous_across_bricks_of_different_spacing() {
    let (field, _) = ball([121, 105, 101], 0.022);
    // Across every brick's upper x, y and z face at scattered places: a rounded count on either side.
    let mut checked = 0;
    for n in 0..40_000u32 {
        let r = |k: u32| {
            f64::from(n.wrapping_mul(2_654_435_761 ^ k.wrapping_mul(40_503)) >> 8) / f64::from(1 << 24)
        };
        let mut p = Vec3::new(1.0 + 118.0 * r(1), 1.0 + 102.0 * r(2), 1.0 + 98.0 * r(3));
        let axis = (n % 3) as usize;
        p[axis] = ((p[axis] / 4.0) as u32 * 4).clamp(4, 96).into();
        let mut e = Vec3::zeros();
        e[axis] = 1e-7;
        let (a, b) = (field.depth(&Point::from((p - e) * 1e-3)), field.depth(&Point::from((p + e) * 1e-3)));
        assert!((a - b).abs() <= 1.01 * f64::from(field.scale) + 1e-9, "{p}: {a} {b}");
        checked += 1;
    }
    assert_eq!(checked, 40_000);
}

#[test]
fn fast_paths_agree_with_the_single_sample_in_all_spacings() {
    use super::super::sample::sample_batch_at;
    use crate::geometry::simd::SimdLevel;
    let (field, _) = ball([118, 103, 120], 0.022);
    const N: usize = 32_000;
    let axis = |k: u32, n: u32| -> Vec<f32> {
        (0..N as u32)
            .map(|i| i.wrapping_mul(2_654_435_761 ^ k.wrapping_mul(7919)) >> 8)
            .map(|r| (f64::from(r) / f64::from(1 << 24) * f64::from(n + 3) - 2.0) as f32)
            .collect()
    };
    let (x, y, z) = (axis(1, 118), axis(2, 103), axis(3, 120));
    let run = |level| {
        let mut out = [vec![0.0f32; N], vec![0.0f32; N], vec![0.0f32; N], vec![0.0f32; N]];
        let [d, gx, gy, gz] = &mut out;
        assert_eq!(sample_batch_at(level, &field, [&x, &y, &z], d, Some([gx, gy, gz])), N);
        out
    };
    let reference = run(SimdLevel::Scalar);
    for level in SimdLevel::ALL {
        let got = run(level);
        assert!(
            reference.iter().flatten().zip(got.iter().flatten()).all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
    for i in 0..N {
        let u = [x[i], y[i], z[i]].map(f64::from);
        let (d, g) = field.depth_gradient(&Point::from(Vec3::from(u) * 1e-3));
        assert!((d - f64::from(reference[0][i])).abs() < 1e-7, "{u:?}: {d} {}", reference[0][i]);
        let inside = (0..3).all(|a| u[a] > 0.0 && u[a] < f64::from(field.dims[a] - 1));
        // Away from cell faces, where the gradient jumps.
        if inside && u.iter().all(|u| (u - u.round()).abs() > 1e-3) {
            for a in 0..3 {
                assert!((g[a] - f64::from(reference[a + 1][i]) / 1e-3).abs() < 1e-3, "{u:?} axis {a}");
            }
        }
    }
}

#[test]
fn bytes_come_back_and_damaged_ones_are_refused() {
    let (field, _) = ball([105, 101, 110], 0.022);
    let Storage::Bricks(bricks) = &field.storage else { panic!("no bricks") };
    let mut bytes = Vec::new();
    bricks.write(&mut bytes);
    assert_eq!(Bricks::read(&bytes, field.dims).as_ref(), Some(&**bricks));
    assert!(Bricks::read(&bytes, [105, 101, 115]).is_none());
    for cut in [0, 3, 8, 100, bytes.len() - 1] {
        assert!(Bricks::read(&bytes[..cut], field.dims).is_none(), "{cut}");
    }
    // An entry beyond the quads, or with a spacing that there is not.
    for entry in [u32::MAX - 1, 3] {
        let mut bad = bytes.clone();
        bad[8..12].copy_from_slice(&entry.to_le_bytes());
        assert!(Bricks::read(&bad, field.dims).is_none(), "{entry}");
    }
}
