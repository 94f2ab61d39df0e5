//! All directives that are known, and what becomes of each.

use super::{
    cache, http,
    item::Item,
    monitoring,
    note::{
        Fate::{self, Honoured, NotHonoured, NotNeeded, Unprotected},
        Verdict,
    },
    proxy, security, server,
    site::{Form, Site},
    usage,
};

/// The way a directive is translated.
#[derive(Clone, Copy)]
enum Converter {
    /// The arguments do not matter.
    Fixed(Fate, &'static str),
    /// The first argument is the value of a setting (`table.key`).
    Setting(&'static str, Form),
    /// The first decision if the arguments meet the condition, otherwise the second one.
    If(fn(&Item<'_>) -> bool, Fixed, Fixed),
    /// The function reads the arguments.
    Read(fn(&mut Item<'_>, &mut Site) -> Verdict),
}

/// A fate with its reason.
type Fixed = (Fate, &'static str);

/// Directives of a family that are translated in the same way.
struct Line(&'static [&'static str], Converter);

/// Stands for all names of a family that are not listed before it.
const ANY: &[&str] = &["*"];

const fn not_needed(names: &'static [&'static str], text: &'static str) -> Line {
    Line(names, Converter::Fixed(NotNeeded, text))
}

const fn not_honoured(names: &'static [&'static str], text: &'static str) -> Line {
    Line(names, Converter::Fixed(NotHonoured, text))
}

const fn unprotected(names: &'static [&'static str], text: &'static str) -> Line {
    Line(names, Converter::Fixed(Unprotected, text))
}

const fn read(name: &'static [&'static str], reader: fn(&mut Item<'_>, &mut Site) -> Verdict) -> Line {
    Line(name, Converter::Read(reader))
}

const fn decide(name: &'static [&'static str], condition: fn(&Item<'_>) -> bool, yes: Fixed, no: Fixed) -> Line {
    Line(name, Converter::If(condition, yes, no))
}

/// Translates a directive, if it is known.
pub(super) fn translate(family: &str, item: &mut Item<'_>, site: &mut Site) -> Option<Verdict> {
    Some(match look_up(family, item.name)? {
        Converter::Fixed(fate, text) => fate.because(text),
        Converter::Setting(key, form) => site.set(key, form, item.first(), item),
        Converter::If(condition, yes, no) => {
            let (fate, text) = if condition(item) { yes } else { no };
            fate.because(text)
        }
        Converter::Read(reader) => reader(item, site),
    })
}

fn look_up(family: &str, name: &str) -> Option<Converter> {
    let (_, lists) = FAMILIES.iter().find(|(known, _)| *known == family)?;
    let Line(_, converter) =
        lists.iter().copied().flatten().find(|Line(names, _)| names.contains(&name) || *names == ANY)?;
    Some(*converter)
}

const LOGGING: &str = "see logging.filter";
const TCP_EVENTS: &str = "events of TCP connections are not sent to collectors";
const PLUGIN: &str = "xrootd plug-ins are not loaded";
const READ_ONLY: &str = "Forebay serves reads only";
const OWN_LIMITS: &str = "Forebay manages memory, threads and descriptors itself";
const PAGE_CACHE: &str = "hits are served from the page cache of the operating system";
const EXPORTS: &str = "exports have all settings they need";
const PROXY: &str = "Forebay is a caching proxy";
const NO_MACAROONS: &str = "macaroons are not issued: clients use the tokens of an [[issuer]]";
const NO_STATIC_FILES: &str = "only files of exports are served";
const NO_STAGING: &str = "nothing is staged: missing files are fetched from the origin";
const NO_RESUMPTION: &str = "Forebay resumes TLS sessions by tickets";
const PATHS: &str = "Forebay has no files outside of its store; systemd manages its process";
const PACKETS: &str = "this release does not mark packets";
const PROGRAM: &str = "no program is notified of client activity; the log has a line per file";
const UNTHROTTLED: &str = "clients are not throttled; server.requests_outstanding_max limits each connection";
const UNAUTHENTICATED: &str =
    "not converted: write [authentication] and [[grant]]; without them all clients that reach the port read everything";
const THIRD_PARTY: &str = "this release does not serve third-party copies";
const CLUSTERS: &str =
    "not converted: write [cluster] with the managers (docs/scale-out.md), and stop the cmsd of this machine";
const RENAMED: &str = "names are not mapped: Forebay requests files from origins under the names that clients use, and looks for cached \
     files under them. Files with other names are not found";

/// Families, each with its lists of directives.
const FAMILIES: [(&str, &[&[Line]]); 19] = [
    ("pfc", &[PFC]),
    ("pss", &[PSS]),
    ("ofs", &[OFS]),
    ("oss", &[OSS]),
    ("xrd", &[SERVER, XRD]),
    ("xrootd", &[SERVER, XROOTD]),
    ("all", &[SERVER, ALL]),
    ("cms", &[CLUSTER]),
    ("odc", &[CLUSTER]),
    ("olb", &[CLUSTER]),
    ("http", &[HTTP]),
    ("cors", &[&[read(&["origin"], http::take_cors), not_needed(&["trace"], LOGGING)]]),
    ("sec", &[SEC]),
    ("acc", &[ACC]),
    ("macaroons", &[&[not_honoured(ANY, NO_MACAROONS)]]),
    ("scitokens", &[&[not_needed(&["trace"], LOGGING), not_honoured(ANY, PLUGIN)]]),
    ("throttle", &[&[not_honoured(ANY, UNTHROTTLED)]]),
    ("frm", &[&[not_needed(ANY, "no helper programs migrate, stage or copy files")]]),
    ("tpc", &[&[not_honoured(ANY, THIRD_PARTY)]]),
];

const PFC: &[Line] = &[
    read(&["blocksize"], |item, site| item.take_size(&cache::BLOCK_SIZES, &mut site.block_size)),
    read(&["ram"], |item, site| item.take_size(&cache::MEMORIES, &mut site.ram)),
    read(&["writethrough"], |item, site| item.take(cache::switch(item.first()), &mut site.is_write_through)),
    read(&["prefetch", "nramprefetch"], |item, site| item.take_number(&cache::PREFETCHES, &mut site.prefetch)),
    read(&["diskusage"], usage::take_usage),
    read(&["onlyifcached"], cache::take_cached),
    read(&["decisionlib"], cache::take_decision),
    read(&["purgelib"], usage::take_quotas),
    decide(
        &["spaces"],
        |item| item.words.iter().all(|space| *space == cache::PUBLIC),
        (NotNeeded, "XCache's default"),
        (NotHonoured, cache::SPACES),
    ),
    read(&["cschk"], cache::take_checksums),
    not_needed(&["writequeue"], "blocks are written as they arrive, by as many threads as needed"),
    not_needed(&["flush"], "written data is synced by age: store.sync_interval"),
    not_needed(&["acchistorysize"], "20 access records are kept per file, XCache's default"),
    not_needed(&["user"], "files belong to the user that runs Forebay"),
    not_needed(&["trace"], LOGGING),
    not_needed(&["nramread"], "XCache ignores it as well"),
    not_needed(&["qfsredir"], "applies to HTTP origins"),
    not_honoured(&["allow_xrdpfc_command"], "paths below /xrdpfc_command are not served"),
    not_needed(&["httpcc"], "entity tags and times of HTTP origins are compared as export.validity says"),
    not_honoured(&["urlcgi"], "clients cannot select block size or read-ahead in their URLs"),
    not_honoured(&["dirstats"], "statistics per directory are not written to /pfc-stats"),
    not_honoured(&["osslib"], PLUGIN),
    not_needed(&["hdfsmode"], "XCache refuses it as well"),
];

const PSS: &[Line] = &[
    read(&["origin"], proxy::take_origin),
    read(&["cachelib"], proxy::take_cache),
    read(&["permit"], proxy::take_permit),
    read(&["export"], server::take_export),
    read(&["setopt"], proxy::take_option),
    not_needed(&["config"], "connections to origins are shared by all clients"),
    not_needed(&["ciosync"], "files at origins are closed without delay"),
    not_needed(&["cache", "memcache"], PAGE_CACHE),
    not_needed(&["defaults", "path"], EXPORTS),
    not_needed(&["trace", "debug"], LOGGING),
    not_honoured(&["reproxy"], THIRD_PARTY),
    not_honoured(&["dca"], "not converted: see export.direct and [direct]"),
    not_honoured(&["inetmode"], "the addresses of an origin are tried in the order of the resolver"),
    read(&["persona"], security::take_persona),
    not_honoured(&["ccmlib"], PLUGIN),
    not_honoured(&["namelib", "localroot", "hostarena"], RENAMED),
];

const OFS: &[Line] = &[
    decide(
        &["osslib"],
        |item| item.names_proxy(),
        (Honoured, "Forebay itself sends requests to origins"),
        (NotHonoured, "storage plug-ins are not loaded"),
    ),
    decide(
        &["ckslib"],
        |item| item.names_proxy(),
        (Honoured, "checksums are requested from the origin"),
        (NotHonoured, "checksums are requested from the origin: xrootd plug-ins are not loaded"),
    ),
    read(&["export"], server::take_export),
    read(&["authorize"], security::take_authorize),
    read(&["authlib"], security::take_authorization),
    not_needed(&["trace"], LOGGING),
    not_needed(&["role"], PROXY),
    not_needed(&["persist", "chkpnt", "crmode", "forward", "usage"], READ_ONLY),
    not_honoured(&["notify", "notifymsg"], PROGRAM),
    not_honoured(&["tpc"], THIRD_PARTY),
    not_honoured(&["cmslib", "ctllib", "preplib", "xattrlib"], PLUGIN),
    not_needed(&["cksrdsz"], "checksums are requested from the origin"),
    not_needed(&["maxdelay"], "see server.wait_response_after"),
    not_needed(&["dirlist"], "listings are requested from the origin"),
    not_needed(&["redirect"], "Forebay is not a redirector"),
    not_honoured(&["xattr"], "extended attributes of files at the origin are not served"),
];

const OSS: &[Line] = &[
    read(&["localroot"], cache::take_local_root),
    read(&["space"], cache::take_space),
    read(&["export"], server::take_export),
    not_needed(&["trace"], LOGGING),
    not_needed(&["defaults", "path"], EXPORTS),
    not_needed(&["alloc"], "selects among directories of a space for new files"),
    not_needed(&["fdlimit"], OWN_LIMITS),
    not_needed(&["maxsize"], "origins report the size of files"),
    not_needed(&["maxdbsize", "lock", "fsmode"], READ_ONLY),
    not_needed(&["memfile", "preread"], PAGE_CACHE),
    not_honoured(&["cache"], "the old form of oss.space: write oss.space, then adopt again"),
    not_needed(&["spacescan"], "free space is read from the file system"),
    not_needed(&["usage"], "Forebay measures its usage itself"),
    not_needed(&["compdetect", "compchksize"], "files are served unmodified"),
    not_honoured(&["namelib"], RENAMED),
    not_honoured(&["statlib"], PLUGIN),
    not_needed(&["remoteroot", "mssgwcmd", "msscmd", "rsscmd", "stagecmd", "stagemsg", "xfr", "prep"], NO_STAGING),
    not_needed(&["role"], PROXY),
];

/// Directives of `xrd`, `xrootd` and `all`; xrootd reads some of them under more than one of these names.
const SERVER: &[Line] = &[
    read(&["port"], server::take_port),
    read(&["export"], server::take_export),
    Line(&["sitename"], Converter::Setting("server.site_name", Form::Text)),
    read(&["timeout"], server::take_timeouts),
    read(&["chksum"], server::take_checksums),
    decide(
        &["allow"],
        |item| matches!(item.words, ["host", "*"]),
        (NotNeeded, "all hosts may connect"),
        (Unprotected, "all hosts may connect: write a [[grant]] with host, or use a firewall"),
    ),
    decide(
        &["role"],
        |item| ["manager", "supervisor", "peer"].iter().any(|role| item.words.contains(role)),
        (NotHonoured, "Forebay is not a redirector: keep xrootd for this instance"),
        (NotNeeded, PROXY),
    ),
    read(&["seclib"], security::take_library),
    decide(
        &["fslib"],
        |item| item.words.iter().any(|word| word.contains("hrottle")),
        (NotHonoured, UNTHROTTLED),
        (NotNeeded, "there is one file system layer"),
    ),
    read(&["protocol", "prot"], server::take_protocol),
];

const XRD: &[Line] = &[
    not_needed(&["trace"], LOGGING),
    not_needed(&["sched", "buffers", "connections", "tmo"], OWN_LIMITS),
    not_needed(&["maxfd"], "the limit of descriptors is raised to the hard limit"),
    not_needed(&["network"], "Forebay configures its sockets itself; addresses of clients are not resolved"),
    read(&["report"], monitoring::take_report),
    not_honoured(&["tcpmonlib"], TCP_EVENTS),
    read(&["tls"], security::take_tls),
    read(&["tlsca"], security::take_authorities),
    Line(&["tlsciphers", "tlsciph"], Converter::Setting("tls.ciphers", Form::Text)),
    not_needed(&["adminpath", "pidpath", "homepath"], PATHS),
    not_honoured(&["pmark"], PACKETS),
];

const XROOTD: &[Line] = &[
    not_needed(&["trace", "log"], LOGGING),
    read(&["tls"], security::take_tls_use),
    not_needed(&["async", "vectors"], OWN_LIMITS),
    read(&["monitor"], monitoring::take_monitor),
    read(&["mongstream", "mongstrm"], monitoring::take_stream),
    not_needed(&["prep"], NO_STAGING),
    not_honoured(&["fsoverload"], "clients are not redirected under high load: they wait"),
    not_honoured(&["redirect"], "not converted: see rule.action and export.miss"),
    not_honoured(&["redirlib", "gpflib", "rdlib"], PLUGIN),
    not_honoured(&["diglib"], "/=/ is not served; the admin listener reports the state of the server"),
    not_honoured(&["pmark"], PACKETS),
    not_needed(&["tlsreuse"], NO_RESUMPTION),
    not_honoured(&["bindif"], "parallel streams use the same address"),
    not_needed(&["limit"], "server.requests_outstanding_max limits each connection"),
];

const ALL: &[Line] = &[
    not_needed(&["adminpath", "pidpath", "homepath"], PATHS),
    not_honoured(&["manager", "subcluster"], CLUSTERS),
    not_needed(&["trace"], LOGGING),
];

const HTTP: &[Line] = &[
    read(&["cert", "key", "cadir", "cipherfilter"], http::take_tls),
    read(&["tlsclientauth"], http::take_client_certificates),
    read(&["header2cgi"], http::take_header),
    decide(
        &["listingdeny"],
        |item| matches!(item.first(), "yes" | "true" | "1"),
        (Unprotected, "directories are listed to clients with the right `list`: write a [[grant]] without it"),
        (NotNeeded, "directories are listed"),
    ),
    decide(
        &["httpsmode"],
        |item| item.first() == "disable",
        (NotHonoured, "HTTPS is served if tls.certificate is set"),
        (NotNeeded, "HTTPS is served if tls.certificate is set"),
    ),
    not_needed(&["trace"], LOGGING),
    not_needed(&["secxtractor"], "VOMS attributes are read by authentication.voms, without a plug-in"),
    not_needed(&["secretkey", "desthttps", "selfhttps2http"], "clients are not redirected between servers"),
    not_needed(&["tlsreuse"], NO_RESUMPTION),
    not_needed(&["maxdelay"], "an open is waited for as long as origin.deadline says"),
    not_needed(&["cors"], "built in: http.cors_origins"),
    not_honoured(&["cafile"], "authorities are read from a directory: write tls.ca_dir"),
    not_honoured(
        &["gridmap"],
        "names of certificates are not mapped to users: write grants by subject, vo, group or role",
    ),
    not_honoured(&["listingredir"], "directories are listed here"),
    not_honoured(&["staticpreload", "staticredir", "embeddedstatic"], NO_STATIC_FILES),
    not_honoured(&["exthandler"], PLUGIN),
    not_honoured(&["auth"], THIRD_PARTY),
];

const SEC: &[Line] = &[
    read(&["protocol"], security::take_protocol),
    read(&["protparm"], security::take_parameters),
    read(&["protbind"], security::take_binding),
    read(&["level"], security::take_level),
    not_needed(&["trace"], LOGGING),
    unprotected(ANY, UNAUTHENTICATED),
];

const ACC: &[Line] = &[
    read(&["authdb"], security::take_authdb),
    not_needed(&["audit"], "each denial is logged with the grant that decided"),
    not_needed(&["authrefresh"], "grants are part of the configuration: write changes there"),
    not_needed(&["gidlifetime", "gidretran", "nisdomain", "pgo"], "neither Unix groups nor netgroups are looked up"),
    not_honoured(&["encoding"], "names in the database are taken as they are: check those with blanks or `%`"),
    unprotected(ANY, UNAUTHENTICATED),
];

const CLUSTER: &[Line] = &[not_needed(&["trace"], LOGGING), not_honoured(ANY, CLUSTERS)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_listed_once_and_has_a_reason() {
        for (family, lists) in FAMILIES {
            let mut seen: Vec<&str> = Vec::new();
            for Line(names, converter) in lists.iter().copied().flatten() {
                assert!(!matches!(converter, Converter::Fixed(_, "")), "{family}.{names:?}");
                for name in *names {
                    assert!(!seen.contains(name) && !seen.contains(&"*"), "{family}.{name}");
                    seen.push(name);
                }
            }
        }
    }

    #[test]
    fn families_without_exceptions_take_every_name() {
        assert!(matches!(look_up("cms", "delay"), Some(Converter::Fixed(NotHonoured, _))));
        assert!(matches!(look_up("sec", "anything"), Some(Converter::Fixed(Unprotected, _))));
        assert!(look_up("pfc", "anything").is_none());
        assert!(look_up("foo", "bar").is_none());
    }
}
