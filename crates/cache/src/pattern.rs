//! Patterns of names and paths.

use forebay_types::{LFN_LEN_MAX, canonical_forwarded};
use std::fmt;

/// Most stars in a [`PathPattern`]: with them the work of a match grows.
const STARS_MAX: usize = 16;

/// A pattern of paths: `*` stands for any run of characters within a component, `?` for one of them, `**` for any run
/// across components, and `/**/` also for a single `/`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathPattern {
    text: String,
    tokens: Vec<Token>,
}

/// A text that is not a [`PathPattern`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathPatternError {
    #[error("`{pattern}` matches no path: begin it with / or **")]
    Start { pattern: String },
    #[error("`{pattern}` is longer than {LFN_LEN_MAX} bytes or has more than {STARS_MAX} stars")]
    TooLong { pattern: String },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token {
    Byte(u8),
    One,
    Run,
    Any,
    /// `**/` after a `/`: nothing, or any run that ends in `/`.
    Directories,
}

/// Where a star began to match, and where it may end next.
#[derive(Clone, Copy)]
struct Retry {
    /// The token after the star.
    token: usize,
    /// The first byte of the path after the part that the star stands for so far.
    at: usize,
}

impl PathPattern {
    /// # Errors
    /// See [`PathPatternError`].
    pub fn parse(pattern: &str) -> Result<Self, PathPatternError> {
        if !pattern.starts_with('/') && !pattern.starts_with("**") {
            return Err(PathPatternError::Start { pattern: pattern.to_owned() });
        }
        // Names of forwarded files have one spelling of the host, and so a rule for one holds for all.
        let canonical = canonical_forwarded(pattern);
        let tokens = tokens_of(canonical.as_bytes());
        let stars = tokens.iter().filter(|token| matches!(token, Token::Run | Token::Any | Token::Directories)).count();
        if pattern.len() > LFN_LEN_MAX || stars > STARS_MAX {
            return Err(PathPatternError::TooLong { pattern: pattern.chars().take(80).collect() });
        }
        Ok(Self { text: pattern.to_owned(), tokens })
    }

