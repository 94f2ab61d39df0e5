//! How files are opened and looked up: the rules come first, then the cache, then the origin.

use crate::{
    Caller, Engine, Error, Handle, OpenRequest, Redirect, Redirects,
    api::{
        direct_open::Switching,
        handle::{Opened, Source},
    },
    entries::{
        cached_file::CachedFile,
        from_origin::OriginGrant,
        loader::{closed_copy, load, load_unkept, reopen},
    },
    freshness::{
        origin_permission::Want,
        validity::{Asking, access_at_origin, admit, stat_closed},
    },
    namespace::routes::{OriginTarget, Target, Writes},
    transfer::complete_file,
};
use forebay_cache::{Action, CacheKey, CachingDecision, Decision};
use forebay_origin::BoxFuture;
use forebay_store::Holder;
use forebay_telemetry::{Decided, FileEvents as _, NotKept, OpenPurpose, RedirectedEvent};
use forebay_types::{Endpoint, FileKind, FileStat};
use parking_lot::Mutex;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Result of an open.
#[derive(Clone)]
pub enum Opening {
    /// To an open file.
    File(Handle),
    /// To the origin, where the client is to open the file itself.
    Redirect(Redirect),
    /// To a file of this machine, which the client is to read itself.
    Direct(PathBuf),
}

impl Engine {
    /// Opens a file for reading. Where the rules send clients to the origin, the file is served from there and not kept.
    ///
    /// A file that the cache holds, even in part, is opened without asking its origin unless its copy is due to be checked.
    ///
    /// # Errors
    /// When no export covers the path, the origin or the exported directory has no such readable file, the copy could not be
    /// checked for too long, or only a cached file is wanted and it is not.
    pub async fn open(&self, request: &OpenRequest, caller: &Arc<Caller>) -> Result<Handle, Error> {
        self.open_for(request, caller, OpenPurpose::Read).await
    }

