//! Implements the trait of origins for HTTP servers.

use crate::{
    answer::{
        digest::checksum_in,
        facts::{is_identity, size_in, validator_in},
        multistatus::{self, Resource},
    },
    exchange::{Client, Failure, protocol},
    file::{Begun, HttpFile},
    head::{Head, is_directory},
    options::{FAILED_JOINS_MAX, LISTING_LEN_MAX, OPENINGS_MAX, Options, PREPARED, PREPARED_LEN_MIN, REQUESTS_MAX},
    pool::Pool,
    request::Question,
    s3::stat_of_directory,
    target::Target,
};
use forebay_origin::{
    Checksum, FileIdentity, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind,
};
use forebay_telemetry::Metrics;
use forebay_types::{ByteRange, DirEntry, FileKind, FileStat, OriginId, Scheme, Validator};
use hyper::StatusCode;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};
use tokio::{sync::Semaphore, time::Instant};

/// One or several interchangeable HTTP servers, asked in the order of the list.
pub struct HttpOrigin {
    pub(crate) client: Arc<Client>,
    label: String,
    /// Cleared when the origin has refused a request of WebDAV.
    pub(crate) has_webdav: AtomicBool,
    /// Cleared when the origin has sent bytes without a validator.
    opens_by_reading: AtomicBool,
    /// Set while the origin answers `HEAD` without a validator: the time of change is a property then.
    pub(crate) heads_lack_validators: AtomicBool,
    /// Set when the origin has stated one: without it a copy would pass for another content.
    pub(crate) has_times: AtomicBool,
    /// Set when the origin has redirected an open.
    is_door: AtomicBool,
    turns: Arc<Semaphore>,
    /// Turns of opens whose answers have bytes for a reader. Not those of reads: some clients open files and read nothing.
    openings: Arc<Semaphore>,
}

impl HttpOrigin {
    /// An origin of these servers, reached through `pool` and counted under the first one's name.
    #[must_use]
    pub fn new(first: OriginId, others: Vec<OriginId>, options: Options, pool: Arc<Pool>, metrics: &Metrics) -> Self {
        let (label, metrics) = (first.to_string(), metrics.origin(&first));
        // Servers of S3 ignore the header then, and send all of the object.
        let failed_joins = AtomicU32::new(if first.scheme == Scheme::S3 { FAILED_JOINS_MAX } else { 0 });
        Self::of(Client { first, others, options, pool, metrics, named_by: None, failed_joins }, label)
    }

    /// The origin of the servers of `client`.
    pub(crate) fn of(client: Client, label: String) -> Self {
        let client = Arc::new(client);
        let [turns, openings] = [REQUESTS_MAX, OPENINGS_MAX].map(|count| Arc::new(Semaphore::new(count)));
        let [has_webdav, opens_by_reading] = [true, true].map(AtomicBool::new);
        let [heads_lack_validators, has_times, is_door] = [false; 3].map(AtomicBool::new);
        Self { client, label, has_webdav, opens_by_reading, heads_lack_validators, has_times, is_door, turns, openings }
    }

    async fn open_file(&self, path: &OriginPath, first: ByteRange) -> Result<HttpFile, OriginError> {
        let attempt = |server, deadline| self.begin(server, path, first, deadline);
        let ((Head { size, validator, target }, begun), server) = match self.client.with_servers(attempt).await {
            Err(OriginError::Refused { endpoint, kind: RefusalKind::NotFound, .. })
                if self.is_s3() && self.is_prefix(path).await? =>
            {
                return Err(is_directory(endpoint));
            }
            opened => opened?,
        };
        let identity = FileIdentity { size, validator, origin: server.clone() };
        Ok(HttpFile::new(Arc::clone(&self.client), Arc::clone(&self.turns), path.clone(), identity, target, begun))
    }

