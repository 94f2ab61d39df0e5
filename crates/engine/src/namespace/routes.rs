//! Which export or origin a path belongs to.

use crate::{
    Caller, Client, DecisionOptions, Delegation, Error, Miss, OpenRequest, Service, WritePolicy,
    namespace::{decisions::Decisions, local_trees::LocalTree},
};
use forebay_auth::CredentialsName;
use forebay_cache::{
    AllowList, CacheKey, CachingDecision, Decision, FillPolicy, ForwardedPath, ReadAheadSettings, RucioName, Subject,
    ValidityPolicy, forwarded_name,
};
use forebay_origin::{DelegatedCredentials, Origin, OriginPath};
use forebay_store::Space;
use forebay_types::{ByteRange, Lfn, OriginId};
use parking_lot::Mutex;
use std::{borrow::Cow, collections::HashMap, fmt, path::PathBuf, sync::Arc};

/// Makes the client of an origin that a path names.
pub type OriginFactory = Arc<dyn Fn(&OriginId) -> Arc<dyn Origin> + Send + Sync>;

/// Treatment of opens for writing and changes of the name space.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Writes {
    #[default]
    Refuse,
    /// The client is sent to the origin.
    Redirect,
}

/// Where the files of an export come from.
#[derive(Clone)]
pub enum ExportSource {
    /// An origin (or a list of them), cached.
    Origin {
        origin: Arc<dyn Origin>,
        /// The server to which writers are redirected.
        server: OriginId,
    },
    /// A directory of this machine, served as it is.
    Directory(PathBuf),
}

/// A part of the name space and where it comes from.
#[derive(Clone)]
pub struct Export {
    /// Paths at and below this one.
    pub prefix: Lfn,
    pub source: ExportSource,
    pub writes: Writes,
    pub validity: ValidityPolicy,
    /// Whether the origin authorizes a client before it gets bytes from the cache.
    pub authorizes_at_origin: bool,
    pub service: Service,
}

/// Two exports of one prefix, or a directory that cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("two exports have the path {prefix}: remove one of them")]
    Overlap { prefix: Lfn },
    #[error("the exported directory {} cannot be used: {source}", directory.display())]
    Directory { directory: PathBuf, source: std::io::Error },
}

/// The whole name space: exports by prefix, and the origins that paths may name.
pub struct Routes {
    exports: Vec<Route>,
    forwarding: AllowList,
    factory: OriginFactory,
    decisions: Arc<Decisions>,
    named: Mutex<HashMap<OriginId, Arc<dyn Origin>>>,
}

struct Route {
    export: Export,
    /// The directory, if its files come from one.
    tree: Option<Arc<LocalTree>>,
}

/// Where one path leads.
#[expect(clippy::large_enum_variant, reason = "it lives for the length of one call, and nearly all are the large one")]
pub(crate) enum Target {
    /// To a file of an origin, cached under `key` (not cached when it is `None`).
    Origin(OriginTarget),
    /// To an exported directory.
    Local { tree: Arc<LocalTree>, lfn: Lfn },
}

/// A file of an origin.
#[derive(Clone)]
pub struct OriginTarget {
    pub(crate) origin: Arc<dyn Origin>,
    pub server: OriginId,
    pub path: OriginPath,
    /// The bytes that the client is going to read first; empty if they are not known.
    pub(crate) first_read: ByteRange,
    pub(crate) key: Option<CacheKey>,
    /// The name under which other origins may have the same file. Then the key is to become that of the content.
    pub(crate) rucio: Option<RucioName>,
    pub(crate) writes: Writes,
    pub validity: ValidityPolicy,
    pub(crate) decisions: Arc<Decisions>,
    /// Result of the caching rules for the open.
    pub(crate) caching: CachingDecision,
    /// Whether the client named the origin.
    pub(crate) is_forwarded: bool,
    /// The client that the origin has to authorize before it gets bytes from the cache; `None` where that is not configured.
    pub(crate) authorize_as: Option<DelegatedCredentials>,
    pub(crate) service: Service,
}

/// Most origins remembered that paths have named; beyond it the memory is cleared, which costs a new client each.
const NAMED_ORIGINS_MAX: usize = 4096;

impl Routes {
    /// A name space of exports and forwarding.
    ///
    /// # Errors
    /// When two exports share a prefix, or an exported directory cannot be opened.
    pub fn new(exports: Vec<Export>, forwarding: AllowList, factory: OriginFactory) -> Result<Self, RouteError> {
        let mut routes: Vec<Route> = Vec::with_capacity(exports.len());
        for export in exports {
            // Longest first below would hide the second one: the administrator has to know.
            if routes.iter().any(|route| route.export.prefix == export.prefix) {
                return Err(RouteError::Overlap { prefix: export.prefix });
            }
            let tree = match &export.source {
                ExportSource::Origin { .. } => None,
                ExportSource::Directory(directory) => Some(Arc::new(
                    LocalTree::open(directory)
                        .map_err(|source| RouteError::Directory { directory: directory.clone(), source })?,
                )),
            };
            routes.push(Route { export, tree });
        }
        // The longest prefix wins, so it is looked at first.
        routes.sort_by_key(|route| std::cmp::Reverse(route.export.prefix.as_str().len()));
        let decisions = Arc::new(Decisions::new(DecisionOptions::default()));
        Ok(Self { exports: routes, forwarding, factory, decisions, named: Mutex::new(HashMap::new()) })
    }

