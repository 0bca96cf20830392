use super::*;

const SHAPE: CpuShape = CpuShape {
    hosts: 7,
    steps: 50,
    start_ns: 1_451_606_400_000_000_000,
    interval_ns: 10_000_000_000,
    seed: 123,
};

fn lines(mut generator: CpuGenerator) -> Vec<String> {
    let mut bytes = Vec::new();
    while generator.next_copy(8, &mut bytes) > 0 {}
    String::from_utf8(bytes).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn the_same_seed_gives_the_same_rows_whole_or_in_parts() {
    let whole = lines(CpuGenerator::new(SHAPE));
    assert_eq!(whole.len() as u64, SHAPE.rows());
    let mut parts = lines(CpuGenerator::part(SHAPE, 0, 2));
    parts.extend(lines(CpuGenerator::part(SHAPE, 1, 2)));
    let (mut sorted, mut other) = (whole.clone(), parts);
    sorted.sort();
    other.sort();
    assert_eq!(sorted, other);
    assert_eq!(whole, lines(CpuGenerator::new(SHAPE)));
    assert_ne!(whole, lines(CpuGenerator::new(CpuShape { seed: 124, ..SHAPE })));
}

#[test]
fn the_first_row_stays_what_it_is() {
    // The checksums that other files contain depend on the first line.
    let first = lines(CpuGenerator::new(SHAPE)).remove(0);
    assert!(first.starts_with("2016-01-01 00:00:00+00\thost_0\t"), "{first}");
    assert_eq!(first.split('\t').count(), 21);
    assert_eq!(
        crc32c::crc32c(lines(CpuGenerator::new(SHAPE)).join("\n").as_bytes()),
        4_041_054_208
    );
}

#[test]
fn lines_and_batches_hold_the_same_values() {
    let (mut copy, mut arrow) = (CpuGenerator::new(SHAPE), CpuGenerator::new(SHAPE));
    let mut bytes = Vec::new();
    assert_eq!(copy.next_copy(3, &mut bytes), 21);
    let batch = arrow.next_batch(3).unwrap().unwrap();
    assert_eq!(batch.num_rows(), 21);
    let text = String::from_utf8(bytes).unwrap();
    for (row, line) in text.lines().enumerate() {
        let values: Vec<&str> = line.split('\t').collect();
        let metric = batch.column(20).as_any().downcast_ref::<Float64Array>().unwrap();
        assert_eq!(values[20].parse::<f64>().unwrap(), metric.value(row));
        let host = batch.column(1).as_any().downcast_ref::<StringViewArray>().unwrap();
        assert_eq!(values[1], host.value(row));
        assert!((0.0..=100.0).contains(&metric.value(row)));
    }
    assert!(arrow.next_batch(1000).unwrap().is_some());
    assert!(arrow.next_batch(1).unwrap().is_none());
}
