//! How a broker is connected to: over TCP, or over whatever the caller brings.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use ottla_core::Address;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
};

/// Makes connections to brokers; see [`Builder::connect`](crate::Builder::connect).
///
/// [`Tcp`](crate::Tcp) is what is used unless told. Others go through a proxy, over a Unix socket, or to another address than
/// the one that a broker advertises. A closure will do:
///
/// ```no_run
/// # async fn example() -> Result<(), ottla::Error> {
/// use ottla::{Address, Connect, Reader, Tcp};
///
/// // The brokers advertise names that mean nothing here; each is forwarded to a port of this machine.
/// let forwarded = |broker: Address| async move {
///     let here = Address { host: "127.0.0.1".to_owned(), port: 10_000 + broker.port };
///     Tcp::new().connect(&here).await
/// };
/// let reader = Reader::builder("kafka:9092").topic("orders").connect(forwarded).open()?;
/// # Ok(())
/// # }
/// ```
///
/// `examples/proxy.rs` goes through an HTTP proxy.
pub trait Connect: Send + Sync + 'static {
    /// Connects to the broker at this address, of the bootstrap list or as the cluster advertises it.
    ///
    /// It need not bound its time: [`connect_timeout`](crate::Builder::connect_timeout) does, by dropping the future. It
    /// runs in a task of its own, several at a time.
    ///
    /// # Errors
    ///
    /// Why there is no connection. It is told behind the address, with the error's sources, as "cannot connect: ...", and
    /// tried again after a pause.
    fn connect<'a>(&'a self, broker: &'a Address) -> Connecting<'a>;
}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Transport>> + Send + 'a>>;

impl<F, Made, T> Connect for F
where
    F: Fn(Address) -> Made + Send + Sync + 'static,
    Made: Future<Output = io::Result<T>> + Send + 'static,
    T: Into<Transport>,
{
    fn connect<'a>(&'a self, broker: &'a Address) -> Connecting<'a> {
        let made = self(broker.clone());
        Box::pin(async move { Ok(made.await?.into()) })
    }
}

impl<C: Connect + ?Sized> Connect for Arc<C> {
    fn connect<'a>(&'a self, broker: &'a Address) -> Connecting<'a> {
        (**self).connect(broker)
    }
}

/// A connection that stands: bytes go both ways.
///
/// Made of a [`TcpStream`] it is as fast as that; of anything else, with an indirect call for each read.
pub struct Transport(Inner);

enum Inner {
    Tcp(TcpStream),
    /// The mutex is never locked: it makes a `Sync` of what is only `Send`.
    Other(Mutex<Box<dyn Stream>>),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Transport {
    /// Of any stream of bytes: one of TLS, of a Unix socket, of a tunnel.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Inner::Other(Mutex::new(Box::new(stream))))
    }

    /// Writes all of it, and has it sent: a stream of TLS may keep what is not flushed.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let failed = |error| format!("writing failed: {error}");
        self.write_all(bytes).await.map_err(failed)?;
        self.flush().await.map_err(failed)
    }
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Self(Inner::Tcp(stream))
    }
}

#[cfg(unix)]
impl From<tokio::net::UnixStream> for Transport {
    fn from(stream: tokio::net::UnixStream) -> Self {
        Self::new(stream)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Tcp(stream) => f.debug_tuple("Transport").field(stream).finish(),
            Inner::Other(_) => f.debug_struct("Transport").finish_non_exhaustive(),
        }
    }
}

impl AsyncRead for Transport {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Inner::Other(stream) => other(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Inner::Other(stream) => other(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Inner::Other(stream) => other(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Inner::Other(stream) => other(stream).poll_shutdown(context),
        }
    }
}

fn other(stream: &mut Mutex<Box<dyn Stream>>) -> Pin<&mut dyn Stream> {
    Pin::new(stream.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut())
}