    /// The same name space with other decisions about opens.
    pub fn with_decisions(self, options: DecisionOptions) -> Self {
        Self { decisions: Arc::new(Decisions::new(options)), ..self }
    }

    /// The room where the first exported directory is.
    pub(crate) fn local_space(&self) -> std::io::Result<Space> {
        let tree = self.exports.iter().find_map(|route| route.tree.as_ref());
        tree.map_or_else(|| Ok(Space::default()), |tree| tree.space())
    }

    /// Whether anything is cached at all.
    pub(crate) fn is_cache(&self) -> bool {
        !self.forwarding.is_empty() || self.exports.iter().any(|route| route.tree.is_none())
    }

    /// Whether writers of any export are redirected to its origin.
    pub(crate) fn redirects_writers(&self) -> bool {
        self.exports.iter().any(|route| route.tree.is_none() && route.export.writes == Writes::Redirect)
    }

    /// Finds where `request` leads: to the origin it names, else to the export with the longest prefix.
    pub(crate) fn resolve(&self, request: &OpenRequest, delegation: &Delegation) -> Result<Target, Error> {
        // First: a path that names an origin is never below an export.
        match ForwardedPath::parse(request.lfn.as_str()) {
            Ok(Some(forwarded)) => {
                return self.forward(&forwarded.origin, forwarded.lfn, request, delegation);
            }
            Ok(None) => {}
            Err(error) => return Err(Error::Forwarding { error }),
        }
        let route = self
            .exports
            .iter()
            .find(|route| request.lfn.is_within(&route.export.prefix))
            .ok_or_else(|| Error::NotExported { lfn: request.lfn.clone() })?;
        let export = &route.export;
        if let Some(tree) = &route.tree {
            let is_root = export.prefix.as_str() == "/";
            let lfn = if is_root { request.lfn.clone() } else { relative_to(&request.lfn, &export.prefix)? };
            return Ok(Target::Local { tree: Arc::clone(tree), lfn });
        }
        let ExportSource::Origin { origin, server } = &export.source else {
            return Err(Error::Internal { what: "an exported directory is not open" });
        };
        let key = CacheKey::fixed(&request.lfn).ok();
        let asked = asked_for(origin, export.authorizes_at_origin, delegation);
        Ok(Target::Origin(OriginTarget {
            writes: export.writes,
            validity: export.validity,
            service: export.service,
            is_forwarded: false,
            ..self.forwarded(Arc::clone(origin), server, key, request.lfn.clone(), request, asked)
        }))
    }

    /// The file of an origin that `request` leads to.
    ///
    /// # Errors
    /// When no export of an origin covers the path.
    pub fn origin(&self, request: &OpenRequest, delegation: &Delegation) -> Result<OriginTarget, Error> {
        match self.resolve(request, delegation)? {
            Target::Origin(target) => Ok(target),
            Target::Local { lfn, .. } => Err(Error::NotExported { lfn }),
        }
    }

    /// The answer to an open for writing, or to a change of the name space, at this path.
    ///
    /// # Errors
    /// When no export covers the path.
    pub fn write_policy(&self, request: &OpenRequest) -> Result<WritePolicy, Error> {
        // As the operator: the origin authorizes the writer itself after the redirect.
        Ok(match self.resolve(request, &Delegation::Operator)? {
            Target::Origin(OriginTarget { writes: Writes::Redirect, server, key, decisions, .. })
                if server.scheme.is_xrootd() =>
            {
                // The client is about to create the file: a remembered "no such file" would hide it from its readers.
                if let Some(key) = key {
                    decisions.forget_missing(&key);
                }
                WritePolicy::Redirect(server.endpoint)
            }
            Target::Origin(_) | Target::Local { .. } => WritePolicy::Refuse,
        })
    }

    fn forward(
        &self,
        id: &OriginId,
        lfn: Lfn,
        request: &OpenRequest,
        delegation: &Delegation,
    ) -> Result<Target, Error> {
        // Before a client is made: names that are not allowed must not cost memory.
        if !self.forwarding.allows(id) {
            return Err(Error::ForwardingDenied { origin: id.clone() });
        }
        let origin = self.named_origin(id);
        let asked = asked_for(&origin, self.decisions.options.forwarding_authorizes_at_origin, delegation);
        let rucio = if self.decisions.options.shares_rucio_files { RucioName::of(&lfn) } else { None };
        let key = CacheKey::forwarded(id, &lfn).ok();
        Ok(Target::Origin(OriginTarget { rucio, ..self.forwarded(origin, id, key, lfn, request, asked) }))
    }

