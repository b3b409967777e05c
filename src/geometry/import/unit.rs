//! Length units of mesh files.

use std::fmt;

/// A length unit. STL, OBJ and PLY carry none, so the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// 1e-6 m.
    Micrometre,
    /// 1e-3 m.
    Millimetre,
    /// 1e-2 m.
    Centimetre,
    /// 1 m.
    Metre,
    /// 0.0254 m.
    Inch,
    /// 0.3048 m.
    Foot,
}

/// Each unit with the names under which it is accepted, the short one first.
const NAMES: [(Unit, &[&str]); 6] = [
    (Unit::Micrometre, &["um", "micrometre", "micrometer", "micron"]),
    (Unit::Millimetre, &["mm", "millimetre", "millimeter"]),
    (Unit::Centimetre, &["cm", "centimetre", "centimeter"]),
    (Unit::Metre, &["m", "metre", "meter"]),
    (Unit::Inch, &["in", "inch", "inches"]),
    (Unit::Foot, &["ft", "foot", "feet"]),
];

/// The text names no unit; the message lists those that exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown unit \"{0}\"; use one of um, mm, cm, m, in (inch), ft (foot): the mesh file does not say in which \
     unit its numbers are"
)]
pub struct UnknownUnit(pub String);

impl Unit {
    /// The unit of that name; case and a plural s do not matter.
    ///
    /// # Errors
    /// [`UnknownUnit`], which lists the accepted names.
    pub fn parse(text: &str) -> Result<Self, UnknownUnit> {
        let wanted = text.trim().to_ascii_lowercase();
        let singular = wanted.strip_suffix('s').unwrap_or(&wanted);
        NAMES
            .iter()
            .find(|(_, names)| {
                names.contains(&wanted.as_str()) || (singular.len() > 2 && names.contains(&singular))
            })
            .map(|(unit, _)| *unit)
            .ok_or_else(|| UnknownUnit(text.chars().take(40).collect()))
    }

    /// Metres in one unit; exact definitions.
    pub const fn metres(self) -> f64 {
        match self {
            Self::Micrometre => 1e-6,
            Self::Millimetre => 1e-3,
            Self::Centimetre => 1e-2,
            Self::Metre => 1.0,
            Self::Inch => 0.0254,
            Self::Foot => 0.3048,
        }
    }

    /// The short name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(u, _)| *u == self).map_or("m", |(_, names)| names[0])
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Unit {
    type Err = UnknownUnit;
    fn from_str(text: &str) -> Result<Self, UnknownUnit> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_factors() {
        for (text, metres) in [
            ("mm", 1e-3),
            ("MM", 1e-3),
            ("millimeters", 1e-3),
            ("cm", 0.01),
            ("m", 1.0),
            ("metres", 1.0),
            ("in", 0.0254),
            ("inch", 0.0254),
            ("inches", 0.0254),
            ("feet", 0.3048),
            ("um", 1e-6),
            (" microns ", 1e-6),
        ] {
            assert_eq!(Unit::parse(text).map(Unit::metres), Ok(metres), "{text}");
        }
    }

    #[test]
    fn unknown_units_list_the_known_ones() {
        for text in ["", "parsec", "ms", "mms", "s", "mil", "0.001"] {
            let message = Unit::parse(text).unwrap_err().to_string();
            for name in ["um", "mm", "cm", "m,", "in", "ft"] {
                assert!(message.contains(name), "{message}");
            }
        }
        assert!(Unit::parse(&"x".repeat(1_000_000)).unwrap_err().to_string().len() < 300);
    }
}
