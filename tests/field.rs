//! The signed distance field against closed forms, a scan over all triangles, and its own promises on every shared mesh.

mod meshes;

use hapticd::geometry::field::build::{
    FieldError, FieldParams, FieldReport, Progress, Resolution, Silent, build,
};
use hapticd::geometry::field::{Field, FloatMap, LayerMap};
use hapticd::geometry::winding::{self, Winding};
use hapticd::geometry::{Point, TriMesh, Vec3, bvh, shapes};
use std::sync::atomic::{AtomicU64, Ordering};

fn longest(n: u32) -> FieldParams {
    FieldParams { resolution: Resolution::Longest(n), ..FieldParams::default() }
}

fn built(mesh: &TriMesh, n: u32) -> (Field, FieldReport) {
    build(mesh, &longest(n), &Silent).unwrap()
}

/// Every node: index, position, depth.
fn nodes(f: &Field) -> impl Iterator<Item = ([u32; 3], Point, f64)> + '_ {
    let [nx, ny, _] = f.dims;
    (0..f.nodes() as u32).map(move |n| {
        let at = [n % nx, n / nx % ny, n / (nx * ny)];
        let p = f.origin + Vec3::from(at.map(f64::from)) * f.cell;
        (at, p, f.node(at))
    })
}

fn on_border(f: &Field, at: [u32; 3]) -> bool {
    (0..3).any(|a| at[a] == 0 || at[a] + 1 == f.dims[a])
}

/// Neighbouring nodes differ by at most the cell and the quantisation (half a count at each end); the border is outside.
fn assert_continuous(name: &str, f: &Field, report: &FieldReport) {
    let scale = f64::from(f.scale);
    // The counts' own rounding, and twice the rounding of single-precision distances, which is all of `node_error`
    // beyond half a count where every node is held.
    let bound = f.cell + scale + 2.0 * (report.node_error - 0.5 * scale);
    let held = report.node_error - report.coarse_error;
    assert!(held < 0.003 * f.cell, "{name}: node error {} cells", held / f.cell);
    assert!(report.coarse_error < 0.1 * f.cell, "{name}: coarse error {}", report.coarse_error / f.cell);
    for (at, p, d) in nodes(f) {
        for axis in 0..3 {
            if at[axis] + 1 < f.dims[axis] {
                let mut next = at;
                next[axis] += 1;
                let e = f.node(next);
                assert!(
                    (d - e).abs() <= bound,
                    "{name}: {d} and {e} m at {p} along axis {axis}: {} cells apart",
                    (d - e).abs() / f.cell
                );
            }
        }
        assert!(!on_border(f, at) || d <= 0.0, "{name}: inside at the border {p}");
    }
}

/// Compares every `step`-th node with `truth` (depth, m).
fn assert_depths(name: &str, f: &Field, step: usize, tolerance: f64, truth: impl Fn(&Point) -> f64) {
    for (_, p, d) in nodes(f).step_by(step) {
        let want = truth(&p);
        assert!((d - want).abs() <= tolerance, "{name}: {d} instead of {want} m at {p}");
    }
}

/// Numbers in 0..1 that look random: the `n`-th of case `k`.
fn random(k: u32, n: u32) -> f64 {
    f64::from(k.wrapping_mul(7919).wrapping_add(n * 104_729).wrapping_mul(2_654_435_761) >> 8)
        / f64::from(1 << 24)
}

