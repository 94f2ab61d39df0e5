//! Directory listings, of one server or of a whole cluster.

use crate::{
    route::{
        Arrival, Failure, Question, Router,
        call::{CallLimits, protocol},
        redirect::reachable,
    },
    servers::Servers,
};
use forebay_origin::{ListDetail, OriginError, OriginPath, RefusalKind};
use forebay_proto::{
    DirlistOptions,
    response::{DirlistDecoder, Location, LocationKind, parse_stat},
};
use forebay_types::{DirEntry, Endpoint, Lfn};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::task::JoinSet;

/// Requests of one listing that are under way at once: to the servers of a cluster, or stats of single names.
const CONCURRENT_MAX: usize = 16;

/// Servers of a cluster that are asked for their part of a directory: the most that a redirector and a supervisor below
/// it manage.
const CLUSTER_SERVERS_MAX: usize = 64 * 64;

/// A directory to list, and how. Cheap to clone but for the path.
#[derive(Clone)]
struct Listing {
    router: Router,
    path: OriginPath,
    detail: ListDetail,
    limits: CallLimits,
}

/// Lists a directory. At a redirector every server that may hold a part of it is asked, and each name is listed once.
///
/// # Errors
/// As [`Servers::ask`]. A server of a cluster that cannot be asked only leaves its names out, unless all fail. A stat that is
/// missing and cannot be had fails the listing, unless the server refuses it for good.
pub(crate) async fn list(
    servers: &Servers,
    path: &OriginPath,
    detail: ListDetail,
) -> Result<Vec<DirEntry>, OriginError> {
    let limits = CallLimits::from_now(&servers.router.options);
    let listing = Listing { router: servers.router.clone(), path: path.clone(), detail, limits };
    if let Some(manager) = servers.manager(path, limits).await {
        match listing.of_cluster(&manager).await {
            // It may still list the directory itself.
            Err(error) if error.refusal().is_some_and(cannot_locate) => {}
            listed => return listed,
        }
    }
    let mut attempts = servers.attempts_of_request(limits);
    attempts.is_listing = true;
    let (arrival, _) = servers.ask(path, listing.question(), attempts, limits).await?;
    listing.entries(arrival).await
}

/// Refusals of redirectors that cannot locate directories.
const fn cannot_locate(kind: RefusalKind) -> bool {
    matches!(
        kind,
        RefusalKind::Unsupported
            | RefusalKind::InvalidRequest
            | RefusalKind::InvalidArgument
            | RefusalKind::FileSystemError
            | RefusalKind::NotDirectory
    )
}

impl Listing {
    async fn of_cluster(&self, manager: &Endpoint) -> Result<Vec<DirEntry>, OriginError> {
        let members = self.locate(manager).await?;
        let mut merged = BTreeMap::new();
        let (mut answers, mut last_error) = (0, None);
        let ask = |member: Endpoint| {
            let listing = self.clone();
            async move {
                // One attempt only: a failure leaves out the names of this server, not the listing.
                Ok(match listing.ask(&member, &listing.path, listing.question()).await {
                    Ok(arrival) => listing.entries(arrival).await,
                    Err(error) => Err(error),
                })
            }
        };
        for listed in concurrently(members.into_iter().map(ask)).await? {
            match listed {
                Ok(entries) => {
                    answers += 1;
                    // Several servers of a cluster may hold the same name: it is listed once.
                    merged.extend(entries.into_iter().map(|entry| (entry.name.clone(), entry)));
                }
                // Redirectors name servers that may hold the directory; not all of them do.
                Err(error) if error.is_not_found() => last_error = last_error.or(Some(error)),
                Err(error) => {
                    tracing::warn!(%error, "a server's part is missing from a listing");
                    last_error = Some(error);
                }
            }
        }
        match last_error {
            // Without any answer an empty listing would pass for an empty directory.
            Some(error) if answers == 0 => Err(error),
            _ => Ok(merged.into_values().collect()),
        }
    }

