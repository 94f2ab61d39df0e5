//! The administration of one server: authorizes callers, dispatches operations, answers.

use crate::{
    Popularity,
    access::{AccessRules, Channel, Denial},
    answer::{self, Answer},
    call::{BODY_LEN_MAX, Call, Routed, route},
    jobs::Jobs,
    model::JobList,
    openapi,
    operation::{API_PREFIX, Operation, OperationId},
    pages::{self, Views},
    probes,
    problem::{Problem, ProblemKind},
    resources::{self, Server},
};
use bytes::{Bytes, BytesMut};
use forebay_cluster::Locator;
use forebay_engine::Engine;
use forebay_front::{Backend, RefusalLog};
use forebay_telemetry::Readiness;
use http_body_util::BodyExt;
use hyper::{
    Method, Request, StatusCode,
    body::{Body, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use std::sync::Arc;

/// The administration of a server. Cheap to clone; clones share jobs.
#[derive(Clone)]
pub struct Admin {
    server: Arc<Server>,
    rules: AccessRules,
    /// The status page, if there is one.
    views: Option<Views>,
    /// User of this process.
    own_uid: u32,
    /// Of all callers that are denied.
    pub(crate) refusal_log: RefusalLog,
}

/// Bytes read and discarded of a body that is too long.
const DISCARDED_LEN_MAX: usize = 8 * BODY_LEN_MAX;

/// Bytes of a path in the log.
const LOGGED_PATH_LEN_MAX: usize = 256;

impl Admin {
    /// The administration of the server that answers from `backend`.
    #[must_use]
    pub fn new(backend: impl Into<Backend>, readiness: Readiness, rules: AccessRules) -> Self {
        let started = forebay_net::clock::now_unix();
        let server = Arc::new(Server {
            backend: backend.into(),
            readiness,
            jobs: Arc::new(Jobs::new(started)),
            activity: None,
            popularity: None,
            locator: None,
            started,
        });
        let own_uid = rustix::process::geteuid().as_raw();
        Self { server, rules, views: None, own_uid, refusal_log: RefusalLog::default() }
    }

    /// The same with a status page.
    #[must_use]
    pub fn with_views(self, views: Views) -> Self {
        let mut server = (*self.server).clone();
        server.activity = Some(views.activity.clone());
        let views = views.with_refusal_log(self.refusal_log.clone());
        Self { server: Arc::new(server), views: Some(views), ..self }
    }

    /// The same with the LRU curve of `popularity`.
    #[must_use]
    pub fn with_popularity(mut self, popularity: Popularity) -> Self {
        if let Some(server) = Arc::get_mut(&mut self.server) {
            server.popularity = Some(popularity);
        }
        self
    }

    /// The same as a member of a cluster.
    #[must_use]
    pub fn with_locator(mut self, locator: Locator) -> Self {
        if let Some(server) = Arc::get_mut(&mut self.server) {
            server.locator = Some(locator);
        }
        self
    }

    pub(crate) async fn respond(&self, request: Request<Incoming>, channel: Channel) -> Answer {
        let path = request.uri().path();
        let is_api =
            path.strip_suffix('/').unwrap_or(path) == API_PREFIX.trim_end_matches('/') || path.starts_with(API_PREFIX);
        if let Some(views) = &self.views
            && pages::is_page(path)
        {
            return views.show(request, channel, &self.server, &self.rules).await;
        }
        if !is_api {
            let Server { backend, readiness, .. } = self.server.as_ref();
            return probes::respond(request.method(), path, backend.metrics(), readiness);
        }
        if let Err(problem) = self.admit(&request, channel).await {
            return answer::problem(&problem);
        }
        let (method, path) = (request.method().clone(), logged_path(path).to_owned());
        let answer = match self.call(request).await {
            Ok(answer) => answer,
            Err(problem) => answer::problem(&problem),
        };
        if method != Method::GET && method != Method::HEAD {
            let (caller, status) = (channel.to_string(), answer.status().as_u16());
            tracing::info!(caller, %method, path, status, "administration request");
        }
        answer
    }

    async fn call(&self, request: Request<Incoming>) -> Result<Answer, Problem> {
        let (parts, body) = request.into_parts();
        let (operation, variable) = match route(parts.method.as_str(), parts.uri.path()) {
            Routed::Operation(operation, variable) => (operation, variable),
            Routed::OtherMethods(allowed) => return Ok(answer::method_not_allowed(&allowed)),
            Routed::Nowhere => {
                let detail = "no such path; see /api/v1/openapi.json";
                return Err(Problem::new(ProblemKind::NoSuchPath, detail));
            }
        };
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let body = if operation.body.is_some() { read_body(body, content_type).await? } else { Bytes::new() };
        let call = Call::new(operation, &variable, parts.uri.query().unwrap_or_default(), body)?;
        self.perform(&call).await
    }

    async fn admit(&self, request: &Request<Incoming>, channel: Channel) -> Result<(), Problem> {
        let authorization =
            request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (rules, own_uid) = (self.rules.clone(), self.own_uid);
        let admitted = tokio::task::spawn_blocking(move || rules.admit(channel, authorization.as_deref(), own_uid));
        let denial = match admitted.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(denial)) => denial,
            Err(error) => return Err(Problem::new(ProblemKind::Internal, error)),
        };
        if self.refusal_log.has_room() {
            tracing::warn!(caller = %channel, %denial, "administration request denied");
        }
        let kind = match &denial {
            Denial::Off | Denial::User { .. } => ProblemKind::Forbidden,
            Denial::NoToken | Denial::WrongToken => ProblemKind::Unauthorized,
            Denial::TokenFile(_) => ProblemKind::Unavailable,
        };
        // Unauthorized callers must not learn the path of the file.
        let detail = match &denial {
            Denial::TokenFile(_) => "the token file cannot be used; see the server's log".to_owned(),
            denial => denial.to_string(),
        };
        Err(Problem::new(kind, detail))
    }

    async fn perform(&self, call: &Call) -> Result<Answer, Problem> {
        let server = &self.server;
        let Operation { id, status, .. } = call.operation;
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::OK);
        match id {
            OperationId::Document => Ok(answer::of(status, "application/json", openapi::document())),
            OperationId::Status => answer::json(status, &resources::status::get(server).await),
            OperationId::Activity => answer::json(status, &resources::activity::get(server)?),
            OperationId::ListFiles => answer::json(status, &resources::files::list(server, call).await?),
            OperationId::LocateFile => answer::json(status, &resources::locations::get(server, call).await?),
            OperationId::GetFile => answer::json(status, &resources::files::get(server, call).await?),
            OperationId::EvictFile => answer::json(status, &resources::evict::one(server, call).await?),
            OperationId::EvictFiles => answer::job(status, &resources::evict::matching(server, call)?),
            OperationId::Pin => answer::json(status, &resources::files::pin(server, call).await?),
            OperationId::Unpin => {
                resources::files::unpin(server, call).await?;
                Ok(answer::nothing())
            }
            OperationId::Prefetch => answer::job(status, &resources::prefetch::start(server, call)?),
            OperationId::Purge => answer::job(status, &resources::maintenance::start_purge(server, call)?),
            OperationId::ScrubState => {
                answer::json(status, &server.engine().map(Engine::scrub_state).unwrap_or_default())
            }
            OperationId::Scrub => answer::json(status, &resources::maintenance::start_scrub(server)?),
            OperationId::ListLearnedColumns => {
                answer::json(status, &resources::learned_columns::list(server, call).await?)
            }
            OperationId::ForgetLearnedColumns => {
                answer::json(status, &resources::learned_columns::forget(server, call).await?)
            }
            OperationId::ListJobs => answer::json(status, &JobList { jobs: server.jobs.list() }),
            OperationId::GetJob => answer::json(status, &server.jobs.find(&call.variable)?.snapshot()),
            OperationId::CancelJob => {
                server.jobs.cancel_or_forget(&call.variable)?;
                Ok(answer::nothing())
            }
            OperationId::Sizing => answer::json(status, &resources::sizing::get(server).await?),
            OperationId::Drain => answer::json(status, &resources::maintenance::drain(server)),
            OperationId::Undrain => answer::json(status, &resources::maintenance::undrain(server)),
        }
    }
}

