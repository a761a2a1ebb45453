//! Stands between clients and a broker, hands on what they say, and remembers it.

use super::exchange::Exchange;
use crate::failure::{During, Result};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub(super) struct Proxy {
    listener: TcpListener,
    address: String,
}

/// What was said so far.
#[derive(Clone, Default)]
pub(super) struct Tape(Arc<Mutex<Vec<Exchange>>>);

impl Proxy {
    /// Clients may connect from now on; they are served once it is known from where.
    pub(super) fn listen() -> Result<Self> {
        let listening = || "listening for Kafka's clients".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).during(listening)?;
        let address = listener.local_addr().during(listening)?.to_string();
        Ok(Self { listener, address })
    }

    pub(super) fn address(&self) -> String {
        self.address.clone()
    }

    /// Serves in the background, as long as this process lives.
    pub(super) fn forward_to(self, broker: String) -> Tape {
        let tape = Tape::default();
        let served = tape.clone();
        thread::spawn(move || {
            for client in self.listener.incoming().flatten() {
                // A broker that is away right now is, to the client, one that hangs up.
                if let Ok(broker) = TcpStream::connect(&broker) {
                    let _ = serve(&client, &broker, &served);
                }
            }
        });
        tape
    }
}

/// Starts what hands on each direction until one of them ends, and then ends both.
fn serve(client: &TcpStream, broker: &TcpStream, tape: &Tape) -> io::Result<()> {
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let asked = Asked::default();
    let (tape_of_requests, asked_too) = (tape.clone(), asked.clone());
    hand_on(client, broker, move |frame| tape_of_requests.note_request(frame, &asked_too))?;
    let tape = tape.clone();
    hand_on(broker, client, move |frame| tape.note_reply(frame, &asked))
}

fn hand_on(from: &TcpStream, to: &TcpStream, mut note: impl FnMut(&[u8]) + Send + 'static) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    thread::spawn(move || {
        while let Ok(frame) = next_frame(&mut from) {
            // Noted first: who has the reply may already be the last to be waited for.
            note(&frame[4..]);
            if to.write_all(&frame).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
    Ok(())
}

/// A frame with its length.
fn next_frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    const MOST: usize = 256 << 20;
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    if length > MOST {
        return Err(io::Error::other("this is not Kafka's protocol"));
    }
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Where on the tape the open questions of a connection are, by their numbers.
type Asked = Arc<Mutex<HashMap<i32, usize>>>;

impl Tape {
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        locked(&self.0).clone()
    }

    fn note_request(&self, frame: &[u8], asked: &Asked) {
        if let Some((exchange, number)) = Exchange::begin(frame) {
            let mut exchanges = locked(&self.0);
            locked(asked).insert(number, exchanges.len());
            exchanges.push(exchange);
        }
    }

    fn note_reply(&self, frame: &[u8], asked: &Asked) {
        let number = frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
        let mut exchanges = locked(&self.0);
        if let Some(at) = number.and_then(|number| locked(asked).remove(&number)) {
            exchanges[at].reply = Some(frame.to_vec());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_hear_each_other_and_all_is_noted() {
        let broker = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::listen().unwrap();
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let tape = proxy.forward_to(broker.local_addr().unwrap().to_string());
        let request = [0, 0, 0, 11, 0, 18, 0, 3, 0, 0, 0, 7, 0, 1, b'c'];
        client.write_all(&request).unwrap();
        let (mut serving, _) = broker.accept().unwrap();
        assert_eq!(next_frame(&mut serving).unwrap(), request);
        serving.write_all(&[0, 0, 0, 5, 0, 0, 0, 7, 42]).unwrap();
        assert_eq!(next_frame(&mut client).unwrap(), [0, 0, 0, 5, 0, 0, 0, 7, 42]);
        let exchange = Exchange {
            api: 18,
            version: 3,
            client: "c".into(),
            request: request[4..].into(),
            reply: Some(vec![0, 0, 0, 7, 42]),
        };
        assert_eq!(tape.exchanges(), [exchange]);
        drop(serving);
        assert!(next_frame(&mut client).is_err());
    }
}
