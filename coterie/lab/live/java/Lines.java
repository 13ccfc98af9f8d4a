import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Collection;
import java.util.stream.Collectors;

/** The lines of one participant of a live run; lines.py describes them. */
final class Lines {
    private final OutputStream file;

    Lines(String directory, String name) throws IOException {
        file = new FileOutputStream(Path.of(directory, name + ".jsonl").toFile(), true);
    }

    /** Write a line; "more" is the rest of its JSON object, with a comma in front. */
    synchronized void write(String event, String more) {
        Instant now = Instant.now();
        long micros = now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
        String line = "{\"at\":" + micros + ",\"event\":\"" + event + "\"" + more + "}\n";
        try {
            file.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    void taken(Collection<String> partitions) {
        write("taken", ",\"partitions\":[" + String.join(",", partitions) + "]");
    }

    void delivered(String topic, int partition, long offset) {
        write("delivered", ",\"batches\":[[\"" + topic + "\"," + partition + "," + offset + "," + offset + "]]");
    }

    void produced(Collection<String> ends) {
        write("produced", ",\"ends\":[" + String.join(",", ends) + "]");
    }

    /** A partition in a line. */
    static String partition(String topic, int number) {
        return "[\"" + topic + "\"," + number + "]";
    }

    /** The end of a partition in a line. */
    static String end(String topic, int number, long end) {
        return "[\"" + topic + "\"," + number + "," + end + "]";
    }

    /** The text of an error as a field. */
    static String error(Throwable error) {
        String text = String.valueOf(error.getMessage());
        String plain = text.chars().filter(each -> each >= ' ' && each < 127 && each != '"' && each != '\\')
            .mapToObj(each -> String.valueOf((char) each)).collect(Collectors.joining());
        return ",\"error\":\"" + error.getClass().getSimpleName() + ": " + plain + "\"";
    }
}
