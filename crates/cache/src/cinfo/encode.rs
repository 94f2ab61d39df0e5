//! Writing a cinfo: always version 4.

use super::{
    Access, Cinfo,
    layout::{ACCESS_LEN, ACCESSES_LEN_MAX, CinfoVersion},
};

impl Cinfo {
    /// Appends the version-4 image of this record to `out`. Of more than [`super::ACCESSES_LEN_MAX`] access records the
    /// oldest are left out.
    ///
    /// # Panics
    /// When [`Self::blocks`] is not a set for this geometry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert_eq!(self.blocks.len(), self.geometry.block_count(), "the set of blocks must fit the geometry");
        let vector_len = usize::try_from(self.blocks.len().div_ceil(8)).expect("at most 2^31-1 blocks");
        let surplus = self.accesses.len().saturating_sub(ACCESSES_LEN_MAX);
        let accesses = self.accesses.get(surplus..).unwrap_or_default();
        out.reserve(60 + vector_len + accesses.len() * ACCESS_LEN);

        out.extend_from_slice(&CinfoVersion::V4.number().to_le_bytes());
        checked(out, |out| {
            out.extend_from_slice(&self.geometry.block_size().to_le_bytes());
            out.extend_from_slice(&self.geometry.file_size().to_le_bytes());
            out.extend_from_slice(&self.created.to_le_bytes());
            out.extend_from_slice(&self.no_checksum_time.to_le_bytes());
            out.extend_from_slice(&self.access_count.to_le_bytes());
            out.extend_from_slice(&self.checksum.to_status().to_le_bytes());
            let stored = u32::try_from(accesses.len()).expect("at most ACCESSES_LEN_MAX");
            out.extend_from_slice(&stored.to_le_bytes());
        });
        checked(out, |out| {
            let vector_start = out.len();
            for word in self.blocks.words() {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.truncate(vector_start + vector_len);
            for access in accesses {
                encode_access(access, out);
            }
        });
    }
}

/// Appends what `section` appends, and the CRC32C of it.
fn checked(out: &mut Vec<u8>, section: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    section(out);
    let crc = crc32c::crc32c(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
}

fn encode_access(access: &Access, out: &mut Vec<u8>) {
    out.extend_from_slice(&access.attached.to_le_bytes());
    out.extend_from_slice(&access.detached.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&access.opens.to_le_bytes());
    out.extend_from_slice(&access.duration_seconds.to_le_bytes());
    out.extend_from_slice(&access.merged.to_le_bytes());
    out.extend_from_slice(&0_i32.to_le_bytes());
    out.extend_from_slice(&access.hit_bytes.to_le_bytes());
    out.extend_from_slice(&access.missed_bytes.to_le_bytes());
    out.extend_from_slice(&access.bypassed_bytes.to_le_bytes());
}
