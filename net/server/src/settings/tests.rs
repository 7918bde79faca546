use super::*;

fn broker(settings: &[(&str, &str)]) -> Result<BrokerSettings, SettingError> {
    let owned: Vec<_> = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    BrokerSettings::from_file(&owned)
}

#[test]
fn what_a_fetch_may_answer_is_bounded_where_it_is_set() {
    assert_eq!(broker(&[]).unwrap().fetch_bytes_max, 16 << 20);
    assert!(broker(&[("fetch.max.bytes", "16777216")]).is_ok());
    let refused = broker(&[("fetch.max.bytes", "57671680")]).unwrap_err().to_string();
    assert!(refused.contains("from 1024 to 16777216"), "{refused}");
}

#[test]
fn every_listed_setting_is_known_and_no_other() {
    for name in TOPIC_SETTINGS {
        let refused = TopicSettings::default().set(name, "\u{0}").unwrap_err();
        assert!(!matches!(refused, SettingError::Unknown { .. }), "{name}");
    }
    for name in BROKER_SETTINGS {
        let refused = broker(&[(name, "\u{0}")]).err();
        assert!(!matches!(refused, Some(SettingError::Unknown { .. })), "{name}");
    }
    let unknown = broker(&[("log.segment.byte", "1")]).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown setting `log.segment.byte`; did you mean `log.segment.bytes`?");
}

#[test]
fn the_finer_setting_wins_wherever_it_stands() {
    let settings = broker(&[("log.roll.ms", "5000"), ("log.roll.hours", "2")]).unwrap();
    assert_eq!(settings.topic.segment_age, Duration::from_secs(5));
    let retention =
        [("log.retention.ms", "1500"), ("log.retention.minutes", "3"), ("log.retention.hours", "2")];
    let ages = [&retention[..], &retention[1..], &retention[2..]]
        .map(|given| broker(given).unwrap().topic.retention_age.unwrap().as_millis());
    assert_eq!(ages, [1_500, 180_000, 7_200_000]);
}

#[test]
fn retention_has_no_limit_where_minus_one_says_so() {
    let settings = broker(&[("log.retention.hours", "-1"), ("log.retention.bytes", "1073741824")]).unwrap();
    assert_eq!((settings.topic.retention_age, settings.topic.retention_bytes), (None, Some(1 << 30)));
    let topic = settings.topic.with([("retention.bytes", "-1"), ("retention.ms", "0")].into_iter()).unwrap();
    assert_eq!((topic.retention_age, topic.retention_bytes), (Some(Duration::ZERO), None));
    assert!(broker(&[("log.retention.ms", "9223372036854775807")]).is_ok());
    for wrong in ["-2", "9223372036854775808"] {
        let refused = broker(&[("log.retention.ms", wrong)]).unwrap_err().to_string();
        let right = "a number from 0 to 9223372036854775807, or -1 for no limit";
        assert_eq!(refused, format!("setting `log.retention.ms`: `{wrong}` is not {right}"));
    }
}

#[test]
fn an_error_speaks_of_the_name_that_was_written() {
    let error = broker(&[("log.segment.bytes", "12")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `log.segment.bytes`: `12` is not a number of bytes from 1048576 to 1073741824"
    );
}

#[test]
fn what_is_not_carried_out_is_refused() {
    let error = TopicSettings::default().set("cleanup.policy", "compact").unwrap_err();
    assert_eq!(error.to_string(), "setting `cleanup.policy`: `compact` is not supported; delete is");
}

#[test]
fn every_setting_is_listed_with_a_value_that_sets_it() {
    let mut settings = TopicSettings::default();
    settings.set("flush.mode", "isr").unwrap();
    let source =
        |name: &str| if name == "flush.mode" { SettingSource::Topic } else { SettingSource::Default };
    let listed = settings.list(source);
    assert_eq!(listed.len(), TOPIC_SETTINGS.len());
    let mut again = TopicSettings::default();
    for setting in &listed {
        again.set(setting.name, &setting.value).unwrap();
        let own = setting.source == SettingSource::Topic;
        assert_eq!(own, setting.name == "flush.mode");
    }
    assert_eq!(again, settings);
}

#[test]
fn a_topic_starts_from_the_brokers_defaults() {
    let settings = broker(&[("flush.mode", "async"), ("message.max.bytes", "2000000")]).unwrap();
    let topic = settings.topic.with([("max.message.bytes", "1000")].into_iter()).unwrap();
    assert_eq!((topic.flush_mode, topic.max_message_bytes), (FlushMode::Async, 1000));
}

fn found<'s>(described: &'s [DescribedSetting], name: &str) -> &'s DescribedSetting {
    described.iter().find(|setting| setting.name == name).unwrap()
}

