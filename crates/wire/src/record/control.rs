use super::RecordError;

/// What a record of a control batch says: how the transaction of its producer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The transaction was aborted: its records in this partition count for nothing.
    Abort,
    /// The transaction was committed.
    Commit,
    /// Another kind, such as those of Kafka's own metadata log.
    Other(i16),
}

impl Control {
    /// Reads the key of a record of a control batch.
    ///
    /// # Errors
    ///
    /// [`RecordError::Truncated`] for a key of fewer than four bytes.
    pub fn parse(key: Option<&[u8]>) -> Result<Self, RecordError> {
        let key = key.unwrap_or_default();
        let Some(&[_, _, high, low]) = key.first_chunk::<4>() else {
            return Err(RecordError::Truncated {
                what: "control record key",
                at: 0,
                wanted: 4,
                left: key.len(),
            });
        };
        Ok(match i16::from_be_bytes([high, low]) {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        })
    }

    /// The key of a control record of this kind.
    pub fn key(self) -> [u8; 4] {
        let kind: i16 = match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(other) => other,
        };
        let [high, low] = kind.to_be_bytes();
        [0, 0, high, low]
    }

    /// The value of an end marker: the coordinator that wrote it.
    pub fn value(coordinator_epoch: i32) -> [u8; 6] {
        let [a, b, c, d] = coordinator_epoch.to_be_bytes();
        [0, 0, a, b, c, d]
    }
}
