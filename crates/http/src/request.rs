//! The state of one connection as the handlers of requests use it, and the choice of the handler.

use crate::{
    error_answers::ErrorAnswer,
    exchange::Exchange,
    output::Output,
    peer::Peer,
    s3::{self, Signer, request_id},
    wire::{AnswerHead, Wire},
};
use forebay_engine::Engine;
use forebay_front::{Backend, DeliveryError, Failure};
use forebay_http_proto::s3::error_document;
use forebay_http_proto::{Answer, Expectation, Framing, Head, Method, Refusal, Status, Target, Version, http_date};
use forebay_telemetry::RequestKind;
use forebay_types::{Outcome, Side};
use std::sync::Arc;

/// The state of one connection of HTTP/1.1, or of one request of HTTP/2, as the handlers of requests use it.
pub(crate) struct Context<W> {
    pub(crate) peer: Arc<Peer>,
    pub(crate) wire: W,
    pub(crate) output: Output,
    /// Time at which the request was received.
    pub(crate) received: std::time::Instant,
    /// Hits that are not counted yet.
    pub(crate) hits: u64,
    /// Whether the connection ends with the answer in progress.
    pub(crate) is_ending: bool,
    /// The signer of the request, of S3.
    pub(crate) signer: Option<Signer>,
    /// Name of the request for the log, of S3; empty otherwise.
    request_id: String,
    /// Status of the delivery that follows the body, over HTTP/2.
    status: Option<String>,
    date: (i64, String),
}

/// Why an answer ended before its end. The connection ends with it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error(transparent)]
    Output(#[from] DeliveryError),
    #[error("the client has left before its answer")]
    Left,
    /// The bytes of the file ended; the client has the length, and notices.
    #[error("an answer was cut short: {0}")]
    Content(String),
}

/// Methods that are allowed. Without blanks: XrdClHttp compares the text between commas.
const ALLOW: &str = "GET,HEAD,OPTIONS,PROPFIND";

/// Fields of requests that scripts of other sites may send.
const SHARED_REQUEST_FIELDS: &str =
    "Authorization,Range,If-Range,If-Match,If-None-Match,Want-Digest,Depth,Content-Type,X-Transfer-Status";

/// Fields of answers that scripts of other sites may read.
const SHARED_FIELDS: &str =
    "Accept-Ranges,Age,Cache-Status,Content-Length,Content-Range,Digest,ETag,Last-Modified,Repr-Digest";

/// How long a browser may keep the answer to a preflight request.
const PREFLIGHT_AGE_S: u32 = 86_400;

impl<W: Wire> Context<W> {
    pub(crate) fn new(peer: Arc<Peer>, wire: W) -> Self {
        let output = Output::new(peer.state.options.write_stall_max, peer.state.front.answer_memory.clone());
        Self {
            peer,
            wire,
            output,
            received: forebay_net::clock::monotonic(),
            hits: 0,
            is_ending: false,
            signer: None,
            request_id: String::new(),
            status: None,
            date: (0, String::new()),
        }
    }

    /// Appends the answer to a request, or sends it if it is long.
    pub(crate) async fn answer(&mut self, head: &Head<'_>) -> Result<(), Broken> {
        self.peer.metrics.add_client_request(kind_of(head));
        if self.is_s3() {
            (self.signer, self.request_id) = (None, request_id());
        }
        if let Err(error) = self.dispatch(head).await? {
            self.fail(head, error);
        }
        Ok(())
    }

