use super::*;
use crate::geometry::import::{Format, ImportOptions, import_with, read};
use crate::geometry::{Point, TriMesh, Vec3, shapes};
use rand::{RngExt, SeedableRng};

/// Says stop at the k-th look, and counts them.
struct Kth {
    k: u64,
    looks: AtomicU64,
    seen: std::sync::Mutex<Vec<u64>>,
}

impl Kth {
    fn new(k: u64) -> Self {
        Self { k, looks: AtomicU64::new(0), seen: std::sync::Mutex::default() }
    }
}

impl Progress for Kth {
    fn step(&self, done: u64, total: u64) {
        assert!(done <= total && total == WHOLE);
        let mut seen = self.seen.lock().unwrap();
        if seen.last() != Some(&done) {
            seen.push(done);
        }
    }

    fn cancelled(&self) -> bool {
        self.looks.fetch_add(1, Relaxed) + 1 >= self.k
    }
}

fn of_triangles(corners: impl IntoIterator<Item = [Point; 3]>) -> TriMesh {
    let vertices: Vec<Point> = corners.into_iter().flatten().collect();
    let triangles = (0..vertices.len() as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect();
    TriMesh { vertices, triangles }
}

fn soup(count: usize) -> TriMesh {
    let mut rng = rand_pcg::Pcg32::seed_from_u64(9);
    let mut point = || Point::from(Vec3::from_fn(|_, _| rng.random_range(0.0..1.0)));
    of_triangles((0..count).map(|_| [point(), point(), point()]))
}

/// Triangles about one edge.
fn fan(count: usize) -> TriMesh {
    let (a, b) = (Point::origin(), Point::new(0.0, 0.0, 1.0));
    of_triangles((0..count).map(|i| {
        let angle = std::f64::consts::TAU * i as f64 / count as f64;
        [a, b, Point::new(angle.cos(), angle.sin(), 0.5)]
    }))
}

/// Needles about one edge: their middle corners lie on it.
fn needles(count: usize) -> TriMesh {
    let (a, b) = (Point::origin(), Point::new(0.0, 0.0, 1.0));
    let needle = |i| [a, b, Point::new(0.0, 0.0, (f64::from(i) + 1.0) / (f64::from(i) + 3.0))];
    let mut all = of_triangles((0..count as u32).map(needle));
    all.vertices.extend(shapes::cuboid(Vec3::new(1.0, 1.0, 1.0)).vertices);
    let base = 3 * count as u32;
    all.triangles.extend(shapes::cuboid(Vec3::repeat(1.0)).triangles.iter().map(|t| t.map(|i| i + base)));
    all
}

/// Balls in one another, each wound like its neighbour.
fn onion(count: u32) -> TriMesh {
    let ball = |i| {
        let mesh = shapes::icosphere(0.01 * f64::from(i + 1), 0);
        (0..mesh.triangles.len()).map(|t| mesh.corners(t)).collect::<Vec<_>>()
    };
    of_triangles((0..count).flat_map(ball))
}

fn work(mesh: &TriMesh) -> u64 {
    let watch = Watch::silent();
    let options = ImportOptions::in_unit(1.0);
    read(&shapes::write_stl(mesh), Format::Stl, &options, &watch).expect("imports");
    watch.work()
}

/// What no mesh of that size may exceed; it grows with the triangles, not with what they have to do with one another.
#[test]
fn work_is_bounded_whatever_the_mesh() {
    for (name, mesh) in [("soup", soup(20_000)), ("fan", fan(20_000)), ("needles", needles(20_000))] {
        let done = work(&mesh);
        assert!(done < 80_000_000, "{name}: {done}");
    }
    let done = work(&onion(1500));
    assert!(done < 80_000_000, "onion: {done}");
}

/// A sound mesh takes little of what is allowed.
#[test]
fn a_sound_mesh_is_far_from_the_bounds() {
    let mesh = shapes::torus(0.06, 0.02, 200, 100);
    let done = work(&mesh);
    assert!(done < 100 * mesh.triangles.len() as u64, "{done}");
}

#[test]
fn an_import_ends_at_whichever_look_it_is_cancelled() {
    let mut part = soup(500);
    for mesh in [shapes::torus(0.06, 0.02, 60, 30), shapes::hollow_sphere(0.05, 0.03, 2)] {
        let base = part.vertices.len() as u32;
        part.vertices.extend(&mesh.vertices);
        part.triangles.extend(mesh.triangles.iter().map(|t| t.map(|i| i + base)));
    }
    let stl = shapes::write_stl(&part);
    let options = ImportOptions { weld_tolerance: 1e-6, solid_levels: 3, ..ImportOptions::in_unit(1.0) };
    let all = Kth::new(u64::MAX);
    let import = |progress: &Kth| import_with("part.stl", &stl, Format::Stl, &options, progress);
    import(&all).expect("imports");
    let looks = all.looks.load(Relaxed);
    assert!(looks > 100, "{looks}");
    let seen = all.seen.lock().unwrap();
    assert!(seen.iter().any(|d| *d > Stage::Measure as u64), "{seen:?}");
    for k in (1..25).chain((1..10).map(|i| looks * i / 10)).chain([looks]) {
        let one = Kth::new(k);
        let e = import(&one).expect_err("cancelled");
        assert!(e.cancelled && e.to_string().ends_with("the import was cancelled"), "{k}: {e}");
        // Other threads may have looked at the same time.
        let after = one.looks.load(Relaxed) - k;
        assert!(after <= 64, "{k}: {after} looks after it was told to stop");
    }
}

/// Each stage by itself looks.
#[test]
fn every_stage_looks() {
    use crate::geometry::import::{nesting, orient, repair, topology::EdgeUses, weld};
    let stop = Kth::new(1);
    let watch = Watch::new(&stop);
    let mut mesh = soup(50);
    let triangles = mesh.triangles.clone();
    assert_eq!(weld::exact(&mesh.vertices.clone(), triangles, &watch).err(), Some(Stopped));
    assert_eq!(weld::within(&mut mesh.clone(), 1e-3, &watch), Err(Stopped));
    assert_eq!(weld::cracks(&mut mesh.clone(), 1e-3, &watch), Err(Stopped));
    assert_eq!(repair::find(&mesh, &watch).err(), Some(Stopped));
    assert_eq!(repair::duplicates(&mut mesh, &watch), Err(Stopped));
    assert_eq!(repair::degenerate(&mut needles(5), &watch), Err(Stopped));
    let uses = EdgeUses::new(&mesh.triangles);
    assert_eq!(orient::flood(&mut mesh, &uses, &watch).err(), Some(Stopped));
    let mut flood = orient::flood(&mut mesh, &uses, &Watch::silent()).unwrap();
    assert_eq!(nesting::orient(&mut mesh, &mut flood, &uses, &watch), Err(Stopped));
}

#[test]
fn progress_never_goes_back_within_a_part() {
    let kth = Kth::new(u64::MAX);
    let watch = Watch::new(&kth);
    watch.enter(Stage::Measure).unwrap();
    for part in [3, 9, 4, 512, 700] {
        watch.measured(part, 512);
        watch.look().unwrap();
    }
    let seen = kth.seen.lock().unwrap();
    assert!(seen.is_sorted() && *seen.last().unwrap() == WHOLE, "{seen:?}");
}
