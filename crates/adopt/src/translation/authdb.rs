//! The authorization database (`acc.authdb`): records of rights, as grants.

use std::{collections::BTreeMap, net::IpAddr};

/// Rights of some clients below a path.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Grant {
    /// Where it comes from.
    pub(super) name: String,
    pub(super) path: String,
    pub(super) rights: Vec<&'static str>,
    /// Conditions: key and value.
    pub(super) who: Vec<(&'static str, String)>,
    pub(super) has_scopes: bool,
}

/// Reads the database; returns its grants and a sentence about each record that they do not cover. `path` names the file.
pub(super) fn read(path: &str, text: &str) -> (Vec<Grant>, Vec<String>) {
    let mut reader = Reader::default();
    for (number, record) in records(text) {
        let words: Vec<_> = record.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        if let [kind, name, rest @ ..] = words.as_slice()
            && let Err(reason) = reader.record(&format!("{path}:{number}"), (kind, name), rest)
        {
            reader.problems.push(format!("{path}:{number} `{kind} {name}`: {reason}"));
        }
    }
    // Of grants with the same path the first match decides; here, all that match add up, and negative rights prevail.
    let order = |(is_negative, grant): &(bool, Grant)| (!*is_negative, usize::MAX - grant.rights.len());
    reader.grants.sort_by_key(order);
    (reader.grants.into_iter().map(|(_, grant)| grant).collect(), reader.problems)
}

/// Lines with their numbers; a backslash at the end of one continues it.
fn records(text: &str) -> Vec<(usize, String)> {
    let mut records: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let (part, continues) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match records.last_mut() {
            Some((_, record)) if is_continued => record.extend([" ", part]),
            _ => records.push((index + 1, part.to_owned())),
        }
        is_continued = continues;
    }
    records
}

type Who = Vec<(&'static str, String)>;

#[derive(Default)]
struct Reader {
    /// Each with whether it takes rights away.
    grants: Vec<(bool, Grant)>,
    problems: Vec<String>,
    templates: BTreeMap<String, Vec<String>>,
    compounds: BTreeMap<String, Who>,
}

impl Reader {
    fn record(&mut self, place: &str, (kind, name): (&str, &str), words: &[&str]) -> Result<(), String> {
        match kind {
            "t" => {
                self.templates.insert(name.to_owned(), words.iter().map(|word| (*word).to_owned()).collect());
                return Ok(());
            }
            "=" => {
                let pairs = words.chunks(2).map(|pair| match pair {
                    [kind, name] => condition(kind.trim_end_matches(':'), name),
                    _ => Err("a kind without its name".to_owned()),
                });
                self.compounds.insert(name.to_owned(), pairs.collect::<Result<Vec<_>, _>>()?.concat());
                return Ok(());
            }
            _ => {}
        }
        let who = match kind {
            "x" | "s" => {
                self.compounds.get(name).cloned().ok_or("no record `=` defines it: define it, or write a [[grant]]")?
            }
            "u" if name == "=" => Vec::new(),
            _ => condition(kind, name)?,
        };
        self.paths(place, &who, words)?;
        if kind == "x" {
            return Err(
                "it is converted, but not that it excludes other grants: check those of the same clients".to_owned()
            );
        }
        Ok(())
    }

    /// Adds the pairs of path and rights, those of templates included.
    fn paths(&mut self, place: &str, who: &Who, words: &[&str]) -> Result<(), String> {
        let mut rest = words;
        let mut reason = None;
        while let [first, after @ ..] = rest {
            if !first.starts_with('/') {
                let template = self.templates.get(*first).cloned();
                let template =
                    template.ok_or_else(|| format!("`{first}` is neither a path nor a template: write its paths"))?;
                let words: Vec<_> = template
                    .iter()
                    .map(String::as_str)
                    .filter(|word| word.starts_with('/') || is_rights(word))
                    .collect();
                self.paths(place, who, &words)?;
                rest = after;
                continue;
            }
            let [rights, after @ ..] = after else { return Err(format!("{first} has no rights: write a [[grant]]")) };
            let (positive, negative) = rights.split_once('-').unwrap_or((rights, ""));
            let lost = granted(negative);
            let rights: Vec<_> = granted(positive).into_iter().filter(|right| !lost.contains(right)).collect();
            let (is_negative, path) = (!lost.is_empty(), first.replace("@=", "{user}"));
            if is_negative {
                reason =
                    Some("negative rights apply to the clients of this record, and to no path below that has a grant");
            }
            if is_negative || !rights.is_empty() {
                let path = if path.trim_end_matches('/').is_empty() { "/" } else { path.trim_end_matches('/') };
                let grant = Grant {
                    name: place.to_owned(),
                    path: path.to_owned(),
                    rights,
                    who: who.clone(),
                    has_scopes: false,
                };
                self.grants.push((is_negative, grant));
            }
            rest = after;
        }
        reason.map_or(Ok(()), |reason| Err(reason.to_owned()))
    }
}

fn is_rights(word: &str) -> bool {
    word.bytes().all(|letter| b"adiklnrw-".contains(&letter))
}

/// The rights of letters that a cache has: reading covers listing, as in xrootd.
fn granted(letters: &str) -> Vec<&'static str> {
    if letters.contains(['r', 'a']) {
        vec!["read", "list"]
    } else if letters.contains('l') {
        vec!["stat"]
    } else {
        Vec::new()
    }
}

