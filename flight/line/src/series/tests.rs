use super::SeriesCache;

fn add(cache: &mut SeriesCache, identity: &[u8], value: &str) -> u32 {
    cache.add(identity, 0, [(0, value)].into_iter())
}

fn value(cache: &SeriesCache, number: u32) -> &str {
    let tags = cache.texts.tags(&cache.entries[number as usize]);
    cache.texts.value(tags[0])
}

#[test]
fn the_series_that_followed_is_guessed() {
    let mut cache = SeriesCache::new(10, 1_000);
    let a = add(&mut cache, b"a", "1");
    let b = add(&mut cache, b"b", "2");
    let ab = add(&mut cache, b"ab", "3");
    assert_eq!(cache.find(b"a"), Some(a));
    assert_eq!(cache.expected_next(b"b f=1"), Some((b, 1)));
    assert_eq!(cache.expected_next(b"ab f=1"), Some((ab, 2)));
    // The successor of the last series is the first series. Then follow a line with another series
    // than expected, and a line with a longer identity.
    assert_eq!(cache.expected_next(b"a f=1"), Some((a, 1)));
    assert_eq!(cache.expected_next(b"ab f=1"), None);
    assert_eq!(cache.expected_next(b"bc f=1"), None);
    assert_eq!(cache.expected_next(b"b"), None);
    assert_eq!(cache.find(b"ab"), Some(ab));
    assert_eq!(cache.find(b"c"), None);
    assert_eq!((value(&cache, a), value(&cache, b), value(&cache, ab)), ("1", "2", "3"));
}

#[test]
fn a_full_cache_is_emptied() {
    let mut cache = SeriesCache::new(2, 1_000);
    add(&mut cache, b"a", "1");
    add(&mut cache, b"b", "2");
    let generation = cache.generation;
    let c = add(&mut cache, b"c", "3");
    assert_ne!(cache.generation, generation);
    assert_eq!((cache.find(b"a"), cache.find(b"c")), (None, Some(c)));
    let mut cache = SeriesCache::new(100, 300);
    for number in 0..100_u8 {
        add(&mut cache, &[number; 20], "value");
        assert!(cache.bytes() <= 300);
    }
}

#[test]
fn the_last_series_can_be_taken_back() {
    let mut cache = SeriesCache::new(10, 1_000);
    let a = add(&mut cache, b"a", "1");
    let bytes = cache.bytes();
    add(&mut cache, b"b", "2");
    cache.remove_last();
    assert_eq!((cache.bytes(), cache.find(b"b")), (bytes, None));
    let c = add(&mut cache, b"c", "3");
    assert_eq!((cache.find(b"a"), cache.find(b"c")), (Some(a), Some(c)));
    assert_eq!(value(&cache, c), "3");
}
