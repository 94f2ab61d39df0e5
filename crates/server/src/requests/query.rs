//! Queries: configuration, checksum, space, attributes, statistics; settings of a session; commands for the cache, for clients with
//! the right `admin`.

use crate::{
    base::status::Failure,
    requests::{context::ConnectionContext, meta::space_of, names::Permitted},
};
use forebay_auth::Right;
use forebay_cache::{CacheKey, name_for_rules};
use forebay_engine::{Caller, Checksum, Engine, Error, Evicted, OpenRequest};
use forebay_front::Backend;
use forebay_proto::{
    ErrorCode, QueryKind, ReplyTo, StreamId,
    limits::{BOUND_STREAMS_MAX, VECTOR_ELEMENT_LEN_MAX, VECTOR_ELEMENTS_MAX},
    request::{Query, Set},
    response,
};
use forebay_types::Side;

/// Requests that a client may have in progress on one parallel stream, as in the reference server.
const REQUESTS_PER_STREAM: u32 = 5;

/// Bytes of a configuration reply, as in the reference server. Values that do not fit are omitted.
const CONFIG_LEN_MAX: usize = 4096;

impl ConnectionContext {
    pub(crate) fn query(&mut self, stream_id: StreamId, query: &Query<'_>) {
        if query.argument.is_empty() {
            // As in the reference server: a query without an argument is one about an open file.
            let missing = || Failure::client(ErrorCode::ARG_MISSING, "the query has no argument");
            let failure = self.handle(query.handle).map_or_else(|failure| failure, |_| missing());
            return self.fail(stream_id, &failure);
        }
        match query.kind {
            QueryKind::CONFIG if query.config_names().next().is_none() => {
                let text = "the query for configuration names no setting";
                self.fail(stream_id, &Failure::client(ErrorCode::ARG_MISSING, text));
            }
            QueryKind::CONFIG => {
                let values = self.config_values(query);
                self.reply(stream_id, |reply, out| reply.config(values.iter().map(String::as_str), out));
            }
            QueryKind::STATS => {
                let text = self.statistics();
                self.reply(stream_id, |reply, out| reply.ok_text(&text, out));
            }
            QueryKind::CHECKSUM | QueryKind::SPACE | QueryKind::XATTR => self.query_path(stream_id, query),
            // No computation of a checksum waits here that could be cancelled.
            QueryKind::CHECKSUM_CANCEL => self.reply(stream_id, ReplyTo::ok),
            QueryKind::PREPARE
            | QueryKind::VISA
            | QueryKind::FILE_INFO
            | QueryKind::FS_INFO
            | QueryKind::OPAQUE
            | QueryKind::OPAQUE_FILE
            | QueryKind::OPAQUE_HANDLE => {
                let text = format!("query {} is not supported", query.kind.as_str());
                self.fail(stream_id, &Failure::client(ErrorCode::UNSUPPORTED, text));
            }
            QueryKind(number) => {
                let text = format!("there is no query {number}");
                self.fail(stream_id, &Failure::client(ErrorCode::ARG_INVALID, text));
            }
        }
    }

    fn query_path(&mut self, stream_id: StreamId, query: &Query<'_>) {
        // A checksum of a small file reveals its contents.
        let right = if query.kind == QueryKind::CHECKSUM { Right::Read } else { Right::Stat };
        let Some((engine, Permitted { request, caller })) = self.at_cache(stream_id, query.argument, right) else {
            return;
        };
        let kind = query.kind;
        self.start_answer(stream_id, |mut answer| async move {
            match kind {
                QueryKind::CHECKSUM => {
                    let checksum = answer.wait_for(checksum_of(&engine, &request, &caller)).await;
                    answer.conclude(checksum, |reply, checksum, out| reply.checksum(&checksum, out)).await;
                }
                QueryKind::SPACE => {
                    let space = answer.wait_for(space_of(&engine, &request)).await;
                    answer
                        .conclude(space, |reply, space, out| reply.space(space.total_bytes, space.free_bytes, out))
                        .await;
                }
                _ => {
                    let stat = answer.wait_for(engine.stat(&request, &caller)).await;
                    answer.conclude(stat, |reply, stat, out| reply.xattr(&stat, out)).await;
                }
            }
        });
    }

