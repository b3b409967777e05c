//! The bouncing ball of the example against its closed forms.

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../../examples/bouncing_ball.rs"]
mod bouncing_ball;

use bouncing_ball::{Detector, FALL, GRAVITY, UNDONE, ball, bounce, first_impact, plane, top};

#[test]
fn the_steps_of_a_fall_follow_their_closed_form() {
    for (fall, dt) in [(1.0, 5e-3), (1.0, 1e-3), (0.3, 2e-3), (1.0 + 1e-9, 5e-3), (1e-6, 5e-3)] {
        let (mut z, mut v, mut n) = (fall, 0.0, 0);
        while z >= 0.0 {
            v -= GRAVITY * dt;
            z += v * dt;
            n += 1;
        }
        let (steps, inside, speed) = first_impact(fall, dt);
        assert_eq!(steps, n);
        assert!((inside + z).abs() < 1e-9 && (speed + v).abs() < 1e-9, "{fall} {dt}");
        // Never more than the way of a step, and the speed that of a free fall, within a step.
        assert!(inside > 0.0 && inside <= speed * dt * (1.0 + 1e-9));
        assert!((speed - (2.0 * GRAVITY * (fall + inside)).sqrt()).abs() <= GRAVITY * dt);
        // And up again.
        let (mut up, mut w, mut highest) = (0.01, 2.0, 0.01f64);
        for _ in 0..1000 {
            w -= GRAVITY * dt;
            up += w * dt;
            highest = highest.max(up);
        }
        assert!((top(0.01, 2.0, dt) - highest).abs() < 1e-9, "{} {highest}", top(0.01, 2.0, dt));
    }
    // The numbers of the paper's experiment: 89 steps of 5 ms, 1.25 mm.
    let (steps, inside, _) = first_impact(FALL, 5e-3);
    assert_eq!(steps, 89);
    assert!((inside - 1.25e-3).abs() < 1e-12);
}

#[test]
fn the_ball_bounces_as_high_as_its_restitution_says() {
    let (plane, tool) = (plane(), ball(4000));
    // The shell's lowest point is above the ball's by no more than this, and the sphere's polyhedron as well.
    let hapticd::contact::ToolShape::Shell(shell) = &tool else { panic!("a shell") };
    let above = shell.covering_radius.powi(2) / (2.0 * bouncing_ball::RADIUS) + 1e-4;
    for dt in [5e-3, 1e-3] {
        for restitution in [0.5, 0.9] {
            let run = |detector| bounce(&tool, &plane, detector, FALL, dt, restitution, 0.9);
            // Found on the way: as deep as the shell is coarse, whatever the step. The speed at the impact is that of a free
            // fall but for one step of gravity, before and after.
            let swept = run(Detector::Swept);
            assert!(swept.first <= above + 1e-5, "{dt} {restitution}: {}", swept.first);
            let speed = (2.0 * GRAVITY * FALL).sqrt();
            let off = 2.0 * GRAVITY * dt / speed;
            let ideal = restitution * restitution * FALL;
            assert!(
                (swept.rebound / ideal - 1.0).abs() < 2.0 * off + above / ideal,
                "{dt} {restitution}: {}",
                swept.rebound
            );
            // Found where a step ends: the closed form's step, or, where the shell is too coarse to see that, the next.
            let steps = run(Detector::Steps);
            let (n, inside, speed) = first_impact(FALL, dt);
            let next = GRAVITY * f64::from(n + 1) * dt * dt;
            let late = if (steps.first - inside).abs() < 1e-9 { 0.0 } else { 1.0 };
            assert!(
                (steps.first - inside - late * next).abs() < 1e-9 && (late == 0.0 || inside < above),
                "{}",
                steps.first
            );
            let begin = -steps.first * (1.0 - UNDONE);
            let want = top(begin, restitution * (speed + late * GRAVITY * dt), dt);
            // The shell's depth is undone, which is less by what it does not see; what is undone on the way out comes on top, at
            // most all of it.
            assert!(
                steps.rebound >= want - UNDONE * above && steps.rebound <= want + steps.first,
                "{} {want}",
                steps.rebound
            );
        }
    }
}
