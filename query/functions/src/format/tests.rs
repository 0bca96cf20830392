use datafusion::error::DataFusionError;

use super::*;

fn written(format: &str, arguments: &[Option<&str>]) -> Result<String, Error> {
    let mut room = Room::of(1);
    formatted(format, &|at| arguments.get(at).copied(), &mut room).map_err(|error| match error {
        DataFusionError::External(error) => *error.downcast::<Error>().unwrap(),
        other => panic!("{other}"),
    })
}

#[test]
fn arguments_take_their_places() {
    let two = [Some("a"), Some("b c")];
    for (format, wanted) in [
        ("no place, 100%%", "no place, 100%"),
        ("%s|%s", "a|b c"),
        ("%2$s|%1$s|%s", "b c|a|b c"),
        ("%I %I", "a \"b c\""),
        ("%2$L", "'b c'"),
        ("|%4s|%-5s|", "|   a|b c  |"),
        ("|%1$3s|%1$-3s|", "|  a|a  |"),
    ] {
        assert_eq!(written(format, &two).unwrap(), wanted, "{format}");
    }
    assert_eq!(written("%s|%L", &[None, None]).unwrap(), "|NULL");
    assert_eq!(
        written("|%*s|%-*s|", &[Some("3"), Some("x"), Some("3"), Some("é")]).unwrap(),
        "|  x|é  |"
    );
    assert_eq!(written("|%*s|", &[Some("-3"), Some("x")]).unwrap(), "|x  |");
    assert_eq!(written("|%2$*1$s|", &[Some("3"), Some("x")]).unwrap(), "|  x|");
    assert_eq!(written("|%*s|", &[None, Some("x")]).unwrap(), "|x|");
}

#[test]
fn what_is_wrong_is_told() {
    use ErrorKind as E;
    for (format, kind, message) in [
        ("%", E::InvalidParameterValue, "unterminated format() type specifier"),
        ("%1$", E::InvalidParameterValue, "unterminated format() type specifier"),
        ("%-", E::InvalidParameterValue, "unterminated format() type specifier"),
        ("%x", E::InvalidParameterValue, "unrecognized format() type specifier \"x\""),
        ("%s %s", E::InvalidParameterValue, "too few arguments for format()"),
        ("%2$s", E::InvalidParameterValue, "too few arguments for format()"),
        (
            "%0$s",
            E::InvalidParameterValue,
            "format specifies argument 0, but arguments are numbered from 1",
        ),
        ("%99999999999s", E::NumericOutOfRange, "number is out of range"),
        ("%*s", E::InvalidTextRepresentation, "invalid input syntax for type integer: \"x\""),
        ("%2000000000s", E::LimitExceeded, "requested length too large"),
    ] {
        let error = written(format, &[Some("x")]).unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, message), "{format}");
    }
    assert_eq!(written("%I", &[None]).unwrap_err().kind(), E::NullNotAllowed);
}
