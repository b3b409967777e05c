//! Bodies with a tenth of a millimetre of play in each other, where it is hard to say whether they touch.

use super::built;

/// How often in a hundred of every n-th pose a touch is missed or made up.
fn wrong(name: &str, spheres: &str, every: usize) -> Option<f64> {
    let (path, pair) = built(name, &["--method", "ist", "--spheres", spheres])?;
    let (mut asked, mut wrong, mut touching) = (0, 0, 0);
    for (pose, truth) in path.poses.iter().step_by(every) {
        let Some(touches) = truth.touching() else { continue };
        asked += 1;
        touching += u32::from(touches);
        wrong += u32::from(pair.at(pose, 0).touching != touches);
    }
    assert!(asked >= 100, "{name}: {asked} poses say whether they touch");
    let part = 100.0 * f64::from(wrong) / f64::from(asked);
    println!("{name}, {spheres} spheres: {part:.2} % of {asked} poses wrong, {touching} touch");
    Some(part)
}

#[test]
fn gears_are_called_right() {
    assert!(wrong("gears", "20000", 5).is_none_or(|part| part <= 3.0));
}

#[test]
fn a_bolt_in_its_nut_is_called_right() {
    assert!(wrong("bolt_nut", "250000", 10).is_none_or(|part| part <= 3.0));
}
