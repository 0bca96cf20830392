//! The types of settings. Each type is read from text and from TOML, and written back as text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes; text forms: `1073741824`, `64MiB`, `1.5 GiB`, `500 MB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The number as `usize`; `usize::MAX` if it does not fit.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unreadable =
            || format!("\"{text}\" is not a number of bytes; write for example 1048576 or 64MiB");
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit_bytes: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(unreadable()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole
                .checked_mul(unit_bytes)
                .map(Bytes)
                .ok_or_else(|| format!("{text} is too large"));
        }
        let fraction: f64 = number.parse().map_err(|_| unreadable())?;
        Ok(Bytes((fraction * unit_bytes as f64) as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size));
        match unit {
            Some((name, size)) if self.0 > 0 => write!(f, "{}{name}", self.0 / size),
            _ => write!(f, "{}B", self.0),
        }
    }
}

/// A memory budget: a number of bytes, or a percentage of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// A number of bytes.
    Fixed(Bytes),
    /// A percentage from 1 to 90 of [`available_memory_bytes`].
    Percent(u8),
}

impl Budget {
    /// The number of bytes of the budget on a machine with `memory_bytes` bytes of memory.
    pub fn bytes(self, memory_bytes: u64) -> u64 {
        match self {
            Budget::Fixed(bytes) => bytes.0,
            Budget::Percent(percent) => memory_bytes / 100 * u64::from(percent),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix('%') {
            None => text.parse().map(Budget::Fixed),
            Some(percent) => match percent.trim().parse::<u8>() {
                Ok(percent @ 1..=90) => Ok(Budget::Percent(percent)),
                _ => Err(format!("\"{text}\" is not a percentage from 1% to 90%")),
            },
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Fixed(bytes) => bytes.fmt(f),
            Budget::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// The listener is off.
    Off,
    /// The listener binds to `host:port`.
    Address(String),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Listen::Off);
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Listen::Address(text.to_string()))
            }
            _ => Err(format!(
                "\"{text}\" is not an address with a port; write for example 127.0.0.1:5433, [::1]:5433 or off"
            )),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Off => f.write_str("off"),
            Listen::Address(address) => f.write_str(address),
        }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, source, message and fields.
    Text,
    /// Like `Text`, but without the source; for reading at a terminal.
    Compact,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "compact" => Ok(LogFormat::Compact),
            _ => Err(format!("\"{text}\" is not a log format; write text or compact")),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Compact => "compact",
        })
    }
}

/// Implements `Deserialize` and `Serialize` for a type: reads a TOML string, and if allowed a TOML
/// number, by `FromStr`; writes by `Display`.
macro_rules! as_text {
    ($($type:ty),*) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = String;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string or a number")
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
                        Ok(text.to_string())
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
                        Ok(number.to_string())
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
                        Ok(number.to_string())
                    }
                }
                deserializer.deserialize_any(Text)?.parse().map_err(de::Error::custom)
            }
        }
    )* };
}

as_text!(Bytes, Budget, Listen, LogFormat);

/// Number of bytes of memory that this process may use: the memory of the machine, or the limit of
/// its control group if lower. 4 GiB if neither value is readable.
pub fn available_memory_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
    });
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_limit(&groups, |path| std::fs::read_to_string(path).ok());
    match (machine, group) {
        (Some(machine), Some(group)) => machine.min(group),
        (Some(bytes), None) | (None, Some(bytes)) => bytes,
        (None, None) => 4 << 30,
    }
}

/// The lowest memory limit among the control groups in `/proc/self/cgroup` and their parents. In a
/// container, the root is the group of the container.
fn group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let of_version_2 =
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| (root, "memory.max"));
    let of_version_1 = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
    let mut lowest = None;
    let roots = [("", ""), ("memory", "")];
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    for (controllers, path) in roots.into_iter().chain(lines) {
        let places: &[(&str, &str)] = match controllers {
            "" => &of_version_2,
            _ if controllers.split(',').any(|controller| controller == "memory") => &of_version_1,
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            let limits = places.iter().filter_map(|(root, file)| {
                read(&format!("{root}{path}/{file}"))?.trim().parse::<u64>().ok()
            });
            lowest = limits.chain(lowest).min();
            match path.rfind('/') {
                Some(at) => path = path.get(..at).unwrap_or(""),
                None => break,
            }
        }
    }
    lowest
}

#[cfg(test)]
mod tests;
