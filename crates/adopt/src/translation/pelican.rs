//! Settings of Pelican's caches, which Pelican itself turns into directives of xrootd.

use super::{
    cache::{PREFETCHES, SPACES},
    document::string,
    item::Item,
    note::{
        Fate::{self, Honoured, NotHonoured, NotNeeded},
        Notes, Verdict,
    },
    server,
    site::{Export, FixedOrigin, Origin, PelicanCache, Setting, Site},
    usage::{Amount, Usage},
    values::size,
};
use forebay_types::{OriginId, Share};

/// Tables of Pelican's configuration. Its keys are the same in upper and lower case.
const TABLES: [&str; 18] = [
    "cache",
    "client",
    "director",
    "federation",
    "issuer",
    "localcache",
    "logging",
    "lotman",
    "monitoring",
    "oidc",
    "origin",
    "registry",
    "server",
    "shoveler",
    "stagedlocal",
    "topology",
    "transport",
    "xrootd",
];

/// The directory of names below that of the cache.
const NAMES: &str = "namespace";

/// Watermarks in Pelican, in percent.
const LOW_DEFAULT: f64 = 0.90;
const HIGH_DEFAULT: f64 = 0.95;

/// Translates a setting, if the configuration is one of Pelican.
pub(super) fn translate(family: &str, item: &mut Item<'_>, site: &mut Site) -> Option<Verdict> {
    let family = family.to_ascii_lowercase();
    let top = if family.is_empty() { item.name.to_ascii_lowercase() } else { family };
    if !TABLES.contains(&top.as_str()) && !matches!(top.as_str(), "issuerkey" | "issuerkeysdirectory" | "debug") {
        return None;
    }
    let name = item.name.to_ascii_lowercase();
    Some(match (top.as_str(), name.as_str()) {
        ("cache", name) => take_cache(name, item, site),
        ("federation", "discoveryurl") => take_federation(item, site),
        ("federation", _) => NotNeeded.because("the services of a federation are read from its document"),
        ("server", name) => take_server(name, item, site),
        ("logging" | "debug", _) => NotNeeded.because("see logging.filter"),
        ("origin" | "director" | "registry" | "client" | "localcache" | "topology", _) => {
            NotNeeded.because("a setting of another service of Pelican")
        }
        ("issuerkey" | "issuerkeysdirectory", _) => NotHonoured.because(UNREGISTERED),
        ("monitoring" | "shoveler", _) => NotHonoured.because("see [monitoring] and [records]"),
        _ => NotHonoured.because(NO_SETTING),
    })
}

const NO_SETTING: &str = "no setting has this effect";
const UNREGISTERED: &str = "Forebay does not register with a federation: its director does not send clients here";

fn take_cache(name: &str, item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if !site.pelican.is_one {
        site.pelican.is_one = true;
        site.cache = Some(item.written(()));
    }
    let amount = |item: &Item<'_>| amount(item.first());
    match name {
        "port" => take_port(item, site),
        "storagelocation" | "localroot" | "datalocation" => {
            let path = item.first().starts_with('/').then(|| item.first().trim_end_matches('/').to_owned());
            item.take(path, &mut site.pelican.storage)
        }
        "namespacelocation" => {
            let path = item.first().starts_with('/').then(|| item.first().to_owned());
            item.take(path, &mut site.pelican.names)
        }
        "datalocations" | "metalocations" => NotHonoured.because(SPACES),
        "lowwatermark" => item.take(amount(item), &mut site.pelican.low),
        "highwatermark" => item.take(amount(item), &mut site.pelican.high),
        "filesnominalsize" => item.take(amount(item), &mut site.pelican.nominal),
        "filesmaxsize" => item.take(amount(item), &mut site.pelican.max),
        "filesbasesize" => NotNeeded.because("a purge ends at the nominal size"),
        "blockstoprefetch" => item.take_number(&PREFETCHES, &mut site.prefetch),
        "permittednamespaces" => take_namespaces(item, site),
        "selftest" | "selftestinterval" | "selftestmaxage" | "sentinellocation" | "url" => {
            NotHonoured.because(UNREGISTERED)
        }
        _ => NotHonoured.because(NO_SETTING),
    }
}

