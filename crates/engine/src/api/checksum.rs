//! Checksums of files, as clients request them.

use crate::{
    Caller, Checksum, Engine, Error, OpenRequest,
    base::digest::ChecksumAlgorithm,
    freshness::origin_permission::Want,
    namespace::routes::{OriginTarget, Target},
    upkeep::examination::Behind,
};

impl Engine {
    /// A file's checksum: from the cache when it holds all of the file, else the origin's; computed for an exported file.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the algorithm is not known.
    pub async fn checksum(
        &self,
        request: &OpenRequest,
        caller: &Caller,
        algorithm: Option<&str>,
    ) -> Result<Checksum, Error> {
        match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => {
                let algorithm = algorithm.map(str::to_owned);
                self.blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.checksum(&lfn, algorithm.as_deref())
                })
                .await
            }
            Target::Origin(target) => {
                drop(self.authorize(&target, Want::Read).await?);
                if let Some(checksum) = self.cached_checksum((request, caller), &target, algorithm).await {
                    return Ok(checksum);
                }
                Ok(target.origin.checksum(&target.path, algorithm).await?)
            }
        }
    }

    /// A checksum of a complete file in the cache that may be served: the one that is known, else made now. `None` when the
    /// cache cannot tell.
    async fn cached_checksum(
        &self,
        (request, caller): (&OpenRequest, &Caller),
        target: &OriginTarget,
        algorithm: Option<&str>,
    ) -> Option<Checksum> {
        let key = target.key.as_ref()?;
        let wanted = match algorithm {
            Some(name) => ChecksumAlgorithm::parse(name).ok()?,
            None => *self.context().options.integrity.checksums.first()?,
        };
        let record = self.context().catalog.as_ref()?.record(key).await??;
        if !record.disk.is_complete() || !self.stat(request, caller).await.ok()?.cached {
            return None;
        }
        if let Some(value) = record.checksum(wanted.as_str()) {
            return Some(Checksum { algorithm: wanted.as_str().to_owned(), value: value.to_owned() });
        }
        let examined = self.checksums().check.examine(key, &[wanted], Behind::Stays, None).await?;
        examined.findings.checksums.into_iter().next()
    }
}
