//! The file with the API's token.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::PathBuf,
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

impl TokenFile {
    /// The token file at `path`; it is not read yet.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The token. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, is accessible to other users, or contains no valid token.
    pub fn read(&self) -> Result<String, String> {
        let path = self.path.display();
        let unreadable = |error: io::Error| format!("cannot read the token file {path}: {error}");
        // Opening a pipe would block.
        let metadata = std::fs::metadata(&self.path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        let file = File::open(&self.path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & OTHERS != 0 {
            let remedy = "run chmod o-rwx on it";
            return Err(format!("the token file {path} is accessible to other users (mode {mode:03o}): {remedy}"));
        }
        let mut content = Vec::new();
        file.take(FILE_LEN_MAX).read_to_end(&mut content).map_err(unreadable)?;
        let token = content.trim_ascii();
        if token.len() < TOKEN_LEN_MIN || !token.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "the token file {path} contains no valid token: it must be one line of at least {TOKEN_LEN_MIN} visible ASCII \
                 characters, such as `openssl rand -hex 32` prints"
            ));
        }
        Ok(String::from_utf8_lossy(token).into_owned())
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
            assert!(file.read().unwrap_err().contains("contains no valid token"), "{bad}");
        }
    }

    #[test]
    fn a_file_accessible_to_other_users_is_refused() {
        for mode in [0o604, 0o602, 0o666] {
            let (_directory, file) = file("0123456789abcdef", mode);
            let error = file.read().unwrap_err();
            assert!(error.contains(&format!("mode {mode:o}")), "{error}");
        }
    }

    #[test]
    fn errors_of_a_missing_file_and_a_directory_have_the_path() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("absent"), directory.path().to_owned()] {
            let error = TokenFile::new(path.clone()).read().unwrap_err();
            assert!(error.starts_with(&format!("cannot read the token file {}: ", path.display())), "{error}");
        }
    }
}