/// Name, value and the source's number of each synonym.
fn synonyms(setting: &DescribedSetting) -> Vec<(&str, &str, i8)> {
    setting.synonyms.iter().map(|one| (one.name, one.value.as_str(), one.source.code())).collect()
}

#[test]
fn a_topics_settings_are_told_with_where_they_come_from() {
    let file = [("log.retention.minutes", "3"), ("log.retention.hours", "2"), ("flush.mode", "isr")];
    let settings = broker(&file).unwrap();
    let own = BTreeMap::from([("segment.bytes".to_owned(), " 2000000".to_owned())]);
    let told = settings.describe_topic(&own, |_| true);
    assert!(told.iter().map(|setting| setting.name).eq(TOPIC_SETTINGS));
    let segments = found(&told, "segment.bytes");
    assert_eq!((segments.value.as_deref(), segments.source), (Some("2000000"), SettingSource::Topic));
    let default = ("log.segment.bytes", "134217728", 5);
    assert_eq!(synonyms(segments), [("segment.bytes", "2000000", 1), default]);
    let retention = found(&told, "retention.ms");
    assert_eq!((retention.value.as_deref(), retention.source), (Some("180000"), SettingSource::Broker));
    let others = [("log.retention.hours", "2", 4), ("log.retention.hours", "168", 5)];
    assert_eq!(synonyms(retention), [&[("log.retention.minutes", "3", 4)], &others[..]].concat());
    let flush = found(&told, "flush.mode");
    assert_eq!((flush.value.as_deref(), flush.source), (Some("isr"), SettingSource::Broker));
    assert_eq!(found(&told, "segment.ms").source, SettingSource::Default);
    assert!(told.iter().all(|setting| setting.value.is_some() && !setting.documentation.is_empty()));
    assert_eq!(settings.describe_topic(&own, |name| name == "segment.ms").len(), 1);
}

#[test]
fn what_a_topic_has_of_its_own_is_not_told_where_it_is_not_carried_out() {
    let own = BTreeMap::from([
        ("from.later".to_owned(), "1".to_owned()),
        ("segment.ms".to_owned(), "5".to_owned()),
    ]);
    let told = BrokerSettings::default().describe_topic(&own, |_| true);
    assert!(told.iter().all(|setting| setting.source == SettingSource::Default));
    assert_eq!(found(&told, "segment.ms").value.as_deref(), Some("604800000"));
}

#[test]
fn the_brokers_settings_are_told_under_every_name() {
    let settings = broker(&[("log.retention.ms", "60000"), ("num.partitions", "3")]).unwrap();
    let told = settings.describe(|_| true);
    assert!(told.iter().map(|setting| setting.name).eq(BROKER_SETTINGS));
    let value = |name: &str| {
        let setting = found(&told, name);
        (setting.value.as_deref(), setting.source.code())
    };
    assert_eq!(value("num.partitions"), (Some("3"), 4));
    assert_eq!(
        synonyms(found(&told, "num.partitions")),
        [("num.partitions", "3", 4), ("num.partitions", "1", 5)]
    );
    assert_eq!(value("log.retention.ms"), (Some("60000"), 4));
    assert_eq!(value("log.retention.minutes"), (None, 5));
    assert_eq!(value("log.retention.hours"), (Some("168"), 5));
    assert_eq!(value("log.roll.ms"), (None, 5));
    assert_eq!(value("log.roll.hours"), (Some("168"), 5));
    assert_eq!(value("message.max.bytes"), (Some("1048588"), 5));
    // What is told can be written, and says the same.
    for setting in &told {
        if let Some(value) = &setting.value {
            assert!(broker(&[(setting.name, value)]).is_ok(), "{} = {value}", setting.name);
        }
    }
}

