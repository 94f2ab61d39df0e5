//! Implements the trait of origins for `root://` servers.

use crate::{
    file::RootFile,
    list::list,
    options::Options,
    route::{
        Arrival, Question, Router,
        call::{CallLimits, protocol},
    },
    servers::Servers,
    session::pool::Pool,
};
use forebay_origin::{Checksum, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind};
use forebay_proto::response;
use forebay_telemetry::Metrics;
use forebay_types::{DirEntry, Endpoint, FileStat};
use std::sync::Arc;

/// The number of times that a checksum is requested while the server answers with one of another algorithm.
///
/// XRootD 5.5.3 computes one checksum of a file at a time: a request that arrives meanwhile gets the result of the one in progress,
/// whichever algorithm it names.
const CHECKSUM_ATTEMPTS: u32 = 4;

/// One or several interchangeable `root://` servers.
///
/// They are asked in the order of the list; one that could not be reached lately is skipped while there is another.
pub struct RootOrigin {
    servers: Servers,
    label: String,
}

impl RootOrigin {
    /// An origin of these servers, reached through `pool` and counted under the first one's name.
    ///
    /// # Panics
    /// When `servers` is empty.
    #[must_use]
    pub fn new(servers: Vec<Endpoint>, options: Options, pool: Arc<Pool>, metrics: &Metrics) -> Self {
        assert!(!servers.is_empty(), "an origin has at least one server");
        let label = servers.first().map(ToString::to_string).unwrap_or_default();
        let metrics = servers.first().map(|first| metrics.origin(&first.clone().into())).unwrap_or_default();
        let router =
            Router { pool, options: Arc::new(options), metrics, home: servers.into(), home_addresses: Arc::default() };
        Self { servers: Servers { router }, label }
    }

    fn limits(&self) -> CallLimits {
        CallLimits::from_now(&self.servers.router.options)
    }

    async fn ask(&self, path: &OriginPath, question: Question<'_>, limits: CallLimits) -> Result<Arrival, OriginError> {
        let attempts = self.servers.attempts_of_request(limits);
        self.servers.ask(path, question, attempts, limits).await.map(|(arrival, _)| arrival)
    }

    async fn ask_for_checksum(
        &self,
        path: &OriginPath,
        algorithm: Option<&str>,
        limits: CallLimits,
    ) -> Result<Arrival, OriginError> {
        let question = Question::Checksum(algorithm);
        match self.ask(path, question, limits).await {
            // Managers of XRootD 5.5.3 without `xrootd.chksum` in their configuration refuse instead of redirecting.
            Err(error) if error.refusal() == Some(RefusalKind::Unsupported) => {
                self.ask_data_server(path, question, error, limits).await
            }
            answered => answered,
        }
    }

    /// Asks the data server of a redirector that has refused the question itself: some redirectors answer questions about files
    /// without looking for them.
    ///
    /// # Errors
    /// `refusal` when there is no such server.
    async fn ask_data_server(
        &self,
        path: &OriginPath,
        question: Question<'_>,
        refusal: OriginError,
        limits: CallLimits,
    ) -> Result<Arrival, OriginError> {
        let Arrival { connection, .. } = self.ask(path, Question::Stat, limits).await?;
        // Not redirected: the server that refused holds the file itself.
        if connection.endpoint() == refusal.endpoint() {
            return Err(refusal);
        }
        let asked = self.servers.router.ask(connection.endpoint(), path, question, limits).await;
        asked.map_err(|failure| failure.error)
    }
}

impl Origin for RootOrigin {
    fn label(&self) -> &str {
        &self.label
    }

    fn acts_for_clients(&self) -> bool {
        self.servers.router.pool.acts_for_clients(self.servers.first())
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move {
            let file = RootFile::open(&self.servers, path).await?;
            Ok(Arc::new(file) as Arc<dyn OriginFile>)
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(async move {
            let Arrival { body, connection, .. } = self.ask(path, Question::Stat, self.limits()).await?;
            response::parse_stat(&body).map_err(|error| protocol(&connection, error))
        })
    }

    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(list(&self.servers, path, detail))
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(async move {
            // All attempts share one deadline.
            let limits = self.limits();
            let mut attempts = CHECKSUM_ATTEMPTS;
            loop {
                let Arrival { body, connection, .. } = self.ask_for_checksum(path, algorithm, limits).await?;
                let response::Checksum { algorithm: told, value } =
                    response::Checksum::parse(&body).map_err(|error| protocol(&connection, error))?;
                // A value of another algorithm must not pass for the requested one.
                if algorithm.is_none_or(|wanted| wanted.eq_ignore_ascii_case(&told)) {
                    return Ok(Checksum { algorithm: told, value });
                }
                attempts -= 1;
                if attempts == 0 {
                    return Err(protocol(&connection, "a checksum of another algorithm than requested"));
                }
            }
        })
    }
}
