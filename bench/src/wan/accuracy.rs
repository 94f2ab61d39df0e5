//! How exactly paths are what they are meant to be.

use super::host::Tuning;
use super::lab::Lab;
use super::link::SEGMENT_DATA_LEN;
use super::plan::{PathPlan, Plan};
use super::preset::PRESETS;
use super::probe::{RoundTrips, Stream, stream};
use super::relay::Traffic;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// The paths and durations of an accuracy measurement.
#[derive(Clone, Debug)]
pub struct AccuracyOptions {
    /// Paths between hosts `near` and `far`; all presets and two paths with losses when there is none.
    pub paths: Vec<PathPlan>,
    /// How long a stream runs at least; one over a long path takes forty round trips, one with losses 3000.
    pub seconds: f64,
}

/// The measured properties of one path.
#[derive(Debug, Serialize)]
pub struct Accuracy {
    /// The path as the options give it.
    pub path: String,
    /// Its configured round trip.
    pub rtt_ms: f64,
    /// Most that a round trip may differ.
    pub jitter_ms: f64,
    /// Data that one connection can carry.
    pub mbit: f64,
    /// The share of packets that is lost.
    pub loss: f64,
    /// How TCP found its rate.
    pub congestion_control: String,
    /// Round trips of small packets.
    pub round_trips: RoundTrips,
    /// By how much their median differs from the round trip, in percent.
    pub rtt_error_percent: f64,
    pub stream: Stream,
    /// The rate that it should reach once slow start is over.
    pub expected_mbit: f64,
    /// The limit that determines that rate: the line, the window, or losses.
    pub bound: Bound,
    /// By how much the second half of the stream differs from it, in percent.
    pub mbit_error_percent: f64,
    /// Packets that have gone there and back.
    pub traffic: [Traffic; 2],
}

/// The limit of a stream's rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The rate of the line.
    Rate,
    /// The buffers of the hosts, once per round trip.
    Window,
    /// Losses, as Mathis and others have found: MSS / RTT × √(3/2) / √p.
    Loss,
}

/// Paths with losses, on which TCP Reno follows the formula.
const WITH_LOSSES: [&str; 2] = ["near:far=FZU-local,rtt_ms=10,loss=0.001", "near:far=FZU-local,rtt_ms=10,loss=0.004"];

/// The factor of Mathis' formula when every segment that arrives is accounted for.
const MATHIS: f64 = 1.224_744_871_391_589;

/// A stream runs for this many round trips at least: slow start takes a dozen.
const STREAM_ROUND_TRIPS: f64 = 40.0;

/// Where packets are lost, their number is significant only after a hundred losses.
const LOSSY_STREAM_ROUND_TRIPS: f64 = 3_000.0;

/// Echo requests take about this long on one path.
const PING_SECONDS: f64 = 4.0;
const PINGS_MIN: f64 = 10.0;
const PINGS_MAX: f64 = 400.0;

