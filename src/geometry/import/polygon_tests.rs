use super::super::ImportOptions;
use super::super::soup::Place;
use super::*;
use proptest::prelude::*;

fn soup_of(points: &[[f64; 3]]) -> Soup<'static> {
    let watch = Box::leak(Box::new(Watch::silent()));
    let mut soup = Soup::new(&ImportOptions::in_unit(1.0), watch);
    for p in points {
        soup.vertex(*p, Place::Mesh).unwrap();
    }
    (0..points.len() as u32).for_each(|i| soup.corner(i));
    soup.face(Place::Mesh).unwrap();
    soup
}

fn cut(soup: &Soup<'_>) -> (Vec<[u32; 3]>, usize) {
    triangulate(soup, &Watch::silent()).unwrap()
}

/// Sum of |triangle areas| and of their normals' lengths along the polygon's normal: equal when nothing folds over.
fn check(points: &[[f64; 3]], area: f64) {
    let soup = soup_of(points);
    let (triangles, crossing) = cut(&soup);
    assert_eq!(crossing, 0, "{points:?}");
    assert_eq!(triangles.len(), points.len() - 2, "every corner must stay: {points:?}");
    let mut sum = Vec3::zeros();
    let mut total = 0.0;
    for t in &triangles {
        let [a, b, c] = t.map(|i| Vec3::from(points[i as usize]));
        let n = (b - a).cross(&(c - a)) / 2.0;
        sum += n;
        total += n.norm();
    }
    assert!((total - area).abs() <= 1e-12 * area, "{total} instead of {area}: {points:?}");
    assert!((sum.norm() - area).abs() <= 1e-12 * area, "triangles fold over: {points:?}");
    // Each side of the outline is a side of exactly one triangle, in its direction.
    let n = points.len() as u32;
    for i in 0..n {
        let uses = triangles.iter().flat_map(|t| [[t[0], t[1]], [t[1], t[2]], [t[2], t[0]]]);
        assert_eq!(uses.filter(|e| *e == [i, (i + 1) % n]).count(), 1);
    }
}

fn flat(points: &[[f64; 2]]) -> Vec<[f64; 3]> {
    points.iter().map(|p| [p[0], p[1], 0.0]).collect()
}

#[test]
fn arrow_head_and_comb_keep_their_area() {
    check(&flat(&[[0., 0.], [2., 0.], [1., 0.5], [1., 2.]]), 1.25);
    let mut comb = vec![[0.0, 0.0], [9.0, 0.0]];
    for k in (0..9).rev() {
        comb.extend([[k as f64 + 0.75, 3.0], [k as f64 + 0.5, 0.25]]);
    }
    comb.push([0.0, 3.0]);
    // Nine notches; the shoelace formula on paper: reference by the trapezoids of the outline.
    let area =
        comb.iter().zip(comb.iter().cycle().skip(1)).map(|(a, b)| (a[0] * b[1] - b[0] * a[1]) / 2.0).sum();
    check(&flat(&comb), area);
}

#[test]
fn corners_in_straight_sides_stay() {
    // The grid strip of tinyobjloader issue 295: polygons whose sides have extra corners.
    check(&flat(&[[0., 0.], [1., 0.], [2., 0.], [2., 1.], [1., 1.], [0., 1.]]), 2.0);
    check(&flat(&[[0., 0.], [1., 0.], [2., 0.], [3., 0.], [0., 3.]]), 4.5);
}

#[test]
fn any_plane_and_either_direction() {
    let l = [[0., 0.], [3., 0.], [3., 1.], [1., 1.], [1., 3.], [0., 3.]];
    for (ax, ay) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)] {
        let points: Vec<_> = l
            .iter()
            .map(|p| {
                let mut q = [5.0, -7.0, 11.0];
                q[ax] = p[0];
                q[ay] = p[1];
                q
            })
            .collect();
        check(&points, 5.0);
    }
    let tilted: Vec<_> = l.iter().map(|p| [p[0], p[1], 2.0 * p[0] - p[1]]).collect();
    check(&tilted, 5.0 * 6.0_f64.sqrt());
}

