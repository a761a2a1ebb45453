//! A plain connection: one question, one answer. For the command's producer and for tests; not for users, and
//! without any promise that it stays as it is.

use std::{sync::Arc, time::Duration};

use ottla_core::{Address, AskError, Ledger};
use ottla_wire::{api::ApiVersions, code::Code, frame, message::Request};

use crate::{
    connection::senseless,
    dial::{Dialled, dial},
    error::Error,
    options::Options,
    pool::Pool,
};

/// A connection that is asked one thing at a time.
pub struct Connection {
    address: Address,
    dialled: Dialled,
    options: Options,
    pool: Arc<Pool>,
    correlation: i32,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and exchanges versions.
    ///
    /// # Errors
    ///
    /// What failed, with the address.
    pub async fn dial(address: &Address, options: &Options) -> Result<Self, Error> {
        let dialled = dial(address, options)
            .await
            .map_err(|reason| Error::connection(format!("{address}: {reason}")))?;
        Ok(Self {
            address: address.clone(),
            dialled,
            options: options.clone(),
            pool: Arc::new(Pool::new(Arc::new(Ledger::default()), 0)),
            correlation: 0,
        })
    }

    /// What the broker speaks.
    pub fn versions(&self) -> &ApiVersions {
        &self.dialled.versions
    }

    /// Asks in the highest version that both ends speak. After an error the connection is of no use, unless it is
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused): there is no such version.
    ///
    /// # Errors
    ///
    /// What failed, with the address.
    pub async fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, Error> {
        self.call_at_most(request, i16::MAX).await
    }

    /// As [`call`](Self::call), in no higher version than `cap`.
    ///
    /// # Errors
    ///
    /// What failed, with the address.
    pub async fn call_at_most<R: Request>(&mut self, request: &R, cap: i16) -> Result<R::Response, Error> {
        let version = self.version::<R>(cap)?;
        let limit = self.options.request_timeout;
        let answer = match tokio::time::timeout(limit, self.exchange(request, version)).await {
            Ok(answer) => answer,
            Err(_) => Err(no_answer(limit)),
        };
        answer.map_err(|reason| Error::connection(format!("{}: {reason}", self.address)))
    }

    /// The highest version that both ends speak, up to `cap`.
    pub(crate) fn version<R: Request>(&self, cap: i16) -> Result<i16, Error> {
        let versions = &self.dialled.versions;
        versions.pick_at_most::<R>(cap).ok_or_else(|| {
            let what = format!("{}: {}", self.address, AskError::no_version::<R>(versions, cap));
            Error::refused(what, Code::UNSUPPORTED_VERSION)
        })
    }

    async fn exchange<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response, String> {
        let Dialled { socket, frames, .. } = &mut self.dialled;
        self.correlation += 1;
        let bytes = frame::encode_request(request, version, self.correlation, &self.options.client_id)
            .map_err(|error| error.to_string())?;
        socket.send(&bytes).await?;
        let max_bytes = self.options.max_frame_bytes;
        let (frame, _) =
            frames.next(socket, &self.pool, max_bytes, None).await.map_err(|broken| broken.to_string())?;
        let (correlation, response) =
            frame::decode_response::<R>(frame, version).map_err(|error| senseless(&error))?;
        match correlation == self.correlation {
            true => Ok(response),
            false => Err(format!(
                "the broker answered request {correlation}, not {} ({})",
                self.correlation,
                R::NAME
            )),
        }
    }
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}
