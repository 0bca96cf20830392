use std::collections::HashMap;

use super::group_limit;

fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    group_limit(groups, |path| files.get(path).map(|text| (*text).to_string()))
}

#[test]
fn the_lowest_limit_of_the_groups_above_counts() {
    let two = "0::/system.slice/stratalog.service\n";
    let files = [
        ("/sys/fs/cgroup/system.slice/stratalog.service/memory.max", "max\n"),
        ("/sys/fs/cgroup/system.slice/memory.max", "2147483648\n"),
        ("/sys/fs/cgroup/other/memory.max", "1\n"),
    ];
    assert_eq!(limit(two, &files), Some(2 << 30));
    let one = "9:name=systemd:/\n5:cpu,memory:/a/b\n1:cpu:/c\n0::/\n";
    let files = [
        ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1048576\n"),
        ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2097152\n"),
        ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n"),
    ];
    assert_eq!(limit(one, &files), Some(1 << 20));
}

#[test]
fn a_container_sees_its_own_group_as_the_root() {
    let files = [("/sys/fs/cgroup/memory.max", "1073741824\n")];
    assert_eq!(limit("0::/../../elsewhere\n", &files), Some(1 << 30));
    assert_eq!(limit("", &files), Some(1 << 30));
    assert_eq!(limit("", &[]), None);
}
