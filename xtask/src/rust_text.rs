//! Rust source split into code and comments, line by line.
//!
//! Just enough of a lexer that a rule about code is not triggered by a string, nor one about comments by code.

/// One line: its code with the contents of literals left out, and its comments.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Line {
    pub(crate) code: String,
    pub(crate) comment: String,
}

/// Where the lexer is.
#[derive(Clone, Copy, Debug)]
enum State {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment {
        depth: usize,
    },
    Text,
    RawText {
        hashes: usize,
    },
}

/// Splits `text` into lines of code and comments.
pub(crate) fn split(text: &str) -> Vec<Line> {
    let mut splitter = Splitter { rest: text, state: State::Code, lines: vec![Line::default()] };
    while splitter.step() {}
    if text.ends_with('\n') {
        splitter.lines.pop();
    }
    splitter.lines
}

struct Splitter<'t> {
    rest: &'t str,
    state: State,
    lines: Vec<Line>,
}

impl Splitter<'_> {
    /// Takes the next piece of text; false at the end.
    fn step(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        if self.rest.starts_with('\n') {
            if matches!(self.state, State::LineComment) {
                self.state = State::Code;
            }
            self.skip(1);
            self.lines.push(Line::default());
            return true;
        }
        match self.state {
            State::Code => self.step_code(),
            State::LineComment => self.take_comment(1),
            State::BlockComment { depth } => self.step_block_comment(depth),
            State::Text => match self.rest.as_bytes() {
                [b'\\', next, ..] if *next != b'\n' => self.skip(1 + self.char_len_at(1)),
                [b'"', ..] => self.leave_text(1),
                _ => self.skip(self.char_len_at(0)),
            },
            State::RawText { hashes } => {
                let end = format!("\"{}", "#".repeat(hashes));
                if self.rest.starts_with(&end) {
                    self.leave_text(end.len());
                } else {
                    self.skip(self.char_len_at(0));
                }
            }
        }
        true
    }

    fn step_code(&mut self) {
        if self.rest.starts_with("//") {
            self.state = State::LineComment;
            self.take_comment(2);
        } else if self.rest.starts_with("/*") {
            self.state = State::BlockComment { depth: 1 };
            self.take_comment(2);
        } else if let Some(hashes) = self.raw_text_hashes() {
            self.state = State::RawText { hashes };
            self.take_code(2 + hashes);
        } else if self.rest.starts_with('"') {
            self.state = State::Text;
            self.take_code(1);
        } else if let Some(len) = char_literal_len(self.rest) {
            self.push_code("''");
            self.skip(len);
        } else {
            self.take_code(self.char_len_at(0));
        }
    }

    fn step_block_comment(&mut self, depth: usize) {
        if self.rest.starts_with("*/") {
            self.state = if depth == 1 { State::Code } else { State::BlockComment { depth: depth - 1 } };
            self.take_comment(2);
        } else if self.rest.starts_with("/*") {
            self.state = State::BlockComment { depth: depth + 1 };
            self.take_comment(2);
        } else {
            self.take_comment(self.char_len_at(0));
        }
    }

    /// Number of `#` when a raw string begins here (`r"`, `r#"`; the `b` or `c` before it is ordinary code).
    fn raw_text_hashes(&self) -> Option<usize> {
        let is_inside_word = self.line().code.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let is_prefixed = self.line().code.ends_with(['b', 'c']);
        if is_inside_word && !is_prefixed {
            return None;
        }
        let behind_r = self.rest.strip_prefix('r')?;
        let behind_hashes = behind_r.trim_start_matches('#');
        behind_hashes.starts_with('"').then_some(behind_r.len() - behind_hashes.len())
    }

    fn leave_text(&mut self, len: usize) {
        self.state = State::Code;
        self.push_code("\"");
        self.skip(len);
    }

    fn line(&self) -> &Line {
        self.lines.last().expect("split begins with one line and lines are only added")
    }

    fn push_code(&mut self, code: &str) {
        if let Some(line) = self.lines.last_mut() {
            line.code.push_str(code);
        }
    }

    fn take_code(&mut self, len: usize) {
        let taken = self.rest.get(..len).unwrap_or(self.rest);
        if let Some(line) = self.lines.last_mut() {
            line.code.push_str(taken);
        }
        self.skip(len);
    }

    fn take_comment(&mut self, len: usize) {
        let len = if len == 1 { self.char_len_at(0) } else { len };
        let taken = self.rest.get(..len).unwrap_or(self.rest);
        if let Some(line) = self.lines.last_mut() {
            line.comment.push_str(taken);
        }
        self.skip(len);
    }

    /// Length in bytes of the character at byte `at`, 0 behind the end.
    fn char_len_at(&self, at: usize) -> usize {
        self.rest.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
    }

    fn skip(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default();
    }
}

/// Length of the character literal that `rest` begins with; `None` for a lifetime or anything else.
fn char_literal_len(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    let content_len = if first == '\\' { 2 + inner.get(2..)?.find('\'')? } else { first.len_utf8() };
    inner.get(content_len..)?.starts_with('\'').then_some(content_len + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        split(text).into_iter().map(|line| line.code).collect::<Vec<_>>().join("\n")
    }

    fn comments(text: &str) -> String {
        split(text).into_iter().map(|line| line.comment).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn literals_lose_their_contents() {
        assert_eq!(code(r#"f("a // \" b", 1)"#), r#"f("", 1)"#);
        assert_eq!(code("f(r#\"a \" // b\"#) // c"), "f(r#\"\") ");
        assert_eq!(code("f(br\"a\\\", x)"), "f(br\"\", x)");
        assert_eq!(code(r"('\'', '\u{41}', '/', b'\\')"), "('', '', '', b'')");
        assert_eq!(code("\"one\ntwo\"; g()"), "\"\n\"; g()");
    }

    #[test]
    fn lifetimes_are_no_literals() {
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn comments_are_kept_apart() {
        assert_eq!(comments("x(); // why ü\ny();"), "// why ü\n");
        assert_eq!(code("a /* b /* c */ d\n e */ f"), "a \n f");
        assert_eq!(comments("a /* b /* c */ d\n e */ f"), "/* b /* c */ d\n e */");
    }

    #[test]
    fn there_is_one_line_per_line() {
        for (text, lines) in [("", 1), ("a", 1), ("a\n", 1), ("a\n\nb\n", 3)] {
            assert_eq!(split(text).len(), lines, "{text:?}");
        }
    }
}
