//! Sides that are kept change nothing where the field pushes back the way the tool came.

use super::manifold::with;
use super::*;

/// Tools that wander over and through thick bodies, and slide off them: the same bits with the side kept and without.
#[test]
fn in_thick_bodies_a_kept_side_changes_no_bit() {
    let tools = [
        shell(&shapes::cuboid(Vec3::new(0.012, 0.008, 0.01)), 700),
        shell(&shapes::icosphere(0.006, 4), 500),
    ];
    let (mut touched, mut fast) = (0, 0);
    for (k, tool) in tools.iter().enumerate() {
        for (n, object) in [round(), floor()].iter().enumerate() {
            let mut kept = QueryState::following();
            let mut plain = QueryState::default();
            for step in 0..600u32 {
                // A Lissajous way over the body's surface, up to 6 mm deep and 10 mm off, some steps of several cells.
                let t = f64::from(step) * if step % 100 < 90 { 2e-3 } else { 2e-3 + 1e-5 * f64::from(step) };
                let s = |f: f64| (t * f + k as f64).sin();
                let turn = UnitQuaternion::from_scaled_axis(Vec3::new(s(3.0), s(2.3), s(1.7)));
                let height = 0.002 + 0.008 * s(41.0);
                let place = match n {
                    0 => Vec3::new(0.4 * s(5.0), 0.4 * s(7.0), 1.0).normalize() * (0.03 + height),
                    _ => Vec3::new(0.04 * s(5.0), 0.04 * s(7.0), height),
                };
                let pose = Pose::from_parts(place.into(), turn);
                let [a, b] = [&mut kept, &mut plain]
                    .map(|state| with(tool, &pose, object, |q| query(q, Budget::UNLIMITED, state)));
                assert_eq!(a.wrench, b.wrench, "tool {k}, object {n}, step {step}");
                assert_eq!((a.stiffness, a.depth, a.touching), (b.stiffness, b.depth, b.touching));
                touched += u32::from(a.touching);
                fast += u32::from(a.work > b.work);
            }
        }
    }
    // Otherwise it says nothing.
    assert!(touched > 1000 && fast > 20, "{touched} touches, {fast} swept ways");
}

/// Off by default: a question about a pose alone has no way, whatever was asked before.
#[test]
fn without_a_way_every_pose_stands_alone() {
    let half = 1e-4;
    let sheet =
        Field::from_fn(Point::new(-0.006, -0.006, -0.0015), 1e-4, [121, 121, 31], |p| half - p.z.abs());
    let sheet = ObjectShape::Field(Arc::new(sheet));
    let radius = 2e-4;
    let tool = shell(&shapes::icosphere(radius, 4), 400);
    let ask = |state: &mut QueryState, z: f64| {
        with(&tool, &at(0.0, 0.0, z), &sheet, |q| query(q, Budget::UNLIMITED, state))
    };
    let mut plain = QueryState::default();
    let mut kept = QueryState::following();
    for z in [0.001, 0.0004] {
        assert!(!ask(&mut plain, z).touching && !ask(&mut kept, z).touching);
    }
    assert!(!ask(&mut plain, -0.0005).touching && !plain.kept.holds());
    let held = ask(&mut kept, -0.0005);
    assert!(held.touching && kept.kept.holds());
    // A spring from the upper surface on, at the point that was lowest.
    let deep = 0.0005 + half + radius;
    assert!((held.wrench.force.z - MATERIAL.stiffness * deep).abs() < 0.05 * MATERIAL.stiffness * deep);
    assert!((held.depth - deep).abs() < 0.05 * deep);
    // Set elsewhere, then asked again: nothing is held; the same after forgetting, which leaves the keeping on.
    kept.kept.interrupt();
    assert!(!ask(&mut kept, -0.0005).touching);
    kept.forget();
    ask(&mut kept, 0.0005);
    assert!(ask(&mut kept, -0.0005).touching);
}

/// Whenever the deadline passes, and in whatever part of the query: what is cut short for it says so, and not that the budget was too small.
#[test]
fn whatever_the_deadline_cuts_short_says_so() {
    struct After(Cell<u32>);
    impl Deadline for After {
        fn passed(&self) -> bool {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            left == 0
        }
    }
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.02)), 5000);
    let object = floor();
    let (mut cut, mut whole) = (0, 0);
    for looks in 0..400 {
        let mut state = QueryState::following();
        let above = with(&tool, &at(0.0, 0.0, 0.012), &object, |q| query(q, Budget::UNLIMITED, &mut state));
        assert!(above.complete && !above.touching);
        let clock = After(Cell::new(looks));
        let budget = Budget { units: 0, deadline: Some(&clock) };
        let c = with(&tool, &at(0.0, 0.0, 0.0095), &object, |q| query(q, budget, &mut state));
        assert!(c.complete != c.deadline_hit, "after {looks} looks: {} {}", c.complete, c.deadline_hit);
        cut += u32::from(c.deadline_hit);
        whole += u32::from(c.complete);
    }
    assert!(cut > 2 && whole > 2, "{cut} {whole}");
}
