// Writes the golden batches beside this file with Kafka's own code, and prints what Kafka's own code reads in a file of
// batches. Single-file program; LIBS is the libs directory of an Apache Kafka 4.4.0 (or any directory with its
// kafka-clients, lz4-java, snappy-java, zstd-jni and slf4j-api jars):
//
//   java -cp 'LIBS/*' Batches.java write DIRECTORY     writes NAME.bin and NAME.txt for each case
//   java -cp 'LIBS/*' Batches.java dump FILE           prints the batches and records of FILE, checking CRCs
//
// Lines: one per batch, then one per record; the record lines of a batch of more than 100 are told as one field. Fields
// are in hex, those of more than 64 bytes as #LENGTH:CRC32C.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32C;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

public class Batches {
    public static void main(String[] args) throws Exception {
        if (args.length == 2 && args[0].equals("write")) {
            write(Path.of(args[1]));
        } else if (args.length == 2 && args[0].equals("dump")) {
            System.out.print(dump(Files.readAllBytes(Path.of(args[1]))));
        } else {
            System.err.println("usage: Batches.java write DIRECTORY | dump FILE");
            System.exit(2);
        }
    }

    // ---- the cases

    static Path directory;

    static void write(Path into) throws IOException {
        directory = into;
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            save("mixed-" + type.name, mixed(codec, TimestampType.CREATE_TIME));
            if (type != CompressionType.NONE) save("long-" + type.name, lines(codec));
        }
        save("append-none", mixed(Compression.NONE, TimestampType.LOG_APPEND_TIME));
        save("append-zstd", mixed(Compression.of(CompressionType.ZSTD).build(), TimestampType.LOG_APPEND_TIME));
        save("level-gzip", lines(Compression.gzip().level(9).build()));
        save("level-lz4", lines(Compression.lz4().level(17).build()));
        save("level-zstd", lines(Compression.zstd().level(19).build()));
        save("random-lz4", random(Compression.of(CompressionType.LZ4).build()));
        save("random-snappy", random(Compression.of(CompressionType.SNAPPY).build()));
        save("transaction", transaction());
        save("compacted", compacted());
        save("emptied", emptied());
        save("high-offsets", highOffsets());
        save("cut", cut());
    }

    /** Every mixture of null, empty and some for key, value and headers. */
    static byte[] mixed(Compression codec, TimestampType type) {
        Builder b = new Builder(codec, 1000, type);
        byte[][] fields = {null, {}, utf8("Ottla"), utf8("Kůň žluťoučký 馬 🐎")};
        Header[][] headers = {
            {},
            {new RecordHeader("trace", utf8("a1"))},
            {new RecordHeader("null", (byte[]) null), new RecordHeader("empty", new byte[0])},
            {new RecordHeader("twice", utf8("1")), new RecordHeader("twice", utf8("2")), new RecordHeader("twice", utf8("1"))},
            {new RecordHeader("", utf8("no name")), new RecordHeader("naïve 名前", new byte[] {0, (byte) 0xff, (byte) 0x80})},
        };
        long[] times = {1_700_000_000_000L, 1_700_000_000_001L, 1_699_999_999_000L, 1_700_000_900_000L, 0L, -1L};
        int i = 0;
        for (byte[] key : fields)
            for (byte[] value : fields)
                for (Header[] h : headers)
                    b.append(type == TimestampType.CREATE_TIME ? times[i++ % times.length] : 1_700_000_000_000L, key, value, h);
        return b.build();
    }

    /** Long enough for several blocks or chunks of every codec. */
    static byte[] lines(Compression codec) {
        Builder b = new Builder(codec, 5, TimestampType.CREATE_TIME);
        Random random = new Random(1912);
        String[] lines = new String[50];
        String[] words = "someone must have slandered Josef K for one morning without having done anything wrong he was arrested".split(" ");
        for (int i = 0; i < lines.length; i++) {
            StringBuilder line = new StringBuilder();
            for (int w = 0; w < 12; w++) line.append(words[random.nextInt(words.length)]).append(' ');
            lines[i] = line.toString();
        }
        for (int i = 0; i < 2000; i++)
            b.append(1_700_000_000_000L + i, utf8("line-" + i), utf8(lines[random.nextInt(lines.length)]));
        return b.build();
    }

    /** Bytes that no codec makes smaller: blocks are stored as they are. */
    static byte[] random(Compression codec) {
        Builder b = new Builder(codec, 0, TimestampType.CREATE_TIME);
        Random random = new Random(42);
        for (int i = 0; i < 3; i++) {
            byte[] value = new byte[1500];
            random.nextBytes(value);
            b.append(i, null, value);
        }
        return b.build();
    }

    /** Two transactions of two producers, one committed and one aborted. */
    static byte[] transaction() {
        Builder first = new Builder(Compression.of(CompressionType.LZ4).build(), 0, TimestampType.CREATE_TIME).producer(4000, 3, 17, true, false);
        first.append(1000, utf8("k"), utf8("kept"));
        first.append(1001, utf8("k"), utf8("kept too"));
        Builder second = new Builder(Compression.NONE, 2, TimestampType.CREATE_TIME).producer(Long.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE, true, false);
        second.append(1002, utf8("k"), utf8("dropped"));
        Builder commit = new Builder(Compression.NONE, 3, TimestampType.CREATE_TIME).producer(4000, 3, -1, true, true);
        commit.inner.appendEndTxnMarker(1003, new EndTransactionMarker(ControlRecordType.COMMIT, 9));
        Builder abort = new Builder(Compression.NONE, 4, TimestampType.CREATE_TIME).producer(Long.MAX_VALUE, Short.MAX_VALUE, -1, true, true);
        abort.inner.appendEndTxnMarker(1004, new EndTransactionMarker(ControlRecordType.ABORT, Integer.MAX_VALUE));
        return join(first.build(), second.build(), commit.build(), abort.build());
    }

    /** What the log cleaner leaves: gaps before, between and after, and a delete horizon as base timestamp. */
    static byte[] compacted() {
        byte[][] batches = new byte[4][];
        CompressionType[] types = {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.ZSTD};
        for (int t = 0; t < types.length; t++) {
            Builder b = new Builder(Compression.of(types[t]).build(), 100L * t, TimestampType.CREATE_TIME, t % 2 == 0 ? -1 : 1_800_000_000_000L);
            for (long offset : new long[] {3, 4, 70, 71}) b.inner.appendWithOffset(100L * t + offset, 1_700_000_000_000L + offset, utf8("k" + offset), offset == 70 ? null : utf8("v"));
            b.inner.overrideLastOffset(100L * t + 90);
            batches[t] = b.build();
        }
        return join(batches);
    }

    /** Batches that the cleaner emptied, in a row and alone, around one that holds something. */
    static byte[] emptied() {
        ByteBuffer buffer = ByteBuffer.allocate(3 * 61);
        DefaultRecordBatch.writeEmptyHeader(buffer, (byte) 2, 77, (short) 2, 5, 10, 19, 6, TimestampType.CREATE_TIME, 1_700_000_000_000L, true, false);
        DefaultRecordBatch.writeEmptyHeader(buffer, (byte) 2, -1, (short) -1, -1, 20, 20, 6, TimestampType.LOG_APPEND_TIME, 1_700_000_000_001L, false, false);
        byte[] empty = buffer.array();
        Builder b = new Builder(Compression.NONE, 21, TimestampType.CREATE_TIME);
        b.append(1, null, utf8("alone"));
        ByteBuffer last = ByteBuffer.wrap(empty, 122, 61).slice();
        DefaultRecordBatch.writeEmptyHeader(last, (byte) 2, -1, (short) -1, -1, 22, 30, 6, TimestampType.CREATE_TIME, -1, false, false);
        byte[] tail = new byte[61];
        System.arraycopy(empty, 122, tail, 0, 61);
        byte[] head = new byte[122];
        System.arraycopy(empty, 0, head, 0, 122);
        return join(head, b.build(), tail);
    }

    static byte[] highOffsets() {
        Builder b = new Builder(Compression.NONE, Long.MAX_VALUE - 3, TimestampType.CREATE_TIME);
        for (int i = 0; i < 3; i++) b.append(Long.MAX_VALUE - i, utf8("k"), utf8("v" + i));
        return b.build();
    }

    /** A reply as the broker cuts it: inside a batch. */
    static byte[] cut() {
        Builder first = new Builder(Compression.of(CompressionType.LZ4).build(), 0, TimestampType.CREATE_TIME);
        first.append(5, utf8("k"), utf8("whole"));
        Builder second = new Builder(Compression.of(CompressionType.LZ4).build(), 1, TimestampType.CREATE_TIME);
        second.append(6, utf8("k"), utf8("cut"));
        byte[] rest = second.build();
        byte[] head = new byte[rest.length - 10];
        System.arraycopy(rest, 0, head, 0, head.length);
        return join(first.build(), head);
    }

    /** One batch, with the leader epoch 6. */
    static class Builder {
        MemoryRecordsBuilder inner;
        final Compression codec;
        final long offset;

        Builder(Compression codec, long offset, TimestampType type) {
            this(codec, offset, type, -1);
        }

        Builder(Compression codec, long offset, TimestampType type, long horizon) {
            this.codec = codec;
            this.offset = offset;
            inner = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) 2, codec, type, offset,
                type == TimestampType.LOG_APPEND_TIME ? 1_750_000_000_123L : -1, -1, (short) -1, -1, false, false, 6, 1 << 20, horizon);
        }

        Builder producer(long id, int epoch, int sequence, boolean transactional, boolean control) {
            inner = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) 2, codec, TimestampType.CREATE_TIME, offset,
                -1, id, (short) epoch, sequence, transactional, control, 6, 1 << 20);
            return this;
        }

        void append(long timestamp, byte[] key, byte[] value, Header... headers) {
            inner.append(timestamp, key, value, headers);
        }

        byte[] build() {
            ByteBuffer buffer = inner.build().buffer().duplicate();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return bytes;
        }
    }

    static void save(String name, byte[] bytes) throws IOException {
        Files.write(directory.resolve(name + ".bin"), bytes);
        Files.writeString(directory.resolve(name + ".txt"), dump(bytes));
    }

    static byte[] join(byte[]... parts) {
        int size = 0;
        for (byte[] part : parts) size += part.length;
        ByteBuffer all = ByteBuffer.allocate(size);
        for (byte[] part : parts) all.put(part);
        return all.array();
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    // ---- what Kafka reads

    static String dump(byte[] bytes) {
        StringBuilder out = new StringBuilder();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            DefaultRecordBatch b = (DefaultRecordBatch) batch;
            out.append("batch ").append(b.baseOffset()).append("..=").append(b.lastOffset())
                .append(" size ").append(b.sizeInBytes())
                .append(" epoch ").append(b.partitionLeaderEpoch())
                .append(" codec ").append(b.compressionType().name)
                .append(" time ").append(type(b.timestampType()))
                .append(b.isTransactional() ? " transactional" : "")
                .append(b.isControlBatch() ? " control" : "")
                .append(" producer ").append(b.producerId()).append(' ').append(b.producerEpoch()).append(' ').append(b.baseSequence())
                .append(" base ").append(b.baseTimestamp()).append(" max ").append(b.maxTimestamp())
                .append(" count ").append(b.countOrNull()).append('\n');
            List<Record> records = new ArrayList<>();
            try (var iterator = b.streamingIterator(BufferSupplier.NO_CACHING)) {
                iterator.forEachRemaining(records::add);
            }
            StringBuilder all = out;
            if (records.size() > 100) out = new StringBuilder();
            for (Record record : records) {
                out.append("record ").append(record.offset()).append(' ').append(record.timestamp())
                    .append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers())
                    out.append(' ').append(hex(ByteBuffer.wrap(utf8(header.key())))).append('=')
                        .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                out.append('\n');
            }
            if (out != all) {
                all.append("records ").append(hex(ByteBuffer.wrap(utf8(out.toString())))).append('\n');
                out = all;
            }
        }
        return out.toString();
    }

    static String type(TimestampType type) {
        return type == TimestampType.LOG_APPEND_TIME ? "append" : "create";
    }

    static String hex(ByteBuffer field) {
        if (field == null) return "null";
        byte[] bytes = new byte[field.remaining()];
        field.duplicate().get(bytes);
        if (bytes.length <= 64) return "x" + HexFormat.of().formatHex(bytes);
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return "#" + bytes.length + ":" + String.format("%08x", crc.getValue());
    }
}
