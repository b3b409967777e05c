//! Batch neural gas with magnification control: splits a set of weighted points into four clusters.
//!
//! Per epoch each datum ranks the prototypes by distance; prototype i moves to the mean of all data weighted by
//! exp(-rank / lambda) and by the datum's own weight (its volume: the magnification), lambda falling from half the
//! number of prototypes to 0.01 (Cottrell et al. 2006; Hammer et al. 2006, as Weller & Zachmann 2009 use it).

use super::WIDTH;
use crate::geometry::{Point, Vec3};

const EPOCHS: usize = 24;
const LAMBDA_START: f64 = WIDTH as f64 / 2.0;
const LAMBDA_END: f64 = 0.01;
/// Large sets are clustered by a fixed stride of their members; the rest is assigned afterwards.
const SAMPLE: usize = 4096;

/// Cluster of each datum, 0..4. Deterministic: the prototypes start on the principal box, not at random.
pub(super) fn clusters(data: &[(Point, f64)]) -> Vec<u8> {
    let stride = data.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<(Point, f64)> = data.iter().step_by(stride).copied().collect();
    let mut protos = seeds(&sample);
    for epoch in 0..EPOCHS {
        let t = epoch as f64 / (EPOCHS - 1) as f64;
        let lambda = LAMBDA_START * (LAMBDA_END / LAMBDA_START).powf(t);
        let h: [f64; WIDTH] = std::array::from_fn(|k| (-(k as f64) / lambda).exp());
        let mut sum = [Vec3::zeros(); WIDTH];
        let mut mass = [0.0; WIDTH];
        for (p, m) in &sample {
            let order = ranks(p, &protos);
            for (k, &i) in order.iter().enumerate() {
                sum[i] += p.coords * (m * h[k]);
                mass[i] += m * h[k];
            }
        }
        for i in 0..WIDTH {
            if mass[i] > 0.0 {
                protos[i] = Point::from(sum[i] / mass[i]);
            }
        }
    }
    data.iter().map(|(p, _)| ranks(p, &protos)[0] as u8).collect()
}

/// Prototype indices by distance from `p`, nearest first; ties by index.
fn ranks(p: &Point, protos: &[Point; WIDTH]) -> [usize; WIDTH] {
    let d: [f64; WIDTH] = std::array::from_fn(|i| (protos[i] - p).norm_squared());
    let mut order: [usize; WIDTH] = std::array::from_fn(|i| i);
    order.sort_by(|&a, &b| d[a].total_cmp(&d[b]));
    order
}

/// Four starting points: a tetrahedron inside the data's box, so that no two coincide.
fn seeds(data: &[(Point, f64)]) -> [Point; WIDTH] {
    let mut lo = Vec3::repeat(f64::INFINITY);
    let mut hi = -lo;
    for (p, _) in data {
        lo = lo.inf(&p.coords);
        hi = hi.sup(&p.coords);
    }
    let (mid, half) = ((lo + hi) / 2.0, (hi - lo) / 4.0);
    let corner = |x: f64, y: f64, z: f64| Point::from(mid + half.component_mul(&Vec3::new(x, y, z)));
    [corner(1.0, 1.0, 1.0), corner(1.0, -1.0, -1.0), corner(-1.0, 1.0, -1.0), corner(-1.0, -1.0, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_clouds_are_found() {
        let centres = [(0.0, 0.0, 0.0), (10.0, 0.0, 0.0), (0.0, 10.0, 0.0), (0.0, 0.0, 10.0)];
        let mut data = Vec::new();
        for (x, y, z) in centres {
            for k in 0..27 {
                let o = |d: i32| 0.3 * f64::from(k / d % 3);
                data.push((Point::new(x + o(1), y + o(3), z + o(9)), 1.0));
            }
        }
        let c = clusters(&data);
        for cloud in c.chunks(27) {
            assert!(cloud.iter().all(|i| *i == cloud[0]), "a cloud was torn: {cloud:?}");
        }
        let mut firsts: Vec<u8> = c.chunks(27).map(|cloud| cloud[0]).collect();
        firsts.sort_unstable();
        assert_eq!(firsts, [0, 1, 2, 3]);
    }

    /// Places in a cube of edge `side` at x, that look random.
    fn cloud(x: f64, side: f64, n: u32) -> impl Iterator<Item = Point> {
        let part = move |k: u32, by: f64| (f64::from(k + 1) * by).fract() * side;
        (0..n).map(move |k| Point::new(x + part(k, 0.618_034), part(k, 0.754_878), part(k, 0.569_840)))
    }

    /// The volume decides where clusters go, not the number of spheres: four hundred crumbs get one, three blocks one each. Were all as
    /// large, the crumbs would be divided.
    #[test]
    fn clusters_go_where_the_volume_is() {
        let crumbs: Vec<Point> = cloud(0.0, 1.0, 400).collect();
        let blocks = [Point::new(8.0, 0.0, 0.0), Point::new(9.0, 0.5, 0.0), Point::new(8.5, 0.0, 1.0)];
        let with = |crumb: f64| {
            let small = crumbs.iter().map(|p| (*p, crumb));
            let of = clusters(&small.chain(blocks.map(|p| (p, 1.0))).collect::<Vec<_>>());
            let (small, large) = of.split_at(crumbs.len());
            let kinds = |of: &[u8]| {
                let mut all = of.to_vec();
                all.sort_unstable();
                all.dedup();
                all.len()
            };
            (kinds(small), kinds(large))
        };
        assert_eq!(with(1e-6), (1, 3));
        assert_eq!(with(1.0), (3, 1));
    }

    /// A weight of three is three of them in one place.
    #[test]
    fn a_weight_counts_as_so_many() {
        let weighted: Vec<(Point, f64)> =
            cloud(0.0, 1.0, 300).zip(0..).map(|(p, k)| (p, 1.0 + f64::from(k * k % 7))).collect();
        let times = |(p, m): &(Point, f64)| std::iter::repeat_n((*p, 1.0), *m as usize);
        let repeated: Vec<(Point, f64)> = weighted.iter().flat_map(times).collect();
        assert!(repeated.len() > 900 && repeated.len() < SAMPLE);
        let (one, many) = (clusters(&weighted), clusters(&repeated));
        let mut at = 0;
        for (of, (_, m)) in one.iter().zip(&weighted) {
            assert_eq!(*of, many[at]);
            at += *m as usize;
        }
        // Which it would not be if each counted once.
        let flat: Vec<(Point, f64)> = weighted.iter().map(|(p, _)| (*p, 1.0)).collect();
        assert_ne!(one, clusters(&flat));
    }

    #[test]
    fn coincident_data_is_no_trouble() {
        let data = vec![(Point::new(1.0, 2.0, 3.0), 1.0); 50];
        assert_eq!(clusters(&data).len(), 50);
    }
}
