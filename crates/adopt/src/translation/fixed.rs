//! Directives of which the same is to be said whatever their arguments are.

use super::{
    note::{
        Fate::{self, NotHonoured, NotNeeded, Unprotected},
        Verdict,
    },
    server::UNAUTHENTICATED,
};

/// What is to be said of a directive, if its name is known.
pub(super) fn look_up(family: &str, name: &str) -> Option<Verdict> {
    let (_, lines) = FAMILIES.iter().find(|(known, _)| *known == family)?;
    let (_, fate, text) = lines.iter().find(|(known, _, _)| *known == name || *known == ANY)?;
    Some(Verdict { fate: *fate, text: (*text).to_owned() })
}

/// Stands for all names of a family that are not listed before it.
const ANY: &str = "*";

type Line = (&'static str, Fate, &'static str);

const FAMILIES: [(&str, &[Line]); 18] = [
    ("pfc", &PFC),
    ("pss", &PSS),
    ("ofs", &OFS),
    ("oss", &OSS),
    ("xrd", &XRD),
    ("xrootd", &XROOTD),
    ("all", &ALL),
    ("cms", &CLUSTER),
    ("odc", &CLUSTER),
    ("olb", &CLUSTER),
    (
        "http",
        &[
            ("trace", NotNeeded, LOGGING),
            (ANY, NotHonoured, "clients that come by HTTP are not served in this release"),
        ],
    ),
    ("sec", &[(ANY, Unprotected, UNAUTHENTICATED)]),
    ("acc", &[(ANY, Unprotected, UNAUTHORIZED)]),
    ("macaroons", &[(ANY, Unprotected, UNAUTHORIZED)]),
    ("scitokens", &[(ANY, Unprotected, UNAUTHORIZED)]),
    (
        "throttle",
        &[(ANY, NotHonoured, "clients are not throttled; server.requests_outstanding_max limits each connection")],
    ),
    ("frm", &[(ANY, NotNeeded, "nothing is migrated, staged or copied by helpers")]),
    ("tpc", &[(ANY, NotHonoured, THIRD_PARTY)]),
];

const UNAUTHORIZED: &str = "nobody is turned away in this release: whoever reaches the port reads everything";
const THIRD_PARTY: &str = "third-party copies are not served in this release";
const MONITORING: &str =
    "nothing is sent to collectors in this release: admin.listen offers /metrics, and the log has a line per file";
const LOGGING: &str = "logging.filter tells what is logged";
const PLUGIN: &str = "plug-ins of xrootd are not loaded";
const READ_ONLY: &str = "Forebay serves reads only";
const OWN_LIMITS: &str = "memory, threads and descriptors are managed by Forebay itself";
const CLUSTERS: &str =
    "Forebay joins no cluster in this release: point clients at it, or list it at the redirector by hand";

const PFC: [Line; 13] = [
    ("writequeue", NotNeeded, "blocks are written as they arrive, by as many threads as are needed"),
    ("flush", NotNeeded, "what was written is synced by its age: store.sync_interval"),
    ("acchistorysize", NotNeeded, "20 access records are kept per file, as by default"),
    ("user", NotNeeded, "files belong to the user that runs Forebay"),
    ("trace", NotNeeded, LOGGING),
    ("nramread", NotNeeded, "XCache ignores it as well"),
    ("qfsredir", NotNeeded, "it is about origins that speak HTTP"),
    ("allow_xrdpfc_command", NotHonoured, "the paths below /xrdpfc_command are not served"),
    ("httpcc", NotNeeded, "it is about origins that speak HTTP, which are not served in this release"),
    ("urlcgi", NotHonoured, "clients cannot choose block size or read-ahead in their URLs"),
    ("dirstats", NotHonoured, "no statistics per directory are written to /pfc-stats"),
    ("osslib", NotHonoured, PLUGIN),
    ("hdfsmode", NotNeeded, "XCache refuses it as well"),
];

