//! Paths of published set-ups.

use super::link::{LinkShape, SEGMENT_DATA_LEN, SEGMENT_LINE_LEN};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The properties of a path; both directions are alike.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PathShape {
    /// Time that a packet takes there and back when nothing waits.
    pub rtt_ms: f64,
    /// Most that a round trip is shorter or longer than that.
    pub jitter_ms: f64,
    /// Data that one TCP connection can carry at most, in Mbit/s. The line carries headers and frames in addition.
    pub mbit: f64,
    /// The share of packets that is lost on the way, from 0 to 1.
    pub loss: f64,
    /// Bytes that may wait before the line.
    pub buffer_bytes: u64,
}

/// A path with a name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Preset {
    /// Its name; letters count alike, whether capital or small.
    pub name: &'static str,
    /// Milliseconds there and back.
    pub rtt_ms: f64,
    /// Data that one TCP connection can carry at most, in Mbit/s.
    pub mbit: f64,
    /// Where the figures come from.
    pub about: &'static str,
}

/// Rate of paths of which no rate was published.
const GIGABIT: f64 = 940.0;

/// A buffer holds what the path does, and at least what the line carries in this time, as those of routers do.
const BUFFER_TIME_MIN: Duration = Duration::from_millis(10);

/// All presets. Round trips that were not published are chosen for a client in Freiburg, from the distance: light takes 1 ms there
/// and back for 100 km of fibre, cables take other ways than crows, and routers time.
pub const PRESETS: [Preset; 11] = [
    Preset { name: "KIT", rtt_ms: 4.0, mbit: 802.0, about: "Karlsruhe; rate as measured in 2021, round trip chosen" },
    Preset { name: "LRZ", rtt_ms: 9.0, mbit: 656.0, about: "Garching; rate as measured in 2021, round trip chosen" },
    Preset { name: "DESY", rtt_ms: 15.0, mbit: 262.0, about: "Hamburg; rate as measured in 2021, round trip chosen" },
    Preset { name: "BNL", rtt_ms: 95.0, mbit: 137.0, about: "New York; rate as measured in 2021, round trip chosen" },
    Preset {
        name: "TRIUMF",
        rtt_ms: 160.0,
        mbit: 110.0,
        about: "Vancouver; rate as measured in 2021, round trip chosen",
    },
    Preset {
        name: "local",
        rtt_ms: 0.2,
        mbit: 830.0,
        about: "the same site; rate as measured in 2021, round trip chosen",
    },
    Preset { name: "PIC-CIEMAT", rtt_ms: 9.0, mbit: GIGABIT, about: "Barcelona to Madrid; round trip as published" },
    Preset { name: "FNAL", rtt_ms: 150.0, mbit: GIGABIT, about: "Chicago; round trip as published" },
    Preset { name: "KISTI", rtt_ms: 300.0, mbit: GIGABIT, about: "Daejeon; round trip as published" },
    Preset { name: "FZU-Pilsen", rtt_ms: 3.5, mbit: GIGABIT, about: "Prague to Pilsen; round trip as published" },
    Preset { name: "FZU-local", rtt_ms: 0.2, mbit: GIGABIT, about: "within Prague; round trip as published" },
];

impl Preset {
    /// The preset of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name.eq_ignore_ascii_case(name))
    }

    /// Its path: without jitter and loss, with a buffer that holds what is under way.
    #[must_use]
    pub fn shape(&self) -> PathShape {
        let mut shape = PathShape { rtt_ms: self.rtt_ms, jitter_ms: 0.0, mbit: self.mbit, loss: 0.0, buffer_bytes: 0 };
        shape.buffer_bytes = shape.fair_buffer_bytes();
        shape
    }
}

impl PathShape {
    /// Bytes that the line carries in a round trip, and at least in 10 ms.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limits keep it below 2^40")]
    pub fn fair_buffer_bytes(&self) -> u64 {
        let time_s = (self.rtt_ms / 1e3).max(BUFFER_TIME_MIN.as_secs_f64());
        (self.line_bytes_per_s() as f64 * time_s) as u64
    }

    /// Bytes that the line carries in a second, headers and frames included.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limits keep it below 2^40")]
    pub fn line_bytes_per_s(&self) -> u64 {
        (self.mbit * 1e6 / 8.0 * SEGMENT_LINE_LEN as f64 / SEGMENT_DATA_LEN as f64).round() as u64
    }

    /// One of its directions.
    pub(super) fn link(&self) -> LinkShape {
        let half = |ms: f64| Duration::from_secs_f64(ms.max(0.0) / 2e3);
        LinkShape {
            delay: half(self.rtt_ms),
            jitter: half(self.jitter_ms),
            bytes_per_s: self.line_bytes_per_s(),
            buffer_bytes: self.buffer_bytes,
            loss: self.loss,
        }
    }
}

/// Data that one TCP connection carries over a line of that rate: the rest is for headers and frames.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "these are small")]
pub fn line_mbit_to_data(mbit: f64) -> f64 {
    mbit * SEGMENT_DATA_LEN as f64 / SEGMENT_LINE_LEN as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_by_name() {
        assert_eq!(Preset::find("kit").map(|preset| preset.mbit), Some(802.0));
        assert_eq!(Preset::find("fzu-PILSEN").map(|preset| preset.rtt_ms), Some(3.5));
        assert_eq!(Preset::find("CERN"), None);
    }

    #[test]
    fn the_line_carries_headers_beside_the_data() {
        let shape = Preset::find("FNAL").unwrap().shape();
        assert_eq!(shape.line_bytes_per_s(), 124_803_177);
        assert_eq!(shape.buffer_bytes, 18_720_476, "a round trip of it");
        assert_eq!(Preset::find("local").unwrap().shape().buffer_bytes, 1_101_985, "10 ms of it");
        assert_eq!(shape.link().delay, Duration::from_millis(75));
    }
}
