//! Files that directives name: one entry per line.

use crate::reader::{Found, Machine};

/// Longest list in bytes, and most entries of it.
const LIST_LEN_MAX: usize = 1 << 20;
const ENTRIES_MAX: usize = 1000;

/// The text of the file at `path`.
///
/// # Errors
/// Says why there is none.
pub(super) fn read_text(path: &str, machine: &dyn Machine) -> Result<String, String> {
    let bytes = match machine.find(path) {
        Ok(Found::File(bytes)) => bytes,
        Ok(Found::Directory(_)) => return Err(format!("{path} is a directory")),
        Ok(Found::Nothing) => return Err(format!("{path} does not exist")),
        Err(reason) => return Err(format!("{path} cannot be read: {reason}")),
    };
    if bytes.len() > LIST_LEN_MAX {
        return Err(format!("{path} is longer than {LIST_LEN_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8"))
}

/// The lines of the list at `path` that hold something.
///
/// # Errors
/// Says why there are none.
pub(super) fn read_list(path: &str, machine: &dyn Machine) -> Result<Vec<String>, String> {
    let text = read_text(path, machine)?;
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if lines.len() > ENTRIES_MAX {
        return Err(format!("{path} has more than {ENTRIES_MAX} entries"));
    }
    Ok(lines)
}

/// A pattern of paths as shells have them (no `*` or `?` takes a slash), in our terms; `None` where those have no word for
/// it.
pub(super) fn path_pattern(shell: &str) -> Option<String> {
    // Every path begins with a slash, which no star takes.
    if !shell.starts_with('/') || shell.contains(['[', ']', '\\']) || shell.chars().any(char::is_control) {
        return None;
    }
    let mut pattern = String::new();
    for letter in shell.chars() {
        if letter != '*' || !pattern.ends_with('*') {
            pattern.push(letter);
        }
    }
    (pattern.matches('*').count() <= STARS_MAX).then_some(pattern)
}

/// Most stars in a pattern of a rule.
const STARS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Sandbox;

    #[test]
    fn lists_are_read_line_by_line() {
        let sandbox = Sandbox::default().with("/l", "\n /a \n\n/b*\r\n");
        assert_eq!(read_list("/l", &sandbox).unwrap(), ["/a", "/b*"]);
        for path in ["/none", "/"] {
            assert!(read_list(path, &sandbox).is_err(), "{path}");
        }
        let long = |lines| Sandbox::default().with("/l", &"/a\n".repeat(lines));
        assert_eq!(read_list("/l", &long(ENTRIES_MAX)).unwrap().len(), ENTRIES_MAX);
        assert!(read_list("/l", &long(ENTRIES_MAX + 1)).is_err());
        assert!(read_list("/l", &Sandbox::default().with("/l", &" ".repeat(LIST_LEN_MAX + 1))).is_err());
    }

    #[test]
    fn patterns_of_shells_are_said_in_our_terms() {
        for (shell, pattern) in [("/a/*.root", "/a/*.root"), ("/a/**/b?", "/a/*/b?"), ("/a", "/a")] {
            assert_eq!(path_pattern(shell).as_deref(), Some(pattern), "{shell}");
        }
        for shell in ["", "a/b", "*", "/[ab]", "/a\\*", &format!("/{}", "a*".repeat(17))] {
            assert_eq!(path_pattern(shell), None, "{shell}");
        }
    }
}
