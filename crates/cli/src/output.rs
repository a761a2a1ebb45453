//! Standard output: big blocks, written by a thread of its own.
//!
//! Writing blocks for as long as whoever reads our output likes. On a thread of its own that stops our reading, as it
//! should, but neither our connections nor the answer to Ctrl-C; and while it writes a block the next one fills.

use std::{
    collections::VecDeque,
    fs::{self, File},
    future::Future,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::mpsc as threads,
    thread,
};

use tokio::sync::mpsc;

use crate::{plan::OutputFile, tell::Failure};

/// What is written at once. Larger blocks make nothing faster, smaller ones cost system calls.
const BLOCK: usize = 128 << 10;
/// One is filled, one is written, one is on its way.
const BLOCKS: usize = 3;

/// So many marks are enough for a block, where next to no bytes are printed.
const MARKS: usize = 1024;

/// Bytes on their way to standard output.
pub(crate) struct Output {
    /// What was formatted and not handed over yet.
    block: Vec<u8>,
    marks: Vec<Mark>,
    spare: Vec<Vec<u8>>,
    /// The marks of each block that was handed over and is not back yet; they come back in order.
    handed: VecDeque<Vec<Mark>>,
    full: threads::Sender<Vec<u8>>,
    written: mpsc::UnboundedReceiver<io::Result<Vec<u8>>>,
}

/// What is to be done when everything before it is written.
type Mark = Box<dyn FnOnce()>;

/// What blocks are written to.
trait Sink: Write {
    /// A block is about to come.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for io::Stdout {}

/// Why nothing can be written any more.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Whoever read our output has enough.
    Closed,
    /// Something is wrong, a full disk for instance.
    Failed(io::Error),
}

impl Output {
    /// To the file, or to standard output.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub(crate) fn to(file: Option<&OutputFile>) -> Result<Self, Failure> {
        match file {
            Some(file) => Ok(Self::over(Files::create(file)?)),
            None => Ok(Self::over(io::stdout())),
        }
    }

    fn over(sink: impl Sink + Send + 'static) -> Self {
        let (full, blocks) = threads::channel();
        let (done, written) = mpsc::unbounded_channel();
        thread::spawn(move || write_all(sink, &blocks, &done));
        let block = || Vec::with_capacity(BLOCK + BLOCK / 4);
        let spare = (1..BLOCKS).map(|_| block()).collect();
        Self { block: block(), marks: Vec::new(), spare, handed: VecDeque::new(), full, written }
    }

    /// Where to append what is to be written.
    pub(crate) fn block(&mut self) -> &mut Vec<u8> {
        &mut self.block
    }

    /// Calls `then` as soon as everything that was appended so far is written, and flushed; never, if it cannot be.
    pub(crate) fn mark(&mut self, then: impl FnOnce() + 'static) {
        self.marks.push(Box::new(then));
    }

    /// Whether it is time to [`flush`](Self::flush).
    pub(crate) fn is_full(&self) -> bool {
        self.block.len() >= BLOCK || self.marks.len() >= MARKS
    }

    /// Hands over what there is, as soon as a block is free. What was handed over is still being written.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost and nothing is written twice when the future is dropped.
    pub(crate) async fn flush(&mut self) -> Result<(), Lost> {
        if self.block.is_empty() && self.marks.is_empty() {
            return Ok(());
        }
        while let Ok(result) = self.written.try_recv() {
            let returned = self.take_back(result)?;
            self.spare.push(returned);
        }
        let next = match self.spare.pop() {
            Some(block) => block,
            None => self.returned().await?,
        };
        // A thread that is gone has left its reason, which the next call finds.
        let _ = self.full.send(std::mem::replace(&mut self.block, next));
        self.handed.push_back(std::mem::take(&mut self.marks));
        Ok(())
    }

    /// Hands over what there is and waits until all is written.
    pub(crate) async fn finish(&mut self) -> Result<(), Lost> {
        self.flush().await?;
        while self.spare.len() + 1 < BLOCKS {
            let returned = self.returned().await?;
            self.spare.push(returned);
        }
        Ok(())
    }

    /// Ends when something that was handed over cannot be written; until then there is nothing to tell.
    ///
    /// # Cancel safety
    ///
    /// As [`flush`](Self::flush).
    pub(crate) async fn failure(&mut self) -> Lost {
        loop {
            match self.returned().await {
                Ok(block) => self.spare.push(block),
                Err(lost) => return lost,
            }
        }
    }

    async fn returned(&mut self) -> Result<Vec<u8>, Lost> {
        match self.written.recv().await {
            Some(result) => self.take_back(result),
            None => Err(Lost::Closed),
        }
    }

    fn take_back(&mut self, result: io::Result<Vec<u8>>) -> Result<Vec<u8>, Lost> {
        let block = block(result)?;
        self.handed.pop_front().into_iter().flatten().for_each(|then| then());
        Ok(block)
    }
}

