//! Lists of tokens and of directives in the values of fields.

/// The elements of a list, without the blanks around them and without empty ones.
pub fn tokens<'a>(values: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    values
        .flat_map(|value| value.split(','))
        .map(|token| token.trim_matches([' ', '\t']))
        .filter(|token| !token.is_empty())
}

/// Whether one of `values` lists `token`, in any case.
pub fn has_token<'a>(values: impl Iterator<Item = &'a str>, token: &str) -> bool {
    tokens(values).any(|listed| listed.eq_ignore_ascii_case(token))
}

/// Whether a directive with this name, and with this value if one is given, is listed: `max-age=0`, `no-cache`.
pub fn has_directive<'a>(values: impl Iterator<Item = &'a str>, name: &str, value: Option<&str>) -> bool {
    tokens(values).any(|directive| {
        let (listed, given) = directive.split_once('=').map_or((directive, None), |(name, value)| (name, Some(value)));
        listed.trim_end().eq_ignore_ascii_case(name)
            && value.is_none_or(|value| given.is_some_and(|given| given.trim().trim_matches('"') == value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_whatever_their_case_and_blanks() {
        let list = || ["Keep-Alive , close", " ,x"].into_iter();
        assert!(has_token(list(), "CLOSE") && has_token(list(), "keep-alive") && !has_token(list(), "clos"));
        assert_eq!(tokens(list()).collect::<Vec<_>>(), ["Keep-Alive", "close", "x"]);
    }

    #[test]
    fn directives_are_found_by_name_and_value() {
        let list = || ["no-store, Max-Age=\"0\", only-if-cached"].into_iter();
        assert!(has_directive(list(), "max-age", Some("0")) && has_directive(list(), "max-age", None));
        assert!(!has_directive(list(), "max-age", Some("10")) && !has_directive(list(), "no-cache", None));
        assert!(has_directive(list(), "Only-If-Cached", None) && !has_directive(list(), "no-store", Some("1")));
    }
}
