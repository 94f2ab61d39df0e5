//! One request and its answer, wherever redirects lead it.

use crate::{
    answer::{
        facts::text,
        status::{refusal_kind, retry_after},
    },
    options::{DRAIN_MAX, Options},
    pool::{Connection, Pool},
    proof::Proof,
    request::Question,
    target::{Target, server_of},
};
use bytes::Bytes;
use forebay_auth::Token;
use forebay_origin::{OriginError, OriginPath, Redirected, Redirects};
use forebay_telemetry::OriginMetrics;
use forebay_types::{Endpoint, OriginId};
use http_body_util::BodyExt;
use hyper::{HeaderMap, StatusCode, body::Incoming, header::LOCATION};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout, timeout_at};

/// The servers of an origin, and the means to send requests to them.
pub(crate) struct Client {
    pub(crate) first: OriginId,
    pub(crate) others: Vec<OriginId>,
    pub(crate) options: Options,
    pub(crate) pool: Arc<Pool>,
    pub(crate) metrics: OriginMetrics,
    /// Set if the servers are not those of the configuration.
    pub(crate) named_by: Option<NamedBy>,
    /// Requests for several ranges that were not answered with them since the last one that was.
    pub(crate) failed_joins: AtomicU32,
}

/// The federation that has named the servers of a client.
pub(crate) struct NamedBy {
    pub(crate) federation: Endpoint,
    pub(crate) tokens: ShownTokens,
    /// Position of the server that answered last, which is asked first: one that is down costs a wait only once.
    pub(crate) preferred: AtomicUsize,
}

/// The tokens, ours or those of clients, that servers named by a federation are shown.
#[derive(Clone)]
pub(crate) enum ShownTokens {
    None,
    /// Those of the issuers of the namespace, or all if it states none: servers of one namespace do not learn tokens for another.
    Of(Vec<String>),
}

impl ShownTokens {
    fn include(&self, token: &Token) -> bool {
        match self {
            Self::None => false,
            Self::Of(issuers) if issuers.is_empty() => true,
            Self::Of(issuers) => token.claimed_issuer().is_some_and(|claimed| {
                let claimed = claimed.trim_end_matches('/');
                issuers.iter().any(|issuer| issuer.trim_end_matches('/') == claimed)
            }),
        }
    }
}

/// How a request reaches a server.
struct Way<'a> {
    /// Servers that are shown credentials.
    home: &'a [OriginId],
    /// Set if the server must not be at an address of this machine.
    redirect: Option<&'a Redirected>,
    kept: Option<Connection>,
}

/// The head of an answer, and the rest to come.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// The URL that gave it, after all redirects.
    pub(crate) target: Target,
}

/// The bytes of an answer as they arrive.
pub(crate) struct Body {
    incoming: Incoming,
    /// Given back to the pool after the last byte.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    endpoint: Endpoint,
    stall_timeout: Duration,
    doing: &'static str,
}

/// A request that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: OriginError,
    /// The pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
}

impl From<OriginError> for Failure {
    fn from(error: OriginError) -> Self {
        Self { error, retry_after: None }
    }
}

impl Client {
    fn home(&self) -> Vec<OriginId> {
        std::iter::once(&self.first).chain(&self.others).map(server_of).collect()
    }

    fn shows(&self, token: &Token) -> bool {
        self.named_by.as_ref().is_none_or(|named_by| named_by.tokens.include(token))
    }

    /// The servers that may be shown credentials.
    fn shown_home(&self) -> Vec<OriginId> {
        if self.named_by.as_ref().is_some_and(|named_by| matches!(named_by.tokens, ShownTokens::None)) {
            Vec::new()
        } else {
            self.home()
        }
    }

    /// Sends `question` to `target` alone. Redirects are answers.
    pub(crate) async fn ask_once(
        &self,
        target: &Target,
        path: &OriginPath,
        question: &Question,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        self.metrics.add_request(question.kind());
        let (redirect, home) = (self.named(target), self.shown_home());
        let way = Way { home: &home, redirect: redirect.as_ref(), kept: None };
        self.send(target, path, question, way, deadline).await
    }

