//! Names that an origin has not, remembered for a moment.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

/// Most names that are remembered at a time.
pub const NEGATIVE_NAMES_MAX: usize = 65_536;

/// Most bytes of all names remembered.
pub const NEGATIVE_BYTES_MAX: usize = 16 << 20;

/// Names that an origin has not, each with its answer. Bounded: the oldest answers make room for new ones.
#[derive(Debug)]
pub struct NegativeAnswers<V> {
    time: Duration,
    answers: BTreeMap<Arc<str>, Answer<V>>,
    /// Names in the order in which they were noted, which is that of their ends.
    order: VecDeque<(Instant, Arc<str>)>,
    bytes: usize,
}

#[derive(Debug)]
struct Answer<V> {
    end: Instant,
    value: V,
}

impl<V: Clone> NegativeAnswers<V> {
    /// Answers that are remembered for `time`; for zero, none is.
    pub const fn new(time: Duration) -> Self {
        Self { time, answers: BTreeMap::new(), order: VecDeque::new(), bytes: 0 }
    }

    /// The answer for `name`, if it is remembered.
    pub fn get(&self, name: &str, now: Instant) -> Option<V> {
        self.answers.get(name).filter(|answer| now < answer.end).map(|answer| answer.value.clone())
    }

    /// Remembers the answer for `name` from `now` on. An older one that still counts stays.
    pub fn note(&mut self, name: &str, value: V, now: Instant) {
        let Some(end) = now.checked_add(self.time) else { return };
        if self.time.is_zero() {
            return;
        }
        while self.order.front().is_some_and(|(end, _)| *end <= now) {
            self.drop_oldest();
        }
        if name.len() > NEGATIVE_BYTES_MAX || self.answers.contains_key(name) {
            return;
        }
        while self.order.len() >= NEGATIVE_NAMES_MAX || self.bytes + name.len() > NEGATIVE_BYTES_MAX {
            self.drop_oldest();
        }
        let name: Arc<str> = Arc::from(name);
        self.bytes += name.len();
        self.order.push_back((end, Arc::clone(&name)));
        self.answers.insert(name, Answer { end, value });
    }

    /// Forgets `name`: it is about to be there.
    pub fn forget(&mut self, name: &str) {
        self.answers.remove(name);
    }

    pub fn len(&self) -> usize {
        self.answers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    fn drop_oldest(&mut self) {
        let Some((end, name)) = self.order.pop_front() else { return };
        self.bytes -= name.len();
        // A name that was forgotten meanwhile may have been noted again.
        if self.answers.get(&name).is_some_and(|answer| answer.end == end) {
            self.answers.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant serves as the first one")]
        Instant::now()
    }

    #[test]
    fn an_answer_counts_for_its_time() {
        let (mut answers, start) = (NegativeAnswers::new(TIME), start());
        answers.note("/a", 1, start);
        answers.note("/a", 2, start + TIME / 2);
        assert_eq!(answers.get("/a", start + TIME / 2), Some(1), "the time is not prolonged");
        assert_eq!(answers.get("/b", start), None);
        assert_eq!(answers.get("/a", start + TIME), None);
        answers.note("/a", 3, start + TIME);
        assert_eq!(answers.get("/a", start + TIME), Some(3));
        answers.forget("/a");
        assert_eq!(answers.get("/a", start + TIME), None);
        let mut none = NegativeAnswers::new(Duration::ZERO);
        none.note("/a", 1, start);
        assert!(none.is_empty(), "zero remembers nothing");
    }

    #[test]
    fn a_name_noted_again_has_its_whole_time() {
        let (mut answers, start) = (NegativeAnswers::new(TIME), start());
        answers.note("/a", 1, start);
        answers.forget("/a");
        answers.note("/a", 2, start + TIME / 2);
        answers.note("/b", 3, start + TIME);
        assert_eq!(answers.get("/a", start + TIME), Some(2));
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let (mut answers, start) = (NegativeAnswers::new(TIME), start());
        for number in 0..=NEGATIVE_NAMES_MAX {
            answers.note(&format!("/{number}"), number, start);
        }
        assert_eq!(answers.len(), NEGATIVE_NAMES_MAX);
        assert_eq!(answers.get("/0", start), None);
        assert_eq!(answers.get("/1", start), Some(1));

        let mut answers = NegativeAnswers::new(TIME);
        let long = "n".repeat(NEGATIVE_BYTES_MAX / 2);
        for letter in ["a", "b", "c"] {
            answers.note(&format!("{letter}{}", &long[1..]), 0, start);
        }
        assert_eq!(answers.len(), 2);
        answers.note(&"n".repeat(NEGATIVE_BYTES_MAX + 1), 0, start);
        assert_eq!(answers.len(), 2);
    }

    #[test]
    fn forgotten_names_leave_nothing() {
        let (mut answers, start) = (NegativeAnswers::new(TIME), start());
        for _ in 0..2 * NEGATIVE_NAMES_MAX {
            answers.note("/a", 1, start);
            answers.forget("/a");
        }
        assert!(answers.order.len() <= NEGATIVE_NAMES_MAX);
    }
}