const PSS: [Line; 16] = [
    ("config", NotNeeded, "connections to origins are shared by all clients: origin.streams per server"),
    ("ciosync", NotNeeded, "files at origins are closed without delay"),
    ("cache", NotNeeded, "hits come from the page cache of the operating system"),
    ("memcache", NotNeeded, "hits come from the page cache of the operating system"),
    ("defaults", NotNeeded, "exports say what they need"),
    ("trace", NotNeeded, LOGGING),
    ("debug", NotNeeded, LOGGING),
    ("reproxy", NotHonoured, THIRD_PARTY),
    ("dca", NotHonoured, "clients are not sent to the files on disk: all bytes come through Forebay"),
    ("inetmode", NotHonoured, "the addresses of an origin are tried in the order of the resolver"),
    ("persona", NotHonoured, "origins see Forebay, not its clients"),
    ("ccmlib", NotHonoured, PLUGIN),
    ("namelib", NotHonoured, RENAMED),
    ("localroot", NotHonoured, RENAMED),
    ("hostarena", NotHonoured, RENAMED),
    ("path", NotNeeded, "exports say what they need"),
];

const RENAMED: &str = "names are not mapped: Forebay asks origins for the names that clients use, and looks for cached files under \
     them. Files whose names differ are not found";

const OFS: [Line; 22] = [
    ("authorize", Unprotected, UNAUTHORIZED),
    ("authlib", Unprotected, UNAUTHORIZED),
    ("trace", NotNeeded, LOGGING),
    ("role", NotNeeded, "Forebay is a caching proxy"),
    ("persist", NotNeeded, READ_ONLY),
    ("chkpnt", NotNeeded, READ_ONLY),
    ("crmode", NotNeeded, READ_ONLY),
    ("forward", NotNeeded, READ_ONLY),
    ("notify", NotHonoured, "no program is told of what clients do; the log has a line per file"),
    ("notifymsg", NotHonoured, "no program is told of what clients do; the log has a line per file"),
    ("tpc", NotHonoured, THIRD_PARTY),
    ("cmslib", NotHonoured, PLUGIN),
    ("ctllib", NotHonoured, PLUGIN),
    ("preplib", NotHonoured, PLUGIN),
    ("xattrlib", NotHonoured, PLUGIN),
    ("ckslib", NotHonoured, "checksums are asked of the origin: plug-ins of xrootd are not loaded"),
    ("cksrdsz", NotNeeded, "checksums are asked of the origin"),
    ("maxdelay", NotNeeded, "server.wait_response_after tells when waiting clients are told to go on"),
    ("dirlist", NotNeeded, "listings are asked of the origin"),
    ("usage", NotNeeded, READ_ONLY),
    ("redirect", NotNeeded, "Forebay is no redirector"),
    ("xattr", NotHonoured, "extended attributes of files at the origin are not served"),
];

const OSS: [Line; 27] = [
    ("trace", NotNeeded, LOGGING),
    ("defaults", NotNeeded, "exports say what they need"),
    ("path", NotNeeded, "exports say what they need"),
    ("alloc", NotNeeded, "it chooses among directories of a space for new files"),
    ("fdlimit", NotNeeded, OWN_LIMITS),
    ("maxsize", NotNeeded, "origins tell the size of files"),
    ("maxdbsize", NotNeeded, READ_ONLY),
    ("memfile", NotNeeded, "hits come from the page cache of the operating system"),
    ("preread", NotNeeded, "hits come from the page cache of the operating system"),
    ("cache", NotHonoured, "the old form of oss.space: write oss.space, then adopt again"),
    ("spacescan", NotNeeded, "free space is asked of the file system"),
    ("usage", NotNeeded, "Forebay counts for itself"),
    ("compdetect", NotNeeded, "files are served as they are"),
    ("compchksize", NotNeeded, "files are served as they are"),
    ("namelib", NotHonoured, RENAMED),
    ("statlib", NotHonoured, PLUGIN),
    ("remoteroot", NotNeeded, NO_STAGING),
    ("mssgwcmd", NotNeeded, NO_STAGING),
    ("msscmd", NotNeeded, NO_STAGING),
    ("rsscmd", NotNeeded, NO_STAGING),
    ("stagecmd", NotNeeded, NO_STAGING),
    ("stagemsg", NotNeeded, NO_STAGING),
    ("xfr", NotNeeded, NO_STAGING),
    ("lock", NotNeeded, READ_ONLY),
    ("fsmode", NotNeeded, READ_ONLY),
    ("prep", NotNeeded, NO_STAGING),
    ("role", NotNeeded, "Forebay is a caching proxy"),
];

