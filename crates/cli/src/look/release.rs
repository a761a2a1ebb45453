//! Which Kafka a broker is, judged by the APIs that it speaks: it does not say.

use std::fmt;

use ottla_wire::{
    api::{
        ApiKey::{self, Fetch, JoinGroup, ListGroups, ListOffsets, Metadata},
        ApiVersions,
    },
    message::ApiVersionsResponse,
};
use serde::{Serialize, Serializer};

/// What a broker speaks, and which Kafka that suggests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Release {
    name: &'static str,
    /// The newest versions of some APIs.
    #[serde(serialize_with = "as_map")]
    apis: Vec<(&'static str, i16)>,
}

/// `metadata.version` (KIP-584), which brokers without ZooKeeper support up to that of their own release: its feature
/// levels, from `org.apache.kafka.server.common.MetadataVersion`. The newest first.
const FEATURE_LEVELS: &[(i16, &str)] = &[
    (34, "4.5 or later"),
    (31, "4.4"),
    (30, "4.3"),
    (28, "4.2"),
    (26, "4.1"),
    (22, "4.0"),
    (21, "3.9"),
    (20, "3.8"),
    (15, "3.7"),
    (12, "3.6"),
    (9, "3.5"),
    (8, "3.4"),
    (4, "3.3"),
];

/// The newest first: from the release on the broker speaks the API up to this version at least.
const SINCE: &[(ApiKey, i16, &str)] = &[
    (Fetch, 18, "4.1 or later"),
    (Metadata, 13, "4.0"),
    (Fetch, 17, "3.9"),
    (ListGroups, 5, "3.8"),
    (Fetch, 16, "3.7"),
    (Fetch, 15, "3.5 or 3.6"),
    (JoinGroup, 9, "3.2 to 3.4"),
    (Fetch, 13, "3.1"),
    (ListOffsets, 7, "3.0"),
    (Metadata, 11, "2.8"),
    (Fetch, 12, "2.7"),
    (ListGroups, 4, "2.6"),
    (JoinGroup, 7, "2.5"),
    (JoinGroup, 6, "2.4"),
    (Fetch, 11, "2.3"),
    (ListOffsets, 5, "2.2"),
    (Fetch, 10, "2.1"),
    (Fetch, 8, "2.0"),
    (Fetch, 7, "1.1"),
    (Fetch, 6, "1.0"),
    (Fetch, 5, "0.11"),
];

/// By its features where it names them, else by its APIs.
pub(super) fn release(response: &ApiVersionsResponse) -> Release {
    let versions = ApiVersions::new(response);
    let newest = |key: ApiKey| versions.range(key).map(|(_, max)| max);
    let by_apis = || SINCE.iter().find(|&&(key, version, _)| newest(key).is_some_and(|max| max >= version));
    let name = by_features(response).or_else(|| by_apis().map(|&(_, _, name)| name));
    let of = |key: ApiKey| newest(key).map(|max| (key.name(), max));
    Release {
        name: name.unwrap_or("before 0.11"),
        apis: [Fetch, Metadata, ListOffsets].into_iter().filter_map(of).collect(),
    }
}

fn by_features(response: &ApiVersionsResponse) -> Option<&'static str> {
    let features = &response.supported_features;
    let level = features.iter().find(|feature| feature.name == "metadata.version")?.max_version;
    FEATURE_LEVELS.iter().find(|&&(since, _)| level >= since).map(|&(_, name)| name)
}

/// "3.9 (Fetch 17, Metadata 12, ListOffsets 9)".
impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apis: Vec<String> = self.apis.iter().map(|(name, max)| format!("{name} {max}")).collect();
        write!(f, "{} ({})", self.name, apis.join(", "))
    }
}

fn as_map<S: Serializer>(apis: &[(&'static str, i16)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(apis.iter().copied())
}

#[cfg(test)]
mod tests {
    use ottla_wire::message::api_versions_response::{ApiVersion, SupportedFeatureKey};

    use super::*;

    fn spoken(apis: &[(ApiKey, i16)]) -> ApiVersionsResponse {
        let api = |&(key, max_version): &(ApiKey, i16)| ApiVersion {
            api_key: key as i16,
            min_version: 0,
            max_version,
        };
        ApiVersionsResponse { api_keys: apis.iter().map(api).collect(), ..ApiVersionsResponse::default() }
    }

    /// The versions are those that the brokers of these releases name.
    #[test]
    fn releases_are_told_by_what_they_speak() {
        for (fetch, metadata, offsets, join, list, told) in [
            (18, 13, 11, 9, 5, "4.1 or later"),
            (17, 12, 9, 9, 5, "3.9"),
            (12, 11, 6, 7, 4, "2.8"),
            (7, 5, 2, 2, 1, "1.1"),
        ] {
            let spoken = spoken(&[
                (Fetch, fetch),
                (Metadata, metadata),
                (ListOffsets, offsets),
                (JoinGroup, join),
                (ListGroups, list),
            ]);
            let apis = format!("(Fetch {fetch}, Metadata {metadata}, ListOffsets {offsets})");
            assert_eq!(release(&spoken).to_string(), format!("{told} {apis}"));
        }
        assert_eq!(release(&spoken(&[(Fetch, 3)])).to_string(), "before 0.11 (Fetch 3)");
    }

    #[test]
    fn features_say_it_more_closely() {
        for (level, name) in [(33, "4.4"), (34, "4.5 or later"), (29, "4.2"), (7, "3.3"), (1, "4.1 or later")]
        {
            let feature = SupportedFeatureKey {
                name: "metadata.version".to_owned(),
                min_version: 1,
                max_version: level,
            };
            let spoken = ApiVersionsResponse { supported_features: vec![feature], ..spoken(&[(Fetch, 18)]) };
            assert_eq!(release(&spoken).to_string(), format!("{name} (Fetch 18)"));
        }
    }
}
