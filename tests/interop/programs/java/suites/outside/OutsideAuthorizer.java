package outside;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/** The rules of a broker in another process, where Kafka's tests have the authorizer of their own. */
public final class OutsideAuthorizer implements Authorizer {
    private static volatile OutsideAuthorizer last;
    private final OutsideBrokers brokers;

    OutsideAuthorizer(OutsideBrokers brokers) {
        this.brokers = brokers;
        last = this;
    }

    /** Return the rules of the last broker outside if there is one, and else those of another authorizer. */
    public static Authorizer insteadOf(Authorizer other) {
        return last == null ? other : last;
    }

    /** Return whether rules are those of a controller that has no broker. */
    public static boolean isIdle(Authorizer rules) {
        return last != null && !(rules instanceof OutsideAuthorizer);
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
            AuthorizableRequestContext context, List<AclBinding> bindings) {
        ask(admin -> admin.createAcls(bindings).all().get());
        return bindings.stream()
            .map(each -> CompletableFuture.completedFuture(AclCreateResult.SUCCESS))
            .collect(Collectors.toList());
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
            AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        List<CompletionStage<AclDeleteResult>> results = new ArrayList<>();
        for (AclBindingFilter filter : filters) {
            Collection<AclBinding> gone = ask(admin -> admin.deleteAcls(List.of(filter)).all().get());
            results.add(CompletableFuture.completedFuture(new AclDeleteResult(gone.stream()
                .map(AclDeleteResult.AclBindingDeleteResult::new)
                .collect(Collectors.toList()))));
        }
        return results;
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return ask(admin -> admin.describeAcls(filter).values().get());
    }

    private <T> T ask(StandIn.Question<T> question) {
        try (Admin admin = Admin.create(brokers.administrator())) {
            return question.of(admin);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
        return Map.of();
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        throw new UnsupportedOperationException("the test looks inside the broker: its decisions");
    }

    @Override
    public void configure(Map<String, ?> settings) {
        // The broker is configured.
    }

    @Override
    public void close() {
        // The broker goes on.
    }
}
