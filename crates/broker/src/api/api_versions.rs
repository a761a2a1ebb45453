//! ApiVersions, versions 0 to 5.
//!
//! - A version that is not spoken is answered in version 0, with UNSUPPORTED_VERSION and the range of ApiVersions alone
//!   (KIP-511).
//! - From version 3 on the client has to name its software as Kafka's rule wants it, else INVALID_REQUEST.
//! - Produce is said to be spoken from version 0, as Kafka says for old clients' sake (KAFKA-18659), but from 3 only.
//!
//! Not imitated: features (KIP-584), none is named; the check of cluster and node of version 5 (KIP-1242).

use super::{Asks, Call, SPOKEN, Serve, Served};
use crate::store::Store;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::message::api_versions_response::ApiVersion;
use ottla_wire::message::{ApiVersionsRequest, ApiVersionsResponse};

impl Asks for ApiVersionsRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }
}

impl Serve for ApiVersionsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<ApiVersionsResponse> {
        if let Some(code) = call.errors.top() {
            return Served::Reply(failed(code));
        }
        if call.version >= 3 && !is_named(&self) {
            return Served::Reply(failed(Code::INVALID_REQUEST));
        }
        let api_keys = SPOKEN.iter().filter_map(|&(api, _)| range(store, api)).collect();
        Served::Reply(ApiVersionsResponse { api_keys, ..Default::default() })
    }
}

/// The reply, to be written in version 0, to a version that is not spoken.
pub(crate) fn unsupported(store: &Store) -> ApiVersionsResponse {
    let api_keys = range(store, ApiKey::ApiVersions).into_iter().collect();
    ApiVersionsResponse { api_keys, ..failed(Code::UNSUPPORTED_VERSION) }
}

fn failed(code: Code) -> ApiVersionsResponse {
    ApiVersionsResponse { error_code: code.0, ..Default::default() }
}

fn range(store: &Store, api: ApiKey) -> Option<ApiVersion> {
    let (mut min_version, max_version) = super::versions(store, api)?;
    if api == ApiKey::Produce && min_version == 3 {
        min_version = 0;
    }
    Some(ApiVersion { api_key: api as i16, min_version, max_version })
}

/// Kafka's rule: letters and digits, and inside also `-` and `.`.
fn is_named(request: &ApiVersionsRequest) -> bool {
    let is_name = |name: &str| {
        let edge = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        let inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
        edge(name.chars().next()) && edge(name.chars().next_back()) && name.chars().all(inside)
    };
    is_name(&request.client_software_name) && is_name(&request.client_software_version)
}
