//! From the file to the typed configuration: values overwrite defaults, then settings are checked against each other.

mod checker;
mod cluster;
mod credentials;
mod dcap;
mod exports;
mod listeners;
mod records;
mod roles;
mod s3;
mod security;
mod storage;
mod unknown;

use crate::{
    base::{ClientCertificates, ConfigError},
    config::Config,
    file::{Raw, RawTrace, Source},
};
use checker::Checker;
use forebay_cache::AllowList;
use forebay_telemetry::TraceOptions;
use forebay_types::ByteSize;

/// Blocks that must fit the memory at once, so that one fill does not keep all other clients waiting.
const BLOCKS_IN_MEMORY_MIN: u64 = 4;

/// # Errors
/// Reports all problems.
pub(crate) fn convert(raw: &Raw, source: &Source) -> Result<Config, ConfigError> {
    let mut checker = Checker::new(source, raw);
    let mut config = Config::default();
    apply(raw, &mut config);
    config.tls.clients = credentials::read_clients(raw, &config.tls.trust, &mut checker);
    config.tls.own = credentials::read_own(raw, &mut checker);
    security::read_security(raw, &mut config, &mut checker);
    config.credentials = credentials::read_credentials(raw, &config, &mut checker);
    check_admin(raw, &mut checker);
    check_http(raw, &config, &mut checker);
    config.s3.options.buckets = s3::read_buckets(raw, &config, &mut checker);
    dcap::check_dcap(raw, &config, &mut checker);
    listeners::check_listeners(raw, &config, &mut checker);
    fit_memory(raw, &mut config, &mut checker);
    config.disks = storage::read_disks(raw, &mut checker);
    storage::read_purge(raw, &mut config.engine.purge.rules, &mut checker);
    storage::check_parts(raw, &config, &mut checker);
    config.exports = exports::read_exports(&raw.export, &mut checker);
    read_forwarding(raw, &mut config, &mut checker);
    config.decisions.rules = exports::read_rules(&raw.rule, config.engine.read_ahead.settings, &mut checker);
    config.trace = read_trace(&raw.trace);
    raw.monitoring.apply(&mut config.monitoring);
    cluster::settle_cluster(raw, &mut config, &mut checker);
    config.records = records::read_records(raw, &mut checker);
    roles::settle_role(raw, &mut config, &mut checker);
    roles::settle_permissions(raw, &mut config, &mut checker);
    check_whole(raw, &config, &mut checker);
    let problems = checker.into_problems();
    if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
}

/// Overwrites defaults with the values of single tables.
fn apply(raw: &Raw, config: &mut Config) {
    raw.server.apply(config);
    raw.http.apply(config);
    raw.s3.apply(config);
    raw.dcap.apply(config);
    raw.tls.apply(config);
    raw.authentication.apply(config);
    raw.admin.apply(config);
    raw.store.apply(config);
    raw.index.apply(config);
    raw.purge.apply(config);
    raw.integrity.apply(config);
    raw.memory.apply(config);
    raw.forwarding.apply(config);
    raw.direct.apply(config);
    raw.manager.apply(config);
    raw.cluster.apply(config);
    raw.decision.apply(config);
    raw.read_ahead.apply(config);
    raw.origin.apply(config);
    raw.logging.apply(config);
}

fn check_admin(raw: &Raw, checker: &mut Checker<'_>) {
    let admin = &raw.admin;
    if !admin.listen.is_set() && admin.token_file.is_set() {
        let text = "a token without an address to send it to: write admin.listen too";
        checker.refuse("admin.token_file", admin.token_file.span(), text);
    }
    if !admin.socket.is_set() && admin.socket_group.is_set() {
        checker.refuse(
            "admin.socket_group",
            admin.socket_group.span(),
            "a group without a socket: write admin.socket too",
        );
    }
}

fn check_http(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let has_trust = config.tls.clients.as_ref().is_some_and(|clients| clients.files.trust.is_some());
    if config.http.client_certificates == ClientCertificates::Require && !has_trust {
        let text = "no certificate of a client can be verified: write tls.certificate and tls.ca_dir, and not tls.client_certificates = false";
        checker.refuse("http.client_certificates", raw.http.client_certificates.span(), text);
    }
}

/// Bounds single requests by the memory. Blocks must fit it several times.
fn fit_memory(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let engine = &mut config.engine;
    let block_len = engine.block_size.bytes();
    let share = engine.budget_bytes / BLOCKS_IN_MEMORY_MIN;
    if block_len > share {
        let (block_size, budget) = (raw.store.block_size.span(), raw.memory.budget.span());
        let setting = if block_size.is_some() { "store.block_size" } else { "memory.budget" };
        let text = format_args!(
            "blocks of {} are more than a quarter of the memory, {}: write smaller blocks, or {} of {} or more",
            engine.block_size,
            ByteSize(engine.budget_bytes),
            checker.name("memory.budget"),
            ByteSize(block_len.saturating_mul(BLOCKS_IN_MEMORY_MIN)),
        );
        checker.refuse(setting, block_size.or(budget), text);
    }
    engine.fill_len_max = engine.fill_len_max.min(share).max(block_len);
    engine.read_window = engine.read_window.min(share).max(block_len);
}

fn read_forwarding(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let allow = &raw.forwarding.allow;
    match AllowList::parse(allow.get().map_or(&[], Vec::as_slice)) {
        Ok(list) => config.forwarding = list,
        Err(error) => checker.refuse("forwarding.allow", allow.span(), error),
    }
}

/// Without a directory there is no trace.
fn read_trace(raw: &RawTrace) -> Option<TraceOptions> {
    let mut trace = TraceOptions::default();
    raw.apply(&mut trace);
    raw.path.get().map(|_| trace)
}

/// Problems of the file as a whole.
fn check_whole(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let [store, origin, directory, forwarding] =
        ["store.path", "export.origins", "export.directory", "forwarding.allow"].map(|setting| checker.name(setting));
    let allow = &raw.forwarding.allow;
    let is_forwarding = !allow.faults().is_empty() || allow.get().is_some_and(|list| !list.is_empty());
    if raw.export.is_empty() && !is_forwarding {
        let text = format_args!("nothing is exported: set {origin}, {directory}, or {forwarding}");
        checker.refuse("export", None, text);
    }
    if config.is_cache() && !raw.store.path.is_set() && raw.disk.is_empty() {
        let text = format_args!("{store} is missing, but files of origins are cached: set a directory for them");
        checker.refuse("store.path", None, text);
    }
}
