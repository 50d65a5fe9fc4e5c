import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * A restricted cluster: topics that begin with "locked." or "frozen." may not have what mirrors need,
 * and a link named "hidden" may have no topics of its own.
 */
public class Refusing {
    public static class Create implements CreateTopicPolicy {
        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}

        @Override
        public void validate(RequestMetadata request) {
            String key = "message.timestamp.before.max.ms";
            if (request.topic().startsWith("locked.") && request.configs().containsKey(key))
                throw new PolicyViolationException(key + " is the administrators' own");
            if (request.topic().startsWith("heliostat.hidden."))
                throw new PolicyViolationException("topics of programs are made by ticket");
        }
    }

    public static class Alter implements AlterConfigPolicy {
        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}

        @Override
        public void validate(RequestMetadata request) {
            if (request.resource().name().startsWith("frozen."))
                throw new PolicyViolationException("settings are changed by ticket");
        }
    }
}
