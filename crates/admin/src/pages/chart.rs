//! Charts as SVG, which need no script. Where there is one, it replaces those of the history by live ones.

use super::format;
use forebay_telemetry::{Point, Range, Series};
use maud::{Markup, html};
use std::fmt::Write as _;

const WIDTH: f32 = 600.0;

const HEIGHT: f32 = 120.0;

const SAMPLE_S: f64 = 5.0;

const _: () = assert!(Range::Hour.step_s() == 5, "each sample is a point of the finest range");

/// The unit of the values of a chart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    BytesPerSecond,
    Bytes,
    Count,
    PerSecond,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::BytesPerSecond => "bytes/s",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::PerSecond => "per second",
        }
    }

    fn text(self, value: f32) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a label of an axis")]
        let whole = value.max(0.0) as u64;
        match self {
            Self::BytesPerSecond => format::rate(f64::from(value)),
            Self::Bytes => format::bytes(whole),
            Self::Count => format::count(whole),
            Self::PerSecond => format!("{value:.2}/s"),
        }
    }
}

/// A chart of some series of the history.
pub(super) fn history(title: &str, series: &[(Series, &str)], unit: Unit, range: Range, points: &[Point]) -> Markup {
    let values = |which: Series| points.iter().map(move |point| (point.at, value(point, which)));
    let highest = series.iter().flat_map(|(which, _)| values(*which)).map(|(_, value)| value).fold(0.0, f32::max);
    let names: Vec<_> = series.iter().map(|(which, _)| which.as_str()).collect();
    let labels: Vec<_> = series.iter().map(|(_, label)| *label).collect();
    html! {
        figure.chart data-range=(range.as_str()) data-series=(names.join(",")) data-labels=(labels.join(",")) data-unit=(unit.name()) {
            figcaption {
                (title)
                @for (position, label) in labels.iter().enumerate() {
                    span class={ "key key" (position) } { (label) }
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (title) ", highest value " (unit.text(highest)) } {
                line.grid x1="0" x2=(WIDTH) y1="1" y2="1" {}
                line.grid x1="0" x2=(WIDTH) y1=(HEIGHT / 2.0) y2=(HEIGHT / 2.0) {}
                line.axis x1="0" x2=(WIDTH) y1=(HEIGHT - 1.0) y2=(HEIGHT - 1.0) {}
                @for (position, (which, _)) in series.iter().enumerate() {
                    path class={ "line line" (position) } d=(path(values(*which), range, highest)) {}
                }
                text x="4" y="13" { (unit.text(highest)) }
            }
        }
    }
}

/// A bar for `part` of `whole`, with marks at other amounts.
pub(super) fn bar(label: &str, part: u64, whole: u64, marks: &[u64]) -> Markup {
    let position = |amount: u64| 100.0 * format::share(amount.min(whole), whole).unwrap_or(0.0);
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.whole x="0" y="0" width="100" height="8" {}
            rect.part x="0" y="0" width=(format!("{:.2}", position(part))) height="8" {}
            @for mark in marks {
                @let at = format!("{:.2}", position(*mark));
                line.mark x1=(at) x2=(at) y1="0" y2="8" {}
            }
        }
    }
}

/// The value of a series at a point.
pub(super) fn value(point: &Point, which: Series) -> f32 {
    let position = Series::ALL.iter().position(|it| *it == which);
    position.and_then(|position| point.values.get(position)).copied().unwrap_or(0.0)
}

/// The sum of a rate over its points: the amount.
pub(super) fn total(points: &[Point], which: Series) -> u64 {
    // Not every step was sampled all the time.
    let seconds = |point: &Point| f64::from(point.samples) * SAMPLE_S;
    let sum: f64 = points.iter().map(|point| f64::from(value(point, which)) * seconds(point)).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "amounts are positive")]
    let total = sum.max(0.0).round() as u64;
    total
}

/// The line of a series. It is interrupted where steps are missing.
fn path(values: impl Iterator<Item = (u64, f32)>, range: Range, highest: f32) -> String {
    let values: Vec<_> = values.collect();
    let Some((end, _)) = values.last().copied() else { return String::new() };
    let span = range.step_s() * range.points_max() as u64;
    let begin = end.saturating_sub(span);
    let mut path = String::new();
    let mut before = None;
    for (at, value) in values {
        #[expect(clippy::cast_precision_loss, reason = "positions in a drawing")]
        let x = WIDTH * (at.saturating_sub(begin)) as f32 / span as f32;
        let y = (HEIGHT - 2.0) * (1.0 - value / highest.max(f32::MIN_POSITIVE)) + 1.0;
        let joins = before.is_some_and(|before| at - before <= 3 * range.step_s());
        // Writing to a string does not fail.
        let _ = write!(path, "{}{x:.1} {y:.1}", if joins { "L" } else { "M" });
        before = Some(at);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_interrupted_where_steps_are_missing() {
        let values = [(10_000, 0.0), (10_005, 10.0), (10_100, 5.0)];
        let path = path(values.into_iter(), Range::Hour, 10.0);
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert!(path.contains("600.0 60.0"), "the last value is at the right, half high: {path}");
    }

    #[test]
    fn totals_are_rates_times_the_seconds_that_were_sampled() {
        let mut values = [0.0; forebay_telemetry::SERIES_COUNT];
        values[0] = 10.0;
        let points = [Point { at: 0, samples: 12, values }, Point { at: 60, samples: 1, values }];
        assert_eq!(total(&points, Series::ClientBytes), 650);
    }
}
