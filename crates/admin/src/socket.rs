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

/// Longest path of a unix socket in bytes, with room for the name it has until it is ready.
const PATH_LEN_MAX: usize = 100;

/// Permissions of a socket that has a group, and of one for the server's own user alone.
const MODE_GROUP: u32 = 0o660;
const MODE_OWN: u32 = 0o600;

/// A listening unix socket; its file goes when this is dropped, if it was made here.
#[derive(Debug)]
pub struct AdminSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    is_handed_over: bool,
}

/// Why a unix socket cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The operating system allows no longer path.
    #[error("{} is too long for a socket: at most {PATH_LEN_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    /// Something that is no socket is in its place.
    #[error("{} exists and is no socket: choose another path", path.display())]
    Occupied { path: PathBuf },
    #[error("another process listens at {}", path.display())]
    InUse { path: PathBuf },
    /// A service manager listens elsewhere for us.
    #[error("the service manager listens at {} for us: write the same path, or none", path.display())]
    Elsewhere { path: PathBuf },
    /// What a service manager has handed over takes no connections.
    #[error("the socket that was handed over cannot be used: {0}")]
    Unfit(io::Error),
    /// The operating system refused.
    #[error("cannot listen at {}: {source}", path.display())]
    Refused { path: PathBuf, source: io::Error },
}

impl SocketError {
    /// Whether trying again later can help: only when another process listens.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }
}

impl AdminSocket {
    /// Listens at `path`, inside a tokio runtime. A socket that a crashed server left is replaced. With the number of a `group`
    /// its members may connect, else the server's own user and root.
    ///
    /// # Errors
    /// When something else is in the path's place, or the operating system refuses.
    pub fn bind(path: &Path, group: Option<u32>) -> Result<Self, SocketError> {
        let owned = || path.to_owned();
        if path.as_os_str().len() > PATH_LEN_MAX {
            return Err(SocketError::TooLong { path: owned() });
        }
        check_place(path)?;
        // Under another name until the permissions are right, so that nobody connects before.
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

    /// Takes over a socket that a service manager has opened, inside a tokio runtime. Its permissions and its file are the
    /// manager's. `configured` is the path that the configuration says, if it says one.
    ///
    /// # Errors
    /// When it does not listen at a path, or at another one than is configured.
    pub fn handed_over(listener: BlockingListener, configured: Option<&Path>) -> Result<Self, SocketError> {
        let is_listening = socket_acceptconn(&listener).map_err(|error| SocketError::Unfit(error.into()))?;
        let address = listener.local_addr().map_err(SocketError::Unfit)?;
        let (true, Some(path)) = (is_listening, address.as_pathname()) else {
            return Err(SocketError::Unfit(io::Error::other("it does not listen at a path")));
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
            tracing::debug!(path = %self.path.display(), %error, "the admin socket's file stays");
        }
    }
}

/// Whether a socket may be put at `path`.
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
    async fn a_socket_is_its_owners_and_goes_with_its_listener() {
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
    async fn what_a_crash_left_is_replaced_and_a_living_server_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let _socket = AdminSocket::bind(&path, None).unwrap();
        let error = AdminSocket::bind(&path, None).unwrap_err();
        assert!(matches!(error, SocketError::InUse { .. }) && error.is_retryable(), "{error}");
    }

    #[tokio::test]
    async fn a_socket_that_was_handed_over_keeps_its_file() {
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
    async fn a_socket_that_is_not_where_it_should_be_is_refused() {
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
