//! Generated shapes of a scene file. Ranges keep any file from asking for more triangles than memory holds.

use crate::config::source::{SourceError, Table, closest, number};
use crate::geometry::shapes::{
    HoleShape, PinShape, cuboid, cylinder, hollow_sphere, icosphere, keyed_hole, keyed_pin, torus,
};
use crate::geometry::{TriMesh, Vec3};

/// Names of the shapes.
const SHAPES: [&str; 7] =
    ["cuboid", "sphere", "hollow_sphere", "cylinder", "torus", "keyed_pin", "keyed_hole"];

/// Lengths that shapes may have, m.
const LENGTH: std::ops::RangeInclusive<f64> = 1e-5..=100.0;

pub(super) fn read(t: &Table<'_>, shape: &str) -> Result<TriMesh, SourceError> {
    let length = |key: &str| t.req::<f64>(key).and_then(|v| t.within(key, v, LENGTH));
    let steps = |key: &str, default: u32| t.within(key, default, 3..=1024);
    Ok(match shape {
        "cuboid" => {
            let size: [f64; 3] = t.req("size_m")?;
            if let Some(bad) = size.iter().find(|s| !LENGTH.contains(s)) {
                return Err(t.error(
                    "size_m",
                    format!("{} is outside {} to {}", number(*bad), LENGTH.start(), LENGTH.end()),
                ));
            }
            cuboid(Vec3::from(size))
        }
        "sphere" => icosphere(length("radius_m")?, t.within("subdivisions", 4, 0..=7)?),
        "hollow_sphere" => {
            let (outer, inner) = (length("outer_m")?, length("inner_m")?);
            if inner >= outer {
                return Err(t.error("inner_m", "must be less than outer_m"));
            }
            hollow_sphere(outer, inner, t.within("subdivisions", 4, 0..=7)?)
        }
        "cylinder" => cylinder(length("radius_m")?, length("length_m")?, steps("segments", 64)?),
        "torus" => {
            let (major, minor) = (length("major_m")?, length("minor_m")?);
            if minor >= major {
                return Err(t.error("minor_m", "must be less than major_m"));
            }
            torus(major, minor, steps("sections", 96)?, steps("sides", 48)?)
        }
        "keyed_pin" => keyed_pin(&pin(t)?),
        "keyed_hole" => keyed_hole(&hole(t)?),
        other => {
            let hint = closest(other, SHAPES.into_iter())
                .map_or_else(|| format!("known: {}", SHAPES.join(", ")), |s| format!("did you mean '{s}'?"));
            return Err(t.error("shape", format!("no shape '{other}'; {hint}")));
        }
    })
}

fn pin(t: &Table<'_>) -> Result<PinShape, SourceError> {
    let d = PinShape::default();
    let shape = PinShape {
        radius: t.within("radius_m", d.radius, LENGTH)?,
        length: t.within("length_m", d.length, LENGTH)?,
        key: if t.or("key", true)? { d.key } else { None },
        head_side: t.within("head_side_m", d.head_side, LENGTH)?,
        head_length: t.within("head_length_m", d.head_length, LENGTH)?,
        segments: t.within("segments", d.segments, 8..=1024)?,
        axial_step: axial_step(t, d.length)?,
        ..d
    };
    shape.check().map_err(|cause| t.error_here(cause))?;
    Ok(shape)
}

fn hole(t: &Table<'_>) -> Result<HoleShape, SourceError> {
    let d = HoleShape::default();
    let shape = HoleShape {
        radius: t.within("radius_m", d.radius, LENGTH)?,
        length: t.within("length_m", d.length, LENGTH)?,
        side: t.within("side_m", d.side, LENGTH)?,
        chamfer: t.within("chamfer_m", d.chamfer, 0.0..=1.0)?,
        key: if t.or("key", true)? { d.key } else { None },
        segments: t.within("segments", d.segments, 8..=1024)?,
        axial_step: axial_step(t, d.length)?,
    };
    shape.check().map_err(|cause| t.error_here(cause))?;
    Ok(shape)
}

/// Longest step along the axis; at most 1,000 steps over the length.
fn axial_step(t: &Table<'_>, default_length: f64) -> Result<f64, SourceError> {
    let Some(step) = t.opt::<f64>("axial_step_m")? else { return Ok(f64::INFINITY) };
    let length = t.or("length_m", default_length)?;
    t.within("axial_step_m", step, (length / 1000.0).max(1e-6)..=LENGTH.end().max(length))
}
