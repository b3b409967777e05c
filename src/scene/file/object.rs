//! Materials and objects of a scene file.

use super::{pose, scale};
use crate::config::source::{SourceError, Table};
use crate::contact::{Friction, Material, Texture};
use crate::geometry::Vec3;
use crate::scene::model::{ObjectSpec, Ref};
use crate::scene::snapshot::MAX_OBJECTS;

/// `[materials.NAME]`.
pub(super) fn material(t: &Table<'_>) -> Result<Material, SourceError> {
    Ok(Material {
        stiffness: t.req("stiffness_n_m")?,
        reference_area: t.or("reference_area_m2", 1e-4)?,
        damping: t.or("damping_ns_m", 0.0)?,
        friction: friction(t)?,
        texture: texture(t)?,
    })
}

/// `texture = { height_m, wavelength_m }` of a material.
fn texture(t: &Table<'_>) -> Result<Texture, SourceError> {
    let Some(x) = t.table("texture")? else { return Ok(Texture::NONE) };
    let texture = Texture { height: x.req("height_m")?, wavelength: x.req("wavelength_m")? };
    x.finish()?;
    Ok(texture)
}

/// `friction = { static, dynamic, stribeck_m_s, viscous_s_m }` of a material.
fn friction(t: &Table<'_>) -> Result<Friction, SourceError> {
    let Some(f) = t.table("friction")? else { return Ok(Friction::NONE) };
    let statics = f.req("static")?;
    let friction = Friction {
        statics,
        dynamic: f.or("dynamic", statics)?,
        stribeck: f.or("stribeck_m_s", 0.0)?,
        viscous: f.or("viscous_s_m", 0.0)?,
    };
    f.finish()?;
    Ok(friction)
}

/// `[objects.NAME]` without its motion and copies.
pub(super) fn spec(t: &Table<'_>) -> Result<ObjectSpec, SourceError> {
    Ok(ObjectSpec {
        geometry: Ref::Name(t.req("mesh")?),
        material: Ref::Name(t.req("material")?),
        pose: pose(t)?,
        scale: scale(t)?,
        params: None,
        method: super::mesh::method(t)?,
        shell: super::mesh::shell(t)?,
        proxy: super::mesh::proxy(t)?,
        moving: t.or("moving", false)?,
    })
}

/// `[objects.NAME.copies]`: `count` along each axis and `step_m` between them; one copy when absent. Each copy
/// has a suffix for its name and an offset, m.
pub(super) fn copies(t: &Table<'_>) -> Result<Vec<(String, Vec3)>, SourceError> {
    let Some(c) = t.table("copies")? else { return Ok(vec![(String::new(), Vec3::zeros())]) };
    let [nx, ny, nz]: [u32; 3] = c.req("count")?;
    let step = Vec3::from(c.req::<[f64; 3]>("step_m")?);
    let total = u64::from(nx).saturating_mul(u64::from(ny)).saturating_mul(u64::from(nz));
    if !(1..=MAX_OBJECTS as u64).contains(&total) {
        return Err(c.error("count", format!("{total} copies; a scene holds 1 to {MAX_OBJECTS} objects")));
    }
    c.finish()?;
    let mut all = Vec::with_capacity(total as usize);
    for (x, y, z) in (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| (x, y, z)))) {
        let offset = step.component_mul(&Vec3::new(x.into(), y.into(), z.into()));
        all.push((format!("[{x},{y},{z}]"), offset));
    }
    Ok(all)
}