/// The condition on clients of one kind and name; none for all clients.
fn condition(kind: &str, name: &str) -> Result<Who, String> {
    let key = match kind {
        "u" if name == "*" => return Ok(Vec::new()),
        "u" if is_hash(name) => {
            return Err("hashes of names are not compared: write a [[grant]] with the name as subject".to_owned());
        }
        "u" => "user",
        "o" => "vo",
        "r" => "role",
        "g" if name.starts_with('/') => "group",
        "g" => {
            return Err(
                "Unix groups are not looked up: write a [[grant]] with their users, or with a VOMS group".to_owned()
            );
        }
        "h" if name.parse::<IpAddr>().is_ok() => "host",
        "h" => return Err("host names are not resolved: write a [[grant]] with the address as host".to_owned()),
        "n" => return Err("netgroups are not looked up: write a [[grant]] with the address as host".to_owned()),
        _ => return Err("this kind of record is unknown: write a [[grant]]".to_owned()),
    };
    Ok(vec![(key, name.to_owned())])
}

/// Whether the name is the hash of a distinguished name, which gsi uses without a mapping.
fn is_hash(name: &str) -> bool {
    name.strip_suffix(".0").is_some_and(|hash| hash.len() == 8 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (Vec<String>, Vec<String>) {
        let (grants, problems) = read("f", text);
        let line = |grant: &Grant| {
            let who: Vec<_> = grant.who.iter().map(|(key, name)| format!(" {key}={name}")).collect();
            format!("{} {}{}", grant.path, grant.rights.join("+"), who.concat())
        };
        (grants.iter().map(line).collect(), problems)
    }

    #[test]
    fn records_are_grants() {
        for (text, grants) in [
            ("u * /public lr", vec!["/public read+list"]),
            ("u * /a/ rl \\\n /b l # rest", vec!["/a read+list", "/b stat"]),
            ("u bob /a w /b a", vec!["/b read+list user=bob"]),
            ("u = /user/@=/ a", vec!["/user/{user} read+list"]),
            ("g /osg/ligo /ligo rl\no cms / r", vec!["/ligo read+list group=/osg/ligo", "/ read+list vo=cms"]),
            ("t data /store/ lr\nu prod data", vec!["/store read+list user=prod"]),
            ("= p o: atlas r: production\ns p /atlas rl", vec!["/atlas read+list vo=atlas role=production"]),
            ("h 192.0.2.1 /a rl", vec!["/a read+list host=192.0.2.1"]),
            ("u * /a l\nu bob /a rl", vec!["/a read+list user=bob", "/a stat"]),
            ("# u * / rl\n\n", vec![]),
        ] {
            assert_eq!(lines(text), (grants.into_iter().map(str::to_owned).collect(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn records_that_cannot_be_grants_are_reported_with_their_line() {
        for (text, said) in [
            ("\nh .cern.ch / rl", "f:2 `h .cern.ch`: host names are not resolved"),
            ("u 0a1b2c3d.0 / rl", "with the name as subject"),
            ("g zusers / rl", "Unix groups"),
            ("n net / rl", "netgroups"),
            ("u bob data", "neither a path nor a template"),
            ("u bob /a", "has no rights"),
            ("x p / rl", "no record `=` defines it"),
            ("q z / rl", "unknown"),
        ] {
            let (grants, problems) = lines(text);
            assert!(grants.is_empty() && problems.len() == 1 && problems[0].contains(said), "{text}: {problems:?}");
        }
        let (grants, problems) = lines("u * / rl\nu bob / -r\n= p u: al\nx p /a l");
        assert_eq!(grants, ["/  user=bob", "/ read+list", "/a stat user=al"]);
        assert!(problems[0].contains("negative") && problems[1].contains("excludes"), "{problems:?}");
    }
}
