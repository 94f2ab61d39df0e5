//! Roles apart: one process fills a store, another one sends clients to its files.

use crate::{
    checker::Checker,
    config::{Config, ExportFiles},
    origin_url::parse_origin_url,
    raw::Raw,
    security::named,
};
use forebay_proto::TlsUse;
use toml::Spanned;

/// What a server does.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Role {
    /// Everything: it serves files through the cache that it fills.
    #[default]
    Cache,
    /// As a cache, for managers that send clients to its complete files.
    Filler,
    /// It sends clients to the complete files of a filler, and to that with everything else.
    Manager,
}

impl Role {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Filler => "filler",
            Self::Manager => "manager",
        }
    }
}

/// Permissions by which others than the server read.
const READ_BY_OTHERS: u32 = 0o044;

/// Reads the role; exports and direct access have been read.
pub(crate) fn read_role(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let roles = [("cache", Role::Cache), ("filler", Role::Filler), ("manager", Role::Manager)];
    checker.set(&mut config.server.role, "server.role", raw.server.role.as_ref(), |text| named(text, roles));
    let role = config.server.role;
    config.manager_filler = checker.read("manager.filler", raw.manager.filler.as_ref(), |text| {
        let url = parse_origin_url(text).map_err(|error| error.to_string())?;
        let is_plain = url.tls != TlsUse::Always;
        is_plain
            .then_some(url.server)
            .ok_or("write root://: clients keep to what they began with")
            .map_err(str::to_owned)
    });
    if let Some(filler) = raw.manager.filler.as_ref().filter(|_| role != Role::Manager) {
        let text = "only a manager sends clients to a filler: write server.role = \"manager\", or leave this out";
        checker.refuse("manager.filler", Some(&filler.span()), text);
    }
    let is_direct =
        config.decisions.forwarding_service.direct || config.exports.iter().any(|export| export.service.direct);
    config.engine.honours_access_times = is_direct;
    config.engine.publishes_complete = role == Role::Filler;
    if role == Role::Cache {
        return;
    }
    let span = raw.server.role.as_ref().map(Spanned::span);
    let mut refuse = |text: &str| checker.refuse("server.role", span.as_ref(), text);
    if !is_direct {
        refuse("no file is left to clients: write direct = \"complete\" in an [[export]]");
    }
    if config.engine.direct_mode & READ_BY_OTHERS == 0 {
        refuse(
            "a manager knows complete files by direct.file_mode, which must let others read: write \"0640\" or \"0644\"",
        );
    }
    let is_directory = |files: &ExportFiles| matches!(files, ExportFiles::Directory(_));
    if role == Role::Manager && config.exports.iter().any(|export| is_directory(&export.files)) {
        refuse("a manager serves no files: export directories by another server");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use forebay_types::Endpoint;
    use std::path::Path;

    const EXPORT: &str = "[[export]]\norigins = [\"root://o\"]\ndirect = \"complete\"\n";

    fn parse(text: &str) -> Result<Config, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\n{text}");
        Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config)
    }

    #[test]
    fn roles_are_told_by_name() {
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
        let config =
            parse(&format!("server.role = \"manager\"\nmanager.filler = \"root://f:1095\"\n{EXPORT}")).unwrap();
        assert_eq!(config.manager_filler, Some(Endpoint::new("f", 1095)));
        assert!(!parse("[[export]]\norigins = [\"root://o\"]").unwrap().engine.honours_access_times);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, problem) in [
            ("server.role = \"both\"\n", "write one of"),
            ("manager.filler = \"root://f\"\n", "only a manager"),
            ("server.role = \"manager\"\nmanager.filler = \"roots://f\"\n", "write root://"),
            ("server.role = \"manager\"\ndirect.file_mode = \"0600\"\n", "must let others read"),
            ("server.role = \"manager\"\nexport = [{ origins = [\"root://o\"] }]\n", "no file is left to clients"),
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
}
