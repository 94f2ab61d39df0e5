//! How client bytes were obtained.

crate::named_enum! {
    /// How the bytes of a client's read were obtained. Every client byte is accounted under exactly one outcome.
    pub enum Outcome {
        Hit = "hit",
        /// From the origin by a fill that this read started, and kept.
        Missed = "missed",
        /// From the origin by a fill that another read had started, and kept.
        Coalesced = "coalesced",
        Bypassed = "bypassed",
    }
}
