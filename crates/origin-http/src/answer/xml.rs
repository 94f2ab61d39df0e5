//! References in XML.

/// The text of a reference: one of the five of XML, or a character by its number.
pub(super) fn reference(name: &str) -> Result<String, String> {
    let predefined = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    };
    let numbered = || {
        let number = name.strip_prefix('#')?;
        let code = match number.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        char::from_u32(code)
    };
    predefined.or_else(numbered).map(String::from).ok_or_else(|| format!("it has the unknown entity `{name}`"))
}