/// The beginning of a path.
fn logged_path(path: &str) -> &str {
    let end = (0..=path.len().min(LOGGED_PATH_LEN_MAX)).rev().find(|&end| path.is_char_boundary(end));
    path.get(..end.unwrap_or_default()).unwrap_or_default()
}

async fn read_body(mut body: Incoming, content_type: Option<&str>) -> Result<Bytes, Problem> {
    let media_type = content_type.and_then(|value| value.split(';').next()).map(str::trim);
    if !media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json")) {
        discard(&mut body).await;
        return Err(Problem::new(ProblemKind::MediaType, "the header `Content-Type: application/json` is missing"));
    }
    let too_long = || Problem::new(ProblemKind::TooLong, format_args!("the limit is {BODY_LEN_MAX} bytes"));
    if body.size_hint().lower() > BODY_LEN_MAX as u64 {
        discard(&mut body).await;
        return Err(too_long());
    }
    let mut content = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::invalid(format_args!("cannot read the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if content.len() + data.len() > BODY_LEN_MAX {
            discard(&mut body).await;
            return Err(too_long());
        }
        content.extend_from_slice(&data);
    }
    Ok(content.freeze())
}

/// Reads the rest of a body up to a limit: a client that is still sending would not see the answer.
async fn discard(body: &mut Incoming) {
    let mut discarded = 0;
    while let Some(Ok(frame)) = body.frame().await {
        discarded += frame.data_ref().map_or(0, Bytes::len);
        if discarded > DISCARDED_LEN_MAX {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_in_the_log() {
        let longest = "x".repeat(LOGGED_PATH_LEN_MAX);
        for path in ["", "/api/v1/purge", longest.as_str()] {
            assert_eq!(logged_path(path), path);
        }
        assert_eq!(logged_path(&format!("{longest}x")), longest);
        let cut = "x".repeat(LOGGED_PATH_LEN_MAX - 1);
        assert_eq!(logged_path(&format!("{cut}ü")), cut, "characters are not divided");
    }
}
