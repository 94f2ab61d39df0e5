//! Why an entry left the cache.

crate::named_enum! {
    /// Why an entry was removed to make room or on request.
    pub enum PurgeReason {
        Space = "space",
        Inodes = "inodes",
        /// Less was free on the file system than must be.
        FreeMin = "free_min",
        /// The quota it counts for was used up.
        Quota = "quota",
        Age = "age",
        /// It was not used for longer than its expiry rule allows.
        Expired = "expired",
        Requested = "requested",
        Evicted = "evicted",
    }
}
