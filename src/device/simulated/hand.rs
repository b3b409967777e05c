//! The hand that holds the simulated tool: an impedance about an intended path.
//!
//! `F = M (x_d'' - x'') + B (x_d' - x') + K (x_d - x)`, and the same about the tool point in rotation. Voluntary
//! motion stays below 10 Hz; what the hand does above that is this impedance.

/// A hand's mass, damping and stiffness. All zero = no hand.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Hand {
    /// kg.
    pub mass: f64,
    /// N·s/m.
    pub damping: f64,
    /// N/m.
    pub stiffness: f64,
    /// kg·m².
    pub inertia: f64,
    /// N·m·s/rad.
    pub rot_damping: f64,
    /// N·m/rad.
    pub rot_stiffness: f64,
}

/// Lever from the tool point at which the translational impedance acts in rotation, m: half the width of a palm.
const LEVER: f64 = 0.05;

impl Hand {
    /// No hand: the worst case for stability.
    pub const NONE: Self = Self::new(0.0, 0.0, 0.0);
    /// A light touch.
    pub const LIGHT: Self = Self::new(0.1, 2.0, 30.0);
    /// A relaxed arm. Near the measured 0.554 kg, 6.45 N·s/m, 135 N/m of van Beek et al. 2015 (Sci. Rep. srep18004).
    pub const NORMAL: Self = Self::new(0.5, 6.0, 135.0);
    /// A firm grip.
    pub const FIRM: Self = Self::new(0.8, 10.0, 400.0);

    /// A translational impedance, acting in rotation at a lever of 5 cm (no measured rotational set is at hand).
    pub const fn new(mass: f64, damping: f64, stiffness: f64) -> Self {
        let l2 = LEVER * LEVER;
        Self {
            mass,
            damping,
            stiffness,
            inertia: mass * l2,
            rot_damping: damping * l2,
            rot_stiffness: stiffness * l2,
        }
    }

    /// Preset by name: `none`, `light`, `normal`, `firm`.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::NONE),
            "light" => Some(Self::LIGHT),
            "normal" => Some(Self::NORMAL),
            "firm" => Some(Self::FIRM),
            _ => None,
        }
    }
}
