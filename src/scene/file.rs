//! Scene files (TOML): materials, meshes from files or generated, objects, motion, tool, device mapping.
//!
//! A scene file becomes one transaction of the daemon's own (persistent) plus the motion of its moving objects.
//! Errors name file, line and key; unknown keys are refused. `config/scenes` holds commented examples.

mod effect;
mod mesh;
mod motion;
mod object;
mod shape;
#[cfg(test)]
mod tests;

use super::model::{Applied, DAEMON, Edit, Limits, Ref, Scene, ToolSpec};
use super::motion::MotionScript;
use crate::config::read_text;
use crate::config::source::{Source, SourceError, Table};
use crate::geometry::{Pose, Vec3};
use nalgebra::{Quaternion, Translation3, UnitQuaternion};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a scene file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum SceneFileError {
    /// The file could not be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Cause.
        error: std::io::Error,
    },
    /// The file is wrong, or a mesh that it names.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// A scene file as a transaction.
#[derive(Debug, Default)]
pub struct SceneFile {
    /// Edits that build the scene.
    pub edits: Vec<Edit>,
    /// Motion of moving objects, with the index of the edit that creates the object.
    pub motions: Vec<(usize, MotionScript)>,
    /// What the importer reports of each mesh file, by mesh name.
    pub imports: Vec<(String, crate::geometry::import::ImportReport)>,
    /// Mesh files that were read.
    pub files: Vec<PathBuf>,
    /// Where each edit stands in the file: the error that it would be.
    places: Vec<SourceError>,
}

/// A loaded scene.
#[derive(Debug)]
pub struct Loaded {
    /// The scene.
    pub scene: Scene,
    /// Motion of moving objects by identifier.
    pub motions: Vec<(u32, MotionScript)>,
    /// What the importer reports of each mesh file, by mesh name.
    pub imports: Vec<(String, crate::geometry::import::ImportReport)>,
    /// Mesh files that were read.
    pub files: Vec<PathBuf>,
}

/// Reads a scene file and its meshes, and applies it to an empty scene.
///
/// # Errors
/// [`SceneFileError`].
pub fn load(path: &Path, limits: Limits) -> Result<Loaded, SceneFileError> {
    let file = read(path)?;
    let (scene, applied) = file.apply(&Scene::new(limits))?;
    let motions = file.motions(&applied);
    Ok(Loaded { scene, motions, imports: file.imports, files: file.files })
}

/// Reads a scene file and its meshes.
///
/// # Errors
/// [`SceneFileError`].
pub fn read(path: &Path) -> Result<SceneFile, SceneFileError> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|error| SceneFileError::Read { path: name.clone(), error })?;
    Ok(SceneFile::parse(&name, &text, path.parent().unwrap_or(Path::new("")))?)
}

impl SceneFile {
    /// Reads the text of a scene file; mesh files are taken from `base` when relative.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn parse(file: &str, text: &str, base: &Path) -> Result<Self, SourceError> {
        let source = Source::parse(file, text)?;
        let root = source.root();
        let mut out = Self::default();
        if let Some(t) = root.table("device")? {
            out.device(&t, None)?;
            t.finish()?;
        }
        if let Some(all) = root.table("devices")? {
            for (role, t) in all.named_tables()? {
                out.device(&t, Some(role.into()))?;
                t.finish()?;
            }
        }
        if let Some(all) = root.table("materials")? {
            for (name, t) in all.named_tables()? {
                let material = object::material(&t)?;
                out.push(&t, Edit::AddMaterial { name: Some(name), material, persistent: true });
                t.finish()?;
            }
        }
        if let Some(all) = root.table("meshes")? {
            for (name, t) in all.named_tables()? {
                out.files.extend(t.opt::<String>("file")?.map(|f| base.join(f)));
                let (spec, report) = mesh::read(&t, &name, base)?;
                out.imports.extend(report.map(|r| (name.clone(), r)));
                out.push(&t, Edit::AddGeometry { name: Some(name), spec, persistent: true });
                t.finish()?;
            }
        }
        if let Some(all) = root.table("objects")? {
            for (name, t) in all.named_tables()? {
                out.object(&name, &t)?;
                t.finish()?;
            }
        }
        if let Some(all) = root.table("effects")? {
            for (name, t) in all.named_tables()? {
                let effect = effect::effect(&t)?;
                out.push(&t, Edit::SetEffect { name, effect, persistent: true });
                t.finish()?;
            }
        }
        if let Some(t) = root.table("tool")? {
            let tool = tool(&t)?;
            out.push(&t, Edit::SetTool { tool });
            t.finish()?;
        }
        if let Some(all) = root.table("tools")? {
            for (role, t) in all.named_tables()? {
                let tool = tool(&t)?;
                out.push(&t, Edit::SetDeviceTool { device: role.into(), tool });
                t.finish()?;
            }
        }
        root.finish()?;
        Ok(out)
    }

    /// Applies the file to a scene.
    ///
    /// # Errors
    /// The first edit that the scene refuses, at its place in the file.
    pub fn apply(&self, scene: &Scene) -> Result<(Scene, Applied), SourceError> {
        scene.apply(DAEMON, &self.edits).map_err(|e| {
            let place = self.places[e.index].clone();
            SourceError { key: format!("{}.{}", place.key, e.field), cause: e.cause, ..place }
        })
    }

    /// The motion scripts by the identifiers that `apply` gave out.
    pub fn motions(&self, applied: &Applied) -> Vec<(u32, MotionScript)> {
        let id = |edit: usize| applied.ids.get(edit).copied().flatten();
        self.motions.iter().filter_map(|(edit, m)| Some((id(*edit)?, m.clone()))).collect()
    }

    fn push(&mut self, t: &Table<'_>, edit: Edit) {
        self.edits.push(edit);
        self.places.push(t.error_here(""));
    }

    /// Places every device, or that of one role.
    fn device(&mut self, t: &Table<'_>, role: Option<Arc<str>>) -> Result<(), SourceError> {
        let (device_in_scene, workspace_scale) = (Some(pose(t)?), t.opt("workspace_scale")?);
        let edit = match role {
            None => Edit::SetMapping { device_in_scene, workspace_scale },
            Some(device) => Edit::SetDeviceMapping { device, device_in_scene, workspace_scale },
        };
        self.push(t, edit);
        Ok(())
    }

    fn object(&mut self, name: &str, t: &Table<'_>) -> Result<(), SourceError> {
        let spec = object::spec(t)?;
        let script = t.table("motion")?.map(|m| motion::read(&m).and_then(|s| m.finish().map(|()| s)));
        let script = script.transpose()?;
        if script.is_some() && !spec.moving {
            return Err(t.error("motion", "only for objects with moving = true"));
        }
        for (suffix, offset) in object::copies(t)? {
            let mut spec = spec.clone();
            spec.pose.translation.vector += offset;
            if let Some(script) = &script {
                self.motions.push((self.edits.len(), script.clone()));
            }
            let name = Some(format!("{name}{suffix}"));
            self.push(t, Edit::AddObject { name, spec, persistent: true });
        }
        Ok(())
    }
}