/// Measures one path after the other, and calls `done` with each result.
///
/// # Errors
/// When a lab cannot be set up.
pub fn measure(options: &AccuracyOptions, mut done: impl FnMut(&Accuracy)) -> Result<Vec<Accuracy>> {
    let mut paths = options.paths.clone();
    if paths.is_empty() {
        let presets = PRESETS.iter().map(|preset| format!("near:far={}", preset.name));
        let names = presets.chain(WITH_LOSSES.map(str::to_owned));
        paths = names.map(|name| name.parse()).collect::<Result<_>>().context("presets are paths")?;
    }
    let mut all = Vec::new();
    for path in paths {
        let one = measure_one(path, options.seconds)?;
        done(&one);
        all.push(one);
    }
    Ok(all)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn measure_one(path: PathPlan, seconds: f64) -> Result<Accuracy> {
    let (name, shape) = (path.preset.clone(), path.shape);
    let mut plan = Plan::of_paths(vec![path])?;
    if shape.loss > 0.0 {
        plan.tuning.congestion_control = "reno".to_owned();
    }
    let tuning = plan.tuning.clone();
    let lab = Lab::set_up(plan).with_context(|| format!("path {name}"))?;
    let rtt_s = shape.rtt_ms / 1e3;
    let count = (PING_SECONDS / rtt_s.max(1e-4)).clamp(PINGS_MIN, PINGS_MAX) as u32;
    let round_trips = lab.ping(0, count)?;
    let round_trips_min = if shape.loss > 0.0 { LOSSY_STREAM_ROUND_TRIPS } else { STREAM_ROUND_TRIPS };
    let duration = Duration::from_secs_f64(seconds.max(round_trips_min * rtt_s));
    let stream = stream(&lab, 0, duration)?;
    let (expected_mbit, bound) = expectation(shape.mbit, shape.loss, rtt_s, &tuning);
    let percent = |found: f64, expected: f64| (found / expected - 1.0) * 100.0;
    Ok(Accuracy {
        path: name,
        rtt_ms: shape.rtt_ms,
        jitter_ms: shape.jitter_ms,
        mbit: shape.mbit,
        loss: shape.loss,
        congestion_control: tuning.congestion_control,
        rtt_error_percent: percent(round_trips.median_ms, shape.rtt_ms),
        round_trips,
        mbit_error_percent: percent(stream.steady_mbit, expected_mbit),
        stream,
        expected_mbit,
        bound,
        traffic: lab.traffic().first().copied().unwrap_or_default(),
    })
}

/// The rate of a stream on such a path when nothing else limits it.
#[expect(clippy::cast_precision_loss, reason = "buffers are far below 2^52 bytes")]
fn expectation(mbit: f64, loss: f64, rtt_s: f64, tuning: &Tuning) -> (f64, Bound) {
    let bits_per_rtt = |bytes: f64| bytes * 8.0 / 1e6 / rtt_s.max(1e-9);
    // At most: Linux before 6.6 keeps half of a buffer for what comes with the data.
    let of_window = bits_per_rtt(tuning.tcp_buffer_bytes as f64);
    let of_loss = if loss > 0.0 { bits_per_rtt(SEGMENT_DATA_LEN as f64) * MATHIS / loss.sqrt() } else { f64::INFINITY };
    [(mbit, Bound::Rate), (of_window, Bound::Window), (of_loss, Bound::Loss)]
        .into_iter()
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .unwrap_or((mbit, Bound::Rate))
}

/// Head of the table of [`Accuracy::line`]s, in Markdown.
pub const TABLE_HEAD: &str = "\
| path | round trip, ms | median of ping | 95 % | error | stream, Mbit/s | after slow start | expected | by | error | dropped |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |
";

impl Accuracy {
    /// Its line in the table.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { round_trips, stream, traffic: [_, back], .. } = self;
        let mut name = self.path.clone();
        if self.jitter_ms > 0.0 {
            // Writing to a string cannot fail.
            write!(name, ", ± {} ms", self.jitter_ms).ok();
        }
        if self.loss > 0.0 {
            write!(name, ", {} % lost, {}", self.loss * 100.0, self.congestion_control).ok();
        }
        let bound = match self.bound {
            Bound::Rate => "rate",
            Bound::Window => "window",
            Bound::Loss => "losses (Mathis)",
        };
        format!(
            "| {name} | {} | {:.3} | {:.3} | {:+.1} % | {:.0} | {:.0} | {:.0} | {bound} | {:+.1} % | {} |\n",
            self.rtt_ms,
            round_trips.median_ms,
            round_trips.p95_ms,
            self.rtt_error_percent,
            stream.mbit,
            stream.steady_mbit,
            self.expected_mbit,
            self.mbit_error_percent,
            back.dropped,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_bound_counts() {
        let tuning = Tuning { tcp_buffer_bytes: 32 << 20, ..Tuning::for_long_paths() };
        assert_eq!(expectation(802.0, 0.0, 0.004, &tuning), (802.0, Bound::Rate));
        let (mbit, bound) = expectation(940.0, 0.0, 0.3, &tuning);
        assert!((894.0..896.0).contains(&mbit) && bound == Bound::Window, "32 MiB in 300 ms");
        let (mbit, bound) = expectation(940.0, 0.001, 0.02, &tuning);
        assert!((22.0..23.0).contains(&mbit) && bound == Bound::Loss, "47 segments in 20 ms");
    }
}
