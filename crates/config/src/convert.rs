//! From what is written to what it means.

use crate::{
    accounts::RunAs,
    admin::read_admin,
    checker::Checker,
    config::Config,
    credentials::read_credentials,
    decisions::read_decisions,
    direct::{read_direct, settle_permissions},
    disks::{read_disks, read_permissions},
    error::ConfigError,
    exports::read_exports,
    integrity::read_integrity,
    origin_url::{OriginUrl, parse_origin_url},
    purge::read_purge,
    raw::{Raw, RawForwarding, RawIndex, RawLogging, RawMemory, RawOrigin, RawServer, RawStore},
    read_ahead::read_read_ahead,
    roles::read_role,
    security::read_security,
    source::Source,
    tls::read_tls,
    trace::read_trace,
};
use forebay_auth::SecurityProtocol;
use forebay_cache::AllowList;
use forebay_telemetry::LogFormat;
use forebay_types::{BlockSize, ByteSize};
use std::{convert::Infallible, net::SocketAddr, path::PathBuf};
use toml::Spanned;

/// Least and most memory for buffers: one client's reads and the fills they start; more than any node has.
const MEMORY_MIN: ByteSize = ByteSize(16 << 20);
const MEMORY_MAX: ByteSize = ByteSize(1 << 40);

/// Blocks that must fit the memory at once, so that one fill does not keep everyone else waiting.
const BLOCKS_IN_MEMORY_MIN: u64 = 4;

/// Ranges of numbers, chosen so that a slip of the finger is caught and no useful value is refused.
const CONNECTIONS: (u64, u64) = (1, 1_000_000);
const HANDLES_PER_SESSION: (u64, u64) = (1, 65_536);
const REQUESTS_OUTSTANDING: (u64, u64) = (1, 65_536);
const ATTEMPTS: (u64, u64) = (1, 1000);
const STREAMS: (u64, u64) = (1, 16);

/// Memory for the index in bytes: below it every look-up reads the disk; more than any index has.
const INDEX_CACHE: (u64, u64) = (4 << 20, 64 << 30);

/// Longest site or host name in bytes: it must fit an answer.
const NAME_LEN_MAX: usize = 255;

/// Turns what is written into a configuration, or tells everything that is wrong.
pub(crate) fn convert(raw: &Raw, source: &Source) -> Result<Config, ConfigError> {
    let mut checker = Checker::new(source);
    let mut config = Config::default();
    read_server(&raw.server, &mut config, &mut checker);
    config.tls = read_tls(&raw.tls, &raw.origin, &mut checker);
    config.security = read_security(raw, &config.tls, &mut checker);
    let (user, trust) = (config.origin.pool.username.clone(), config.security.trust);
    config.credentials = read_credentials(raw, &user, &config.tls, trust, &mut checker);
    if let Some(clients) = &mut config.tls.clients {
        clients.files.resumes = !config.security.methods.contains(&SecurityProtocol::Tls);
    }
    config.admin = read_admin(&raw.admin, &mut checker);
    read_store(&raw.store, &raw.memory, &mut config, &mut checker);
    read_integrity(&raw.integrity, &mut config, &mut checker);
    read_index(&raw.index, &mut config, &mut checker);
    config.disks = read_disks(&raw.store, &raw.disk, &mut checker);
    config.permissions = read_permissions(&raw.store, &mut checker);
    config.engine.purge = read_purge(raw, &mut checker);
    config.exports = read_exports(&raw.export, &mut checker);
    read_forwarding(&raw.forwarding, &mut config, &mut checker);
    read_direct(&raw.direct, &mut config, &mut checker);
    read_read_ahead(&raw.read_ahead, &mut config.engine.read_ahead, &mut checker);
    let read_ahead = config.engine.read_ahead.settings;
    config.decisions = read_decisions(&raw.decision, &raw.rule, &raw.forwarding, read_ahead, &mut checker);
    read_origin(&raw.origin, &mut config, &mut checker);
    read_logging(&raw.logging, &mut config, &mut checker);
    read_role(raw, &mut config, &mut checker);
    config.trace = read_trace(&raw.trace, &mut checker);
    settle_permissions(raw, &mut config, &mut checker);
    check_whole(raw, &config, &mut checker);
    let problems = checker.into_problems();
    if problems.is_empty() { Ok(config) } else { Err(ConfigError::new(problems)) }
}

