//! Who is at the other end of a connection, and what he may do.

use crate::protocol::messages::Role;
use std::io;
use std::os::fd::AsRawFd;

/// Credentials that the kernel recorded when the peer connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Primary and supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Credentials of the peer of a connected Unix socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(stream: &tokio::net::UnixStream) -> io::Result<Self> {
        let cred = stream.peer_cred()?;
        let mut groups = peer_groups(stream.as_raw_fd())?;
        groups.push(cred.gid());
        Ok(Self { pid: cred.pid().unwrap_or(0), uid: cred.uid(), groups })
    }
}

/// Supplementary groups of the peer (`SO_PEERGROUPS`, Linux 4.13). A lookup of the user's groups by name could
/// block on a directory service and may differ from what the process really has.
fn peer_groups(fd: i32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 256];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: `groups` holds `bytes` bytes of plain integers and lives through the call; the kernel writes at
        // most that many and stores the true size into `bytes`.
        let r = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let n = bytes as usize / size_of::<u32>();
        if r == 0 {
            groups.truncate(n);
            return Ok(groups);
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::ERANGE) if n > groups.len() && n <= 65_536 => groups.resize(n, 0),
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            _ => return Err(e),
        }
    }
}

/// The configured lists, resolved to numbers once at start.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    own_uid: u32,
    owners: Names,
    admins: Names,
}

#[derive(Clone, Debug, Default)]
struct Names {
    users: Vec<u32>,
    groups: Vec<u32>,
}

impl Names {
    fn resolve(names: &[String], key: &str, unknown: &mut Vec<String>) -> Self {
        let mut out = Self::default();
        for name in names {
            let found = match name.strip_prefix('@') {
                Some(group) => nix::unistd::Group::from_name(group)
                    .ok()
                    .flatten()
                    .map(|g| out.groups.push(g.gid.as_raw())),
                None => {
                    nix::unistd::User::from_name(name).ok().flatten().map(|u| out.users.push(u.uid.as_raw()))
                }
            };
            if found.is_none() {
                unknown.push(format!("control.{key}: there is no user or group '{name}' on this machine"));
            }
        }
        out
    }

    fn has(&self, peer: &Peer) -> bool {
        self.users.contains(&peer.uid) || self.groups.iter().any(|g| peer.groups.contains(g))
    }
}

impl Policy {
    /// Resolves names (a leading `@` means a group); what cannot be resolved comes back as warnings.
    pub fn new(owners: &[String], admins: &[String]) -> (Self, Vec<String>) {
        let mut unknown = Vec::new();
        let policy = Self {
            own_uid: nix::unistd::geteuid().as_raw(),
            owners: Names::resolve(owners, "owners", &mut unknown),
            admins: Names::resolve(admins, "admins", &mut unknown),
        };
        (policy, unknown)
    }

    /// The most that this peer may do. Root and the daemon's own user may do everything.
    pub fn role(&self, peer: &Peer) -> Role {
        if peer.uid == 0 || peer.uid == self.own_uid || self.admins.has(peer) {
            Role::Admin
        } else if self.owners.has(peer) {
            Role::Owner
        } else {
            Role::Observer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer { pid: 1, uid, groups: groups.to_vec() }
    }

    #[test]
    fn roles_follow_the_lists() {
        let names = |users: &[u32], groups: &[u32]| Names { users: users.into(), groups: groups.into() };
        let p = Policy { own_uid: 500, owners: names(&[1001], &[60]), admins: names(&[], &[70]) };
        assert_eq!(p.role(&peer(0, &[])), Role::Admin);
        assert_eq!(p.role(&peer(500, &[])), Role::Admin);
        assert_eq!(p.role(&peer(1001, &[])), Role::Owner);
        assert_eq!(p.role(&peer(1002, &[3, 60])), Role::Owner);
        assert_eq!(p.role(&peer(1002, &[60, 70])), Role::Admin);
        assert_eq!(p.role(&peer(1002, &[61])), Role::Observer);
    }

    #[test]
    fn unknown_names_are_reported() {
        let (p, unknown) = Policy::new(&["@no-such-group-x".into(), "root".into()], &[]);
        assert_eq!(unknown.len(), 1);
        assert!(unknown[0].contains("no-such-group-x"));
        assert_eq!(p.owners.users, [0]);
    }

    #[tokio::test]
    async fn the_kernel_tells_who_connected() {
        let (a, _b) = tokio::net::UnixStream::pair().expect("a pair");
        let peer = Peer::of(&a).expect("credentials");
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        assert_eq!(peer.pid, std::process::id() as i32);
        assert!(peer.groups.contains(&nix::unistd::getegid().as_raw()));
    }
}
