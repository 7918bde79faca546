//! Every request is answered sensibly, or its connection ends.

use crate::runs::history::Event;

pub(super) fn check(events: &[Event]) -> Vec<String> {
    events.iter().filter_map(wrong).collect()
}

fn wrong(event: &Event) -> Option<String> {
    match event {
        Event::Silence { request } => {
            Some(format!("{request} got neither an answer nor the connection's end"))
        }
        Event::Nonsense { request, why } => Some(format!("{request} got no answer to it: {why}")),
        Event::Forbidden { request, error, log } => {
            Some(format!("{request} was answered with {error}, which nothing allows here ({log:?})"))
        }
        Event::Retention { .. }
        | Event::Sent { .. }
        | Event::Acknowledged { .. }
        | Event::Read { .. }
        | Event::OutOfRange { .. }
        | Event::Final { .. }
        | Event::TopicCreated { .. }
        | Event::DeletionAsked { .. }
        | Event::TopicDeleted { .. }
        | Event::FinalTopics { .. }
        | Event::Fault(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use net_wire::ErrorCode;

    use super::*;
    use crate::runs::checkers::testing::{acknowledged, read};

    #[test]
    fn silence_nonsense_and_forbidden_answers_are_found() {
        let error = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let events = [
            Event::Silence { request: "Fetch" },
            Event::Nonsense { request: "Fetch", why: "half an answer".to_owned() },
            Event::Forbidden { request: "Produce", error, log: None },
        ];
        assert_eq!(check(&events).len(), 3);
        assert_eq!(check(&[acknowledged(0, 1, 0, 1), read(0, 1, 2, &[0])]), [""; 0]);
    }
}
