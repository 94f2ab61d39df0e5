//! Tables of text, with columns as wide as their longest cell.

use std::io::{self, Write};

/// Prints rows below their headings. The first `left` columns are aligned to the left, the others to the right.
pub(crate) fn print(out: &mut dyn Write, left: usize, headings: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|heading| heading.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line.push_str(if column == 0 { "  " } else { "   " });
            line.push_str(&if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        print(&mut out, 1, &["name", "n"], &[vec!["a".into(), "10".into()], vec!["büro x".into(), "1".into()]])
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name      n\n  a        10\n  büro x    1\n\n");
    }
}
