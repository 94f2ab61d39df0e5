//! Files with a secret on one line.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

/// Longest file in bytes.
const FILE_LEN_MAX: u64 = 4096;

/// Permission bits of users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// # Errors
/// If the file cannot be read, is accessible to other users, or is not one line of visible ASCII characters.
pub(super) fn read_secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("cannot read {shown}: {error}");
    // Opening a pipe would block.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    if metadata.mode() & OTHERS != 0 {
        return Err(format!("{shown} is accessible to other users: run chmod o-rwx on it"));
    }
    let mut content = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_LEN_MAX).read_to_end(&mut content)).map_err(unreadable)?;
    let secret = content.trim_ascii();
    if secret.is_empty() || !secret.iter().all(u8::is_ascii_graphic) {
        return Err(format!("{shown} is not one line of visible ASCII characters"));
    }
    Ok(String::from_utf8_lossy(secret).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Authorization;
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn secrets_of_files_become_headers() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("secret");
        fs::write(&file, "s3cret==\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let value = |authorization: Authorization| authorization.value().unwrap();
        assert_eq!(value(Authorization::None), None);
        assert_eq!(value(Authorization::ApiKey(file.clone())).as_deref(), Some("ApiKey s3cret=="));
        let basic = Authorization::Basic("forebay".to_owned(), file.clone());
        assert_eq!(value(basic).as_deref(), Some("Basic Zm9yZWJheTpzM2NyZXQ9PQ=="));
        fs::write(&file, "two words").unwrap();
        assert!(read_secret(&file).unwrap_err().contains("not one line"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_secret(&file).unwrap_err().contains("chmod"));
        assert!(read_secret(root.path()).unwrap_err().contains("not a file"));
    }
}
