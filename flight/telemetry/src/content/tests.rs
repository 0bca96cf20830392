use super::{Encoding, check_otlp, check_remote_write};

#[test]
fn remote_write() {
    let protobuf = Some("application/x-protobuf");
    let named = Some("application/x-protobuf; proto=prometheus.WriteRequest");
    let snappy = Some("snappy");
    for (content_type, encoding, version) in [
        (protobuf, snappy, Some("0.1.0")),
        (named, snappy, None),
        (Some("Application/X-Protobuf"), Some("Snappy"), Some("1.0.0")),
    ] {
        check_remote_write(content_type, encoding, version).unwrap();
    }
    let two = Some("application/x-protobuf;proto=io.prometheus.write.v2.Request");
    for (content_type, encoding, version, message) in [
        (None, snappy, None, "remote write with no Content-Type is not supported"),
        (Some("text/plain"), snappy, None, "remote write with Content-Type \"text/plain\""),
        (protobuf, None, None, "remote write with no Content-Encoding is not supported"),
        (protobuf, Some("zstd"), None, "remote write with Content-Encoding \"zstd\""),
        (two, snappy, Some("2.0.0"), "remote write 2.0 (io.prometheus.write.v2.Request)"),
        (protobuf, snappy, Some("2.0.0"), "remote write 2.0"),
        (protobuf, snappy, Some("x"), "remote write of version \"x\""),
        (Some("application/x-protobuf;proto=a.B"), snappy, None, "messages \"a.B\""),
    ] {
        let error = check_remote_write(content_type, encoding, version).unwrap_err();
        assert!(error.message().starts_with("remote write"), "{error}");
        assert!(error.message().contains(message), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn otlp() {
    let json = check_otlp(Some("application/json; charset=utf-8")).unwrap();
    assert_eq!(json, Encoding::Json);
    assert_eq!(check_otlp(Some("Application/x-protobuf")).unwrap(), Encoding::Protobuf);
    let error = check_otlp(Some("text/plain")).unwrap_err();
    assert_eq!(error.message(), "OTLP with Content-Type \"text/plain\" is not supported");
    assert_eq!(error.hint(), Some("send application/x-protobuf or application/json"));
    check_otlp(None).unwrap_err();
}