const NO_STAGING: &str = "nothing is staged: what is missing comes from the origin";

const XRD: [Line; 16] = [
    ("trace", NotNeeded, LOGGING),
    ("sched", NotNeeded, OWN_LIMITS),
    ("buffers", NotNeeded, OWN_LIMITS),
    ("maxfd", NotNeeded, "the limit of descriptors is raised to the hard limit"),
    ("network", NotNeeded, "sockets are set up by Forebay itself; addresses of clients are not looked up"),
    ("report", NotHonoured, MONITORING),
    ("tlsca", NotNeeded, "nothing is encrypted in this release"),
    ("tlsciphers", NotNeeded, "nothing is encrypted in this release"),
    ("tlsciph", NotNeeded, "nothing is encrypted in this release"),
    ("tcpmonlib", NotHonoured, MONITORING),
    ("adminpath", NotNeeded, PATHS),
    ("pidpath", NotNeeded, PATHS),
    ("homepath", NotNeeded, PATHS),
    ("connections", NotNeeded, OWN_LIMITS),
    ("tmo", NotNeeded, OWN_LIMITS),
    ("pmark", NotHonoured, PACKETS),
];

const PATHS: &str = "Forebay has no files outside of its store; systemd knows its process";
const PACKETS: &str = "packets are not marked in this release";

const XROOTD: [Line; 18] = [
    ("async", NotNeeded, OWN_LIMITS),
    ("trace", NotNeeded, LOGGING),
    ("log", NotNeeded, LOGGING),
    ("monitor", NotHonoured, MONITORING),
    ("mongstream", NotHonoured, MONITORING),
    ("mongstrm", NotHonoured, MONITORING),
    ("prep", NotNeeded, NO_STAGING),
    ("fsoverload", NotHonoured, "nobody is redirected when there is much to do: clients wait"),
    ("redirect", NotHonoured, "nobody is redirected"),
    ("redirlib", NotHonoured, PLUGIN),
    ("diglib", NotHonoured, "/=/ is not served; the admin listener tells what is going on"),
    ("gpflib", NotHonoured, PLUGIN),
    ("pmark", NotHonoured, PACKETS),
    ("tlsreuse", NotNeeded, "nothing is encrypted in this release"),
    ("bindif", NotHonoured, "parallel streams come to the same address"),
    ("limit", NotNeeded, "server.requests_outstanding_max limits each connection"),
    ("rdlib", NotHonoured, PLUGIN),
    ("vectors", NotNeeded, OWN_LIMITS),
];

const ALL: [Line; 6] = [
    ("adminpath", NotNeeded, PATHS),
    ("pidpath", NotNeeded, PATHS),
    ("homepath", NotNeeded, PATHS),
    ("manager", NotHonoured, CLUSTERS),
    ("subcluster", NotHonoured, CLUSTERS),
    ("trace", NotNeeded, LOGGING),
];

const CLUSTER: [Line; 2] = [("trace", NotNeeded, LOGGING), (ANY, NotHonoured, CLUSTERS)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_once_and_all_have_a_reason() {
        for (family, lines) in FAMILIES {
            for (at, (name, _, text)) in lines.iter().enumerate() {
                assert!(!text.is_empty(), "{family}.{name}");
                assert!(!lines[..at].iter().any(|(other, _, _)| other == name || *other == ANY), "{family}.{name}");
            }
        }
    }

    #[test]
    fn families_without_exceptions_take_every_name() {
        assert_eq!(look_up("cms", "delay").unwrap().fate, NotHonoured);
        assert_eq!(look_up("sec", "protocol").unwrap().fate, Unprotected);
        assert_eq!(look_up("pfc", "anything"), None);
        assert_eq!(look_up("foo", "bar"), None);
    }
}
