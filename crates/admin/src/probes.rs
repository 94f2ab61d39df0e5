//! The open paths: metrics, liveness, readiness.

use crate::answer::{self, Answer};
use forebay_telemetry::{Metrics, Readiness};
use hyper::{
    Method, StatusCode,
    header::{ALLOW, HeaderValue},
};

const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// The answer to a request outside of the API.
pub(crate) fn respond(method: &Method, path: &str, metrics: &Metrics, readiness: &Readiness) -> Answer {
    if !matches!(path, "/metrics" | "/healthz" | "/readyz") {
        let text = "not found; paths: /metrics, /healthz, /readyz, /api/v1/openapi.json\n";
        return answer::of(StatusCode::NOT_FOUND, TEXT_TYPE, text);
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refusal = answer::of(StatusCode::METHOD_NOT_ALLOWED, TEXT_TYPE, "only GET and HEAD are allowed\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match path {
        "/metrics" => {
            metrics.expire_failing_servers(forebay_net::clock::monotonic());
            match metrics.render() {
                Ok(rendered) => answer::of(StatusCode::OK, OPENMETRICS_TYPE, rendered),
                Err(_) => answer::of(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, "cannot encode the metrics\n"),
            }
        }
        "/readyz" => {
            let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            answer::of(status, TEXT_TYPE, format!("{}\n", readiness.as_str()))
        }
        _ => answer::of(StatusCode::OK, TEXT_TYPE, "ok\n"),
    }
}
