//! Sphere trees in the cache.

use super::field::mesh_bytes;
use super::{Cache, CacheNote, Key, Mode, Source};
use crate::contact::ist::{IstError, IstParams, SphereTree, VERSION};
use crate::geometry::TriMesh;
use crate::geometry::field::build::{self, Progress};

/// The key of a mesh's sphere tree: mesh, parameters, versions of the builds.
fn tree_key(mesh: &TriMesh, params: &IstParams) -> Key {
    let (vertices, triangles) = mesh_bytes(mesh);
    let parts: [&[u8]; 5] = [
        &vertices,
        &triangles,
        &params.spheres.to_le_bytes(),
        &[params.split as u8],
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
