//! A request on a path, wherever redirects lead it.

pub(crate) mod call;
pub(crate) mod redirect;

use crate::{
    options::Options,
    session::{
        connection::Connection,
        pool::{Destination, Pool},
    },
};
use bytes::Bytes;
use call::{Answer, CallLimits, call, protocol};
use forebay_auth::{Credentials, Token, without_tokens};
use forebay_origin::{DelegatedCredentials, OriginError, OriginPath, Redirected, Redirects, count_failure};
use forebay_proto::{
    DirlistOptions, FileHandle, LocateOptions, OpenOptions, QueryKind, Request, request, request::Target,
    response::Redirect,
};
use forebay_telemetry::{OriginMetrics, RequestKind};
use forebay_types::Endpoint;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use redirect::{Hop, merge_cgi};
use std::{net::IpAddr, sync::Arc};
use zeroize::Zeroizing;

/// All characters that a JSON web token cannot have are escaped: some of them separate parameters of opaque data.
const NOT_IN_TOKENS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Clone, Copy, Debug)]
pub(crate) enum Question<'a> {
    /// Open for reading; with `refresh`, a redirector must not answer from memory.
    Open {
        refresh: bool,
    },
    Stat,
    List(DirlistOptions),
    /// Which servers have it.
    Locate,
    /// Its checksum; the server's choice without an algorithm.
    Checksum(Option<&'a str>),
}

/// An answer, and the server that gave it after all redirects.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) body: Bytes,
    pub(crate) connection: Arc<Connection>,
    /// Whether a redirector has named the server.
    pub(crate) is_behind_redirector: bool,
}

/// A request that failed, and where.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: OriginError,
    /// The server that failed, when a redirector has named it.
    pub(crate) behind_redirector: Option<Endpoint>,
}

/// Asks questions with the sessions, limits and counters of one origin.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    pub(crate) pool: Arc<Pool>,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: OriginMetrics,
    /// The servers of the origin's list, at least one.
    pub(crate) home: Arc<[Endpoint]>,
    /// Where these servers were reached.
    pub(crate) home_addresses: Arc<Mutex<Vec<IpAddr>>>,
}

/// Most addresses remembered of the servers of one origin.
const HOME_ADDRESSES_MAX: usize = 1024;

impl Router {
    /// The credentials that are shown to `endpoint`.
    pub(crate) fn credentials(&self, endpoint: &Endpoint, delegation: &DelegatedCredentials) -> Arc<Credentials> {
        self.pool.credentials(endpoint, delegation, &self.home)
    }

    /// Remembers where a server of the list was reached: redirects may lead there.
    pub(crate) fn note_address(&self, connection: &Connection) {
        if self.home.contains(connection.endpoint()) {
            let mut known = self.home_addresses.lock();
            if known.len() < HOME_ADDRESSES_MAX && !known.contains(&connection.facts.address) {
                known.push(connection.facts.address);
            }
        }
    }

    /// Checks that `by` may name `target` as a server of the origin.
    ///
    /// # Errors
    /// [`OriginError::RedirectRefused`].
    pub(crate) fn permit(&self, by: &Endpoint, target: &Endpoint) -> Result<(), OriginError> {
        if self.home.contains(target) {
            return Ok(());
        }
        let permitted = self.options.redirects.permit(&self.home, &self.home_addresses.lock(), target);
        permitted.map_err(|reason| {
            let (endpoint, target) = (by.clone(), target.clone());
            OriginError::RedirectRefused { endpoint, target, reason }
        })
    }

    /// Set for servers that are not at an address of this machine, whatever their name.
    fn redirect_to(&self, target: &Endpoint, by: &Endpoint) -> Option<Redirected> {
        let Redirects { setting, .. } = self.options.redirects;
        let may_be_here = self.home.contains(target)
            || self.options.redirects.reaches_this_machine(&self.home, &self.home_addresses.lock(), target);
        (!may_be_here).then(|| Redirected { by: by.clone(), setting })
    }