fn tool(t: &Table<'_>) -> Result<ToolSpec, SourceError> {
    let offset = pose(t)?;
    match (t.opt("sphere_radius_m")?, t.opt::<String>("mesh")?) {
        (Some(radius), None) => Ok(ToolSpec::Sphere { radius, offset }),
        (None, Some(mesh)) => {
            let (geometry, scale) = (Ref::Name(mesh), scale(t)?);
            match t.opt::<String>("method")?.as_deref() {
                None | Some("vps") => {
                    Ok(ToolSpec::Mesh { geometry, scale, points: t.or("points", ToolSpec::POINTS)?, offset })
                }
                Some("ist") => Ok(ToolSpec::Spheres {
                    geometry,
                    scale,
                    spheres: t.or("spheres", ToolSpec::SPHERES)?,
                    offset,
                }),
                Some(other) => Err(t.error("method", format!("no method '{other}'; known: vps, ist"))),
            }
        }
        _ => Err(t.error_here("give either sphere_radius_m or mesh")),
    }
}

/// `position_m` and `orientation` (x y z w, normalised here) or `rotation_deg` (about x, then y, then z of the
/// scene); all optional.
fn pose(t: &Table<'_>) -> Result<Pose, SourceError> {
    let position: [f64; 3] = t.or("position_m", [0.0; 3])?;
    let turned: Option<[f64; 3]> = t.opt("rotation_deg")?;
    let rotation = match (t.opt::<[f64; 4]>("orientation")?, turned) {
        (Some(_), Some(_)) => {
            return Err(t.error("rotation_deg", "give either orientation or rotation_deg"));
        }
        (None, None) => UnitQuaternion::identity(),
        (None, Some([x, y, z])) => {
            UnitQuaternion::from_euler_angles(x.to_radians(), y.to_radians(), z.to_radians())
        }
        (Some([x, y, z, w]), None) => unit(Quaternion::new(w, x, y, z)).ok_or_else(|| {
            t.error("orientation", "not a unit quaternion [x, y, z, w]; its length must be 1 within 1e-3")
        })?,
    };
    Ok(Pose::from_parts(Translation3::from(position), rotation))
}

/// The quaternion normalised, when it nearly is.
fn unit(q: Quaternion<f64>) -> Option<UnitQuaternion<f64>> {
    ((q.norm() - 1.0).abs() <= 1e-3).then(|| UnitQuaternion::from_quaternion(q))
}

/// `scale`: one number or one for each axis; 1 when absent.
fn scale(t: &Table<'_>) -> Result<Vec3, SourceError> {
    match t.opt::<f64>("scale") {
        Ok(s) => Ok(Vec3::repeat(s.unwrap_or(1.0))),
        Err(_) => t.req::<[f64; 3]>("scale").map(Vec3::from),
    }
}
