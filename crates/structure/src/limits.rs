//! Limits of what is parsed. A file beyond one of them is `too_large`: nothing is known of its structure.

/// Bytes of one record as stored. 1600 branches with 300 clusters take 1.5 MB.
pub const STORED_LEN_MAX: u64 = 16 << 20;

/// Bytes of all records of a file that are asked for.
pub const METADATA_LEN_MAX: u64 = 64 << 20;

/// Bytes of one inflated record. The same tree takes 12.2 MB.
pub const INFLATED_LEN_MAX: u64 = 64 << 20;

/// Branches of a tree, or columns of an `RNTuple`; [`crate::Item`] has 16 bits for their number.
pub const COLUMNS_MAX: usize = 1 << 16;

/// Bytes of the tables of one file: a million baskets or pages, if names are short.
pub const TABLES_LEN_MAX: usize = 16 << 20;

/// Baskets or pages of one file: those that the tables have room for.
pub const ITEMS_MAX: usize = TABLES_LEN_MAX / size_of::<crate::Item>();

/// Nesting of branches, of fields, and of directories. More would also be a risk for the stack.
pub const DEPTH_MAX: usize = 16;

/// Keys of all directories of a file.
pub const KEYS_MAX: usize = 4096;

/// Trees of a file.
pub const TREES_MAX: usize = 16;

/// Groups of clusters of an `RNTuple`, each with a page list to fetch. uproot makes one for each `extend`.
pub const CLUSTER_GROUPS_MAX: usize = 1024;

/// Bytes requested at the beginning of a file. Header and directory record fit unless the file's name is very long.
pub const HEAD_LEN: u64 = 512;
