//! The form in which settings are declared: once, for the parser, the example file, the reference and the flags.

use crate::value::{Fault, found};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Mistakes in names and in the form of tables.
#[derive(Default)]
pub(crate) struct Mistakes {
    pub(crate) faults: Vec<Fault>,
    pub(crate) unknown: Vec<Unknown>,
}

/// A name that no setting or table has.
pub(crate) struct Unknown {
    /// `None` outside of all tables.
    pub(crate) section: Option<Section>,
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
}

/// One table of the configuration file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) settings: &'static [Setting],
    /// Whether the table can be repeated, as `[[export]]`.
    pub(crate) is_list: bool,
}

impl Section {
    /// As in the file.
    pub(crate) fn header(&self) -> String {
        if self.is_list { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }

    /// The tables of this name, each with its place. Notes values of another type, and a list in place of one table or the reverse.
    pub(crate) fn tables<'i>(
        &self,
        toml: Spanned<DeValue<'i>>,
        mistakes: &mut Mistakes,
    ) -> Vec<(Range<usize>, DeTable<'i>)> {
        let (span, header) = (toml.span(), self.header());
        let elements: Vec<_> = match toml.into_inner() {
            DeValue::Array(list) if self.is_list => list.into_iter().collect(),
            DeValue::Array(list) => {
                mistakes.faults.push((span, format!("`{}` cannot be repeated: write {header}", self.name)));
                list.into_iter().collect()
            }
            DeValue::Table(table) if self.is_list => {
                mistakes.faults.push((span.clone(), format!("`{}` is a list of tables: write {header}", self.name)));
                vec![Spanned::new(span, DeValue::Table(table))]
            }
            other => vec![Spanned::new(span, other)],
        };
        let table = |element: Spanned<DeValue<'i>>| {
            let span = element.span();
            match element.into_inner() {
                DeValue::Table(table) => Some((span, table)),
                other => {
                    mistakes.faults.push((span, format!("{} is not a table: write {header}", found(&other))));
                    None
                }
            }
        };
        elements.into_iter().filter_map(table).collect()
    }
}

/// One key of a table.
#[derive(Debug)]
pub(crate) struct Setting {
    /// `table.key`.
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    pub(crate) doc: &'static [&'static str],
    /// The form of its value in a word.
    pub(crate) kind: fn() -> String,
    pub(crate) range: fn() -> Option<String>,
    pub(crate) is_list: bool,
    pub(crate) value: Value,
}

/// Values of a setting in documents, in TOML, and the ways to set it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    /// Used if the file does not set it.
    pub(crate) default: Option<&'static str>,
    /// Set in the example file.
    pub(crate) example: Option<&'static str>,
    /// Shown commented out in the example file if there is no default.
    pub(crate) sample: Option<&'static str>,
    /// The flag of `forebay serve`.
    pub(crate) flag: Option<&'static str>,
    /// Whether a reload of the file applies a change; others need a restart.
    pub(crate) is_live: bool,
}

impl Value {
    pub(crate) const fn default(toml: &'static str) -> Self {
        Self { default: Some(toml), ..Self::none() }
    }

    /// A setting without a default: off, empty, or derived from others.
    pub(crate) const fn none() -> Self {
        Self { default: None, example: None, sample: None, flag: None, is_live: false }
    }

    /// A right value, for messages.
    pub(crate) fn shown(&self) -> &'static str {
        self.example.or(self.sample).or(self.default).unwrap_or_default()
    }

    pub(crate) const fn example(self, toml: &'static str) -> Self {
        Self { example: Some(toml), ..self }
    }

    pub(crate) const fn sample(self, toml: &'static str) -> Self {
        Self { sample: Some(toml), ..self }
    }

    pub(crate) const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    pub(crate) const fn live(self) -> Self {
        Self { is_live: true, ..self }
    }
}

