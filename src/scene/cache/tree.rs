//! Sphere trees in the cache.

use super::field::mesh_bytes;
use super::{Cache, CacheNote, Key, Mode, Source};
use crate::contact::ist::{IstError, IstParams, SphereTree, Stop, VERSION};
use crate::geometry::TriMesh;
use crate::geometry::field::build::{self, Progress};

/// The key of a mesh's sphere tree: mesh, parameters, versions of the builds.
fn tree_key(mesh: &TriMesh, params: &IstParams) -> Key {
    let (vertices, triangles) = mesh_bytes(mesh);
    let (kind, value) = match params.stop {
        Stop::Spheres(n) => (0, n as u64),
        Stop::Radius(r) => (1, r.to_bits()),
        Stop::Fill(f) => (2, f.to_bits()),
    };
    let parts: [&[u8]; 7] = [
        &vertices,
        &triangles,
        &params.spheres.to_le_bytes(),
        &[params.split as u8],
        &[kind],
        &value.to_le_bytes(),
        &build::VERSION.to_le_bytes(),
    ];
    Key::new("sphere tree", VERSION, &parts)
}

impl Cache {
    /// The sphere tree of a mesh: from the cache, or built and put there. Notes say what went wrong with the cache on the
    /// way, and that a tree just built is not kept.
    ///
    /// # Errors
    /// Those of [`SphereTree::build`]; the cache causes none.
    pub fn sphere_tree(
        &self,
        mesh: &TriMesh,
        params: &IstParams,
        progress: &dyn Progress,
        notes: &mut Vec<CacheNote>,
    ) -> Result<(SphereTree, Source), IstError> {
        if self.mode == Mode::Off {
            let tree = SphereTree::build(mesh, params, progress)?;
            notes.extend(self.note.clone());
            return Ok((tree, Source::Built));
        }
        let key = tree_key(mesh, params);
        // A cancelled look-up leaves the entry alone: the surface is made without a look at `cancelled`.
        let decode = |bytes: &[u8]| SphereTree::decode(bytes, mesh, &|| false);
        if let Some(tree) = self.find(&key, "it holds no sphere tree", decode, notes) {
            return Ok((tree, Source::Disk));
        }
        let tree = SphereTree::build(mesh, params, progress)?;
        self.keep(&key, || tree.encode(), notes);
        Ok((tree, Source::Built))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::ist::Split;
    use crate::geometry::shapes;
    use std::collections::HashSet;

    /// What makes another tree has another key.
    #[test]
    fn every_parameter_is_in_the_key() {
        let mesh = shapes::icosphere(0.01, 1);
        let usual = IstParams::spheres(100);
        let others = [
            IstParams { stop: Stop::Spheres(99), ..usual },
            IstParams { stop: Stop::Radius(1e-3), ..usual },
            IstParams { stop: Stop::Radius(2e-3), ..usual },
            IstParams { stop: Stop::Fill(1e-3), ..usual },
            IstParams { stop: Stop::Fill(0.5), ..usual },
            IstParams { split: Split::Median, ..usual },
            IstParams { spheres: 101, ..usual },
        ];
        let keys: HashSet<Key> = others.iter().chain([&usual]).map(|p| tree_key(&mesh, p)).collect();
        assert_eq!(keys.len(), 8);
        assert!(tree_key(&mesh, &usual) == tree_key(&mesh, &IstParams::spheres(100)));
    }
}
