//! Whether a broker is up: not when its port accepts, but when it answers in Kafka's protocol and the cluster
//! has the brokers it should have. Enough of two requests for that, spelt out by hand.

use crate::failure::{Result, fail};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;

/// Waits until the broker at `port` answers and knows these brokers to be alive. `still_there` is asked meanwhile
/// and ends the wait with its error.
pub(crate) fn wait(
    port: u16,
    brokers: &[u16],
    limit: Duration,
    mut still_there: impl FnMut() -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        match ask(port) {
            Ok(found) if brokers.iter().all(|id| found.contains(id)) => return Ok(()),
            answer if Instant::now() > deadline => return fail(given_up(port, limit, &answer)),
            _ => still_there()?,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Which live brokers the broker at `port` knows.
pub(crate) fn ask(port: u16) -> io::Result<Vec<u16>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let versions = exchange(&mut socket, API_VERSIONS, 0, &[])?;
    if !versions.starts_with(&[0, 0]) {
        return Err(io::Error::other("ApiVersions was refused"));
    }
    // Version 4: no topics (an empty array), and none to be created.
    let metadata = exchange(&mut socket, METADATA, 4, &[0, 0, 0, 0, 0])?;
    brokers_in(&metadata).ok_or_else(|| io::Error::other("the metadata is too short"))
}

/// The ids in an answer to Metadata 4: behind the throttle time, brokers of an id, a host, a port and a rack.
fn brokers_in(metadata: &[u8]) -> Option<Vec<u16>> {
    let mut rest = metadata.get(4..)?;
    let count = take_i32(&mut rest)?;
    let one = |rest: &mut &[u8]| {
        let id = take_i32(rest)?;
        skip_string(rest)?;
        take_i32(rest)?;
        skip_string(rest)?;
        u16::try_from(id).ok()
    };
    (0..count).map(|_| one(&mut rest)).collect()
}

fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(i32::from_be_bytes(*number))
}

/// One that is null has the length -1.
fn skip_string(rest: &mut &[u8]) -> Option<()> {
    let (length, behind) = rest.split_first_chunk()?;
    *rest = behind.get(usize::try_from(i16::from_be_bytes(*length)).unwrap_or(0)..)?;
    Some(())
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

fn given_up(port: u16, limit: Duration, answer: &io::Result<Vec<u16>>) -> String {
    let last = match answer {
        Ok(brokers) => format!("the live brokers that it knows are {brokers:?}"),
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
    fn a_broker_says_which_ones_it_knows() {
        let mut metadata = vec![0, 0, 0, 0, 0, 0, 0, 2];
        metadata.extend([0, 0, 0, 3, 0, 1, b'h', 0, 0, 0, 9, 0xff, 0xff]);
        metadata.extend([0, 0, 0, 1, 0, 1, b'h', 0, 0, 0, 9, 0, 2, b'r', b'0']);
        metadata.extend([9, 9]);
        assert_eq!(ask(answering(vec![vec![0; 6], metadata.clone()])).unwrap(), [3, 1]);
        let cut_short = metadata[..25].to_vec();
        assert!(ask(answering(vec![vec![0; 6], cut_short])).unwrap_err().to_string().contains("short"));
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
        let error = wait(port, &[1], Duration::ZERO, || Ok(())).unwrap_err().to_string();
        assert!(error.contains("not ready after 0 s"), "{error}");
    }

    #[test]
    fn a_broker_that_died_ends_the_wait() {
        let port = super::super::ports::free(1).unwrap()[0];
        let died = wait(port, &[1], Duration::from_secs(60), || fail("it died"));
        assert_eq!(died.unwrap_err().to_string(), "it died");
    }
}