    /// The data servers below `manager` that may hold a part of a directory.
    async fn locate(&self, manager: &Endpoint) -> Result<BTreeSet<Endpoint>, OriginError> {
        let mut refused = None;
        let mut members = BTreeSet::new();
        let mut seen = BTreeSet::from([manager.clone()]);
        let mut managers = VecDeque::from([manager.clone()]);
        let first = manager;
        while let Some(manager) = managers.pop_front() {
            let Arrival { body, connection, .. } = match self.ask(&manager, &self.path, Question::Locate).await {
                Ok(arrival) => arrival,
                // Below the first one a part is missing, as with data servers.
                Err(error) if manager != *first => {
                    if error.is_not_found() {
                        refused = refused.or(Some(error));
                    } else {
                        tracing::warn!(%error, "a server's part is missing from a listing");
                        refused = Some(error);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let locations = Location::parse_all(&body).map_err(|error| protocol(&connection, error))?;
            for Location { kind, endpoint, .. } in locations {
                let endpoint = reachable(&endpoint);
                // Managers may name one another: each is asked once. The limit bounds the work that a wrong answer can
                // cause.
                if seen.len() >= CLUSTER_SERVERS_MAX || !seen.insert(endpoint.clone()) {
                    continue;
                }
                if let Err(error) = self.router.permit(connection.endpoint(), &endpoint) {
                    tracing::warn!(%error, "a server's part is missing from a listing");
                    refused = refused.or(Some(error));
                    continue;
                }
                match kind {
                    LocationKind::Server | LocationKind::PendingServer => drop(members.insert(endpoint)),
                    LocationKind::Manager | LocationKind::PendingManager => managers.push_back(endpoint),
                }
            }
        }
        match refused {
            // Without any answer an empty listing would pass for an empty directory.
            Some(error) if members.is_empty() => Err(error),
            _ => Ok(members),
        }
    }

    /// The entries in an answer; stats that were requested and are missing are requested one by one.
    async fn entries(&self, Arrival { body, connection, .. }: Arrival) -> Result<Vec<DirEntry>, OriginError> {
        let mut entries = Vec::new();
        let mut decoder = DirlistDecoder::new();
        let decoded = decoder.handle_frame(&body, &mut entries).and_then(|()| decoder.finish(&mut entries));
        decoded.map_err(|error| protocol(&connection, error))?;
        if self.detail == ListDetail::Names || entries.iter().all(|entry| entry.stat.is_some()) {
            return Ok(entries);
        }
        let ask = |mut entry: DirEntry| {
            let (listing, endpoint) = (self.clone(), connection.endpoint().clone());
            async move {
                if entry.stat.is_some() {
                    return Ok(Some(entry));
                }
                // A name that makes no valid path cannot be requested by clients either.
                let parent = listing.path.lfn.as_str().trim_end_matches('/');
                let Ok(lfn) = Lfn::parse(&format!("{parent}/{}", entry.name)) else { return Ok(None) };
                match listing.ask(&endpoint, &OriginPath { lfn, ..listing.path.clone() }, Question::Stat).await {
                    Ok(arrival) => entry.stat = parse_stat(&arrival.body).ok(),
                    // Removed since it was listed, or not visible to us.
                    Err(error) if error.refusal().is_some() && !error.is_retryable() => return Ok(None),
                    Err(error) => return Err(error),
                }
                Ok(Some(entry))
            }
        };
        let with_stats = concurrently(entries.into_iter().map(ask)).await?;
        Ok(with_stats.into_iter().flatten().collect())
    }

    fn question(&self) -> Question<'static> {
        Question::List(match self.detail {
            ListDetail::Names => DirlistOptions(0),
            ListDetail::Stats => DirlistOptions::STAT,
            ListDetail::Checksums => DirlistOptions::STAT.with(DirlistOptions::CHECKSUM),
        })
    }

    async fn ask(&self, server: &Endpoint, path: &OriginPath, question: Question<'_>) -> Result<Arrival, OriginError> {
        self.router.ask(server, path, question, self.limits).await.map_err(|Failure { error, .. }| error)
    }
}

/// The results of some tasks, at most [`CONCURRENT_MAX`] of which run at once, in the order of the tasks.
async fn concurrently<T, F>(tasks: impl Iterator<Item = F>) -> Result<Vec<T>, OriginError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, OriginError>> + Send + 'static,
{
    let mut results = BTreeMap::new();
    let mut running = JoinSet::new();
    let mut waiting = tasks.enumerate();
    loop {
        while running.len() < CONCURRENT_MAX
            && let Some((index, task)) = waiting.next()
        {
            running.spawn(async move { (index, task.await) });
        }
        match running.join_next().await {
            None => return Ok(results.into_values().collect()),
            // An error drops the set, which aborts the other tasks.
            Some(Ok((index, result))) => drop(results.insert(index, result?)),
            // These tasks are never aborted, and a panic has been logged.
            Some(Err(error)) => tracing::error!(%error, "a part of a listing failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_keep_the_order_of_their_tasks() {
        let results = concurrently((0..100_u32).map(|number| async move {
            for _ in 0..(100 - number) % 7 {
                tokio::task::yield_now().await;
            }
            Ok(number)
        }))
        .await
        .unwrap();
        assert_eq!(results, (0..100).collect::<Vec<_>>());
    }
}
