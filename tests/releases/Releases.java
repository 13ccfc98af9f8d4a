import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;

/**
 * Prints the APIs of Kafka releases: release, key, name, listeners, first and last stable version.
 *
 * Arguments: RELEASE=JAR, where JAR is the kafka-clients library of the release.
 * The property slf4j is the path of slf4j-api, which these libraries need.
 */
public class Releases {
    public static void main(String[] args) throws Exception {
        URL logging = new File(System.getProperty("slf4j")).toURI().toURL();
        for (String arg : args) {
            String[] parts = arg.split("=", 2);
            URL[] urls = {new File(parts[1]).toURI().toURL(), logging};
            try (URLClassLoader loader =
                    new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
                print(parts[0], loader);
            }
        }
    }

    static void print(String release, ClassLoader loader) throws Exception {
        Class<?> keys = loader.loadClass("org.apache.kafka.common.protocol.ApiKeys");
        for (Object key : keys.getEnumConstants()) {
            int id = ((Number) keys.getField("id").get(key)).intValue();
            String name = (String) keys.getField("name").get(key);
            System.out.println(String.join("\t",
                release, "" + id, name, listeners(key, keys), range(key, keys, id, loader)));
        }
    }

    /** Since 2.8 an API names its listeners. In 2.7 some are disabled. Before, all are served. */
    static String listeners(Object key, Class<?> keys) throws Exception {
        try {
            Object type = keys.getField("messageType").get(key);
            return type.getClass().getMethod("listeners").invoke(type).toString();
        } catch (ReflectiveOperationException before28) {
            try {
                return (Boolean) keys.getField("isEnabled").get(key) ? "[ZK_BROKER]" : "[]";
            } catch (NoSuchFieldException before27) {
                return "[ZK_BROKER]";
            }
        }
    }

    static String range(Object key, Class<?> keys, int id, ClassLoader loader) throws Exception {
        Method stable = method(keys, "latestVersion", boolean.class);
        Method latest = method(keys, "latestVersion");
        Method oldest = method(keys, "oldestVersion");
        if (oldest != null && latest != null) {
            Object last = stable == null ? latest.invoke(key) : stable.invoke(key, false);
            return oldest.invoke(key) + "\t" + last;
        }
        Class<?> protocol = loader.loadClass("org.apache.kafka.common.protocol.Protocol");
        short first = versions(protocol, "MIN_VERSIONS")[id];
        return first + "\t" + versions(protocol, "CURR_VERSION")[id];
    }

    static Method method(Class<?> of, String name, Class<?>... types) {
        try {
            return of.getMethod(name, types);
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    static short[] versions(Class<?> protocol, String name) throws Exception {
        Field field = protocol.getDeclaredField(name);
        field.setAccessible(true);
        return (short[]) field.get(null);
    }
}
