//! Lists of texts.

use super::field::{Fault, Form, Parse};
use std::marker::PhantomData;
use toml::Spanned;

/// A list of `MIN` to `MAX` elements of one form. Wrong elements are left out, each with a fault at its own place.
pub(crate) struct List<F, const MIN: usize = 0, const MAX: usize = { usize::MAX }>(PhantomData<F>);

impl<F: Parse<Toml = String>, const MIN: usize, const MAX: usize> Form for List<F, MIN, MAX> {
    type Toml = Vec<Spanned<String>>;
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

    fn read(toml: Spanned<Self::Toml>, faults: &mut Vec<Fault>) -> Option<Self::Value> {
        let count = toml.get_ref().len();
        if !(MIN..=MAX).contains(&count) {
            faults.push((toml.span(), format!("{count} elements: write {}", Self::range().unwrap_or_default())));
        }
        Some(toml.into_inner().into_iter().filter_map(|element| F::read(element, faults)).collect())
    }
}
