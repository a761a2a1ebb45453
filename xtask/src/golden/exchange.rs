//! What was asked and answered, and which of it is worth keeping.

use std::collections::{BTreeMap, BTreeSet};

/// Longer ones are left out: there are shorter ones that show the same.
const LONGEST: usize = 4_096;

/// A request and the reply to it, both without their lengths.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exchange {
    pub(super) api: i16,
    pub(super) version: i16,
    /// What the client calls itself.
    pub(super) client: String,
    pub(super) request: Vec<u8>,
    /// None if the request wants no reply.
    pub(super) reply: Option<Vec<u8>>,
}

impl Exchange {
    /// A request by its header, and the number that its reply will have. None if it is no request.
    pub(super) fn begin(request: &[u8]) -> Option<(Self, i32)> {
        let (api, rest) = request.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        // Null is -1.
        let length = usize::try_from(i16::from_be_bytes(*length)).unwrap_or(0);
        let exchange = Self {
            api: i16::from_be_bytes(*api),
            version: i16::from_be_bytes(*version),
            client: String::from_utf8_lossy(rest.get(..length)?).into_owned(),
            request: request.to_vec(),
            reply: None,
        };
        Some((exchange, i32::from_be_bytes(*number)))
    }

    fn size(&self) -> usize {
        self.request.len() + self.reply.as_ref().map_or(0, Vec::len)
    }

    /// What was asked by whomever, and how long the answer was: the content of ApiVersions, for one, changes all the
    /// time.
    fn said(&self) -> (i16, i16, Vec<u8>, Option<usize>) {
        let after_client = self.request.get(10 + self.client.len()..).unwrap_or_default();
        (self.api, self.version, after_client.to_vec(), self.reply.as_ref().map(Vec::len))
    }
}

/// Of each API, version and client the shortest exchange and the longest, in that order; what several clients said
/// alike is kept once. What a client without a name did is not meant to be kept.
pub(super) fn selected(exchanges: Vec<Exchange>) -> Vec<Exchange> {
    let mut alike = BTreeMap::<_, Vec<_>>::new();
    for exchange in exchanges {
        if !exchange.client.is_empty() && exchange.size() <= LONGEST {
            let key = (exchange.api, exchange.version, exchange.client.clone());
            alike.entry(key).or_default().push(exchange);
        }
    }
    let mut said = BTreeSet::new();
    let mut kept: Vec<_> = alike.into_values().flat_map(shortest_and_longest).collect();
    kept.retain(|exchange| said.insert(exchange.said()));
    kept
}

fn shortest_and_longest(mut alike: Vec<Exchange>) -> Vec<Exchange> {
    // Stable: of equally long ones, the first that was seen.
    alike.sort_by_key(Exchange::size);
    let longest = alike.iter().position(|one| Some(one.size()) == alike.last().map(Exchange::size));
    let longest = longest.filter(|at| *at > 0).map(|at| alike[at].clone());
    alike.into_iter().take(1).chain(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_its_header() {
        let request = [0, 3, 0, 12, 0, 0, 1, 0, 0, 2, b'm', b'e', 42];
        let (exchange, number) = Exchange::begin(&request).unwrap();
        assert_eq!((exchange.api, exchange.version, number), (3, 12, 256));
        assert_eq!((&*exchange.client, &*exchange.request), ("me", &request[..]));
        let nameless = [0, 3, 0, 12, 0, 0, 1, 0, 0xff, 0xff];
        assert_eq!(Exchange::begin(&nameless).unwrap().0.client, "");
        assert_eq!(Exchange::begin(&request[..11]), None);
    }

    #[test]
    fn the_shortest_and_the_longest_are_kept() {
        let all = [("a", 25), ("a", 29), ("a", 27), ("", 21), ("b", LONGEST + 1), ("b", 23), ("b", 23)];
        assert_eq!(kept(&all), [("a", 25), ("a", 29), ("b", 23)]);
    }

    #[test]
    fn what_is_said_alike_is_kept_once() {
        assert_eq!(kept(&[("another", 27), ("one", 23), ("one", 24)]), [("another", 27), ("one", 24)]);
    }

    /// Who said what is kept, in how many bytes, of what was said in so many.
    fn kept<'a>(all: &[(&'a str, usize)]) -> Vec<(&'a str, usize)> {
        let exchanges = all.iter().map(|(client, length)| Exchange {
            api: 1,
            version: 2,
            client: (*client).into(),
            request: vec![0; *length],
            reply: None,
        });
        let kept = selected(exchanges.collect());
        let name = |kept: &Exchange| all.iter().find(|(client, _)| *client == kept.client).unwrap().0;
        kept.iter().map(|kept| (name(kept), kept.request.len())).collect()
    }
}