    /// Whether an open of the file would still lead a client to what it reads through `handle`. The request and the caller are checked as
    /// by [`Self::open`]; the client's use of the file continues, and is not counted as a further one.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub async fn still_leads_to(
        &self,
        handle: &Handle,
        request: &OpenRequest,
        caller: &Arc<Caller>,
    ) -> Result<bool, Error> {
        let opened = self.open_for(request, caller, OpenPurpose::Check).await?;
        Ok(opened.opened.source.is_same(&handle.opened.source))
    }

    pub(crate) async fn open_for(
        &self,
        request: &OpenRequest,
        caller: &Arc<Caller>,
        purpose: OpenPurpose,
    ) -> Result<Handle, Error> {
        match self.open_as(request, caller, Redirects::Never, purpose).await? {
            Opening::File(handle) => Ok(handle),
            Opening::Redirect(_) | Opening::Direct(_) => {
                Err(Error::Internal { what: "a redirect where none was wanted" })
            }
        }
    }

    /// Opens a file for reading, or returns where the client is to open it.
    ///
    /// # Errors
    /// As for [`Engine::open`].
    pub async fn open_or_redirect(
        &self,
        request: &OpenRequest,
        caller: &Arc<Caller>,
        redirects: Redirects,
    ) -> Result<Opening, Error> {
        self.open_as(request, caller, redirects, OpenPurpose::Read).await
    }

    fn open_as<'a>(
        &'a self,
        request: &'a OpenRequest,
        caller: &'a Arc<Caller>,
        redirects: Redirects,
        purpose: OpenPurpose,
    ) -> BoxFuture<'a, Result<Opening, Error>> {
        Box::pin(self.find_and_open(request, caller, redirects, purpose))
    }

    async fn find_and_open(
        &self,
        request: &OpenRequest,
        caller: &Arc<Caller>,
        redirects: Redirects,
        purpose: OpenPurpose,
    ) -> Result<Opening, Error> {
        // Rare ways are on the heap, so that the future of a hit stays small: it is moved several times.
        if request.is_of_directory {
            // A file is refused by its stat.
            self.stat(request, caller).await?;
            return Err(Error::IsDirectory { lfn: request.lfn.clone() });
        }
        let mut may_switch = false;
        let source = match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => {
                let opened = self.blocking(lfn, move |lfn| tree.open_file(lfn)).await;
                opened.map(|(file, stat)| Source::Local { file, stat })?
            }
            Target::Origin(mut target) => {
                // Taken before anything is requested: a check that another client began later than this answers this
                // open too.
                let began = forebay_net::clock::monotonic();
                // Authorization comes before the rules: a client without access learns nothing of a file's size or state.
                let grant = self.authorize(&target, Want::Read).await?;
                // A client that wants only cached files must not wait for an origin.
                if target.rucio.is_some() && !request.only_if_cached {
                    Box::pin(self.inner.shared_names.learn(&mut target, &self.inner.metadata)).await;
                }
                target.caching = self.caching_decision(&target, request, caller).await?;
                let redirect = match target.caching.action {
                    Action::Redirect => target.redirect(redirects),
                    Action::Cache => self.redirect_to_holder(&mut target, request, redirects),
                    Action::Bypass => None,
                };
                let decided = match (target.caching.action, &redirect) {
                    (Action::Cache, _) => Decided::Cache,
                    (Action::Redirect, Some(_)) => Decided::Redirect,
                    (Action::Bypass | Action::Redirect, _) => Decided::Bypass,
                };
                // Counted before any redirect, so that every open of an origin's file has one decision.
                self.metrics().add_decision(decided);
                if let Some(redirect) = redirect {
                    self.report_redirect(&target, &redirect, request, caller, None);
                    return Ok(Opening::Redirect(redirect));
                }
                let only_if_cached = request.only_if_cached;
                let is_direct = target.service.direct && redirects.reach_files();
                may_switch = is_direct && redirects == Redirects::ToFilesAmidReads;
                // A client that the origin has failed comes back by its manager: it is served, not sent there again.
                let is_left =
                    target.leaves_misses() && !only_if_cached && !request.tried.clone().take(&target.server.endpoint);
                let origin = if is_left { target.redirect(redirects) } else { None };
                let file = self.open_target(&target, only_if_cached, began, grant).await?;
                // Before the direct open: the organization counts for clients that read the file on their own too.
                file.note_owner(caller.client.organization.as_deref());
                let file = match self.open_directly(file, &caller.client, is_direct).await {
                    Ok(path) => return Ok(Opening::Direct(path)),
                    Err(file) => file,
                };
                // A client that wants only cached files must not cause fetches.
                if !only_if_cached {
                    complete_file::start_if_due(&file);
                }
                if let Some(origin) = origin
                    && !file.is_complete()
                {
                    // Zero: the client reads at the origin, nothing was open here for any time.
                    file.detach(Duration::ZERO);
                    self.metrics().add_miss_redirect();
                    self.report_redirect(&target, &origin, request, caller, Some(file.size()));
                    return Ok(Opening::Redirect(origin));
                }
                Source::Cached(file)
            }
        };
        let switching =
            if may_switch { Switching::allowed(Arc::clone(&self.inner.leases)) } else { Switching::default() };
        let home = (self.context().as_ref(), &self.inner.open_files);
        let opened = Opened::new(source, request.lfn.clone(), caller, purpose, home, switching);
        // A client that wants only cached files must not cause fetches.
        if purpose == OpenPurpose::Read && !request.only_if_cached {
            opened.expect_reads();
        }
        Ok(Opening::File(Handle { opened: Arc::new(opened) }))
    }

    /// The filler that keeps the file, if it is another one and the client can be redirected there. A client that cannot is served, and
    /// nothing is kept.
    fn redirect_to_holder(
        &self,
        target: &mut OriginTarget,
        request: &OpenRequest,
        redirects: Redirects,
    ) -> Option<Redirect> {
        let Holder::Other(filler) = self.context().disk.as_ref()?.holder(target.key.as_ref()?) else { return None };
        target.caching.action = Action::Bypass;
        // A client that was there already comes back because that filler has failed it.
        let can_follow = |filler: &Endpoint| redirects != Redirects::Never && !request.tried.clone().take(filler);
        let server = filler.filter(can_follow)?;
        target.caching.action = Action::Redirect;
        Some(Redirect { server, url: None })
    }

    /// The attributes of a path: from the cache if it holds the file and no check is due, else from the origin. Those that
    /// concern writers are the origin's, and given only where writers are redirected to it.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when a name that can be that of a directory only is that of a file.
    pub fn stat<'a>(&'a self, request: &'a OpenRequest, caller: &'a Caller) -> BoxFuture<'a, Result<FileStat, Error>> {
        Box::pin(self.find_stat(request, caller))
    }

    async fn find_stat(&self, request: &OpenRequest, caller: &Caller) -> Result<FileStat, Error> {
        let stat = match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => self.blocking(lfn, move |lfn| tree.stat(lfn)).await?,
            Target::Origin(target) => {
                let mut stat = self.stat_target(&target).await?;
                if target.writes == Writes::Refuse {
                    stat.access = None;
                }
                stat
            }
        };
        if request.is_of_directory && stat.kind != FileKind::Directory {
            return Err(Error::NotDirectory { lfn: request.lfn.clone() });
        }
        Ok(stat)
    }

    async fn stat_target(&self, target: &OriginTarget) -> Result<FileStat, Error> {
        let began = forebay_net::clock::monotonic();
        let grant = self.authorize(target, Want::Stat).await?;
        if let Some(file) = target.key.as_ref().and_then(|key| self.inner.open_files.find(key)) {
            // An open file is checked in its shared state, so that a found change retires it for all clients.
            admit(&file, target, began, Asking::AsNeeded, &self.inner.metadata).await?;
            // Retired by the check: the old attributes are wrong now, and the origin has the new ones.
            if !file.is_retired() {
                return Ok(FileStat { access: access_at_origin(&self.inner.metadata, target).await, ..file.stat() });
            }
        } else if let Some(copy) = closed_copy(self.context(), target).await {
            return stat_closed(&self.inner.metadata, target, copy, began).await;
        }
        // The authorization may have been a stat itself: its answer is fresh, so no second one is requested.
        match grant {
            Some(OriginGrant::Stat(stat)) => Ok(stat),
            _ => Box::pin(self.stat_at_origin(target)).await,
        }
    }

    fn report_redirect(
        &self,
        target: &OriginTarget,
        redirect: &Redirect,
        request: &OpenRequest,
        caller: &Caller,
        size: Option<u64>,
    ) {
        let (client, lfn, origin, to) = (&caller.client, &request.lfn, &target.server, &redirect.server);
        self.events().redirected(&RedirectedEvent { client, lfn, origin, to, size });
    }

    /// Authorization by the origin, where that is configured.
    pub(crate) async fn authorize(&self, target: &OriginTarget, want: Want) -> Result<Option<OriginGrant>, Error> {
        // The common case: no lookup in the table or the index.
        if target.authorize_as.is_none() {
            return Ok(None);
        }
        let context = self.context();
        let may_be_here = |key| {
            let may_be_on_disk = || context.catalog.as_ref().is_some_and(|catalog| catalog.may_have(key));
            self.inner.open_files.find(key).is_some() || may_be_on_disk()
        };
        let is_here = target.key.as_ref().is_some_and(may_be_here);
        Box::pin(self.inner.permissions.check(target, want, is_here, &self.inner.metadata)).await
    }

    /// Applies the rules to an open. If they depend on the size of a file that is not here, its origin is asked.
    async fn caching_decision(
        &self,
        target: &OriginTarget,
        request: &OpenRequest,
        caller: &Caller,
    ) -> Result<CachingDecision, Error> {
        // Most rules do not depend on the size: no lookup is needed then.
        if let Decision::Caching(caching) = target.decide(request, caller, None) {
            return Ok(caching);
        }
        // The size here is as good as the origin's: a changed file is noticed by the check of the open.
        let here = match target.key.as_ref().and_then(|key| self.inner.open_files.find(key)) {
            Some(file) => Some(file.size()),
            None => closed_copy(self.context(), target).await.map(|copy| copy.stat.size),
        };
        let size = match here {
            Some(size) => size,
            // The origin is not asked for a file that would be refused anyway.
            None if request.only_if_cached => return Err(not_cached(target)),
            None => Box::pin(self.stat_at_origin(target)).await?.size,
        };
        match target.decide(request, caller, Some(size)) {
            Decision::Caching(caching) => Ok(caching),
            Decision::NeedsSize => Err(Error::Internal { what: "rules that no size satisfies" }),
        }
    }

    async fn open_target(
        &self,
        target: &OriginTarget,
        only_if_cached: bool,
        began: Instant,
        grant: Option<OriginGrant>,
    ) -> Result<Arc<CachedFile>, Error> {
        let key = if target.caching.action == Action::Cache { target.key.clone() } else { None };
        if only_if_cached {
            let key = key.ok_or_else(|| not_cached(target))?;
            if !Box::pin(self.counts_as_cached(target, &key)).await {
                return Err(not_cached(target));
            }
            // Never asks: a client that wants only cached files does not wait for an origin.
            return self.open_cached(target, &key, Asking::Never, began, grant).await;
        }
        // A grant proves that the file is there.
        if grant.is_none() {
            self.check_not_missing(target)?;
        }
        match key {
            Some(key) => self.open_cached(target, &key, Asking::AsNeeded, began, grant).await,
            // Not in the table: every open of such a file has its own connection state, and is closed with its handle.
            None => {
                let opened = load_unkept(self.context(), target.clone(), grant, NotKept::Decision);
                let file = Box::pin(opened).await?;
                file.attach();
                Ok(file)
            }
        }
    }

    async fn open_cached(
        &self,
        target: &OriginTarget,
        key: &CacheKey,
        asking: Asking,
        began: Instant,
        grant: Option<OriginGrant>,
    ) -> Result<Arc<CachedFile>, Error> {
        let context = self.context();
        // For the first load only: a server answers an open with the file that other clients have open under its name.
        let is_open = grant.is_some() && self.inner.open_files.find(key).is_some();
        let grant = if is_open { None } else { grant };
        // The load may be started again after a retired file, and only the first attempt may use the grant.
        let grant = Mutex::new(grant);
        // All that a load needs is copied when it begins: most opens find the file, and need none.
        let load = || {
            let metadata = Arc::clone(&self.inner.metadata);
            let asked = target.clone();
            let checksum = async move { metadata.checksum(&asked, None, None).await.ok().flatten() };
            load(Arc::clone(context), target.clone(), grant.lock().take(), checksum)
        };
        let admit = |file| async move { admit(&file, target, began, asking, &self.inner.metadata).await };
        let reopen = || reopen(context, target, key);
        let file = match self.inner.open_files.attach(key, reopen, &load, admit).await {
            Err(Error::Disk { .. }) if asking == Asking::Never => return Err(not_cached(target)),
            // The entry is outdated or damaged, and cannot be removed: loaded again it would be the same.
            Err(Error::Disk { .. }) => {
                let file = Box::pin(load_unkept(context, target.clone(), None, NotKept::DiskError)).await?;
                file.attach();
                return Ok(file);
            }
            attached => attached?,
        };
        // After the admission: a refused client must not lend its credentials to the fills of others.
        file.note_opened_at(target);
        Ok(file)
    }

    async fn counts_as_cached(&self, target: &OriginTarget, key: &CacheKey) -> bool {
        match self.inner.open_files.find(key) {
            Some(file) => file.counts_as_cached(),
            None => closed_copy(self.context(), target).await.is_some_and(|copy| copy.stat.cached),
        }
    }

    async fn stat_at_origin(&self, target: &OriginTarget) -> Result<FileStat, Error> {
        // A stat of a missing file is answered from memory, like its open.
        self.check_not_missing(target)?;
        self.inner.metadata.stat(target, None).await.map(|(stat, _)| stat)
    }

    /// Fails when the origin was asked for the file a moment ago and has none.
    fn check_not_missing(&self, target: &OriginTarget) -> Result<(), Error> {
        match target.key.as_ref().and_then(|key| target.decisions.missing(key)) {
            Some(error) => {
                self.metrics().add_negative_hit();
                Err(error.into())
            }
            None => Ok(()),
        }
    }
}

fn not_cached(target: &OriginTarget) -> Error {
    Error::NotCached { lfn: target.path.lfn.clone() }
}
