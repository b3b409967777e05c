//! How spheres are divided where neural gas leaves a cluster empty or takes nearly all.

use super::*;
use crate::contact::ist::packing::InnerSphere;

/// Sizes of the children of spheres of equal size at these places, and the places in their new order.
fn divided(places: &[[f32; 3]], split: Split) -> ([usize; WIDTH], Vec<[f32; 3]>) {
    let sphere = |&at: &[f32; 3]| InnerSphere {
        centre: at,
        radius: 0.1,
        centroid: at,
        secondary: 0.1,
        normal: [0.0, 0.0, 1.0],
        cone: 0.0,
        triangle: 0,
    };
    let packing = Packing { spheres: places.iter().map(sphere).collect(), ..Packing::default() };
    let input = Input { packing: &packing, parts: &[], split, cell: 1.0, log: 6, stored: vec![] };
    let mut ids: Vec<u32> = (0..places.len() as u32).collect();
    let sizes = input.divide(&mut ids);
    let mut all = ids.clone();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..places.len() as u32), "each once");
    (sizes, ids.iter().map(|&i| places[i as usize]).collect())
}

/// So many in a cube of edge 1 at x, that look random.
fn cloud(x: f32, n: usize) -> impl Iterator<Item = [f32; 3]> {
    let part = |k: usize, by: f32| ((k + 1) as f32 * by).fract();
    (0..n).map(move |k| [x + part(k, 0.618_034), part(k, 0.754_878), part(k, 0.569_84)])
}

/// Four clouds of different number, apart: each is a child.
#[test]
fn clusters_that_are_there_are_kept() {
    let places: Vec<_> =
        [(0.0, 10), (20.0, 40), (40.0, 20), (60.0, 30)].into_iter().flat_map(|(x, n)| cloud(x, n)).collect();
    let (mut sizes, order) = divided(&places, Split::NeuralGas);
    let mut start = 0;
    for n in sizes {
        let child = &order[start..start + n];
        assert!(child.iter().all(|p| (p[0] - child[0][0]).abs() < 2.0), "{child:?}");
        start += n;
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [10, 20, 30, 40]);
    // Medians tear them.
    assert_eq!(divided(&places, Split::Median).0, [25; WIDTH]);
}

/// All in one place: one cluster would have them all, and the tree no end.
#[test]
fn an_empty_cluster_is_repaired() {
    for n in [5, 50, 4096] {
        let (sizes, _) = divided(&vec![[1.0, 2.0, 3.0]; n], Split::NeuralGas);
        assert!(sizes.iter().all(|&s| s > 0 && s <= n.div_ceil(2)), "{sizes:?}");
    }
}

/// Ninety-seven in a heap and three far off, each a cluster of its own: a level of the tree would be spent on three spheres.
#[test]
fn a_lopsided_division_is_repaired() {
    let far = [[8.0, 0.0, 0.0], [0.0, 8.0, 0.0], [0.0, 0.0, 8.0]];
    let places: Vec<_> = cloud(0.0, 97).chain(far).collect();
    let (sizes, _) = divided(&places, Split::NeuralGas);
    assert_eq!(sizes, [25; WIDTH]);
    // With three quarters in the largest it stays as it is.
    let spread = [[90.0, 0.0, 0.0], [0.0, 90.0, 0.0], [0.0, 0.0, 90.0]].into_iter();
    let places: Vec<_> = cloud(0.0, 75)
        .chain(spread.flat_map(|p| cloud(0.0, 9).map(move |q| [p[0] + q[0], p[1] + q[1], p[2] + q[2]])))
        .collect();
    let (mut sizes, _) = divided(&places, Split::NeuralGas);
    sizes.sort_unstable();
    assert_eq!(sizes, [9, 9, 9, 75]);
}
