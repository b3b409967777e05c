//! The overlap of two convex bodies, exactly: its volume, and what a pressure that grows with the depth does on it.
//!
//! A convex body is cut by the planes of another one face after face. Inside a convex body the nearest place of the surface lies on
//! the face whose plane is nearest, so the parts of the overlap that belong to each face are convex as well.

use hapticd::geometry::{Point, Pose, TriMesh, Vec3};

/// A half-space: the places x with normal . x <= offset.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    pub normal: Vec3,
    pub offset: f64,
}

/// A convex body by its faces, each a convex polygon that turns anticlockwise as seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Convex {
    faces: Vec<Vec<Point>>,
}

impl Convex {
    pub fn of(mesh: &TriMesh, pose: &Pose) -> Self {
        let face = |t: usize| mesh.corners(t).map(|p| pose * p).to_vec();
        Self { faces: (0..mesh.triangles.len()).map(face).collect() }
    }

    /// The planes of the faces, each once.
    pub fn planes(&self) -> Vec<Plane> {
        let mut planes: Vec<Plane> = Vec::new();
        for f in &self.faces {
            let normal = (f[1] - f[0]).cross(&(f[2] - f[0])).normalize();
            let plane = Plane { normal, offset: normal.dot(&f[0].coords) };
            if planes
                .iter()
                .all(|p| (p.normal - normal).norm() > 1e-9 || (p.offset - plane.offset).abs() > 1e-12)
            {
                planes.push(plane);
            }
        }
        planes
    }

    /// What of it lies in the half-space.
    pub fn cut(&self, plane: &Plane) -> Self {
        let height = |p: &Point| plane.normal.dot(&p.coords) - plane.offset;
        let (mut faces, mut rim, mut lid) = (Vec::new(), Vec::new(), true);
        for face in &self.faces {
            // A face in the plane itself is the lid already.
            lid &= !face.iter().all(|p| height(p).abs() < 1e-12);
            let mut kept = Vec::new();
            for (a, b) in face.iter().zip(face.iter().cycle().skip(1)) {
                let (h, g) = (height(a), height(b));
                if h <= 0.0 {
                    kept.push(*a);
                }
                if (h < 0.0 && g > 0.0) || (h > 0.0 && g < 0.0) {
                    let at = a + (b - a) * (h / (h - g));
                    kept.push(at);
                    rim.push(at);
                } else if h == 0.0 {
                    rim.push(*a);
                }
            }
            if kept.len() >= 3 {
                faces.push(kept);
            }
        }
        // The lid: the places on the plane, turned about its normal.
        if lid && rim.len() >= 3 && !faces.is_empty() {
            let middle = rim.iter().fold(Vec3::zeros(), |m, p| m + p.coords) / rim.len() as f64;
            let u = plane
                .normal
                .cross(&if plane.normal.x.abs() < 0.6 { Vec3::x() } else { Vec3::y() })
                .normalize();
            let v = plane.normal.cross(&u);
            let angle = |p: &Point| (p.coords - middle).dot(&v).atan2((p.coords - middle).dot(&u));
            rim.sort_by(|p, q| angle(p).total_cmp(&angle(q)));
            faces.push(rim);
        }
        Self { faces }
    }

    /// Volume, and its product with the centroid.
    pub fn moments(&self) -> (f64, Vec3) {
        let Some(o) = self.faces.first().map(|f| f[0]) else { return (0.0, Vec3::zeros()) };
        let (mut volume, mut first) = (0.0, Vec3::zeros());
        for f in &self.faces {
            for pair in f[1..].windows(2) {
                let v = (f[0] - o).dot(&(pair[0] - o).cross(&(pair[1] - o))) / 6.0;
                volume += v;
                first += v * (o.coords + f[0].coords + pair[0].coords + pair[1].coords) / 4.0;
            }
        }
        (volume, first)
    }
}

/// What one convex body does to another that overlaps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Truth {
    pub volume: f64,
    /// Integral over the overlap of the direction out of the object, m^3, and of its moment about a place, m^4.
    pub push: Vec3,
    pub moment: Vec3,
}

