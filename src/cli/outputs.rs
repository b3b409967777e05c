//! Files that a command writes: never one that it reads, nor the same one twice.

use super::exit::Usage;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that a command names, with the argument that names it.
pub type Named<'a> = (&'a str, &'a Path);

/// What two names of one file have in common: its number where it exists, else its place.
#[derive(PartialEq, Eq)]
enum Identity {
    Inode(u64, u64),
    Place(PathBuf),
}

fn identity(path: &Path) -> Option<Identity> {
    if let Ok(meta) = std::fs::metadata(path) {
        // Devices and pipes (/dev/null, /dev/full) may be named as often as one likes.
        return meta.is_file().then(|| Identity::Inode(meta.dev(), meta.ino()));
    }
    // Directories that the command has yet to make, below the last one that is there.
    path.ancestors().skip(1).find_map(|parent| {
        let named = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let there = std::fs::canonicalize(named).ok()?;
        Some(Identity::Place(there.join(path.strip_prefix(parent).ok()?)))
    })
}

/// Refuses outputs that are inputs or name one file twice, whatever the names: links count as what they lead to.
///
/// # Errors
/// [`Usage`], naming both arguments.
pub fn keep_apart(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Usage> {
    for (i, (name, path)) in outputs.iter().enumerate() {
        let Some(own) = identity(path) else { continue };
        let same = |(_, other): &&Named<'_>| identity(other).as_ref() == Some(&own);
        if let Some((input, _)) = inputs.iter().find(same) {
            let text =
                format!("{name} {} would overwrite the input {input}; give another name", path.display());
            return Err(Usage(text));
        }
        if let Some((other, _)) = outputs[..i].iter().find(same) {
            return Err(Usage(format!("{other} and {name} are the same file, {}; give two", path.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_known_under_all_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("scene"), "x").unwrap();
        std::fs::hard_link(at("scene"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("scene"), at("soft")).unwrap();
        let scene = at("scene");
        let input = [("SCENE", scene.as_path())];
        for name in ["scene", "hard", "soft", "./scene", "../x/../scene"] {
            let out = if name.starts_with("..") {
                std::fs::create_dir_all(at("sub")).unwrap();
                dir.path().join("sub/../scene")
            } else {
                at(name)
            };
            let e = keep_apart(&input, &[("--out", &out)]).unwrap_err().to_string();
            assert!(e.contains("--out") && e.contains("SCENE"), "{name}: {e}");
        }
        // Not there yet: the place counts.
        let (a, b, c) = (at("new"), at("./new"), at("other"));
        assert!(keep_apart(&input, &[("--out", &a), ("--json", &b)]).is_err());
        assert!(keep_apart(&input, &[("--out", &a), ("--json", &c)]).is_ok());
        let (d, e) = (at("made/later/x"), at("./made/./later/x"));
        assert!(keep_apart(&[], &[("--out", &d), ("--json", &e)]).is_err());
        let null = Path::new("/dev/null");
        assert!(keep_apart(&[("SCENE", null)], &[("--out", null), ("--json", null)]).is_ok());
    }
}
