//! Origins: whether they answer, and accept this cache.

use super::finding::{Findings, Level, Subject};
use crate::node::{
    gate,
    origins::{client_over_http, http_options, http_pool_options},
};
use forebay_config::{ExportConfig, ExportFiles};
use forebay_origin::{DelegatedCredentials, Origin as _, OriginError, OriginPath, Redirects};
use forebay_origin_http::{PelicanServers, Pool as HttpPool};
use forebay_origin_root::{Options, Pool, PoolOptions, RootOrigin};
use forebay_proto::TlsUse;
use forebay_telemetry::Metrics;
use forebay_trust::OriginCredentials;
use forebay_types::{Endpoint, OriginId};
use std::{fmt::Display, sync::Arc, time::Duration};

const CHECK: &str = "origin";

/// Time limit for an origin to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

pub(super) async fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let tls = gate::tls_towards_origins(subject.settings);
    let credentials = gate::origin_credentials(subject.settings);
    let (tls, credentials) = match (tls, credentials) {
        (Ok(tls), Ok(credentials)) => (tls, credentials),
        (Err(error), _) | (_, Err(error)) => {
            return findings.fail(
                CHECK,
                "all",
                format_args!("{error:#}"),
                "fix this first: origins cannot be checked without it",
            );
        }
    };
    let options = PoolOptions { connect_timeout: ANSWER_TIME_MAX, ..config.origin.pool.clone() };
    let http = HttpPool::new(http_pool_options(&options), tls.clone(), Arc::<OriginCredentials>::clone(&credentials));
    let pool = Pool::secured(options, tls, credentials);
    for export in &config.exports {
        let groups = match &export.files {
            ExportFiles::Alternatives(groups) => groups.as_slice(),
            files => std::slice::from_ref(files),
        };
        let mut asked: Vec<(String, Result<(), OriginError>)> = Vec::new();
        for files in groups {
            match files {
                ExportFiles::Origins { first, others, tls } => {
                    for server in std::iter::once(first).chain(others) {
                        asked.push((server.to_string(), ask(&pool, server, *tls, export).await));
                    }
                }
                ExportFiles::HttpOrigins { first, others } => {
                    for server in std::iter::once(first).chain(others) {
                        asked.push((server.to_string(), ask_http(&http, server, export).await));
                    }
                }
                ExportFiles::Directory(_) | ExportFiles::Alternatives(_) => {}
            }
        }
        // With another server that answers, an unreachable one is not a failure.
        let answers = |asked: &Result<(), OriginError>| match asked {
            Ok(()) => true,
            Err(error) => matches!(error, OriginError::Refused { .. }),
        };
        let bad = if asked.iter().any(|(_, asked)| answers(asked)) { Level::Warn } else { Level::Fail };
        for (server, asked) in asked {
            tell(&server, asked, bad, findings);
        }
    }
}

/// Requests the exported directory from an HTTP server.
async fn ask_http(pool: &Arc<HttpPool>, server: &OriginId, export: &ExportConfig) -> Result<(), OriginError> {
    let redirects = Redirects { to: export.redirects.clone(), setting: "export.redirects" };
    let once = Options { attempts: 1, deadline: ANSWER_TIME_MAX, ..Options::default() };
    let (servers, options) = ((server.clone(), Vec::new()), http_options(&once, redirects));
    let origin = client_over_http(servers, PelicanServers::Origins, options, Arc::clone(pool), &Metrics::new());
    origin.stat(&exported(export)).await.map(drop)
}

fn exported(export: &ExportConfig) -> OriginPath {
    OriginPath { lfn: export.path.clone(), cgi: String::new(), delegation: DelegatedCredentials::default() }
}

/// Requests the exported directory from a server.
async fn ask(pool: &Arc<Pool>, server: &Endpoint, tls: TlsUse, export: &ExportConfig) -> Result<(), OriginError> {
    let redirects = Redirects { to: export.redirects.clone(), setting: "export.redirects" };
    let options = Options { tls, redirects, attempts: 1, deadline: ANSWER_TIME_MAX, ..Options::default() };
    let origin = RootOrigin::new(vec![server.clone()], options, Arc::clone(pool), &Metrics::new());
    origin.stat(&exported(export)).await.map(drop)
}

fn tell(server: &impl Display, asked: Result<(), OriginError>, bad: Level, findings: &mut Findings) {
    let Err(error) = asked else { return findings.ok(CHECK, server, "answers") };
    let advice = match &error {
        error if error.is_not_found() => {
            return findings.ok(CHECK, server, "answers, but does not have the exported directory");
        }
        OriginError::Refused { .. } => {
            let advice = "check that this cache is authorized to read the exported files there";
            return findings.warn(CHECK, server, error, advice);
        }
        OriginError::Authentication { .. } => {
            "add a [[credential]] for it, or ask its administrator to authorize this cache"
        }
        OriginError::Tls { .. } => "install its CA, or use roots:// only for origins with TLS",
        OriginError::Protocol { .. } => "check that this is the port of a server of this protocol",
        _ => "check that it is up and reachable from this machine: xrdfs HOST:PORT query config version",
    };
    findings.add(bad, CHECK, server, error, advice);
}
