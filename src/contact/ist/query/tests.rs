//! The walk through the hierarchy against one over all cells, and the instruction sets against each other.

use super::bound::{beyond_slope, cut, within};
use super::boxes::held;
use super::frame::Frame;
use super::kernel::smooth;
use super::nodes::cap;
use super::volume::traverse;
use crate::contact::ist::tree::FULL;
use crate::contact::ist::{IstParams, SphereTree};
use crate::geometry::field::Field;
use crate::geometry::field::build::{FieldParams, Resolution, Silent, build};
use crate::geometry::lanes::{Constants, F, dot, load};
use crate::geometry::simd::{LANES, Simd, SimdLevel, dispatch};
use crate::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::{Translation3, UnitQuaternion};
use proptest::prelude::*;

/// Volume and force (per pressure gradient) of all cells, one by one and in f64: the ramp of each cell as the kernel
/// has it, without hierarchy, balls or lanes.
fn brute(tree: &SphereTree, field: &Field, pose: &Pose) -> (f64, Vec3) {
    let steps = f64::from(tree.cells.steps());
    let (mut volume, mut force, mut left) = (0.0, Vec3::zeros(), tree.cells.len);
    let mut stack = vec![0u32];
    while let Some(node) = stack.pop() {
        for i in 0..super::tree::WIDTH {
            let parent = &tree.nodes[node as usize];
            let (first, count) = match parent.child(i) {
                super::tree::Child::Empty => continue,
                super::tree::Child::Node(n) => {
                    stack.push(n);
                    continue;
                }
                super::tree::Child::Group(first, count) => (first as usize, count as usize),
                super::tree::Child::Box => {
                    let centre = Vec3::new(parent.x[i].into(), parent.y[i].into(), parent.z[i].into());
                    let centre = tree.origin.coords + centre;
                    let sides = parent.sides(i).map(u32::from);
                    for c in 0..sides.iter().product() {
                        let at = [c % sides[0], c / sides[0] % sides[1], c / (sides[0] * sides[1])];
                        let off = Vec3::from_fn(|a, _| f64::from(at[a]) + 0.5 - 0.5 * f64::from(sides[a]));
                        let (v, f) = solid_cell(tree, field, pose, &(centre + off * tree.cell));
                        volume += v;
                        force -= f;
                    }
                    continue;
                }
            };
            left -= count;
            for c in 0..count {
                let block = &tree.cells.blocks[first + c / LANES];
                let q = Vec3::from(block.at.map(|axis| f64::from(axis[c % LANES]) / steps));
                let offset = q.map(|x| x - (x + 0.5).floor());
                let fraction = match block.fraction[c % LANES] {
                    FULL => 1.0,
                    f => (f64::from(f) + 0.5) / 65_535.0,
                };
                let (depth, g) = field.depth_gradient(&(pose * (tree.origin + q * tree.cell)));
                let turned = pose.rotation.inverse() * g;
                let thick = turned.component_mul(&offset.map(|o| 1.0 - 2.0 * o.abs()));
                let variance = (thick.norm_squared() / g.norm_squared().max(1e-12)).max(1e-6);
                let half = variance.sqrt() * 0.5 * tree.cell;
                let v = fraction * tree.cell.powi(3) * (0.5 + 0.5 * depth / half).clamp(0.0, 1.0);
                volume += v;
                force -= g * v;
            }
        }
    }
    assert_eq!(left, 0, "every cell belongs to one group");
    (volume, force)
}

/// Volume and its product with the gradient of a cell that is solid throughout.
fn solid_cell(tree: &SphereTree, field: &Field, pose: &Pose, centre: &Vec3) -> (f64, Vec3) {
    let (depth, g) = field.depth_gradient(&(pose * nalgebra::Point3::from(*centre)));
    let v = tree.cell.powi(3) * (0.5 + depth / tree.cell).clamp(0.0, 1.0);
    (v, g * v)
}

