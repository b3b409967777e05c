//! Arguments of the commands and the requests that they become.

use crate::cli::exit::Usage;
use crate::cli::numbers::{finite, list, not_negative, positive};
use crate::control::client::ClientError;
use crate::protocol::rpc::codes;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// One factor for all axes, or three.
fn factors(text: &str) -> Result<[f64; 3], String> {
    if text.contains(',') { list(text) } else { list::<1>(text).map(|[s]| [s; 3]) }
}

/// A number is an identifier, anything else a name.
fn reference(text: &str) -> Value {
    text.parse::<u32>().map_or_else(|_| json!(text), |id| json!(id))
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(v) = value {
        map.insert(key.into(), v.into());
    }
}

fn pose(at: Option<[f64; 3]>, rot: Option<[f64; 4]>) -> Option<Value> {
    let mut m = Map::new();
    put(&mut m, "position", at.map(|p| json!(p)));
    put(&mut m, "orientation", rot.map(|q| json!(q)));
    (!m.is_empty()).then_some(Value::Object(m))
}

/// `material`.
#[derive(Debug, clap::Args)]
pub(super) struct MaterialArgs {
    /// Name
    name: String,
    /// Stiffness of a flat contact of the reference area, N/m
    #[arg(long, value_name = "N/m", value_parser = finite)]
    stiffness: f64,
    /// Reference area, m^2
    #[arg(long, value_name = "M2", value_parser = finite)]
    area: Option<f64>,
    /// Damping of such a contact, N·s/m
    #[arg(long, value_name = "NS/M", value_parser = finite)]
    damping: Option<f64>,
    /// Coefficient of friction up to which what rests does not slide
    #[arg(long, value_name = "MU", value_parser = finite)]
    friction: Option<f64>,
    /// Coefficient of what slides (the same when not given)
    #[arg(long, value_name = "MU", value_parser = finite, requires = "friction")]
    sliding: Option<f64>,
    /// Speed over which the coefficient falls from the one to the other, m/s
    #[arg(long, value_name = "M/S", value_parser = finite, requires = "friction")]
    stribeck: Option<f64>,
    /// Growth of the sliding coefficient with the speed, s/m
    #[arg(long, value_name = "S/M", value_parser = finite, requires = "friction")]
    viscous: Option<f64>,
    /// Pits in the surface: height and wavelength, m
    #[arg(long, value_name = "H,L", value_parser = list::<2>)]
    texture: Option<[f64; 2]>,
}

impl MaterialArgs {
    pub(super) fn params(&self, keep: bool) -> Value {
        let mut m = Map::new();
        put(&mut m, "name", Some(self.name.as_str()));
        put(&mut m, "stiffness", Some(self.stiffness));
        put(&mut m, "reference_area", self.area);
        put(&mut m, "damping", self.damping);
        if let Some(mu) = self.friction {
            let mut f = Map::new();
            put(&mut f, "static", Some(mu));
            put(&mut f, "dynamic", self.sliding);
            put(&mut f, "stribeck", self.stribeck);
            put(&mut f, "viscous", self.viscous);
            m.insert("friction".into(), Value::Object(f));
        }
        put(&mut m, "texture", self.texture.map(|[h, l]| json!({"height": h, "wavelength": l})));
        put(&mut m, "persistent", Some(keep));
        Value::Object(m)
    }
}

/// `load`.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// Name of the mesh in the scene
    name: String,
    /// STL, OBJ or PLY file
    pub(super) file: PathBuf,
    /// Unit of the file: m, cm, mm, um, in, ft (files carry none)
    #[arg(long)]
    unit: String,
    /// Format, when the file's name does not say
    #[arg(long, value_parser = ["stl", "obj", "ply"])]
    format: Option<String>,
    /// Further factor on all lengths
    #[arg(long, value_parser = finite)]
    scale: Option<f64>,
    /// Refuse what would have to be repaired
    #[arg(long)]
    strict: bool,
    /// Weld vertices closer than this, m
    #[arg(long, value_name = "M", value_parser = not_negative)]
    weld: Option<f64>,
    /// Cells of the distance field along the longest side
    #[arg(long, value_name = "N", conflicts_with = "cell")]
    resolution: Option<u32>,
    /// Edge of a cell of the distance field, m
    #[arg(long, value_name = "M", value_parser = positive)]
    cell: Option<f64>,
    /// Smaller cells where its walls or gaps need them to be felt; refuses the object where that takes too much memory
    #[arg(long)]
    hold_thin: bool,
}

