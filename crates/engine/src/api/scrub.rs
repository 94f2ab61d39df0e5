//! The scrub, as administrators see it.

use crate::{Engine, Error, ScrubState};

impl Engine {
    /// Begins a scrub, unless one is under way.
    ///
    /// # Errors
    /// When the index is not in use: it names what is to be read.
    pub fn start_scrub(&self) -> Result<(), Error> {
        // Refused now rather than never run: the scrub goes through the index.
        self.context().catalog.as_ref().and_then(|catalog| catalog.index()).ok_or(Error::NoIndex)?;
        self.scrubber().request();
        Ok(())
    }

    /// How the scrub is.
    pub fn scrub_state(&self) -> ScrubState {
        *self.scrubber().state.lock()
    }
}
