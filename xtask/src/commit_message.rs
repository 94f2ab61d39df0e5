//! Subjects of commits: an area, a verb in the imperative mood, and not too long.

/// Characters of a subject at most, so that it is not cut where logs are listed.
const SUBJECT_LEN_MAX: usize = 72;

/// Characters of an area at most.
const AREA_LEN_MAX: usize = 24;

/// Endings that the first word of a sentence in another mood has: `adds`, `added`, `adding`.
const OTHER_MOODS: [&str; 3] = ["s", "ed", "ing"];

/// Verbs in the imperative mood that have one of those endings.
const IMPERATIVES: [&str; 22] = [
    "access", "address", "assess", "bring", "bypass", "compress", "cross", "discuss", "dismiss", "embed", "express",
    "feed", "focus", "miss", "need", "pass", "press", "process", "seed", "speed", "string", "suppress",
];

/// Words that begin a subject which says what is, not what the commit does.
const NO_VERBS: [&str; 14] =
    ["a", "an", "the", "all", "each", "every", "it", "its", "no", "one", "some", "this", "we", "there"];

/// What is wrong with the subject of a message. Merges, reverts and fix-ups, which git writes, are free.
pub(crate) fn check(message: &str) -> Vec<String> {
    let mut lines = message.lines().filter(|line| !line.starts_with('#'));
    let subject = lines.next().unwrap_or_default();
    if ["Merge ", "Revert ", "fixup! ", "squash! "].iter().any(|start| subject.starts_with(start)) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let len = subject.chars().count();
    if len > SUBJECT_LEN_MAX {
        problems.push(format!("the subject has {len} characters; write at most {SUBJECT_LEN_MAX}"));
    }
    let Some((area, rest)) = subject.split_once(": ").filter(|(area, _)| is_area(area)) else {
        problems.push(
            "the subject has no area; write `area: verb ...`, for example `store: sync the directory`".to_owned(),
        );
        return problems;
    };
    let verb = rest.split_whitespace().next().unwrap_or_default();
    if !is_imperative(verb) {
        problems.push(format!(
            "`{verb}` after `{area}:` is not a verb in the imperative mood; write `add`, not `adds` or `added`"
        ));
    }
    if rest.ends_with('.') {
        problems.push("the subject ends with a full stop; leave it out".to_owned());
    }
    if lines.next().is_some_and(|line| !line.is_empty()) {
        problems.push("the line after the subject is not empty; separate subject and body".to_owned());
    }
    problems
}

fn is_area(area: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " -_./,".contains(c);
    !area.is_empty() && area.len() <= AREA_LEN_MAX && area.chars().all(is_name)
}

fn is_imperative(verb: &str) -> bool {
    let is_word = !verb.is_empty() && verb.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let has_other_mood = OTHER_MOODS.iter().any(|ending| verb.ends_with(ending)) && !IMPERATIVES.contains(&verb);
    is_word && !has_other_mood && !NO_VERBS.contains(&verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_subjects_pass() {
        for message in [
            "store: sync the directory after a rename",
            "engine, cache: pass the validator to the index\n\nWhy.\n",
            "# a comment of git\ndocs: describe the trace",
            "Merge branch 'main'",
            "fixup! store: sync",
        ] {
            assert!(check(message).is_empty(), "{message}: {:?}", check(message));
        }
    }

    #[test]
    fn each_fault_is_named() {
        for (message, part) in [
            ("Sync the directory", "no area"),
            ("store: syncs the directory", "imperative"),
            ("store: added a sync", "imperative"),
            ("store: syncing", "imperative"),
            ("store: the directory is synced", "imperative"),
            ("store: sync it.", "full stop"),
            ("store: sync it\nat once", "not empty"),
            ("", "no area"),
        ] {
            let problems = check(message);
            assert!(problems.iter().any(|problem| problem.contains(part)), "{message}: {problems:?}");
        }
        let subject = |len: usize| format!("store: {}", "x".repeat(len - "store: ".len()));
        assert!(check(&subject(SUBJECT_LEN_MAX)).is_empty());
        assert_eq!(check(&subject(SUBJECT_LEN_MAX + 1)).len(), 1);
    }
}
