// Reads recorded frames with Kafka's own code, holds what that code writes of them against what was recorded, and
// prints what it read. Single-file program; LIBS is the libs directory of an Apache Kafka 4.4.0 (or any directory with
// its kafka-clients, jackson and slf4j-api jars):
//
//   java -cp 'LIBS/*' Frames.java FILE...
//
// For each request and each reply a line with its content as JSON, in the order of the files.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

public class Frames {
    public static void main(String[] args) throws Exception {
        for (String arg : args) {
            for (String line : Files.readAllLines(Path.of(arg))) {
                String[] parts = line.split(" ");
                short version = Short.parseShort(parts[0]);
                String name = Path.of(arg).getFileName() + " v" + version + " " + parts[1];
                byte[] request = HexFormat.of().parseHex(parts[2]);
                ApiMessageType api = ApiMessageType.fromApiKey(ByteBuffer.wrap(request).getShort());
                if (ApiKeys.forId(api.apiKey()).isVersionSupported(version)) readRequest(name, api, version, request);
                if (parts[3].equals("-")) continue;
                byte[] reply = HexFormat.of().parseHex(parts[3]);
                readReply(name, api, isRefused(api, reply) ? 0 : version, reply);
            }
        }
    }

    /** What a broker speaks is asked in a version that it does not speak: it says so in version 0 (KIP-511). */
    static boolean isRefused(ApiMessageType api, byte[] reply) {
        return api == ApiMessageType.API_VERSIONS && ByteBuffer.wrap(reply).getShort(4) == 35;
    }

    static void readRequest(String name, ApiMessageType api, short version, byte[] frame) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        short headerVersion = api.requestHeaderVersion(version);
        RequestHeaderData header = new RequestHeaderData(new ByteBufferAccessor(bytes), headerVersion);
        ApiMessage message = api.newRequest();
        message.read(new ByteBufferAccessor(bytes), version);
        compare(name + " request", bytes, frame, written(header, headerVersion), written(message, version));
        System.out.println(json(message, version));
    }

    static void readReply(String name, ApiMessageType api, short version, byte[] frame) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        short headerVersion = api.responseHeaderVersion(version);
        ResponseHeaderData header = new ResponseHeaderData(new ByteBufferAccessor(bytes), headerVersion);
        ApiMessage message = api.newResponse();
        message.read(new ByteBufferAccessor(bytes), version);
        compare(name + " reply", bytes, frame, written(header, headerVersion), written(message, version));
        System.out.println(json(message, version));
    }

    static byte[] written(ApiMessage message, short version) {
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return copy;
    }

    static void compare(String name, ByteBuffer rest, byte[] frame, byte[] header, byte[] message) {
        byte[] written = Arrays.copyOf(header, header.length + message.length);
        System.arraycopy(message, 0, written, header.length, message.length);
        if (rest.hasRemaining() || !Arrays.equals(frame, written)) {
            HexFormat hex = HexFormat.of();
            System.err.println(name + ": Kafka leaves " + rest.remaining() + " bytes over, and writes\n  "
                + hex.formatHex(written) + "\ninstead of\n  " + hex.formatHex(frame));
            System.exit(1);
        }
    }

    /** Kafka has a converter beside each message. */
    static JsonNode json(ApiMessage message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class).invoke(null, message, version);
    }
}
