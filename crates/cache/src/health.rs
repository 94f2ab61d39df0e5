//! The health of a disk, judged from its operations.
//!
//! A disk that fails again and again is probed, because only one of its directories may be damaged. One whose probe fails, or that
//! leaves an operation hanging, is taken offline: its files are misses until a probe succeeds. A full disk is not a broken one, nor is one that can only be read: both continue to serve reads.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

forebay_types::named_enum! {
    /// How a disk does.
    #[derive(Ord, PartialOrd)]
    pub enum Health {
        Healthy = "healthy",
        /// It failed lately, or is slow: new files go elsewhere where there is a choice.
        Degraded = "degraded",
        /// It has no room: read, not written for a while.
        Full = "full",
        /// It refuses to be changed: read, not written until a probe succeeds.
        ReadOnly = "read_only",
        /// It is not used at all until a probe succeeds.
        Offline = "offline",
        /// It is offline, and a probe is under way.
        Probing = "probing",
    }
}

impl Health {
    /// Whether files on the disk may be read.
    pub const fn is_online(self) -> bool {
        !matches!(self, Self::Offline | Self::Probing)
    }

    /// Whether the disk may be written.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Healthy | Self::Degraded)
    }
}

forebay_types::named_enum! {
    /// A failure of a disk.
    pub enum Fault {
        /// An operation failed for a reason that lies in the disk.
        Broken = "broken",
        Full = "full",
        ReadOnly = "read_only",
        Hung = "hung",
        /// The disk is not there, or not ours.
        Absent = "absent",
    }
}

/// When a disk is taken for bad, and when it is tried again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HealthLimits {
    /// Failures within [`Self::error_window`] after which a disk is probed; at least 1.
    pub errors_max: usize,
    /// How long a failure is held against a disk.
    pub error_window: Duration,
    /// Mean time of operations from which on a disk counts as degraded.
    pub slow_after: Duration,
    /// Time after which an operation that has not ended takes its disk offline.
    pub hung_after: Duration,
    /// The same for syncs, which wait for all that was written before.
    pub sync_hung_after: Duration,
    /// The same for syncs of many files together, which wait for all that was written to their file system: gigabytes at the
    /// rate of a disk.
    pub whole_sync_hung_after: Duration,
    /// How long a full disk is not written.
    pub full_pause: Duration,
    /// Time from a disk's failure to its first probe.
    pub probe_delay_min: Duration,
    /// Longest time between two probes: each failed one doubles it.
    pub probe_delay_max: Duration,
}

impl Default for HealthLimits {
    fn default() -> Self {
        Self {
            errors_max: 5,
            error_window: Duration::from_secs(60),
            slow_after: Duration::from_secs(1),
            hung_after: Duration::from_secs(20),
            sync_hung_after: Duration::from_secs(120),
            whole_sync_hung_after: Duration::from_secs(900),
            full_pause: Duration::from_secs(10),
            probe_delay_min: Duration::from_secs(5),
            probe_delay_max: Duration::from_secs(300),
        }
    }
}

/// The state of one disk. It decides only; who asks gives the time, which never runs backwards.
#[derive(Clone, Debug)]
pub struct DiskHealth {
    limits: HealthLimits,
    is_offline: bool,
    is_read_only: bool,
    is_probing: bool,
    full_until: Option<Instant>,
    /// The newest failures, at most `errors_max`.
    errors: VecDeque<Instant>,
    /// Mean time of operations, the newer ones weighing more.
    latency: Duration,
    probe_due: Option<Instant>,
    probe_delay: Duration,
    recovered: Option<Instant>,
}

/// Share of one operation in the mean time of operations is one in this many.
const LATENCY_WEIGHT: u32 = 8;

impl DiskHealth {
    /// A disk of which nothing bad is known.
    pub const fn new(limits: HealthLimits) -> Self {
        Self {
            limits,
            is_offline: false,
            is_read_only: false,
            is_probing: false,
            full_until: None,
            errors: VecDeque::new(),
            latency: Duration::ZERO,
            probe_due: None,
            probe_delay: limits.probe_delay_min,
            recovered: None,
        }
    }