#[test]
fn box_sphere_and_torus_have_their_closed_forms() {
    let size = Vec3::new(0.1, 0.06, 0.04);
    let (f, report) = built(&shapes::cuboid(size), 50);
    assert_depths("box", &f, 1, report.node_error, |p| {
        let q = p.coords.abs() - size / 2.0;
        -(q.sup(&Vec3::zeros()).norm() + q.max().min(0.0))
    });
    assert_continuous("box", &f, &report);

    // Facets of the inscribed polyhedra lie up to the sagitta inside the true surfaces.
    let (f, report) = built(&shapes::icosphere(0.05, 5), 48);
    let edge = 0.05 * 2.0 * (std::f64::consts::PI / 5.0) / 2f64.powi(5);
    let sagitta = edge * edge / (8.0 * 0.05) * 2.0;
    assert_depths("sphere", &f, 1, report.node_error + sagitta, |p| 0.05 - p.coords.norm());
    assert_continuous("sphere", &f, &report);

    let (f, report) = built(&shapes::torus(0.06, 0.02, 200, 80), 48);
    let turn = |n: f64| 1.0 - (std::f64::consts::PI / n).cos();
    let sagitta = 0.08 * turn(200.0) + 0.02 * turn(80.0);
    assert_depths("torus", &f, 1, report.node_error + sagitta, |p| 0.02 - (p.x.hypot(p.y) - 0.06).hypot(p.z));
    assert_continuous("torus", &f, &report);

    // Large enough for bricks: coarse away from the surface, within the stated error everywhere.
    let params = FieldParams { resolution: Resolution::Longest(64), padding: 28 };
    let (f, report) = build(&shapes::icosphere(0.05, 5), &params, &Silent).unwrap();
    let sagitta = edge * edge / (8.0 * 0.05) * 2.0;
    assert!(f.bytes() < 2 * f.nodes() && report.coarse_error > 0.0, "no bricks: {report:?}");
    assert_depths("ball in bricks", &f, 1, report.node_error + sagitta, |p| 0.05 - p.coords.norm());
    assert_continuous("ball in bricks", &f, &report);
    let near = report.node_error - report.coarse_error + sagitta;
    for (_, p, d) in nodes(&f) {
        let want = 0.05 - p.coords.norm();
        assert!(want.abs() > 3.0 * f.cell || (d - want).abs() <= near, "{d} instead of {want} m at {p}");
    }
}

#[test]
fn an_unclosed_box_has_the_field_of_the_closed_one() {
    // In the plane of a flat hole the winding number is exactly one half, so the cap is the missing face.
    let closed = shapes::cuboid(Vec3::new(0.1, 0.08, 0.06));
    let mut open = closed.clone();
    open.triangles.retain(|t| t.iter().any(|&v| open.vertices[v as usize].z < 0.0));
    assert_eq!(open.triangles.len(), 10, "one face is gone");
    for cells in [40, 37, 53] {
        let (want, _) = built(&closed, cells);
        let (got, report) = built(&open, cells);
        assert_eq!(got.dims, want.dims);
        // The cap's border is known to half a cell.
        let rim = 2.0 * (0.1 + 0.08) * 0.5 * got.cell;
        assert!((report.capped_area - 0.1 * 0.08).abs() < rim, "cap of {} m^2", report.capped_area);
        assert_continuous("open box", &got, &report);
        let mut worst = (0.0, 0.0, 0.0, Point::origin());
        for ((_, p, a), (_, _, b)) in nodes(&got).zip(nodes(&want)) {
            if (a - b).abs() > worst.0 {
                worst = ((a - b).abs(), a, b, p);
            }
        }
        let (difference, a, b, p) = worst;
        eprintln!("open box: worst difference {:.4} cells", difference / got.cell);
        assert!(difference <= 0.1 * got.cell, "{a} instead of {b} m at {p}");
    }
}

#[test]
fn holes_of_the_bunny_are_capped() {
    let (Some(open), Some(filled)) = (meshes::shared("bunny.ply"), meshes::shared("bunny_filled.ply")) else {
        return;
    };
    let area = |m: &TriMesh| {
        (0..m.triangles.len())
            .map(|t| m.corners(t))
            .map(|[a, b, c]| 0.5 * (b - a).cross(&(c - a)).norm())
            .sum::<f64>()
    };
    let (f, report) = built(&open, 64);
    assert_continuous("bunny", &f, &report);
    let holes = area(&filled) - area(&open);
    eprintln!("bunny: holes {:.2} cm2, caps {:.2} cm2", holes * 1e4, report.capped_area * 1e4);
    assert!((0.85..1.15).contains(&(report.capped_area / holes)));
    // The filled bunny closes the holes by other surfaces, so only nodes near the holes may differ.
    let (g, _) = built(&filled, 64);
    assert_eq!(f.dims, g.dims);
    let differ = nodes(&f).zip(nodes(&g)).filter(|(a, b)| (a.2 - b.2).abs() > f.cell).count();
    assert!(differ < f.nodes() as usize / 500, "{differ} of {} nodes differ by a cell", f.nodes() as usize);
}

