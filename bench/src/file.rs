//! Makes the files that are read.

use crate::content::Content;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Bytes of one write.
const CHUNK_LEN: u64 = 1 << 20;

/// Writes a file of `len` bytes whose content follows from its name.
///
/// # Errors
/// When the name is not UTF-8 or the file cannot be written.
pub(crate) fn make_file(path: &Path, len: u64) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).context("the file needs a name in UTF-8")?;
    let content = Content::of_path(name);
    let mut file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut chunk = vec![0; usize::try_from(CHUNK_LEN.min(len))?];
    let mut offset = 0;
    while offset < len {
        let chunk_len = CHUNK_LEN.min(len - offset);
        let chunk = chunk.get_mut(..usize::try_from(chunk_len)?).context("a chunk is no longer than its buffer")?;
        content.fill(offset, chunk);
        file.write_all(chunk).with_context(|| format!("cannot write {}", path.display()))?;
        offset += chunk_len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_file_holds_its_content_to_the_last_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        let len = CHUNK_LEN * 2 + 4_097;
        make_file(&path, len).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, len);
        assert_eq!(Content::of_path("large").verify(0, &bytes), Ok(()));
    }
}
