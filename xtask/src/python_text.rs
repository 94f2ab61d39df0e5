//! Python source split at the comment sign, line by line.

use crate::rust_text::Line;

/// Splits each line into code (with the contents of short strings left out) and comment. A string over several lines
/// counts as code: nothing that a rule looks for is usual there.
pub(crate) fn split(text: &str) -> Vec<Line> {
    text.lines().map(split_line).collect()
}

fn split_line(line: &str) -> Line {
    let mut code = String::new();
    let mut quote = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match quote {
            Some(_) if c == '\\' => {
                chars.next();
            }
            Some(open) => {
                if c == open {
                    quote = None;
                    code.push(c);
                }
            }
            None if c == '#' => {
                return Line { code, comment: line.get(at..).unwrap_or_default().to_owned() };
            }
            None => {
                if c == '"' || c == '\'' {
                    quote = Some(c);
                }
                code.push(c);
            }
        }
    }
    Line { code, comment: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_kept_apart() {
        let line = split_line(r##"run("a # \" b")  # why"##);
        assert_eq!(line.code, r#"run("")  "#);
        assert_eq!(line.comment, "# why");
    }
}
