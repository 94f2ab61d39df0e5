//! The unix socket of the admin port.

use rustix::{
    fs::{Mode, chmod, chown},
    net::sockopt::socket_acceptconn,
};
use std::{
    fs, io,
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener as BlockingListener, UnixStream as BlockingStream},
    },
    path::{Path, PathBuf},
};
use tokio::net::UnixListener;

/// Longest path of a unix socket in bytes, including the suffix it has until it is ready.
const PATH_LEN_MAX: usize = 100;

/// Permissions of a socket with a group, and of one without.
const MODE_GROUP: u32 = 0o660;
const MODE_OWN: u32 = 0o600;

/// A listening unix socket; its file is removed on drop if it was created here.
#[derive(Debug)]
pub struct AdminSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    is_handed_over: bool,
}

/// Why a unix socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{} is too long for a socket path: the limit is {PATH_LEN_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("{} exists and is not a socket: choose another path", path.display())]
    Occupied { path: PathBuf },
    #[error("another process is listening on {}", path.display())]
    InUse { path: PathBuf },
    #[error("the service manager passed a socket at {}: configure the same path, or none", path.display())]
    Elsewhere { path: PathBuf },
    #[error("the passed socket cannot be used: {0}")]
    Unfit(io::Error),
    #[error("cannot listen on {}: {source}", path.display())]
    Refused { path: PathBuf, source: io::Error },
}

impl SocketError {
    /// Whether a retry can help: only if another process is listening.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }
}

impl AdminSocket {
    /// Listens on `path`, inside a tokio runtime. A socket left by a crashed server is replaced. With a `group` its members may
    /// connect, otherwise only the server's own user and root.
    ///
    /// # Errors
    /// If the path is occupied, or the operating system refuses.
    pub fn bind(path: &Path, group: Option<u32>) -> Result<Self, SocketError> {
        let owned = || path.to_owned();
        if path.as_os_str().len() > PATH_LEN_MAX {
            return Err(SocketError::TooLong { path: owned() });
        }
        check_place(path)?;
        // Under another name until the permissions are set, so that no client can connect before.
        let mut unready = path.as_os_str().to_owned();
        unready.push(".new");
        let unready = PathBuf::from(unready);
        let bind = || {
            match fs::remove_file(&unready) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&unready)?;
            if let Some(group) = group {
                chown(&unready, None, Some(rustix::fs::Gid::from_raw(group)))?;
            }
            chmod(&unready, Mode::from_raw_mode(if group.is_some() { MODE_GROUP } else { MODE_OWN }))?;
            fs::rename(&unready, path)?;
            io::Result::Ok(listener)
        };
        let listener = bind().map_err(|source| SocketError::Refused { path: owned(), source })?;
        Ok(Self { listener, path: owned(), is_handed_over: false })
    }

    /// Takes over a socket passed by a service manager, inside a tokio runtime. Its permissions and its file belong to the
    /// manager. `configured` is the path in the configuration, if there is one.
    ///
    /// # Errors
    /// If it is not listening on a path, or not on the configured one.
    pub fn handed_over(listener: BlockingListener, configured: Option<&Path>) -> Result<Self, SocketError> {
        let is_listening = socket_acceptconn(&listener).map_err(|error| SocketError::Unfit(error.into()))?;
        let address = listener.local_addr().map_err(SocketError::Unfit)?;
        let (true, Some(path)) = (is_listening, address.as_pathname()) else {
            return Err(SocketError::Unfit(io::Error::other("it is not listening on a path")));
        };
        if configured.is_some_and(|configured| configured != path) {
            return Err(SocketError::Elsewhere { path: path.to_owned() });
        }
        listener.set_nonblocking(true).map_err(SocketError::Unfit)?;
        let path = path.to_owned();
        let listener = UnixListener::from_std(listener).map_err(SocketError::Unfit)?;
        Ok(Self { listener, path, is_handed_over: true })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if !self.is_handed_over
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove the admin socket");
        }
    }
}

/// Whether a socket may be created at `path`.
fn check_place(path: &Path) -> Result<(), SocketError> {
    let owned = || path.to_owned();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(SocketError::Refused { path: owned(), source }),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(SocketError::Occupied { path: owned() }),
        Ok(_) => match BlockingStream::connect(path) {
            Ok(_) => Err(SocketError::InUse { path: owned() }),
            Err(_) => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[tokio::test]
    async fn a_socket_is_private_and_removed_with_its_listener() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let socket = AdminSocket::bind(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE_OWN);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_group_may_connect_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let own_group = rustix::process::getegid().as_raw();
        let _socket = AdminSocket::bind(&path, Some(own_group)).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.gid()), (MODE_GROUP, own_group));
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let _socket = AdminSocket::bind(&path, None).unwrap();
        let error = AdminSocket::bind(&path, None).unwrap_err();
        assert!(matches!(error, SocketError::InUse { .. }) && error.is_retryable(), "{error}");
    }

    #[tokio::test]
    async fn a_passed_socket_keeps_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        for configured in [None, Some(path.as_path())] {
            let socket = AdminSocket::handed_over(BlockingListener::bind(&path).unwrap(), configured).unwrap();
            assert_eq!(socket.path(), path);
            let (accepted, connected) =
                tokio::join!(socket.listener.accept(), tokio::net::UnixStream::connect(socket.path()));
            assert!(accepted.is_ok() && connected.is_ok());
            drop(socket);
            fs::remove_file(&path).unwrap();
        }
    }

    #[tokio::test]
    async fn a_passed_socket_at_another_path_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let other = directory.path().join("other.sock");
        let error = AdminSocket::handed_over(BlockingListener::bind(&path).unwrap(), Some(&other)).unwrap_err();
        assert!(
            matches!(&error, SocketError::Elsewhere { path: it } if *it == path) && !error.is_retryable(),
            "{error}"
        );
        let (one_end, _other_end) = BlockingStream::pair().unwrap();
        let connected = BlockingListener::from(std::os::fd::OwnedFd::from(one_end));
        assert!(matches!(AdminSocket::handed_over(connected, None), Err(SocketError::Unfit(_))));
    }

    #[tokio::test]
    async fn other_files_and_long_paths_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(AdminSocket::bind(&path, None), Err(SocketError::Occupied { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let long = directory.path().join("n".repeat(PATH_LEN_MAX));
        assert!(matches!(AdminSocket::bind(&long, None), Err(SocketError::TooLong { .. })));
        let absent = directory.path().join("absent/admin.sock");
        assert!(matches!(AdminSocket::bind(&absent, None), Err(SocketError::Refused { .. })));
    }
}
