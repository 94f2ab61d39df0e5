//! Stories of disks, and the delays between probes.

use super::*;

/// An event in the life of a disk.
#[derive(Clone, Copy, Debug)]
enum Event {
    Fails(Fault),
    Succeeds { millis: u64 },
    ProbeBegins,
    ProbeEnds(Result<(), Fault>),
    Nothing,
}

use Event::{Fails, Nothing, ProbeBegins, ProbeEnds, Succeeds};
use Health::{Degraded, Full, Healthy, Offline, Probing, ReadOnly};

/// Plays events at their seconds and returns the state after each.
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn play(events: &[(u64, Event)]) -> Vec<Health> {
    let start = Instant::now();
    let mut health = DiskHealth::new(HealthLimits::default());
    let play_one = |&(second, event): &(u64, Event)| {
        let now = start + Duration::from_secs(second);
        match event {
            Fails(fault) => health.failed(now, fault),
            Succeeds { millis } => health.succeeded(now, Duration::from_millis(millis)),
            ProbeBegins => {
                health.begin_probe(now);
            }
            ProbeEnds(result) => health.probe_ended(now, result),
            Nothing => {}
        }
        health.health(now)
    };
    events.iter().map(play_one).collect()
}

const BROKEN: Event = Fails(Fault::Broken);

/// Second, event, and the state after it.
type Steps = &'static [(u64, Event, Health)];

fn check(stories: &[(&str, Steps)]) {
    for (name, steps) in stories {
        let events: Vec<_> = steps.iter().map(|&(second, event, _)| (second, event)).collect();
        let expected: Vec<_> = steps.iter().map(|&(_, _, health)| health).collect();
        assert_eq!(play(&events), expected, "{name}");
    }
}

#[test]
fn failures_count_while_they_are_fresh() {
    check(&[
        ("failures are forgotten", &[(0, BROKEN, Degraded), (59, Nothing, Degraded), (60, Nothing, Healthy)]),
        (
            "the fifth failure in a minute has the disk probed, which is taken offline if that fails",
            &[
                (0, BROKEN, Degraded),
                (1, BROKEN, Degraded),
                (2, BROKEN, Degraded),
                (3, BROKEN, Degraded),
                (4, ProbeBegins, Degraded),
                (59, BROKEN, Degraded),
                (59, ProbeBegins, Degraded),
                (59, ProbeEnds(Err(Fault::Broken)), Offline),
                (63, ProbeBegins, Offline),
                (64, ProbeBegins, Probing),
                (600, Nothing, Probing),
            ],
        ),
        (
            "a disk that works has a damaged directory only",
            &[
                (0, BROKEN, Degraded),
                (0, BROKEN, Degraded),
                (0, BROKEN, Degraded),
                (0, BROKEN, Degraded),
                (0, BROKEN, Degraded),
                (1, ProbeBegins, Degraded),
                (1, BROKEN, Degraded),
                (2, ProbeEnds(Ok(())), Healthy),
                (3, BROKEN, Degraded),
                (63, Nothing, Healthy),
            ],
        ),
        (
            "failures that are spread out are not",
            &[
                (0, BROKEN, Degraded),
                (1, BROKEN, Degraded),
                (2, BROKEN, Degraded),
                (3, BROKEN, Degraded),
                (60, BROKEN, Degraded),
                (61, BROKEN, Degraded),
            ],
        ),
        (
            "slow operations degrade a disk until they are fast again",
            &[
                (0, Succeeds { millis: 4000 }, Healthy),
                (1, Succeeds { millis: 5000 }, Degraded),
                (2, Succeeds { millis: 1 }, Healthy),
            ],
        ),
    ]);
}

#[test]
fn a_disk_that_cannot_be_written_is_still_read() {
    check(&[
        (
            "a full disk is tried again after a while, without a probe",
            &[
                (0, Fails(Fault::Full), Full),
                (9, ProbeBegins, Full),
                (10, Nothing, Healthy),
                (11, Fails(Fault::Full), Full),
            ],
        ),
        (
            "a read-only disk is read until a probe can write",
            &[
                (0, Fails(Fault::ReadOnly), ReadOnly),
                (4, ProbeBegins, ReadOnly),
                (5, ProbeBegins, ReadOnly),
                (5, ProbeEnds(Err(Fault::ReadOnly)), ReadOnly),
                (14, ProbeBegins, ReadOnly),
                (15, ProbeBegins, ReadOnly),
                (15, ProbeEnds(Ok(())), Healthy),
            ],
        ),
    ]);
}

#[test]
fn a_disk_is_offline_until_a_probe_succeeds() {
    check(&[
        (
            "an operation that hangs takes the disk offline",
            &[
                (1, Fails(Fault::Hung), Offline),
                (5, ProbeBegins, Offline),
                (6, ProbeBegins, Probing),
                (7, ProbeEnds(Ok(())), Healthy),
            ],
        ),
        (
            "a disk that answers late is probed at once",
            &[(0, Fails(Fault::Hung), Offline), (1, Succeeds { millis: 21_000 }, Offline), (1, ProbeBegins, Probing)],
        ),
        (
            "a probe may find a disk that came back full or read-only",
            &[
                (0, Fails(Fault::Absent), Offline),
                (5, ProbeBegins, Probing),
                (5, ProbeEnds(Err(Fault::ReadOnly)), ReadOnly),
                (60, ProbeBegins, ReadOnly),
                (60, ProbeEnds(Err(Fault::Full)), Full),
                (70, Nothing, Healthy),
            ],
        ),
        (
            "failures while offline change nothing",
            &[
                (0, Fails(Fault::Absent), Offline),
                (1, Fails(Fault::ReadOnly), Offline),
                (2, Fails(Fault::Hung), Offline),
                (5, ProbeBegins, Probing),
            ],
        ),
    ]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn probes_become_rare_and_stay_so_for_a_disk_that_fails_again() {
    let mut now = Instant::now();
    let mut health = DiskHealth::new(HealthLimits::default());
    let delay_of_next_probe = |health: &mut DiskHealth, now: &mut Instant| {
        let begin = *now;
        while !health.begin_probe(*now) {
            *now += Duration::from_secs(1);
        }
        (*now - begin).as_secs()
    };
    health.failed(now, Fault::Absent);
    let mut delays = Vec::new();
    for _ in 0..9 {
        delays.push(delay_of_next_probe(&mut health, &mut now));
        health.probe_ended(now, Err(Fault::Broken));
    }
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300, 300]);

    delay_of_next_probe(&mut health, &mut now);
    health.probe_ended(now, Ok(()));
    health.failed(now, Fault::Hung);
    assert_eq!(delay_of_next_probe(&mut health, &mut now), 300, "it had hardly come back");
    health.probe_ended(now, Ok(()));
    now += HealthLimits::default().error_window;
    health.failed(now, Fault::Hung);
    assert_eq!(delay_of_next_probe(&mut health, &mut now), 5, "it had been well for a while");
}

#[test]
fn only_some_states_are_read_and_fewer_written() {
    for health in Health::ALL {
        assert!(health.is_online() || !health.is_writable(), "{}", health.as_str());
    }
    assert!(Health::Full.is_online() && Health::ReadOnly.is_online());
    assert!(!Health::Full.is_writable() && !Health::ReadOnly.is_writable() && !Health::Offline.is_online());
}
