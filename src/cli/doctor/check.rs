//! One line of the report, and the file system that the checks look at.

use std::path::{Path, PathBuf};

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Works, but worse than it could; the line says why and what cures it.
    Degraded,
    /// This system does not tell.
    Unknown,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Unknown => "unknown",
        })
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// Verdict.
    pub status: Status,
    /// What was found.
    pub why: String,
    /// The command that cures it; given exactly when degraded.
    pub cure: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.into(), status: Status::Ok, why: why.into(), cure: None }
    }

    pub(super) fn degraded(name: &str, why: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name: name.into(), status: Status::Degraded, why: why.into(), cure: Some(cure.into()) }
    }

    pub(super) fn unknown(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.into(), status: Status::Unknown, why: why.into(), cure: None }
    }
}

/// The root of the file system that is looked at: `/`, or a made-up one in tests.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// Looks below this directory.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// The real path of `/a/b` below this root.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Text of a (small) file, without the white space around it.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        // Kernel files are short; /proc/config and the like are not read through here.
        let bytes = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a directory, sorted; empty when there is none.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let names = entries.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Numbers of the CPUs that `/sys` shows, ascending.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let names = self.list("/sys/devices/system/cpu");
        let mut cpus: Vec<u32> = names.iter().filter_map(|n| n.strip_prefix("cpu")?.parse().ok()).collect();
        cpus.sort_unstable();
        cpus
    }
}

/// Reads a kernel CPU list, `0-2,5`.
pub(super) fn cpu_list(text: &str) -> Vec<u32> {
    let mut out = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u32>(), to.trim().parse::<u32>()) {
            out.extend(from..=to.min(from.saturating_add(4096)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::cpu_list;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(""), Vec::<u32>::new());
        assert_eq!(cpu_list("3"), [3]);
        assert_eq!(cpu_list("x,7-y"), Vec::<u32>::new());
        assert_eq!(cpu_list("0-4294967295").len(), 4097);
    }
}