    async fn dispatch(&mut self, head: &Head<'_>) -> Result<Result<(), ErrorAnswer>, Broken> {
        if self.peer.state.options.requires_tls && !self.peer.is_tls() {
            return Ok(Err(ErrorAnswer::of_client(Status::FORBIDDEN, "this server asks for TLS: use https://")));
        }
        if self.peer.state.options.requires_certificate && !self.is_certified() {
            return Ok(Err(Failure::not_authorized("this server asks for a certificate over TLS".to_owned()).into()));
        }
        if head.expectation == Expectation::Unknown {
            return Ok(Err(ErrorAnswer::of_client(Status::EXPECTATION_FAILED, "the expectation cannot be met")));
        }
        let target = match Target::parse(head.target) {
            Ok(target) => target,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        if self.is_s3() {
            return Box::pin(self.dispatch_s3(head, &target)).await;
        }
        match head.method {
            Method::Get | Method::Head | Method::Propfind if target.path == "*" => {
                Ok(Err(ErrorAnswer::of_client(Status::BAD_REQUEST, "the request names no path")))
            }
            Method::Get => self.get(head, &target).await,
            // In memory of its own, as all that is not the answer of a file that is here: idle connections hold the rest.
            Method::Head => Ok(Box::pin(self.head(head, &target)).await),
            Method::Propfind => self.propfind(head, &target).await,
            Method::Options => {
                self.options(head);
                Ok(Ok(()))
            }
            Method::Post | Method::NotAllowed => {
                let text = "this server does not change files: use GET, HEAD, OPTIONS or PROPFIND";
                Ok(Err(ErrorAnswer::of_client(Status::METHOD_NOT_ALLOWED, text).with("Allow", ALLOW)))
            }
            Method::Unknown => Ok(Err(ErrorAnswer::of_client(Status::NOT_IMPLEMENTED, "the method is not known"))),
        }
    }

    /// Lists what the server can do. Needs no authorization: XrdClHttp asks once for each host, without a token.
    pub(crate) fn options(&mut self, head: &Head<'_>) {
        let answer = Answer::new(Status::OK, Framing::Length(0));
        let mut answer = answer.with("DAV", "1").with("Allow", ALLOW).with("MS-Author-Via", "DAV");
        if head.field("access-control-request-method").is_some() {
            answer.add("Access-Control-Allow-Methods", ALLOW);
            answer.add("Access-Control-Allow-Headers", SHARED_REQUEST_FIELDS);
            answer.add("Access-Control-Max-Age", PREFLIGHT_AGE_S);
        }
        self.write_head(head, answer);
    }

    /// Whether requests are those of S3.
    pub(crate) fn is_s3(&self) -> bool {
        self.peer.state.options.s3.is_some()
    }

    /// Appends the head of an answer.
    pub(crate) fn write_head(&mut self, head: &Head<'_>, mut answer: Answer) {
        self.share(head, &mut answer);
        if !self.request_id.is_empty() {
            answer.add("x-amz-request-id", &self.request_id);
        }
        let now = forebay_net::clock::now_unix();
        if self.date.0 != now {
            self.date = (now, http_date(now));
        }
        if answer.framing == Framing::Close {
            self.is_ending = true;
        }
        let is_kept_alive = head.is_kept_alive && !self.is_ending;
        let (version, has_no_body) = (head.version, head.method == Method::Head);
        let head = AnswerHead { answer: &answer, version, is_kept_alive, has_no_body, date: &self.date.1 };
        self.output.begin(&mut self.wire, &head);
    }

    /// Ends the body of an answer whose length was not announced; `status` is for clients that asked for it.
    pub(crate) fn end_body(&mut self, status: &str) {
        self.output.end_body(status);
        self.status = Some(status.to_owned());
    }

    /// Lets scripts of other sites read the answer, if the configuration lists their site.
    fn share(&self, head: &Head<'_>, answer: &mut Answer) {
        let listed = &self.peer.state.options.cors_origins;
        let Some(origin) = head.field("origin") else { return };
        if listed.is_empty() {
            return;
        }
        if listed.iter().any(|site| site == "*") {
            answer.add("Access-Control-Allow-Origin", "*");
        } else {
            answer.add("Vary", "Origin");
            if !listed.iter().any(|site| site.eq_ignore_ascii_case(origin)) {
                return;
            }
            answer.add("Access-Control-Allow-Origin", origin);
        }
        answer.add("Access-Control-Expose-Headers", SHARED_FIELDS);
    }

    /// Appends an answer in text, which is short.
    pub(crate) fn write_text(&mut self, head: &Head<'_>, mut answer: Answer, content_type: &str, text: &str) {
        answer.framing = Framing::Length(text.len() as u64);
        self.write_head(head, answer.with("Content-Type", content_type).with("X-Content-Type-Options", "nosniff"));
        if head.method != Method::Head {
            self.output.append(text.as_bytes());
        }
    }

    /// Appends an error. The connection lives on: the request has been read.
    pub(crate) fn fail(&mut self, head: &Head<'_>, error: ErrorAnswer) {
        let named = self.is_s3().then(|| error.for_s3());
        let ErrorAnswer { status, text, side, challenge, fields, .. } = error;
        let status = named.map_or(status, |(status, _)| status);
        self.peer.metrics.add_client_error(side);
        let mut answer = Answer::new(status, Framing::None);
        if let Some(challenge) = challenge {
            answer.add("WWW-Authenticate", challenge);
        }
        for (name, value) in fields {
            answer.add(name, value);
        }
        if status == Status::NOT_MODIFIED {
            return self.write_head(head, answer);
        }
        // A client that waits for an interim answer may send its body or not: where its next request begins is not known.
        self.is_ending |= head.expectation != Expectation::None;
        let text = format!("{}: {}", side.as_str(), text.replace(['\r', '\n'], " "));
        if let Some((_, code)) = named {
            let resource = head.target.split('?').next().unwrap_or_default();
            let text = error_document(code, &text, resource, &self.request_id);
            return self.write_text(head, answer, s3::XML, &text);
        }
        self.write_text(head, answer, "text/plain; charset=utf-8", &format!("{text}\n"));
    }

    /// Appends the answer to a request that could not be read. The connection ends with it.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.peer.metrics.add_client_error(Side::Client);
        let text = format!("client: {}\n", refusal.text);
        let answer = Answer::new(refusal.status, Framing::Length(text.len() as u64));
        let date = http_date(forebay_net::clock::now_unix());
        let answer = answer.with("Content-Type", "text/plain; charset=utf-8");
        let version = Version::Http11;
        let head = AnswerHead { answer: &answer, version, is_kept_alive: false, has_no_body: false, date: &date };
        self.output.begin(&mut self.wire, &head);
        self.output.append(text.as_bytes());
    }