    /// Whether `path` (which begins with `/`) matches as a whole.
    pub fn matches(&self, path: &str) -> bool {
        let path = path.as_bytes();
        let (mut token, mut at) = (0, 0);
        // A later star takes over from earlier ones of its kind; `**` takes over from all.
        let (mut run, mut any): (Option<Retry>, Option<Retry>) = (None, None);
        loop {
            let is_matched = match (self.tokens.get(token), path.get(at)) {
                (None, None) => return true,
                (Some(Token::Run), _) => {
                    run = Some(Retry { token: token + 1, at });
                    token += 1;
                    continue;
                }
                (Some(Token::Any | Token::Directories), _) => {
                    (run, any) = (None, Some(Retry { token: token + 1, at }));
                    token += 1;
                    continue;
                }
                (Some(Token::One), Some(&byte)) => byte != b'/',
                (Some(Token::Byte(wanted)), Some(byte)) => wanted == byte,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if is_matched {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            if let Some(later) = run.and_then(|retry| later_in_component(path, retry)) {
                (run, token, at) = (Some(later), later.token, later.at);
            } else if let Some(later) = any.and_then(|retry| self.later_anywhere(path, retry)) {
                (run, any, token, at) = (None, Some(later), later.token, later.at);
            } else {
                return false;
            }
        }
    }

    /// A `**` made longer: by a byte, or, for whole directories, past the next `/`.
    fn later_anywhere(&self, path: &[u8], retry: Retry) -> Option<Retry> {
        let rest = path.get(retry.at..).filter(|rest| !rest.is_empty())?;
        let is_directories = self.tokens.get(retry.token.checked_sub(1)?) == Some(&Token::Directories);
        let step = if is_directories { rest.iter().position(|&byte| byte == b'/')? + 1 } else { 1 };
        Some(Retry { at: retry.at + step, ..retry })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A `*` made longer by a byte of its component.
fn later_in_component(path: &[u8], retry: Retry) -> Option<Retry> {
    path.get(retry.at).filter(|&&byte| byte != b'/')?;
    Some(Retry { at: retry.at + 1, ..retry })
}

fn tokens_of(mut pattern: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        let (token, rest) = match pattern {
            [b'*', b'*', b'/', rest @ ..] if tokens.last().is_none_or(|last| *last == Token::Byte(b'/')) => {
                (Token::Directories, rest)
            }
            [b'*', b'*', rest @ ..] => (Token::Any, rest),
            [b'*', rest @ ..] => (Token::Run, rest),
            [b'?', rest @ ..] => (Token::One, rest),
            [byte, rest @ ..] => (Token::Byte(*byte), rest),
            [] => return tokens,
        };
        tokens.push(token);
        pattern = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().matches(path)
    }

    #[test]
    fn stars_stay_in_their_component_and_double_stars_do_not() {
        for (pattern, path) in [
            ("/store/a", "/store/a"),
            ("/store/*", "/store/a"),
            ("/store/*.root", "/store/a.b.root"),
            ("/*/*/c", "/a/b/c"),
            ("/a?c", "/abc"),
            ("/**", "/"),
            ("/**", "/a/b"),
            ("**", "/a/b"),
            ("/store/**", "/store/a/b/c"),
            ("/store/**.root", "/store/a/b.root"),
            ("/store/**/x.root", "/store/x.root"),
            ("/store/**/x.root", "/store/a/b/x.root"),
            ("**/x.root", "/x.root"),
            ("/**/mc/*/x*y.root", "/store/mc/mc/2024/xxy.root"),
            ("/a*b/c*d", "/aXbb/ccdd"),
            ("/root:/*/user/**", "/root:/origin:1094/user/a/b"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/store/*", "/store/a/b"),
            ("/store/*", "/store"),
            ("/store/**", "/store"),
            ("/store/**", "/storeroom/a"),
            ("/store/*.root", "/store/a/b.root"),
            ("/a?c", "/a/c"),
            ("/a?", "/a"),
            ("/store/**/x.root", "/store/ax.root"),
            ("**/x.root", "/a/yx.root"),
            ("/a*b/c", "/aXb/d/b/c"),
            ("/store/a", "/store/ab"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn patterns_that_match_no_path_or_cost_too_much_are_refused() {
        assert!(matches!(PathPattern::parse("*.root"), Err(PathPatternError::Start { .. })));
        assert!(matches!(PathPattern::parse(""), Err(PathPatternError::Start { .. })));
        assert!(PathPattern::parse(&format!("/{}", "a*".repeat(STARS_MAX))).is_ok());
        assert!(PathPattern::parse(&format!("/{}", "a*".repeat(STARS_MAX + 1))).is_err());
        assert!(PathPattern::parse(&format!("/{}", "a".repeat(LFN_LEN_MAX))).is_err());
    }

    /// The meaning of a pattern, tried without any shortcut.
    fn tries(tokens: &[Token], path: &[u8]) -> bool {
        let Some((token, rest)) = tokens.split_first() else { return path.is_empty() };
        let mut ends = 0..=path.len();
        match token {
            Token::Byte(wanted) => path.first() == Some(wanted) && tries(rest, &path[1..]),
            Token::One => path.first().is_some_and(|byte| *byte != b'/') && tries(rest, &path[1..]),
            Token::Run => ends.any(|end| !path[..end].contains(&b'/') && tries(rest, &path[end..])),
            Token::Any => ends.any(|end| tries(rest, &path[end..])),
            Token::Directories => ends.any(|end| (end == 0 || path[end - 1] == b'/') && tries(rest, &path[end..])),
        }
    }

    proptest! {
        #[test]
        fn matching_equals_the_definition(pattern in "(/|\\*\\*)[ab/*?]{0,9}", path in "/[ab/]{0,9}") {
            let parsed = PathPattern::parse(&pattern).unwrap();
            prop_assert_eq!(parsed.matches(&path), tries(&parsed.tokens, path.as_bytes()), "{} {}", pattern, path);
        }
    }

    #[test]
    fn rules_hold_for_all_spellings_of_a_forwarded_host() {
        for pattern in
            ["/root:/localhost:1094/secret/**", "/root:/0177.1:1094/secret/**", "/root:/LOCALHOST.:*/secret/**"]
        {
            let pattern = PathPattern::parse(pattern).unwrap();
            for host in
                ["localhost", "LocalHost", "localhost.", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "017700000001"]
            {
                let lfn = forebay_types::Lfn::parse(&format!("/root://{host}:1094//secret/f")).unwrap();
                let name = crate::name_for_rules(&lfn).unwrap();
                assert!(pattern.matches(name.as_str()), "{pattern} {host}");
            }
        }
    }
}
