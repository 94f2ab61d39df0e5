//! Live values: a stream of events, and the history as JSON for the charts.

use super::{reply::TEXT_TYPE, views::Views};
use crate::{
    answer::{self, Answer},
    body::AnswerBody,
};
use bytes::Bytes;
use forebay_telemetry::{Point, Range, Series};
use hyper::StatusCode;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// Time after which a comment is sent, so that proxies do not close a silent stream.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// Time after which a stream ends: the browser connects again.
const STREAM_TIME_MAX: Duration = Duration::from_secs(600);

/// Events that a slow browser may leave unread.
const EVENTS_MAX: usize = 4;

/// A stream with an event for each sample of the history.
pub(super) fn stream(views: &Views) -> Answer {
    let Ok(place) = Arc::clone(&views.streams).try_acquire_owned() else {
        return answer::of(StatusCode::SERVICE_UNAVAILABLE, TEXT_TYPE, "too many streams: the page works without\n");
    };
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let mut samples = views.recorder.follow();
    tokio::spawn(async move {
        let _place = place;
        let follow = async {
            loop {
                let text = match timeout(COMMENT_INTERVAL, samples.changed()).await {
                    Ok(Ok(())) => {
                        let point = *samples.borrow_and_update();
                        point.map_or_else(String::new, |point| format!("data: {}\n\n", to_json(&point)))
                    }
                    Ok(Err(_)) => return,
                    Err(_) => ": still there\n\n".to_owned(),
                };
                // A browser that has left, or does not read, ends its stream.
                if sender.try_send(Bytes::from(text)).is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = follow => {}
            // The place is free as soon as the browser has left.
            () = sender.closed() => {}
            () = tokio::time::sleep(STREAM_TIME_MAX) => {}
        }
    });
    answer::stream("text/event-stream", AnswerBody::Stream(receiver))
}

/// The points of a range.
pub(super) fn history(views: &Views, range: Range) -> Answer {
    let points: Vec<_> = views.recorder.points(range).iter().map(to_json).collect();
    let series = Series::ALL.map(Series::as_str);
    let text = json!({ "range": range.as_str(), "step": range.step_s(), "series": series, "points": points });
    answer::of(StatusCode::OK, "application/json", text.to_string())
}

/// A point as `[time, value, …]`, in the order of [`Series::ALL`].
fn to_json(point: &Point) -> serde_json::Value {
    let values = point.values.iter().map(|value| json!((f64::from(*value) * 100.0).round() / 100.0));
    std::iter::once(json!(point.at)).chain(values).collect()
}