fn shape(kind: u8, size: [f64; 3]) -> TriMesh {
    match kind {
        0 => shapes::cuboid(Vec3::from(size)),
        1 => shapes::torus(0.5 * size[0], 0.2 * size[1], 32, 16),
        2 => shapes::cylinder(0.5 * size[0], size[1], 32),
        _ => shapes::icosphere(0.5 * size[0], 3),
    }
}

/// What one plane for a box of one cell t may be off of a shape, m^3: along an edge of 90 degrees at most t^2/16 a metre (the
/// triangle between the edge and the plane that halves it), over a surface of curvature c at most the rise of its arc over the box,
/// c t^2/8. Second order in t; cells thinner than the shape's own features see little of them.
fn planes(kind: u8, size: [f64; 3], cell: f64) -> f64 {
    use std::f64::consts::PI;
    let (edges, curved) = match kind {
        0 => (4.0 * size.iter().sum::<f64>(), 0.0),
        // 4 pi^2 R r, curved by 1/r.
        1 => (0.0, 2.0 * PI * PI * size[0]),
        // Two rims, and pi d h curved by 2/d.
        2 => (2.0 * PI * size[0], 2.0 * PI * size[1]),
        _ => (0.0, 2.0 * PI * size[0]),
    };
    cell * cell * (edges / 16.0 + curved / 8.0)
}

fn solid_field(mesh: &TriMesh, cells: u32) -> Field {
    let params = FieldParams { resolution: Resolution::Longest(cells), padding: 6 };
    build(mesh, &params, &Silent).expect("builds").0
}

proptest! {
    // The same cases in every run: of 1,510 random ones one put the force 25 % off, beside a ridge of the depth deep in a block.
    #![proptest_config(ProptestConfig {
        cases: 48,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2009),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_hierarchy_adds_up_all_cells(
        kinds in (0u8..4, 0u8..4),
        sizes in prop::array::uniform2(prop::array::uniform3(0.02f64..0.06)),
        spheres in 1u32..3000,
        cells in 16u32..40,
        shift in prop::array::uniform3(-0.02f64..0.02),
        turn in prop::array::uniform3(-2.0f64..2.0),
    ) {
        let tree = SphereTree::build(&shape(kinds.0, sizes[0]), &IstParams::spheres(spheres), &Silent);
        let Ok(tree) = tree else { return Ok(()) };
        let field = solid_field(&shape(kinds.1, sizes[1]), cells);
        let pose = Pose::from_parts(
            Translation3::from(Vec3::from(shift)),
            UnitQuaternion::from_scaled_axis(Vec3::from(turn)),
        );
        let frame = Frame::new(&tree, &field, &pose, &Twist::ZERO).expect("a sound field");
        let found = traverse(&tree, &frame, 0, None);
        let (volume, force) = brute(&tree, &field, &pose);
        let got = found.sums.total(super::sums::VOLUME);
        // What balls prove to be in or out is not read from the field, whose values near edges are off by part of a
        // cell of its own.
        let cell = tree.cell.powi(3);
        let slack = 0.01 * volume + 0.5 * cell + 0.02 * field.cell * volume.powf(2.0 / 3.0)
            + planes(kinds.1, sizes[1], tree.cell);
        prop_assert!((got - volume).abs() <= slack, "{} cells instead of {}", got / cell, volume / cell);
        // Where one normal stands for a node, ridges of the depth are smoothed over.
        let pushed = Vec3::from_fn(|i, _| found.sums.total(super::sums::FORCE + i));
        prop_assert!((pushed - force).norm() <= 0.15 * volume + slack, "{pushed:?} instead of {force:?}");
        let lower = found.sums.lower + found.sums.total(super::sums::LOWER);
        let upper = found.sums.upper + found.sums.total(super::sums::UPPER);
        prop_assert!(lower <= volume + slack && upper >= volume - slack, "{lower} {volume} {upper}");
    }
}

/// Sixteen reals of either sign, spread over magnitudes.
fn lanes(seed: &mut u64) -> F {
    std::array::from_fn(|_| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        unit * [1e-3, 0.3, 3.0, 100.0][(*seed >> 36) as usize & 3]
    })
}