fn read_server(raw: &RawServer, config: &mut Config, checker: &mut Checker<'_>) {
    let server = &mut config.server;
    if let Some(listen) = checker.read_list("server.listen", raw.listen.as_ref(), parse_address) {
        server.listen = listen;
    }
    if let Some(list) = raw.listen.as_ref().filter(|list| list.get_ref().is_empty()) {
        checker.refuse("server.listen", Some(&list.span()), "no address: write [\"0.0.0.0:1094\"]");
    }
    server.user = checker.read("server.user", raw.user.as_ref(), |text| RunAs::parse(text));
    let front = &mut server.front;
    let connections = raw.connections_max.as_ref();
    checker.set_number(&mut front.connections_max, "server.connections_max", connections, CONNECTIONS);
    for (target, setting, raw) in [
        (
            &mut front.connections_per_address_max,
            "server.connections_per_address_max",
            &raw.connections_per_address_max,
        ),
        (&mut front.logins_per_address_max, "server.logins_per_address_max", &raw.logins_per_address_max),
        (&mut front.sessions_per_identity_max, "server.sessions_per_identity_max", &raw.sessions_per_identity_max),
    ] {
        let mut limit = 0;
        checker.set_number(&mut limit, setting, raw.as_ref(), CONNECTIONS);
        *target = raw.as_ref().map(|_| limit);
    }
    let options = &mut server.options;
    let handles = raw.handles_per_session_max.as_ref();
    checker.set_number(
        &mut options.handles_per_session_max,
        "server.handles_per_session_max",
        handles,
        HANDLES_PER_SESSION,
    );
    checker.set_number(
        &mut options.requests_outstanding_max,
        "server.requests_outstanding_max",
        raw.requests_outstanding_max.as_ref(),
        REQUESTS_OUTSTANDING,
    );
    checker.set_duration(&mut options.login_time_max, "server.login_time_max", raw.login_time_max.as_ref());
    checker.set_duration(&mut options.write_stall_max, "server.write_stall_max", raw.write_stall_max.as_ref());
    options.idle_time_max =
        checker.read("server.idle_time_max", raw.idle_time_max.as_ref(), |text| crate::duration::parse_duration(text));
    checker.set_duration(
        &mut options.wait_response_after,
        "server.wait_response_after",
        raw.wait_response_after.as_ref(),
    );
    checker.set_duration(&mut server.shutdown_time_max, "server.shutdown_time_max", raw.shutdown_time_max.as_ref());
    options.site_name = checker.read("server.site_name", raw.site_name.as_ref(), |text| parse_name(text));
    options.host_name = checker.read("server.host_name", raw.host_name.as_ref(), |text| parse_name(text));
    if let Some(list) = checker.read_list("server.checksum_algorithms", raw.checksum_algorithms.as_ref(), parse_name) {
        options.checksum_algorithms = list;
    }
}

fn read_store(raw: &RawStore, memory: &RawMemory, config: &mut Config, checker: &mut Checker<'_>) {
    let engine = &mut config.engine;
    checker.set(&mut engine.block_size, "store.block_size", raw.block_size.as_ref(), |text| parse_block_size(text));
    checker.set_duration(&mut engine.sync_interval, "store.sync_interval", raw.sync_interval.as_ref());
    checker.set(&mut engine.budget_bytes, "memory.budget", memory.budget.as_ref(), |text| parse_memory(text));
    let block_len = engine.block_size.bytes();
    let share = engine.budget_bytes / BLOCKS_IN_MEMORY_MIN;
    if block_len > share {
        let setting = if raw.block_size.is_some() { "store.block_size" } else { "memory.budget" };
        let span = raw.block_size.as_ref().or(memory.budget.as_ref()).map(Spanned::span);
        let needed = ByteSize(block_len.saturating_mul(BLOCKS_IN_MEMORY_MIN));
        let name = checker.source().name("memory.budget");
        checker.refuse(
            setting,
            span.as_ref(),
            format_args!(
                "blocks of {} are more than a quarter of the memory, {}: write smaller blocks, or {name} of {needed} or more",
                engine.block_size,
                ByteSize(engine.budget_bytes),
            ),
        );
    }
    engine.fill_len_max = engine.fill_len_max.min(share).max(block_len);
    engine.read_window = engine.read_window.min(share).max(block_len);
}

fn read_index(raw: &RawIndex, config: &mut Config, checker: &mut Checker<'_>) {
    config.index.path = checker.read("index.path", raw.path.as_ref(), |text| parse_path(text));
    checker.set(&mut config.index.cache_bytes, "index.cache", raw.cache.as_ref(), |text: &String| {
        let bytes = text.parse::<ByteSize>().map_err(|error| error.to_string())?;
        let in_range = (INDEX_CACHE.0..=INDEX_CACHE.1).contains(&bytes.0).then(|| usize::try_from(bytes.0).ok());
        let [min, max] = [INDEX_CACHE.0, INDEX_CACHE.1].map(ByteSize);
        in_range.flatten().ok_or_else(|| format!("{bytes} is out of range: write a size from {min} to {max}"))
    });
}