/// The port of a cache of Pelican is that of all protocols.
fn take_port(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let port: Option<u16> = item.first().parse().ok();
    if port.is_some() {
        site.http.port = Some(item.written(None));
    }
    item.take(port, &mut site.port)
}

fn take_namespaces(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if item.words.iter().any(|path| !path.starts_with('/')) {
        return Verdict::malformed();
    }
    for path in item.words {
        let path = server::trimmed(path).to_owned();
        site.exports.push(item.written(Export { path, is_read_only: true }));
    }
    Honoured.because("")
}

/// Reads a URL or the name of a host.
fn take_federation(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let text = item.first();
    let host = text.split_once("://").map_or(text, |(_, host)| host).trim_end_matches('/');
    let Ok(federation) = format!("pelican://{host}").parse::<OriginId>() else { return Verdict::malformed() };
    let fixed = Some(FixedOrigin::Server(federation.to_string()));
    site.write("export.origin_check", "true".to_owned(), item);
    item.take(Some(Origin { is_forwarding: false, http_schemes: Vec::new(), fixed }), &mut site.origin);
    Honoured.because("origins decide who may read the files of protected namespaces, also of cached ones")
}

fn take_server(name: &str, item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let key = match name {
        "tlscertificate" | "tlscertificatechain" => "tls.certificate",
        "tlskey" => "tls.key",
        "tlscacertificatedirectory" => "tls.ca_dir",
        "tlscacertificatefile" => return NotHonoured.because("write tls.ca_dir, a directory of hashed certificates"),
        "hostname" | "externalweburl" | "webport" | "webhost" | "enableui" | "enablepprof" => {
            return NotNeeded.because("Forebay has an admin port, see [admin]");
        }
        _ => return NotHonoured.because(NO_SETTING),
    };
    if !item.first().starts_with('/') {
        return Verdict::malformed();
    }
    site.write(key, string(item.first()), item);
    Honoured.because("")
}

/// A number without a unit is in percent.
fn amount(text: &str) -> Option<Amount> {
    if text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return size(text).map(Amount::Bytes);
    }
    let percent: f64 = text.trim_end_matches('%').parse().ok()?;
    Share::of_fraction(percent / 100.0).map(Amount::Part)
}

/// Settles the settings that depend on each other.
pub(super) fn settle(site: &mut Site, notes: &mut Notes) {
    if !site.pelican.is_one {
        return;
    }
    let pelican = std::mem::take(&mut site.pelican);
    settle_usage(&pelican, site, notes);
    let storage = pelican.storage.map(|mut storage| {
        storage.value = format!("{}/{NAMES}", storage.value);
        storage
    });
    site.local_root = pelican.names.or(storage);
    if let Some(origin) = &site.origin
        && site.exports.is_empty()
    {
        let note = origin.note;
        site.exports.push(super::site::Written { value: Export { path: "/".to_owned(), is_read_only: true }, note });
    }
}

fn settle_usage(pelican: &PelicanCache, site: &mut Site, notes: &mut Notes) {
    let [low, high, nominal, max] = [&pelican.low, &pelican.high, &pelican.nominal, &pelican.max];
    let Some(note) = [low, high, nominal, max].into_iter().flatten().map(|written| written.note).next() else { return };
    let or_default = |amount: &Setting<Amount>, default: f64| {
        let part = Share::of_fraction(default).unwrap_or_default();
        amount.as_ref().map_or(Amount::Part(part), |written| written.value)
    };
    let (low_mark, high_mark) = (or_default(low, LOW_DEFAULT), or_default(high, HIGH_DEFAULT));
    let files = nominal.as_ref().zip(max.as_ref()).map(|(nominal, max)| (nominal.value, max.value));
    let is_ordered = match (low_mark, high_mark) {
        (Amount::Part(low), Amount::Part(high)) => low < high,
        (Amount::Bytes(low), Amount::Bytes(high)) => low < high,
        (Amount::Part(_), Amount::Bytes(_)) | (Amount::Bytes(_), Amount::Part(_)) => true,
    };
    if is_ordered {
        let usage = Usage { low: low_mark, high: high_mark, files, age_max: None };
        site.usage = Some(super::site::Written { value: usage, note });
    } else {
        notes.decide(note, Fate::NotHonoured.because("the low mark is above the high one: defaults are used"));
    }
}
