//! Readable units and axis ranges.

/// A factor and the name of the unit that it leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Multiplies the SI value.
    pub factor: f64,
    /// For the axis label.
    pub name: &'static str,
}

/// Newton, or millinewton for small forces.
pub fn force(max: f64) -> Unit {
    pick(max, &[(1.0, 0.5, "N"), (1e3, 0.0, "mN")])
}

/// Newton metre, or its thousandth.
pub fn torque(max: f64) -> Unit {
    pick(max, &[(1.0, 0.5, "N·m"), (1e3, 0.0, "mN·m")])
}

/// Metre down to micrometre.
pub fn length(max: f64) -> Unit {
    pick(max, &[(1.0, 0.5, "m"), (1e3, 0.5e-3, "mm"), (1e6, 0.0, "µm")])
}

/// Seconds down to microseconds; compute times stay in microseconds up to a tenth of a second.
pub fn time(max: f64) -> Unit {
    pick(max, &[(1.0, 10.0, "s"), (1e3, 0.1, "ms"), (1e6, 0.0, "µs")])
}

fn pick(max: f64, units: &[(f64, f64, &'static str)]) -> Unit {
    // Nothing at all is nothing of the first.
    let chosen = units.iter().find(|u| max >= u.1 || max == 0.0).or(units.last());
    chosen.map_or(Unit { factor: 1.0, name: "" }, |u| Unit { factor: u.0, name: u.2 })
}

/// An axis range around the values with some air; never empty. Zero belongs to it.
pub fn padded(min: f64, max: f64) -> (f64, f64) {
    let (min, max) = (min.min(0.0), max.max(0.0));
    if min == 0.0 && max == 0.0 {
        return (0.0, 1.0);
    }
    let air = (max - min) * 0.06;
    (if min < 0.0 { min - air } else { 0.0 }, max + air)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_size() {
        assert_eq!(length(0.002).name, "mm");
        assert_eq!(length(2e-5).name, "µm");
        assert_eq!(torque(0.03).name, "mN·m");
        assert_eq!((force(0.0).name, force(0.01).name), ("N", "mN"));
        assert_eq!(time(4e-3).name, "µs");
    }

    #[test]
    fn ranges_hold_zero_and_are_never_empty() {
        for (min, max) in [(0.0, 0.0), (2.0, 3.0), (-3.0, -2.0)] {
            let (lo, hi) = padded(min, max);
            assert!(lo < hi && hi < 4.0 && lo <= min.min(0.0) && hi >= max.max(0.0));
        }
    }
}
