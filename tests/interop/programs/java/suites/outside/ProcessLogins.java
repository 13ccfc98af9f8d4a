package outside;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.scram.ScramLoginModule;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.opentest4j.TestAbortedException;

/**
 * The logins of a test whose brokers take them from the Java process (java.security.auth.login.config),
 * as settings of a listener, which our broker reads.
 */
final class ProcessLogins {
    private static final Map<String, String> MODULES = Map.of(
        "PLAIN", PlainLoginModule.class.getName(),
        "SCRAM-SHA-256", ScramLoginModule.class.getName(),
        "SCRAM-SHA-512", ScramLoginModule.class.getName(),
        "OAUTHBEARER", OAuthBearerLoginModule.class.getName());

    private ProcessLogins() { }

    /** Give brokers the logins of a listener, and their client that of a broker. */
    static void translate(
            String listener, List<ApiMessageAndVersion> records, OutsideBrokers brokers) {
        Map<String, String> settings = brokers.settings;
        String own = settings.get("sasl.mechanism.inter.broker.protocol");
        for (String mechanism : settings.get("sasl.enabled.mechanisms").split(",")) {
            String module = MODULES.get(mechanism);
            if (module == null) {
                throw new TestAbortedException("needs Kerberos");
            }
            AppConfigurationEntry entry = entry(listener, module);
            if (entry == null) {
                continue;
            }
            String prefix = "listener.name." + listener.toLowerCase() + "." + mechanism.toLowerCase();
            settings.putIfAbsent(prefix + ".sasl.jaas.config", text(entry));
            if (mechanism.equals(own)) {
                brokers.client.put("sasl.mechanism", mechanism);
                brokers.client.put("sasl.jaas.config", text(entry));
            }
            if (module.equals(ScramLoginModule.class.getName())) {
                addUser(mechanism, entry, records, brokers);
            }
        }
    }

    /** Return what the process has for a module, for the listener or for all. */
    private static AppConfigurationEntry entry(String listener, String module) {
        Configuration process = Configuration.getConfiguration();
        for (String context : new String[] {listener.toLowerCase() + ".KafkaServer", "KafkaServer"}) {
            AppConfigurationEntry[] entries = process.getAppConfigurationEntry(context);
            for (AppConfigurationEntry each : entries == null ? new AppConfigurationEntry[0] : entries) {
                if (each.getLoginModuleName().equals(module)) {
                    return each;
                }
            }
        }
        return null;
    }

    private static String text(AppConfigurationEntry entry) {
        return entry.getLoginModuleName() + " required " + entry.getOptions().entrySet().stream()
            .map(each -> each.getKey() + "=\"" + each.getValue() + "\"")
            .collect(Collectors.joining(" ")) + ";";
    }

    /** Let the brokers begin with the user of an entry, if the cluster of the test does. */
    private static void addUser(
            String mechanism,
            AppConfigurationEntry entry,
            List<ApiMessageAndVersion> records,
            OutsideBrokers brokers) {
        Object name = entry.getOptions().get("username");
        if (records.stream().map(ApiMessageAndVersion::message).anyMatch(each ->
                each instanceof UserScramCredentialRecord
                    && ((UserScramCredentialRecord) each).name().equals(name))) {
            brokers.scram.add(String.format("%s=[name=%s,password=%s]",
                mechanism, name, entry.getOptions().get("password")));
        }
    }
}
