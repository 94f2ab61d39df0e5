//! Plain English: habits of speech and of code that are counted, and must not grow.
//!
//! Each area (a crate, a folder of documents) has a limit for each habit in `xtask/language.toml`; an area or habit that is
//! not listed there has the limit 0. `cargo xtask language` prints the counts, `cargo xtask language --accept` lowers
//! limits to them.

use crate::{finding::Finding, python_text, rust_text, sources::Source};
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeMap, fs, path::Path};

/// File with the limits.
pub(crate) const LIMITS: &str = "xtask/language.toml";

/// Counts by area and habit.
pub(crate) type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// A habit: its name in the table, and phrases that show it. A phrase matches whole words, whatever their case.
struct Habit {
    name: &'static str,
    phrases: &'static [&'static str],
    /// Longer phrases that hold one of those and are plain English.
    except: &'static [&'static str],
    instead: &'static str,
}

/// Words that the documentation of this field does not use.
const WORDS: &[Habit] = &[
    Habit {
        name: "tells",
        phrases: &["tells", "told", "tell", "telling"],
        except: &[],
        instead: "write reports, prints, returns, or is notified",
    },
    Habit {
        name: "somebody",
        phrases: &["somebody", "nobody", "everybody", "whoever"],
        except: &[],
        instead: "name the party: a client, no client, all clients",
    },
    Habit {
        name: "anew",
        phrases: &["anew", "amid", "beside", "thereby"],
        except: &[],
        instead: "write again, during, in parallel",
    },
    Habit { name: "as far as", phrases: &["as far as"], except: &[], instead: "write if, or the limit" },
    Habit {
        name: "unless written",
        phrases: &["unless written", "unless given"],
        except: &[],
        instead: "write `default: ...`",
    },
    Habit { name: "mended", phrases: &["mend", "mends", "mended"], except: &[], instead: "write fixed" },
    Habit {
        name: "leave",
        phrases: &["asks leave", "ask leave", "asked for leave", "gives leave", "the origin's leave"],
        except: &[],
        instead: "write authorization, authorize",
    },
    Habit {
        name: "goes on",
        phrases: &["goes on", "go on", "going on", "went on"],
        except: &[],
        instead: "write continues",
    },
    Habit {
        name: "is no",
        phrases: &["is no", "are no"],
        except: &["there is no", "there are no", "is no longer", "are no longer", "is no more than"],
        instead: "write `is not a`",
    },
];

/// Words that begin a sentence whose subject is a clause.
const CLAUSE_SUBJECTS: [&str; 3] = ["What ", "Who ", "Whoever "];

/// Words in a doc comment at most for it to be counted as one that repeats a name.
const SHORT_DOC_WORDS: usize = 3;

/// Counts the habits in every file that has an area.
pub(crate) fn count(sources: &[Source]) -> Counts {
    let mut counts = Counts::new();
    for source in sources {
        let Some(area) = area_of(&source.path) else { continue };
        let habits = counts.entry(area).or_default();
        for (_, habit) in occurrences(source) {
            *habits.entry(habit.to_owned()).or_default() += 1;
        }
    }
    counts.retain(|_, habits| !habits.is_empty());
    counts
}

/// Refuses areas in which a habit has grown.
pub(crate) fn check(sources: &[Source], limits: &Counts) -> Vec<Finding> {
    let limit = |area: &str, habit: &str| limits.get(area).and_then(|habits| habits.get(habit)).copied().unwrap_or(0);
    let mut findings = Vec::new();
    for (area, habits) in count(sources) {
        for (habit, found) in habits {
            let allowed = limit(&area, &habit);
            if found <= allowed {
                continue;
            }
            let places = places(sources, &area, &habit);
            let (path, line) = places.last().cloned().unwrap_or_default();
            findings.push(Finding {
                path,
                line,
                problem: format!("{area}: `{habit}` occurs {found} times, at most {allowed} are left from before"),
                remedy: remedy(&habit),
            });
        }
    }
    findings
}

