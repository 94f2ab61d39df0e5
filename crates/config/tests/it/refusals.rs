//! Every mistake is refused with its place and a remedy.

use forebay_cluster::Placement;
use forebay_config::{Config, ExportFiles, Settings, flags, setting_help};
use forebay_engine::Writes;
use forebay_origin::RedirectTargets;
use std::{fs, path::Path, time::Duration};

const GOOD: &str = r#"
[store]
path = "/var/cache/forebay"

[[export]]
path = "/store"
origins = ["root://origin-1.example.org", "root://origin-2.example.org:2094"]
writes = "redirect"
"#;

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(Path::new("forebay.toml"), text.to_owned()).map_err(|error| error.to_string())
}

/// The configuration by flags of settings and their values, several values separated by `|`.
fn from_flags(given: &[(&str, &str)]) -> Result<Config, String> {
    let values = given.iter().map(|(name, values)| (*name, values.split('|').map(str::to_owned).collect()));
    let settings = Settings::from_flags(&values.collect::<Vec<_>>());
    settings.map(|settings| settings.config).map_err(|error| error.to_string())
}

#[test]
fn a_good_file_becomes_a_typed_configuration() {
    let text = format!(
        "{}
[server]
listen = [\"127.0.0.1:0\", \"[::1]:2094\"]
idle_time_max = \"1h\"
[http]
shared = false
listen = [\"127.0.0.1:0\"]
header_time_max = \"3s\"
cors_origins = [\"https://root.cern\"]
idle_time_max = \"4s\"
http2 = false
[memory]
budget = \"256MiB\"
[forwarding]
allow = [\"*.example.org:*\"]
redirects = [\"*.example.com\", \"192.0.2.0/24\"]
[origin]
stall_timeout = \"250ms\"
[logging]
format = \"json\"
[cluster]
managers = [\"redirector.example.org:1213\", \"[2001:db8::1]:1213\"]
members = [\"cache-1.example.org:1094\", \"cache-2.example.org:1094\"]
placement = \"directory\"
shared_from_opens = 2
[monitoring]
collectors = [\"collector.example.org:9930\"]
datagram_bytes = 65472
summary_collectors = [\"collector.example.org:9931\"]
summary_interval = \"5s\"
",
        GOOD.replace("[store]", "[store]\nfile_size_max = \"100GiB\"")
    );
    let config = parse(&text).unwrap().config;
    assert_eq!(config.server.listen.len(), 2);
    assert_eq!(config.server.options.idle_time_max, Duration::from_secs(3600));
    assert_eq!((config.http.is_shared, config.http.listen.len()), (false, 1));
    assert_eq!(config.http.options.header_time_max, Duration::from_secs(3));
    assert_eq!(config.http.options.idle_time_max, Duration::from_secs(4));
    assert_eq!(config.http.options.cors_origins, ["https://root.cern"]);
    assert!(!config.http.offers_http2);
    assert_eq!(config.engine.budget_bytes, 256 << 20);
    assert_eq!(config.engine.file_size_max, 100 << 30);
    assert_eq!(config.origin.options.stall_timeout, Duration::from_millis(250));
    let members = ["cache-1.example.org:1094", "cache-2.example.org:1094"].map(|member| member.parse().unwrap());
    assert_eq!((config.cluster.managers.len(), &config.cluster.members[..]), (2, &members[..]));
    assert_eq!((config.cluster.placement, config.cluster.shared_from_opens), (Placement::Directory, 2));
    assert!(!config.cluster.paths.is_empty());
    assert_eq!(config.monitoring.collectors, ["collector.example.org:9930"]);
    assert_eq!(config.monitoring.datagram_bytes, 65_472);
    assert_eq!(config.monitoring.summary_collectors, ["collector.example.org:9931"]);
    assert_eq!(config.monitoring.summary, Duration::from_secs(5));
    assert!(config.forwarding.allows(&"a.example.org:7".parse().unwrap()));
    let named = ["*.example.com", "192.0.2.0/24"].map(|host| host.parse().unwrap());
    assert_eq!(config.forwarding_redirects, RedirectTargets::Named(named.to_vec()));
    let [export] = config.exports.as_slice() else { panic!("{:?}", config.exports) };
    let ExportFiles::Origins { first, others, .. } = &export.files else { panic!("{:?}", export.files) };
    assert_eq!(first.to_string(), "origin-1.example.org:1094");
    assert_eq!(others.len(), 1);
    assert_eq!(export.writes, Writes::Redirect);
}

#[test]
fn each_mistake_is_refused_with_its_place() {
    // Addition to a good file, place, and part of the message.
    let cases = [
        ("[server]\nlisen = []", "11:1", "unknown key `lisen` in [server]: did you mean `listen`?"),
        ("[cluster]\nmanagers = [\"here\"]", "11:13", "`here` is not a server: write HOST:PORT"),
        ("[cluster]\nmanagers = [\"here:0\"]", "11:13", "`here:0` is not a server"),
        ("[cluster]\nmanagers = [\"[::1]\"]", "11:13", "`[::1]` is not a server"),
        ("[cluster]\nmembers = [\"a:1\"]", "11:11", "no manager to log in to: set cluster.managers too"),
        ("[cluster]\ndiscover = \"a:1\"", "11:12", "no manager to log in to"),
        ("[cluster]\nmanagers = [\"a:1\"]\nmembers = [\"a:1\"]\ndiscover = \"a:1\"", "13:12", "leave out one"),
        ("[cluster]\nmanagers = [\"a:1\"]\npaths = [\"/a b\"]", "12:9", "without blanks"),
        ("[cluster]\nmanagers = [\"a:1\"]\npaths = []", "12:9", "no path to serve in the cluster"),
        ("[cluster]\nshared_from_opens = 1", "11:21", "from 2 to 1000000"),
        ("[cluster]\nplacement = \"tree\"", "11:13", "\"file\" or \"directory\""),
        ("[monitoring]\ncollectors = [\"here\"]", "11:15", "`here` is not a collector"),
        ("[monitoring]\ncollectors = [\"here:0\"]", "11:15", "`here:0` is not a collector"),
        ("[monitoring]\nsummary_collectors = [\":1\"]", "11:23", "`:1` is not a collector"),
        ("[monitoring]\nsummary_interval = \"999ms\"", "11:20", "1s"),
        ("[monitoring]\ndatagram_bytes = 511", "11:18", "512"),
        ("[monitoring]\ndatagram_bytes = 65473", "11:18", "65472"),
        ("[sever]\n", "10:2", "unknown name `sever`: did you mean [server]?"),
        ("[server]\nlisten = [\"0.0.0.0:1\", \"here:1094\"]", "11:24", "`here:1094` is not an address to listen on"),
        ("[server]\nlisten = []", "11:10", "0 elements: write 1 or more"),
        ("[server]\nconnections_max = 0", "11:19", "write a number from 1 to 1000000"),
        ("[server]\nconnections_max = -1", "11:19", "-1"),
        ("[server]\nhandles_per_session_max = 65537", "11:27", "write a number from 1 to 65536"),
        ("[server]\nlogin_time_max = \"30\"", "11:18", "such as \"30s\""),
        ("[server]\nlogin_time_max = \"0s\"", "11:18", "such as \"30s\""),
        ("[server]\nsite_name = \"a b\"", "11:13", "without blanks"),
        ("[http]\nlisten = [\"8443\"]", "11:11", "ADDRESS:PORT"),
        ("[http]\nclient_certificates = \"require\"", "11:23", "no certificate of a client can be verified"),
        ("[http]\nclient_certificates = \"maybe\"", "11:23", "\"off\", \"ask\" or \"require\""),
        ("[http]\nheader_time_max = \"0s\"", "11:19", "such as \"30s\""),
        ("[http]\nidle_time_max = 60", "11:17", "is not a text"),
        ("[http]\nhttp2 = \"yes\"", "11:9", "true"),
        ("[admin]\nlisten = \"9090\"", "11:10", "ADDRESS:PORT"),
        ("[admin]\nregions = [\"EU\"]", "11:12", "NAME=HOST"),
        ("[admin]\nregions = [\"=*.ch\"]", "11:12", "NAME=HOST"),
        ("[admin]\nhosts = [\"a b\"]", "11:10", "not a name"),
        ("[memory]\nbudget = \"1 GB\"", "11:10", "KiB, MiB, GiB, TiB"),
        ("[memory]\nbudget = \"1MiB\"", "11:10", "write 16MiB to 1TiB"),
        ("[memory]\nbudget = 5", "11:10", "5 is not a text: write it as in `\"1GiB\"`"),
        ("[[export]]\npath = \"/store/\"\norigins = [\"root://b\"]", "11:8", "the first is at forebay.toml:6:8"),
        ("[[export]]\npath = \"store\"\norigins = [\"root://b\"]", "11:8", "begin it with /"),
        (
            "[[export]]\npath = \"/d\"\norigins = [\"https://c\", \"root://b\"]\nwrites = \"redirect\"",
            "13:10",
            "an HTTP origin cannot serve the root:// clients",
        ),
        ("[[export]]\norigins = [\"root://b\", \"ftp://c\"]", "11:24", "`ftp` are not supported: write root://"),
        ("[[export]]\norigins = [\"b:1094\"]", "11:12", "write root://HOST:PORT"),
        ("[[export]]\norigins = [\"root://b\", \"roots://c\"]", "11:11", "write roots:// for all of them"),
        ("[[export]]\norigins = []", "11:11", "write 1 to 64"),
        ("[[export]]\npath = \"/x\"", "11:8", "set export.origins or export.directory"),
        ("[[export]]\ndirectory = \"/d\"\norigins = [\"root://b\"]", "11:13", "an export has one of them"),
        ("[[export]]\ndirectory = \"/d\"\nwrites = \"redirect\"", "12:10", "write \"refuse\""),
        ("[[export]]\ndirectory = \"/d\"\nwrites = \"allow\"", "12:10", "\"refuse\" or \"redirect\""),
        ("[forwarding]\nredirects = \"all\"", "11:13", "write \"same-domain\", \"any\", or a list of hosts"),
        ("[forwarding]\nredirects = [\"*.a\", \"a:1\"]", "11:21", "`a:1` is not a pattern of hosts"),
        ("[forwarding]\nallow = [\"*\", \"ftp://a\"]", "11:15", "write HOST, HOST:PORT or HOST:*"),
        ("[origin]\nattempts = 1001", "11:12", "write a number from 1 to 1000"),
        ("[logging]\nformat = \"xml\"", "11:10", "write \"text\" or \"json\""),
        ("[logging]\nfilter = \"forebay=loud\"", "11:10", "invalid log filter"),
        ("[logging]\nfilter = \"info", "11:15", ""),
        ("[[export]\n", "10:10", ""),
    ];
    cases.into_iter().for_each(assert_refused);
}

/// Adds a text to the good file, which is refused at a place for a reason.
fn assert_refused((added, place, said): (&str, &str, &str)) {
    let error = parse(&format!("{GOOD}\n{added}\n")).err().unwrap_or_else(|| panic!("accepted: {added}"));
    assert!(error.starts_with(&format!("forebay.toml:{place}: ")), "{added}: {error}");
    assert!(error.contains(said), "{added}: {error}");
    assert_eq!(error.lines().count(), 1, "{added}: {error}");
}

#[test]
fn an_address_serves_one_purpose() {
    let two = "[server]\nlisten = [\"[::]:1\", \"[::]:1\"]";
    let admin = "[server]\nlisten = [\"[::]:1\"]\n[admin]\nlisten = \"[::]:1\"";
    for (added, place) in [(two, "11:10"), (admin, "13:10")] {
        assert_refused((added, place, "[::]:1 is taken by server.listen: write another port"));
    }
    assert_refused(("[http]\nlisten = [\"0.0.0.0:1094\"]", "11:10", "0.0.0.0:1094 is taken by server.listen"));
    assert!(parse(&format!("{GOOD}\n[server]\nlisten = [\"[::]:0\", \"[::]:0\"]\n")).is_ok());
}

#[test]
fn blocks_must_fit_the_memory_four_times() {
    let with = |block_size: &str, budget: &str| {
        parse(&GOOD.replace(
            "[store]\n",
            &format!("[memory]\nbudget = \"{budget}\"\n[store]\nblock_size = \"{block_size}\"\n"),
        ))
    };
    assert!(with("16MiB", "64MiB").is_ok());
    let error = with("16MiB", "60MiB").unwrap_err();
    assert!(error.starts_with("forebay.toml:5:14: ") && error.contains("memory.budget of 64MiB or more"), "{error}");
    for block_size in ["0", "2KiB", "6KiB", "1GiB", "big"] {
        let error = with(block_size, "1GiB").unwrap_err();
        assert!(error.starts_with("forebay.toml:5:14: "), "{block_size}: {error}");
    }
}

#[test]
fn paths_of_a_cluster_must_fit_a_login() {
    let with = |count: u32| {
        let paths: Vec<String> = (0..count).map(|number| format!("\"/{number:02}{}\"", "p".repeat(93))).collect();
        parse(&format!("{GOOD}\n[cluster]\nmanagers = [\"a:1\"]\npaths = [{}]\n", paths.join(", ")))
    };
    assert!(with(30).is_ok());
    let error = with(31).unwrap_err();
    assert!(error.contains("3100 bytes of paths; managers take 3072"), "{error}");
}

#[test]
fn files_of_directories_are_not_served_in_a_cluster() {
    let local = "[cluster]\nmanagers = [\"a:1\"]\n[[export]]\npath = \"/local\"\ndirectory = \"/srv/local\"\n";
    let config = parse(&format!("{GOOD}\n{local}")).unwrap().config;
    assert_eq!((config.exports.len(), config.cluster.paths), (2, vec!["/store".to_owned()]));
}

#[test]
fn a_small_memory_bounds_single_requests() {
    let config = parse(&format!("{GOOD}\n[memory]\nbudget = \"16MiB\"\n")).unwrap().config;
    assert_eq!(config.engine.fill_len_max, 4 << 20);
    assert_eq!(config.engine.read_window, 4 << 20);
}

#[test]
fn missing_settings_are_reported_for_the_file() {
    let nothing = parse("").unwrap_err();
    assert!(nothing.starts_with("forebay.toml: nothing is exported: "), "{nothing}");
    let no_store = parse("[forwarding]\nallow = [\"*\"]\n").unwrap_err();
    assert!(no_store.starts_with("forebay.toml: store.path is missing"), "{no_store}");
    let unreadable = Settings::read(Path::new("/nonexistent/forebay.toml")).unwrap_err().to_string();
    assert!(unreadable.starts_with("/nonexistent/forebay.toml: cannot be read: "), "{unreadable}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let error = parse("[server]\nconnections_max = 0\n[admin]\nlisten = \"x\"\n").unwrap_err();
    let places: Vec<_> = error.lines().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(places, ["forebay.toml:2:19", "forebay.toml:4:10", "forebay.toml"]);
}

#[test]
fn flags_alone_are_a_configuration() {
    let config = from_flags(&[
        ("server.listen", "127.0.0.1:0"),
        ("export.origins", "root://a:1|root://b:2"),
        ("store.path", "/s"),
        ("store.block_size", "1MiB"),
    ])
    .unwrap();
    assert_eq!(config.engine.block_size.bytes(), 1 << 20);
    assert_eq!(config.exports.first().unwrap().path.as_str(), "/");
    let ExportFiles::Origins { others, .. } = &config.exports[0].files else { panic!("{config:?}") };
    assert_eq!(others.len(), 1);
    assert_eq!(
        flags().filter(|flag| flag.name.starts_with("--") && !setting_help(flag.setting).is_empty()).count(),
        17
    );
}

#[test]
fn mistakes_in_flags_name_the_flag() {
    let (origin, store) = (("export.origins", "root://a:1"), ("store.path", "/s"));
    for (given, expected) in [
        (&[origin, store, ("store.block_size", "5")][..], "--block-size: `5` is not a block size"),
        (&[origin, store, ("memory.budget", "5")], "--memory: `5` is out of range"),
        (&[origin, store, ("server.listen", "1094")], "--listen: `1094` is not an address"),
        (&[store, ("export.origins", "a:1")], "--origin: `a:1` is not an origin"),
        (&[origin, store, ("forwarding.allow", "a b")], "--forwarding: `a b` is not an origin pattern"),
        (&[origin, store, ("export.directory", "/d")], "--export-dir: both --origin and --export-dir"),
        (&[store, ("export.writes", "refuse")], "--origin: an export without files: set --origin or --export-dir"),
        (&[origin], "command line: --store is missing"),
        (&[], "command line: nothing is exported: set --origin, --export-dir, or --forwarding"),
    ] {
        let error = from_flags(given).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn stores_and_directories_that_cannot_be_used_are_refused_with_their_place() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "x").unwrap();
    let in_environment = |store: &Path, directory: &Path| {
        let text = format!(
            "[store]\npath = {:?}\n[[export]]\ndirectory = {:?}\n[forwarding]\nallow = [\"*\"]\n",
            store.display().to_string(),
            directory.display().to_string()
        );
        parse(&text).unwrap().check_environment().map_err(|error| error.to_string())
    };
    assert_eq!(in_environment(&scratch.path().join("new/store"), scratch.path()), Ok(()));
    assert!(!scratch.path().join("new").exists(), "a check changes nothing");
    let error = in_environment(&file, scratch.path()).unwrap_err();
    assert!(error.starts_with("forebay.toml:2:8: ") && error.contains("is not a directory"), "{error}");
    let error = in_environment(&file.join("below"), scratch.path()).unwrap_err();
    assert!(error.starts_with("forebay.toml:2:8: ") && error.contains("is not a directory"), "{error}");
    let error = in_environment(scratch.path(), &file).unwrap_err();
    assert!(error.starts_with("forebay.toml:4:13: ") && error.contains("cannot be exported"), "{error}");
}

#[test]
fn changes_that_need_a_restart_are_named() {
    let old = parse(GOOD).unwrap();
    let needed = |text: &str| old.restart_needed(&parse(text).unwrap());
    assert!(needed(GOOD).is_empty());
    let live = format!(
        "{GOOD}\n[[export]]\ndirectory = \"/d\"\n[forwarding]\nallow = [\"*\"]\n[logging]\nfilter = \"debug\"\n"
    );
    assert!(needed(&live).is_empty());
    assert!(needed(&format!("{GOOD}\n[memory]\nbudget = \"1GiB\"\n")).is_empty(), "the default, written");
    let fixed = format!("{}\n[memory]\nbudget = \"2GiB\"\n", GOOD.replace("/var/cache", "/srv"));
    assert_eq!(needed(&fixed), ["store.path", "memory.budget"]);
}

#[test]
fn mistakes_of_all_kinds_are_reported_at_once() {
    let text = r#"
listen = "0.0.0.0:1094"
exports = 1
[store]
path = "/var/cache/forebay"
Block-Size = "1MiB"
budget = "1TiB"
[memory]
budget = 1073741824
[server]
connections_max = "many"
listen = [1094, "0.0.0.0:1094"]
listen = "0.0.0.0:1095"
login_time_max = 30s
site_name = "a b"
[[export]]
origins = "http://a"
[server]
idle_time_max = "1h"
idle_time_max = "2h"
[export]
path = "/a"
[[purge]]
high = 95
fertig = true
[quota]
path = true
[logging
"#;
    let expected = [
        "2:1: unknown name `listen`: it is a key of [server] or [http] or [s3] or [dcap] or [admin]: write it below that line",
        "3:1: unknown name `exports`: did you mean [[export]]?",
        "6:1: unknown key `Block-Size` in [store]: did you mean `block_size`?",
        "7:1: unknown key `budget` in [store]: it belongs to [purge] or [memory]",
        "9:10: 1073741824 is not a text: write it as in `\"1GiB\"`",
        "11:19: \"many\" is not a whole number from 0: write it as in `16384`",
        "12:11: 1094 is not a text: write it as in `[\"0.0.0.0:1094\"]`",
        "13:1: duplicate key `listen`, the first is at forebay.toml:12:1: write it once",
        "14:18: string values must be quoted, expected literal string",
        "15:13: `a b` is not a name: write 1 to 255 bytes without blanks",
        "18:2: duplicate key `server`, the first is at forebay.toml:10:2: write it once",
        "20:1: duplicate key `idle_time_max`, the first is at forebay.toml:19:1: write it once",
        "21:1: `export` is a list of tables: write [[export]]",
        "22:8: an export without files: set export.origins or export.directory",
        "23:1: `purge` cannot be repeated: write [purge]",
        "24:8: 95 is not a text: write it as in `\"95%\"`",
        "25:1: unknown key `fertig` in [purge]: the keys are policy, budget, high, low, budget_inodes, inodes_high, \
         inodes_low, free_min, age_max, interval",
        "26:1: `quota` is a list of tables: write [[quota]]",
        "27:8: true is not a text: write it as in `\"/store/user\"`",
        "28:9: unclosed table, expected `]`",
    ];
    let error = parse(text).unwrap_err();
    assert_eq!(error.lines().collect::<Vec<_>>(), expected.map(|line| format!("forebay.toml:{line}")));
}

#[test]
fn a_violation_of_the_syntax_causes_no_other_report() {
    // Without the line, nothing would be exported, and the credential would lack its hosts.
    for text in [
        "[[export]\ndirectory = \"/d\"\n",
        &format!("{GOOD}\n[server]\n[[export]\ndirectory = \"/d\"\n"),
        &format!("{GOOD}\n[[credential]]\nhosts = *.a\nmethod = \"none\"\n"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn at_most_a_hundred_violations_of_the_syntax_are_reported() {
    for (count, expected) in [(99, 99), (100, 100), (101, 100)] {
        let error = parse(&format!("{GOOD}{}", "path = \"/a\"\n".repeat(count))).unwrap_err();
        assert_eq!(error.lines().count(), expected, "{error}");
    }
}

#[test]
fn a_single_text_is_a_list_of_one_element() {
    let text = "store.path = \"/s\"\nserver.listen = \"[::1]:0\"\nforwarding.redirects = \"*.example.org\"\n\
                [[export]]\norigins = \"root://a:1\"\n";
    let config = parse(text).unwrap().config;
    assert_eq!(config.server.listen, ["[::1]:0".parse().unwrap()]);
    assert!(matches!(&config.exports[0].files, ExportFiles::Origins { others, .. } if others.is_empty()));
    assert_eq!(config.forwarding_redirects, RedirectTargets::Named(vec!["*.example.org".parse().unwrap()]));
}
