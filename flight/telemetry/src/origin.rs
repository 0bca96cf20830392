//! The origin of OTLP data, which is a resource and a scope, and the tags that the origin adds to a
//! series.

use std::collections::HashMap;

use ahash::RandomState;
use stratalog_model::{Error, ErrorKind, chronicle::COLUMNS_MAX};

use crate::{
    Layout,
    attribute::{AnyValue, key_value},
    fault::Refusal,
    name::{exported, label_of, tag_of},
    reader::check_label_value,
    wire::{Fields, put_varint, text},
};

/// The attributes that identify a resource. All other attributes go to the metric `target_info`.
const SERVICE_NAME: &str = "service.name";
const SERVICE_NAMESPACE: &str = "service.namespace";
const SERVICE_INSTANCE: &str = "service.instance.id";

/// An encoded resource and scope, and the number that stands for the pair in identities.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) resource: &'a [u8],
    pub(crate) scope: &'a [u8],
    pub(crate) number: u64,
}

/// A cache that assigns numbers to pairs of resource and scope. The number takes the place of the
/// pair in the identities of series, which stay short. No number is used twice, so the entries of
/// the series cache may outlive the entries of this cache.
#[derive(Debug)]
pub(crate) struct Origins {
    numbers: HashMap<Box<[u8]>, u64, RandomState>,
    bytes: usize,
    next: u64,
    key: Vec<u8>,
    origins_max: usize,
    bytes_max: usize,
}

impl Origins {
    pub(crate) fn new(origins_max: usize, bytes_max: usize) -> Self {
        let numbers = HashMap::default();
        Self { numbers, bytes: 0, next: 0, key: Vec::new(), origins_max, bytes_max }
    }

    pub(crate) fn origin<'a>(
        &mut self,
        (namespace, layout): (&str, Layout<'_>),
        resource: &'a [u8],
        scope: &'a [u8],
    ) -> Origin<'a> {
        layout.begin_identity(&mut self.key, b'o');
        put_varint(&mut self.key, namespace.len() as u64);
        self.key.extend_from_slice(namespace.as_bytes());
        put_varint(&mut self.key, resource.len() as u64);
        self.key.extend_from_slice(resource);
        self.key.extend_from_slice(scope);
        if let Some(number) = self.numbers.get(self.key.as_slice()) {
            return Origin { resource, scope, number: *number };
        }
        if self.numbers.len() >= self.origins_max
            || self.bytes.saturating_add(self.key.len()) > self.bytes_max
        {
            self.numbers.clear();
            self.bytes = 0;
        }
        self.next += 1;
        if self.key.len() <= self.bytes_max {
            self.bytes += self.key.len();
            self.numbers.insert(self.key.as_slice().into(), self.next);
        }
        self.key.shrink_to(1 << 16);
        Origin { resource, scope, number: self.next }
    }
}

/// The tags of a new series.
#[derive(Debug)]
pub(crate) struct Tags {
    single: bool,
    depth_max: u32,
    tags: Vec<(String, String)>,
    /// Labels, each with the attribute key from which it comes; `None` if several keys became one
    /// label.
    keys: Vec<(String, Option<String>)>,
}

impl Tags {
    pub(crate) fn new(single: bool, depth_max: u32) -> Self {
        Self { single, depth_max, tags: Vec::new(), keys: Vec::new() }
    }

    /// Adds a tag with a reserved name, which no attribute can have. Adds nothing if the value is
    /// empty.
    pub(crate) fn push(&mut self, name: &str, value: String) -> Result<(), Refusal> {
        check_label_value(name, &value)?;
        if !value.is_empty() {
            self.tags.push((name.to_string(), value));
        }
        Ok(())
    }

    /// Adds the tags `job` and `instance`, which identify the resource.
    pub(crate) fn resource(&mut self, resource: &[u8]) -> Result<(), Refusal> {
        let (mut name, mut namespace, mut instance) = Default::default();
        for (key, value) in attributes(resource, 1)? {
            match key {
                SERVICE_NAME => name = value.to_text(self.depth_max)?,
                SERVICE_NAMESPACE => namespace = value.to_text(self.depth_max)?,
                SERVICE_INSTANCE => instance = value.to_text(self.depth_max)?,
                _ => {}
            }
        }
        let job = if namespace.is_empty() || name.is_empty() {
            name
        } else {
            format!("{namespace}/{name}")
        };
        self.push("job", job)?;
        self.push("instance", instance)
    }

    /// Adds the tags of the scope: `otel_scope_name`, `otel_scope_version` and its attributes.
    pub(crate) fn scope(&mut self, scope: &[u8]) -> Result<(), Refusal> {
        let scope_name = scope_name(scope)?;
        self.push("otel_scope_name", scope_name.name.to_string())?;
        self.push("otel_scope_version", scope_name.version.to_string())?;
        let attributes = attributes(scope, 3)?;
        self.attributes(attributes, |key| label_of(&format!("otel_scope_{key}")))
    }

