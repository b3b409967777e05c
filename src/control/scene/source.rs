//! A mesh's bytes: from a descriptor that the client passed, or from a path under an allow-listed root.

use crate::geometry::field::build::Progress;
use crate::geometry::import::{Format, ImportOptions, import_with};
use crate::protocol::edit::MeshFormat;
use crate::protocol::rpc::{RpcError, codes};
use crate::scene::model::SourceMesh;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn refuse(message: impl Into<String>) -> RpcError {
    RpcError::new(codes::DESCRIPTOR, message).field("source")
}

/// Checks that a passed descriptor is a readable regular file or memfd within the limit.
///
/// # Errors
/// What is wrong with it.
pub fn accept(fd: OwnedFd, limit: u64) -> Result<File, RpcError> {
    let flags = fcntl(fd.as_fd(), FcntlArg::F_GETFL)
        .map_err(|e| refuse(format!("the descriptor cannot be examined: {e}")))?;
    let flags = OFlag::from_bits_retain(flags);
    if flags.contains(OFlag::O_PATH) || flags & OFlag::O_ACCMODE == OFlag::O_WRONLY {
        return Err(refuse("the descriptor is not open for reading"));
    }
    let file = File::from(fd);
    check(&file, limit)?;
    Ok(file)
}

fn check(file: &File, limit: u64) -> Result<(), RpcError> {
    let meta = file.metadata().map_err(|e| refuse(format!("the file cannot be examined: {e}")))?;
    if meta.mode() & libc::S_IFMT != libc::S_IFREG {
        return Err(refuse("only regular files and memfds are taken, no pipe, socket, device or directory"));
    }
    if meta.len() > limit {
        return Err(too_large(meta.len(), limit));
    }
    Ok(())
}

pub(super) fn too_large(size: u64, limit: u64) -> RpcError {
    let text = format!("the mesh has {size} bytes, more than the limit of {limit} (control.mesh_bytes)");
    RpcError::new(codes::LIMIT, text).field("source")
}

/// Opens a path if it truly lies under one of the roots. The check is made on what was opened, so that no link
/// can be swapped in between.
///
/// # Errors
/// Not allowed, not there, or not a regular file.
pub fn open(path: &str, roots: &[PathBuf], limit: u64) -> Result<File, RpcError> {
    if roots.is_empty() {
        return Err(refuse(
            "this daemon takes no meshes by path (scene.mesh_roots is empty); pass a descriptor",
        ));
    }
    if !Path::new(path).is_absolute() {
        return Err(refuse(format!("'{path}' is not an absolute path")));
    }
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = File::options().read(true).custom_flags(flags.bits()).open(path);
    let real = opened.and_then(|f| {
        let real = std::fs::read_link(format!("/proc/self/fd/{}", f.as_raw_fd()))?;
        Ok((f, real))
    });
    let allowed =
        |real: &Path| roots.iter().filter_map(|r| r.canonicalize().ok()).any(|r| real.starts_with(r));
    match real {
        Ok((file, real)) if allowed(&real) => {
            check(&file, limit)?;
            Ok(file)
        }
        // One answer for "outside" and "not there": a client must not learn what exists elsewhere.
        _ => Err(refuse(format!("'{path}' is not a readable file under scene.mesh_roots"))),
    }
}

/// How to read a mesh.
pub struct Reading<'a> {
    /// For messages.
    pub label: &'a str,
    /// Format.
    pub format: MeshFormat,
    /// Metres per unit of the file, further scale included.
    pub metres_per_unit: f64,
    /// Refuse instead of repairing.
    pub strict: bool,
    /// Welding distance, m.
    pub weld_tolerance: f64,
}