/// A setting that the file has.
pub(crate) struct Written<'a> {
    /// `table.key`, or `table[0].key` in a list.
    pub(crate) name: String,
    pub(crate) span: &'a Range<usize>,
    pub(crate) faults: &'a [Fault],
}

/// A table, or a list of tables.
pub(crate) trait Table: Sized {
    const SECTION: Section;

    /// Reads the value of the table's name; notes unknown keys and wrong types.
    fn read(toml: Spanned<DeValue<'_>>, mistakes: &mut Mistakes) -> Self;

    /// All settings that the file has, each under its name in the declaration.
    fn written(&self) -> Vec<Written<'_>>;
}

impl<T: Table> Table for Vec<Spanned<T>> {
    const SECTION: Section = Section { is_list: true, ..T::SECTION };

    fn read(toml: Spanned<DeValue<'_>>, mistakes: &mut Mistakes) -> Self {
        let tables = Self::SECTION.tables(toml, mistakes).into_iter();
        let table = |(span, table): (Range<usize>, _)| {
            Spanned::new(span.clone(), T::read(Spanned::new(span, DeValue::Table(table)), mistakes))
        };
        tables.map(table).collect()
    }

    fn written(&self) -> Vec<Written<'_>> {
        let list = T::SECTION.name;
        let numbered = self.iter().enumerate().flat_map(|(index, table)| {
            let name = move |name: &str| name.replacen(list, &format!("{list}[{index}]"), 1);
            table.get_ref().written().into_iter().map(move |setting| Written { name: name(&setting.name), ..setting })
        });
        numbered.collect()
    }
}

/// Declares a table: the struct with its settings, the [`Section`] that documents it, and for each setting with `=> path` that
/// its value overwrites that field of the target.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $name:literal $raw:ident => $target:ty {
            $( $(#[doc = $doc:literal])+ $key:ident: $form:ty $(=> $($path:ident).+)? = $value:expr, )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Default)]
        pub(crate) struct $raw {
            $( pub(crate) $key: $crate::value::Field<$form>, )+
        }

        impl $raw {
            pub(crate) fn apply(&self, target: &mut $target) {
                $( $( self.$key.store(&mut target.$($path).+, $value.default); )? )+
            }
        }

        impl $crate::file::declare::Table for $raw {
            const SECTION: $crate::file::declare::Section = $crate::file::declare::Section {
                name: $name,
                doc: &[$($section_doc),+],
                settings: &[$(
                    $crate::file::declare::Setting {
                        name: concat!($name, ".", stringify!($key)),
                        key: stringify!($key),
                        doc: &[$($doc),+],
                        kind: <$form as $crate::value::Form>::kind,
                        range: <$form as $crate::value::Form>::range,
                        is_list: <$form as $crate::value::Form>::IS_LIST,
                        value: $value,
                    }
                ),+],
                is_list: false,
            };

            fn read(toml: toml::Spanned<toml::de::DeValue<'_>>, mistakes: &mut $crate::file::Mistakes) -> Self {
                let mut raw = Self::default();
                for (key, value) in Self::SECTION.tables(toml, mistakes).into_iter().flat_map(|(_, table)| table) {
                    match key.get_ref().as_ref() {
                        $( stringify!($key) => raw.$key = $crate::value::Field::read(value, $value.shown()), )+
                        _ => mistakes.unknown.push($crate::file::Unknown {
                            section: Some(Self::SECTION),
                            span: key.span(),
                            name: key.into_inner().into_owned(),
                        }),
                    }
                }
                raw
            }

            fn written(&self) -> Vec<$crate::file::declare::Written<'_>> {
                let mut written = Vec::new();
                $(
                    if let Some(span) = self.$key.span() {
                        let (name, faults) = (concat!($name, ".", stringify!($key)).to_owned(), self.$key.faults());
                        written.push($crate::file::declare::Written { name, span, faults });
                    }
                )+
                written
            }
        }
    };
}

pub(crate) use section;