    fn config_values(&self, query: &Query<'_>) -> Vec<String> {
        let mut room = CONFIG_LEN_MAX;
        query
            .config_names()
            .map(|name| self.config_value(&String::from_utf8_lossy(name)))
            .take_while(|value| {
                let fits = value.len() < room;
                room = room.saturating_sub(value.len() + 1);
                fits
            })
            .collect()
    }

    /// The value of a configuration name. An unknown or unset name is its own value.
    fn config_value(&self, name: &str) -> String {
        let state = &self.state;
        match name {
            "readv_ior_max" => VECTOR_ELEMENT_LEN_MAX.to_string(),
            "readv_iov_max" => VECTOR_ELEMENTS_MAX.to_string(),
            "bind_max" => BOUND_STREAMS_MAX.to_string(),
            "pio_max" => REQUESTS_PER_STREAM.to_string(),
            // Limits of attribute names and values: none are supported.
            "fattr" => "0 0".to_owned(),
            "chksum" if !state.options.checksum_algorithms.is_empty() => {
                let algorithms = state.options.checksum_algorithms.iter().enumerate();
                algorithms.map(|(index, name)| format!("{index}:{name}")).collect::<Vec<_>>().join(",")
            }
            "role" => match &state.front.backend {
                Backend::Manager(_) => "manager",
                Backend::Cache(engine) if engine.is_cache() => "proxy server",
                Backend::Cache(_) => "server",
            }
            .to_owned(),
            "sitename" => state.options.site_name.clone().unwrap_or_else(|| name.to_owned()),
            "start" => state.started.to_string(),
            "version" => version(),
            "forebay.directories" => {
                state.front.direct.directories_on(self.peer.ip()).unwrap_or_else(|| name.to_owned())
            }
            "forebay.probe" => state.front.direct.probe_path(self.peer.ip()).unwrap_or_else(|| name.to_owned()),
            // Commands of the reference server that have no counterpart here.
            "cmsd" | "xrootd" => String::new(),
            _ => name.to_owned(),
        }
    }

    /// The part of the reference server's statistics that exists here. The metrics have more.
    fn statistics(&self) -> String {
        let state = &self.state;
        let site = state.options.site_name.as_deref().map(escape_xml).unwrap_or_default();
        format!(
            "<statistics tod=\"{now}\" ver=\"{version}\" src=\"{source}\" tos=\"{started}\" pgm=\"forebay\" \
             pid=\"{pid}\" site=\"{site}\"><stats id=\"link\"><num>{sessions}</num></stats></statistics>",
            now = forebay_net::clock::now_unix(),
            version = version(),
            source = self.own_endpoint(false),
            started = state.started,
            pid = std::process::id(),
            sessions = state.sessions.len(),
        )
    }

    /// Accepts a setting of the session, which has no effect here, or does a command for the cache.
    pub(crate) fn set(&mut self, stream_id: StreamId, set: &Set<'_>) {
        // The third part is the rest: a path may hold spaces.
        let mut words = set.text.trim_ascii().splitn(3, |&byte| byte == b' ');
        match (set.modifier, words.next(), words.next()) {
            (0, Some(b"appid"), _) | (0, Some(b"monitor"), Some(b"on" | b"off")) => self.reply(stream_id, ReplyTo::ok),
            // The id under which monitoring knows the text; 0 stands for monitoring that is off.
            (0, Some(b"monitor"), Some(b"info")) => self.reply(stream_id, |reply, out| reply.ok_with(&[0; 4], out)),
            (0, Some(b"cache"), Some(command)) => {
                self.command_cache(stream_id, command, words.next().unwrap_or_default().trim_ascii());
            }
            _ => self.fail(stream_id, &Failure::client(ErrorCode::ARG_INVALID, "no such setting")),
        }
    }