    /// An unused connection to the server of `target`.
    pub(crate) fn kept_connection(&self, target: &Target) -> Option<Connection> {
        self.pool.kept(&target.server, self.named(target).as_ref())
    }

    /// Has connections to the server of `target` made for the requests that will follow one to it.
    pub(crate) fn prepare(&self, target: &Target, count: usize) {
        self.pool.prepare(&target.server, self.named(target).as_ref(), count);
    }

    /// Sends `question` to `first` and follows redirects. Statuses other than redirects are answers.
    pub(crate) async fn ask(
        &self,
        first: &Target,
        path: &OriginPath,
        question: &Question,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        self.ask_over(None, first, path, question, deadline).await
    }

    /// The same, over `kept` if it is set: an unused connection to the server of `first`.
    pub(crate) async fn ask_over(
        &self,
        mut kept: Option<Connection>,
        first: &Target,
        path: &OriginPath,
        question: &Question,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let home = self.shown_home();
        let endpoints: Vec<Endpoint> = self.home().iter().map(|server| server.endpoint.clone()).collect();
        let mut visited: Vec<Target> = Vec::new();
        let mut target = first.clone();
        loop {
            let redirect = match visited.last() {
                Some(by) => self.redirected(&endpoints, &target, by.endpoint()),
                None => self.named(&target),
            };
            self.metrics.add_request(question.kind());
            let way = Way { home: &home, redirect: redirect.as_ref(), kept: kept.take() };
            let answer = self.send(&target, path, question, way, deadline).await?;
            if !is_redirect(answer.status) {
                return Ok(answer);
            }
            let endpoint = target.endpoint().clone();
            let location = text(&answer.headers, &LOCATION).unwrap_or_default().to_owned();
            let next = target.redirected(&location).map_err(|what| protocol(&endpoint, what))?;
            // Only directories have another name with a slash: the answer itself is what was asked for.
            if target.is_directory_at(&next)
                && matches!(question, Question::Head | Question::Open(_) | Question::Get { .. })
            {
                return Ok(answer);
            }
            answer.body.finish().await;
            self.permit(&endpoints, &endpoint, next.endpoint())?;
            let limit = self.options.redirect_limit;
            let is_limit = visited.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
            if is_limit || next == target || visited.contains(&next) {
                return Err(OriginError::RedirectLoop { endpoint: first.endpoint().clone(), limit }.into());
            }
            visited.push(std::mem::replace(&mut target, next));
        }
    }

    fn permit(&self, home: &[Endpoint], by: &Endpoint, target: &Endpoint) -> Result<(), Failure> {
        let permitted = self.options.redirects.permit(home, &[], target);
        permitted.map_err(|reason| {
            let (endpoint, target) = (by.clone(), target.clone());
            OriginError::RedirectRefused { endpoint, target, reason }.into()
        })
    }

    /// Set for servers that must not be at an address of this machine, whatever their name.
    fn redirected(&self, home: &[Endpoint], target: &Target, by: &Endpoint) -> Option<Redirected> {
        let Redirects { setting, .. } = self.options.redirects;
        let may_be_here = home.contains(target.endpoint())
            || self.options.redirects.reaches_this_machine(home, &[], target.endpoint());
        (!may_be_here).then(|| Redirected { by: by.clone(), setting })
    }

    /// The same for servers that a federation has named.
    fn named(&self, target: &Target) -> Option<Redirected> {
        let federation = &self.named_by.as_ref()?.federation;
        self.redirected(std::slice::from_ref(federation), target, federation)
    }