    /// A file of an origin that the client names.
    fn forwarded(
        &self,
        origin: Arc<dyn Origin>,
        server: &OriginId,
        key: Option<CacheKey>,
        lfn: Lfn,
        request: &OpenRequest,
        (delegation, authorize_as): (DelegatedCredentials, Option<DelegatedCredentials>),
    ) -> OriginTarget {
        OriginTarget {
            origin,
            server: server.clone(),
            key,
            rucio: None,
            path: OriginPath { lfn, cgi: request.origin_parameters.clone(), delegation },
            first_read: request.first_read,
            writes: Writes::Refuse,
            validity: self.decisions.options.forwarding_validity,
            decisions: Arc::clone(&self.decisions),
            caching: CachingDecision::default(),
            is_forwarded: true,
            service: self.decisions.options.forwarding_service,
            authorize_as,
        }
    }

    fn named_origin(&self, id: &OriginId) -> Arc<dyn Origin> {
        let mut named = self.named.lock();
        if let Some(origin) = named.get(id) {
            return Arc::clone(origin);
        }
        // Clients choose the names: the table must not grow without limit.
        if named.len() >= NAMED_ORIGINS_MAX {
            named.clear();
        }
        let origin = (self.factory)(id);
        named.insert(id.clone(), Arc::clone(&origin));
        origin
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.exports.iter().map(|route| route.export.prefix.as_str())).finish()
    }
}

/// The credentials with which an origin is asked for a file, and those with which it has to authorize the client first.
fn asked_for(
    origin: &Arc<dyn Origin>,
    authorizes_at_origin: bool,
    delegation: &Delegation,
) -> (DelegatedCredentials, Option<DelegatedCredentials>) {
    let acts_for_clients = origin.acts_for_clients();
    // The server's own requests need no authorization by the origin.
    let is_to_ask = !matches!(delegation, Delegation::Operator) && (authorizes_at_origin || acts_for_clients);
    // The common case: a cell for credentials is made for each open only if they are used.
    if !acts_for_clients && !is_to_ask {
        return (DelegatedCredentials::default(), None);
    }
    let credentials = delegation.credentials();
    let authorize_as = is_to_ask.then(|| credentials.clone().insisting());
    (if acts_for_clients { credentials } else { DelegatedCredentials::default() }, authorize_as)
}

/// `lfn` as seen from below `prefix`.
fn relative_to(lfn: &Lfn, prefix: &Lfn) -> Result<Lfn, Error> {
    let rest = lfn.as_str().strip_prefix(prefix.as_str()).unwrap_or_default();
    Ok(Lfn::parse(if rest.is_empty() { "/" } else { rest })?)
}

impl OriginTarget {
    /// The result of the caching rules for an open of the file.
    #[must_use]
    pub fn decide(&self, request: &OpenRequest, caller: &Caller, size: Option<u64>) -> Decision {
        let Client { user, host, .. } = &*caller.client;
        let subject = Subject { path: &self.rule_path(), user, host, cgi: &request.parameters, size };
        self.decisions.options.rules.decide(&subject)
    }

    /// The key of the file; `None` if it is not cached.
    #[must_use]
    pub const fn key(&self) -> Option<&CacheKey> {
        self.key.as_ref()
    }

    /// The key of the file, if clients may read it themselves without a question to its origin.
    #[must_use]
    pub fn shared_key(&self) -> Option<CacheKey> {
        self.key.clone().filter(|_| self.service.direct && self.authorize_as.is_none())
    }

    /// How it is read ahead and filled: a rule comes first, then what the export says, then the settings of the cache.
    pub(crate) fn read_ahead(&self, of_cache: ReadAheadSettings) -> ReadAheadSettings {
        let settings = self.caching.read_ahead.unwrap_or(of_cache);
        if self.service.miss == Miss::Redirect {
            // No client reads it here before it is complete.
            return ReadAheadSettings { fill: FillPolicy::ToEnd, complete_after_percent: None, ..settings };
        }
        let fill = self.caching.fill.or(self.service.fill).unwrap_or(settings.fill);
        ReadAheadSettings { fill, ..settings }
    }

    /// Whether the origin answers clients, not this cache: then its refusals are about one client only.
    pub(crate) const fn is_as_client(&self) -> bool {
        self.path.delegation.is_for_client()
    }

    /// Whose answers they are.
    pub(crate) fn asked_as(&self) -> CredentialsName {
        self.path.delegation.credentials().map(|credentials| *credentials.name()).unwrap_or_default()
    }

    /// The path with the credentials of the client, where the origin authorizes it.
    pub(crate) fn path_for_client(&self) -> OriginPath {
        let credentials = self.authorize_as.as_ref().unwrap_or(&self.path.delegation).clone();
        OriginPath { delegation: credentials, ..self.path.clone() }
    }

    /// The path as rules know it: with the origin before it when the client named one.
    pub(crate) fn rule_path(&self) -> Cow<'_, str> {
        if self.is_forwarded {
            Cow::Owned(forwarded_name(&self.server, &self.path.lfn))
        } else {
            Cow::Borrowed(self.path.lfn.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_below_their_export() {
        let lfn = |text| Lfn::parse(text).unwrap();
        assert_eq!(relative_to(&lfn("/data/a/b"), &lfn("/data")).unwrap(), lfn("/a/b"));
        assert_eq!(relative_to(&lfn("/data"), &lfn("/data")).unwrap(), lfn("/"));
    }
}
