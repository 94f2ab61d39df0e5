//! An origin whose files open only when they are let through.

use forebay_origin::{BoxFuture, Checksum, ListDetail, Origin, OriginError, OriginFile, OriginPath};
use forebay_testkit::MemoryOrigin;
use forebay_types::{DirEntry, FileStat};
use std::sync::Arc;
use tokio::sync::watch;

/// A [`MemoryOrigin`] whose opens wait while the gate is shut.
pub(crate) struct GatedOrigin {
    origin: MemoryOrigin,
    is_open: watch::Receiver<bool>,
}

impl GatedOrigin {
    /// The origin and its gate, which is open.
    pub(crate) fn new(origin: MemoryOrigin) -> (Self, watch::Sender<bool>) {
        let (gate, is_open) = watch::channel(true);
        (Self { origin, is_open }, gate)
    }
}

impl Origin for GatedOrigin {
    fn label(&self) -> &str {
        self.origin.label()
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> BoxFuture<'a, Result<Arc<dyn OriginFile>, OriginError>> {
        Box::pin(async {
            // An error means that the test is over.
            let _ = self.is_open.clone().wait_for(|is_open| *is_open).await;
            self.origin.open(path).await
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> BoxFuture<'a, Result<FileStat, OriginError>> {
        self.origin.stat(path)
    }

    fn list<'a>(
        &'a self,
        path: &'a OriginPath,
        detail: ListDetail,
    ) -> BoxFuture<'a, Result<Vec<DirEntry>, OriginError>> {
        self.origin.list(path, detail)
    }

    fn checksum<'a>(
        &'a self,
        path: &'a OriginPath,
        algorithm: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Checksum, OriginError>> {
        self.origin.checksum(path, algorithm)
    }
}
