//! Ranges of versions in advisories.
//!
//! Cargo's requirements ignore pre-releases: `>= 0.4.0` does not match `0.5.0-rc.1`. A vulnerability
//! ignores nothing. Therefore a range here compares versions by their order alone.

use std::fmt;

use semver::{Comparator, Op, Prerelease, Version, VersionReq};
use serde::{Deserialize, Serialize};

/// A range as in an advisory: conditions with commas between the conditions, `>= 0.10.0, < 0.11.6`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Range {
    text: String,
    conditions: VersionReq,
}

impl Range {
    /// Reads conditions like `>= 1.2.3, < 1.3.0`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = |reason: &str| format!("{text:?} is no range of versions: {reason}");
        let conditions = VersionReq::parse(text).map_err(|error| fault(&error.to_string()))?;
        if conditions.comparators.is_empty() {
            return Err(fault("write bounds, for example >= 1.2.3, < 1.3.0"));
        }
        if conditions.comparators.iter().any(|one| bounds(one).is_none()) {
            return Err(fault("wildcards are not supported; write bounds with >= and <"));
        }
        Ok(Self { text: text.to_string(), conditions })
    }

    /// Whether a version fulfils every condition.
    pub fn contains(&self, version: &Version) -> bool {
        self.conditions.comparators.iter().filter_map(bounds).all(|(low, high)| {
            low.is_none_or(|low| low.admits_above(version))
                && high.is_none_or(|high| high.admits_below(version))
        })
    }
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Range> for String {
    fn from(range: Range) -> Self {
        range.text
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One end of a range.
struct Bound {
    version: Version,
    inclusive: bool,
}

impl Bound {
    fn admits_above(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        order.is_gt() || self.inclusive && order.is_eq()
    }

    fn admits_below(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        order.is_lt() || self.inclusive && order.is_eq()
    }
}

/// The lower and the upper bound of a condition; `None` for a wildcard.
///
/// ```text
/// ^1.2.3  =  [1.2.3, 2.0.0-0)      ~1.2.3  =  [1.2.3, 1.3.0-0)      = 1.2.3  =  [1.2.3, 1.2.3]
/// ```
fn bounds(one: &Comparator) -> Option<(Option<Bound>, Option<Bound>)> {
    let version = Version {
        major: one.major,
        minor: one.minor.unwrap_or(0),
        patch: one.patch.unwrap_or(0),
        pre: one.pre.clone(),
        build: semver::BuildMetadata::EMPTY,
    };
    let bound = |version: &Version, inclusive| Some(Bound { version: version.clone(), inclusive });
    // The pre-release "0" is the lowest: [a, b-0) contains no pre-release of b.
    let before = |major, minor, patch| {
        let pre = Prerelease::new("0").unwrap_or(Prerelease::EMPTY);
        let version = Version { major, minor, patch, pre, build: semver::BuildMetadata::EMPTY };
        Some(Bound { version, inclusive: false })
    };
    let (major, minor, patch) = (version.major, version.minor, version.patch);
    Some(match one.op {
        Op::Exact => (bound(&version, true), bound(&version, true)),
        Op::Greater => (bound(&version, false), None),
        Op::GreaterEq => (bound(&version, true), None),
        Op::Less => (None, bound(&version, false)),
        Op::LessEq => (None, bound(&version, true)),
        Op::Tilde if one.minor.is_none() => (bound(&version, true), before(major + 1, 0, 0)),
        Op::Tilde => (bound(&version, true), before(major, minor + 1, 0)),
        Op::Caret if major > 0 || one.minor.is_none() => {
            (bound(&version, true), before(major + 1, 0, 0))
        }
        Op::Caret if minor > 0 || one.patch.is_none() => {
            (bound(&version, true), before(major, minor + 1, 0))
        }
        Op::Caret => (bound(&version, true), before(major, minor, patch + 1)),
        _ => return None,
    })
}
