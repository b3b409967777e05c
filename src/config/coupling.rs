//! `[coupling]`: between device and tool.

use super::source::{SourceError, Table};

/// `[coupling]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Coupling {
    /// How device and tool hang together.
    pub law: Law,
    /// How it is to feel.
    pub preset: Preset,
    /// Mass of the dynamic law's virtual tool, kg.
    pub tool_mass_kg: f64,
    /// Thickness of the layer before a surface in which the tool is braked, mm at the hand; 0: none.
    pub braking_mm: f64,
}

/// How device and tool hang together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Law {
    /// The tool is where the device is.
    #[default]
    Direct,
    /// A virtual tool with a mass, on a spring.
    Dynamic,
    /// A virtual tool without mass, on a spring.
    Static,
}

impl Law {
    /// As it stands in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Dynamic => "dynamic",
            Self::Static => "static",
        }
    }
}

/// How it is to feel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// A third of the device's stiffness.
    Soft,
    /// All of it, well damped.
    #[default]
    Normal,
    /// All of it, damped as little as is stable.
    Crisp,
}

impl Default for Coupling {
    fn default() -> Self {
        Self { law: Law::default(), preset: Preset::default(), tool_mass_kg: 0.012, braking_mm: 0.0 }
    }
}

impl Coupling {
    pub(super) fn read(t: &Table<'_>) -> Result<Self, SourceError> {
        let law = match t.opt::<String>("law")?.as_deref() {
            None | Some("direct") => Law::Direct,
            Some("dynamic") => Law::Dynamic,
            Some("static") => Law::Static,
            Some(word) => {
                return Err(
                    t.error("law", format!("'{word}' is neither \"direct\", \"dynamic\" nor \"static\""))
                );
            }
        };
        let preset = match t.opt::<String>("preset")?.as_deref() {
            Some("soft") => Preset::Soft,
            None | Some("normal") => Preset::Normal,
            Some("crisp") => Preset::Crisp,
            Some(word) => {
                return Err(
                    t.error("preset", format!("'{word}' is neither \"soft\", \"normal\" nor \"crisp\""))
                );
            }
        };
        let d = Self::default();
        Ok(Self {
            law,
            preset,
            tool_mass_kg: t.within("tool_mass_kg", d.tool_mass_kg, 0.012..=1.0)?,
            braking_mm: t.within("braking_mm", d.braking_mm, 0.0..=20.0)?,
        })
    }
}
