//! Direct access.

use forebay_config::{Config, ConfigError, Settings};
use forebay_front::DirectAccess;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

fn parse(text: &str) -> Result<Config, ConfigError> {
    let whole = format!("store.path = \"/s\"\n{text}");
    Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config)
}

#[test]
fn clients_see_the_cache_at_the_configured_paths() {
    let config = parse(
        "export = [{ origins = [\"root://o\"], direct = \"complete\" }]\n\
         [direct]\nclients = [\"10.1.*\", \"2001:db8::/32\"]\npaths = [\"/s=/mnt/s\"]\nlease = \"1h\"\npage_reads = false\nprobe = \"client\"\n",
    )
    .unwrap();
    assert!(config.exports[0].service.direct && !config.decisions.forwarding_service.direct);
    let expected = DirectAccess {
        clients: vec!["10.1.*".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        paths: vec![(PathBuf::from("/s"), PathBuf::from("/mnt/s"))],
        page_reads: false,
        probe: Arc::default(),
        needs_probe: true,
        directories: Vec::new(),
    };
    assert_eq!(config.server.front.direct, expected);
    assert_eq!(config.engine.direct_lease, Duration::from_secs(3600));
    assert_eq!((config.permissions.file_mode, config.permissions.directory_mode), (0o600, 0o755));
}

#[test]
fn wrong_values_are_refused() {
    for (text, problem) in [
        ("export = [{ origins = [\"root://o\"], direct = \"always\" }]", "write \"never\""),
        ("export = [{ origins = [\"root://o\"], direct = \"complete\" }]\nstore.file_mode = \"0644\"", "not complete"),
        (
            "export = [{ origins = [\"root://o\"], direct = \"complete\" }]\nstore.directory_mode = \"0750\"",
            "through the directories",
        ),
        ("export = [{ origins = [\"root://o\"] }]\n[direct]\nclients = [\"worker\"]", "is not an address"),
        ("export = [{ origins = [\"root://o\"] }]\n[direct]\nclients = [\"10.1.2.3/16\"]", "10.1.0.0/16"),
        ("export = [{ origins = [\"root://o\"] }]\n[direct]\nprobe = \"yes\"", "write \"none\" or \"client\""),
        ("export = [{ origins = [\"root://o\"] }]\n[direct]\npaths = [\"/s\"]", "is not a mapping"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
