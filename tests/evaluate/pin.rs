//! The poster's experiment (Sagardia 2013): a keyed pin goes into its hole, then is turned about its axis. Until the keys meet
//! nothing holds it back from turning; from then on the more, the farther it is turned.

use super::built;
use hapticd::geometry::Vec3;

/// The first pose of the path that is meant to turn.
const TURNED: usize = 1500;

#[test]
fn a_keyed_pin_is_free_about_its_axis_until_it_is_turned() {
    // 281 x 161 x 161 cells about the hole of 280 mm, without the padding.
    let voxel = (0.28f64 / 280.0).to_string();
    let how = ["--points", "8691", "--voxel", &voxel];
    let Some((path, pair)) = built("pin_hole_keyed", &how) else { return };
    assert_eq!(pair.elements, 8691);
    let answers = pair.run(&path, 0, |_| {});
    let torques: Vec<(f64, f64)> = path
        .poses
        .iter()
        .zip(&answers)
        .map(|((pose, _), answer)| {
            let axis = pose.rotation * Vec3::x();
            let axial = answer.wrench.torque.dot(&axis);
            (axial, (answer.wrench.torque - axis * axial).norm())
        })
        .collect();
    let lateral = torques.iter().fold(0.0f64, |m, t| m.max(t.1));
    let free = torques[..TURNED].iter().fold(0.0f64, |m, t| m.max(t.0.abs()));
    println!("{free:.5} N m about the axis, {lateral:.4} N m across it: {:.3} %", 100.0 * free / lateral);
    assert!(lateral > 1.0 && free <= 0.03 * lateral, "{free} of {lateral}");
    // Turned by 0 to 60 mrad. In stretches of 500 poses, over which a hand sways in the play, the mean rises, and it turns back.
    let stretches: Vec<f64> =
        torques[TURNED..].chunks(500).map(|c| c.iter().map(|t| t.0).sum::<f64>() / c.len() as f64).collect();
    println!("{stretches:?}");
    let turned = path.poses[4999].0.rotation.scaled_axis().dot(&Vec3::x());
    for pair in stretches.windows(2) {
        assert!(pair[1] * turned.signum() < pair[0] * turned.signum(), "{stretches:?}");
    }
    assert!(stretches[6].abs() > 5.0 * free, "{stretches:?} {free}");
}
