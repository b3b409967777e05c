//! Directories that a configuration leaves open: those of systemd, else those of the user.

use super::Config;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where recordings and dumps go; `None` where neither the configuration nor the environment says.
#[must_use]
pub fn recordings(config: &Config) -> Option<PathBuf> {
    let names = ["STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state"];
    choose(config.recordings.dir.as_deref(), names, |name| std::env::var_os(name))
}

/// Where built fields are kept; `None` where there is no place or no wish (`cache.size_mb = 0`).
#[must_use]
pub fn cache(config: &Config) -> Option<PathBuf> {
    if config.cache.size_mb == 0 {
        return None;
    }
    let names = ["CACHE_DIRECTORY", "XDG_CACHE_HOME", ".cache"];
    choose(config.cache.dir.as_deref(), names, |name| std::env::var_os(name))
}

/// The first of: the configured directory, systemd's, the user's.
fn choose(
    given: Option<&Path>,
    [systemd, xdg, below_home]: [&str; 3],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // systemd separates several directories by colons.
    let first = |dirs: PathBuf| dirs.to_string_lossy().split(':').next().map(PathBuf::from);
    given
        .map(Path::to_path_buf)
        .or_else(|| set(systemd).and_then(first))
        // A relative one counts as not set (XDG Base Directory Specification).
        .or_else(|| set(xdg).filter(|d| d.is_absolute()).map(|d| d.join("hapticd")))
        .or_else(|| set("HOME").map(|d| d.join(below_home).join("hapticd")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(given: Option<&str>, variables: &[(&str, &str)]) -> Option<PathBuf> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        choose(given.map(Path::new), ["SYSTEMD", "XDG", ".cache"], get)
    }

    #[test]
    fn the_configuration_wins_then_systemd_then_the_user() {
        let all = [("SYSTEMD", "/var/cache/a:/var/cache/b"), ("XDG", "/x"), ("HOME", "/home/u")];
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(chosen(Some("/given"), &all), is("/given"));
        assert_eq!(chosen(None, &all), is("/var/cache/a"));
        assert_eq!(chosen(None, &all[1..]), is("/x/hapticd"));
        assert_eq!(chosen(None, &all[2..]), is("/home/u/.cache/hapticd"));
        assert_eq!(chosen(None, &[]), None);
        let odd = [("SYSTEMD", ""), ("XDG", "relative"), ("HOME", "/home/u")];
        assert_eq!(chosen(None, &odd), is("/home/u/.cache/hapticd"));
    }

    #[test]
    fn no_size_is_no_cache() {
        let mut config = Config::default();
        config.cache.dir = Some("/somewhere".into());
        assert_eq!(cache(&config), Some("/somewhere".into()));
        config.cache.size_mb = 0;
        assert_eq!(cache(&config), None);
    }
}
