//! Which files of the cache are replicas of which files of Rucio.

use super::super::{connection::Connection, files::matching};
use forebay_admin::model::CachedFile;
use forebay_cache::RucioName;
use forebay_types::Lfn;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt};

/// Names of files that do not follow Rucio's convention.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NameRule {
    /// Scope of the files below --path, whose whole path is their name (CMS: cms)
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Path of the files of --scope
    #[arg(long, value_name = "PATH", default_value = "/store", requires = "scope")]
    path: String,
}

/// The name of a file in Rucio.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Did {
    pub(super) scope: String,
    pub(super) name: String,
}

/// A complete file of the cache.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Replica {
    pub(super) bytes: u64,
    pub(super) adler32: Option<String>,
    /// Its path below the prefix of the storage element.
    pub(super) path: String,
}

/// Begin of the names of entries that several origins share.
const SHARED: &str = "/rucio:/";

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scope, self.name)
    }
}

impl Replica {
    /// As messages and dumps describe it.
    pub(super) fn described(&self, did: &Did) -> Value {
        let mut described = json!({ "scope": did.scope, "name": did.name, "bytes": self.bytes, "path": self.path });
        if let (Some(adler32), Some(fields)) = (&self.adler32, described.as_object_mut()) {
            fields.insert("adler32".to_owned(), json!(adler32));
        }
        described
    }
}

/// The complete files of a cache that Rucio knows, by their names there. A partial file is not a replica.
pub(super) async fn replicas(server: &Connection, rule: &NameRule) -> anyhow::Result<BTreeMap<Did, Replica>> {
    let mut found = BTreeMap::new();
    matching(server, "", |file| {
        if file.is_complete {
            found.extend(replica(&file, rule));
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

fn replica(file: &CachedFile, rule: &NameRule) -> Option<(Did, Replica)> {
    let (did, path) = named(&file.name, rule)?;
    let checksum = file.checksums.iter().find(|checksum| checksum.algorithm == "adler32");
    let adler32 = checksum.map(|checksum| checksum.value.clone());
    Some((did, Replica { bytes: file.size, adler32, path }))
}

/// The name in Rucio of the entry `name`, and the path below the prefix of a storage element.
fn named(name: &str, rule: &NameRule) -> Option<(Did, String)> {
    let by_convention = match name.strip_prefix(SHARED) {
        Some(shared) => RucioName::from_content(shared),
        None => RucioName::of(&Lfn::parse(name).ok()?),
    };
    if let Some(found) = by_convention {
        return Some((Did { scope: found.scope(), name: found.name().to_owned() }, found.to_string()));
    }
    let scope = rule.scope.clone()?;
    let path = rule.path.trim_end_matches('/');
    let is_below = name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    is_below.then(|| (Did { scope, name: name.to_owned() }, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_convention_or_by_their_path() {
        let none = NameRule { scope: None, path: "/store".to_owned() };
        let cms = NameRule { scope: Some("cms".to_owned()), path: "/store/".to_owned() };
        let did = |name: &str, rule: &NameRule| named(name, rule).map(|(did, path)| (did.to_string(), path));
        let atlas = || Some(("mc:DAOD.1".to_owned(), "mc/3f/a0/DAOD.1".to_owned()));
        assert_eq!(did("/root:/origin:1094/eos/rucio/mc/3f/a0/DAOD.1", &none), atlas());
        assert_eq!(did("/rucio:/mc/3f/a0/DAOD.1,12,adler32:0a1b2c3d", &cms), atlas());
        assert_eq!(did("/store/mc/f.root", &none), None);
        let cms_file = "/store/mc/f.root".to_owned();
        assert_eq!(did("/store/mc/f.root", &cms), Some((format!("cms:{cms_file}"), cms_file)));
        assert_eq!(did("/storehouse/f.root", &cms), None);
    }
}
