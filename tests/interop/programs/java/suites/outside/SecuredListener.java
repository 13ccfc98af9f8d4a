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
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * The listeners of a test in Scala with TLS or logins, as settings that our broker reads: with stores
 * of the old format JKS as PKCS12.
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

    /**
     * Give brokers the listeners of a test, if one has TLS or logins.
     *
     * @param given the settings of the test
     * @param records what the cluster of the test begins with
     */
    public static void translate(
            Map<String, ?> given, List<ApiMessageAndVersion> records, OutsideBrokers brokers) {
        Map<String, String> named = new HashMap<>();
        Object names = given.get("listener.security.protocol.map");
        for (String each : names == null ? new String[0] : text(names).split(",")) {
            named.put(each.split(":")[0], each.split(":")[1]);
        }
        Map<String, String> protocols = new LinkedHashMap<>();
        String name = "";
        for (String each : text(given.get("listeners")).split(",")) {
            if (!each.startsWith("CONTROLLER:")) {
                // Clients use the last one.
                name = each.split("://")[0];
                protocols.put(name, named.getOrDefault(name, name));
            }
        }
        String protocol = protocols.get(name);
        if (protocol.equals("PLAINTEXT")) {
            return;
        }
        brokers.listen(name, protocols);
        brokers.client.put("security.protocol", protocol);
        if (protocol.startsWith("SASL")) {
            ProcessLogins.translate(name, records, brokers);
        }
        if (!protocol.endsWith("SSL")) {
            return;
        }
        // Their client has the stores of a broker, which may be files or texts.
        given.forEach((setting, value) -> {
            if (value != null && setting.matches("ssl\\.((key|trust)store\\..*|key\\.password)")) {
                brokers.client.put(setting, text(value));
            }
        });
        convert(brokers.settings, "ssl.keystore.", brokers.directory);
        convert(brokers.settings, "ssl.truststore.", brokers.directory);
        brokers.client.put("ssl.endpoint.identification.algorithm", "");
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
