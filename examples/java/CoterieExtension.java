package example;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A broker of Coterie for the tests of a class: {@code @RegisterExtension static final CoterieExtension coterie = ...}. */
public final class CoterieExtension implements BeforeAllCallback, AfterAllCallback {
    private final HttpClient http = HttpClient.newHttpClient();
    private Process process;
    private String announced;

    @Override
    public void beforeAll(ExtensionContext context) throws IOException {
        process = new ProcessBuilder("coterie", "serve", "--port=0", "--data-dir=:memory:", "--log-level=error",
                "--control=0", "--control-file=-", "--stop-with-input", "--config=group.initial.rebalance.delay.ms=0")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        var lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
        do {
            announced = lines.readLine();
            if (announced == null) throw new IOException("coterie has not started");
        } while (!announced.startsWith("{"));
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        process.getOutputStream().close();   // the end of its input stops the broker
        if (process.waitFor() != 0) throw new IllegalStateException("coterie has failed");
    }

    public String bootstrapServers() { return field("bootstrap_servers"); }

    /** Calls an operation; returns its answer as JSON. */
    public String call(String method, String path, String body) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(field("control_url") + path))
                .header("Authorization", "Bearer " + field("token")).header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        var response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) throw new AssertionError(response.body());
        return response.body();
    }

    private String field(String name) {   // the values have no escapes
        var found = Pattern.compile('"' + name + "\": \"([^\"]*)\"").matcher(announced);
        if (!found.find()) throw new IllegalStateException(announced);
        return found.group(1);
    }
}