#[test]
fn every_shared_mesh_keeps_the_promises() {
    for (name, mesh) in meshes::all() {
        let (f, report) = built(&mesh, 32);
        assert_continuous(&name, &f, &report);
        // Magnitudes by a scan over all triangles on some nodes, wherever no cap was made.
        if report.capped_area == 0.0 {
            let step = f.nodes() as usize / 30 + 1;
            assert_depths(&name, &f, step, report.node_error, |p| {
                let scan = (0..mesh.triangles.len())
                    .map(|t| (p - bvh::closest_on_triangle(p, &mesh.corners(t))).norm())
                    .fold(f64::INFINITY, f64::min);
                if winding::exact(&mesh, p) > 0.5 { scan } else { -scan }
            });
        }
        // Signs node by node, where the tree's error cannot decide.
        let tree = Winding::build(&mesh);
        let mut asked = 0;
        for (at, p, d) in nodes(&f) {
            let w = tree.number(&p);
            if (w - 0.5).abs() > 0.005 && d != 0.0 && !on_border(&f, at) {
                assert_eq!(d > 0.0, w > 0.5, "{name}: depth {d} m where the winding number is {w}, at {p}");
                asked += 1;
            }
        }
        assert!(asked > f.nodes() as usize / 2);
        eprintln!(
            "{name}: {} nodes, {} winding numbers, cap {:.3e} m2, wall {:.2}, gap {:.2} cells",
            f.nodes() as usize,
            report.winding_tests,
            report.capped_area,
            report.thinnest_cells,
            report.narrowest_gap_cells
        );
        assert!(report.winding_tests < report.nodes, "{name}: nothing was flooded");
    }
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    let mut mesh = shapes::torus(0.06, 0.02, 60, 24);
    mesh.triangles.truncate(mesh.triangles.len() * 3 / 4);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| built(&mesh, 48))
    };
    let first = with(1);
    for threads in [2, 3, 8] {
        assert!(with(threads) == first, "{threads} threads");
    }
}

struct StopAfter(AtomicU64, u64);

impl Progress for StopAfter {
    fn step(&self, done: u64, total: u64) {
        assert!(done <= total);
    }
    fn cancelled(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= self.1
    }
}

#[test]
fn a_build_stops_wherever_it_is_cancelled() {
    let mut mesh = shapes::icosphere(0.05, 5);
    mesh.triangles.truncate(20_000);
    let count = StopAfter(AtomicU64::new(0), u64::MAX);
    build(&mesh, &longest(40), &count).unwrap();
    let asked = count.0.into_inner();
    assert!(asked > 300, "asked {asked} times");
    for at in [0, 1, 2, asked / 8, asked / 4, asked / 2, asked * 3 / 4, asked * 7 / 8] {
        let stop = StopAfter(AtomicU64::new(0), at);
        assert_eq!(
            build(&mesh, &longest(40), &stop).unwrap_err(),
            FieldError::Cancelled,
            "after {at} questions"
        );
    }
}

#[test]
fn resolution_padding_and_memory_are_as_asked() {
    let mesh = shapes::cuboid(Vec3::new(0.1, 0.05, 0.02));
    let (f, report) = built(&mesh, 100);
    assert!((f.cell - 1e-3).abs() < 1e-12);
    assert_eq!(f.dims, [109, 59, 29]);
    assert_eq!(report.bytes, 2 * 109 * 59 * 29);
    let (lo, hi) = mesh.bounds().unwrap();
    assert!((f.origin - (lo - Vec3::repeat(4e-3))).norm() < 1e-9, "{} for {lo}", f.origin);
    assert!(hi.x + 4e-3 <= f.origin.x + 108.0 * f.cell + 1e-9);

    let cap = FieldParams { resolution: Resolution::MemoryCap(300_000), padding: 3 };
    let (f, report) = build(&mesh, &cap, &Silent).unwrap();
    assert!(report.bytes <= 300_000 && report.bytes > 270_000, "{} bytes", report.bytes);
    let cells: f64 = f.dims.iter().map(|&n| f64::from(n - 1)).product();
    assert!(report.bytes as f64 / cells < 2.2);
    let given = FieldParams { resolution: Resolution::Cell(1.7e-3), padding: 2 };
    assert_eq!(build(&mesh, &given, &Silent).unwrap().0.cell, 1.7e-3);
}