impl LoadArgs {
    pub(super) fn params(&self, keep: bool) -> anyhow::Result<Value> {
        let extension = self.file.extension().map(|e| e.to_string_lossy().to_lowercase());
        let format =
            self.format.clone().or(extension).filter(|f| ["stl", "obj", "ply"].contains(&f.as_str()));
        let unknown = || {
            Usage(format!(
                "{}: the name does not tell the format; give --format stl, obj or ply",
                self.file.display()
            ))
        };
        let format = format.ok_or_else(unknown)?;
        let mut m = Map::new();
        put(&mut m, "name", Some(self.name.as_str()));
        put(&mut m, "source", Some("descriptor"));
        put(&mut m, "format", Some(format));
        put(&mut m, "unit", Some(self.unit.as_str()));
        put(&mut m, "scale", self.scale);
        put(&mut m, "strict", Some(self.strict));
        put(&mut m, "weld_tolerance", self.weld);
        put(&mut m, "resolution", self.resolution.map(|n| json!({"longest": n})));
        put(&mut m, "resolution", self.cell.map(|c| json!({"cell": c})));
        put(&mut m, "hold_thin", self.hold_thin.then_some(true));
        put(&mut m, "persistent", Some(keep));
        Ok(Value::Object(m))
    }
}

/// `object`.
#[derive(Debug, clap::Args)]
pub(super) struct ObjectArgs {
    /// Name
    name: String,
    /// A loaded mesh
    #[arg(long)]
    mesh: String,
    /// A material
    #[arg(long)]
    material: String,
    /// Position, m
    #[arg(long, value_name = "X,Y,Z", value_parser = list::<3>, allow_hyphen_values = true)]
    at: Option<[f64; 3]>,
    /// Orientation, a unit quaternion
    #[arg(long, value_name = "X,Y,Z,W", value_parser = list::<4>, allow_hyphen_values = true)]
    rot: Option<[f64; 4]>,
    /// Factor on the mesh, or one for each axis
    #[arg(long, value_name = "S|X,Y,Z", value_parser = factors, allow_hyphen_values = true)]
    scale: Option<[f64; 3]>,
    /// A motion stream may move it
    #[arg(long)]
    moving: bool,
    /// How contact with it is computed: by the tool's points or by its inner spheres; by default as the tool says
    #[arg(long, value_parser = ["vps", "ist"])]
    method: Option<String>,
    /// Which body is sampled: the tool, the object, or (auto, the default) the object where it is much the smaller one
    #[arg(long, value_parser = ["auto", "tool", "object"])]
    shell: Option<String>,
    /// What a ball is held by: its distance field, or its triangles, on the side from which it comes however thin they are
    #[arg(long, value_parser = ["field", "mesh"])]
    proxy: Option<String>,
}

impl ObjectArgs {
    pub(super) fn params(&self, keep: bool) -> Value {
        let mut m = Map::new();
        put(&mut m, "name", Some(self.name.as_str()));
        put(&mut m, "mesh", Some(self.mesh.as_str()));
        put(&mut m, "material", Some(self.material.as_str()));
        put(&mut m, "pose", pose(self.at, self.rot));
        put(&mut m, "scale", self.scale.map(|s| json!(s)));
        put(&mut m, "moving", Some(self.moving));
        put(&mut m, "method", self.method.as_deref());
        put(&mut m, "shell", self.shell.as_deref());
        put(&mut m, "proxy", self.proxy.as_deref());
        put(&mut m, "persistent", Some(keep));
        Value::Object(m)
    }
}

/// `move`.
#[derive(Debug, clap::Args)]
pub(super) struct MoveArgs {
    /// Name or identifier
    object: String,
    /// Position, m
    #[arg(long, value_name = "X,Y,Z", value_parser = list::<3>, allow_hyphen_values = true)]
    at: [f64; 3],
    /// Orientation, a unit quaternion
    #[arg(long, value_name = "X,Y,Z,W", value_parser = list::<4>, allow_hyphen_values = true)]
    rot: Option<[f64; 4]>,
}

