use stratalog_model::{Error, ErrorKind};

use super::{Outcome, Signal, Tally, status};
use crate::{Encoding, Item};

fn outcome(signal: Signal, errors: u64) -> Outcome {
    let mut tally = Tally { errors_max: 5, accepted: 1, ..Tally::default() };
    for number in 1..=errors {
        let error = Error::new(ErrorKind::InvalidName, "it is \"wrong\"").with_hint("mend it");
        tally.refuse(Item::DataPoint, number, 2, &error);
    }
    Outcome {
        signal,
        tables: Vec::new(),
        errors: tally.errors,
        errors_count: tally.errors_count,
        accepted: tally.accepted,
        rejected: tally.rejected,
    }
}

#[test]
fn messages() {
    assert_eq!(outcome(Signal::Logs, 0).message(), "1 log record accepted, 0 rejected");
    assert_eq!(
        outcome(Signal::Metrics, 1).message(),
        "1 data point accepted, 2 rejected: data point 1: it is \"wrong\"; mend it"
    );
    let many = outcome(Signal::Metrics, 9);
    assert_eq!((many.errors.len(), many.errors_count, many.rejected), (5, 9, 18));
    assert!(many.message().ends_with("data point 3: it is \"wrong\"; mend it | and 6 more errors"));
}

#[test]
fn responses() {
    let clean = outcome(Signal::Metrics, 0);
    assert_eq!(clean.response(Encoding::Protobuf), b"");
    assert_eq!(clean.response(Encoding::Json), b"{}");
    let partial = outcome(Signal::Metrics, 1);
    let mut expected = vec![0x0a, 75, 0x08, 2, 0x12, 71];
    expected.extend(partial.message().as_bytes());
    assert_eq!(partial.response(Encoding::Protobuf), expected);
    assert_eq!(
        String::from_utf8(partial.response(Encoding::Json)).unwrap(),
        "{\"partialSuccess\":{\"rejectedDataPoints\":\"2\",\"errorMessage\":\"1 data point accepted, \
         2 rejected: data point 1: it is \\\"wrong\\\"; mend it\"}}"
    );
    assert_eq!(outcome(Signal::RemoteWrite, 1).response(Encoding::Protobuf), b"");
}

#[test]
fn statuses() {
    assert_eq!(status(3, "no", Encoding::Protobuf), b"\x08\x03\x12\x02no");
    assert_eq!(status(0, "", Encoding::Protobuf), b"");
    assert_eq!(status(3, "n\"o", Encoding::Json), b"{\"code\":3,\"message\":\"n\\\"o\"}");
}
