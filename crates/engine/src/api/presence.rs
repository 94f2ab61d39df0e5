//! Whether the cache has a file, for those that locate files.

use crate::{Delegation, Engine, Error, OpenRequest, Presence, namespace::routes::Target};

impl Engine {
    /// Whether the cache has the file of a name, or a part of it. Answered from memory, in microseconds: neither the disk nor
    /// an origin is asked, so files of exported directories are [`Presence::Maybe`].
    ///
    /// # Errors
    /// When no export covers the name, or it names an origin that is not allowed.
    pub fn has(&self, request: &OpenRequest) -> Result<Presence, Error> {
        let target = match self.target(request, &Delegation::Operator)? {
            Target::Local { .. } => return Ok(Presence::Maybe),
            Target::Origin(target) => target,
        };
        let Some(key) = &target.key else { return Ok(Presence::No) };
        // An open file first: what it has written may not be in the index yet.
        let open = self.open_files().find(key);
        if open.is_some_and(|file| file.stored.as_ref().is_some_and(|stored| stored.is_on_disk())) {
            return Ok(Presence::Have);
        }
        Ok(self.context().catalog.as_ref().map_or(Presence::No, |catalog| catalog.presence(key)))
    }
}
