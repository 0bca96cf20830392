//! The bytes of an event: client number, event number, time of the append, and noise.

use stratalog_client::{Event, Update};

use crate::options::Failure;

/// Bytes of the three numbers.
pub(crate) const HEAD_BYTES: usize = 20;

/// The header of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) client: u32,
    pub(crate) sequence: u64,
    /// Nanoseconds since the start of the run's clock.
    pub(crate) began: u64,
}

impl Head {
    pub(crate) fn write(self, record: &mut [u8]) {
        let client = self.client.to_be_bytes().into_iter();
        let numbers = [self.sequence, self.began].into_iter().flat_map(u64::to_be_bytes);
        for (byte, value) in record.iter_mut().zip(client.chain(numbers)) {
            *byte = value;
        }
    }

    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let (client, rest) = record.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (began, _) = rest.split_first_chunk()?;
        Some(Self {
            client: u32::from_be_bytes(*client),
            sequence: u64::from_be_bytes(*sequence),
            began: u64::from_be_bytes(*began),
        })
    }
}

/// A generator of bytes that cannot be compressed.
#[derive(Debug)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u32) -> Self {
        Self(88_172_645_463_325_252 ^ (u64::from(seed) << 32))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend(self.0.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// The event of an update; a gap is an error.
pub(crate) fn event_of(update: Update) -> Result<Event, Failure> {
    match update {
        Update::Event(event) => Ok(event),
        Update::Gap { what, .. } => Err(format!("events are missing: {what}").into()),
    }
}
