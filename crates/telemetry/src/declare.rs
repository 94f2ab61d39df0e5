//! The declaration of metrics: one line gives a metric its field, its methods and its place in the exposition.

/// Declares counters and gauges, each as
/// `field[label: Kind] = "name" (Unit), "help" => adder(amount);`.
///
/// The name lacks unit and `_total`. Label, unit and adder may be missing. The field is private, its getter has its name. The
/// adder counts 1, or the argument whose name stands in its parentheses; either is one relaxed atomic addition.
macro_rules! declare_metrics {
    (
        counters {$(
            $counter:ident $([$label:ident: $kind:ident])? = $name:literal $(($unit:ident))?, $help:literal
                $(=> $vis:vis $add:ident($amount:tt))?;
        )+}
        gauges {$(
            $gauge:ident = $gauge_name:literal $(($gauge_unit:ident))?, $gauge_help:literal;
        )+}
    ) => {
        /// The values of all metrics.
        #[derive(Debug, Default)]
        pub(crate) struct Values {
            $($counter: counter_type!($($kind)?),)+
            $($gauge: AtomicU64,)+
            pub(crate) others: Others,
        }

        impl Values {
            /// Writes the declared metrics.
            pub(crate) fn encode_declared(&self, page: &mut Page<'_, '_>) -> fmt::Result {
                $({
                    let family = Family::new($name, [$(Unit::$unit)?], $help);
                    page.counters(family, counter_series!(self.$counter $(, $label: $kind)?))?;
                })+
                $({
                    let family = Family::new($gauge_name, [$(Unit::$gauge_unit)?], $gauge_help);
                    page.gauges(family, [([], self.$gauge.load(Relaxed))])?;
                })+
                Ok(())
            }
        }

        $(counter_methods!($counter $([$label: $kind])?, $help $(=> $vis $add($amount))?);)+

        impl Metrics {$(
            #[doc = $gauge_help]
            #[must_use]
            pub fn $gauge(&self) -> u64 {
                self.0.$gauge.load(Relaxed)
            }
        )+}
    };
}

/// The type of a counter's field.
macro_rules! counter_type {
    () => { AtomicU64 };
    ($kind:ident) => { PerLabel<AtomicU64, { <$kind as Label>::ALL.len() }> };
}

/// The series of a counter: its labels and its value.
macro_rules! counter_series {
    ($counter:expr) => {
        [([], $counter.load(Relaxed))]
    };
    ($counter:expr, $label:ident: $kind:ident) => {
        <$kind as Label>::ALL
            .iter()
            .map(|&value| ([(stringify!($label), value.text())], $counter.of(value).load(Relaxed)))
    };
}

/// The getter of a counter, and the method that adds to it.
macro_rules! counter_methods {
    ($counter:ident $([$label:ident: $kind:ident])?, $help:literal) => {
        impl Metrics {
            #[doc = $help]
            #[must_use]
            pub fn $counter(&self $(, $label: $kind)?) -> u64 {
                self.0.$counter$(.of::<$kind>($label))?.load(Relaxed)
            }
        }
    };
    ($counter:ident $([$label:ident: $kind:ident])?, $help:literal => $vis:vis $add:ident(1)) => {
        counter_methods!($counter $([$label: $kind])?, $help);
        impl Metrics {
            #[doc = concat!("Adds one to: ", $help)]
            $vis fn $add(&self $(, $label: $kind)?) {
                self.0.$counter$(.of::<$kind>($label))?.fetch_add(1, Relaxed);
            }
        }
    };
    ($counter:ident $([$label:ident: $kind:ident])?, $help:literal => $vis:vis $add:ident($amount:ident)) => {
        counter_methods!($counter $([$label: $kind])?, $help);
        impl Metrics {
            #[doc = concat!("Adds to: ", $help)]
            $vis fn $add(&self $(, $label: $kind)?, $amount: u64) {
                self.0.$counter$(.of::<$kind>($label))?.fetch_add($amount, Relaxed);
            }
        }
    };
}

pub(crate) use {counter_methods, counter_series, counter_type, declare_metrics};
