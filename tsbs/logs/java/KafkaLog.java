import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A topic; each appender is a producer of its own, and stays with one partition. */
final class KafkaLog implements Log {
    private static final int MIB = 1 << 20;

    private final Load.Options options;
    private final String topic = "load-" + System.nanoTime();
    private final List<TopicPartition> partitions;
    private int appenders = 0;

    KafkaLog(Load.Options options) throws Exception {
        this.options = options;
        this.partitions = java.util.stream.IntStream.range(0, options.number("parts", 1))
            .mapToObj(number -> new TopicPartition(topic, number)).toList();
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions.size(), (short) 1))).all().get();
        }
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", options.text("server")));
    }

    @Override
    public synchronized Appender appender() {
        int partition = partitions.get(appenders++ % partitions.size()).partition();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(Map.of(
            "bootstrap.servers", options.text("server"), "acks", "all", "batch.size", MIB / 4,
            "linger.ms", options.number("linger-ms", 0), "max.request.size", 4 * MIB, "buffer.memory", 64 * MIB),
            new ByteArraySerializer(), new ByteArraySerializer());
        return new Appender() {
            @Override
            public void append(byte[] record, Consumer<Throwable> done) {
                producer.send(new ProducerRecord<>(topic, partition, null, record), (stored, error) -> done.accept(error));
            }

            @Override
            public void close() {
                producer.close();
            }
        };
    }

    @Override
    public void follow(Runnable ready, Consumer<ByteBuffer> each, BooleanSupplier ended) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of(
                "bootstrap.servers", options.text("server"), "max.poll.records", 10_000, "max.partition.fetch.bytes", 8 * MIB,
                "auto.offset.reset", "earliest"), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            partitions.forEach(consumer::position);
            ready.run();
            while (!ended.getAsBoolean()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    each.accept(ByteBuffer.wrap(record.value()));
                }
            }
        }
    }

    @Override
    public void close() throws Exception {
        try (Admin admin = admin()) {
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }
}
