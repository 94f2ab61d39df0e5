//! The hit ratios of LRU caches by their size, as SVG.

use super::format::{bytes, percent};
use crate::model::CurvePoint;
use maud::{Markup, html};
use std::fmt::Write as _;

const WIDTH: f64 = 600.0;

const HEIGHT: f64 = 160.0;

/// The curve, with a mark at the present size of the cache. Sizes double at equal distances.
pub(super) fn drawing(points: &[CurvePoint], present: u64) -> Markup {
    let ends = points.first().zip(points.last());
    let limit = points.last().map_or(0.0, |point| point.hits_by_bytes);
    let label = format!("Hit ratios by size of the cache, up to {} by bytes", percent(Some(limit)));
    html! {
        figure.curve {
            figcaption {
                "Hit ratio of LRU caches by size"
                span.key.key0 { "by bytes" }
                span.key.key1 { "by files" }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(label) {
                line.grid x1="0" x2=(WIDTH) y1="1" y2="1" {}
                line.grid x1="0" x2=(WIDTH) y1=(HEIGHT / 2.0) y2=(HEIGHT / 2.0) {}
                line.axis x1="0" x2=(WIDTH) y1=(HEIGHT - 1.0) y2=(HEIGHT - 1.0) {}
                path.line.line0 d=(path(points, |point| point.hits_by_bytes)) {}
                path.line.line1 d=(path(points, |point| point.hits_by_files)) {}
                text x="4" y="13" { "100 %" }
                @if let Some((first, last)) = ends {
                    @if (first.size..=last.size).contains(&present) {
                        @let at = format!("{:.1}", position(present, first.size, last.size));
                        line.mark x1=(at) x2=(at) y1="0" y2=(HEIGHT) {}
                    }
                    text x="4" y=(HEIGHT - 6.0) { (bytes(first.size)) }
                    text x=(WIDTH - 4.0) y=(HEIGHT - 6.0) text-anchor="end" { (bytes(last.size)) }
                }
            }
        }
    }
}

/// The cache of the curve with this size, or the next smaller one.
pub(super) fn at(points: &[CurvePoint], size: u64) -> Option<&CurvePoint> {
    points.iter().rev().find(|point| point.size <= size)
}

fn path(points: &[CurvePoint], ratio: fn(&CurvePoint) -> f64) -> String {
    let Some((first, last)) = points.first().zip(points.last()) else { return String::new() };
    let mut path = String::new();
    for point in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let (x, y) = (position(point.size, first.size, last.size), (HEIGHT - 2.0) * (1.0 - ratio(point)) + 1.0);
        // Writing to a string does not fail.
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

#[expect(clippy::cast_precision_loss, reason = "positions in a drawing")]
fn position(size: u64, first: u64, last: u64) -> f64 {
    let log = |size: u64| (size.max(1) as f64).log2();
    let span = log(last) - log(first);
    if span > 0.0 { WIDTH * (log(size) - log(first)) / span } else { WIDTH }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(size: u64, ratio: f64) -> CurvePoint {
        CurvePoint { size, hits_by_files: ratio / 2.0, hits_by_bytes: ratio, eviction_age_seconds: None }
    }

    #[test]
    fn sizes_double_at_equal_distances() {
        let points = [point(1 << 24, 0.0), point(1 << 25, 0.5), point(1 << 26, 1.0)];
        assert_eq!(path(&points, |point| point.hits_by_bytes), "M0.0 159.0L300.0 80.0L600.0 1.0");
        let text = drawing(&points, 1 << 25).into_string();
        assert!(text.contains(r#"x1="300.0""#), "the present size is marked: {text}");
        assert!(!drawing(&points, 1 << 30).into_string().contains("class=\"mark\""));
        assert!(drawing(&[], 1).into_string().contains("<svg"));
    }

    #[test]
    fn the_next_smaller_cache_answers_for_a_size() {
        let points = [point(16, 0.1), point(32, 0.2)];
        let sizes = [15, 16, 31, 32, 99].map(|size| at(&points, size).map(|point| point.size));
        assert_eq!(sizes, [None, Some(16), Some(16), Some(32), Some(32)]);
    }
}