/// Reads the limits.
pub(crate) fn read_limits(root: &Path) -> Result<Counts> {
    let text = fs::read_to_string(root.join(LIMITS)).with_context(|| format!("reading {LIMITS}"))?;
    toml::from_str(&text).with_context(|| format!("reading {LIMITS}"))
}

/// Lowers the limits to the counts.
///
/// # Errors
/// When a count is above its limit: limits are never raised.
pub(crate) fn accept(root: &Path, sources: &[Source], limits: &Counts) -> Result<()> {
    let findings = check(sources, limits);
    ensure!(findings.is_empty() || limits.is_empty(), "a count is above its limit: run `cargo xtask tidy`");
    let header = "# Occurrences left of habits that plain English avoids, by area. Limits fall and never rise:\n\
                  # `cargo xtask language --accept` lowers them to what is there.\n\n";
    let text = toml::to_string(&count(sources))?;
    fs::write(root.join(LIMITS), format!("{header}{text}")).with_context(|| format!("writing {LIMITS}"))
}

/// Every place of a habit in an area.
pub(crate) fn places(sources: &[Source], area: &str, habit: &str) -> Vec<(String, usize)> {
    let in_area = sources.iter().filter(|source| area_of(&source.path).as_deref() == Some(area));
    let of_source = |source: &Source| -> Vec<(String, usize)> {
        let found = occurrences(source).into_iter().filter(|(_, name)| *name == habit);
        found.map(|(line, _)| (source.path.clone(), line)).collect()
    };
    in_area.flat_map(of_source).collect()
}

fn remedy(habit: &str) -> &'static str {
    match habit {
        "clause subject" => "begin the sentence with its subject",
        "short doc" => "remove the comment, or say what the name does not",
        "filter as if" => "write `if`, `match` or `bool::then`",
        _ => WORDS.iter().find(|word| word.name == habit).map_or("", |word| word.instead),
    }
}

/// The area that a file counts for.
fn area_of(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()) {
        ("crates", Some(name)) => Some(format!("crates/{name}")),
        ("docs", Some("decisions")) => Some("docs/decisions".to_owned()),
        (folder @ ("docs" | "bench" | "python" | "tests" | "demo" | "deploy" | "plugin" | "xtask"), Some(_)) => {
            Some(folder.to_owned())
        }
        (file, None) if file.ends_with(".md") => Some("top".to_owned()),
        _ => None,
    }
}

/// Line and name of each habit in a file.
fn occurrences(source: &Source) -> Vec<(usize, &'static str)> {
    // This file and its limits name the words.
    if source.path == "xtask/src/language.rs" {
        return Vec::new();
    }
    match source.extension() {
        "rs" => in_rust(&source.text),
        "py" => in_python(&source.text),
        "md" => in_prose(&source.text),
        _ => Vec::new(),
    }
}

fn in_rust(text: &str) -> Vec<(usize, &'static str)> {
    let lines = rust_text::split(text);
    let mut found = Vec::new();
    let mut before = String::new();
    for (number, (line, raw)) in (1..).zip(lines.iter().zip(text.lines())) {
        let comment = line.comment.trim_start_matches(['/', '!', ' ']).trim();
        found.extend(speech(comment, &before, number));
        let is_doc = line.comment.starts_with("///");
        let ends_doc = |next: Option<&rust_text::Line>| next.is_none_or(|next| !next.comment.starts_with("///"));
        let is_single = is_doc && !is_comment(&before) && ends_doc(lines.get(number));
        if is_single && comment.split_whitespace().count() <= SHORT_DOC_WORDS {
            found.push((number, "short doc"));
        }
        if line.code.contains(".filter(|_| ") {
            found.push((number, "filter as if"));
        }
        // Texts that users read: string literals of more than one word.
        if line.comment.is_empty() && raw.contains('"') {
            for literal in literals(raw) {
                found.extend(speech(literal, "", number));
            }
        }
        before = if is_doc { line.comment.clone() } else { String::new() };
    }
    found
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//")
}

/// The contents of simple string literals of a line.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2).filter(|text| text.contains(' '))
}