    /// Asks `first` and follows its redirects.
    pub(crate) async fn ask(
        &self,
        first: &Endpoint,
        path: &OriginPath,
        question: Question<'_>,
        limits: CallLimits,
    ) -> Result<Arrival, Failure> {
        let mut hop = Hop { endpoint: first.clone(), path: path.clone(), tls: self.options.tls };
        // The request's own token must not stand in for the credentials that are to be shown.
        if path.delegation.is_insisting() || self.credentials(first, &path.delegation).has_token() {
            hop.path.cgi = without_tokens(&path.cgi).into_owned();
        }
        let mut visited: Vec<Hop> = Vec::new();
        let mut is_behind_redirector = false;
        loop {
            let fail = |error: OriginError| {
                let is_own = !path.delegation.is_insisting() && !self.pool.acts_for_clients(&hop.endpoint);
                count_failure(&self.metrics, &error, is_own);
                let behind_redirector = is_behind_redirector.then(|| hop.endpoint.clone());
                Failure { error, behind_redirector }
            };
            // Chosen for each hop: redirects may lead to servers for which our credentials are not.
            let credentials = self.credentials(&hop.endpoint, &hop.path.delegation);
            let to = Destination {
                endpoint: hop.endpoint.clone(),
                tls: hop.tls,
                credentials: Arc::clone(&credentials),
                redirect: self.redirect_to(&hop.endpoint, visited.last().map_or(first, |hop| &hop.endpoint)),
            };
            let connection = self.pool.connection(to, limits.deadline).await.map_err(fail)?;
            self.note_address(&connection);
            self.metrics.add_request(question.kind());
            // Sent with each request: servers check the token of a login only once.
            let argument = match credentials.token_for(connection.facts.is_tls, connection.facts.address.is_loopback())
            {
                Some(token) => question.argument(&with_token(&hop.path, token)),
                None => question.argument(&hop.path),
            };
            let answer = call(&connection, &question.request(&argument), question.doing(), limits).await;
            let answer = answer.map_err(fail)?;
            self.metrics.note_answer(connection.endpoint(), false, forebay_net::clock::monotonic());
            let redirect = match answer {
                Answer::Body(body) => return Ok(Arrival { body, connection, is_behind_redirector }),
                Answer::Redirect(body) => body,
            };
            let redirect = Redirect::parse(&redirect).map_err(|error| fail(protocol(&connection, error)))?;
            let next = hop.follow(redirect).map_err(|what| fail(protocol(&connection, what)))?;
            self.permit(&hop.endpoint, &next.endpoint).map_err(fail)?;
            // The same server with other opaque data is not a loop: doors put one-time ids there.
            let is_limit = visited.len() >= usize::try_from(self.options.redirect_limit).unwrap_or(usize::MAX);
            if is_limit || next == hop || visited.contains(&next) {
                let limit = self.options.redirect_limit;
                return Err(fail(OriginError::RedirectLoop { endpoint: first.clone(), limit }));
            }
            // A data server may redirect too, but knows no other server to ask when the next one fails.
            is_behind_redirector |= connection.facts.is_manager;
            visited.push(std::mem::replace(&mut hop, next));
        }
    }
}

impl Question<'_> {
    /// The same question to a redirector that must not answer from memory.
    pub(crate) const fn refreshed(self) -> Self {
        match self {
            Self::Open { .. } => Self::Open { refresh: true },
            question => question,
        }
    }

    fn argument(&self, path: &OriginPath) -> Zeroizing<String> {
        let argument = match self {
            Self::Checksum(Some(algorithm)) => {
                let cgi = merge_cgi(&path.cgi, &format!("cks.type={algorithm}"));
                payload(&OriginPath { cgi, ..path.clone() })
            }
            // The asterisk asks for every server that may hold a part of the directory.
            Self::Locate => format!("*{}", payload(path)),
            Self::Open { .. } | Self::Stat | Self::List(_) | Self::Checksum(None) => payload(path),
        };
        Zeroizing::new(argument)
    }

    const fn request<'a>(&self, argument: &'a str) -> Request<'a> {
        let argument = argument.as_bytes();
        match *self {
            Self::Open { refresh } => {
                // The stat in the answer to the open saves a round trip.
                let options = OpenOptions::READ.with(OpenOptions::RETURN_STAT).with(OpenOptions::ASYNC);
                let options = if refresh { options.with(OpenOptions::REFRESH) } else { options };
                Request::Open(request::Open { mode: 0, options, options_extended: 0, path: argument })
            }
            Self::Stat => Request::Stat(request::Stat { target: Target::Path(argument), vfs: false }),
            Self::List(options) => Request::Dirlist(request::Dirlist { options, path: argument }),
            Self::Locate => {
                // Names rather than addresses: credentials and certificates are matched by name.
                let options = LocateOptions::PREFER_NAMES.with(LocateOptions::UNIQUE_HOSTS);
                let options = options.with(LocateOptions::FOR_DIRLIST);
                Request::Locate(request::Locate { options, path: argument })
            }
            Self::Checksum(_) => {
                let handle = FileHandle([0; 4]);
                Request::Query(request::Query { kind: QueryKind::CHECKSUM, handle, argument })
            }
        }
    }

    const fn doing(&self) -> &'static str {
        match self {
            Self::Open { .. } => "opening a file",
            Self::Stat => "asking for a stat",
            Self::List(_) => "listing a directory",
            Self::Locate => "locating a directory",
            Self::Checksum(_) => "asking for a checksum",
        }
    }

    const fn kind(&self) -> RequestKind {
        match self {
            Self::Open { .. } => RequestKind::Open,
            Self::Stat => RequestKind::Stat,
            Self::List(_) => RequestKind::Dirlist,
            Self::Locate => RequestKind::Locate,
            Self::Checksum(_) => RequestKind::Query,
        }
    }
}

/// The path as a request's payload.
pub(crate) fn payload(path: &OriginPath) -> String {
    if path.cgi.is_empty() { path.lfn.to_string() } else { format!("{}?{}", path.lfn, path.cgi) }
}

/// The same path with a bearer token in the opaque data, unless a redirect has put another one there.
fn with_token(path: &OriginPath, token: &Token) -> OriginPath {
    if path.cgi.split('&').any(|pair| pair.starts_with("authz=")) {
        return path.clone();
    }
    let between = if path.cgi.is_empty() { "" } else { "&" };
    let token = Zeroizing::new(utf8_percent_encode(token.expose(), NOT_IN_TOKENS).to_string());
    OriginPath { cgi: format!("{}{between}authz=Bearer%20{}", path.cgi, *token), ..path.clone() }
}