    /// The cache to answer from.
    pub(crate) fn engine(&self) -> Result<Engine, ErrorAnswer> {
        match &self.peer.state.front.backend {
            Backend::Cache(engine) => Ok(engine.clone()),
            Backend::Manager(_) => {
                let text = "this server redirects clients of root:// only: ask the filler of the cache";
                Err(Failure::new(forebay_front::FailureKind::Unsupported, Side::Client, text).into())
            }
        }
    }

    /// Adds the hits since the last call to the metrics.
    pub(crate) fn count_hits(&mut self) {
        if self.hits > 0 {
            let hits = std::mem::take(&mut self.hits);
            self.observe(Outcome::Hit, hits);
        }
    }

    /// Adds reads that have been answered to the metrics.
    pub(crate) fn observe(&self, outcome: Outcome, count: u64) {
        let duration = forebay_net::clock::monotonic().saturating_duration_since(self.received);
        self.peer.metrics.observe_requests(outcome, duration, count);
    }
}

/// The kind of a request, by its method: a `GET` of a listing counts as a read.
fn kind_of(head: &Head<'_>) -> RequestKind {
    match head.method {
        Method::Get if head.field("range").is_some_and(|ranges| ranges.contains(',')) => RequestKind::Readv,
        Method::Get => RequestKind::Read,
        Method::Propfind if head.field("depth").is_some_and(|depth| depth.trim() == "1") => RequestKind::Dirlist,
        Method::Head | Method::Propfind => RequestKind::Stat,
        Method::Options => RequestKind::Session,
        Method::Post | Method::NotAllowed => RequestKind::Write,
        Method::Unknown => RequestKind::Other,
    }
}

impl Context<Exchange> {
    /// Sends the rest of the answer, and ends it.
    pub(crate) async fn finish(&mut self) -> Result<(), Broken> {
        let status = self.status.take();
        Ok(self.wire.finish(self.output.take(), status.as_deref(), self.output.terms()).await?)
    }
}

impl Broken {
    pub(crate) const fn side(&self) -> Side {
        match self {
            Self::Output(error) => error.side(),
            Self::Left => Side::Client,
            Self::Content(_) => Side::Origin,
        }
    }
}

/// The result of `work`, unless the client leaves before: a client that gives up on a slow origin and asks again must not hold
/// another place.
pub(crate) async fn unless_left<T>(wire: &mut impl Wire, work: impl Future<Output = T>) -> Result<T, Broken> {
    tokio::select! {
        // Mostly the work needs no wait, and the socket is not looked at.
        biased;
        done = work => Ok(done),
        () = wire.left() => Err(Broken::Left),
    }
}

/// Whether the client can take a body whose length was not announced.
pub(crate) fn takes_chunks(head: &Head<'_>) -> bool {
    head.version != Version::Http10
}
