//! One setting of a file, and lists of texts.

use super::toml_type::{TomlType, wrong_type};
use std::{marker::PhantomData, ops::Range};
use toml::{Spanned, de::DeValue};

/// A sentence about a range of bytes of the file.
pub(crate) type Fault = (Range<usize>, String);

/// A form of value that is one TOML value, and right or wrong as a whole.
pub(crate) trait Parse {
    type Toml: TomlType;
    type Value: Clone;

    /// The form in a word, for the reference.
    fn kind() -> String;

    /// The limits, where they are less than all values of the kind.
    fn range() -> Option<String> {
        None
    }

    /// # Errors
    /// Gives the reason and the remedy.
    fn parse(toml: Self::Toml) -> Result<Self::Value, String>;
}

/// A form of value. Lists have a fault for each wrong element; all other forms are [`Parse`].
pub(crate) trait Form {
    type Value: Clone;

    /// As [`Parse::kind`], for all forms.
    fn kind() -> String;

    /// As [`Parse::range`], for all forms.
    fn range() -> Option<String>;

    const IS_LIST: bool = false;

    /// The value, unless it is wrong; notes faults. The `sample` is a right one, for messages.
    fn read(toml: Spanned<DeValue<'_>>, sample: &str, faults: &mut Vec<Fault>) -> Option<Self::Value>;
}

impl<P: Parse> Form for P {
    type Value = P::Value;

    fn kind() -> String {
        P::kind()
    }

    fn range() -> Option<String> {
        P::range()
    }

    fn read(toml: Spanned<DeValue<'_>>, sample: &str, faults: &mut Vec<Fault>) -> Option<P::Value> {
        let span = toml.span();
        let typed = P::Toml::from_toml(toml.get_ref()).ok_or_else(|| wrong_type::<P::Toml>(toml.get_ref(), sample));
        typed.and_then(P::parse).map_err(|text| faults.push((span, text))).ok()
    }
}

/// A setting as the file has it: absent, wrong, or with a value. A wrong value does not end the reading of the file, so that
/// one run reports all faults.
pub(crate) struct Field<F: Form> {
    span: Option<Range<usize>>,
    value: Option<F::Value>,
    faults: Vec<Fault>,
}

impl<F: Form> Field<F> {
    /// The `sample` is a right value, for messages.
    pub(crate) fn read(toml: Spanned<DeValue<'_>>, sample: &str) -> Self {
        let mut faults = Vec::new();
        Self { span: Some(toml.span()), value: F::read(toml, sample, &mut faults), faults }
    }

    /// Where the value is, right or wrong; `None` if the setting is absent.
    pub(crate) const fn span(&self) -> Option<&Range<usize>> {
        self.span.as_ref()
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.span.is_some()
    }

    pub(crate) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The value; `None` if it is absent or wrong.
    pub(crate) const fn get(&self) -> Option<&F::Value> {
        self.value.as_ref()
    }

    pub(crate) fn value(&self) -> Option<F::Value> {
        self.value.clone()
    }

    /// Overwrites the target with the value, if there is one, otherwise with the default in TOML, if there is one.
    pub(crate) fn store<T: From<F::Value>>(&self, target: &mut T, default: Option<&str>) {
        let default = || Self::read(DeValue::parse(default?).ok()?, "").value;
        if let Some(value) = self.value().or_else(default) {
            *target = T::from(value);
        }
    }
}

impl<F: Form> Default for Field<F> {
    fn default() -> Self {
        Self { span: None, value: None, faults: Vec::new() }
    }
}

/// A list of `MIN` to `MAX` elements of one form, or a single element. Wrong elements are left out, each with a fault at its own
/// place.
pub(crate) struct List<F, const MIN: usize = 0, const MAX: usize = { usize::MAX }>(PhantomData<F>);

impl<F: Parse<Toml = String>, const MIN: usize, const MAX: usize> Form for List<F, MIN, MAX> {
    type Value = Vec<F::Value>;

    const IS_LIST: bool = true;

    fn kind() -> String {
        format!("list: {}", F::kind())
    }

    fn range() -> Option<String> {
        let count = match (MIN, MAX) {
            (0, usize::MAX) => return F::range(),
            (0, max) => format!("at most {max}"),
            (min, usize::MAX) => format!("{min} or more"),
            (min, max) => format!("{min} to {max}"),
        };
        Some(format!("{count} elements"))
    }

    fn read(toml: Spanned<DeValue<'_>>, sample: &str, faults: &mut Vec<Fault>) -> Option<Self::Value> {
        let span = toml.span();
        let elements: Vec<_> = match toml.into_inner() {
            DeValue::Array(list) => list.into_iter().collect(),
            single => vec![Spanned::new(span.clone(), single)],
        };
        let count = elements.len();
        if !(MIN..=MAX).contains(&count) {
            faults.push((span, format!("{count} elements: write {}", Self::range().unwrap_or_default())));
        }
        Some(elements.into_iter().filter_map(|element| F::read(element, sample, faults)).collect())
    }
}
