//! Roles of a server.

use forebay_config::{Config, ConfigError, Role, Settings};
use forebay_types::Endpoint;
use std::path::Path;

const EXPORT: &str = "[[export]]\norigins = [\"root://o\"]\ndirect = \"complete\"\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    let whole = format!("store.path = \"/s\"\n{text}");
    Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config)
}

#[test]
fn roles_are_read_by_name() {
    for (text, role) in [
        ("", Role::Cache),
        ("server.role = \"cache\"\n", Role::Cache),
        ("server.role = \"filler\"\n", Role::Filler),
        ("server.role = \"manager\"\n", Role::Manager),
    ] {
        let config = parse(&format!("{text}{EXPORT}")).unwrap();
        assert_eq!(config.server.role, role);
        assert_eq!(config.engine.publishes_complete, role == Role::Filler);
        assert!(config.engine.honours_access_times);
    }
    let config = parse(&format!("server.role = \"manager\"\nmanager.filler = \"root://f:1095\"\n{EXPORT}")).unwrap();
    assert_eq!(config.manager_filler, Some(Endpoint::new("f", 1095)));
    assert!(!parse("[[export]]\norigins = [\"root://o\"]").unwrap().engine.honours_access_times);
}

#[test]
fn wrong_values_are_refused() {
    for (text, problem) in [
        ("server.role = \"both\"\n", "write \"cache\", \"filler\" or \"manager\""),
        ("manager.filler = \"root://f\"\n", "only a manager"),
        ("server.role = \"manager\"\nmanager.filler = \"roots://f\"\n", "write root://"),
        ("server.role = \"manager\"\nhttp.shared = true\n", "a manager serves root:// only"),
        ("server.role = \"manager\"\nhttp.listen = [\"0.0.0.0:8443\"]\n", "a manager serves root:// only"),
        ("server.role = \"manager\"\ndirect.file_mode = \"0600\"\n", "must let others read"),
        ("server.role = \"manager\"\nexport = [{ origins = [\"root://o\"] }]\n", "no file can be read directly"),
        (
            "server.role = \"manager\"\nexport = [{ origins = [\"root://o\"], direct = \"complete\" }, { path = \"/d\", directory = \"/d\" }]\n",
            "serves no files",
        ),
    ] {
        let exports = if text.contains("export") { "" } else { EXPORT };
        let error = parse(&format!("{text}{exports}")).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
