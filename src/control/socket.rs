//! The control socket: where it is, who may open it, and that only one daemon serves it.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// File name of the control socket.
const NAME: &str = "control.sock";

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon holds the lock.
    #[error("hapticd is already running on {socket}{pid}; stop it first, or give another control.socket")]
    Running {
        /// The socket.
        socket: String,
        /// ` (process N)` where known.
        pid: String,
    },
    /// Something else lies at the path.
    #[error("{0} exists and is not a socket; remove it, or give another control.socket")]
    Foreign(String),
    /// No standard place can be used.
    #[error(
        "no place for the control socket: /run/hapticd cannot be written and XDG_RUNTIME_DIR is not set; \
         give control.socket in the configuration"
    )]
    NoPlace,
    /// No such group.
    #[error(
        "control.group: there is no group '{0}'; create it (see systemd/hapticd.sysusers), or leave it empty"
    )]
    Group(String),
    /// Anything the system says.
    #[error("{what} {path}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: String,
        /// The answer.
        error: io::Error,
    },
}

fn system(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.display().to_string();
    move |error| SocketError::System { what, path, error }
}

/// The places where a client looks for the socket, in order: the system's, then the user's.
pub fn candidates() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/run/hapticd").join(NAME)];
    if let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        places.push(PathBuf::from(dir).join("hapticd").join(NAME));
    }
    places
}

/// Where a daemon puts its socket when the configuration does not say: systemd's runtime directory, else
/// `/run/hapticd` when it can be written, else the user's runtime directory.
///
/// # Errors
/// [`SocketError::NoPlace`].
pub fn default_path() -> Result<PathBuf, SocketError> {
    if let Some(dirs) = std::env::var_os("RUNTIME_DIRECTORY").filter(|d| !d.is_empty()) {
        // systemd separates several directories by colons; ours is the first.
        let first = dirs.to_string_lossy().split(':').next().unwrap_or_default().to_owned();
        return Ok(PathBuf::from(first).join(NAME));
    }
    for path in candidates() {
        let Some(dir) = path.parent() else { continue };
        let made = std::fs::create_dir_all(dir);
        let writable = nix::unistd::access(dir, nix::unistd::AccessFlags::W_OK).is_ok();
        if made.is_ok() && writable {
            return Ok(path);
        }
    }
    Err(SocketError::NoPlace)
}

/// A listening control socket. Dropping it removes the socket file and releases the lock.
#[derive(Debug)]
pub struct ControlSocket {
    /// Non-blocking listener.
    pub listener: UnixListener,
    path: PathBuf,
    _lock: Flock<File>,
}

impl ControlSocket {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the lock beside the socket, removes a stale socket, and listens with mode 0660.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn open(path: &Path, group: Option<&str>) -> Result<Self, SocketError> {
        let lock = lock(path)?;
        // With the lock held nobody serves the socket: whatever lies there is left over from a crash.
        match std::fs::symlink_metadata(path) {
            Ok(m) if m.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(system("cannot remove the stale", path))?;
            }
            Ok(_) => return Err(SocketError::Foreign(path.display().to_string())),
            Err(_) => {}
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let errno = |e: Errno| io::Error::from(e);
        let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .map_err(|e| system("cannot create", path)(errno(e)))?;
        let address = UnixAddr::new(path).map_err(|e| system("cannot name", path)(errno(e)))?;
        bind(fd.as_raw_fd(), &address).map_err(|e| system("cannot bind", path)(errno(e)))?;
        // Rights are set before anybody can connect: a bound socket refuses until it listens.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))
            .map_err(system("cannot set the mode of", path))?;
        if let Some(name) = group {
            let found = nix::unistd::Group::from_name(name).ok().flatten();
            let gid = found.ok_or_else(|| SocketError::Group(name.into()))?.gid;
            nix::unistd::chown(path, None, Some(gid))
                .map_err(|e| system("cannot set the group of", path)(errno(e)))?;
        }
        let backlog = Backlog::new(64).unwrap_or(Backlog::MAXCONN);
        listen(&fd, backlog).map_err(|e| system("cannot listen on", path)(errno(e)))?;
        Ok(Self { listener: UnixListener::from(fd), path: path.into(), _lock: lock })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // The lock file stays: removing it would let two daemons lock two files of one name.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn lock(socket: &Path) -> Result<Flock<File>, SocketError> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(system("cannot open the lock", &path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut locked) => {
            // For people only; the lock itself is what counts.
            let _ = locked.set_len(0).and_then(|()| locked.rewind());
            let _ = writeln!(locked, "{}", std::process::id());
            Ok(locked)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            let _ = Read::take(&mut file, 32).read_to_string(&mut text);
            let pid = text.trim().parse::<u32>().map(|p| format!(" (process {p})")).unwrap_or_default();
            Err(SocketError::Running { socket: socket.display().to_string(), pid })
        }
        Err((_, e)) => Err(system("cannot lock", &path)(e.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_a_socket_and_stale_ones_are_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control.sock");
        let first = ControlSocket::open(&path, None).expect("opens");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let second = ControlSocket::open(&path, None).expect_err("locked").to_string();
        let pid = std::process::id().to_string();
        assert!(second.contains("already running") && second.contains(&pid), "{second}");
        drop(first);
        assert!(!path.exists(), "the socket file goes with the daemon");
        // As after a crash: the file is there, nobody listens.
        drop(UnixListener::bind(&path).expect("binds"));
        assert!(path.exists());
        let again = ControlSocket::open(&path, None).expect("a stale socket is replaced");
        std::os::unix::net::UnixStream::connect(&path).expect("listens");
        assert_eq!(again.path(), path);
    }

    #[test]
    fn what_is_no_socket_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control.sock");
        std::fs::write(&path, "precious").expect("writes");
        let e = ControlSocket::open(&path, None).expect_err("refused").to_string();
        assert!(e.contains("not a socket"), "{e}");
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    }

    #[test]
    fn an_unknown_group_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let e = ControlSocket::open(&dir.path().join("s"), Some("no such group")).expect_err("refused");
        assert!(e.to_string().contains("no such group"), "{e}");
    }
}
