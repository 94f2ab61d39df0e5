//! `pss.*`: the proxy in front of origins.

use super::{
    item::Item,
    note::{
        Fate::{Honoured, NotHonoured, NotNeeded},
        Verdict,
    },
    site::{FixedOrigin, Form, Origin, Site},
};
use forebay_types::{Endpoint, OriginId};

/// Names of the disk cache's library, its old name included.
const CACHE_LIBRARIES: [&str; 3] = ["default", "libXrdPfc", "libXrdFileCache"];

/// Schemes of supported origins, and their names in the configuration.
const SERVED_SCHEMES: [(&str, &str); 7] = [
    ("root", ROOT),
    ("xroot", ROOT),
    ("https", "https"),
    ("davs", "https"),
    ("http", "http"),
    ("dav", "http"),
    ("pelican", "pelican"),
];
const ROOT: &str = "root";

fn served_scheme(scheme: &str) -> Option<&'static str> {
    SERVED_SCHEMES.iter().find(|(name, _)| *name == scheme).map(|(_, served)| *served)
}

/// Reads the directive `pss.cachelib LIBRARY`.
pub(super) fn take_cache(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if !CACHE_LIBRARIES.iter().any(|library| item.first().contains(library)) {
        return NotHonoured.because("a cache other than XCache");
    }
    item.take(Some(()), &mut site.cache)
}

/// Reads the directive `pss.origin [=[SCHEME,...]] [DESTINATION]`.
pub(super) fn take_origin(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let is_forwarding = item.first().starts_with('=');
    let destination = if is_forwarding { item.rest() } else { item.words };
    let fixed = match destination {
        [] => None,
        [host, rest @ ..] => match read_destination(host, rest.first().copied()) {
            Some(origin) => Some(origin),
            None => return Verdict::malformed(),
        },
    };
    if fixed.is_none() && !is_forwarding {
        return Verdict::malformed();
    }
    let named = item.first().strip_prefix('=').unwrap_or_default();
    let (served, others): (Vec<_>, Vec<_>) =
        named.split(',').filter(|scheme| !scheme.is_empty()).partition(|scheme| served_scheme(scheme).is_some());
    let mut http_schemes: Vec<_> = served.into_iter().filter_map(served_scheme).filter(|name| *name != ROOT).collect();
    http_schemes.dedup();
    item.take(Some(Origin { is_forwarding, http_schemes, fixed }), &mut site.origin);
    if !others.is_empty() {
        return Honoured.because(format!("not to origins of {}", others.join(", ")));
    }
    if destination.first().is_some_and(|host| host.contains('+')) {
        return Honoured.because("the addresses of the name are tried in order");
    }
    Honoured.because("")
}

/// `HOST[+][:PORT]`, `HOST PORT`, `SCHEME://HOST[:PORT]`, or a directory.
fn read_destination(text: &str, port: Option<&str>) -> Option<FixedOrigin> {
    if text.starts_with('/') {
        return Some(FixedOrigin::Directory(text.to_owned()));
    }
    let (scheme, server) = text.split_once("://").unwrap_or(("root", text));
    let Some(scheme) = served_scheme(scheme) else { return Some(FixedOrigin::Unserved(text.to_owned())) };
    let server = server.trim_end_matches('/').replacen('+', "", 1);
    if scheme != ROOT {
        let origin: OriginId = format!("{scheme}://{server}").parse().ok()?;
        return Some(FixedOrigin::Server(origin.to_string()));
    }
    let endpoint: Endpoint = match port.filter(|_| !server.contains(':')) {
        Some(port) => format!("{server}:{port}").parse().ok()?,
        None => server.parse().ok()?,
    };
    Some(FixedOrigin::Server(format!("{scheme}://{endpoint}")))
}

/// `pss.permit [/] [*] HOST`: a slash is for paths, a star for object names, neither for both.
pub(super) fn take_permit(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let kinds = item.words.iter().take_while(|word| matches!(**word, "/" | "*" | "/*")).count();
    let (kinds, hosts) = item.words.split_at(kinds);
    let Some(host) = hosts.first() else { return Verdict::malformed() };
    if kinds == ["*"] {
        return NotNeeded.because("applies to object names, which are not served");
    }
    if host.starts_with('@') || host.contains('/') {
        return NotHonoured.because("netgroups are not supported: write their hosts in forwarding.allow");
    }
    site.permits.push(item.written((*host).to_owned()));
    Honoured.because("")
}

/// `pss.setopt NAME VALUE`: options of the client library.
pub(super) fn take_option(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let [name, value, ..] = item.words else { return Verdict::malformed() };
    let name = name.to_ascii_lowercase();
    if let Some((_, key, form)) = OPTIONS.iter().find(|(known, _, _)| *known == name) {
        return site.set(key, *form, value, item);
    }
    let reason = OPTIONS_NOT_NEEDED.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason);
    reason.map_or_else(
        || NotHonoured.because("no setting for this option of the client library; see origin.* in the reference"),
        |reason| NotNeeded.because(reason),
    )
}

/// Options that are settings.
const OPTIONS: [(&str, &str, Form); 6] = [
    ("connecttimeout", "origin.connect_timeout", Form::Time),
    ("requesttimeout", "origin.deadline", Form::Time),
    ("streamtimeout", "origin.first_byte_timeout", Form::Time),
    ("dataserverttl", "origin.idle_timeout", Form::Time),
    ("reconnectwait", "origin.circuit_time", Form::Time),
    ("connectionretry", "origin.attempts", Form::Number(1000)),
];

const OPTIONS_NOT_NEEDED: [(&str, &str); 10] = [
    ("parstreamsperphyconn", ONE_CONNECTION),
    ("parallelstreams", ONE_CONNECTION),
    ("loadbalancerttl", "connections to redirectors are kept as long as those to data servers"),
    ("redirectlimit", "at most 16 redirects are followed in a row"),
    ("parallelevtloop", ONE_POOL),
    ("workerthreads", ONE_POOL),
    ("debuglevel", LOGGING),
    ("debugtimestamp", LOGGING),
    ("dirlistall", LISTINGS),
    ("dirlistdflt", LISTINGS),
];

const ONE_CONNECTION: &str = "each server is read over one connection";
const ONE_POOL: &str = "one set of threads serves all connections";
const LOGGING: &str = "see logging.filter, for example forebay_origin=debug";
const LISTINGS: &str = "a listing is requested from the origin with the options of the client";
