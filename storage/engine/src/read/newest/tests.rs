use super::*;

/// A thousand groups with better candidates in each round: candidates that are no longer the best
/// of their group are dropped from memory, and the best stay.
#[test]
fn beaten_candidates_are_let_go() {
    let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Int64, false)]));
    for oldest in [false, true] {
        let mut found = NewestRows::new(Arc::clone(&schema), NewestOf { keys: Vec::new(), oldest });
        let sign = if oldest { -1 } else { 1 };
        for round in 0..200_i64 {
            // In every third round, the candidate of one group is missing.
            let groups: Vec<u32> = (0..1000).filter(|at| round % 3 != 0 || *at != 7).collect();
            let ticks: Vec<i64> =
                groups.iter().map(|group| sign * (round * 10 + i64::from(*group))).collect();
            let rows = (0..groups.len() as u32).collect();
            let column: ArrayRef = Arc::new(Int64Array::from(ticks.clone()));
            let candidates = EdgeCandidates { rows, ticks, groups };
            found.add(&candidates.batch(&schema, vec![column]).unwrap()).unwrap();
            assert!(found.rows <= 2 * 1000 + BEATEN_MAX);
        }
        assert!(found.batches.len() < 100);
        let best = found.best().unwrap();
        let ticks = best.column(0).as_primitive::<Int64Type>().values();
        // The last round has candidates for all groups.
        let wanted: Vec<i64> = (0..1000).map(|group| sign * (1990 + group)).collect();
        assert_eq!(ticks.as_ref(), wanted);
    }
}
