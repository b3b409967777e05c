//! Sphere trees of real meshes: where their packing ends.

#[path = "../meshes/mod.rs"]
mod meshes;

use super::*;
use hapticd::contact::ist::packing::PackingError;
use hapticd::contact::ist::{IstError, Split, Stop};
use std::f64::consts::PI;

/// On a real mesh where the models are there, on a ring where they are not.
#[test]
fn a_packing_ends_where_it_is_told_to() {
    let mesh = meshes::shared("screwdriver.ply").unwrap_or_else(|| shapes::torus(0.06, 0.02, 48, 24));
    let filled = |stop, split| {
        let params = IstParams { stop, split, ..IstParams::spheres(1500) };
        SphereTree::build_with_packing(&mesh, &params, &Silent)
    };
    let all = filled(Stop::Spheres(1500), Split::Boxes).expect("builds");
    let radius = |i: usize| f64::from(all.1.spheres[i].radius);
    for fill in [0.2, 0.5, 0.9 * all.0.fill] {
        let (tree, packing) = filled(Stop::Fill(fill), Split::Boxes).expect("builds");
        // Reached, and not before the last sphere.
        let last = packing.spheres.last().expect("a sphere").radius;
        let part = 4.0 / 3.0 * PI * f64::from(last).powi(3) / tree.volume;
        assert!(tree.fill >= fill && tree.fill - part < fill, "{fill}: {}", tree.fill);
        // The same spheres, up to there.
        let same = packing
            .spheres
            .iter()
            .zip(&all.1.spheres)
            .all(|(a, b)| a.centre == b.centre && a.radius == b.radius);
        assert!(same && tree.spheres < all.0.spheres, "{fill}");
    }
    for k in [1, 10, 300] {
        let least = radius(k);
        let (tree, packing) = filled(Stop::Radius(least), Split::Boxes).expect("builds");
        assert!(packing.spheres.iter().all(|s| f64::from(s.radius) >= least));
        assert!(tree.spheres > k && radius(tree.spheres) < least, "{k}: {}", tree.spheres);
        // Boxes are made of the same cells whatever the spheres are; the others of the spheres.
        assert_eq!((tree.cell_count(), tree.node_count()), (all.0.cell_count(), all.0.node_count()));
        assert!((tree.volume / all.0.volume - 1.0).abs() < 1e-12);
        let (gas, _) = filled(Stop::Radius(least), Split::NeuralGas).expect("builds");
        assert_eq!((gas.spheres, gas.cell_count()), (tree.spheres, tree.cell_count()));
    }
    // More than the cells can hold: what there is, and said so.
    let (tree, _) = filled(Stop::Fill(1.0), Split::Boxes).expect("builds");
    assert!(tree.fill > all.0.fill && tree.fill < 1.0 && Stop::Fill(1.0).missed(tree.fill) == Some(1.0));
    assert_eq!(Stop::Fill(0.5).missed(tree.fill), None);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for stop in [Stop::Fill(bad), Stop::Radius(bad), Stop::Fill(1.1)] {
            let got = filled(stop, Split::Boxes).expect_err("makes no sense");
            assert!(matches!(got, IstError::Stop(_)), "{stop:?}: {got}");
        }
    }
    // Larger than the body is thick: it says what would fit.
    let asked = 1.01 * radius(0);
    let got = filled(Stop::Radius(asked), Split::Boxes).expect_err("none fits");
    assert_eq!(got, IstError::Packing(PackingError::NoneFits { asked, largest: radius(0) }));
}
