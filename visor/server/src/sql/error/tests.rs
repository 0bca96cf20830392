use super::*;

#[test]
fn the_caret_stands_under_the_character() {
    let error = SqlError {
        sqlstate: "42703".into(),
        position: Some(15),
        hint: Some("try b".into()),
        ..SqlError::local("column \"c\" does not exist")
    };
    assert_eq!(
        error.render("select a\nfrom c, d"),
        "ERROR:  42703: column \"c\" does not exist\nLINE 2: from c, d\n             ^\nHINT:  try b"
    );
    let long = format!("select {} c", "x".repeat(200));
    let error = SqlError { position: Some(u32::try_from(long.len()).unwrap()), ..error };
    let text = error.render(&long);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1].chars().nth(lines[2].len() - 1), Some('c'), "{text}");
}

#[test]
fn a_position_outside_of_the_statement_is_left_out() {
    let error = SqlError { position: Some(500), ..SqlError::local("x") };
    assert_eq!(error.render("select 1"), "ERROR:  x");
}