#[test]
fn bad_requests_are_refused_with_a_reason() {
    let cube = shapes::cuboid(Vec3::repeat(0.1));
    let ask =
        |mesh: &TriMesh, resolution, padding| build(mesh, &FieldParams { resolution, padding }, &Silent);
    assert_eq!(ask(&TriMesh::default(), Resolution::Longest(10), 4).unwrap_err(), FieldError::Empty);
    assert!(matches!(ask(&cube, Resolution::Cell(1e-5), 4), Err(FieldError::TooLarge { .. })));
    for (resolution, padding) in [
        (Resolution::Longest(0), 4),
        (Resolution::Longest(10), 1),
        (Resolution::Longest(10), u32::MAX),
        (Resolution::Cell(0.0), 4),
        (Resolution::Cell(-1.0), 4),
        (Resolution::Cell(f64::NAN), 4),
        (Resolution::Cell(f64::INFINITY), 4),
        (Resolution::Cell(1e-300), 4),
    ] {
        let error = ask(&cube, resolution, padding).unwrap_err();
        assert!(matches!(error, FieldError::Parameter(_)), "{resolution:?} {padding}: {error}");
    }
    assert!(matches!(ask(&cube, Resolution::MemoryCap(100), 4), Err(FieldError::TooLarge { .. })));
    let mut broken = cube;
    broken.vertices[0].x = f64::NAN;
    assert!(matches!(ask(&broken, Resolution::Longest(10), 4), Err(FieldError::Parameter(_))));
}

#[test]
fn degenerate_meshes_give_a_field_or_an_error() {
    let soup = |corners: &[[f64; 3]]| TriMesh {
        vertices: corners.iter().map(|c| Point::from(*c)).collect(),
        triangles: (0..corners.len() as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
    };
    // One triangle, a needle without area, a flat sheet there and back.
    let one = soup(&[[0.0; 3], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0]]);
    let needle = soup(&[[0.0; 3], [0.1, 0.0, 0.0], [0.05, 0.0, 0.0]]);
    let sheet =
        soup(&[[0.0; 3], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0; 3], [0.0, 0.1, 0.0], [0.1, 0.0, 0.0]]);
    for (name, mesh) in [("triangle", &one), ("needle", &needle), ("sheet", &sheet)] {
        let (f, report) = built(mesh, 20);
        assert_continuous(name, &f, &report);
        let truth = |p: &Point| {
            let scan = (0..mesh.triangles.len())
                .map(|t| (p - bvh::closest_on_triangle(p, &mesh.corners(t))).norm())
                .fold(f64::INFINITY, f64::min);
            -scan
        };
        assert_depths(name, &f, 1, report.node_error, truth);
    }
    let dot = soup(&[[0.3; 3]; 3]);
    assert!(matches!(build(&dot, &longest(20), &Silent), Err(FieldError::Parameter(_))));
    let cell = FieldParams { resolution: Resolution::Cell(0.01), padding: 4 };
    let (f, report) = build(&dot, &cell, &Silent).unwrap();
    assert_depths("dot", &f, 1, report.node_error, |p| -(p - Point::from([0.3; 3])).norm());
}

#[test]
fn thin_walls_and_gaps_are_reported() {
    let of = |mesh: &TriMesh, n: u32| built(mesh, n).1;
    // A plate of 0.1 x 0.1 x 0.002 at 50 cells of 2 mm: one cell thick.
    let plate = shapes::cuboid(Vec3::new(0.1, 0.1, 0.002));
    let report = of(&plate, 50);
    assert!((report.thinnest_cells - 1.0).abs() < 0.01, "{}", report.thinnest_cells);
    assert_eq!(report.narrowest_gap_cells, f64::INFINITY);
    // A shell of 3 mm around a cavity, cells of 2.08 mm.
    let shell = of(&shapes::hollow_sphere(0.05, 0.047, 5), 48);
    assert!((shell.thinnest_cells - 3.0 / (100.0 / 48.0)).abs() < 0.05, "{}", shell.thinnest_cells);
    // Two plates 1 mm apart, cells of 2 mm.
    let mut pair = plate.clone();
    let above = plate.vertices.iter().map(|v| v + Vec3::new(0.0, 0.0, 0.003));
    pair.vertices.extend(above);
    pair.triangles.extend(plate.triangles.iter().map(|t| t.map(|v| v + 8)));
    assert!((of(&pair, 50).narrowest_gap_cells - 0.5).abs() < 0.01);
    // Solid things have neither; a wedge of 60 degrees is no wall although its tip is thin.
    let cube = of(&shapes::cuboid(Vec3::repeat(0.1)), 50);
    assert_eq!((cube.thinnest_cells, cube.narrowest_gap_cells), (f64::INFINITY, f64::INFINITY));
    let prism = of(&shapes::cylinder(0.05, 0.1, 3), 50);
    assert_eq!(prism.thinnest_cells, f64::INFINITY);
}

