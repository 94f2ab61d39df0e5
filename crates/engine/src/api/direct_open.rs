//! Sending clients to complete files that they read directly: at the open, or in answer to a read.

use crate::{Client, Engine, Handle, entries::cached_file::CachedFile, upkeep::leases::Leases};
use forebay_telemetry::{DirectEvent, FileEvents as _};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// An open file whose server is not decided yet: this process or the client itself. It is closed if the client
/// disconnects in the meantime.
struct Unsettled(Option<Arc<CachedFile>>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // Zero: the client never read it, so no time counts as open in its access record.
            file.detach(Duration::ZERO);
        }
    }
}

impl Engine {
    /// The path of a file that was just opened, if the client can read it by itself and it is complete; else the file, which
    /// the client is served.
    pub(crate) async fn open_directly(
        &self,
        file: Arc<CachedFile>,
        client: &Client,
        is_wanted: bool,
    ) -> Result<PathBuf, Arc<CachedFile>> {
        // The guard spans the only await: a client that disconnects there would otherwise leave the file attached for ever.
        let mut unsettled = Unsettled(Some(Arc::clone(&file)));
        // The path is requested only if the client can use it: it costs a look at the disk.
        let path = if is_wanted { file.readable_path().await } else { None };
        unsettled.0 = None;
        let (Some(path), Some(key)) = (path, file.key().cloned()) else { return Err(file) };
        let (lfn, size) = (file.lfn().clone(), file.size());
        // The lease takes over the attachment of this open; if there are too many leases the file comes back and is served.
        self.inner.leases.grant(&key, file, self.context().options.direct_lease)?;
        self.metrics().add_direct_open();
        self.events().direct(&DirectEvent { open: None, client, lfn: &lfn, size, path: &path });
        Ok(path)
    }
}

impl Handle {
    /// Whether the client may be sent to the file instead of being answered a read: it can follow, and the file is complete by all that is known
    /// without a look. Takes no lock and allocates nothing; where the client cannot follow it is one load.
    pub fn may_switch(&self) -> bool {
        self.opened.switching.is_allowed()
            && self.cached().and_then(|file| file.stored.as_ref()).is_some_and(|stored| stored.seems_whole())
    }

    /// The path of the file, if the client is to read it directly from now on; `None` if it has to be served. The handle stays usable.
    pub async fn switch(&self) -> Option<PathBuf> {
        let opened = &self.opened;
        let file = self.cached()?;
        // A try is used up whether or not it succeeds: clients that never follow the redirect stop costing a look at
        // the disk.
        if !opened.switching.take_try() {
            return None;
        }
        let path = file.readable_path().await?;
        let key = file.key()?;
        let context = &file.context;
        let leases = opened.switching.leases.as_ref()?;
        // The handle stays open, so the lease needs an attachment of its own.
        file.attach_again();
        if let Err(file) = leases.grant(key, Arc::clone(file), context.options.direct_lease) {
            file.detach(Duration::ZERO);
            return None;
        }
        // Several reads of one handle may be answered so: the switch is counted and logged once.
        if !opened.switching.is_done.swap(true, Ordering::Relaxed) {
            context.metrics.add_direct_switch();
            let open = Some(opened.number);
            let client = &opened.caller.client;
            let (lfn, size) = (&opened.lfn, file.size());
            context.options.events.direct(&DirectEvent { open, client, lfn, size, path: &path });
        }
        Some(path)
    }
}

/// Whether the client of a handle can be sent to the file during its reads. By default it cannot.
#[derive(Default)]
pub(crate) struct Switching {
    /// How many more reads may be tried to be answered so.
    tries_left: AtomicU32,
    pub(crate) is_done: AtomicBool,
    /// Set where switching is allowed.
    pub(crate) leases: Option<Arc<Leases>>,
}

/// Reads of one handle that may be answered by a redirect. A client that has several reads under way gets several, and the first
/// one counts; a client that continues to read after so many does not follow, and is served.
const SWITCH_TRIES_MAX: u32 = 16;

impl Switching {
    /// For a client that follows redirects to files in answer to reads.
    pub(crate) const fn allowed(leases: Arc<Leases>) -> Self {
        Self { tries_left: AtomicU32::new(SWITCH_TRIES_MAX), is_done: AtomicBool::new(false), leases: Some(leases) }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        // Relaxed: a try too many costs one more look at the disk, nothing else.
        self.tries_left.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take_try(&self) -> bool {
        // `checked_sub` stops at zero, so concurrent reads cannot wrap the count.
        let take = |left: u32| left.checked_sub(1);
        self.tries_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_follow_is_served_in_the_end() {
        assert!(!Switching::default().is_allowed());
        let switching = Switching::allowed(Arc::default());
        let tries = (0..100).map(|_| switching.take_try()).filter(|is_taken| *is_taken).count();
        assert_eq!(tries, usize::try_from(SWITCH_TRIES_MAX).unwrap());
        assert!(!switching.is_allowed());
    }
}
