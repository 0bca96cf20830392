use super::*;

#[test]
fn names_are_written_in_one_way() {
    let name = StoryName { chronicle: ChronicleId(7), id: StoryId(42) };
    assert_eq!(name.to_string(), "7/00000000000000000042.parquet");
    assert_eq!("7/00000000000000000042.parquet".parse(), Ok(name));
    for other in [
        "",
        "7",
        "7/42.parquet",
        "07/00000000000000000042.parquet",
        "7/00000000000000000042.parquet.building",
        "7/+0000000000000000042.parquet",
        "a/00000000000000000042.parquet",
        "7/8/00000000000000000042.parquet",
        "4294967296/00000000000000000042.parquet",
        "7/99999999999999999999.parquet",
    ] {
        assert_eq!(other.parse::<StoryName>(), Err(()), "{other}");
    }
}
