//! Unpacks what claims to be compressed.

use ottla_wire::record::{Codec, Decoder};

use crate::allocations::largest;
use crate::hunt::Outcome;

const LIMIT: usize = 1 << 20;
/// Buffers double, and decoders have some of their own.
const BLOCK_MAX: usize = 2 * LIMIT + 256 * 1024;

#[derive(Default)]
pub(crate) struct Reader {
    decoder: Decoder,
    out: Vec<u8>,
}

impl Reader {
    /// Unpacks what stands behind the number of its codec.
    pub(crate) fn read(&mut self, case: &[u8]) -> Outcome {
        let Some((&number, packed)) = case.split_first() else { return "short".into() };
        let codec = Codec::ALL[usize::from(number) % Codec::ALL.len()];
        let (done, largest) = largest(|| self.decoder.decode(codec, packed, LIMIT, &mut self.out));
        assert!(largest <= BLOCK_MAX, "a block of {largest} for {} bytes", packed.len());
        match done {
            Ok(()) => {
                assert!(self.out.len() <= LIMIT);
                self.reads_the_same(codec, packed);
                format!(
                    "{codec} {} bits",
                    "+".repeat(usize::BITS as usize - self.out.len().leading_zeros() as usize)
                )
            }
            Err(error) => format!("{codec} {error}"),
        }
    }

    /// What earlier cases left in the decoder makes no difference.
    fn reads_the_same(&self, codec: Codec, packed: &[u8]) {
        let mut fresh = Vec::new();
        Decoder::new().decode(codec, packed, LIMIT, &mut fresh).unwrap();
        assert!(fresh == self.out, "{codec} unpacks to something else");
    }
}
