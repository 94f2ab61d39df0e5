//! Origins: whether they answer, and let this cache in.

use super::{
    Patient,
    finding::{Findings, Level},
};
use crate::node::{gate, tls};
use forebay_config::{ExportConfig, ExportFiles};
use forebay_origin::{OnBehalf, Options, Origin as _, OriginError, OriginPath, Pool, PoolOptions, RootOrigin};
use forebay_proto::{ErrorCode, TlsUse};
use forebay_telemetry::Metrics;
use forebay_types::Endpoint;
use std::{sync::Arc, time::Duration};

const CHECK: &str = "origin";

/// Time that an origin has to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

pub(super) async fn check(patient: &Patient<'_>, findings: &mut Findings) {
    let config = &patient.settings.config;
    let tls = tls::towards_origins(patient.settings);
    let credentials = gate::origin_credentials(patient.settings);
    let (tls, credentials) = match (tls, credentials) {
        (Ok(tls), Ok(credentials)) => (tls, credentials),
        (Err(error), _) | (_, Err(error)) => {
            return findings.fail(
                CHECK,
                "all",
                format_args!("{error:#}"),
                "mend this first: then origins can be asked",
            );
        }
    };
    let options = PoolOptions { connect_timeout: ANSWER_TIME_MAX, ..config.origin.pool.clone() };
    let pool = Pool::secured(options, tls, credentials);
    for export in &config.exports {
        if let ExportFiles::Origins { first, others, tls } = &export.files {
            // With another one to turn to, one that is away costs nothing.
            let bad = if others.is_empty() { Level::Fail } else { Level::Warn };
            for server in std::iter::once(first).chain(others) {
                let asked = ask(&pool, server, *tls, export).await;
                tell(server, asked, bad, findings);
            }
        }
    }
}

/// Asks a server for the directory that is exported from it.
async fn ask(pool: &Arc<Pool>, server: &Endpoint, tls: TlsUse, export: &ExportConfig) -> Result<(), OriginError> {
    let options = Options { tls, attempts: 1, deadline: ANSWER_TIME_MAX, ..Options::default() };
    let origin = RootOrigin::new(vec![server.clone()], options, Arc::clone(pool), &Metrics::new());
    let path = OriginPath { lfn: export.path.clone(), cgi: String::new(), on_behalf: OnBehalf::default() };
    origin.stat(&path).await.map(drop)
}

fn tell(server: &Endpoint, asked: Result<(), OriginError>, bad: Level, findings: &mut Findings) {
    let Err(error) = asked else { return findings.ok(CHECK, server, "answers") };
    let advice = match &error {
        OriginError::Refused { code, .. } if *code == ErrorCode::NOT_FOUND.0 => {
            return findings.ok(CHECK, server, "answers, and has no directory of the export's name");
        }
        OriginError::Refused { .. } => {
            let advice = "is this cache known there, and may it read what is exported?";
            return findings.warn(CHECK, server, error, advice);
        }
        OriginError::Authentication { .. } => "write a [[credential]] for it, or let its administrator know this cache",
        OriginError::Tls { .. } => "install its authority, or write roots:// only for origins that have TLS",
        OriginError::Protocol { .. } => "is this the port of an XRootD server?",
        _ => "is it up, and can this machine reach it? xrdfs HOST:PORT query config version",
    };
    findings.add(bad, CHECK, server, error, advice);
}