    /// Adds the attributes of a point as tags. The attributes are in field number `field`.
    pub(crate) fn point(&mut self, point: &[u8], field: u32) -> Result<(), Refusal> {
        let attributes = attributes(point, field)?;
        self.attributes(attributes, label_of)
    }

    /// Adds the attributes of a resource as tags, except the identifying attributes. Returns false
    /// if the resource has only identifying attributes.
    pub(crate) fn target_info_attributes(&mut self, resource: &[u8]) -> Result<bool, Refusal> {
        let mut attributes = attributes(resource, 1)?;
        attributes.retain(|(key, _)| {
            !matches!(*key, SERVICE_NAME | SERVICE_NAMESPACE | SERVICE_INSTANCE)
        });
        let before = self.tags.len();
        self.attributes(attributes, label_of)?;
        Ok(self.tags.len() > before)
    }

    /// Adds attributes as tags. If several keys become one label, the tag joins their values in the
    /// order of the keys.
    fn attributes(
        &mut self,
        attributes: Vec<(&str, AnyValue<'_>)>,
        name: impl Fn(&str) -> String,
    ) -> Result<(), Refusal> {
        if self.tags.len() + attributes.len() > COLUMNS_MAX {
            return Err(Refusal::Item(too_many(self.tags.len() + attributes.len())));
        }
        let mut labels = Vec::with_capacity(attributes.len());
        for (key, value) in attributes {
            let value = value.to_text(self.depth_max)?;
            if !value.is_empty() {
                labels.push((tag_of(&name(key), self.single), key, value));
            }
        }
        labels.sort();
        let own = self.tags.len();
        for (label, key, value) in labels {
            check_label_value(&label, &value)?;
            let taken =
                |tags: &[(String, String)], name: &str| tags.iter().any(|(other, _)| other == name);
            let label = match self.tags.get(..own) {
                Some(own) if taken(own, &label) => exported(&label),
                _ => label,
            };
            match self.tags.iter_mut().skip(own).find(|(other, _)| *other == label) {
                Some((_, values)) => {
                    values.push(';');
                    values.push_str(&value);
                    let mut known = self.keys.iter_mut();
                    if let Some((_, known)) = known.find(|(other, _)| *other == label) {
                        *known = known.take().filter(|known| known == key);
                    }
                }
                None => {
                    self.keys.push((label.clone(), Some(key.to_string())));
                    self.tags.push((label, value));
                }
            }
        }
        Ok(())
    }

    /// The labels that come from a single key, with the key as the owner of the label's column. A
    /// label of several keys has no owner, so that points with only one of the keys keep their
    /// column.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().filter_map(|(label, key)| Some((label.as_str(), key.as_deref()?)))
    }

    /// Bytes of the values of all tags.
    pub(crate) fn bytes(&self) -> usize {
        self.tags.iter().map(|(_, value)| value.len()).sum()
    }

    pub(crate) fn as_pairs(&self) -> Vec<(&str, &str)> {
        self.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

fn too_many(attributes: usize) -> Error {
    Error::new(
        ErrorKind::TooManyColumns,
        format!(
            "a series has {attributes} attributes, and a table has at most {COLUMNS_MAX} columns"
        ),
    )
    .with_hint("send fewer attributes that differ from point to point")
}

/// Name and version of an instrumentation scope.
#[derive(Debug, Default)]
pub(crate) struct ScopeName<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
}

pub(crate) fn scope_name(scope: &[u8]) -> Result<ScopeName<'_>, Refusal> {
    let mut fields = Fields::of(scope);
    let (mut name, mut version): (&[u8], &[u8]) = (&[], &[]);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => name = field.bytes()?,
            2 => version = field.bytes()?,
            _ => {}
        }
    }
    let name = text(name, "the name of a scope")?;
    Ok(ScopeName { name, version: text(version, "the version of a scope")? })
}

/// Decodes the attributes in field `number` of a message.
pub(crate) fn attributes(
    message: &[u8],
    number: u32,
) -> Result<Vec<(&str, AnyValue<'_>)>, Refusal> {
    let mut fields = Fields::of(message);
    let mut attributes = Vec::new();
    while let Some(field) = fields.next()? {
        if field.number == number {
            attributes.push(key_value(field.bytes()?)?);
        }
    }
    Ok(attributes)
}

/// The name of the service of a resource; '' without the attribute.
pub(crate) fn service_name(resource: &[u8], depth_max: u32) -> Result<String, Refusal> {
    let attributes = attributes(resource, 1)?;
    let service = attributes.iter().rev().find(|(key, _)| *key == SERVICE_NAME);
    service.map_or(Ok(String::new()), |(_, value)| value.to_text(depth_max))
}
