//! Whether a broker is up: not when its port accepts, but when it answers in Kafka's protocol and the cluster
//! has the brokers it should have. Enough of two requests for that, spelt out by hand.

use crate::failure::{Result, fail};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;

/// Waits until the broker at `port` answers and knows `brokers` live brokers. `still_there` is asked meanwhile
/// and ends the wait with its error.
pub(crate) fn wait(
    port: u16,
    brokers: i32,
    limit: Duration,
    mut still_there: impl FnMut() -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        match ask(port) {
            Ok(found) if found >= brokers => return Ok(()),
            answer if Instant::now() > deadline => return fail(given_up(port, limit, &answer)),
            _ => still_there()?,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many live brokers the broker at `port` knows.
pub(crate) fn ask(port: u16) -> io::Result<i32> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let versions = exchange(&mut socket, API_VERSIONS, 0, &[])?;
    if !versions.starts_with(&[0, 0]) {
        return Err(io::Error::other("ApiVersions was refused"));
    }
    // Version 4: no topics (an empty array), and none to be created.
    let metadata = exchange(&mut socket, METADATA, 4, &[0, 0, 0, 0, 0])?;
    let after_throttle_time = metadata.get(4..8).and_then(|bytes| bytes.try_into().ok());
    after_throttle_time.map(i32::from_be_bytes).ok_or_else(|| io::Error::other("the metadata is too short"))
}

/// Sends a request and gives the body of its reply.
fn exchange(socket: &mut TcpStream, api: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
    const CORRELATION_ID: i32 = 0x0774;
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(CORRELATION_ID.to_be_bytes());
    request.extend(5i16.to_be_bytes());
    request.extend(b"xtask");
    request.extend(body);
    socket.write_all(&(request.len() as i32).to_be_bytes())?;
    socket.write_all(&request)?;

    let mut prefix = [0; 8];
    socket.read_exact(&mut prefix)?;
    let [length, correlation_id] = [0, 4].map(|at| i32_at(&prefix, at));
    if correlation_id != CORRELATION_ID || !(4..1 << 20).contains(&length) {
        return Err(io::Error::other("what answers is not Kafka"));
    }
    let mut reply = vec![0; length as usize - 4];
    socket.read_exact(&mut reply)?;
    Ok(reply)
}

fn i32_at(bytes: &[u8; 8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn given_up(port: u16, limit: Duration, answer: &io::Result<i32>) -> String {
    let last = match answer {
        Ok(brokers) => format!("it knows {brokers} live brokers"),
        Err(error) => error.to_string(),
    };
    format!("the broker on port {port} is not ready after {} s: {last}", limit.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server for one connection that answers every request with the next of `bodies`.
    fn answering(bodies: Vec<Vec<u8>>) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            for body in bodies {
                let mut prefix = [0; 12];
                socket.read_exact(&mut prefix).unwrap();
                let length = i32::from_be_bytes(prefix[..4].try_into().unwrap());
                io::copy(&mut (&mut socket).take(length as u64 - 8), &mut io::sink()).unwrap();
                socket.write_all(&(body.len() as i32 + 4).to_be_bytes()).unwrap();
                socket.write_all(&prefix[8..]).unwrap();
                socket.write_all(&body).unwrap();
            }
        });
        port
    }

    #[test]
    fn a_broker_says_how_many_it_knows() {
        let port = answering(vec![vec![0; 6], vec![0, 0, 0, 0, 0, 0, 0, 3, 9, 9]]);
        assert_eq!(ask(port).unwrap(), 3);
    }

    #[test]
    fn a_refusal_and_a_short_reply_are_no_answer() {
        assert!(ask(answering(vec![vec![0, 35]])).unwrap_err().to_string().contains("refused"));
        assert!(ask(answering(vec![vec![0; 6], vec![0; 5]])).unwrap_err().to_string().contains("short"));
    }

    #[test]
    fn a_port_that_only_accepts_is_not_ready() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let error = wait(port, 1, Duration::ZERO, || Ok(())).unwrap_err().to_string();
        assert!(error.contains("not ready after 0 s"), "{error}");
    }

    #[test]
    fn a_broker_that_died_ends_the_wait() {
        let port = super::super::ports::free(1).unwrap()[0];
        let died = wait(port, 1, Duration::from_secs(60), || fail("it died"));
        assert_eq!(died.unwrap_err().to_string(), "it died");
    }
}