fn read_forwarding(raw: &RawForwarding, config: &mut Config, checker: &mut Checker<'_>) {
    let parse = |pattern: &str| AllowList::parse(&[pattern]).map(|_| pattern.to_owned());
    let Some(patterns) = checker.read_list("forwarding.allow", raw.allow.as_ref(), parse) else { return };
    match AllowList::parse(&patterns) {
        Ok(list) => config.forwarding = list,
        Err(error) => checker.refuse("forwarding.allow", raw.allow.as_ref().map(Spanned::span).as_ref(), error),
    }
}

fn read_origin(raw: &RawOrigin, config: &mut Config, checker: &mut Checker<'_>) {
    let (options, pool) = (&mut config.origin.options, &mut config.origin.pool);
    checker.set_duration(&mut pool.connect_timeout, "origin.connect_timeout", raw.connect_timeout.as_ref());
    checker.set_duration(&mut options.first_byte_timeout, "origin.first_byte_timeout", raw.first_byte_timeout.as_ref());
    checker.set_duration(&mut options.stall_timeout, "origin.stall_timeout", raw.stall_timeout.as_ref());
    checker.set_duration(&mut options.deadline, "origin.deadline", raw.deadline.as_ref());
    checker.set_duration(&mut options.wait_max, "origin.wait_max", raw.wait_max.as_ref());
    checker.set_number(&mut options.attempts, "origin.attempts", raw.attempts.as_ref(), ATTEMPTS);
    checker.set_number(&mut options.read_attempts, "origin.read_attempts", raw.read_attempts.as_ref(), ATTEMPTS);
    checker.set_number(&mut pool.streams, "origin.streams", raw.streams.as_ref(), STREAMS);
    checker.set_duration(&mut pool.circuit_time, "origin.circuit_time", raw.circuit_time.as_ref());
    checker.set_duration(&mut pool.idle_timeout, "origin.idle_timeout", raw.idle_timeout.as_ref());
    checker.set(&mut options.page_reads, "origin.page_reads", raw.page_reads.as_ref(), |&on| Ok::<_, Infallible>(on));
}

fn read_logging(raw: &RawLogging, config: &mut Config, checker: &mut Checker<'_>) {
    let logging = &mut config.logging;
    checker.set(&mut logging.format, "logging.format", raw.format.as_ref(), |text| match text.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("`{other}` is no log format: write \"text\" or \"json\"")),
    });
    checker.set(&mut logging.filter, "logging.filter", raw.filter.as_ref(), |text| {
        forebay_telemetry::check_log_filter(text).map(|()| text.clone())
    });
}

/// What no single value can be blamed for.
fn check_whole(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let name = |setting| checker.source().name(setting);
    let (store, origin, directory, forwarding) =
        (name("store.path"), name("export.origins"), name("export.directory"), name("forwarding.allow"));
    let is_allowing = raw.forwarding.allow.as_ref().is_some_and(|list| !list.get_ref().is_empty());
    if raw.export.is_empty() && !is_allowing {
        checker.refuse(
            "export",
            None,
            format_args!("nothing is exported: give {origin}, {directory}, or {forwarding}"),
        );
    }
    if config.is_cache() && raw.store.path.is_none() && raw.disk.is_empty() {
        checker.refuse(
            "store.path",
            None,
            format_args!("{store} is missing, but files of origins are cached: give a directory for them"),
        );
    }
}

pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| {
        format!("`{text}` is no address to listen at: write ADDRESS:PORT with an IP address, such as \"0.0.0.0:1094\" or \"[::]:1094\"")
    })
}

fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > NAME_LEN_MAX || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("`{}` is no name: write 1 to {NAME_LEN_MAX} bytes without blanks", text.escape_default()));
    }
    Ok(text.to_owned())
}

pub(crate) fn parse_path(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() || text.contains('\0') {
        return Err("no directory: write its path");
    }
    Ok(PathBuf::from(text))
}

pub(crate) fn parse_block_size(text: &str) -> Result<BlockSize, String> {
    let size: ByteSize = text.parse().map_err(|error: forebay_types::ByteSizeError| error.to_string())?;
    BlockSize::new(size.0)
        .map_err(|_| format!("`{text}` is no block size: write a multiple of 4KiB from 4KiB to 512MiB"))
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let size: ByteSize = text.parse().map_err(|error: forebay_types::ByteSizeError| error.to_string())?;
    if (MEMORY_MIN..=MEMORY_MAX).contains(&size) {
        Ok(size.0)
    } else {
        Err(format!("`{text}` is out of range: write {MEMORY_MIN} to {MEMORY_MAX}"))
    }
}

/// Origins, as the list of an export holds them.
pub(crate) fn read_origins(raw: &Spanned<Vec<Spanned<String>>>, checker: &mut Checker<'_>) -> Option<Vec<OriginUrl>> {
    checker.read_list("export.origins", Some(raw), parse_origin_url)
}