/// A file after the other. What is handed over is flushed a block at a time, and a block ends with a record: so does a
/// file.
struct Files {
    path: PathBuf,
    rotate: Option<u64>,
    /// From 1 on, where there may be several.
    number: u64,
    file: File,
    written: u64,
}

impl Files {
    fn create(of: &OutputFile) -> Result<Self, Failure> {
        if of.rotate.is_some() {
            refuse_old_pieces(&of.path)?;
        }
        let path = numbered(&of.path, of.rotate.map(|_| 1));
        let file = File::create(&path).map_err(|error| cannot(&path, &error))?;
        Ok(Self { path: of.path.clone(), rotate: of.rotate, number: 1, file, written: 0 })
    }

    /// The next one is made when there is something for it.
    fn turn(&mut self) -> io::Result<()> {
        let path = numbered(&self.path, Some(self.number + 1));
        let made = File::create(&path);
        self.file = made.map_err(|error| io::Error::new(error.kind(), cannot(&path, &error).0))?;
        (self.number, self.written) = (self.number + 1, 0);
        Ok(())
    }
}

/// Where an earlier run wrote more files than this one will, whoever puts them together would get some of both.
fn refuse_old_pieces(path: &Path) -> Result<(), Failure> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) }; // making the file says why
    let name = path.file_name().map(|name| format!("{}.", name.display())).unwrap_or_default();
    let number = |entry: fs::DirEntry| {
        let digits = entry.file_name().into_string().ok()?.strip_prefix(&name)?.to_owned();
        digits.parse::<u64>().ok().filter(|&number| number > 1 && digits == number.to_string())
    };
    match entries.flatten().filter_map(number).min() {
        Some(number) => Err(Failure(format!(
            "{} is there already, from an earlier run: move what it wrote away, or write to another name",
            numbered(path, Some(number)).display()
        ))),
        None => Ok(()),
    }
}

fn numbered(path: &Path, number: Option<u64>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if let Some(number) = number {
        name.push(format!(".{number}"));
    }
    name.into()
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

impl Write for Files {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Ok(written) => {
                self.written += written as u64;
                Ok(written)
            }
            // It is tried again by whoever writes.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let path = numbered(&self.path, self.rotate.map(|_| self.number));
                Err(io::Error::new(error.kind(), cannot(&path, &error).0))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Files {
    fn begin(&mut self) -> io::Result<()> {
        match self.rotate.is_some_and(|size| self.written >= size) {
            true => self.turn(),
            false => Ok(()),
        }
    }
}

fn block(written: io::Result<Vec<u8>>) -> Result<Vec<u8>, Lost> {
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Lost::Closed,
        _ => Lost::Failed(error),
    })
}

fn write_all(
    mut sink: impl Sink,
    blocks: &threads::Receiver<Vec<u8>>,
    done: &mpsc::UnboundedSender<io::Result<Vec<u8>>>,
) {
    while let Ok(mut block) = blocks.recv() {
        let written = sink.begin().and_then(|()| sink.write_all(&block)).and_then(|()| sink.flush());
        let failed = written.is_err();
        block.clear();
        if done.send(written.map(|()| block)).is_err() || failed {
            return;
        }
    }
}

/// Ends when nobody reads standard output any more, even while we write nothing to it: `ottla read quiet | head -1`
/// is done after the first record, not when a second one comes.
#[cfg(unix)]
pub(crate) fn nobody_reads() -> impl Future<Output = ()> {
    use tokio::io::{Interest, unix::AsyncFd};
    async {
        #[allow(
            deprecated,
            reason = "its fault is to take descriptors that may be closed meanwhile; this one is not"
        )]
        let watched = AsyncFd::with_interest(io::stdout(), Interest::ERROR);
        // Files cannot be watched, and nobody stops reading them.
        let Ok(stdout) = watched else { return std::future::pending().await };
        if stdout.ready(Interest::ERROR).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Here a pipe without a reader is noticed when something is written to it.
