//! Entries shaped like those of a cache: long names that share prefixes, records of some 170 bytes.

/// The name of a file.
pub type Names = String;

/// An encoded record.
pub struct Record(pub Vec<u8>);

/// Fixed part of a record.
const FIXED_LEN: usize = 120;

impl Record {
    /// The number that a record holds.
    pub fn id_of(bytes: &[u8]) -> u64 {
        bytes.first_chunk().map_or(u64::MAX, |id| u64::from_le_bytes(*id))
    }
}

/// Entry number `id` after `change` changes.
pub fn entry(id: u64, change: u64) -> (u64, Names, Record) {
    let mut random = Random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (a, b) = (random.next(), random.next());
    let name = format!(
        "/store/data/Run2022{}/Dataset{:03}/NANOAOD/PromptReco-v{}/{:03}/{a:016x}-{b:016x}.root",
        ["A", "B", "C", "D"][(a % 4) as usize],
        a / 4 % 500,
        b % 3,
        id / 1000 % 1000,
    );
    let mut record = id.to_le_bytes().to_vec();
    while record.len() < FIXED_LEN {
        record.extend_from_slice(&(random.next() >> 24).wrapping_add(change).to_le_bytes());
    }
    record.extend_from_slice(b"origin-eos.example.org:1094");
    record.extend_from_slice(b"adler32:0123abcd");
    (id, name, Record(record))
}

/// SplitMix64: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