    /// Size and validator of a file; with the answer that has the bytes from the beginning of `first` on, unless that is empty.
    async fn begin(
        &self,
        server: &OriginId,
        path: &OriginPath,
        first: ByteRange,
        deadline: Instant,
    ) -> Result<(Head, Option<Begun>), Failure> {
        // Without a turn the open does not wait for one: it needs no connection for longer than a round trip.
        let reads = !first.is_empty() && self.opens_by_reading.load(Relaxed);
        let turn = if reads { Arc::clone(&self.openings).try_acquire_owned().ok() } else { None };
        let Some(turn) = turn else {
            return Ok((self.head(server, path, deadline).await?, None));
        };
        let target = Target::new(server, path);
        // Behind a door, reads go to other servers.
        if first.len() >= PREPARED_LEN_MIN && !self.is_door.load(Relaxed) {
            self.client.prepare(&target, PREPARED);
        }
        let answer = self.client.ask(&target, path, &Question::Open(first), deadline).await?;
        if answer.target != target {
            self.is_door.store(true, Relaxed);
        }
        if matches!(answer.status.as_u16(), 200 | 206)
            && is_identity(&answer.headers)
            && let Some(size) = size_in(&answer.headers).filter(|size| *size > first.start())
            && let validator = validator_in(&answer.headers)
            // A page about a directory is a whole without a validator.
            && (answer.status == StatusCode::PARTIAL_CONTENT || !validator.is_empty())
        {
            let begun = Begun { range: first.clipped_to(size), answer, turn };
            if validator.is_empty() {
                return self.head_beside(begun, size, server, path, deadline).await;
            }
            let head = Head { size, validator, target: begun.answer.target.clone() };
            return Ok((head, Some(begun)));
        }
        // Of these errors `HEAD` may give another account: the range is beyond the end, or the method is not supported.
        if answer.status.is_success() || matches!(answer.status.as_u16(), 405 | 416 | 501) {
            answer.body.finish().await;
            return Ok((self.head(server, path, deadline).await?, None));
        }
        self.read_head(answer).await.map(|head| (head, None))
    }

    /// The head of a file whose bytes come without a validator, as from XrdHttp and pools of dCache. Copies are compared with what
    /// [`Self::head`] finds, so this has to come from there too.
    async fn head_beside(
        &self,
        begun: Begun,
        size: u64,
        server: &OriginId,
        path: &OriginPath,
        deadline: Instant,
    ) -> Result<(Head, Option<Begun>), Failure> {
        self.opens_by_reading.store(false, Relaxed);
        let head = self.head(server, path, deadline).await?;
        // The bytes are older than the validator, and may be those of another content.
        let begun = (head.size == size && head.validator.is_empty()).then_some(begun);
        Ok((head, begun))
    }

    /// The properties of a path, or of it and the entries below it.
    pub(crate) async fn properties(
        &self,
        server: &OriginId,
        path: &OriginPath,
        question: &Question,
        deadline: Instant,
    ) -> Result<(Target, Vec<Resource>), Failure> {
        let mut target = Target::new(server, path);
        if matches!(question, Question::List) {
            // Without the slash some servers redirect, and some list nothing.
            target = target.as_directory();
        }
        let answer = self.client.ask(&target, path, question, deadline).await?;
        if answer.status != StatusCode::MULTI_STATUS {
            let is_known = matches!(answer.status.as_u16(), 401 | 403 | 404 | 408 | 410 | 429 | 500 | 502..=599);
            if !is_known {
                // Other answers are to this question alone, for example that the name is too long.
                if answer.status.is_success() || matches!(answer.status.as_u16(), 405 | 501) {
                    self.has_webdav.store(false, Relaxed);
                }
                answer.body.finish().await;
                return Err(unsupported(&target).into());
            }
            return Err(answer.refuse(&self.client.options).await);
        }
        let endpoint = answer.endpoint().clone();
        let xml = answer.body.whole(LISTING_LEN_MAX).await?;
        let resources = multistatus::parse(&xml).map_err(|what| protocol(&endpoint, format!("its listing: {what}")))?;
        Ok((target, resources))
    }

    async fn stat_by_webdav(&self, path: &OriginPath) -> Result<FileStat, OriginError> {
        let attempt = |server, deadline| self.properties(server, path, &Question::Properties, deadline);
        let ((target, resources), _) = self.client.with_servers(attempt).await?;
        let resource = resources.first().ok_or_else(|| protocol(target.endpoint(), "it sends no properties"))?;
        Ok(stat_of(resource))
    }

    async fn stat_by_head(&self, path: &OriginPath) -> Result<(FileStat, Validator), OriginError> {
        if self.is_s3() && path.lfn.as_str() == "/" {
            self.has_objects_below(path).await?;
            return Ok((stat_of_directory(), Validator::default()));
        }
        let attempt = |server, deadline| self.head(server, path, deadline);
        match self.client.with_servers(attempt).await {
            // A bucket has keys, and directories are what they begin with.
            Err(error) if self.is_s3() && error.refusal().is_some_and(may_be_prefix) => {
                let is_directory = self.is_prefix(path).await?;
                if is_directory { Ok((stat_of_directory(), Validator::default())) } else { Err(error) }
            }
            Ok((Head { size, validator, .. }, _)) => {
                let resource = Resource { size: Some(size), mtime: validator.mtime(), ..Resource::default() };
                Ok((stat_of(&resource), validator))
            }
            Err(error) if error.refusal() == Some(RefusalKind::IsDirectory) => {
                // Its properties have shown that, and have its time of change.
                if self.heads_lack_validators.load(Relaxed)
                    && let Ok(stat) = self.stat_by_webdav(path).await
                {
                    return Ok((stat, Validator::default()));
                }
                Ok((stat_of(&Resource { is_directory: true, ..Resource::default() }), Validator::default()))
            }
            Err(error) => Err(error),
        }
    }

