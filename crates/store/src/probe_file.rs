//! The probe file of a store: who knows what is in it sees the store.

use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Name of the file in the root. No entry has this name.
const NAME: &str = ".forebay-probe";

/// Where a new one is written before it gets its name.
const NEW_NAME: &str = ".forebay/probe.new";

/// Anyone who sees the store may read it.
const MODE: u32 = 0o644;

/// Random bytes in it; it holds twice as many hexadecimal digits, and the end of the line.
const TOKEN_BYTES: usize = 16;

/// A file of random content in the root of a store, readable by all users.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProbeFile {
    pub path: PathBuf,
    /// Its 32 hexadecimal digits.
    pub token: String,
}

impl ProbeFile {
    /// The probe file of the store at `root`; `None` when there is none, or none that is well-formed. Blocking.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find(root: &Path) -> io::Result<Option<Self>> {
        let path = root.join(NAME);
        let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        let read = file.take(TOKEN_BYTES as u64 * 4).read_to_string(&mut text);
        let token = text.strip_suffix('\n').filter(|token| read.is_ok() && is_token(token)).map(str::to_owned);
        Ok(token.map(|token| Self { path, token }))
    }

    /// The probe file of the store at `root`, created unless there is a good one. The store must be this process's own. Blocking.
    ///
    /// # Errors
    /// When it cannot be read or made.
    pub fn keep(root: &Path) -> io::Result<Self> {
        let found = match Self::find(root)? {
            Some(found) => found,
            None => Self::make(root)?,
        };
        fs::set_permissions(&found.path, Permissions::from_mode(MODE))?;
        Ok(found)
    }

    fn make(root: &Path) -> io::Result<Self> {
        let new = root.join(NEW_NAME);
        let path = root.join(NAME);
        let token = new_token()?;
        let mut file = fs::File::create(&new)?;
        file.write_all(format!("{token}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        Ok(Self { path, token })
    }
}

fn is_token(text: &str) -> bool {
    text.len() == TOKEN_BYTES * 2 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn new_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += getrandom(rest, GetRandomFlags::empty())?;
    }
    let mut token = String::with_capacity(TOKEN_BYTES * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".forebay")).unwrap();
        root
    }

    #[test]
    fn a_good_file_is_kept_and_everybody_may_read_it() {
        let root = root();
        assert_eq!(ProbeFile::find(root.path()).unwrap(), None);
        let made = ProbeFile::keep(root.path()).unwrap();
        assert!(is_token(&made.token));
        assert_eq!(made.path, root.path().join(".forebay-probe"));
        fs::set_permissions(&made.path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(ProbeFile::keep(root.path()).unwrap(), made, "the same at the next start");
        assert_eq!(made.path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(ProbeFile::find(root.path()).unwrap(), Some(made));
    }

    #[test]
    fn a_file_that_is_not_a_probe_is_replaced() {
        for content in ["", "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef\n", "0\n"] {
            let root = root();
            let path = root.path().join(".forebay-probe");
            fs::write(&path, content).unwrap();
            assert_eq!(ProbeFile::find(root.path()).unwrap(), None, "{content:?}");
            let kept = ProbeFile::keep(root.path()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", kept.token));
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let root = root();
        std::os::unix::fs::symlink("/etc/hostname", root.path().join(".forebay-probe")).unwrap();
        assert!(ProbeFile::keep(root.path()).is_err());
    }
}
