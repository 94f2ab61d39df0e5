//! The configuration of the SciTokens plug-in (`scitokens.cfg`): issuers of tokens.

use super::{authdb::Grant, document};
use std::collections::BTreeMap;

/// An issuer with the paths that its tokens may read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct TokenIssuer {
    pub(super) url: String,
    pub(super) audiences: Vec<String>,
    pub(super) base_path: String,
    pub(super) grants: Vec<Grant>,
}

type Section = BTreeMap<String, (usize, String)>;

/// Reads the file; returns the issuers and a sentence about each setting that they do not cover. `path` names the file.
pub(super) fn read(path: &str, text: &str) -> (Vec<TokenIssuer>, Vec<String>) {
    let (mut issuers, mut problems): (Vec<TokenIssuer>, _) = (Vec::new(), Vec::new());
    let sections = sections(text);
    let global = sections.iter().find(|(name, _)| name.eq_ignore_ascii_case("global"));
    let global = global.map(|(_, section)| section.clone()).unwrap_or_default();
    let audiences = list(&global, "audience_json").or_else(|| list(&global, "audience")).unwrap_or_default();
    if let Some((line, value)) = global.get("onmissing")
        && !matches!(value.to_ascii_lowercase().as_str(), "passthrough" | "deny")
    {
        problems.push(format!("{path}:{line} onmissing = {value}: requests without a token need a [[grant]]"));
    }
    for (name, section) in sections.iter().filter(|(name, _)| name.to_ascii_lowercase().starts_with("issuer")) {
        let Some((_, url)) = section.get("issuer") else {
            problems.push(format!("{path} [{name}] has no issuer: write an [[issuer]]"));
            continue;
        };
        if issuers.iter().any(|other| other.url == *url) {
            problems.push(format!(
                "{path} [{name}]: {url} is the issuer of another section: write a [[grant]] for its paths"
            ));
            continue;
        }
        let bases = list(section, "base_path").unwrap_or_default();
        let base_path = bases.first().map_or("/", String::as_str).to_owned();
        for base in bases.iter().skip(1) {
            problems.push(format!("{path} [{name}]: an [[issuer]] has one base_path: {base} is not covered"));
        }
        let restricted = list(section, "restricted_path").unwrap_or_else(|| vec!["/".to_owned()]);
        let grant = |below: &String| Grant {
            name: format!("{path} [{name}]"),
            path: joined(&base_path, below),
            rights: vec!["read", "list"],
            who: vec![("issuer", url.clone())],
            has_scopes: true,
        };
        issuers.push(TokenIssuer {
            url: url.clone(),
            audiences: audiences.clone(),
            grants: restricted.iter().map(grant).collect(),
            base_path,
        });
        for (key, (line, value)) in section.iter().filter(|(key, value)| is_mapping(key, &value.1)) {
            problems.push(format!(
                "{path}:{line} {key} = {value}: bearers of tokens get no user name: write grants by subject, issuer or group"
            ));
        }
    }
    (issuers, problems)
}

/// Whether the setting maps bearers to users.
fn is_mapping(key: &str, value: &str) -> bool {
    match key {
        "issuer" | "base_path" | "restricted_path" | "authorization_strategy" => false,
        "map_subject" => value.eq_ignore_ascii_case("true"),
        _ => true,
    }
}

/// Sections by their names; of repeated names the last setting counts.
fn sections(text: &str) -> BTreeMap<String, Section> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let mut name = String::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            name = header.trim().to_owned();
            sections.entry(name.clone()).or_default();
        } else if let (false, Some((key, value))) = (line.starts_with(['#', ';']), line.split_once('=')) {
            let value = (index + 1, value.trim().to_owned());
            sections.entry(name.clone()).or_default().insert(key.trim().to_ascii_lowercase(), value);
        }
    }
    sections
}

/// The elements of a list with commas, or of one in JSON.
fn list(section: &Section, key: &str) -> Option<Vec<String>> {
    let (_, text) = section.get(key)?;
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let elements = text.split(',').map(|element| element.trim().trim_matches('"').to_owned());
    Some(elements.filter(|element| !element.is_empty()).collect())
}

fn joined(base: &str, below: &str) -> String {
    match format!("{}/{}", base.trim_end_matches('/'), below.trim_matches('/')).trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

impl TokenIssuer {
    /// Its settings in TOML.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("url", document::string(&self.url))];
        if !self.audiences.is_empty() {
            settings.push(("audiences", document::strings(&self.audiences)));
        }
        settings.push(("base_path", document::string(&self.base_path)));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_have_audiences_and_paths() {
        let text = "[Global]\naudience = https://a, https://b\nonmissing = passthrough\n[Issuer CMS]\nissuer = https://cms/\n\
                    base_path = /store\nrestricted_path = /user,/group/\nmap_subject = False\n";
        let (issuers, problems) = read("f", text);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(issuers.len(), 1);
        let settings: Vec<_> = issuers[0].settings().into_iter().map(|(_, value)| value).collect();
        assert_eq!(settings, ["\"https://cms/\"", "[\"https://a\", \"https://b\"]", "\"/store\""]);
        let paths: Vec<_> = issuers[0].grants.iter().map(|grant| grant.path.as_str()).collect();
        assert_eq!(paths, ["/store/user", "/store/group"]);
    }

    #[test]
    fn settings_that_are_not_covered_are_reported() {
        let text = "[Global]\naudience_json = [\"x, y\"]\nonmissing = allow\n[Issuer A]\nissuer = https://a\nbase_path = /a,/b\n\
                    default_user = osg\n[Issuer B]\nissuer = https://a\n[Issuer C]\n";
        let (issuers, problems) = read("f", text);
        assert_eq!(issuers.len(), 1);
        for said in ["f:3 onmissing", "/b is not covered", "f:7 default_user", "another section", "has no issuer"] {
            assert!(problems.iter().any(|problem| problem.contains(said)), "{said}: {problems:?}");
        }
    }
}
