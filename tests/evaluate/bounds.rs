//! Sphere trees on recorded paths: the exact volume and distance of the file lie within the bounds at every budget, and more
//! budget never widens them.

use super::built;
use hapticd::cli::evaluate::Pair;
use hapticd::contact::Bounds;
use hapticd::geometry::Pose;
use rayon::prelude::*;

/// Work units from hardly any to all that there is to do.
const UNITS: [u32; 5] = [1, 500, 2000, 9000, 0];
/// What the order in which volumes are summed (in f32) can do to a bound, as a fraction of the upper one.
const ROUNDING: f64 = 8e-6;

/// What is wrong at one pose.
fn wrong(pair: &Pair, pose: &Pose, volume: f64, distance: f64) -> Vec<String> {
    let mut bad = Vec::new();
    let mut last: Option<Bounds> = None;
    for units in UNITS {
        let answer = pair.at(pose, units);
        let b = answer.volume_bounds.expect("both are solids");
        if !(b.lower <= volume && volume <= b.upper) {
            bad.push(format!("{units} units: a volume of {volume:e} outside {b:?}"));
        }
        if let Some(b) = answer.depth_bounds.filter(|_| distance > 0.0)
            && !(b.lower <= -distance && -distance <= b.upper)
        {
            bad.push(format!("{units} units: a distance of {distance:e} outside {b:?}"));
        }
        let slack = ROUNDING * b.upper;
        if let Some(l) = last
            && (b.lower < l.lower - slack || b.upper > l.upper + slack)
        {
            bad.push(format!("{units} units: {b:?} after {l:?}"));
        }
        last = Some(b);
    }
    bad
}

fn hold(name: &str, every: usize) {
    for spheres in ["3000", "20000"] {
        let Some((path, pair)) = built(name, &["--method", "ist", "--spheres", spheres]) else { return };
        let poses: Vec<_> = path.poses.iter().enumerate().step_by(every).collect();
        let bad: Vec<String> = poses
            .par_iter()
            .flat_map_iter(|(i, (pose, truth))| {
                let (v, d) = (truth.volume.expect("a volume"), truth.distance.expect("a distance"));
                wrong(&pair, pose, v, d).into_iter().map(move |w| format!("pose {i}, {w}"))
            })
            .collect();
        let overlaps = poses.iter().filter(|(_, (_, t))| t.volume > Some(0.0)).count();
        println!("{name}, {spheres} spheres: {} poses, {overlaps} of them overlap", poses.len());
        assert!(overlaps >= 20, "{name}: {overlaps}");
        assert!(bad.is_empty(), "{name}, {spheres} spheres: {} wrong\n{}", bad.len(), bad.join("\n"));
    }
}

#[test]
fn a_bunny_on_a_bunny() {
    hold("bunny_bunny_light", 20);
}

#[test]
fn a_torus_through_a_torus() {
    hold("torus_link", 20);
}

#[test]
fn a_keyed_pin_in_its_hole() {
    hold("pin_hole_keyed", 100);
}
