//! HTTP answers.

use crate::{
    body::AnswerBody,
    model::Job,
    problem::{Problem, ProblemKind},
};
use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;
use serde_json::json;

/// An answer; only streams of events are not completely in memory.
pub(crate) type Answer = Response<AnswerBody>;

const JSON_TYPE: &str = "application/json";

pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// Prefix of the `type` of a problem.
pub(crate) const PROBLEM_PREFIX: &str = "urn:forebay:problem:";

/// Seconds before a retry.
const RETRY_SECONDS: &str = "5";

/// An answer of any type.
pub(crate) fn of(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    with_body(status, content_type, body.into().into())
}

/// Server-sent events, which end when the client leaves or the server stops.
pub(crate) fn stream(content_type: &'static str, body: AnswerBody) -> Answer {
    with_body(StatusCode::OK, content_type, body)
}

fn with_body(status: StatusCode, content_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A result of the API.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Answer, Problem> {
    match serde_json::to_vec(value) {
        Ok(body) => Ok(of(status, JSON_TYPE, body)),
        Err(error) => Err(Problem::new(ProblemKind::Internal, error)),
    }
}

/// A success without a result.
pub(crate) fn nothing() -> Answer {
    let mut answer = of(StatusCode::NO_CONTENT, JSON_TYPE, Bytes::new());
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

/// A job that was started, and its path.
pub(crate) fn job(status: StatusCode, job: &Job) -> Result<Answer, Problem> {
    let mut answer = json(status, job)?;
    if let Ok(path) = HeaderValue::from_str(&format!("/api/v1/jobs/{}", job.id)) {
        answer.headers_mut().insert(LOCATION, path);
    }
    Ok(answer)
}

/// An error of the API.
pub(crate) fn problem(problem: &Problem) -> Answer {
    let Problem { kind, detail } = problem;
    let body = json!({
        "type": format!("{PROBLEM_PREFIX}{}", kind.as_str()),
        "title": kind.title(),
        "status": kind.status().as_u16(),
        "detail": detail,
    });
    let mut answer = of(kind.status(), PROBLEM_TYPE, body.to_string());
    match kind {
        ProblemKind::Unauthorized => {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        ProblemKind::Unavailable | ProblemKind::TooManyJobs => {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
        }
        _ => {}
    }
    answer
}

/// The answer to a method that a path does not have.
pub(crate) fn method_not_allowed(allowed: &[&str]) -> Answer {
    let allowed = allowed.join(", ");
    let mut answer = problem(&Problem::new(ProblemKind::Method, format_args!("allowed methods: {allowed}")));
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        answer.headers_mut().insert(ALLOW, allowed);
    }
    answer
}
