//! Counts the records of a topic: `cargo run --release -p ottla --example count -- localhost:9092 TOPIC`

use ottla::{Reader, Until};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(bootstrap), Some(topic)) = (arguments.next(), arguments.next()) else {
        return Err("usage: count BOOTSTRAP TOPIC".into());
    };
    let mut reader = Reader::builder(bootstrap).topic(topic).until(Until::End).open()?;
    let (mut records, mut bytes) = (0u64, 0);
    while let Some(message) = reader.next().await? {
        records += 1;
        bytes += message.value().map_or(0, <[u8]>::len);
    }
    println!("{records} records, {bytes} bytes of values");
    reader.close().await?;
    Ok(())
}
