//! Whose side an error is on.

crate::named_enum! {
    /// The side that an error is on: the one that can fix it.
    pub enum Side {
        /// The client asked for something that cannot be done.
        Client = "client",
        /// The origin refused, failed, or could not be reached.
        Origin = "origin",
        Disk = "disk",
        Authorization = "authorization",
        Internal = "internal",
    }
}