impl MoveArgs {
    pub(super) fn params(&self) -> Value {
        json!({"object": reference(&self.object), "pose": pose(Some(self.at), self.rot)})
    }
}

/// `set`.
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// Name or identifier
    object: String,
    /// Other material
    #[arg(long)]
    material: Option<String>,
    /// Other mesh
    #[arg(long)]
    mesh: Option<String>,
    /// Factor on the mesh, or one for each axis
    #[arg(long, value_name = "S|X,Y,Z", value_parser = factors, allow_hyphen_values = true)]
    scale: Option<[f64; 3]>,
    /// Whether a motion stream may move it
    #[arg(long)]
    moving: Option<bool>,
    /// How contact with it is computed: by the tool's points or by its inner spheres
    #[arg(long, value_parser = ["vps", "ist"])]
    method: Option<String>,
    /// Which body is sampled
    #[arg(long, value_parser = ["auto", "tool", "object"])]
    shell: Option<String>,
    /// What a ball is held by: its distance field, or its triangles, on the side from which it comes however thin they are
    #[arg(long, value_parser = ["field", "mesh"])]
    proxy: Option<String>,
}

impl SetArgs {
    pub(super) fn params(&self) -> Value {
        let mut m = Map::new();
        put(&mut m, "object", Some(reference(&self.object)));
        put(&mut m, "material", self.material.as_deref());
        put(&mut m, "mesh", self.mesh.as_deref());
        put(&mut m, "scale", self.scale.map(|s| json!(s)));
        put(&mut m, "moving", self.moving);
        put(&mut m, "method", self.method.as_deref());
        put(&mut m, "shell", self.shell.as_deref());
        put(&mut m, "proxy", self.proxy.as_deref());
        Value::Object(m)
    }
}

/// `delete`.
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    /// Name or identifier of the object; with --mesh, --material or --effect the name of that
    name: String,
    /// Delete a mesh
    #[arg(long, conflicts_with = "material")]
    mesh: bool,
    /// Delete a material
    #[arg(long)]
    material: bool,
    /// Delete an effect
    #[arg(long, conflicts_with_all = ["mesh", "material"])]
    effect: bool,
}

/// `effect`.
#[derive(Debug, clap::Args)]
// Not all of its arguments, as `#[group(id = ...)]` here would have it.
#[group(skip)]
#[command(group = clap::ArgGroup::new("kind").required(true))]
pub(super) struct EffectArgs {
    /// Name
    name: String,
    /// Against the motion, N·s/m
    #[arg(long, value_name = "NS/M", group = "kind", value_parser = finite)]
    viscosity: Option<f64>,
    /// A constant force, N
    #[arg(long, value_name = "X,Y,Z", group = "kind", value_parser = list::<3>, allow_hyphen_values = true)]
    constant: Option<[f64; 3]>,
    /// A spring to the point of --at, N/m
    #[arg(long, value_name = "N/m", group = "kind", value_parser = finite, requires = "at")]
    spring: Option<f64>,
    /// A magnet at the point of --at: its largest pull, N
    #[arg(long, value_name = "N", group = "kind", value_parser = finite, requires_all = ["at", "range"])]
    magnet: Option<f64>,
    /// Point of a spring or a magnet in the scene, m
    #[arg(long, value_name = "X,Y,Z", value_parser = list::<3>, allow_hyphen_values = true, conflicts_with_all = ["viscosity", "constant"])]
    at: Option<[f64; 3]>,
    /// How far a magnet reaches, m
    #[arg(long, value_name = "M", value_parser = positive, conflicts_with_all = ["viscosity", "constant", "spring"])]
    range: Option<f64>,
    /// It never pushes with more, N (2 when not given)
    #[arg(long, value_name = "N", value_parser = not_negative)]
    max: Option<f64>,
}

impl EffectArgs {
    pub(super) fn params(&self, keep: bool) -> Value {
        let effect = if let Some(damping) = self.viscosity {
            json!({"viscosity": {"damping": damping}})
        } else if let Some(force) = self.constant {
            json!({"constant": {"force": force}})
        } else if let Some(stiffness) = self.spring {
            json!({"spring": {"point": self.at, "stiffness": stiffness}})
        } else {
            json!({"magnet": {"point": self.at, "force": self.magnet, "range": self.range}})
        };
        let mut m = Map::new();
        put(&mut m, "name", Some(self.name.as_str()));
        put(&mut m, "effect", Some(effect));
        put(&mut m, "max_force", self.max);
        put(&mut m, "persistent", Some(keep));
        Value::Object(m)
    }
}

