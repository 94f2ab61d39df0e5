//! The form in which settings are declared: once, for the parser, the example file, the reference and the flags.

/// One table of the configuration file.
#[derive(Debug)]
pub(crate) struct Section {
    /// Name of the table.
    pub(crate) name: &'static str,
    /// What the table is about, by line.
    pub(crate) doc: &'static [&'static str],
    /// Its keys.
    pub(crate) settings: &'static [Setting],
}

/// One key of a table.
#[derive(Debug)]
pub(crate) struct Setting {
    /// `table.key`.
    pub(crate) name: &'static str,
    /// The key alone.
    pub(crate) key: &'static str,
    /// What it means, by line.
    pub(crate) doc: &'static [&'static str],
    /// Its value when nothing is written, and where else it shows.
    pub(crate) value: Value,
}

/// What a setting is unless written, and where else it shows. Values are in TOML.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) default: Option<&'static str>,
    pub(crate) example: Option<&'static str>,
    pub(crate) sample: Option<&'static str>,
    pub(crate) flag: Option<&'static str>,
    pub(crate) takes_effect: TakesEffect,
}

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TakesEffect {
    /// When the server starts.
    AtStart,
    /// When the file is read again.
    AtReload,
}

impl Value {
    /// A setting with a default.
    pub(crate) const fn default(toml: &'static str) -> Self {
        Self { default: Some(toml), ..Self::none() }
    }

    /// A setting that is off, or empty, unless written.
    pub(crate) const fn none() -> Self {
        Self { default: None, example: None, sample: None, flag: None, takes_effect: TakesEffect::AtStart }
    }

    /// What the example file sets it to.
    pub(crate) const fn example(self, toml: &'static str) -> Self {
        Self { example: Some(toml), ..self }
    }

    /// What the example file shows, commented out, for want of a default.
    pub(crate) const fn sample(self, toml: &'static str) -> Self {
        Self { sample: Some(toml), ..self }
    }

    /// The flag that sets it when there is no file.
    pub(crate) const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    /// It takes effect when the file is read again.
    pub(crate) const fn live(self) -> Self {
        Self { takes_effect: TakesEffect::AtReload, ..self }
    }
}

/// Declares a table: the struct that serde fills, and the [`Section`] that documents it.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $name:literal $raw:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $value:expr, )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $raw {
            $( pub(crate) $key: Option<toml::Spanned<$type>>, )+
        }

        impl $raw {
            pub(crate) const SECTION: $crate::declare::Section = $crate::declare::Section {
                name: $name,
                doc: &[$($section_doc),+],
                settings: &[$(
                    $crate::declare::Setting {
                        name: concat!($name, ".", stringify!($key)),
                        key: stringify!($key),
                        doc: &[$($doc),+],
                        value: $value,
                    }
                ),+],
            };

            /// Where each setting that is written has its value, in bytes of the file.
            pub(crate) fn written(&self) -> Vec<(&'static str, std::ops::Range<usize>)> {
                let mut written = Vec::new();
                $(
                    if let Some(value) = &self.$key {
                        written.push((concat!($name, ".", stringify!($key)), value.span()));
                    }
                )+
                written
            }
        }
    };
}

pub(crate) use section;
