//! What the energy guards leave of a device's stiffness, and which of them it gets by default.

/// Share of the stable stiffness that a guard must keep to be a device's default.
pub const KEPT: f64 = 0.9;

/// The guards that a device may have by default, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The account is kept and shown.
    Observe,
    /// Debt is damped away.
    Controller,
    /// The force is lowered to what the account covers.
    Certified,
}

impl Guard {
    /// Its name in `limits.energy`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Controller => "controller",
            Self::Certified => "certified",
        }
    }
}

/// Of the stiffness that is stable in a relaxed hand, and of what such a hand feels of a wall, the least share that stays with each guard, as
/// `hapticd stability NAME` measures it. 0 = not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// With the passivity controller.
    pub controller: f64,
    /// With the energy bound; 0 where nothing is certified, since the bound then does nothing.
    pub certified: f64,
}

impl Kept {
    /// The strictest guard that keeps [`KEPT`]; who has measured nothing only observes. Pure.
    pub fn strictest(&self) -> Guard {
        if self.certified >= KEPT {
            Guard::Certified
        } else if self.controller >= KEPT {
            Guard::Controller
        } else {
            Guard::Observe
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_guard_is_taken_that_keeps_nine_tenths() {
        for (controller, certified, guard) in [
            (1.0, 0.05, "controller"),
            (0.9, 0.0, "controller"),
            (0.82, 0.0, "observe"),
            (0.5, 0.9, "certified"),
            (1.2, 0.95, "certified"),
            (0.0, 0.0, "observe"),
        ] {
            assert_eq!(Kept { controller, certified }.strictest().name(), guard, "{controller} {certified}");
        }
    }
}
