//! Decompression with contexts and one buffer that live as long as the program.

use std::io::Read;

pub struct Decoder {
    out: Vec<u8>,
    gzip: libdeflater::Decompressor,
    snappy: snap::raw::Decoder,
    zstd: zstd_safe::DCtx<'static>,
}

impl Decoder {
    pub fn new() -> Self {
        Self {
            // Some 1 MiB: more than a batch of 64 KiB becomes, so that it hardly ever grows.
            out: vec![0; 1 << 20],
            gzip: libdeflater::Decompressor::new(),
            snappy: snap::raw::Decoder::new(),
            zstd: zstd_safe::DCtx::create(),
        }
    }

    /// The records of a batch, which are its body itself if there is no codec.
    #[inline(always)]
    pub fn decode<'a>(&'a mut self, codec: i16, body: &'a [u8]) -> &'a [u8] {
        match codec {
            0 => body,
            1 => self.gzip(body),
            2 => self.snappy(body),
            3 => self.lz4(body),
            4 => self.zstd(body),
            other => panic!("codec {other}"),
        }
    }

    fn gzip(&mut self, body: &[u8]) -> &[u8] {
        // The trailer says how long the output is.
        let size = *body.last_chunk().expect("a trailer");
        self.make_room(u32::from_le_bytes(size) as usize);
        let length = self.gzip.gzip_decompress(body, &mut self.out).expect("gzip");
        &self.out[..length]
    }

    /// Java's framing: a header of 16 bytes, then blocks with their lengths.
    fn snappy(&mut self, body: &[u8]) -> &[u8] {
        let (header, mut rest) = body.split_at(16);
        assert!(header.starts_with(b"\x82SNAPPY\0"), "snappy in Java's framing");
        let mut length = 0;
        while let Some((prefix, tail)) = rest.split_first_chunk() {
            let (block, tail) = tail.split_at(u32::from_be_bytes(*prefix) as usize);
            self.make_room(length + snap::raw::decompress_len(block).expect("snappy's length"));
            length += self.snappy.decompress(block, &mut self.out[length..]).expect("snappy");
            rest = tail;
        }
        &self.out[..length]
    }

    fn lz4(&mut self, body: &[u8]) -> &[u8] {
        self.out.clear();
        lz4_flex::frame::FrameDecoder::new(body).read_to_end(&mut self.out).expect("lz4");
        &self.out
    }

    fn zstd(&mut self, body: &[u8]) -> &[u8] {
        self.zstd.reset(zstd_safe::ResetDirective::SessionOnly).expect("zstd's reset");
        let mut input = zstd_safe::InBuffer::around(body);
        let mut length = 0;
        loop {
            let mut output = zstd_safe::OutBuffer::around_pos(&mut self.out[..], length);
            let left = self.zstd.decompress_stream(&mut output, &mut input).expect("zstd");
            length = output.pos();
            if left == 0 {
                return &self.out[..length];
            }
            if length == self.out.len() {
                self.make_room(2 * length);
            }
        }
    }

    fn make_room(&mut self, size: usize) {
        if self.out.len() < size {
            self.out.resize(size, 0);
        }
    }
}
