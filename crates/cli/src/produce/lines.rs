//! Standard input, in chunks of whole lines.

use std::{
    fmt,
    io::{self, Read},
    thread,
};

use tokio::sync::mpsc;

/// What is read at once; a longer line makes a longer chunk.
const CHUNK: usize = 64 << 10;
/// So many chunks are read ahead.
const AHEAD: usize = 4;

/// No line is longer. Brokers hang up on a request above 100 MiB (`socket.request.max.bytes`) without a word, so what is
/// not far below it is refused here.
const LINE_MAX: usize = 64 << 20;

/// What ends standard input early.
#[derive(Debug)]
pub(super) enum Broken {
    Unreadable(io::Error),
    /// There is no end to a line.
    TooLong,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot read standard input: {error}"),
            Self::TooLong => write!(
                f,
                "a line of standard input has more than {} MiB, which no broker takes as a record",
                LINE_MAX >> 20
            ),
        }
    }
}

/// Whole lines, or why there are no more.
type Chunk = Result<Vec<u8>, Broken>;

/// The chunks of standard input, read by a thread of its own, because reading it blocks. The channel ends with it.
pub(super) fn stdin() -> mpsc::Receiver<Chunk> {
    chunks(io::stdin())
}

fn chunks(source: impl Read + Send + 'static) -> mpsc::Receiver<Chunk> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    thread::spawn(move || read_all(source, &sender));
    receiver
}

fn read_all(mut source: impl Read, sender: &mpsc::Sender<Chunk>) {
    let mut unfinished = Vec::new();
    loop {
        let chunk = match next_chunk(&mut source, &mut unfinished, LINE_MAX) {
            Ok(Some(chunk)) => Ok(chunk),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// Reads until there is a whole line, and keeps what stands behind the last one. The last line needs no newline.
fn next_chunk(
    source: &mut impl Read,
    unfinished: &mut Vec<u8>,
    longest: usize,
) -> Result<Option<Vec<u8>>, Broken> {
    let mut chunk = std::mem::take(unfinished);
    loop {
        let start = chunk.len();
        chunk.resize(start + CHUNK, 0);
        let read = source.read(&mut chunk[start..]);
        chunk.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Ok((!chunk.is_empty()).then_some(chunk)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::Unreadable(error)),
        }
        if chunk.len() > longest && !chunk[..=longest].contains(&b'\n') {
            return Err(Broken::TooLong);
        }
        if let Some(newline) = chunk[start..].iter().rposition(|&byte| byte == b'\n') {
            *unfinished = chunk.split_off(start + newline + 1);
            return Ok(Some(chunk));
        }
    }
}

/// The lines of a chunk, without their newlines.
pub(super) fn split(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    chunk.strip_suffix(b"\n").unwrap_or(chunk).split(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what it holds piece by piece.
    struct Pieces(Vec<io::Result<&'static [u8]>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0)?;
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn lines(pieces: Vec<io::Result<&'static [u8]>>) -> Vec<Result<String, io::ErrorKind>> {
        let mut chunks = chunks(Pieces(pieces));
        let mut lines = Vec::new();
        while let Some(chunk) = chunks.blocking_recv() {
            match chunk {
                Ok(chunk) => {
                    lines.extend(split(&chunk).map(|line| Ok(String::from_utf8_lossy(line).into_owned())));
                }
                Err(Broken::Unreadable(error)) => lines.push(Err(error.kind())),
                Err(Broken::TooLong) => lines.push(Err(io::ErrorKind::FileTooLarge)),
            }
        }
        lines
    }

    fn texts(pieces: &[&'static [u8]]) -> Vec<String> {
        lines(pieces.iter().copied().map(Ok).collect()).into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn lines_come_whole_however_they_arrive() {
        assert_eq!(texts(&[]), [""; 0]);
        assert_eq!(texts(&[b"a\n"]), ["a"]);
        assert_eq!(texts(&[b"a\nb"]), ["a", "b"]);
        assert_eq!(texts(&[b"a", b"b\nc", b"d", b"\n", b"e"]), ["ab", "cd", "e"]);
        assert_eq!(texts(&[b"\n\na\n\n"]), ["", "", "a", ""]);
        assert_eq!(texts(&[b"a\r\nb\r\n"]), ["a\r", "b\r"]);
    }

    #[test]
    fn a_line_may_be_longer_than_a_chunk() {
        let piece: &'static [u8] = &[b'x'; CHUNK];
        let lines = texts(&[piece, piece, b"\ny\n"]);
        assert_eq!((lines[0].len(), lines[1].as_str(), lines.len()), (2 * CHUNK, "y", 2));
    }

    /// One newline behind so many bytes.
    fn one_line(len: usize) -> impl Read {
        io::repeat(b'x').take(len as u64).chain(&b"\n"[..])
    }

    #[test]
    fn a_line_that_is_too_long_ends_it_at_once() {
        const LONGEST: usize = 3 * CHUNK + 5;
        let chunk = next_chunk(&mut one_line(LONGEST), &mut Vec::new(), LONGEST).unwrap().unwrap();
        assert_eq!(chunk.len(), LONGEST + 1);
        for mut source in [Box::new(one_line(LONGEST + 1)) as Box<dyn Read>, Box::new(io::repeat(0))] {
            let broken = next_chunk(&mut source, &mut Vec::new(), LONGEST).unwrap_err();
            assert!(broken.to_string().contains("more than 64 MiB"), "{broken}");
        }
        let mut begun = vec![b'x'; LONGEST - 10];
        let broken = next_chunk(&mut one_line(11), &mut begun, LONGEST).unwrap_err();
        assert!(matches!(broken, Broken::TooLong), "{broken}");
    }

    #[test]
    fn a_failure_comes_behind_what_was_whole() {
        let failure = || Err(io::ErrorKind::ConnectionReset.into());
        let lines = lines(vec![Ok(b"a\nb"), Err(io::ErrorKind::Interrupted.into()), failure()]);
        assert_eq!(lines, [Ok("a".to_owned()), Err(io::ErrorKind::ConnectionReset)]);
    }
}
