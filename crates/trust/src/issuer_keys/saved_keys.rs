//! Saved keys: the last fetched keys, in a file that no other user can write.

use crate::files::{FileError, read};
use forebay_auth::{KeySet, UnixTime};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Permission bits that let other users write to the file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Longest file name in bytes, without its suffix.
const NAME_LEN_MAX: usize = 200;

/// The file with the keys of one issuer.
#[derive(Debug)]
pub(super) struct SavedKeys {
    pub(super) path: PathBuf,
    issuer: String,
}

#[derive(Deserialize, Serialize)]
struct Document {
    issuer: String,
    fetched_at: i64,
    key_set: String,
}

/// Why saved keys are ignored.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeptError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is owned or writable by another user: remove it", path.display())]
    Exposed { path: PathBuf },
    #[error("{} contains no keys of this issuer: remove it", path.display())]
    Content { path: PathBuf },
}

impl SavedKeys {
    /// The file in `directory` for the keys of `issuer`; it is not read yet.
    pub(super) fn new(directory: &Path, issuer: &str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        // `_` is always an escape. Truncated long names may collide: the document names its issuer.
        let name: String = issuer
            .trim_start_matches("https://")
            .bytes()
            .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("_{byte:02x}") })
            .collect();
        let name = name.get(..name.len().min(NAME_LEN_MAX)).unwrap_or_default();
        Self { path: directory.join(format!("{name}.keys")), issuer: issuer.to_owned() }
    }

    /// The saved keys, and when they were fetched; `None` if there are none. Blocks on the disk.
    pub(super) fn load(&self) -> Result<Option<(KeySet, UnixTime)>, KeptError> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FileError::Read { path: self.path.clone(), source }.into()),
        };
        let is_ours = metadata.is_file() && [geteuid().as_raw(), 0].contains(&metadata.uid());
        if !is_ours || metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(KeptError::Exposed { path: self.path.clone() });
        }
        let content = || KeptError::Content { path: self.path.clone() };
        let document: Document = serde_json::from_slice(&read(&self.path)?).map_err(|_| content())?;
        let keys = KeySet::parse(document.key_set.as_bytes()).map_err(|_| content())?;
        let is_right = document.issuer == self.issuer;
        is_right.then(|| Some((keys, UnixTime(document.fetched_at)))).ok_or_else(content)
    }

    /// Saves keys fetched at `fetched_at`. Blocks on the disk.
    pub(super) fn save(&self, key_set: &[u8], fetched_at: UnixTime) -> io::Result<()> {
        let key_set = String::from_utf8(key_set.to_vec()).map_err(io::Error::other)?;
        let document = Document { issuer: self.issuer.clone(), fetched_at: fetched_at.0, key_set };
        if let Some(directory) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let staged = self.path.with_extension("new");
        match fs::remove_file(&staged) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
        file.write_all(&serde_json::to_vec(&document)?)?;
        file.sync_all()?;
        fs::rename(&staged, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testkit::TokenIssuer;
    use std::os::unix::fs::PermissionsExt as _;

    const URL: &str = "https://issuer.example/realms/a";

    #[test]
    fn keys_are_kept_until_they_are_replaced_in_one_file_for_each_issuer() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("keys");
        let kept = SavedKeys::new(&directory, URL);
        assert!(kept.load().unwrap().is_none());
        let mut issuer = TokenIssuer::new(URL, "ES256");
        kept.save(issuer.key_set().as_bytes(), UnixTime(5)).unwrap();
        issuer.rotate();
        kept.save(issuer.key_set().as_bytes(), UnixTime(6)).unwrap();
        let (keys, fetched_at) = kept.load().unwrap().unwrap();
        assert_eq!((keys.len(), fetched_at), (2, UnixTime(6)));
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
        let name = |issuer: &str| SavedKeys::new(Path::new("/"), issuer).path;
        assert_eq!(name("https://a.example/x"), Path::new("/a.example_2fx.keys"));
        assert_ne!(name("https://a/../b"), name("https://a/b"));
        assert!(name(&"x".repeat(4096)).as_os_str().len() < 255);
    }

    #[test]
    fn exposed_foreign_and_damaged_keys_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let kept = SavedKeys::new(directory.path(), URL);
        kept.save(TokenIssuer::new(URL, "ES256").key_set().as_bytes(), UnixTime(5)).unwrap();
        fs::set_permissions(&kept.path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(kept.load(), Err(KeptError::Exposed { .. })));
        fs::rename(&kept.path, directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &kept.path).unwrap();
        assert!(matches!(kept.load(), Err(KeptError::Exposed { .. })));
        let directory = tempfile::tempdir().unwrap();
        let (kept, other) = (SavedKeys::new(directory.path(), URL), SavedKeys::new(directory.path(), "https://other"));
        assert_ne!(kept.path, other.path);
        other.save(TokenIssuer::new("https://other", "ES256").key_set().as_bytes(), UnixTime(5)).unwrap();
        fs::rename(&other.path, &kept.path).unwrap();
        assert!(matches!(kept.load(), Err(KeptError::Content { .. })));
        fs::write(&kept.path, "{").unwrap();
        assert!(matches!(kept.load(), Err(KeptError::Content { .. })));
    }
}
