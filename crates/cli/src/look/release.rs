//! Which Kafka a broker is, judged by the APIs that it speaks: it does not say.

use ottla_wire::api::{
    ApiKey::{self, Fetch, JoinGroup, ListGroups, ListOffsets, Metadata},
    ApiVersions,
};

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

/// "3.9 (Fetch 17, Metadata 12, ListOffsets 9)".
pub(super) fn release(versions: &ApiVersions) -> String {
    let newest = |key: ApiKey| versions.range(key).map(|(_, max)| max);
    let since = SINCE.iter().find(|&&(key, version, _)| newest(key).is_some_and(|max| max >= version));
    let name = since.map_or("before 0.11", |&(_, _, name)| name);
    let of = |key: ApiKey| newest(key).map(|max| format!("{} {max}", key.name()));
    let apis: Vec<String> = [Fetch, Metadata, ListOffsets].into_iter().filter_map(of).collect();
    format!("{name} ({})", apis.join(", "))
}

#[cfg(test)]
mod tests {
    use ottla_wire::message::{ApiVersionsResponse, api_versions_response::ApiVersion};

    use super::*;

    fn spoken(apis: &[(ApiKey, i16)]) -> ApiVersions {
        let api = |&(key, max_version): &(ApiKey, i16)| ApiVersion {
            api_key: key as i16,
            min_version: 0,
            max_version,
        };
        ApiVersions::new(&ApiVersionsResponse {
            api_keys: apis.iter().map(api).collect(),
            ..ApiVersionsResponse::default()
        })
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
            assert_eq!(release(&spoken), format!("{told} {apis}"));
        }
        assert_eq!(release(&spoken(&[(Fetch, 3)])), "before 0.11 (Fetch 3)");
    }
}