#[test]
fn the_range_that_is_told_is_the_one_that_is_checked() {
    for setting in BrokerSettings::default().explain().iter().filter(|setting| setting.is_of_broker) {
        let is_allowed = |value: i128| broker(&[(setting.name, &value.to_string())]).is_ok();
        match setting.values {
            Values::Number { min, max, .. } => {
                assert!(is_allowed(min.into()) && is_allowed(max.into()), "{setting:?}");
                assert!(!is_allowed(i128::from(min) - 1) && !is_allowed(i128::from(max) + 1), "{setting:?}");
            }
            Values::Limit(_) => {
                assert!(is_allowed(-1) && is_allowed(0) && is_allowed(i64::MAX.into()), "{setting:?}");
                assert!(!is_allowed(-2) && !is_allowed(i128::from(i64::MAX) + 1), "{setting:?}");
            }
            Values::OneOf(words) => {
                assert!(words.iter().all(|word| broker(&[(setting.name, word)]).is_ok()), "{setting:?}");
                assert!(!is_allowed(0));
            }
            Values::Only(word) => assert!(broker(&[(setting.name, word)]).is_ok() && !is_allowed(7)),
            Values::Flag => assert!(broker(&[(setting.name, "true")]).is_ok() && !is_allowed(0)),
            Values::Written(_) => {
                assert!(broker(&[(setting.name, "x")]).is_ok() && broker(&[(setting.name, " ")]).is_err());
            }
        }
    }
}

#[test]
fn every_setting_that_is_refused_is_told() {
    let given = [("num.partitions", "0"), ("log.segment.bytes", "1048576"), ("zebra", "1")];
    let given: Vec<_> = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (settings, refused) = BrokerSettings::read_file(&given);
    let told: Vec<_> = refused.iter().map(ToString::to_string).collect();
    let count = "setting `num.partitions`: `0` is not a count from 1 to 10000";
    assert_eq!(told, [count, "unknown setting `zebra`"]);
    assert_eq!((settings.num_partitions, settings.topic.segment_bytes), (1, 1 << 20));
}

#[test]
fn log_directories_are_a_list_and_the_list_counts_before_the_one() {
    let folders = |given: &[(&str, &str)]| {
        let all = broker(given).unwrap().log_dirs;
        all.into_iter().map(|folder| folder.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(folders(&[]), Vec::<String>::new());
    assert_eq!(folders(&[("log.dirs", "/a, /b c ,d")]), ["/a", "/b c", "d"]);
    assert_eq!(folders(&[("log.dirs", "/a"), ("log.dir", "/b")]), ["/a"]);
    assert_eq!(folders(&[("log.dir", "/b")]), ["/b"]);
    for wrong in ["", "/a,,/b", "/a,", " , /b"] {
        let refused = broker(&[("log.dirs", wrong)]).unwrap_err().to_string();
        assert!(refused.ends_with("is not folders with commas between, none of them empty"), "{refused}");
    }
}

#[test]
fn the_log_directories_in_use_are_told_whoever_named_them() {
    let told = |settings: &BrokerSettings, name: &str| {
        let all = settings.describe(|_| true);
        let setting = found(&all, name).clone();
        (setting.value, setting.source.code(), setting.synonyms.len())
    };
    let one = broker(&[("log.dir", "/a")]).unwrap();
    assert_eq!(told(&one, "log.dirs"), (Some("/a".to_owned()), 4, 1));
    assert_eq!(told(&one, "log.dir"), (Some("/a".to_owned()), 4, 1));
    let both = broker(&[("log.dirs", "/a,/b"), ("log.dir", "/c")]).unwrap();
    assert_eq!(told(&both, "log.dirs"), (Some("/a,/b".to_owned()), 4, 2));
    let none = BrokerSettings { log_dirs: vec!["/data".into()], ..BrokerSettings::default() };
    assert_eq!(told(&none, "log.dirs"), (Some("/data".to_owned()), 5, 1));
    assert_eq!(told(&none, "log.dir"), (None, 5, 0));
    assert_eq!(told(&BrokerSettings::default(), "log.dirs"), (None, 5, 0));
}
