//! docs/stability.md against what the command measures now: the walls of every device whole, of its borders one cell in each column.

use super::*;
use measure::{PARTS, REST, WINDOW, shakes, uncapped};
use std::f64::consts::PI;

/// Another machine's libm may round otherwise; on one machine the numbers are the same to the last digit.
const OFF: f64 = 0.01;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/stability.md")).expect("readable")
}

/// Lines of the page that are about a device.
fn about<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let heading = format!("### {name} (");
    let mut lines = page.lines().skip_while(|l| !l.starts_with(&heading));
    let first = lines.next().unwrap_or_else(|| panic!("docs/stability.md has no section {heading}"));
    std::iter::once(&first[4..]).chain(lines.take_while(|l| !l.starts_with('#'))).collect()
}

/// The same words, and numbers that are [`OFF`] or a last digit off at most.
fn alike(a: &str, b: &str) -> bool {
    let same = |(a, b): (&str, &str)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => {
            let digits = a.split_once('.').map_or(0, |(_, d)| d.len() as i32);
            (x - y).abs() <= OFF * x.abs() + 1.01 * 10f64.powi(-digits)
        }
        _ => a == b,
    };
    a.split_whitespace().count() == b.split_whitespace().count()
        && a.split_whitespace().zip(b.split_whitespace()).all(same)
}

fn motored() -> Vec<Arc<Profile>> {
    Registry::builtin().profiles().iter().filter(|p| p.max_force > 0.0).cloned().collect()
}

/// Cells of the page's rows of a device's border, as they stand there.
fn borders<'a>(page: &[&'a str]) -> Vec<Vec<&'a str>> {
    let rows = page.iter().skip_while(|l| !l.starts_with("| damping")).skip(2);
    let cells = |l: &&'a str| l.trim_matches('|').split('|').map(str::trim).collect();
    rows.take_while(|l| l.starts_with('|')).map(cells).collect()
}

#[test]
fn the_page_s_walls_are_as_measured() {
    let page = page();
    for profile in motored() {
        let page = about(&page, &profile.name);
        // Of the border the page's own cells.
        let limits = borders(&page).into_iter().map(|row| {
            let n = |i: usize| row[i].parse().unwrap();
            let certified = row[4].parse().ok();
            Limit { damping: n(0), nobody: n(1), normal: n(2), controller: n(3), certified }
        });
        let report = report(&profile, || Ok(limits.collect())).unwrap();
        // And what the profile says that the guards keep is that. More than all is all.
        let kept = report.kept.as_ref().map_or(Default::default(), |k| profile::Kept {
            controller: k.controller.min(1.0),
            certified: k.certified.unwrap_or(0.0),
        });
        for (stated, found) in
            [(profile.kept.controller, kept.controller), (profile.kept.certified, kept.certified)]
        {
            assert!((stated - found).abs() <= OFF, "{}: {:?}, {kept:?}", profile.name, profile.kept);
        }
        assert_eq!(profile.kept.strictest(), kept.strictest(), "{}", profile.name);
        let mut page = page.iter();
        for line in text(&report).lines() {
            let name = &profile.name;
            assert!(page.any(|l| alike(l, line)), "{name}: the page has not, or not in this place:\n{line}");
        }
    }
}

/// Of each column another row: of the two stiffnesses with which the search ended the lower one comes to rest, the other does not. (Between and
/// beyond them both happen where a device's friction stops a push.)
#[test]
fn the_page_s_borders_are_where_it_begins_to_shake() {
    let page = page();
    for profile in motored() {
        let rows = borders(&about(&page, &profile.name));
        if rows.is_empty() {
            continue;
        }
        assert_eq!(rows.len(), PARTS.len(), "{}", profile.name);
        let free = uncapped(&profile);
        for (row, column, hand, guard) in [
            (5, 1, Hand::NONE, EnergyGuard::Off),
            (0, 2, Hand::NORMAL, EnergyGuard::Off),
            (3, 3, Hand::NORMAL, EnergyGuard::Controller),
            (4, 4, Hand::NORMAL, EnergyGuard::Certified),
        ] {
            let (cell, damping) = (rows[row][column], PARTS[row] * profile.max_damping);
            let what = format!("{}, damping {damping}, {hand:?}, {guard:?}: {cell}", profile.name);
            assert!(alike(rows[row][0], &format!("{damping:.2}")), "{what}");
            let Ok(k) = cell.parse::<f64>() else {
                assert_eq!((cell, profile.covered(1e-3).is_some()), ("-", false), "{what}");
                continue;
            };
            // The page has whole newtons.
            let (low, high) = measure::border(|of| Ok(of > k + 0.5)).unwrap();
            assert!((low - k).abs() <= 0.5, "{what}: the search ends nowhere there, but at {low}");
            let shakes = |k: f64| shakes(&free, (hand, guard), damping, k, WINDOW, REST).unwrap();
            assert!(!shakes(low), "{what}: shakes at {low}");
            assert!(low == high || shakes(high), "{what}: rests at {high}");
        }
    }
}

/// e = exp(pi/4 T sqrt(K/m)) of the sampled wall (docs/stability.md), less what the device's own damping takes in half a swing, exp(-pi b / 2 sqrt(K m)):
/// of the true motion, not of what a filter makes of readings (which said 1.145).
#[test]
fn the_bounce_off_an_undamped_wall_is_that_of_theory() {
    let profile = Registry::builtin().profile("ideal-6dof").unwrap();
    let (k, m, b) = (4000.0f64, 0.1f64, 0.1);
    let theory = (0.25 * PI * 1e-3 * (k / m).sqrt()).exp() * (-0.5 * PI * b / (k * m).sqrt()).exp();
    let felt = measure::felt(&profile, EnergyGuard::Observe, k, Some(0.0)).unwrap();
    assert!((felt.restitution / theory - 1.0).abs() < 0.008, "{} for {theory}", felt.restitution);
}
