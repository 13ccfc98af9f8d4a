package outside;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.types.Password;

/**
 * The listener of a test in Scala with TLS, as settings that our broker reads: with stores of the
 * old format JKS as PKCS12.
 */
public final class SecuredListener {
    private SecuredListener() { }

    /** Return a value of a test as text. */
    public static String text(Object value) {
        if (value instanceof List) {
            return ((List<?>) value).stream().map(String::valueOf).collect(Collectors.joining(","));
        }
        return value instanceof Password ? ((Password) value).value() : String.valueOf(value);
    }

    /** Give brokers the listener of a test, if it has TLS without logins. */
    public static void translate(Map<String, ?> given, OutsideBrokers brokers) {
        // The last one: tests with TLS have one of plaintext before it, which nobody uses.
        String name = "";
        for (String each : text(given.get("listeners")).split(",")) {
            if (!each.startsWith("CONTROLLER:")) {
                name = each.split("://")[0];
            }
        }
        String protocol = name;
        Object names = given.get("listener.security.protocol.map");
        for (String each : names == null ? new String[0] : text(names).split(",")) {
            if (each.startsWith(name + ":")) {
                protocol = each.split(":")[1];
            }
        }
        if (!protocol.equals("SSL")) {
            return;
        }
        brokers.listen(name, protocol);
        brokers.client.put("security.protocol", protocol);
        for (String store : new String[] {"ssl.keystore.", "ssl.truststore."}) {
            for (String part : new String[] {"location", "type", "password"}) {
                if (given.containsKey(store + part)) {
                    brokers.client.put(store + part, text(given.get(store + part)));
                }
            }
            convert(brokers.settings, store, brokers.directory);
        }
        brokers.client.put("ssl.endpoint.identification.algorithm", "");
        if (given.containsKey("ssl.key.password")) {
            brokers.client.put("ssl.key.password", text(given.get("ssl.key.password")));
        }
    }

    /** Replace a store of the old format by one that our broker reads. */
    private static void convert(Map<String, String> settings, String prefix, Path directory) {
        String location = settings.get(prefix + "location");
        if (location == null || !"JKS".equals(settings.get(prefix + "type"))) {
            return;
        }
        char[] password = settings.get(prefix + "password").toCharArray();
        String own = settings.get("ssl.key.password");
        try {
            KeyStore old = KeyStore.getInstance("JKS");
            try (InputStream file = Files.newInputStream(Path.of(location))) {
                old.load(file, password);
            }
            KeyStore made = KeyStore.getInstance("PKCS12");
            made.load(null, null);
            for (String alias : Collections.list(old.aliases())) {
                if (old.isKeyEntry(alias)) {
                    Key key = old.getKey(alias, own == null ? password : own.toCharArray());
                    made.setKeyEntry(alias, key, password, old.getCertificateChain(alias));
                } else {
                    made.setCertificateEntry(alias, old.getCertificate(alias));
                }
            }
            Path path = directory.resolve(prefix + "p12");
            try (OutputStream file = Files.newOutputStream(path)) {
                made.store(file, password);
            }
            settings.put(prefix + "location", path.toString());
            settings.put(prefix + "type", "PKCS12");
            settings.remove("ssl.key.password");
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