    /// Removes a file from the cache: `evict PATH`, and `fevict PATH` also when it is open or pinned.
    pub(crate) fn command_cache(&mut self, stream_id: StreamId, command: &[u8], path: &[u8]) {
        let is_forced = match command {
            b"evict" => false,
            b"fevict" => true,
            _ => {
                let text = "there is no such command for the cache: evict PATH, fevict PATH";
                return self.fail(stream_id, &Failure::client(ErrorCode::ARG_INVALID, text));
            }
        };
        let key = match self.key_to_administer(path) {
            Ok(key) => key,
            Err(failure) => return self.fail(stream_id, &failure),
        };
        let Backend::Cache(engine) = self.state.front.backend.clone() else {
            // A manager keeps no files.
            return self.conclude(stream_id, removed(Evicted::NotCached, &key), |reply, (), out| reply.ok(out));
        };
        self.start_answer(stream_id, |mut answer| async move {
            let evicted = answer.wait_for(engine.evict(&key, is_forced)).await.map_err(Failure::from);
            let done = evicted.and_then(|evicted| removed(evicted, &key));
            answer.conclude(done, |reply, (), out| ReplyTo::ok(reply, out)).await;
        });
    }

    /// The entry of `path`, if a rule lets the client administer it. Without rules no client may.
    fn key_to_administer(&self, path: &[u8]) -> Result<CacheKey, Failure> {
        // Without rules every client could empty the cache.
        if !self.state.front.gate.has_rules() {
            let text = "this server takes commands for its cache from clients whom a grant gives the right \"admin\"";
            return Err(Failure::client(ErrorCode::UNSUPPORTED, text));
        }
        let Permitted { request, .. } = self.permitted(path, Right::Admin)?;
        // The cache key has the same normalized form as the name in rules.
        let key = name_for_rules(&request.lfn).and_then(|name| CacheKey::from_text(name.as_str()));
        key.ok_or_else(|| Failure::client(ErrorCode::NOT_FOUND, "no file of this name can be in the cache"))
    }
}

/// A checksum, by the algorithm that its opaque data names or else by the origin's choice. Clients fail when
/// the reply names another algorithm than they asked for.
async fn checksum_of(engine: &Engine, request: &OpenRequest, caller: &Caller) -> Result<response::Checksum, Failure> {
    let algorithm = request.parameters.split('&').find_map(|pair| pair.strip_prefix("cks.type="));
    let asked = algorithm.map(str::to_ascii_lowercase);
    let unknown = |name: &str| Failure {
        code: ErrorCode::SERVER_ERROR,
        text: format!("{name} checksum not supported.").into(),
        side: Side::Client,
    };
    match (engine.checksum(request, caller, asked.as_deref()).await, asked) {
        (Ok(Checksum { algorithm, .. }), Some(asked)) if !algorithm.eq_ignore_ascii_case(&asked) => {
            Err(unknown(&asked))
        }
        (Ok(Checksum { algorithm, value }), _) => Ok(response::Checksum::new(&algorithm, &value)),
        (Err(Error::Unsupported { .. }), Some(asked)) => Err(unknown(&asked)),
        (Err(error), _) => Err(error.into()),
    }
}

fn version() -> String {
    format!("forebay-{}", env!("CARGO_PKG_VERSION"))
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn removed(evicted: Evicted, key: &CacheKey) -> Result<(), Failure> {
    let (code, what) = match evicted {
        Evicted::Removed { .. } => return Ok(()),
        Evicted::NotCached => (ErrorCode::NOT_FOUND, "is not in the cache"),
        Evicted::Open => (ErrorCode::FILE_LOCKED, "is open: fevict removes it all the same"),
        Evicted::Pinned => (ErrorCode::FILE_LOCKED, "is pinned: fevict removes it all the same"),
    };
    Err(Failure::client(code, format!("{key} {what}")))
}