fn in_python(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, (line, raw)) in (1..).zip(python_text::split(text).iter().zip(text.lines())) {
        found.extend(speech(line.comment.trim_start_matches(['#', ' ']), "", number));
        for literal in literals(raw) {
            found.extend(speech(literal, "", number));
        }
        if let Some(doc) = raw.trim_start().strip_prefix("\"\"\"") {
            found.extend(speech(doc, "", number));
        }
    }
    found
}

fn in_prose(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.extend(speech(line.trim_start_matches(['#', '-', '*', '|', '>', ' ']), "", number));
        }
    }
    found
}

/// Habits of speech in one line of text that follows `before`.
fn speech(text: &str, before: &str, number: usize) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let lower = text.to_lowercase();
    for habit in WORDS {
        let all: usize = habit.phrases.iter().map(|phrase| count_phrase(&lower, phrase)).sum();
        let fine: usize = habit.except.iter().map(|phrase| count_phrase(&lower, phrase)).sum();
        let times = all.saturating_sub(fine);
        found.extend(std::iter::repeat_n((number, habit.name), times));
    }
    let begins_sentence = before.is_empty() || before.trim_end().ends_with(['.', ':', '/']);
    for subject in CLAUSE_SUBJECTS {
        let at_start = usize::from(begins_sentence && text.starts_with(subject) && !text.trim_end().ends_with('?'));
        let within = text.match_indices(&format!(". {subject}")).count();
        found.extend(std::iter::repeat_n((number, "clause subject"), at_start + within));
    }
    found
}

/// Times that `phrase` stands in `text` as words of its own.
fn count_phrase(text: &str, phrase: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '`';
    text.match_indices(phrase)
        .filter(|(at, _)| {
            let before = text.get(..*at).unwrap_or_default();
            let after = text.get(at + phrase.len()..).unwrap_or_default();
            !before.ends_with(is_word) && !after.starts_with(is_word)
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn habits(path: &str, text: &str) -> Vec<&'static str> {
        occurrences(&source(path, text)).into_iter().map(|(_, habit)| habit).collect()
    }

    #[test]
    fn words_count_in_comments_texts_and_prose() {
        assert_eq!(habits("a.rs", "// Nobody reads it.\nlet tells = 1;\n"), ["somebody"]);
        assert_eq!(habits("a.rs", "let text = \"it was told twice\";\n"), ["tells"]);
        assert_eq!(habits("a.md", "It goes on.\n```\nit goes on\n```\n"), ["goes on"]);
        assert_eq!(habits("a.py", "x = 1  # made anew\n"), ["anew"]);
        assert!(habits("a.rs", "// `tell` is a command; storytelling.\n").is_empty());
    }

    #[test]
    fn sentences_begin_with_their_subject() {
        assert_eq!(habits("a.rs", "/// What is missing is fetched.\n"), ["clause subject"]);
        assert_eq!(habits("a.md", "It waits. Who leaves is forgotten.\n"), ["clause subject"]);
        assert!(habits("a.md", "What is missing?\n").is_empty());
        assert!(
            habits("a.rs", "/// It fetches\n/// What is missing.\n").is_empty(),
            "a line that continues a sentence"
        );
    }

    #[test]
    fn docs_that_repeat_a_name_count() {
        assert_eq!(habits("a.rs", "/// The server.\nserver: u8,\n"), ["short doc"]);
        assert!(habits("a.rs", "/// Offset in bytes of it.\nat: u64,\n").is_empty());
        assert!(habits("a.rs", "/// # Errors\n/// When the disk fails.\n").is_empty());
    }

    #[test]
    fn a_count_above_its_limit_is_refused() {
        let sources = [source("crates/x/src/a.rs", "// Nobody, nobody.\n")];
        let limits =
            |limit: usize| Counts::from([("crates/x".to_owned(), BTreeMap::from([("somebody".to_owned(), limit)]))]);
        assert!(check(&sources, &limits(2)).is_empty());
        assert_eq!(check(&sources, &limits(1)).len(), 1);
        assert_eq!(check(&sources, &Counts::new()).len(), 1);
    }
}
