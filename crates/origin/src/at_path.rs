//! An origin whose file has a path of its own.

use crate::{Checksum, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind};
use forebay_types::{ByteRange, DirEntry, FileStat, Validator, ValidatorMatch};
use std::sync::Arc;

/// An origin that is asked for one path, whatever the path of the request: one of several that have the same file under different names.
/// There is no such file if it has another content.
pub struct AtPath {
    origin: Arc<dyn Origin>,
    path: OriginPath,
    size: u64,
    validator: Validator,
}

impl AtPath {
    #[must_use]
    pub fn new(origin: Arc<dyn Origin>, path: OriginPath, size: u64, validator: Validator) -> Self {
        Self { origin, path, size, validator }
    }

    fn same(&self, opened: Arc<dyn OriginFile>) -> Result<Arc<dyn OriginFile>, OriginError> {
        let found = opened.identity();
        let is_same =
            found.size == self.size && self.validator.compare_replica(&found.validator) != ValidatorMatch::Different;
        let (endpoint, text) = (found.origin.endpoint, "the file has another content".to_owned());
        is_same.then_some(opened).ok_or(OriginError::Refused { endpoint, kind: RefusalKind::NotFound, text })
    }
}

// The path of each request is ignored: it is that of another origin, and may have credentials for it.
impl Origin for AtPath {
    fn label(&self) -> &str {
        self.origin.label()
    }

    fn acts_for_clients(&self) -> bool {
        self.origin.acts_for_clients()
    }

    fn open<'a>(&'a self, _: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move { self.same(self.origin.open(&self.path).await?) })
    }

    fn open_to_read<'a>(&'a self, _: &'a OriginPath, first: ByteRange) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move { self.same(self.origin.open_to_read(&self.path, first).await?) })
    }

    fn stat<'a>(&'a self, _: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        self.origin.stat(&self.path)
    }

    fn stat_with_validator<'a>(&'a self, _: &'a OriginPath) -> OriginFuture<'a, (FileStat, Validator)> {
        self.origin.stat_with_validator(&self.path)
    }

    fn list<'a>(&'a self, _: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        self.origin.list(&self.path, detail)
    }

    fn checksum<'a>(&'a self, _: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        self.origin.checksum(&self.path, algorithm)
    }
}
