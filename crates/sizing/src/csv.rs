//! Lines of CSV: columns by their names in the first line.

use crate::columns::{Column, Scalar, Values};
use std::borrow::Cow;

/// Columns of a line at most.
pub const CSV_COLUMNS_MAX: usize = 256;

/// The first line of a file.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    delimiter: char,
    names: Vec<String>,
    columns: Vec<Option<Column>>,
}

impl Header {
    /// Reads the first line. Columns are separated by the first of comma, semicolon and tabulator that it has.
    ///
    /// # Errors
    /// The reason why it is not a header.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let delimiter = line.chars().find(|c| matches!(c, ',' | ';' | '\t')).unwrap_or(',');
        let names: Vec<String> =
            cells(line.trim_start_matches('\u{feff}'), delimiter)?.iter().map(|cell| cell.trim().to_owned()).collect();
        if names.len() > CSV_COLUMNS_MAX {
            return Err(format!("more than {CSV_COLUMNS_MAX} columns"));
        }
        let columns = names.iter().map(|name| Column::of(name)).collect();
        Ok(Self { delimiter, names, columns })
    }

    /// The names of all columns, in their order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The cells of a line, as many as the header has.
    ///
    /// # Errors
    /// The reason why it is not such a line.
    pub(crate) fn cells<'a>(&self, line: &'a str) -> Result<Vec<Cow<'a, str>>, String> {
        let cells = cells(line, self.delimiter)?;
        if cells.len() != self.names.len() {
            return Err(format!("{} columns where the first line has {}", cells.len(), self.names.len()));
        }
        Ok(cells)
    }

    /// The fields of a line.
    ///
    /// # Errors
    /// The reason why it is not such a line.
    pub(crate) fn values<'a>(&self, line: &'a str) -> Result<Values<'a>, String> {
        let mut values = Values::default();
        for (column, cell) in self.columns.iter().zip(self.cells(line)?) {
            match column {
                Some(column) if !cell.is_empty() => values.set(*column, Scalar::Text(cell)),
                _ => {}
            }
        }
        Ok(values)
    }
}

/// The cells of a line. Quoted ones may have delimiters and, doubled, quotes.
fn cells(line: &str, delimiter: char) -> Result<Vec<Cow<'_, str>>, String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(delimiter).unwrap_or(rest.len());
                let (cell, after) = rest.split_at(end);
                (Cow::Borrowed(cell), after)
            }
        };
        cells.push(cell);
        if after.is_empty() {
            return Ok(cells);
        }
        rest = after.strip_prefix(delimiter).ok_or("text after a closing quote")?;
    }
}

/// The contents of a quoted cell, and the text after its closing quote.
fn quoted_cell(text: &str) -> Result<(Cow<'_, str>, &str), String> {
    let mut from = 0;
    loop {
        let at = text.get(from..).and_then(|rest| rest.find('"')).ok_or("a quote is not closed")? + from;
        let (inside, after) = (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
        if after.starts_with('"') {
            from = at + 2;
            continue;
        }
        let is_plain = !inside.contains('"');
        return Ok((if is_plain { Cow::Borrowed(inside) } else { Cow::Owned(inside.replace("\"\"", "\"")) }, after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Field;

    #[test]
    fn cells_are_split_as_spreadsheets_write_them() {
        let split = |line| cells(line, ',').map(|cells| cells.join("|"));
        for (line, parts) in [
            ("a,b,c", "a|b|c"),
            ("a,,", "a||"),
            (r#""a,1","b ""x""",c"#, r#"a,1|b "x"|c"#),
            (r#""""#, ""),
            ("ü,é", "ü|é"),
        ] {
            assert_eq!(split(line).as_deref(), Ok(parts), "{line}");
        }
        for line in [r#""a"#, r#""a"b,c"#, r#""a"""#] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    #[test]
    fn columns_are_known_by_name_and_the_preferred_one_counts() {
        let header = Header::parse("\u{feff}end_time; lfn ;time;unknown;size").unwrap();
        let values = header.values("1;/a;2;x;").unwrap();
        assert_eq!((values.text(Field::Time), values.text(Field::Path)), (Some("2"), Some("/a")));
        assert_eq!(values.get(Field::Size), None);
        assert!(header.values("1;/a").is_err());
        assert!(Header::parse(&"a,".repeat(CSV_COLUMNS_MAX - 1)).is_ok());
        assert!(Header::parse(&"a,".repeat(CSV_COLUMNS_MAX)).is_err());
    }
}
