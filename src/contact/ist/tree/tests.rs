//! The hierarchy's promises: every cell once, inside every ball above it, volumes adding up.

use super::*;
use crate::contact::ist::{IstParams, SphereTree};
use crate::geometry::field::build::Silent;
use crate::geometry::mass::mass_properties;
use crate::geometry::{Point, TriMesh, Vec3, shapes};

/// Cubes of the cells below a slot, checked against the balls in `above`; returns the volume.
fn walk(
    tree: &SphereTree,
    at: u32,
    above: &mut Vec<(Point, f64)>,
    seen: &mut [u8],
    boxed: &mut usize,
) -> f64 {
    let node = tree.nodes[at as usize];
    let mut sum = 0.0;
    for i in 0..WIDTH {
        let child = node.child(i);
        if child == Child::Empty {
            continue;
        }
        let centre = tree.origin + Vec3::new(node.x[i].into(), node.y[i].into(), node.z[i].into());
        above.push((centre, f64::from(node.r[i])));
        assert!(node.spread[i] > 0.0 && node.spread[i] <= node.r[i]);
        let below = match child {
            Child::Node(n) => {
                assert!(n > at, "children come after their parents");
                walk(tree, n, above, seen, boxed)
            }
            Child::Group(first, count) => {
                assert!(count as usize <= GROUP);
                let start = first as usize * LANES;
                (start..start + count as usize).map(|c| cell(tree, c, above, seen)).sum()
            }
            Child::Box => {
                let edges = node.sides(i).map(f64::from);
                assert!(edges.iter().all(|e| *e <= f64::from(BLOCK_EDGE)));
                let (middle, half) = node.bounds(i, tree.cell as f32);
                let half = half.map(f64::from);
                let (centre, r) = above[above.len() - 1];
                *boxed += edges.iter().product::<f64>().round() as usize;
                for (ball, radius) in above.iter() {
                    for corner in 0..8 {
                        let off = Vec3::from_fn(|a, _| {
                            (f64::from(corner >> a & 1) * 2.0 - 1.0) * half[a] + f64::from(middle[a])
                        });
                        let away = (centre + off - ball).norm();
                        assert!(
                            away <= radius * (1.0 + 1e-6),
                            "a box pokes out of a ball: {away} {radius} {r}"
                        );
                    }
                }
                8.0 * half.iter().product::<f64>()
            }
            Child::Empty => 0.0,
        };
        above.pop();
        // Cells store their fraction in 65,535 steps.
        let steps = tree.cell.powi(3) / 65_535.0 * seen.len() as f64;
        assert!((below - f64::from(node.volume[i])).abs() < steps, "{below} {}", node.volume[i]);
        sum += below;
    }
    sum
}

fn cell(tree: &SphereTree, c: usize, above: &[(Point, f64)], seen: &mut [u8]) -> f64 {
    seen[c] += 1;
    let block = &tree.cells.blocks[c / LANES];
    let at = block.at.map(|axis| f64::from(axis[c % LANES]) / f64::from(tree.cells.steps()));
    let cube = Vec3::from(at.map(f64::round));
    for (centre, r) in above {
        for corner in 0..8 {
            let off = Vec3::from_fn(|a, _| f64::from(corner >> a & 1) - 0.5);
            let p = tree.origin + (cube + off) * tree.cell;
            assert!((p - centre).norm() <= *r, "cell {c} pokes out of a ball of radius {r}");
        }
    }
    match block.fraction[c % LANES] {
        FULL => tree.cell.powi(3),
        q => (f64::from(q) + 0.5) / 65_535.0 * tree.cell.powi(3),
    }
}

fn check(mesh: &TriMesh, spheres: u32, split: Split) -> SphereTree {
    let tree = SphereTree::build(mesh, &IstParams { split, ..IstParams::spheres(spheres) }, &Silent)
        .expect("builds");
    let mut seen = vec![0; tree.cells.blocks.len() * LANES];
    let mut boxed = 0;
    walk(&tree, 0, &mut Vec::new(), &mut seen, &mut boxed);
    assert_eq!(boxed + tree.cells.len, tree.cell_count(), "{split:?}");
    assert!(split == Split::Boxes || boxed == 0);
    assert!(seen.iter().all(|n| *n <= 1), "a cell is there twice");
    assert_eq!(seen.iter().filter(|n| **n == 1).count(), tree.cells.len, "a cell is missing");
    let roots: f64 = tree.nodes[0].volume.iter().map(|v| f64::from(*v)).sum();
    assert!((roots / mass_properties(mesh).volume - 1.0).abs() < 1e-6);
    tree
}

#[test]
fn every_cell_once_and_inside() {
    for split in [Split::Boxes, Split::NeuralGas, Split::Median] {
        let tree = check(&shapes::torus(0.06, 0.02, 64, 32), 3000, split);
        assert!(tree.spheres > 2000 && tree.depth() < 24, "{} {}", tree.spheres, tree.depth());
    }
}

#[test]
fn degenerate_bodies() {
    // One sphere; a very thin plate; a needle; two cubes that touch in a face.
    check(&shapes::icosphere(0.01, 2), 1, Split::Boxes);
    check(&shapes::cuboid(Vec3::new(0.1, 0.1, 0.001)), 2000, Split::Boxes);
    check(&shapes::cuboid(Vec3::new(0.1, 0.001, 0.001)), 50, Split::Boxes);
    let mut cubes = shapes::cuboid(Vec3::repeat(0.02));
    let n = cubes.vertices.len() as u32;
    let (v, t) = (cubes.vertices.clone(), cubes.triangles.clone());
    cubes.vertices.extend(v.iter().map(|p| p + Vec3::new(0.02, 0.0, 0.0)));
    cubes.triangles.extend(t.iter().map(|t| t.map(|i| i + n)));
    check(&cubes, 500, Split::Boxes);
}

#[test]
fn thread_count_changes_nothing() {
    let mesh = shapes::torus(0.06, 0.02, 48, 24);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        pool.install(|| SphereTree::build(&mesh, &IstParams::spheres(2000), &Silent).expect("builds"))
    };
    let (one, four) = (run(1), run(4));
    assert!(one.nodes == four.nodes && one.cells == four.cells);
}
