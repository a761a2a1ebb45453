// Writes the golden message sets of before Kafka 0.11 (formats 0 and 1) beside this file with Kafka's own code, each with
// what that code reads in it. Single-file program; LIBS is the libs directory of an Apache Kafka 2.8.2, one of the last
// that still write them (or any directory with its kafka-clients, lz4-java, snappy-java and slf4j-api jars):
//
//   java -cp 'LIBS/*' Sets.java DIRECTORY     writes NAME.bin and NAME.txt for each case
//
// Lines: one per record, with offset, time, whose time that is, key and value; those of a set of more than 100 are told as
// one field. Fields are in hex, those of more than 64 bytes as #LENGTH:CRC32C.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Random;
import java.util.zip.CRC32C;

import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class Sets {
    static final CompressionType[] CODECS = {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4};
    static final long APPENDED = 1_750_000_000_123L;
    static Path directory;

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: Sets.java DIRECTORY");
            System.exit(2);
        }
        directory = Path.of(args[0]);
        for (byte magic = 0; magic <= 1; magic++) {
            for (CompressionType codec : CODECS) {
                String name = magic + "-" + codec.name;
                save("mixed-" + name, mixed(magic, codec, 1000, TimestampType.CREATE_TIME));
                save("long-" + name, lines(magic, codec));
                save("gaps-" + name, gaps(magic, codec, 5000));
                if (magic == 1 && codec != CompressionType.NONE) {
                    save("append-" + name, mixed(magic, codec, 1000, TimestampType.LOG_APPEND_TIME));
                    // Relative to 0, offsets are absolute.
                    save("absolute-" + name, gaps(magic, codec, 0));
                }
            }
        }
        save("append-1-none", mixed((byte) 1, CompressionType.NONE, 1000, TimestampType.LOG_APPEND_TIME));
        save("formats", formats());
        save("high-offsets", highOffsets());
    }

    /** Every mixture of null, empty and some for key and value. */
    static byte[] mixed(byte magic, CompressionType codec, long offset, TimestampType type) {
        Builder b = new Builder(magic, codec, offset, type);
        byte[][] fields = {null, {}, utf8("Ottla"), utf8("Kůň žluťoučký 馬 🐎")};
        long[] times = {1_700_000_000_000L, 1_700_000_000_001L, 1_699_999_999_000L, 1_700_000_900_000L, 0L, -1L};
        int i = 0;
        for (byte[] key : fields) for (byte[] value : fields) b.inner.append(times[i++ % times.length], key, value);
        return b.build();
    }

    /** Several batches of many lines. */
    static byte[] lines(byte magic, CompressionType codec) {
        Random random = new Random(7);
        String[] words = {"castle", "trial", "letter", "father", "sister", "Ottla", "beetle", "apple"};
        byte[][] batches = new byte[3][];
        long offset = 0;
        for (int n = 0; n < batches.length; n++) {
            Builder b = new Builder(magic, codec, offset, TimestampType.CREATE_TIME);
            for (int i = 0; i < 250; i++, offset++) {
                StringBuilder line = new StringBuilder();
                for (int w = 0; w < 12; w++) line.append(words[random.nextInt(words.length)]).append(' ');
                b.inner.append(1_700_000_000_000L + offset, utf8("line-" + offset), utf8(line.toString()));
            }
            batches[n] = b.build();
        }
        return join(batches);
    }

    /** What the log cleaner leaves. */
    static byte[] gaps(byte magic, CompressionType codec, long base) {
        Builder b = new Builder(magic, codec, base, TimestampType.CREATE_TIME);
        for (long offset : new long[] {5003, 5004, 5070, 5071}) b.inner.appendWithOffset(offset, 1_700_000_000_000L + offset, utf8("k" + offset), offset == 5070 ? null : utf8("v"));
        return b.build();
    }

    /** A log of a topic whose format was raised twice, cut inside its last message. */
    static byte[] formats() {
        byte[][] parts = new byte[7][];
        long offset = 10;
        for (int i = 0; i < parts.length; i++) {
            byte magic = (byte) new int[] {0, 0, 1, 1, 2, 2, 1}[i];
            Builder b = new Builder(magic, i % 2 == 0 ? CompressionType.NONE : CompressionType.LZ4, offset, TimestampType.CREATE_TIME);
            for (int n = 0; n < 3; n++, offset++) b.inner.append(1_700_000_000_000L + offset, utf8("format-" + magic), utf8("v" + offset));
            parts[i] = b.build();
        }
        byte[] all = join(parts);
        byte[] cut = new byte[all.length - 10];
        System.arraycopy(all, 0, cut, 0, cut.length);
        return cut;
    }

    static byte[] highOffsets() {
        byte[][] parts = new byte[4][];
        for (int i = 0; i < parts.length; i++) {
            Builder b = new Builder((byte) (i / 2), i % 2 == 0 ? CompressionType.NONE : CompressionType.GZIP, Long.MAX_VALUE - 9 + 2 * i, TimestampType.CREATE_TIME);
            for (int n = 0; n < 2; n++) b.inner.append(Long.MAX_VALUE - n, utf8("k"), utf8("v" + n));
            parts[i] = b.build();
        }
        return join(parts);
    }

    static class Builder {
        final MemoryRecordsBuilder inner;

        Builder(byte magic, CompressionType codec, long offset, TimestampType type) {
            inner = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), magic, codec, type, offset,
                type == TimestampType.LOG_APPEND_TIME ? APPENDED : -1, -1, (short) -1, -1, false, false, -1, 1 << 20);
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
        int count = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                out.append(record.offset()).append(' ').append(record.timestamp())
                    .append(batch.timestampType() == TimestampType.LOG_APPEND_TIME ? " append " : " create ")
                    .append(hex(record.key())).append(' ').append(hex(record.value())).append('\n');
                count++;
            }
        }
        return count <= 100 ? out.toString() : hex(ByteBuffer.wrap(utf8(out.toString()))) + '\n';
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