/// Tricubic: exact for quadratics, off by the cube of the cell where the depth is smooth, smooth where the trilinear one is not.
#[test]
fn the_smooth_reading_is_exact_for_quadratics_and_has_a_continuous_gradient() {
    let quadratic =
        |p: &Point| 0.3 * p.x - 0.2 * p.y + 0.01 + 4.0 * p.x * p.y - 3.0 * p.z * p.z + 2.0 * p.y * p.y;
    let slope = |p: &Point| Vec3::new(0.3 + 4.0 * p.y, -0.2 + 4.0 * p.x + 4.0 * p.y, -6.0 * p.z);
    let f = Field::from_fn(Point::new(-0.02, -0.02, -0.02), 0.002, [21, 21, 21], quadratic);
    let count = f64::from(f.scale);
    let place = |k: u32, reach: f64| {
        let r = |n: u32| random(k, n);
        Point::from(Vec3::new(r(1), r(2), r(3)) * 2.0 * reach - Vec3::repeat(reach))
    };
    for k in 0..500 {
        let p = place(k, 0.017);
        let (value, gradient) = f.cubic(&p);
        // Half a count at each of 64 nodes; weights sum to at most 1.25^3 in size.
        assert!((value - quadratic(&p)).abs() < count, "{p}: {value} {}", quadratic(&p));
        assert!((gradient - slope(&p)).norm() < 4.0 * count / f.cell, "{p}: {gradient} {}", slope(&p));
    }
    // Linear up to the border, beyond which it is the bound.
    let f = Field::from_fn(Point::new(-0.02, -0.02, -0.02), 0.002, [21, 21, 21], |p| 0.6 * p.x - 0.8 * p.z);
    for k in 0..200 {
        let p = place(k, 0.02);
        let (value, gradient) = f.cubic(&p);
        assert!((value - (0.6 * p.x - 0.8 * p.z)).abs() < 2.0 * f64::from(f.scale), "{p}");
        assert!((gradient - Vec3::new(0.6, 0.0, -0.8)).norm() < 8.0 * f64::from(f.scale) / f.cell, "{p}");
        let out = p + Vec3::new(0.05, 0.0, 0.0);
        assert_eq!(f.cubic(&out), f.depth_gradient(&out));
    }
    assert!(f.cubic(&Point::new(f64::NAN, 0.0, 0.0)).0.is_nan());
    // A ball's distance, cell by cell finer; the value's and the direction's largest errors near its surface.
    let radius = 0.03;
    let worst = |n: u32| {
        let cell = 0.08 / f64::from(n);
        let f =
            Field::from_fn(Point::new(-0.04, -0.04, -0.04), cell, [n + 1; 3], |p| radius - p.coords.norm());
        (0..2000).fold((0.0f64, 0.0f64, 0.0f64), |(cubic, turn, linear), k| {
            let p = Point::from(
                place(k, 1.0).coords.normalize() * (radius + 2.0 * cell * (f64::from(k % 21) / 10.0 - 1.0)),
            );
            let truth = radius - p.coords.norm();
            let (value, gradient) = f.cubic(&p);
            let angle = gradient.angle(&-p.coords);
            (cubic.max((value - truth).abs()), turn.max(angle), linear.max((f.depth(&p) - truth).abs()))
        })
    };
    let (coarse, fine) = (worst(20), worst(40));
    println!(
        "ball, cell 4 and 2 mm: tricubic off by {:.2e} and {:.2e} m, {:.2e} and {:.2e} rad, trilinear by {:.2e} and {:.2e} m",
        coarse.0, fine.0, coarse.1, fine.1, coarse.2, fine.2
    );
    assert!(fine.0 < coarse.0 / 6.0 && fine.1 < coarse.1 / 3.5, "{coarse:?} {fine:?}");
    assert!(fine.2 > coarse.2 / 5.0 && fine.0 < fine.2 / 5.0, "{coarse:?} {fine:?}");
    // Across cells: the gradient turns by as much as the ball does, where the trilinear one jumps.
    let f = Field::from_fn(Point::new(-0.04, -0.04, -0.04), 0.002, [41; 3], |p| radius - p.coords.norm());
    let step = 1e-6;
    let jump = |read: &dyn Fn(&Point) -> Vec3| {
        (0..20_000).fold(0.0f64, |worst, k| {
            let at = |k: u32| Point::new(-0.0101 + step * f64::from(k), 0.0203, 0.0187);
            worst.max((read(&at(k + 1)) - read(&at(k))).norm())
        })
    };
    let (smooth, rough) = (jump(&|p| f.cubic(p).1), jump(&|p| f.depth_gradient(p).1));
    // Curvature 1/r, and as much again and the counts' noise over a cell for the interpolation.
    assert!(smooth < step * (4.0 / radius + 8.0 * f64::from(f.scale) / f.cell.powi(2)), "{smooth}");
    assert!(rough > 20.0 * smooth, "{rough} {smooth}");
}

