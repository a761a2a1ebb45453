//! Nothing is allocated per record, and little per batch.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]
// The one thing that has to be counted is what only the global allocator sees.
#![allow(unsafe_code, reason = "a counting global allocator")]

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
};

use ottla::{Batch, Message, Reader, Until};
use ottla_wire::record::Codec;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCHES: i64 = 200;
const RECORDS: i64 = 700;
/// Batches until contexts and buffers are there to be used again.
const WARM_UP: i64 = 30;

/// One test, because a second one beside it would be counted too.
#[test]
fn allocations_are_per_batch_and_not_per_record() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Gzip, Codec::Snappy] {
        // What is acknowledged does not ask how it was packed.
        let apis = match codec {
            Codec::None => &[Api::Batch, Api::Message, Api::AckedMessage, Api::AckedBatch, Api::AutoAck][..],
            _ => &[Api::Batch, Api::Message],
        };
        for &api in apis {
            let (reader, process) = runtime.block_on(read(codec, api));
            println!(
                "{codec} by {api:?}: {reader} allocations a batch in the reader, {process} in the process"
            );
            // Three a batch: its handle, and for one that was unpacked its buffer's owner and account. A queue may
            // grow now and then beside that.
            assert!(reader <= 3.2, "{codec} by {api:?}: {reader} allocations a batch of {RECORDS} records");
            // Replies and the embedded broker's own are in this.
            assert!(
                process <= 10.0,
                "{codec} by {api:?}: {process} allocations a batch of {RECORDS} records"
            );
        }
    }
}

/// How the reader is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Batch,
    Message,
    AckedMessage,
    AckedBatch,
    AutoAck,
}

/// Allocations a batch: within the reader's own calls, and of the whole process meanwhile.
async fn read(codec: Codec, api: Api) -> (f64, f64) {
    let broker = support::broker(&[("t", 1)]).await;
    for batch in 0..BATCHES {
        let batch = support::batch(codec, 0, batch * RECORDS, RECORDS);
        broker.with(|c| c.append("t", 0, batch)).unwrap();
    }
    let builder = Reader::builder(broker.bootstrap()).topic("t");
    match api {
        Api::Batch | Api::Message => {
            walk(builder.until(Until::End).open().unwrap(), api, |_| (), |_| ()).await
        }
        Api::AutoAck => walk(builder.group("g").auto_ack().open().unwrap(), api, |_| (), |_| ()).await,
        Api::AckedMessage | Api::AckedBatch => {
            let reader = builder.group("g").open().unwrap();
            let (by_message, by_batch) = (reader.control(), reader.control());
            walk(reader, api, |m| by_message.ack(m).unwrap(), |b| by_batch.ack_batch(b).unwrap()).await
        }
    }
}

async fn walk<K>(
    mut reader: Reader<K>,
    api: Api,
    done: impl Fn(&Message),
    batch_done: impl Fn(&Batch),
) -> (f64, f64) {
    let (mut records, mut inside, mut begin, mut begun) = (0, 0, 0, false);
    while records < BATCHES * RECORDS {
        if !begun && records >= WARM_UP * RECORDS {
            (inside, begin, begun) = (0, allocations(), true);
        }
        if matches!(api, Api::Batch | Api::AckedBatch) {
            let batch = counted(&mut inside, reader.next_batch()).await.unwrap().unwrap();
            let before = allocations();
            for record in &batch {
                records += i64::from(record.unwrap().value().is_some());
            }
            batch_done(&batch);
            inside += allocations() - before;
        } else {
            let message = counted(&mut inside, reader.next()).await.unwrap().unwrap();
            let before = allocations();
            records += i64::from(message.value().is_some());
            done(&message);
            inside += allocations() - before;
        }
    }
    let per_batch = |count: u64| count as f64 / (BATCHES - WARM_UP) as f64;
    (per_batch(inside), per_batch(allocations() - begin))
}

fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Counts what is allocated while the future is polled; other tasks run only in between.
async fn counted<T>(count: &mut u64, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        let before = allocations();
        let polled = future.as_mut().poll(context);
        *count += allocations() - before;
        polled
    })
    .await
}
