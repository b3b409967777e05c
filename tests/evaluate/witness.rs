//! The points that are said to be closest, on recorded paths, against the exact ones and the meshes themselves.

use super::{built, shared};
use hapticd::contact::Budget;
use hapticd::geometry::Vec3;
use hapticd::geometry::bvh::Bvh;
use hapticd::geometry::{Point, Pose};

/// How many of a third of a path's poses apart have the file's pair, and how many one as close, to a millionth of the size; every point lies on its mesh.
fn follow(path: &'static str, how: &[&str], off: f64) -> Option<[f64; 2]> {
    let (mut recorded, pair) = built(path, how)?;
    recorded.poses = recorded.poses.into_iter().step_by(3).collect();
    let models = [shared()?.join("models")];
    let [fixed, moving] = [&recorded.header.fixed, &recorded.header.moving]
        .map(|body| Bvh::build(&body.load(&models).expect("is there")));
    let mut told = Vec::new();
    pair.follow(&recorded, Budget::UNLIMITED.units, |_, points| told.push(points));
    let (mut apart, mut same, mut as_close) = (0.0, 0.0, 0.0);
    for ((pose, truth), told) in recorded.poses.iter().zip(told) {
        let (Some(d), Some(exact)) = (truth.distance.filter(|d| *d > 0.0), truth.closest) else { continue };
        let told = told.unwrap_or_else(|| panic!("{path}: apart by {d} m, and no points"));
        let on = |bvh: &Bvh, of: &Pose, p: Vec3| {
            bvh.closest(&of.inverse_transform_point(&Point::from(p))).distance
        };
        for (body, away) in
            [("static", on(&fixed, &Pose::identity(), told[0])), ("moving", on(&moving, pose, told[1]))]
        {
            assert!(away <= off, "{path}: {away} m off the {body} body, apart by {d}");
        }
        let small = 1e-6 * pair.size;
        apart += 1.0;
        same += f64::from(u8::from((0..2).all(|i| (told[i] - exact[i]).norm() <= small)));
        as_close += f64::from(u8::from(((told[0] - told[1]).norm() - d).abs() <= small));
    }
    println!("{path} {how:?}: of {apart} poses apart {same} have the file's pair, {as_close} one as close");
    assert!(apart > 0.0, "{path} is never apart");
    Some([same / apart, as_close / apart])
}

/// What is asked of distances (the file's pair is one of several where faces or edges are parallel).
#[test]
fn they_are_the_exact_ones() {
    let how = ["--method", "ist", "--spheres", "20000"];
    for path in ["bunny_bunny_approach", "screwdriver_screwdriver_approach"] {
        let Some([same, as_close]) = follow(path, &how, 1e-9) else { return };
        assert!(same >= 0.95 && as_close >= 0.95, "{path}: {same}, {as_close}");
    }
}
