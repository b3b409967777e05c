//! Recorded pose paths with exact answers: JSON lines, a header object first, then one object a pose.
//!
//! `x_static = R(q) x_moving + p`; here, unlike everywhere else, quaternions are w first. Truth is optional: `d`
//! smallest distance of the surfaces, `a` and `b` the points that are so close (static, moving), `v` volume of the intersection, `gp` and `gr` its derivatives with respect to
//! translation and to rotation about the moving body's origin.

use crate::geometry::import::{Format, ImportOptions, import};
use crate::geometry::{Pose, TriMesh, Vec3};
use anyhow::{Context, Result, bail, ensure};
use nalgebra::{Quaternion, Translation3, UnitQuaternion};
use serde::Deserialize;
use std::path::{Component, Path, PathBuf};

/// Largest path file accepted, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// One body of a path.
#[derive(Clone, Debug, Deserialize)]
pub struct Body {
    /// File name; what stands before a colon is not part of it.
    pub model: String,
    /// Factor on the file's vertices that gives metres.
    #[serde(default = "one")]
    pub scale: f64,
    /// Volume of the solid, m^3, where it is one.
    #[serde(default)]
    pub volume: Option<f64>,
}

fn one() -> f64 {
    1.0
}

impl Body {
    /// The file name without what stands before a colon.
    pub fn file(&self) -> &str {
        self.model.rsplit(':').next().unwrap_or(&self.model)
    }

    /// Finds the model in one of these folders and imports it, in metres after its `scale`.
    ///
    /// # Errors
    /// A message naming the model and where it was looked for, or the file and what is wrong with it.
    pub fn load(&self, dirs: &[PathBuf]) -> Result<TriMesh> {
        let name = self.file();
        if !Path::new(name).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
            bail!("model '{name}' must lie inside one of the --models folders: no '..' and no absolute path");
        }
        let Some(file) = dirs.iter().map(|d| d.join(name)).find(|f| f.is_file()) else {
            let looked: Vec<String> = dirs.iter().map(|d| d.display().to_string()).collect();
            bail!("model '{name}' is in none of: {}; name its folder with --models", looked.join(", "));
        };
        let format = Format::of_file(name)?;
        let bytes = std::fs::read(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
        let options = ImportOptions::in_unit(self.scale);
        Ok(import(&file.display().to_string(), &bytes, format, &options)?.mesh)
    }
}

/// The first line.
#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    /// Name of the path; the file's name where it is missing.
    #[serde(default)]
    pub name: Option<String>,
    /// The body at rest.
    #[serde(rename = "static")]
    pub fixed: Body,
    /// The body that moves.
    pub moving: Body,
    /// Size by which distance errors are divided, m.
    #[serde(default)]
    pub bounding_size: Option<f64>,
    /// Time between poses, s.
    #[serde(default = "tick")]
    pub dt: f64,
}

fn tick() -> f64 {
    1e-3
}

/// Largest coordinate of a pose, m: that of scenes.
const MOST: f64 = 1000.0;
/// Largest number of an exact answer, SI.
const LARGEST: f64 = 1e9;

#[derive(Deserialize)]
struct Line {
    p: [f64; 3],
    q: [f64; 4],
    #[serde(default)]
    d: Option<f64>,
    #[serde(default)]
    v: Option<f64>,
    #[serde(default)]
    a: Option<[f64; 3]>,
    #[serde(default)]
    b: Option<[f64; 3]>,
    #[serde(default)]
    gp: Option<[f64; 3]>,
    #[serde(default)]
    gr: Option<[f64; 3]>,
}

/// The exact answer at a pose, as far as the file gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Truth {
    /// Smallest distance of the surfaces, m; 0 where they touch or cross.
    pub distance: Option<f64>,
    /// The closest points of the surfaces, the resting body's first, in its frame, m; where several pairs are closest, one of them.
    pub closest: Option<[Vec3; 2]>,
    /// Volume of the intersection, m^3.
    pub volume: Option<f64>,
    /// Derivative of the volume with respect to the moving body's position, m^2.
    pub by_position: Option<Vec3>,
    /// Derivative with respect to its rotation about its own origin, m^3/rad.
    pub by_rotation: Option<Vec3>,
}

impl Truth {
    /// Whether the bodies overlap; `None` where the file does not tell or they touch within its precision.
    pub fn touching(&self) -> Option<bool> {
        match (self.volume, self.distance) {
            (Some(v), _) if v > 0.0 => Some(true),
            (_, Some(d)) if d > 0.0 => Some(false),
            (None, Some(_)) => Some(true),
            _ => None,
        }
    }
}

/// A whole path.
#[derive(Clone, Debug)]
pub struct PosePath {
    /// Name for the report.
    pub name: String,
    /// First line.
    pub header: Header,
    /// Pose of the moving body in the static one's frame, and what is known of it.
    pub poses: Vec<(Pose, Truth)>,
}

