//! Flat layers of many triangles.

use hapticd::geometry::{Point, TriMesh};

/// A single layer of `n` x `n` squares in the plane z = 0, `width` m wide.
pub fn dense(n: u32, width: f64) -> TriMesh {
    let at = |i: u32| width * (f64::from(i) / f64::from(n) - 0.5);
    let corner = |k: u32| Point::new(at(k % (n + 1)), at(k / (n + 1)), 0.0);
    let square = |k: u32| {
        let a = k / n * (n + 1) + k % n;
        [[a, a + 1, a + n + 2], [a, a + n + 2, a + n + 1]]
    };
    TriMesh {
        vertices: (0..(n + 1) * (n + 1)).map(corner).collect(),
        triangles: (0..n * n).flat_map(square).collect(),
    }
}

/// Two such layers that meet in an edge.
pub fn edge() -> TriMesh {
    let floor = dense(60, 0.04);
    let mut both = floor.clone();
    let count = both.vertices.len() as u32;
    both.vertices.iter_mut().for_each(|v| v.x += 0.02);
    both.vertices.extend(floor.vertices.iter().map(|v| Point::new(0.0, v.y, v.x + 0.02)));
    both.triangles.extend(floor.triangles.iter().map(|t| t.map(|v| v + count)));
    both
}
