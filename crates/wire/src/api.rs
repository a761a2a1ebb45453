//! The APIs, and which of their versions both sides speak.

pub use crate::message::api_key::ApiKey;
use crate::message::{ApiVersionsResponse, Request};
use std::collections::BTreeMap;

/// The versions of each API that a broker says it speaks. APIs that are not known here are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiVersions {
    ranges: BTreeMap<ApiKey, (i16, i16)>,
}

impl ApiVersions {
    /// What the broker's reply says. An API whose range holds no version counts as not spoken.
    pub fn new(response: &ApiVersionsResponse) -> Self {
        let ranges = response.api_keys.iter().filter_map(|spoken| {
            let range = (spoken.min_version, spoken.max_version);
            ApiKey::from_i16(spoken.api_key).filter(|_| range.0 <= range.1).map(|key| (key, range))
        });
        Self { ranges: ranges.collect() }
    }

    /// The lowest and the highest version that the broker speaks.
    pub fn range(&self, key: ApiKey) -> Option<(i16, i16)> {
        self.ranges.get(&key).copied()
    }

    /// The highest version that both speak.
    pub fn pick<R: Request>(&self) -> Option<i16> {
        self.pick_at_most::<R>(i16::MAX)
    }

    /// The highest version that both speak and that is not above `cap`.
    pub fn pick_at_most<R: Request>(&self, cap: i16) -> Option<i16> {
        let (min, max) = self.range(R::KEY)?;
        let lowest = min.max(*R::VERSIONS.start());
        let highest = max.min(*R::VERSIONS.end()).min(cap);
        (lowest <= highest).then_some(highest)
    }
}

impl From<&ApiVersionsResponse> for ApiVersions {
    fn from(response: &ApiVersionsResponse) -> Self {
        Self::new(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::api_versions_response::ApiVersion;
    use crate::message::{FetchRequest, MetadataRequest};

    /// Fetch is spoken here from 4 to 18.
    #[test]
    fn the_highest_version_in_both_ranges() {
        for (min, max, cap, picked) in [
            (4, 18, i16::MAX, Some(18)),
            (0, 12, i16::MAX, Some(12)),
            (0, 99, i16::MAX, Some(18)),
            (0, 99, 12, Some(12)),
            (13, 17, 12, None),
            (0, 4, i16::MAX, Some(4)),
            (0, 3, i16::MAX, None),
            (18, 30, i16::MAX, Some(18)),
            (19, 30, i16::MAX, None),
            (12, 5, i16::MAX, None),
        ] {
            let versions = spoken(ApiKey::Fetch as i16, min, max);
            assert_eq!(versions.pick_at_most::<FetchRequest>(cap), picked, "{min}..={max} up to {cap}");
        }
    }

    #[test]
    fn an_api_that_the_broker_does_not_name_is_not_spoken() {
        let versions = spoken(ApiKey::Fetch as i16, 0, 18);
        assert_eq!(versions.pick::<MetadataRequest>(), None);
        assert_eq!(versions.range(ApiKey::Metadata), None);
    }

    #[test]
    fn an_unknown_api_is_left_out() {
        assert_eq!(spoken(12_345, 0, 1), ApiVersions::default());
    }

    fn spoken(api_key: i16, min_version: i16, max_version: i16) -> ApiVersions {
        let api_keys = vec![ApiVersion { api_key, min_version, max_version }];
        ApiVersions::new(&ApiVersionsResponse { api_keys, ..Default::default() })
    }
}