#[test]
fn bridged_hole_keeps_its_area() {
    // A square ring as one outline: the bridge is walked twice, corners 0 and 4 of each part coincide.
    let ring =
        [[0., 0.], [4., 0.], [4., 4.], [0., 4.], [0., 0.], [1., 1.], [1., 3.], [3., 3.], [3., 1.], [1., 1.]];
    let soup = soup_of(&flat(&ring));
    let (triangles, crossing) = cut(&soup);
    let area: f64 = triangles
        .iter()
        .map(|t| {
            let [a, b, c] = t.map(|i| Vec3::from(flat(&ring)[i as usize]));
            (b - a).cross(&(c - a)).z / 2.0
        })
        .sum();
    assert_eq!(crossing, 0);
    assert!((area - 12.0).abs() < 1e-12, "{area}");
}

#[test]
fn crossing_and_flat_outlines_are_reported_and_survive() {
    let (_, crossing) = cut(&soup_of(&flat(&[[0., 0.], [2., 2.], [2., 0.], [0., 1.]])));
    assert_eq!(crossing, 1);
    let (triangles, _) = cut(&soup_of(&flat(&[[0., 0.], [1., 1.], [2., 2.], [3., 3.]])));
    assert!(triangles.iter().flatten().all(|i| *i < 4));
    let (triangles, _) = cut(&soup_of(&flat(&[[1., 1.]; 5])));
    assert!(triangles.iter().flatten().all(|i| *i < 5));
}

#[test]
fn a_large_spiral_is_done_in_bounded_time() {
    let n = 2000;
    let arm = |k: usize, r: f64| {
        let a = k as f64 * 0.05;
        [(r + 0.1 * a) * a.cos(), (r + 0.1 * a) * a.sin()]
    };
    let mut outline: Vec<_> = (0..n).map(|k| arm(k, 1.3)).collect();
    outline.extend((0..n).rev().map(|k| arm(k, 1.0)));
    let area = outline
        .iter()
        .zip(outline.iter().cycle().skip(1))
        .map(|(a, b)| (a[0] * b[1] - b[0] * a[1]) / 2.0)
        .sum();
    check(&flat(&outline), area);
}

proptest! {
    #[test]
    fn star_outlines_keep_their_area(radii in prop::collection::vec(0.1..1.0_f64, 4..60), tilt in -3.0..3.0_f64) {
        let n = radii.len();
        let outline: Vec<_> = radii.iter().enumerate().map(|(i, r)| {
            let a = i as f64 / n as f64 * std::f64::consts::TAU;
            [r * a.cos(), r * a.sin()]
        }).collect();
        let area: f64 = outline.iter().zip(outline.iter().cycle().skip(1)).map(|(a, b)| (a[0] * b[1] - b[0] * a[1]) / 2.0).sum();
        let lifted: Vec<_> = outline.iter().map(|p| [p[0], p[1], tilt * p[0]]).collect();
        let soup = soup_of(&lifted);
        let (triangles, crossing) = cut(&soup);
        let total: f64 = triangles.iter().map(|t| {
            let [a, b, c] = t.map(|i| Vec3::from(lifted[i as usize]));
            (b - a).cross(&(c - a)).norm() / 2.0
        }).sum();
        let area = area * (1.0 + tilt * tilt).sqrt();
        prop_assert_eq!(crossing, 0);
        prop_assert!((total - area).abs() <= 1e-9 * area);
    }

    #[test]
    fn random_outlines_never_panic(points in prop::collection::vec((0..6_i8, 0..6_i8, 0..2_i8), 3..40)) {
        let points: Vec<_> = points.iter().map(|p| [f64::from(p.0), f64::from(p.1), f64::from(p.2)]).collect();
        let (triangles, _) = cut(&soup_of(&points));
        prop_assert!(triangles.iter().flatten().all(|i| (*i as usize) < points.len()));
    }
}
