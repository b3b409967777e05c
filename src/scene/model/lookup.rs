//! Resolving references and checking values.

use super::parts::Meta;
use super::{EditError, EditErrorKind, Effect, EffectKind, Ref, Scene};
use crate::config::source::number;
use crate::contact::Material;
use crate::geometry::pose::{finite, pose_is_finite};
use crate::geometry::{Pose, Vec3};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Farthest a pose may lie from the scene's origin, m.
pub const MAX_POSITION: f64 = 1000.0;

/// Gives the identity of a part, so that lookups are written once.
pub(super) trait Part {
    const KIND: &'static str;
    fn meta(&self) -> &Meta;
}

macro_rules! part {
    ($($t:ty => $kind:literal),*) => {$(
        impl Part for $t {
            const KIND: &'static str = $kind;
            fn meta(&self) -> &Meta {
                &self.meta
            }
        }
    )*};
}

part!(super::MaterialDef => "material", super::GeometryDef => "geometry", super::Object => "object", super::EffectDef => "effect");

/// Finds the identifier that `r` names in `map`.
pub(super) fn resolve<P: Part>(
    map: &BTreeMap<u32, P>,
    r: &Ref,
    created: &[Option<u32>],
) -> Result<u32, EditError> {
    let found = match r {
        Ref::Id(id) => Some(*id),
        Ref::Name(name) => map.values().find(|p| p.meta().name.as_deref() == Some(name)).map(|p| p.meta().id),
        Ref::New(edit) => created.get(*edit).copied().flatten(),
    };
    found.filter(|id| map.contains_key(id)).ok_or_else(|| {
        EditError::new(EditErrorKind::NotFound, P::KIND, format!("there is no {} {r}", P::KIND))
    })
}

impl Scene {
    /// Identifier of the object that `r` names, for requests outside transactions.
    pub fn find_object(&self, r: &Ref) -> Option<u32> {
        resolve(&self.objects, r, &[]).ok()
    }

    /// Identifier of the material that `r` names.
    pub fn find_material(&self, r: &Ref) -> Option<u32> {
        resolve(&self.materials, r, &[]).ok()
    }

    /// Identifier of the geometry that `r` names.
    pub fn find_geometry(&self, r: &Ref) -> Option<u32> {
        resolve(&self.geometries, r, &[]).ok()
    }
}

/// A fresh name, or why it cannot be used.
pub(super) fn fresh_name<P: Part>(
    map: &BTreeMap<u32, P>,
    name: Option<&str>,
) -> Result<Option<Arc<str>>, EditError> {
    let Some(name) = name else { return Ok(None) };
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return Err(invalid("name", "a name has 1 to 128 bytes and no control characters"));
    }
    if map.values().any(|p| p.meta().name.as_deref() == Some(name)) {
        let cause = format!("the name '{name}' belongs to another {}", P::KIND);
        return Err(EditError::new(EditErrorKind::Duplicate, "name", cause));
    }
    Ok(Some(name.into()))
}

pub(super) fn invalid(field: &'static str, cause: impl Into<String>) -> EditError {
    EditError::new(EditErrorKind::Invalid, field, cause)
}

/// `value` when it lies in `lo..=hi`; NaN never does.
pub(super) fn within(
    field: &'static str,
    value: f64,
    lo: f64,
    hi: f64,
    unit: &str,
) -> Result<f64, EditError> {
    if value >= lo && value <= hi {
        return Ok(value);
    }
    Err(invalid(field, format!("{} is outside {lo} to {hi}{unit}", number(value))))
}

pub(super) fn check_material(m: &Material) -> Result<(), EditError> {
    within("stiffness", m.stiffness, 0.0, 1e6, " N/m")?;
    within("reference_area", m.reference_area, 1e-8, 1.0, " m^2")?;
    within("damping", m.damping, 0.0, 1e4, " N s/m")?;
    let f = &m.friction;
    within("friction.static", f.statics, 0.0, 10.0, "")?;
    within("friction.dynamic", f.dynamic, 0.0, f.statics, ", which is the static one")?;
    within("friction.stribeck", f.stribeck, 0.0, 1.0, " m/s")?;
    within("friction.viscous", f.viscous, 0.0, 1e3, " s/m")?;
    let t = &m.texture;
    within("texture.wavelength", t.wavelength, 0.0, 1.0, " m")?;
    within("texture.height", t.height, 0.0, t.wavelength / 4.0, " m, a quarter of the wavelength")?;
    Ok(())
}

pub(super) fn check_effect(e: &Effect) -> Result<(), EditError> {
    within("max_force", e.max_force, 0.0, 100.0, " N")?;
    match e.kind {
        EffectKind::Viscosity => within("damping", e.strength, 0.0, 1e3, " N s/m").map(drop),
        EffectKind::Spring => within("stiffness", e.strength, 0.0, 1e5, " N/m").map(drop),
        EffectKind::Constant => Ok(()),
        EffectKind::Magnet => {
            within("force", e.strength, 0.0, 100.0, " N")?;
            within("range", e.range, 1e-3, 10.0, " m").map(drop)
        }
    }?;
    let (field, most) = match e.kind {
        EffectKind::Constant => ("force", 100.0),
        _ => ("point", MAX_POSITION),
    };
    e.vector.iter().try_for_each(|v| within(field, *v, -most, most, "").map(drop))
}

pub(super) fn check_pose(field: &'static str, pose: &Pose) -> Result<(), EditError> {
    if !pose_is_finite(pose) {
        return Err(invalid(field, "not a finite pose"));
    }
    if pose.translation.vector.amax() > MAX_POSITION {
        return Err(invalid(field, format!("farther than {MAX_POSITION} m from the origin")));
    }
    if (pose.rotation.as_ref().norm() - 1.0).abs() > 1e-9 {
        return Err(invalid(field, "the quaternion is not normalised"));
    }
    Ok(())
}

pub(in crate::scene) fn check_scale(scale: &Vec3) -> Result<(), EditError> {
    if !finite(scale) {
        return Err(invalid("scale", "not finite"));
    }
    for s in scale.iter() {
        within("scale", s.abs(), 1e-6, 1e6, " (absolute value)")?;
    }
    Ok(())
}