/// The overlap of `tool` and `object`, pushed out of the object; moments about `centre`.
pub fn overlap(tool: &Convex, object: &Convex, centre: &Vec3) -> Truth {
    let planes = object.planes();
    let both = planes.iter().fold(tool.clone(), |left, plane| left.cut(plane));
    let mut truth = Truth { volume: both.moments().0, ..Truth::default() };
    for (i, p) in planes.iter().enumerate() {
        // Nearer to this plane than to the others: p.offset - p.normal . x <= q.offset - q.normal . x.
        let part = planes.iter().enumerate().filter(|(j, _)| *j != i).fold(both.clone(), |left, (_, q)| {
            left.cut(&Plane { normal: q.normal - p.normal, offset: q.offset - p.offset })
        });
        let (volume, first) = part.moments();
        truth.push += p.normal * volume;
        truth.moment += (first - centre * volume).cross(&p.normal);
    }
    truth
}

/// The length of the object's edges within the tool, or no farther than `reach` from it.
pub fn edges_within(object: &Convex, tool: &Convex, reach: f64) -> f64 {
    let planes = tool.planes();
    let flat = object.planes();
    let mut length = 0.0;
    for (i, p) in flat.iter().enumerate() {
        for q in &flat[i + 1..] {
            // The line where both planes meet, cut by all others and by the tool's.
            let along = p.normal.cross(&q.normal);
            if along.norm() < 1e-6 {
                continue;
            }
            let (c, n2) = (p.normal.dot(&q.normal), along.norm_squared());
            let at = (p.normal * (p.offset - q.offset * c) + q.normal * (q.offset - p.offset * c)) / n2;
            let way = along.normalize();
            let (mut from, mut to) = (f64::NEG_INFINITY, f64::INFINITY);
            let grown = planes.iter().map(|t| Plane { offset: t.offset + reach, ..*t });
            for r in flat.iter().copied().map(|f| Plane { offset: f.offset + 1e-12, ..f }).chain(grown) {
                let (slope, room) = (r.normal.dot(&way), r.offset - r.normal.dot(&at));
                if slope.abs() < 1e-12 {
                    if room < 0.0 {
                        (from, to) = (0.0, 0.0);
                    }
                } else if slope > 0.0 {
                    to = to.min(room / slope);
                } else {
                    from = from.max(room / slope);
                }
            }
            length += (to - from).max(0.0);
        }
    }
    length
}

#[test]
fn boxes_and_their_edges_are_cut_as_they_should_be() {
    use hapticd::geometry::shapes;
    let cube = |size: f64, x: f64, y: f64, z: f64| {
        Convex::of(&shapes::cuboid(Vec3::repeat(size)), &Pose::translation(x, y, z))
    };
    // A cube of 2 about the origin, one of 1 with a quarter of it in.
    let (object, tool) = (cube(2.0, 0.0, 0.0, 0.0), cube(1.0, 0.0, 0.0, 1.25));
    let t = overlap(&tool, &object, &Vec3::zeros());
    assert!((t.volume - 0.25).abs() < 1e-12 && (t.push - Vec3::new(0.0, 0.0, 0.25)).norm() < 1e-12, "{t:?}");
    assert!(t.moment.norm() < 1e-12 && edges_within(&object, &tool, 0.0) < 1e-9, "{t:?}");
    // At an edge: half of the square pushes along x, half along z; moments about the tool's centre cancel by symmetry.
    let tool = cube(1.0, 1.0, 0.0, 1.0);
    let t = overlap(&tool, &object, &Vec3::new(1.0, 0.0, 1.0));
    assert!((t.volume - 0.25).abs() < 1e-12, "{t:?}");
    assert!((t.push - Vec3::new(0.125, 0.0, 0.125)).norm() < 1e-12 && t.moment.norm() < 1e-12, "{t:?}");
    // Seen from a place a twelfth below, (0, 0, 1/12) x push more.
    let t = overlap(&tool, &object, &Vec3::new(1.0, 0.0, 1.0 - 1.0 / 12.0));
    assert!((t.moment - Vec3::new(0.0, 0.125 / 12.0, 0.0)).norm() < 1e-12, "{t:?}");
    assert!((edges_within(&object, &tool, 0.0) - 1.0).abs() < 1e-9);
    // All of it: every face pushes alike, six pyramids.
    let t = overlap(&object, &object, &Vec3::zeros());
    assert!((t.volume - 8.0).abs() < 1e-9 && t.push.norm() < 1e-9, "{t:?}");
    assert!((edges_within(&object, &object, 0.1) - 24.0).abs() < 1e-6);
}