/// Imports a mesh and says what the importer reported.
///
/// # Errors
/// The importer's, with place and cause, or cancelled.
pub fn parse(
    bytes: &[u8],
    r: &Reading<'_>,
    progress: &dyn Progress,
) -> Result<(Arc<SourceMesh>, String), RpcError> {
    let mut options = ImportOptions::in_unit(r.metres_per_unit);
    options.strict = r.strict;
    options.weld_tolerance = r.weld_tolerance;
    let format = match r.format {
        MeshFormat::Stl => Format::Stl,
        MeshFormat::Obj => Format::Obj,
        MeshFormat::Ply => Format::Ply,
    };
    let imported = import_with(r.label, bytes, format, &options, progress).map_err(|e| {
        let code = if e.cancelled { codes::CANCELLED } else { codes::REJECTED };
        RpcError::new(code, e.to_string()).field("source")
    })?;
    let note = format!("mesh '{}'\n{}", r.label, imported.report).trim_end().to_owned();
    Ok((SourceMesh::new(imported.mesh, r.label), note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::FromRawFd;

    fn code(e: Result<impl Sized, RpcError>) -> i32 {
        e.err().map_or(0, |e| e.code)
    }

    #[test]
    fn regular_files_and_memfds_only() {
        let mut f = tempfile::tempfile().expect("a file");
        f.write_all(b"mesh").expect("writes");
        assert_eq!(code(accept(f.into(), 10)), 0);

        let m = nix::sys::memfd::memfd_create("m", nix::sys::memfd::MFdFlags::empty()).expect("a memfd");
        assert_eq!(code(accept(m, 10)), 0);

        let (r, w) = nix::unistd::pipe().expect("a pipe");
        assert_eq!(code(accept(r, 10)), codes::DESCRIPTOR);
        assert_eq!(code(accept(w, 10)), codes::DESCRIPTOR);
        let (s, _t) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(code(accept(s.into(), 10)), codes::DESCRIPTOR);
        assert_eq!(code(accept(File::open("/").expect("a directory").into(), 10)), codes::DESCRIPTOR);
        assert_eq!(code(accept(File::open("/dev/zero").expect("a device").into(), 10)), codes::DESCRIPTOR);
    }

    #[test]
    fn unreadable_and_large_files_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("m");
        let w = File::create(&path).expect("creates");
        assert_eq!(code(accept(w.into(), 10)), codes::DESCRIPTOR, "write-only");
        let c = std::ffi::CString::new(path.to_str().expect("utf-8")).expect("no nul");
        // SAFETY: a valid path; the new descriptor is owned here.
        let p = unsafe { OwnedFd::from_raw_fd(libc::open(c.as_ptr(), libc::O_PATH | libc::O_CLOEXEC)) };
        assert_eq!(code(accept(p, 10)), codes::DESCRIPTOR, "O_PATH");
        // A sparse file that claims a terabyte is refused without reading.
        let big = tempfile::tempfile().expect("a file");
        big.set_len(1 << 40).expect("sparse");
        assert_eq!(code(accept(big.into(), 1 << 20)), codes::LIMIT);
    }

    #[test]
    fn paths_stay_under_their_roots() {
        let dir = tempfile::tempdir().expect("a directory");
        let (root, other) = (dir.path().join("root"), dir.path().join("other"));
        std::fs::create_dir_all(root.join("sub")).expect("creates");
        std::fs::create_dir_all(&other).expect("creates");
        std::fs::write(root.join("sub/in.stl"), "x").expect("writes");
        std::fs::write(other.join("out.stl"), "x").expect("writes");
        std::os::unix::fs::symlink(other.join("out.stl"), root.join("link.stl")).expect("links");
        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        let roots = [root.clone()];
        let at = |p: PathBuf| code(open(p.to_str().expect("utf-8"), &roots, 10));
        assert_eq!(at(root.join("sub/in.stl")), 0);
        assert_eq!(at(root.join("sub/../sub/in.stl")), 0);
        assert_eq!(at(root.join("../other/out.stl")), codes::DESCRIPTOR);
        assert_eq!(at(root.join("link.stl")), codes::DESCRIPTOR, "a link that leads out");
        assert_eq!(at(root.join("fifo")), codes::DESCRIPTOR, "and it did not hang");
        assert_eq!(at(root.join("none.stl")), codes::DESCRIPTOR);
        assert_eq!(at("sub/in.stl".into()), codes::DESCRIPTOR, "relative");
        assert_eq!(code(open("/etc/passwd", &[], 1000)), codes::DESCRIPTOR);
        let text = |p: &Path| open(p.to_str().expect("utf-8"), &roots, 10).expect_err("refused").message;
        let (a, b) = (text(&other.join("out.stl")), text(&other.join("none.stl")));
        assert_eq!(a.replace("out", "X"), b.replace("none", "X"), "existence is not told");
    }
}
