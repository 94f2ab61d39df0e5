//! The types of TOML values.

use toml::de::DeValue;

/// A type that a value of the file has.
pub(crate) trait TomlType: Sized {
    /// With its article, for messages.
    const NAME: &str;

    /// `None` if the value has another type.
    fn from_toml(value: &DeValue<'_>) -> Option<Self>;
}

impl TomlType for String {
    const NAME: &str = "a text";

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl TomlType for u64 {
    const NAME: &str = "a whole number from 0";

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        value.as_integer().and_then(|number| Self::from_str_radix(number.as_str(), number.radix()).ok())
    }
}

impl TomlType for f64 {
    const NAME: &str = "a number";

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_float().map(|number| number.as_str());
        text.or_else(|| value.as_integer().map(|number| number.as_str()))?.parse().ok()
    }
}

impl TomlType for bool {
    const NAME: &str = "`true` or `false`";

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool()
    }
}

/// The fault of a value that is not of type `T`; the `sample` is a right value.
pub(crate) fn wrong_type<T: TomlType>(value: &DeValue<'_>, sample: &str) -> String {
    format!("{} is not {}: write it as in `{sample}`", found(value), T::NAME)
}

/// A value, or its type, as the beginning of a sentence.
pub(crate) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::String(text) if text.len() <= SHOWN_LEN_MAX => format!("\"{}\"", text.escape_default()),
        DeValue::String(_) => "a text".to_owned(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Longest text in bytes that a message repeats.
const SHOWN_LEN_MAX: usize = 60;