    /// The state at `now`.
    pub fn health(&self, now: Instant) -> Health {
        let failed_lately = || self.errors.iter().any(|&error| self.is_held_against(error, now));
        if self.is_offline {
            if self.is_probing { Health::Probing } else { Health::Offline }
        } else if self.is_read_only {
            Health::ReadOnly
        } else if self.full_until.is_some_and(|until| now < until) {
            Health::Full
        } else if self.latency >= self.limits.slow_after || failed_lately() {
            Health::Degraded
        } else {
            Health::Healthy
        }
    }

    pub const fn latency(&self) -> Duration {
        self.latency
    }

    /// An operation has succeeded within `took`. A disk that is offline is probed at once: it answers again.
    pub fn succeeded(&mut self, now: Instant, took: Duration) {
        self.latency = (self.latency * (LATENCY_WEIGHT - 1) + took) / LATENCY_WEIGHT;
        if self.is_offline {
            self.probe_due = Some(self.probe_due.map_or(now, |due| due.min(now)));
        }
    }

    pub fn failed(&mut self, now: Instant, fault: Fault) {
        match fault {
            Fault::Full => self.full_until = Some(now + self.limits.full_pause),
            Fault::ReadOnly => self.turn_read_only(now),
            Fault::Hung | Fault::Absent => self.go_offline(now),
            Fault::Broken => {
                let limits = self.limits;
                self.errors.retain(|&error| now.saturating_duration_since(error) < limits.error_window);
                self.errors.push_back(now);
                if self.errors.len() > limits.errors_max {
                    self.errors.pop_front();
                }
                if self.errors.len() >= limits.errors_max && !self.is_probing && !self.is_read_only {
                    self.probe_due.get_or_insert(now);
                }
            }
        }
    }

    /// Begins a probe if it is time for one. Its end must be reported by [`Self::probe_ended`].
    pub fn begin_probe(&mut self, now: Instant) -> bool {
        let is_due = !self.is_probing && self.probe_due.is_some_and(|due| due <= now);
        if is_due {
            self.is_probing = true;
            self.probe_due = None;
        }
        is_due
    }

    /// A probe has ended: the disk is as good as new, or it is probed again after twice the time.
    pub fn probe_ended(&mut self, now: Instant, result: Result<(), Fault>) {
        self.is_probing = false;
        match result {
            Ok(()) => {
                self.recovered = (self.is_offline || self.is_read_only).then_some(now).or(self.recovered);
                (self.is_offline, self.is_read_only, self.full_until, self.probe_due) = (false, false, None, None);
                self.errors.clear();
                self.latency = Duration::ZERO;
            }
            Err(Fault::Full) => {
                (self.is_offline, self.is_read_only, self.probe_due) = (false, false, None);
                self.failed(now, Fault::Full);
            }
            Err(Fault::ReadOnly) => {
                (self.is_offline, self.is_read_only) = (false, true);
                self.probe_later(now);
            }
            Err(Fault::Broken | Fault::Hung | Fault::Absent) if self.is_offline => self.probe_later(now),
            Err(Fault::Broken | Fault::Hung | Fault::Absent) => self.go_offline(now),
        }
    }

    fn is_held_against(&self, error: Instant, now: Instant) -> bool {
        now.saturating_duration_since(error) < self.limits.error_window
    }

    fn turn_read_only(&mut self, now: Instant) {
        if !self.is_read_only && !self.is_offline {
            self.is_read_only = true;
            self.schedule_first_probe(now);
        }
    }

    fn go_offline(&mut self, now: Instant) {
        if !self.is_offline {
            self.is_offline = true;
            self.schedule_first_probe(now);
        }
    }

    /// A disk that fails soon after it came back is probed less and less often.
    fn schedule_first_probe(&mut self, now: Instant) {
        if !self.recovered.is_some_and(|recovered| self.is_held_against(recovered, now)) {
            self.probe_delay = self.limits.probe_delay_min;
        }
        self.probe_later(now);
    }

    fn probe_later(&mut self, now: Instant) {
        self.probe_due = Some(now + self.probe_delay);
        self.probe_delay = (self.probe_delay * 2).min(self.limits.probe_delay_max);
    }
}

#[cfg(test)]
mod tests;
