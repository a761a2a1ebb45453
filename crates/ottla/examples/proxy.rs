//! Reads a topic through an HTTP proxy, as `curl --proxytunnel` would: a transport of one's own in thirty lines.
//!
//! `cargo run -p ottla --example proxy -- PROXY BROKERS TOPIC`, say `proxy:3128 kafka:9092 orders`. It prints how many records
//! each partition has. The brokers' names, also those that they advertise, are resolved by the proxy.

use std::{collections::BTreeMap, io};

use ottla::{Address, Connect, Connecting, Reader, Tcp, Transport, Until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [proxy, brokers, topic] = arguments.as_slice() else {
        return Err("usage: proxy PROXY BROKERS TOPIC".into());
    };
    let proxy = HttpProxy::new(proxy.parse()?);
    let mut reader =
        Reader::builder(brokers).topic(topic).connect(proxy).until(Until::End).max_attempts(3).open()?;
    let mut records = BTreeMap::<i32, u64>::new();
    while let Some(batch) = reader.next_batch().await? {
        *records.entry(batch.partition()).or_default() += batch.records().count() as u64;
    }
    println!("{records:?}");
    Ok(())
}

/// Goes through an HTTP proxy by CONNECT (RFC 9110, 9.3.6).
pub struct HttpProxy {
    proxy: Address,
    tcp: Tcp,
}

impl HttpProxy {
    /// Through this one.
    pub fn new(proxy: Address) -> Self {
        Self { proxy, tcp: Tcp::new() }
    }

    async fn tunnel(&self, broker: &Address) -> io::Result<Transport> {
        // What comes back is plain TCP: reading through it is as fast as without a proxy.
        let mut stream = self.tcp.connect(&self.proxy).await?;
        let ask = format!("CONNECT {broker} HTTP/1.1\r\nHost: {broker}\r\n\r\n");
        stream.write_all(ask.as_bytes()).await?;
        let answer = head(&mut stream).await?;
        let status = answer.lines().next().unwrap_or_default();
        match status.split(' ').nth(1) {
            Some("200") => Ok(stream),
            _ => Err(io::Error::other(format!("it answered {status:?}"))),
        }
    }
}

impl Connect for HttpProxy {
    fn connect<'a>(&'a self, broker: &'a Address) -> Connecting<'a> {
        Box::pin(async move {
            let tunnel = self.tunnel(broker).await;
            tunnel.map_err(|error| {
                io::Error::new(error.kind(), format!("by the proxy {}: {error}", self.proxy))
            })
        })
    }
}

/// The head of the answer, byte by byte: what comes behind it is the broker's.
async fn head(stream: &mut Transport) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MOST_HEAD_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what answers is no HTTP proxy"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

const MOST_HEAD_BYTES: usize = 8 << 10;