    /// Sends one request; once more over a new connection if a kept one turns out to be closed.
    async fn send(
        &self,
        target: &Target,
        path: &OriginPath,
        question: &Question,
        Way { home, redirect, mut kept }: Way<'_>,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let endpoint = target.endpoint();
        let credentials = self.pool.shown.towards(&target.server, &path.delegation, home);
        let of_client = if credentials.has_token() { None } else { client_token(target, path, home) };
        let mut may_reuse = true;
        // It was chosen before the caller waited, and the URL to ask may be another one since: credentials would go to the wrong server.
        if let Some(other) = kept.take_if(|kept| !kept.is_to(&target.server, redirect)) {
            self.pool.park(other);
        }
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    let connecting = self.pool.connection(&target.server, redirect, may_reuse);
                    let connected = timeout_at(deadline, connecting).await;
                    connected.map_err(|_| timed_out(endpoint, question.doing(), &self.options))??
                }
            };
            let proof = if target.is_s3() {
                credentials.access_key().map_or(Proof::Nothing, |key| {
                    // In each attempt: servers refuse signatures that are minutes old.
                    Proof::AccessKey(key, forebay_net::clock::now_unix())
                })
            } else {
                let token = credentials.token_for(target.is_tls(), connection.is_loopback);
                let token = token.or(of_client.as_ref()).filter(|token| self.shows(token));
                token.map_or(Proof::Nothing, Proof::Token)
            };
            let request = question.request(target, proof).map_err(|error| protocol(endpoint, error))?;
            let first_byte = deadline.min(Instant::now() + self.options.first_byte_timeout);
            let answering = async {
                // The end of the answer before has to be noticed first.
                connection.sender.ready().await?;
                connection.sender.send_request(request).await
            };
            match timeout_at(first_byte, answering).await {
                Ok(Ok(answered)) => {
                    let (head, incoming) = answered.into_parts();
                    self.metrics.note_answer(endpoint, question.is_read(), forebay_net::clock::monotonic());
                    let body = Body {
                        incoming,
                        connection: Some(connection),
                        pool: Arc::clone(&self.pool),
                        endpoint: endpoint.clone(),
                        stall_timeout: self.options.stall_timeout,
                        doing: question.doing(),
                    };
                    return Ok(Answer { status: head.status, headers: head.headers, body, target: target.clone() });
                }
                // The server has closed it in the meantime: it may do that, and a new connection is not reused.
                Ok(Err(_)) if connection.is_reused => may_reuse = false,
                Ok(Err(error)) => return Err(lost(endpoint, question.doing(), &error).into()),
                Err(_) => return Err(timed_out(endpoint, question.doing(), &self.options).into()),
            }
        }
    }
}

/// The token that the client has put in its request, for servers of the origin over TLS. A request that must be made with the
/// credentials of a login has none.
fn client_token(target: &Target, path: &OriginPath, home: &[OriginId]) -> Option<Token> {
    if path.delegation.is_insisting() || !target.is_tls() || target.is_s3() || !home.contains(&target.server) {
        return None;
    }
    // A malformed token is not a token: the server refuses the request if it needs one.
    Token::from_opaque(&path.cgi).ok().flatten()
}

impl Answer {
    pub(crate) const fn endpoint(&self) -> &Endpoint {
        self.target.endpoint()
    }

    /// The failure that a status which refuses the request stands for.
    pub(crate) async fn refuse(self, options: &Options) -> Failure {
        let (endpoint, status) = (self.endpoint().clone(), self.status);
        let retry_after = retry_after(&self.headers, std::time::UNIX_EPOCH + unix_now());
        self.body.finish().await;
        let text = format!("HTTP status {status}");
        let error = OriginError::Refused { endpoint, kind: refusal_kind(status), text };
        Failure { error, retry_after: retry_after.map(|pause| pause.min(options.wait_max)) }
    }

    /// Whether it only says that the path is a directory.
    pub(crate) fn is_of_directory(&self) -> bool {
        is_redirect(self.status)
    }
}

