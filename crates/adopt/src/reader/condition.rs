//! Conditions of `if`: hosts, `defined`, `exec`, `named`.

use super::{Instance, variables::Variables};

/// The kinds of tests, in their order.
const KEYWORDS: [&str; 3] = ["defined", "exec", "named"];

/// Whether the condition `[HOST...] [defined ?VAR...] [&& exec PROGRAM...] [&& named NAME...]` holds. There is no `&&` after
/// the hosts. As in xrootd, the parts after the first one that does not hold are not examined.
pub(super) fn holds(words: &[String], instance: &Instance, variables: &Variables<'_>) -> Result<bool, String> {
    let hosts = words.iter().take_while(|word| rank(word).is_none()).count();
    let (hosts, tests) = words.split_at(hosts);
    if words.is_empty() {
        return Err(missing("if"));
    }
    if !hosts.is_empty() && !hosts.iter().any(|pattern| host_matches(&instance.host, pattern)) {
        return Ok(false);
    }
    if tests.is_empty() {
        return Ok(true);
    }
    let mut least = 0;
    for test in tests.split(|word| word == "&&") {
        let (keyword, names) = test.split_first().ok_or_else(|| missing("&&"))?;
        let rank = rank(keyword).filter(|&rank| rank >= least);
        // Only the first kind may be repeated.
        least = match rank.ok_or_else(|| unexpected(keyword))? {
            0 => 0,
            rank => rank + 1,
        };
        if names.is_empty() {
            return Err(missing(keyword));
        }
        let is_true = match keyword.as_str() {
            "defined" => is_any_defined(names, variables)?,
            "exec" => names.contains(&instance.program),
            _ => names.contains(&instance.name),
        };
        if !is_true {
            return Ok(false);
        }
    }
    Ok(true)
}

fn missing(word: &str) -> String {
    format!("nothing follows `{word}`")
}

fn unexpected(word: &str) -> String {
    format!("`{word}` may not stand there")
}

fn rank(word: &str) -> Option<usize> {
    KEYWORDS.iter().position(|keyword| *keyword == word)
}

/// Whether one of `?NAME` (a variable) or `?~NAME` (one of the environment) is defined.
fn is_any_defined(names: &[String], variables: &Variables<'_>) -> Result<bool, String> {
    names.iter().try_fold(false, |is_defined, name| {
        let name = name.strip_prefix('?').ok_or_else(|| unexpected(name))?;
        let is_this = match name.strip_prefix('~') {
            Some(name) => variables.environment(name).is_some(),
            None => variables.variable(name).is_some(),
        };
        Ok(is_defined || is_this)
    })
}

/// Whether `host` is `pattern`, in which the first `*` stands for any letters. A `+` at the end asks xrootd to look the
/// name up; here the name itself is compared.
pub(super) fn host_matches(host: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((head, tail)) => host.len() >= head.len() + tail.len() && host.starts_with(head) && host.ends_with(tail),
        None => host == pattern || pattern.strip_suffix('+') == Some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Sandbox;

    fn evaluate(text: &str) -> Result<bool, String> {
        let sandbox = Sandbox::default().with("$HOME", "/root");
        let mut variables = Variables::new(&sandbox);
        variables.assign(false, &["a".to_owned(), "=1".to_owned()]).unwrap();
        let instance = Instance { host: "xc1.site.org".into(), name: "atlas".into(), program: "xrootd".into() };
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        holds(&words, &instance, &variables)
    }

    #[test]
    fn hosts_programs_names_and_variables_are_compared() {
        for text in [
            "xc1.site.org",
            "other xc*.site.org",
            "*",
            "xc1.site.org+",
            "exec cmsd xrootd",
            "named cms atlas",
            "xc* exec xrootd && named atlas",
            "defined ?b ?a",
            "defined ?~HOME && defined ?a && exec xrootd && named atlas",
            "xc* named atlas",
        ] {
            assert_eq!(evaluate(text), Ok(true), "{text}");
        }
        for text in [
            "xc1.site",
            "xc1.site.org*.org",
            "exec cmsd",
            "named cms",
            "exec xrootd && named cms",
            "defined ?b",
            "defined ?HOME ?~NONE",
            "other exec",
        ] {
            assert_eq!(evaluate(text), Ok(false), "{text}");
        }
    }

    #[test]
    fn conditions_of_another_form_are_errors() {
        for text in [
            "",
            "exec",
            "named",
            "defined",
            "defined a",
            "exec xrootd &&",
            "exec xrootd && xc*",
            "named atlas && exec xrootd",
            "exec xrootd && exec xrootd",
        ] {
            assert!(evaluate(text).is_err(), "{text}");
        }
    }
}