/// Every voxel of a grid.
fn voxels(dims: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..dims.iter().product()).map(move |n| [n % dims[0], n / dims[0] % dims[1], n / (dims[0] * dims[1])])
}

#[test]
fn layers_are_counted_from_the_voxels_that_triangles_touch() {
    // A cube whose faces lie within the fourth voxels from its middle: layers are what is left of the largest coordinate.
    let cube = shapes::cuboid(Vec3::repeat(0.017));
    let inside = |p: &Point| 0.0085 - p.coords.amax();
    let field = Field::from_fn(Point::new(-0.016, -0.016, -0.02), 0.002, [17, 17, 21], inside);
    let map = LayerMap::new(&cube, &field).unwrap();
    for at in voxels(map.dims) {
        let from = [0, 1, 2].map(|a| (i16::try_from(at[a]).unwrap() - [8, 8, 10][a]).abs());
        assert_eq!(map.layer(at), Some(4 - from.into_iter().max().unwrap()), "{at:?}");
    }
    assert_eq!(map.surface_voxels(), 9 * 9 * 9 - 7 * 7 * 7);
    assert_eq!((map.layer([17, 0, 0]), map.closest([0, 0, 21])), (None, None));
    assert_eq!(map.depth(&Point::new(0.0009, -0.0009, 0.0039)), Some(0.004));
    assert_eq!(map.depth(&Point::new(0.0, 0.0, 0.0211)), None);
    // Any shape: a voxel of layer n has a triangle within n voxels along the axes and none within n - 1.
    for mesh in [
        shapes::icosphere(0.02, 4),
        shapes::torus(0.02, 0.006, 48, 24),
        shapes::hollow_sphere(0.02, 0.015, 3),
    ] {
        let (field, report) = built(&mesh, 40);
        let (map, floats) = (LayerMap::new(&mesh, &field).unwrap(), FloatMap::new(&mesh, &field));
        let (mut surface, cell) = (0, field.cell);
        for at in voxels(map.dims) {
            let layer = map.layer(at).unwrap();
            let depth = floats.node(at).unwrap();
            assert!((depth - field.node(at)).abs() <= report.node_error + 1e-9, "{at:?}");
            let n = f64::from(layer.abs());
            let (least, most) = ((n - 0.5).max(0.0) * cell, 3f64.sqrt() * (n + 0.5) * cell);
            assert!(depth.abs() >= least - 1e-7 && depth.abs() <= most + 1e-7, "{at:?}: {layer} {depth}");
            assert!(layer == 0 || (layer > 0) == (depth > 0.0), "{at:?}: {layer} {depth}");
            let centre = field.origin + Vec3::from(at.map(f64::from)) * cell;
            match map.closest(at) {
                Some(p) => {
                    assert!(layer == 0 && ((p - centre).norm() - depth.abs()).abs() < 1e-7, "{at:?}");
                    surface += 1;
                }
                None => assert_ne!(layer, 0, "{at:?}"),
            }
            assert_eq!(map.voxel(&(centre + Vec3::repeat(0.49 * cell))), Some(at));
        }
        assert_eq!(surface, map.surface_voxels());
        // Few runs a row even where everything is round and near: less than the two bytes of an integer.
        let per_voxel = map.bytes() as f64 / field.nodes() as f64;
        println!("layers {per_voxel:.3} bytes a voxel, {surface} surface voxels");
        assert!(per_voxel < 1.5, "{per_voxel}");
        // Between nodes as the field's own reading.
        for k in 0..500u32 {
            let r = |n: u32| random(k, n);
            let p = Point::from(Vec3::new(r(1), r(2), r(3)) * 0.04 - Vec3::repeat(0.02));
            if let Some(depth) = floats.depth(&p) {
                assert!((depth - field.depth(&p)).abs() <= report.node_error + 1e-9, "{p}");
            }
        }
        assert_eq!(floats.depth(&Point::new(1.0, 0.0, 0.0)), None);
        assert_eq!(floats.bytes() as u64, 4 * field.nodes());
    }
}