impl Body {
    /// The next bytes, never empty; `None` after the last one.
    ///
    /// # Errors
    /// `Lost` or `TimedOut`.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        loop {
            let frame = timeout(self.stall_timeout, self.incoming.frame()).await.map_err(|_| {
                let (endpoint, seconds) = (self.endpoint.clone(), self.stall_timeout.as_secs());
                OriginError::TimedOut { endpoint, doing: self.doing, seconds }
            })?;
            match frame {
                None => {
                    if let Some(connection) = self.connection.take() {
                        self.pool.park(connection);
                    }
                    return Ok(None);
                }
                Some(Err(error)) => return Err(lost(&self.endpoint, self.doing, &error)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data()
                        && !bytes.is_empty()
                    {
                        if let Some(connection) = &mut self.connection {
                            connection.received += bytes.len() as u64;
                        }
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// Receives a short rest, so that the connection can be used again.
    pub(crate) async fn finish(mut self) {
        let mut left = DRAIN_MAX;
        while let Ok(Some(bytes)) = self.next().await {
            if bytes.len() > left {
                return;
            }
            left -= bytes.len();
        }
    }

    /// All of it, if it is at most `len_max` bytes long.
    ///
    /// # Errors
    /// As [`Self::next`]; `Protocol` if it is longer.
    pub(crate) async fn whole(mut self, len_max: usize) -> Result<Vec<u8>, OriginError> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            if whole.len() + bytes.len() > len_max {
                return Err(protocol(&self.endpoint, format!("it sends an answer of more than {len_max} bytes")));
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }
}

impl Question {
    const fn is_read(&self) -> bool {
        matches!(self, Self::Get { .. })
    }
}

const fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn unix_now() -> Duration {
    Duration::from_secs(u64::try_from(forebay_net::clock::now_unix()).unwrap_or_default())
}

pub(crate) fn protocol(endpoint: &Endpoint, what: impl ToString) -> OriginError {
    OriginError::Protocol { endpoint: endpoint.clone(), what: what.to_string() }
}

fn lost(endpoint: &Endpoint, doing: &'static str, error: &hyper::Error) -> OriginError {
    // The outer text alone says "error reading a body".
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    OriginError::Lost { endpoint: endpoint.clone(), doing, reason: format!("{error}{cause}") }
}

fn timed_out(endpoint: &Endpoint, doing: &'static str, options: &Options) -> OriginError {
    let seconds = options.first_byte_timeout.as_secs();
    OriginError::TimedOut { endpoint: endpoint.clone(), doing, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_origin::DelegatedCredentials;
    use forebay_types::Lfn;

    #[test]
    fn tokens_of_clients_reach_the_servers_of_the_origin_over_tls_alone() {
        let home: [OriginId; 2] = ["https://a/base", "http://b"].map(|text| text.parse().unwrap());
        let servers: Vec<OriginId> = home.iter().map(server_of).collect();
        let shown = |server: &str, delegation| {
            let (lfn, cgi) = (Lfn::parse("/f").unwrap(), "x=1&authz=Bearer%20a.b".to_owned());
            let path = OriginPath { lfn, cgi, delegation };
            let target = Target::new(&server.parse().unwrap(), &path);
            assert_eq!(target.path_and_query.rsplit('/').next(), Some("f?x=1"), "never in the URL");
            client_token(&target, &path, &servers).map(|token| token.expose().to_owned())
        };
        let own = DelegatedCredentials::default();
        assert_eq!(shown("https://a/base", own.clone()).as_deref(), Some("a.b"));
        let of_s3 = ["s3://a/bucket".parse().unwrap()].map(|origin| server_of(&origin));
        let lfn = OriginPath { lfn: Lfn::parse("/f").unwrap(), cgi: "authz=a.b".to_owned(), delegation: own.clone() };
        assert!(client_token(&Target::new(&"s3://a/bucket".parse().unwrap(), &lfn), &lfn, &of_s3).is_none());
        for elsewhere in ["http://b", "https://b", "https://a:8443", "http://a"] {
            assert_eq!(shown(elsewhere, own.clone()), None, "{elsewhere}");
        }
        assert_eq!(shown("https://a", DelegatedCredentials::of(None).insisting()), None);
    }
}
