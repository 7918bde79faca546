//! A topic that was created is there until somebody asks for its deletion; one that was deleted is gone for good.

use std::collections::BTreeSet;

use crate::runs::history::Event;

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let (mut created, mut deletable, mut deleted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut there = None;
    for event in events {
        if let Event::TopicCreated { topic } = event {
            created.insert(*topic);
        } else if let Event::DeletionAsked { topic } = event {
            deletable.insert(*topic);
        } else if let Event::TopicDeleted { topic } = event {
            deleted.insert(*topic);
        } else if let Event::FinalTopics { topics } = event {
            there = Some(topics.iter().copied().collect::<BTreeSet<_>>());
        }
    }
    let Some(there) = there else { return Vec::new() };
    let missing = created.difference(&there).filter(|topic| !deletable.contains(topic));
    let missing = missing.map(|topic| format!("topic {topic} was created and is gone"));
    let back = deleted.intersection(&there).map(|topic| format!("topic {topic} was deleted and is there"));
    let strange = there.difference(&created).map(|topic| format!("topic {topic} was never created"));
    missing.chain(back).chain(strange).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::TOPIC as topic;

    #[test]
    fn topics_that_vanish_come_back_or_appear_are_found() {
        let created = Event::TopicCreated { topic };
        let asked = Event::DeletionAsked { topic };
        let deleted = Event::TopicDeleted { topic };
        let there = Event::FinalTopics { topics: vec![topic] };
        let nothing = Event::FinalTopics { topics: Vec::new() };
        let wrong = |events: &[&Event]| check(&events.iter().copied().cloned().collect::<Vec<_>>()).len();
        assert_eq!(wrong(&[&created, &there]), 0);
        assert_eq!(wrong(&[&created, &nothing]), 1);
        assert_eq!(wrong(&[&created, &asked, &nothing]), 0);
        assert_eq!(wrong(&[&created, &asked, &there]), 0, "the deletion may have failed");
        assert_eq!(wrong(&[&created, &asked, &deleted, &there]), 1);
        assert_eq!(wrong(&[&there]), 1);
    }
}
