//! The records of accesses: what is understood, and what is refused.

use forebay_config::{Config, Settings};
use forebay_record_outputs::{Authorization, FileOptions, SearchOptions};
use std::{path::Path, time::Duration};

fn parse(text: &str) -> Result<Config, String> {
    let text = format!("export = [{{ directory = \"/srv\" }}]\n{text}");
    Settings::parse(Path::new("f.toml"), text).map(|settings| settings.config).map_err(|error| error.to_string())
}

#[test]
fn records_are_written_where_a_path_says() {
    let none = parse("[records]\nsite = \"LAB\"").unwrap().records;
    assert_eq!((none.files.as_ref(), none.server.site.as_str(), none.has_output()), (None, "LAB", false));
    let plain = FileOptions { directory: "/r".into(), ..FileOptions::default() };
    assert_eq!(parse("records.path = \"/r\"").unwrap().records.files, Some(plain.clone()));
    let all =
        "[records]\npath = \"/r\"\nfile_size = \"1MiB\"\nfile_age = \"1h\"\ntotal_size = \"2MiB\"\nage_max = \"365d\"";
    let (file_age, age_max) = (Duration::from_secs(3600), Some(Duration::from_secs(365 * 86_400)));
    let options = FileOptions { file_bytes: 1 << 20, file_age, total_bytes: 2 << 20, age_max, ..plain };
    assert_eq!(parse(all).unwrap().records.files, Some(options));
}

#[test]
fn wrong_values_are_refused() {
    for (text, needle) in [
        ("records.path = \"\"", "not a path"),
        ("records.file_size = \"63KiB\"", "out of range: write 64KiB to 64GiB"),
        ("records.file_age = \"59s\"", "1min"),
        ("records.age_max = \"59s\"", "1min"),
        ("[records]\nfile_size = \"1MiB\"\ntotal_size = \"2047KiB\"", "must have room for two"),
        ("records.file_size = \"3GiB\"", "must have room for two"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(needle), "{text}: {error}");
    }
}

#[test]
fn records_are_sent_to_the_servers_that_are_named() {
    assert_eq!(parse("[opensearch]\nstream = \"a\"").unwrap().records.search, None);
    let plain = SearchOptions {
        urls: vec!["https://s.example:9200".parse().unwrap()],
        stream: "forebay-accesses".to_owned(),
        spool_bytes: 64 << 20,
        ..SearchOptions::default()
    };
    let search = |text: &str| parse(&format!("[opensearch]\n{text}")).unwrap().records.search;
    assert_eq!(search("urls = [\"https://s.example:9200/\"]"), Some(plain.clone()));
    let all = "urls = [\"https://s.example:9200\", \"https://t.example:9200/search\"]\nstream = \"cache.1_a-b\"\nindex = \"daily\"
        ca_file = \"/ca\"\nuser = \"ann\"\npassword_file = \"/p\"\nspool = \"/s\"\nspool_size = \"1MiB\"\ninstall_template = true";
    let options = SearchOptions {
        urls: [plain.urls.clone(), vec!["https://t.example:9200/search".parse().unwrap()]].concat(),
        stream: "cache.1_a-b".to_owned(),
        is_daily: true,
        authorization: Authorization::Basic("ann".to_owned(), "/p".into()),
        ca_file: Some("/ca".into()),
        spool: Some("/s".into()),
        spool_bytes: 1 << 20,
        installs_template: true,
    };
    assert_eq!(search(all), Some(options));
    let key = search("urls = [\"http://127.0.0.1:9200\"]\napi_key_file = \"/k\"").unwrap();
    assert_eq!(key.authorization, Authorization::ApiKey("/k".into()));
}

#[test]
fn wrong_servers_and_credentials_are_refused() {
    for (text, needle) in [
        ("urls = [\"root://s\"]", "is not a server"),
        ("stream = \"Cache\"", "not a name of an index"),
        ("stream = \"-a\"", "not a name of an index"),
        ("index = \"weekly\"", "data-stream"),
        ("spool_size = \"1023KiB\"", "write 1MiB to"),
        ("user = \"ann\"", "a user needs a password"),
        ("password_file = \"/p\"", "a user needs a password"),
        ("api_key_file = \"/k\"\nuser = \"ann\"\npassword_file = \"/p\"", "write only one"),
        ("urls = [\"http://s.example:9200\"]\napi_key_file = \"/k\"", "without encryption"),
    ] {
        let error = parse(&format!("[opensearch]\n{text}")).unwrap_err();
        assert!(error.contains(needle), "{text}: {error}");
    }
}
