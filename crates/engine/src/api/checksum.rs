//! Checksums of files, as clients request them.

use crate::{
    Caller, Checksum, Engine, Error, OpenRequest,
    base::digest::ChecksumAlgorithm,
    freshness::origin_permission::Want,
    namespace::routes::{OriginTarget, Target},
    upkeep::examination::Behind,
};
use forebay_origin::BoxFuture;

impl Engine {
    /// The checksum of a file: computed here if the cache holds all of it, else requested from the origin; computed
    /// for an exported file.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the algorithm is not known.
    pub fn checksum<'a>(
        &'a self,
        request: &'a OpenRequest,
        caller: &'a Caller,
        algorithm: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Checksum, Error>> {
        Box::pin(self.find_checksum(request, caller, algorithm))
    }

    async fn find_checksum(
        &self,
        request: &OpenRequest,
        caller: &Caller,
        algorithm: Option<&str>,
    ) -> Result<Checksum, Error> {
        if request.is_of_directory {
            // A file is refused by its stat, and of a directory there is no checksum.
            self.stat(request, caller).await?;
            return Err(Error::IsDirectory { lfn: request.lfn.clone() });
        }
        match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => {
                let algorithm = algorithm.map(str::to_owned);
                self.blocking(lfn, move |lfn| tree.checksum(lfn, algorithm.as_deref())).await
            }
            Target::Origin(target) => {
                // The grant itself is not used: the answer may come from the cache without an open.
                drop(self.authorize(&target, Want::Read).await?);
                if let Some(checksum) = self.cached_checksum((request, caller), &target, algorithm).await {
                    return Ok(checksum);
                }
                Ok(target.origin.checksum(&target.path, algorithm).await?)
            }
        }
    }

    /// The checksum of a complete file in the cache that may be served: the known one, else computed now. `None` if
    /// the cache cannot provide it.
    async fn cached_checksum(
        &self,
        (request, caller): (&OpenRequest, &Caller),
        target: &OriginTarget,
        algorithm: Option<&str>,
    ) -> Option<Checksum> {
        let key = target.key.as_ref()?;
        let wanted = match algorithm {
            Some(name) => ChecksumAlgorithm::parse(name).ok()?,
            // A request without an algorithm gets the first one of the configuration, which is already known for
            // complete files.
            None => *self.context().options.integrity.checksums.first()?,
        };
        let record = self.context().catalog.as_ref()?.record(key).await??;
        // The stat compares the copy with its origin when that is due: a checksum of an outdated copy must not be
        // given out.
        if !record.disk.is_complete() || !self.stat(request, caller).await.ok()?.cached {
            return None;
        }
        if let Some(value) = record.checksum(wanted.as_str()) {
            return Some(Checksum { algorithm: wanted.as_str().to_owned(), value: value.to_owned() });
        }
        // A client requested it: the pages stay in the page cache, as after a read.
        let examined = self.inner.checksums.check.examine(key, &[wanted], Behind::Stays, None).await?;
        examined.findings.checksums.into_iter().next()
    }
}
