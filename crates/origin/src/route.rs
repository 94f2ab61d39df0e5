//! A request on a path, wherever redirects lead it.

use crate::{
    OnBehalf, Options, OriginError, OriginPath, Pool,
    call::{Answer, CallLimits, call, protocol},
    connection::Connection,
    redirect::{Hop, merge_cgi},
    retry::Failure,
};
use bytes::Bytes;
use forebay_auth::{Credentials, without_tokens};
use forebay_proto::{
    DirlistOptions, FileHandle, LocateOptions, OpenOptions, QueryKind, Request, request, request::Target,
    response::Redirect,
};
use forebay_telemetry::{OriginMetrics, RequestKind};
use forebay_types::Endpoint;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What is asked about a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question<'a> {
    /// Open for reading; with `refresh`, a redirector does not trust what it remembers.
    Open { refresh: bool },
    /// What is known of it.
    Stat,
    /// What is in it.
    List(DirlistOptions),
    /// Which servers have it.
    Locate,
    /// Its checksum; the server's choice without an algorithm.
    Checksum(Option<&'a str>),
}

/// An answer, and the server that gave it behind all redirects.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) body: Bytes,
    pub(crate) connection: Arc<Connection>,
    /// Whether a redirector sent us there.
    pub(crate) is_behind_redirector: bool,
}

/// How questions are asked: with which sessions, limits and counters.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    pub(crate) pool: Arc<Pool>,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: OriginMetrics,
    /// The servers of the origin's list.
    pub(crate) home: Arc<[Endpoint]>,
}

impl Router {
    /// What `endpoint` is shown, for whom something is asked.
    pub(crate) fn credentials(&self, endpoint: &Endpoint, on_behalf: &OnBehalf) -> Arc<Credentials> {
        self.pool.credentials(endpoint, on_behalf, self.home.contains(endpoint))
    }

    /// Asks `first` and follows its redirects.
    ///
    /// # Errors
    /// The failure of the server that failed, and whether a redirector had named it.
    pub(crate) async fn ask(
        &self,
        first: &Endpoint,
        path: &OriginPath,
        question: Question<'_>,
        limits: CallLimits,
    ) -> Result<Arrival, Failure> {
        let mut hop = Hop { endpoint: first.clone(), path: path.clone(), tls: self.options.tls };
        if path.on_behalf.is_insisting() || self.credentials(first, &path.on_behalf).has_token() {
            hop.path.cgi = without_tokens(&path.cgi).into_owned();
        }
        let mut visited = Vec::new();
        let mut is_behind_redirector = false;
        loop {
            let fail = |error: OriginError| {
                self.metrics.add_error();
                let behind_redirector = is_behind_redirector.then(|| hop.endpoint.clone());
                Failure { error, behind_redirector }
            };
            let credentials = self.credentials(&hop.endpoint, &hop.path.on_behalf);
            let connecting = self.pool.connection(&hop.endpoint, hop.tls, &credentials, limits.deadline);
            let connection = connecting.await.map_err(fail)?;
            self.metrics.add_request(question.kind());
            let argument = match connection.token_to_send(&credentials) {
                Some(token) => question.argument(&hop.path.with_token(token)),
                None => question.argument(&hop.path),
            };
            let answer = call(&connection, &question.request(&argument), question.doing(), limits).await;
            let redirect = match answer.map_err(fail)? {
                Answer::Body(body) => return Ok(Arrival { body, connection, is_behind_redirector }),
                Answer::Redirect(body) => body,
            };
            let redirect =
                Redirect::parse(&redirect).map_err(|error| fail(protocol(&connection, &error.to_string())))?;
            let next = hop.follow(redirect).map_err(|what| fail(protocol(&connection, &what)))?;
            let is_limit = visited.len() >= usize::try_from(self.options.redirect_limit).unwrap_or(usize::MAX);
            if is_limit || next == hop || visited.contains(&next) {
                let limit = self.options.redirect_limit;
                return Err(fail(OriginError::RedirectLoop { endpoint: first.clone(), limit }));
            }
            is_behind_redirector |= connection.facts().is_manager;
            visited.push(std::mem::replace(&mut hop, next));
        }
    }
}

impl Question<'_> {
    /// The question to a redirector that should not trust what it remembers.
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
                OriginPath { cgi, ..path.clone() }.to_payload()
            }
            // The asterisk asks for every server that may hold a part of the directory.
            Self::Locate => format!("*{}", path.to_payload()),
            _ => path.to_payload(),
        };
        Zeroizing::new(argument)
    }

    const fn request<'a>(&self, argument: &'a str) -> Request<'a> {
        let argument = argument.as_bytes();
        match *self {
            Self::Open { refresh } => {
                let options = OpenOptions::READ.with(OpenOptions::RETURN_STAT).with(OpenOptions::ASYNC);
                let options = if refresh { options.with(OpenOptions::REFRESH) } else { options };
                Request::Open(request::Open { mode: 0, options, options_extended: 0, path: argument })
            }
            Self::Stat => Request::Stat(request::Stat { target: Target::Path(argument), vfs: false }),
            Self::List(options) => Request::Dirlist(request::Dirlist { options, path: argument }),
            Self::Locate => {
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
