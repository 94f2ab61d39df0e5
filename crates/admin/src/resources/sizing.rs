//! The LRU curve of the cache.

use super::{Server, no_cache};
use crate::{
    model::Sizing,
    problem::{Problem, ProblemKind},
};

/// The curve, computed away from the runtime: it looks at each file.
pub(crate) async fn get(server: &Server) -> Result<Sizing, Problem> {
    let popularity = server.popularity.clone().ok_or_else(no_cache)?;
    let now = forebay_net::clock::now_unix();
    let reported = tokio::task::spawn_blocking(move || popularity.report(now)).await;
    let (reuse, lost_accesses) = reported.map_err(|error| Problem::new(ProblemKind::Internal, error))?;
    Ok(Sizing::new(reuse, lost_accesses))
}
