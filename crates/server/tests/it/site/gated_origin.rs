//! An origin whose files open, and directories are listed, only when they are let through.

use forebay_origin::{Checksum, ListDetail, Origin, OriginFile, OriginFuture, OriginPath};
use forebay_testkit::MemoryOrigin;
use forebay_types::{DirEntry, FileStat};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::watch;

/// A [`MemoryOrigin`] whose opens and listings wait while the gate is shut.
pub(crate) struct GatedOrigin {
    origin: MemoryOrigin,
    is_open: watch::Receiver<bool>,
    /// Listings asked for so far.
    pub(crate) listings: Arc<AtomicUsize>,
}

impl GatedOrigin {
    /// The origin and its gate, which is open.
    pub(crate) fn new(origin: MemoryOrigin) -> (Self, watch::Sender<bool>) {
        let (gate, is_open) = watch::channel(true);
        (Self { origin, is_open, listings: Arc::default() }, gate)
    }
}

impl GatedOrigin {
    async fn let_through(&self) {
        // An error means that the test is over.
        let _ = self.is_open.clone().wait_for(|is_open| *is_open).await;
    }
}

impl Origin for GatedOrigin {
    fn label(&self) -> &str {
        self.origin.label()
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async {
            self.let_through().await;
            self.origin.open(path).await
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        self.origin.stat(path)
    }

    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.let_through().await;
            self.origin.list(path, detail).await
        })
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        self.origin.checksum(path, algorithm)
    }
}
