import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Holds the Java client against a broker: RoundTrip SCENARIO BOOTSTRAP RECORDS. With `java -cp .. RoundTrip.java` it
 * needs no build. Each record is as tests/clients/content.py says.
 *
 * Scenarios: `roundtrip` and, with acks=1 and without a producer id, `plain`. Both write with every codec to 8
 * partitions and read back by assignment. Exits with 0 when every check passed.
 */
public final class RoundTrip {
    private static final int PARTITIONS = 8;
    private static final Duration WAIT = Duration.ofSeconds(60);
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final String bootstrap;
    private final String topic = "java-" + UUID.randomUUID();
    private final int share;
    private final long firstTimestampMs = System.currentTimeMillis() - 3_600_000;

    private RoundTrip(String bootstrap, int total) {
        this.bootstrap = bootstrap;
        this.share = total / PARTITIONS / CODECS.size();
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3 || !List.of("roundtrip", "plain").contains(arguments[0])) {
            System.err.println("usage: RoundTrip roundtrip|plain BOOTSTRAP RECORDS");
            System.exit(2);
        }
        RoundTrip test = new RoundTrip(arguments[1], Integer.parseInt(arguments[2]));
        test.create();
        Map<String, Object> settings = new HashMap<>(Map.of("linger.ms", 5));
        if (arguments[0].equals("plain")) {
            settings.putAll(Map.of("acks", "1", "enable.idempotence", false));
        }
        for (int turn = 0; turn < CODECS.size(); turn++) {
            test.produce(turn, settings);
        }
        test.readAll();
        System.out.println("passed: " + arguments[0]);
    }

    private void create() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        }
    }

    private void produce(int turn, Map<String, Object> more) throws Exception {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", CODECS.get(turn));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (int sequence = turn * share; sequence < (turn + 1) * share; sequence++) {
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    sent.add(producer.send(record(partition, sequence)));
                }
            }
            producer.flush();
            for (int at = 0; at < sent.size(); at++) {
                long due = (long) turn * share + at / PARTITIONS;
                long offset = sent.get(at).get().offset();
                if (offset != due) {
                    throw new AssertionError("offset " + offset + " came where " + due + " was due");
                }
            }
        }
    }

    private ProducerRecord<byte[], byte[]> record(int partition, int sequence) {
        byte[] key = sequence % 50 == 49 ? null : text("%d-%08d".formatted(partition, sequence));
        byte[] value = sequence % 100 == 98 ? null : value(partition, sequence);
        long timestamp = firstTimestampMs + sequence;
        return new ProducerRecord<>(topic, partition, timestamp, key, value, headers(partition, sequence));
    }

    private static byte[] pad(int partition, int sequence) {
        byte[] pad = new byte[(int) ((sequence * 7919L + partition * 104_729L) % 200)];
        for (int at = 0; at < pad.length; at++) {
            pad[at] = (byte) (sequence * 31 % 256 + at);
        }
        return pad;
    }

    private static long crc(byte[] bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes);
        return crc.getValue();
    }

    private static byte[] value(int partition, int sequence) {
        byte[] pad = pad(partition, sequence);
        byte[] digits = text("%08x".formatted(crc(pad)));
        return ByteBuffer.allocate(pad.length + digits.length).put(pad).put(digits).array();
    }

    private static List<Header> headers(int partition, int sequence) {
        byte[] crc = ByteBuffer.allocate(4).putInt((int) crc(pad(partition, sequence))).array();
        return List.of(
                new RecordHeader("partition", text(Integer.toString(partition))),
                new RecordHeader("crc", crc),
                new RecordHeader("empty", new byte[0]),
                new RecordHeader("null", (byte[]) null));
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void readAll() {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "none", "fetch.max.wait.ms", 100);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        List<TopicPartition> assigned = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            assigned.add(new TopicPartition(topic, partition));
        }
        long due = (long) share * CODECS.size();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            int[] read = new int[PARTITIONS];
            long deadline = System.nanoTime() + WAIT.toNanos();
            while (Arrays.stream(read).anyMatch(count -> count < due)) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError("not read to the end in " + WAIT + ": " + Arrays.toString(read));
                }
                for (ConsumerRecord<byte[], byte[]> got : consumer.poll(Duration.ofMillis(200))) {
                    check(got, read[got.partition()]++);
                }
            }
            consumer.endOffsets(assigned).forEach((partition, end) -> {
                if (end != due) {
                    throw new AssertionError(partition + " ends at " + end + " instead of " + due);
                }
            });
        }
    }

    private void check(ConsumerRecord<byte[], byte[]> got, int sequence) {
        ProducerRecord<byte[], byte[]> right = record(got.partition(), sequence);
        boolean same = got.offset() == sequence
                && got.timestamp() == right.timestamp()
                && Arrays.equals(got.key(), right.key())
                && Arrays.equals(got.value(), right.value())
                && Arrays.equals(got.headers().toArray(), right.headers().toArray());
        if (!same) {
            throw new AssertionError("wrong: " + got + "\nright: " + right);
        }
    }
}