impl PosePath {
    /// Reads a path file.
    ///
    /// # Errors
    /// A message with file and line.
    pub fn read(file: &Path) -> Result<Self> {
        let size =
            std::fs::metadata(file).with_context(|| format!("{}: cannot be read", file.display()))?.len();
        ensure!(size <= MAX_BYTES, "{}: {size} bytes is more than the limit of {MAX_BYTES}", file.display());
        let text =
            std::fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
        let stem = file.file_stem().map_or_else(|| "path".into(), |s| s.to_string_lossy().into_owned());
        Self::parse(&text, &stem).with_context(|| format!("{}", file.display()))
    }

    /// Parses the text of a path file; `stem` is its name where the header gives none.
    ///
    /// # Errors
    /// A message with the line.
    pub fn parse(text: &str, stem: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
        let Some((_, first)) = lines.next() else {
            bail!("the file is empty; a header object must come first")
        };
        let header: Header = serde_json::from_str(first).context("line 1: not a path header")?;
        for (role, body) in [("static", &header.fixed), ("moving", &header.moving)] {
            ensure!(
                body.scale.is_finite() && body.scale > 0.0,
                "line 1: {role}.scale must be a positive number, not {}",
                body.scale
            );
        }
        let mut poses = Vec::new();
        for (n, line) in lines {
            poses.push(pose(line).with_context(|| format!("line {}", n + 1))?);
        }
        ensure!(!poses.is_empty(), "no pose follows the header");
        let name = header.name.clone().unwrap_or_else(|| stem.to_owned());
        Ok(Self { name, header, poses })
    }
}

fn pose(line: &str) -> Result<(Pose, Truth)> {
    let l: Line = serde_json::from_str(line).context("not a pose")?;
    let [w, x, y, z] = l.q;
    let q = Quaternion::new(w, x, y, z);
    ensure!(l.p.iter().all(|c| c.abs() <= MOST), "p is not finite, or farther than {MOST} m");
    ensure!((q.norm() - 1.0).abs() < 1e-3, "q must be a unit quaternion, w first; its norm is {}", q.norm());
    let pose = Pose::from_parts(Translation3::from(Vec3::from(l.p)), UnitQuaternion::new_normalize(q));
    let known = [l.d, l.v]
        .into_iter()
        .flatten()
        .chain(l.gp.iter().chain([&l.gr, &l.a, &l.b].into_iter().flatten()).flatten().copied());
    ensure!(
        known.into_iter().all(|x| x.abs() <= LARGEST),
        "an exact answer is not finite, or above {LARGEST:e}"
    );
    let truth = Truth {
        distance: l.d,
        closest: l.a.zip(l.b).map(|(a, b)| [a, b].map(Vec3::from)),
        volume: l.v,
        by_position: l.gp.map(Vec3::from),
        by_rotation: l.gr.map(Vec3::from),
    };
    Ok((pose, truth))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"static":{"model":"s:a/b.ply"},"moving":{"model":"c.stl","scale":0.001}}"#;

    #[test]
    fn reads_poses_with_and_without_truth() {
        let text = format!(
            "{HEADER}\n{}\n\n{}\n{}\n",
            r#"{"p":[1,2,3],"q":[0,1,0,0],"d":0.5,"v":0}"#,
            r#"{"p":[0,0,0],"q":[1,0,0,0],"d":0,"v":2e-6,"gp":[1,0,0],"gr":[0,0,1]}"#,
            r#"{"p":[0,0,0],"q":[1,0,0,0]}"#
        );
        let path = PosePath::parse(&text, "stem").expect("parses");
        assert_eq!((path.name.as_str(), path.header.fixed.file()), ("stem", "a/b.ply"));
        assert_eq!((path.header.moving.file(), path.header.moving.scale), ("c.stl", 0.001));
        // Half a turn about x: the quaternion is read w first.
        let turned = path.poses[0].0 * Vec3::new(0.0, 1.0, 0.0);
        assert!((turned + Vec3::new(0.0, 1.0, 0.0)).norm() < 1e-12);
        let touch: Vec<_> = path.poses.iter().map(|(_, t)| t.touching()).collect();
        assert_eq!(touch, [Some(false), Some(true), None]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            (String::new(), "empty"),
            ("[]".into(), "line 1"),
            (HEADER.into(), "no pose"),
            (format!("{HEADER}\n{{\"p\":[0,0,0],\"q\":[2,0,0,0]}}"), "line 2"),
            (format!("{HEADER}\n\n{{\"p\":[0,0],\"q\":[1,0,0,0]}}"), "line 3"),
            (HEADER.replace("0.001", "-1"), "scale"),
            (format!("{HEADER}\n{{\"p\":[1e9,0,0],\"q\":[1,0,0,0]}}"), "1000 m"),
            (format!("{HEADER}\n{{\"p\":[0,0,0],\"q\":[1,0,0,0],\"d\":1e308}}"), "exact answer"),
        ] {
            let e = format!("{:#}", PosePath::parse(&text, "x").expect_err("must fail"));
            assert!(e.contains(part), "{e}");
        }
    }
}