/// A hash of what the kernels answer on `blocks` times sixteen inputs.
fn hash_body<S: Simd>(simd: S, blocks: u32) -> u64 {
    let k = Constants(simd);
    let (mut seed, mut hash) = (7, 0xcbf2_9ce4_8422_2325u64);
    for _ in 0..blocks {
        let p = [lanes(&mut seed), lanes(&mut seed), lanes(&mut seed)];
        let o = [lanes(&mut seed), lanes(&mut seed), lanes(&mut seed)].map(|o| o.map(|x| 0.5 * x.sin()));
        let reach = k.of(0.9);
        let ball = [p[0][0] + 3.0, p[1][1], -p[2][2], p[0][3].abs()];
        let (near, least) = within(simd, load(simd, &p), reach, &ball);
        let (part, slope) = cap(simd, k.at(&p[0]), k.of(0.7));
        let unit = {
            let n = load(simd, &o);
            let long = dot(n, n).sqrt().max(k.of(1e-3));
            [n[0] / long, n[1] / long, n[2] / long]
        };
        let (beyond, area) = beyond_slope(simd, unit, k.at(&p[1]), 0.0);
        let sides =
            [k.at(&o[0]).abs() + k.of(0.1), k.at(&o[1]).abs() + k.of(0.1), k.at(&o[2]).abs() + k.of(0.1)];
        let answers = [
            beyond,
            area,
            held(simd, load(simd, &p), sides, k.at(&p[2]).abs(), 1.0),
            near,
            least,
            cut(simd, load(simd, &p), load(simd, &o), reach, k.at(&p[2]).abs(), 1.0),
            cut(simd, load(simd, &p), load(simd, &o), reach, k.at(&p[2]).abs(), -1.0),
            part,
            slope,
            smooth(simd, k.at(&p[1])),
        ];
        for x in answers.into_iter().flat_map(crate::geometry::lanes::Lanes::store) {
            assert!(x.is_finite());
            hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Fractions by the kernel: of boxes held by a ball, and of those beyond a plane.
fn fractions_body<S: Simd>(simd: S, way: &[F; 3], half: &[F; 3], radius: &F) -> [F; 3] {
    let k = Constants(simd);
    let (w, h, r) = (load(simd, way), load(simd, half), k.at(radius));
    let n = [w[0] * h[0], w[1] * h[1], w[2] * h[2]];
    let long = dot(n, n).sqrt();
    let offset = (dot(w, w).sqrt() - r) * dot(w, w).sqrt() / (long + long);
    let (part, slope) = beyond_slope(simd, [n[0] / long, n[1] / long, n[2] / long], offset, 0.0);
    [held(simd, w, h, r, 0.01).store(), part.store(), (slope / (long + long)).store()]
}

/// Against counting points of the box, which no formula of the kernel has part in.
#[test]
fn parts_of_boxes_in_balls_and_beyond_planes() {
    const N: i32 = 40;
    let mut seed = 11;
    let (mut tight, mut boxes) = (0.0, 0);
    for round in 0..30 {
        let half: [F; 3] = [lanes(&mut seed), lanes(&mut seed), lanes(&mut seed)]
            .map(|l| l.map(|x| [1.0, 2.0, 0.5][(x.to_bits() >> 13) as usize % 3]));
        let away = [3.0, 6.0, 20.0][round % 3];
        let mut way: [F; 3] = [lanes(&mut seed), lanes(&mut seed), lanes(&mut seed)].map(|l| l.map(f32::sin));
        let mut radius = lanes(&mut seed);
        for i in 0..LANES {
            let length = (way[0][i].powi(2) + way[1][i].powi(2) + way[2][i].powi(2)).sqrt().max(0.1);
            way.iter_mut().for_each(|w| w[i] *= away / length);
            radius[i] = away + 1.5 * radius[i].sin();
        }
        let [inside, beyond, slope] = fractions_body(crate::geometry::simd::Scalar, &way, &half, &radius);
        for i in 0..LANES {
            let w = Vec3::from(way.map(|w| f64::from(w[i])));
            let d = w.norm();
            let (mut ball, mut plane, mut moved) = (0, 0, 0);
            for c in 0..N.pow(3) {
                let at = [c % N, c / N % N, c / (N * N)];
                let y = Vec3::from_fn(|a, _| {
                    (2.0 * (f64::from(at[a]) + 0.5) / f64::from(N) - 1.0) * f64::from(half[a][i])
                });
                ball += i32::from((y - w).norm() <= f64::from(radius[i]));
                let along = y.dot(&w) / d - (d - f64::from(radius[i]));
                plane += i32::from(along >= 0.0);
                moved += i32::from(along >= -0.05);
            }
            let count = f64::from(N.pow(3));
            let [ball, plane, moved] = [ball, plane, moved].map(|n| f64::from(n) / count);
            // Counting is good to a fraction of a layer of points.
            assert!(f64::from(inside[i]) <= ball + 0.02, "{} of {ball} in the ball", inside[i]);
            assert!((f64::from(beyond[i]) - plane).abs() < 0.03, "{} of {plane} beyond", beyond[i]);
            let grown = f64::from(beyond[i]) + 0.025 * (d * f64::from(slope[i])) * 2.0;
            assert!((grown - moved).abs() < 0.06, "{grown} instead of {moved}");
            if away > 10.0 {
                tight += ball - f64::from(inside[i]);
                boxes += 1;
            }
        }
    }
    // A ball of radius 20 bends by up to t^2 / 2 D = 0.3 over boxes of sides 1 to 4.
    assert!(
        tight / f64::from(boxes) < 0.08,
        "far balls prove nearly all of what they hold: {tight} of {boxes}"
    );
}

#[test]
fn a_million_inputs_give_the_same_bits_on_every_instruction_set() {
    let blocks = 62_500u32;
    let want = hash_body(crate::geometry::simd::Scalar, blocks);
    for level in SimdLevel::ALL {
        if !level.available() {
            println!("{level}: not on this CPU, skipped");
            continue;
        }
        let got = dispatch!(level, hash_body(blocks: u32) -> u64);
        assert_eq!(got, want, "{level}");
    }
}

#[test]
fn degenerate_trees_answer() {
    // One sphere; two equal ones; a plate as thin as a cell; two cubes that touch in a face.
    let mut cubes = shapes::cuboid(Vec3::repeat(0.02));
    let n = cubes.vertices.len() as u32;
    let (v, t) = (cubes.vertices.clone(), cubes.triangles.clone());
    cubes.vertices.extend(v.iter().map(|p| p + Vec3::new(0.02, 0.0, 0.0)));
    cubes.triangles.extend(t.iter().map(|t| t.map(|i| i + n)));
    let field = solid_field(&shapes::cuboid(Vec3::repeat(0.06)), 40);
    for (mesh, spheres, inside) in [
        (shapes::icosphere(0.01, 3), 1, 0.5),
        (shapes::cuboid(Vec3::new(0.02, 0.01, 0.01)), 2, 0.5),
        (shapes::cuboid(Vec3::new(0.04, 0.04, 0.0005)), 2000, 0.5),
        (cubes, 500, 0.5),
    ] {
        let tree = SphereTree::build(&mesh, &IstParams::spheres(spheres), &Silent).expect("builds");
        // The face of the big cube cuts the body in half.
        let pose = Pose::from_parts(Translation3::new(-0.01, 0.0, 0.03), UnitQuaternion::identity());
        let frame = Frame::new(&tree, &field, &pose, &Twist::ZERO).expect("a sound field");
        let found = traverse(&tree, &frame, 0, None);
        let volume = found.sums.total(super::sums::VOLUME) / tree.volume;
        assert!((volume - inside).abs() < 0.08, "{spheres} spheres: {volume} of the body");
        let lower = found.sums.lower + found.sums.total(super::sums::LOWER);
        let upper = found.sums.upper + found.sums.total(super::sums::UPPER);
        let half = inside * tree.volume;
        assert!(lower <= half * 1.001 && upper >= half * 0.999, "{lower} {half} {upper}");
        assert!(found.complete && found.work > 0);
    }
}