    async fn list_directory(&self, path: &OriginPath) -> Result<Vec<DirEntry>, OriginError> {
        if self.is_s3() {
            return self.list_objects(path).await;
        }
        let attempt = |server, deadline| self.properties(server, path, &Question::List, deadline);
        let ((target, resources), server) = self.client.with_servers(attempt).await?;
        let directory = format!("{}{}", server.base(), path.lfn.as_str().trim_end_matches('/'));
        let is_directory = |resource: &Resource| resource.path == directory && resource.is_directory;
        if let [only] = resources.as_slice()
            && !is_directory(only)
        {
            let (endpoint, text) = (target.endpoint().clone(), "it is not a directory".to_owned());
            return Err(OriginError::Refused { endpoint, kind: RefusalKind::NotFile, text });
        }
        Ok(resources.iter().filter_map(|resource| entry_of(resource, &directory)).collect())
    }

    async fn ask_for_checksum(&self, path: &OriginPath, algorithm: Option<&str>) -> Result<Checksum, OriginError> {
        let question = &Question::Checksum(algorithm.map(str::to_ascii_lowercase));
        let attempt = |server, deadline| async move {
            let target = Target::new(server, path);
            let answer = self.client.ask(&target, path, question, deadline).await?;
            if !answer.status.is_success() {
                return Err(answer.refuse(&self.client.options).await);
            }
            let (endpoint, found) = (answer.endpoint().clone(), checksum_in(&answer.headers, algorithm));
            answer.body.finish().await;
            found.ok_or_else(|| {
                let text = "it sends no such checksum".to_owned();
                OriginError::Refused { endpoint, kind: RefusalKind::Unsupported, text }.into()
            })
        };
        self.client.with_servers(attempt).await.map(|(checksum, _)| checksum)
    }
}

impl Origin for HttpOrigin {
    fn label(&self) -> &str {
        &self.label
    }

    fn acts_for_clients(&self) -> bool {
        self.client.pool.shown.are_of_clients(&self.client.first)
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        self.open_to_read(path, ByteRange::default())
    }

    fn open_to_read<'a>(&'a self, path: &'a OriginPath, first: ByteRange) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move { Ok(Arc::new(self.open_file(path, first).await?) as Arc<dyn OriginFile>) })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(async move {
            if !self.is_s3() && self.has_webdav.load(Relaxed) {
                match self.stat_by_webdav(path).await {
                    Err(error) if error.refusal() == Some(RefusalKind::Unsupported) => {}
                    answered => return answered,
                }
            }
            self.stat_by_head(path).await.map(|(stat, _)| stat)
        })
    }

    /// Asks as an open does: validators of properties may differ from those of answers with bytes.
    fn stat_with_validator<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, (FileStat, Validator)> {
        Box::pin(self.stat_by_head(path))
    }

    fn list<'a>(&'a self, path: &'a OriginPath, _detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(self.list_directory(path))
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(self.ask_for_checksum(path, algorithm))
    }
}

/// Whether a server may answer so for a name that other keys begin with: without the right to list, a missing key is forbidden.
const fn may_be_prefix(kind: RefusalKind) -> bool {
    matches!(kind, RefusalKind::NotFound | RefusalKind::Denied)
}

fn unsupported(target: &Target) -> OriginError {
    let (endpoint, text) = (target.endpoint().clone(), "it does not support WebDAV".to_owned());
    OriginError::Refused { endpoint, kind: RefusalKind::Unsupported, text }
}

fn stat_of(resource: &Resource) -> FileStat {
    let kind = if resource.is_directory { FileKind::Directory } else { FileKind::File };
    FileStat {
        id: 0,
        kind,
        size: resource.size.unwrap_or_default(),
        mtime: resource.mtime.unwrap_or_default(),
        readable: true,
        executable: resource.is_directory,
        offline: false,
        cached: false,
        access: None,
        // Servers state other entity tags in properties than with bytes.
        validator: Some(Arc::new(Validator::default())),
    }
}

/// The entry of `directory` that a resource is; `None` for the directory itself and whatever lies elsewhere.
fn entry_of(resource: &Resource, directory: &str) -> Option<DirEntry> {
    let name = resource.path.strip_prefix(directory)?.strip_prefix('/')?;
    if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
        return None;
    }
    Some(DirEntry { name: name.to_owned(), stat: Some(stat_of(resource)), checksum: None })
}
