//! The file with the API's token.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Shortest token in bytes: shorter ones can be guessed.
pub const TOKEN_LEN_MIN: usize = 16;

/// Longest token file in bytes.
const FILE_LEN_MAX: u64 = 4096;

/// Permission bits of users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// A file whose only line is a token. It is read at each use, so that replacing the file changes the token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenFile {
    path: PathBuf,
}

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read the token file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the token file {} is accessible to other users (mode {mode:03o}): run chmod o-rwx on it", path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the token file {} contains no valid token: it must be one line of at least {TOKEN_LEN_MIN} visible ASCII characters, such as \
         `openssl rand -hex 32` prints",
        path.display()
    )]
    Content { path: PathBuf },
}

impl TokenFile {
    /// The token file at `path`; it is not read yet.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, is accessible to other users, or contains no valid token.
    pub fn read(&self) -> Result<String, TokenError> {
        let path = || self.path.clone();
        let unreadable = |source| TokenError::Unreadable { path: path(), source };
        // Opening a pipe would block.
        let metadata = std::fs::metadata(&self.path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        let file = File::open(&self.path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(TokenError::Exposed { path: path(), mode });
        }
        let mut content = Vec::new();
        file.take(FILE_LEN_MAX).read_to_end(&mut content).map_err(unreadable)?;
        let token = content.trim_ascii();
        if token.len() < TOKEN_LEN_MIN || !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::Content { path: path() });
        }
        String::from_utf8(token.to_vec()).map_err(|_| TokenError::Content { path: path() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    fn file(content: &str, mode: u32) -> (tempfile::TempDir, TokenFile) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (directory, TokenFile::new(path))
    }

    #[test]
    fn a_token_is_one_line_of_visible_characters() {
        for good in ["0123456789abcdef", "0123456789abcdef\n", "  0123456789abcdef\r\n"] {
            assert_eq!(file(good, 0o640).1.read().unwrap(), "0123456789abcdef");
        }
        for bad in
            ["", "\n", "0123456789abcde", "0123456789abcdef\n0123456789abcdef", "0123456789 abcdef", "0123456789äbcdef"]
        {
            let (_directory, file) = file(bad, 0o600);
            assert!(matches!(file.read(), Err(TokenError::Content { .. })), "{bad}");
        }
    }

    #[test]
    fn a_file_accessible_to_other_users_is_refused() {
        for mode in [0o604, 0o602, 0o666] {
            let (_directory, file) = file("0123456789abcdef", mode);
            let error = file.read().unwrap_err();
            assert!(error.to_string().contains(&format!("mode {mode:o}")), "{error}");
        }
    }

    #[test]
    fn errors_of_a_missing_file_and_a_directory_have_the_path() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("absent"), directory.path().to_owned()] {
            let error = TokenFile::new(path.clone()).read().unwrap_err();
            assert!(matches!(error, TokenError::Unreadable { .. }), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}