#[cfg(not(unix))]
pub(crate) fn nobody_reads() -> impl Future<Output = ()> {
    std::future::pending()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Condvar, Mutex},
        time::Duration,
    };

    use super::*;

    /// A sink that can be shut like a tap, and that fails when told to.
    #[derive(Debug, Clone, Default)]
    struct Tap(Arc<(Mutex<State>, Condvar)>);

    #[derive(Debug, Default)]
    struct State {
        bytes: Vec<u8>,
        shut: bool,
        failure: Option<io::ErrorKind>,
    }

    impl Tap {
        fn change(&self, change: impl FnOnce(&mut State)) {
            change(&mut self.0.0.lock().unwrap());
            self.0.1.notify_all();
        }

        fn bytes(&self) -> Vec<u8> {
            self.0.0.lock().unwrap().bytes.clone()
        }
    }

    impl Sink for Tap {}

    impl Write for Tap {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let state = self.0.1.wait_while(self.0.0.lock().unwrap(), |state| state.shut).unwrap().failure;
            match state {
                Some(kind) => Err(kind.into()),
                None => {
                    self.change(|state| state.bytes.extend_from_slice(bytes));
                    Ok(bytes.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_next_file_that_cannot_be_made_is_named() {
        let directory = std::env::temp_dir().join(format!("ottla-output-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("orders");
        let mut files = Files::create(&OutputFile { path: path.clone(), rotate: Some(3) }).unwrap();
        fs::create_dir(numbered(&path, Some(2))).unwrap();
        files.begin().unwrap();
        files.write_all(b"abc").unwrap();
        let error = files.begin().unwrap_err().to_string();
        let written = fs::read(numbered(&path, Some(1))).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!(error.contains("orders.2: Is a directory"), "{error}");
        assert_eq!(written, b"abc");
    }

    async fn is_stuck(output: &mut Output) -> bool {
        tokio::time::timeout(Duration::from_millis(20), output.flush()).await.is_err()
    }

    #[tokio::test]
    async fn all_bytes_arrive_in_order() {
        let sink = Tap::default();
        let mut output = Output::over(sink.clone());
        let mut expected = Vec::new();
        for number in 0..100_000_u32 {
            let line = format!("line {number}\n");
            expected.extend_from_slice(line.as_bytes());
            output.block().extend_from_slice(line.as_bytes());
            if output.is_full() || number % 1000 == 0 {
                output.flush().await.unwrap();
            }
        }
        output.finish().await.unwrap();
        assert!(sink.bytes() == expected);
    }

    #[tokio::test]
    async fn a_stalled_sink_holds_us_up_and_loses_nothing() {
        let sink = Tap::default();
        sink.change(|state| state.shut = true);
        let mut output = Output::over(sink.clone());
        for byte in *b"abc" {
            output.block().push(byte);
            if byte < b'c' {
                output.flush().await.unwrap();
            }
        }
        assert!(is_stuck(&mut output).await);
        assert!(is_stuck(&mut output).await);
        sink.change(|state| state.shut = false);
        output.finish().await.unwrap();
        assert_eq!(sink.bytes(), b"abc");
    }

    /// Marks that note their numbers.
    struct Marks(Arc<Mutex<Vec<usize>>>);

    impl Marks {
        fn set(&self, output: &mut Output, number: usize) {
            let reached = self.0.clone();
            output.mark(move || reached.lock().unwrap().push(number));
        }

        fn reached(&self) -> Vec<usize> {
            self.0.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn marks_are_reached_when_what_is_before_them_is_written() {
        let (sink, marks) = (Tap::default(), Marks(Arc::default()));
        sink.change(|state| state.shut = true);
        let mut output = Output::over(sink.clone());
        for number in 0..2 {
            output.block().push(b'x');
            marks.set(&mut output, number);
            output.flush().await.unwrap();
        }
        output.block().push(b'y');
        assert!(is_stuck(&mut output).await);
        assert_eq!(marks.reached(), [0; 0]);
        sink.change(|state| state.shut = false);
        output.finish().await.unwrap();
        assert_eq!((marks.reached(), sink.bytes()), (vec![0, 1], b"xxy".to_vec()));
        marks.set(&mut output, 2); // with nothing before it
        output.finish().await.unwrap();
        assert_eq!(marks.reached(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn marks_behind_what_cannot_be_written_are_never_reached() {
        let (sink, marks) = (Tap::default(), Marks(Arc::default()));
        sink.change(|state| state.failure = Some(io::ErrorKind::StorageFull));
        let mut output = Output::over(sink);
        output.block().push(b'x');
        marks.set(&mut output, 0);
        output.finish().await.unwrap_err();
        assert_eq!(marks.reached(), [0; 0]);
    }

    #[tokio::test]
    async fn marks_alone_fill_a_block_in_the_end() {
        let (mut output, marks) = (Output::over(Tap::default()), Marks(Arc::default()));
        let set = (0..).take_while(|&number| {
            marks.set(&mut output, number);
            !output.is_full()
        });
        let set = set.count() + 1;
        output.finish().await.unwrap();
        assert_eq!(marks.reached().len(), set);
    }

    #[tokio::test]
    async fn a_closed_pipe_and_a_full_disk_are_told_apart() {
        for (kind, closed) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
            let sink = Tap::default();
            sink.change(|state| state.failure = Some(kind));
            let mut output = Output::over(sink);
            output.block().push(b'x');
            let lost = output.finish().await.unwrap_err();
            assert_eq!(matches!(lost, Lost::Closed), closed, "{lost:?}");
        }
    }

    #[tokio::test]
    async fn after_a_failure_flushing_ends_too() {
        let sink = Tap::default();
        sink.change(|state| state.failure = Some(io::ErrorKind::BrokenPipe));
        let mut output = Output::over(sink);
        for _ in 0..BLOCKS {
            output.block().push(b'x');
            if output.flush().await.is_err() {
                return;
            }
        }
        panic!("three blocks went into a closed pipe");
    }
}