impl DeleteArgs {
    /// An object that is not there may be a mesh or a material.
    pub(super) fn explain(&self, e: ClientError) -> anyhow::Error {
        let hint = match &e {
            ClientError::Refused(r)
                if r.code == codes::NOT_FOUND && !(self.mesh || self.material || self.effect) =>
            {
                "; a mesh is deleted with --mesh, a material with --material, an effect with --effect"
            }
            _ => return e.into(),
        };
        anyhow::anyhow!("{e}{hint}")
    }

    pub(super) fn request(&self) -> (&'static str, Value) {
        if self.effect {
            return ("effect.delete", json!({"name": self.name}));
        }
        match (self.mesh, self.material) {
            (true, _) => ("mesh.delete", json!({"name": self.name})),
            (_, true) => ("material.delete", json!({"name": self.name})),
            _ => ("object.delete", json!({"object": reference(&self.name)})),
        }
    }
}

/// `tool`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("shape").required(true))]
pub(super) struct ToolArgs {
    /// A ball of this radius, m
    #[arg(long, value_name = "M", group = "shape", value_parser = positive)]
    sphere: Option<f64>,
    /// A loaded mesh
    #[arg(long, value_name = "NAME", group = "shape")]
    mesh: Option<String>,
    /// Surface points of the mesh
    #[arg(long, value_name = "N", requires = "mesh", conflicts_with = "sphere")]
    points: Option<u32>,
    /// Fill the mesh with so many inner spheres instead: contact by Inner Sphere Tree
    #[arg(long, value_name = "N", requires = "mesh", conflicts_with_all = ["sphere", "points"])]
    spheres: Option<u32>,
}

impl ToolArgs {
    pub(super) fn params(&self) -> Value {
        if let Some(radius) = self.sphere {
            return json!({"tool": {"sphere": {"radius": radius}}});
        }
        let mut m = Map::new();
        put(&mut m, "mesh", self.mesh.as_deref());
        if self.spheres.is_some() {
            put(&mut m, "spheres", self.spheres);
            return json!({"tool": {"spheres": m}});
        }
        put(&mut m, "points", self.points);
        json!({"tool": {"mesh": m}})
    }
}

/// `place`.
#[derive(Debug, clap::Args)]
pub(super) struct PlaceArgs {
    /// Position of the device's origin in the scene, m
    #[arg(long, value_name = "X,Y,Z", value_parser = list::<3>, allow_hyphen_values = true)]
    at: Option<[f64; 3]>,
    /// Orientation of the device's frame, a unit quaternion
    #[arg(long, value_name = "X,Y,Z,W", value_parser = list::<4>, allow_hyphen_values = true)]
    rot: Option<[f64; 4]>,
    /// Scene metres per device metre
    #[arg(long, value_parser = finite)]
    scale: Option<f64>,
}

impl PlaceArgs {
    pub(super) fn params(&self) -> Value {
        let mut m = Map::new();
        put(&mut m, "pose", pose(self.at, self.rot));
        put(&mut m, "scale", self.scale);
        Value::Object(m)
    }
}

/// `limits`.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// Largest force, N
    #[arg(long, value_name = "N", value_parser = finite)]
    force: Option<f64>,
    /// Largest torque, N·m
    #[arg(long, value_name = "NM", value_parser = finite)]
    torque: Option<f64>,
    /// Largest velocity, m/s
    #[arg(long, value_name = "M/S", value_parser = finite)]
    velocity: Option<f64>,
}

impl LimitArgs {
    pub(super) fn params(&self) -> Value {
        let mut m = Map::new();
        put(&mut m, "force", self.force);
        put(&mut m, "torque", self.torque);
        put(&mut m, "velocity", self.velocity);
        Value::Object(m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_references() {
        assert_eq!(factors("2"), Ok([2.0; 3]));
        assert_eq!(factors("1,-1,1"), Ok([1.0, -1.0, 1.0]));
        assert_eq!(reference("7"), json!(7));
        assert_eq!(reference("b7"), json!("b7"));
    }
}
